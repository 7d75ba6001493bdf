"""One set of names: actions, properties, constants and variables of the spec are those of the model, and the traces and the
proof speak of no others."""

import ast
import inspect
import re

from cli.conform import fair_actions
from model import sequenced_metadata_boundary as model
from model.proofs import sequenced_metadata_boundary as proof
from specs.manifest import FOLDER, rows
from traces import sequenced_metadata_boundary as traces

SPEC = (FOLDER / "SequencedMetadataBoundary.fizz").read_text()
ACTIONS = {"Writer": model.WRITER, "Collector": model.COLLECTOR, "Reader": model.READER, "": model.STORE}


def test_actions():
    role, found = "", {name: set() for name in ACTIONS}
    for line in SPEC.splitlines():
        if match := re.match(r"role (\w+):", line):
            role = match[1]
        elif match := re.match(r"(\s*)atomic (?:fair )?action (\w+):", line):
            found[role if match[1] else ""].add(match[2])
    assert found == {name: set(actions) for name, actions in ACTIONS.items()}


def test_properties_and_what_they_say():
    for operators, properties in (("always", model.ALWAYS), ("always eventually", model.EVENTUALLY)):
        said = dict(re.findall(rf"(?:^# (.*)\n)^{operators} assertion (\w+):", SPEC, re.M))
        assert {name: text for text, name in said.items()} == {
            name: " ".join(inspect.getdoc(holds).split()) for name, (_, holds) in properties.items()}
    assert len(re.findall(r"^[a-z ]*assertion ", SPEC, re.M)) == len(model.ALWAYS) + len(model.EVENTUALLY)


def test_properties_are_functions_in_snake_case():
    for properties in (model.ALWAYS, model.SOMETIMES, model.EVENTUALLY):
        for name, (role, holds) in properties.items():
            assert holds.__name__ == re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()
            assert role in (None, *ACTIONS)


def test_who_is_fair():
    assert fair_actions(SPEC) == model.FAIR
    assert {role: set(actions) - model.FAIR[role] for role, actions in ACTIONS.items() if role} == {
        "Writer": {"SendCreate", "LoseReply", "Crash"}, "Collector": {"SendAdvance", "SendDelete", "LoseReply", "Crash"},
        "Reader": {"LoseReply", "Crash"}}


def test_every_eventually_is_run_and_can_fail():
    runs = {(row.eventually, row.expect) for row in rows() if row.how == "live"}
    assert {name for name, _ in runs} == set(model.EVENTUALLY)
    assert {name for name, expect in runs if expect == "FAILED"} == set(model.EVENTUALLY)
    assert {name for name, expect in runs if expect == "PASSED"} == {"UpdatesEnd", "ReadsEnd"}


def test_constants_and_their_values():
    assigned = dict(re.findall(r"^([A-Z_]+) = ([^#\n]+?)\s*(?:#.*)?$", SPEC, re.M))
    assigned.pop("NO_FILE")
    assert {name: ast.literal_eval(value) for name, value in assigned.items()} == model.Constants()._asdict()


def test_variables():
    globals_ = set(re.findall(r"^  (\w+) = ", SPEC.partition("\naction Init:")[2].partition("\n#")[0], re.M))
    assert globals_ - {"clients"} == set(model.Shared._fields)
    for role, local in {"Writer": model.Writer, "Collector": model.Collector, "Reader": model.Reader}.items():
        body = SPEC.partition(f"role {role}:")[2].partition("atomic ")[0]
        assert re.findall(r"self\.(\w+) = ", body) == list(local._fields)


def test_functions_are_the_actions_in_snake_case():
    for role, actions in ACTIONS.items():
        for action, function in actions.items():
            snake = re.sub(r"(?<!^)([A-Z])", r"_\1", action).lower()
            assert function.__name__ in (snake, f"{role.lower()}_{snake}")


def test_traces_and_proof_speak_of_the_same_actions():
    known = {action for actions in ACTIONS.values() for action in actions}
    named = set(re.findall(r'"([A-Z][a-z]+(?:[A-Z][a-z]+)*)"', inspect.getsource(traces)))
    assert named >= known - {"Precheck", "PrecheckReject"}  # what no sound implementation does
    strange = {word for word in named - known if f'"{word}"' not in inspect.getsource(model)}
    assert not strange  # roles, states of clients and kinds of requests are the model's own words, too
    assert {role: set(actions) for role, actions in proof.ACTIONS.items()} == {
        role: set(actions) for role, actions in ACTIONS.items()}


def test_every_always_has_a_witness():
    assert len(model.SOMETIMES) >= len(model.ALWAYS)
    assert all(holds.__doc__ for _, holds in model.ALWAYS.values())

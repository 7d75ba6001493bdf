"""Each protocol has one set of names: spec and model share actions, properties, constants and variables.

Its traces and its proof, if there are any, use no other names."""

import inspect
import re
import tomllib
from functools import cache
from importlib import import_module
from importlib.util import find_spec

import pytest

from highwater.conformance.conform import fair_actions
from highwater.impl.index import machine
from highwater.impl.raft import faults, messages, state
from highwater.model.guards import sections
from highwater.specs.fizzbee.reader import read
from highwater.specs.runs import Row, rows

SPECS = {row.stem: row.path for row in rows()}
HOLDS_NOWHERE = {"StaleFilesAreCollected"}
NO_SOUND_IMPLEMENTATION_DOES = {"Precheck", "PrecheckReject", "Begin", "Skip", "ListAgain", "FindSource", "Look",
                                "DeleteTombstone"}
NO_SOUND_NODE_DOES = {"Wait", "ApplyRows", "ApplyIndex", "DiscardSnapshot", "LateWrite"}  # it ends after a write that failed
# In a trace of an index: a lease's end is seen when it is taken, and a command is when it has an effect. No answer is of a
# node that lags behind.
UNSEEN = {"Show", "Expire", "Die", "DieOfJob", "LoseAnswer", "TruncateRefused", "Apply"}
OTHER_ROLES = {"Compactor", "Operator", "Worker", "Writer"}  # clients of scenarios that have no state in the model
# What nodes send, are given, and replicate.
OF_A_NODE = {*OTHER_ROLES, *vars(faults), *vars(messages), *vars(state), *vars(machine)}
NO_SOUND_STORE_DOES = {"StaleGet", "StaleList", "ApplyHalf"}

pytestmark = pytest.mark.parametrize("stem", SPECS)


def model_of(stem):
    return import_module(f"highwater.model.protocols.{stem}")


@cache
def spec_of(stem):
    return read(SPECS[stem].read_text())


def rows_of(stem) -> list[Row]:
    return [row for row in rows() if row.stem == stem]


def processes_of(stem):
    """One of each role that the spec has, and the top level."""
    model = model_of(stem)
    counts = {f"{role.name.upper()}S": 1 for role in spec_of(stem).roles}  # of clones: a writer for each database
    constants = model.Constants(**{name: number for name, number in counts.items() if name in model.Constants._fields})
    return {process.role: process for process in model.model(constants).processes}


def actions_of(stem):
    return {role: process.actions for role, process in processes_of(stem).items()}


def snake(name):
    return re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()


def test_actions(stem):
    found = {name: set() for name in actions_of(stem)}
    for action in spec_of(stem).actions:
        if action.name != "Init":
            assert action.atomic
            found[action.role].add(action.name)
    assert found == {name: set(actions) for name, actions in actions_of(stem).items()}


def test_the_claim_is_the_same(stem):
    assert spec_of(stem).claim.split() == model_of(stem).__doc__.partition("\n\n")[0].split()


def test_properties_and_what_they_say(stem):
    model, spec = model_of(stem), spec_of(stem)
    held, in_the_end = model.ALWAYS, getattr(model, "EVENTUALLY", {})
    for operators, properties in (("always", held), ("always eventually", in_the_end)):
        said = {found.name: "".join(found.doc[-1:]) for found in spec.assertions if " ".join(found.modifiers) == operators}
        assert said == {name: " ".join(inspect.getdoc(holds).split()) for name, (_, holds) in properties.items()}
    assert len(spec.assertions) == len(held) + len(in_the_end)


def test_properties_are_functions_in_snake_case(stem):
    model = model_of(stem)
    for properties in (model.ALWAYS, model.SOMETIMES, getattr(model, "EVENTUALLY", {})):
        for name, (role, holds) in properties.items():
            assert holds.__name__ == snake(name)
            assert role in (None, *actions_of(stem))


def test_who_is_fair(stem):
    """In a protocol with `eventually` properties, a role's fair actions are all that are not faults."""
    model, fair = model_of(stem), fair_actions(spec_of(stem).text)
    told = {role: of for role, of in getattr(model, "FAIR", {}).items() if of}  # a writer of clones has no fair action
    assert fair == told and bool(fair) == hasattr(model, "EVENTUALLY")
    for role, actions in actions_of(stem).items():
        if role and fair:
            assert set(actions) - fair.get(role, set()) == set(actions) & model.FAULTS


def test_every_eventually_is_run_and_can_fail(stem):
    names = set(getattr(model_of(stem), "EVENTUALLY", {}))
    runs = {(row.eventually, row.expect) for row in rows_of(stem) if row.how == "live"}
    assert {name for name, expect in runs if expect == "FAILED"} == names
    assert {name for name, expect in runs if expect == "PASSED"} == names - HOLDS_NOWHERE


def test_constants_and_their_values(stem):
    model, spec = model_of(stem), spec_of(stem)
    values = spec.values
    computed = {constant.name for constant in spec.constants} - values.keys()
    assert not computed & set(model.Constants._fields)
    assert values == model.Constants()._asdict()
    assert getattr(model, "LIMITS", {}).keys() <= values.keys()


def test_every_safeguard_is_a_run_that_fails(stem):
    safeguards = {name for name, section in sections(model_of(stem).Constants).items() if "afeguard" in section}
    assert safeguards and {name for row in rows_of(stem) if row.expect == "FAILED" for name in row.constants} >= safeguards


def test_variables(stem):
    spec, processes = spec_of(stem), processes_of(stem)
    assert set(spec.action("", "Init").assigned) - {"clients"} == set(model_of(stem).Shared._fields)
    for role, process in processes.items():
        if role:
            fields = {f"self.{field}" for field in process.local._fields}
            begun = spec.action(role, "Init")
            assert set(begun.assigned if begun else ()) == fields


def test_functions_are_the_actions_in_snake_case(stem):
    for actions in actions_of(stem).values():
        for action, function in actions.items():
            assert f"_{function.__name__}".endswith(f"_{snake(action)}")  # who does it may stand before


GOES_ON_FROM = {"raft_membership": ("protocols.raft",)}  # mapping -> the mappings of which it has most


def test_traces_and_proof_speak_of_the_same_actions(stem):
    actions = actions_of(stem)
    if find_spec(f"highwater.traces.protocols.{stem}"):
        known = {action for of in actions.values() for action in of}
        of = (f"protocols.{stem}", "trace", *GOES_ON_FROM.get(stem, ()))
        texts = [inspect.getsource(import_module(f"highwater.traces.{one}")) for one in of]
        own, *others = (set(re.findall(r'"([A-Z][a-z]+(?:[A-Z][a-z]+)*)"', text)) for text in texts)
        common = set().union(*others)
        assert own | common >= known - NO_SOUND_IMPLEMENTATION_DOES - NO_SOUND_STORE_DOES - NO_SOUND_NODE_DOES - UNSEEN
        strange = {word for word in own - known if f'"{word}"' not in inspect.getsource(model_of(stem))} - OF_A_NODE
        strange -= common if stem in GOES_ON_FROM else set()
        assert not strange  # roles, states of clients and kinds of requests are the model's own words, too
    if find_spec(f"highwater.model.proofs.{stem}"):
        proved = import_module(f"highwater.model.proofs.{stem}").ACTIONS
        assert {role: set(of) for role, of in proved.items()} == {role: set(of) for role, of in actions.items()}


def test_every_always_has_a_witness(stem):
    model = model_of(stem)
    assert len(model.SOMETIMES) >= len(model.ALWAYS)
    assert all(holds.__doc__ for _, holds in model.ALWAYS.values())


def test_silence_is_said_of_actions_that_there_are(stem):
    known = {f"{role}.{action}".lstrip(".") for role, actions in actions_of(stem).items() for action in actions}
    entries = tomllib.loads(SPECS[stem].with_suffix(".toml").read_text())["silent"]
    assert {action for entry in entries for action in entry["actions"]} <= known
    assert {action for row in rows_of(stem) for action in row.silent} <= known
    assert all(name in model_of(stem).Constants._fields for entry in entries for name in entry["where"])

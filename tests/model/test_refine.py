"""Models refine abstract models: every step is one of the abstract model, or leaves the mapped state as it is.

A wrong mapping, a stronger abstract guard and a missing abstract action each fail. So does each safeguard that is switched off.
"""

from importlib import import_module
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

from bench.pages.protocol import safeguards_of
from bench.pages.refinements import refinements
from highwater import project
from highwater.cli.main import app
from highwater.gate.refinements import breaking, explored, first_failure, mapped_onto, names_of
from highwater.model.abstract import one_object
from highwater.model.beside import beside
from highwater.model.core import Model, State, init, moves
from highwater.model.explore import plain, tabulated, wide
from highwater.model.explore.walk import walk
from highwater.model.refine import Failure, Mapped, Refinement, Unmapped, refining
from tests.support.projects import REGISTER, forget

STEMS = project.ours("refinement")
NEAREST = 10_000  # states of an abstract model
ABSTRACT = sorted(path.stem for path in (project.PACKAGE / "model/abstract").glob("[a-z]*.py"))


def module(name: str) -> Any:
    return import_module(f"highwater.model.abstract.{name}")


def parts(stem: str) -> tuple[Any, Any]:
    return project.load("model", stem), project.load("refinement", stem)


def mapped(stem: str, refinement: Refinement | None = None, **constants: Any) -> Mapped:
    protocol, mapping = parts(stem)
    c = protocol.Constants(**constants)
    return Mapped(protocol.model(c), refinement or mapping.refinement(c))


def all_mapped(stem: str, **constants: Any) -> list[Mapped]:
    """The mapping of an instance; for a composition, that onto each of its parts."""
    protocol, mapping = parts(stem)
    return mapped_onto(mapping, protocol.model(protocol.Constants(**constants)), names_of(mapping))


def failed(*of: Mapped) -> Failure | None:
    found = tabulated.explore(refining(*of))
    return first_failure(list(of), found)[1] if found.violated else None


def cases(name: str) -> list[Any]:
    return [pytest.param(stem, one, id=f"{stem}, {', '.join(f'{k}={v}' for k, v in one.items()) or 'default'}")
            for stem in STEMS for one in getattr(parts(stem)[1], name)]


BREAKING = [pytest.param(stem, off, onto, id=f"{stem} onto {onto}, {', '.join(f'{k}={v}' for k, v in off.items())}")
            for stem in STEMS for off, onto in breaking(stem)]


@pytest.mark.parametrize("stem, constants, onto", BREAKING)
def test_with_a_safeguard_off_it_does_not(stem, constants, onto):
    mapped, found = explored(stem, constants, (onto,))
    assert found.violated
    _, wrong = first_failure(mapped, found)
    assert wrong.why and wrong.mapped != wrong.mapped_after


@pytest.mark.parametrize("stem", STEMS)
def test_it_refines_and_each_named_step_is_taken(stem):
    """A mapping that names an abstract action for nothing says more than is checked."""
    taken, named = set(), set()
    for constants in parts(stem)[1].INSTANCES:
        those = all_mapped(stem, **constants)
        assert failed(*those) is None and all(of.taken for of in those), constants
        for of in those:
            onto = of.refinement.onto.name
            taken |= {(onto, action) for _, action in of.taken}
            named |= {(onto, name) for actions in of.refinement.steps.values() for names in actions.values() for name in names}
    assert named - taken == UNTAKEN.get(stem, set()) and taken <= named


# actions of a part that a composition names, and that no instance takes: they need more clients, or (ListAgain) no safeguard
UNTAKEN: dict[str, set[tuple[str, str]]] = {"database_metadata": {
    *(("manifest (sequenced_metadata_boundary)", action) for action in ("CheckpointsMissing", "CheckpointsReject")),
    *(("wal (wal_fencing)", action) for action in ("ListAgain", "ReadGone", "ReadOther", "RereadFenced"))}}


FORMS = {"CHAINED", "BOUNDARY", "PINS", "WRITER_CHECKPOINTS"}  # constants that are no safeguards; PINS where files have pins


@pytest.mark.parametrize("stem, constants", cases("INSTANCES"))
def test_the_abstract_model_has_its_safeguards(stem, constants):
    """Without one it explains more, and keeps less."""
    each = [of.refinement.onto.constants for of in all_mapped(stem, **constants)]
    for c in [c for onto in each for c in (onto if hasattr(onto[0], "_fields") else (onto,))]:
        assert {name for name, value in c._field_defaults.items() if value is True and not getattr(c, name)} <= FORMS


# actions that no instance takes: Begin is for endless updates, which no mapping covers; after the others a client knows no more
UNSEEN = {
    "database_metadata": {"Collector.CheckpointsMissing", "Collector.CheckpointsReject", "Compactor.Believe",
                          "Compactor.CompactionsBelieve", "Compactor.CompactionsDoubt", "Compactor.CompactionsLanded",
                          "Compactor.Doubt", "Compactor.RecogniseReject", "Operator.RecogniseReject", "Writer.ReadGone",
                          "Writer.ReadOther"},
    "log_gc": {"Appender.PrecheckReject"},
    "manifest_epochs": {"Collector.Begin", "Collector.Crash", "Collector.ReadFenced", "Compactor.Begin", "Compactor.Crash",
                        "Compactor.ReadFenced", "Writer.Begin"},
    "manifest_migration": {"Writer.ReadUnreadable"},
    "sequenced_metadata_boundary": {"Collector.CheckpointsMissing", "Collector.CheckpointsReject", "Reader.Crash",
                                    "Reader.ListPage", "Reader.LoseReply", "Writer.PrecheckReject"},
    "sequenced_write": {"Writer.Begin"},
}


@pytest.mark.parametrize("stem", STEMS)
def test_each_action_is_taken_in_some_instance(stem):
    """A mapping is not checked for an action that no instance takes, such as a request that its client does not wait for."""
    fired, there = set(), set()
    for constants in (*parts(stem)[1].INSTANCES, *parts(stem)[1].OFF):
        model = all_mapped(stem, **constants)[0].model
        fired |= tabulated.explore(model, max_states=30_000).fired
        there |= {(one.role, action) for one in model.processes for action in one.actions}
    assert {f"{role}.{action}" for role, action in there - fired} == UNSEEN.get(stem, set())


def test_each_safeguard_breaks_the_refinement_or_a_property():
    shown = set()
    for line in refinements().splitlines()[2:]:
        stem, _, settings, _ = line.strip("| ").split(" | ")
        shown |= {(stem, setting.partition(" = ")[0]) for setting in settings.strip("`").split(", ")}
    assert {(stem, name) for stem in STEMS for name in safeguards_of(parts(stem)[0])} <= shown


# --- what must fail

def conditional(**changes: Any) -> Mapped:
    protocol, mapping = parts("simple_conditional")
    return mapped("simple_conditional", mapping.refinement(protocol.Constants())._replace(**changes))


def with_actions(**actions: Any) -> Model:
    """The abstract model, in which clients have these actions in place of theirs; None: not that one."""
    model = parts("simple_conditional")[1].refinement(parts("simple_conditional")[0].Constants()).onto
    changed = {name: of for name, of in {**one_object.CLIENT, **actions}.items() if of}
    return model._replace(processes=tuple(one._replace(actions=changed) if one.name else one for one in model.processes))


def test_a_wrong_mapping():
    def knows_nothing(c: Any, me: int, w: Any) -> one_object.Client:
        return one_object.Client()

    locals_ = conditional().refinement.locals
    found = failed(conditional(locals={**locals_, "Writer": knows_nothing}))
    assert found and found.action == "PutOk" and "w.known" in found.why[0]


def test_a_stronger_abstract_guard():
    def put(c: Any, me: int, s: Any, w: Any) -> Any:
        if not s.content:
            yield from one_object.put(c, me, s, w)

    found = failed(conditional(onto=with_actions(Put=put)))
    assert found and found.action == "PutOk" and "not s.content" in found.why[0] and "s.content is ((" in found.why[0]


def test_a_missing_abstract_action():
    with pytest.raises(Unmapped, match="names Put for PutOk, and one_object has no such action of Client"):
        conditional(onto=with_actions(Put=None))
    steps = conditional().refinement.steps
    less = {**steps, "Writer": {name: to for name, to in steps["Writer"].items() if name != "PutOk"}}
    found = failed(conditional(steps=less))
    assert found and found.why == ("the mapping names no abstract action for PutOk, and the mapped state changes",)


@pytest.mark.parametrize("changes, told", [
    ({"shared": lambda c, s: None}, "to None, which is no Shared"),
    ({"locals": {"Writer": lambda c, me, w: w}}, "which is no Client"),
    ({"locals": {"Writer": lambda c, me, w: one_object.Client(frozenset({()}))}}, "the initial state is not mapped to"),
    ({"steps": {"Writer": {"Jump": ("Put",)}}}, "names Writer.Jump, and simple_conditional has no such action"),
    ({"onto": one_object.model(one_object.Constants(1))}, "has 2 clients to map, and one_object has 1"),
])
def test_a_mapping_that_does_not_fit(changes, told):
    with pytest.raises(Unmapped, match=told):
        conditional(**changes)


# --- the engines, and the abstract models

@pytest.mark.parametrize("constants", [{}, {"CONDITIONAL": False}, {"REREAD": False}], ids=str)
def test_the_engines_agree(constants):
    found = [engine.explore(refining(mapped("simple_conditional", **constants))) for engine in (plain, tabulated, wide)]
    assert len({(one.violated, len(one.trace)) for one in found}) == 1 and bool(found[0].violated) == bool(constants)


def test_a_model_refines_itself():
    """A project may bring any abstract model, and any mapping."""
    protocol = project.load("model", "sequenced_write")
    model = protocol.model(protocol.Constants(READERS=1, COMMITS=1, MAX_LOST=1))
    steps = {one.role: {action: (action,) for action in one.actions} for one in model.processes}
    same = {one.role: lambda c, me, w: w for one in model.processes if one.name}
    of = Mapped(model, Refinement(model, lambda c, s: s, same, steps))
    assert failed(of) is None and {("Writer", "CreateNext"), ("Writer", "LoseReply"), ("Reader", "List")} <= of.taken


def test_models_beside_each_other_keep_their_properties():
    """Each is checked with the other, and the name says of which model it is."""
    class Two(NamedTuple):
        one: Any
        other: Any

    def two(**constants: Any) -> Model:
        return beside(Two, one_object.model(one_object.Constants()), one_object.model(one_object.Constants(**constants)))

    assert not tabulated.explore(two(), max_states=NEAREST).violated
    found = tabulated.explore(two(CONDITIONAL=False), max_states=NEAREST)
    assert found.violated == "other.ContentIsSerial" and {name.partition(".")[0] for _, name in found.fired} == {"one", "other"}
    with pytest.raises(ValueError, match="the same clients, not Client#1, the store"):
        two(CLIENTS=1)


def test_a_step_of_two_models_says_which_guard_is_false_in_which():
    found = failed(mapped("manifest_compactions", EPOCH_CHECK=False))
    assert found and found.action == "CreateNext"
    assert found.why[0].startswith("manifest.Create needs ") and "has_epoch(c, me, w, base)" in found.why[0]


def test_random_walks_find_it_too():
    assert not walk(refining(mapped("simple_conditional")), walks=100, steps=50).violated
    assert walk(refining(mapped("simple_conditional", CONDITIONAL=False)), walks=100, steps=50).violated


@pytest.mark.parametrize("name", ABSTRACT)
def test_an_abstract_model_keeps_its_properties(name):
    """In the nearest states. Each action is possible in one of the instances."""
    of, idle = module(name), []
    for constants in of.INSTANCES:
        model = of.model(of.Constants(**constants))
        found = tabulated.explore(model, max_states=NEAREST)
        assert not found.violated
        idle.append(set(found.idle(model)))
    assert not set.intersection(*idle)


@pytest.mark.parametrize("name, constants, violated", [
    pytest.param(name, *one, id=f"{name}, {', '.join(one[0])}") for name in ABSTRACT for one in module(name).OFF])
def test_an_abstract_model_without_a_safeguard_fails(name, constants, violated):
    assert tabulated.explore(module(name).model(module(name).Constants(**constants))).violated == violated


@pytest.mark.parametrize("name", ABSTRACT)
def test_what_a_client_may_forget_it_may_forget_step_by_step(name):
    """`forgets` holds for exactly the pairs that Forget leads between."""
    of = module(name)
    model = of.model(of.Constants(**of.INSTANCES[0]))
    known = reached_locals(model)
    for before in known:
        less, waiting = {before}, [before]
        for local in waiting:
            for _, _, after in of.CLIENT["Forget"](model.constants, 0, model.shared, local):
                if after not in less:
                    less.add(after)
                    waiting.append(after)
        assert {after for after in known if of.forgets(before, after)} == known & less


def reached_locals(model: Model) -> set[Any]:
    """Return local parts of clients in the first states."""
    seen: list[State] = [init(model)]
    for state in seen:
        if len(seen) > 300:
            break
        seen += [step.state for step in moves(model, state)]
    return {local for state in seen for local, process in zip(state.locals, model.processes) if process.name}


# --- the verb

def said(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["model", "refine", *words])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, " ".join(result.output.split())


def test_the_verb_says_what_holds():
    code, text = said("simple_conditional", "--onto", "one_object", "--set", "UPDATES=1")
    assert code == 0 and "every step is a step of one_object" in text and "Client.Put" in text
    code, text = said("simple_conditional", "--walks", "20", "--steps", "9")
    assert code == 0 and "every step taken is" in text
    code, text = said("simple_conditional", "--max-states", "20")
    assert code == 3 and "NOT complete" in text


def test_the_verb_shows_the_step_that_fails():
    code, text = said("simple_conditional", "--set", "CONDITIONAL=False")
    assert code == 11 and "Writer#0.PutOk is no step of one_object after: Writer#0.Read, Writer#1.Read, Writer#1.PutOk" in text
    assert "content: ((1, 0)) → ((0, 0))" in text and "s.content is ((1, 0)), base is ()" in text


@pytest.mark.parametrize("words, told", [
    (("baseline",), "baseline refines no abstract model: "),
    (("simple_conditional", "--onto", "baseline"), "no mapping of simple_conditional onto baseline: it refines one_object"),
    (("simple_conditional", "--onto", "one_object", "--onto", "x"), "a protocol refines one model"),
    (("simple_conditional", "--set", "CONTENT=flag"), "covers CONTENT=log only; it is flag"),
    (("simple_conditional", "--walks", "1", "--max-states", "1"), "--max-states is for a search"),
    (("nothing",), "there is no model 'nosuch'"),
])
def test_bad_input_gets_a_line(words, told):
    code, text = said(*words)
    assert code == 2 and text.startswith("error: ") and told.replace("nosuch", "nothing") in text


def test_a_project_without_abstraction_gets_a_line():
    try:
        code, text = said("register", "--project", str(REGISTER))
    finally:
        forget()
    assert code == 2 and "register refines no abstract model" in text and "refinement.py would hold the mapping" in text


@pytest.mark.parametrize("changes, told", [
    ({"shared": lambda c, s: None}, "which is no Shared"),
    ({"ONTO": ("a", "b")}, "write one name, a protocol refines one model"),
    ({"refinement": lambda c: None}, "not a highwater.model.refine.Refinement"),
])
def test_a_wrong_module_gets_a_line(monkeypatch, changes, told):
    for name, value in changes.items():
        monkeypatch.setattr(parts("simple_conditional")[1], name, value)
    code, text = said("simple_conditional")
    assert code == 2 and text.startswith("error: ") and told in text


def test_a_mapping_that_says_nothing_fails(monkeypatch):
    mapping = parts("simple_conditional")[1]
    monkeypatch.setattr(mapping, "shared", lambda c, s: one_object.Shared((), (), (), frozenset()))
    monkeypatch.setattr(mapping, "writer", lambda c, me, w: one_object.Client())
    code, text = said("simple_conditional")
    assert code == 11 and "the mapping says nothing of one_object" in text

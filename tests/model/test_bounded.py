"""The bounded engine finds the explorer's violations at the same depth, and no others; its paths are the model's."""

import itertools
import operator
from unittest import mock

import pytest
import typer
import z3
from typer.testing import CliRunner

from highwater.cli.model.prove import prove_command
from highwater.gate.exits import PROOF, SAFETY
from highwater.model import core
from highwater.model.explore import tabulated
from highwater.model.proofs import sequenced_metadata_boundary as proofs
from highwater.model.proofs.engine import bounded as engine
from highwater.model.proofs.engine import instances
from highwater.model.proofs.engine.finite import Finite
from highwater.model.proofs.engine.logic import And, Cases, If, Not, applied, at, cases
from highwater.model.proofs.engine.unrolled import TooLarge, Unrolled
from highwater.model.protocols import sequenced_metadata_boundary as m
from highwater.specs.runs import rows

ROWS = {row.id: row for row in rows() if row.stem == "sequenced_metadata_boundary" and row.how != "live"}
DEEP = 12  # steps, where nothing is to be found
WHOLE = {"two_collectors": 18}  # the depth of the graph: paths of so many steps lead to every state


def first_broken(model: core.Model, depth: int) -> dict[str, int]:
    """Property -> the first level of the graph, up to `depth`, with a state that breaks it: the model's actions and no more."""
    level = {core.State(model.shared, tuple(process.local for process in model.processes))}
    seen, found = set(level), {}
    for t in range(depth + 1):
        for state in level:
            found = {**dict.fromkeys(core.broken(model, state), t), **found}
        level = {step.state for state in level for step in core.moves(model, state)} - seen
        seen |= level
    return found


def depths(result: engine.Bounded) -> dict[str, int]:
    assert {found.verdict for found in result.found} <= {"none", "fails"}
    return {found.property: found.depth for found in result.found if found.verdict == "fails"}


def is_a_path_of(model: core.Model, found: engine.Found) -> None:
    first, *steps = found.steps
    assert first == core.Step(("", "Init", ()), core.State(
        model.shared, tuple(process.local for process in model.processes if process.role)))
    state = first.state
    for step in steps:
        whole = core.State(state.shared, (*state.locals, ()))  # the store has no state of its own
        assert (step.label, step.state) in [(label, core.State(after.shared, after.locals[:-1]))
                                            for label, after in core.moves(model, whole)]
        state = step.state
    assert found.property in core.broken(model, core.State(state.shared, (*state.locals, ())))


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_it_finds_what_the_explorer_finds(row):
    c = m.Constants(**row.constants)
    model = m.model(c)
    explored = tabulated.explore(model)
    assert (explored.violated or "") == row.violates
    depth = len(explored.trace) - 1 if row.violates else WHOLE.get(row.id, DEEP)
    assert row.violates or row.id not in WHOLE or depth == explored.depth
    result = instances.bounded(proofs, c, depth)
    assert result.reached
    if row.violates:
        assert row.violates in [found.property for found in result.shortest]
        assert {found.depth for found in result.shortest} == {depth}
        for found in result.shortest:
            is_a_path_of(model, found)
    if not row.violates or row.states < 600:
        assert depths(result) == first_broken(model, depth)
    assert result.holds is not bool(row.violates)


# --- what is left out of the question loses no answer

@pytest.mark.parametrize("row, depth", [("status_quo", 11), ("boundary_moves_backward", 13), ("fault_pending", 8)])
def test_reductions_lose_no_counterexample(row, depth):
    """Above, they were made; here they are not."""
    c = m.Constants(**ROWS[row].constants)
    assert depths(instances.bounded(proofs, c, depth, reduced=False)) == first_broken(m.model(c), depth)


def only_in_order(unrolled: Unrolled):
    """Wrong: as if any two steps commuted."""
    before = False
    for n, process in enumerate(unrolled.finite.processes):
        own = [chosen for chosen, move in zip(unrolled.chosen, unrolled.moves) if (move.role, move.me) == process]
        yield Not(And(before, z3.Or(own)))
        before = unrolled.remember(f"{n} is over", lambda was, own=own: z3.Or(was, *own))


def test_a_wrong_reduction_is_noticed(monkeypatch):
    c = m.Constants(**ROWS["status_quo"].constants)
    monkeypatch.setattr(Unrolled, "swaps_left_out", only_in_order)
    assert depths(instances.bounded(proofs, c, 11)) != first_broken(m.model(c), 11) != {}


def test_what_tells_clients_apart_is_looked_at():
    def looks(c: m.Constants) -> list[tuple]:
        unrolled = Unrolled(proofs.system(c), c, proofs.scope(c))
        return [unrolled.looks(process) for process in unrolled.finite.processes]
    assert len(set(looks(m.Constants(WRITERS=3, COLLECTORS=2)))) == len({"store", "writers", "collectors"})
    assert len(set(looks(m.Constants(WRITERS=3, COLLECTORS=2, OLD_WRITERS=1)))) == 4


# --- what it rests on, broken

def unconditional(c, s, g, d: proofs.Id):
    yield from proofs.advance(c._replace(CONDITIONAL_ADVANCE=False), s, g, d)


def test_an_edited_guard(monkeypatch):
    """The model is as it was, so what is found is found in the relation alone: by an engine that knows no other."""
    monkeypatch.setitem(proofs.ACTIONS["Collector"], "Advance", unconditional)
    c = m.Constants(COLLECTORS=2, WRITERS=1)
    assert tabulated.explore(m.model(c)).violated is None
    assert depths(instances.bounded(proofs, c, 13)) == {"BoundaryIsMonotone": 13}


def test_a_missing_action():
    c = m.Constants(KEEP_LATEST=False, COMMITS=1)
    with mock.patch.dict(proofs.ACTIONS["Collector"]):
        del proofs.ACTIONS["Collector"]["Advance"]
        assert depths(instances.bounded(proofs, c, 8)) == {} != first_broken(m.model(c), 8)


def test_a_value_out_of_the_scope_is_not_passed_over_in_silence(monkeypatch):
    c = m.Constants()
    narrow = {**proofs.scope(c), proofs.Id: [0, 1, 2]}
    monkeypatch.setattr(proofs, "scope", lambda c: narrow)
    with pytest.raises(ValueError, match="after 5 steps a value may leave the scope"):
        instances.bounded(proofs, c, 8)


def test_a_path_that_plain_python_does_not_take_is_no_counterexample(monkeypatch):
    monkeypatch.setattr(engine.Plain, "after", lambda *_: iter(()))
    result = instances.bounded(proofs, m.Constants(KEEP_LATEST=False, COMMITS=1), 6)
    assert [found.verdict for found in result.found if found.property == "BoundaryIsBelowLatest"] == ["disagrees"]
    assert not result.holds and result.shortest == ()


def test_paths_may_end():
    c = m.Constants(WRITERS=1, COLLECTORS=0, MAX_ID=1)
    assert instances.bounded(proofs, c, 2).reached
    assert not instances.bounded(proofs, c, 3).reached  # listed, read; then there is no id left


def test_no_answer_is_not_none_found():
    result = instances.bounded(proofs, m.Constants(FRESH_BOUNDARY=False, MAX_ID=4), 22, timeout_ms=100)
    assert {found.verdict for found in result.found} == {"timeout"} and not result.holds
    assert len({found.depth for found in result.found}) == 1 and result.found[0].depth < 22


def test_what_is_too_large_is_refused():
    with pytest.raises(TooLarge, match="3,342 cells"):
        instances.bounded(proofs, m.Constants(MAX_ID=50), 1)


# --- values under conditions

BITS = [z3.Bool(f"p{n}") for n in range(4)]


def folded(x, bits: tuple[bool, ...]):
    """Evaluate a value that depends on conditions, given the truth of each bit."""
    def true(when) -> bool:
        return when is True or z3.is_true(z3.simplify(z3.substitute(when, *zip(BITS, map(z3.BoolVal, bits)))))
    if isinstance(x, bool | z3.BoolRef):
        return true(x) if isinstance(x, z3.BoolRef) else x
    values = [value for value, when in cases(x) if true(when)]
    assert len(values) == 1
    return values[0]


def number(p, q) -> Cases:
    return If(p, If(q, Cases({2: True}), 1), Cases({0: True}))


@pytest.mark.parametrize("bits", [*itertools.product((False, True), repeat=4)], ids=str)
def test_they_are_what_python_says_once_the_conditions_are_known(bits):
    c = m.Constants()
    finite = Finite(proofs.system(c), c, proofs.scope(c))
    x, y = number(*BITS[:2]), number(*BITS[2:])
    a, b = folded(x, bits), folded(y, bits)
    for f in (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge, operator.add):
        assert folded(applied(f, x, y), bits) == f(a, b)
        if f is not operator.add:
            assert folded(f(x, y), bits) == f(a, b)
            assert folded(f(1, y), bits) == f(1, b) and folded(f(x, 1), bits) == f(a, 1)
    assert folded(x + 1, bits) == a + 1
    chosen = [i for i in range(4) if bits[i]]
    assert folded(finite.greatest(proofs.Id, lambda i: BITS[i]), bits) == max(chosen, default=0)
    assert folded(finite.count(proofs.Id, lambda i: BITS[i]), bits) == len(chosen)
    assert folded(finite.looked_up({(i,): BITS[i] for i in range(4)}, bool)(x), bits) == bits[a]
    word = If(BITS[0], Cases({"Idle": True}), "Listed")
    assert folded(at(word, "Listed", "Ready"), bits) is not bits[0]


def test_python_does_not_decide_what_conditions_do():
    with pytest.raises(TypeError, match="write And, Or, Not, If"):
        bool(number(*BITS[:2]))
    with pytest.raises(TypeError, match="a number of Z3's"):
        number(*BITS[:2]) + z3.Int("x")


# --- the command

def ran(*arguments: str):
    app = typer.Typer()
    app.command()(prove_command)
    return CliRunner().invoke(app, arguments)


def test_the_command():
    result = ran("--bounded", "6", "--set", "COMMITS=1")
    assert result.exit_code == 0 and result.output.count("on paths of up to 6 steps") == len(m.ALWAYS)
    result = ran("--bounded", "5", "--set", "BOUNDARY_FIRST=False", "--set", "COMMITS=1")
    assert result.exit_code == SAFETY and "Traceback" not in result.output
    assert "DeletedIsBehindBoundary: a shortest counterexample, of 5 steps" in result.output
    assert result.output.endswith("""\
  0 Init
  1 Writer#0.List()
      Writer#0.pc  Idle  → Listed
      Writer#0.n   0  → 1
  2 Writer#0.ReadLatest()
      Writer#0.pc  Listed  → Ready
  3 Writer#0.CreateNext((Keep, ()))
      files        ({updates {}, checkpoints {}})  → ({updates {}, checkpoints {}}, {updates {(0, 0)}, checkpoints {}})
      high         1  → 2
      Writer#0.pc  Ready  → Created
  4 Collector#0.List()
      Collector#0.pc       Idle  → Listed
      Collector#0.listed   {}  → {1, 2}
      Collector#0.marked   False  → True
      Collector#0.checked  False  → True
  5 Collector#0.Delete(1)
      files               ({updates {}, checkpoints {}}, {updates {(0, 0)}, checkpoints {}})
                        → (None, {updates {(0, 0)}, checkpoints {}})
      Collector#0.listed  {1, 2}  → {2}
""")


def test_the_command_fails_if_time_is_up():
    result = ran("--bounded", "22", "--set", "FRESH_BOUNDARY=False", "--set", "MAX_ID=4", "--timeout", "0.1")
    assert result.exit_code == PROOF and result.output.count("timeout") == len(m.ALWAYS)

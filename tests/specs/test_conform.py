"""Spec and model have equal graphs and verdicts; a difference is noticed and reported with its cause."""

import re
from pathlib import Path

import pytest

from highwater.conformance.conform import choice_variables, conform, driven_around, fair_actions, model_of, unlike_silence
from highwater.conformance.covering import covering
from highwater.model.core import init, moves, witnessed
from highwater.model.explore.auto import explore as explored
from highwater.model.explore.tabulated import explore
from highwater.model.liveness import eventually
from highwater.model.protocols import sequenced_metadata_boundary as protocol
from highwater.specs.fizzbee.check import Fizz
from highwater.specs.fizzbee.errors import FizzMissing
from highwater.specs.runs import Row, rows

ROWS = {row.id: row for row in rows()}
SPEC = ROWS["plain"].path
NAME = "SequencedMetadataBoundary"
# Smaller than a run of the spec needs to be, so that FizzBee is quick with each edit below
TINY = Row("tiny", NAME, "graph", "PASSED", 15, {"COMMITS": 1, "WRITERS": 1},
           never=("TwoCommits", "AckedFileIsCollected", "StaleCreateLands", "RefusalIsIndefinite", "HistoryGrows"))
TINY_FAILED = Row("tiny_failed", NAME, "graph", "FAILED", 30, {"COMMITS": 1, "WRITERS": 1, "KEEP_LATEST": False},
                  violates="BoundaryIsBelowLatest", silent=("Writer.ReadMissing",))
TINY_LIVE = Row("tiny_live", NAME, "live", "PASSED", 15, {"COMMITS": 1, "WRITERS": 1}, eventually="UpdatesEnd")


@pytest.fixture(scope="module")
def fizz():
    try:
        return Fizz.find()
    except FizzMissing as error:
        pytest.skip(f"FizzBee is missing, spec and model are NOT compared: {error}")


@pytest.mark.parametrize("row", [TINY, TINY_FAILED, TINY_LIVE, *(ROWS[name] for name in (
    "fault_pages", "status_quo", "cached_boundary", "reads_not_checked", "updates_end", "stale_files_stay", "reads_hang"))],
    ids=lambda row: row.id)
def test_row_is_as_its_table_expects(row, fizz):
    result = conform(row, fizz)
    assert result.ok, result.message


# --- the model edited

def edited(row, action, role, change):
    """The row's model with one action of one role in other words, or without it."""
    model, processes = model_of(row), []
    for p in model.processes:
        actions = {**p.actions, action: change and change(p.actions[action])} if p.role == role else p.actions
        processes.append(p._replace(actions={name: function for name, function in actions.items() if function}))
    return model._replace(processes=tuple(processes))


def unequal(row, fizz, model, figure, *said) -> str:
    result = conform(row, fizz, model)
    assert (result.ok, result.kind, result.figure) == (False, "spec", figure)
    for text in said:
        assert text in result.message
    return result.message


def test_a_guard_edited_in_the_model(fizz):
    def later(delete):
        """Deletes only what is truly behind the boundary."""
        return lambda c, me, s, g: (move for move in delete(c, me, s, g) if move[0][0] < g.b)

    line = SPEC.read_text().splitlines().index("  atomic fair action Delete:") + 1
    message = unequal(
        TINY, fizz, edited(TINY, "Delete", "Collector", later), "graphs differ", "after 6 steps: Writer#0.List,",
        "Collector#0.Advance(1)\nthe state, the same in spec and model:\n",
            "  Collector#0: b = 1, checked = True, listed = (1, 2), marked = True, pc = 'Known'",
        "only FizzBee can take Collector#0.Delete(1), which changes\n", "  files[1].updates: () → absent\n",
        "  Collector#0.listed: (1, 2) → (2)\n", f"Delete of Collector in the spec, specs/{NAME}.fizz:{line}\n",
        "  |   i = oneof may_delete(self.pc, self.listed, self.checked, self.b)", "  uses may_delete :",
        "Delete of Collector in the model, tests/specs/test_conform.py:", "if move[0][0] < g.b")
    assert message.count("only ") == 1 and len(message.splitlines()) < 30


def test_an_effect_edited_in_the_model(fizz):
    def forgetful(read):
        return lambda c, me, s, w: ((choices, s2, w2._replace(pc="Listed")) for choices, s2, w2 in read(c, me, s, w))

    unequal(TINY, fizz, edited(TINY, "ReadLatest", "Writer", forgetful), "graphs differ", "after 1 steps: Writer#0.List\n",
            "both take Writer#0.ReadLatest, but reach different states:\n  Writer#0.pc: model 'Listed', FizzBee 'Ready'\n",
            '  |   require self.pc == "Listed" and self.n in files')


def test_an_action_missing_in_the_model(fizz):
    unequal(TINY, fizz, edited(TINY, "ReadBoundary", "Collector", None), "graphs differ",
            "only FizzBee can take Collector#0.ReadBoundary", "  Collector#0.pc: 'Listed' → 'Known'",
            "the model has no ReadBoundary of Collector")


def test_an_action_without_end_is_only_followed_to_the_first_difference(fizz):
    def endless(listed):
        return lambda c, me, s, w: ((choices, s2._replace(high=s2.high + 1), w) for choices, s2, _ in listed(c, me, s, w))

    unequal(TINY, fizz, edited(TINY, "List", "Writer", endless), "graphs differ", "  high: model 2, FizzBee 1")
    unequal(TINY_LIVE, fizz, edited(TINY, "List", "Writer", endless), "",
            f"the model has more than 1,030 states (the count stopped there), FizzBee 15, {NAME}.toml expects 15")


def test_a_constant_that_the_model_has_otherwise(fizz):
    unequal(TINY, fizz, model_of(TINY, MAX_ID=4), "", f"MAX_ID is 3 in the spec, specs/{NAME}.fizz:", "and 4 in the model")
    result = conform(TINY._replace(constants={"WRITER": 1}), fizz)
    assert not result.ok and "has no constant WRITER" in result.message


def test_an_invariant_edited_in_the_model(fizz):
    """Too strong: it fails where FizzBee's does not. Too weak: it holds, or something else fails, where FizzBee's fails."""
    def never_two(c, s):
        return s.high < 2

    def anything(c, s):
        return True

    model = model_of(TINY)
    unequal(TINY, fizz, model._replace(always={**model.always, "LatestIsKept": (None, never_two)}), "verdicts differ",
            "the model: LatestIsKept fails after 3 steps: Writer#0.List, Writer#0.ReadLatest, "
            "Writer#0.CreateNext(('Keep', ()))\n",
            "FizzBee: PASSED", f"LatestIsKept in the spec, specs/{NAME}.fizz:", "  |   return top(files) == high",
            "LatestIsKept in the model, tests/specs/test_conform.py:", "s.high < 2")
    model = model_of(TINY_FAILED)
    unequal(TINY_FAILED, fizz, model._replace(always={"BoundaryIsBelowLatest": (None, anything)}), "verdicts differ",
            "the model: PASSED", "FizzBee: BoundaryIsBelowLatest fails after ")
    unequal(TINY_FAILED, fizz, model._replace(always={**model.always, "BoundaryIsBelowLatest": (None, anything)}),
            "verdicts differ", "the model: LatestIsKept fails after ", "FizzBee: BoundaryIsBelowLatest fails after ")


def test_fairness_or_a_goal_edited_in_the_model(fizz):
    model = model_of(TINY_LIVE)
    unequal(TINY_LIVE, fizz, model._replace(fair=model.fair | {"Writer": model.fair["Writer"] - {"Accept"}}), "",
            "fair in only one of spec and model: Writer.Accept")
    unequal(TINY_LIVE, fizz, model._replace(eventually={"UpdatesEnd": (None, lambda c, s: s.boundary > 0)}), "verdicts differ",
            "the model: UpdatesEnd fails: after Writer#0.List, Writer#0.ReadLatest, Writer#0.CreateNext(('Keep', ()))",
            "forever", "FizzBee: PASSED", "  | always eventually assertion UpdatesEnd:")
    unequal(TINY_LIVE, fizz, model._replace(eventually={}), "", "tiny_live names 'UpdatesEnd', and the model has none")


# --- the spec edited

class Edited(Row):
    """A row of another spec."""

    path = Path()


def without_action(text: str, name: str) -> str:
    return re.sub(rf"  atomic fair action {name}:\n(?:    .*\n)+", "", text)


SPEC_EDITS = {
    "guard": (TINY, lambda t: t.replace("if ready and (i <= b or", "if ready and (i < b or"), "graphs differ", [
        "only the model can take Collector#0.Delete(1)", "  Collector#0.listed: (1, 2) → (2)", "Edited.fizz:",
        "  uses may_delete :"]),
    "effect": (TINY, lambda t: t.replace("    peak = max(peak, d)", "    peak = d + 1"), "graphs differ", [
        "both take Collector#0.Advance(1), but reach different states:\n  peak: model 1, FizzBee 2\n", "  |   peak = d + 1",
        "Advance of Collector in the model, model/protocols/sequenced_metadata_boundary.py:", "  | def advance("]),
    "missing action": (TINY, lambda t: without_action(t, "ReadBoundary"), "graphs differ", [
        "only the model can take Collector#0.ReadBoundary", "the spec has no ReadBoundary of Collector"]),
    "renamed action": (TINY, lambda t: t.replace("action Accept:", "action Agree:"), "graphs differ", [
        "only the model can take Writer#0.Accept", "only FizzBee can take Writer#0.Agree", "the spec has no Accept of Writer",
        "the model has no Agree of Writer"]),
    "renamed variable": (TINY, lambda t: re.sub(r"\bcrashes\b", "failures", t), "graphs differ", [
        "the initial states differ:", "  crashes: model 0, FizzBee absent", "  failures: model absent, FizzBee 0"]),
    "renamed field": (TINY, lambda t: re.sub(r"\bself\.late\b", "self.tardy", t), "graphs differ", [
        "  Writer#0.late: model False, FizzBee absent", "  Writer#0.tardy: model absent, FizzBee False"]),
    "wrong constant": (TINY, lambda t: t.replace("MAX_ID = 3", "MAX_ID = 4"), "", [
        "MAX_ID is 4 in the spec, ", "and 3 in the model"]),
    "renamed constant": (TINY, lambda t: re.sub(r"\bCOLLECTORS\b", "GCS", t), "", [
        "the spec has no constant COLLECTORS", "the model has no constant GCS"]),
    "invariant too strong": (TINY, lambda t: t.replace("return boundary < top(files)", "return boundary < 1"),
                             "verdicts differ", [
        "the model: PASSED", "FizzBee: BoundaryIsBelowLatest fails after 6 steps: Writer#0.List, ",
        "Collector#0.Advance Any:d=1", "  |   return boundary < 1", "  |     return s.boundary < top(s.files)"]),
    "invariant too weak": (TINY_FAILED, lambda t: t.replace("return boundary < top(files)", "return True"), "verdicts differ", [
        "the model: BoundaryIsBelowLatest fails after ", "FizzBee: LatestIsKept fails after "]),
    "fairness": (TINY_LIVE, lambda t: t.replace("atomic fair action Accept", "atomic action Accept"), "", [
        "fair in only one of spec and model: Writer.Accept"]),
    "goal": (TINY_LIVE, lambda t: t.replace("all([c.k == COMMITS ", "all([c.k > COMMITS "), "verdicts differ", [
        "the model: PASSED", "FizzBee: UpdatesEnd fails after ", "  |   return all([c.k > COMMITS ",
        "  |     return not below("]),
    "no such property": (TINY_LIVE, lambda t: t.replace("assertion UpdatesEnd", "assertion UpdatesStop"), "", [
        "no assertion UpdatesEnd"]),
    "syntax": (TINY, lambda t: t.replace("atomic fair action Accept:", "atomic fair action Accept"), "", ["Edited.fizz:"]),
}


@pytest.mark.parametrize("edit", SPEC_EDITS)
def test_the_spec_edited(edit, fizz, tmp_path):
    row, change, figure, said = SPEC_EDITS[edit]
    row, text = Edited(*row), SPEC.read_text()
    row.path = tmp_path / "Edited.fizz"
    row.path.write_text(change(text))
    assert change(text) != text
    unequal(row, fizz, None, figure, *said)


# --- the table of runs wrong

def test_a_wrong_count_or_verdict_in_the_table_of_runs_is_noticed(fizz):
    assert f"{NAME}.toml expects 16" in conform(TINY._replace(states=16), fizz).message
    assert f"{NAME}.toml expects 16" in conform(TINY_LIVE._replace(states=16), fizz).message
    wrong = conform(TINY._replace(expect="FAILED", violates="LatestIsKept"), fizz)
    assert (wrong.ok, wrong.kind) == (False, "safety") and f"{NAME}.toml expects: LatestIsKept fails" in wrong.message
    assert not conform(TINY._replace(never=()), fizz).ok
    wrong = conform(TINY_LIVE._replace(expect="FAILED", violates="UpdatesEnd"), fizz)
    assert (wrong.ok, wrong.kind) == (False, "liveness") and f"{NAME}.toml expects: UpdatesEnd fails" in wrong.message
    wrong = conform(ROWS["cached_boundary"]._replace(constants={"MAX_ID": 4}, states=5186), fizz)
    assert not wrong.ok  # nothing to drive FizzBee along


def test_a_count_that_was_cut_is_told_as_such():
    row = ROWS["plain"]._replace(how="check", states=1)
    result = conform(row, None, model_of(row))
    assert (result.ok, result.kind) == (False, "spec")
    mend = "If the model is right, write its number: highwater model conform {} --accept"
    assert result.message == (f"the number of states differs: {NAME}.toml expects 1, the model has more than 1,002 states "
                              f"(the count stopped there). {mend.format(row.id)}")
    result = conform(TINY._replace(how="check", states=16), None, model_of(TINY))
    assert result.message == (f"the number of states differs: {NAME}.toml expects 16, the model has 15 states. "
                              f"{mend.format(TINY.id)}")


def test_a_count_that_was_cut_is_never_equal(monkeypatch):
    row = TINY._replace(how="check")
    cut = explore(model_of(row)._replace(always={}, sometimes={}), max_states=9)._replace(states=row.states)
    monkeypatch.setattr("highwater.conformance.conform.explore", lambda *_: cut)
    assert "(the count stopped there)" in conform(row, None).message


# --- how much of the graph is searched

def searches(monkeypatch, row, fizz=None):
    """Return the result of a row, and the numbers of states of the searches that it took."""
    sizes = []
    monkeypatch.setattr("highwater.conformance.conform.explore", lambda *given: (sizes.append(explored(*given)), sizes[-1])[1])
    result = conform(row, fizz)
    return result, [size.states for size in sizes]


def test_a_passing_row_is_explored_once(monkeypatch):
    result, sizes = searches(monkeypatch, TINY._replace(how="check"))
    assert result.ok and sizes == [TINY.states]


def test_a_failing_row_without_states_ends_at_violation(monkeypatch):
    row = TINY_FAILED._replace(how="check")
    counted, whole = searches(monkeypatch, row)
    assert counted.ok and len(whole) == 2 and whole[0] < whole[1] == row.states
    found, sizes = searches(monkeypatch, row._replace(states=0, silent=()))
    assert found.ok and sizes == whole[:1] and "steps to the violation, FAILED as expected" in found.figure


@pytest.mark.parametrize("states", [0, TINY_FAILED.states])
def test_a_failing_row_names_another_violation(states):
    result = conform(TINY_FAILED._replace(how="check", states=states, silent=(), violates="LatestIsKept"), None)
    assert (result.ok, result.kind) == (False, "safety") and "expects: LatestIsKept fails" in result.message


def test_a_failing_row_that_passes_is_noticed():
    result = conform(TINY._replace(how="check", states=0, expect="FAILED", violates="LatestIsKept"), None)
    assert (result.ok, result.kind) == (False, "safety") and "the model: PASSED" in result.message


def test_a_guided_run_needs_fizzbee_to_find_the_same(fizz, tmp_path):
    row = Edited(*TINY_FAILED._replace(how="guided"))
    row.path = SPEC
    assert conform(row, fizz).ok
    row.path = tmp_path / "Edited.fizz"
    weak = SPEC.read_text().replace("return boundary < top(files)", "return True")
    other = weak.replace("return top(files) == high", "return boundary < top(files)")  # LatestIsKept fails instead
    for text, verdict in ((weak, "PASSED"), (other, "FAILED")):
        row.path.write_text(text)
        result = conform(row, fizz)
        assert not result.ok
        assert re.search(f"of the model's counterexample to BoundaryIsBelowLatest. Its verdict: {verdict} ", result.message)


def test_a_guided_run_that_passes_follows_every_action(fizz, tmp_path):
    row = Edited(*TINY._replace(how="guided"))
    row.path = SPEC
    actions = explore(model_of(row)).fired
    assert re.fullmatch(rf"\d paths of the model to all {len(actions)} actions followed, \d+ steps", conform(row, fizz).figure)
    row.path = tmp_path / "Edited.fizz"
    for old, new, said in (
            ("peak = max(peak, d)", "peak = max(peak, d + 1)", "FizzBee's state differs from the model's in peak"),
            ("return top(files) == high", "return top(files) == high and boundary < 1", "Its verdict: FAILED LatestIsKept"),
            ("    i = oneof may_delete(self.pc, self.listed, self.checked, self.b)\n    files", "    i = oneof []\n    files",
             "Its verdict: STOPPED")):
        assert old in SPEC.read_text()
        row.path.write_text(SPEC.read_text().replace(old, new))
        result = conform(row, fizz)
        assert not result.ok and said in result.message, result.message


def test_paths_take_every_action_and_reach_every_witness(monkeypatch):
    model = model_of(TINY)
    found = explore(model)
    for longest, most in ((100, 2), (1, 9)):  # each path goes on until FizzBee could not follow it
        monkeypatch.setattr("highwater.conformance.covering.LONGEST_GUIDED", longest)
        paths = covering(model, found.fired, found.never)
        assert len(paths) <= most
        steps = [step for path in paths for step in path]
        assert {label[1] for label, _ in steps} == {action for _, action in found.fired}
        assert set().union(*(witnessed(model, state) for _, state in steps)) == model.sometimes.keys() - {*found.never}
        for path in paths:
            state = init(model)
            for step in path:
                assert step in moves(model, state)
                state = step.state
    with pytest.raises(ValueError, match="no path of the model reaches AckedFileIsCollected"):
        covering(model, found.fired, ())


def test_a_lasso_that_does_not_close_is_noticed(fizz):
    row = ROWS["stale_files_stay"]
    lasso = eventually(model_of(row), [row.eventually])[row.eventually]
    assert driven_around(row, fizz, lasso, True).ok
    result = driven_around(row, fizz, lasso._replace(cycle=lasso.cycle[:-1]), True)
    assert (result.ok, result.kind) == (False, "spec") and "did not return to its state after link" in result.message
    result = driven_around(row, fizz, lasso._replace(cycle=lasso.cycle[::-1]), True)
    assert not result.ok


def test_a_fizzbee_that_breaks_down_is_no_verdict(fizz, tmp_path):
    row = Edited(*TINY)
    row.path = tmp_path / "Edited.fizz"
    row.path.write_text(SPEC.read_text().replace("    peak = max(peak, d)", "    peak = max(peak, nobody)"))
    result = conform(row, fizz)
    assert (result.ok, result.kind) == (False, "harness") and "nobody" in result.message


# --- reading the spec and the table of its runs

def test_choices_and_fairness_are_read_from_the_spec():
    variables = choice_variables(SPEC.read_text())
    assert variables["Writer", "CreateNext"] == ("change",) and variables["Collector", "Advance"] == ("d",)
    assert variables["", "ApplyPending"] == ("r",)
    assert "Accept" in fair_actions(SPEC.read_text())["Writer"] and "" not in fair_actions(SPEC.read_text())
    assert fair_actions(SPEC.read_text()) == protocol.FAIR


def test_the_table_of_runs_is_checked(tmp_path):
    bad = tmp_path / "S.toml"

    def refused(how, expect="PASSED", more="", match=""):
        bad.write_text(f'[[run]]\nid = "x"\nhow = "{how}"\nexpect = "{expect}"\nstates = 1\n{more}')
        with pytest.raises(ValueError, match=match):
            rows(tmp_path)

    refused("grpah", match="how is 'grpah', one of graph, ")
    refused("graph", "FAILED", match="violates where")
    refused("live", match="eventually where")
    refused("graph", more='eventually = "P"', match="eventually where")
    refused("live", "FAILED", 'eventually = "P"\nviolates = "Q"', match="violates is the same")
    bad.write_text('[[run]]\nid = "x"\nhow = "graph"\n')
    with pytest.raises(ValueError, match="run 1"):
        rows(tmp_path)


def test_an_action_that_never_fires_has_to_be_said(fizz):
    """One with a guard that is never true, in both; here only the model's, so that nothing but silence differs."""
    row, model = ROWS["fault_pages"], model_of(ROWS["fault_pages"])
    counted = explore(model)
    assert unlike_silence(row, model, counted) == ""
    without = counted._replace(fired=counted.fired - {("Writer", "Reject")})
    assert unlike_silence(row, model, without) == (
        f"Writer.Reject never fires in this run, and {NAME}.toml does not list it as silent")
    more = counted._replace(fired=counted.fired | {("Writer", "Crash")})
    assert unlike_silence(row, model, more) == (f"{NAME}.toml lists Writer.Crash as silent, but it fires in this run: say in "
                                                "`where` with which constants it is silent")

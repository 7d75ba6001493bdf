"""The gate's rows of small mistakes: a survivor must be listed, and a listed one must survive."""

import json
import shutil
from pathlib import Path

import pytest

from highwater import project
from highwater.cli.verify import checks_of
from highwater.gate import mutation
from highwater.gate.exits import HARNESS
from highwater.gate.rows import Found, Row, timed
from highwater.gate.sizes import DEEP, GATE
from highwater.mutate import equivalent, wanted
from highwater.mutate import rates as rates_module
from highwater.mutate.coverage import Unreached
from highwater.mutate.operators import Mutant, mutants
from highwater.mutate.rates import Rate, rates, recorded, text_of
from highwater.mutate.reached import of_scenario
from tests.support.projects import REGISTER, used

STEM, FILE = "simple_conditional", "impl/protocols/simple_conditional.py"
PATH = project.PACKAGE / FILE


@pytest.fixture
def lists(tmp_path, monkeypatch):
    """Lists of their own, which are empty."""
    for kind in equivalent.OURS:
        monkeypatch.setitem(equivalent.OURS, kind, tmp_path / f"{kind}.toml")
        (tmp_path / f"{kind}.toml").write_text("")
    return tmp_path


def mutant(part: str, after: str = "") -> Mutant:
    return next(each for each in mutants(FILE, PATH.read_text()) if part in each.before and after in each.after)


NEEDED = mutant("if doubt and update in self.known", "update not in")  # an update that is in the content is put again
HARMLESS = mutant("if doubt and update in self.known", "if (update in")  # an update that was never tried is not there


def judged(*those: Mutant) -> Found:
    return mutation.judged({FILE: PATH}, {each: [STEM] for each in those})


def lists_has(folder: Path, kind: str, of: Mutant) -> None:
    with (folder / f"{kind}.toml").open("a") as file:
        file.write(equivalent.entry_of(of, kind, "a reason") + "\n")


def test_a_survivor_must_be_listed(lists):
    found = judged(NEEDED, HARMLESS)
    assert found.code == HARNESS and f"1 small mistake without a failing run, the first is {HARMLESS.name}" in found.message
    (lists / "survivor.toml").write_text(found.message.partition("survivor.toml:\n")[2])  # what it says can be pasted
    assert judged(NEEDED, HARMLESS) == Found("2 mutants: 1 killed, 1 listed")


@pytest.mark.parametrize("kind", ["survivor", "equivalent"])
def test_a_listed_mutant_that_a_run_fails_with_is_stale(lists, kind):
    lists_has(lists, kind, NEEDED)
    found = judged(NEEDED)
    assert found.code == HARNESS and f"as {kind}, but a run fails with it: remove the entry of {NEEDED.name}" in found.message


def test_an_entry_stays_as_long_as_one_mutant_of_its_text_survives(lists):
    lists_has(lists, "survivor", HARMLESS)
    alike = HARMLESS._replace(source=NEEDED.source, first=NEEDED.first, last=NEEDED.last)
    assert judged(HARMLESS, alike).code == 0


def test_an_entry_of_code_that_is_gone_is_stale(lists):
    lists_has(lists, "survivor", HARMLESS._replace(before="if resolved:"))
    found = judged(NEEDED)
    assert found.code == HARNESS and "the code does not have any more" in found.message and "resolved" in found.message


def test_a_mistake_in_a_statement_that_no_run_executes_is_left_to_tests(lists, monkeypatch):
    file = "impl/protocols/boundary_object.py"
    path = project.PACKAGE / file
    [line] = [line.strip() for line in path.read_text().splitlines() if "cannot be {boundary}" in line]
    unit = Unreached(file, "ObjectStoreBoundaryObject.advance", line, "as if no run executed it")
    monkeypatch.setattr(mutation, "unreached", lambda: [unit])
    swallowed = next(each for each in mutants(unit.file, path.read_text()) if each.before == unit.line)
    found = mutation.judged({unit.file: path}, {swallowed: ["sequenced_metadata_boundary"]})
    assert found == Found("1 mutant: 1 in statements that only tests execute")


def test_every_implementation_has_a_row_and_its_mutants_differ(monkeypatch):
    asked: list[str] = []

    def noted(files, scenarios):
        asked.extend(mutant.file for mutant in scenarios)
        return Found("")

    monkeypatch.setattr(mutation, "judged", noted)
    rows = [check._replace(arguments=tuple(json.loads(json.dumps(check.arguments))))  # as they reach the process of a check
            for stem in project.stems("scenario") for check in checks_of(stem, GATE) if check.part == "mutation"]
    of_rooms = {check.protocol: check for check in rows if check.run is mutation.of_rooms}
    rows = [check for check in rows if check.run is not mutation.of_rooms]
    assert all(timed(check).code == 0 for check in rows) and len(rows) == 17
    assert len(asked) == 5 * len(rows) and len(set(asked)) == 17
    [shared] = [check for check in checks_of("engines", GATE) if check.part == "mutation"]
    own = len(asked)
    parts = ("protocols/boundary_object", "protocols/clones_manifest", "protocols/database_gc_uploads",
             "protocols/db_reader_view", "protocols/destroy_mark", "protocols/sequenced_metadata",
             "protocols/sequenced_storage", "kv/wal", *(f"db/{of}" for of in (
                 "cache", "claims", "compaction", "compactor", "db", "log", "manifest", "memtable", "merge", "pinned", "ranges",
                 "reader", "retention", "ssts", "tiers", "upload", "wal", "writes")))
    assert timed(shared).code == 0 and len(asked) - own == 5 * len(parts)
    assert {*asked[own:]} == {f"impl/{part}.py" for part in parts}
    before = len(asked)
    assert timed(of_rooms.pop("raft")).code == 0 and len(asked) - before == 3 * 26
    assert {*asked[before:]} == {file for file in wanted.simulated() if file.startswith("impl/raft/")}
    before = len(asked)
    assert timed(of_rooms.pop("metadata_fsm")).code == 0 and not of_rooms
    assert {*asked[before:]} == {file for file in wanted.simulated() if file.startswith(("impl/index/", "impl/codecs/index/"))}
    assert len({*asked[before:]}) == len(asked) - before == 52


def row_of_register(folder: Path) -> Row:
    with used(folder):
        [row] = [timed(check) for check in checks_of("register", GATE) if check.part == "mutation"]
    return row


def test_a_users_implementation_has_a_row_that_a_weak_scenario_fails(tmp_path):
    """In the weak scenario one writer writes once, so no write meets another one. The entry that the message gives makes the
    row pass."""
    folder = tmp_path / "project"
    shutil.copytree(REGISTER, folder)
    before = row_of_register(folder)
    assert (before.code, before.figure) == (0, "4 mutants: 4 killed")
    scenario = folder / "register" / "scenario.py"
    scenario.write_text(scenario.read_text().replace("writers=(2, 3), updates=(1, 2, 3)", "writers=(1,), updates=(1,)"))
    after = row_of_register(folder)
    assert after.code == HARNESS and "error swallowed: 'raise Taken(KEY) from None' -> 'pass'" in after.message
    said, entries = after.message.split("highwater.toml:\n")
    assert "Let a scenario or its judge notice it, or list it in " in said
    with (folder / "highwater.toml").open("a") as file:
        file.write(f"\n{entries}\n")
    assert row_of_register(folder).code == 0


def test_code_that_fails_by_itself_kills_no_mutant(tmp_path):
    folder = tmp_path / "project"
    shutil.copytree(REGISTER, folder)
    scenario = folder / "register" / "scenario.py"
    scenario.write_text(scenario.read_text().replace('"committed")\n', '"unknown")\n'))
    row = row_of_register(folder)
    assert row.code == HARNESS and "the code fails without any mutant: register, seed 0: told:unknown" in row.message


# --- the rates that the deeper gate holds

def test_a_rate_that_falls_fails(monkeypatch):
    reached = {STEM: {FILE: of_scenario(STEM, 20, [str(PATH)])[str(PATH)]}}
    monkeypatch.setattr(mutation, "reached_by", lambda *_: reached)
    monkeypatch.setattr(mutation, "tried", lambda *_: None)
    monkeypatch.setattr(mutation, "killed_by", lambda mutant, scenarios, budget: (STEM, 3, "told:failed") if budget else None)
    few = mutation.not_below(FILE, 4, 80, 0)
    killed = int(few.figure.partition(" ")[0])
    assert few == Found(f"{killed} of 4") and killed >= 3
    assert mutation.not_below(FILE, 4, 80, killed).code == 0
    for budget, least in ((80, killed + 1), (0, 1)):
        found = mutation.not_below(FILE, 4, budget, least)
        assert found.code == HARNESS and f"and it was {least}: highwater dst mutate --file {FILE} --count 4" in found.message


def test_only_the_deeper_gate_holds_rates():
    def rows(size):
        return [check for check in checks_of(STEM, size) if check.function[1] == "not_below"]

    assert not rows(GATE)
    [row] = rows(DEEP)
    rate = recorded()[FILE]
    assert row.arguments == (FILE, rate.drawn, rate.budget, rate.simulation) and rate.budget >= 40
    assert {*wanted.simulated()} <= {*recorded()}, "every simulated file has a rate"


def test_rates_are_counted_and_read_as_they_were_written(tmp_path, monkeypatch):
    said = (("simulation", ["one"], ""), ("tests", ["one"], ""), ("simulation in tests", [], ""), ("", [], ""),
            ("", ["one"], "why"))
    verdicts = [dict(zip(("file", "killed", "reached", "equivalent", "how"), ("a.py", *each, "script:a"))) for each in said]
    found = rates([*verdicts, {**verdicts[0], "file": "b.py"}], 60, True)
    assert found["a.py"] == Rate(5, 60, executed=3, simulation=1, scripts=1, tests=2, tried=4, equivalent=1)
    assert found["a.py"].survived == 1 and found["b.py"].survived == 0
    monkeypatch.setattr(rates_module, "RECORDED", tmp_path / "rates.toml")
    (tmp_path / "rates.toml").write_text(text_of(found))
    assert recorded() == found

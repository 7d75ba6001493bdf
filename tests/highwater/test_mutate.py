"""Mutants are small changes of a source; the simulation judges each in a copy; what survives is told."""

import json
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from highwater import project
from highwater.cli.main import app
from highwater.gate.exits import BAD_INPUT, HARNESS
from highwater.mutate import by_tests, equivalent, judge, wanted
from highwater.mutate.draw import drawn, shuffled
from highwater.mutate.equivalent import Listed, entry_of, listed, reason
from highwater.mutate.judge import Verdict, judged, scenarios_of
from highwater.mutate.operators import Mutant, compiles, mutants
from highwater.mutate.reached import of_scenario

FILE = "impl/protocols/simple_conditional.py"
PATH = project.PACKAGE / FILE

SOURCE = '''"""Nothing here is changed: 1 < 2."""


class Late(Exception):
    """Nor here: not 1."""


async def take(store, key: "not 3", ids, now, age=5):
    """Take é."""
    for i in ids:
        if now - i.made >= age and i.mine:
            try:
                await store.put(key, body=b"x", if_none_match=True)
                store.known = i
            except (Late, KeyError):
                store.metrics.count("late")
                raise
            await store.check(key)
            await store.tell("é", max(ids))
    while not store.done:
        store.note(f"{now + 1} é")
        continue
    return ids[-1]
'''
CHANGES = {
    ("comparison", "if now - i.made > age and i.mine:"), ("operand dropped", "if (now - i.made >= age):"),
    ("arithmetic", "if i.made - now >= age and i.mine:"), ("arithmetic", "if now + i.made >= age and i.mine:"),
    ("condition dropped", "if True:"), ("condition dropped", "if False:"), ("condition dropped", "while False:"),
    ("negation dropped", "while store.done:"), ("request dropped", "pass"), ("assignment dropped", "pass"),
    ("argument dropped", 'await store.put(key, body=b"x")'),
    ("constant", 'await store.put(key, body=b"x", if_none_match=False)'),
    ("constant", 'async def take(store, key: "not 3", ids, now, age=6):'), ("error not caught", "except (Late,):"),
    ("error swallowed", "pass"), ("requests swapped", 'await store.tell("é", max(ids)) await store.check(key)'),
    ("min and max", 'await store.tell("é", min(ids))'), ("retry dropped", "break"), ("result dropped", "return None"),
    ("first for last", "return ids[0]"), ("call dropped", "pass")}


def test_what_is_changed():
    found = mutants("any.py", SOURCE)
    said = {(mutant.operator, mutant.after) for mutant in found}
    assert said >= CHANGES, CHANGES - said
    assert all(compiles(mutant.source) for mutant in found)
    assert len({mutant.source for mutant in found}) == len(found)


def test_what_people_read_is_left_alone():
    """Docstrings, messages, annotations and metrics change no behaviour."""
    for mutant in mutants("any.py", SOURCE):
        for kept in ('"""Nothing here is changed: 1 < 2."""', '"""Nor here: not 1."""', '"not 3"', '{now + 1} é'):
            assert kept in mutant.source or mutant.operator in ("call dropped", "one round only"), mutant.name
        assert 'store.metrics.count("late")' in mutant.source or mutant.operator == "error swallowed", mutant.name


def test_a_large_limit_may_be_one_more_or_less_and_json_may_have_spaces():
    source = """
READ_ATTEMPTS, DIGITS = 10, 20
ATTEMPTS = 100
DIGITS = 20
class Store:
    async def read(self, key, attempts=3, read_attempts: int = 10, *, page_size=1000, first=11):
        return json.dumps(key, sort_keys=True, separators=(",", ":"), allow_nan=False), self.get(key, limit=50)
"""
    said = [(mutant.operator, mutant.after) for mutant in mutants("any.py", source)]
    assert {after for operator, after in said if operator == "constant" and after.startswith(("ATTEMPTS", "DIGITS"))} == {
        "DIGITS = 21", "DIGITS = 19"}
    constants = [after for operator, after in said if operator == "constant"]
    for kept in ("1001", "999", "read_attempts: int = 9", "read_attempts: int = 11", "sort_keys=False"):
        assert not [after for after in constants if kept in after], kept
    for changed in ("attempts=4", "first=12", "first=10", "allow_nan=True", "limit=51"):  # the last is an argument
        assert [after for after in constants if changed in after], changed
    dropped = [after for operator, after in said if operator == "argument dropped"]
    assert len(dropped) == 2 and all("separators" in after for after in dropped), dropped


def test_an_edit_of_one_function_draws_the_same_mutants_of_another():
    functions = [f"def f{i}(n):\n    return n + {i}\n" for i in range(9)]
    edited = ["\n\n", functions[0].replace("+", "*"), *functions[1:]]
    orders = [[mutant.after for mutant in shuffled(mutants("a.py", "".join(source)), 3) if mutant.before[-1:] != "0"]
              for source in (functions, edited)]
    assert orders[0] != sorted(orders[0])
    assert orders[0] == [after for after in orders[1] if after in orders[0]] and len(orders[0]) > 20


def test_one_round_only_is_a_break_at_the_end_of_a_loop():
    [first] = [mutant for mutant in mutants("any.py", SOURCE) if mutant.operator == "one round only"]  # `while` has `continue`
    assert first.source.split("\n")[19] == "        break"


def test_mutants_are_drawn_by_a_seed_in_proportion_to_lines():
    files = {FILE: PATH, "impl/errors.py": project.PACKAGE / "impl" / "errors.py"}
    some, more, other = drawn(files, 20, 1), drawn(files, 40, 1), drawn(files, 20, 2)
    assert some == drawn(files, 20, 1) and set(some) < set(more) and set(some) != set(other)
    assert 12 <= sum(mutant.file == FILE for mutant in some) <= 20
    assert not drawn(files, 20, 1, lambda mutant: False)


def changed(before: str, after: str) -> Mutant:
    source = PATH.read_text()
    line = source[:source.index(before)].count("\n") + 1
    return Mutant(FILE, "any", line, line, before, after, source.replace(before, after))


def test_the_simulation_kills_what_breaks_the_protocol_and_nothing_else():
    reached = {"simple_conditional": of_scenario("simple_conditional", 20, [str(PATH)])}
    reached = {name: {FILE: lines[str(PATH)]} for name, lines in reached.items()}
    worse = changed("self.codec.encode(value), self.known.version", "self.codec.encode(value), self.known.version[:0]")
    same = changed("self.codec.encode(value), self.known.version", "self.codec.encode(value) + b'', self.known.version")
    fails = changed("from typing import", "from typing_ import")._replace(first=worse.first, last=worse.last)
    [first, second, third] = judged([worse, same, fails], reached, 80, 1)
    assert (first.killed, first.where, first.reached) == ("simulation", "simple_conditional", ("simple_conditional",))
    assert first.seed >= 0 and first.how
    assert (second.killed, second.how, second.seed) == ("", "", -1)
    assert third.killed and "typing_" in third.how


def test_parentheses_stay_where_an_operand_needs_them():
    found = {mutant.after for mutant in mutants("any.py", "x = (a or b) and c and not (d or e)\ny = (p - q) * (r + s)\n")}
    assert found >= {"x = ((a or b) and c)", "x = ((a or b) and not (d or e))", "x = (a or b) and c and (d or e)",
                     "y = (p - q) // (r + s)", "y = (q - p) * (r + s)"}, found


def test_a_late_run_that_fails_without_the_mutant_too_is_told(monkeypatch):
    """Only the first 40 seeds of the code were tried before."""
    def later(tasks, limit_s, mutant=None):
        return next(((scenario, 50, "told:failed") for scenario, first, last in tasks if first <= 50 < last), None)

    monkeypatch.setattr("highwater.mutate.judge.tried", later)
    mutant = changed("class", "class")
    with pytest.raises(RuntimeError, match="fails without any mutant: simple_conditional, seed 50: told:failed"):
        next(judged([mutant], {"simple_conditional": {FILE: {mutant.first: 1}}}, 80, 1))


def test_code_that_fails_by_itself_judges_nothing(monkeypatch):
    def broken(tasks, limit_s, mutant=None):
        return "simple_conditional", 3, "told:failed"

    monkeypatch.setattr("highwater.mutate.judge.tried", broken)
    with pytest.raises(RuntimeError, match="fails without any mutant: simple_conditional, seed 3: told:failed"):
        next(judged([changed("class", "class")], {"simple_conditional": {}}, 80, 1))


def test_scenarios_that_execute_a_line_most_come_first():
    mutant = Mutant("a.py", "any", 4, 5, "", "", "", "f")
    reached = {"one": {"a.py": {4: 2}}, "two": {"a.py": {5: 9, 6: 3}}, "none": {"a.py": {6: 8}}, "other": {"b.py": {4: 1}}}
    assert scenarios_of(mutant, reached) == ("two", "one")
    assert scenarios_of(mutant._replace(head=6), reached) == ("two", "none", "one")
    assert scenarios_of(mutant._replace(function=""), reached) == ("two", "none", "one")


def test_a_mutant_knows_the_first_line_of_the_function_in_whose_head_it_is():
    source = "LIMIT = 2\n\n\n@decorated\ndef f(a: int = 3,\n      b: int = 4) -> int:\n    return a - b\n"
    found = {(mutant.before, mutant.head) for mutant in mutants("any.py", source)}
    assert found == {("LIMIT = 2", 0), ("def f(a: int = 3,", 4), ("b: int = 4) -> int:", 4), ("return a - b", 0)}


def test_a_listed_mutant_is_known_by_its_text():
    entry = Listed("a.py", "any", "x", "y", "nobody sees it")
    mutant = Mutant("a.py", "any", 4, 5, "x", "y", "")
    assert reason(mutant, [entry]) == "nobody sees it"
    assert reason(mutant._replace(after="z"), [entry]) == "" == reason(mutant, [])
    assert reason(mutant, [entry._replace(function="f")]) == "" != reason(mutant._replace(function="f"), [entry])


def test_an_entry_of_a_list_is_read_as_it_was_written(monkeypatch, tmp_path):
    [mutant] = [mutant for mutant in mutants("any.py", SOURCE) if mutant.after == 'await store.tell("é", min(ids))']
    (tmp_path / "list.toml").write_text(entry_of(mutant, "survivor", 'it says "é"'))
    monkeypatch.setitem(equivalent.OURS, "survivor", tmp_path / "list.toml")
    [entry] = listed("survivor")
    assert entry.is_of(mutant) and entry.function == mutant.function == "take" and entry.reason == 'it says "é"'


def test_a_mutant_names_its_innermost_function():
    source = "class A:\n    x = 3\n    def f(self):\n        def g():\n            return 4\n        return 5\ny = 6\n"
    assert {mutant.function for mutant in mutants("a.py", source)} == {"", "A.f", "A.f.g"}


# --- by tests

TESTS = '''from code import answer
def test_right():
    assert answer(1) == 2
def test_other():
    assert True
'''


def test_what_the_simulation_leaves_goes_to_the_tests_that_execute_it(tmp_path, monkeypatch):
    root = tmp_path / "root"
    root.mkdir()
    (root / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    (root / "answer.py").write_text("def answer(n):\n    if n > 5:\n        return 0\n    return n + ONE\n\n\nONE = 1\n")
    (root / "test_it.py").write_text(TESTS.replace("from code", "from answer"))
    tests = by_tests.recorded(root, ["answer.py"], tmp_path / "kept")
    assert [(test.test, test.simulates, set(test.lines["answer.py"])) for test in tests] == [
        ("test_it.py::test_right", False, {1, 2, 4})]
    of = {mutant.after: mutant for mutant in mutants("answer.py", (root / "answer.py").read_text())}
    wrong, unseen = of["return n - ONE"], of["return 1"]
    assert by_tests.tests_of(of["ONE = 2"], tests) == tests  # it runs when the file is imported
    assert by_tests.killed(root, wrong, by_tests.tests_of(wrong, tests)) == ("test_it.py::test_right", False)
    assert by_tests.tests_of(unseen, tests) == [] and by_tests.killed(root, unseen, []) is None
    (root / "other.py").write_text("n = 1\n")
    monkeypatch.setattr(by_tests, "tested", lambda *_: pytest.fail("all tests run once"))
    assert by_tests.recorded(root, ["answer.py"], tmp_path / "kept") == tests


def test_a_test_that_fails_without_the_mutant_kills_nothing(tmp_path):
    """Neither one that failed when it was recorded, nor one that fails in a copy: test_here wants what is left out of it."""
    root = tmp_path / "root"
    (root / "out").mkdir(parents=True)
    (root / "answer.py").write_text("def answer(n):\n    return n + 1\n")
    (root / "test_it.py").write_text(
        "import os\nfrom answer import answer\n"
        "def test_wrong():\n    assert answer(1) == 7\n"
        "def test_here():\n    answer(1)\n    assert os.path.exists('out')\n"
        "def test_weak():\n    assert answer(1) is not None\n")
    tests = by_tests.recorded(root, ["answer.py"], tmp_path / "kept")
    assert [test.test.partition("::")[2] for test in tests] == ["test_here", "test_weak"]
    of = {mutant.after: mutant for mutant in mutants("answer.py", (root / "answer.py").read_text())}
    assert by_tests.killed(root, of["return n - 1"], tests) is None
    assert by_tests.killed(root, of["return None"], tests) == ("test_it.py::test_weak", False)


def test_other_files_and_edited_tests_are_recorded_anew(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    for name in ("one", "two"):
        (root / f"{name}.py").write_text("def f():\n    return 1\n")
    (root / "test_it.py").write_text("import one, two\ndef test_both():\n    assert one.f() == two.f()\n")
    first = by_tests.recorded(root, ["one.py"], tmp_path / "kept")
    second = by_tests.recorded(root, ["two.py"], tmp_path / "kept")
    assert [list(test.lines) for test in (*first, *second)] == [["one.py"], ["two.py"]]
    (root / "test_it.py").write_text("import two\ndef test_one():\n    assert two.f()\n")
    assert [test.test for test in by_tests.recorded(root, ["two.py"], tmp_path / "kept")] == ["test_it.py::test_one"]


def test_only_tests_of_the_named_folders_run_and_their_threads_count(tmp_path):
    root = tmp_path / "root"
    (root / "tests" / "some").mkdir(parents=True)
    (root / "pyproject.toml").write_text("[tool.pytest.ini_options]\npythonpath = ['.']\n")
    (root / "answer.py").write_text("def answer(n):\n    return n + 1\n")
    test = ("import asyncio\nfrom answer import answer\n"
            "def test_{}():\n    assert asyncio.run(asyncio.to_thread(answer, 1)) == 2\n")
    for name in ("some/test_one.py", "test_two.py"):
        (root / "tests" / name).write_text(test.format(name[-6:-3]))
    (root / "tests/some/test_nothing.py").write_text("def test_nothing():\n    pass\n")  # with a folder it counts, for imports
    found = [by_tests.recorded(root, ["answer.py"], tmp_path / "kept", folders) for folders in ([str(root / "tests/some")], [])]
    assert [[test.test.rpartition("::")[2] for test in tests] for tests in found] == [
        ["test_nothing", "test_one"], ["test_one", "test_two"]]
    assert {2} <= found[0][1].lines["answer.py"]  # the body runs in a thread
    of = {mutant.after: mutant for mutant in mutants("answer.py", (root / "answer.py").read_text())}
    those = [of["return n - 1"], of["return n + 2"], of["return None"]]
    killed = list(by_tests.all_killed(root, those, found[0], 2))
    assert [each and each.test for each in killed] == ["tests/some/test_one.py::test_one"] * 3


# --- the command

def mutate(*arguments: str):
    return CliRunner().invoke(app, ["dst", "mutate", *arguments])


def test_the_command_tells_who_killed_what(tmp_path):
    out = tmp_path / "out.jsonl"
    result = mutate("--protocol", "simple_conditional", "--count", "3", "--seed", "4", "--budget", "60", "--json", str(out))
    found = [json.loads(line) for line in out.read_text().splitlines()]
    killed = [line for line in found if line["killed"]]
    assert len(found) == 3 and result.exit_code == (HARNESS if len(killed) < 3 else 0)
    assert f"killed {len(killed)} of" in result.stdout and all(line["file"] == FILE for line in found)


def test_mutate_shows_progress_without_terminal(monkeypatch):
    """On stderr, as each scenario and each mutant begins."""
    def recorded(scenarios, *others):
        for scenario in scenarios:
            others[-1](scenario)
        return {}

    monkeypatch.setattr("highwater.cli.console.LINE_EVERY_S", 0)
    monkeypatch.setattr(judge, "reached_by", recorded)
    result = mutate("--protocol", "simple_conditional", "--count", "2", "--jobs", "1")
    lines = result.stderr.splitlines()
    assert lines[:2] == ["no project, scenario simple_conditional",
                         "recording which lines run: 0 of 1 done, next simple_conditional"], lines
    assert [line.partition(",")[0] for line in lines[2:]] == ["judging mutants: 0 of 2 done", "judging mutants: 1 of 2 done"]
    assert "judging" not in result.stdout


def test_recording_of_lines_names_each_scenario(tmp_path):
    shown: list[str] = []
    judge.reached_by(["simple_conditional"], 2, [FILE], wanted.root(), tmp_path, 1, shown.append)
    assert shown == ["simple_conditional"]


def test_after_an_interrupt_what_was_judged_is_kept(tmp_path, monkeypatch):
    def interrupted(found, *_):
        yield Verdict(next(iter(found)), "", "", "", -1, ())
        raise KeyboardInterrupt

    out = tmp_path / "out.jsonl"
    monkeypatch.setattr(judge, "reached_by", lambda *_: {})
    monkeypatch.setattr(judge, "judged", interrupted)
    result = mutate("--protocol", "simple_conditional", "--count", "3", "--json", str(out))
    assert result.exit_code and len(out.read_text().splitlines()) == 1


@pytest.mark.parametrize("arguments, said", [
    (["--protocol", "nosuch"], "there is no scenario 'nosuch'"), (["--file", "/nowhere/x.py"], "/nowhere/x.py is no file"),
    (["--since", "nosuch"], "git knows no commit 'nosuch'"), (["--since", "HEAD", "--file", FILE], "no line differs"),
    (["--budget", "39"], "at least 40; or 0, with --tests"), (["--budget", "0"], "at least 40; or 0, with --tests"),
    (["--tests-in", "tests/impl"], "give both"), (["--tests", "--tests-in", "/nowhere"], "/nowhere is no file or folder")])
def test_bad_input_is_one_line(arguments, said, monkeypatch):
    if "HEAD" in arguments:
        monkeypatch.setattr(wanted, "changed_since", lambda *_: {})
    result = mutate(*arguments)
    assert result.exit_code == BAD_INPUT and said in result.stderr and len(result.stderr.splitlines()) == 1


def test_lines_that_changed_since_a_commit(tmp_path, monkeypatch):
    def git(*words: str) -> None:
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=tmp_path, check=True,
                       capture_output=True)

    (tmp_path / "a.py").write_text("one = 1\ntwo = 2\nthree = 3\n")
    git("init")
    git("add", "a.py")
    git("commit", "-m", "first")
    (tmp_path / "a.py").write_text("one = 1\ntwo = 5\nthree = 3\nfour = 4\n")
    monkeypatch.setattr(wanted, "root", lambda: Path(tmp_path))
    changed = wanted.changed_since("HEAD", ["a.py"])
    found = [mutant.first for mutant in mutants("a.py", (tmp_path / "a.py").read_text()) if wanted.is_within(mutant, changed)]
    assert set(found) == {2, 4}

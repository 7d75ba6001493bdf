"""The FizzBee wrapper: verdicts, graphs and guided traces of small specs are correct.

So are the cases that FizzBee alone gets wrong silently (see specs/fizzbee/check.py).
"""

import shutil
import subprocess
import sys
import tempfile
import warnings
from collections import namedtuple
from dataclasses import replace
from pathlib import Path

import pytest

from highwater.specs import runs
from highwater.specs.fizzbee import __main__ as by_hand
from highwater.specs.fizzbee import cache, reader, rewrite, run
from highwater.specs.fizzbee import check as wrapper
from highwater.specs.fizzbee.check import Fizz
from highwater.specs.fizzbee.errors import FizzError, FizzMissing, SpecError
from highwater.specs.fizzbee.files import message
from highwater.specs.fizzbee.values import canonical, link_names

HEAD = "---\ndeadlock_detection: false\noptions:\n  max_concurrent_actions: 1\n  crash_on_yield: false\n---\n"

# Two roles, a choice, a knob. With CHECK a writer never overwrites.
FILES = HEAD + """
WRITERS = 2
IDS = 2
CHECK = True
LAST = IDS - 1

def free(files, n):
  return n not in files and n <= LAST

role Writer:
  action Init:
    self.pc = "idle"
    self.seen = None

  atomic action List:
    require self.pc == "idle"
    self.seen = max([n for n in files] + [-1])
    self.pc = "listed"

  atomic action CreateNext:
    require self.pc == "listed"
    require not CHECK or free(files, self.seen + 1)
    require self.seen + 1 <= LAST
    body = oneof [1, 2]
    files = files | {self.seen + 1: (self.index, body)}
    writes = writes | set([(self.seen + 1, self.index)])
    self.pc = "idle"
    self.seen = None

  atomic action CreateConflict:
    require self.pc == "listed"
    require self.seen + 1 in files
    self.pc = "idle"
    self.seen = None

role Collector:
  action Init:
    self.deleted = set()

  atomic action Delete:
    i = oneof [n for n in files if n < max([m for m in files])]
    files = {n: files[n] for n in files if n != i}
    self.deleted = self.deleted | set([i])

action Init:
  files = {}
  writes = set()
  writers = []
  for i in range(WRITERS):
    writers.append(Writer(index=i))
  collector = Collector()

always assertion OneWriterAnId:
  return all([len([w for w in writes if w[0] == n]) <= 1 for n in range(IDS)])

exists assertion Deletes:
  return len(collector.deleted) > 0

exists assertion OtherWriter:
  return (0, WRITERS - 1) in writes
"""

COUNTER = HEAD + """
TOP = 3
action Init:
  n = 0
atomic action Inc:
  require n < TOP
  n = n + 1
atomic action Nop:
  pass
atomic action Local:
  unused = n
atomic action Never:
  y = 1
  require n > TOP
  n = 0
atomic action Empty:
  k = oneof set([])
  n = k
"""


@pytest.fixture(scope="module")
def fizz() -> Fizz:
    try:
        return Fizz.find()
    except FizzMissing as missing:
        warnings.warn(f"NOT TESTED: {missing}", stacklevel=1)
        pytest.skip(str(missing))


@pytest.fixture
def spec(tmp_path: Path):
    """Writes a spec and says where it is."""

    def write(text: str, name: str = "Small.fizz") -> Path:
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


# --- check


def test_a_spec_that_holds(fizz, spec):
    result = fizz.check(spec(FILES), {"WRITERS": 1})
    assert (result.verdict, result.failed_assertion, result.trace) == ("PASSED", None, ())
    assert result.states == len(reachable(1)[0]) and result.nodes > result.states


def test_a_knob_switched_off_fails_with_a_trace(fizz, spec):
    path = spec(FILES)
    assert fizz.check(path, {"IDS": 1}).failed_assertions == ("Deletes",)
    result = fizz.check(path, {"CHECK": False, "IDS": 1})
    assert (result.verdict, result.failed_assertion) == ("FAILED", "OneWriterAnId")
    names = [name for name, _ in result.trace]
    assert names[0] == "Init" and len(names) == 7 and names.count("Any:body=1") == 2
    first, last = result.trace[0][1], result.trace[-1][1]
    assert first["files"] == {} and first["Writer#0"] == {"pc": "idle", "seen": None}
    assert first["writers"] == ["role Writer#0", "role Writer#1"] and first["Collector#0"] == {"deleted": []}
    assert last["writes"] == [[0, 0], [0, 1]]


def test_exists_without_a_witness_names_all_that_lack_one(fizz, spec):
    result = fizz.check(spec(FILES + "\nexists assertion Never:\n  return len(files) > 9\n"), {"WRITERS": 1, "IDS": 1})
    assert (result.verdict, result.failed_assertions, result.trace) == ("FAILED", ("Deletes", "Never"), ())


@pytest.mark.parametrize("graph", [False, True])
def test_transition_assertion(fizz, spec, graph):
    """FizzBee crashes on this without its graph."""
    text = COUNTER + "\ntransition assertion Low(before, after):\n  return after.n < 2\n"
    result = fizz.check(spec(text), graph=graph)
    assert (result.verdict, result.failed_assertion) == ("FAILED", "Low")
    assert [name for name, _ in result.trace] == ["Init", "Inc", "Inc"]
    assert fizz.check(spec(text), {"TOP": 1}).verdict == "PASSED"


def test_liveness(fizz, spec):
    text = COUNTER + "\nalways eventually assertion Arrives:\n  return n == TOP\n\nalways assertion Small:\n  return n < 9\n"
    assert fizz.check(spec(text)).failed_assertion == "Arrives"
    assert fizz.check(spec(text), liveness=False).verdict == "PASSED"
    assert fizz.check(spec(text.replace("atomic action Inc", "atomic fair action Inc"))).verdict == "PASSED"
    off = text.replace("deadlock_detection: false", "deadlock_detection: false\nliveness: 'false'")
    assert fizz.check(spec(off)).verdict == "PASSED"  # what FizzBee's reference has as the default


def test_only_the_assertions_asked_for(fizz, spec):
    text = COUNTER + "\nalways assertion Small:\n  return n < 2\n\nalways eventually assertion Arrives:\n  return n == TOP\n"
    path = spec(text + "\nalways assertion Smaller:\n  return n < 1\n")
    assert fizz.check(path, only=[]).verdict == "PASSED"
    assert fizz.check(path, only=["Small"]).failed_assertion == "Small"
    assert fizz.check(path, only=["Arrives"]).failed_assertion == "Arrives"
    assert fizz.check(path, {"TOP": 0}, only=["Small", "Arrives"]).verdict == "PASSED"
    with pytest.raises(SpecError, match=r"Small\.fizz: no assertion Smal$"):
        fizz.check(path, only=["Smal"])
    names = [name for name, _ in fizz.check(path).trace]
    assert fizz.guided(path, {}, names).failed_assertion == "Smaller"
    assert fizz.guided(path, {}, [*names, "Inc"], assertions=False).verdict == "PASSED"


def test_deadlock_only_where_there_is_one(fizz, spec):
    text = COUNTER.replace("deadlock_detection: false\n", "").replace("unused = n", "require False")
    text = text.replace("  pass", "  require n == TOP\n  n = 0")
    assert fizz.check(spec(text)).verdict == "PASSED"
    stuck = fizz.check(spec(text.replace("n == TOP", "n > TOP")))
    assert (stuck.verdict, [name for name, _ in stuck.trace]) == ("DEADLOCK", ["Init", "Inc", "Inc", "Inc"])


def test_paths_are_not_cut_after_100_actions(fizz, spec):
    result = fizz.check(spec(COUNTER), {"TOP": 150})
    assert (result.verdict, result.states) == ("PASSED", 151)


def test_constants_reach_defs_and_constants_made_of_them(fizz, spec):
    text = HEAD + """
K = 1
TEXT = 'a'  # a name
TWICE = K + K
def plus(x):
  return x + K
action Init:
  v = [plus(0), TWICE, TEXT]
atomic action Nop:
  pass
"""
    graph = fizz.graph(spec(text), {"K": 10, "TEXT": 'q"\\'})
    assert graph.states == [((("v", (10, 20, 'q"\\')),), ())]


@pytest.mark.parametrize("constants", [{"NONE": 1}, {"n": 1}, {"TOPS": 1}])
def test_an_unknown_constant_is_an_error(constants):
    with pytest.raises(SpecError, match="no top-level constant"):
        rewrite.with_constants(COUNTER, constants, Path("Small.fizz"))


def test_syntax_errors_name_the_file_and_the_line(fizz, spec):
    """The first is one that FizzBee's parser mends and passes over."""
    for text, line in (("action Init:\n  n = 0\natomic action A\n  n = 1\n", 4), ("action Init:\n  n = 1 +* 2\n", 2)):
        with pytest.raises(SpecError, match=rf"Small\.fizz:{line}:\d+: "):
            fizz.check(spec(text))


def telling(path: Path, program: Path, said: str, end: str = "") -> Path:
    """A program that does what `program` does, and then says something on stderr."""
    path.write_text(f"#!/bin/sh\n'{program}' \"$@\"\nprintf %s '{said}' >&2\n{end}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("said, told", [
    ("... line 7:2 missing a colon", r"Small\.fizz:7:3: missing a colon$"),  # wherever in its line
    ("Error: Line: 7: Unexpected x", r"Small\.fizz: Error: Line: 7: Unexpected x$"),
    ("a word that nobody knows", r"Small\.fizz: a word that nobody knows$")])
def test_whatever_the_parser_says_on_stderr_is_an_error(fizz, spec, tmp_path, said, told):
    parser = telling(tmp_path / "parser", fizz.parser, said)
    for ask in (fizz.check, fizz.graph, lambda path: fizz.guided(path, {}, ["Inc"])):
        ask(spec(COUNTER))
    fizz = replace(fizz, parser=parser)
    for ask in (fizz.check, fizz.graph, lambda path: fizz.guided(path, {}, ["Inc"])):
        with pytest.raises(SpecError, match=told):
            ask(spec(COUNTER))


@pytest.mark.parametrize("said, end, told", [("something broke", "", "something broke"), ("", "kill -9 $$", "by signal 9")])
def test_a_run_that_complains_has_no_verdict_and_is_not_kept(fizz, spec, tmp_path, monkeypatch, said, end, told):
    """The run's output says PASSED, although it also complains."""
    monkeypatch.setenv("HIGHWATER_CACHE", str(tmp_path / "cache"))
    fizz, path = replace(fizz, checker=telling(tmp_path / "checker", fizz.checker, said, end)), spec(COUNTER)
    for ask in (fizz.check, lambda path, **options: fizz.guided(path, {}, ["Inc"], **options)):
        result = ask(path, cache=True)
        assert result.verdict == "ERROR" and "PASSED" in result.output and told in result.error
    for ask in (fizz.graph, fizz.explored):
        with pytest.raises(FizzError, match=told):
            ask(path, cache=True)
    assert all("-parse-" in entry.name for entry in (tmp_path / "cache" / "specs").iterdir())


def test_its_programs_do_not_see_our_environment(monkeypatch, tmp_path):
    for name in ("PYTHONUNBUFFERED", "PYTHONPATH", "GODEBUG", "LC_ALL", "GOGC"):
        monkeypatch.setenv(name, "1")
    output, errors, status, stopped = run.execute(["env"], tmp_path, None)
    seen = dict(line.partition("=")[::2] for line in output.splitlines())
    assert set(seen) <= {*run.INHERITED, "LANG", "PYTHONUTF8", "TMPDIR"}
    assert (seen["GOGC"], seen["LANG"]) == ("1", "C.UTF-8")
    assert (errors, status, stopped) == ("", 0, False)


def test_an_error_at_run_time_is_a_verdict(fizz, spec):
    result = fizz.check(spec(COUNTER.replace("n = n + 1", "n = m + 1")))
    assert result.verdict == "ERROR" and "undefined: m" in result.error and "\n" not in result.error


def test_a_time_out_stops_it_and_leaves_nothing_behind(fizz, spec, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    path = spec(COUNTER)
    assert fizz.check(path, {"TOP": 10**9}, timeout=1).verdict == "STOPPED"
    with pytest.raises(FizzError, match="STOPPED"):
        fizz.graph(path, {"TOP": 10**9}, timeout=1)
    assert [entry.name for entry in tmp_path.iterdir()] == ["Small.fizz"]


# --- graph


def reachable(writers: int, ids: int = 2):
    """The states and edges of FILES with CHECK, by hand: (files, writes, (pc, seen) of each writer, deleted)."""
    first = (frozenset(), frozenset(), (("idle", None),) * writers, frozenset())

    def steps(state):
        files, writes, local, deleted = state
        names = {n for n, _ in files}
        for i, (pc, seen) in enumerate(local):
            def at(new, i=i):
                return (*local[:i], new, *local[i + 1:])
            if pc == "idle":
                yield (f"Writer#{i}", "List", ()), (files, writes, at(("listed", max(names, default=-1))), deleted)
            elif seen + 1 in names:
                yield (f"Writer#{i}", "CreateConflict", ()), (files, writes, at(("idle", None)), deleted)
            elif seen + 1 < ids:
                for body in (1, 2):
                    yield ((f"Writer#{i}", "CreateNext", (("body", body),)),
                           (files | {(seen + 1, (i, body))}, writes | {(seen + 1, i)}, at(("idle", None)), deleted))
        for n in names - {max(names, default=0)}:
            kept = frozenset(file for file in files if file[0] != n)
            yield ("Collector#0", "Delete", (("i", n),)), (kept, writes, local, deleted | {n})

    seen, todo, edges = {first}, [first], set()
    while todo:
        state = todo.pop()
        for label, after in steps(state):
            edges.add((state, label, after))
            if after not in seen:
                seen.add(after)
                todo.append(after)
    return seen, edges


def as_fizzbee(state):
    files, writes, local, deleted = state
    writers = tuple((f"Writer#{i}", canonical({"pc": pc, "seen": seen})) for i, (pc, seen) in enumerate(local))
    shared = {"files": dict(files), "writes": writes, "collector": "role Collector#0",
              "writers": [f"role {name}" for name, _ in writers]}
    return canonical(shared), (("Collector#0", canonical({"deleted": deleted})), *writers)


@pytest.mark.parametrize("writers", [1, 2])
def test_a_graph_equals_one_made_by_hand(fizz, spec, writers):
    graph = fizz.graph(spec(FILES), {"WRITERS": writers})
    states, edges = reachable(writers)
    assert set(graph.states) == {as_fizzbee(state) for state in states} and len(graph.states) == len(states)
    assert graph.states[graph.initial][0][0] == ("collector", "role Collector#0")
    assert ({(graph.states[source], label, graph.states[target]) for source, label, target in graph.edges}
            == {(as_fizzbee(source), label, as_fizzbee(target)) for source, label, target in edges})


def test_an_ablated_spec_has_a_graph_too(fizz, spec):
    assert len(fizz.graph(spec(FILES), {"CHECK": False, "IDS": 1}).states) > len(reachable(2, 1)[0])


@pytest.mark.parametrize("text, constants, verdict", [(COUNTER, {"TOP": 1}, "PASSED"), (FILES, {}, "FAILED")])
def test_one_run_gives_the_verdict_and_the_graph(fizz, spec, tmp_path, monkeypatch, text, constants, verdict):
    monkeypatch.setenv("HIGHWATER_CACHE", str(tmp_path / "cache"))
    path = spec(text)
    checked, graph = fizz.explored(path, constants, cache=True)
    assert (checked.verdict, graph) == (verdict, fizz.graph(path, constants))
    alone = fizz.check(path, constants, liveness=False)
    assert (checked.failed_assertions, checked.trace, checked.states) == (alone.failed_assertions, alone.trace, alone.states)
    monkeypatch.setattr(type(fizz), "_parse", None)  # the second answer is from the cache
    assert fizz.explored(path, constants, cache=True) == (checked, graph)


def test_self_loops_and_disabled_actions(fizz, spec):
    """Enabled without effect: a self-loop, also for an assignment to a local. Disabled: none. The end is not an edge."""
    graph = fizz.graph(spec(COUNTER), {"TOP": 1})
    assert graph.states == [((("n", 0),), ()), ((("n", 1),), ())]
    loops = {(i, ("", name, ()), i) for i in (0, 1) for name in ("Nop", "Local")}
    assert graph.edges == loops | {(0, ("", "Inc", ()), 1)}
    alone = COUNTER[:COUNTER.index("atomic action Nop")]
    assert fizz.graph(spec(alone), {"TOP": 1}).edges == {(0, ("", "Inc", ()), 1)}


def test_two_labels_with_one_target_are_two_edges_and_choices_are_parsed(fizz, spec):
    text = HEAD + """
role W:
  action Init:
    self.v = 0
  atomic action Pick:
    require self.v == 0
    z = oneof [(1, "x=1"), None]
    a = oneof [True, set([10, 9])]
    w = oneof ws
    oneof:
      self.v = 1
      self.v = 2
action Init:
  ws = [W(index=7)]
atomic action Same:
  ws[0].v = 1
atomic action Again:
  ws[0].v = 1
"""
    graph = fizz.graph(spec(text))
    index = {dict(roles)["W#0"][0][1]: i for i, (_, roles) in enumerate(graph.states)}
    to_one = {label[1] for source, label, target in graph.edges if (source, target) == (index[0], index[1])}
    assert to_one == {"Same", "Again", "Pick"}
    choices = {label[2] for _, label, _ in graph.edges if label[1] == "Pick"}
    assert choices == {(("a", a), ("oneof", branch), ("w", "role W#0"), ("z", z))
                       for a in (True, (10, 9)) for branch in (0, 1) for z in ((1, "x=1"), None)}


def test_values(fizz, spec):
    """FizzBee's types are read as the values to which `canonical` maps Python's."""
    Point = namedtuple("Point", "z a")
    values = {
        "set([1, 9, 10, 100, -2])": {1, 9, 10, 100, -2},
        'set([(10, "b"), (9, "a"), (2, "z")])': {(10, "b"), (9, "a"), (2, "z")},
        "(1, set([10, 9]))": (1, {10, 9}),
        "{10: (set([(1, 2)]), set([10, 9])), 9: {1: {}}, -1: None}": {10: ({(1, 2)}, {10, 9}), 9: {1: {}}, -1: None},
        '{(1, "x"): 3, "k": [True, ()]}': {(1, "x"): 3, "k": [True, ()]},
        "set([struct(z=1, a=10), struct(z=1, a=9)])": {Point(1, 10), Point(1, 9)},
        "record(z=set([10, 9]), a=1)": Point({10, 9}, 1),
        'set(["b", "a<", "é", "a\\"q", "a"])': {"b", "a<", "é", 'a"q', "a"},
        "range(3)": range(3),
        'enum("A", "B").B': "B",
        "bag([2, 10, 10])": (10, 10, 2),
    }
    lines = "".join(f"  v{i:02} = {source}\n" for i, source in enumerate(values))
    graph = fizz.graph(spec(f"{HEAD}action Init:\n{lines}atomic action Nop:\n  pass\n"))
    came = [value for _, value in graph.states[0][0]]
    assert came == [canonical(value) for value in values.values()]
    assert came[0] == (-2, 1, 10, 100, 9) and came[3] == ((-1, None), (9, ((1, ()),)), (10, (((1, 2),), (10, 9))))


def test_no_graph_where_it_would_be_wrong(fizz, spec):
    with pytest.raises(FizzError, match="cut off after max_actions: 5"):
        fizz.graph(spec(COUNTER.replace("options:\n", "options:\n  max_actions: 5\n")), {"TOP": 9})
    with pytest.raises(FizzError, match="serial"):
        fizz.graph(spec(HEAD + "action Init:\n  n = 0\naction A:\n  n = 1\n  n = 2\n"))
    with pytest.raises(FizzError, match="one initial state"):
        fizz.graph(spec(COUNTER.replace("  n = 0\natomic action Inc", "  n = oneof [0, 1]\natomic action Inc")))
    lost = "role W:\n  action Init:\n    self.v = 0\naction Init:\n  w = W()\n  w = W()\natomic action A:\n  w.v = 1\n"
    with pytest.raises(FizzError, match="no global leads to the role W#0"):
        fizz.graph(spec(HEAD + lost))


# --- guided


def test_a_counterexample_is_followed_to_the_failure(fizz, spec):
    path, constants = spec(FILES), {"CHECK": False, "IDS": 1}
    found = fizz.check(path, constants)
    again = fizz.guided(path, constants, [name for name, _ in found.trace])
    assert (again.verdict, again.failed_assertion, again.trace) == ("FAILED", "OneWriterAnId", found.trace)
    assert again.followed == len(found.trace) - 1


@pytest.mark.parametrize("links, followed", [
    (["Writer#0.List", "Writer#0.CreateNext", "Any:body=2", "Writer#1.List"], 4),
    (["Writer#0.List", "Writer#0.List", "Writer#1.List"], 1),  # disabled; FizzBee alone: PASSED, or too far
    (["Writer#0.List", "Writer#0.List"], 1),
    (["Writer#0.List", "Writer#0.CreateNext"], 1),  # the choice is missing; FizzBee alone: PASSED
    (["Writer#0.List", "Writer#0.CreateNext", "Any:body=3"], 1),
    (["Writer#7.List"], 0),
    ([], 0),
])
def test_a_guided_trace_is_followed_as_far_as_it_goes(fizz, spec, links, followed):
    result = fizz.guided(spec(FILES), {}, links)
    assert (result.verdict, result.followed) == ("PASSED" if followed == len(links) else "STOPPED", followed)
    assert not followed or [name for name, _ in result.trace] == ["Init", *links[:followed]]


def test_every_edge_of_a_graph_can_be_asked_for(fizz, spec):
    label = ("Writer#0", "CreateNext", (("body", 2),))
    assert link_names(label) == ["Writer#0.CreateNext", "Any:body=2"]
    assert fizz.guided(spec(FILES), {}, ["Writer#0.List", *link_names(label)]).verdict == "PASSED"


def test_a_long_guided_trace_is_refused(fizz, spec):
    with pytest.raises(FizzError, match="at most 100"):
        fizz.guided(spec(COUNTER), {"TOP": 200}, ["Inc"] * 101)


# --- cache and command line


def test_cache(fizz, spec, tmp_path, monkeypatch):
    monkeypatch.setenv("HIGHWATER_CACHE", str(tmp_path / "cache"))
    path, links = spec(FILES), ["Writer#0.List", "Writer#0.CreateNext", "Any:body=1"]

    def ask():
        return (fizz.check(path, {"CHECK": False, "IDS": 1}, cache=True), fizz.graph(path, {"WRITERS": 1}, cache=True),
                fizz.guided(path, {"WRITERS": 1}, links, cache=True), fizz.guided(path, {"WRITERS": 1}, links[:1], cache=True))

    before = ask()
    with monkeypatch.context() as patch:
        patch.setattr(wrapper, "execute", lambda *_: pytest.fail("not from the cache"))
        assert ask() == before
    entries = sorted(entry for entry in (tmp_path / "cache" / "specs").iterdir() if "-parse-" not in entry.name)
    assert len(entries) == 4 and [before[i].followed for i in (2, 3)] == [3, 1]
    for entry, broken in zip(entries, (entries[0].read_bytes()[:-20], b"", b"?", b"")):
        entry.write_bytes(broken)
    after = ask()
    assert after[1] == before[1] and all(after[i].trace == before[i].trace for i in (0, 2, 3))


def test_what_is_cached_is_of_this_spec_these_constants_and_this_fizzbee(fizz, spec, tmp_path, monkeypatch):
    monkeypatch.setenv("HIGHWATER_CACHE", str(tmp_path / "cache"))
    path, constants = spec(COUNTER + "\nalways assertion Small:\n  return n < 9\n"), {"TOP": 1}
    asked = []
    monkeypatch.setattr(wrapper, "instance", lambda parsed, *_: parsed)

    def ran(command, scratch, _):
        asked.append(1)
        (scratch / "spec.json").write_text("{}")
        return "PASSED: this one did not run\n", "", 0, False

    monkeypatch.setattr(wrapper, "execute", ran)

    def runs(ask) -> bool:
        """Return whether the first call runs FizzBee; the second must not."""
        before = len(asked)
        ask()
        came = len(asked)
        ask()
        assert len(asked) == came
        return came > before

    def check(fizz=fizz, path=path, constants=constants, **options):
        return lambda: fizz.check(path, constants, cache=True, **options)

    assert runs(check()) and not runs(check())
    assert not runs(check(constants=dict(constants)))
    assert runs(check(constants={})) and runs(check(constants={"TOP": 2})) and runs(check(constants={"TOP": True}))
    assert runs(check(fizz=replace(fizz, version="0.5.5")))
    assert runs(check(only=[])) and runs(check(only=["Small"])) and runs(check(liveness=False)) and runs(check(graph=True))
    text = path.read_text()
    path.write_text(text + "# changed\n")
    assert runs(check())
    path.write_text(text)
    assert not runs(check())
    assert runs(check(path=spec(text, "Other.fizz")))
    sources = tmp_path / "sources"
    shutil.copytree(cache.SOURCES, sources, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(cache, "SOURCES", sources)
    assert not runs(check())
    modules = [*sources.glob("*.py")]
    assert len(modules) > 5
    for module in modules:  # each may decide a result
        module.write_text(module.read_text() + "# changed\n")
        assert runs(check()), module.name
    modules[0].rename(sources / "renamed.py")
    assert runs(check())


def test_by_hand(fizz, spec, capfd):
    path = str(spec(FILES))
    assert by_hand.main(["check", path, "--set", "CHECK=False", "--set", "IDS=1"]) == 1
    assert "FAILED" in (out := capfd.readouterr().out) and "OneWriterAnId" in out and "writes = [[0, 0], [0, 1]]" in out
    assert by_hand.main(["graph", path, "--set", "WRITERS=1"]) == 0
    assert f"{len(reachable(1)[0])} states" in capfd.readouterr().out
    assert by_hand.main(["check", path, "--set", "WRITER=1"]) == 3
    assert "no top-level constant WRITER" in capfd.readouterr().err


def test_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("HIGHWATER_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(FizzMissing, match=r"tools/fizzbee/build\.py"):
        Fizz.find()


def test_a_fizz_on_path_comes_first(fizz, monkeypatch, tmp_path):
    release = tmp_path / "fizzbee-v0.5.3-linux_x86"
    release.mkdir()
    (release / "fizz.env").write_text(f'PARSER_BIN="${{SCRIPT_DIR}}/parser_bin"\nFIZZBEE_BIN={fizz.checker}\n')
    for name in ("fizz", "parser_bin"):
        (release / name).write_text("#!/bin/sh\n")
        (release / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(release), prepend=":")
    assert Fizz.find() == Fizz(release / "parser_bin", fizz.checker, "0.5.3")
    said = subprocess.run([sys.executable, run.BUILD], capture_output=True, text=True)
    assert said.returncode == 0 and "version 0.5.3" in said.stdout and "warning" in said.stderr
    (release / "fizz.env").write_text('PARSER_BIN="$SCRIPT_DIR/nothing"\n')  # another program of that name
    assert Fizz.find() == fizz


# --- the wire format and the spec's text


def test_wire_format():
    data = bytes([0x08, 0x96, 0x01, 0x1A, 0x02, 0x68, 0x69, 0x29, *range(8), 0x35, 1, 2, 3, 4, 0x10, 0])
    assert list(message(data)) == [(1, 150), (3, b"hi"), (5, bytes(range(8))), (6, b"\1\2\3\4"), (2, 0)]
    with pytest.raises(FizzError):
        list(message(b"\x1a\x09hi"))


@pytest.mark.parametrize("path", sorted(runs.FOLDER.glob("*.fizz")), ids=lambda path: path.stem)
def test_an_instance_is_what_the_parser_makes_of_the_spec_with_other_constants(fizz, path, tmp_path):
    """Every constant that a run sets is set, to the value of the last run. Equal to the byte: lines and columns too."""
    text = path.read_text()
    constants = {name: value for row in runs.rows() if row.path == path
                 for name, value in (row.constants | row.deep.get("constants", {})).items()}
    parsed = fizz._parse(tmp_path, path, rewrite.with_constants(text, constants, path))
    names = {assertion.name for assertion in reader.read(text).assertions}
    assert rewrite.instance(fizz._parse(tmp_path, path, text), text, constants, names, path) == parsed
    assert {found["name"] for found in parsed["invariants"]} == names


def test_a_spec_is_parsed_once(fizz, spec, tmp_path, monkeypatch):
    monkeypatch.setenv("HIGHWATER_CACHE", str(tmp_path / "cache"))
    asked = []

    def counting(command, *arguments):
        asked.append(command[0] == str(fizz.parser))
        return run.execute(command, *arguments)

    monkeypatch.setattr(wrapper, "execute", counting)
    path = spec(COUNTER)
    assert fizz.check(path, {"TOP": 1}).states == 2 and fizz.check(path, {"TOP": 2}).states == 3 and sum(asked) == 1
    [entry] = (tmp_path / "cache" / "specs").iterdir()
    entry.write_bytes(entry.read_bytes()[:-7])
    assert fizz.check(path, {"TOP": 1}).states == 2 and sum(asked) == 2
    path.write_text(COUNTER.replace("TOP = 3", "TOP = 4"))
    assert fizz.check(path).states == 5 and sum(asked) == 3


def test_an_instance_has_only_the_assertions_that_are_named():
    invariants = [{"name": "A"}, {"name": "AB"}]
    text = "always assertion A:\n  return x\nalways assertion AB:\n  return y\n"
    assert rewrite.instance({"invariants": invariants}, text, {}, {"A"}, Path("S.fizz")) == {"invariants": [{"name": "A"}]}
    assert rewrite.instance({"invariants": invariants}, text, {}, set(), Path("S.fizz")) == {}
    assert [found.name for found in rewrite.named(["A"], text, Path("S.fizz"))] == ["A"]
    with pytest.raises(SpecError, match=r"S\.fizz: no assertion B$"):
        rewrite.named(["B"], text, Path("S.fizz"))

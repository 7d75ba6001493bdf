"""A search on disk gives the wide engine's result and path; it may be killed anywhere, and reads only committed files.

In reading order: the same as in memory; tasks run twice, late, or in pieces; Spark; killed and resumed; refusals.
"""

import json
import os
import signal
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
from typer.testing import CliRunner

from highwater.cli.main import app
from highwater.conformance.conform import model_of
from highwater.dst.campaign.stages import local_stages
from highwater.dst.spark import session as on_spark
from highwater.dst.spark.stages import spark_stages
from highwater.gate import boundary_peer as bp
from highwater.gate import exits
from highwater.model.core import Bounds, Exploration, Model, Process
from highwater.model.explore import reductions, wide
from highwater.model.explore.disk import files
from highwater.model.explore.disk import search as external
from highwater.model.explore.disk import work as external_work
from highwater.model.explore.disk.files import Refused
from highwater.model.explore.disk.search import Failed, explore, here
from highwater.specs.runs import deeper, rows

ROOT = Path(__file__).resolve().parents[2]
TINY = bp.Constants(2, 1, 1, 3)
INSTANCES = {f"BP{tuple(row[:4])}": bp.model(row) for row in (TINY, bp.S1)} | {
    name: bp.model(mutant.constants) for name, mutant in bp.MUTANTS.items() if mutant.steps <= 16} | {
    "merged": reductions.merged(bp.model(bp.S1))} | {
    row.id: model_of(deeper(row)) for row in rows() if row.id in ("plain", "no_check", "baseline_plain", "conditional_reader")}


def counter(most: int = 60, broken_at: int = -1, seen_at: int = 3) -> Model:
    """Two clients that add 1 or 2 to a number: a few states a level, all of whose parts grow."""
    def add(c: None, me: int, s: int, own: int) -> Iterator:
        for n in (1, 2):
            if s + n <= most:
                yield (n,), s + n, own + n

    return Model("counter", None, 0, tuple(Process(f"P#{i}", "P", i, 0, {"Add": add}) for i in range(2)),
                 {"Small": (None, lambda c, s: s != broken_at)}, {"Seen": (None, lambda c, s: s == seen_at)})


# --- the same as in memory

@pytest.mark.parametrize("name", INSTANCES)
def test_it_finds_what_the_wide_engine_finds(name: str, tmp_path: Path) -> None:
    """States, transitions, depth, degrees, ends, what fired, what was never witnessed; the property, and the very path."""
    expected = wide.explore(INSTANCES[name])
    for partitions in (1, 3, 7):
        assert explore(INSTANCES[name], tmp_path / str(partitions), {}, partitions=partitions) == expected


@pytest.mark.parametrize("name", [name for name, mutant in bp.MUTANTS.items() if mutant.steps > 16])
def test_mutants_die_at_the_exact_depth(name: str, tmp_path: Path) -> None:
    _, violated, steps, fused = bp.MUTANTS[name]
    whole = bp.model(bp.MUTANTS[name].constants)
    for model, length in ((whole, steps), (reductions.merged(whole), fused)):
        found = explore(model, tmp_path / str(length), {}, partitions=3)
        assert (found.violated, len(found.trace) - 1) == (violated, length)


def test_what_is_no_longer_needed_is_thrown_away(tmp_path: Path) -> None:
    """Only the levels, the runs and the pairs are left, even if states were widened on the way."""
    explore(INSTANCES["BP(2, 2, 1, 5)"], tmp_path, {}, partitions=3)
    levels = [files.level_at(tmp_path, depth) for depth in range(files.depth_of(tmp_path) + 1)]
    assert len({tuple(level.widths) for level in levels}) > 5
    needed = {part.name for level in levels for part in (level.pairs, *level.new) if part}
    needed |= {part.name for parts in levels[-1].seen for part in parts}
    last = ("expanded.", "widening.", "follow-45-", "new-46-", "unknown-46-")  # a level without new states is not committed
    others = {path.name for path in (tmp_path / "files").iterdir()} - needed
    assert not [name for name in others if not name.startswith(last)]


def test_exact_count_of_half_a_million(tmp_path: Path) -> None:
    found = explore(bp.model(bp.S2), tmp_path, {}, partitions=5)
    assert (found.states, found.transitions, found.depth) == bp.EXACT[bp.S2] and found.complete


@pytest.mark.parametrize("bounds", [Bounds(states=2_000), Bounds(depth=0), Bounds(depth=9)], ids=str)
def test_bounds_end_it_where_they_end_the_wide_engine(bounds: Bounds, tmp_path: Path) -> None:
    model = INSTANCES["BP(2, 2, 1, 5)"]
    found = explore(model, tmp_path, {}, bounds=bounds)
    assert found == wide.explore(model, bounds=bounds) and found.stopped
    assert explore(model, tmp_path, {}) == wide.explore(model), "and it goes on from there"


def test_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A partition that is larger than what a worker has in hand."""
    expected = wide.explore(INSTANCES["BP(2, 2, 1, 5)"])
    pieces: list[int] = []
    whole = external_work.slices

    def counted(arrays: list, most: int) -> Iterator[list]:
        for together in whole(arrays, most):
            pieces.append(sum(map(len, together)))
            yield together

    monkeypatch.setattr(wide, "BLOCK", 100)
    monkeypatch.setattr(external_work, "MOST", 150)
    monkeypatch.setattr(external_work, "slices", counted)
    written: list[list[int]] = []

    def noted(work: str, tasks: list[dict]) -> list[dict]:
        results = here(work, tasks)
        written.extend([part.count for part in result["files"]] for result in results if work == "expand")
        return results

    assert explore(INSTANCES["BP(2, 2, 1, 5)"], tmp_path, {}, nullcontext(noted), 2, few=0) == expected
    assert max(pieces) <= 2 * 150 and len(pieces) > 500
    assert max(map(len, written)) > 5 and max(map(max, written)) <= 1_000  # a block's successors, and those held before


def test_partitions_are_about_as_large(tmp_path: Path) -> None:
    explore(bp.model(bp.S1), tmp_path, {}, partitions=7)
    level = files.level_at(tmp_path, files.depth_of(tmp_path))
    sizes = [sum(part.count for part in parts) for parts in level.seen]
    assert sum(sizes) == 27_199 and max(sizes) < 1.3 * min(sizes)


# --- tasks done twice, late, elsewhere

def test_a_task_may_be_done_twice(tmp_path: Path) -> None:
    def twice(work: str, tasks: list[dict]) -> list[dict]:
        external_work.KEPT.clear()
        assert here(work, tasks) == here(work, tasks)
        return [external_work.do(work, task, "again") for task in tasks]

    assert explore(INSTANCES["m2"], tmp_path, {}, nullcontext(twice), 3, few=0) == wide.explore(INSTANCES["m2"])


def test_what_a_worker_of_an_earlier_run_still_writes_is_not_read(tmp_path: Path) -> None:
    model, late = INSTANCES["BP(2, 1, 1, 3)"], []

    def remembering(work: str, tasks: list[dict]) -> list[dict]:
        late[:] = [*late, *[(work, task) for task in tasks if work in ("expand", "merge")]]
        return here(work, tasks)

    explore(model, tmp_path, {}, nullcontext(remembering), 3, bounds=Bounds(depth=12), few=0)
    stale = [(work, task) for work, task in late if task["depth"] == 12]

    def disturbed(work: str, tasks: list[dict]) -> list[dict]:
        before = {path: path.read_bytes() for path in (tmp_path / "files").iterdir()}
        for what, task in stale:
            external_work.do(what, task, "late")
        assert all(path.read_bytes() == was for path, was in before.items() if f".r{task['run']}" not in path.name)
        return here(work, tasks)

    assert stale
    assert explore(model, tmp_path, {}, nullcontext(disturbed), few=0) == wide.explore(model)
    parts = [part.name for depth in range(13, files.depth_of(tmp_path) + 1) for part in files.level_at(tmp_path, depth).new]
    assert parts and all(name.endswith(".r2") for name in parts)


def test_processes_share_the_numbers_and_the_driver_has_no_states(tmp_path: Path) -> None:
    """Workers read what the driver learnt; the driver has not even the tables."""
    external_work.KEPT.clear()
    assert explore(INSTANCES["m2"], tmp_path, {}, local_stages(2), 3, few=0) == wide.explore(INSTANCES["m2"])
    assert not external_work.KEPT


def test_tables_are_of_the_folder_that_is_there_now(tmp_path: Path) -> None:
    """A worker that lives on may be given another search in a folder of the same name, at a depth that it knows."""
    explore(INSTANCES["m4"], tmp_path / "out", {}, partitions=2)
    kept = list(external_work.KEPT)
    (tmp_path / "out").rename(tmp_path / "m4")
    explore(INSTANCES["no_check"], tmp_path / "out", {}, partitions=2, bounds=Bounds(depth=kept[0].depth + 1))
    external_work.KEPT[:] = kept
    assert explore(INSTANCES["no_check"], tmp_path / "out", {}) == wide.explore(INSTANCES["no_check"])


def test_a_worker_that_is_killed_ends_it_with_a_line_and_it_goes_on(tmp_path: Path) -> None:
    @contextmanager
    def killed() -> Iterator[external.Stages]:
        with local_stages(1) as stages:
            def stage(work: str, tasks: list[dict]) -> list[dict]:
                if tasks[0]["depth"] == 5:
                    for pid in subprocess.run(["pgrep", "-P", str(os.getpid()), "-f", "spawn_main"], capture_output=True,
                                              text=True).stdout.split():
                        os.kill(int(pid), signal.SIGKILL)
                return stages(work, tasks)
            yield stage

    with pytest.raises(Failed, match="a worker was killed"):
        explore(counter(), tmp_path, {}, killed(), 2, few=0)
    assert files.depth_of(tmp_path) == 5
    assert explore(counter(), tmp_path, {}) == wide.explore(counter())


# --- Spark

@pytest.fixture(scope="module")
def spark() -> Iterator[external.Stages]:
    """The one session of this file."""
    if on_spark.load_java().find_java() is None:
        warnings.warn("SPARK IS NOT TESTED: there is no Java here", stacklevel=1)
        pytest.skip("there is no Java here")
    with spark_stages(on_spark.SessionOptions(2)) as stages:
        yield stages


def test_spark_finds_what_the_wide_engine_finds(spark: external.Stages, tmp_path: Path) -> None:
    """A counterexample, all of it by Spark; and a whole instance, its larger levels."""
    external_work.KEPT.clear()
    assert explore(INSTANCES["m4"], tmp_path / "m4", {}, nullcontext(spark), 3, few=0) == wide.explore(INSTANCES["m4"])
    assert not external_work.KEPT
    whole = INSTANCES["BP(2, 1, 1, 3)"]
    assert explore(whole, tmp_path / "whole", {}, nullcontext(spark), 2, few=50) == wide.explore(whole)


def test_what_fails_in_a_spark_worker_is_one_line(spark: external.Stages, tmp_path: Path) -> None:
    def absent(work: str, tasks: list[dict]) -> list[dict]:
        return spark(work, [task | {"folder": str(tmp_path / "elsewhere")} for task in tasks])

    with pytest.raises(Refused, match="elsewhere is not there for a worker: give --out a folder that driver and workers share"):
        explore(counter(), tmp_path / "out", {}, nullcontext(absent), 2, few=0)


# --- killed

def child(model: Model, out: Path, kill_at: int) -> int:
    """Goes on with the search in a process of its own, which kills itself at its n-th change of the folder; the signal
    that ended it, or 0."""
    pid = os.fork()
    if not pid:
        changes = iter(range(1, 10**9))

        def dying(change: Callable) -> Callable:
            def changed(*args: object, **options: object) -> object:
                at = next(changes)
                if at == kill_at and at % 2:
                    os.kill(os.getpid(), signal.SIGKILL)
                done = change(*args, **options)
                if at == kill_at:
                    os.kill(os.getpid(), signal.SIGKILL)
                return done
            return changed

        for name in ("replace", "unlink", "mkdir", "write_text"):
            setattr(Path, name, dying(getattr(Path, name)))
        try:
            explore(model, out, {}, partitions=2)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    status = os.waitpid(pid, 0)[1]
    assert not os.WIFEXITED(status) or not os.WEXITSTATUS(status)
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


def test_killed_at_any_change_of_the_folder_it_goes_on_with_the_same_counts(tmp_path: Path) -> None:
    """Kill points are one change further each time, from wherever the one before has left it: those of beginning, and of
    going on; then all of one run from its beginning, in steps."""
    model = counter(12, broken_at=11)
    expected, kills = wide.explore(model), 0
    for kill_at in range(1, 10**9):
        kills += 1
        if child(model, tmp_path / "on", kill_at) == 0:
            break
        assert depths(tmp_path / "on") == list(range(len(depths(tmp_path / "on"))))
    assert kills > 20 and explore(model, tmp_path / "on", {}) == expected
    for kill_at in range(1, 10**9, 9):
        out = tmp_path / str(kill_at)
        killed = child(model, out, kill_at)
        assert explore(model, out, {}) == expected
        if not killed:
            break
    assert kill_at > 100


def depths(out: Path) -> list[int]:
    return sorted(int(path.stem) for path in (out / "levels").glob("*.json") if path.stem.isdecimal())


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "highwater", "model", "explore", *map(str, words)]


def called(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["model", "explore", *map(str, words)])
    return result.exit_code, result.output


def test_the_command_is_killed_and_given_again(tmp_path: Path) -> None:
    """SIGKILL, wherever it is: some depths are done, the rest is not."""
    out, last = tmp_path / "out", -1
    words = ("highwater.gate.boundary_peer", "--set", "G=2", "--out", out, "--partitions", 3, "--jobs", 1)
    for more in (2, 9):
        running = subprocess.Popen(command(*words), cwd=ROOT, stdout=subprocess.DEVNULL)
        until = time.monotonic() + 120
        while not (out / "levels" / f"{last + more}.json").exists() and time.monotonic() < until:
            time.sleep(0.01)
        running.send_signal(signal.SIGKILL)
        running.wait()
        last = depths(out)[-1]
        assert 0 < last < 42
    done = subprocess.run(command(*words), cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"resumes at depth {last}" in done.stdout and "471,789 states, 1,947,144 transitions, depth 42" in done.stdout


# --- refusals

def halfway(out: Path, model: Model | None = None) -> Exploration:
    return explore(model or counter(), out, {"model": "counter"}, partitions=2, bounds=Bounds(depth=6))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-8])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


DAMAGE = {
    "new states cut": (cut, "new-6-*", "is damaged"), "new states changed": (flip, "new-6-*", "checksum differs"),
    "new states gone": (Path.unlink, "new-6-*", "is missing"), "older states gone": (Path.unlink, "new-2-*", "is missing"),
    "older states cut": (cut, "new-2-*", "is damaged"),
    "pairs changed": (flip, "pairs-3*", "checksum differs"),
    "pairs gone": (Path.unlink, "pairs-0*", "is missing"), "pairs cut": (cut, "pairs-3*", "is damaged"),
    "marker cut": (cut, "../levels/6.json", "is damaged"),
    "marker gone": (Path.unlink, "../levels/3.json", "3.json is missing"),
    "label cut": (cut, "../explore.json", "explore.json is damaged"),
    "marker empty": (lambda path: path.write_text("{}"), "../levels/4.json", "is damaged"),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_a_damaged_folder_is_refused_with_the_file_that_is(what: str, tmp_path: Path) -> None:
    damage, pattern, said = DAMAGE[what]
    halfway(tmp_path)
    path = max((tmp_path / "files").glob(pattern), key=lambda path: path.stat().st_size)
    damage(path)
    there = sorted(path.name for path in (tmp_path / "files").iterdir())
    with pytest.raises(Refused, match=said) as told:
        halfway(tmp_path)
    assert path.name in str(told.value) and "\n" not in str(told.value)
    assert sorted(path.name for path in (tmp_path / "files").iterdir()) == there, "nothing is thrown away"


def test_runs_of_what_was_seen_are_checked(tmp_path: Path) -> None:
    explore(bp.model(TINY), tmp_path, {}, partitions=1)
    flip(max((tmp_path / "files").glob("seen-*"), key=lambda path: path.stat().st_size))
    with pytest.raises(Refused, match="seen-.* is damaged"):
        explore(bp.model(TINY), tmp_path, {})


def test_another_searchs_folder_is_refused(tmp_path: Path) -> None:
    halfway(tmp_path / "out")
    before = sorted((path, path.read_bytes()) for path in (tmp_path / "out").rglob("*") if path.is_file())
    with pytest.raises(Refused, match="holds another exploration \\(model counter, not x\\)"):
        explore(counter(), tmp_path / "out", {"model": "x"})
    with pytest.raises(Refused, match="has 2 partitions, not 3"):
        explore(counter(), tmp_path / "out", {"model": "counter"}, partitions=3)
    with pytest.raises(Refused, match="is not empty, and no exploration's folder"):
        explore(counter(), tmp_path, {"model": "counter"})
    with pytest.raises(Refused, match="is not a folder"):
        explore(counter(), tmp_path / "out" / ".lock", {"model": "counter"})
    assert sorted((path, path.read_bytes()) for path in (tmp_path / "out").rglob("*") if path.is_file()) == before
    label = json.loads((tmp_path / "out" / "explore.json").read_text())
    (tmp_path / "out" / "explore.json").write_text(json.dumps(label | {"version": 0}))
    with pytest.raises(Refused, match="is of version 0, and this program reads"):
        halfway(tmp_path / "out")


def test_a_model_that_was_edited_is_noticed(tmp_path: Path) -> None:
    halfway(tmp_path)
    with pytest.raises(Refused, match="of a model that had other moves"):
        halfway(tmp_path, counter(3))
    with pytest.raises(Refused, match="of a model whose properties were others"):
        halfway(tmp_path, counter(broken_at=4))


def test_two_at_once_are_refused(tmp_path: Path) -> None:
    def also(work: str, tasks: list[dict]) -> list[dict]:
        with pytest.raises(Refused, match="another exploration is running in"):
            halfway(tmp_path)
        return here(work, tasks)

    explore(counter(), tmp_path, {"model": "counter"}, nullcontext(also), 2, bounds=Bounds(depth=2), few=0)


def test_a_full_disk_ends_it_with_a_line_and_loses_nothing(tmp_path: Path) -> None:
    """No file may be longer than 64 kB: what a disk says that is full."""
    words = ("highwater.gate.boundary_peer", "--set", "G=2", "--out", tmp_path / "out", "--partitions", 1, "--jobs", 1)
    program = ("import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536)); "
               "from highwater.cli.main import main; main()")
    done = subprocess.run([sys.executable, "-c", program, *command(*words)[3:]], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == exits.HARNESS, done.stderr
    said = done.stdout.strip().splitlines()[-1]
    assert "File too large" in said and "Finished depths are kept" in said and "the same command resumes" in said
    assert not [path for path in (tmp_path / "out" / "files").iterdir() if path.name.startswith(".")], "half a file is no use"
    reached = depths(tmp_path / "out")[-1]
    code, output = called(*words)
    assert reached > 10 and code == 0 and f"resumes at depth {reached}" in output and "471,789 states" in output


def test_the_command_says_what_the_local_one_says(tmp_path: Path) -> None:
    for settings in ((), ("--set", "CHECK=off"), ("--merge",), ("--max-depth", "7")):
        (code, on_disk), (local, in_memory) = called("--out", tmp_path / "_".join(settings), *settings), called(*settings)
        assert code == local
        assert [line.rpartition(", ")[0] or line for line in on_disk.splitlines()][:3] == [
            line.rpartition(", ")[0] or line for line in in_memory.splitlines()][:3]


@pytest.mark.parametrize(("words", "said"), [
    ("--spark --symmetry", "--symmetry is for a search in memory"), ("--spark --engine wide", "--engine is for a search"),
    ("--out x --order depth", "--order depth is for a search in memory"), ("--out x --max-memory-mb 9", "--max-memory-mb is"),
    ("--spark --eventually UpdatesEnd", "--eventually is for"), ("--master local[1]", "--master is for Spark: add --spark"),
    ("--out x --master local[1]", "--master is for Spark"), ("--partitions 3", "--partitions is for a search on disk"),
    ("--jobs 3", "--jobs is for a search on disk"), ("--spark --master spark://x:1", "give --out DIR, a folder that"),
])
def test_options_that_say_nothing_are_refused(words: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, output = called(*words.split())
    assert (code, said in output) == (exits.BAD_INPUT, True) and not list(tmp_path.iterdir())


def test_without_java_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java = on_spark.load_java()
    monkeypatch.setattr(java, "find_java", lambda: None)
    monkeypatch.setattr(on_spark, "load_java", lambda: java)
    code, output = called("--spark", "--out", tmp_path / "out")
    assert code == exits.INCOMPLETE and java.MISSING.splitlines()[0] in output
    assert called("--out", tmp_path / "out")[0] == 0


def test_the_local_way_needs_no_spark(tmp_path: Path) -> None:
    program = ("import sys; from highwater.cli.main import app; app(sys.argv[1:], standalone_mode=False); "
               "sys.exit('pyspark' in sys.modules)")
    assert subprocess.run([sys.executable, "-c", program, "model", "explore", "--out", str(tmp_path / "out")],
                          cwd=ROOT, capture_output=True).returncode == 0

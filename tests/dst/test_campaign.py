"""Campaigns: every seed has one row, equal on every engine; half-done work is never taken for done; a failure is reported.

In reading order: one range; the engines agree; a stopped campaign resumes; refusals; the summary and the exit code; Java.
"""

import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from highwater.cli.campaign.app import app
from highwater.cli.main import app as whole
from highwater.dst.campaign import folder, processes, summary, waves
from highwater.dst.campaign import rows as ranges
from highwater.dst.campaign.folder import Asked
from highwater.dst.campaign.intervals import EACH, interval
from highwater.dst.campaign.place import Folder, Part
from highwater.dst.campaign.what import Campaign, CampaignError, NoSpark, Seeds, Work, campaign_of, replay_of
from highwater.dst.run_spec import Run, RunSpec
from highwater.dst.scenarios import sequenced_metadata_boundary as scenario
from highwater.dst.scenarios.sequenced_metadata_boundary import Shape, trace_of
from highwater.dst.search import reached
from highwater.dst.simulate import Outcome, simulate
from highwater.dst.spark import session, shipping, tasks
from highwater.dst.spark.engine import spark_engine, task_of
from highwater.dst.spark.session import load_java
from highwater.dst.version import CODE, code_version
from highwater.dst.zoo import build_of
from highwater.gate import exits
from highwater.model.protocols.sequenced_metadata_boundary import model
from highwater.traces.event import EMPTY, Event
from highwater.traces.explain.explain import replay
from tests.support.projects import below

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "highwater"
SCENARIO = "sequenced_metadata_boundary"
BIT = reached.bits()
PRODUCTION, MUTANT = campaign_of(SCENARIO), campaign_of(SCENARIO, "no_check")


def comparable(table: pa.Table) -> list[dict]:
    return table.drop_columns(["cpu_us"]).sort_by("seed").to_pylist()


def rows(out: Path, seeds: Seeds) -> list[dict]:
    return comparable(folder.read(out, seeds, ranges.SCHEMA.names))


def summary_of(campaign: Campaign, seeds: Seeds, out: Path, start: "Start", jobs: int, size: int = 0, limit_s: float = 60
               ) -> dict:
    return waves.run(campaign, Asked(seeds, 0, size, limit_s), Folder(out), start, jobs).summary


def cli(*words: object) -> list[str]:
    return [sys.executable, "-m", "highwater", "campaign", "run", "--scenario", SCENARIO, *map(str, words)]


def called(*words: object) -> tuple[int, str]:
    """Exit code and output of the command, run in this process."""
    result = CliRunner().invoke(app, ["run", *map(str, words)])
    return result.exit_code, result.output


Start = Callable[[], AbstractContextManager[waves.Engine]]


@pytest.fixture(scope="module")
def local() -> Iterator[Start]:
    """The one pool of this file."""
    with processes.local_engine(2) as engine:
        yield lambda: nullcontext(engine)


@pytest.fixture
def pooled(local: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command uses this file's pool, whose processes run already. Commands of other tests start their own."""
    monkeypatch.setattr(processes, "local_engine", lambda jobs: local())


@pytest.fixture(scope="module")
def spark() -> Iterator[Start]:
    """The one session of this file."""
    if load_java().find_java() is None:
        warnings.warn("SPARK IS NOT TESTED: there is no Java here", stacklevel=1)
        pytest.skip("there is no Java here")
    with spark_engine(session.SessionOptions(2)) as engine:
        yield lambda: nullcontext(engine)


@pytest.fixture(scope="module")
def expected() -> list[dict]:
    """Rows of the seeds 0 to 119, without any engine."""
    return comparable(ranges.run_range(Work(PRODUCTION, 60), (0, 120)))


# --- one range


def test_a_row_tells_what_simulate_found() -> None:
    build = build_of("no_check")
    for row in ranges.run_range(Work(MUTANT, 60), (7, 10)).to_pylist():
        outcome = simulate(Run(row["seed"]), build)
        assert (row["scenario"], row["mutant"], row["cpu_us"] > 0) == (SCENARIO, "no_check", True)
        assert json.loads(row["shape"]) == outcome.shape._asdict()
        for name in ("kind", "signature", "message", "digest", "requests", "virtual_ms"):
            assert row[name] == getattr(outcome, name)


def test_hang_and_exception_are_rows_and_the_others_are_as_ever(monkeypatch: pytest.MonkeyPatch, expected: list[dict]) -> None:
    whole = ranges.simulate

    def faulty(run: Run, **options: Any) -> Outcome:
        if run.seed == 2:
            while True:
                pass
        if run.seed in (4, 9):
            raise KeyError("of the harness")
        return whole(run, **options)

    monkeypatch.setattr(ranges, "simulate", faulty)
    found = comparable(ranges.run_range(Work(PRODUCTION, 2), (0, 10)))
    kinds = {row["seed"]: (row["kind"], row["signature"], row["digest"]) for row in found if row["kind"]}
    let_out = ("harness", "harness:KeyError", "")
    assert kinds == {2: ("timeout", "timeout", ""), 4: let_out, 9: let_out}
    assert "test_campaign.py:" in found[4]["message"]
    assert [row for row in found if not row["kind"]] == [row for row in expected[:10] if row["seed"] not in kinds]
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0 and signal.getsignal(signal.SIGALRM) is signal.SIG_DFL


def test_the_code_version_covers_all_that_a_run_imports() -> None:
    """Otherwise rows of different code could stand in one folder."""
    program = ("import sys, highwater.dst.campaign.processes; "
               "print(*(getattr(m, '__file__', '') for m in list(sys.modules.values())), sep='\\n')")
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    files = done.stdout.split("\n")
    ours = {Path(file) for file in files if Path(file).is_relative_to(PACKAGE)} - {PACKAGE / "__init__.py"}
    assert len(ours) > 15
    assert ours <= {path for pattern in CODE for path in PACKAGE.glob(pattern)}
    assert not [file for file in files if "pyspark" in file]  # only its engine needs it


def test_workers_with_other_code_are_refused() -> None:
    with pytest.raises(CampaignError, match="code has changed"):
        ranges.run_range(Work(PRODUCTION._replace(code="0"), 60), (0, 1))


# --- the engines agree


@pytest.mark.parametrize("size", [13, 120])
def test_local_rows_for_any_cut(local: Start, expected: list[dict], tmp_path: Path, size: int) -> None:
    summary_of(PRODUCTION, (0, 120), tmp_path, local, 2, size)
    assert rows(tmp_path, (0, 120)) == expected


@pytest.mark.parametrize("size", [13, 120])
def test_spark_rows_for_any_cut(spark: Start, expected: list[dict], tmp_path: Path, size: int) -> None:
    out = tmp_path / "a b%20 é[0]"
    summary_of(PRODUCTION, (0, 120), out, spark, 2, size)
    assert rows(out, (0, 120)) == expected


def test_spark_reads_all_rows_from_the_folder_of_either_engine(spark: Start, local: Start, tmp_path: Path) -> None:
    summary_of(MUTANT, (0, 10), tmp_path, local, 2)
    summary_of(MUTANT, (0, 20), tmp_path, spark, 2)
    from pyspark.sql import SparkSession

    frame = SparkSession.getActiveSession().read.parquet(str(tmp_path / "rows")).drop("wave")
    assert [(field.name, field.dataType.simpleString()) for field in frame.schema] == \
        [(field.name, ranges.SQL_TYPES[field.type]) for field in ranges.SCHEMA]
    assert sorted(row.seed for row in frame.collect()) == list(range(20))


def test_both_engines_time_out_a_seed(spark: Start, local: Start, tmp_path: Path) -> None:
    summaries = [summary_of(PRODUCTION, (0, 6), tmp_path / name, engine, 2, limit_s=0.0001)
                 for name, engine in (("spark", spark), ("local", local))]
    assert summaries[0] == summaries[1]
    assert [(f["kind"], f["count"], f["smallest_seed"]) for f in summaries[0]["failures"]] == [("timeout", 6, 0)]


def test_rows_and_summary_are_the_same_under_another_hash_seed(local: Start, expected: list[dict], tmp_path: Path) -> None:
    subprocess.run(cli("--seeds", "0:60", "--out", tmp_path / "a", "--engine", "local", "--jobs", 1), cwd=ROOT, check=True,
                   env=os.environ | {"PYTHONHASHSEED": "4321"}, capture_output=True)
    summary_of(PRODUCTION, (0, 60), tmp_path / "b", local, 2)
    assert rows(tmp_path / "a", (0, 120)) == rows(tmp_path / "b", (0, 120)) == expected[:60]
    assert (tmp_path / "a" / "summary.json").read_bytes() == (tmp_path / "b" / "summary.json").read_bytes()


# --- a stopped campaign resumes


def test_only_missing_ranges_run(local: Start, expected: list[dict], tmp_path: Path) -> None:
    ran: list[Seeds] = []

    def spy(work: Work, ranges: list[Seeds], *rest: object) -> None:
        ran.extend(ranges)
        with local() as engine:
            engine(work, ranges, *rest)

    summary_of(PRODUCTION, (20, 60), tmp_path, lambda: nullcontext(spy), 2, 10)
    (tmp_path / "rows" / "wave=0" / "40-50.parquet").unlink()
    (tmp_path / ".writing").mkdir()
    (tmp_path / ".writing" / "0-20.parquet").write_bytes(b"half of a fil")
    ran.clear()
    summary = summary_of(PRODUCTION, (0, 70), tmp_path, lambda: nullcontext(spy), 2, 20)
    assert ran == [(0, 20), (40, 50), (60, 70)]
    assert rows(tmp_path, (0, 70)) == expected[:70]
    ran.clear()
    assert summary_of(PRODUCTION, (0, 70), tmp_path, lambda: nullcontext(spy), 2) == summary
    assert ran == []


def test_a_killed_campaign_goes_on(tmp_path: Path, local: Start) -> None:
    seeds, out = (0, 1500), tmp_path / "out"
    options = ("--out", out, "--engine", "local", "--mutant", "no_check")
    running = subprocess.Popen(cli("--seeds", "0:20000", "--jobs", 2, "--range-size", 10, *options), cwd=ROOT,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: (out / "rows" / "wave=0").exists())
    busy = called("--scenario", SCENARIO, "--seeds", "0:10", *options)
    workers = below(running.pid)
    running.send_signal(signal.SIGKILL)
    running.wait()
    assert busy[0] == exits.BAD_INPUT and "another campaign is running" in busy[1]
    assert len(workers) >= 5  # the verb, two workers, and the processes of their seeds
    wait_until(lambda: not any(Path("/proc", str(pid)).exists() for pid in workers))

    done = rows(out, seeds)
    assert 200 <= len(done) < 1500 and not (out / "summary.json").exists()
    summary_of(MUTANT, seeds, out, local, 2)
    assert rows(out, seeds) == comparable(ranges.run_range(Work(MUTANT, 60), seeds))
    assert json.loads((out / "summary.json").read_text())["in_other_processes"] == [0, 500, 1000]


@pytest.mark.parametrize("size", [0, 300])
def test_waves_take_a_minute_and_cover_every_seed_once(size: int) -> None:
    cut, found, waves_s, sizes = waves.Cut([(0, 7), (10, 900_000)], lambda: 2, size), [], [], []
    while wave := cut.wave():
        found += wave
        seeds = sum(hi - lo for lo, hi in wave)
        waves_s.append(seeds / 2_000)  # 1,000 a second and slot
        sizes.append(max(hi - lo for lo, hi in wave))
        cut.took(seeds, waves_s[-1])
    assert waves_s[0] <= 0.3 and max(sizes) == (size or 1_000 * waves.TASK_S)
    assert len(waves_s) < 14 and all(0.9 < each / waves.WAVE_S < 1.1 for each in waves_s[3:-1])
    assert [seed for lo, hi in found for seed in range(lo, hi)] == [*range(7), *range(10, 900_000)]


def test_slow_seeds_and_many_slots_make_waves_of_a_minute() -> None:
    """A seed takes 2 s, and the number of slots changes from wave to wave."""
    slots = iter([2, 1_000, 1_000, 10])
    cut = waves.Cut([(0, 10**6)], lambda: next(slots))
    for wanted in (200, 3_200, 30_000, 300):
        wave = cut.wave()
        assert sum(hi - lo for lo, hi in wave) == wanted and len(wave) >= min(wanted, 4 * cut.used)
        cut.took(wanted, wanted * 2 / cut.used)


def test_a_wave_has_a_bound_of_ranges() -> None:
    cut = waves.Cut([(0, 10**12)], lambda: 10_000)
    for _ in range(12):
        wave = cut.wave()
        assert len(wave) <= waves.MOST_RANGES and max(hi - lo for lo, hi in wave) <= waves.MOST_SEEDS
        cut.took(sum(hi - lo for lo, hi in wave), 1)
    assert len(wave) == waves.MOST_RANGES


def test_rows_do_not_depend_on_the_number_of_slots(local: Start, expected: list[dict], tmp_path: Path) -> None:
    for slots in (1, 7, 500):
        waves.run(PRODUCTION, Asked((0, 60)), Folder(tmp_path / str(slots)), local, slots)
        assert rows(tmp_path / str(slots), (0, 60)) == expected[:60]


def wait_until(true: object, longest_s: float = 120) -> None:
    began = time.monotonic()
    while not true():
        assert time.monotonic() - began < longest_s
        time.sleep(0.005)


def test_a_wave_that_fails_leaves_nothing_and_is_never_green(tmp_path: Path) -> None:
    def dies(work: Work, ranges: list[Seeds], folder: Path, progress: waves.Progress) -> list[Part]:
        processes.write_range(work, ranges[0], folder)
        raise CampaignError("a worker failed")

    with pytest.raises(CampaignError, match="a worker failed"):
        summary_of(PRODUCTION, (0, 4), tmp_path, lambda: nullcontext(dies), 1)
    assert rows(tmp_path, (0, 4)) == [] and not (tmp_path / "summary.json").exists()


def test_the_summary_is_the_same_however_many_rows_are_read_at_once(local: Start, tmp_path: Path,
                                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    whole = summary_of(MUTANT, (3, 120), tmp_path, local, 2)
    monkeypatch.setattr(summary, "PIECE", 7)
    assert summary.summarize(MUTANT, (3, 120), tmp_path) == whole
    assert whole["failures"] and whole["reached"] and whole["model_states"]


def nothing() -> AbstractContextManager[waves.Engine]:
    return nullcontext(lambda *_: [])


def test_rows_that_are_missing_or_twice_there_are_never_green(tmp_path: Path) -> None:
    with pytest.raises(CampaignError, match="each should have one"):
        summary_of(PRODUCTION, (0, 4), tmp_path, nothing, 1)
    (tmp_path / "rows" / "wave=0").rmdir()
    for name in ("a", "b"):
        (tmp_path / "rows" / name).mkdir()
        pq.write_table(ranges.run_range(Work(PRODUCTION, 60), (0, 4)), tmp_path / "rows" / name / "0-4.parquet")
    with pytest.raises(CampaignError, match="8 rows for 4 seeds"):
        summary_of(PRODUCTION, (0, 4), tmp_path, nothing, 1)
    (tmp_path / "rows" / "b" / "0-4.parquet").write_bytes(b"PAR1 and then no more")
    with pytest.raises(CampaignError, match="cannot be read"):
        summary_of(PRODUCTION, (0, 4), tmp_path, nothing, 1)


def test_a_full_disk_ends_it_with_a_line_and_loses_nothing(local: Start, expected: list[dict], tmp_path: Path) -> None:
    """No file may be longer than 8 kB: what a disk says that is full."""
    summary_of(PRODUCTION, (0, 40), tmp_path, local, 2, 20)
    program = ("import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192)); "
               "from highwater.cli.main import main; main()")
    words = ["campaign", "run", "--scenario", SCENARIO, "--seeds", "0:120", "--out", str(tmp_path), "--engine", "local"]
    done = subprocess.run([sys.executable, "-c", program, *words], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == exits.HARNESS and "Traceback" not in done.stderr
    assert re.fullmatch(r"no project, .*\nThe campaign failed; finished waves are kept: .*File too large.*\n", done.stderr)
    assert rows(tmp_path, (0, 120)) == expected[:40]
    summary_of(PRODUCTION, (0, 120), tmp_path, local, 2)
    assert rows(tmp_path, (0, 120)) == expected


@pytest.mark.parametrize("damage", ["cut short", "changed"])
@pytest.mark.parametrize("verb", ["resume", "status", "triage"])
def test_a_damaged_file_is_named(verb: str, damage: str, local: Start, tmp_path: Path) -> None:
    summary_of(PRODUCTION, (0, 40), tmp_path, local, 2, 20)
    file = tmp_path / "rows" / "wave=0" / "20-40.parquet"
    whole = file.read_bytes()
    half = len(whole) // 2
    file.write_bytes(whole[:-100] if damage == "cut short" else whole[:4] + bytes(half) + whole[4 + half:])
    result = CliRunner().invoke(app, [verb, str(tmp_path), *(["--engine", "local"] if verb == "resume" else [])])
    assert result.exit_code == exits.HARNESS and str(file) in result.output and "delete it" in result.output
    file.unlink()
    assert summary_of(PRODUCTION, (0, 40), tmp_path, local, 2)["runs"] == 40


def test_workers_that_have_other_code_run_what_is_sent(spark: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "highwater"
    for path in (path for pattern in ("__init__.py", *CODE) for path in PACKAGE.glob(pattern)):
        (other / path.relative_to(PACKAGE)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, other / path.relative_to(PACKAGE))
    changed = other / "dst" / "campaign" / "rows.py"
    changed.write_text(changed.read_text().replace("outcome.requests, outcome.steps", "outcome.requests + 5000, outcome.steps"))
    say = "import highwater.dst.version; print(highwater.dst.version.code_version())"
    code = subprocess.run([sys.executable, "-c", say], cwd=tmp_path, capture_output=True, text=True, check=True,
                          env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"}).stdout.strip()
    assert code != code_version()
    monkeypatch.setattr(shipping, "ROOT", other)
    packed = shipping.sources()
    monkeypatch.setattr(shipping, "ROOT", tmp_path / "not here" / "highwater")
    monkeypatch.setattr(shipping, "sources", lambda: packed)
    summary_of(PRODUCTION._replace(code=code), (0, 20), tmp_path / "out", spark, 2)
    assert all(row["requests"] > 5000 for row in rows(tmp_path / "out", (0, 20)))


# --- what is fixed of a run


def test_shape_faults_and_profile_are_those_that_were_asked_for() -> None:
    campaign = campaign_of(SCENARIO, "no_check", profile="gcs", shape="writers=3 commits=2", faults="stall=300")
    for row in ranges.run_range(Work(campaign, 60), (0, 8)).to_pylist():
        shape = json.loads(row["shape"])
        assert (shape["writers"], shape["commits"], shape["store"], row["profile"]) == (3, 2, "gcs", "gcs")
        assert row["swarm"] == [("stall", 300)]
        said = CliRunner().invoke(whole, replay_of(campaign, row["seed"]).split()[1:])
        assert row["digest"] in said.output


# --- a run that takes its process along; stopping early; how far it is

def test_where_a_worker_of_the_pool_died_its_ranges_are_run_again(expected: list[dict], tmp_path: Path) -> None:
    with processes.local_engine(2) as engine:
        def kill_one(*_: object) -> None:
            for pid in subprocess.run(["ps", "-o", "pid=", "--ppid", str(os.getpid())], capture_output=True,
                                      text=True).stdout.split():
                if b"spawn_main" in Path("/proc", pid, "cmdline").read_bytes():
                    os.kill(int(pid), signal.SIGKILL)
                    break

        def spied(work: Work, cut: list[Seeds], out: Path, progress: waves.Progress) -> list[Part]:
            killed: list[int] = []
            return engine(work, cut, out, lambda done: killed or kill_one(killed.append(done)))

        summary_of(PRODUCTION, (0, 60), tmp_path, lambda: nullcontext(spied), 2, 12)
    assert rows(tmp_path, (0, 60)) == expected[:60]


def python_workers(of: int) -> list[int]:
    """Spark's, of this driver: what its daemon has forked."""
    table = [line.split(None, 2) for line in subprocess.run(["ps", "-eo", "pid=,ppid=,args="], capture_output=True,
                                                              text=True).stdout.splitlines()]
    parents, ours = {int(pid): int(parent) for pid, parent, _ in table}, set()
    daemons = {int(pid) for pid, _, words in table if "pyspark.daemon" in words}
    for pid in daemons & {pid for pid in daemons if parents[pid] in daemons}:
        above = pid
        while above in parents and above != of:
            above = parents[above]
        if above == of:
            ours.add(pid)
    return sorted(ours)


def test_where_a_worker_of_spark_was_killed_its_range_is_run_again(spark: Start, expected: list[dict], tmp_path: Path) -> None:
    killed: list[int] = []

    def kill_one(*_: object) -> None:
        for pid in [] if killed else python_workers(os.getpid())[:1]:
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)

    waves.run(PRODUCTION, Asked((0, 120), 0, 10), Folder(tmp_path), spark, 2, told=kill_one)
    assert killed and rows(tmp_path, (0, 120)) == expected


def test_a_campaign_on_spark_whose_driver_was_killed_goes_on(spark: Start, tmp_path: Path) -> None:
    out = tmp_path / "out"
    running = subprocess.Popen(cli("--seeds", "0:20000", "--jobs", 2, "--range-size", 10, "--out", out, "--mutant", "no_check",
                                   "--engine", "spark"),
                               cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: (out / "rows" / "wave=0").exists(), 180)
    running.send_signal(signal.SIGKILL)
    running.wait()
    done = rows(out, (0, 20_000))
    assert 200 <= len(done) < 20_000 and not (out / "summary.json").exists()
    waves.run(MUTANT, Asked((0, 300)), Folder(out), spark, 2)
    assert rows(out, (0, 300)) == comparable(ranges.run_range(Work(MUTANT, 60), (0, 300)))


@pytest.mark.parametrize("master, given", [("local", "local[1,2]"), ("local[2]", "local[2,2]"), ("local[*]", "local[*,2]"),
                                           ("local[2,5]", "local[2,5]"), ("yarn", "yarn")])
def test_local_masters_retry_a_task(master: str, given: str) -> None:
    assert session.with_attempts(master) == given


@pytest.mark.parametrize("does, said", [
    ("echo 3.8", f"run Python 3.8 (PYSPARK_PYTHON=PYTHON), and this is Python {session.HERE}: set PYSPARK_PYTHON to a Python"),
    ("exit 3", "run Python of an unknown version (PYSPARK_PYTHON=PYTHON)"), ("", "PYSPARK_PYTHON=PYTHON cannot run (No such")])
def test_another_python_is_one_line(does: str, said: str, tmp_path: Path) -> None:
    python = tmp_path / "python"
    if does:
        python.write_text(f"#!/bin/sh\n{does}\n")
        python.chmod(0o755)
    with pytest.raises(NoSpark) as error:
        session.check_python(str(python), "PYSPARK_PYTHON")
    assert said.replace("PYTHON)", f"{python})").replace("=PYTHON cannot", f"={python} cannot") in str(error.value)
    assert "\n" not in str(error.value)
    session.check_python(sys.executable, "PYSPARK_PYTHON")


@pytest.mark.parametrize("text, kind, said", [
    ("PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.8 than that in driver: 3.11",
     NoSpark, "Spark's workers run Python 3.8, and this is Python"),
    ('java.io.IOException: Cannot run program "/a/python": error=2', NoSpark, "Spark's workers have no /a/python: set"),
    ("PermissionError: /tmp/highwater-0 is a link, and", CampaignError, "Spark: /tmp/highwater-0 is a link, and"),
    ("highwater.project.ProjectError: a.impl cannot be imported", CampaignError, "Spark: a.impl cannot"),
    ("ModuleNotFoundError: No module named 'pyarrow'", CampaignError, "a worker's Python lacks what is needed: No module"),
])
def test_failed_job_of_known_cause_is_one_line(text: str, kind: type, said: str) -> None:
    error = tasks.failure(RuntimeError(f"Job aborted.\n\tat org.apache\n{text}\n\n\tat java"))
    assert type(error) is kind and said in str(error) and "\n" not in str(error)


def test_worker_without_the_folder_is_reported(tmp_path: Path) -> None:
    run = task_of(Work(PRODUCTION, 60), [(0, 1)], tmp_path / "nowhere" / ".writing")
    with pytest.raises(CampaignError, match=f"does not see {tmp_path / 'nowhere'}: give a folder that this machine and all"):
        next(run([]))


def test_a_connect_server_that_is_not_there_is_told_at_once(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for master in (f"sc://127.0.0.1:{port}", f"sc://127.0.0.1:{port}/;user_id=me", "sc://127.0.0.1:port"):
        code, output = called("--scenario", SCENARIO, "--seeds", "0:1", "--out", tmp_path / "out", "--master", master)
        assert code == exits.INCOMPLETE and output.startswith(f"{master}: ") and output.count("\n") == 1


@pytest.mark.skipif(load_java().find_java() is None, reason="no Java")
def test_where_java_was_killed_a_line_says_so_and_the_campaign_goes_on(local: Start, tmp_path: Path) -> None:
    out = tmp_path / "out"
    running = subprocess.Popen(cli("--seeds", "0:3000", "--jobs", 2, "--range-size", 10, "--out", out, "--mutant", "no_check",
                                   "--engine", "spark"),
                               cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: (out / "rows" / "wave=0").exists(), 180)
    java, = (pid for pid in below(running.pid) if Path(f"/proc/{pid}/comm").read_text() == "java\n")
    os.kill(java, signal.SIGKILL)
    line = running.communicate(timeout=180)[1].strip().splitlines()
    assert running.returncode == exits.HARNESS
    assert any(f"resume with `highwater campaign resume {out}`. Spark: its Java process has ended" in of for of in line)
    waves.run(MUTANT, Asked((0, 300)), Folder(out), local, 2)
    assert rows(out, (0, 300)) == comparable(ranges.run_range(Work(MUTANT, 60), (0, 300)))


def test_memory_that_is_used_up_is_a_row(monkeypatch: pytest.MonkeyPatch, expected: list[dict]) -> None:
    whole, kept = ranges.simulate, []

    def greedy(run: Run, **options: Any) -> Outcome:
        if run.seed == 3:
            kept.append(bytearray(64 << 30))
        return whole(run, **options)

    monkeypatch.setattr(ranges, "simulate", greedy)
    found = comparable(ranges.run_range(Work(PRODUCTION, 60), (0, 6)))
    assert [(row["kind"], row["signature"]) for row in found] == [("", "")] * 3 + [("memory", "memory")] + [("", "")] * 2
    assert [found[i] for i in (0, 1, 2, 4, 5)] == [expected[i] for i in (0, 1, 2, 4, 5)]


@pytest.mark.parametrize("size", [3, 40])
def test_it_stops_after_so_many_failures_and_tells_of_the_smallest(local: Start, tmp_path: Path, size: int) -> None:
    failing = [row["seed"] for row in comparable(ranges.run_range(Work(MUTANT, 60), (0, 200))) if row["kind"]]
    done = waves.run(MUTANT, Asked((0, 200), 3, size), Folder(tmp_path), local, 2)
    assert done.summary["failed"] == 3 and done.summary["seeds"] == f"0:{failing[2] + 1}"
    assert done.summary["runs"] == failing[2] + 1 and done.left == 0
    assert waves.run(MUTANT, Asked((0, 200), 3, size), Folder(tmp_path), nothing, 2) == done  # nothing is run
    assert waves.run(MUTANT, Asked((0, 200)), Folder(tmp_path), local, 2).summary["failed"] == len(failing)


@pytest.mark.usefixtures("pooled")
def test_the_time_is_used_up_and_resume_goes_on(tmp_path: Path, expected: list[dict]) -> None:
    options = ("--scenario", SCENARIO, "--seeds", "0:120", "--out", tmp_path, "--engine", "local", "--jobs", 1)
    code, output = called(*options, "--range-size", 5, "--budget-s", 0.001)
    assert code == exits.INCOMPLETE and "70 seeds are left" in output and "campaign resume" in output
    asked = CliRunner().invoke(app, ["status", str(tmp_path)])
    assert asked.exit_code == 0 and "stopped; 50 have rows, 70 are left; 0 failed" in asked.output
    resumed = CliRunner().invoke(app, ["resume", str(tmp_path), "--engine", "local"])
    assert resumed.exit_code == 0 and "120 runs" in resumed.output
    assert rows(tmp_path, (0, 120)) == expected
    found = json.loads(CliRunner().invoke(app, ["status", str(tmp_path), "--json"]).output)
    assert (found["done"], found["left"], found["failed"], found["running"]) == (120, 0, 0, False)


def test_a_place_where_no_folder_can_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, output = called("--scenario", SCENARIO, "--seeds", "0:1", "--out", tmp_path / "file" / "out", "--engine", "local")
    assert code == exits.BAD_INPUT and "cannot be made a folder" in output and "\n" not in output.strip()


@pytest.mark.parametrize("verb", ["resume", "status"])
def test_what_is_no_campaigns_folder_cannot_go_on(tmp_path: Path, verb: str) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "campaign.json").write_text('{"version": 1}')
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut" / "campaign.json").write_text('{"version": 3, "scen')
    for name, says in (("nowhere", "no such folder"), ("", "no campaign.json"), ("old", "is of version 1"),
                       ("cut", "is damaged")):
        result = CliRunner().invoke(app, [verb, str(tmp_path / name)])
        assert result.exit_code == exits.BAD_INPUT and says in result.output and result.output.count("\n") == 1
    result = CliRunner().invoke(app, [verb, str(tmp_path)])
    assert f"give one of those in it: {tmp_path / 'cut'}, {tmp_path / 'old'}" in result.output
    assert not (tmp_path / "nowhere").exists()


def test_strategy_and_profile_are_the_campaigns_own(tmp_path: Path, local: Start) -> None:
    campaign = campaign_of(SCENARIO, "", "random", "gcs")
    summary_of(campaign, (0, 20), tmp_path, local, 2)
    found = rows(tmp_path, (0, 20))
    assert {(row["strategy"], row["profile"]) for row in found} == {("random", "gcs")}
    said = CliRunner().invoke(whole, replay_of(campaign, 7).split()[1:])
    assert said.exit_code == 0 and found[7]["digest"] in said.output
    code, output = called("--seeds", "0:20", "--out", tmp_path, "--engine", "local")
    assert code == exits.BAD_INPUT and "strategy 'random', not 'portfolio'" in output


@given(days=st.lists(st.dates(date(1970, 1, 1)), min_size=2, max_size=2, unique=True),
       commits=st.lists(st.integers(0, 16 ** 7 - 1), min_size=2, max_size=2, unique=True), count=st.integers(1, EACH))
def test_days_and_commits_have_seeds_of_their_own(days: list[date], commits: list[int], count: int) -> None:
    found = sorted(interval(f"{count}@{of}") for of in (*days, *(f"{of:07x}89abcdef" for of in commits)))
    assert all(high - low == count for low, high in found)
    assert all(high <= low for (_, high), (low, _) in pairwise(found)) and found[0][0] >= 0 and found[-1][1] < 2 ** 63


@pytest.mark.usefixtures("pooled")
def test_progress_in_a_plain_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("highwater.cli.campaign.app.EVERY_S", 0)
    _, output = called("--scenario", SCENARIO, "--mutant", "age_ignored", "--seeds", "0:40", "--out", tmp_path / "out",
                       "--engine", "local", "--range-size", 1)
    lines = re.findall(r"^(\d+) of 40 seeds, (\d+) failed, [\d,]+/s, about [\d,]+ s left$", output, re.MULTILINE)
    failed = [row["seed"] for row in rows(tmp_path / "out", (0, 40)) if row["kind"]]
    assert lines[-1] == ("40", str(len(failed))) and failed
    assert all(int(bad) <= int(done) for done, bad in lines)


def test_a_folder_knows_the_commit_of_its_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    head = subprocess.run(git, capture_output=True, text=True).stdout.strip()
    with folder.opened(tmp_path / "a", PRODUCTION, Asked((0, 1))):
        said = folder.commit_in(tmp_path / "a")
    assert said.removesuffix("+") == head[:12] and folder.labelled(tmp_path / "a")[0] == PRODUCTION
    monkeypatch.setenv("PATH", "")
    assert folder.commit() == "" and folder.commit_in(tmp_path / "nothing") == ""
    monkeypatch.undo()
    monkeypatch.setattr(folder, "ROOT", PACKAGE / "cli")  # within a checkout, which may be somebody else's
    assert folder.commit() == ""


@pytest.mark.usefixtures("pooled")
def test_a_campaign_of_a_day(tmp_path: Path) -> None:
    code, _ = called("--scenario", SCENARIO, "--seeds", "3@2026-11-22", "--out", tmp_path / "out", "--engine", "local")
    low = 20_779 * 2 ** 32  # so many days after 1970-01-01
    assert code == 0 and [row["seed"] for row in rows(tmp_path / "out", (0, 2 ** 62))] == [low, low + 1, low + 2]


# --- refusals


@pytest.mark.parametrize(("changed", "message"), [
    ({"--seeds": "5:1"}, "A < B"), ({"--seeds": "5:5"}, "A < B"), ({"--seeds": "-1:5"}, "A < B"),
    ({"--seeds": "100"}, "A:B"), ({"--seeds": "10@1969-12-31"}, "write a day"), ({"--seeds": "10@abc"}, "a commit's hash"),
    ({"--seeds": "0@2026-11-22"}, "how many"), ({"--seeds": "@2026-11-22"}, "how many"), ({"--seeds": "1@2026-13-22"}, "a day"),
    ({"--seeds": f"{2**32 + 1}@2026-11-22"}, "4,294,967,296"), ({"--seeds": f"0:{2**63}"}, "A:B"),
    ({"--scenario": "unheard_of"}, "there is no scenario 'unheard_of'; there are: "),
    ({"--mutant": "cosmic_rays"}, "there is no mutant 'cosmic_rays' of sequenced_metadata_boundary; there are: no_check,"),
    ({"--engine": "steam"}, "steam"), ({"--jobs": "0"}, "--jobs"), ({"--range-size": "0"}, "--range-size"),
    ({"--seed-limit-s": "0"}, "--seed-limit-s"), ({"--strategy": "luck"}, "there is no strategy 'luck'"),
    ({"--strategy": "guided"}, "guided campaigns were taken out in 0.2.0, because they found no mutant sooner"),
    ({"--round-size": "9"}, "No such option: --round-size"),
    ({"--profile": "floppy"}, "there is no profile 'floppy'"), ({"--master": "local[2]"}, "leave out --engine local"),
])
def test_bad_input(tmp_path: Path, changed: dict, message: str) -> None:
    options = {"--scenario": SCENARIO, "--seeds": "0:1", "--out": str(tmp_path / "out"), "--engine": "local"} | changed
    code, output = called(*(word for option in options.items() for word in option))
    assert code == exits.BAD_INPUT and message in output
    assert not (tmp_path / "out").exists()


def test_the_folder_of_another_campaign_is_refused(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign"
    with folder.opened(foreign, PRODUCTION._replace(code="0123")):
        pass
    home = tmp_path / "home"
    home.mkdir()
    (home / "novel.txt").write_text("Call me Ishmael")
    options = ("--scenario", SCENARIO, "--seeds", "0:1", "--engine", "local")
    code, output = called(*options, "--out", foreign, "--mutant", "no_check")
    assert code == exits.BAD_INPUT and "mutant '', not 'no_check'" in output and "code '0123', not" in output
    code, output = called(*options, "--out", home)
    assert code == exits.BAD_INPUT and "no campaign's folder" in output
    assert [path.name for path in home.iterdir()] == ["novel.txt"]
    code, output = called(*options, "--out", home / "novel.txt")
    assert code == exits.BAD_INPUT and "not a folder" in output


# --- the summary and the exit code


@pytest.mark.usefixtures("pooled")
def test_a_mutant_fails_and_every_signature_can_be_replayed(tmp_path: Path) -> None:
    code, output = called("--scenario", SCENARIO, "--seeds", "0:300", "--out", tmp_path, "--engine", "local",
                          "--mutant", "no_check")
    summary = json.loads((tmp_path / "summary.json").read_text())
    found = [row for row in rows(tmp_path, (0, 300)) if row["kind"]]
    assert summary["runs"] == 300 and summary["failed"] == len(found) > 0
    assert {f["signature"] for f in summary["failures"]} == {row["signature"] for row in found}
    for failure in summary["failures"]:
        same = [row for row in found if (row["kind"], row["signature"]) == (failure["kind"], failure["signature"])]
        assert (failure["count"], failure["smallest_seed"]) == (len(same), same[0]["seed"])
        assert failure["message"] == same[0]["message"]
        replay = f"highwater dst run --protocol {SCENARIO} --seed {same[0]['seed']} --mutant no_check"
        assert failure["replay"] == replay and replay in output.splitlines()
        outcome = simulate(Run(same[0]["seed"]), build_of("no_check"))
        assert (outcome.signature, outcome.digest) == (failure["signature"], same[0]["digest"])
    assert code == min(exits.OF_KIND[f["kind"]] for f in summary["failures"])


def test_production_passes(tmp_path: Path) -> None:
    code, output = called("--scenario", SCENARIO, "--seeds", "0:50", "--out", tmp_path, "--engine", "local", "--jobs", 1)
    assert (code, json.loads((tmp_path / "summary.json").read_text())["failures"]) == (0, [])
    assert "50 runs" in output


# --- what was reached, and runs that are run twice


def test_the_models_witnesses_are_those_of_the_states_on_the_way() -> None:
    """Looked up by their parts, or asked of each whole state."""
    watch, seen = reached.Watch(), set()
    for seed in [*range(0, 40, reached.MODEL_EVERY), *range(0, 40, reached.MODEL_EVERY)]:  # the second time all is known
        outcome = simulate(Run(seed), trace_of=watch.trace_of)
        replayed = replay(outcome.events, trace_of(outcome.shape))
        of = model(replayed.record.model.constants)
        states = [replayed.initial, *(row.after for row in replayed.rows)]
        holding = {name for name, (role, holds) in of.sometimes.items() for state in states
                   for local in ([()] if role is None else [(state.locals[p],) for p, process in enumerate(of.processes)
                                                            if process.role == role])
                   if holds(of.constants, state.shared, *local)}
        found = {name[len("model: "):] for name in reached.names_of(watch.reached(outcome)) if name.startswith("model: ")}
        assert found == holding
        seen |= found
    assert len(seen) >= 6


def test_a_seed_that_is_not_asked_says_nothing_of_the_model() -> None:
    watch = reached.Watch()
    outcome = simulate(Run(1), trace_of=watch.trace_of)
    assert watch.of_model() and not any(name.startswith("model: ") for name in reached.names_of(watch.reached(outcome)))


def seen(*events: Event) -> set[str]:
    return scenario.moments_of(list(events), Shape(audit=False))


def test_moments_are_seen_in_events() -> None:
    create = EMPTY._replace(request=1, client="Writer#0", kind="applied", op="create", key="db/manifest/2", status=200)
    died = create._replace(kind="crash", status=0, pending=True)
    boundary = create._replace(client="Reader#0", op="get", key="db/gc/manifest.boundary")
    listing = boundary._replace(op="list", key="db/manifest/")
    assert seen(create) == set()
    assert seen(create._replace(status=412)) == {"create conflict"}
    assert seen(create._replace(status=412, key=boundary.key)) == {"advance conflict"}
    assert seen(died, create._replace(awaited=False)) == {"late_after_crash"}
    assert seen(died._replace(kind="timeout"), create._replace(awaited=False, status=412)) == {
        "nobody waits for it: condition failed"}
    assert seen(died, create._replace(awaited=False, request=2)) == set()
    assert seen(listing, boundary, listing) == {"reader refused"}
    assert seen(listing, boundary, boundary._replace(kind="told", op="read"), listing) == set()
    assert seen(listing._replace(truncated=True)) == {"listing of many pages"}
    outcome = simulate(Run(1))._replace(shape=Shape(audit=True), events=[
        create._replace(kind="told", op="unknown"), create._replace(awaited=False), create._replace(awaited=False, status=412)])
    assert reached.names_of(reached.of_events(outcome, BIT)) == ["told: unknown", "seen: nobody waits for it: applied",
                                                                 "seen: audited"]


def test_faults_are_seen_on_the_tape() -> None:
    bound = len(reached.FATES)
    assert reached.names_of(reached.of_tape([("Writer#0.create", reached.CONFLICT, bound)], BIT)) == ["fault: conflict"]
    for nothing in (("Writer#0.get", reached.CONFLICT, bound), ("Writer#0.create", 0, bound), ("schedule", 1, bound)):
        assert reached.of_tape([nothing], BIT) == 0  # a read has no conflict
    assert reached.names_of(reached.of_tape([("Writer#0.retires", 1, 2)], BIT)) == ["seen: retired"]


@pytest.mark.usefixtures("pooled")
def test_a_campaign_tells_what_it_never_reached(tmp_path: Path) -> None:
    code, output = called("--scenario", SCENARIO, "--seeds", "0:6", "--out", tmp_path, "--engine", "local", "--jobs", 1)
    summary = json.loads((tmp_path / "summary.json").read_text())
    masks = {row["seed"]: row["reached"] for row in rows(tmp_path, (0, 6))}
    for name in BIT:
        runs = [seed for seed, mask in masks.items() if name in reached.names_of(mask)]
        assert summary["reached"].get(name) == ({"runs": len(runs), "smallest_seed": runs[0]} if runs else None)
    assert set(summary["never"]) == set(BIT) - set(summary["reached"]) != set()
    assert "seen: another_in_its_place" in summary["never"]
    assert code == 0 and f"Never reached, {len(summary['never'])} of {len(BIT)}: " in output
    assert all(name in output for name in summary["never"])


def test_a_mask_fits_its_column() -> None:
    assert len(BIT) <= 63
    assert pa.array([sum(BIT.values())], pa.int64())


def test_a_run_that_is_not_the_same_again_is_a_row(monkeypatch: pytest.MonkeyPatch, expected: list[dict]) -> None:
    built: list[int] = []
    builds = [build_of(name) for name in ("", "no_check")]

    def moody(*args: object) -> object:
        built.append(1)
        return builds[len(built) > 100](*args)

    monkeypatch.setattr(ranges, "TWICE", 5)
    assert comparable(ranges.run_range(Work(PRODUCTION, 60), (0, 12))) == expected[:12]
    monkeypatch.setattr("highwater.dst.simulate.build_of", lambda *_: moody)
    found = comparable(ranges.run_range(Work(PRODUCTION, 60), (0, 20)))
    bad = [row for row in found if row["kind"] == "nondeterminism"]
    assert 0 in [row["seed"] for row in bad] and all(row["seed"] % 5 == 0 for row in bad)
    assert bad[0]["signature"] == "nondeterminism:twice" and "at first" in bad[0]["message"]
    assert bad[0]["digest"] == expected[0]["digest"]


@pytest.mark.usefixtures("pooled")
def test_what_differs_in_another_process_fails_the_campaign(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(ranges, "TWICE", 4)
    asked = []

    def check(seeds: list[int], spec: RunSpec) -> summary.doctor.Difference:
        asked.append((seeds, spec.mutant, spec.strategy, spec.scenario))
        return summary.doctor.Difference(4, "choice 7: this with PYTHONHASHSEED=1, that with PYTHONHASHSEED=2")

    monkeypatch.setattr(summary.doctor, "check", check)
    code, output = called("--scenario", SCENARIO, "--seeds", "1:10", "--out", tmp_path, "--engine", "local", "--jobs", 1)
    assert asked == [([4, 8], None, "portfolio", SCENARIO)] and code == exits.NONDETERMINISM
    assert "nondeterminism:processes" in output and f"highwater dst doctor --protocol {SCENARIO} --seeds 4:5" in output


@pytest.mark.parametrize(("codes", "worst"), [
    ([], 0), ([0, 0], 0), ([0, exits.INCOMPLETE], exits.INCOMPLETE), ([exits.INCOMPLETE, exits.TIMEOUT], exits.TIMEOUT),
    ([exits.LIVENESS, exits.SAFETY, 0, exits.PROOF], exits.SAFETY),
])
def test_worst_exit_code(codes: list[int], worst: int) -> None:
    assert exits.worst(codes) == worst


def test_a_kind_that_is_not_known_is_never_green() -> None:
    assert exits.of_kinds(["never heard of"]) == exits.HARNESS
    assert exits.of_kinds(["timeout", "liveness"]) == exits.LIVENESS
    assert exits.of_kinds([]) == 0


# --- Java


def runtime(home: Path, version: str, modules: str) -> Path:
    """A program that says what `java` says."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f'#!/bin/sh\nif [ "$1" = --list-modules ]; then echo "{modules}"; exit; fi\n'
                    f'echo "    java.home = {home}" >&2\necho "openjdk version \\"{version}\\" 2025-04-15" >&2\n')
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    return java


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without Java, whose install-jdk reaches nothing. Where its PYTHONPATH begins."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("HIGHWATER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "modules"))
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "jdk.py").write_text("class JdkError(Exception): pass\ndef install(version, path): raise OSError\n")
    return tmp_path


def java_tool() -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, ROOT / "tools" / "java.py"], capture_output=True, text=True)


def test_without_java_the_spark_engine_is_incomplete_and_says_what_to_do(bare: Path) -> None:
    found = java_tool()
    assert (found.returncode, found.stdout) == (3, "")
    assert found.stderr.count("\n") == 1 and "openjdk-17-jre-headless" in found.stderr and "JAVA_HOME" in found.stderr
    command = cli("--seeds", "0:1", "--out", bare / "out", "--engine", "spark")
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (exits.INCOMPLETE, "") and ran.stderr.startswith(found.stderr)


def test_java_is_looked_for_in_java_home_then_on_path_then_in_the_cache(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime(bare / "cache" / "jdk-17" / "jdk-17.0.1", "17.0.1", "jdk.incubator.vector@17.0.1")
    assert java_tool().stdout == f"{bare / 'cache' / 'jdk-17' / 'jdk-17.0.1'}\n"
    monkeypatch.setenv("PATH", str(runtime(bare / "path", "21", "jdk.incubator.vector@21").parent))
    assert java_tool().stdout == f"{bare / 'path'}\n"
    for name, version, modules in (("old", "11.0.2", "jdk.incubator.vector@11"), ("older", "1.8.0_400", ""),
                                   ("bare", "25", "java.base@25")):
        runtime(bare / name, version, modules)
        monkeypatch.setenv("JAVA_HOME", str(bare / name))
        assert java_tool().stdout == f"{bare / 'path'}\n"
    runtime(bare / "good", "17.0.15", "jdk.incubator.vector@17.0.15")
    monkeypatch.setenv("JAVA_HOME", str(bare / "good"))
    assert java_tool().stdout == f"{bare / 'good'}\n"


def test_java_is_installed_into_the_cache(bare: Path) -> None:
    runtime(bare / "download", "17.0.9", "jdk.incubator.vector@17.0.9")
    script = bare / "download" / "bin" / "java"
    script.write_text(script.read_text().replace(str(bare / "download"), str(bare / "cache" / "jdk-17" / "jdk-17.0.9")))
    (bare / "modules" / "jdk.py").write_text(
        "import shutil\nclass JdkError(Exception): pass\n"
        f"def install(version, path): shutil.copytree({str(bare / 'download')!r}, path + '/jdk-17.0.9')\n")
    assert java_tool().stdout == f"{bare / 'cache' / 'jdk-17' / 'jdk-17.0.9'}\n"
    shutil.rmtree(bare / "modules")
    assert java_tool().returncode == 0
    assert [path.name for path in (bare / "cache").iterdir()] == ["jdk-17"]

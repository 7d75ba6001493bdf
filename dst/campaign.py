"""Safety: a campaign passes only if every seed that was asked for has exactly one row, and no row is a failure.

A row is a function of scenario, mutant, seed and code (all but `cpu_us`, and which seeds are too slow for their time limit):
the same with either engine, for any cut into ranges, on any machine. What goes wrong in a seed is its row: a simulation's
failure, an exception of the harness (kind "harness"), a seed that hangs (kind "timeout"), one of a sample that is run a second
time and is not the same (kind "nondeterminism"). Some of the sample are run in two other processes, too, under two hash seeds.

A campaign's folder:

    campaign.json       scenario, mutant, code version: a folder is one campaign's
    rows/wave=N/        Parquet, columns as in SCHEMA, some seeds each; renamed into place, so never half-written
    summary.json        failures by signature; there only when all seeds that were asked for are
    .lock  .writing/    one campaign at a time; what a killed one has left is thrown away

Spark is imported by its engine alone.
"""

import fcntl
import importlib.util
import json
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor, as_completed, wait
from contextlib import AbstractContextManager, contextmanager
from functools import cache, partial
from hashlib import blake2b
from itertools import islice
from multiprocessing import get_context, parent_process
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from dst import doctor
from dst.alarm import LONGEST_RUN_S, Hung, alarmed, set_alarm
from dst.reached import Watch, bits
from dst.simulate import Outcome, many, place_of, replay_command
from dst.version import code_version
from dst.zoo import build_of
from traces.event import to_json
from traces.refine import REFINERS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parent.parent
VERSION = 2  # of a campaign's folder
SCHEMA = pa.schema([
    ("seed", pa.int64()),
    ("scenario", pa.string()),
    ("mutant", pa.string()),  # "" for the implementation itself
    ("kind", pa.string()),  # "" if all is well
    ("signature", pa.string()),
    ("message", pa.string()),
    ("digest", pa.string()),  # of the trace; "" if there is none
    ("requests", pa.int64()),
    ("virtual_ms", pa.int64()),
    ("shape", pa.string()),  # JSON; "" if there is none
    ("reached", pa.int64()),  # one bit for each of dst/reached.py's WITNESSES, the first the lowest
    ("cpu_us", pa.int64()),  # of the processor: the one column that differs from run to run
])
SQL_TYPES = {pa.int64(): "bigint", pa.string(): "string"}
MOST_SEEDS = 500  # in a range, unless asked otherwise: a task of some seconds
WAVE = 8  # ranges for each job, committed together
TWICE = 500  # each seed that this divides is run twice
MOST_IN_PROCESSES = 20  # of those, so many at most in other processes, too

Seeds = tuple[int, int]  # from, up to and without
Progress = Callable[[int], None]  # how many seeds of the wave are done


class CampaignError(Exception):
    """The campaign could not run to its end; the message opens with one line that says why."""


class Refused(CampaignError):
    """What was asked for makes no sense, or the folder is not for it. Nothing was written."""


class NoSpark(CampaignError):
    """Spark cannot start on this machine."""


class Campaign(NamedTuple):
    scenario: str
    mutant: str  # "": none
    code: str


Engine = Callable[[Campaign, list[Seeds], Path, float, Progress], None]
"""Run the ranges, write their rows as Parquet files into the folder, and return when all are written; else raise."""


# --- what runs


def campaign_of(scenario: str, mutant: str = "") -> Campaign:
    """Raises Refused."""
    try:
        build_of(mutant, scenario)
    except LookupError as error:
        raise Refused(str(error)) from None
    return Campaign(scenario, mutant, code_version())


@cache
def run_range(campaign: Campaign, seeds: Seeds, limit_s: float) -> pa.Table:
    """One row a seed, in order. To be called in a main thread: the alarm goes off there."""
    if code_version() != campaign.code:
        raise CampaignError("the code has changed since the campaign started: start it again, with a new folder")
    todo = range(*seeds)
    rows: list[tuple] = []
    sample: list[Outcome] = []
    watch = Watch(campaign.scenario)
    began = time.process_time()

    def add(kind: str, signature: str, message: str, *fields: Any) -> None:
        nonlocal began
        ended = time.process_time()
        rows.append((todo[len(rows)], *campaign[:2], kind, signature, message.encode(errors="backslashreplace").decode(),
                     *fields, int((ended - began) * 1e6)))
        began = ended

    def each(outcome: Outcome) -> None:
        set_alarm(0)  # if it has just gone off, Hung is raised here, and there is no row yet
        if outcome.seed != todo[len(rows)]:
            raise CampaignError(f"the outcome of seed {outcome.seed} came instead")
        if outcome.seed % TWICE == 0:
            sample.append(outcome)
        add(outcome.kind, outcome.signature, outcome.message, outcome.digest, outcome.requests, outcome.virtual_ms,
            json.dumps(outcome.shape._asdict()), watch.reached(outcome))
        if len(rows) < len(todo):
            set_alarm(limit_s)

    with alarmed():
        while len(rows) < len(todo):
            failure = run_until_failure(campaign, todo[len(rows):], each, limit_s, watch)
            if len(rows) < len(todo):
                add(*failure, "", 0, 0, "", 0)
                REFINERS.clear()  # it may have been amid a change to them
        for outcome in reversed(sample):
            failure = run_again(campaign, outcome, limit_s)
            if any(failure):
                row = rows[outcome.seed - todo.start]
                rows[outcome.seed - todo.start] = (*row[:3], *failure, *row[6:])
    return pa.Table.from_arrays([pa.array(column, field.type) for column, field in zip(zip(*rows), SCHEMA)], schema=SCHEMA)


def run_again(campaign: Campaign, first: Outcome, limit_s: float) -> tuple[str, str, str]:
    """After all that has been run since: kind, signature and message, all "" if it is the same."""
    found: list[Outcome] = []
    failure = run_until_failure(campaign, range(first.seed, first.seed + 1), found.append, limit_s, Watch(campaign.scenario))
    if not found:
        return failure
    if doctor.summary(found[0]) == doctor.summary(first):
        return "", "", ""
    said = []
    for what, show, runs in (("choice", doctor.choice, [one.tape for one in (first, *found)]),
                             ("event", doctor.event, [list(map(to_json, one.events)) for one in (first, *found)])):
        at = doctor.first_difference(*runs)
        if at is not None:
            said.append(f"{what} {at}: {show(runs[0], at)} at first, {show(runs[1], at)} the second time")
    return "nondeterminism", "nondeterminism:twice", "; ".join(said) or f"{first.signature!r}, then {found[0].signature!r}"


def run_until_failure(campaign: Campaign, seeds: range, each: Callable[[Outcome], None], limit_s: float, watch: Watch
                      ) -> tuple[str, str, str]:
    """Kind, signature, and message of the row of the first seed that had no outcome, if there is one."""
    try:
        try:
            set_alarm(limit_s)
            many(seeds, each, build_of(campaign.mutant, campaign.scenario), trace_of=watch.trace_of,
                 scenario=campaign.scenario)
            return "harness", "harness:skipped", "no outcome"
        finally:
            set_alarm(0)
    except Hung:
        return "timeout", "timeout", f"not done after {limit_s:g} s"
    except Exception as error:
        return "harness", f"harness:{type(error).__name__}", f"{error} ({place_of(error)})"


# --- the folder


def run(campaign: Campaign, seeds: Seeds, out: Path, start: Callable[[], AbstractContextManager[Engine]], jobs: int,
        range_size: int = 0, limit_s: float = LONGEST_RUN_S, progress: Progress = lambda done: None) -> dict:
    """Run what the folder does not hold yet, if anything; returns the summary. `progress` is told how many seeds have rows."""
    size = range_size or max(1, min(MOST_SEEDS, (seeds[1] - seeds[0]) // (4 * jobs)))
    with opened(out, campaign):
        todo = missing(out, seeds)
        if todo:
            done = seeds[1] - seeds[0] - sum(hi - lo for lo, hi in todo)
            with start() as engine:
                run_waves(campaign, cut(todo, size), WAVE * jobs, out, engine, limit_s, lambda more: progress(done + more))
        summary = summarize(campaign, seeds, out)
        write_json(out / "summary.json", summary)
        return summary


def run_waves(campaign: Campaign, ranges: Iterator[Seeds], most: int, out: Path, engine: Engine, limit_s: float,
              progress: Progress) -> None:
    """So many ranges at a time, each time committed together."""
    done = 0
    progress(done)
    while wave := list(islice(ranges, most)):
        with committed(out) as folder:
            engine(campaign, wave, folder, limit_s, lambda more, before=done: progress(before + more))
        done += sum(hi - lo for lo, hi in wave)
        progress(done)


@contextmanager
def opened(out: Path, campaign: Campaign) -> Iterator[None]:
    """The folder, made if it is not there, for this process alone, without leftovers. Raises Refused."""
    label = out / "campaign.json"
    if out.exists() and not out.is_dir():
        raise Refused(f"{out} is not a folder")
    if out.exists() and not label.exists() and any(path.name not in (".lock", ".campaign.json") for path in out.iterdir()):
        raise Refused(f"{out} is not empty, and no campaign's folder: give a new one")
    out.mkdir(parents=True, exist_ok=True)
    with open(out / ".lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Refused(f"another campaign is running in {out}") from None
        if not label.exists():
            write_json(label, {"version": VERSION, **campaign._asdict()})
        compare(out, read_json(label), {"version": VERSION, **campaign._asdict()})
        shutil.rmtree(out / ".writing", ignore_errors=True)
        (out / "summary.json").unlink(missing_ok=True)
        (out / "rows").mkdir(exist_ok=True)
        yield


def compare(out: Path, there: dict, wanted: dict) -> None:
    """Raises Refused."""
    differences = [f"{name} {there.get(name)!r}, not {value!r}" for name, value in wanted.items() if there.get(name) != value]
    if differences:
        raise Refused(f"{out} holds another campaign ({'; '.join(differences)}): give a new folder")


def read(out: Path, seeds: Seeds, columns: list[str]) -> pa.Table:
    """The rows of these seeds, in no order. Raises CampaignError if a file is not whole: then it is not ours."""
    try:
        return ds.dataset(out / "rows", schema=SCHEMA, format="parquet").to_table(columns=columns, filter=within(seeds))
    except (pa.ArrowException, OSError) as error:
        raise CampaignError(f"{out / 'rows'} cannot be read: {error}") from error


def missing(out: Path, seeds: Seeds) -> list[Seeds]:
    """The gaps between the seeds that there are rows of."""
    there = read(out, seeds, ["seed"])["seed"].to_numpy()
    edges = np.concatenate(([seeds[0] - 1], np.unique(there), [seeds[1]]))
    gaps = np.flatnonzero(np.diff(edges) > 1)
    return [(int(edges[i]) + 1, int(edges[i + 1])) for i in gaps]


def within(seeds: Seeds) -> pc.Expression:
    return (ds.field("seed") >= seeds[0]) & (ds.field("seed") < seeds[1])


def cut(gaps: list[Seeds], size: int) -> Iterator[Seeds]:
    for lo, hi in gaps:
        yield from ((at, min(at + size, hi)) for at in range(lo, hi, size))


@contextmanager
def committed(out: Path) -> Iterator[Path]:
    """A folder to write to, whose files are rows all together, and only if the block ends without an exception."""
    writing = out / ".writing"
    shutil.rmtree(writing, ignore_errors=True)
    writing.mkdir()
    yield writing
    number = 1 + max((int(path.name.partition("=")[2]) for path in (out / "rows").glob("wave=*")), default=-1)
    writing.rename(out / "rows" / f"wave={number}")


def read_json(path: Path) -> dict:
    """Nothing, if it is not an object."""
    try:
        return dict(json.loads(path.read_text()))
    except (ValueError, TypeError):
        return {}


def write_json(path: Path, value: dict) -> None:
    half = path.with_name(f".{path.name}")
    half.write_text(json.dumps(value, indent=2) + "\n")
    half.replace(path)


def summarize(campaign: Campaign, seeds: Seeds, out: Path) -> dict:
    """Failures by signature, the most frequent first. A function of the rows, `cpu_us` left out. Raises CampaignError
    unless each seed has one row."""
    columns = [name for name in SCHEMA.names if name not in ("scenario", "mutant", "shape", "cpu_us", "virtual_ms")]
    table = read(out, seeds, columns).sort_by("seed")
    if not np.array_equal(table["seed"].to_numpy(), np.arange(*seeds)):
        raise CampaignError(f"{table.num_rows} rows for {seeds[1] - seeds[0]} seeds: each should have one")
    failed = table.filter(pc.field("kind") != "")
    groups = failed.group_by(["kind", "signature"]).aggregate([("seed", "count"), ("seed", "min")]).to_pylist()
    messages = {row["seed"]: row["message"] for row in
                failed.filter(pc.is_in(failed["seed"], pa.array([g["seed_min"] for g in groups], pa.int64()))).to_pylist()}
    failures = [{"kind": group["kind"], "signature": group["signature"], "count": group["seed_count"],
                 "smallest_seed": group["seed_min"], "message": messages[group["seed_min"]],
                 "replay": replay_command(group["seed_min"], campaign.mutant, scenario=campaign.scenario)} for group in groups]
    failures.sort(key=lambda f: (-f["count"], f["smallest_seed"]))
    twice, different = compared(campaign, seeds)
    reached = witnessed(table, campaign.scenario)
    return {**campaign._asdict(), "seeds": f"{seeds[0]}:{seeds[1]}", "runs": table.num_rows, "failed": failed.num_rows,
            "requests": pc.sum(table["requests"]).as_py(), "digest": digest_of(table), "failures": failures + different,
            "reached": reached, "never": [name for name in bits(campaign.scenario) if name not in reached],
            "in_other_processes": twice}


def witnessed(table: pa.Table, scenario: str) -> dict[str, dict[str, int]]:
    """Of each witness that was reached: in how many runs, and in which first. The table is sorted by seed."""
    masks, seeds = table["reached"].to_numpy(), table["seed"].to_numpy()
    hits = {name: seeds[masks & bit > 0] for name, bit in bits(scenario).items()}
    return {name: {"runs": len(those), "smallest_seed": int(those[0])} for name, those in hits.items() if len(those)}


def compared(campaign: Campaign, seeds: Seeds) -> tuple[list[int], list[dict]]:
    """Which of the sample were run in two fresh processes under two hash seeds, and the failure that this brought, if any.
    Raises CampaignError."""
    sample = list(range(seeds[0] + -seeds[0] % TWICE, seeds[1], TWICE))[:MOST_IN_PROCESSES]
    if seeds[1] - seeds[0] < TWICE or not sample:
        return [], []
    try:
        different = doctor.check(sample, campaign.mutant or None, scenario=campaign.scenario)
    except doctor.Broken as error:
        raise CampaignError(f"the self-check broke down: {error}") from error
    if different is None:
        return sample, []
    replay = f"highwater dst doctor --scenario {campaign.scenario} --seeds {different.seed}:{different.seed + 1}" + (
        f" --mutant {campaign.mutant}" if campaign.mutant else "")
    return sample, [{"kind": "nondeterminism", "signature": "nondeterminism:processes", "count": 1,
                     "smallest_seed": different.seed, "message": different.message, "replay": replay}]


def digest_of(table: pa.Table) -> str:
    """Of all rows: two campaigns with the same one have found the same, and their traces are equal."""
    hasher = blake2b(digest_size=16)
    for batch in table.select(["seed", "kind", "signature", "digest"]).to_batches(10_000):
        hasher.update("".join(f"{row}\n" for row in zip(*(column.to_pylist() for column in batch.columns))).encode())
    return hasher.hexdigest()


# --- the engine without Spark


@contextmanager
def local_engine(jobs: int) -> Iterator[Engine]:
    """Processes that are started anew, not forked: the caller may have threads."""
    pool = ProcessPoolExecutor(jobs, get_context("spawn"), initializer=begin_worker)
    try:
        yield partial(write_with_pool, pool)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def begin_worker() -> None:
    """Ctrl-C ends a worker at once, and so does the end of its parent, even by SIGKILL."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=end_with, args=(parent_process(),), daemon=True).start()


def end_with(parent: Any) -> None:
    parent.join()
    os._exit(1)


def write_with_pool(pool: Executor, campaign: Campaign, ranges: list[Seeds], folder: Path, limit_s: float,
                    progress: Progress) -> None:
    done = 0
    try:
        futures = {pool.submit(write_range, campaign, seeds, folder, limit_s): seeds for seeds in ranges}
        for future in as_completed(futures):
            future.result()
            done += futures[future][1] - futures[future][0]
            progress(done)
    except CampaignError:
        raise
    except Exception as error:  # a worker that was killed, a full disk; nothing that a seed did
        raise CampaignError(f"a worker failed: {type(error).__name__}: {error}") from error


def write_range(campaign: Campaign, seeds: Seeds, folder: Path, limit_s: float) -> None:
    pq.write_table(run_range(campaign, seeds, limit_s), folder / f"{seeds[0]}-{seeds[1]}.parquet")


# --- the engine on Spark


@contextmanager
def spark_engine(jobs: int) -> Iterator[Engine]:
    spark = start_spark(jobs)
    try:
        yield partial(write_with_spark, spark)
    finally:
        spark.stop()


def start_spark(jobs: int) -> "SparkSession":
    """A session of this process; nothing of it listens outside of the machine. Raises NoSpark."""
    java = load_java()
    home = java.find_java()
    if home is None:
        raise NoSpark(java.MISSING)
    os.environ.update(JAVA_HOME=home, PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
    from pyspark.sql import SparkSession

    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "FATAL",  # of a task that fails we tell ourselves
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        "spark.python.worker.faulthandler.enabled": "true",  # a worker that crashes says where
        "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    }
    return SparkSession.builder.appName("highwater campaign").master(f"local[{jobs}]").config(map=settings).getOrCreate()


def load_java() -> ModuleType:
    found = importlib.util.spec_from_file_location("highwater_java", ROOT / "tools" / "java.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def write_with_spark(spark: "SparkSession", campaign: Campaign, ranges: list[Seeds], folder: Path, limit_s: float,
                     progress: Progress) -> None:
    """One task a range: one row with its number in, one row a seed out, written by the task."""

    def rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                yield from run_range(campaign, ranges[number], limit_s).to_batches()

    columns = ", ".join(f"{field.name} {SQL_TYPES[field.type]}" for field in SCHEMA)
    frame = spark.range(0, len(ranges), 1, len(ranges)).mapInArrow(rows, columns)
    write = partial(frame.write.mode("append").parquet, f"file://{folder.absolute()}")  # Hadoop does not want it quoted
    watch(spark, write, sum(hi - lo for lo, hi in ranges), progress)


def watch(spark: "SparkSession", job: Callable[[], None], seeds: int, progress: Progress) -> None:
    """Do the job in another thread, and tell how far it is meanwhile. Raises CampaignError if it fails."""
    with ThreadPoolExecutor(1) as thread:
        future, part = thread.submit(job), 0.0
        try:
            while not wait([future], timeout=0.5).done:
                part = max(part, part_done(spark))  # no stage is active before the first, nor after the last
                progress(int(seeds * part))
            future.result()
        except Exception as error:
            raise CampaignError(f"Spark: {error}") from error
        finally:
            spark.sparkContext.cancelAllJobs()  # there is one left only after Ctrl-C, or an exception here


def part_done(spark: "SparkSession") -> float:
    tracker = spark.sparkContext.statusTracker()
    stages = [info for stage in tracker.getActiveStageIds() if (info := tracker.getStageInfo(stage))]
    return sum(info.numCompletedTasks for info in stages) / max(sum(info.numTasks for info in stages), 1)


ENGINES: dict[str, Callable[[int], AbstractContextManager[Engine]]] = {"spark": spark_engine, "local": local_engine}

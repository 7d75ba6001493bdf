"""Run a range of seeds and make its rows. Safety: each seed that was run has one row, whatever happens in its run."""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from highwater.dst.campaign.supervised import Begun, Died, NoSeed, Supervisor
from highwater.dst.campaign.what import Campaign, CampaignError, Seeds, Work
from highwater.dst.determinism import doctor
from highwater.dst.limit import OUT_OF_MEMORY, limited, memory_limited
from highwater.dst.search.reached import Watch
from highwater.dst.sim.alarm import MOST_HUNG, Hung
from highwater.dst.simulate import Outcome, place_of, simulate
from highwater.dst.version import code_version
from highwater.model.uncollected import uncollected
from highwater.project import message_of
from highwater.traces.event import Event, to_json
from highwater.traces.refine import REFINERS

COUNTS = pa.map_(pa.string(), pa.int32())
HASHES = pa.list_(pa.int64())
SCHEMA = pa.schema([
    ("seed", pa.int64()),
    ("scenario", pa.string()),
    ("mutant", pa.string()),  # "" for the implementation itself
    ("strategy", pa.string()),  # the drawn one, if the portfolio was requested
    ("profile", pa.string()),  # the store's
    ("kind", pa.string()),  # "" if the run succeeded
    ("signature", pa.string()),
    ("message", pa.string()),
    ("digest", pa.string()),  # the trace's; "" if there is none
    ("requests", pa.int64()),
    ("steps", pa.int64()),  # events of the simulation kernel
    ("virtual_ms", pa.int64()),
    ("shape", pa.string()),  # JSON; "" if there is none
    ("swarm", COUNTS),  # fault -> how many of 1,000 requests it affects
    ("faults", COUNTS),  # "fault operation phase" -> how many requests
    ("reached", pa.int64()),  # one bit for each of dst/search/reached.py's WITNESSES, from the lowest on
    ("model_states", HASHES),  # a sketch of the model states that the run reached: dst/search/sketch.py
    ("model_steps", HASHES),  # a sketch of the steps between them
    ("cpu_us", pa.int64()),  # CPU time; it differs from run to run
    ("output", pa.string()),  # "" if the run succeeded; else the last lines that it printed, which may hold times or paths
])
SQL_TYPES = {pa.int64(): "bigint", pa.string(): "string", COUNTS: "map<string,int>", HASHES: "array<bigint>"}
NO_RUN = ("", 0, 0, 0, "", [], [], 0, [], [])  # for a seed without an outcome: the columns digest to model_steps
KIND = SCHEMA.names.index("kind")
TWICE = 500  # each seed divisible by this is run twice
KEPT: list[Supervisor] = []  # at most one: the supervisor that runs all ranges of this process


class Failed(NamedTuple):
    """Why a run has no outcome."""

    kind: str
    signature: str
    message: str


def run_range(work: Work, seeds: Seeds) -> pa.Table:
    """Run the seeds in a child process and return one row each, in order. After MOST_HUNG seeds that do not end, the others get
    no row. Raises CampaignError."""
    supervisor = KEPT[0] if KEPT else Supervisor(rows_of)
    rows: dict[int, tuple] = {}
    hung = 0
    try:
        with closing(supervisor.results(lambda todo: (work, todo), range(*seeds), work.limit_s)) as results:
            for seed, row in results:
                row = row_of_death(work, seed, row) if isinstance(row, Died) else row
                rows[seed] = (*row, supervisor.output() if row[KIND] else "")
                hung += rows[seed][KIND] == "timeout"
                if hung == MOST_HUNG:
                    break
    except NoSeed as error:
        raise CampaignError(str(error)) from None
    finally:
        if not KEPT:
            supervisor.close()
    return table_of(list(rows.values()))


def keep_child() -> None:
    """Let this process run all ranges in one child process, which keeps what it has computed of the models."""
    if not KEPT:
        KEPT.append(Supervisor(rows_of))


def rows_of(job: tuple[Work, range]) -> Iterator[Begun | tuple]:
    """Run seeds and yield for each that it begins, and its row without `output`. Some are run again after all others; of these
    another row is yielded if the second run is another one. Must be called in a main thread, because the alarm goes off there.
    """
    (campaign, limit_s), seeds = job
    if code_version() != campaign.code:
        raise CampaignError("the code has changed since the campaign started: start it again, with a new folder")
    sample: list[tuple[Outcome, tuple]] = []
    watch = Watch(campaign.scenario)
    with memory_limited(), uncollected():
        for seed in seeds:
            yield Begun(seed)
            began = time.process_time()
            found = attempt(partial(run_once, campaign, seed, watch), limit_s)
            if isinstance(found, Failed):
                found = None, (campaign.strategy, campaign.profile, *found, *NO_RUN)
            outcome, fields = found
            row = (seed, *campaign[:2], *fields, int((time.process_time() - began) * 1e6))
            if outcome and seed % TWICE == 0:
                sample.append((outcome, row))
            yield row
            if row[KIND] in ("timeout", "memory"):  # the run was stopped anywhere: what it has left may fail the next
                return
        for first, row in reversed(sample):
            yield Begun(first.seed)
            if failed := run_again(campaign, first, limit_s):
                yield (*row[:KIND], *failed, *row[KIND + 3:])


def run_once(campaign: Campaign, seed: int, watch: Watch) -> tuple[Outcome, tuple]:
    """Return a seed's outcome, and the columns strategy to model_steps of its row."""
    outcome = simulate(watch.expect(campaign.spec.at(seed)), trace_of=watch.trace_of)
    return outcome, (
        outcome.strategy, outcome.shape.store, outcome.kind, outcome.signature,
        outcome.message.encode(errors="backslashreplace").decode(),
        outcome.digest, outcome.requests, outcome.steps, outcome.virtual_ms, json.dumps(outcome.shape._asdict()),
        [(name, weight) for name, weight in outcome.weights._asdict().items() if weight], befallen(outcome.events),
        watch.reached(outcome), *watch.sketch(outcome))


def table_of(rows: list[tuple]) -> pa.Table:
    return pa.Table.from_arrays([pa.array(column, field.type) for column, field in zip(zip(*rows), SCHEMA)], schema=SCHEMA)


def row_of_death(work: Work, seed: int, died: Died) -> tuple:
    """Return the row, without `output`, of a seed whose process ended before its run did."""
    return (seed, *work.campaign[:4], died.kind, died.kind, died.message, *NO_RUN, 0)


def befallen(events: Iterable[Event]) -> list[tuple[str, int]]:
    """Count the requests that a client stopped waiting for, or that failed other than by their condition: "fault op phase" ->
    count.

    The phase: "applied" by then, "later" (it was applied, and nobody waited), "never"."""
    ended: dict[tuple[str, int], tuple[str, str]] = {}
    applied: dict[tuple[str, int], str] = {}
    for e in events:
        request = e.client, e.request
        if e.kind == "applied":
            applied[request] = "later" if request in ended else "applied"
        elif e.kind in ("timeout", "crash", "refused"):
            ended[request] = e.kind if e.kind != "refused" else str(e.status), e.op
    counts = Counter(f"{fault} {op} {applied.get(request, 'never')}" for request, (fault, op) in ended.items())
    return sorted(counts.items())


def run_again(campaign: Campaign, first: Outcome, limit_s: float) -> Failed | None:
    """Run a seed again, after all others. Returns the difference, if there is one."""
    found = attempt(partial(run_once, campaign, first.seed, Watch(campaign.scenario)), limit_s)
    if isinstance(found, Failed):
        return found
    again = found[0]
    if doctor.summary(again) == doctor.summary(first):
        return None
    said = []
    for what, show, runs in (("choice", doctor.choice, [one.tape for one in (first, again)]),
                             ("event", doctor.event, [list(map(to_json, one.events)) for one in (first, again)])):
        at = doctor.first_difference(*runs)
        if at is not None:
            said.append(f"{what} {at}: {show(runs[0], at)} at first, {show(runs[1], at)} the second time")
    return Failed("nondeterminism", "nondeterminism:twice", "; ".join(said) or f"{first.signature!r}, then {again.signature!r}")


def attempt(run: Callable[[], tuple[Outcome, tuple]], limit_s: float) -> tuple[Outcome, tuple] | Failed:
    """Return what `run` returns; or why it does not, whatever it raises."""
    try:
        with limited(limit_s):
            return run()
    except Hung:
        failed = Failed("timeout", "timeout", f"not done after {limit_s:g} s")
    except MemoryError:
        failed = Failed("memory", "memory", OUT_OF_MEMORY)
    except BaseException as error:  # also of those that end a program: here the code under test has raised it
        failed = Failed("harness", f"harness:{type(error).__name__}",
                        f"{message_of(error)} ({place_of(error)})".encode(errors="backslashreplace").decode())
    REFINERS.clear()  # an exception may have interrupted a change to them
    return failed

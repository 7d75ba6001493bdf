"""Run a range of seeds and make its rows. Safety: each seed that was run has one row, whatever happens in its run."""

import json
import resource
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from highwater.dst.campaign.what import Campaign, CampaignError, Seeds, Work
from highwater.dst.determinism import doctor
from highwater.dst.search.reached import Watch
from highwater.dst.sim.alarm import MOST_HUNG, Hung, alarmed, set_alarm
from highwater.dst.simulate import Outcome, many, place_of
from highwater.dst.version import code_version
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
    ("cpu_us", pa.int64()),  # CPU time; the only column that differs from run to run
])
SQL_TYPES = {pa.int64(): "bigint", pa.string(): "string", COUNTS: "map<string,int>", HASHES: "array<bigint>"}
NO_RUN = ("", 0, 0, 0, "", [], [], 0, [], [])  # for a seed without an outcome: the columns digest to model_steps
TWICE = 500  # each seed divisible by this is run twice
MEMORY_MB = 4_096  # limit for a process


def run_range(work: Work, seeds: Seeds) -> pa.Table:
    """Run the seeds and return one row each, in order. After MOST_HUNG seeds that do not end, the others get no row.

    Must be called in a main thread, because the alarm goes off there. Raises CampaignError."""
    campaign, limit_s = work
    if code_version() != campaign.code:
        raise CampaignError("the code has changed since the campaign started: start it again, with a new folder")
    todo = range(*seeds)
    rows: list[tuple] = []
    sample: list[Outcome] = []
    hung = 0
    watch = Watch(campaign.scenario)
    began = time.process_time()

    def add(strategy: str, profile: str, kind: str, signature: str, message: str, *fields: Any) -> None:
        nonlocal began
        ended = time.process_time()
        rows.append((todo[len(rows)], *campaign[:2], strategy, profile, kind, signature,
                     message.encode(errors="backslashreplace").decode(), *fields, int((ended - began) * 1e6)))
        began = ended

    def each(outcome: Outcome) -> None:
        set_alarm(0)  # if the alarm goes off now, Hung is raised here, before there is a row
        if outcome.seed != todo[len(rows)]:
            raise CampaignError(f"expected seed {todo[len(rows)]}, but got the outcome of seed {outcome.seed}")
        if outcome.seed % TWICE == 0:
            sample.append(outcome)
        add(outcome.strategy, outcome.shape.store, outcome.kind, outcome.signature, outcome.message,
            outcome.digest, outcome.requests, outcome.steps, outcome.virtual_ms, json.dumps(outcome.shape._asdict()),
            [(name, weight) for name, weight in outcome.weights._asdict().items() if weight], befallen(outcome.events),
            watch.reached(outcome), *watch.sketch(outcome))
        if len(rows) < len(todo):
            set_alarm(limit_s)

    with alarmed(), memory_limited():
        while len(rows) < len(todo) and hung < MOST_HUNG:
            failure = run_until_failure(campaign, todo[len(rows):], each, limit_s, watch)
            if len(rows) < len(todo):
                add(campaign.strategy, campaign.profile, *failure, *NO_RUN)
                hung += failure[0] == "timeout"
                REFINERS.clear()  # an exception may have interrupted a change to them
        for outcome in reversed(sample):
            failure = run_again(campaign, outcome, limit_s)
            if any(failure):
                row = rows[outcome.seed - todo.start]
                rows[outcome.seed - todo.start] = (*row[:5], *failure, *row[8:])
    return table_of(rows)


def table_of(rows: list[tuple]) -> pa.Table:
    return pa.Table.from_arrays([pa.array(column, field.type) for column, field in zip(zip(*rows), SCHEMA)], schema=SCHEMA)


def row_of_death(work: Work, seed: int, why: str) -> pa.Table:
    """Return the row of a seed whose process died before it could write one."""
    return table_of([(seed, *work.campaign[:4], "death", "death", why, *NO_RUN, 0)])


@contextmanager
def memory_limited():
    """Limit the memory of this process, so that an excessive run raises MemoryError and does not harm other processes."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    most = MEMORY_MB << 20
    if before[0] == resource.RLIM_INFINITY or before[0] > most:
        resource.setrlimit(resource.RLIMIT_AS, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


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


def run_again(campaign: Campaign, first: Outcome, limit_s: float) -> tuple[str, str, str]:
    """Run a seed again, after all others. Returns kind, signature and message of a difference; all "" if there is none."""
    found: list[Outcome] = []
    watch, again = Watch(campaign.scenario), range(first.seed, first.seed + 1)
    failure = run_until_failure(campaign, again, found.append, limit_s, watch)
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
    """Run the seeds up to the first without an outcome. Returns the kind, signature and message for that seed's row."""
    try:
        try:
            set_alarm(limit_s)
            many(map(watch.expect, map(campaign.spec.at, seeds)), each, trace_of=watch.trace_of)
            return "harness", "harness:skipped", "no outcome"
        finally:
            set_alarm(0)
    except Hung:
        return "timeout", "timeout", f"not done after {limit_s:g} s"
    except MemoryError:
        return "memory", "memory", f"it took more than {MEMORY_MB:,} MiB"
    except Exception as error:
        return "harness", f"harness:{type(error).__name__}", f"{error} ({place_of(error)})"

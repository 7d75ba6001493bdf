"""Make good traces of files for traces/damage/kills.py, and the tables of docs/checking/trace-damage.md."""

from itertools import islice
from typing import Any

from highwater.dst.scenarios import named, stems
from highwater.dst.verdict import Options, beginner, stem_of
from highwater.gate.damage import SEEDS, simulated
from highwater.traces.damage.kills import Good, Tally, by_equivalence, by_event, by_field, measure
from highwater.traces.damage.protocols import knowledge
from highwater.traces.event import Event

SAMPLE = 2  # traces of each protocol, in the table by protocol


def recorded(name: str, events: list[Event], options: Options) -> Good:
    """Make a good trace of the events of a file. Raises LookupError for an unknown protocol, Unfit for unfit options."""
    stem = stem_of(options)
    return Good(name, events, beginner(events, options), 0, named(stem).told, knowledge(stem))


def page() -> str:
    """Make the tables of the default protocol. Raises ValueError if a survivor has no explanation."""
    tally = measure(simulated(SEEDS))
    if tally.holes:
        raise ValueError("\n".join(tally.holes))
    return tables(tally)


def tables(tally: Tally) -> str:
    return "\n".join(map(table, (by_event(tally), by_field(tally), by_equivalence(tally))))


def table(rows: list[list[str]]) -> str:
    head, *rest = ("| " + " | ".join(row) + " |" for row in rows)
    return "\n".join([head, "|---" * len(rows[0]) + "|", *rest, ""])


def by_protocol() -> str:
    """Make a table with a row for each protocol: damages of a sample, and the noticed, explained and unexplained ones.

    Judges that cannot go on from the middle of a trace are left out: they keep more than the states of one model."""
    rows = [row_of(stem) for stem in stems() if judge_of(stem).resumable]
    return table([["protocol", "traces", "damages", "noticed", "rate", "explained", "unexplained"], *rows])


def judge_of(stem: str) -> Any:
    of = named(stem)
    return of.trace_of(of.shape())


def row_of(stem: str) -> list[str]:
    good = list(islice(simulated(SEEDS, stem), SAMPLE))
    tally = measure(good)
    tried, noticed, unexplained = sum(tally.tried.values()), sum(tally.noticed.values()), len(tally.holes)
    counts = (tried - noticed - unexplained, unexplained)
    return [f"`{stem}`", str(len(good)), f"{tried:,}", f"{noticed:,}", f"{noticed / tried:.1%}", *(f"{n:,}" for n in counts)]

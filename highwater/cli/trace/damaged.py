"""Make good traces with the simulator for traces/damage/kills.py, and the tables of docs/checking/trace-damage.md."""

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any

from highwater.dst.run_spec import Run
from highwater.dst.scenarios import DEFAULT, named, stems
from highwater.dst.simulate import simulate
from highwater.dst.verdict import Options, beginner, stem_of
from highwater.dst.world.store import profile_of
from highwater.traces.damage.kills import Good, Tally, by_equivalence, by_event, by_field, measure
from highwater.traces.damage.protocols import knowledge
from highwater.traces.event import Event

SEEDS = range(40)  # for docs/checking/trace-damage.md
SAMPLE = 2  # traces of each protocol, in the table by protocol


def simulated(seeds: Iterable[int], stem: str = DEFAULT) -> Iterator[Good]:
    """Yield simulated runs without SDK retries, which another checker judges. Raises ValueError if a run fails."""
    of = named(stem)
    for seed in seeds:
        outcome = simulate(Run(seed, stem))
        if outcome.kind:
            raise ValueError(f"seed {seed} is no good trace: it fails with {outcome.signature}: {outcome.message}")
        if not outcome.shape.sdk:
            yield Good(f"seed {seed}", outcome.events, partial(of.judge, outcome.shape), least_ms(outcome.shape), of.told,
                       knowledge(stem))


def recorded(name: str, events: list[Event], options: Options) -> Good:
    """Make a good trace of the events of a file. Raises LookupError for an unknown protocol, Unfit for unfit options."""
    stem = stem_of(options)
    return Good(name, events, beginner(events, options), 0, named(stem).told, knowledge(stem))


def least_ms(shape: Any) -> int:
    """Return the age in ms at which a file may be deleted, by the store's clock; 0 if the protocol has no such age."""
    if not hasattr(shape, "min_age_ms"):
        return 0
    return shape.min_age_ms - shape.skew_ms - profile_of(shape.store).last_modified_ms + 1  # as in the scenario's final_check


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
    """Make a table with a row for each protocol: damages of a sample, and the noticed, explained and unexplained ones."""
    return table([["protocol", "traces", "damages", "noticed", "rate", "explained", "unexplained"], *map(row_of, stems())])


def row_of(stem: str) -> list[str]:
    good = list(islice(simulated(SEEDS, stem), SAMPLE))
    tally = measure(good)
    tried, noticed, unexplained = sum(tally.tried.values()), sum(tally.noticed.values()), len(tally.holes)
    counts = (tried - noticed - unexplained, unexplained)
    return [f"`{stem}`", str(len(good)), f"{tried:,}", f"{noticed:,}", f"{noticed / tried:.1%}", *(f"{n:,}" for n in counts)]

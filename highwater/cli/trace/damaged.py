"""Good traces of the simulator, for traces/damage/kills.py to damage; and what comes of it, as a page of docs/."""

from collections.abc import Iterable, Iterator
from functools import partial

from highwater.dst.run_spec import Run
from highwater.dst.scenarios.sequenced_metadata_boundary import trace_of
from highwater.dst.simulate import simulate
from highwater.dst.world.store import profile_of
from highwater.traces.damage.kills import Good, Tally, by_equivalence, by_event, by_field, measure

SEEDS = range(40)  # of the page


def simulated(seeds: Iterable[int]) -> Iterator[Good]:
    """Of clients that do not retry by themselves; of those that do another checker judges
    (traces/protocols/sequenced_metadata_boundary_retries.py). Raises ValueError for a run that fails."""
    for seed in seeds:
        outcome = simulate(Run(seed))
        if outcome.kind:
            raise ValueError(f"seed {seed} is no good trace: {outcome.signature}: {outcome.message}")
        shape = outcome.shape
        if not getattr(shape, "sdk", ""):
            least_ms = shape.min_age_ms - shape.skew_ms - profile_of(shape.store).last_modified_ms + 1  # as in its final_check
            yield Good(f"seed {seed}", outcome.events, partial(trace_of, shape), least_ms)


def page() -> str:
    """Raises ValueError if a survivor has no explanation."""
    tally = measure(simulated(SEEDS))
    if tally.holes:
        raise ValueError("\n".join(tally.holes))
    return tables(tally)


def tables(tally: Tally) -> str:
    return "\n".join("\n".join(["| " + " | ".join(rows[0]) + " |", "|---" * len(rows[0]) + "|",
                                *("| " + " | ".join(row) + " |" for row in rows[1:]), ""])
                     for rows in (by_event(tally), by_field(tally), by_equivalence(tally)))

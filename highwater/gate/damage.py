"""Check the checker of a protocol's traces: no damaged trace passes without a reason. Make the good traces for that."""

from collections.abc import Iterable, Iterator
from functools import cache, partial
from itertools import islice
from typing import Any

from highwater.dst.run_spec import Run
from highwater.dst.scenarios import DEFAULT, named
from highwater.dst.simulate import simulate
from highwater.dst.world.store import profile_of
from highwater.gate.exits import HARNESS
from highwater.gate.rows import Check, Found
from highwater.traces.damage.kills import Good, measure
from highwater.traces.damage.protocols import knowledge
from highwater.traces.damage.responses import Roles, roles_of

SEEDS = range(40)  # also for docs/checking/trace-damage.md


def checks(protocol: str) -> Iterator[Check]:
    if held := knowledge(protocol).held:
        yield Check(protocol, "checker", f"{held} traces, damaged in every place: each one that passes has a reason", explained,
                    (protocol, held), weight=4)


def explained(protocol: str, held: int) -> Found:
    tally = measure(islice(simulated(SEEDS, protocol), held))
    tried, noticed = (sum(count.values()) for count in (tally.tried, tally.noticed))
    if tally.holes:
        return Found("", HARNESS, f"{len(tally.holes)} of {tried:,} damaged traces pass without a reason: {tally.holes[0]}")
    return Found(f"{noticed:,} of {tried:,} are noticed")


def simulated(seeds: Iterable[int], stem: str = DEFAULT) -> Iterator[Good]:
    """Yield simulated runs that this checker judges: without SDK retries, and without tampering. Raises ValueError if a run
    fails."""
    of = named(stem)
    for seed in seeds:
        outcome = simulate(Run(seed, stem))
        if outcome.kind:
            raise ValueError(f"seed {seed} is no good trace: it fails with {outcome.signature}: {outcome.message}")
        if not (outcome.shape.sdk or outcome.shape.broken):
            yield Good(f"seed {seed}", outcome.events, partial(of.judge, outcome.shape), least_ms(outcome.shape), of.told,
                       knowledge(stem), partial(roles, stem))


@cache
def roles(stem: str) -> Roles:
    """Return the responses that each role receives in the runs of SEEDS."""
    return roles_of(simulate(Run(seed, stem)).events for seed in SEEDS)


def least_ms(shape: Any) -> int:
    """Return the age in ms at which a file may be deleted, by the store's clock; 0 if the protocol has no such age."""
    if not hasattr(shape, "min_age_ms"):
        return 0
    return shape.min_age_ms - shape.skew_ms - profile_of(shape.store).last_modified_ms + 1  # as in the scenario's final_check

"""Known-bad reads of an index: the real index whose tombstones wait for a shorter time, or the real reader that takes what it
should not."""

from collections.abc import Callable
from typing import Any

from highwater.dst.mutants.metadata_fsm import always, with_swaps
from highwater.dst.scenario import Build, Mutants
from highwater.dst.scenarios.index_reads import AHEAD, DELAY, QUERY, UNIT_NS, Impl
from highwater.impl.index import replicated, tombstones
from highwater.impl.index.config import Config
from highwater.impl.index.reader import Query, Reader
from highwater.impl.raft.machine import Machine

own_is_due = tombstones.is_due


def after(units: int) -> Callable[[tombstones.Stored, int, Config], bool]:
    """Return an `is_due` with a delay of so many units of the scenario."""
    def is_due(stored: tombstones.Stored, now_ns: int, config: Config) -> bool:
        return own_is_due(stored, now_ns, config._replace(delay_ns=units * UNIT_NS))

    return is_due


def due(is_due: Callable[..., bool]) -> Build:
    """Make an index whose tombstones are due then."""
    def machine(config: Config) -> Machine:
        own = replicated.machine(config)
        return own._replace(apply=with_swaps(own.apply, (tombstones, "is_due", is_due)))

    return lambda world, shape, number: Impl(machine=machine)


class Endless(Reader):
    """It takes whatever it finds, however late."""

    def check(self, began_ms: int) -> None:
        pass


def lagging(index: Any) -> Query:
    """Ask a node for what it has applied."""
    return lambda request: index.query(request, stale=True)


def reading(**other: Any) -> Build:
    return lambda world, shape, number: Impl(**other)


BUILDS: dict[str, tuple[str, Build]] = {  # name -> (its bug, its Build)
    "deleted_at_once": ("a tombstone is handed out at once", due(always)),
    "delay_of_a_query": ("the delay is as long as a query", due(after(QUERY))),
    "clocks_forgotten": ("the delay does not include how far clocks differ", due(after(DELAY - AHEAD))),
    "endless": ("a reader takes answers of the store after its time", reading(reader=Endless)),
    "stale": ("a reader asks a node for what it has applied", reading(asks=lagging)),
}
MODEL = ("refinement:Reader.", "refinement:.", "safety:", "told:")
ORACLES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {  # name -> prefixes of its signatures: by model; by harm
    **{name: (MODEL, ()) for name in BUILDS},
    **dict.fromkeys(("deleted_at_once", "endless"), (MODEL, ("history:gone",))),
}
MUTANTS = Mutants(BUILDS, ORACLES)

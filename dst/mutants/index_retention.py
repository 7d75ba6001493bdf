"""Known-bad retention: the real cleaner of impl/index/retention.py that decides otherwise, the real index with one of its
functions replaced, or a worker that deletes too much."""

from collections.abc import Callable, Iterable
from typing import Any

from highwater.dst.mutants.metadata_fsm import always, is_older, never, with_swaps
from highwater.dst.scenario import Build, Mutants
from highwater.dst.scenarios.index_retention import Impl
from highwater.impl.codecs.index import rows as row
from highwater.impl.codecs.index.rows import Times, Unit
from highwater.impl.index import plan_update, removed, replicated, tombstones, truncate, units
from highwater.impl.index.config import Config
from highwater.impl.index.kv import Rows, Transaction, under
from highwater.impl.index.log_time import MS, S
from highwater.impl.index.query.catalogue import all_units
from highwater.impl.index.retention import Cleaner, Policy, over, period_s
from highwater.impl.raft.machine import Machine

Decides = Callable[[Policy, Unit, Times, int], bool]


def is_there(rows: Rows, tombstone: Any) -> bool:
    """Take a unit as the cleaner has read it, whatever has come since."""
    return units.times(rows, truncate.unit_of(tombstone)) is not None


def forgotten_early(rows: Transaction, now_ns: int, config: Config) -> None:
    """Forget dropped units though the horizon does not refuse their blocks yet."""
    keys = [key for key, _ in under(rows, row.DROPPED)]
    for key in keys:
        if not removed.may_come_back(rows, row.unit_of(key[1:])[0]):
            rows.delete(key)


def applying(module: Any, name: str, other: Callable) -> Build:
    def machine(config: Config) -> Machine:
        own = replicated.machine(config)
        return own._replace(apply=with_swaps(own.apply, (module, name, other)))

    return lambda world, shape, number: Impl(machine=machine)


def deciding(is_over: Decides) -> Build:
    """Make a cleaner that decides so whether a unit's time is over."""
    class Decider(Cleaner):
        def over(self, rows: Rows) -> Iterable[tuple[Unit, Times]]:
            now_ns = self.index.now_ns()
            return ((unit, times) for unit, times in all_units(rows) if is_over(self.policy, unit, times, now_ns))

    return lambda world, shape, number: Impl(cleaner=Decider)


class ByOwnClock(Cleaner):
    """It goes by the clock of its node."""

    def over(self, rows: Rows) -> Iterable[tuple[Unit, Times]]:
        return over(rows, self.policy, self.index.world.clock.now_ms() * MS)


def since(of: Callable[[Unit, Times], int], period: Callable[[Policy, str], int] = period_s, never: bool = True) -> Decides:
    """Decide by a period that begins then. `never`: a period of 0 does not end."""
    def is_over(policy: Policy, unit: Unit, times: Times, now_ns: int) -> bool:
        period_ns = period(policy, unit.tenant) * S
        return (period_ns > 0 or not never) and of(unit, times) + period_ns <= now_ns

    return is_over


def window_and_data(unit: Unit, times: Times) -> int:
    return max(unit.partition.end_ns, times.max_ms * MS)


def first_tenants(policy: Policy, tenant: str) -> int:
    """Return the first tenant's period for an anonymous unit."""
    return period_s(policy, tenant or "t1")


def shortest_or_longest(policy: Policy, tenant: str) -> int:
    """Take 0 for a period like any other."""
    return policy.tenants.get(tenant, policy.usual_s) if tenant else max(policy.usual_s, *policy.tenants.values())


def sweeping(world: Any, shape: Any, number: int) -> Impl:
    return Impl(objects_of=with_swaps(tombstones.objects_of, (tombstones, "is_inside", is_older)))


BUILDS: dict[str, tuple[str, Build]] = {  # name -> (its bug, its Build)
    "changed_unit_dropped": ("a unit that has changed since it was read is dropped",
                             applying(truncate, "is_unchanged", is_there)),
    "any_term": ("a command of an earlier term drops units", applying(plan_update, "is_of_term", always)),
    "dropped_unknown": ("a dropped unit refuses nothing", applying(removed, "is_dropped", never)),
    "dropped_forgotten_early": ("a dropped unit is forgotten before the horizon refuses its blocks",
                                applying(removed, "forget_dropped", forgotten_early)),
    "dropped_forgotten": ("a dropped unit is forgotten though a job may bring a block of it",
                          applying(removed, "may_come_back", never)),
    "no_horizon": ("blocks of any age are added", applying(removed, "is_too_old", never)),
    "older_deleted": ("the tombstone of a unit deletes all that is older", sweeping),
    "own_clock": ("the cleaner goes by the clock of its node", lambda world, shape, number: Impl(cleaner=ByOwnClock)),
    "window_ignored": ("the period does not wait for the end of the window",
                       deciding(since(lambda of, times: times.max_ms * MS))),
    "data_ignored": ("the period does not wait for the last datum",
                     deciding(since(lambda of, times: of.partition.end_ns))),
    "first_tenants_period": ("an anonymous unit goes by the first tenant's period",
                             deciding(since(window_and_data, first_tenants))),
    "never_is_at_once": ("a period of 0 has always passed", deciding(since(window_and_data, shortest_or_longest, False))),
}
MODEL = ("refinement:Cleaner.", "refinement:index", "refinement:.", "refinement:Sweep", "safety:")
ORACLES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {  # name -> prefixes of its signatures: by model; by harm
    **dict.fromkeys(BUILDS, (MODEL, ())),
    **dict.fromkeys(("own_clock", "window_ignored", "data_ignored"), ((*MODEL, "index:early"), ("index:early",))),
    "any_term": ((*MODEL, "call:clean"), ()),  # its caller is told of units that the command of the earlier term has dropped
}
MUTANTS = Mutants(BUILDS, ORACLES)

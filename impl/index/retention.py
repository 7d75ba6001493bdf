"""Safety: a unit is dropped only after the period of each tenant whose data it has, and only as the cleaner has read it.

Whoever leads reads the units by a consistent read, decides, and proposes a command. Retention drops units as a whole. A period
begins when the unit's window has ended and its last datum is over. An anonymous unit has data of all tenants, so it goes by the
longest period of any; with a period of 0 for one of them it stays for ever.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from highwater.impl.codecs.index import names
from highwater.impl.codecs.index.messages import Truncate
from highwater.impl.codecs.index.partitions import text
from highwater.impl.codecs.index.rows import Times, Unit
from highwater.impl.errors import Definite
from highwater.impl.index.kv import Rows
from highwater.impl.index.library import Index
from highwater.impl.index.log_time import MS, S, utc
from highwater.impl.index.pauses import repeat
from highwater.impl.index.query.catalogue import all_units
from highwater.impl.index.validate import invalid_tenant

AT_ONCE = 32  # units that one command drops at most
LONGEST_S = 100 * 366 * 24 * 3600


class PolicyRefused(Definite):
    """Periods that make no sense. The message says which."""


class Policy(NamedTuple):
    """The periods of an index, in seconds; 0: data are kept for ever."""

    usual_s: int = 31 * 24 * 3600  # of a tenant without one of its own
    tenants: Mapping[str, int] = {}


def checked(policy: Policy) -> Policy:
    """Return the policy. Raises PolicyRefused."""
    for name, period_s in (("", policy.usual_s), *policy.tenants.items()):
        of = f"of tenant {name!r}" if name else "of the others"
        if not 0 <= period_s <= LONGEST_S:
            raise PolicyRefused(f"the period {of} is {period_s} s: write 0 for ever, or at most {LONGEST_S}")
    for name in policy.tenants:
        wrong = invalid_tenant(name) if name else "it has no name"
        if wrong is not None:
            raise PolicyRefused(f"a period is of the tenant {name!r}: {wrong}")
    return policy


def period_s(policy: Policy, tenant: str) -> int:
    """Return the period of a tenant's units; "": of the anonymous ones."""
    if tenant:
        return policy.tenants.get(tenant, policy.usual_s)
    periods = (policy.usual_s, *policy.tenants.values())
    return 0 if 0 in periods else max(periods)


def is_over(policy: Policy, unit: Unit, times: Times, now_ns: int) -> bool:
    """Return whether the period of a unit has passed since its window and since its last datum."""
    period_ns = period_s(policy, unit.tenant) * S
    return period_ns > 0 and max(unit.partition.end_ns, times.max_ms * MS) + period_ns <= now_ns


def over(rows: Rows, policy: Policy, now_ns: int) -> Iterable[tuple[Unit, Times]]:
    """Yield the units that the policy drops, the oldest first."""
    return ((unit, times) for unit, times in all_units(rows) if is_over(policy, unit, times, now_ns))


def command(term: int, units: Iterable[tuple[Unit, Times]]) -> Any:
    """Return the command that drops units as they were read in a term."""
    made = Truncate(term=term)
    for unit, times in units:
        told = made.tombstones.add().shard
        told.name = names.unit_tombstone_name(unit.partition, unit.tenant, unit.shard)
        told.timestamp, told.duration = unit.partition.start_ns, unit.partition.length_s * S
        told.shard, told.tenant, told.unit_version = unit.shard, unit.tenant, times.version
    return made


class Cleaner:
    """The cleaner of one node. It asks its own node only, and does nothing while that does not lead."""

    def __init__(self, index: Index, leads: Callable[[], bool], policy: Policy, period_ms: int = 60_000,
                 log: Callable[[str], None] = lambda line: None):
        """Make a cleaner. `leads` tells whether the node leads, as far as it knows. `log` takes a line for each unit that the
        cleaner proposes to drop. Raises PolicyRefused."""
        self.index, self.leads, self.policy, self.period_ms, self.log = index, leads, checked(policy), period_ms, log

    async def run(self) -> None:
        """Clean until it is cancelled. Any error is a warning."""
        await repeat(self.index.world.clock, self.index.world.metrics, self.period_ms, "index_cleanings_failed",
                     "retention dropped nothing more", self.cleaned)

    async def cleaned(self) -> None:
        """Clean as often as there is something to drop, if this node leads. Raises what `clean` raises."""
        if self.leads():
            while await self.clean() == AT_ONCE:
                pass

    def over(self, rows: Rows) -> Iterable[tuple[Unit, Times]]:
        """Yield the units that the policy drops now, the oldest first."""
        return over(rows, self.policy, self.index.now_ns())

    async def clean(self) -> int:
        """Propose to drop the oldest units whose time is over, and return how many. Raises what `Index.truncate` raises."""
        term = self.index.node.state.term
        units = []
        for one in self.over(await self.index.rows()):
            units.append(one)
            if len(units) == AT_ONCE:
                break
        for unit, times in units:
            self.log(f"retention drops tenant {unit.tenant!r}, shard {unit.shard}, window {text(unit.partition)}, with data up "
                     f"to {utc(times.max_ms * MS)}")
        if units:
            await self.index.truncate(command(term, units))
            self.index.world.metrics.count("index_units_dropped", len(units))
        return len(units)

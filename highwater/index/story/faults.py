"""The faults of a story. The same seed gives the same faults in the same order.

Each round begins with a kill in each role, in an order that is drawn, so that a short story meets all roles. Then come MORE.
The leader is killed in four roles: as the node that leads, as the sweeper (while a sweep goes on), as the cleaner (once a unit
is to be dropped), and along with all others.
"""

from collections.abc import Iterator
from random import Random
from typing import NamedTuple

KILL, STALL = "kill", "stall"
NODE, LEADER, SWEEPER, CLEANER, ALL, WORKER, WRITER = ROLES = (
    "node", "leader", "sweeper", "cleaner", "all nodes", "worker", "writer")
FIRST = [(KILL, role) for role in ROLES]
MORE = [*((KILL, role) for role in (SWEEPER, CLEANER, WORKER, WORKER, WRITER)),
        *((STALL, role) for role in (NODE, LEADER, WORKER, WRITER))]


class Fault(NamedTuple):
    """One fault. `number` draws who is hit, among those of the role."""

    after_s: float  # since the fault before
    kind: str
    role: str
    number: int
    lasts_s: float  # until it goes on, or is started again
    waits: bool  # for the nodes to be well before

    def __str__(self) -> str:
        return f"{self.kind} {self.role} {self.number} for {self.lasts_s:.2f} s after {self.after_s:.2f} s"


def faults(seed: int, pause_s: float) -> Iterator[Fault]:
    """Yield the faults of a seed, without an end. `pause_s`: between two of them, on average."""
    random = Random(f"faults {seed}")
    while True:
        for kind, role in (*random.sample(FIRST, len(FIRST)), *random.sample(MORE, len(MORE))):
            lasts_s = random.uniform(0.3, 2.0) if kind == STALL else random.random()
            yield Fault(random.uniform(0, 2 * pause_s), kind, role, random.randrange(1 << 16), lasts_s, random.random() < 0.8)

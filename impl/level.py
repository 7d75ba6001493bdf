"""Defines the level of a cluster: which forms its nodes may write and send.

A level has two parts, because two programs have forms. `forms` counts those of highwater: kinds of entries and of messages, and
versions of the log and of snapshots. `machine` counts those of what is replicated: its commands, and the content of its
snapshots. Both begin at 1 and only rise. A node knows all levels up to one, and can read whatever they allow.
"""

from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple

FORMS = 2  # what this highwater knows. Raise it with each new kind of entry or message, and each new version of a file
# 2: entries carry checksums, on the way and in the log; a reply to a heartbeat tells the follower's clock
MOST = (1 << 16) - 1
BYTES = Struct(">HH")


class Level(NamedTuple):
    """A level of a cluster, or the highest that a node knows."""

    forms: int = 1
    machine: int = 1

    def __str__(self) -> str:
        return f"{self.forms}.{self.machine}"

    def covers(self, other: "Level") -> bool:
        """Tell whether a node that knows this level knows the other one."""
        return self.forms >= other.forms and self.machine >= other.machine

    def raised(self, other: "Level") -> "Level":
        """Return the lowest level that covers both."""
        return Level(max(self.forms, other.forms), max(self.machine, other.machine))


FIRST = Level()  # of a cluster that begins
ANY_MACHINE = Level(FORMS, MOST)  # what is known to those who read no command


def common(known: Iterable[Level]) -> Level:
    """Return the highest level that all of these cover. There must be one at least."""
    forms, machines = zip(*known)
    return Level(min(forms), min(machines))


def encoded(level: Level) -> bytes:
    return BYTES.pack(*level)


def decoded(data: bytes) -> Level:
    """Raises struct.error unless it has the length of a level."""
    return Level(*BYTES.unpack(data))

"""Defines what is replicated: a machine, all of whose replicas apply the same entries in the same order.

A new version of a machine must apply all commands as the old one did. If it has a new kind of command, it says a higher
`level`, and which commands need that: a node refuses those until all nodes of the group know the level (impl/level.py). A node
of the old version cannot refuse what it does not know, and appends it. So a command that comes below the level that it needs
must be applied as the old version applies it: `Command.level` tells. And `dump` must write what the old version loads, as long
as no command of the new level was applied.
"""

from collections.abc import Callable
from typing import Any, NamedTuple


class Command(NamedTuple):
    """A committed entry, as the machine gets it."""

    index: int
    term: int  # of the leader that took the entry
    body: bytes
    level: int = 1  # of the machine, that the group had when it came to this entry


def first_level(body: bytes) -> int:
    """Return the level that a command of a machine with one level needs."""
    return 1


class Machine(NamedTuple):
    """A machine: its first state, and pure functions of it. They must not depend on a clock, on chance, or on a set's order.

    A caller who got an indefinite error may propose the same again, so a machine that must not apply it twice recognises that.
    """

    initial: Any
    apply: Callable[[Any, Command], tuple[Any, Any]]  # (state, entry) -> (state, result)
    dump: Callable[[Any], bytes]
    load: Callable[[bytes], Any]  # the state that was dumped
    level: int = 1  # the highest level whose commands it applies
    level_of: Callable[[bytes], int] = first_level  # the level that a command needs, by its body; it must not raise
    settings: str = ""  # what else decides how a command is applied: "name=value .."; all nodes have the same, for ever

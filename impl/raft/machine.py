"""Defines what is replicated: a machine, all of whose replicas apply the same entries in the same order.

A new version of a machine must apply all commands as the old one did. If it has a new kind of command, it says a higher
`level`, and which commands need that: a node refuses those until all nodes of the group know the level (impl/level.py). A node
of the old version cannot refuse what it does not know, and appends it. So a command that comes below the level that it needs
must be applied as the old version applies it: `Command.level` tells. And `dump` must write what the old version loads, as long
as no command of the new level was applied.

A command that the machine cannot apply stops each node that comes to it, because replicas that skip an entry differ from those
that apply it. So a leader asks before it proposes one: see `Machine.check`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from highwater.impl.level import Level
from highwater.impl.raft import levels
from highwater.impl.raft.entries import COMMAND, LEVEL, Entry


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
    check: Callable[[Any, Command], str | None] | None = None  # why a command cannot be applied; None: `apply` is tried

    def refusal(self, value: Any, command: Command) -> str | None:
        """Return why the machine in this state cannot apply a command; None if it can.

        Without a check of its own, it applies the command and drops the result. Both only look at the present state. The state
        in which the entry is applied may be another one, so a command may still fail there."""
        try:
            if self.check:
                return self.check(value, command)
            _, _ = self.apply(value, command)
        except Exception as error:
            return f"the machine cannot apply the command: {named(error)}"
        return None


class CannotApply(Exception):
    """A machine raised an error when it applied an entry."""

    def __init__(self, index: int, entry: Entry, error: Exception):
        self.index = index
        super().__init__(f"entry {index:,} of term {entry.term:,}, a command of {len(entry.body):,} bytes: the machine cannot "
                         f"apply it: {named(error)}")


def named(error: Exception) -> str:
    """Return the kind of an error, and its text: one line of at most 200 characters."""
    return f"{type(error).__name__}: {' '.join(str(error)[:200].split())}"


def applied(machine: Machine, value: Any, level: Level, index: int, entry: Entry) -> tuple[Any, Level, Any]:
    """Return the state and the level after an entry, and the result of a command. Raises CannotApply."""
    if entry.kind == COMMAND:
        try:
            value, result = machine.apply(value, Command(index, entry.term, entry.body, level.machine))
        except Exception as error:
            raise CannotApply(index, entry, error) from error
        return value, level, result
    return value, level.raised(levels.of_entry(index, entry)) if entry.kind == LEVEL else level, None

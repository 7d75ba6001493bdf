"""Defines what is replicated: a machine, all of whose replicas apply the same entries in the same order."""

from collections.abc import Callable
from typing import Any, NamedTuple


class Command(NamedTuple):
    """A committed entry, as the machine gets it."""

    index: int
    term: int  # of the leader that took the entry
    body: bytes


class Machine(NamedTuple):
    """A machine: its first state, and pure functions of it. They must not depend on a clock, on chance, or on a set's order.

    A caller who got an indefinite error may propose the same again, so a machine that must not apply it twice recognises that.
    """

    initial: Any
    apply: Callable[[Any, Command], tuple[Any, Any]]  # (state, entry) -> (state, result)
    dump: Callable[[Any], bytes]
    load: Callable[[bytes], Any]  # the state that was dumped

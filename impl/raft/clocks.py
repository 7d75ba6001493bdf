"""Defines what a node of a group knows of the time: its own clock, and those that its followers' replies have told it."""

from collections.abc import Mapping
from typing import NamedTuple


class Told(NamedTuple):
    """The clock of a follower, as its latest reply to a heartbeat has told it."""

    clock_ms: int  # when the reply was sent
    age_ms: int  # since the reply came, by the monotonic clock of its receiver


class Clocks(NamedTuple):
    """The clocks that a node knows. `voters`: whose clocks count.

    Below level 2 of forms replies have no clocks, so a leader counts its own alone. None count at a node that does not lead, or
    has not applied yet what was committed before it led."""

    me: str
    voters: tuple[str, ...]
    own_ms: int
    told: Mapping[str, Told]
    passed_ms: int  # since the node applied its last command, by its monotonic clock

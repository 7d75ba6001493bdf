"""Define the faults of disks and messages. Which of them occur in a run, and how often, is drawn for each run (swarm sampling).

A fault affects one operation of a disk when it begins, or one message when it is sent. Long times are drawn as those of
requests are (faults.py). Fate 0 is no fault.
"""

from functools import cache
from typing import NamedTuple

from highwater.dst.world.faults import Weights, fates


class NodeWeights(NamedTuple):
    """The rate of each fault: of 1000 operations of a disk, then of 1000 messages; the last one of both."""

    slow: int = 20  # the operation stalls for a long time
    failed: int = 3  # it fails: what was written since the last good sync may be there or not
    full: int = 3  # an append finds the disk full, and so do all for a long time: nothing of them is in the file
    lie: int = 0  # a sync returns as if it had worked, and did nothing. No implementation survives it.
    late: int = 20  # the message arrives after a long time
    lost: int = 20  # it never arrives
    doubled: int = 20  # it arrives twice
    cut: int = 6  # for a long time all messages are lost: to one node, or of one or to one or both, in one direction
    slow_link: int = 4  # for a long time messages between these two nodes take up to ten times as long
    stall: int = 4  # the sender of the message stands still for a long time, with all its tasks
    crash: int = 3  # the node crashes: its process alone, or its machine, which loses what is not durable


DISK = ("slow", "failed", "full", "lie", "crash")
MESSAGES = ("late", "lost", "doubled", "cut", "slow_link", "stall", "crash")
DISK_FATES, MESSAGE_FATES = ("ok", *DISK), ("ok", *MESSAGES)  # a fate is an index into these
NO_FAULTS = NodeWeights(*[0] * len(NodeWeights._fields))
AnyWeights = Weights | NodeWeights


class Hardware(NamedTuple):
    """How long things take without faults."""

    there_ms: int  # a message: 1 up to this
    write_ms: int  # a change of a file or of a name: up to this
    sync_ms: int  # a sync: 1 up to this


HARDWARE = {
    "usual": Hardware(there_ms=8, write_ms=1, sync_ms=6),
    "slow network": Hardware(there_ms=40, write_ms=1, sync_ms=4),
    "slow disks": Hardware(there_ms=4, write_ms=8, sync_ms=60),
}


@cache
def disk_fates(weights: NodeWeights) -> bytes:
    """Return a table of 1000 fates of an operation, to be indexed with a random number."""
    return fates(tuple([getattr(weights, name) for name in DISK]))


@cache
def message_fates(weights: NodeWeights) -> bytes:
    """Return a table of 1000 fates of a message."""
    return fates(tuple([getattr(weights, name) for name in MESSAGES]))

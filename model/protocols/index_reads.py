"""Safety: a reader finds the object of every block that an answer of the index named, for as long as it may read.

The readers of a metadata index (Pyroscope's). A reader asks the index, which names blocks, and then reads their objects from
the store. Meanwhile a block may be removed: a job replaces it, or retention drops it. Its object is deleted a delay later. So a
reader has a time in which it reads, and the delay is longer than that time, by the clock of any leader. An entry has the time
of the leader who takes it, or that of the entry before it if that is later. So a block may be removed by one clock, and a
worker told by another that the delay has passed.

A block is a number, and comes once. How blocks are replaced is in metadata_fsm, and how units are dropped in index_retention.
Time is counted in steps. An answer is as of some moment of the call, if the node that gives it makes sure that it has applied
all entries (consistent_read). specs/IndexReads.fizz has the same names, states and labelled edges.
"""

from collections.abc import Iterator
from typing import NamedTuple

from highwater.model.core import Model, Property
from highwater.model.parts import MANY, all_but, below, clients, store


class Constants(NamedTuple):
    """Names and values as in the .fizz. None for a bound means unbounded and not counted (refinement uses that)."""

    BLOCKS: int = 1
    READERS: int = 1
    QUERY: int = 1  # for so long after an answer a reader reads objects
    DELAY: int = 2  # from the removal of a block until its object may be deleted
    AHEAD: int = 0  # by so much the clock of one leader is ahead of the other's
    MAX_NOW: int | None = 3
    # Safeguards: switch one off and a property must fail
    DELAYED: bool = True  # an object is deleted after the delay; False: at once
    LONGER: bool = True  # the delay is longer than a query; False: as long
    CLOCKS: bool = True  # and longer by as much as clocks differ; False: it is not
    ENDS: bool = True  # a reader ends once its time is over
    CURRENT: bool = True  # an answer has all that happened before the call; False: all that its node has applied


LIMITS = {**dict.fromkeys(("READERS", "QUERY", "DELAY", "AHEAD", "MAX_NOW"), MANY), "BLOCKS": MANY[1:]}

Block = int
Blocks = frozenset[Block]
NONE: Blocks = frozenset()


class Shared(NamedTuple):
    objects: Blocks  # in the store
    visible: Blocks  # in the index
    removed: frozenset[tuple[Block, int]]  # since when, by the log
    doomed: Blocks  # removed, and a worker was told that the delay has passed
    applied: Blocks  # that a node shows which lags behind; none if answers are current
    ahead: int  # by so much the leader's clock is ahead
    lead: int  # by so much the time of the last entry is ahead
    now: int
    # ghost
    missed: bool  # a reader has not found an object in its time


class Reader(NamedTuple):
    left: Blocks = NONE  # named by the answer, and not read yet
    since: int = 0  # the answer


def delay(c: Constants) -> int:
    if not c.DELAYED:
        return 0
    return c.QUERY if not c.LONGER else c.DELAY if c.CLOCKS else c.DELAY - c.AHEAD


def with_entry(s: Shared) -> Shared:
    """Take an entry into the log."""
    return s._replace(lead=max(s.lead, s.ahead))


def time_of(s: Shared) -> int:
    """Return the time of an entry that is taken now."""
    return s.now + max(s.lead, s.ahead)


def may_read(c: Constants, s: Shared, w: Reader) -> bool:
    return not c.ENDS or s.now <= w.since + c.QUERY


# --- readers

def query(c: Constants, me: int, s: Shared, w: Reader) -> Iterator:
    """It asks the index. An answer without blocks is no step."""
    named = s.visible if c.CURRENT else s.applied
    if not w.left and named:
        yield (), s, Reader(named, s.now)


def after_read(w: Reader, b: Block) -> Reader:
    left = w.left - {b}
    return Reader(left, w.since) if left else Reader()


def read(c: Constants, me: int, s: Shared, w: Reader) -> Iterator:
    """It reads the object of a block, in any order."""
    for b in sorted(w.left & s.objects):
        if may_read(c, s, w):
            yield (b,), s, after_read(w, b)


def read_gone(c: Constants, me: int, s: Shared, w: Reader) -> Iterator:
    """It finds no object."""
    for b in sorted(w.left - s.objects):
        if may_read(c, s, w):
            yield (b,), s._replace(missed=True), after_read(w, b)


def stop(c: Constants, me: int, s: Shared, w: Reader) -> Iterator:
    """It reads no more: its time is over, or its caller has enough."""
    if w.left:
        yield (), s, Reader()


# --- the index

def add(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    """A block whose object is written comes into the index."""
    known = s.visible | s.doomed | {b for b, _ in s.removed}
    for b in range(c.BLOCKS):
        if b not in known:
            yield (b,), with_entry(s)._replace(objects=s.objects | {b}, visible=s.visible | {b}), ()


def remove(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    """A job replaces a block, or retention drops it."""
    for b in sorted(s.visible):
        yield (b,), with_entry(s)._replace(visible=s.visible - {b}, removed=s.removed | {(b, time_of(s))}), ()


def hand_out(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    """A worker polls, and is told to delete the object of a removed block."""
    for b, at in sorted(s.removed):
        if at + delay(c) <= time_of(s):
            yield (b,), with_entry(s)._replace(removed=s.removed - {(b, at)}, doomed=s.doomed | {b}), ()


def poll(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    """The log takes another entry."""
    if with_entry(s) != s:
        yield (), with_entry(s), ()


def delete(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    """The worker deletes the object. A slow one may do so much later."""
    for b in sorted(s.doomed & s.objects):
        yield (b,), s._replace(objects=s.objects - {b}), ()


def elect(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    """The other node leads."""
    if c.AHEAD:
        yield (), s._replace(ahead=c.AHEAD - s.ahead), ()


def apply(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    """A node that lags behind applies what there is."""
    if not c.CURRENT and s.applied != s.visible:
        yield (), s._replace(applied=s.visible), ()


def tick(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    if below(s.now, c.MAX_NOW):
        yield (), s._replace(now=s.now + 1, lead=max(0, s.lead - 1)), ()


# --- properties

def reads_find(c: Constants, s: Shared) -> bool:
    """A reader finds every object of its answer in its time."""
    return not s.missed


def is_deleted(c: Constants, s: Shared) -> bool:
    return not s.doomed <= s.objects


def removed_is_read(c: Constants, s: Shared, w: Reader) -> bool:
    """A reader has yet to read a block that is removed, and its object is there."""
    return may_read(c, s, w) and any(b not in s.visible and b in s.objects for b in w.left)


READER = {"Query": query, "Read": read, "ReadGone": read_gone, "Stop": stop}
INDEX = {"Add": add, "Remove": remove, "HandOut": hand_out, "Poll": poll, "Delete": delete, "Elect": elect, "Apply": apply,
         "Tick": tick}

ALWAYS = {
    "ReadsFind": (None, reads_find),
}
SOMETIMES: dict[str, Property] = {
    "IsDeleted": (None, is_deleted),
    "RemovedIsRead": ("Reader", removed_is_read),
}


def model(c: Constants) -> Model:
    first = Shared(NONE, NONE, removed=frozenset(), doomed=NONE, applied=NONE, ahead=0, lead=0, now=0, missed=False)
    absent = {"RemovedIsRead"} if not c.READERS else set[str]()
    absent |= {"IsDeleted"} if c.MAX_NOW is not None and delay(c) > c.MAX_NOW + c.AHEAD else set()
    return Model("index_reads", c, first, (*clients(("Reader", c.READERS, Reader(), READER)), store(INDEX)), ALWAYS,
                 all_but(SOMETIMES, absent), renamed={"Reader": None})

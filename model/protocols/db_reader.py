"""Safety: what a reader shows is the log up to some row, each row once, and never less than it showed before. Each object that
it needs for this is there, unless a collector has dropped its checkpoint.

The reader of SlateDB's RFC on checkpoints and clones. A reader takes a checkpoint of the latest manifest, which also says how
far the WAL is seen. Then it replays the WAL into memory, and shows the SSTs of its checkpoint and the rows in memory. If the
SSTs of the latest manifest are others, or its checkpoint is gone, it takes another one. It keeps the earlier one for the scan
that is open.

A row is known by its sequence number, which is also the id of its WAL object. The SSTs of a manifest have the rows 1 to `upto`,
and its WAL is replayed after `after`, which may be less. An update of the manifest is one action (sequenced_metadata_boundary
proves that this is one step). There is no clock: a lease ends at any time. A collector deletes at any time what nothing that is
listed names: database_gc proves that garbage stays garbage. A request that is applied late is sent late. specs/DbReader.fizz
has the same names, states and labelled edges.
"""

from collections.abc import Iterator
from typing import NamedTuple

from highwater.model.core import Model
from highwater.model.parts import MANY, all_but, below, clients, one_more, store


class Constants(NamedTuple):
    """Names and values as in the .fizz. None for a bound means unbounded and not counted (refinement uses that)."""

    WRITERS: int = 1
    READERS: int = 1
    COLLECTORS: int = 1
    APPENDS: int | None = 1  # WAL objects that a writer puts
    FLUSHES: int | None = 1  # SSTs that a writer adds
    COMPACTIONS: int | None = 1  # SSTs that a writer puts in the place of all others
    PINS: int | None = 2  # checkpoints of a reader
    # Faults, each bounded
    MAX_ENDED: int | None = 0  # leases that end
    MAX_LOST: int | None = 0  # checkpoints of a reader that does not wait for the reply, and views that it gives up
    MAX_CLOSED: int | None = 0  # readers that are closed, or crash
    # For liveness alone: switch it off and a reader stays without a checkpoint
    SEES_LOSS: bool = True  # a poll notices that the checkpoint is not listed, or has ended
    # Safeguards: switch one off and a property must fail
    PIN_BEFORE_READ: bool = True  # a reader shows the manifest that its checkpoint keeps; False: one that it read before
    LAST_SEEN: bool = True  # a checkpoint says how far the WAL is seen, so that it keeps the WAL up to there
    KEEP_OLD_UNTIL_READ: bool = True  # a reader keeps an earlier checkpoint until the scan that uses it has ended
    REPLAY_SKIPS_SEQ: bool = True  # a replay leaves out the rows that the SSTs have
    PURGE_BY_SEQ: bool = True  # rows in memory go once the new SSTs have them; False: once their WAL is not replayed any more
    REPLACE_AFTER_BUILT: bool = True  # a view is replaced once the WAL is replayed; False: at once, with what there is


LIMITS = dict.fromkeys(("WRITERS", "READERS", "COLLECTORS", "APPENDS", "FLUSHES", "COMPACTIONS", "PINS", "MAX_ENDED",
                        "MAX_LOST", "MAX_CLOSED"), MANY)  # the values that an instance may have

Sst = int  # numbered as they are put, from 1 on
Log = int  # a row, and its WAL object
Id = int  # of a checkpoint: numbered as they are taken, from 1 on


class Checkpoint(NamedTuple):
    """A checkpoint, with what its manifest says: that never changes."""

    k: Id
    by: int  # its reader
    ssts: tuple[Sst, ...]
    upto: Log
    after: Log
    seen: Log


class Manifest(NamedTuple):
    ssts: frozenset[Sst] = frozenset()
    upto: Log = 0  # the SSTs have the rows up to this one
    after: Log = 0  # the WAL is replayed after this one
    seen: Log = 0  # how far some reader has seen the WAL
    checkpoints: frozenset[Checkpoint] = frozenset()


class Shared(NamedTuple):
    latest: Manifest
    ssts: frozenset[Sst]  # objects
    made: int  # SSTs put so far
    wal: frozenset[Log]  # objects
    logged: int  # WAL objects put so far
    taken: int  # checkpoints so far
    ended: frozenset[Id]  # listed checkpoints whose lease has ended
    lapses: int  # faults so far: leases that ended
    # ghost
    dropped: frozenset[Id]  # checkpoints that a collector has removed


class View(NamedTuple):
    k: Id = 0  # its checkpoint; 0: there is no view
    ssts: frozenset[Sst] = frozenset()
    upto: Log = 0
    rows: frozenset[Log] = frozenset()  # in memory


class Build(NamedTuple):
    """A view whose WAL is being replayed."""

    k: Id = 0
    ssts: frozenset[Sst] = frozenset()
    upto: Log = 0
    rows: frozenset[Log] = frozenset()
    at: Log = 0  # replayed up to here
    to: Log = 0  # to be replayed up to here


class Base(NamedTuple):
    """A manifest that was read before the checkpoint was taken, where PIN_BEFORE_READ is off."""

    read: bool = False
    ssts: frozenset[Sst] = frozenset()
    upto: Log = 0
    after: Log = 0


class Writer(NamedTuple):
    a: int = 0  # WAL objects put
    f: int = 0  # flushes
    m: int = 0  # compactions


class Reader(NamedTuple):
    pins: int = 0  # checkpoints so far
    lost: int = 0  # faults so far
    closed: int = 0
    base: Base = Base()
    next: Build = Build()
    view: View = View()
    scan: View = View()  # that is open
    # ghost
    most: Log = 0  # the last row that it has shown


class Collector(NamedTuple):
    """It knows nothing that matters here."""


# --- what is known

def listed(s: Shared) -> frozenset[Id]:
    return frozenset(one.k for one in s.latest.checkpoints)


def top(of: View | Build) -> Log:
    """The last row of a view."""
    return max(of.upto, max(of.rows, default=0))


def needs(c: Constants, s: Shared, r: Reader) -> bool:
    """Tell whether a poll finds that another checkpoint is needed."""
    lost = c.SEES_LOSS and (r.view.k not in listed(s) or r.view.k in s.ended)
    return r.view.k == 0 or r.view.ssts != s.latest.ssts or lost


# --- a writer, which also compacts

def append(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """PUT the next WAL object."""
    if below(w.a, c.APPENDS):
        yield (), s._replace(wal=s.wal | {s.logged + 1}, logged=s.logged + 1), w._replace(a=one_more(w.a, c.APPENDS))


def flush(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """Add an SST with the next rows. The WAL is replayed after some row in it, or before it."""
    m, new = s.latest, s.made + 1
    if below(w.f, c.FLUSHES):
        for upto in range(m.upto + 1, s.logged + 1):
            for after in range(m.after, upto + 1):
                yield (upto, after), s._replace(latest=m._replace(ssts=m.ssts | {new}, upto=upto, after=after), made=new,
                                                ssts=s.ssts | {new}), w._replace(f=one_more(w.f, c.FLUSHES))


def compact(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """Put an SST in the place of all others."""
    m, new = s.latest, s.made + 1
    if below(w.m, c.COMPACTIONS) and m.ssts:
        yield (), s._replace(latest=m._replace(ssts=frozenset((new,))), made=new, ssts=s.ssts | {new}), w._replace(
            m=one_more(w.m, c.COMPACTIONS))


# --- a reader

def pinned(c: Constants, me: int, s: Shared, seen: Log) -> Shared:
    """The next manifest, with a checkpoint of the reader."""
    m = s.latest
    written = seen if c.LAST_SEEN else m.seen
    one = Checkpoint(s.taken + 1, me, tuple(sorted(m.ssts)), m.upto, m.after, written)
    return s._replace(latest=m._replace(checkpoints=m.checkpoints | {one}, seen=written), taken=one.k)


def built(c: Constants, r: Reader, k: int, of: Manifest | Base | Checkpoint, to: Log) -> Reader:
    """The reader that begins to build a view of checkpoint `k`. What it has in memory already is not replayed again."""
    rows, at = frozenset[Log](), of.after
    if c.REPLACE_AFTER_BUILT:
        rows = frozenset(x for x in r.view.rows if x > (of.upto if c.PURGE_BY_SEQ else of.after))
        at = max(of.after, top(r.view))
    after = r._replace(base=Base(), next=Build(k, frozenset(of.ssts), of.upto, rows, at, to))
    return after if c.REPLACE_AFTER_BUILT else shown(after)


def shown(r: Reader) -> Reader:
    """The reader that shows what it has built."""
    view = View(*r.next[:4])
    return r._replace(view=view, most=max(r.most, top(view)))


def look(c: Constants, me: int, s: Shared, r: Reader) -> Iterator:
    """It reads the manifest first, and takes a checkpoint later."""
    if not c.PIN_BEFORE_READ and not r.base.read and r.next.k == 0 and needs(c, s, r) and below(r.pins, c.PINS):
        yield (), s, r._replace(base=Base(True, s.latest.ssts, s.latest.upto, s.latest.after))


def pin(c: Constants, me: int, s: Shared, r: Reader) -> Iterator:
    """It takes a checkpoint of the manifest that lists it first, having listed the WAL up to `seen`."""
    if r.next.k == 0 and below(r.pins, c.PINS) and (r.base.read or (c.PIN_BEFORE_READ and needs(c, s, r))):
        of = s.latest if c.PIN_BEFORE_READ else r.base
        for seen in range(s.latest.seen, s.logged + 1):
            yield (seen,), pinned(c, me, s, seen), built(c, r._replace(pins=one_more(r.pins, c.PINS)), s.taken + 1, of, seen)


def stray(c: Constants, me: int, s: Shared, r: Reader) -> Iterator:
    """A checkpoint of it is taken, and it has not waited for that."""
    if below(r.lost, c.MAX_LOST) and below(r.pins, c.PINS):
        for seen in range(s.latest.seen, s.logged + 1):
            yield (seen,), pinned(c, me, s, seen), r._replace(pins=one_more(r.pins, c.PINS),
                                                           lost=one_more(r.lost, c.MAX_LOST))


def adopt(c: Constants, me: int, s: Shared, r: Reader) -> Iterator:
    """It finds a checkpoint of its own that it does not use."""
    if r.next.k == 0:
        for one in sorted(s.latest.checkpoints):
            if one.by == me and one.k > r.view.k:
                yield (one.k,), s, built(c, r, one.k, one, one.seen)


def replay(c: Constants, me: int, s: Shared, r: Reader) -> Iterator:
    """GET the next WAL object."""
    i = r.next.at + 1
    if r.next.k and i <= r.next.to and i in s.wal:
        rows = r.next.rows | {i} if i > r.next.upto or not c.REPLAY_SKIPS_SEQ else r.next.rows
        after = r._replace(next=r.next._replace(at=i, rows=rows))
        yield (), s, after if c.REPLACE_AFTER_BUILT else shown(after)


def miss(c: Constants, me: int, s: Shared, r: Reader) -> Iterator:
    """The next WAL object is gone, because the checkpoint was dropped: it stops building."""
    if r.next.k and r.next.at < r.next.to and r.next.at + 1 not in s.wal:
        yield (), s, r._replace(next=Build())


def swap(c: Constants, me: int, s: Shared, r: Reader) -> Iterator:
    """It shows what it has built."""
    if r.next.k and r.next.at >= r.next.to:
        yield (), s, shown(r)._replace(next=Build())


def give_up(c: Constants, me: int, s: Shared, r: Reader) -> Iterator:
    """It stops building, because a request failed."""
    if r.next.k and below(r.lost, c.MAX_LOST):
        yield (), s, r._replace(next=Build(), lost=one_more(r.lost, c.MAX_LOST))


def start_scan(c: Constants, me: int, s: Shared, r: Reader) -> Iterator:
    if r.view.k and r.scan.k == 0:
        yield (), s, r._replace(scan=r.view)


def end_scan(c: Constants, me: int, s: Shared, r: Reader) -> Iterator:
    if r.scan.k:
        yield (), s, r._replace(scan=View())


def release(c: Constants, me: int, s: Shared, r: Reader) -> Iterator:
    """It deletes a checkpoint of its own that it does not use."""
    used = {r.next.k, r.view.k} | ({r.scan.k} if c.KEEP_OLD_UNTIL_READ else set())
    for one in sorted(s.latest.checkpoints):
        if one.by == me and one.k not in used:
            yield (one.k,), without(s, frozenset({one.k})), r


def refresh(c: Constants, me: int, s: Shared, r: Reader) -> Iterator:
    """It renews a lease, which may have ended."""
    for one in sorted(s.latest.checkpoints):
        if one.by == me and one.k in s.ended:
            yield (one.k,), s._replace(ended=s.ended - {one.k}), r


def close(c: Constants, me: int, s: Shared, r: Reader) -> Iterator:
    """It is closed or crashes. Whoever opens it again uses new ids."""
    if r.view.k + r.next.k + r.scan.k and below(r.closed, c.MAX_CLOSED):
        yield (), s, Reader(r.pins, r.lost, one_more(r.closed, c.MAX_CLOSED))


# --- a collector, and time

def without(s: Shared, gone: frozenset[Id]) -> Shared:
    left = frozenset(one for one in s.latest.checkpoints if one.k not in gone)
    return s._replace(latest=s.latest._replace(checkpoints=left), ended=s.ended - gone)


def drop(c: Constants, me: int, s: Shared, g: Collector) -> Iterator:
    """It removes a checkpoint whose lease has ended."""
    for which in sorted(s.ended):
        yield (which,), without(s, frozenset({which}))._replace(dropped=s.dropped | {which}), g


def delete_sst(c: Constants, me: int, s: Shared, g: Collector) -> Iterator:
    kept = s.latest.ssts | {x for one in s.latest.checkpoints for x in one.ssts}
    for x in sorted(s.ssts - kept):
        yield (x,), s._replace(ssts=s.ssts - {x}), g


def delete_wal(c: Constants, me: int, s: Shared, g: Collector) -> Iterator:
    for i in sorted(s.wal):
        if i <= s.latest.after and not any(one.after < i <= one.seen for one in s.latest.checkpoints):
            yield (i,), s._replace(wal=s.wal - {i}), g


def end_lease(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    for which in sorted(listed(s) - s.ended) if below(s.lapses, c.MAX_ENDED) else ():
        yield (which,), s._replace(ended=s.ended | {which}, lapses=one_more(s.lapses, c.MAX_ENDED)), ()


# --- properties

def is_prefix(of: View) -> bool:
    """Tell whether a view is the log up to some row, each row once."""
    return of.rows == frozenset(range(of.upto + 1, top(of) + 1))


def reader_is_complete(c: Constants, s: Shared, r: Reader) -> bool:
    """A reader shows the log up to some row, each row once, and so is what its scan shows."""
    return is_prefix(r.view) and is_prefix(r.scan)


def nothing_is_missing(c: Constants, s: Shared, r: Reader) -> bool:
    """The SSTs and the WAL objects that a reader needs are there, but for a checkpoint that a collector has dropped."""
    used = ((r.next, range(r.next.at + 1, r.next.to + 1)), (r.view, ()), (r.scan, ()))
    return all(of.k in s.dropped or (of.ssts <= s.ssts and s.wal.issuperset(wal)) for of, wal in used)


def reader_never_goes_back(c: Constants, s: Shared, r: Reader) -> bool:
    """A reader shows each row that it has shown before."""
    return top(r.view) >= r.most


def scan_is_old(c: Constants, s: Shared, r: Reader) -> bool:
    """A scan uses an earlier checkpoint than the view."""
    return 0 < r.scan.k < r.view.k


def scan_alone_needs(c: Constants, s: Shared, r: Reader) -> bool:
    """Only the checkpoint of a scan keeps an SST."""
    others = s.latest.ssts | {x for one in s.latest.checkpoints if one.k != r.scan.k for x in one.ssts}
    return r.scan.k in listed(s) and not r.scan.ssts <= others


def rows_are_in_memory(c: Constants, s: Shared, r: Reader) -> bool:
    return bool(r.view.rows)


def seen_is_kept(c: Constants, s: Shared) -> bool:
    """Only a checkpoint keeps a WAL object."""
    return any(i <= s.latest.after for i in s.wal)


def checkpoint_is_lost(c: Constants, s: Shared, r: Reader) -> bool:
    return r.view.k in s.dropped


def reader_comes_back(c: Constants, s: Shared, r: Reader) -> bool:
    """A reader has a checkpoint that is listed, again and again."""
    return r.view.k in listed(s)


WRITER = {"Append": append, "Flush": flush, "Compact": compact}
READER = {
    "Look": look, "Pin": pin, "Stray": stray, "Adopt": adopt, "Replay": replay, "Miss": miss, "Swap": swap,
    "GiveUp": give_up, "StartScan": start_scan, "EndScan": end_scan, "Release": release, "Refresh": refresh, "Close": close,
}
COLLECTOR = {"Drop": drop, "DeleteSst": delete_sst, "DeleteWal": delete_wal}
STORE = {"EndLease": end_lease}
ROLES = {"Writer": WRITER, "Reader": READER, "Collector": COLLECTOR}

ALWAYS = {
    "ReaderIsComplete": ("Reader", reader_is_complete),
    "NothingIsMissing": ("Reader", nothing_is_missing),
    "ReaderNeverGoesBack": ("Reader", reader_never_goes_back),
}
SOMETIMES = {
    "ScanIsOld": ("Reader", scan_is_old),
    "ScanAloneNeeds": ("Reader", scan_alone_needs),
    "RowsAreInMemory": ("Reader", rows_are_in_memory),
    "SeenIsKept": (None, seen_is_kept),
    "CheckpointIsLost": ("Reader", checkpoint_is_lost),
}
EVENTUALLY = {"ReaderComesBack": ("Reader", reader_comes_back)}
FAULTS = {"Flush", "Compact", "Look", "Stray", "GiveUp", "StartScan", "Close"}  # never obligatory, so not fair
FAIR = {role: frozenset(actions.keys() - FAULTS) for role, actions in ROLES.items()}


def initial() -> Shared:
    return Shared(Manifest(), frozenset(), 0, frozenset(), 0, 0, frozenset(), 0, frozenset())


def absent(c: Constants) -> Iterator[str]:
    """Yield the witnesses that an instance cannot have."""
    if c.COMPACTIONS == 0:
        yield "ScanAloneNeeds"
    if c.MAX_ENDED == 0:
        yield "CheckpointIsLost"


def model(c: Constants) -> Model:
    roles = (("Writer", c.WRITERS, Writer(), WRITER), ("Reader", c.READERS, Reader(), READER),
             ("Collector", c.COLLECTORS, Collector(), COLLECTOR))
    return Model("db_reader", c, initial(), (*clients(*roles), store(STORE)), ALWAYS, all_but(SOMETIMES, absent(c)), EVENTUALLY,
                 FAIR, renamed={"Collector": None})

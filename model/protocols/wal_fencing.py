"""Safety: no acknowledged record is missing from what the latest open writer serves, nor from what the next one recovers. No
writer acknowledges anything after a later writer has opened.

One writer at a time logs records in numbered WAL objects, each created if absent, as in the essay's sequenced write of an
append-only log, with the epochs of SlateDB's page on the manifest and the boundary of SlateDB's RFC on GC boundary files.
specs/WalFencing.fizz has the same names, states and labelled edges. A new writer claims the next epoch, lists, puts an empty
object, the fence, in the first free slot ahead of replay_after (the old writer's next create finds it), replays from
replay_after to its fence, and reads the manifest again to see that it is still the latest; then it serves. A create is
followed by one read of the manifest before it is acknowledged.

That the replay is judged when it is over, and not before, matters: what a later writer has flushed may be collected during
the replay, and in the free slot a create of a stale writer may land. So an object that is gone is not the only sign of a
successor.

The manifest is one object, put if it is still what was read: no more of it matters here. That a sequence of files does the
same is ManifestEpochs', that they may be collected is SequencedMetadataBoundary's. A pair of epoch and replay_after never
recurs, so the content stands for the version, and one that is a digest of it would do.

replay_after is the WAL's boundary in the sense of that RFC: durable before any WAL object behind it is deleted. The read that
comes before the acknowledgement compares the epoch, which says more: no successor has so much as claimed, so none has opened,
and nobody but this writer can have moved replay_after. To compare replay_after costs as much and keeps every record, but lets
a writer acknowledge after its successor has opened. Stalls need no action: a client that is not scheduled is stalled. A
DELETE that is applied late is one that is sent late.

An open writer takes checkpoints, and drops any that is listed. SlateDB's RFC on checkpoints: a WAL object is kept if its id is
after the replay_after of a listed checkpoint, and at most the last id that the checkpoint has seen. The manifest lists both ids
of each checkpoint. It counts the checkpoints that were taken, so that its content still never recurs. When a checkpoint ends is
the subject of model/protocols/checkpoints.py.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from highwater.model.core import Model
from highwater.model.parts import MANY, all_but, below, clients, crashed, in_queue, one_more, queued, reply_lost, store


class Constants(NamedTuple):
    """Names and values as in the .fizz. None for a bound means unbounded and not counted (refinement uses that)."""

    WRITERS: int = 2  # writers over time; each opens once
    COLLECTORS: int = 1
    APPENDS: int | None = 1  # records that a writer begins
    FLUSHES: int | None = 1  # flushes of a writer
    CHECKPOINTS: int | None = 0  # checkpoints that writers take, in all
    # Faults, each bounded
    MAX_PENDING: int | None = 0  # requests in all that are in flight when their clients stop waiting
    MAX_LOST: int | None = 0  # responses lost
    MAX_CRASHES: int | None = 0
    # Safeguards: switch one off and a property must fail
    CREATE_IF_ABSENT: bool = True  # False: a WAL object is put without a condition
    MANIFEST_CAS: bool = True  # False: the manifest is put without a condition
    ORDER: str = "claim"  # an open's first step: "claim" the epoch; "list", then claim, then fence; "fence", and claim after it
    FENCE: bool = True  # False: no fence; the replay ends before the first free slot
    FENCE_AHEAD: bool = True  # the fence is ahead of the claimed replay_after; False: only of the listed objects
    VALIDATE: str = "after"  # when a writer compares its epoch with the manifest's: "after" its replay, "before" it, "none"
    CHECK: str = "epoch"  # compared between create and acknowledgement: "epoch", "boundary" (replay_after), "none"
    FENCE_GC: bool = True  # fences are collected as records are
    RESOLVE_ONCE: bool = True  # False: a listing after the fence says what to replay
    MISSING_IS_FENCED: bool = True  # a missing object in a replay means a later writer; False: it is skipped
    FLUSH_EXACT: bool = True  # replay_after is the last flushed id; False: the last id that the writer knows
    EPOCH_CHECK: bool = True  # a flush with a conflict compares the epochs
    GC_BEHIND: bool = True  # only objects behind replay_after are deleted; False: any but the latest
    SPARE_CHECKPOINTED: bool = True  # the objects of listed checkpoints are kept
    UNKNOWN: str = "recognise"  # an append in doubt: "recognise" its own object; "conclude" from another writer's object that
    #                             its own is absent; "refuse" any object; "skip" the slot


LIMITS = {  # the values that an instance may have
    **dict.fromkeys(("WRITERS", "COLLECTORS", "APPENDS", "FLUSHES", "CHECKPOINTS", "MAX_PENDING", "MAX_LOST", "MAX_CRASHES"),
                    MANY),
    "ORDER": ("claim", "list", "fence"),
    "VALIDATE": ("after", "before", "none"),
    "CHECK": ("epoch", "boundary", "none"),
    "UNKNOWN": ("recognise", "conclude", "refuse", "skip"),
}

Record = tuple[int, int]  # (writer, zero-based index of its record)
Body = Record | tuple[()]  # (): an empty object, a fence
Slot = tuple[Body, ...]  # (): no object has this id
Checkpoint = tuple[int, int, int]  # (its number, its replay_after, the last id that it refers to)


class Manifest(NamedTuple):
    writer_epoch: int = 0
    replay_after: int = 0  # the last WAL id whose record is flushed
    flushed: frozenset[Record] = frozenset()
    checkpoints: frozenset[Checkpoint] = frozenset()
    taken: int = 0  # checkpoints taken so far, which is the number of the next one


class Shared(NamedTuple):
    manifest: Manifest
    wal: tuple[Slot, ...]  # wal[i - 1] is the object of id i
    pool: tuple[tuple, ...]  # requests in flight whose clients no longer wait
    sent: int  # faults so far
    lost: int
    crashes: int
    # ghosts
    claimed: frozenset[tuple[int, int]]  # (writer, its epoch)
    top: int  # the highest epoch of a writer that has opened
    late: bool  # a writer acknowledged or flushed after a later one had opened
    acked: frozenset[Record]
    refused: frozenset[Record]  # records that were reported as being in no log
    first: tuple[Slot, ...]  # what was first written under each id


class Writer(NamedTuple):
    pc: str = "Closed"  # Closed, Probed, Ready, Claimed, Listed, Resolve, Replaying, Validating; Open, Created, Doubt,
    #                     Refused; Reread; Fenced, Dead
    epoch: int = 0
    base: Any = None  # the manifest that it knows
    n: int = 0  # the last id listed, then replayed, then written
    fence: int = 0
    end: int = 0  # its replay ends before this id
    has: frozenset[Record] = frozenset()  # its memtable and the flushed records
    k: int = 0  # zero-based index of its current record
    f: int = 0  # flushes begun
    # ghosts
    since: int = 0  # replay_after in the manifest that it claimed
    got: tuple[tuple[int, Body], ...] = ()  # the ids replayed, with their objects


class Collector(NamedTuple):
    n: int = 0  # the replay_after that it knows
    spared: frozenset[Checkpoint] = frozenset()  # the checkpoints that it knows


SERVING = ("Open", "Created", "Doubt", "Refused")


# --- the store

def in_slot(slots: tuple[Slot, ...], i: int) -> Slot:
    return slots[i - 1] if 0 < i <= len(slots) else ()


def slot(s: Shared, i: Any) -> Slot:
    return in_slot(s.wal, i)


def with_slot(s: Shared, i: int, one: Slot) -> Shared:
    wal, first = (those + ((),) * (i - len(those)) for those in (s.wal, s.first))
    return s._replace(wal=(*wal[:i - 1], one, *wal[i:]), first=(*first[:i - 1], first[i - 1] or one, *first[i:]))


def taken(c: Constants, s: Shared, i: int) -> bool:
    """Tell whether a create of this id is refused."""
    return c.CREATE_IF_ABSENT and slot(s, i) != ()


def latest(s: Shared) -> int:
    """The highest id that a listing shows; 0 for none."""
    return max((i for i, one in enumerate(s.wal, 1) if one), default=0)


def changed(c: Constants, s: Shared, base: Manifest) -> bool:
    """Tell whether a put of the manifest over `base` is refused."""
    return c.MANIFEST_CAS and s.manifest != base


# --- a writer opens: GET the manifest, PUT it with the next epoch, LIST, PUT the fence, GET each WAL object, GET the manifest

def read_manifest(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    if w.pc == before_claim(c):
        yield (), s, w._replace(pc="Ready", base=s.manifest)


def before_claim(c: Constants) -> str:
    return "Closed" if c.ORDER == "claim" else "Probed"


def claimed(m: Manifest) -> Manifest:
    return m._replace(writer_epoch=m.writer_epoch + 1)


def claim(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    if w.pc == "Ready" and not changed(c, s, w.base):
        m = claimed(w.base)
        s = s._replace(manifest=m, claimed=s.claimed | {(me, m.writer_epoch)})
        after = w._replace(epoch=m.writer_epoch, base=m, since=m.replay_after)
        if c.ORDER == "fence":
            yield (), *ready(c, s, after)
        elif c.ORDER == "list":
            yield (), s, after._replace(pc="Listed", n=ahead(c, w.n, m))
        else:
            yield (), s, after._replace(pc="Claimed")


def ahead(c: Constants, n: int, m: Manifest) -> int:
    """The last id that is or was taken: «IDs <= B in that namespace must be treated as potentially deleted»."""
    return max(n, m.replay_after) if c.FENCE_AHEAD else n


def claim_conflict(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    if w.pc == "Ready" and changed(c, s, w.base):
        yield (), s, w._replace(pc=before_claim(c), base=None)


def writer_list(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    if w.pc == "Claimed":
        n = ahead(c, latest(s), w.base)
        yield (), *((s, w._replace(pc="Listed", n=n)) if c.FENCE else ready(c, s, w._replace(fence=n + 1)))
    elif w.pc == "Closed" and c.ORDER != "claim":
        yield (), s, w._replace(pc="Probed" if c.ORDER == "list" else "Listed", n=latest(s))


def create_fence(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    if w.pc == "Listed" and not taken(c, s, w.n + 1):
        s, after = with_slot(s, w.n + 1, ((),)), w._replace(n=0, fence=w.n + 1)
        yield (), *((s, after._replace(pc="Probed")) if c.ORDER == "fence" else ready(c, s, after))


def fence_conflict(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """The slot is taken by another writer, or by the writer's own fence. Try the next slot."""
    if w.pc == "Listed" and taken(c, s, w.n + 1):
        yield (), s, w._replace(n=w.n + 1)


def ready(c: Constants, s: Shared, w: Writer) -> tuple[Shared, Writer]:
    """The epoch is claimed, and the fence exists."""
    return (s, w._replace(pc="Validating")) if c.VALIDATE == "before" else settled(c, s, w)


def settled(c: Constants, s: Shared, w: Writer) -> tuple[Shared, Writer]:
    """The range to replay follows from the claimed manifest and the fence. Nobody else may have moved either."""
    after = w._replace(n=w.base.replay_after, end=w.fence, has=w.base.flushed)
    return replayed(c, s, after) if c.RESOLVE_ONCE else (s, after._replace(pc="Resolve"))


def list_again(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    if w.pc == "Resolve":
        ids = [i for i, one in enumerate(s.wal, 1) if one and i > w.base.replay_after]
        after = w._replace(n=min(ids) - 1, end=max(ids) + 1) if ids else w
        yield (), *replayed(c, s, after)


def replayed(c: Constants, s: Shared, w: Writer) -> tuple[Shared, Writer]:
    """The writer has all objects up to n. The replay ends at `end`."""
    if w.n + 1 < w.end:
        return s, w._replace(pc="Replaying")
    return (s, w._replace(pc="Validating")) if c.VALIDATE == "after" else opened(c, s, w)


def opened(c: Constants, s: Shared, w: Writer) -> tuple[Shared, Writer]:
    return s._replace(top=max(s.top, w.epoch)), w._replace(pc="Open", n=max(w.fence if c.FENCE else 0, w.end - 1))


def read_next(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    if w.pc == "Replaying" and slot(s, w.n + 1):
        body, = slot(s, w.n + 1)
        has = w.has | {body} if body else w.has
        yield (), *replayed(c, s, w._replace(n=w.n + 1, has=has, got=(*w.got, (w.n + 1, body))))


def read_missing(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """A later writer has flushed the object, and it was collected."""
    if w.pc == "Replaying" and not slot(s, w.n + 1):
        yield (), *((s, stopped(w)) if c.MISSING_IS_FENCED else replayed(c, s, w._replace(n=w.n + 1)))


def validate(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """GET the manifest if it has changed. It has not: nobody has claimed, so nobody has moved replay_after."""
    if w.pc == "Validating" and s.manifest.writer_epoch == w.epoch:
        yield (), *(opened(c, s, w) if c.VALIDATE == "after" else settled(c, s, w))


def validate_fenced(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    if w.pc == "Validating" and s.manifest.writer_epoch != w.epoch:
        yield (), s, stopped(w)


def stopped(w: Writer) -> Writer:
    return Writer("Fenced", w.epoch, k=w.k)


# --- it appends: PUT the next WAL object if absent, GET the manifest

def may_append(c: Constants, w: Writer) -> bool:
    return w.pc == "Doubt" or (w.pc == "Open" and below(w.k, c.APPENDS))


def acked(c: Constants, me: int, s: Shared, w: Writer) -> tuple[Shared, Writer]:
    record = (me, w.k)
    after = s._replace(acked=s.acked | {record}, late=s.late or w.epoch < s.top)
    return after, w._replace(pc="Open", n=w.n + 1, has=w.has | {record}, k=w.k + 1)


def durable(c: Constants, me: int, s: Shared, w: Writer) -> tuple[Shared, Writer]:
    """Tell whether the writer's object exists."""
    return acked(c, me, s, w) if c.CHECK == "none" else (s, w._replace(pc="Created"))


def create_next(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    if may_append(c, w) and not taken(c, s, w.n + 1):
        yield (), *durable(c, me, with_slot(s, w.n + 1, ((me, w.k),)), w)


def create_conflict(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """The slot is taken. The writer is fenced and tells its caller, unless the object may be its own."""
    if may_append(c, w) and taken(c, s, w.n + 1):
        if w.pc == "Doubt" and c.UNKNOWN in ("recognise", "conclude"):
            yield (), s, w._replace(pc="Refused")
        else:
            yield (), s._replace(refused=s.refused | {(me, w.k)}), stopped(w)


def read_own(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """GET the object in the way: it is the writer's own."""
    if w.pc == "Refused" and slot(s, w.n + 1) == ((me, w.k),):
        yield (), *durable(c, me, s, w)


def read_other(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """GET the object in the way: another writer's. It is fenced. Its own object may have been there, flushed and collected."""
    if w.pc == "Refused" and slot(s, w.n + 1) not in ((), ((me, w.k),)):
        yield (), s._replace(refused=s.refused | {(me, w.k)}) if c.UNKNOWN == "conclude" else s, stopped(w)


def read_gone(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """The object in the way was collected. The writer is fenced, and whether its record is in the log is unknown."""
    if w.pc == "Refused" and slot(s, w.n + 1) == ():
        yield (), s, stopped(w)


def passes(c: Constants, s: Shared, w: Writer) -> bool:
    return s.manifest.writer_epoch == w.epoch if c.CHECK == "epoch" else w.n + 1 > s.manifest.replay_after


def accept(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """GET the manifest if it has changed. It has not, so the record is acknowledged."""
    if w.pc == "Created" and passes(c, s, w):
        yield (), *acked(c, me, s, w)


def reject(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """The writer is fenced. Whether the later writer replayed the record, or its slot was collected before, is unknown."""
    if w.pc == "Created" and not passes(c, s, w):
        yield (), s, stopped(w)


# --- it flushes, also while it replays: PUT the manifest if it is what it knows

def flushing(c: Constants, w: Writer) -> Manifest | None:
    """The manifest that the writer would put now."""
    if w.pc not in ("Open", "Replaying") or not below(w.f, c.FLUSHES):
        return None
    upto = w.n if c.FLUSH_EXACT or w.pc == "Open" else w.end
    m = w.base._replace(replay_after=upto, flushed=w.base.flushed | w.has)
    return None if m == w.base else m


def flush_next(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    if (m := flushing(c, w)) and not changed(c, s, w.base):
        yield (), s._replace(manifest=m, late=s.late or w.epoch < s.top), w._replace(base=m, f=one_more(w.f, c.FLUSHES))


def flush_conflict(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    if flushing(c, w) and changed(c, s, w.base):
        yield (), s, w._replace(pc="Reread")


def reread_current(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """GET the manifest: the writer's own flush is applied, or not yet."""
    if w.pc == "Reread" and (s.manifest.writer_epoch == w.epoch or not c.EPOCH_CHECK):
        yield (), s, w._replace(pc="Replaying" if w.n + 1 < w.end else "Open", base=s.manifest)


def reread_fenced(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    if w.pc == "Reread" and s.manifest.writer_epoch != w.epoch and c.EPOCH_CHECK:
        yield (), s, stopped(w)


# --- it takes a checkpoint, or drops one: PUT the manifest if it is what it knows

def remarked(c: Constants, w: Writer, i: int) -> Manifest | None:
    """The manifest with checkpoint i taken, or dropped; None if the writer can do neither."""
    if w.pc != "Open":
        return None
    m = w.base
    if i == m.taken and below(i, c.CHECKPOINTS):
        return m._replace(checkpoints=m.checkpoints | {(i, m.replay_after, w.n)}, taken=i + 1)
    rest = frozenset(one for one in m.checkpoints if one[0] != i)
    return None if rest == m.checkpoints else m._replace(checkpoints=rest)


def remarks(c: Constants, w: Writer) -> list[tuple[int, Manifest]]:
    """Each checkpoint that the writer can take or drop, with the manifest that it would put."""
    if w.pc != "Open" or c.CHECKPOINTS == 0:
        return []
    return [(i, m) for i in range(w.base.taken + 1) if (m := remarked(c, w, i))]


def checkpoint_next(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    for i, m in remarks(c, w):
        if not changed(c, s, w.base):
            yield (i,), s._replace(manifest=m), w._replace(base=m)


def checkpoint_conflict(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    for i, _ in remarks(c, w):
        if changed(c, s, w.base):
            yield (i,), s, w._replace(pc="Reread")


# --- faults: a PUT is under way when the writer stops waiting for it, and is applied at any later time, or never (Send..);
# or it is applied, or refused, and the writer does not learn which (Lose..)

def in_doubt(c: Constants, w: Writer) -> Writer:
    return w._replace(pc="Open", n=w.n + 1, k=w.k + 1) if c.UNKNOWN == "skip" else w._replace(pc="Doubt")


def pending(c: Constants, s: Shared, *request: object) -> Shared:
    return queued(s, request)._replace(sent=one_more(s.sent, c.MAX_PENDING))


def send_create(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    if may_append(c, w) and below(s.sent, c.MAX_PENDING):
        yield (), pending(c, s, "Create", w.n + 1, (me, w.k)), in_doubt(c, w)


def lose_create(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    if may_append(c, w) and below(s.lost, c.MAX_LOST):
        after = s if taken(c, s, w.n + 1) else with_slot(s, w.n + 1, ((me, w.k),))
        yield (), reply_lost(c, after), in_doubt(c, w)


def send_fence(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """The writer puts its fence again. The object that it then meets may be its own, with the same effect."""
    if w.pc == "Listed" and below(s.sent, c.MAX_PENDING):
        yield (), pending(c, s, "Create", w.n + 1, ()), w


def lose_fence(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    if w.pc == "Listed" and below(s.lost, c.MAX_LOST):
        yield (), reply_lost(c, s if taken(c, s, w.n + 1) else with_slot(s, w.n + 1, ((),))), w


def putting(c: Constants, w: Writer) -> tuple[Manifest | None, Writer]:
    """The manifest that the writer puts now, and its state if the outcome is indeterminate: it reads the manifest again."""
    if w.pc == "Ready":
        return claimed(w.base), w._replace(pc=before_claim(c), base=None)
    return flushing(c, w), w._replace(pc="Reread", f=one_more(w.f, c.FLUSHES))


def send_manifest(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    m, after = putting(c, w)
    if m and below(s.sent, c.MAX_PENDING):
        yield (), pending(c, s, "Manifest", w.base, m), after


def lose_manifest(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    m, after = putting(c, w)
    if m and below(s.lost, c.MAX_LOST):
        yield (), reply_lost(c, s if changed(c, s, w.base) else s._replace(manifest=m)), after


def send_checkpoint(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    for i, m in remarks(c, w):
        if below(s.sent, c.MAX_PENDING):
            yield (i,), pending(c, s, "Manifest", w.base, m), w._replace(pc="Reread")


def lose_checkpoint(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    for i, m in remarks(c, w):
        if below(s.lost, c.MAX_LOST):
            yield (i,), reply_lost(c, s if changed(c, s, w.base) else s._replace(manifest=m)), w._replace(pc="Reread")


def crash(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """The writer does not come back. Another one may open."""
    if w.pc not in ("Closed", "Fenced", "Dead") and below(s.crashes, c.MAX_CRASHES):
        yield (), crashed(c, s), Writer("Dead")


# --- a collector: GET the manifest, DELETE what is behind replay_after and in no checkpoint

def collector_read_manifest(c: Constants, me: int, s: Shared, g: Collector) -> Iterator:
    yield (), s, Collector(s.manifest.replay_after, s.manifest.checkpoints)


def is_spared(checkpoints: frozenset[Checkpoint], i: int) -> bool:
    """Tell whether a checkpoint refers to this WAL id."""
    return any(after < i <= last for _, after, last in checkpoints)


def delete(c: Constants, me: int, s: Shared, g: Collector) -> Iterator:
    """Delete any object behind the boundary, whatever its age. Real collectors delete fewer."""
    for i in range(1, min(g.n, len(s.wal)) + 1 if c.GC_BEHIND else latest(s)):
        if (c.FENCE_GC or slot(s, i) != ((),)) and not (c.SPARE_CHECKPOINTED and is_spared(g.spared, i)):
            yield (i,), with_slot(s, i, ()), g


# --- requests in flight whose clients no longer wait

def apply_pending(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    """A request in flight reaches the store after its client stopped waiting. Its condition is evaluated now."""
    for at, (kind, where, what), after in in_queue(s):
        if kind == "Manifest":
            yield (at,), after if changed(c, s, where) else after._replace(manifest=what), ()
        else:
            yield (at,), after if taken(c, s, where) else with_slot(after, where, (what,)), ()


# --- properties ---------------------------------------------------------------------------------------------------------

def one_writer_per_epoch(c: Constants, s: Shared) -> bool:
    """No two writers have the same epoch."""
    return len({epoch for _, epoch in s.claimed}) == len(s.claimed)


def recoverable(s: Shared) -> frozenset[Record]:
    """The records of a writer that opens now: the flushed ones, and the log from there to the first free slot."""
    found, i = s.manifest.flushed, s.manifest.replay_after + 1
    while slot(s, i):
        found, i = found | {body for body in slot(s, i) if body}, i + 1
    return found


def acked_is_durable(c: Constants, s: Shared) -> bool:
    """The next writer will recover every acknowledged record."""
    return s.acked <= recoverable(s)


def acked_is_served(c: Constants, s: Shared, w: Writer) -> bool:
    """The latest writer that has opened has every acknowledged record."""
    return w.pc not in SERVING or w.epoch < s.top or s.acked <= w.has


def one_writer_acks(c: Constants, s: Shared) -> bool:
    """No writer acknowledges or flushes anything after a later one has opened."""
    return not s.late


def replay_is_contiguous(c: Constants, s: Shared, w: Writer) -> bool:
    """An open writer has replayed what was first written under each id from its replay_after to its fence, and no more."""
    ids = range(w.since + 1, w.fence)
    return w.pc not in SERVING or w.got == tuple((i, body) for i in ids for body in in_slot(s.first, i))


def refused_is_nowhere(c: Constants, s: Shared) -> bool:
    """A record reported as being in no log is in no log that anyone will replay, and in no flush."""
    ahead = {body for one in s.wal[s.manifest.replay_after:] for body in one}
    return not s.refused & (ahead | s.manifest.flushed)


def checkpoint_is_whole(c: Constants, s: Shared) -> bool:
    """Each WAL object that a listed checkpoint refers to is there, as it was first written."""
    ids = {i for _, after, last in s.manifest.checkpoints for i in range(after + 1, last + 1)}
    return all(slot(s, i) and slot(s, i) == in_slot(s.first, i) for i in ids)


def both_ack(c: Constants, s: Shared) -> bool:
    return len({w for w, _ in s.acked}) >= 2


def others_record_is_replayed(c: Constants, s: Shared, w: Writer) -> bool:
    """A writer serves a record that an earlier writer acknowledged and nobody flushed."""
    return w.pc == "Open" and w.epoch == s.top and bool((w.has & s.acked) - s.manifest.flushed) and not w.k


def append_meets_fence(c: Constants, s: Shared) -> bool:
    """A writer has told its caller that a record is in no log."""
    return bool(s.refused)


def record_is_collected(c: Constants, s: Shared) -> bool:
    return bool(s.manifest.flushed) and any(not one for one in s.wal[:s.manifest.replay_after])


def flushed_is_spared(c: Constants, s: Shared) -> bool:
    """A record is flushed, and a checkpoint refers to its object."""
    return any(one != ((),) and is_spared(s.manifest.checkpoints, i)
               for i, one in enumerate(s.wal[:s.manifest.replay_after], 1) if one)


def dropped_is_collected(c: Constants, s: Shared) -> bool:
    """An object is deleted after the checkpoint that referred to it was dropped."""
    return len(s.manifest.checkpoints) < s.manifest.taken and not all(s.wal[:s.manifest.replay_after])


def stale_create_lands(c: Constants, s: Shared, w: Writer) -> bool:
    """A record's object was created behind the boundary."""
    return w.pc == "Created" and w.n < s.manifest.replay_after


def successor_has_unacked(c: Constants, s: Shared, w: Writer) -> bool:
    """A writer serves a record that was not acknowledged, and perhaps never will be."""
    return w.pc == "Open" and w.epoch == s.top and not w.has <= s.acked


def overtaken_open_fences(c: Constants, s: Shared, w: Writer) -> bool:
    """A writer of the latest epoch is fenced by one that began to open before it."""
    return w.pc == "Fenced" and w.epoch == s.manifest.writer_epoch == s.top


def replay_is_flushed(c: Constants, s: Shared, w: Writer) -> bool:
    """A writer flushes while it replays."""
    return w.pc == "Replaying" and w.base.replay_after > w.since


def own_is_recognised(c: Constants, s: Shared, w: Writer) -> bool:
    return w.pc == "Refused" and slot(s, w.n + 1) not in ((), ((),))


WRITER = {
    "ReadManifest": read_manifest, "Claim": claim, "ClaimConflict": claim_conflict, "List": writer_list,
    "CreateFence": create_fence, "FenceConflict": fence_conflict, "ListAgain": list_again, "ReadNext": read_next,
    "ReadMissing": read_missing, "Validate": validate, "ValidateFenced": validate_fenced,
    "CreateNext": create_next, "CreateConflict": create_conflict, "ReadOwn": read_own, "ReadOther": read_other,
    "ReadGone": read_gone, "Accept": accept, "Reject": reject,
    "FlushNext": flush_next, "FlushConflict": flush_conflict, "RereadCurrent": reread_current, "RereadFenced": reread_fenced,
    "CheckpointNext": checkpoint_next, "CheckpointConflict": checkpoint_conflict,
    "SendCreate": send_create, "LoseCreate": lose_create, "SendFence": send_fence, "LoseFence": lose_fence,
    "SendManifest": send_manifest, "LoseManifest": lose_manifest, "SendCheckpoint": send_checkpoint,
    "LoseCheckpoint": lose_checkpoint, "Crash": crash,
}
COLLECTOR = {"ReadManifest": collector_read_manifest, "Delete": delete}
STORE = {"ApplyPending": apply_pending}
FAULTS = {"SendCreate", "LoseCreate", "SendFence", "LoseFence", "SendManifest", "LoseManifest", "SendCheckpoint",
          "LoseCheckpoint", "Crash"}

ALWAYS = {
    "OneWriterPerEpoch": (None, one_writer_per_epoch),
    "AckedIsDurable": (None, acked_is_durable),
    "OneWriterAcks": (None, one_writer_acks),
    "RefusedIsNowhere": (None, refused_is_nowhere),
    "CheckpointIsWhole": (None, checkpoint_is_whole),
    "AckedIsServed": ("Writer", acked_is_served),
    "ReplayIsContiguous": ("Writer", replay_is_contiguous),
}
SOMETIMES = {
    "BothAck": (None, both_ack),
    "OthersRecordIsReplayed": ("Writer", others_record_is_replayed),
    "AppendMeetsFence": (None, append_meets_fence),
    "RecordIsCollected": (None, record_is_collected),
    "FlushedIsSpared": (None, flushed_is_spared),
    "DroppedIsCollected": (None, dropped_is_collected),
    "StaleCreateLands": ("Writer", stale_create_lands),
    "SuccessorHasUnacked": ("Writer", successor_has_unacked),
    "OvertakenOpenFences": ("Writer", overtaken_open_fences),
    "ReplayIsFlushed": ("Writer", replay_is_flushed),
    "OwnIsRecognised": ("Writer", own_is_recognised),
}


def renamed_writers(part: tuple, names: tuple[int, ...]) -> tuple:
    """A shared or a local part in which writer i is called names[i]."""
    def body(one: Body) -> Any:
        return (names[one[0]], one[1]) if one else ()

    def those(records: frozenset[Record]) -> frozenset[Record]:
        return frozenset(map(body, records))

    def manifest(m: Manifest | None) -> Manifest | None:
        return m and m._replace(flushed=those(m.flushed))

    match part:
        case Shared():
            return part._replace(
                manifest=manifest(part.manifest), wal=tuple(tuple(map(body, one)) for one in part.wal),
                pool=tuple((kind, manifest(where), manifest(what)) if kind == "Manifest" else (kind, where, body(what))
                           for kind, where, what in part.pool),
                claimed=frozenset((names[w], epoch) for w, epoch in part.claimed),
                first=tuple(tuple(map(body, one)) for one in part.first),
                acked=those(part.acked), refused=those(part.refused))
        case Writer():
            return part._replace(base=manifest(part.base), has=those(part.has),
                                 got=tuple((i, body(one)) for i, one in part.got))
        case _:
            return part


def initial() -> Shared:
    return Shared(Manifest(), (), (), 0, 0, 0, frozenset(), 0, False, frozenset(), frozenset(), ())


def model(c: Constants) -> Model:
    roles = (("Writer", c.WRITERS, Writer(), WRITER), ("Collector", c.COLLECTORS, Collector(), COLLECTOR))
    absent = {"OwnIsRecognised"} if c.MAX_PENDING == c.MAX_LOST == 0 else set()
    absent |= {"RecordIsCollected", "StaleCreateLands", "DroppedIsCollected"} if not c.COLLECTORS else set()
    absent |= {"FlushedIsSpared", "DroppedIsCollected"} if c.CHECKPOINTS == 0 else set()
    return Model("wal_fencing", c, initial(), (*clients(*roles), store(STORE)), ALWAYS, all_but(SOMETIMES, absent),
                 renamed={"Writer": None if c.WRITERS < 2 else renamed_writers, "Collector": None})

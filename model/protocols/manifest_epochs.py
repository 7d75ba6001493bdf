"""Safety: no flush that was reported as done leaves the manifest, whoever else writes to it. Of each role only the instance
that opened last commits. A fenced writer reports this to its caller.

The protocol of SlateDB's page on the manifest, with one store request per action. specs/ManifestEpochs.fizz has the same
names, states and labelled edges. An instance is one writer, compactor or collector. It opens once: it reads the latest
manifest, adds one to its role's epoch, and writes the next manifest with it. An update is LIST, GET the latest, compare the
epochs, apply the change, PUT the next if absent. After a conflict the instance repeats all of that. If it then reads a higher
epoch of its own role, it is fenced and stops. If not, another role's update caused the conflict.

An open writer has one checkpoint of its own, the writer checkpoint, so that no collector deletes what the manifest that the
writer put last names. It is taken in the update that claims the epoch, and replaced in each flush. Whose update it is part of
is all that matters here, so it costs no request and no action.

The page leaves two questions open, and this model answers them. A compactor is fenced as a writer is: by an epoch of its own,
at its next read of the manifest. A reader learns of new keys by LIST and GET alone. An SST's name is (writer, zero-based index
of its flush). A compaction moves names out of L0. A WAL file is only its id.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from operator import attrgetter
from typing import Any, NamedTuple

from highwater.model.core import Model
from highwater.model.parts import MANY, below, clients, crashed, in_queue, queued, reply_lost, store


class Constants(NamedTuple):
    """Names and values as in the .fizz. None for a bound means unbounded and not counted (refinement uses that)."""

    WRITERS: int = 2  # instances over time, of each role
    COMPACTORS: int = 0
    COLLECTORS: int = 0
    READERS: int = 0
    FLUSHES: int | None = 1  # updates that an instance begins
    COMPACTIONS: int | None = 1
    COLLECTIONS: int | None = 1
    CHECKPOINTS: int = 1  # checkpoints of the first manifest, all to be collected
    OPEN_RETRIES: int = 0  # retries of an open that lost its race: none on SlateDB's page on the manifest; -1: unlimited
    ENDLESS: bool = False  # True: endless updates without ids or content, for liveness
    WRITER_CHECKPOINTS: bool = True  # False: writers take no checkpoints, as in released SlateDB and in database_metadata
    # Faults, each bounded
    MAX_PENDING: int | None = 0  # requests in flight whose clients no longer wait
    MAX_LOST: int | None = 0  # responses lost
    MAX_CRASHES: int | None = 0
    # Safeguards: switch one off and a property must fail
    CREATE_IF_ABSENT: bool = True  # False: a plain PUT, which overwrites
    OPEN_ANEW: bool = True  # a retried open takes the epoch after the one that it reads then
    BUMP_OWN_ONLY: bool = True  # an open takes the next epoch of its own role alone
    EPOCH_CHECK: bool = True  # an update compares its epoch with the manifest's
    CHECK_AFTER_CONFLICT: bool = True  # an update compares epochs again after each conflict
    COMPACTOR_EPOCH: bool = True  # compactors compare epochs too
    REREAD: bool = True  # after a conflict an update starts over with LIST; False: it puts the same manifest at the next id
    REAPPLY: bool = True  # its change is applied to the manifest that it reads then; False: to its old lists, under new epochs
    SWALLOW_FENCED: bool = False  # True: a fenced instance only logs this, and does not report it to its caller
    UNKNOWN_IS_DONE: bool = False  # True: an update without a response is reported as done
    POLL_LIST: bool = True  # a reader lists in each poll; False: it gets the manifest that it already knows
    CHECKPOINT_AT_OPEN: bool = True  # a writer takes its checkpoint in the update that claims its epoch
    DROP_PREDECESSORS: bool = True  # with its own checkpoint it drops those of all other writers
    REPLACE_CHECKPOINT: bool = True  # each flush replaces it, in the same update, by one of the manifest that it puts


LIMITS = {  # the values that an instance may have
    **dict.fromkeys(("WRITERS", "COMPACTORS", "COLLECTORS", "READERS", "FLUSHES", "COMPACTIONS", "COLLECTIONS", "CHECKPOINTS",
                     "MAX_PENDING", "MAX_LOST", "MAX_CRASHES"), MANY),
    "OPEN_RETRIES": range(-1, 101),
}

Sst = tuple[int, int]  # (writer, zero-based index of its flush)
By = tuple[str, int, int]  # (role, instance, its epoch)
WriterCheckpoint = tuple[int, int]  # (the epoch of the writer, the id of the manifest that it keeps)


class Manifest(NamedTuple):
    writer_epoch: int
    compactor_epoch: int
    collector_epoch: int
    l0: frozenset[Sst]
    compacted: frozenset[Sst]
    last_wal: int  # the last WAL id that an SST holds
    next_wal: int
    checkpoints: frozenset[int]
    writer_checkpoints: frozenset[WriterCheckpoint]


class Shared(NamedTuple):
    files: tuple[Manifest, ...]  # files[i - 1] is the manifest of id i
    pool: tuple[tuple[int, Manifest, By], ...]  # requests in flight whose clients no longer wait
    lost: int  # faults so far
    crashes: int
    current: frozenset[tuple[str, int]]  # if ENDLESS: the instances, (role, index), that know the latest manifest
    # ghosts
    by: tuple[By, ...]  # the author of each manifest
    opened: frozenset[By]  # opens that were reported
    acked: frozenset[Sst]  # flushes that were reported


class Writer(NamedTuple):
    pc: str = "Idle"  # Idle, Listed, Ready; Failed (to open), Fenced, Dead
    open: bool = False
    epoch: int = 0
    n: int = 0  # the latest id that it knows
    base: Manifest | None = None  # the manifest of n
    k: int = 0  # zero-based index of its current update
    tries: int = 0  # conflicts and indeterminate outcomes of this open; of an update, at most 1 is counted
    unheard: bool = False  # ghost: it was fenced, and did not report this to its caller


class Compactor(NamedTuple):
    pc: str = "Idle"
    open: bool = False
    epoch: int = 0
    n: int = 0
    base: Manifest | None = None
    k: int = 0
    tries: int = 0
    picked: frozenset = frozenset()  # the SSTs of L0 that it merged


class Collector(NamedTuple):
    pc: str = "Idle"
    open: bool = False
    epoch: int = 0
    n: int = 0
    base: Manifest | None = None
    k: int = 0
    tries: int = 0
    picked: frozenset = frozenset()  # checkpoints that it found expired


class Reader(NamedTuple):
    pc: str = "Idle"  # Idle, Listed, Done
    n: int = 0
    must: frozenset[Sst] = frozenset()  # ghost: flushes reported, or seen by this reader, before this poll began
    got: frozenset[Sst] = frozenset()


Instance = Writer | Compactor | Collector
EPOCH = {Writer: "writer_epoch", Compactor: "compactor_epoch", Collector: "collector_epoch"}


def updates(c: Constants, i: Instance) -> int | None:
    """The number of updates that the instance begins."""
    return {Writer: c.FLUSHES, Compactor: c.COMPACTIONS, Collector: c.COLLECTIONS}[i.__class__]


def stored(m: Manifest, i: Instance) -> int:
    """The epoch of the instance's role."""
    return getattr(m, EPOCH[i.__class__])


def ssts(m: Manifest) -> frozenset[Sst]:
    return m.l0 | m.compacted


# --- the store

def following(c: Constants, n: int) -> int:
    """The id after n."""
    return 1 if c.ENDLESS else n + 1


def refused(c: Constants, me: int, s: Shared, i: Instance) -> bool:
    """Tell whether the instance's next manifest exists already."""
    return c.CREATE_IF_ABSENT and (signed(me, i)[:2] not in s.current if c.ENDLESS else i.n < len(s.files))


def put(c: Constants, s: Shared, n: int, m: Manifest, by: By) -> Shared:
    if c.ENDLESS:
        return s._replace(files=(m,), by=(by,), current=frozenset())
    return s._replace(files=(*s.files[:n - 1], m, *s.files[n:]), by=(*s.by[:n - 1], by, *s.by[n:]))


# --- an instance of any role: LIST, GET the latest, PUT the next if absent

def begin(c: Constants, me: int, s: Shared, i: Instance) -> Iterator:
    """The instance begins another update."""
    if c.ENDLESS and i.pc == "Idle" and i.open and i.k == updates(c, i):
        yield (), s, i._replace(k=0)


def instance_list(c: Constants, me: int, s: Shared, i: Instance) -> Iterator:
    if i.pc == "Idle" and (not i.open or below(i.k, updates(c, i))):
        after = s._replace(current=s.current | {signed(me, i)[:2]}) if c.ENDLESS else s
        yield (), after, i._replace(pc="Listed", n=len(s.files))


def compares(c: Constants, i: Instance) -> bool:
    return (c.EPOCH_CHECK and (c.COMPACTOR_EPOCH or i.__class__ is not Compactor)
            and (c.CHECK_AFTER_CONFLICT or i.tries == 0))


def fenced(c: Constants, s: Shared, i: Instance) -> bool:
    return i.open and compares(c, i) and i.epoch < stored(s.files[i.n - 1], i)


def landed(c: Constants, me: int, s: Shared, i: Instance) -> bool:
    """Tell whether the manifest already holds the change that the instance is about to retry."""
    m = s.files[i.n - 1]
    if not i.open or i.tries == 0 or c.ENDLESS:
        return False
    match i:
        case Writer():
            return (me, i.k) in ssts(m)
        case Compactor():
            return i.picked <= m.compacted
        case Collector():
            return not i.picked & m.checkpoints


def read_latest(c: Constants, me: int, s: Shared, i: Any) -> Iterator:
    """A compactor or collector picks its work once. If there is none, it looks again later."""
    if i.pc != "Listed" or fenced(c, s, i) or landed(c, me, s, i):
        return
    m = s.files[i.n - 1]
    if i.base:  # REAPPLY is off
        m = i.base._replace(**{name: getattr(m, name) for name in EPOCH.values()})
    if not i.open:
        yield (), s, i._replace(pc="Ready", base=m, epoch=i.epoch or stored(m, i) + 1)
    elif i.__class__ is Writer:
        yield (), s, i._replace(pc="Ready", base=m)
    elif (picked := i.picked or (m.l0 if i.__class__ is Compactor else m.checkpoints)) or c.ENDLESS:
        yield (), s, i._replace(pc="Ready", base=m, picked=picked)
    else:
        yield (), s, i._replace(pc="Idle", n=0)


def read_fenced(c: Constants, me: int, s: Shared, i: Instance) -> Iterator:
    """«If our epoch is less than the epoch stored in the manifest», the instance stops and reports this to its caller."""
    if i.pc == "Listed" and fenced(c, s, i):
        if not c.SWALLOW_FENCED:
            yield (), s, i.__class__("Fenced", True, i.epoch, k=i.k)
        elif i.__class__ is Writer:
            yield (), s, Writer("Idle", True, i.epoch, k=i.k + 1, unheard=True)
        else:
            yield (), s, i.__class__("Idle", True, i.epoch, k=i.k + 1)


def read_landed(c: Constants, me: int, s: Shared, i: Instance) -> Iterator:
    if i.pc == "Listed" and not fenced(c, s, i) and landed(c, me, s, i):
        yield (), *committed(c, me, s, i)


def changed(c: Constants, me: int, i: Instance) -> Manifest:
    """The manifest that the instance puts next: an open with its epoch, or an update with its change."""
    m: Manifest = i.base  # pyright: ignore[reportAssignmentType]  # it has one when it puts
    if not i.open:
        if c.CHECKPOINT_AT_OPEN:
            m = with_own_checkpoint(c, i, m)
        if c.BUMP_OWN_ONLY:
            return m._replace(**{EPOCH[i.__class__]: i.epoch})
        return m._replace(**{name: getattr(m, name) + 1 for name in EPOCH.values()})
    if c.ENDLESS:
        return m
    match i:
        case Writer():
            if c.REPLACE_CHECKPOINT:
                m = with_own_checkpoint(c, i, m)
            return m._replace(l0=m.l0 | {(me, i.k)}, last_wal=m.next_wal, next_wal=m.next_wal + 1)
        case Compactor():
            return m._replace(l0=m.l0 - i.picked, compacted=m.compacted | i.picked)
        case Collector():
            return m._replace(checkpoints=m.checkpoints - i.picked)


def with_own_checkpoint(c: Constants, i: Instance, m: Manifest) -> Manifest:
    """The manifest with the checkpoint of the writer that puts it next, in place of those of all writers."""
    if i.__class__ is not Writer or not c.WRITER_CHECKPOINTS or c.ENDLESS:
        return m
    others = frozenset() if c.DROP_PREDECESSORS else frozenset(one for one in m.writer_checkpoints if one[0] != i.epoch)
    return m._replace(writer_checkpoints=others | {(i.epoch, i.n + 1)})


def signed(me: int, i: Instance) -> By:
    return i.__class__.__name__, me, i.epoch


def committed(c: Constants, me: int, s: Shared, i: Any) -> tuple[Shared, Instance]:
    """The open or the update is done and reported."""
    if not i.open:
        return s._replace(opened=s.opened | {signed(me, i)}), i.__class__("Idle", True, i.epoch)
    if i.__class__ is Writer and not c.ENDLESS:
        s = s._replace(acked=s.acked | {(me, i.k)})
    after = i.__class__("Idle", True, i.epoch, k=i.k + 1)
    return s, after._replace(unheard=i.unheard) if i.__class__ is Writer else after


def create_next(c: Constants, me: int, s: Shared, i: Instance) -> Iterator:
    if i.pc == "Ready" and not refused(c, me, s, i):
        yield (), *committed(c, me, put(c, s, following(c, i.n), changed(c, me, i), signed(me, i)), i)


def create_conflict(c: Constants, me: int, s: Shared, i: Instance) -> Iterator:
    if i.pc == "Ready" and refused(c, me, s, i):
        if i.open and not c.REREAD:
            yield (), s, i._replace(n=following(c, i.n))
        else:
            yield (), s, again(c, i)


def again(c: Constants, i: Instance) -> Instance:
    """Start over if allowed. Otherwise the open has failed: «ManifestVersionExists»."""
    if i.open:
        return i._replace(pc="Idle", n=0, base=None if c.REAPPLY else i.base, tries=1)
    if i.tries == c.OPEN_RETRIES:
        return i.__class__("Failed")
    return i.__class__("Idle", epoch=0 if c.OPEN_ANEW else i.epoch, tries=i.tries + 1 if c.OPEN_RETRIES > 0 else 0)


def in_doubt(c: Constants, me: int, s: Shared, i: Instance) -> tuple[Shared, Instance]:
    return committed(c, me, s, i) if c.UNKNOWN_IS_DONE and i.open else (s, again(c, i))


def send_create(c: Constants, me: int, s: Shared, i: Instance) -> Iterator:
    """The instance stops waiting for a PUT in flight. It may be applied at any later time, or never."""
    if i.pc == "Ready" and below(len(s.pool), c.MAX_PENDING):
        yield (), *in_doubt(c, me, queued(s, (i.n + 1, changed(c, me, i), signed(me, i))), i)


def lose_reply(c: Constants, me: int, s: Shared, i: Instance) -> Iterator:
    """The PUT is applied or refused, and the response is lost."""
    if i.pc == "Ready" and below(s.lost, c.MAX_LOST):
        after = s if refused(c, me, s, i) else put(c, s, following(c, i.n), changed(c, me, i), signed(me, i))
        yield (), *in_doubt(c, me, reply_lost(c, after), i)


def crash(c: Constants, me: int, s: Shared, i: Instance) -> Iterator:
    """The instance does not come back. Another one may open."""
    if i.pc in ("Idle", "Listed", "Ready") and below(s.crashes, c.MAX_CRASHES):
        yield (), crashed(c, s), i.__class__("Dead")


# --- a reader: LIST, GET the latest

def reader_list(c: Constants, me: int, s: Shared, r: Reader) -> Iterator:
    if r.pc in ("Idle", "Done"):
        n = len(s.files) if c.POLL_LIST or r.n == 0 else r.n
        yield (), s, Reader("Listed", n, r.must | r.got | s.acked)


def reader_read_latest(c: Constants, me: int, s: Shared, r: Reader) -> Iterator:
    if r.pc == "Listed":
        yield (), s, r._replace(pc="Done", got=ssts(s.files[r.n - 1]))


# --- requests in flight whose clients no longer wait

def apply_pending(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    """A request in flight reaches the store after its client stopped waiting. Its condition is evaluated now."""
    for at, (n, m, by), after in in_queue(s):
        yield (at,), after if c.CREATE_IF_ABSENT and n <= len(s.files) else put(c, after, n, m, by), ()


# --- properties ---------------------------------------------------------------------------------------------------------

EPOCH_OF = {role.__name__: attrgetter(name) for role, name in EPOCH.items()}


def one_writer_per_epoch(c: Constants, s: Shared) -> bool:
    """No two instances of a role have the same epoch."""
    return len({(role, epoch) for role, _, epoch in s.opened}) == len(s.opened)


def only_own_epoch_is_bumped(c: Constants, s: Shared) -> bool:
    """A manifest raises only the epoch of the role that wrote it."""
    return all(epoch(a) >= epoch(b) for (a, b), (by, _, _) in zip(pairwise(s.files), s.by[1:])
               for role, epoch in EPOCH_OF.items() if role != by)


def commits_are_of(role: str, s: Shared) -> bool:
    """Check that only the instance of this role with the highest epoch so far commits."""
    of = EPOCH_OF[role]
    return all(of(m) <= epoch for i, (by, _, epoch) in enumerate(s.by) if by == role for m in s.files[:i])


def at_most_one_active_writer_commits(c: Constants, s: Shared) -> bool:
    """After a manifest with a higher writer epoch no writer with a lower one commits."""
    return commits_are_of("Writer", s)


def compaction_of_stale_compactor_never_lands(c: Constants, s: Shared) -> bool:
    """After a manifest with a higher compactor epoch no compactor with a lower one commits."""
    return commits_are_of("Compactor", s)


def at_most_one_active_collector_commits(c: Constants, s: Shared) -> bool:
    """After a manifest with a higher collector epoch no collector with a lower one commits."""
    return commits_are_of("Collector", s)


def others_changes_are_kept(c: Constants, s: Shared) -> bool:
    """A manifest keeps what the previous one says: SSTs, compacted SSTs, WAL ids and removed checkpoints."""
    return all(ssts(a) <= ssts(b) and a.compacted <= b.compacted - b.l0 and b.checkpoints <= a.checkpoints
               and a.last_wal <= b.last_wal and a.next_wal <= b.next_wal for a, b in pairwise(s.files))


def epochs_are_monotone(c: Constants, s: Shared) -> bool:
    """No epoch decreases from one manifest to the next."""
    return all(epoch(a) <= epoch(b) for a, b in pairwise(s.files) for epoch in EPOCH_OF.values())


def writer_is_pinned(c: Constants, s: Shared) -> bool:
    """A manifest that a writer has put lists a checkpoint of itself, with the epoch of this writer."""
    return not c.WRITER_CHECKPOINTS or c.ENDLESS or all(
        (epoch, i) in m.writer_checkpoints for i, (m, (by, _, epoch)) in enumerate(zip(s.files, s.by), 1) if by == "Writer")


def one_writer_checkpoint(c: Constants, s: Shared) -> bool:
    """A manifest lists at most one writer checkpoint."""
    return all(len(m.writer_checkpoints) < 2 for m in s.files)


def writer_checkpoint_is_kept(c: Constants, s: Shared) -> bool:
    """A manifest of another role lists the writer checkpoint that the previous one lists."""
    return all(a.writer_checkpoints == b.writer_checkpoints
               for (a, b), (by, _, _) in zip(pairwise(s.files), s.by[1:]) if by != "Writer")


def flush_is_kept(c: Constants, s: Shared) -> bool:
    """A reported flush is in the latest manifest, in L0 or compacted."""
    return s.acked <= ssts(s.files[-1])


def fenced_is_told(c: Constants, s: Shared, w: Writer) -> bool:
    """A writer that finds itself fenced tells its caller and stops."""
    return not w.unheard


def read_is_current(c: Constants, s: Shared, r: Reader) -> bool:
    """A poll shows every flush reported before it began, and all that its reader has seen before."""
    return r.pc != "Done" or r.must <= r.got


def flush_is_reported(c: Constants, s: Shared) -> bool:
    return bool(s.acked)


def writers_succeed_each_other(c: Constants, s: Shared) -> bool:
    return len({i for role, i, _ in s.opened if role == "Writer"}) >= 2


def writer_is_fenced(c: Constants, s: Shared, w: Writer) -> bool:
    return w.pc == "Fenced"


def open_fails(c: Constants, s: Shared, w: Writer) -> bool:
    """An open has failed: it lost the race, or its response was lost."""
    return w.pc == "Failed"


def retried_open_succeeds(c: Constants, s: Shared, w: Writer) -> bool:
    return w.pc == "Ready" and not w.open and w.tries > 0 and w.n == len(s.files)


def flush_is_retried(c: Constants, s: Shared, w: Writer) -> bool:
    """A writer retries a flush after another role's update or a lost response, and is not fenced."""
    return w.pc == "Ready" and w.open and w.tries > 0


def flush_is_compacted(c: Constants, s: Shared) -> bool:
    return bool(s.acked & s.files[-1].compacted)


def writer_checkpoint_is_replaced(c: Constants, s: Shared) -> bool:
    """A writer has replaced the checkpoint of its open."""
    return any(d == e and i != j for a, b in pairwise(s.files)
               for d, i in a.writer_checkpoints for e, j in b.writer_checkpoints)


def compacted_sst_is_pinned(c: Constants, s: Shared) -> bool:
    """The writer checkpoint keeps a manifest in which a flush is in L0 that is compacted in the latest one."""
    latest = s.files[-1]
    return any(s.files[i - 1].l0 & latest.compacted for _, i in latest.writer_checkpoints if i <= len(s.files))


def compactor_is_fenced(c: Constants, s: Shared, i: Compactor) -> bool:
    return i.pc == "Fenced"


def checkpoint_is_collected(c: Constants, s: Shared) -> bool:
    return s.files[-1].checkpoints != s.files[0].checkpoints


def doubtful_flush_lands(c: Constants, s: Shared) -> bool:
    """The manifest holds a flush that was not reported, and perhaps never will be."""
    return s.acked < ssts(s.files[-1])


def reader_sees_flush(c: Constants, s: Shared, r: Reader) -> bool:
    return r.pc == "Done" and bool(r.must)


def opens_end(c: Constants, s: Shared, w: Writer) -> bool:
    """Every open ends: the writer is open, its open has failed, or it has crashed."""
    return w.open or w.pc in ("Failed", "Dead")


def updates_end(c: Constants, s: Shared, w: Writer) -> bool:
    """Every writer finishes a flush again and again, unless it was fenced or has crashed."""
    return w.pc in ("Failed", "Fenced", "Dead") or (w.open and not below(w.k, c.FLUSHES))


WRITER = {
    "Begin": begin, "List": instance_list, "ReadLatest": read_latest, "ReadFenced": read_fenced, "ReadLanded": read_landed,
    "CreateNext": create_next, "CreateConflict": create_conflict,
    "SendCreate": send_create, "LoseReply": lose_reply, "Crash": crash,
}
COMPACTOR = COLLECTOR = WRITER
READER = {"List": reader_list, "ReadLatest": reader_read_latest}
STORE = {"ApplyPending": apply_pending}

ALWAYS = {
    "OneWriterPerEpoch": (None, one_writer_per_epoch),
    "OnlyOwnEpochIsBumped": (None, only_own_epoch_is_bumped),
    "AtMostOneActiveWriterCommits": (None, at_most_one_active_writer_commits),
    "CompactionOfStaleCompactorNeverLands": (None, compaction_of_stale_compactor_never_lands),
    "AtMostOneActiveCollectorCommits": (None, at_most_one_active_collector_commits),
    "OthersChangesAreKept": (None, others_changes_are_kept),
    "EpochsAreMonotone": (None, epochs_are_monotone),
    "WriterIsPinned": (None, writer_is_pinned),
    "OneWriterCheckpoint": (None, one_writer_checkpoint),
    "WriterCheckpointIsKept": (None, writer_checkpoint_is_kept),
    "FlushIsKept": (None, flush_is_kept),
    "FencedIsTold": ("Writer", fenced_is_told),
    "ReadIsCurrent": ("Reader", read_is_current),
}
SOMETIMES = {
    "FlushIsReported": (None, flush_is_reported),
    "WritersSucceedEachOther": (None, writers_succeed_each_other),
    "WriterIsFenced": ("Writer", writer_is_fenced),
    "OpenFails": ("Writer", open_fails),
    "RetriedOpenSucceeds": ("Writer", retried_open_succeeds),
    "FlushIsRetried": ("Writer", flush_is_retried),
    "FlushIsCompacted": (None, flush_is_compacted),
    "WriterCheckpointIsReplaced": (None, writer_checkpoint_is_replaced),
    "CompactedSstIsPinned": (None, compacted_sst_is_pinned),
    "CompactorIsFenced": ("Compactor", compactor_is_fenced),
    "CheckpointIsCollected": (None, checkpoint_is_collected),
    "DoubtfulFlushLands": (None, doubtful_flush_lands),
    "ReaderSeesFlush": ("Reader", reader_sees_flush),
}
EVENTUALLY = {"OpensEnd": ("Writer", opens_end), "UpdatesEnd": ("Writer", updates_end)}
FAULTS = {"Begin", "SendCreate", "LoseReply", "Crash"}  # never obligatory, so not fair
FAIR = {role: frozenset(actions.keys() - FAULTS) for role, actions in (
    ("Writer", WRITER), ("Compactor", COMPACTOR), ("Collector", COLLECTOR), ("Reader", READER))}


def renamed_instances(of: str, part: tuple, names: tuple[int, ...]) -> tuple:
    """Return a shared or local part with instance i of the role `of` renamed to names[i]. No part names a reader."""
    def those(names_of: frozenset[Sst]) -> frozenset[Sst]:
        return frozenset((names[w], k) for w, k in names_of) if of == "Writer" else names_of

    def by(one: By) -> By:
        return (of, names[one[1]], one[2]) if one[0] == of else one

    def manifest(m: Manifest | None) -> Manifest | None:
        return m and m._replace(l0=those(m.l0), compacted=those(m.compacted))

    match part:
        case Shared():
            return part._replace(
                files=tuple(map(manifest, part.files)), by=tuple(map(by, part.by)),
                pool=tuple((n, manifest(m), by(whose)) for n, m, whose in part.pool),
                current=frozenset(by((*one, 0))[:2] for one in part.current), opened=frozenset(map(by, part.opened)),
                acked=those(part.acked))
        case Compactor():
            return part._replace(base=manifest(part.base), picked=those(part.picked))
        case Writer() | Collector():
            return part._replace(base=manifest(part.base))
        case Reader():
            return part._replace(must=those(part.must), got=those(part.got))
        case _:
            return part


def initial(c: Constants) -> Shared:
    nothing: frozenset = frozenset()
    first = Manifest(0, 0, 0, nothing, nothing, 0, 1, frozenset(range(1, c.CHECKPOINTS + 1)), nothing)
    return Shared((first,), (), 0, 0, nothing, (("", 0, 0),), nothing, nothing)


def witnesses(c: Constants) -> dict[str, tuple[str | None, Callable]]:
    """Return the witnesses that are possible with these constants."""
    possible = {
        "WritersSucceedEachOther": c.WRITERS > 1, "WriterIsFenced": c.WRITERS > 1,
        "OpenFails": c.OPEN_RETRIES >= 0 and (c.WRITERS > 1 or c.COMPACTORS > 0 or c.COLLECTORS > 0),
        "RetriedOpenSucceeds": c.OPEN_RETRIES > 0 and c.WRITERS > 1,  # -1: tries are not counted
        "FlushIsRetried": c.WRITERS > 0 and (c.COMPACTORS > 0 or c.COLLECTORS > 0),
        "FlushIsCompacted": c.COMPACTORS > 0, "CompactorIsFenced": c.COMPACTORS > 1,
        "WriterCheckpointIsReplaced": c.WRITERS > 0 and c.FLUSHES != 0 and c.WRITER_CHECKPOINTS,
        "CompactedSstIsPinned": c.COMPACTORS > 0 and c.WRITER_CHECKPOINTS,
        "CheckpointIsCollected": c.COLLECTORS > 0, "ReaderSeesFlush": c.READERS > 0,
        "DoubtfulFlushLands": c.MAX_LOST != 0 or c.MAX_PENDING != 0,
    }
    return {name: witness for name, witness in SOMETIMES.items() if possible.get(name, True)}


def model(c: Constants) -> Model:
    roles = (("Writer", c.WRITERS, Writer(), WRITER), ("Compactor", c.COMPACTORS, Compactor(), COMPACTOR),
             ("Collector", c.COLLECTORS, Collector(), COLLECTOR), ("Reader", c.READERS, Reader(), READER))
    renamed = {role: None if number < 2 or role == "Reader" else partial(renamed_instances, role)
               for role, number, _, _ in roles}
    return Model("manifest_epochs", c, initial(c), (*clients(*roles), store(STORE)), ALWAYS, witnesses(c), EVENTUALLY, FAIR,
                 renamed=renamed)

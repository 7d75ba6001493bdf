"""Safety, for any number of writers, compactors, collectors, readers, updates, checkpoints, faults, retries of an open (none,
some, as many as it takes): every `always` property of model/protocols/manifest_epochs.py, by an inductive invariant, action by
action.

A manifest follows another if it raises no epoch but that of its author's role and lowers none, if its author's epoch is at
least that of the other, and if it takes nothing back: SSTs, what is compacted, WAL ids, lost checkpoints. The invariant:
- FirstIsThere: there is a manifest. NumbersFollow, SstsFollow, CheckpointsFollow: of two with consecutive ids the second
  follows the first. SstIsOnce: what is compacted is not in L0. WalIsBehind: the last WAL id in an SST is below the next.
- LatestIsHighest, LatestHoldsAll: no epoch is higher than the latest manifest's, and no SST is missing there.
- CommitsAreOfLatest: the author of a manifest has at least the epoch of all manifests before it.
- WriterIsPast, and so of each role: no opened epoch is higher than the latest manifest's; WriterIsUnique: nor is one of two.
- AckedIsKept: a reported flush is in the latest manifest.
- An instance of any role: WriterKnowsIds: 1 <= n <= latest, once it has listed; and once it has read it has a base.
  WriterBaseIsRead, WriterBaseHoldsSsts, WriterBaseHoldsCheckpoints: its base is manifest n. WriterEpochIsNext: it opens with
  the epoch after that of its base, and updates with one that is no lower than that.
- WriterIsPinned: a manifest of a writer lists a checkpoint of itself. WriterCheckpointHasEpoch, WriterHasOneCheckpoint: a
  manifest lists none of another writer than that whose epoch it has, and not two of that one.
  WriterCheckpointIsKept: manifests of other roles keep it. CompactorBaseHoldsPins, CollectorBaseHoldsPins: their bases do.
- WriterIsOpened: the epoch of an open writer was opened by it. WriterIsFresh: a flush that a writer has not begun is in no
  manifest; nor is the one that it is at, unless it met a conflict or had no reply, and then it looks: FlushIsNew, what it adds
  is not in its base. FencedIsTold.
- PickedIsKept: what a compactor has merged is in the latest manifest.
- A request in flight: PendingIsNext: the manifest of the id before its own is there; PendingNumbersFollow,
  PendingSstsFollow, PendingCheckpointsFollow: it follows that. PendingSstIsOnce, PendingWalIsBehind, PendingIsFresh,
  PendingIsPinned, PendingWriterHasOneCheckpoint, PendingCheckpointIsKept: as of manifests; so PendingCheckpointHasEpoch, of
  one that can still be applied.
- A reader: ReaderKnowsIds. OwedIsKept: what it must show is in the latest manifest, or in the one that it has listed;
  GotIsKept: what it showed is in the latest. ReadIsCurrent.

So an instance whose create is not refused had read the latest manifest: n is the latest id, and what it puts follows that.
Requests in flight are in a row, as in the model: where one is applied those behind it move up. How often an open is tried
again is a number of which nothing is known.

Two checks tie this to the model. `tie` evaluates the relation below in plain Python, on every reachable state of an instance.
`walked` does so on random walks through a larger instance. ENDLESS, which leaves ids and content out, is not in it.
"""

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NewType

from highwater.model.proofs.engine import inductive
from highwater.model.proofs.engine.logic import And, If, Implies, Not, Or, at
from highwater.model.proofs.engine.parts import nothing, one_more, room, zero
from highwater.model.proofs.engine.system import Scope, Signature, System, Tables, View
from highwater.model.protocols import manifest_epochs as m

Id = NewType("Id", int)  # of a manifest
Count = NewType("Count", int)
Epoch = NewType("Epoch", int)
Wal = NewType("Wal", int)
Place = NewType("Place", int)  # of a request in flight, in their row, from 0
Checkpoint = NewType("Checkpoint", object)
Writer, Compactor = NewType("Writer", View), NewType("Compactor", View)
Collector, Reader = NewType("Collector", View), NewType("Reader", View)

ROLES = {"Writer": Writer, "Compactor": Compactor, "Collector": Collector, "Reader": Reader}
EPOCHS = {of.__name__: name for of, name in m.EPOCH.items()}  # role -> where a manifest has its epoch
INSTANCES_OF = {role: ROLES[role] for role in EPOCHS}

MANIFEST = {  # an SST is a writer and a count
    "writer_epoch": (Epoch,), "compactor_epoch": (Epoch,), "collector_epoch": (Epoch,), "l0": (Writer, Count, bool),
    "compacted": (Writer, Count, bool), "last_wal": (Wal,), "next_wal": (Wal,), "checkpoints": (Checkpoint, bool),
    "writer_checkpoints": (Epoch, Id, bool),
}
BY = {"role": (Literal["None", "Writer", "Compactor", "Collector"],), "epoch": (Epoch,),
      "Writer": (Writer, bool), "Compactor": (Compactor, bool), "Collector": (Collector, bool)}


def named(prefix: str, fields: dict[str, Signature], *of: Any) -> dict[str, Signature]:
    return {prefix + f: (*of, *signature) for f, signature in fields.items()}


INSTANCE = {"pc": (Literal["Idle", "Listed", "Ready", "Failed", "Fenced", "Dead"],), "open": (bool,), "epoch": (Epoch,),
            "n": (Id,), "has_base": (bool,), **named("base_", MANIFEST), "k": (Count,), "tries": (Count,)}
FIELDS = {
    "": {
        "top": (Id,), **named("file_", MANIFEST, Id), **named("by_", BY, Id),
        "size": (Count,), "after": (Place, Id),  # the id before the one that the request asks for
        **named("with_", MANIFEST, Place), **named("with_by_", BY, Place),
        "lost": (Count,), "crashes": (Count,), "acked": (Writer, Count, bool),
        **{f"opened_{role}": (of, Epoch, bool) for role, of in INSTANCES_OF.items()},
    },
    "Writer": {**INSTANCE, "unheard": (bool,)},
    "Compactor": {**INSTANCE, "picked": (Writer, Count, bool)},
    "Collector": {**INSTANCE, "picked": (Checkpoint, bool)},
    "Reader": {"pc": (Literal["Idle", "Listed", "Done"],), "n": (Id,),
               "must": (Writer, Count, bool), "got": (Writer, Count, bool)},
}
RIGID = {"retries": (Count,)}


def meaning(c: m.Constants) -> dict:
    return {"retries": c.OPEN_RETRIES}


NO_BASE = {"has_base": False} | {f"base_{f}": nothing if signature[-1] is bool else 0 for f, signature in MANIFEST.items()}
IDLE = {"pc": "Idle", "open": False, "epoch": 0, "n": 0, **NO_BASE, "k": 0, "tries": 0}
LOCALS = {"Writer": {**IDLE, "unheard": False}, "Compactor": {**IDLE, "picked": nothing},
          "Collector": {**IDLE, "picked": nothing}, "Reader": {"pc": "Idle", "n": 0, "must": nothing, "got": nothing}}


def initial(c: m.Constants) -> dict[str, dict]:
    """Return the initial tables. Every checkpoint is of the first manifest."""
    first = {name: nothing if signature[-1] is bool else zero for name, signature in FIELDS[""].items() if len(signature) > 1}
    first |= {"file_next_wal": lambda i: 1, "file_checkpoints": lambda i, x: i == 1, "by_role": lambda i: "None",
              "with_by_role": lambda q: "None"}
    return {"": {"top": 1, "size": 0, "lost": 0, "crashes": 0, **first}, **LOCALS}


# --- the transition relation, action by action as in model/protocols/manifest_epochs.py
# -------------------------------------------

def updates(c: Any, role: str) -> Any:
    return {"Writer": c.FLUSHES, "Compactor": c.COMPACTIONS, "Collector": c.COLLECTIONS}[role]


def manifest(view: View, prefix: str, *of: Any) -> Any:
    """Return the manifest with this prefix: its numbers, and a membership test for each set."""
    fields = {f: (getattr(view, prefix + f), signature) for f, signature in MANIFEST.items()}
    parts: dict[str, Any] = {f: partial(field, *of) if len(signature) > 1 else field(*of) if of else field
                             for f, (field, signature) in fields.items()}
    return m.Manifest(**parts)


def file(s: View, i: Any) -> Any:
    return manifest(s, "file_", i)


def chosen(when: Any, a: Any, b: Any) -> Any:
    """Return `a` or `b`: numbers or sets."""
    return (lambda *xs: If(when, a(*xs), b(*xs))) if callable(a) else If(when, a, b)


def without(a: Callable, b: Callable) -> Callable:
    return lambda *xs: And(a(*xs), Not(b(*xs)))


def union(a: Callable, b: Callable) -> Callable:
    return lambda *xs: Or(a(*xs), b(*xs))


def ssts(a: Any) -> Callable:
    return union(a.l0, a.compacted)


def in_file(s: View, i: Any, v: Any, k: Any) -> Any:
    return Or(s.file_l0(i, v, k), s.file_compacted(i, v, k))


def file_epoch(s: View, i: Any, role: str) -> Any:
    return getattr(s, f"file_{EPOCHS[role]}")(i)


def role_epoch(a: m.Manifest, role: str) -> Any:
    return getattr(a, EPOCHS[role])


def begun(i: View, pc: str, **changes: Any) -> View:
    """Return the initial local state with this `pc` and these changes."""
    return i.but(**{**LOCALS[i.role], "pc": pc, **changes})


def own(i: View) -> Callable:
    """Return the test for the SST that a writer is about to name."""
    return lambda v, k: And(v == i.me, k == i.k)


def with_own_checkpoint(c: m.Constants, i: View, a: Any) -> Any:
    """Return the manifest with the checkpoint of the writer that puts it next, in place of those of all writers."""
    if i.role != "Writer" or not c.WRITER_CHECKPOINTS:
        return a
    return a._replace(writer_checkpoints=lambda e, n: Or(
        And(e == i.epoch, n == i.n + 1), And(not c.DROP_PREDECESSORS, e != i.epoch, a.writer_checkpoints(e, n))))


def changed(c: m.Constants, i: View) -> dict[str, Any]:
    """Return the record that an instance puts next, an open or an update, with its author."""
    a = manifest(i, "base_")
    opens = with_own_checkpoint(c, i, a) if c.CHECKPOINT_AT_OPEN else a
    if c.BUMP_OWN_ONLY:
        opens = opens._replace(**{EPOCHS[i.role]: i.epoch})
    else:
        opens = opens._replace(**{name: getattr(a, name) + 1 for name in EPOCHS.values()})
    if i.role == "Writer":
        update = with_own_checkpoint(c, i, a) if c.REPLACE_CHECKPOINT else a
        update = update._replace(l0=union(a.l0, own(i)), last_wal=a.next_wal, next_wal=a.next_wal + 1)
    elif i.role == "Compactor":
        update = a._replace(l0=without(a.l0, i.picked), compacted=union(a.compacted, i.picked))
    else:
        update = a._replace(checkpoints=without(a.checkpoints, i.picked))
    content = {f: old if x is old and y is old else chosen(i.open, x, y)
               for f, old, x, y in zip(MANIFEST, a, update, opens)}
    by = {role: (lambda x: x == i.me) if role == i.role else nothing for role in EPOCHS}
    return signed(content, {"role": i.role, "epoch": i.epoch, **by})


def signed(content: dict[str, Any], by: dict[str, Any]) -> dict[str, Any]:
    return content | {f"by_{f}": value for f, value in by.items()}


def written(s: View, at_: Any, prefix: str, by_prefix: str, record: dict[str, Any]) -> dict[str, Callable]:
    """Return the fields of that prefix, with this record at that place."""
    names = {f: by_prefix + f.removeprefix("by_") if f.startswith("by_") else prefix + f for f in record}

    def field(old: Callable, value: Any) -> Callable:
        return lambda j, *xs: If(j == at_, value(*xs) if callable(value) else value, old(j, *xs))
    return {name: field(getattr(s, name), record[f]) for f, name in names.items()}


def put(s: View, i: Any, record: dict[str, Any]) -> View:
    return s.but(top=If(i > s.top, i, s.top), **written(s, i, "file_", "by_", record))


def refused(c: m.Constants, s: View, n: Any) -> Any:
    """Say that a create after n is refused: a file after n exists."""
    return And(c.CREATE_IF_ABSENT, n < s.top)


def begin(c, s, i):
    yield False, (), s, i


def instance_list(c, s, i):
    more = Or(Not(i.open), room(i.k, updates(c, i.role)))
    yield And(at(i.pc, "Idle"), more), (), s, i.but(pc="Listed", n=s.top)


def fenced(c, s, i):
    if not c.EPOCH_CHECK or (i.role == "Compactor" and not c.COMPACTOR_EPOCH):
        return False
    return And(i.open, Or(c.CHECK_AFTER_CONFLICT, i.tries == 0), i.epoch < role_epoch(file(s, i.n), i.role))


def landed(s, i):
    """Say that the manifest just read already holds the change."""
    a = file(s, i.n)
    if i.role == "Writer":
        there = ssts(a)(i.me, i.k)
    elif i.role == "Compactor":
        there = Not(some_sst(s, without(i.picked, a.compacted)))
    else:
        there = Not(s.some(Checkpoint, lambda x: And(i.picked(x), a.checkpoints(x))))
    return And(i.open, i.tries != 0, there)


def some_sst(s, holds: Callable) -> Any:
    return s.some(Writer, lambda v: s.some(Count, lambda k: holds(v, k)))


def some_of(s, i, holds: Callable) -> Any:
    """Say that `holds` is true of some thing that this role can pick: an SST or a checkpoint."""
    return some_sst(s, holds) if i.role == "Compactor" else s.some(Checkpoint, holds)


def read_latest(c, s, i):
    guard = And(at(i.pc, "Listed"), Not(fenced(c, s, i)), Not(landed(s, i)))
    there, had = file(s, i.n), manifest(i, "base_")
    had = had._replace(**{name: getattr(there, name) for name in EPOCHS.values()})
    a: Any = m.Manifest(*(chosen(i.has_base, *both) for both in zip(had, there)))
    ready = i.but(pc="Ready", has_base=True, **{f"base_{f}": value for f, value in a._asdict().items()})
    yield (And(guard, Not(i.open)), (),
           s, ready.but(epoch=If(i.epoch == 0, role_epoch(a, i.role) + 1, i.epoch)))
    if i.role == "Writer":
        yield And(guard, i.open), (), s, ready
    else:
        offered, has = a.l0 if i.role == "Compactor" else a.checkpoints, some_of(s, i, i.picked)
        picked = lambda *xs: Or(i.picked(*xs), And(Not(has), offered(*xs)))  # noqa: E731
        work = Or(has, some_of(s, i, offered))
        yield And(guard, i.open, work), (), s, ready.but(picked=picked)
        yield And(guard, i.open, Not(work)), (), s, i.but(pc="Idle", n=0)


def read_fenced(c, s, i):
    guard = And(at(i.pc, "Listed"), fenced(c, s, i))
    if not c.SWALLOW_FENCED:
        yield guard, (), s, begun(i, "Fenced", open=True, epoch=i.epoch, k=i.k)
    else:
        unheard = {"unheard": True} if i.role == "Writer" else {}
        yield guard, (), s, begun(i, "Idle", open=True, epoch=i.epoch, k=i.k + 1, **unheard)


def read_landed(c, s, i):
    yield And(at(i.pc, "Listed"), Not(fenced(c, s, i)), landed(s, i)), (), *committed(s, i, True)


def committed(s, i, opened):
    """Return shared and local state after an open or an update is finished and reported."""
    if not opened:
        name = f"opened_{i.role}"
        after = {name: union(getattr(s, name), lambda x, e: And(x == i.me, e == i.epoch))}
        return s.but(**after), begun(i, "Idle", open=True, epoch=i.epoch)
    after = begun(i, "Idle", open=True, epoch=i.epoch, k=i.k + 1)
    if i.role != "Writer":
        return s, after
    return s.but(acked=union(s.acked, own(i))), after.but(unheard=i.unheard)


def create_next(c, s, i):
    guard, after = And(at(i.pc, "Ready"), Not(refused(c, s, i.n))), put(s, i.n + 1, changed(c, i))
    yield And(guard, Not(i.open)), (), *committed(after, i, False)
    yield And(guard, i.open), (), *committed(after, i, True)


def create_conflict(c, s, i):
    guard = And(at(i.pc, "Ready"), refused(c, s, i.n))
    onward = And(not c.REREAD, i.open)
    yield And(guard, onward), (), s, i.but(n=i.n + 1)
    yield from again(c, And(guard, Not(onward)), s, i)


def again(c, guard, s, i):
    """Yield the steps that start over; an open without further tries fails."""
    yield And(guard, i.open), (), s, i.but(pc="Idle", n=0, tries=1, **(NO_BASE if c.REAPPLY else {}))
    last = i.tries == s.retries
    yield And(guard, Not(i.open), last), (), s, begun(i, "Failed")
    yield (And(guard, Not(i.open), Not(last)), (),
           s, begun(i, "Idle", epoch=0 if c.OPEN_ANEW else i.epoch, tries=If(s.retries > 0, i.tries + 1, 0)))


def in_doubt(c, guard, s, i):
    done = And(c.UNKNOWN_IS_DONE, i.open)
    yield And(guard, done), (), *committed(s, i, True)
    yield from again(c, And(guard, Not(done)), s, i)


def send_create(c, s, i):
    sent = s.but(size=s.size + 1, after=lambda q: If(q == s.size, i.n, s.after(q)),
                 **written(s, s.size, "with_", "with_by_", changed(c, i)))
    yield from in_doubt(c, And(at(i.pc, "Ready"), room(s.size, c.MAX_PENDING)), sent, i)


def lose_reply(c, s, i):
    guard, no = And(at(i.pc, "Ready"), room(s.lost, c.MAX_LOST)), refused(c, s, i.n)
    after = s.but(lost=one_more(s.lost, c.MAX_LOST))
    yield from in_doubt(c, And(guard, no), after, i)
    yield from in_doubt(c, And(guard, Not(no)), put(after, i.n + 1, changed(c, i)), i)


def crash(c, s, i):
    yield (And(at(i.pc, "Idle", "Listed", "Ready"), room(s.crashes, c.MAX_CRASHES)), (),
           s.but(crashes=one_more(s.crashes, c.MAX_CRASHES)), begun(i, "Dead"))


def reader_list(c, s, r):
    must = union(union(r.must, r.got), s.acked)
    yield at(r.pc, "Idle", "Done"), (), s, r.but(
        pc="Listed", n=If(Or(c.POLL_LIST, r.n == 0), s.top, r.n), must=must, got=nothing)


def reader_read_latest(c, s, r):
    yield at(r.pc, "Listed"), (), s, r.but(pc="Done", got=ssts(file(s, r.n)))


ROW = ("after", *named("with_", MANIFEST), *named("with_by_", BY))


def apply_pending(c, s, _, q: Place):
    def moved_up(old: Callable) -> Callable:
        return lambda p, *xs: If(p < q, old(p, *xs), old(p + 1, *xs))
    done = s.but(size=s.size - 1, **{name: moved_up(getattr(s, name)) for name in ROW})
    guard, no = And(q >= 0, q < s.size), refused(c, s, s.after(q))
    by = {f: partial(getattr(s, f"with_by_{f}"), q) if len(signature) > 1 else getattr(s, f"with_by_{f}")(q)
          for f, signature in BY.items()}
    yield And(guard, no), (q,), done, None
    yield (And(guard, Not(no)), (q,),
           put(done, s.after(q) + 1, signed(manifest(s, "with_", q)._asdict(), by)), None)


OF_INSTANCE = {
    "Begin": begin, "List": instance_list, "ReadLatest": read_latest, "ReadFenced": read_fenced, "ReadLanded": read_landed,
    "CreateNext": create_next, "CreateConflict": create_conflict,
    "SendCreate": send_create, "LoseReply": lose_reply, "Crash": crash,
}
ACTIONS = {
    **{role: dict(OF_INSTANCE) for role in INSTANCES_OF},
    "Reader": {"List": reader_list, "ReadLatest": reader_read_latest},
    "": {"ApplyPending": apply_pending},
}


# --- the invariant, as in the docstring -----------------------------------------------------------------------------------

def is_id(s, i):
    return And(i >= 1, i <= s.top)


def under_way(s, q):
    return And(q >= 0, q < s.size)


def follows(s, i, j):
    """Say that both files exist, `j` right after `i`. (The term i + 1 in place of j would name ever larger ids.)"""
    return And(i >= 1, j == i + 1, j <= s.top)


def numbers_follow(a, b, role, epoch):
    """Say that `b`, by an instance of this role with this epoch, follows `a`."""
    epochs = And(*(And(x <= y, If(at(role, of), x <= epoch, x >= y))
                   for of, x, y in ((of, role_epoch(a, of), role_epoch(b, of)) for of in EPOCHS)))
    return And(epochs, a.last_wal <= b.last_wal, a.next_wal <= b.next_wal)


def ssts_follow(a, b, v, k):
    return And(Implies(a.l0(v, k), ssts(b)(v, k)), Implies(a.compacted(v, k), b.compacted(v, k)))


def first_is_there(c, s):
    return And(s.top >= 1, s.size >= 0)


def file_numbers_follow(c, s, i: Id, j: Id):
    return Implies(follows(s, i, j), numbers_follow(file(s, i), file(s, j), s.by_role(j), s.by_epoch(j)))


def file_ssts_follow(c, s, i: Id, j: Id, v: Writer, k: Count):
    return Implies(follows(s, i, j), ssts_follow(file(s, i), file(s, j), v.me, k))


def file_checkpoints_follow(c, s, i: Id, j: Id, x: Checkpoint):
    return Implies(And(follows(s, i, j), file(s, j).checkpoints(x)), file(s, i).checkpoints(x))


def sst_is_once(c, s, i: Id, v: Writer, k: Count):
    return Implies(is_id(s, i), Not(And(s.file_l0(i, v.me, k), s.file_compacted(i, v.me, k))))


def wal_is_behind(c, s, i: Id):
    return Implies(is_id(s, i), s.file_last_wal(i) < s.file_next_wal(i))


def latest_is_highest(c, s, i: Id):
    return Implies(is_id(s, i), And(*(file_epoch(s, i, role) <= file_epoch(s, s.top, role) for role in EPOCHS)))


def latest_holds_all(c, s, i: Id, v: Writer, k: Count):
    return Implies(And(is_id(s, i), in_file(s, i, v.me, k)), in_file(s, s.top, v.me, k))


def commit_is_of_latest(s, role, i, j):
    """Say that manifest `j`, if an instance of this role put it, has no lower epoch than the earlier `i`."""
    return Implies(And(is_id(s, j), i >= 1, i < j, at(s.by_role(j), role)), file_epoch(s, i, role) <= s.by_epoch(j))


def commits_are_of_latest(c, s, i: Id, j: Id):
    return And(*(commit_is_of_latest(s, role, i, j) for role in EPOCHS))


def is_pinned(role, epoch, i, a):
    """Say that the manifest `a` of id i, by an instance of this role, lists what a writer must list."""
    return Implies(at(role, "Writer"), a.writer_checkpoints(epoch, i))


def has_epoch(a, e, i):
    """Say that a checkpoint of a writer in the manifest `a` is of the writer that `a` has the epoch of."""
    return Implies(a.writer_checkpoints(e, i), e == a.writer_epoch)


def has_one_checkpoint(a, i, j):
    """Say that of that writer `a` does not list two."""
    return Implies(And(a.writer_checkpoints(a.writer_epoch, i), a.writer_checkpoints(a.writer_epoch, j)), i == j)


def pins_follow(a, b, role, e, x):
    """Say that `b`, by an instance of this role, keeps the writer checkpoint of `a`."""
    return Or(at(role, "Writer"), a.writer_checkpoints(e, x) == b.writer_checkpoints(e, x))


def writer_is_pinned(c, s, i: Id):
    return Or(not c.WRITER_CHECKPOINTS, Implies(is_id(s, i), is_pinned(s.by_role(i), s.by_epoch(i), i, file(s, i))))


def writer_checkpoint_has_epoch(c, s, n: Id, e: Epoch, i: Id):
    return Implies(is_id(s, n), has_epoch(file(s, n), e, i))


def writer_has_one_checkpoint(c, s, n: Id, i: Id, j: Id):
    return Implies(is_id(s, n), has_one_checkpoint(file(s, n), i, j))


def writer_checkpoint_is_kept(c, s, i: Id, e: Epoch, x: Id):
    return Implies(follows(s, i, i + 1), pins_follow(file(s, i), file(s, i + 1), s.by_role(i + 1), e, x))


def pending_is_pinned(c, s, q: Place):
    return Or(not c.WRITER_CHECKPOINTS, Implies(under_way(s, q), is_pinned(
        s.with_by_role(q), s.with_by_epoch(q), s.after(q) + 1, manifest(s, "with_", q))))


def pending_checkpoint_has_epoch(c, s, q: Place, e: Epoch, i: Id):
    return Implies(And(under_way(s, q), s.after(q) == s.top), has_epoch(manifest(s, "with_", q), e, i))


def pending_writer_has_one_checkpoint(c, s, q: Place, i: Id, j: Id):
    return Implies(under_way(s, q), has_one_checkpoint(manifest(s, "with_", q), i, j))


def pending_checkpoint_is_kept(c, s, q: Place, e: Epoch, x: Id):
    return Implies(under_way(s, q), pins_follow(file(s, s.after(q)), manifest(s, "with_", q), s.with_by_role(q), e, x))


def acked_is_kept(c, s, v: Writer, k: Count):
    return Implies(s.acked(v.me, k), in_file(s, s.top, v.me, k))


def pending_is_next(c, s, q: Place):
    return Implies(under_way(s, q), is_id(s, s.after(q)))


def pending_numbers_follow(c, s, q: Place):
    return Implies(under_way(s, q), numbers_follow(
        file(s, s.after(q)), manifest(s, "with_", q), s.with_by_role(q), s.with_by_epoch(q)))


def pending_ssts_follow(c, s, q: Place, v: Writer, k: Count):
    return Implies(under_way(s, q), ssts_follow(file(s, s.after(q)), manifest(s, "with_", q), v.me, k))


def pending_checkpoints_follow(c, s, q: Place, x: Checkpoint):
    return Implies(And(under_way(s, q), s.with_checkpoints(q, x)), s.file_checkpoints(s.after(q), x))


def pending_sst_is_once(c, s, q: Place, v: Writer, k: Count):
    return Implies(under_way(s, q), Not(And(s.with_l0(q, v.me, k), s.with_compacted(q, v.me, k))))


def pending_wal_is_behind(c, s, q: Place):
    return Implies(under_way(s, q), s.with_last_wal(q) < s.with_next_wal(q))


def may_hold(w, k):
    """Say that a manifest may hold this flush of the writer."""
    alive = at(w.pc, "Idle", "Listed", "Ready")
    return Or(Not(alive), And(w.open, Or(k < w.k, And(k == w.k, w.tries != 0))))


def writer_is_opened(c, s, i: Writer):
    return Implies(i.open, s.opened_Writer(i.me, i.epoch))


def writer_is_fresh(c, s, w: Writer, k: Count):
    return Implies(in_file(s, s.top, w.me, k), may_hold(w, k))


def pending_is_fresh(c, s, q: Place, w: Writer, k: Count):
    return Implies(And(under_way(s, q), Or(s.with_l0(q, w.me, k), s.with_compacted(q, w.me, k))), may_hold(w, k))


def flush_is_new(c, s, w: Writer):
    return Implies(And(at(w.pc, "Ready"), w.open), Not(Or(w.base_l0(w.me, w.k), w.base_compacted(w.me, w.k))))


def fenced_is_told(c, s, w: Writer):
    return Not(w.unheard)


def picked_is_kept(c, s, i: Compactor, v: Writer, k: Count):
    return Implies(i.picked(v.me, k), in_file(s, s.top, v.me, k))


def reader_knows_ids(c, s, r: Reader):
    return Implies(at(r.pc, "Listed"), is_id(s, r.n))


def owed_is_kept(c, s, r: Reader, v: Writer, k: Count):
    return Implies(r.must(v.me, k), in_file(s, If(at(r.pc, "Listed"), r.n, s.top), v.me, k))


def got_is_kept(c, s, r: Reader, v: Writer, k: Count):
    return Implies(r.got(v.me, k), in_file(s, s.top, v.me, k))


def owed_is_got(c, s, r: Reader, v: Writer, k: Count):
    return Implies(And(at(r.pc, "Done"), r.must(v.me, k)), r.got(v.me, k))


def of_role(role: str, sort: Any) -> dict[str, Callable]:
    """Return the clauses that hold for every role, named for this one."""
    # `sort` is no type to the checker: it is given
    def opened(s, x, e):
        return getattr(s, f"opened_{role}")(x.me, e)

    def is_past(c, s, x: sort, e: Epoch):  # pyright: ignore[reportInvalidTypeForm]
        return Implies(opened(s, x, e), e <= file_epoch(s, s.top, role))

    def is_unique(c, s, x: sort, y: sort, e: Epoch):  # pyright: ignore[reportInvalidTypeForm]
        return Implies(And(opened(s, x, e), opened(s, y, e)), x.me == y.me)

    def knows_ids(c, s, i: sort):  # pyright: ignore[reportInvalidTypeForm]
        return And(Implies(at(i.pc, "Listed", "Ready"), is_id(s, i.n)), i.has_base == at(i.pc, "Ready"))

    def base_is_read(c, s, i: sort):  # pyright: ignore[reportInvalidTypeForm]
        a, b = manifest(i, "base_"), file(s, i.n)
        numbers = [f for f, signature in MANIFEST.items() if signature[-1] is not bool]
        return Implies(at(i.pc, "Ready"), And(*(getattr(a, f) == getattr(b, f) for f in numbers)))

    def base_holds_ssts(c, s, i: sort, v: Writer, k: Count):  # pyright: ignore[reportInvalidTypeForm]
        a, b = manifest(i, "base_"), file(s, i.n)
        return Implies(at(i.pc, "Ready"), And(a.l0(v.me, k) == b.l0(v.me, k), a.compacted(v.me, k) == b.compacted(v.me, k)))

    def base_holds_checkpoints(c, s, i: sort, x: Checkpoint):  # pyright: ignore[reportInvalidTypeForm]
        return Implies(at(i.pc, "Ready"), i.base_checkpoints(x) == s.file_checkpoints(i.n, x))

    def base_holds_pins(c, s, i: sort, e: Epoch, x: Id):  # pyright: ignore[reportInvalidTypeForm]
        return Implies(at(i.pc, "Ready"), i.base_writer_checkpoints(e, x) == s.file_writer_checkpoints(i.n, e, x))

    def epoch_is_next(c, s, i: sort):  # pyright: ignore[reportInvalidTypeForm]
        after = role_epoch(manifest(i, "base_"), role) + 1
        return And(Implies(And(at(i.pc, "Idle", "Listed"), Not(i.open)), i.epoch == 0),
                   Implies(at(i.pc, "Ready"), If(i.open, i.epoch + 1 >= after, i.epoch == after)))

    return {f"{role}IsPast": is_past, f"{role}IsUnique": is_unique, f"{role}KnowsIds": knows_ids,
            f"{role}BaseIsRead": base_is_read, f"{role}BaseHoldsSsts": base_holds_ssts,
            f"{role}BaseHoldsCheckpoints": base_holds_checkpoints, f"{role}EpochIsNext": epoch_is_next,
            **({} if role == "Writer" else {f"{role}BaseHoldsPins": base_holds_pins})}  # a writer replaces what its base lists


CLAUSES = {
    "FirstIsThere": first_is_there, "NumbersFollow": file_numbers_follow, "SstsFollow": file_ssts_follow,
    "CheckpointsFollow": file_checkpoints_follow, "SstIsOnce": sst_is_once, "WalIsBehind": wal_is_behind,
    "LatestIsHighest": latest_is_highest, "LatestHoldsAll": latest_holds_all,
    "CommitsAreOfLatest": commits_are_of_latest, "WriterIsPinned": writer_is_pinned,
    "WriterCheckpointHasEpoch": writer_checkpoint_has_epoch, "WriterHasOneCheckpoint": writer_has_one_checkpoint,
    "WriterCheckpointIsKept": writer_checkpoint_is_kept, "PendingIsPinned": pending_is_pinned,
    "PendingCheckpointHasEpoch": pending_checkpoint_has_epoch,
    "PendingWriterHasOneCheckpoint": pending_writer_has_one_checkpoint,
    "PendingCheckpointIsKept": pending_checkpoint_is_kept, "AckedIsKept": acked_is_kept,
    **{name: clause for role, sort in INSTANCES_OF.items() for name, clause in of_role(role, sort).items()},
    "WriterIsOpened": writer_is_opened, "WriterIsFresh": writer_is_fresh, "FlushIsNew": flush_is_new,
    "FencedIsTold": fenced_is_told,
    "PickedIsKept": picked_is_kept, "PendingIsNext": pending_is_next, "PendingNumbersFollow": pending_numbers_follow,
    "PendingSstsFollow": pending_ssts_follow, "PendingCheckpointsFollow": pending_checkpoints_follow,
    "PendingSstIsOnce": pending_sst_is_once, "PendingWalIsBehind": pending_wal_is_behind, "PendingIsFresh": pending_is_fresh,
    "ReaderKnowsIds": reader_knows_ids, "OwedIsKept": owed_is_kept, "GotIsKept": got_is_kept, "ReadIsCurrent": owed_is_got,
}


# --- the properties, as the model states them -----------------------------------------------------------------------------

def every_sst(s, holds: Callable) -> Any:
    return Not(some_sst(s, lambda v, k: Not(holds(v, k))))


def one_writer_per_epoch(c, s, e: Epoch):
    def one(role: str, sort: Any) -> Any:
        opened = getattr(s, f"opened_{role}")
        return s.every(sort, lambda x: s.every(sort, lambda y: Implies(And(opened(x, e), opened(y, e)), x == y)))
    return And(*(one(role, sort) for role, sort in INSTANCES_OF.items()))


def only_own_epoch_is_bumped(c, s, i: Id, j: Id):
    return Implies(follows(s, i, j), And(*(
        Or(at(s.by_role(j), role), file_epoch(s, i, role) >= file_epoch(s, j, role)) for role in EPOCHS)))


def at_most_one_active_writer_commits(c, s, i: Id, j: Id):
    return commit_is_of_latest(s, "Writer", i, j)


def compaction_of_stale_compactor_never_lands(c, s, i: Id, j: Id):
    return commit_is_of_latest(s, "Compactor", i, j)


def at_most_one_active_collector_commits(c, s, i: Id, j: Id):
    return commit_is_of_latest(s, "Collector", i, j)


def others_changes_are_kept(c, s, i: Id, j: Id):
    a, b = file(s, i), file(s, j)
    kept = And(
        every_sst(s, lambda v, k: And(Implies(ssts(a)(v, k), ssts(b)(v, k)),
                                      Implies(a.compacted(v, k), And(b.compacted(v, k), Not(b.l0(v, k)))))),
        s.every(Checkpoint, lambda x: Implies(b.checkpoints(x), a.checkpoints(x))),
        a.last_wal <= b.last_wal, a.next_wal <= b.next_wal)
    return Implies(follows(s, i, j), kept)


def epochs_are_monotone(c, s, i: Id, j: Id):
    return Implies(follows(s, i, j), And(*(
        file_epoch(s, i, role) <= file_epoch(s, j, role) for role in EPOCHS)))


def flush_is_kept(c, s):
    return every_sst(s, lambda v, k: Implies(s.acked(v, k), in_file(s, s.top, v, k)))


def one_writer_checkpoint(c, s, n: Id):
    a = file(s, n)

    def is_kept(i: Any) -> Any:
        return s.some(Epoch, lambda e: a.writer_checkpoints(e, i))

    def has_one_epoch(i: Any) -> Any:
        return s.every(Epoch, lambda d: s.every(Epoch, lambda e: Implies(
            And(a.writer_checkpoints(d, i), a.writer_checkpoints(e, i)), d == e)))

    one_id = s.every(Id, lambda i: s.every(Id, lambda j: Implies(And(is_kept(i), is_kept(j)), i == j)))
    return Implies(is_id(s, n), And(one_id, s.every(Id, has_one_epoch)))


def read_is_current(c, s, r: Reader):
    return Or(Not(at(r.pc, "Done")), every_sst(s, lambda v, k: Implies(r.must(v, k), r.got(v, k))))


PROPERTIES = {
    "OneWriterPerEpoch": one_writer_per_epoch, "OnlyOwnEpochIsBumped": only_own_epoch_is_bumped,
    "AtMostOneActiveWriterCommits": at_most_one_active_writer_commits,
    "CompactionOfStaleCompactorNeverLands": compaction_of_stale_compactor_never_lands,
    "AtMostOneActiveCollectorCommits": at_most_one_active_collector_commits,
    "OthersChangesAreKept": others_changes_are_kept, "EpochsAreMonotone": epochs_are_monotone,
    "WriterIsPinned": writer_is_pinned, "OneWriterCheckpoint": one_writer_checkpoint,
    "WriterCheckpointIsKept": writer_checkpoint_is_kept,
    "FlushIsKept": flush_is_kept, "FencedIsTold": fenced_is_told, "ReadIsCurrent": read_is_current,
}


# --- the model's values as tables, and back ------------------------------------------------------------------------------

def contents(prefix: str, those: list[tuple[int, m.Manifest]]) -> Tables:
    """Return the tables of the contents of manifests, each given with its id or place."""
    tables: Tables = {}
    for f, signature in MANIFEST.items():
        pairs = [(i, getattr(one, f)) for i, one in those]
        if signature[-1] is bool:
            sst = len(signature) == 3
            tables[prefix + f] = frozenset((i, *x) if sst else (i, x) for i, value in pairs for x in value)
        else:
            tables[prefix + f] = defaultdict(int, pairs)
    return tables


def authors(prefix: str, those: list[tuple[int, m.By]]) -> Tables:
    sets = {f"{prefix}{role}": frozenset((i, me) for i, (of, me, _) in those if of == role) for role in EPOCHS}
    return sets | {f"{prefix}role": defaultdict(lambda: "None", ((i, of or "None") for i, (of, _, _) in those)),
                   f"{prefix}epoch": defaultdict(int, ((i, epoch) for i, (_, _, epoch) in those))}


def read(role: str, value: Any) -> Tables:
    tables = value._asdict()
    if role == "Reader":
        return tables
    if role:
        base = value.base._asdict() if value.base else {
            f: frozenset() if signature[-1] is bool else 0 for f, signature in MANIFEST.items()}
        return tables | {"has_base": value.base is not None, **{f"base_{f}": x for f, x in base.items()}}
    pool = [*enumerate(value.pool)]
    return tables | {
        "top": len(value.files), **contents("file_", [*enumerate(value.files, 1)]), **authors("by_", [*enumerate(value.by, 1)]),
        "size": len(pool), "after": defaultdict(int, ((q, n - 1) for q, (n, _, _) in pool)),
        **contents("with_", [(q, one) for q, (_, one, _) in pool]), **authors("with_by_", [(q, by) for q, (*_, by) in pool]),
        **{f"opened_{of}": frozenset((me, epoch) for r, me, epoch in value.opened if r == of) for of in EPOCHS}}


def content_at(t: Tables, prefix: str, i: int) -> m.Manifest:
    def part(f: str, signature: Signature) -> Any:
        if signature[-1] is not bool:
            return t[prefix + f][i]
        return frozenset(row[1:] if len(row) > 2 else row[1] for row in t[prefix + f] if row[0] == i)
    return m.Manifest(**{f: part(f, signature) for f, signature in MANIFEST.items()})


def author_at(t: Tables, prefix: str, i: int) -> m.By:
    role = t[f"{prefix}role"][i]
    if role == "None":
        return "", 0, t[f"{prefix}epoch"][i]
    me, = (me for j, me in t[prefix + role] if j == i)
    return role, me, t[f"{prefix}epoch"][i]


def write(role: str, t: Tables) -> Any:
    if role == "Reader":
        return m.Reader(**t)
    if role:
        base = m.Manifest(*(t[f"base_{f}"] for f in MANIFEST)) if t["has_base"] else None
        return {"Writer": m.Writer, "Compactor": m.Compactor, "Collector": m.Collector}[role](
            base=base, **{f: value for f, value in t.items() if f != "has_base" and not f.startswith("base_")})
    ids, row = range(1, t["top"] + 1), range(t["size"])
    opened = frozenset((of, me, epoch) for of in EPOCHS for me, epoch in t[f"opened_{of}"])
    return m.Shared(
        tuple(content_at(t, "file_", i) for i in ids),
        tuple((t["after"][q] + 1, content_at(t, "with_", q), author_at(t, "with_by_", q)) for q in row),
        t["lost"], t["crashes"], frozenset(), tuple(author_at(t, "by_", i) for i in ids), opened, t["acked"])


def scope(c: Any) -> Scope:  # a Constants without None
    """Return all values of each sort in an instance in which everything is bounded."""
    attempts = 1 + max(c.OPEN_RETRIES, 0)
    numbers = {"Writer": c.WRITERS, "Compactor": c.COMPACTORS, "Collector": c.COLLECTORS}
    ids = 1 + c.MAX_LOST + sum(number * (attempts + updates(c, role)) for role, number in numbers.items())
    return {Id: [*range(ids + 1)], Epoch: [*range(ids + 1)], Wal: [*range(ids + 1)],
            Count: [*range(max(c.MAX_PENDING, c.MAX_LOST, c.MAX_CRASHES, attempts, *map(partial(updates, c), numbers)) + 1)],
            Place: [*range(c.MAX_PENDING)], Checkpoint: [*range(1, c.CHECKPOINTS + 1)],
            **{sort: [*range(numbers[role])] for role, sort in INSTANCES_OF.items()}, Reader: [*range(c.READERS)]}


# Instances in which counterexamples to induction are searched.
SMALL = scope(m.Constants(WRITERS=2, COMPACTORS=1, COLLECTORS=1, READERS=1, MAX_PENDING=1)) | {
    **{number: [0, 1, 2, 3] for number in (Id, Epoch, Wal)}, Count: [0, 1]}
SYSTEM = System(FIELDS, ROLES, RIGID, meaning, initial, ACTIONS, CLAUSES, PROPERTIES, SMALL, read, write)
UNBOUNDED = dict.fromkeys(("FLUSHES", "COMPACTIONS", "COLLECTIONS", "MAX_PENDING", "MAX_LOST", "MAX_CRASHES"))
NUMBERS = {"WRITERS", "COMPACTORS", "COLLECTORS", "READERS", "CHECKPOINTS", "OPEN_RETRIES"}  # any, in what is proved
SAFEGUARDS = {*m.Constants._fields} - {"ENDLESS", "WRITER_CHECKPOINTS", *NUMBERS, *UNBOUNDED}
SAFEGUARDS_OFF = (
    {"CREATE_IF_ABSENT": False}, {"OPEN_ANEW": False}, {"BUMP_OWN_ONLY": False}, {"EPOCH_CHECK": False},
    {"CHECK_AFTER_CONFLICT": False}, {"COMPACTOR_EPOCH": False}, {"REREAD": False}, {"REAPPLY": False},
    {"SWALLOW_FENCED": True}, {"UNKNOWN_IS_DONE": True}, {"POLL_LIST": False},
    {"CHECKPOINT_AT_OPEN": False}, {"DROP_PREDECESSORS": False}, {"REPLACE_CHECKPOINT": False},
)
# The systems that are proved, each separately.
SYSTEMS = {"": {}}
# Instances for the tie that together take every action.
INSTANCES = (
    {"FLUSHES": 2, "OPEN_RETRIES": 1}, {"WRITERS": 1, "COMPACTORS": 1, "MAX_LOST": 1}, {"READERS": 1, "OPEN_RETRIES": -1},
    {"WRITERS": 1, "COMPACTORS": 1, "MAX_PENDING": 1, "MAX_LOST": 1},
    {"WRITERS": 1, "COLLECTORS": 1, "MAX_LOST": 1, "MAX_CRASHES": 1}, {"WRITERS": 0, "COLLECTORS": 2, "MAX_PENDING": 1},
    {"WRITERS": 1, "COMPACTORS": 2, "MAX_CRASHES": 1},
    {"MAX_PENDING": 2},
)
NEAREST = 400  # states of each that `make verify` compares; `make verify-deep` compares all
UNTAKEN = {"Collector.Begin", "Compactor.Begin", "Writer.Begin"}  # actions that no state of them takes
# An instance too large to explore fully, the number of random walks through it, and the steps of a walk.
WALKED = {"WRITERS": 2, "COMPACTORS": 2, "COLLECTORS": 1, "READERS": 1, "FLUSHES": 3, "COMPACTIONS": 2, "CHECKPOINTS": 2,
          "OPEN_RETRIES": 1, "MAX_PENDING": 2, "MAX_LOST": 1, "MAX_CRASHES": 1}
WALKS, STEPS = 4, 60
RLIMIT = 300_000  # of a query


def system(_: m.Constants) -> System:
    return SYSTEM


def prove(constants: m.Constants | None = None, progress: Callable[[inductive.Row], None] | None = None,
          explain: bool = True, timeout_ms: int = inductive.TIMEOUT_MS) -> inductive.Proof:
    """Prove the protocol. Of the constants only the safeguards matter: nothing is bounded. `explain`: find counterexamples."""
    c = (constants or m.Constants())._replace(**UNBOUNDED)
    return inductive.prove(SYSTEM, c, progress, explain, timeout_ms, rlimit=RLIMIT)

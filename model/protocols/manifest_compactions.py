"""Safety: every compaction that was begun is applied exactly once, and no flush that was reported is lost. This holds
although compactors take over from each other and crash between the two objects. It also holds if a success is reported as
refused, and while old files are deleted.

The manifest and the compactions of SlateDB, each a sequence of files with a boundary (SlateDB's RFC on GC boundary files). A
compactor opens by writing its epoch, the next after the manifest's, into the manifest and then into the compactions. It
claims what it is about to merge (the SSTs of L0) in the compactions, applies it to the manifest, and takes the claim out.
Each of these is a GET of the latest, a PUT of the next if absent, and a GET of the boundary; what comes of a refusal, of a
lost reply and of a crash is found out at the next read, by looking for the change in what is read
(docs/protocols/committed-but-rejected.md). A compactor that opens takes over the claim that it finds. LIST and GET are one
action here, and a collector is modelled only by what it writes. SequencedMetadataBoundary models what may happen in between.
specs/ManifestCompactions.fizz is the twin of this file.

A compactor pins what it is about to drop, where PINS says so: before it applies a compaction, it puts a manifest that lists a
checkpoint of this manifest itself, in which the inputs are still in L0. So a client that has read the manifest without a
checkpoint of its own has time to finish (SlateDB's RFC on checkpoints). A collector drops a pin when it has ended, which may be
at any time, and keeps the manifests that listed pins refer to.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from highwater.model.core import Model
from highwater.model.parts import MANY, below, clients, crashed, in_queue, one_more, queued, reply_lost, store, top, with_file


class Constants(NamedTuple):
    """Names and values as in the .fizz. None for a bound means unbounded and not counted (refinement uses that)."""

    WRITERS: int = 1
    COMPACTORS: int = 2  # compactors over time
    COLLECTORS: int = 0
    FLUSHES: int | None = 1
    COLLECTIONS: int | None = 1  # boundary moves of a collector, and pins that it drops
    PINS: bool = False  # compactors pin what they are about to drop
    # Faults, each bounded
    MAX_PENDING: int | None = 0  # requests in all that are in flight when their clients stop waiting
    MAX_LOST: int | None = 0  # responses lost
    MAX_CRASHES: int | None = 0
    # Safeguards: switch one off and a property must fail
    CHECK: str = "both"  # the boundary is checked after a create in "both" sequences, or in "manifest" or "compactions" alone
    EPOCH_CHECK: bool = True  # a compactor compares its epoch with that of what it reads
    MANIFEST_FIRST: bool = True  # an open writes its epoch into the manifest first; False: into the compactions
    HEAL: bool = True  # and the same epoch into the other; False: the one after its own, which a crash may have left
    APPLY_FIRST: bool = True  # a compaction is in the manifest before its claim is removed
    RECOGNISE: bool = True  # a client looks for its change in the file read before it makes it
    PIN_FIRST: bool = True  # a pin is put before the compaction is applied; False: in the same update, which lacks the inputs
    PIN_AGAIN: bool = True  # a compactor that does not find its pin takes another one; False: it applies all the same
    SPARE_PINNED: bool = True  # a collector keeps the manifests that listed pins refer to
    TAKE_OVER: bool = True  # an opening compactor continues a claim that it finds; False: it looks for new work


LIMITS = {  # the values that an instance may have
    **dict.fromkeys(("COMPACTORS", "COLLECTORS", "FLUSHES", "COLLECTIONS", "MAX_PENDING", "MAX_LOST",
                     "MAX_CRASHES"), MANY),
    "WRITERS": range(2),
    "CHECK": ("both", "manifest", "compactions"),
}

Sst = int  # zero-based index of the writer's flush
Job = tuple[Sst, ...]  # the SSTs merged
Pin = tuple[Job, int]  # (the compaction that it is for, the id of the manifest that it keeps)


class Manifest(NamedTuple):
    epoch: int  # the compactor's
    l0: frozenset[Sst]
    compacted: tuple[Sst, ...]  # sorted; an SST that was compacted twice is in it twice
    pins: frozenset[Pin] = frozenset()


class Compactions(NamedTuple):
    epoch: int
    jobs: frozenset[Job]  # claimed


class Shared(NamedTuple):
    manifests: tuple[Manifest | None, ...]  # manifests[i - 1] is the file of id i
    compactions: tuple[Compactions | None, ...]
    manifest_boundary: int
    compactions_boundary: int
    pool: tuple[tuple[str, int, Manifest | Compactions], ...]  # requests in flight, not awaited: object, id, content
    sent: int  # faults so far: requests put into the pool
    lost: int
    crashes: int
    # ghosts
    acked: frozenset[Sst]  # flushes that were reported
    finished: frozenset[Job]  # compactions reported as done, when their claims were removed
    opened: tuple[int, ...]  # epochs of reported opens, sorted
    overruled: bool  # a compactor changed the manifest after one with a higher epoch began to open
    unchecked: bool  # a reported change was applied at or behind a boundary


class Writer(NamedTuple):
    pc: str = "Idle"  # Idle, Ready, Created
    n: int = 0  # the latest id
    base: Any = None  # the file of n
    k: int = 0  # zero-based index of its current flush
    late: bool = False  # ghost: its create was applied at or behind the boundary


class Compactor(NamedTuple):
    pc: str = "Idle"  # Idle, Ready, Created; Fenced, Dead
    task: str = "OpenManifest"  # OpenManifest, OpenCompactions, Pick, Claim, Pin, Apply, Finish
    epoch: int = 0
    n: int = 0
    base: Any = None
    job: Job = ()
    late: bool = False


class Collector(NamedTuple):
    used: int = 0  # boundary moves so far, and pins dropped


MANIFEST_TASKS = ("OpenManifest", "Pick", "Pin", "Apply")
OPENS = ("OpenManifest", "OpenCompactions")


# --- two sequences of files

def present(files: tuple, i: int) -> bool:
    return i <= len(files) and files[i - 1] is not None


def files_of(s: Shared, manifest: bool) -> tuple:
    return s.manifests if manifest else s.compactions


def boundary_of(s: Shared, manifest: bool) -> int:
    return s.manifest_boundary if manifest else s.compactions_boundary


def put(s: Shared, manifest: bool, i: int, file: Manifest | Compactions | None) -> Shared:
    if manifest:
        return s._replace(manifests=with_file(s.manifests, i, file))
    return s._replace(compactions=with_file(s.compactions, i, file))


def latest(files: tuple) -> Any:
    return files[top(files) - 1]


def checks(c: Constants, manifest: bool) -> bool:
    return c.CHECK in ("both", "manifest" if manifest else "compactions")


# --- the writer: GET the latest manifest, PUT the next with a flush, GET the boundary

def flushed(m: Manifest, k: Sst) -> bool:
    return k in m.l0 or k in m.compacted


def writer_read(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    if w.pc == "Idle" and below(w.k, c.FLUSHES) and not (c.RECOGNISE and flushed(latest(s.manifests), w.k)):
        yield (), s, w._replace(pc="Ready", n=top(s.manifests), base=latest(s.manifests))


def writer_read_landed(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """An earlier attempt has already made the change."""
    if w.pc == "Idle" and below(w.k, c.FLUSHES) and c.RECOGNISE and flushed(latest(s.manifests), w.k):
        yield (), *flush_done(s, w)


def flush_done(s: Shared, w: Writer) -> tuple[Shared, Writer]:
    return s._replace(acked=s.acked | {w.k}, unchecked=s.unchecked or w.late), Writer(k=w.k + 1)


def writer_create_next(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    if w.pc == "Ready" and not present(s.manifests, w.n + 1):
        after = put(s, True, w.n + 1, w.base._replace(l0=w.base.l0 | {w.k}))
        then = w._replace(pc="Created", base=None, late=w.n + 1 <= s.manifest_boundary)
        if checks(c, True):
            yield (), after, then
        else:
            yield (), *flush_done(after, then)


def writer_create_conflict(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    if w.pc == "Ready" and present(s.manifests, w.n + 1):
        yield (), s, Writer(k=w.k)


def writer_accept(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    if w.pc == "Created" and w.n + 1 > s.manifest_boundary:
        yield (), *flush_done(s, w)


def writer_reject(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    if w.pc == "Created" and w.n + 1 <= s.manifest_boundary:
        yield (), s, Writer(k=w.k)


def writer_lose_reply(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    if w.pc == "Created" and below(s.lost, c.MAX_LOST):
        yield (), reply_lost(c, s), Writer(k=w.k)


def writer_send_create(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """The client stops waiting for its PUT, which is in flight."""
    if w.pc == "Ready" and below(s.sent, c.MAX_PENDING):
        m = w.base._replace(l0=w.base.l0 | {w.k})
        yield (), sends(c, s, ("manifest", w.n + 1, m)), Writer(k=w.k)


def sends(c: Constants, s: Shared, request: tuple) -> Shared:
    return queued(s, request)._replace(sent=one_more(s.sent, c.MAX_PENDING))


# --- a compactor: the same, for one task after another

def is_manifest(o: Compactor) -> bool:
    """Tell whether the task concerns the manifest."""
    return o.task in MANIFEST_TASKS


def first_task(c: Constants) -> str:
    return "OpenManifest" if c.MANIFEST_FIRST else "OpenCompactions"


def before_apply(c: Constants) -> str:
    """The task that comes first of those that apply a compaction."""
    return "Pin" if c.PINS and c.PIN_FIRST else "Apply"


def after_claim(c: Constants) -> str:
    return before_apply(c) if c.APPLY_FIRST else "Finish"


def pinned(o: Compactor, file: Manifest) -> bool:
    return any(job == o.job for job, _ in file.pins)


def fenced(c: Constants, o: Compactor, file: Manifest | Compactions) -> bool:
    """Tell whether the file read has a higher epoch. An open then takes a higher one."""
    return c.EPOCH_CHECK and o.task != first_task(c) and file.epoch > o.epoch


def landed(c: Constants, o: Compactor, file: Any) -> bool:
    """Tell whether the file read holds the change already. (An open without a response takes the next epoch.)"""
    if not c.RECOGNISE or o.task == first_task(c):
        return False
    match o.task:
        case "OpenManifest" | "OpenCompactions":
            return file.epoch == o.epoch
        case "Claim":
            return o.job in file.jobs
        case "Pin":
            return pinned(o, file) or all(x in file.compacted for x in o.job)
        case "Apply":
            return all(x in file.compacted for x in o.job)
        case "Finish":
            return o.job not in file.jobs
        case _:
            return False


def unpinned(c: Constants, o: Compactor, file: Any) -> bool:
    """Tell whether the compactor is to apply a compaction, and its pin has ended and was dropped."""
    return o.task == "Apply" and before_apply(c) == "Pin" and c.PIN_AGAIN and not pinned(o, file)


def read(c: Constants, me: int, s: Shared, o: Compactor) -> Iterator:
    """GET the latest file that the task concerns. To pick work needs nothing else; if there is none, look again later."""
    if o.pc != "Idle":
        return
    file, n = latest(files_of(s, is_manifest(o))), top(files_of(s, is_manifest(o)))
    if fenced(c, o, file) or landed(c, o, file) or unpinned(c, o, file):
        return
    if o.task == "Pick":
        if file.l0:
            yield (), s, o._replace(task="Claim", job=tuple(sorted(file.l0)))
    else:
        epoch = file.epoch + 1 if o.task == first_task(c) else o.epoch
        yield (), s, o._replace(pc="Ready", n=n, base=file, epoch=epoch)


def read_fenced(c: Constants, me: int, s: Shared, o: Compactor) -> Iterator:
    """The epoch is higher: the compactor stops and tells its caller."""
    if o.pc == "Idle" and fenced(c, o, latest(files_of(s, is_manifest(o)))):
        yield (), s, Compactor("Fenced", o.task, o.epoch)


def read_landed(c: Constants, me: int, s: Shared, o: Compactor) -> Iterator:
    """An earlier attempt, or the compactor that claimed the work, has already made the change."""
    if o.pc == "Idle":
        file = latest(files_of(s, is_manifest(o)))
        if not fenced(c, o, file) and landed(c, o, file):
            yield (), *done(c, s, o, file)


def read_unpinned(c: Constants, me: int, s: Shared, o: Compactor) -> Iterator:
    """The pin has ended and was dropped: take another one."""
    if o.pc == "Idle" and o.task == "Apply":
        file = latest(s.manifests)
        if not fenced(c, o, file) and not landed(c, o, file) and unpinned(c, o, file):
            yield (), s, o._replace(task="Pin")


def changed(c: Constants, o: Compactor) -> Any:
    """The file that the compactor puts next."""
    file = o.base
    match o.task:
        case "OpenManifest" | "OpenCompactions":
            return file._replace(epoch=o.epoch if c.HEAL or o.task == first_task(c) else file.epoch + 1)
        case "Claim":
            return file._replace(jobs=file.jobs | {o.job})
        case "Pin":
            return file._replace(pins=file.pins | {(o.job, o.n + 1)})
        case "Apply":
            pins = file.pins if before_apply(c) == "Pin" or not c.PINS else file.pins | {(o.job, o.n + 1)}
            return file._replace(l0=file.l0 - set(o.job), compacted=tuple(sorted((*file.compacted, *o.job))), pins=pins)
        case "Finish":
            return file._replace(jobs=file.jobs - {o.job})
        case _:
            raise ValueError(f"{o.task} puts no file")


def done(c: Constants, s: Shared, o: Compactor, file: Any) -> tuple[Shared, Compactor]:
    """The task is done, and its change is in `file`. Go to the next task; after the open, to a claim that was found."""
    s = s._replace(unchecked=s.unchecked or o.late)
    job = min(file.jobs, default=()) if o.task == "OpenCompactions" else o.job
    if o.task == first_task(c):
        return s, Compactor("Idle", "OpenCompactions" if c.MANIFEST_FIRST else "OpenManifest", o.epoch, job=job)
    if o.task in OPENS:
        work = "Pick" if not job or not c.TAKE_OVER else after_claim(c)
        after = Compactor("Idle", work, o.epoch, job=job if c.TAKE_OVER else ())
        return s._replace(opened=tuple(sorted((*s.opened, o.epoch)))), after
    if o.task == "Claim":
        return s, Compactor("Idle", after_claim(c), o.epoch, job=o.job)
    if o.task == "Pin":
        return s, Compactor("Idle", "Apply", o.epoch, job=o.job)
    if o.task == "Finish":
        s = s._replace(finished=s.finished | {o.job})
    if o.task == ("Finish" if c.APPLY_FIRST else "Apply"):
        return s, Compactor("Idle", "Pick", o.epoch)
    return s, Compactor("Idle", "Finish" if c.APPLY_FIRST else before_apply(c), o.epoch, job=o.job)


def create_next(c: Constants, me: int, s: Shared, o: Compactor) -> Iterator:
    if o.pc == "Ready" and not present(files_of(s, is_manifest(o)), o.n + 1):
        file, late = changed(c, o), o.n + 1 <= boundary_of(s, is_manifest(o))
        newest = max(latest(s.manifests).epoch, latest(s.compactions).epoch)
        after = put(s, is_manifest(o), o.n + 1, file)
        after = after._replace(overruled=s.overruled or (o.task == "Apply" and not late and o.epoch < newest))
        if checks(c, is_manifest(o)):
            yield (), after, o._replace(pc="Created", base=file, late=late)
        else:
            yield (), *done(c, after, o._replace(late=late), file)


def create_conflict(c: Constants, me: int, s: Shared, o: Compactor) -> Iterator:
    if o.pc == "Ready" and present(files_of(s, is_manifest(o)), o.n + 1):
        yield (), s, again(c, o)


def again(c: Constants, o: Compactor) -> Compactor:
    """Start the same task over."""
    return Compactor("Idle", o.task, 0 if o.task == first_task(c) else o.epoch, job=o.job)


def accept(c: Constants, me: int, s: Shared, o: Compactor) -> Iterator:
    if o.pc == "Created" and o.n + 1 > boundary_of(s, is_manifest(o)):
        yield (), *done(c, s, o, o.base)


def reject(c: Constants, me: int, s: Shared, o: Compactor) -> Iterator:
    if o.pc == "Created" and o.n + 1 <= boundary_of(s, is_manifest(o)):
        yield (), s, again(c, o)


def lose_reply(c: Constants, me: int, s: Shared, o: Compactor) -> Iterator:
    """The PUT is applied, and its response or that of the boundary is lost."""
    if o.pc == "Created" and below(s.lost, c.MAX_LOST):
        yield (), reply_lost(c, s), again(c, o)


def send_create(c: Constants, me: int, s: Shared, o: Compactor) -> Iterator:
    """The client stops waiting for its PUT, which is in flight."""
    if o.pc == "Ready" and below(s.sent, c.MAX_PENDING):
        name = "manifest" if is_manifest(o) else "compactions"
        yield (), sends(c, s, (name, o.n + 1, changed(c, o))), again(c, o)


def crash(c: Constants, me: int, s: Shared, o: Compactor) -> Iterator:
    """The instance does not come back. Another one may open."""
    if o.pc in ("Idle", "Ready", "Created") and below(s.crashes, c.MAX_CRASHES):
        yield (), crashed(c, s), Compactor("Dead")


# --- a collector: PUT a boundary forward, DELETE what is behind it

def advance_manifest(c: Constants, me: int, s: Shared, g: Collector) -> Iterator:
    if below(g.used, c.COLLECTIONS):
        for d in range(s.manifest_boundary + 1, top(s.manifests)):
            yield (d,), s._replace(manifest_boundary=d), Collector(one_more(g.used, c.COLLECTIONS))


def advance_compactions(c: Constants, me: int, s: Shared, g: Collector) -> Iterator:
    if below(g.used, c.COLLECTIONS):
        for d in range(s.compactions_boundary + 1, top(s.compactions)):
            yield (d,), s._replace(compactions_boundary=d), Collector(one_more(g.used, c.COLLECTIONS))


def drop_pin(c: Constants, me: int, s: Shared, g: Collector) -> Iterator:
    """Some pins have ended. PUT the next manifest without them."""
    if below(g.used, c.COLLECTIONS):
        m = latest(s.manifests)
        for ended in subsets(sorted(i for _, i in m.pins)):
            rest = frozenset(pin for pin in m.pins if pin[1] not in ended)
            after = put(s, True, top(s.manifests) + 1, m._replace(pins=rest))
            yield (ended,), after, Collector(one_more(g.used, c.COLLECTIONS))


def subsets(ids: list[int]) -> list[tuple[int, ...]]:
    """Each choice of at least one of the ids."""
    found: list[tuple[int, ...]] = [()]
    for i in ids:
        found += [(*one, i) for one in found]
    return found[1:]


def put_behind(c: Constants, me: int, s: Shared, g: Collector) -> Iterator:
    """Its PUT without a pin comes late: its id is free again, behind the boundary. What it puts is refused, so the content is
    that of any file."""
    if c.PINS and below(g.used, c.COLLECTIONS):
        for i in range(1, s.manifest_boundary + 1):
            if not present(s.manifests, i):
                yield (i,), put(s, True, i, latest(s.manifests)), Collector(one_more(g.used, c.COLLECTIONS))


def delete_manifest(c: Constants, me: int, s: Shared, g: Collector) -> Iterator:
    for i in range(1, s.manifest_boundary + 1):
        if present(s.manifests, i) and not (c.SPARE_PINNED and any(i == of for _, of in latest(s.manifests).pins)):
            yield (i,), put(s, True, i, None), g


def delete_compactions(c: Constants, me: int, s: Shared, g: Collector) -> Iterator:
    for i in range(1, s.compactions_boundary + 1):
        if present(s.compactions, i):
            yield (i,), put(s, False, i, None), g


# --- a request in flight reaches the store; its condition is evaluated now

def apply_pending(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    for at, (name, i, file), after in in_queue(s):
        manifest = name == "manifest"
        if not present(files_of(s, manifest), i):
            newest = max(latest(s.manifests).epoch, latest(s.compactions).epoch)
            merges = manifest and i > s.manifest_boundary and file.compacted != latest(s.manifests).compacted
            after = put(after, manifest, i, file)._replace(overruled=s.overruled or (merges and file.epoch < newest))
        yield (at,), after, ()


# --- properties ---------------------------------------------------------------------------------------------------------

def applied_once(c: Constants, s: Shared) -> bool:
    """No SST is compacted twice, and none is both in L0 and compacted."""
    m = latest(s.manifests)
    return len(set(m.compacted)) == len(m.compacted) and not m.l0 & set(m.compacted)


def flush_is_kept(c: Constants, s: Shared) -> bool:
    """A reported flush is in the latest manifest, in L0 or compacted."""
    return s.acked <= latest(s.manifests).l0 | set(latest(s.manifests).compacted)


def claim_out_is_applied(c: Constants, s: Shared) -> bool:
    """A compaction whose claim was removed as done is in the manifest."""
    return all(x in latest(s.manifests).compacted for job in s.finished for x in job)


def claim_is_worked_on(c: Constants, s: Shared, o: Compactor) -> bool:
    """A compactor that looks for work has left no claim behind, neither its own nor one that it found."""
    newest = max(latest(s.manifests).epoch, latest(s.compactions).epoch)
    return o.task != "Pick" or o.pc != "Idle" or o.epoch < newest or not latest(s.compactions).jobs


def epochs_agree(c: Constants, s: Shared, o: Compactor) -> bool:
    """The epoch of an open compactor is in both sequences, unless one of them has a higher one."""
    serves = o.pc in ("Idle", "Ready", "Created") and o.task not in OPENS
    epochs = {latest(s.manifests).epoch, latest(s.compactions).epoch}
    return not serves or max(epochs) > o.epoch or epochs == {o.epoch}


def one_compactor_per_epoch(c: Constants, s: Shared) -> bool:
    """No two compactors that opened have the same epoch."""
    return len(set(s.opened)) == len(s.opened)


def fenced_changes_nothing(c: Constants, s: Shared) -> bool:
    """No older compactor changes the manifest after a newer one began to open."""
    return not s.overruled


def report_is_checked(c: Constants, s: Shared) -> bool:
    """No reported change was applied behind a boundary."""
    return not s.unchecked


def dropped_is_pinned(c: Constants, s: Shared) -> bool:
    """A manifest that drops an SST from L0 lists a pin of a manifest that has it there."""
    return all(pinned_in(s, m, x) for m, x in dropped(c, s))


def dropped(c: Constants, s: Shared) -> list[tuple[Manifest, Sst]]:
    """Each SST that a manifest ahead of the boundary drops from L0, with this manifest; none where nobody pins."""
    steps = [(a, b) for i, (a, b) in enumerate(pairwise(s.manifests), 1) if a and b and i > s.manifest_boundary]
    return [(b, x) for a, b in steps for x in sorted(a.l0 - b.l0) if c.PINS]


def pinned_in(s: Shared, m: Manifest, x: Sst) -> bool:
    return any(x in job and (i <= s.manifest_boundary or in_l0(s, i, x)) for job, i in m.pins)


def in_l0(s: Shared, i: int, x: Sst) -> bool:
    m = s.manifests[i - 1] if i <= len(s.manifests) else None
    return m is not None and x in m.l0


def pinned_is_there(c: Constants, s: Shared) -> bool:
    """The manifest of each pin that the latest one lists is there, with the inputs in L0."""
    return all(is_kept(s, job, i) for job, i in latest(s.manifests).pins)


def is_kept(s: Shared, job: Job, i: int) -> bool:
    return all(in_l0(s, i, x) for x in job)


def flush_is_reported(c: Constants, s: Shared) -> bool:
    return bool(s.acked)


def compaction_is_reported(c: Constants, s: Shared) -> bool:
    return bool(s.finished)


def compactor_is_fenced(c: Constants, s: Shared, o: Compactor) -> bool:
    return o.pc == "Fenced"


def fenced_with_a_claim(c: Constants, s: Shared, o: Compactor) -> bool:
    """A compactor is dead and has left a claim, which another one will find."""
    return o.pc == "Fenced" and bool(latest(s.compactions).jobs)


def epochs_are_apart(c: Constants, s: Shared) -> bool:
    """The manifest has a higher epoch than the compactions: an open is between the two, or crashed there."""
    return latest(s.manifests).epoch > latest(s.compactions).epoch


def two_are_open(c: Constants, s: Shared) -> bool:
    return len(s.opened) >= 2


def applied_is_claimed(c: Constants, s: Shared) -> bool:
    """A claim names work that the manifest already holds. A compactor that takes it over must notice."""
    return any(x in latest(s.manifests).compacted for job in latest(s.compactions).jobs for x in job)


def claim_is_open(c: Constants, s: Shared) -> bool:
    return bool(latest(s.compactions).jobs)


def refusal_is_indefinite(c: Constants, s: Shared, o: Compactor) -> bool:
    """A compactor is about to be refused although others have built on its change."""
    return o.pc == "Created" and o.n + 1 <= boundary_of(s, is_manifest(o)) and not o.late


def inputs_are_pinned(c: Constants, s: Shared) -> bool:
    """The latest manifest has dropped SSTs, and a pin keeps the one in which they are in L0."""
    return any(set(job) <= set(latest(s.manifests).compacted) for job, _ in latest(s.manifests).pins)


def pinned_is_spared(c: Constants, s: Shared) -> bool:
    """A manifest behind the boundary stays, because a pin refers to it, and another one is deleted."""
    return s.manifests[0] is None and any(i <= s.manifest_boundary for _, i in latest(s.manifests).pins)


def pin_is_taken_again(c: Constants, s: Shared, o: Compactor) -> bool:
    """A compactor has found that its pin was dropped."""
    return o.task == "Pin" and any(m and o.job in {job for job, _ in m.pins} for m in s.manifests)


def file_is_collected(c: Constants, s: Shared) -> bool:
    return s.manifests[0] is None or s.compactions[0] is None


WRITER = {
    "Read": writer_read, "ReadLanded": writer_read_landed, "CreateNext": writer_create_next,
    "CreateConflict": writer_create_conflict, "Accept": writer_accept, "Reject": writer_reject,
    "LoseReply": writer_lose_reply, "SendCreate": writer_send_create,
}
COMPACTOR = {
    "Read": read, "ReadFenced": read_fenced, "ReadLanded": read_landed, "CreateNext": create_next,
    "ReadUnpinned": read_unpinned, "CreateConflict": create_conflict, "Accept": accept, "Reject": reject,
    "LoseReply": lose_reply, "SendCreate": send_create, "Crash": crash,
}
COLLECTOR = {
    "AdvanceManifest": advance_manifest, "AdvanceCompactions": advance_compactions, "DropPin": drop_pin,
    "PutBehind": put_behind, "DeleteManifest": delete_manifest, "DeleteCompactions": delete_compactions,
}
STORE = {"ApplyPending": apply_pending}
FAULTS = {"SendCreate", "LoseReply", "Crash"}

ALWAYS = {
    "AppliedOnce": (None, applied_once),
    "FlushIsKept": (None, flush_is_kept),
    "ClaimOutIsApplied": (None, claim_out_is_applied),
    "ClaimIsWorkedOn": ("Compactor", claim_is_worked_on),
    "EpochsAgree": ("Compactor", epochs_agree),
    "OneCompactorPerEpoch": (None, one_compactor_per_epoch),
    "FencedChangesNothing": (None, fenced_changes_nothing),
    "ReportIsChecked": (None, report_is_checked),
    "DroppedIsPinned": (None, dropped_is_pinned),
    "PinnedIsThere": (None, pinned_is_there),
}
SOMETIMES = {
    "FlushIsReported": (None, flush_is_reported),
    "CompactionIsReported": (None, compaction_is_reported),
    "CompactorIsFenced": ("Compactor", compactor_is_fenced),
    "FencedWithAClaim": ("Compactor", fenced_with_a_claim),
    "EpochsAreApart": (None, epochs_are_apart),
    "TwoAreOpen": (None, two_are_open),
    "AppliedIsClaimed": (None, applied_is_claimed),
    "ClaimIsOpen": (None, claim_is_open),
    "RefusalIsIndefinite": ("Compactor", refusal_is_indefinite),
    "FileIsCollected": (None, file_is_collected),
    "InputsArePinned": (None, inputs_are_pinned),
    "PinnedIsSpared": (None, pinned_is_spared),
    "PinIsTakenAgain": ("Compactor", pin_is_taken_again),
}
# Witnessed only where something is collected, and only where compactors pin
COLLECTING = ("RefusalIsIndefinite", "FileIsCollected", "PinnedIsSpared", "PinIsTakenAgain")
PINNING = ("InputsArePinned", "PinnedIsSpared", "PinIsTakenAgain")


def initial() -> Shared:
    return Shared((Manifest(0, frozenset(), ()),), (Compactions(0, frozenset()),), 0, 0, (), 0, 0, 0, frozenset(),
                  frozenset(), (), False, False)


def model(c: Constants) -> Model:
    compactor = Compactor(task=first_task(c))
    roles = (("Writer", c.WRITERS, Writer(), WRITER), ("Compactor", c.COMPACTORS, compactor, COMPACTOR),
             ("Collector", c.COLLECTORS, Collector(), COLLECTOR))
    sometimes = {name: witness for name, witness in SOMETIMES.items()
                 if ((c.COLLECTORS and c.COLLECTIONS != 0) or name not in COLLECTING) and (c.PINS or name not in PINNING)}
    renamed: dict[str, Any] = dict.fromkeys(("Writer", "Compactor", "Collector"))  # named nowhere
    return Model("manifest_compactions", c, initial(), (*clients(*roles), store(STORE)), ALWAYS, sometimes, renamed=renamed)

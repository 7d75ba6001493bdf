"""Safety: no object that the latest manifest names is deleted, and none that the manifest of a listed checkpoint names. Nor is
an SST that is uploaded, and that a manifest may still name.

The garbage collector of SlateDB's RFC on checkpoints and clones, with the cut-off by ULID. A writer uploads an SST and then
commits it to L0. A compactor records its compaction in the compactions file, uploads the outputs, commits them, and removes the
record. A collector lists the SSTs, reads the compactions file, and then the manifest. It deletes the SSTs that nothing names
and that are older than each compaction in the file and than the newest L0.

`order` has all ULIDs from the oldest to the newest; clocks differ, so a new one may be put between others. An update of a
sequence is one action: it builds on the latest file and creates the next one (sequenced_metadata_boundary proves that this is
one step). Requests in flight need no pool. A client never forgets what it may send: a request that is applied late is sent
late, and a client that has crashed is one that is never scheduled. Age is abstracted: an object may always be old enough.
specs/DatabaseGc.fizz is the twin of this file.
"""

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

from highwater.model.core import Model
from highwater.model.parts import MANY, all_but, below, clients, crashed, one_more


class Constants(NamedTuple):
    """Names and values as in the .fizz. None for a bound means unbounded and not counted (refinement uses that)."""

    WRITERS: int = 1
    COMPACTORS: int = 1  # compactors over time
    OPERATORS: int = 1
    COLLECTORS: int = 1
    UPLOADS: int | None = 2  # SSTs that a writer uploads
    APPENDS: int | None = 0  # WAL objects that a writer puts
    OPENS: int | None = 1  # epochs that a compactor claims
    COMPACTIONS: int | None = 1  # compactions that a compactor records
    OUTPUTS: int | None = 1  # SSTs that a compactor uploads
    CHECKPOINTS: int | None = 1  # checkpoints that an operator takes
    RENEWALS: int | None = 0  # of a checkpoint, by its operator
    SKEW: int | None = 0  # ULIDs of others that are minted earlier, and are newer than a new one
    KINDS: str = "ssts"  # the objects that collectors delete: some of "ssts manifests wal"
    # Faults, bounded
    MAX_CRASHES: int | None = 0  # rounds of collectors that end before all is read
    # For liveness alone: switch it off and garbage stays
    CLEAR: bool = True  # a compactor that opens removes the records of those before it
    # Safeguards: switch one off and a property must fail
    ORDER: str = "list compactions manifest"  # of a collector's reads
    L0_CUTOFF: bool = True  # only SSTs older than the newest L0 are deleted
    COMPACTION_CUTOFF: bool = True  # only SSTs older than the oldest listed compaction are deleted
    REFUSE_OLDER: bool = True  # an SST that is older than the newest L0 is not committed to L0
    KEEP_NEWEST: bool = True  # a manifest says which SST was the newest L0, also after that is merged
    OUTPUT_AFTER: bool = True  # an output has a newer ULID than its compaction
    CLAIM_FIRST: bool = True  # a compaction is recorded before an output is uploaded
    FINISH_LAST: bool = True  # its record is removed after its outputs are in the manifest
    EPOCH_CHECK: bool = True  # a compactor commits only while no later one has opened
    SPARE_LATEST: bool = True  # what the latest manifest names is kept; False: only what those of checkpoints name
    SPARE_CHECKPOINTED: bool = True  # what the manifest of a checkpoint names is kept, and the manifest
    SPARE_LISTED: bool = True  # that of every listed checkpoint; False: of those that have not ended by the collector's clock
    SPARE_SEEN: bool = True  # the WAL objects that a checkpoint's manifest has seen are kept


ORDERS = ("list compactions manifest", "compactions manifest list", "list manifest compactions")
LIMITS = {  # the values that an instance may have
    **dict.fromkeys(("WRITERS", "COMPACTORS", "OPERATORS", "COLLECTORS", "UPLOADS", "APPENDS", "OPENS", "COMPACTIONS",
                     "OUTPUTS", "CHECKPOINTS", "RENEWALS", "SKEW", "MAX_CRASHES"), MANY),
    "ORDER": ORDERS,
}

Ulid = int  # from 1 on, numbered as they are minted; 0: none

class Checkpoint(NamedTuple):
    """A checkpoint, with what its manifest says: that never changes."""

    by: int  # its operator
    k: int
    id: int  # of its manifest
    named: tuple[Ulid, ...]
    after: int
    seen: int


class Manifest(NamedTuple):
    epoch: int = 0  # the compactor's
    l0: frozenset[Ulid] = frozenset()
    run: frozenset[Ulid] = frozenset()
    newest: Ulid = 0  # the SST that was committed to L0 last
    checkpoints: frozenset[Checkpoint] = frozenset()
    after: int = 0  # the WAL objects up to this id are flushed
    seen: int = 0  # a checkpoint of this manifest has the WAL objects up to this id


class Compactions(NamedTuple):
    epoch: int = 0
    listed: frozenset[Ulid] = frozenset()  # compactions


class Shared(NamedTuple):
    order: tuple[Ulid, ...]  # all ULIDs, the oldest first
    n: int  # the id of the latest manifest
    latest: Manifest
    files: frozenset[int]  # the ids of the manifests that are there
    compactions: Compactions  # the latest file
    ssts: frozenset[Ulid]  # objects
    wal: frozenset[int]  # objects
    logged: int  # WAL objects put so far
    crashes: int  # faults so far
    # ghost
    replaced: frozenset[Ulid]  # SSTs that a manifest has named, and a later one does not


class Writer(NamedTuple):
    k: int = 0  # SSTs uploaded
    a: int = 0  # WAL objects put
    mine: frozenset[Ulid] = frozenset()  # the SSTs that it has uploaded and not committed


class Compactor(NamedTuple):
    opens: int = 0
    epoch: int = 0
    open: bool = False
    k: int = 0  # compactions recorded
    u: int = 0  # outputs uploaded
    jobs: frozenset[Ulid] = frozenset()  # the compactions that it recorded
    outputs: frozenset[tuple[Ulid, Ulid]] = frozenset()  # (compaction, SST), not applied
    applied: frozenset[Ulid] = frozenset()  # of the compactions


class Operator(NamedTuple):
    k: int = 0  # zero-based number of its next checkpoint
    r: int = 0  # renewals


class Collector(NamedTuple):
    step: int = 0  # reads of this round
    listed: frozenset[Ulid] = frozenset()
    compactions: frozenset[Ulid] = frozenset()
    n: int = 0  # the id of the manifest that it has read
    base: Manifest = Manifest()  # that manifest
    ssts: frozenset[Ulid] = frozenset()  # what it may delete
    manifests: frozenset[int] = frozenset()
    wal: frozenset[int] = frozenset()


# --- ULIDs and files

def minted(c: Constants, s: Shared) -> Iterator[tuple[int, Ulid, Shared]]:
    """Yield the places that a new ULID may have in the order, the ULID, and the state with it."""
    new, length = len(s.order) + 1, len(s.order)
    for at in range(0 if c.SKEW is None else max(length - c.SKEW, 0), length + 1):
        yield at, new, s._replace(order=(*s.order[:at], new, *s.order[at:]))


def older(s: Shared, x: Ulid, y: Ulid) -> bool:
    """Tell whether x is older than y; none is older than no ULID."""
    return y != 0 and (x == 0 or s.order.index(x) < s.order.index(y))


def put(s: Shared, m: Manifest) -> Shared:
    return s._replace(n=s.n + 1, latest=m, files=s.files | {s.n + 1}, replaced=s.replaced | named(s.latest) - named(m))


def named(m: Manifest) -> frozenset[Ulid]:
    return m.l0 | m.run


def subsets(those: frozenset) -> Iterator[tuple]:
    """Yield all subsets but the empty one."""
    for size in range(1, len(those) + 1):
        yield from combinations(sorted(those), size)


# --- a writer

def append(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """PUT the next WAL object."""
    if below(w.a, c.APPENDS):
        yield (), s._replace(wal=s.wal | {s.logged + 1}, logged=s.logged + 1), w._replace(a=one_more(w.a, c.APPENDS))


def upload(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """PUT an SST."""
    if below(w.k, c.UPLOADS):
        for at, x, after in minted(c, s):
            yield (at,), after._replace(ssts=s.ssts | {x}), w._replace(k=one_more(w.k, c.UPLOADS), mine=w.mine | {x})


def commit(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """Commit an SST to L0, and state which WAL objects are flushed and seen."""
    m = s.latest
    for x in sorted(w.mine):
        if older(s, m.newest, x) or not c.REFUSE_OLDER:
            newest = x if older(s, m.newest, x) else m.newest
            for after in range(m.after, s.logged + 1):
                for seen in range(max(m.seen, after), s.logged + 1):
                    yield (x, after, seen), put(s, m._replace(l0=m.l0 | {x}, newest=newest, after=after, seen=seen)), \
                        w._replace(mine=w.mine - {x})


# --- a compactor

def open_manifest(c: Constants, me: int, s: Shared, o: Compactor) -> Iterator:
    """Claim the next epoch in the manifest."""
    if not o.open and below(o.opens, c.OPENS):
        epoch = s.latest.epoch + 1
        yield (), put(s, s.latest._replace(epoch=epoch)), o._replace(epoch=epoch, opens=one_more(o.opens, c.OPENS))


def open_compactions(c: Constants, me: int, s: Shared, o: Compactor) -> Iterator:
    """Put the epoch into the compactions file, and remove the records of earlier compactors."""
    if not o.open and o.epoch > s.compactions.epoch:
        yield (), s._replace(compactions=Compactions(o.epoch, frozenset() if c.CLEAR else s.compactions.listed)), \
            o._replace(open=True)


def serves(s: Shared, o: Compactor) -> bool:
    return o.open and s.compactions.epoch == o.epoch


def claim(c: Constants, me: int, s: Shared, o: Compactor) -> Iterator:
    """Record a compaction."""
    if serves(s, o) and below(o.k, c.COMPACTIONS):
        for at, x, after in minted(c, s):
            yield (at,), after._replace(compactions=s.compactions._replace(listed=s.compactions.listed | {x})), \
                o._replace(k=one_more(o.k, c.COMPACTIONS), jobs=o.jobs | {x})


def output(c: Constants, me: int, s: Shared, o: Compactor) -> Iterator:
    """PUT an output of a compaction. If that is applied, the output comes too late."""
    if o.open and below(o.u, c.OUTPUTS):
        for job in sorted(o.jobs) if c.CLAIM_FIRST else (0,):
            for at, x, after in minted(c, s):
                if older(after, job, x) or not c.OUTPUT_AFTER:
                    used = frozenset[tuple[Ulid, Ulid]]() if job in o.applied else {(job, x)}
                    yield (job, at), after._replace(ssts=s.ssts | {x}), \
                        o._replace(u=one_more(o.u, c.OUTPUTS), outputs=o.outputs | used)


def apply(c: Constants, me: int, s: Shared, o: Compactor) -> Iterator:
    """Commit outputs in place of all SSTs but the newest of L0."""
    m = s.latest
    if not o.open or (c.EPOCH_CHECK and m.epoch != o.epoch):
        return
    l0 = sorted(m.l0, key=s.order.index)
    for job in sorted(o.jobs - o.applied) if c.CLAIM_FIRST else (0,):
        for outputs in subsets(frozenset(x for of, x in o.outputs if of == job)):
            for merged in range(1, len(l0) + 1):
                after = m._replace(l0=frozenset(l0[merged:]), run=frozenset(outputs), newest=m.newest if c.KEEP_NEWEST else 0)
                yield (job, outputs, merged), put(s, after), o._replace(
                    outputs=frozenset(one for one in o.outputs if one[0] != job), applied=o.applied | ({job} & o.jobs))


def finish(c: Constants, me: int, s: Shared, o: Compactor) -> Iterator:
    """Remove the record of a compaction."""
    if serves(s, o):
        for job in sorted(s.compactions.listed & (o.applied if c.FINISH_LAST else o.jobs)):
            yield (job,), s._replace(compactions=s.compactions._replace(listed=s.compactions.listed - {job})), o


# --- an operator

def take(c: Constants, me: int, s: Shared, p: Operator) -> Iterator:
    """Take a checkpoint of the manifest that lists it first."""
    if below(p.k, c.CHECKPOINTS):
        m = s.latest
        for seen in range(m.seen, s.logged + 1):
            one = Checkpoint(me, p.k, s.n + 1, tuple(sorted(named(m))), m.after, seen)
            yield (seen,), put(s, m._replace(checkpoints=m.checkpoints | {one}, seen=seen)), p._replace(k=p.k + 1)


def renew(c: Constants, me: int, s: Shared, p: Operator) -> Iterator:
    """Give a listed checkpoint another expiry, which nothing else depends on here."""
    if below(p.r, c.RENEWALS):
        for one in sorted(s.latest.checkpoints):
            if one.by == me:
                yield (one.k,), put(s, s.latest), p._replace(r=one_more(p.r, c.RENEWALS))


def drop(c: Constants, me: int, s: Shared, p: Operator) -> Iterator:
    m = s.latest
    for one in sorted(m.checkpoints):
        if one.by == me:
            yield (one.k,), put(s, m._replace(checkpoints=m.checkpoints - {one})), p


# --- a collector

def drop_ended(c: Constants, me: int, s: Shared, g: Collector) -> Iterator:
    """Remove checkpoints that have ended by its clock."""
    m = s.latest
    for ended in subsets(m.checkpoints):
        yield (tuple((one.by, one.k) for one in ended),), put(s, m._replace(checkpoints=m.checkpoints - set(ended))), g


def list_ssts(c: Constants, me: int, s: Shared, g: Collector) -> Iterator:
    if turn(c, g, "list"):
        yield from planned(c, s, g._replace(step=g.step + 1, listed=s.ssts))


def read_compactions(c: Constants, me: int, s: Shared, g: Collector) -> Iterator:
    if turn(c, g, "compactions"):
        yield from planned(c, s, g._replace(step=g.step + 1, compactions=s.compactions.listed))


def read_manifest(c: Constants, me: int, s: Shared, g: Collector) -> Iterator:
    if turn(c, g, "manifest"):
        yield from planned(c, s, g._replace(step=g.step + 1, n=s.n, base=s.latest))


def turn(c: Constants, g: Collector, read: str) -> bool:
    """Tell whether this is the next read of a round."""
    return c.ORDER.split()[g.step] == read


def planned(c: Constants, s: Shared, g: Collector) -> Iterator:
    """Once all is read, plan what to delete. Plans of earlier rounds stay: their requests may be in flight."""
    if g.step < 3:
        yield (), s, g
        return
    for ended in (False,) if c.SPARE_LISTED else (False, True):
        held = g.base.checkpoints if c.SPARE_CHECKPOINTED and not ended else frozenset[Checkpoint]()
        kept = {x for one in held for x in one.named} | (named(g.base) if c.SPARE_LATEST else frozenset())
        ssts = frozenset(x for x in g.listed - kept if is_past(c, s, g, x))
        ids = frozenset(i for i in s.files if i < g.n) - {one.id for one in held}
        wal = frozenset(i for i in s.wal if i < g.base.after and not any(
            c.SPARE_SEEN and one.after < i <= one.seen for one in held))
        yield () if c.SPARE_LISTED else (ended,), s, Collector(
            ssts=g.ssts | ssts if "ssts" in c.KINDS else g.ssts,
            manifests=g.manifests | ids if "manifests" in c.KINDS else g.manifests,
            wal=g.wal | wal if "wal" in c.KINDS else g.wal)


def is_past(c: Constants, s: Shared, g: Collector, x: Ulid) -> bool:
    """Tell whether an SST is older than the newest L0 of the manifest, and than all listed compactions."""
    return (older(s, x, g.base.newest) or not c.L0_CUTOFF) and (
        all(older(s, x, job) for job in g.compactions) or not c.COMPACTION_CUTOFF)


def delete_sst(c: Constants, me: int, s: Shared, g: Collector) -> Iterator:
    for x in sorted(g.ssts):
        yield (x,), s._replace(ssts=s.ssts - {x}), g._replace(ssts=g.ssts - {x})


def delete_manifest(c: Constants, me: int, s: Shared, g: Collector) -> Iterator:
    for i in sorted(g.manifests):
        yield (i,), s._replace(files=s.files - {i}), g._replace(manifests=g.manifests - {i})


def delete_wal(c: Constants, me: int, s: Shared, g: Collector) -> Iterator:
    for i in sorted(g.wal):
        yield (i,), s._replace(wal=s.wal - {i}), g._replace(wal=g.wal - {i})


def crash(c: Constants, me: int, s: Shared, g: Collector) -> Iterator:
    """A round ends before all is read; the next one begins with its first read."""
    if g.step and below(s.crashes, c.MAX_CRASHES):
        yield (), crashed(c, s), Collector(ssts=g.ssts, manifests=g.manifests, wal=g.wal)


# --- properties ---------------------------------------------------------------------------------------------------------

def latest_is_there(c: Constants, s: Shared) -> bool:
    """All SSTs that the latest manifest names are there."""
    return named(s.latest) <= s.ssts


def checkpoint_is_there(c: Constants, s: Shared) -> bool:
    """The manifest of each listed checkpoint is there, and all SSTs that it names."""
    return all(one.id in s.files and s.ssts.issuperset(one.named) for one in s.latest.checkpoints)


def wal_is_there(c: Constants, s: Shared) -> bool:
    """The WAL objects after the latest manifest are there, and those that a listed checkpoint has seen."""
    return all(i in s.wal for i in range(s.latest.after + 1, s.logged + 1)) and all(
        i in s.wal for one in s.latest.checkpoints for i in range(one.after + 1, one.seen + 1))


def upload_is_there(c: Constants, s: Shared, w: Writer) -> bool:
    """An uploaded SST that may still be committed to L0 is there."""
    return all(x in s.ssts for x in w.mine if older(s, s.latest.newest, x))


def output_is_there(c: Constants, s: Shared, o: Compactor) -> bool:
    """An output of a compaction that may still be applied is there."""
    return o.epoch < s.latest.epoch or all(x in s.ssts for _, x in o.outputs)


def sst_is_collected(c: Constants, s: Shared) -> bool:
    """An SST that a manifest has named is deleted."""
    return not s.replaced <= s.ssts


def orphan_is_collected(c: Constants, s: Shared, w: Writer) -> bool:
    """An SST that was uploaded and can no longer be committed is deleted."""
    return not w.mine <= s.ssts


def manifest_is_collected(c: Constants, s: Shared) -> bool:
    return len(s.files) < s.n


def wal_is_collected(c: Constants, s: Shared) -> bool:
    return len(s.wal) < s.logged


def checkpoint_keeps_sst(c: Constants, s: Shared) -> bool:
    """Only the manifest of a listed checkpoint names an SST, which is older than the newest L0."""
    return any(x in s.replaced and older(s, x, s.latest.newest) for one in s.latest.checkpoints for x in one.named)


def checkpoint_keeps_wal(c: Constants, s: Shared) -> bool:
    """Only a listed checkpoint needs a WAL object."""
    return any(one.after < i <= one.seen and i < s.latest.after for one in s.latest.checkpoints for i in s.wal)


def upload_is_pending(c: Constants, s: Shared, g: Collector) -> bool:
    """A collector has listed an SST that no manifest has named yet, and that may be committed."""
    return any(older(s, s.latest.newest, x) for x in g.listed - named(s.latest) - s.replaced)


def output_is_pending(c: Constants, s: Shared, o: Compactor) -> bool:
    """An output is uploaded, and its compaction is listed."""
    return bool(o.outputs) and o.epoch == s.latest.epoch and bool(s.compactions.listed)


def compactor_is_fenced(c: Constants, s: Shared, o: Compactor) -> bool:
    """A later compactor has opened before this one applied its outputs."""
    return o.open and o.epoch < s.latest.epoch and bool(o.outputs)


def garbage_goes(c: Constants, s: Shared) -> bool:
    """Every SST that is older than the newest L0, and that nothing names, is deleted again and again."""
    kept = named(s.latest) | {x for one in s.latest.checkpoints for x in one.named}
    return all(x in kept for x in s.ssts if older(s, x, s.latest.newest))


WRITER = {"Append": append, "Upload": upload, "Commit": commit}
COMPACTOR = {
    "OpenManifest": open_manifest, "OpenCompactions": open_compactions, "Claim": claim, "Output": output, "Apply": apply,
    "Finish": finish,
}
OPERATOR = {"Take": take, "Renew": renew, "Drop": drop}
COLLECTOR = {
    "DropEnded": drop_ended, "ListSsts": list_ssts, "ReadCompactions": read_compactions, "ReadManifest": read_manifest,
    "DeleteSst": delete_sst, "DeleteManifest": delete_manifest, "DeleteWal": delete_wal,
    "Crash": crash,
}
ROLES = {"Writer": WRITER, "Compactor": COMPACTOR, "Operator": OPERATOR, "Collector": COLLECTOR}

ALWAYS = {
    "LatestIsThere": (None, latest_is_there),
    "CheckpointIsThere": (None, checkpoint_is_there),
    "WalIsThere": (None, wal_is_there),
    "UploadIsThere": ("Writer", upload_is_there),
    "OutputIsThere": ("Compactor", output_is_there),
}
SOMETIMES = {
    "SstIsCollected": (None, sst_is_collected),
    "OrphanIsCollected": ("Writer", orphan_is_collected),
    "ManifestIsCollected": (None, manifest_is_collected),
    "WalIsCollected": (None, wal_is_collected),
    "CheckpointKeepsSst": (None, checkpoint_keeps_sst),
    "CheckpointKeepsWal": (None, checkpoint_keeps_wal),
    "UploadIsPending": ("Collector", upload_is_pending),
    "OutputIsPending": ("Compactor", output_is_pending),
    "CompactorIsFenced": ("Compactor", compactor_is_fenced),
}
EVENTUALLY = {"GarbageGoes": (None, garbage_goes)}
FAULTS = {"Crash"}
FAIR = {role: frozenset(actions.keys() - FAULTS) for role, actions in ROLES.items()}


def initial() -> Shared:
    return Shared((), 1, Manifest(), frozenset((1,)), Compactions(), frozenset(), frozenset(), 0, 0, frozenset())


def absent(c: Constants) -> Iterator[str]:
    """Yield the witnesses that an instance cannot have: it lacks the clients, or collects no such objects."""
    if "ssts" not in c.KINDS or not c.COMPACTORS:
        yield from ("SstIsCollected", "CheckpointKeepsSst")
    if "ssts" not in c.KINDS:
        yield "OrphanIsCollected"
    if "manifests" not in c.KINDS:
        yield "ManifestIsCollected"
    if "wal" not in c.KINDS or c.APPENDS == 0:
        yield from ("WalIsCollected", "CheckpointKeepsWal")
    if not c.OPERATORS:
        yield from ("CheckpointKeepsSst", "CheckpointKeepsWal")
    if not c.COMPACTORS:
        yield "OutputIsPending"
    if c.COMPACTORS < 2:
        yield "CompactorIsFenced"


def model(c: Constants) -> Model:
    roles = (("Writer", c.WRITERS, Writer(), WRITER), ("Compactor", c.COMPACTORS, Compactor(), COMPACTOR),
             ("Operator", c.OPERATORS, Operator(), OPERATOR), ("Collector", c.COLLECTORS, Collector(), COLLECTOR))
    return Model("database_gc", c, initial(), clients(*roles), ALWAYS, all_but(SOMETIMES, absent(c)), EVENTUALLY, FAIR,
                 renamed=dict.fromkeys(("Writer", "Compactor", "Collector"), None))

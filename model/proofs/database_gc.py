"""Safety, for any number of clients, SSTs, compactions, checkpoints and WAL objects: every `always` property of
model/protocols/database_gc.py, by an inductive invariant, action by action.

A ULID is known by its number, in the order of minting; `rank` is its place in the order of all ULIDs. What is dead stays dead,
and a collector plans to delete only what is dead:
- No manifest names it: neither the latest (DoomedIsUnnamed) nor that of a listed checkpoint (DoomedIsUnheld).
- No writer can commit it: it is not newer than the newest L0 (DoomedIsNotMine). No compactor can: a later one has claimed an
  epoch (DoomedIsNoOutput).
Why a plan is right: each compaction that a compactor of the latest epoch may still apply is listed (ClaimIsListed). So the
compactions that a collector has read include that of each output which it had listed before (OutputIsCovered), and the output
is newer (OutputIsAfter). The other clauses say that sets have only ULIDs that are minted, and that ids are in their ranges.

Two checks tie this to the model. `tie` evaluates the relation below in plain Python, on every reachable state of an instance.
`walked` does so on random walks through a larger instance.
"""

from collections import defaultdict
from collections.abc import Callable
from itertools import combinations
from typing import Any, NewType

from highwater.model.proofs.engine import inductive
from highwater.model.proofs.engine.logic import And, If, Implies, Not, Or
from highwater.model.proofs.engine.parts import nothing, one_more, room, zero
from highwater.model.proofs.engine.system import Scope, System, Tables, View
from highwater.model.protocols import database_gc as m

Ulid = NewType("Ulid", int)  # its number; 0: none
Place = NewType("Place", int)  # in the order, from 0
Id = NewType("Id", int)  # of a manifest
Log = NewType("Log", int)  # the id of a WAL object
Count = NewType("Count", int)
Checkpoint = NewType("Checkpoint", object)
Ulids = NewType("Ulids", object)  # a set of ULIDs
Checkpoints = NewType("Checkpoints", object)  # a set of checkpoints
Writer, Compactor = NewType("Writer", View), NewType("Compactor", View)
Operator, Collector = NewType("Operator", View), NewType("Collector", View)

ROLES = {"Writer": Writer, "Compactor": Compactor, "Operator": Operator, "Collector": Collector}
MANIFEST = {
    "epoch": (Count,), "l0": (Ulid, bool), "run": (Ulid, bool), "newest": (Ulid,), "after": (Log,), "seen": (Log,),
    "cp": (Checkpoint, bool), "cp_id": (Checkpoint, Id), "cp_named": (Checkpoint, Ulid, bool), "cp_after": (Checkpoint, Log),
    "cp_seen": (Checkpoint, Log),
}
FIELDS = {
    "": MANIFEST | {
        "minted": (Ulid,), "rank": (Ulid, Place), "n": (Id,), "files": (Id, bool), "clear_epoch": (Count,),
        "listed": (Ulid, bool), "ssts": (Ulid, bool), "wal": (Log, bool), "logged": (Log,), "crashes": (Count,),
        "replaced": (Ulid, bool),
    },
    "Writer": {"k": (Count,), "a": (Count,), "mine": (Ulid, bool)},
    "Compactor": {
        "opens": (Count,), "epoch": (Count,), "open": (bool,), "k": (Count,), "u": (Count,), "jobs": (Ulid, bool),
        "outputs": (Ulid, Ulid, bool), "applied": (Ulid, bool),
    },
    "Operator": {"k": (Count,), "r": (Count,)},
    "Collector": {f"base_{name}": of for name, of in MANIFEST.items()} | {
        "step": (Count,), "listed": (Ulid, bool), "compactions": (Ulid, bool), "n": (Id,), "ssts": (Ulid, bool),
        "manifests": (Id, bool), "wal": (Log, bool),
    },
}
RIGID = {"by": (Checkpoint, Operator), "number": (Checkpoint, Count), "has": (Ulids, Ulid, bool),
         "ends": (Checkpoints, Checkpoint, bool)}
EMPTY = {"epoch": 0, "l0": nothing, "run": nothing, "newest": 0, "after": 0, "seen": 0, "cp": nothing, "cp_id": zero,
         "cp_named": nothing, "cp_after": zero, "cp_seen": zero}
ROUND = {"step": 0, "listed": nothing, "compactions": nothing, "n": 0} | {f"base_{name}": of for name, of in EMPTY.items()}


def meaning(_: Any) -> dict[str, Callable]:
    return {"by": lambda one: one[0], "number": lambda one: one[1], "has": lambda those, x: x in those,
            "ends": lambda those, one: one in those}


def initial(c: m.Constants) -> dict[str, dict]:
    shared = EMPTY | {
        "minted": 0, "rank": zero, "n": 1, "files": lambda i: i == 1, "clear_epoch": 0, "listed": nothing, "ssts": nothing,
        "wal": nothing, "logged": 0, "crashes": 0, "replaced": nothing}
    return {
        "": shared, "Writer": {"k": 0, "a": 0, "mine": nothing},
        "Compactor": {"opens": 0, "epoch": 0, "open": False, "k": 0, "u": 0, "jobs": nothing, "outputs": nothing,
                      "applied": nothing},
        "Operator": {"k": 0, "r": 0}, "Collector": ROUND | {"ssts": nothing, "manifests": nothing, "wal": nothing}}


# --- the transition relation, action by action as in model/protocols/database_gc.py ---------------------------------------

def is_minted(s, x):
    return And(x >= 1, x <= s.minted)


def older(s, x, y):
    return And(y != 0, Or(x == 0, s.rank(x) < s.rank(y)))


def named(s, x):
    return Or(s.l0(x), s.run(x))


def place(c, s, at):
    """Say that a new ULID may be put at this place."""
    near = True if c.SKEW is None else at >= s.minted - c.SKEW
    return And(at >= 0, at <= s.minted, near)


def mint(s, at):
    """Return the state with one more ULID, at this place of the order."""
    new = s.minted + 1
    behind = lambda x: And(is_minted(s, x), s.rank(x) >= at)  # noqa: E731
    return s.but(minted=new, rank=lambda x: If(x == new, at, If(behind(x), s.rank(x) + 1, s.rank(x))))


def put(s, **changes):
    after = s.but(**changes, n=s.n + 1, files=lambda i: Or(i == s.n + 1, s.files(i)))
    return after.but(replaced=lambda x: Or(s.replaced(x), And(named(s, x), Not(named(after, x)))))


def append(c, s, w):
    yield room(w.a, c.APPENDS), (), s.but(wal=lambda i: Or(i == s.logged + 1, s.wal(i)), logged=s.logged + 1), w.but(
        a=one_more(w.a, c.APPENDS))


def upload(c, s, w, place_: Place):
    new = s.minted + 1
    yield And(room(w.k, c.UPLOADS), place(c, s, place_)), (place_,), mint(s, place_).but(
        ssts=lambda x: Or(x == new, s.ssts(x))), w.but(k=one_more(w.k, c.UPLOADS), mine=lambda x: Or(x == new, w.mine(x)))


def commit(c, s, w, x: Ulid, after: Log, seen: Log):
    newer = older(s, s.newest, x)
    guard = And(w.mine(x), Or(newer, Not(c.REFUSE_OLDER)), after >= s.after, after <= s.logged, seen >= s.seen, seen >= after,
                seen <= s.logged)
    yield guard, (x, after, seen), put(
        s, l0=lambda y: Or(y == x, s.l0(y)), newest=If(newer, x, s.newest), after=after, seen=seen), w.but(
        mine=lambda y: And(y != x, w.mine(y)))


def open_manifest(c, s, o):
    yield And(Not(o.open), room(o.opens, c.OPENS)), (), put(s, epoch=s.epoch + 1), o.but(
        epoch=s.epoch + 1, opens=one_more(o.opens, c.OPENS))


def open_compactions(c, s, o):
    yield And(Not(o.open), o.epoch > s.clear_epoch), (), s.but(
        clear_epoch=o.epoch, listed=nothing if c.CLEAR else s.listed), o.but(open=True)


def serves(s, o):
    return And(o.open, s.clear_epoch == o.epoch)


def claim(c, s, o, at: Place):
    new = s.minted + 1
    after = mint(s, at).but(listed=lambda x: Or(x == new, s.listed(x)))
    yield And(serves(s, o), room(o.k, c.COMPACTIONS), place(c, s, at)), (at,), after, o.but(
        k=one_more(o.k, c.COMPACTIONS), jobs=lambda x: Or(x == new, o.jobs(x)))


def output(c, s, o, job: Ulid, at: Place):
    new, after = s.minted + 1, mint(s, at)
    guard = And(o.open, room(o.u, c.OUTPUTS), place(c, s, at), o.jobs(job) if c.CLAIM_FIRST else job == 0,
                Or(older(after, job, new), Not(c.OUTPUT_AFTER)))
    yield guard, (job, at), after.but(ssts=lambda x: Or(x == new, s.ssts(x))), o.but(
        u=one_more(o.u, c.OUTPUTS), outputs=lambda j, x: Or(And(j == job, x == new, Not(o.applied(job))), o.outputs(j, x)))


def apply(c, s, o, job: Ulid, outputs: Ulids, last: Ulid):
    some = And(s.some(Ulid, lambda x: s.has(outputs, x)),
               s.every(Ulid, lambda x: Implies(s.has(outputs, x), o.outputs(job, x))))
    guard = And(o.open, Or(s.epoch == o.epoch, Not(c.EPOCH_CHECK)), some, s.l0(last),
                And(o.jobs(job), Not(o.applied(job))) if c.CLAIM_FIRST else job == 0)
    yield guard, (job, outputs, last), put(
        s, l0=lambda x: And(s.l0(x), s.rank(x) > s.rank(last)), run=lambda x: s.has(outputs, x),
        newest=s.newest if c.KEEP_NEWEST else 0), o.but(
        outputs=lambda j, x: And(j != job, o.outputs(j, x)), applied=lambda j: Or(o.applied(j), And(j == job, o.jobs(job))))


def finish(c, s, o, job: Ulid):
    guard = And(serves(s, o), s.listed(job), o.applied(job) if c.FINISH_LAST else o.jobs(job))
    yield guard, (job,), s.but(listed=lambda x: And(x != job, s.listed(x))), o


def take(c, s, p, one: Checkpoint, seen: Log):
    guard = And(room(p.k, c.CHECKPOINTS), s.by(one) == p.me, s.number(one) == p.k, seen >= s.seen, seen <= s.logged)
    yield guard, (seen,), put(
        s, seen=seen, cp=lambda x: Or(x == one, s.cp(x)), cp_id=lambda x: If(x == one, s.n + 1, s.cp_id(x)),
        cp_named=lambda x, y: If(x == one, named(s, y), s.cp_named(x, y)),
        cp_after=lambda x: If(x == one, s.after, s.cp_after(x)),
        cp_seen=lambda x: If(x == one, seen, s.cp_seen(x))), p.but(k=p.k + 1)


def without(s, gone):
    """Return the state with a manifest without some checkpoints: `gone` tells which."""
    return put(
        s, cp=lambda x: And(Not(gone(x)), s.cp(x)), cp_id=lambda x: If(gone(x), 0, s.cp_id(x)),
        cp_named=lambda x, y: And(Not(gone(x)), s.cp_named(x, y)), cp_after=lambda x: If(gone(x), 0, s.cp_after(x)),
        cp_seen=lambda x: If(gone(x), 0, s.cp_seen(x)))


def renew(c, s, p, one: Checkpoint):
    yield And(room(p.r, c.RENEWALS), s.cp(one), s.by(one) == p.me), (s.number(one),), put(s), p.but(r=one_more(p.r, c.RENEWALS))


def drop(c, s, p, one: Checkpoint):
    yield And(s.cp(one), s.by(one) == p.me), (s.number(one),), without(s, lambda x: x == one), p


def drop_ended(c, s, g, ended: Checkpoints):
    guard = And(s.some(Checkpoint, lambda x: s.ends(ended, x)),
                s.every(Checkpoint, lambda x: Implies(s.ends(ended, x), s.cp(x))))
    yield guard, (ended,), without(s, lambda x: s.ends(ended, x)), g


def planned(c, s, g, read, **heard):
    """Return the steps of a read. Once all is read, what to delete is planned."""
    at = c.ORDER.split().index(read)
    guard, g = g.step == at, g.but(**heard)
    if at < 2:
        yield guard, (), s, g.but(step=at + 1)
        return
    for ended in (False,) if c.SPARE_LISTED else (False, True):
        yield guard, () if c.SPARE_LISTED else (ended,), s, plan(c, s, g, held_by(c, g, ended)).but(**ROUND)


def held_by(c, g, ended):
    return nothing if ended or not c.SPARE_CHECKPOINTED else g.base_cp


def plan(c, s, g, held):
    def kept(x):
        return Or(And(c.SPARE_LATEST, Or(g.base_l0(x), g.base_run(x))),
                  s.some(Checkpoint, lambda one: And(held(one), g.base_cp_named(one, x))))

    def past(x):
        return And(Or(older(s, x, g.base_newest), Not(c.L0_CUTOFF)), Or(Not(c.COMPACTION_CUTOFF), s.every(
            Ulid, lambda job: Implies(g.compactions(job), older(s, x, job)))))

    def seen(i):
        return And(c.SPARE_SEEN, s.some(Checkpoint, lambda one: And(
            held(one), g.base_cp_after(one) < i, i <= g.base_cp_seen(one))))

    return g.but(
        ssts=(lambda x: Or(g.ssts(x), And(g.listed(x), Not(kept(x)), past(x)))) if "ssts" in c.KINDS else g.ssts,
        manifests=(lambda i: Or(g.manifests(i), And(s.files(i), i < g.n, Not(s.some(
            Checkpoint, lambda one: And(held(one), g.base_cp_id(one) == i)))))) if "manifests" in c.KINDS else g.manifests,
        wal=(lambda i: Or(g.wal(i), And(s.wal(i), i < g.base_after, Not(seen(i))))) if "wal" in c.KINDS else g.wal)


def list_ssts(c, s, g):
    yield from planned(c, s, g, "list", listed=s.ssts)


def read_compactions(c, s, g):
    yield from planned(c, s, g, "compactions", compactions=s.listed)


def read_manifest(c, s, g):
    yield from planned(c, s, g, "manifest", n=s.n, **{f"base_{name}": getattr(s, name) for name in MANIFEST})


def delete_sst(c, s, g, x: Ulid):
    yield g.ssts(x), (x,), s.but(ssts=lambda y: And(y != x, s.ssts(y))), g.but(ssts=lambda y: And(y != x, g.ssts(y)))


def delete_manifest(c, s, g, i: Id):
    yield g.manifests(i), (i,), s.but(files=lambda j: And(j != i, s.files(j))), g.but(
        manifests=lambda j: And(j != i, g.manifests(j)))


def delete_wal(c, s, g, i: Log):
    yield g.wal(i), (i,), s.but(wal=lambda j: And(j != i, s.wal(j))), g.but(wal=lambda j: And(j != i, g.wal(j)))


def crash(c, s, g):
    yield And(g.step > 0, room(s.crashes, c.MAX_CRASHES)), (), s.but(crashes=one_more(s.crashes, c.MAX_CRASHES)), g.but(**ROUND)


ACTIONS = {
    "Writer": {"Append": append, "Upload": upload, "Commit": commit},
    "Compactor": {
        "OpenManifest": open_manifest, "OpenCompactions": open_compactions, "Claim": claim, "Output": output, "Apply": apply,
        "Finish": finish,
    },
    "Operator": {"Take": take, "Renew": renew, "Drop": drop},
    "Collector": {
        "DropEnded": drop_ended, "ListSsts": list_ssts, "ReadCompactions": read_compactions, "ReadManifest": read_manifest,
        "DeleteSst": delete_sst, "DeleteManifest": delete_manifest, "DeleteWal": delete_wal, "Crash": crash,
    },
}


# --- the invariant, as in the docstring -----------------------------------------------------------------------------------

def ulids_have_places(c, s, x: Ulid, y: Ulid):
    return And(s.minted >= 0, Implies(And(is_minted(s, x), is_minted(s, y), s.rank(x) == s.rank(y)), x == y))


def known_is_minted(c, s, x: Ulid, one: Checkpoint):
    there = Or(s.l0(x), s.run(x), s.listed(x), s.ssts(x), s.replaced(x), And(s.cp(one), s.cp_named(one, x)))
    return And(s.newest >= 0, s.newest <= s.minted, Implies(there, is_minted(s, x)))


def mine_is_minted(c, s, w: Writer, x: Ulid):
    return Implies(w.mine(x), is_minted(s, x))


def job_is_minted(c, s, o: Compactor, j: Ulid, x: Ulid):
    return And(Implies(Or(o.jobs(j), o.applied(j)), is_minted(s, j)), Implies(o.applied(j), o.jobs(j)),
               Implies(o.outputs(j, x), And(is_minted(s, x), o.jobs(j), Not(o.applied(j)))))


def read_is_minted(c, s, g: Collector, x: Ulid):
    return Implies(Or(g.listed(x), g.compactions(x), g.ssts(x)), is_minted(s, x))


def ids_are_taken(c, s, i: Id, one: Checkpoint):
    return And(s.n >= 1, Implies(s.files(i), And(i >= 1, i <= s.n)),
               Implies(s.cp(one), And(s.cp_id(one) >= 1, s.cp_id(one) <= s.n)))


def wal_is_logged(c, s, i: Log, one: Checkpoint):
    return And(s.after >= 0, s.after <= s.logged, s.seen >= 0, s.seen <= s.logged,
               Implies(s.wal(i), And(i >= 1, i <= s.logged)),
               Implies(s.cp(one), And(s.cp_after(one) >= 0, s.cp_after(one) <= s.after, s.cp_seen(one) <= s.logged)))


def latest_is_there(c, s, x: Ulid):
    return Implies(named(s, x), s.ssts(x))


def checkpoint_is_there(c, s, one: Checkpoint, x: Ulid):
    return Implies(s.cp(one), And(s.files(s.cp_id(one)), Implies(s.cp_named(one, x), s.ssts(x))))


def wal_is_there(c, s, i: Log, one: Checkpoint):
    return And(Implies(And(s.after < i, i <= s.logged), s.wal(i)),
               Implies(And(s.cp(one), s.cp_after(one) < i, i <= s.cp_seen(one)), s.wal(i)))


def upload_is_there(c, s, w: Writer, x: Ulid):
    return Implies(And(w.mine(x), older(s, s.newest, x)), s.ssts(x))


def output_is_there(c, s, o: Compactor, j: Ulid, x: Ulid):
    return Implies(And(o.epoch >= s.epoch, o.outputs(j, x)), s.ssts(x))


def epochs_rise(c, s, o: Compactor, j: Ulid):
    return And(s.clear_epoch >= 0, s.clear_epoch <= s.epoch, o.epoch >= 0, o.epoch <= s.epoch,
               Implies(o.open, And(o.epoch >= 1, o.epoch <= s.clear_epoch)), Implies(o.jobs(j), o.open))


def epoch_is_of_one(c, s, o: Compactor, p: Compactor):
    return Implies(And(o.epoch == p.epoch, o.epoch > 0), o.me == p.me)


def claim_is_listed(c, s, o: Compactor, j: Ulid):
    return Implies(And(o.epoch == s.epoch, o.jobs(j), Not(o.applied(j))), s.listed(j))


def output_is_after(c, s, o: Compactor, j: Ulid, x: Ulid):
    return Implies(o.outputs(j, x), older(s, j, x))


def step_is_known(c, s, g: Collector):
    return And(g.step >= 0, g.step <= 2)


def output_is_covered(c, s, g: Collector, o: Compactor, j: Ulid, x: Ulid):
    return Implies(And(g.step == 2, g.listed(x), o.epoch == s.epoch, o.outputs(j, x)), g.compactions(j))


def doomed_is_unnamed(c, s, g: Collector, x: Ulid):
    return Implies(g.ssts(x), Not(named(s, x)))


def doomed_is_unheld(c, s, g: Collector, x: Ulid, one: Checkpoint):
    return Implies(And(g.ssts(x), s.cp(one)), Not(s.cp_named(one, x)))


def doomed_is_not_mine(c, s, g: Collector, w: Writer, x: Ulid):
    return Implies(And(g.ssts(x), w.mine(x)), Not(older(s, s.newest, x)))


def doomed_is_no_output(c, s, g: Collector, o: Compactor, j: Ulid, x: Ulid):
    return Implies(And(g.ssts(x), o.outputs(j, x)), o.epoch < s.epoch)


def doomed_manifest_is_old(c, s, g: Collector, i: Id, one: Checkpoint):
    return Implies(g.manifests(i), And(i < s.n, Implies(s.cp(one), s.cp_id(one) != i)))


def doomed_wal_is_flushed(c, s, g: Collector, i: Log, one: Checkpoint):
    return Implies(g.wal(i), And(i < s.after, Implies(And(s.cp(one), s.cp_after(one) < i), i > s.cp_seen(one))))


PROPERTIES = {
    "LatestIsThere": latest_is_there, "CheckpointIsThere": checkpoint_is_there, "WalIsThere": wal_is_there,
    "UploadIsThere": upload_is_there, "OutputIsThere": output_is_there,
}
CLAUSES = PROPERTIES | {
    "UlidsHavePlaces": ulids_have_places, "KnownIsMinted": known_is_minted, "MineIsMinted": mine_is_minted,
    "JobIsMinted": job_is_minted, "ReadIsMinted": read_is_minted, "IdsAreTaken": ids_are_taken, "WalIsLogged": wal_is_logged,
    "EpochsRise": epochs_rise, "EpochIsOfOne": epoch_is_of_one, "ClaimIsListed": claim_is_listed,
    "OutputIsAfter": output_is_after, "StepIsKnown": step_is_known, "OutputIsCovered": output_is_covered,
    "DoomedIsUnnamed": doomed_is_unnamed, "DoomedIsUnheld": doomed_is_unheld, "DoomedIsNotMine": doomed_is_not_mine,
    "DoomedIsNoOutput": doomed_is_no_output, "DoomedManifestIsOld": doomed_manifest_is_old,
    "DoomedWalIsFlushed": doomed_wal_is_flushed,
}


# --- the model's values as tables, and back -------------------------------------------------------------------------------

def of_manifest(of: m.Manifest) -> Tables:
    those = {(one.by, one.k): one for one in of.checkpoints}
    return {"epoch": of.epoch, "l0": of.l0, "run": of.run, "newest": of.newest, "after": of.after, "seen": of.seen,
            "cp": frozenset(those), "cp_named": frozenset((key, x) for key, one in those.items() for x in one.named),
            **{f"cp_{name}": defaultdict(int, ((key, getattr(one, name)) for key, one in those.items()))
               for name in ("id", "after", "seen")}}


def manifest_of(t: Tables) -> m.Manifest:
    checkpoints = frozenset(m.Checkpoint(
        by, k, t["cp_id"][by, k], tuple(sorted(x for of, x in t["cp_named"] if of == (by, k))), t["cp_after"][by, k],
        t["cp_seen"][by, k]) for by, k in t["cp"])
    return m.Manifest(t["epoch"], t["l0"], t["run"], t["newest"], checkpoints, t["after"], t["seen"])


def read(role: str, value: Any) -> Tables:
    tables = value._asdict()
    if role == "Collector":
        return tables | {f"base_{name}": of for name, of in of_manifest(value.base).items()}
    if role:
        return tables
    return tables | of_manifest(value.latest) | {
        "minted": len(value.order), "rank": defaultdict(int, ((x, at) for at, x in enumerate(value.order))),
        "clear_epoch": value.compactions.epoch, "listed": value.compactions.listed}


def write(role: str, t: Tables) -> Any:
    if role == "Collector":
        base = manifest_of({name: t[f"base_{name}"] for name in MANIFEST})
        return m.Collector(t["step"], t["listed"], t["compactions"], t["n"], base, t["ssts"], t["manifests"], t["wal"])
    if role:
        return {"Writer": m.Writer, "Compactor": m.Compactor, "Operator": m.Operator}[role](**t)
    order = tuple(sorted(range(1, t["minted"] + 1), key=lambda x: t["rank"][x]))
    compactions = m.Compactions(t["clear_epoch"], t["listed"])
    return m.Shared(order, t["n"], manifest_of(t), t["files"], compactions, t["ssts"], t["wal"], t["logged"], t["crashes"],
                    t["replaced"])


def choices(action: str, chosen: tuple, shared: Tables) -> tuple:
    if action == "Apply":
        job, outputs, last = chosen
        merged = sum(shared["rank"][x] <= shared["rank"][last] for x in shared["l0"])
        return job, tuple(sorted(outputs)), merged
    return (tuple(sorted(chosen[0])),) if action == "DropEnded" else chosen


def subsets(those: list) -> list[frozenset]:
    return [frozenset(some) for size in range(len(those) + 1) for some in combinations(those, size)]


def scope(c: Any) -> Scope:  # a Constants without None
    """Return all values of each sort in an instance in which everything is bounded."""
    ulids = c.WRITERS * c.UPLOADS + c.COMPACTORS * (c.COMPACTIONS + c.OUTPUTS)
    drops = c.OPERATORS * c.CHECKPOINTS
    files = 1 + c.WRITERS * c.UPLOADS + c.COMPACTORS * (c.OPENS + c.COMPACTIONS) + c.OPERATORS * c.RENEWALS + 2 * drops
    checkpoints = [(by, k) for by in range(c.OPERATORS) for k in range(c.CHECKPOINTS)]
    most = max(2, c.UPLOADS, c.APPENDS, c.COMPACTORS * c.OPENS, c.COMPACTIONS, c.OUTPUTS, c.CHECKPOINTS, c.RENEWALS,
               c.MAX_CRASHES)
    return {Ulid: [*range(ulids + 1)], Place: [*range(ulids + 1)], Id: [*range(files + 1)],
            Log: [*range(c.WRITERS * c.APPENDS + 1)], Count: [*range(most + 1)], Checkpoint: checkpoints,
            Ulids: subsets([*range(1, ulids + 1)]), Checkpoints: subsets(checkpoints), Writer: [*range(c.WRITERS)],
            Compactor: [*range(c.COMPACTORS)], Operator: [*range(c.OPERATORS)], Collector: [*range(c.COLLECTORS)]}


# Instances in which counterexamples to induction are searched.
SMALL = scope(m.Constants(UPLOADS=1, APPENDS=1))
SYSTEM = System(FIELDS, ROLES, RIGID, meaning, initial, ACTIONS, CLAUSES, PROPERTIES, SMALL, read, write, choices)
UNBOUNDED = dict.fromkeys(("UPLOADS", "APPENDS", "OPENS", "COMPACTIONS", "OUTPUTS", "CHECKPOINTS", "RENEWALS", "SKEW",
                           "MAX_CRASHES"))
SAFEGUARDS = {*m.Constants._fields} - {"WRITERS", "COMPACTORS", "OPERATORS", "COLLECTORS", "KINDS", "CLEAR", *UNBOUNDED}
SAFEGUARDS_OFF = (
    {"ORDER": m.ORDERS[1]}, {"ORDER": m.ORDERS[2]}, {"L0_CUTOFF": False}, {"COMPACTION_CUTOFF": False}, {"REFUSE_OLDER": False},
    {"KEEP_NEWEST": False},
    {"OUTPUT_AFTER": False}, {"CLAIM_FIRST": False}, {"FINISH_LAST": False}, {"EPOCH_CHECK": False}, {"SPARE_LATEST": False},
    {"SPARE_CHECKPOINTED": False}, {"SPARE_LISTED": False}, {"SPARE_SEEN": False},
)
SYSTEMS = {"": {}}  # that are proved
# Instances for the tie that together take every action.
INSTANCES = (
    {"OPERATORS": 0}, {"COMPACTORS": 0, "APPENDS": 1, "KINDS": "wal manifests", "UPLOADS": 1, "RENEWALS": 1},
    {"OPERATORS": 0, "COMPACTORS": 2, "UPLOADS": 1}, {"OPERATORS": 0, "COMPACTORS": 0, "WRITERS": 2, "UPLOADS": 1, "SKEW": 1},
    {"OPERATORS": 0, "COMPACTORS": 0, "APPENDS": 2, "KINDS": "wal", "UPLOADS": 1, "MAX_CRASHES": 1},
)
NEAREST = 200  # states of each that `make verify` compares; `make verify-deep` compares all
UNTAKEN = frozenset[str]()  # actions that no state of them takes
# An instance too large to explore fully, the number of random walks through it, and the steps of a walk.
WALKED = {"WRITERS": 1, "COMPACTORS": 2, "OPERATORS": 1, "COLLECTORS": 2, "APPENDS": 2, "CHECKPOINTS": 2, "SKEW": 2,
          "MAX_CRASHES": 1, "KINDS": "ssts manifests wal"}
WALKS, STEPS = 6, 60


def system(_: m.Constants) -> System:
    return SYSTEM


def prove(constants: m.Constants | None = None, progress: Callable[[inductive.Row], None] | None = None,
          explain: bool = True, timeout_ms: int = inductive.TIMEOUT_MS) -> inductive.Proof:
    """Prove the protocol. Of the constants only the safeguards matter: nothing is bounded, and all kinds are collected.
    `explain`: find counterexamples to induction."""
    c = (constants or m.Constants())._replace(**UNBOUNDED, KINDS="ssts manifests wal")
    return inductive.prove(SYSTEM, c, progress, explain, timeout_ms)

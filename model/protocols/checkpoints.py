"""Safety: what a listed checkpoint names is there: its manifest, and the SSTs of that manifest. This holds although clients
create checkpoints from others, refresh and delete them, a compactor replaces SSTs, leases end, and collectors delete what is
old.

The checkpoints of SlateDB's RFC on checkpoints and clones. A checkpoint is an entry in the latest manifest: it names a
manifest, and it may have a lease. A client changes the list by a conditional update, which is one action here: read the latest
manifest and create the next one. SequencedMetadataBoundary models what may happen in between. A client that got no reply may
make its change again, or stop waiting while the request is in flight. specs/Checkpoints.fizz has the same names, states and
labelled edges.

There is no clock: a lease ends at any time. Age is abstracted: a collector may take any manifest but the latest for old. A
collector condemns what nothing that is listed names, and it deletes that at any later time. So a stalled collector, a crashed
one and a late DELETE need no action of their own.
"""

from collections.abc import Iterator
from typing import NamedTuple

from highwater.model.core import Model
from highwater.model.parts import MANY, all_but, below, clients, one_more, present, queued, store, with_file


class Constants(NamedTuple):
    """Names and values as in the .fizz. None for a bound means unbounded and not counted (refinement uses that)."""

    CLIENTS: int = 1
    OPS: int | None = 2  # operations of a client
    COMPACTORS: int = 1
    SSTS: int | None = 2  # that a compactor adds
    COLLECTORS: int = 1
    MAX_ID: int | None = 4  # of a manifest; only collectors create one after it
    # Faults, each bounded
    MAX_PENDING: int | None = 0  # requests in flight that nobody waits for
    MAX_LOST: int | None = 0  # changes that are made again because there was no reply, and SSTs abandoned
    # Safeguards: switch one off and a property must fail
    SPARE_CHECKPOINTED: bool = True  # a collector spares the manifests and SSTs of checkpoints
    DROP_EXPIRED_FIRST: bool = True  # it spares those of each listed checkpoint, and an ended one goes by an update; False:
    # it spares those of the checkpoints that have not ended
    SPARE_LATEST: bool = True  # it spares the SSTs of the latest manifest; False: of checkpoints alone, as the RFC says
    SPARE_SSTS: bool = True  # it spares the SSTs of checkpointed manifests; False: of the latest alone
    SOURCE_IN_SAME_CAS: bool = True  # the source of a checkpoint is looked up in the manifest that the update builds on
    REFRESH_NEEDS_ENTRY: bool = True  # a refresh fails if the checkpoint is not listed; False: it lists it again
    RECOGNISE: bool = True  # a create without a reply is looked for before it is made again
    SKEW_MARGIN: bool = True  # a collector adds the largest skew to a lease; False: to its clock each lease may have ended


LIMITS = {  # the values that an instance may have
    **dict.fromkeys(("CLIENTS", "OPS", "COMPACTORS", "SSTS", "COLLECTORS", "MAX_PENDING", "MAX_LOST"), MANY),
    "MAX_ID": MANY[1:],
}

Id = tuple[int, int]  # of a checkpoint: client, zero-based index of the operation that creates it
Sst = tuple[int, int]  # compactor, zero-based index of it among the compactor's
Entry = tuple[Id, int, bool]  # a checkpoint: its id, the manifest that it names, whether it has a lease


class Manifest(NamedTuple):
    ssts: frozenset[Sst]
    checkpoints: frozenset[Entry]


class Shared(NamedTuple):
    files: tuple[Manifest | None, ...]  # files[i - 1] is the manifest of id i; None if it is deleted
    ssts: frozenset[Sst]  # in the store, of those that a manifest has named
    ended: frozenset[Id]  # listed checkpoints whose lease has ended
    pool: tuple[tuple[int, Manifest], ...]  # manifests in flight that nobody waits for, with their ids
    lost: int  # faults so far
    # ghosts
    held: frozenset[Id]  # checkpoints that were created, whose lease has not ended, and that nobody has deleted
    revived: bool  # an update named a manifest that the one before it did not name
    taken: frozenset[tuple[Id, int]]  # every checkpoint so far, and its manifest; empty if nobody asks


class Client(NamedTuple):
    pc: str = "Idle"  # Idle; Asked: its change was sent, and it has no reply
    k: int = 0  # the zero-based index of its operation
    op: tuple[str, Id] | tuple[()] = ()  # the operation, and its checkpoint
    done: bool = False  # its change was applied when it was sent
    found: int = 0  # the manifest of a source that it found; 0: none


class Compactor(NamedTuple):
    k: int = 0  # the number of SSTs that it has added or abandoned


class Collector(NamedTuple):
    old: frozenset[int] = frozenset()  # condemned manifests
    dead: frozenset[Sst] = frozenset()  # condemned SSTs


# --- what is read

def latest(s: Shared) -> Manifest:
    file = s.files[-1]  # nobody deletes it
    assert file is not None
    return file


def ids(m: Manifest) -> list[Id]:
    return sorted({one[0] for one in m.checkpoints})


def named(m: Manifest) -> frozenset[int]:
    """The manifests that checkpoints name."""
    return frozenset(of for _, of, _ in m.checkpoints)


def ssts_of(s: Shared, those: frozenset[int]) -> frozenset[Sst]:
    return frozenset(x for i, file in enumerate(s.files, 1) if file and i in those for x in file.ssts)


# --- what is put

def is_revived(m: Manifest, base: Manifest, i: int) -> bool:
    """Tell whether file `i` with this content names a manifest that its base, file i - 1, does not name."""
    return not named(m) <= named(base) | {i - 1, i}


def put(s: Shared, m: Manifest) -> Shared:
    """The next manifest is created."""
    i, base = len(s.files) + 1, latest(s)
    return s._replace(files=with_file(s.files, i, m), ssts=s.ssts | (m.ssts - base.ssts),
                      revived=s.revived or is_revived(m, base, i))


def send(s: Shared, m: Manifest) -> Shared:
    return queued(s, (len(s.files) + 1, m))


def with_entry(m: Manifest, entry: Entry) -> Manifest:
    return m._replace(checkpoints=m.checkpoints | {entry})


def without(m: Manifest, gone: frozenset[Id]) -> Manifest:
    return m._replace(checkpoints=frozenset(one for one in m.checkpoints if one[0] not in gone))


def refreshed(s: Shared, which: Id, finite: bool) -> Manifest:
    m = latest(s)
    if which not in ids(m):  # REFRESH_NEEDS_ENTRY is off
        return m._replace(checkpoints=m.checkpoints | {(which, of, finite) for one, of in s.taken if one == which})
    return m._replace(checkpoints=frozenset((one, of, finite if one == which else was) for one, of, was in m.checkpoints))


# --- a client: an update, again if there was no reply

def may_ask(c: Constants, s: Shared, w: Client, op: tuple[str, Id]) -> bool:
    """Tell whether the client may begin an operation, or make the same change again."""
    again = w.pc == "Asked" and w.op == op and below(s.lost, c.MAX_LOST)
    return below(len(s.files), c.MAX_ID) and (again or (w.pc == "Idle" and below(w.k, c.OPS)))


def may_create(c: Constants, me: int, s: Shared, w: Client) -> bool:
    unseen = not c.RECOGNISE or (me, w.k) not in ids(latest(s))
    return may_ask(c, s, w, ("Create", (me, w.k))) and unseen


def asked(c: Constants, s: Shared, w: Client, op: tuple[str, Id], applied: bool) -> tuple[Shared, Client]:
    after = s._replace(lost=one_more(s.lost, c.MAX_LOST)) if w.pc == "Asked" else s
    return after, Client("Asked", w.k, op, w.done or applied)


def create_by(c: Constants, me: int, s: Shared, w: Client, of: int, finite: bool) -> tuple[Shared, Client]:
    which = (me, w.k)
    after, w2 = asked(c, put(s, with_entry(latest(s), (which, of, finite))), w, ("Create", which), True)
    taken = s.taken if c.REFRESH_NEEDS_ENTRY else s.taken | {(which, of)}
    return after._replace(held=s.held | {which}, ended=s.ended - {which}, taken=taken), w2


def send_by(c: Constants, me: int, s: Shared, w: Client, of: int, finite: bool) -> tuple[Shared, Client]:
    which = (me, w.k)
    return asked(c, send(s, with_entry(latest(s), (which, of, finite))), w, ("Create", which), False)


def sources(c: Constants, s: Shared, w: Client) -> list[Entry]:
    """The checkpoints from which the client may create another one: those that are listed and have not ended."""
    if not c.SOURCE_IN_SAME_CAS:
        return [((-1, -1), w.found, False)] if w.found else []
    return running(s)


def running(s: Shared) -> list[Entry]:
    return sorted(one for one in latest(s).checkpoints if one[0] not in s.ended)


def refreshable(c: Constants, s: Shared) -> list[Id]:
    if not c.REFRESH_NEEDS_ENTRY:
        return sorted({one for one, _ in s.taken})
    return [one for one in ids(latest(s)) if one not in s.ended]


def create(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    """A checkpoint of the manifest that lists it first."""
    if may_create(c, me, s, w):
        for finite in (False, True):
            yield (finite,), *create_by(c, me, s, w, len(s.files) + 1, finite)


def create_from(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    """A checkpoint of the manifest that its source names."""
    if may_create(c, me, s, w):
        for finite in (False, True):
            for source in sources(c, s, w):
                yield (finite, source), *create_by(c, me, s, w, source[1], finite)


def refresh(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    for finite in (False, True):
        for which in refreshable(c, s):
            if may_ask(c, s, w, ("Refresh", which)):
                after, w2 = asked(c, put(s, refreshed(s, which, finite)), w, ("Refresh", which), True)
                yield (finite, which), after._replace(held=s.held | {which}, ended=s.ended - {which}), w2


def delete(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    for which in ids(latest(s)):
        if may_ask(c, s, w, ("Delete", which)):
            gone = frozenset({which})
            after, w2 = asked(c, put(s, without(latest(s), gone)), w, ("Delete", which), True)
            yield (which,), after._replace(held=s.held - gone, ended=s.ended - gone), w2


def send_create(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    """The client stops waiting for its request, which is in flight. It may be applied at any later time, or never."""
    if may_create(c, me, s, w) and below(len(s.pool), c.MAX_PENDING):
        for finite in (False, True):
            yield (finite,), *send_by(c, me, s, w, len(s.files) + 1, finite)


def send_create_from(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    if may_create(c, me, s, w) and below(len(s.pool), c.MAX_PENDING):
        for finite in (False, True):
            for source in sources(c, s, w):
                yield (finite, source), *send_by(c, me, s, w, source[1], finite)


def send_refresh(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    if below(len(s.pool), c.MAX_PENDING):
        for finite in (False, True):
            for which in refreshable(c, s):
                if may_ask(c, s, w, ("Refresh", which)):
                    sent = send(s, refreshed(s, which, finite))
                    yield (finite, which), *asked(c, sent, w, ("Refresh", which), False)


def send_delete(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    if below(len(s.pool), c.MAX_PENDING):
        for which in ids(latest(s)):
            if may_ask(c, s, w, ("Delete", which)):
                sent = send(s, without(latest(s), frozenset({which})))
                yield (which,), *asked(c, sent, w, ("Delete", which), False)


def find_source(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    """It looks up a source, to create a checkpoint from it later."""
    if not c.SOURCE_IN_SAME_CAS and w.pc == "Idle" and below(w.k, c.OPS) and not w.found:
        for source in running(s):
            yield (source,), s, w._replace(found=source[1])


def reply(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    if w.pc == "Asked" and w.done:
        yield (), s, Client(k=w.k + 1)


def give_up(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    """The client crashes, or its caller takes an unknown outcome for an answer."""
    if w.pc == "Asked":
        yield (), s, Client(k=w.k + 1)


# --- a writer or a compactor

def may_add(c: Constants, s: Shared, w: Compactor) -> bool:
    return below(w.k, c.SSTS) and below(len(s.files), c.MAX_ID)


def added(me: int, s: Shared, w: Compactor, old: frozenset[Sst]) -> Manifest:
    m = latest(s)
    return m._replace(ssts=m.ssts - old | {(me, w.k)})


def flush(c: Constants, me: int, s: Shared, w: Compactor) -> Iterator:
    if may_add(c, s, w):
        yield (), put(s, added(me, s, w, frozenset())), Compactor(w.k + 1)


def replace(c: Constants, me: int, s: Shared, w: Compactor) -> Iterator:
    """A new SST stands for an old one."""
    if may_add(c, s, w):
        for old in sorted(latest(s).ssts):
            yield (old,), put(s, added(me, s, w, frozenset({old}))), Compactor(w.k + 1)


def abandon(c: Constants, me: int, s: Shared, w: Compactor) -> Iterator:
    """An SST is uploaded, and its manifest is in no history: its name is not used again."""
    if below(w.k, c.SSTS) and below(s.lost, c.MAX_LOST):
        yield (), s._replace(lost=one_more(s.lost, c.MAX_LOST)), Compactor(w.k + 1)


def send_flush(c: Constants, me: int, s: Shared, w: Compactor) -> Iterator:
    if may_add(c, s, w) and below(len(s.pool), c.MAX_PENDING):
        yield (), send(s, added(me, s, w, frozenset())), Compactor(w.k + 1)


def send_replace(c: Constants, me: int, s: Shared, w: Compactor) -> Iterator:
    if may_add(c, s, w) and below(len(s.pool), c.MAX_PENDING):
        for old in sorted(latest(s).ssts):
            yield (old,), send(s, added(me, s, w, frozenset({old}))), Compactor(w.k + 1)


# --- a collector

def drop(c: Constants, me: int, s: Shared, w: Collector) -> Iterator:
    """It removes the checkpoints whose lease has ended by its clock."""
    gone = frozenset(which for which, _, finite in latest(s).checkpoints
                     if finite and (which in s.ended or not c.SKEW_MARGIN))
    if gone:
        yield (), put(s, without(latest(s), gone))._replace(ended=s.ended - gone), w


def spared(c: Constants, s: Shared) -> frozenset[int]:
    """The manifests that a collector spares because a checkpoint names them."""
    if not c.SPARE_CHECKPOINTED:
        return frozenset()
    return frozenset(of for which, of, _ in latest(s).checkpoints if c.DROP_EXPIRED_FIRST or which not in s.ended)


def condemned(c: Constants, s: Shared) -> tuple[frozenset[int], frozenset[Sst]]:
    """The manifests and SSTs that nothing that is listed names."""
    kept = spared(c, s)
    alive = latest(s).ssts if c.SPARE_LATEST else frozenset()
    alive |= ssts_of(s, kept) if c.SPARE_SSTS else frozenset()
    return frozenset(i for i in range(1, len(s.files)) if present(s, i)) - kept, s.ssts - alive


def condemn(c: Constants, me: int, s: Shared, w: Collector) -> Iterator:
    """It reads the latest manifest, and those that its checkpoints name."""
    old, dead = condemned(c, s)
    if not (old <= w.old and dead <= w.dead):
        yield (), s, Collector(w.old | old, w.dead | dead)


def delete_manifest(c: Constants, me: int, s: Shared, w: Collector) -> Iterator:
    for i in sorted(w.old):
        yield (i,), s._replace(files=with_file(s.files, i, None)), w._replace(old=w.old - {i})


def delete_sst(c: Constants, me: int, s: Shared, w: Collector) -> Iterator:
    for x in sorted(w.dead):
        yield (x,), s._replace(ssts=s.ssts - {x}), w._replace(dead=w.dead - {x})


# --- the store, and time

def apply_pending(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    """A request reaches the store late: it creates the next manifest, or it does nothing.

    It may be a refresh. So each lease in it may run again, and may end again at any time."""
    for at, (i, m), after in ((at, request, s._replace(pool=s.pool[:at] + s.pool[at + 1:]))
                              for at, request in enumerate(s.pool)):
        if i != len(s.files) + 1:
            yield (at,), after, ()
            continue
        there = frozenset(ids(m))
        taken = s.taken if c.REFRESH_NEEDS_ENTRY else s.taken | {(which, of) for which, of, _ in m.checkpoints}
        yield (at,), put(after, m)._replace(held=there, ended=frozenset(), taken=taken), ()


def end_lease(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    for which in sorted({one for one, _, finite in latest(s).checkpoints if finite and one not in s.ended}):
        yield (which,), s._replace(ended=s.ended | {which}, held=s.held - {which}), ()


# --- properties

def checkpoint_pins(c: Constants, s: Shared) -> bool:
    """The manifest of each listed checkpoint is there, and so are its SSTs."""
    those = named(latest(s))
    return all(present(s, i) for i in those) and ssts_of(s, those) <= s.ssts


def latest_is_whole(c: Constants, s: Shared) -> bool:
    """The SSTs of the latest manifest are there."""
    return latest(s).ssts <= s.ssts


def nothing_is_unreferenced_twice(c: Constants, s: Shared) -> bool:
    """An update names no manifest but its own, its base, and those that its base names. So garbage stays garbage."""
    return not s.revived


def checkpoint_once(c: Constants, s: Shared) -> bool:
    """A checkpoint is listed once."""
    return len(ids(latest(s))) == len(latest(s).checkpoints)


def lease_is_honoured(c: Constants, s: Shared) -> bool:
    """A checkpoint that was created or refreshed is listed until its lease ends, or somebody deletes it."""
    return s.held <= frozenset(ids(latest(s)))


def checkpoint_is_old(c: Constants, s: Shared) -> bool:
    """A checkpoint names a manifest before the latest one, and some SST of it is in no later manifest."""
    return not ssts_of(s, named(latest(s))) <= latest(s).ssts


def source_is_shared(c: Constants, s: Shared) -> bool:
    return len(named(latest(s))) < len(ids(latest(s)))


def ended_is_listed(c: Constants, s: Shared) -> bool:
    return bool(s.ended)


def manifest_is_collected(c: Constants, s: Shared) -> bool:
    return None in s.files


def sst_is_collected(c: Constants, s: Shared) -> bool:
    return not frozenset(x for file in s.files if file for x in file.ssts) <= s.ssts


def change_is_in_doubt(c: Constants, s: Shared, w: Client) -> bool:
    return w.pc == "Asked" and not w.done


def expired_go(c: Constants, s: Shared) -> bool:
    """No checkpoint that has ended is listed, again and again."""
    return not s.ended


CLIENT = {
    "Create": create, "CreateFrom": create_from, "Refresh": refresh, "Delete": delete, "SendCreate": send_create,
    "SendCreateFrom": send_create_from, "SendRefresh": send_refresh, "SendDelete": send_delete, "FindSource": find_source,
    "Reply": reply, "GiveUp": give_up,
}
COMPACTOR = {"Flush": flush, "Replace": replace, "Abandon": abandon, "SendFlush": send_flush, "SendReplace": send_replace}
COLLECTOR = {"Drop": drop, "Condemn": condemn, "DeleteManifest": delete_manifest, "DeleteSst": delete_sst}
STORE = {"ApplyPending": apply_pending, "EndLease": end_lease}

ALWAYS = {
    "CheckpointPins": (None, checkpoint_pins),
    "LatestIsWhole": (None, latest_is_whole),
    "NothingIsUnreferencedTwice": (None, nothing_is_unreferenced_twice),
    "CheckpointOnce": (None, checkpoint_once),
    "LeaseIsHonoured": (None, lease_is_honoured),
}
SOMETIMES = {
    "CheckpointIsOld": (None, checkpoint_is_old),
    "SourceIsShared": (None, source_is_shared),
    "EndedIsListed": (None, ended_is_listed),
    "ManifestIsCollected": (None, manifest_is_collected),
    "SstIsCollected": (None, sst_is_collected),
    "ChangeIsInDoubt": ("Client", change_is_in_doubt),
}
EVENTUALLY = {"ExpiredGo": (None, expired_go)}
FAULTS = {  # never obligatory, so not fair
    "Create", "CreateFrom", "Refresh", "Delete", "SendCreate", "SendCreateFrom", "SendRefresh", "SendDelete", "FindSource",
    "GiveUp", "Abandon", "SendFlush", "SendReplace"}
FAIR = {role: frozenset(actions.keys() - FAULTS)
        for role, actions in (("Client", CLIENT), ("Compactor", COMPACTOR), ("Collector", COLLECTOR))}


def initial() -> Shared:
    return Shared((Manifest(frozenset(), frozenset()),), frozenset(), frozenset(), (), 0, frozenset(), False, frozenset())


def model(c: Constants) -> Model:
    roles = (("Client", c.CLIENTS, Client(), CLIENT), ("Compactor", c.COMPACTORS, Compactor(), COMPACTOR),
             ("Collector", c.COLLECTORS, Collector(), COLLECTOR))
    absent = {"ChangeIsInDoubt"} if c.MAX_PENDING == 0 else set()
    absent |= set() if c.COLLECTORS else {"ManifestIsCollected", "SstIsCollected"}
    return Model("checkpoints", c, initial(), (*clients(*roles), store(STORE)), ALWAYS, all_but(SOMETIMES, absent), EVENTUALLY,
                 FAIR, renamed={"Collector": None})

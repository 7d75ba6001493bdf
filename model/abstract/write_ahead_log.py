"""Safety: a writer that opens recovers every acknowledged record, and no writer acknowledges anything after a later one has
opened.

Numbered objects, each created if absent, hold records, or nothing: then they are fences. A manifest, put if it is still what
was read, holds the epoch of the latest writer, the id after which the log is to be replayed, and the records up to that id. A
client has as many requests under way as it likes. What it may do follows from what it has read and been told:

    claim           it knows the manifest; it puts it with the next epoch
    fence id i      it has claimed, i is ahead of what was flushed then, and id i - 1 is used
    replay id i     it knows the log up to id i - 1 since it has claimed
    open            it knows the log up to its fence, and then the manifest still has its epoch
    append id i     it is open, and knows the log up to id i - 1
    accept          its record is in the log, and then the manifest still has its epoch: it acknowledges the record
    flush up to n   it knows the manifest, which has its epoch, and the log up to id n
    delete id i     it knows that the log is to be replayed after i, or a later id

A request in flight may reach the store at any time, more than once, or never.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from highwater.model.core import Model
from highwater.model.parts import MANY, below, clients, forget, store

Record = tuple[int, int]  # (client, zero-based index of its record)
Body = Record | tuple[()]  # (): a fence
Slot = tuple[Body, ...]  # (): no object has this id


class Manifest(NamedTuple):
    epoch: int = 0
    replay_after: int = 0  # the last id whose record is flushed
    flushed: frozenset[Record] = frozenset()


Log = tuple[int, int, frozenset[Record]]  # (an epoch, n, the records up to id n)


class Constants(NamedTuple):
    CLIENTS: int = 2
    RECORDS: int = 1  # of a client; only for exploring this model by itself
    MAX_ID: int = 3  # the same
    PENDING: int = 0  # the same: requests in flight at once
    EPOCHS: int | None = 1  # claims in all; None: any number
    # Safeguards. OFF says which property fails without one; the others only allow more to clients
    CREATE_IF_ABSENT: bool = True
    MANIFEST_CAS: bool = True
    FENCED: bool = True  # a writer opens behind a fence of its own
    CHECKED: bool = True  # a record is acknowledged only if the manifest has the writer's epoch after the create
    BEHIND: bool = True  # only objects that nobody is to replay are deleted


INSTANCES: tuple[dict[str, int], ...] = (  # of which the nearest states are visited
    {"CLIENTS": 1, "MAX_ID": 2},
    {"EPOCHS": 2},
    {"PENDING": 1, "CLIENTS": 1},
)
OFF: tuple[tuple[dict[str, Any], str], ...] = (  # and the property that fails
    ({"BEHIND": False, "CLIENTS": 1, "MAX_ID": 2}, "AckedIsDurable"),
    ({"CREATE_IF_ABSENT": False, "CLIENTS": 1, "MAX_ID": 2}, "AckedIsDurable"),
)
LIMITS = {"CLIENTS": MANY[1:], "RECORDS": MANY, "MAX_ID": MANY[1:], "PENDING": MANY, "EPOCHS": MANY}


class Shared(NamedTuple):
    manifest: Manifest
    wal: tuple[Slot, ...]  # wal[i - 1] is the object of id i
    flying: frozenset[tuple]  # requests that may still reach the store
    # ghosts
    acked: frozenset[Record]
    top: int  # the highest epoch of a client that has opened
    late: bool  # something was acknowledged or flushed after a later client had opened


class Client(NamedTuple):
    manifests: frozenset[Manifest] = frozenset()  # that it has read or put
    ids: frozenset[int] = frozenset()  # used: an object has, or has had, this id; or it is 0
    replayed: frozenset[int] = frozenset()  # the log is to be replayed after this id, or a later one
    epochs: frozenset[int] = frozenset()  # that it has claimed
    fences: frozenset[tuple[int, int]] = frozenset()  # (its epoch, the id of a fence that it has put since)
    log: frozenset[Log] = frozenset()  # how far it knows the log, one for each epoch that it has claimed
    open: frozenset[int] = frozenset()  # epochs with which it has opened
    told: frozenset[tuple[int, Record]] = frozenset()  # (i, its record that was put there)


def forgets(before: Client, after: Client) -> bool:
    return all(less <= more for less, more in zip(after, before))


# --- the store

def slot(s: Shared, i: int) -> Slot:
    return s.wal[i - 1] if 0 < i <= len(s.wal) else ()


def with_slot(s: Shared, i: int, one: Slot) -> Shared:
    wal = s.wal + ((),) * (i - len(s.wal))
    return s._replace(wal=(*wal[:i - 1], one, *wal[i:]))


def is_free(c: Constants, s: Shared, i: int) -> bool:
    return not (slot(s, i) and c.CREATE_IF_ABSENT)


def is_current(c: Constants, s: Shared, base: Manifest) -> bool:
    return s.manifest == base or not c.MANIFEST_CAS


# --- the manifest

def learns(w: Client, m: Manifest) -> Client:
    return w._replace(manifests=w.manifests | {m}, ids=w.ids | {m.replay_after}, replayed=w.replayed | {m.replay_after})


def read_manifest(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    yield (), s, learns(w, s.manifest)


def claimed(base: Manifest) -> Manifest:
    return base._replace(epoch=base.epoch + 1)


def claim(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    """From now on nobody else can flush. The client knows the log up to what is flushed."""
    for base in sorted(w.manifests, key=str):
        if is_current(c, s, base) and below(base.epoch, c.EPOCHS):
            m = claimed(base)
            knows = learns(w, m)._replace(epochs=w.epochs | {m.epoch}, log=w.log | {(m.epoch, m.replay_after, m.flushed)})
            yield (base,), s._replace(manifest=m), knows


def flushes(w: Client) -> Iterator[tuple[Manifest, Manifest]]:
    """Each (manifest that it knows, that manifest with more of the log flushed)."""
    for base in sorted(w.manifests, key=str):
        for epoch, n, records in sorted(w.log, key=str):
            if base.epoch == epoch and n >= base.replay_after:
                yield base, base._replace(replay_after=n, flushed=base.flushed | records)


def flush(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    for base, m in flushes(w):
        if is_current(c, s, base):
            yield (base, m), s._replace(manifest=m, late=s.late or m.epoch < s.top), learns(w, m)


# --- the log

def list_ids(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    yield (), s, w._replace(ids=w.ids | {0} | {i for i, one in enumerate(s.wal, 1) if one})


def further(w: Client, log: Log) -> Client:
    """The client goes on from there. It never appends again where it has been: what was there may be flushed and deleted."""
    return w._replace(log=frozenset(one for one in w.log if one[0] != log[0]) | {log})


def read(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    """GET the next object of the log."""
    for epoch, n, records in sorted(w.log, key=str):
        for body in slot(s, n + 1):
            yield (n + 1,), s, further(w, (epoch, n + 1, records | ({body} if body else set())))


def read_own(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    """GET an object, and find the client's own record in it."""
    for i, one in enumerate(s.wal, 1):
        for body in one:
            if body and body[0] == me:
                yield (i,), s, w._replace(told=w.told | {(i, body)})


def may_fence(c: Constants, w: Client, i: int) -> list[int]:
    """The epochs for which the client may put a fence there."""
    return sorted({epoch for epoch, n, _ in w.log if epoch in w.epochs and i > n and i - 1 in w.ids})


def fence(c: Constants, me: int, s: Shared, w: Client, *given: Any) -> Iterator:
    for i, _ in [given] if given else [(i, ()) for i in range(1, c.MAX_ID + 1)]:
        for epoch in may_fence(c, w, i):
            if is_free(c, s, i):
                yield (i,), with_slot(s, i, ((),)), w._replace(ids=w.ids | {i}, fences=w.fences | {(epoch, i)})


def opens(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    """GET the manifest: nobody has claimed since, so the client knows the whole log, and its fence ends it."""
    for epoch, n, records in sorted(w.log, key=str):
        if epoch == s.manifest.epoch and ((epoch, n + 1) in w.fences or not c.FENCED):
            knows = further(w, (epoch, n + c.FENCED, records))._replace(open=w.open | {epoch})
            yield (epoch,), s._replace(top=max(s.top, epoch)), knows


def may_append(c: Constants, me: int, w: Client, i: int, body: Body) -> bool:
    return body[:1] == (me,) and any([epoch in w.open and n == i - 1 for epoch, n, _ in w.log])


def appends(c: Constants, me: int, w: Client) -> list[tuple[int, Body]]:
    return [(i, (me, k)) for i in range(1, c.MAX_ID + 1) for k in range(c.RECORDS) if may_append(c, me, w, i, (me, k))]


def append(c: Constants, me: int, s: Shared, w: Client, *given: Any) -> Iterator:
    for i, record in [given] if given else appends(c, me, w):
        if may_append(c, me, w, i, record) and is_free(c, s, i):
            yield (i, record), with_slot(s, i, (record,)), w._replace(ids=w.ids | {i}, told=w.told | {(i, record)})


def accept(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    """GET the manifest: nobody has claimed since the record was put, so every later client will replay it."""
    for i, record in sorted(w.told):
        for epoch, n, records in sorted(w.log, key=str):
            if epoch in w.open and n == i - 1 and (epoch == s.manifest.epoch or not c.CHECKED):
                s2 = s._replace(acked=s.acked | {record}, late=s.late or epoch < s.top)
                yield (i, record), s2, further(w, (epoch, i, records | {record}))


def may_delete(c: Constants, me: int, w: Client, i: int) -> bool:
    return any([n >= i for n in w.replayed]) or not c.BEHIND


def delete(c: Constants, me: int, s: Shared, w: Client, *given: Any) -> Iterator:
    for i, in [given] if given else [(i,) for i in range(1, len(s.wal) + 1)]:
        if may_delete(c, me, w, i) and slot(s, i):
            yield (i,), with_slot(s, i, ()), w


# --- requests in flight

def requests(c: Constants, me: int, s: Shared, w: Client) -> Iterator[tuple]:
    """The requests that this model makes up."""
    if len(s.flying) < c.PENDING:
        bodies = (), *((me, k) for k in range(c.RECORDS))
        yield from (("Put" if may_replace(c) else "Create", i, body) for i in range(1, c.MAX_ID + 1) for body in bodies)
        yield from (("Manifest", base, m) for base in sorted(w.manifests, key=str)
                    for m in (claimed(base), *(m for known, m in flushes(w) if known == base)))


def may_send(c: Constants, me: int, w: Client, kind: str, *what: Any) -> bool:
    return MAY[kind](c, me, w, *what)


def may_create(c: Constants, me: int, w: Client, i: int, body: Body) -> bool:
    return may_append(c, me, w, i, body) if body else bool(may_fence(c, w, i))


def may_put(c: Constants, me: int, w: Client, i: int, body: Body) -> bool:
    """A PUT without a condition replaces what is there."""
    return may_replace(c) and may_create(c, me, w, i, body)


def may_replace(c: Constants) -> bool:
    return not c.CREATE_IF_ABSENT


def may_put_manifest(c: Constants, me: int, w: Client, base: Manifest, m: Manifest) -> bool:
    return base in w.manifests and (m == claimed(base) or (base, m) in set(flushes(w)))


def send(c: Constants, me: int, s: Shared, w: Client, *given: Any) -> Iterator:
    """A request for whose reply the client does not wait."""
    for request in given or requests(c, me, s, w):
        if may_send(c, me, w, *request):
            yield (request,), s._replace(flying=s.flying | {request}), w


def apply(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    for request in sorted(s.flying, key=str):
        kind, where, *what = request
        if kind == "Put" or (kind == "Create" and is_free(c, s, where)):
            yield request, with_slot(s, where, tuple(what)), ()
        elif kind == "Manifest" and is_current(c, s, where):
            yield request, s._replace(manifest=what[0]), ()
        elif kind == "Delete":
            yield request, with_slot(s, where, ()), ()


def drop(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    for request in sorted(s.flying, key=str):
        yield (request,), s._replace(flying=s.flying - {request}), ()


# --- properties

def recoverable(s: Shared) -> frozenset[Record]:
    """The flushed records, and the log from there to the first free slot."""
    found, i = s.manifest.flushed, s.manifest.replay_after + 1
    while slot(s, i):
        found, i = found | {body for body in slot(s, i) if body}, i + 1
    return found


def acked_is_durable(c: Constants, s: Shared) -> bool:
    return s.acked <= recoverable(s)


def one_writer_acks(c: Constants, s: Shared) -> bool:
    return not s.late


CLIENT = {"ReadManifest": read_manifest, "Claim": claim, "Flush": flush, "List": list_ids, "Read": read, "ReadOwn": read_own,
          "Fence": fence, "Open": opens, "Append": append, "Accept": accept, "Delete": delete, "Send": send, "Forget": forget}
MAY = {"Create": may_create, "Put": may_put, "Manifest": may_put_manifest, "Delete": may_delete}  # requests
STORE = {"Apply": apply, "Drop": drop}
ALWAYS = {"AckedIsDurable": (None, acked_is_durable), "OneWriterAcks": (None, one_writer_acks)}

GUARDS = {  # name -> (guard, True if a log with a step that it refuses counts as one that breaks a property)
    "CREATE_IF_ABSENT": (may_replace, False),
    "AckedIsDurable": (may_append, True),
    "FENCE_AHEAD": (may_fence, True),
    "GC_BEHIND": (may_delete, True),
}


def model(c: Constants) -> Model:
    first = Shared(Manifest(), (), frozenset(), frozenset(), 0, False)
    return Model("write_ahead_log", c, first, (*clients(("Client", c.CLIENTS, Client(), CLIENT)), store(STORE)), ALWAYS, {})


# --- the choice with which an action leads from one shared state to another: records may be anything

def created(s: Shared, after: Shared) -> tuple:
    """(id, body) of the object that is new."""
    return next(((i, one[0]) for i, one in enumerate(after.wal, 1) if one and slot(s, i) != one), ())


GIVEN = {
    "Fence": created,
    "Append": created,
    "Delete": lambda s, after: next(((i,) for i, one in enumerate(s.wal, 1) if one and not slot(after, i)), ()),
    "Send": lambda s, after: tuple(sorted(after.flying - s.flying, key=repr)),
}

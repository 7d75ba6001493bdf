"""Safety: an acknowledged update is in every later file of the history, and no file that a client may still need is deleted.

Numbered files, each created if absent from what is known of the file before it. A boundary may keep late creates out of the
history after old files are deleted; epochs may fence clients of one role. A client has as many requests under way as it likes.
What it may do follows from what it has read and been told:

    create id i         it has read file i - 1, or is sure of its own; it keeps all updates of that file; and where there are
                        epochs, its epoch is the file's, or it claims the next one of its role and does nothing else, or it
                        seals the file: each epoch is raised, so that nobody's is the file's any more
    acknowledge         it is sure of a file with the update: the boundary was below that id after it had put or read the file
    advance to d        it knows the boundary that it replaces, and that an id above d exists
    delete id i         it knows a boundary at or above i, an id above i, and that a file of the history does not pin i

A request in flight may reach the store at any time, more than once, or never.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from highwater.model.core import Model
from highwater.model.parts import MANY, clients, file_of, forget, present, store, top, with_file

Update = tuple[int | None, Any]  # (client, or None if any client may make it; which of its updates)
SEAL: Update = (None, "seal")


class File(NamedTuple):
    updates: frozenset[Update] = frozenset()
    pins: frozenset[int] = frozenset()  # ids that must not be deleted
    epochs: tuple[int, ...] = ()  # of each role


NOTHING = File()
Known = frozenset[tuple[int, File]]


class Constants(NamedTuple):
    CLIENTS: int = 2
    UPDATES: int = 1  # updates of a client; only for exploring this model by itself
    MAX_ID: int = 3  # the same
    PENDING: int = 0  # the same: requests in flight at once
    FIRST: File | None = NOTHING  # the file of id 1 at the beginning, if there is one
    ROLES: tuple[int | None, ...] = ()  # for each client the place of its role's epoch, or None; (): there are no epochs
    CHAINED: bool = True  # a file has what the one before it has; False: each is one entry of a log
    BOUNDARY: bool = True  # False: there is no boundary, and clients delete nothing
    COLLECTED: bool = False  # True: somebody else deletes old files, and no id is created again
    # Safeguards. OFF says which property fails without one; CHECKED, and BEHIND alone, only allow more to clients
    CREATE_IF_ABSENT: bool = True
    CHECKED: bool = True  # a client is sure of a file only after it has seen the boundary below it
    CONDITIONAL_ADVANCE: bool = True  # the boundary is replaced only if it is still the one that the client knows
    BEHIND: bool = True  # only files behind a boundary that the client knows are deleted
    LATEST_KEPT: bool = True  # the boundary stays below an id that exists
    PINS: bool = True  # pinned files are not deleted
    NEXT_EPOCH: bool = True  # a claim takes the next epoch; False: the one that is there


INSTANCES: tuple[dict[str, Any], ...] = (  # of which the nearest states are visited
    {"MAX_ID": 2, "BOUNDARY": False},
    {"MAX_ID": 2, "PENDING": 1},
    {"PENDING": 1},
    {"CHAINED": False, "BOUNDARY": False, "PENDING": 1},
    {"CHAINED": False, "FIRST": None},
    {"ROLES": (0, 1), "FIRST": File(epochs=(0, 0)), "BOUNDARY": False, "PENDING": 1},
    {"ROLES": (0, None), "FIRST": File(epochs=(0,))},
    {"COLLECTED": True, "BOUNDARY": False},
)
OFF = (  # and the property that fails
    ({"CREATE_IF_ABSENT": False, "BOUNDARY": False}, "AckedIsKept"),
    ({"BEHIND": False, "PINS": False}, "DeletedIsBehindBoundary"),
    ({"LATEST_KEPT": False, "MAX_ID": 2}, "BoundaryIsBelowLatest"),
    ({"NEXT_EPOCH": False, "ROLES": (0, 0), "FIRST": File(epochs=(0,)), "BOUNDARY": False}, "OneOwnerPerEpoch"),
    ({"PINS": False}, "PinnedIsKept"),
    ({"CONDITIONAL_ADVANCE": False, "CHECKED": False, "CLIENTS": 1, "PENDING": 1}, "DeletedIsBehindBoundary"),
)
LIMITS = {"CLIENTS": MANY[1:], "UPDATES": MANY, "MAX_ID": MANY[1:]}


class Shared(NamedTuple):
    files: tuple[File | None, ...]  # files[i - 1] is the file of id i
    boundary: int  # 0: never written
    flying: frozenset[tuple]  # requests that may still reach the store
    # ghosts
    acked: frozenset[Update]  # reported as committed
    opened: frozenset[tuple[int, int, int]]  # (place of a role, client, the epoch that it has claimed)


class Client(NamedTuple):
    ids: frozenset[int] = frozenset()  # used, that it knows of: ids are used in their order
    read: Known = frozenset()  # files that it has read, or that are its own and in the history
    put: Known = frozenset()  # its own files, of which it does not know whether they are in the history
    told: frozenset[tuple[int, Update]] = frozenset()  # (i, its own update that is in file i)
    sure: frozenset[Update] = frozenset()  # its own updates that are in the history
    boundaries: frozenset[int] = frozenset()  # that it knows to have been durable
    unpinned: frozenset[tuple[int, int]] = frozenset()  # (i, j): the file i that it read does not pin j
    free: frozenset[int] = frozenset()  # ids that no file of the history pins, now or later
    epochs: frozenset[int] = frozenset()  # that it has claimed


def forgets(before: Client, after: Client) -> bool:
    return all(less <= more for less, more in zip(after, before))


# --- what a client may create

def keeps(base: File, file: File) -> bool:
    return base.updates <= file.updates


def is_own(c: Constants, me: int, base: File, file: File) -> bool:
    return all(who in (me, None) for who, _ in file.updates - base.updates)


def claims(c: Constants, me: int, base: File, file: File) -> bool:
    """The file raises the epoch of the client's role to the next one, and changes nothing else."""
    return c.ROLES[me] is not None and file == claimed(c, me, base)


def claimed(c: Constants, me: int, base: File) -> File:
    return base._replace(epochs=tuple(epoch + (at == c.ROLES[me] and c.NEXT_EPOCH) for at, epoch in enumerate(base.epochs)))


def seals(base: File, file: File) -> bool:
    """The file raises all epochs, with a seal: its database is destroyed."""
    return file == sealed(base)


def sealed(base: File) -> File:
    return base._replace(updates=base.updates | {SEAL}, epochs=tuple(epoch + 1 for epoch in base.epochs))


def keeps_epochs(base: File, file: File) -> bool:
    return file.epochs == base.epochs


def has_epoch(c: Constants, me: int, w: Client, base: File) -> bool:
    return epoch_of(c, me, base) <= w.epochs


def epoch_of(c: Constants, me: int, file: File) -> frozenset[int]:
    """The epoch of the client's role in a file, if there is one."""
    place = c.ROLES[me] if c.ROLES else None
    return frozenset() if place is None else frozenset({file.epochs[place]})


def follows(c: Constants, me: int, w: Client, base: File, file: File) -> bool:
    if c.ROLES and (claims(c, me, base, file) or seals(base, file)):
        return True
    return keeps(base, file) and is_own(c, me, base, file) and keeps_epochs(base, file) and has_epoch(c, me, w, base)


def bases(c: Constants, w: Client, i: int) -> list[File]:
    """Return what the client knows of the file before id i; NOTHING in a log, where it has only to exist."""
    if i == 1:
        return [NOTHING] if c.FIRST is None else []
    return [file for j, file in w.read if j == i - 1] if c.CHAINED else [NOTHING] * (i - 1 in w.ids)


def may_create(c: Constants, me: int, w: Client, i: int, file: File) -> bool:
    if not bases(c, w, i):
        return False
    return any([follows(c, me, w, base, file) for base in bases(c, w, i)])


def may_put(c: Constants, me: int, w: Client, i: int, file: File) -> bool:
    """A PUT without a condition replaces what is there."""
    return may_replace(c) and may_create(c, me, w, i, file)


def may_replace(c: Constants) -> bool:
    return not c.CREATE_IF_ABSENT


def creations(c: Constants, me: int, w: Client) -> Iterator[tuple[int, File]]:
    """The files that the client may create next, as far as this model makes any up: one more update, a pin, or a claim."""
    for i in range(1, c.MAX_ID + 1):
        for base in bases(c, w, i):
            for k in range(c.UPDATES):
                file = base._replace(updates=base.updates | {(me, k)})
                yield i, file
                if c.BOUNDARY:
                    yield i, file._replace(pins=frozenset({i}))
            if c.ROLES and c.ROLES[me] is not None:
                yield i, claimed(c, me, base)
            if c.ROLES:
                yield i, sealed(base)


# --- the store

def is_free(c: Constants, s: Shared, i: int) -> bool:
    return i > top(s.files) if c.COLLECTED else not (present(s, i) and c.CREATE_IF_ABSENT)


def with_new(s: Shared, i: int, file: File) -> Shared:
    return s._replace(files=with_file(s.files, i, file))


# --- a client: PUT, LIST and GET

def create(c: Constants, me: int, s: Shared, w: Client, *given: Any) -> Iterator:
    for i, file in [given] if given else creations(c, me, w):
        for base in bases(c, w, i):
            if is_free(c, s, i) and follows(c, me, w, base, file):
                yield (i, file), with_new(s, i, file), told(c, me, w, i, file)


def told(c: Constants, me: int, w: Client, i: int, file: File) -> Client:
    """Return what a client knows once its create has succeeded."""
    return knows_put(c, me, w, i, file)._replace(ids=up_to(w, i))


def knows_put(c: Constants, me: int, w: Client, i: int, file: File) -> Client:
    """Is it sure at once of the file that it has put, or only after a check?"""
    mine = own(me, file)
    if c.BOUNDARY and c.CHECKED:
        return w._replace(put=w.put | {(i, file)}, told=w.told | {(i, one) for one in mine})
    return w._replace(read=w.read | {(i, file)}, sure=w.sure | mine, epochs=w.epochs | epoch_of(c, me, file))


def own(me: int, file: File) -> frozenset[Update]:
    return frozenset(update for update in file.updates if update[0] == me)


def up_to(w: Client, i: int) -> frozenset[int]:
    return w.ids | frozenset(range(1, i + 1))


def list_ids(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    yield (), s, w._replace(ids=up_to(w, top(s.files)))


def read(c: Constants, me: int, s: Shared, w: Client, *given: Any) -> Iterator:
    """GET a file. Without a boundary every file is the history's."""
    for i, in [given] if given else [(i,) for i in range(1, len(s.files) + 1)]:
        if present(s, i):
            file = file_of(s, i)
            mine, free = own(me, file), {(i, j) for j in range(1, i) if j not in file.pins or not c.PINS}
            w2 = w._replace(ids=up_to(w, i), read=w.read | {(i, file)}, unpinned=w.unpinned | free)
            yield (i,), s, (w2._replace(told=w.told | {(i, one) for one in mine}) if c.BOUNDARY and c.CHECKED else
                            w2._replace(sure=w.sure | mine))


def check(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    """GET the boundary: what the client knew to be in a file above it before is in the history."""
    if c.BOUNDARY:
        yield (), s, checked(c, me, w, s.boundary)._replace(boundaries=w.boundaries | {s.boundary}, ids=up_to(w, s.boundary))


def checked(c: Constants, me: int, w: Client, boundary: int) -> Client:
    mine = frozenset((i, file) for i, file in w.put if i > boundary)
    epochs = frozenset(epoch for _, file in mine for epoch in epoch_of(c, me, file))
    return w._replace(
        read=w.read | mine, epochs=w.epochs | epochs,
        sure=w.sure | {update for i, update in w.told if i > boundary},
        free=w.free | {j for i, j in w.unpinned if i > boundary})


def acknowledge(c: Constants, me: int, s: Shared, w: Client, *given: Any) -> Iterator:
    """Report updates of its own that it is sure of."""
    for updates, in [given] if given else [(frozenset({one}),) for one in sorted(w.sure - s.acked, key=str)]:
        if is_sure(w, updates):
            yield (updates,), s._replace(acked=s.acked | updates), w


def is_sure(w: Client, updates: frozenset[Update]) -> bool:
    return updates <= w.sure


def opens(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    """Report that it has an epoch."""
    for epoch in sorted(w.epochs):
        yield (epoch,), s._replace(opened=s.opened | {(c.ROLES[me], me, epoch)}), w


# --- a client: advance the boundary, and delete

def advance(c: Constants, me: int, s: Shared, w: Client, *given: Any) -> Iterator:
    for d, in [given] if given else [(d,) for d in range(1, c.MAX_ID + 1)]:
        if c.BOUNDARY and may_advance(c, me, w, s.boundary, d):
            yield (d,), s._replace(boundary=d), w._replace(boundaries=w.boundaries | {d})


def may_advance(c: Constants, me: int, w: Client, b: int, d: int) -> bool:
    return b in w.boundaries and is_forward(b, d) and is_below_latest(c, w, d)


def is_forward(b: int, d: int) -> bool:
    return d > b


def is_below_latest(c: Constants, w: Client, d: int) -> bool:
    return any([i > d for i in w.ids]) or not c.LATEST_KEPT


def may_set(c: Constants, me: int, w: Client, b: int, d: int) -> bool:
    """A PUT without a condition replaces a boundary that the client may not know."""
    return may_overwrite(c) and may_advance(c, me, w, b, d)


def may_overwrite(c: Constants) -> bool:
    return not c.CONDITIONAL_ADVANCE


def may_delete(c: Constants, me: int, w: Client, i: int) -> bool:
    return is_behind(c, w, i) and is_old(w, i) and is_unpinned(c, w, i)


def is_behind(c: Constants, w: Client, i: int) -> bool:
    return any([b >= i for b in w.boundaries]) or not c.BEHIND


def is_old(w: Client, i: int) -> bool:
    return any([j > i for j in w.ids])


def is_unpinned(c: Constants, w: Client, i: int) -> bool:
    return i in w.free or not c.PINS


def delete(c: Constants, me: int, s: Shared, w: Client, *given: Any) -> Iterator:
    for i, in [given] if given else [(i,) for i in sorted(w.ids)]:
        if c.BOUNDARY and may_delete(c, me, w, i) and present(s, i):
            yield (i,), s._replace(files=with_file(s.files, i, None)), w


def send(c: Constants, me: int, s: Shared, w: Client, *given: Any) -> Iterator:
    """A request for whose reply the client does not wait."""
    for request in given or requests(c, s, w, me):
        if may_send(c, me, w, *request):
            yield (request,), s._replace(flying=s.flying | {request}), w


def requests(c: Constants, s: Shared, w: Client, me: int) -> Iterator[tuple]:
    """The requests that this model makes up."""
    if len(s.flying) < c.PENDING:
        yield from (("Put" if may_replace(c) else "Create", *one) for one in creations(c, me, w))
        kind = "Set" if may_overwrite(c) else "Advance"
        yield from ((kind, b, d) for b in sorted(w.boundaries) for d in range(1, c.MAX_ID + 1) if c.BOUNDARY)
        yield from (("Delete", i) for i in sorted(w.ids) if c.BOUNDARY)


def may_send(c: Constants, me: int, w: Client, kind: str, *what: Any) -> bool:
    return MAY[kind](c, me, w, *what)


# --- the store: a request in flight is applied, or is gone

def apply(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    for request in sorted(s.flying, key=str):
        kind, *what = request
        if kind == "Put" or (kind == "Create" and is_free(c, s, what[0])):
            yield (request,), with_new(s, *what), ()
        elif kind == "Set" or (kind == "Advance" and s.boundary == what[0]):
            yield (request,), s._replace(boundary=what[1]), ()
        elif kind == "Delete":
            yield (request,), s._replace(files=with_file(s.files, what[0], None)), ()


def drop(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    for request in sorted(s.flying, key=str):
        yield (request,), s._replace(flying=s.flying - {request}), ()


def collect(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    """Somebody deletes a file that is not the latest."""
    for i in range(1, top(s.files) if c.COLLECTED else 0):
        if present(s, i):
            yield (i,), s._replace(files=with_file(s.files, i, None)), ()


# --- properties

def latest(s: Shared) -> File:
    return file_of(s, top(s.files)) if top(s.files) else NOTHING


def acked_is_kept(c: Constants, s: Shared) -> bool:
    """An acknowledged update is in the latest file; in a log that is not collected, in some file."""
    if c.BOUNDARY and not c.CHAINED:
        return True
    found = latest(s).updates if c.CHAINED else frozenset[Update]().union(*(file.updates for file in s.files if file))
    return s.acked <= found


def boundary_is_below_latest(c: Constants, s: Shared) -> bool:
    return not s.files or s.boundary < top(s.files)


def deleted_is_behind_boundary(c: Constants, s: Shared) -> bool:
    return c.COLLECTED or all(present(s, i) for i in range(s.boundary + 1, top(s.files) + 1))


def pinned_is_kept(c: Constants, s: Shared) -> bool:
    return all(present(s, i) for i in latest(s).pins)


def one_owner_per_epoch(c: Constants, s: Shared) -> bool:
    return len({(place, epoch) for place, _, epoch in s.opened}) == len(s.opened)


CLIENT = {"Create": create, "List": list_ids, "Read": read, "Check": check, "Acknowledge": acknowledge, "Open": opens,
          "Advance": advance, "Delete": delete, "Send": send, "Forget": forget}
MAY = {"Create": may_create, "Put": may_put, "Advance": may_advance, "Set": may_set, "Delete": may_delete}  # requests
STORE = {"Apply": apply, "Drop": drop, "Collect": collect}
ALWAYS = {
    "AckedIsKept": (None, acked_is_kept),
    "BoundaryIsBelowLatest": (None, boundary_is_below_latest),
    "DeletedIsBehindBoundary": (None, deleted_is_behind_boundary),
    "PinnedIsKept": (None, pinned_is_kept),
    "OneOwnerPerEpoch": (None, one_owner_per_epoch),
}

GUARDS = {  # name -> (guard, True if a log with a step that it refuses counts as one that breaks a property)
    "ReadLatest": (bases, False),
    "CREATE_IF_ABSENT": (may_replace, False),
    "OthersChangesAreKept": (keeps, True),
    "OnlyOwnIsAdded": (is_own, True),
    "OnlyOwnEpochIsBumped": (keeps_epochs, True),
    "AtMostOneActiveWriterCommits": (has_epoch, True),
    "AckIsChecked": (is_sure, True),
    "BoundaryIsMonotone": (is_forward, True),
    "BoundaryIsBelowLatest": (is_below_latest, True),
    "CONDITIONAL_ADVANCE": (may_overwrite, False),
    "DeletedIsBehindBoundary": (is_behind, True),
    "LatestIsKept": (is_old, True),
    "PinnedIsKept": (is_unpinned, True),
}


def model(c: Constants) -> Model:
    first = Shared((c.FIRST,) if c.FIRST is not None else (), 0, frozenset(), frozenset(), frozenset())
    return Model("sequenced_files", c, first, (*clients(("Client", c.CLIENTS, Client(), CLIENT)), store(STORE)), ALWAYS, {})


# --- the choice with which an action leads from one shared state to another: files of any content are possible

def created(s: Shared, after: Shared) -> tuple:
    """(id, file) of the file that is new."""
    before = (*s.files, *(None,) * (len(after.files) - len(s.files)))
    return next(((i, file) for i, (old, file) in enumerate(zip(before, after.files), 1) if file and file != old), ())


GIVEN = {
    "Create": created,
    "Advance": lambda s, after: (after.boundary,),
    "Delete": lambda s, after: next(((i,) for i in range(1, len(s.files) + 1) if present(s, i) and not present(after, i)), ()),
    "Acknowledge": lambda s, after: (after.acked - s.acked,),
    "Send": lambda s, after: tuple(sorted(after.flying - s.flying, key=repr)),
}

"""Map requests for sequenced files and their boundaries to actions of sequenced_files.

A client is given what it has read or put. No log shows the responses to callers. A create counts as acknowledged once its
boundary check has passed; without boundary files, once its reply has reached the client. A client that creates a further file
has acknowledged its earlier ones.
"""

from highwater.model.abstract import sequenced_files as files
from highwater.traces.recorded.access_log import UNSAID
from highwater.traces.recorded.judge import ME, no_action, send, take
from highwater.traces.recorded.orders import Refusal
from highwater.traces.recorded.s3log import Body, Request
from highwater.traces.recorded.s3store import ABSENT, Key
from highwater.traces.recorded.systems import clones
from highwater.traces.recorded.systems.facts import (
    NO_FACTS,
    NO_FILES,
    NONE,
    WRITER,
    Created,
    Facts,
    Namespaced,
    Place,
    Written,
    heard,
)


def reads(facts: Facts, request: Request, key: Key, place: Place) -> None:
    """Read: from now on the client knows this file in this version."""
    if request.status == 200:
        facts.store.put(facts.seen, (request.client, key), request.version)
        if (request.client, key) in facts.refused:
            facts.store.put(facts.refused, (request.client, key), None)
        exists(facts, place)
        mine = facts.unchecked.get((request.client, place.where), ())
        if any(one.id == place.id for one in mine):
            facts.store.put(facts.unchecked, (request.client, place.where),
                    tuple(one._replace(looked=True) if one.id == place.id else one for one in mine))


def creates(facts: Facts, request: Request, key: Key, place: Place) -> Refusal | None:
    """Create, or Put where the request has no condition."""
    client, before = request.client, place.key(place.id - 1)
    mine = facts.unchecked.get((client, place.where), ())
    for one in mine:
        if one.id < place.id - one.looked:  # another task of this client may have just read it
            refusal = take(files, facts.files, "Acknowledge", NO_FILES, NO_FACTS, lambda one=one: (
                f"{client} creates id {place.id}, and has not asked for the boundary since request {one.number} put id "
                f"{one.id} there, its own"), frozenset({(ME, (one.id, one.number))}), shows="AckedIsKept")
            if refusal:
                return refusal
    known = facts.seen.get((client, before))
    body = facts.store.bodies.get((before, known)) if known is not None else None
    change = facts.system.change(facts, place, body, request.sent_body)
    if isinstance(change, str):
        return no_action(f"{client} puts id {place.id} of {place.folder}: {change}")
    flushes = change.role == WRITER and change.claimed is None
    i, has = place.id - facts.system.first(facts, place) + 1, has_base(facts, client, before, place)
    w = files.Client(ids=frozenset({i - 1}) if has else NONE, read=frozenset({(i - 1, change.base)}) if has else NONE,
                     epochs=epochs_of(facts, client, place.where, change.base.epochs) if flushes else NONE)
    conditional = bool(request.conditions.keys() & {"if-none-match", UNSAID})
    refusal = send(files, facts.roles[change.role], w, lambda: f"{client} puts id {place.id} of {place.folder}",
                   "Create" if conditional else "Put", i, change.file,
                   harm=bool(facts.store.version(key)) if not conditional else is_gap(facts, before, place))
    if refusal:
        return refusal
    if change.claimed is not None and change.role is not None:
        facts.store.put(facts.epochs, (client, place.where, change.role), change.claimed)
        facts.count("CreateNext, with an epoch")
    return created(facts, request, key, place)


def is_behind(facts: Facts, key: Key, place: Place) -> bool:
    """Return whether a file is put behind the boundary, where none is. It is in no history, and its client is told so when it
    asks. If nobody has heard of it, it may have been delayed in the network, and be of an earlier epoch than its client's."""
    return place.id <= facts.boundary.get(place.where, 0) and not facts.store.version(key)


def created(facts: Facts, request: Request, key: Key, place: Place) -> Refusal | None:
    """The client knows its file. It may be sure of it at once, or after a check."""
    if heard(request):
        if facts.sure_at_once:
            refusal = commits(facts, key, place.id, place.where, Written(request.version, request.client, request.number))
            if refusal:
                return refusal
        else:
            hears(facts, request, place)
    facts.store.put(facts.seen, (request.client, key), request.version)
    begins(facts, place)
    exists(facts, place)
    return facts.count("CreateNext")


def hears(facts: Facts, request: Request, place: Place) -> None:
    """The client is told that its create is done. From now on it has to ask for the boundary."""
    mine = facts.unchecked.get((request.client, place.where), ())
    facts.store.put(facts.unchecked, (request.client, place.where),
                    (*mine, Created(place.id, request.version, request.number, request.answered)))


def begins(facts: Facts, place: Place) -> None:
    """Note a file that was put if it is the first of its sequence."""
    if place.where not in facts.latest and place.id == facts.system.first(facts, place):
        facts.store.put(facts.first, place.where, place.id)


def exists(facts: Facts, place: Place) -> None:
    if place.id > facts.latest.get(place.where, -1):
        facts.store.put(facts.latest, place.where, place.id)


def has_base(facts: Facts, client: str, before: Key, place: Place) -> bool:
    """Return whether the client knows the file before, or may have read it before the log began. In a log of entries it knows
    that it exists once anybody does."""
    if (client, before) in facts.refused or is_gap(facts, before, place):
        return False
    if place.id == facts.system.first(facts, place) or (client, before) in facts.seen:
        return True
    if not facts.files.CHAINED and (facts.store.version(before) or place.id - 1 <= facts.latest.get(place.where, -1)):
        return True
    if not facts.files.CHAINED and place.where in facts.first:
        return False
    if facts.store.version(before) is not None and any(
            (client, place.key(i)) in facts.seen for i in range(max(0, place.id - 8), place.id + 8)):
        return False
    facts.grant("a client has read the file that it builds on: the log does not show when")
    return True


def is_gap(facts: Facts, before: Key, place: Place) -> bool:
    """Return whether there has never been a file before this one."""
    return facts.store.version(before) is None and place.id > facts.first.get(place.where, place.id)


def epochs_of(facts: Facts, client: str, where: Namespaced, epochs: tuple[int, ...]) -> frozenset[int]:
    """The writer epochs of the client, as far as these are the ones in the file."""
    own = facts.epochs.get((client, where, WRITER))
    if own is None:
        facts.grant("a client that flushes has the writer's epoch: the log does not show its claim")
    return frozenset(epochs[:1]) if own is None or own >= epochs[WRITER] else frozenset({own})


def checks(facts: Facts, request: Request, place: Place) -> Refusal | None:
    """Check of the creates that this client made before it asked, and that are not checked yet.

    If the request for the boundary failed, the client cannot know, and may say so to its caller.
    """
    client, mine = request.client, facts.unchecked.get((request.client, place.where), ())
    asked = [one for one in mine if one.answered < request.sent]
    if asked:
        facts.store.put(facts.unchecked, (client, place.where), tuple(one for one in mine if one not in asked))
    boundary = {200: boundary_of(request.got_body), 404: 0, 304: facts.boundary.get(place.where)}.get(request.status)
    if boundary is None:
        return None
    facts.store.put(facts.boundary, place.where, boundary)
    if not asked:
        return None
    w = files.Client(told=frozenset((one.id, (ME, one.number)) for one in asked))
    sure = files.checked(facts.files, ME, w, boundary).sure
    for one in asked:
        key = place.key(one.id)
        if (ME, one.number) not in sure:
            facts.store.put(facts.refused, (client, key), boundary)
            facts.count("Reject")
        elif refusal := commits(facts, key, one.id, place.where, Written(one.version, client, one.number)):
            return refusal
        else:
            facts.count("Accept")
    return None


def commits(facts: Facts, key: Key, file_id: int, where: Namespaced, file: Written) -> Refusal | None:
    """Acknowledge. A history has one file of each id, so of two updates that were put there it has only the first. What is put
    below a tombstone is in no history."""
    if clones.is_sealed(facts, where.bucket, where.root):
        return None
    before = facts.committed.get(key, file)
    first, update = (frozenset({(ME, f"of {one.client}, request {one.number}")}) for one in (before, file))
    s = files.Shared((files.File(first),), 0, NONE, first, NONE)
    refusal = take(files, facts.files, "Acknowledge", s, files.Client(sure=update), lambda: (
        f"{file.client} has id {file_id} of {where.folder} acknowledged (request {file.number}), and it was acknowledged "
        f"to {before.client} (request {before.number}): the history is forked"), update, shows="AckedIsKept")
    if refusal is None:
        facts.store.put(facts.committed, key, file)
    return refusal


def advances(facts: Facts, request: Request, place: Place) -> Refusal | None:
    boundary = boundary_of(request.sent_body)
    if request.sent_body.data is None:
        facts.grant("a boundary that was put is allowed: the log does not show its content")
        return facts.count("Advance")
    if boundary is None:
        return no_action(f"{request.client} puts a boundary that is no number: {request.sent_body.data!r}")
    return advance(facts, request, place, boundary)


def advance(facts: Facts, request: Request, place: Place, boundary: int) -> Refusal | None:
    """Advance, or Set where the request has no condition. One that changes nothing is no step. Who deletes a boundary
    takes it back to 0."""
    conditional = request.op != "put" or bool(request.conditions.keys() & {"if-match", "if-none-match", UNSAID})
    before, latest = facts.boundary.get(place.where, 0), facts.latest.get(place.where)
    if not conditional or boundary != before or request.op != "put":
        w = files.Client(boundaries=frozenset({before}), ids=frozenset({boundary + 1 if latest is None else latest}))
        verb = "puts boundary" if request.op == "put" else "deletes the boundary, which is as if it put"
        refusal = send(files, facts.files, w, lambda: (
            f"{request.client} {verb} {boundary} of {place.name}; the boundary was {before}, the latest id is {latest}"),
            "Advance" if conditional else "Set", before, boundary)
        if refusal:
            return refusal
    facts.store.put(facts.boundary, place.where, boundary)
    return facts.count("Advance")


def deletes(facts: Facts, request: Request, key: Key, place: Place) -> Refusal | None:
    if facts.store.version(key) == ABSENT:
        return None
    boundary, latest = facts.boundary.get(place.where), facts.latest.get(place.where)
    never_put = facts.store.version(facts.system.boundary_key(place.where)) == ABSENT
    if boundary is None and (place.where in facts.first or never_put or not facts.knobs.BOUNDARY):
        boundary = 0
    if boundary is None or UNSAID in request.conditions:
        facts.grant("a file that was deleted was behind the boundary: the log does not show the boundary")
        boundary = place.id
    if latest is None:
        facts.grant("a file that was deleted was not the latest: the log does not show a later one")
        latest = place.id + 1
    checkpoint = facts.system.pinned_by(facts, request, place)
    w = files.Client(boundaries=frozenset({boundary}), ids=frozenset({latest}),
                     free=frozenset() if checkpoint else frozenset({place.id}))
    refusal = send(files, facts.files, w, lambda: (
        f"{request.client} deletes id {place.id} of {place.folder}; the boundary is {boundary}, the latest id is {latest}"
        + (f"; checkpoint {checkpoint} refers to it" if checkpoint else "")), "Delete", place.id)
    return refusal or facts.count("Delete")


def boundary_of(body: Body) -> int | None:
    text = (body.data or b"").strip()
    return int(text) if text.isdigit() and len(text) <= 20 else None

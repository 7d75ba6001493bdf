"""Safety: each request takes effect at one moment between its sending and its response. So a read returns one whole write:
the latest of its key at that moment. A create succeeds only on an absent key. An update succeeds only on the version that it
names, and only one update of a version succeeds. A listing shows every put completed before it. A 304 means unchanged.

The object store itself, the «object storage primitives» of the essay on object-store protocols: what the protocols rest on,
and what recorded concurrent histories of a store, simulated or real, are to be held against. A request is sent, applied,
replied to: three steps, with those of others between. A client that stops waiting knows nothing; its request may be applied
at any later time, or never. A body has two halves, so that it can be torn; the store's `n` counts a key's writes, and nobody
sees it but through VERSION. A LIST is one page, and one moment. There is no DELETE here: it is none of the source's
primitives.
"""

from collections.abc import Iterator
from typing import NamedTuple

from highwater.model.core import Model
from highwater.model.parts import MANY, below, clients, in_pool, one_more, pooled, reply_lost, store


class Constants(NamedTuple):
    """Names and values as in the .fizz. None for a bound means unbounded and not counted (refinement uses that)."""

    CLIENTS: int = 2
    KEYS: int = 1
    BODIES: int = 2  # number of possible contents, so that one can recur
    WRITES: int | None = 1  # writes that a client sends
    READS: int | None = 1
    LISTS: int | None = 0
    # Faults, each bounded
    MAX_PENDING: int | None = 0  # requests in flight whose clients no longer wait
    MAX_LOST: int | None = 0  # responses lost
    # Safeguards: switch one off and a property must fail
    WRITES_ARE_ATOMIC: bool = True  # a PUT is applied at once; False: in two halves
    CREATE_IS_CONDITIONAL: bool = True  # PUT If-None-Match is refused if the key is present
    UPDATE_IS_CONDITIONAL: bool = True  # PUT If-Match is refused if the version differs
    CONFLICTS_ARE_TRUE: bool = True  # False: a conditional write may be refused although its condition holds
    READS_ARE: str = "current"  # "session": not older than what this client knows; "stale": possibly the previous object
    LIST_IS_CONSISTENT: bool = True  # False: a listing may omit a key
    VERSION: str = "unique"  # "digest": equal contents have equal versions; "coarse": all contents of one second do


LIMITS = {  # the values that an instance may have
    **dict.fromkeys(("WRITES", "READS", "LISTS", "MAX_PENDING", "MAX_LOST"), MANY),
    **dict.fromkeys(("CLIENTS", "KEYS", "BODIES"), MANY[1:]),
    "READS_ARE": ("current", "session", "stale"),
    "VERSION": ("unique", "digest", "coarse"),
}


class Object(NamedTuple):
    front: int  # the body's halves
    back: int
    n: int  # number of writes to its key so far; 0: absent


NO_OBJECT = Object(0, 0, 0)
Request = tuple[str, int, int, tuple[int, ...]]  # (kind, key, body, the object whose version it names)


class Shared(NamedTuple):
    objects: tuple[Object, ...]  # objects[key - 1]
    old: tuple[Object, ...]  # the previous objects, if reads may show them
    pool: tuple[Request, ...]  # requests in flight whose clients no longer wait, sorted
    lost: int  # faults so far
    # ghosts
    told: tuple[int, ...]  # by key, the latest write that some response showed


class Client(NamedTuple):
    known: tuple[Object, ...]  # by key, the object in the last response that showed one
    pc: str = "Idle"  # Idle, Sent, Half, Applied
    kind: str = ""  # of its request: Put, Create, Update, Get, GetIfChanged, List
    key: int = 0
    body: int = 0
    outcome: str = ""  # of the applied request: Ok, Conflict, Missing, NotModified
    got: Object = NO_OBJECT  # the key's object when the request was applied
    listed: frozenset[int] = frozenset()
    must: tuple[int, ...] = ()  # ghost: `told` when its read was sent
    writes: int = 0  # sent so far
    reads: int = 0
    lists: int = 0


def with_item(items: tuple, key: int, item: object) -> tuple:
    return (*items[:key - 1], item, *items[key:])


def present(o: Object) -> bool:
    return o.n > 0


def version(c: Constants, o: Object) -> tuple[int, ...]:
    """The version that clients compare to tell two objects of one key apart."""
    if c.VERSION == "unique":
        return (o.n,)
    return (o.front, o.back) if c.VERSION == "digest" else (min(o.n, 1),)


def unchanged(c: Constants, o: Object, known: Object) -> bool:
    return present(o) and version(c, o) == version(c, known)


def may_create(c: Constants, o: Object) -> bool:
    return not c.CREATE_IS_CONDITIONAL or not present(o)


def may_update(c: Constants, o: Object, known: Object) -> bool:
    return not c.UPDATE_IS_CONDITIONAL or unchanged(c, o, known)


# --- a client sends

def sent_write(c: Constants, w: Client, kind: str, key: int, body: int) -> Client:
    return w._replace(pc="Sent", kind=kind, key=key, body=body, writes=one_more(w.writes, c.WRITES))


def send_write(c: Constants, s: Shared, w: Client, kind: str) -> Iterator:
    if w.pc == "Idle" and below(w.writes, c.WRITES):
        for key in range(1, c.KEYS + 1):
            if kind != "Update" or present(w.known[key - 1]):
                for body in range(1, c.BODIES + 1):
                    yield (key, body), s, sent_write(c, w, kind, key, body)


def send_put(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    yield from send_write(c, s, w, "Put")


def send_create(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    yield from send_write(c, s, w, "Create")


def send_update(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    """Send PUT If-Match with the version that the client learned last."""
    yield from send_write(c, s, w, "Update")


def sent_read(c: Constants, s: Shared, w: Client, kind: str, key: int) -> Client:
    return w._replace(pc="Sent", kind=kind, key=key, must=s.told, reads=one_more(w.reads, c.READS))


def send_get(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    if w.pc == "Idle" and below(w.reads, c.READS):
        for key in range(1, c.KEYS + 1):
            yield (key,), s, sent_read(c, s, w, "Get", key)


def send_get_if_changed(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    if w.pc == "Idle" and below(w.reads, c.READS):
        for key in range(1, c.KEYS + 1):
            if present(w.known[key - 1]):
                yield (key,), s, sent_read(c, s, w, "GetIfChanged", key)


def send_list(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    if w.pc == "Idle" and below(w.lists, c.LISTS):
        yield (), s, w._replace(pc="Sent", kind="List", must=s.told, lists=one_more(w.lists, c.LISTS))


# --- the store applies it

def waiting(w: Client, kind: str) -> bool:
    return w.pc == "Sent" and w.kind == kind


def stored(c: Constants, s: Shared, key: int, front: int, back: int) -> Shared:
    before = s.objects[key - 1]
    old = s.old if c.READS_ARE == "current" else with_item(s.old, key, before)
    return s._replace(objects=with_item(s.objects, key, Object(front, back, before.n + 1)), old=old)


def applied(s: Shared, w: Client, outcome: str) -> Client:
    return w._replace(pc="Applied", outcome=outcome, got=s.objects[w.key - 1])


def wrote(c: Constants, s: Shared, w: Client) -> Iterator:
    after = stored(c, s, w.key, w.body, w.body)
    yield (), after, applied(after, w, "Ok")


def apply_half(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    """Only if writes are not atomic: the first half is applied alone."""
    if waiting(w, "Put") and not c.WRITES_ARE_ATOMIC:
        yield (), stored(c, s, w.key, w.body, s.objects[w.key - 1].back), w._replace(pc="Half")


def apply_put(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    if w.kind == "Put" and w.pc == ("Sent" if c.WRITES_ARE_ATOMIC else "Half"):
        front = w.body if c.WRITES_ARE_ATOMIC else s.objects[w.key - 1].front
        after = stored(c, s, w.key, front, w.body)
        yield (), after, applied(after, w, "Ok")


def apply_create(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    if waiting(w, "Create") and may_create(c, s.objects[w.key - 1]):
        yield from wrote(c, s, w)


def create_conflict(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    if waiting(w, "Create") and (not may_create(c, s.objects[w.key - 1]) or not c.CONFLICTS_ARE_TRUE):
        yield (), s, applied(s, w, "Conflict")


def apply_update(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    if waiting(w, "Update") and may_update(c, s.objects[w.key - 1], w.known[w.key - 1]):
        yield from wrote(c, s, w)


def update_conflict(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    if waiting(w, "Update") and (not may_update(c, s.objects[w.key - 1], w.known[w.key - 1]) or not c.CONFLICTS_ARE_TRUE):
        yield (), s, applied(s, w, "Conflict")


def apply_get(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    if waiting(w, "Get") and present(s.objects[w.key - 1]):
        yield (), s, applied(s, w, "Ok")


def get_missing(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    if waiting(w, "Get") and not present(s.objects[w.key - 1]):
        yield (), s, applied(s, w, "Missing")


def stale_get(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    """Only if reads are not current: the previous object is returned."""
    if waiting(w, "Get") and c.READS_ARE != "current" and present(s.objects[w.key - 1]):
        old = s.old[w.key - 1]
        if c.READS_ARE == "stale" or old.n >= w.known[w.key - 1].n:
            yield (), s, w._replace(pc="Applied", outcome="Ok" if present(old) else "Missing", got=old)


def get_changed(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    if waiting(w, "GetIfChanged") and not unchanged(c, s.objects[w.key - 1], w.known[w.key - 1]):
        yield (), s, applied(s, w, "Ok")


def not_modified(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    if waiting(w, "GetIfChanged") and unchanged(c, s.objects[w.key - 1], w.known[w.key - 1]):
        yield (), s, applied(s, w, "NotModified")


def keys(s: Shared) -> frozenset[int]:
    return frozenset(key for key, o in enumerate(s.objects, 1) if present(o))


def apply_list(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    if waiting(w, "List"):
        yield (), s, w._replace(pc="Applied", outcome="Ok", listed=keys(s))


def stale_list(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    """Only if listings are inconsistent: the listing omits one key."""
    if waiting(w, "List") and not c.LIST_IS_CONSISTENT:
        for key in sorted(keys(s)):
            yield (key,), s, w._replace(pc="Applied", outcome="Ok", listed=keys(s) - {key})


# --- the client hears of it, or does not

def idle(w: Client, known: tuple[Object, ...]) -> Client:
    return Client(known, writes=w.writes, reads=w.reads, lists=w.lists)


def reply(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    """The client gets the response. A 304 or a conflict shows it no new object."""
    if w.pc == "Applied":
        if w.kind == "List":
            told = tuple(max(n, 1) if key in w.listed else n for key, n in enumerate(s.told, 1))
            yield (), s._replace(told=told), idle(w, w.known)
        elif w.outcome == "Ok":
            told = with_item(s.told, w.key, max(s.told[w.key - 1], w.got.n))
            yield (), s._replace(told=told), idle(w, with_item(w.known, w.key, w.got))
        else:
            yield (), s, idle(w, w.known)


def give_up(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    """The client stops waiting for a write in flight, which may be applied at any later time, or never."""
    if w.pc == "Sent" and w.kind in ("Put", "Create", "Update") and below(len(s.pool), c.MAX_PENDING):
        named = tuple(w.known[w.key - 1]) if w.kind == "Update" else (0, 0, 0)
        yield (), pooled(s, (w.kind, w.key, w.body, named)), idle(w, w.known)


def lose_reply(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    if w.pc == "Applied" and below(s.lost, c.MAX_LOST):
        yield (), reply_lost(c, s), idle(w, w.known)


def apply_pending(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    """A write in flight reaches the store after its client stopped waiting. Its condition is evaluated now."""
    for request, after in in_pool(s):
        kind, key, body, named = request
        o = s.objects[key - 1]
        if kind == "Put" or (may_create(c, o) if kind == "Create" else may_update(c, o, Object(*named))):
            after = stored(c, after, key, body, body)
        yield (request,), after, ()


# --- properties

def done(w: Client, *kinds: str) -> bool:
    """Its request, one of these, has been applied."""
    return w.pc == "Applied" and w.kind in kinds


def read_is_whole(c: Constants, s: Shared, w: Client) -> bool:
    """A read shows the content of one whole write."""
    return not done(w, "Get", "GetIfChanged") or w.got.front == w.got.back


def read_your_writes(c: Constants, s: Shared, w: Client) -> bool:
    """A read shows nothing older than what its client has written or seen."""
    return not done(w, "Get", "GetIfChanged") or w.got.n >= w.known[w.key - 1].n


def read_is_current(c: Constants, s: Shared, w: Client) -> bool:
    """A read shows nothing older than what any response had shown when it was sent."""
    return not done(w, "Get", "GetIfChanged") or w.got.n >= w.must[w.key - 1]


def create_is_first(c: Constants, s: Shared, w: Client) -> bool:
    """An applied create is its key's first write."""
    return not done(w, "Create") or w.outcome != "Ok" or w.got.n == 1


def update_is_next(c: Constants, s: Shared, w: Client) -> bool:
    """An applied update is the next write after the one that it names. So of several that name one version, one is applied."""
    return not done(w, "Update") or w.outcome != "Ok" or w.got.n == w.known[w.key - 1].n + 1


def conflict_means_changed(c: Constants, s: Shared, w: Client) -> bool:
    """A conditional write is refused only if the key was written meanwhile. So of several in flight, one is applied."""
    return not done(w, "Create", "Update") or w.outcome != "Conflict" or (
        w.got.n > (w.known[w.key - 1].n if w.kind == "Update" else 0))


def not_modified_is_equal(c: Constants, s: Shared, w: Client) -> bool:
    """A 304 is answered only if the content is the one that the client knows."""
    known = w.known[w.key - 1]
    return not done(w, "GetIfChanged") or w.outcome != "NotModified" or (
        w.got.front == known.front and w.got.back == known.back)


def not_modified_is_unwritten(c: Constants, s: Shared, w: Client) -> bool:
    """A 304 is answered only if nobody has written since the write that the client knows."""
    return not done(w, "GetIfChanged") or w.outcome != "NotModified" or w.got.n == w.known[w.key - 1].n


def list_is_current(c: Constants, s: Shared, w: Client) -> bool:
    """A listing shows every key that any response had shown when it was sent."""
    return not done(w, "List") or all(key in w.listed for key, n in enumerate(w.must, 1) if n)


def create_loses(c: Constants, s: Shared, w: Client) -> bool:
    return done(w, "Create") and w.outcome == "Conflict"


def update_loses(c: Constants, s: Shared, w: Client) -> bool:
    return done(w, "Update") and w.outcome == "Conflict"


def update_wins(c: Constants, s: Shared, w: Client) -> bool:
    return done(w, "Update") and w.outcome == "Ok"


def read_is_ahead(c: Constants, s: Shared, w: Client) -> bool:
    """A read shows a write that no response had shown when the read was sent."""
    return done(w, "Get") and w.got.n > w.must[w.key - 1]


def second_write_is_read(c: Constants, s: Shared, w: Client) -> bool:
    return done(w, "Get") and w.got.n > 1 and w.must[w.key - 1] > 1


def not_modified_happens(c: Constants, s: Shared, w: Client) -> bool:
    return done(w, "GetIfChanged") and w.outcome == "NotModified"


def equal_content_is_rewritten(c: Constants, s: Shared, w: Client) -> bool:
    """A key was written meanwhile and holds the content that a client knows. Digests and unique versions differ here."""
    return any(present(known) and known[:2] == o[:2] and known.n < o.n for known, o in zip(w.known, s.objects))


def list_shows_some(c: Constants, s: Shared, w: Client) -> bool:
    """A listing shows what it must, but not all keys."""
    return done(w, "List") and any(w.must) and len(w.listed) < c.KEYS


def list_is_ahead(c: Constants, s: Shared, w: Client) -> bool:
    """A listing shows a key that no response had shown when the listing was sent."""
    return done(w, "List") and any(not w.must[key - 1] for key in w.listed)


CLIENT = {
    "SendPut": send_put, "SendCreate": send_create, "SendUpdate": send_update, "SendGet": send_get,
    "SendGetIfChanged": send_get_if_changed, "SendList": send_list,
    "ApplyHalf": apply_half, "ApplyPut": apply_put, "ApplyCreate": apply_create, "CreateConflict": create_conflict,
    "ApplyUpdate": apply_update, "UpdateConflict": update_conflict, "ApplyGet": apply_get, "GetMissing": get_missing,
    "StaleGet": stale_get, "GetChanged": get_changed, "NotModified": not_modified, "ApplyList": apply_list,
    "StaleList": stale_list, "Reply": reply, "GiveUp": give_up, "LoseReply": lose_reply,
}
STORE = {"ApplyPending": apply_pending}

ALWAYS = {
    "ReadIsWhole": ("Client", read_is_whole),
    "ReadYourWrites": ("Client", read_your_writes),
    "ReadIsCurrent": ("Client", read_is_current),
    "CreateIsFirst": ("Client", create_is_first),
    "UpdateIsNext": ("Client", update_is_next),
    "ConflictMeansChanged": ("Client", conflict_means_changed),
    "NotModifiedIsEqual": ("Client", not_modified_is_equal),
    "NotModifiedIsUnwritten": ("Client", not_modified_is_unwritten),
    "ListIsCurrent": ("Client", list_is_current),
}
SOMETIMES = {
    "CreateLoses": ("Client", create_loses),
    "UpdateLoses": ("Client", update_loses),
    "UpdateWins": ("Client", update_wins),
    "ReadIsAhead": ("Client", read_is_ahead),
    "SecondWriteIsRead": ("Client", second_write_is_read),
    "NotModifiedHappens": ("Client", not_modified_happens),
    "EqualContentIsRewritten": ("Client", equal_content_is_rewritten),
    "ListShowsSome": ("Client", list_shows_some),
    "ListIsAhead": ("Client", list_is_ahead),
}
FAULTS = {"GiveUp", "LoseReply"}


def model(c: Constants) -> Model:
    roles = [("Client", c.CLIENTS, Client((NO_OBJECT,) * c.KEYS), CLIENT)]
    absent = (NO_OBJECT,) * c.KEYS
    none_of = {"Get": c.READS == 0, "List": c.LISTS == 0}
    sometimes = {name: witness for name, witness in SOMETIMES.items()
                 if not (none_of["List"] and name.startswith("List"))
                 and not (none_of["Get"] and name in ("ReadIsAhead", "SecondWriteIsRead", "NotModifiedHappens"))}
    return Model("store_primitives", c, Shared(absent, absent, (), 0, (0,) * c.KEYS), (*clients(*roles), store(STORE)), ALWAYS,
                 sometimes, renamed={"Client": None})

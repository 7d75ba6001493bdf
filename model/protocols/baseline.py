"""Safety: the store holds every acknowledged write. It holds no other writes than those with an indeterminate outcome. A
recovery, or a successor, reads every acknowledged write, and every write that it has read before.

The baseline of the essay on object-store protocols: «every write directly goes to object storage using an atomic PUT», each
under a key of its own («append-only files with unique IDs»), and a reader that lists and then gets what it listed. The source
says «If at any point the database crashes, we'll have only acknowledged writes stored». That is wider here, and cannot be
otherwise: between the moment when a PUT is applied and the one when its caller hears of it anyone may crash, and a request
that nobody waits for may be applied at any later time. So the stored are the acknowledged and some of the unknown. What does
hold is that nothing is stored that its caller was told is not: a time-out is never evidence that nothing happened. And
because its key is its own, a write of unknown outcome may be sent again blindly. (The store of these requests is
model/protocols/store_primitives.py's.)
"""

from collections.abc import Iterator
from typing import NamedTuple

from highwater.model.core import Model
from highwater.model.parts import MANY, below, clients, crashed, in_pool, pooled, reply_lost, store


class Constants(NamedTuple):
    """Names and values as in the .fizz. None for a bound means unbounded and not counted (refinement uses that)."""

    WRITERS: int = 2
    UPDATES: int | None = 2  # updates that a writer begins
    READERS: int = 1
    # Faults, each bounded
    MAX_PENDING: int | None = 0  # requests in flight whose clients no longer wait
    MAX_LOST: int | None = 0  # responses lost
    MAX_CRASHES: int | None = 0
    # Safeguards: switch one off and a property must fail
    ACK_AFTER_PUT: bool = True  # False: a write is acknowledged, and then put
    UNIQUE_KEYS: bool = True  # False: writers share keys
    TIMEOUT_IS_UNKNOWN: bool = True  # False: after a lost response the writer reports the write as failed
    LIST_IS_CONSISTENT: bool = True  # False: a listing may omit a key


LIMITS = {  # the values that an instance may have
    **dict.fromkeys(("UPDATES", "READERS", "MAX_PENDING", "MAX_LOST", "MAX_CRASHES"), MANY), "WRITERS": MANY[1:]}

Update = tuple[int, int]  # (writer, zero-based index of its update)
Key = tuple[int, int]  # (the writer that owns it, zero-based index of the update)


class Shared(NamedTuple):
    objects: frozenset[tuple[Key, Update]]
    pool: tuple[Update, ...]  # PUTs in flight whose clients no longer wait, sorted
    lost: int  # faults so far
    crashes: int
    # ghosts
    acked: frozenset[Update]  # reported as stored
    refused: frozenset[Update]  # reported as failed


class Writer(NamedTuple):
    pc: str = "Idle"  # Idle, Acked, Written
    k: int = 0  # zero-based index of its current update


class Reader(NamedTuple):
    pc: str = "Idle"  # Idle, Listed, Done
    listed: frozenset[Key] = frozenset()  # keys listed and not yet read
    got: frozenset[Update] = frozenset()
    must: frozenset[Update] = frozenset()  # ghost: updates reported, or seen by this reader, before this recovery began


def key_of(c: Constants, update: Update) -> Key:
    return update if c.UNIQUE_KEYS else (0, update[1])


def put_into(c: Constants, s: Shared, update: Update) -> Shared:
    key = key_of(c, update)
    return s._replace(objects=frozenset(o for o in s.objects if o[0] != key) | {(key, update)})


# --- a writer: PUT, and then tell the caller ----------------------------------------------------------------------------

def may_put(c: Constants, w: Writer) -> bool:
    return w.pc == ("Idle" if c.ACK_AFTER_PUT else "Acked") and below(w.k, c.UPDATES)


def put(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    if may_put(c, w):
        yield (), put_into(c, s, (me, w.k)), w._replace(pc="Written") if c.ACK_AFTER_PUT else Writer(k=w.k + 1)


def acknowledge(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """The response arrives, and the writer reports the write as stored."""
    if w.pc == ("Written" if c.ACK_AFTER_PUT else "Idle") and below(w.k, c.UPDATES):
        yield (), s._replace(acked=s.acked | {(me, w.k)}), Writer(k=w.k + 1) if c.ACK_AFTER_PUT else w._replace(pc="Acked")


def unheard(c: Constants, me: int, s: Shared, w: Writer) -> Iterator[tuple[bool, Shared, Writer]]:
    """After a lost response: retry with the same key (`again`), or leave this outcome unknown and begin the next update."""
    yield False, s if c.TIMEOUT_IS_UNKNOWN else s._replace(refused=s.refused | {(me, w.k)}), Writer(k=w.k + 1)
    yield True, s, Writer(k=w.k)


def send_put(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """The writer stops waiting for a PUT in flight. It may be applied at any later time, or never."""
    if may_put(c, w) and c.ACK_AFTER_PUT and below(len(s.pool), c.MAX_PENDING):
        after = pooled(s, (me, w.k))
        for again, then, local in unheard(c, me, after, w):
            yield (again,), then, local


def writer_lose_reply(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    if w.pc == "Written" and below(s.lost, c.MAX_LOST):
        after = reply_lost(c, s)
        for again, then, local in unheard(c, me, after, w):
            yield (again,), then, local


def writer_crash(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """Its successor begins with a key that was never used."""
    if w.pc != "Idle" and below(s.crashes, c.MAX_CRASHES):
        yield (), crashed(c, s), Writer(k=w.k + 1)


# --- a reader that recovers: LIST, then GET each ------------------------------------------------------------------------

def listed_now(s: Shared, r: Reader, keys: frozenset[Key]) -> Reader:
    return Reader("Listed" if keys else "Done", keys, must=s.acked | r.must | r.got)


def list_keys(s: Shared) -> frozenset[Key]:
    return frozenset(key for key, _ in s.objects)


def reader_list(c: Constants, me: int, s: Shared, r: Reader) -> Iterator:
    if r.pc in ("Idle", "Done"):
        yield (), s, listed_now(s, r, list_keys(s))


def stale_list(c: Constants, me: int, s: Shared, r: Reader) -> Iterator:
    """Only if listings are inconsistent: the listing omits one key."""
    if r.pc in ("Idle", "Done") and not c.LIST_IS_CONSISTENT:
        for key in sorted(list_keys(s)):
            yield (key,), s, listed_now(s, r, list_keys(s) - {key})


def get(c: Constants, me: int, s: Shared, r: Reader) -> Iterator:
    if r.pc == "Listed":
        for key in sorted(r.listed):
            rest = r.listed - {key}
            got = r.got | {update for name, update in s.objects if name == key}
            yield (key,), s, r._replace(pc="Listed" if rest else "Done", listed=rest, got=got)


def reader_lose_reply(c: Constants, me: int, s: Shared, r: Reader) -> Iterator:
    if r.pc == "Listed" and below(s.lost, c.MAX_LOST):
        yield (), reply_lost(c, s), r._replace(pc="Idle", listed=frozenset(), got=frozenset())


def reader_crash(c: Constants, me: int, s: Shared, r: Reader) -> Iterator:
    """A new reader has seen nothing, but from its LIST on it must see every acknowledged update."""
    if r.pc != "Idle" and below(s.crashes, c.MAX_CRASHES):
        yield (), crashed(c, s), Reader()


def apply_pending(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    """A PUT in flight is applied after its client stopped waiting."""
    for request, after in in_pool(s):
        yield (request,), put_into(c, after, request), ()


# --- properties ---------------------------------------------------------------------------------------------------------

def stored(s: Shared) -> frozenset[Update]:
    return frozenset(update for _, update in s.objects)


def acked_is_stored(c: Constants, s: Shared) -> bool:
    """Every acknowledged update is stored, so it survives a crash of all clients."""
    return s.acked <= stored(s)


def refused_is_not_stored(c: Constants, s: Shared) -> bool:
    """An update reported as failed is not stored."""
    return not s.refused & stored(s)


def read_is_current(c: Constants, s: Shared, r: Reader) -> bool:
    """A recovery shows every update acknowledged before it began, and all that its reader has seen before."""
    return r.pc != "Done" or r.must <= r.got


def all_are_acked(c: Constants, s: Shared) -> bool:
    return len(s.acked) == c.WRITERS * (c.UPDATES or 1)


def unacked_is_stored(c: Constants, s: Shared) -> bool:
    """A write is stored that was not acknowledged, so «only acknowledged writes» is too strong a claim."""
    return not stored(s) <= s.acked


def recovery_sees_acked(c: Constants, s: Shared, r: Reader) -> bool:
    return r.pc == "Done" and bool(r.must)


def recovery_sees_unacked(c: Constants, s: Shared, r: Reader) -> bool:
    """A recovery shows a write that was not acknowledged, and later recoveries must show it again."""
    return r.pc == "Done" and not r.got <= s.acked


WRITER = {"Put": put, "Acknowledge": acknowledge, "SendPut": send_put, "LoseReply": writer_lose_reply, "Crash": writer_crash}
READER = {"List": reader_list, "StaleList": stale_list, "Get": get, "LoseReply": reader_lose_reply, "Crash": reader_crash}
STORE = {"ApplyPending": apply_pending}

ALWAYS = {
    "AckedIsStored": (None, acked_is_stored),
    "RefusedIsNotStored": (None, refused_is_not_stored),
    "ReadIsCurrent": ("Reader", read_is_current),
}
SOMETIMES = {
    "AllAreAcked": (None, all_are_acked),
    "UnackedIsStored": (None, unacked_is_stored),
    "RecoverySeesAcked": ("Reader", recovery_sees_acked),
    "RecoverySeesUnacked": ("Reader", recovery_sees_unacked),
}
FAULTS = {"SendPut", "LoseReply", "Crash"}


def renamed_writers(part: tuple, names: tuple[int, ...]) -> tuple:
    """A shared or a local part in which writer i is called names[i]. Readers are named nowhere."""
    def called(update: Update) -> Update:
        return names[update[0]], update[1]

    def all_called(updates: frozenset[Update]) -> frozenset[Update]:
        return frozenset(map(called, updates))

    match part:
        case Shared():
            return part._replace(objects=frozenset((called(key), called(update)) for key, update in part.objects),
                                 pool=tuple(sorted(map(called, part.pool))), acked=all_called(part.acked),
                                 refused=all_called(part.refused))
        case Reader():
            return part._replace(listed=all_called(part.listed), got=all_called(part.got), must=all_called(part.must))
        case _:
            return part


def model(c: Constants) -> Model:
    nobody: frozenset = frozenset()
    roles = ("Writer", c.WRITERS, Writer(), WRITER), ("Reader", c.READERS, Reader(), READER)
    sometimes = {name: (role, holds) for name, (role, holds) in SOMETIMES.items() if c.READERS or role != "Reader"}
    renamed = {"Writer": renamed_writers if c.UNIQUE_KEYS else None, "Reader": None}
    if not c.UNIQUE_KEYS:
        del renamed["Writer"]  # a key that they share is called after the first of them
    return Model("baseline", c, Shared(nobody, (), 0, 0, nobody, nobody), (*clients(*roles), store(STORE)), ALWAYS, sometimes,
                 renamed=renamed)

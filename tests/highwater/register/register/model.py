"""Safety: the register has one value forever, and a writer that was told so wrote that value."""

from collections.abc import Iterator
from typing import NamedTuple

from highwater import Model
from highwater.model.parts import MANY, below, clients, crashed, in_pool, pooled, reply_lost, store


class Constants(NamedTuple):
    WRITERS: int = 2
    UPDATES: int | None = 1  # that a writer begins
    MAX_PENDING: int | None = 0
    MAX_LOST: int | None = 0
    MAX_CRASHES: int | None = 0
    ONLY_IF_ABSENT: bool = True  # False: a write replaces the value


LIMITS = {**dict.fromkeys(("UPDATES", "MAX_PENDING", "MAX_LOST", "MAX_CRASHES"), MANY), "WRITERS": MANY[1:]}
Update = tuple[int, ...]  # (writer, zero-based index of its update); () for none


class Shared(NamedTuple):
    value: Update
    pool: tuple[Update, ...]  # requests in flight whose clients no longer wait, sorted
    lost: int
    crashes: int
    acked: frozenset[Update]  # ghost: updates that a caller was told are stored


class Writer(NamedTuple):
    pc: str = "Idle"  # Idle, Created
    k: int = 0  # zero-based index of its current update


def is_free(c: Constants, s: Shared) -> bool:
    return not s.value or not c.ONLY_IF_ABSENT


def create(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    if w.pc == "Idle" and below(w.k, c.UPDATES) and is_free(c, s):
        yield (), s._replace(value=(me, w.k)), w._replace(pc="Created")


def create_conflict(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    if w.pc == "Idle" and below(w.k, c.UPDATES) and not is_free(c, s):
        yield (), s, w


def acknowledge(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    if w.pc == "Created":
        yield (), s._replace(acked=s.acked | {(me, w.k)}), Writer(k=w.k + 1)


def send_create(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """The writer stops waiting for a request in flight."""
    if w.pc == "Idle" and below(w.k, c.UPDATES) and below(len(s.pool), c.MAX_PENDING):
        yield (), pooled(s, (me, w.k)), Writer(k=w.k + 1)


def lose_reply(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    if w.pc == "Created" and below(s.lost, c.MAX_LOST):
        yield (), reply_lost(c, s), Writer(k=w.k + 1)


def crash(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    if w.pc == "Created" and below(s.crashes, c.MAX_CRASHES):
        yield (), crashed(c, s), Writer(k=w.k + 1)


def apply_pending(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    for request, after in in_pool(s):
        yield (request,), after._replace(value=request) if is_free(c, s) else after, ()


def one_is_acked(c: Constants, s: Shared) -> bool:
    """At most one update is acknowledged."""
    return len(s.acked) <= 1


def acked_is_stored(c: Constants, s: Shared) -> bool:
    """The acknowledged update is the value."""
    return s.acked <= {s.value}


def someone_wins(c: Constants, s: Shared) -> bool:
    return bool(s.acked)


def unacked_is_stored(c: Constants, s: Shared) -> bool:
    return bool(s.value) and s.value not in s.acked


WRITER = {"Create": create, "CreateConflict": create_conflict, "Acknowledge": acknowledge, "SendCreate": send_create,
          "LoseReply": lose_reply, "Crash": crash}
ALWAYS = {"OneIsAcked": (None, one_is_acked), "AckedIsStored": (None, acked_is_stored)}
SOMETIMES = {"SomeoneWins": (None, someone_wins), "UnackedIsStored": (None, unacked_is_stored)}


def model(c: Constants) -> Model:
    processes = (*clients(("Writer", c.WRITERS, Writer(), WRITER)), store({"ApplyPending": apply_pending}))
    return Model("register", c, Shared((), (), 0, 0, frozenset()), processes, ALWAYS, SOMETIMES)

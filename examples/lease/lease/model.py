"""Safety: the holders' writes do not mix. Once a holder has written, no write of an earlier holder is applied. Each
acknowledged write is in the guarded object.

One object is the lock, another holds the data that the lock guards. A client takes the lock by a conditional PUT, then appends
to the data by a conditional PUT that carries its fencing token. The token is the number of the lock's write that the client
made, so a later holder has a greater one.

A model has no clock. A lease that has expired is one that another client takes over, so TakeOver is possible at any time.
"""

from collections.abc import Iterator
from typing import NamedTuple

from highwater import Model
from highwater.model.parts import MANY, below, clients, crashed, in_pool, pooled, reply_lost, store

NOBODY = -1


class Constants(NamedTuple):
    """The size of an instance, its faults and its safeguards. None for a bound means unbounded."""

    CLIENTS: int = 2
    UPDATES: int | None = 1  # updates that a client begins
    LOCKS: int | None = 3  # writes of the lock, in all
    # Faults, each bounded
    MAX_PENDING: int | None = 0  # requests in flight whose clients no longer wait
    MAX_LOST: int | None = 0  # responses lost
    MAX_CRASHES: int | None = 0
    # Safeguards: switch one off and a property must fail
    FENCED: bool = True  # a client that finds a greater token in the data does not write
    CONDITIONAL: bool = True  # the data is put If-Match the version that was read
    LOCK_CONDITIONAL: bool = True  # the lock, too
    # An assumption. "perfect": a client knows at each moment whether its lease has expired
    CLOCKS: str = "any"


LIMITS = {  # the values that an instance may have
    **dict.fromkeys(("UPDATES", "LOCKS", "MAX_PENDING", "MAX_LOST", "MAX_CRASHES"), MANY),
    "CLIENTS": MANY[1:],
    "CLOCKS": ("any", "perfect"),
}

Entry = tuple[int, int, int]  # (token, client, zero-based index of its update)


class Shared(NamedTuple):
    number: int = 0  # of the lock's latest write; 0: there is no lock
    owner: int = NOBODY
    data: tuple[Entry, ...] = ()
    pool: tuple[tuple, ...] = ()  # requests in flight: ("Lock", number, owner) or ("Data", content)
    lost: int = 0  # faults so far
    crashes: int = 0
    # ghosts: no client can see them
    granted: frozenset[tuple[int, int]] = frozenset()  # (token, client)
    acked: frozenset[tuple[int, int]] = frozenset()  # (client, update) reported as committed


class Client(NamedTuple):
    pc: str = "Idle"  # Idle, Looked, Held, Ready, Written, Fenced
    token: int = 0  # the number of the lock's write that it saw (Looked) or made
    base: tuple[Entry, ...] = ()  # the data that it read
    k: int = 0  # zero-based index of its current update


def holds(c: Constants, s: Shared, w: Client, *pcs: str) -> bool:
    """Tell whether the client is in one of these states and believes that its lease has not expired."""
    return w.pc in pcs and (c.CLOCKS == "any" or s.number == w.token)


# --- the lock -----------------------------------------------------------------------------------------------------------

def read_lock(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    """GET the lock. A client that held it has forgotten its lease, or does not trust it any more."""
    if w.pc != "Written" and below(w.k, c.UPDATES):
        yield (), s, Client("Looked", s.number, k=w.k)


def locks(c: Constants, s: Shared, w: Client) -> bool:
    """Tell whether a PUT of the lock would be applied: nobody has written it since the client read or wrote it."""
    return below(w.token, c.LOCKS) and (not c.LOCK_CONDITIONAL or s.number == w.token)


def granted(me: int, s: Shared, w: Client) -> tuple[Shared, Client]:
    token = w.token + 1
    return s._replace(number=token, owner=me, granted=s.granted | {(token, me)}), Client("Held", token, k=w.k)


def acquire(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    """PUT the lock: create it, or replace one that was released."""
    if w.pc == "Looked" and locks(c, s, w) and s.owner == NOBODY:
        yield (), *granted(me, s, w)


def take_over(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    """PUT the lock that somebody holds. Its lease has expired, by the clock of this client."""
    if w.pc == "Looked" and locks(c, s, w) and s.owner != NOBODY:
        yield (), *granted(me, s, w)


def renew(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    """PUT the lock again. The holder gets a greater token."""
    if holds(c, s, w, "Held", "Ready") and locks(c, s, w):
        yield (), *granted(me, s, w)


def release(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    if holds(c, s, w, "Held", "Ready") and locks(c, s, w):
        yield (), s._replace(number=w.token + 1, owner=NOBODY), Client(k=w.k)


def lock_conflict(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    """The condition of a PUT of the lock fails, because another client was faster."""
    if w.pc in ("Looked", "Held", "Ready") and c.LOCK_CONDITIONAL and s.number != w.token:
        yield (), s, Client(k=w.k)


# --- the data -----------------------------------------------------------------------------------------------------------

def outdated(s: Shared, w: Client) -> bool:
    """Tell whether the data holds a greater token than the client's."""
    return bool(s.data) and s.data[-1][0] > w.token


def read_data(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    if holds(c, s, w, "Held", "Ready") and below(w.k, c.UPDATES) and not (c.FENCED and outdated(s, w)):
        yield (), s, w._replace(pc="Ready", base=s.data)


def fenced(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    """GET the data: a later holder has written, so this client has lost its lease."""
    if holds(c, s, w, "Held", "Ready") and c.FENCED and outdated(s, w):
        yield (), s, Client("Fenced", k=w.k)


def content(me: int, w: Client) -> tuple[Entry, ...]:
    """The data with the client's update."""
    return (*w.base, (w.token, me, w.k))


def append(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    if holds(c, s, w, "Ready") and (not c.CONDITIONAL or s.data == w.base):
        yield (), s._replace(data=content(me, w)), w._replace(pc="Written")


def append_conflict(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    if holds(c, s, w, "Ready") and c.CONDITIONAL and s.data != w.base:
        yield (), s, w._replace(pc="Held", base=())


def acknowledge(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    """The response arrives, and the client reports its update as committed."""
    if w.pc == "Written":
        yield (), s._replace(acked=s.acked | {(me, w.k)}), next_update(w)


def next_update(w: Client) -> Client:
    return w._replace(pc="Held", base=(), k=w.k + 1)


def give_up(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    """Leave an update that was not applied, and begin the next."""
    if w.pc == "Held" and below(w.k, c.UPDATES):
        yield (), s, next_update(w)


# --- faults -------------------------------------------------------------------------------------------------------------

def send_lock(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    """The client stops waiting for a PUT of the lock in flight, and looks again. The PUT may be applied later, or never."""
    if below(len(s.pool), c.MAX_PENDING) and below(w.token, c.LOCKS):
        for owner in {"Looked": (me,), "Held": (me, NOBODY), "Ready": (me, NOBODY)}.get(w.pc, ()):
            yield (owner,), pooled(s, ("Lock", w.token + 1, owner)), Client(k=w.k)


def send_data(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    """The client stops waiting for a PUT of the data in flight. The outcome of its update is unknown to it."""
    if holds(c, s, w, "Ready") and below(len(s.pool), c.MAX_PENDING):
        yield (), pooled(s, ("Data", content(me, w))), next_update(w)


def lose_reply(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    """A PUT was applied, and the client does not know."""
    if w.pc in ("Held", "Written") and below(s.lost, c.MAX_LOST):
        yield (), reply_lost(c, s), next_update(w) if w.pc == "Written" else Client(k=w.k)


def crash(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    """The client starts again, with the next update."""
    if w.pc != "Idle" and below(s.crashes, c.MAX_CRASHES):
        yield (), crashed(c, s), Client(k=w.k + 1)


def apply_pending(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    """A request in flight reaches the store. Its condition is evaluated now."""
    for request, rest in in_pool(s):
        if request[0] == "Lock":
            _, number, owner = request
            met = not c.LOCK_CONDITIONAL or s.number == number - 1
            yield (request,), rest._replace(number=number, owner=owner) if met else rest, ()
        else:
            _, data = request
            met = not c.CONDITIONAL or s.data == data[:-1]
            yield (request,), rest._replace(data=data) if met else rest, ()


# --- properties ---------------------------------------------------------------------------------------------------------

def token_has_one_holder(c: Constants, s: Shared) -> bool:
    """No two clients are granted the same token."""
    return len({token for token, _ in s.granted}) == len(s.granted)


def holders_do_not_mix(c: Constants, s: Shared) -> bool:
    """The tokens in the data never fall. Once a holder has written, no earlier holder writes."""
    tokens = [token for token, _, _ in s.data]
    return tokens == sorted(tokens)


def acked_is_kept(c: Constants, s: Shared) -> bool:
    """An acknowledged update is in the data."""
    return s.acked <= {(client, k) for _, client, k in s.data}


def two_believe(c: Constants, s: Shared, w: Client) -> bool:
    """A client believes that it holds the lock, and another has it. No lease can exclude this."""
    return holds(c, s, w, "Held", "Ready") and s.number != w.token


def lock_changes_hands(c: Constants, s: Shared) -> bool:
    return len({client for _, client, _ in s.data}) > 1


def holder_is_fenced(c: Constants, s: Shared, w: Client) -> bool:
    return w.pc == "Fenced"


CLIENT = {
    "ReadLock": read_lock, "Acquire": acquire, "TakeOver": take_over, "Renew": renew, "Release": release,
    "LockConflict": lock_conflict, "ReadData": read_data, "Fenced": fenced, "Append": append,
    "AppendConflict": append_conflict, "Acknowledge": acknowledge, "GiveUp": give_up, "SendLock": send_lock,
    "SendData": send_data, "LoseReply": lose_reply, "Crash": crash,
}
STORE = {"ApplyPending": apply_pending}
ALWAYS = {
    "TokenHasOneHolder": (None, token_has_one_holder),
    "HoldersDoNotMix": (None, holders_do_not_mix),
    "AckedIsKept": (None, acked_is_kept),
}
SOMETIMES = {
    "TwoBelieve": ("Client", two_believe),
    "LockChangesHands": (None, lock_changes_hands),
    "HolderIsFenced": ("Client", holder_is_fenced),
}


def model(c: Constants) -> Model:
    return Model("lease", c, Shared(), (*clients(("Client", c.CLIENTS, Client(), CLIENT)), store(STORE)), ALWAYS, SOMETIMES)

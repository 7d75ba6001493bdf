"""Safety: each job is claimed by one client, and the client that was told so is the one. CHANGE: state your own claim.

The claim on job k is an object that is created if it is absent. One action is one request to the store. An action is a
generator: the guard is `if`, a choice is `for`, the effect is `yield choices, shared', local'`.
"""

from collections.abc import Iterator
from typing import NamedTuple

from highwater import Model
from highwater.model.parts import MANY, below, clients, crashed, in_pool, pooled, reply_lost, store, with_file

NOBODY = -1


class Constants(NamedTuple):
    """The size of an instance, its faults and its safeguards. None for a bound means unbounded; the simulation uses that."""

    CLIENTS: int = 2
    JOBS: int | None = 2  # that each client tries to claim
    # Faults, each bounded. They are off by default, so that a counterexample has no more of them than it needs
    MAX_PENDING: int | None = 0  # requests in flight whose clients no longer wait
    MAX_LOST: int | None = 0  # responses lost
    MAX_CRASHES: int | None = 0
    # Safeguards: switch one off and a property must fail
    IF_ABSENT: bool = True  # False: a plain PUT, which overwrites


LIMITS = {  # the values that `--set` accepts
    **dict.fromkeys(("JOBS", "MAX_PENDING", "MAX_LOST", "MAX_CRASHES"), MANY), "CLIENTS": MANY[1:]}


class Shared(NamedTuple):
    """The store, and ghosts: what no client can see, but properties speak of. CHANGE: the objects of your protocol."""

    owners: tuple[int | None, ...] = ()  # owners[k] is the client in the claim on job k; None: there is no object
    pool: tuple[tuple[int, int], ...] = ()  # requests in flight, (client, job), sorted
    lost: int = 0  # faults so far
    crashes: int = 0
    acked: frozenset[tuple[int, int]] = frozenset()  # ghost: (client, job) reported as claimed


class Client(NamedTuple):
    """The knowledge of one client. CHANGE: the variables of your client."""

    pc: str = "Idle"  # Idle; Created: its PUT was applied, and the response is under way
    k: int = 0  # the job that it claims


def owner(s: Shared, k: int) -> int | None:
    return s.owners[k] if k < len(s.owners) else None


def created(s: Shared, client: int, k: int) -> Shared:
    return s._replace(owners=with_file(s.owners, k + 1, client))


# --- a client: PUT If-None-Match ----------------------------------------------------------------------------------------

def create(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    if w.pc == "Idle" and below(w.k, c.JOBS) and (owner(s, w.k) is None or not c.IF_ABSENT):
        yield (), created(s, me, w.k), w._replace(pc="Created")


def create_conflict(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    """The job is claimed already. The outcome shows in a trace, so it is an action of its own."""
    if w.pc == "Idle" and below(w.k, c.JOBS) and owner(s, w.k) is not None and c.IF_ABSENT:
        yield (), s, Client(k=w.k + 1)


def acknowledge(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    """The response arrives, and the caller is told."""
    if w.pc == "Created":
        yield (), s._replace(acked=s.acked | {(me, w.k)}), Client(k=w.k + 1)


# --- faults -------------------------------------------------------------------------------------------------------------

def send_create(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    """The client stops waiting for a PUT in flight. It may be applied at any later time, or never."""
    if w.pc == "Idle" and below(w.k, c.JOBS) and below(len(s.pool), c.MAX_PENDING):
        yield (), pooled(s, (me, w.k)), Client(k=w.k + 1)


def lose_reply(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    """The PUT was applied, and the client does not know."""
    if w.pc == "Created" and below(s.lost, c.MAX_LOST):
        yield (), reply_lost(c, s), Client(k=w.k + 1)


def crash(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    """The client forgets everything. It starts again, with its next job if it had begun this one."""
    if below(w.k, c.JOBS) and below(s.crashes, c.MAX_CRASHES):
        for had_begun in (False, True) if w.pc == "Idle" else (True,):
            yield (had_begun,), crashed(c, s), Client(k=w.k + had_begun)


def apply_pending(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    """A request in flight reaches the store. Its condition is evaluated now."""
    for request, rest in in_pool(s):
        client, k = request
        yield (request,), created(rest, client, k) if owner(s, k) is None or not c.IF_ABSENT else rest, ()


# --- properties: `always` in every state, `sometimes` in at least one -----------------------------------------------------

def claim_is_kept(c: Constants, s: Shared) -> bool:
    """A client that was told that it has the job has it."""
    return all(owner(s, k) == client for client, k in s.acked)


def all_jobs_are_claimed(c: Constants, s: Shared) -> bool:
    return len(s.acked) == c.JOBS


def claim_is_unknown(c: Constants, s: Shared) -> bool:
    """A job is claimed by a client that was not told so."""
    return any((client, k) not in s.acked for k, client in enumerate(s.owners) if client is not None)


CLIENT = {"Create": create, "CreateConflict": create_conflict, "Acknowledge": acknowledge, "SendCreate": send_create,
          "LoseReply": lose_reply, "Crash": crash}
STORE = {"ApplyPending": apply_pending}
ALWAYS = {"ClaimIsKept": (None, claim_is_kept)}
SOMETIMES = {"AllJobsAreClaimed": (None, all_jobs_are_claimed), "ClaimIsUnknown": (None, claim_is_unknown)}


def model(c: Constants) -> Model:
    return Model("NAME", c, Shared(), (*clients(("Client", c.CLIENTS, Client(), CLIENT)), store(STORE)), ALWAYS, SOMETIMES)

"""Define what else may hold of a damaged trace of dead letters.

A sweeper may leave a letter at any time without a request: its node may not lead. A compactor knows nothing of its last
request.
"""

from highwater.traces.damage.clients import OF_ALL
from highwater.traces.damage.knowledge import Knowledge
from highwater.traces.damage.possible import OF_RESPONSES, passed
from highwater.traces.damage.responses import EARLY
from highwater.traces.damage.survivors import ENDS, Survivor, of_client, same_but, there, write
from highwater.traces.event import EMPTY, Event
from highwater.traces.protocols.dlq_recovery import INDEX, QUEUE, WRITER


def has_no_effect(e: Event) -> bool:
    """Return whether a request without a reply never reaches the store."""
    return e.kind in ("timeout", "crash") and not e.pending


def of_a_sweep(e: Event) -> bool:
    return not e.client.startswith("Writer")


def left(s: Survivor) -> bool:
    """Return whether a sweeper or compactor sends one request less, or another one does, that has no effect."""
    return of_a_sweep(s.before) and has_no_effect(s.before) and (s.damage.kind == "drop" or same_but(s, "client", "awaited"))


def compactor_ends(s: Survivor) -> bool:
    """Return whether a compactor crashes in place of a time-out, or the other way round, or does neither."""
    otherwise = same_but(s, "kind") and {s.before.kind, s.after.kind} == {"timeout", "crash"}
    neither = s.damage.kind == "drop" and s.before.kind == "crash" and not s.before.pending
    return s.before.client.startswith("Compactor") and (otherwise or neither)


def task_ends(s: Survivor) -> bool:
    """Return whether a task crashes in place of a time-out, or the other way round, and begins with a letter again."""
    after = next(of_client(s.before, s.rest), None)
    return "/" in s.before.client and same_but(s, "kind") and {s.before.kind, s.after.kind} == {"timeout", "crash"} and (
        after is None or (after.op == "get" and after.key.startswith(QUEUE)))


def deletes_nothing(s: Survivor) -> bool:
    """Return whether a delete does not arrive, and the letter was gone before."""
    e = s.before
    return (s.damage.kind, e.kind, e.op, e.awaited) == ("drop", "applied", "delete", False) and not there(
        e.key, s.good[:s.damage.at])


def asks_in_vain(s: Survivor) -> bool:
    """Return whether another client asks for a letter that is gone."""
    return same_but(s, "client") and (s.before.op, s.before.status) == ("get", 404)


def the_writer_adds(s: Survivor) -> bool:
    """Return whether a block is added by its writer in place of a sweeper, which leaves the letter."""
    return same_but(s, "client") and (s.before.kind, s.before.key) == ("applied", INDEX) and (
        "/letters " in s.before.client and s.after.client == WRITER)


def cancelled_later(s: Survivor) -> bool:
    """Return whether a writer's call was cancelled before or after the store's answer, or one was lost that changed nothing."""
    e, after = s.before, next(of_client(s.before, s.rest), EMPTY)
    if same_but(s, "awaited"):
        return (e.client, e.kind) == (WRITER, "timeout") and (after.op == "unknown" or after.key == e.key)
    return s.damage.kind == "drop" and e.kind == "applied" and not write(e) and (after.kind, after.request) == (
        "timeout", e.request)


def left_unread(s: Survivor) -> bool:
    """Return whether a sweeper does not read a letter, and it did nothing with that letter."""
    e = s.before
    if (s.damage.kind, e.kind, e.op) != ("drop", "applied", "get") or not of_a_sweep(e):
        return False
    after = next(of_client(e, s.rest), None)
    return after is None or after.op == "get"


def another_sweep(s: Survivor) -> bool:
    """Return whether another sweeper is told that its sweep has ended, which has listed all letters as well."""
    return same_but(s, "client") and s.before.kind == "told" and of_a_sweep(s.before) and of_a_sweep(s.after)


def left_later(s: Survivor) -> bool:
    """Return whether a sweep is said to have ended before its tasks stop waiting for requests."""
    own = passed(s) if s.damage.kind == EARLY else []
    return bool(own) and all(of_a_sweep(e) and e.kind in ENDS for e in own)


KNOWLEDGE = Knowledge(held=8, responses={**OF_RESPONSES, "left later": (
    "a sweeper may leave a letter at any time, before a task stops waiting for it or after", left_later)}, equivalences={
    **OF_ALL,
    "left": ("a sweeper may leave a letter at any time, and a request that never arrives changes nothing", left),
    "left unread": ("a sweeper may leave a letter at any time, and it did nothing with this one", left_unread),
    "deletes nothing": ("the delete comes after another one, or never", deletes_nothing),
    "task ends": ("a time-out and a crash are the same to a task that begins with a letter again", task_ends),
    "asks in vain": ("the letter is gone, and anybody may ask for it", asks_in_vain),
    "the writer adds": ("the writer may add its block again, and a sweeper may leave a letter", the_writer_adds),
    "cancelled later": ("the call was cancelled before or after an answer of which its caller is not told", cancelled_later),
    "another sweep": ("the other sweeper has listed all letters, too", another_sweep),
    "compactor ends": ("a time-out and a crash are the same to a compactor, which begins anew", compactor_ends),
})

"""Define what else may hold of a damaged trace of an index's retention.

Writers and the worker have no state in the model: they may do at any time what they do, and are told nothing. A cleaner begins
anew with a term.
"""

from collections.abc import Iterator
from itertools import takewhile

from highwater.traces.damage.clients import OF_ALL
from highwater.traces.damage.knowledge import Knowledge
from highwater.traces.damage.possible import OF_RESPONSES, response
from highwater.traces.damage.responses import ANOTHER
from highwater.traces.damage.survivors import (
    ENDS,
    Equivalences,
    Survivor,
    arrival,
    exchanged,
    independent,
    of_client,
    same_but,
    write,
)
from highwater.traces.event import EMPTY, Event
from highwater.traces.protocols.index_retention import INDEX, LEAD, READ
from highwater.traces.protocols.index_retention_calls import NO_LEADER


def is_free(e: Event) -> bool:
    return e.client.startswith("W")


def changes_nothing(e: Event) -> bool:
    return (e.kind in ENDS and not e.pending) or (e.kind == "applied" and (e.op, e.status) in (
        ("create", 412), ("list", 200)))


def next_of(s: Survivor) -> Iterator[Event]:
    """Yield what the client does next, or nothing."""
    yield from [*of_client(s.before, s.rest)][:1]


def last_entry(s: Survivor) -> bool:
    """Return whether the last entry of all is left out, which is a writer's or the worker's."""
    return s.damage.kind == "drop" and is_free(s.before) and s.before.key == INDEX and not any(
        (o.kind, o.key) == ("applied", INDEX) for o in s.rest)


def another_writer(s: Survivor) -> bool:
    """Return whether another writer does the same."""
    return same_but(s, "client") and is_free(s.before) and is_free(s.after)


def in_vain(s: Survivor) -> bool:
    """Return whether a writer or the worker sends a request more or less that changes nothing."""
    return is_free(s.before) and changes_nothing(s.before) and (
        s.damage.kind in ("drop", "repeat") or s.damage.kind.startswith("swap") or same_but(s, "awaited", "client"))


def not_needed(s: Survivor) -> bool:
    """Return whether a writer or the worker leaves out an object that nobody lists or deletes, and that is not added either, or
    was written before."""
    e = s.before
    if s.damage.kind != "drop" or e.op != "create" or not is_free(e) or not write(e):
        return False
    others = [o for o in s.rest if (o.client, o.request) != (e.client, e.request)]
    if any(e.key in (o.key, *o.keys) for o in others):
        return False
    ulid = e.key.split("/")[3].encode()
    return not any(ulid in o.body for o in others) or any(write(o) == e.key for o in s.good[:s.damage.at])


def is_anew(e: Event) -> bool:
    """Return whether a client begins anew with this event."""
    return e.kind == "crash" or e.key == LEAD


def begins_anew(s: Survivor) -> bool:
    """Return whether the client makes no use of what it knew: it is a writer or the worker, or begins anew."""
    return is_free(s.before) or all(map(is_anew, next_of(s)))


def ends(s: Survivor) -> bool:
    """Return whether a client that begins anew crashes in place of a time-out, or the other way round, or does neither."""
    otherwise = same_but(s, "kind") and {s.before.kind, s.after.kind} == {"timeout", "crash"}
    neither = s.damage.kind == "drop" and s.before.kind == "crash" and not s.before.pending
    return (otherwise or neither) and begins_anew(s)


def heard_of_its_term(s: Survivor) -> bool:
    """Return whether a cleaner had the answer that a term begins, or had it not, and proposes nothing in that term."""
    e = s.before
    if (e.kind, e.key) != ("timeout", LEAD) or not (s.damage.kind == "drop" or same_but(s, "awaited")):
        return False
    return not any(o.key == INDEX for o in takewhile(lambda o: not is_anew(o), of_client(e, s.rest)))


def cancelled_later(s: Survivor) -> bool:
    """Return whether a cleaner's call was cancelled before or after an answer, and its caller is told only that."""
    after = next(of_client(s.before, s.rest), EMPTY)
    return s.before.key in (READ, INDEX) and same_but(s, "awaited") and s.before.kind == "timeout" and after.op == "not cleaned"


def another_is_told(s: Survivor) -> bool:
    """Return whether the response belongs to another cleaner, or to both, and is true of the last request of the other one."""
    if s.before.kind != "told" or not (same_but(s, "client") or s.damage.kind == ANOTHER):
        return False
    last = next(of_client(response(s), reversed(s.good[:s.damage.at])), EMPTY)
    return (last.kind, last.key) == ("applied", READ) if s.before.op == "cleaned" else last.kind in ENDS


def another_leads(s: Survivor) -> bool:
    """Return whether another node begins a term of which nobody makes use."""
    return s.before.key == LEAD and same_but(s, "client")


def another_reads(s: Survivor) -> bool:
    """Return whether another cleaner reads the units, and the own one has no use for the answer: it is lost, or it begins
    anew. If it is lost, the read may be lost on its way, too."""
    if s.damage.kind == "drop" and (s.before.kind, s.before.key) == ("applied", READ):
        return any((o.kind, o.request) == ("timeout", s.before.request) for o in next_of(s))
    return s.before.key == READ and same_but(s, "client") and all(
        is_anew(o) or (o.kind, o.request) == ("timeout", s.before.request) for o in next_of(s))


def told_of_the_next(s: Survivor) -> bool:
    """Return whether a caller is told nothing of a read, and that of a later call, which has read the same, is told."""
    if not s.damage.kind.startswith("swap") or s.before.op != "cleaned":
        return False
    between = [o for o in s.good[s.damage.at + 1:s.damage.to + 1] if o.client == s.before.client]
    reads = [o for o in between if o.key == READ]
    return bool(reads) and all(o.kind == "applied" if o.key in (READ, LEAD) else o.keys == s.before.keys for o in between)


def no_entry(one: Event, two: Event) -> bool:
    """Return whether two clients propose an entry, and no leader takes one of them."""
    return one.client != two.client and one.key == two.key == INDEX and any(
        e.kind == "applied" and e.version.startswith(NO_LEADER) for e in (one, two))


def not_taken(s: Survivor) -> bool:
    """Return whether events that do not depend on each other change places because no leader takes one; or whether such
    a command never arrives."""
    if s.damage.kind == "drop":
        return (arrival(s.before) or is_free(s.before)) and s.before.version.startswith(NO_LEADER)
    return s.damage.kind.startswith("swap") and all(independent(*pair) or no_entry(*pair) for pair in exchanged(s))


ANOTHER_IS_TOLD: Equivalences = {
    "another is told": ("the call of the other cleaner may have ended so", another_is_told),
}
KNOWLEDGE = Knowledge(held=8, responses={**OF_RESPONSES, **ANOTHER_IS_TOLD}, equivalences={
    **OF_ALL,
    "another writer": ("any writer may write and add any block", another_writer),
    "in vain": ("the worker and writers may ask for what changes nothing, or not", in_vain),
    "not needed": ("nobody lists or deletes the object, and it was written before or is not added", not_needed),
    "last entry": ("no entry follows that shows whether it is there", last_entry),
    "another leads": ("nobody makes use of the term, so any node may have begun it", another_leads),
    "another reads": ("its own cleaner has no use for the answer, and any cleaner may read the units, or none", another_reads),
    "told of the next": ("calls in a row read the same, and one caller less is told", told_of_the_next),
    "not taken": ("no leader takes the command, which may come before another client's entry, after it, or never", not_taken),
    "heard of its term": ("a cleaner may know of its term or not, because it proposes nothing in it", heard_of_its_term),
    "cancelled later": ("the call was cancelled before or after an answer of which its caller is not told", cancelled_later),
    **ANOTHER_IS_TOLD,
    "ends": ("a time-out and a crash are the same to who begins anew", ends),
})

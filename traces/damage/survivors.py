"""Safety: a survivor is explained only if clients and a store could have produced the damaged trace as well.

A survivor is a damaged trace that the checker accepts. Each equivalence here is a predicate of the good and the damaged
trace. It holds for every protocol: it looks at requests and responses only. What the clients of one protocol may do is in
traces/damage/protocols/STEM.py.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from highwater.traces.damage.damage import Damage
from highwater.traces.damage.responses import Roles
from highwater.traces.event import Event
from highwater.traces.form import MUTATIONS, PUTS, READS

ENDS = ("refused", "timeout", "crash")


class Clients(NamedTuple):
    """Knowledge of what clients of one protocol may do.

    `begins`: the requests with which a client begins anew, whatever it knows. `free`: roles without a state of their own in the
    model, which judges them by what they write. `opaque`: the prefixes of data objects, whose content means nothing to the
    protocol."""

    begins: tuple[str, ...] = ("list",)
    free: tuple[str, ...] = ()
    opaque: tuple[str, ...] = ()


def nothing(e: Event) -> Any:
    """Return no meaning: two contents are the same only if their bytes are."""


def no_roles() -> Roles:
    """Return no roles: nothing is known but what the trace itself shows."""
    return {}


class Survivor(NamedTuple):
    good: list[Event]
    damage: Damage
    where: Any  # the protocol's keys: an impl.layout.Namespace, or traces.form.Keys
    locals: dict[str, Any]  # the local state of each client before the event, in the good trace
    clients: Clients = Clients()
    meaning: Callable[[Event], Any] = nothing  # of the content that is put: the updates in it
    roles: Callable[[], Roles] = no_roles  # the responses that each role of the protocol receives

    def is_free(self, e: Event) -> bool:
        return e.client.partition("#")[0] in self.clients.free

    @property
    def before(self) -> Event:
        return self.good[self.damage.at]

    @property
    def after(self) -> Event:
        return self.damage.events[self.damage.at]

    @property
    def rest(self) -> list[Event]:
        """Return the events of the good trace after the damaged one."""
        return self.good[self.damage.at + 1:]


Equivalences = dict[str, tuple[str, Callable[[Survivor], bool]]]  # name -> (explanation, does it explain this survivor)


def explained(survivor: Survivor, equivalences: Equivalences) -> str:
    """Return the name of the first equivalence that explains the survivor, or ""."""
    return next((name for name, (_, holds) in equivalences.items() if holds(survivor)), "")


# --- questions about events

def arrival(e: Event) -> bool:
    return e.kind == "applied" and not e.awaited


def lost(e: Event, events: Iterable[Event]) -> bool:
    """Return whether this request was never applied."""
    return e.kind in ENDS and not any(o.kind == "applied" and (o.client, o.request) == (e.client, e.request) for o in events)


def write(e: Event) -> str:
    """Return the key of the object that the event changes, or ""."""
    return e.key if e.kind == "applied" and e.op in MUTATIONS and e.status < 300 else ""


def looks(e: Event, key: str) -> bool:
    """Return whether the event reads or changes the object at this key."""
    if e.kind != "applied" or (arrival(e) and e.op in READS):
        return False
    if e.op == "list" and not e.keys:
        return not e.truncated and key.startswith(e.key)
    if e.op == "list":
        return key.startswith(e.key) and e.condition < key and not (e.truncated and key > e.keys[-1])
    return e.key == key


def independent(one: Event, two: Event) -> bool:
    """Return whether two events of different clients do not see each other's writes. An arrival is independent of its client's
    other events, because the client has gone on without it."""
    apart = one.client != two.client or (
        (arrival(one) or arrival(two)) and (one.request != two.request or not (one.pending or two.pending)))
    if one._replace(t_ms=0) == two._replace(t_ms=0):
        return True
    if apart and one.key == two.key and {one.op, two.op} <= {"delete", "head"}:
        return True  # the object is gone in either order
    if apart and one.key == two.key and {one.op, two.op} == {"create", "update"} and not any(
            o.op == "create" and write(o) for o in (one, two)):
        return True  # the object is there in either order
    return apart and not (write(one) and looks(two, write(one))) and not (write(two) and looks(one, write(two)))


def of_client(e: Event, events: Iterable[Event]) -> Iterator[Event]:
    """Yield the events of the event's client, without its arrivals."""
    return (o for o in events if o.client == e.client and not arrival(o))


def there(key: str, events: Iterable[Event]) -> bool:
    """Return whether an object of this key exists after these events. The first file exists from the beginning."""
    last = next((e for e in reversed(list(events)) if write(e) == key), None)
    return last is None or last.op != "delete"


def unread(key: str, rest: Iterable[Event]) -> bool:
    """Return whether nobody reads the current content of this object later."""
    e = next((e for e in rest if (e.status == 200 or write(e)) and e.op != "list" and looks(e, key)), None)
    return e is None or bool(write(e))


def unseen(key: str, rest: Iterable[Event]) -> bool:
    """Return whether nobody reads this object any more before it is deleted."""
    e = next((e for e in rest if looks(e, key)), None)
    return e is None or e.op == "delete"


# --- equivalences

def same_but(s: Survivor, *fields: str) -> bool:
    """Return whether the damage is an edit of one of these fields."""
    return s.damage.kind == "edit" and s.damage.field in fields


def nobody_waits(s: Survivor) -> bool:
    return same_but(s, "status", "keys", "truncated", "body", "version") and \
        all(arrival(e) and e.op in READS for e in (s.before, s.after))


def never_applied(s: Survivor) -> bool:
    return same_but(s, "op", "key", "condition", "body") and lost(s.before, s.good) and not (
        s.before.pending and s.before.op in MUTATIONS)


def commute(s: Survivor) -> bool:
    return s.damage.kind.startswith("swap") and all(independent(*pair) for pair in exchanged(s))


def exchanged(s: Survivor) -> Iterator[tuple[Event, Event]]:
    """Yield the pairs of events whose order differs. A delete of a missing object counts as a read (head)."""
    one, *between, two = [e._replace(op="head") if write(e) and e.op == "delete" and not there(e.key, s.good[:i]) else e
                          for i, e in enumerate(s.good[:s.damage.to + 1])][s.damage.at:]
    yield one, two
    for e in between:
        yield one, e
        yield e, two


def number_is_a_name(s: Survivor) -> bool:
    if not same_but(s, "request") or not s.after.request:
        return False
    asked = s.after.client, s.after.request, s.after.op, s.after.key, s.after.condition
    if s.before.kind in ENDS and any((e.kind == "applied" or s.before.kind == "crash") and (
            e.client, e.request, e.op, e.key, e.condition) == asked for e in s.good[:s.damage.at]):
        return True  # the reply to an earlier request is lost, not to this one; or its client crashes after that
    numbers = [e.request for e in of_client(s.before, s.damage.events) if e.request]
    others = [e for e in s.good if e is not s.before and e.client == s.before.client and e.request]
    return sorted(numbers) == numbers and s.after.request not in [e.request for e in others]


def between_its_neighbours(s: Survivor) -> bool:
    around = s.damage.events[max(s.damage.at - 1, 0):s.damage.at + 2]
    return same_but(s, "t_ms") and all(one.t_ms <= two.t_ms for one, two in pairwise(around))


def never_written(s: Survivor) -> bool:
    return same_but(s, "body") and s.before.kind == "applied" and s.before.op in PUTS and s.before.status != 200


def gone_either_way(s: Survivor) -> bool:
    there = None
    for e in s.good[:s.damage.at]:
        there = e.op != "delete" if write(e) == s.before.key else there
    return same_but(s, "status") and (s.before.op, s.after.op) == ("delete", "delete") and there is False


def not_applied_either_way(s: Survivor) -> bool:
    """Return whether only status or kind differs, of a request that the store answered without applying it."""
    if not same_but(s, "status", "kind") or not {s.before.kind, s.after.kind} <= {"applied", "refused"}:
        return False
    return min(s.before.status, s.after.status) >= 300 and (s.before.op in PUTS or s.before.kind == s.after.kind == "refused")


def dead_is_dead(s: Survivor) -> bool:
    return s.damage.kind == "duplicate" and s.before.kind == "crash" and not s.before.pending


def claims_less(s: Survivor) -> bool:
    return s.before.kind == "told" and (s.damage.kind == "drop" or (same_but(s, "op") and s.after.op == "unknown"))


def never_arrives(s: Survivor) -> bool:
    return same_but(s, "pending") and (s.after.pending or s.before.op in READS) and lost(s.before, s.good) and not any(
        arrival(e) and (e.client, e.request) == (s.before.client, s.before.request) for e in s.good)


def never_shown_again(s: Survivor) -> bool:
    others = [e for e in (s.rest if s.before.op in PUTS else s.good) if e is not s.before and e.key == s.before.key and not (
        (arrival(e) and e.op in READS) or (lost(e, s.good) and not e.pending))]
    if s.before.op in PUTS:  # the next put gives a version of its own, which may be the same
        at = next((i for i, e in enumerate(others) if write(e)), len(others))
        others = [*others[:at], *(e._replace(version="") for e in others[at:at + 1])]
    return same_but(s, "version") and not any(s.before.version in (e.version, e.condition) for e in others)


def holds_no_more(s: Survivor) -> bool:
    return same_but(s, "condition") and (s.before.op, s.before.status) in (("get_if_changed", 200), ("update", 412)) and \
        s.after.condition not in ("", s.before.version)


GENERAL: Equivalences = {
    "a number is a name": ("the number is still unique to its client, and the client's numbers still rise", number_is_a_name),
    "between its neighbours": ("the time still lies between those of the neighbouring events", between_its_neighbours),
    "they commute": ("two clients' events, and neither sees the other's write, so the order has no effect", commute),
    "nobody waits": ("the client no longer waits for this response to a read, so nobody sees it", nobody_waits),
    "never applied": ("the edited request was lost before it reached the store", never_applied),
    "never arrives": ("a pending request that is never applied is the same as a lost one", never_arrives),
    "not applied either way": ("another store reports the same failed condition or refusal by this status",
                               not_applied_either_way),
    "dead is dead": ("a crashed client may crash again before its next request", dead_is_dead),
    "claims less": ("a caller received no result, or an indeterminate one", claims_less),
    "never written": ("the put was refused, so no object has its content", never_written),
    "never shown again": ("no other response or condition names this version", never_shown_again),
    "condition of no effect": ("the condition names another version that does not match either", holds_no_more),
    "gone either way": ("204 and 404 mean the same for an object that did not exist", gone_either_way),
}

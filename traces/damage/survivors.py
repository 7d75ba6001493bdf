"""Safety: a damaged trace that the checker lets pass is one that clients and a store may leave as well; else the checker is
broken.

Each equivalence says so of some survivors, and is a predicate of the two traces: it looks at the events, and of the model
only at what a client knew before (`Survivor.knew`), not at what the checker did with the damage.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from highwater.impl.codecs.json import manifest as manifest_json
from highwater.impl.layout import Namespace
from highwater.traces.damage.damage import Damage
from highwater.traces.event import Event
from highwater.traces.form import MUTATIONS, PUTS, READS

ENDS = ("refused", "timeout", "crash")


class Survivor(NamedTuple):
    good: list[Event]
    damage: Damage
    where: Namespace
    locals: dict[str, Any]  # what each of the model's clients knew before the event, in the good trace

    @property
    def before(self) -> Event:
        return self.good[self.damage.at]

    @property
    def after(self) -> Event:
        return self.damage.events[self.damage.at]

    @property
    def rest(self) -> list[Event]:
        """Of the good trace, behind the event."""
        return self.good[self.damage.at + 1:]


def explained(survivor: Survivor) -> str:
    """The name of the first equivalence that it falls under, or ""."""
    return next((name for name, (_, holds) in EQUIVALENCES.items() if holds(survivor)), "")


# --- of events

def arrival(e: Event) -> bool:
    return e.kind == "applied" and not e.awaited


def lost(e: Event, events: Iterable[Event]) -> bool:
    """Whether this request was never applied."""
    return e.kind in ENDS and not any(o.kind == "applied" and (o.client, o.request) == (e.client, e.request) for o in events)


def write(e: Event) -> str:
    """The key of the object that the event changes, or ""."""
    return e.key if e.kind == "applied" and e.op in MUTATIONS and e.status < 300 else ""


def looks(e: Event, key: str) -> bool:
    """Whether what the event shows, or does, has to do with what is at this key."""
    if e.kind != "applied" or (arrival(e) and e.op in READS):
        return False
    if e.op == "list" and not e.keys:
        return not e.truncated and key.startswith(e.key)
    if e.op == "list":
        return key.startswith(e.key) and e.condition < key and not (e.truncated and key > e.keys[-1])
    return e.key == key


def independent(one: Event, two: Event) -> bool:
    """Of different clients (who sent an arrival has gone on without it), and neither sees what the other writes."""
    apart = one.client != two.client or (
        (arrival(one) or arrival(two)) and (one.request != two.request or not (one.pending or two.pending)))
    if one._replace(t_ms=0) == two._replace(t_ms=0):
        return True
    if apart and one.key == two.key and {one.op, two.op} <= {"delete", "head"}:
        return True  # it is gone, whoever comes first
    return apart and not (write(one) and looks(two, write(one))) and not (write(two) and looks(one, write(two)))


def of_client(e: Event, events: Iterable[Event]) -> Iterator[Event]:
    """What this client does and is told; not what arrives of it."""
    return (o for o in events if o.client == e.client and not arrival(o))


def begins_anew(e: Event | None) -> bool:
    """Whether whatever the client knew before counts no longer."""
    return e is None or e.kind == "crash" or (e.op == "list" and e.client.startswith("Collector") and not e.condition)


def forgotten(e: Event, rest: list[Event]) -> bool:
    """Whether its client makes no use of it: it ends there, dies, gives up, or begins anew."""
    for o in of_client(e, rest):
        if (o.kind == "told" and o.op in ("unknown", "failed")) or (o.kind in ENDS and o.op == "delete" and not o.pending):
            continue
        if e.client.startswith("Collector") and not begins_anew(o) and (o.op in READS or (e.op == "get" and o.op in PUTS)):
            continue  # of what it reads nothing comes before it forgets
        return begins_anew(o) or (o.kind in ("timeout", "refused") and (not o.client.startswith("Collector") or o.op == "list"))
    return True


def there(key: str, events: Iterable[Event]) -> bool:
    """Whether there is an object of this key after these events; the first file is there from the beginning."""
    last = next((e for e in reversed(list(events)) if write(e) == key), None)
    return last is None or last.op != "delete"


def unread(key: str, rest: Iterable[Event]) -> bool:
    """Whether nobody learns any more what this object holds now."""
    e = next((e for e in rest if (e.status == 200 or write(e)) and e.op != "list" and looks(e, key)), None)
    return e is None or bool(write(e))


def unseen(key: str, rest: Iterable[Event]) -> bool:
    """Whether nobody looks at this object any more, or not before it is deleted."""
    e = next((e for e in rest if looks(e, key)), None)
    return e is None or e.op == "delete"


def updates(body: bytes) -> frozenset[str]:
    return frozenset(manifest_json.decode(body).updates)


def idle(local: Any) -> bool:
    """Whether a client has nothing to forget."""
    return local is not None and local.pc in ("Idle", "Done")


def superfluous(s: Survivor, e: Event) -> bool:
    """Whether the trace without this event is of a client that did, or had, a little less."""
    if e.op == "delete" and not there(e.key, s.good[:s.damage.at]):
        return not e.pending
    if arrival(e):
        return e.op in READS or not write(e) or unseen(write(e), s.rest)
    own = next(of_client(e, s.rest), None)
    if write(e):
        return unseen(write(e), s.rest) and (e.client.startswith("Collector") or forgotten(e, s.rest))
    if e.kind in ENDS and not (e.pending and e.op in MUTATIONS):
        return idle(s.locals[e.client]) or forgotten(e, s.rest) or e.op == "delete" or (
            own is not None and looks_again(own, s.locals[e.client]))
    local = s.locals[e.client]
    older = begins_anew(e) and local.pc in ("Listed", "Known")  # it may go on from the listing before, too
    asks = e.status == 412 and own is not None and (looks_again(own, local) or own.kind in ENDS)
    return forgotten(e, s.rest) or looks_again(e, local) or nothing_to_collect(e) or older or asks


def looks_again(e: Event, local: Any) -> bool:
    """A collector may ask for the boundary at any time; what it did with the one that it knew it could do as well."""
    return e.client.startswith("Collector") and e.key.endswith(".boundary") and e.op in READS and \
        getattr(local, "pc", "") in ("Listed", "Known")


def nothing_to_collect(e: Event) -> bool:
    return begins_anew(e) and e.op == "list" and len(e.keys) < 2 and not e.truncated


def harmless(s: Survivor, e: Event) -> bool:
    """Whether its client may have done this as well, at this point."""
    local = s.locals.get(e.client)
    if local is None or arrival(e) or (e.pending and e.op in MUTATIONS):
        return False
    if e.kind in ENDS:
        own = next(of_client(e, s.rest), None)
        return idle(local) or forgotten(e, s.rest) or e.op == "delete" or (own is not None and looks_again(own, local))
    return e.kind == "applied" and e.op in READS and (
        begins_anew(e) or looks_again(e, local) or forgotten(e, s.rest))


# --- equivalences

def same_but(s: Survivor, *fields: str) -> bool:
    """An edit of one of these fields."""
    return s.damage.kind == "edit" and s.damage.field in fields


def nobody_waits(s: Survivor) -> bool:
    return same_but(s, "status", "keys", "truncated", "body", "version") and \
        all(arrival(e) and e.op in READS for e in (s.before, s.after))


def never_applied(s: Survivor) -> bool:
    return same_but(s, "op", "key", "condition", "body") and lost(s.before, s.good) and not s.before.pending


def commute(s: Survivor) -> bool:
    return s.damage.kind.startswith("swap") and all(independent(*pair) for pair in exchanged(s))


def exchanged(s: Survivor) -> Iterator[tuple[Event, Event]]:
    """The pairs of events whose order is another. A delete of what is not there only looks (head)."""
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
    if s.before.kind in ENDS and any(e.kind == "applied" and (e.client, e.request, e.op, e.key, e.condition) == asked
                                     for e in s.good[:s.damage.at]):
        return True  # the reply to an earlier request is lost, not to this one
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
    """Status and kind of a request that the store has not applied, and answered."""
    if not same_but(s, "status", "kind") or not {s.before.kind, s.after.kind} <= {"applied", "refused"}:
        return False
    return min(s.before.status, s.after.status) >= 300 and (s.before.op in PUTS or s.before.kind == s.after.kind == "refused")


def dead_is_dead(s: Survivor) -> bool:
    return s.damage.kind == "duplicate" and s.before.kind == "crash" and not s.before.pending


def claims_less(s: Survivor) -> bool:
    return s.before.kind == "told" and (s.damage.kind == "drop" or (same_but(s, "op") and s.after.op == "unknown"))


def told_again(s: Survivor) -> bool:
    return s.damage.kind == "duplicate" and s.before.kind == "told" and s.before.op in ("read", "unknown", "failed")


def true_as_well(s: Survivor) -> bool:
    """`unknown` claims nothing, `failed` that the update is in no file, `refused` that nobody is told it is committed."""
    if s.before.kind != "told" or not same_but(s, "op", "body") or s.after.op not in ("unknown", "failed", "refused"):
        return False
    update = s.after.body.decode()
    earlier = s.good[:s.damage.at]  # an update that was lost before its create, and the next one, have one name
    bodies = [e.body for e in earlier if e.op in PUTS and e.body[:1] == b"{" and (write(e) or e.pending)]
    committed = any(e.op == "committed" and e.body == s.after.body for e in earlier if e.kind == "told")
    return s.after.op == "unknown" or (not committed and (
        s.after.op == "refused" or not any(update in manifest_json.decode(body).updates for body in bodies)))


def told_a_moment_off(s: Survivor) -> bool:
    return s.damage.kind.startswith("swap") and all(independent(*pair) or in_vain(*pair) for pair in exchanged(s))


def in_vain(one: Event, two: Event) -> bool:
    """A caller is told something, and its client has a request lost, or reads, or is refused."""
    e = one if two.kind == "told" else two
    return "told" in (one.kind, two.kind) and not write(e) and (e.kind != "told" or one.body != two.body or one.op == two.op)


def did_less(s: Survivor) -> bool:
    return s.damage.kind == "drop" and superfluous(s, s.before)


def did_more(s: Survivor) -> bool:
    if s.damage.kind != "repeat" or s.before.kind == "told":
        return False
    lost_again = s.before.kind in ENDS and not (s.before.pending and s.before.op in MUTATIONS)
    return lost_again or (s.before.client.startswith("Collector") and (
        begins_anew(s.before) or looks_again(s.before, s.locals[s.before.client])))


def another_did(s: Survivor) -> bool:
    deletes = s.after.op == "delete" and s.after.kind == "applied" and may_delete(s, s.after)
    return same_but(s, "client") and (deletes or (superfluous(s, s.before) and harmless(s, s.after)))


def may_delete(s: Survivor, e: Event) -> bool:
    local, file_id = s.locals.get(e.client), s.where.file_id(e.key)
    return e.client.startswith("Collector") and local is not None and file_id in local.listed and \
        file_id <= local.b and file_id < max(local.listed)


def gave_up_or_died(s: Survivor) -> bool:
    return same_but(s, "kind") and {s.before.kind, s.after.kind} == {"timeout", "crash"} and (
        idle(s.locals[s.before.client]) or s.before.pending or forgotten(s.before, s.rest)
        or s.locals[s.before.client].pc == "Created" or not any(
            e.op == "create" and (write(e) or e.pending) for e in of_client(s.before, s.rest)))


def never_arrives(s: Survivor) -> bool:
    return same_but(s, "pending") and s.after.pending and lost(s.before, s.good) and not any(
        arrival(e) and (e.client, e.request) == (s.before.client, s.before.request) for e in s.good)


def never_shown_again(s: Survivor) -> bool:
    others = [e for e in s.good if e is not s.before and e.key == s.before.key and not (arrival(e) and e.op in READS)]
    return same_but(s, "version") and not any(s.before.version in (e.version, e.condition) for e in others)


def holds_no_more(s: Survivor) -> bool:
    return same_but(s, "condition") and (s.before.op, s.before.status) in (("get_if_changed", 200), ("update", 412)) and \
        s.after.condition not in ("", s.before.version)


def nothing_to_overwrite(s: Survivor) -> bool:
    return same_but(s, "op") and (s.before.op, s.after.op) == ("create", "put") and write(s.before).endswith(".boundary")


def nobody_read_it(s: Survivor) -> bool:
    return same_but(s, "body") and s.before.op == "create" and write(s.before).startswith(s.where.prefix) and \
        unread(s.before.key, s.rest) and updates(s.before.body) == updates(s.after.body)


def another_is_old(s: Survivor) -> bool:
    return same_but(s, "key") and write(s.after) == s.after.key and s.after.op == "delete" and may_delete(s, s.after) and \
        all(unseen(key, s.rest) or not there(key, s.good[:s.damage.at]) for key in (s.before.key, s.after.key))


def never_read_since(s: Survivor) -> bool:
    return same_but(s, "body") and write(s.before).endswith(".boundary") and unread(s.before.key, s.rest)


EQUIVALENCES: dict[str, tuple[str, Callable[[Survivor], bool]]] = {
    "a number is a name": ("it is still its client's own, and these still rise", number_is_a_name),
    "between its neighbours": ("a time between those of the events before and after it", between_its_neighbours),
    "they commute": ("events of different clients, and neither sees what the other writes: both orders show the same", commute),
    "nobody waits": ("the reply to a read whose client has stopped waiting: nobody learns of it", nobody_waits),
    "never applied": ("what a lost request asked for: it never was in the store", never_applied),
    "never arrives": ("a request that may still be applied, and is not, is one that was lost", never_arrives),
    "gave up or died": ("a client that has nothing under way, or makes no use of it, goes on alike", gave_up_or_died),
    "did less": ("what its client made no use of, or nobody has looked at since: it may not have happened", did_less),
    "did more": ("a request lost once more; a collector that looks again, or begins anew", did_more),
    "another did": ("its own client made no use of it, and another may have asked the same in vain", another_did),
    "not applied either way": ("a condition that failed, or a refusal, by the name that another store has for it",
                               not_applied_either_way),
    "dead is dead": ("a client that has died may die again before it has asked for anything", dead_is_dead),
    "claims less": ("a caller was told less, or that nothing is known", claims_less),
    "told again": ("a caller was told once more what is true", told_again),
    "true as well": ("a caller was told something else, and that is true, too", true_as_well),
    "told a moment off": ("before or after a request that came to nothing, or what others did: it is true there, too",
                          told_a_moment_off),
    "never written": ("the content of a put that was refused is in no object", never_written),
    "never shown again": ("no other reply or condition names this version of the object", never_shown_again),
    "nobody has read it": ("a file of the same updates, to the model a set, with or without a checkpoint", nobody_read_it),
    "never read since": ("a boundary that moves to another old id, and nobody has read it since", never_read_since),
    "another is old": ("a collector may delete any of the old files that it listed; nobody has looked since", another_is_old),
    "condition of no effect": ("another version that is not the object's either", holds_no_more),
    "nothing to overwrite": ("a put without condition where there was nothing: as good as a create", nothing_to_overwrite),
    "gone either way": ("204 and 404 say the same of an object that was not there", gone_either_way),
}

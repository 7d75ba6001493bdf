"""Define the contents and the equivalences for damaged traces of the boundary protocol.

Every survivor must be explained: an unexplained one is a hole in the checker. An equivalence looks at the events and at the
local states of clients before the damage (`Survivor.locals`). It does not look at how the checker treats the damaged trace.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile
from typing import Any

from highwater.impl.codecs.json.manifest import UPDATES, InvalidManifest
from highwater.impl.layout import InvalidName, Namespace
from highwater.traces.calls import ALONE
from highwater.traces.damage.clients import OF_ALL, is_later
from highwater.traces.damage.knowledge import Knowledge
from highwater.traces.damage.possible import OF_RESPONSES
from highwater.traces.damage.responses import LOST
from highwater.traces.damage.survivors import (
    ENDS,
    GENERAL,
    Equivalences,
    Survivor,
    arrival,
    exchanged,
    independent,
    of_client,
    same_but,
    there,
    unread,
    unseen,
    write,
)
from highwater.traces.event import Event
from highwater.traces.form import MUTATIONS, PUTS, READS
from highwater.traces.histories.history import damage, too_young

EMPTY = b'{"checkpoints":[],"updates":[]}'


# --- other contents

def others(events: list[Event], i: int) -> Iterable[bytes]:
    body = events[i].body
    return contents(body) if body[:1] == b"{" else (b"1", EMPTY)


def contents(body: bytes) -> Iterator[bytes]:
    """Yield changed contents: another update, one less, another order, one twice; a checkpoint less or with changed fields."""
    document = json.loads(body)
    updates, checkpoints = document["updates"], document["checkpoints"]
    last = checkpoints[-1] if checkpoints else {}
    others = [{"updates": [*updates, "1.99"]}, {"updates": updates[:-1]}, {"updates": updates[::-1]},
              {"updates": updates + updates[-1:]}, {"checkpoints": checkpoints[:-1]},
              *({"checkpoints": [*checkpoints[:-1], {**last, field: last[field] + 1}]}
                for field in ("manifest_id", "expiry_ms") if last)]
    for other in others:
        yield json.dumps(document | other, sort_keys=True, separators=(",", ":")).encode()


# --- the callers' history

def history(good: list[Event], where: Namespace, least_ms: int) -> Callable[[list[Event]], bool]:
    """Return a function: does the callers' history of a trace show harm? It is the check at the end of a simulation."""
    final = latest(good, where)

    def shows(events: list[Event]) -> bool:
        try:
            return bool(damage(events, where, final) or (least_ms and too_young(events, where, least_ms)))
        except (InvalidManifest, InvalidName):
            return True

    return shows


def latest(events: Iterable[Event], where: Namespace) -> bytes:
    """Return the final content of the latest file."""
    objects = {where.key(1): EMPTY}
    for e in events:
        if e.kind == "applied" and e.key.startswith(where.prefix):
            if e.op == "create" and e.status == 200:
                objects[e.key] = e.body
            elif e.op == "delete":
                objects.pop(e.key, None)
    return objects[max(objects)]


# --- questions about the protocol's clients

def begins_anew(e: Event | None) -> bool:
    """Return whether the client forgets its earlier knowledge with this event."""
    return e is None or e.kind == "crash" or e.op in ALONE or (
        e.op == "list" and e.client.startswith("Collector") and not e.condition)


def forgotten(e: Event, rest: list[Event]) -> bool:
    """Return whether the client makes no use of the event, because it ends, crashes, gives up or restarts."""
    for o in of_client(e, rest):
        if (o.kind == "told" and o.op in ("unknown", "failed")) or (o.kind in ENDS and o.op == "delete" and not o.pending):
            continue
        if e.client.startswith("Collector") and not begins_anew(o) and (o.op in READS or (e.op == "get" and o.op in PUTS)):
            continue  # a read of its client changes nothing before the client forgets
        return begins_anew(o) or (o.kind in ("timeout", "refused") and (not o.client.startswith("Collector") or o.op == "list"))
    return True


def updates(body: bytes) -> frozenset[str]:
    return frozenset(UPDATES.decode(body).updates)


def idle(local: Any) -> bool:
    """Return whether a client has no knowledge to forget."""
    return local is not None and local.pc in ("Idle", "Done")


def superfluous(s: Survivor, e: Event) -> bool:
    """Return whether the trace is also possible without this event, as one of a client that did less."""
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
    """Return whether a collector reads the boundary again. It may do so at any time, and use the earlier value all the same."""
    return e.client.startswith("Collector") and e.key.endswith(".boundary") and e.op in READS and \
        getattr(local, "pc", "") in ("Listed", "Known")


def nothing_to_collect(e: Event) -> bool:
    return begins_anew(e) and e.op == "list" and len(e.keys) < 2 and not e.truncated


def harmless(s: Survivor, e: Event) -> bool:
    """Return whether the client may have done this too, at this point."""
    local = s.locals.get(e.client)
    if local is None or arrival(e) or (e.pending and e.op in MUTATIONS):
        return False
    if e.kind in ENDS:
        own = next(of_client(e, s.rest), None)
        return idle(local) or forgotten(e, s.rest) or e.op == "delete" or (own is not None and looks_again(own, local))
    return e.kind == "applied" and e.op in READS and (
        begins_anew(e) or looks_again(e, local) or forgotten(e, s.rest))


def told_again(s: Survivor) -> bool:
    return s.damage.kind == "duplicate" and s.before.kind == "told" and s.before.op in ("read", "unknown", "failed", *ALONE)


def true_as_well(s: Survivor) -> bool:
    """Return whether the changed response is true: `unknown` claims nothing, `failed` that no file has the update, `refused`
    that no caller gets `committed` for it."""
    if s.before.kind != "told" or not same_but(s, "op", "body") or s.after.op not in ("unknown", "failed", "refused"):
        return False
    update = s.after.body.decode()
    earlier = s.good[:s.damage.at]  # an update that was lost before its create, and the next one, have one name
    bodies = [e.body for e in earlier if e.op in PUTS and e.body[:1] == b"{" and (write(e) or e.pending)]
    committed = any(e.op == "committed" and e.body == s.after.body for e in earlier if e.kind == "told")
    return s.after.op == "unknown" or (not committed and (
        s.after.op == "refused" or not any(update in UPDATES.decode(body).updates for body in bodies)))


def told_a_moment_off(s: Survivor) -> bool:
    return s.damage.kind.startswith("swap") and all(
        independent(*pair) or in_vain(*pair) or is_later(*pair) for pair in exchanged(s))


def in_vain(one: Event, two: Event) -> bool:
    """Return whether the pair is a response to a caller and an event that changed nothing."""
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
    ended = s.before.op in ALONE and (  # its round, with nothing deleted; or a call without a request
        s.after.client.startswith("Collector") or "TimedOut" in s.after.keys)
    return same_but(s, "client") and (deletes or ended or (superfluous(s, s.before) and harmless(s, s.after)))


def another_advanced(s: Survivor) -> bool:
    """Return whether a collector that has met the same boundary could advance it as well. The own one deletes nothing after
    it, before it begins anew."""
    e, local = s.after, s.locals.get(s.after.client)
    if not same_but(s, "client") or not e.client.startswith("Collector") or local is None or e.op != "update" or (
            write(e) != s.where.boundary_key):
        return False
    known = any((o.key, o.version) == (e.key, e.condition) for o in of_client(e, s.good[:s.damage.at]))
    round_ = takewhile(lambda o: not begins_anew(o), of_client(s.before, s.rest))
    return known and int(e.body) < max(local.listed, default=0) and not any(o.op in MUTATIONS for o in round_)


def may_delete(s: Survivor, e: Event) -> bool:
    local, file_id = s.locals.get(e.client), s.where.file_id(e.key)
    return e.client.startswith("Collector") and local is not None and file_id in local.listed and \
        file_id <= local.b and file_id < max(local.listed)


def gave_up_or_died(s: Survivor) -> bool:
    return same_but(s, "kind") and {s.before.kind, s.after.kind} == {"timeout", "crash"} and (
        idle(s.locals[s.before.client]) or s.before.pending or forgotten(s.before, s.rest)
        or s.locals[s.before.client].pc == "Created" or not any(
            e.op == "create" and (write(e) or e.pending) for e in of_client(s.before, s.rest)))


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


EQUIVALENCES: Equivalences = {
    "a number is a name": GENERAL["a number is a name"],
    "between its neighbours": GENERAL["between its neighbours"],
    "they commute": GENERAL["they commute"],
    "nobody waits": GENERAL["nobody waits"],
    "never applied": GENERAL["never applied"],
    "never arrives": GENERAL["never arrives"],
    "gave up or died": ("a time-out and a crash have the same effect on a client that uses nothing from before",
                        gave_up_or_died),
    "did less": ("neither its client nor anybody else used the result, so the event is optional", did_less),
    "did more": ("one more request is lost, or a collector looks again or restarts", did_more),
    "another did": ("the own client made no use of the event, and the other client may have done the same without effect",
                    another_did),
    "another advanced": ("the other collector has met the same boundary, and the own one deletes nothing after it",
                         another_advanced),
    "not applied either way": GENERAL["not applied either way"],
    "dead is dead": GENERAL["dead is dead"],
    "claims less": GENERAL["claims less"],
    "told again": ("a caller received a true result twice", told_again),
    "true as well": ("a caller received a different result that is also true", true_as_well),
    "told a moment off": ("the result is also true one event earlier or later, because that event changed nothing relevant",
                          told_a_moment_off),
    "never written": GENERAL["never written"],
    "never shown again": GENERAL["never shown again"],
    "nobody has read it": ("nobody reads the file, and to the model it has the same set of updates", nobody_read_it),
    "never read since": ("the boundary moves to another old id, and nobody reads it afterwards", never_read_since),
    "another is old": ("the collector may delete any old file that it listed, and nobody looks afterwards", another_is_old),
    "condition of no effect": GENERAL["condition of no effect"],
    "heard or not": OF_ALL["heard or not"],
    "nothing to overwrite": ("an unconditional put where no object exists equals a create", nothing_to_overwrite),
    "gone either way": GENERAL["gone either way"],
}

def lists_again(s: Survivor) -> bool:
    """Return whether the next request of the client that lost a read is a listing: it begins anew then, whatever the reply."""
    own = next(of_client(s.before, s.rest), None)
    return s.damage.kind == LOST and s.before.op in READS and own is not None and own.op == "list"


KNOWLEDGE = Knowledge(others, history, EQUIVALENCES, complete=True, held=4, responses={
    **OF_RESPONSES, "lists again": ("the client that lost a read lists next, so it begins anew", lists_again)})

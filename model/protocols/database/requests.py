"""The table of joint steps: for each role, its requests, and the steps of the parts that each request is."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from highwater.model.compose import Names, Ways, alone, ordered, taken, within
from highwater.model.core import Action
from highwater.model.parts import below, one_more
from highwater.model.protocols import wal_fencing
from highwater.model.protocols.database.clients import CLIENT, actor, latest, view
from highwater.model.protocols.database.constants import Constants, parts
from highwater.model.protocols.database.history import SENDS, used
from highwater.model.protocols.database.joint import Joint, created, request, with_contents
from highwater.model.protocols.database.state import CompactionsCollector, Flight, Shared, WalCollector, Writer
from highwater.model.protocols.database.writes import is_stopped, loop, lost, may_send, sent


def on_wal(c: Constants, me: int, s: Shared, w: Writer) -> bool:
    """A writer uses the WAL between its updates of the manifest."""
    free = w.manifest.pc == "Idle" and not w.intent and not w.owes
    return (free or (w.manifest.pc == "Created" and not c.FENCE_CHECKED)) and not is_stopped(w)


def may_lose_wal(c: Constants, me: int, s: Shared, w: Writer) -> bool:
    return on_wal(c, me, s, w) and below(s.lost, c.MAX_LOST)


def may_send_wal(c: Constants, me: int, s: Shared, w: Writer) -> bool:
    return on_wal(c, me, s, w) and below(s.sent, c.MAX_PENDING)


def may_crash(c: Constants, me: int, s: Shared, w: Any) -> bool:
    return below(s.crashes, c.MAX_CRASHES) and not is_stopped(w)


def crashed(c: Constants, me: int, s: Shared, w: Any, s2: Shared, w2: Any) -> tuple[Shared, Any]:
    return (s2._replace(crashes=one_more(s.crashes, c.MAX_CRASHES)),
            w2._replace(base=None, verdict="", owes=False, intent=None, heard=None))


CRASH: Ways = (("Crash",),)
WAL = {"WalList": "List", "CreateFence": "CreateFence", "FenceConflict": "FenceConflict", "ListAgain": "ListAgain",
       "ReadNext": "ReadNext", "WalReadMissing": "ReadMissing", "Append": "CreateNext", "AppendConflict": "CreateConflict",
       "ReadOwn": "ReadOwn", "ReadOther": "ReadOther", "ReadGone": "ReadGone"}  # the requests to it
WRITER: dict[str, Joint] = {
    **loop("Writer"),
    **{name: Joint("wal", (action,), on_wal) for name, action in WAL.items()},
    **{f"{action}{'' if action.endswith('Fence') else 'OfWal'}": Joint("wal", (action,), may_lose_wal, then=lost)
       for action in ("LoseCreate", "LoseFence")},
    **{f"{action}{'' if action.endswith('Fence') else 'OfWal'}": Joint("wal", (action,), may_send_wal, then=sent)
       for action in ("SendCreate", "SendFence")},
    "Crash": Joint("epochs", ("Crash",), may_crash, may={"manifest": CRASH, "wal": CRASH}, then=crashed),
}
COMPACTOR: dict[str, Joint] = {
    **loop("Compactor"), **{f"Compactions{name}": row for name, row in loop("Compactor", "compactions").items()},
    "Crash": Joint("epochs", ("Crash",), may_crash, must={"claims": CRASH}, may={"manifest": CRASH, "compactions": CRASH},
                   then=crashed),
}
OPERATOR: dict[str, Joint] = loop("Operator")


def collects(part: str) -> dict[str, Joint]:
    """The requests of a collector of a sequence."""
    checkpoints = ("ReadCheckpoints", "CheckpointsMissing", "CheckpointsAccept", "CheckpointsReject")  # of manifests
    names = ("List", *checkpoints[:4 * (part == "manifest")], "ReadBoundary", "Advance", "AdvanceConflict", "Delete")
    return {**{name: Joint(part, (name,)) for name in names},
            **{name: Joint(part, (name,), may_send, then=sent) for name in ("SendAdvance", "SendDelete")}}


def others_boundary(c: Constants, me: int, s: Shared, w: Any, s2: Shared, w2: CompactionsCollector) -> tuple[Shared, Any]:
    return s2, w2 if c.OWN_BOUNDARY else w2._replace(compactions=w2.compactions._replace(b=s.manifest.boundary))


COLLECTOR: dict[str, Joint] = collects("manifest")
COMPACTIONS_COLLECTOR: dict[str, Joint] = {
    **collects("compactions"), "ReadBoundary": Joint("compactions", ("ReadBoundary",), then=others_boundary)}


def learns(c: Constants, me: int, s: Shared, w: Any, s2: Shared, w2: WalCollector) -> tuple[Shared, Any]:
    """The collector has read a manifest, and knows what it says of the WAL."""
    found = alone(actor(c, "WalCollector", me, "wal"), (("ReadManifest",),), parts(c),
                  view(c, "wal", "manifest", s.manifests[w.manifest.n - 1]), w.wal)
    assert found
    return s2, w2._replace(next=found[1]) if c.WAL_CHECKED and w2.manifest.pc != "Done" else w2._replace(
        wal=found[1], known=found[1])


def knows(c: Constants, me: int, s: Shared, w: Any, s2: Shared, w2: WalCollector) -> tuple[Shared, Any]:
    """The manifest was in the history. The latest one may say more by now; the collector deletes by the one that it read."""
    return s2, w2._replace(known=w.next, next=wal_fencing.Collector())


def forgets(c: Constants, me: int, s: Shared, w: Any, s2: Shared, w2: WalCollector) -> tuple[Shared, Any]:
    return s2, w2._replace(next=wal_fencing.Collector())


def delete_wal(c: Constants, me: int, s: Shared, w: WalCollector) -> Iterator:
    """Delete an object that the model of the WAL lets this collector delete, knowing only the manifest that it has read."""
    one = actor(c, "WalCollector", me, "wal")
    allowed_ids = {choices for choices, _, _ in taken(one.actions, ("Delete",), parts(c).wal, one.index, s.wal, w.known)}
    for choices, s2, w2 in within(one, ("Delete",), parts(c), s, w):
        if choices in allowed_ids:
            yield choices, s2, w2


WAL_COLLECTOR: dict[str, Joint] = {
    "List": Joint(takes=("List",)),
    "ReadLatest": Joint(takes=("ReadLatest",), believes={"wal": (("ReadManifest",),)}, then=learns),
    "ReadMissing": Joint(takes=("ReadMissing",)),
    "ReadAccept": Joint(takes=("ReadAccept",), must={"wal": (("ReadManifest",),)}, then=knows),
    "ReadReject": Joint(takes=("ReadReject",), then=forgets),
    "Delete": Joint("wal", ("Delete",)),
}
READER: dict[str, Joint] = {
    "List": Joint(takes=("List",), must={"epochs": (("List",), ("ReadLatest", "List"))}),
    "ReadLatest": Joint(takes=("ReadLatest",)),
    "ReadMissing": Joint(takes=("ReadMissing",)),
    "ReadAccept": Joint(takes=("ReadAccept",), must={"epochs": (("ReadLatest",),)}),
    "ReadReject": Joint(takes=("ReadReject",)),
}
APPLIES: Ways = (("ApplyPending",),)
STORE: dict[str, Joint] = {
    "ApplyPending": Joint("manifest", ("ApplyPending",), must=dict.fromkeys(("epochs", "claims", "wal"), APPLIES)),
    "ApplyPendingCompactions": Joint("compactions", ("ApplyPending",), must={"claims": APPLIES}),
    "ApplyPendingWal": Joint("wal", ("ApplyPending",)),
    "ExpireCheckpoint": Joint("manifest", ("ExpireCheckpoint",)),
}
JOINT: dict[str, dict[str, Joint]] = {
    "Writer": WRITER, "Compactor": COMPACTOR, "Operator": OPERATOR, "Collector": COLLECTOR,
    "CompactionsCollector": COMPACTIONS_COLLECTOR, "WalCollector": WAL_COLLECTOR, "Reader": READER, "": STORE,
}


def apply_pending(part: str, of: Joint, c: Constants, me: int, s: Shared, w: tuple) -> Iterator:
    """A request in flight reaches its store. If its file joins the history, the same request reaches those of other parts."""
    for choices, s2, _ in within(actor(c, "", 0, part), of.takes, parts(c), s, w):
        flying = {flight for flight in s.flights if (flight.part, flight.request) == (part, choices[0])}
        for flight in flying or {None}:
            s3, new = s2, created(getattr(s, part), getattr(s2, part))
            if flight:
                at = s.flights.index(flight)
                s3 = s3._replace(flights=s.flights[:at] + s.flights[at + 1:])
            s3 = with_contents(s, s3, part, flight and flight.content)
            if flight and new > getattr(s, part).boundary:
                s3 = joins(of, c, s3, flight)
            yield choices, s3, ()


def joins(of: Joint, c: Constants, s: Shared, flight: Flight) -> Shared:
    """Apply in each part the request that leads to the content in flight. A part that has none is noted."""
    for part in used(c, SENDS[flight.kind]):
        content = getattr(flight.content, part) if flight.part == "manifest" else flight.content
        before = latest(part, flight.part, getattr(s, part))
        found = [s2 for _, s2, _ in within(actor(c, "", 0, part), of.must[part][0], parts(c), s, ())
                 if latest(part, flight.part, getattr(s2, part)) == content]
        s = found[0] if found else s if before == content else s._replace(apart=tuple(sorted({*s.apart, part})))
    return s


def apply_wal(of: Joint, c: Constants, me: int, s: Shared, w: tuple) -> Iterator:
    """A create of a WAL object reaches the store. A manifest in flight is one of the sequence."""
    for choices, s2, _ in within(actor(c, "", 0, "wal"), of.takes, parts(c), s, w):
        if s.wal.pool[choices[0]][0] == "Create":
            yield choices, s2, ()


def steps_of(part: str) -> dict[str, dict[str, Names]]:
    """Return what each request may be in a part: role -> action -> actions of the part, in the order in which it takes them."""
    return {role: {name: names[part] for name, of in rows.items() if part in (names := ordered(
        {of.part: (of.takes,)}, *of.puts.values(), *of.unheard.values(), of.must, of.may, of.believes))}
        for role, rows in JOINT.items() if part in CLIENT[role]}


def action(role: str, name: str, of: Joint) -> Action:
    """Return the action of a joint step."""
    if not role:
        return {"ApplyPendingWal": partial(apply_wal, of), "ExpireCheckpoint": partial(request, role, of)}.get(
            name, partial(apply_pending, of.part, of))
    return delete_wal if (role, name) == ("WalCollector", "Delete") else partial(request, role, of)

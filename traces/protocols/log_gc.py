"""Safety: every request of the trace is an action of model/protocols/log_gc.py, and each response to a caller agrees with the
model's history.

An entry's text "w.k" names the k-th entry of the model's appender w. A snapshot is the list of the texts of all entries up to
its id. Every request is one action, so the model is in one state. A request without an action in the model changes nothing (a
listing of an empty log, a deletion of a missing object).
"""

from typing import Any

from highwater.impl.layout import Namespace
from highwater.impl.protocols.log_gc import InvalidSnapshot, texts_decoded
from highwater.model.protocols.log_gc import Constants, Entry, Shared, State, model, present
from highwater.traces import trace
from highwater.traces.event import Event
from highwater.traces.form import Keys
from highwater.traces.protocols.log_gc_calls import CALLS, JUDGES
from highwater.traces.refine import STUTTER, Match, Refiner
from highwater.traces.trace import AGAIN, refiner_without_witnesses

LOG, SNAPSHOT = Namespace("db", "log"), Namespace("db", "snapshot")
BOUNDARY = LOG.boundary_key
KEYS = Keys("db/", listed=(LOG.prefix, SNAPSHOT.prefix), single=(BOUNDARY,))
CLAIMS = {"committed": (1,), "refused": (1,), "failed": (0,), "unknown": (0, 1)}  # -> entries ended since
SENDS = {  # request in the pool -> the action that puts it there
    "Create": "SendCreate", "Snapshot": "SendSnapshot", "Advance": "SendAdvance", "Delete": "SendDelete",
    "DeleteSnapshot": "SendDeleteSnapshot",
}


def constants(appenders: int, readers: int, collectors: int) -> Constants:
    """Return the constants of a model without bounds, for traces of so many clients."""
    return Constants(APPENDERS=appenders, ENTRIES=None, READERS=readers, COLLECTORS=collectors, MAX_ID=None, MAX_PENDING=None,
                     MAX_LOST=None, MAX_CRASHES=None)


def refiner(c: Constants) -> Refiner:
    return refiner_without_witnesses(model(c))


def entry_of(body: bytes) -> tuple[int, int]:
    """Return (appender, number) of an entry named "w.k". Raises ValueError for any other name."""
    appender, number = map(int, body.split(b"."))
    if body != b"%d.%d" % (appender, number):
        raise ValueError(f"{body!r} is no name of an entry")
    return appender, number


def entries_of(body: bytes) -> State:
    """Return the entries of a snapshot's body. Raises InvalidSnapshot, ValueError."""
    return tuple([entry_of(text.encode()) for text in texts_decoded(body)])


def ids(those: tuple[tuple, ...]) -> list[int]:
    return [i for i, one in enumerate(those, 1) if one]


def is_there(those: tuple[tuple, ...], i: int, one: tuple) -> bool:
    return present(those, i) and those[i - 1] == one


def would_apply(s: Shared, request: tuple) -> bool:
    kind, *args = request
    return s.boundary == args[0] if kind == "Advance" else not present(s.log if kind == "Create" else s.snapshots, args[0])


class Trace(trace.Trace):
    """Refines one trace of this protocol."""

    alien = (*trace.UNCHECKED, InvalidSnapshot)
    calls, claims = CALLS, JUDGES
    keyed, bodiless = ("committed",), ("closed",)
    writer = "Appender"

    def _updates(self, e: Event) -> list[str]:
        return [e.body.decode()]

    def _unanswered(self, e: Event) -> Match | None:
        return super()._unanswered(e) if e.op != "delete" else None  # nobody needs the reply to a delete

    def _answered(self, e: Event) -> Match:
        role = e.client.partition("#")[0]
        if e.op == "list" and not (e.truncated or e.condition):
            return self._listed(e, role)
        if e.key == BOUNDARY:
            return self._of_boundary(e, role)
        return self._of_log(e, LOG.file_id(e.key)) if e.key.startswith(LOG.prefix) else \
            self._of_snapshot(e, SNAPSHOT.file_id(e.key))

    def _listed(self, e: Event, role: str) -> Match:
        if e.key == SNAPSHOT.prefix:
            found = [SNAPSHOT.file_id(key) for key in e.keys]
            return Match(e.client, ("ListSnapshots",), (), lambda a, s, l, s2, l2: ids(s.snapshots) == found)
        found = [LOG.file_id(key) for key in e.keys]
        actions = ("List", STUTTER) if role == "Collector" and not found else ("List",)
        return Match(e.client, actions, (), lambda a, s, l, s2, l2: ids(s.log) == found)

    def _of_boundary(self, e: Event, role: str) -> Match:
        if e.op in ("get", "get_if_changed"):
            value = 0 if e.status == 404 else int(e.body) if e.status == 200 else None  # 304 shows no value
            actions = {"Appender": ("Accept", "Reject"), "Reader": ("ReadAccept", "ReadReject"), "Collector": ("ReadBoundary",)}
            return Match(e.client, actions[role], (), lambda a, s, l, s2, l2: value in (None, s.boundary))
        if e.op not in ("create", "update"):
            raise self._no_action(e, role=role)
        if e.status == 200:
            return Match(e.client, ("Advance",), (int(e.body),))
        return Match(e.client, ("AdvanceConflict",), ())

    def _of_log(self, e: Event, i: Any) -> Match:
        if e.op == "get" and e.status == 404:
            return Match(e.client, ("ReadEnd",), (), lambda a, s, l, s2, l2: len(l.got) + 1 == i)
        if e.op == "delete":
            return Match(e.client, ("Delete",), (i,), lambda a, s, l, s2, l2: e.status != 404 or not present(s.log, i))
        if e.op not in ("get", "create"):
            raise self._no_action(e)
        entry = entry_of(e.body)
        if e.op == "get":
            return Match(e.client, ("ReadNext",), (), lambda a, s, l, s2, l2: len(l2.got) == i and l2.got[-1] == entry)
        action = "CreateNext" if e.status == 200 else "CreateConflict"
        return Match(e.client, (action,), (), lambda a, s, l, s2, l2: l.n + 1 == i and entry == own(e.client, l.k))

    def _of_snapshot(self, e: Event, i: Any) -> Match:
        if e.op == "get" and e.status == 404:
            return Match(e.client, ("SnapshotMissing",), (), lambda a, s, l, s2, l2: l.s == i)
        if e.op == "delete":
            return Match(e.client, ("DeleteSnapshot",), (i,),
                         lambda a, s, l, s2, l2: e.status != 404 or not present(s.snapshots, i))
        if e.op not in ("get", "create"):
            raise self._no_action(e)
        entries = entries_of(e.body)
        if e.op == "get":
            return Match(e.client, ("ReadSnapshot",), (), lambda a, s, l, s2, l2: l.s == i and l2.got == entries)
        action = "CreateSnapshot" if e.status == 200 else "SnapshotConflict"
        return Match(e.client, (action,), (), lambda a, s, l, s2, l2: l2.s == i and l.got == entries)

    # --- requests that nobody waits for

    def _request(self, e: Event) -> tuple:
        if e.key == BOUNDARY:
            return "Advance", self.refiner.local(e.client).b, int(e.body)
        of, where = ("", LOG) if e.key.startswith(LOG.prefix) else ("Snapshot", SNAPSHOT)
        if e.op == "delete":
            return f"Delete{of}", where.file_id(e.key)
        if e.op != "create":
            raise self._no_action(e)
        return of or "Create", where.file_id(e.key), (entries_of if of else entry_of)(e.body)

    def _sends(self, event: tuple) -> Match:
        *_, client, request = event
        choices = () if request[0] in ("Create", "Snapshot") else request[-1:]
        return Match(client, (SENDS[request[0]],), choices,
                     lambda a, s, l, s2, l2: s2.pool == tuple(sorted((*s.pool, request))))

    def _arrives(self, event: tuple) -> Match:
        *_, request, status = event
        if request[0].startswith("Delete"):
            return Match("", ("ApplyPending",), (request,), lambda a, s, l, s2, l2: status != 404 or not present(
                s.log if request[0] == "Delete" else s.snapshots, request[1]))
        return Match("", ("ApplyPending",), (request,), lambda a, s, l, s2, l2: (status < 300) == would_apply(s, request))

    # --- responses to callers

    def _told_of(self, e: Event) -> str | None:
        """Check a response. To an appender its body is the entry, and `committed` has the entry's key; for `read` the body has
        all entries read, for `snapshot` the id. `closed`: the appender has gone, and with it the id that it knew."""
        if e.op == "closed":
            return self._tells(e, Match(e.client, ("LoseReply", STUTTER), ()))
        if e.op in ("read", "snapshot") and ((last := self._last_of(e)) is None or last.kind == "told"):
            raise self._misled(e, "it has sent no request for it to the store")
        if e.op == "read":
            seen = tuple(map(entry_of, e.body.split()))
            self._says(e, lambda s, l: l.pc == "Done" and l.got == seen)
            return AGAIN
        if e.op == "snapshot":
            self._says(e, lambda s, l: l.pc == "Done" and len(l.got) == l.s == int(e.body))
            return AGAIN
        entry, i = entry_of(e.body), LOG.file_id(e.key) if e.key else None
        if e.op not in CLAIMS or e.client != f"Appender#{entry[0]}" or (i is None) == (e.op == "committed"):
            raise self._misled(e, "the entry is another appender's, or an append has no such response")
        self._says(e, lambda s, l: l.pc == ("Ready" if i else "Idle") and l.k - entry[1] in CLAIMS[e.op]
                   and SAID[e.op](s, entry, i))
        return None


def own(client: str, number: int) -> Entry:
    return int(client.partition("#")[2]), number


def is_nowhere(s: Shared, entry: Entry) -> bool:
    return entry not in s.first and entry not in s.log and ("Create", entry) not in [(one[0], one[-1]) for one in s.pool]


SAID = {  # response to an append -> the condition under which it is true
    "committed": lambda s, entry, i: (i, *entry) in s.acked,
    "refused": lambda s, entry, i: all(one[1:] != entry for one in s.acked),
    "failed": lambda s, entry, i: is_nowhere(s, entry),
    "unknown": lambda s, entry, i: True,
}

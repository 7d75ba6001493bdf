"""Safety: every request of the trace is an action of model/protocols/manifest_epochs.py, and each response to a caller agrees
with the model's history.

A client of a run is one instance of the model. It does not return after a crash; another instance opens. The SST "w.k" is flush
k of writer w. The model has expired checkpoints and those of writers, so any other without expiry is left out of its state.

After an applied create, the trace does not show whether the response arrived. Both cases are followed until the client reports
an outcome to its caller, or stops waiting. A read whose response is lost leaves the client's state unchanged. After a failed
GET the client may send the GET again, as an SDK does, or start over with LIST. Both cases are followed.
"""

from functools import lru_cache, partial
from typing import Any

from highwater.impl.codecs.json.manifest import InvalidManifest
from highwater.impl.layout import Namespace
from highwater.impl.protocols.manifest_epochs import EPOCHS
from highwater.model.explore.tabulated import BITS, FIELD
from highwater.model.protocols.manifest_epochs import Constants, Manifest, Shared, model, ssts
from highwater.traces import trace
from highwater.traces.calls import APPLIED, in_call
from highwater.traces.event import Event
from highwater.traces.form import READS
from highwater.traces.protocols.manifest_epochs_calls import CALLS, JUDGES
from highwater.traces.refine import STUTTER, Match, Refiner
from highwater.traces.trace import distinct, refiner_without_witnesses, update_of

MANIFESTS = Namespace("db", "manifest")
Request = tuple[int, Manifest, str, int]  # a create: id, content, role, index in that role


def constants(writers: int, compactors: int, collectors: int, readers: int, checkpoints: int, retries: bool) -> Constants:
    """Return the constants of an unbounded model with so many clients. `retries`: an open that lost its race may retry."""
    return Constants(WRITERS=writers, COMPACTORS=compactors, COLLECTORS=collectors, READERS=readers, FLUSHES=None,
                     COMPACTIONS=None, COLLECTIONS=None, CHECKPOINTS=checkpoints, OPEN_RETRIES=-1 if retries else 0,
                     MAX_PENDING=None, MAX_LOST=None, MAX_CRASHES=None)


def refiner(c: Constants) -> Refiner:
    return refiner_without_witnesses(model(c))


@lru_cache(10_000)
def decoded(body: bytes) -> Manifest:
    """Return the model's manifest for a body. Raises InvalidManifest, ValueError."""
    m = EPOCHS.decode(body)
    return Manifest(m.writer_epoch, m.compactor_epoch, m.collector_epoch, distinct(map(update_of, m.l0)),
                    distinct(map(update_of, m.compacted)), m.replay_after_wal_id, m.next_wal,
                    frozenset([int(checkpoint.id) for checkpoint in m.checkpoints if checkpoint.expiry_ms]),
                    distinct(tuple((checkpoint.writer_epoch, checkpoint.manifest_id) for checkpoint in m.checkpoints
                                   if checkpoint.writer_epoch is not None)))


class Trace(trace.Trace):
    """Refines one trace of this protocol."""

    alien = (*trace.UNCHECKED, InvalidManifest)
    calls, claims = CALLS, JUDGES
    keyed = ("opened", "committed", "compacted", "collected", "read")

    def __init__(self, refiner: Refiner, namespace: Namespace = MANIFESTS, skew_ms: int = 0):
        super().__init__(refiner, namespace, skew_ms)
        self.before: dict[str, list[int]] = {}  # client -> its local parts before its last read
        self.begun: dict[str, list[int]] = {}  # client -> its local parts before its last LIST
        self.after: dict[str, str] = {}  # client -> the last key of the listing so far, after which the next page begins

    def _updates(self, e: Event) -> tuple[str, ...]:
        manifest = EPOCHS.decode(e.body)
        return manifest.compacted + manifest.l0

    # --- reads whose response is lost

    def _take(self, e: Event) -> None:
        if e.op in READS and e.kind != "told":
            if e.kind != "applied":
                self._take_back(e)
            elif e.awaited and (e.op == "list" or not e.client.startswith("Reader")):
                shift = BITS * (self.refiner.index[e.client] + 1)
                self.before[e.client] = sorted({state >> shift & FIELD for state in self.refiner.states})
                if e.op == "list":
                    self.begun[e.client] = self.before[e.client]
            if e.op == "list" and e.awaited:
                self._page(e)
        elif e.kind == "told" and e.key and ((last := self._last_of(e)) is None or (last.kind, last.key) != ("applied", e.key)):
            raise self._misled(e, "that manifest is not what it read or put last")
        elif e.kind == "told" and any(l.pc == "Listed" for l in self.refiner.locals(e.client)):
            self._end_call(e.client)
        super()._take(e)

    def _end_call(self, client: str) -> None:
        """After a response to its caller, no longer follow the states in which the client may still send a failed GET again."""
        shift, values = BITS * (self.refiner.index[client] + 1), self.refiner.explorer.values[self.refiner.index[client] + 1]
        ended = [state for state in self.refiner.states if values[state >> shift & FIELD].pc != "Listed"]
        self.refiner.states = tuple(ended) or self.refiner.states

    def _page(self, e: Event) -> None:
        """Check that a page begins where the one before it ended, or at the first key. If its response is lost, the client may
        ask for it again."""
        if e.request > self.last.get(e.client, 0) and e.condition not in ("", self.after.get(e.client, "")):
            raise self._refused("list", f"{e.client} lists from {e.condition!r}, and has not read the page before")
        self.after[e.client] = e.condition if e.kind != "applied" else e.keys[-1] if e.truncated and e.keys else ""

    def _take_back(self, e: Event) -> None:
        """Undo an applied read whose response is lost. It ends a reader's poll, at LIST or GET."""
        if e.client.startswith("Reader"):
            lost = self.refiner.local(e.client).pc == "Listed"
        else:
            lost = e.kind == "timeout" and e.request == self.last.get(e.client)
        if lost:
            shift = BITS * (self.refiner.index[e.client] + 1)
            self.refiner.states = tuple(dict.fromkeys(
                state & ~(FIELD << shift) | part << shift for state in self.refiner.states for part in self.before[e.client]))
        if e.op == "get" and not e.client.startswith("Reader"):
            self._begin_anew(e.client)

    def _begin_anew(self, client: str) -> None:
        """After a failed GET, also follow the states in which the client has forgotten its LIST."""
        shift, values = BITS * (self.refiner.index[client] + 1), self.refiner.explorer.values[self.refiner.index[client] + 1]
        self.refiner.states = tuple(dict.fromkeys([*self.refiner.states, *(
            state & ~(FIELD << shift) | part << shift for state in self.refiner.states for part in self.begun.get(client, ())
            if values[state >> shift & FIELD].pc == "Listed")]))

    # --- requests as actions of the model

    def _crashed(self, e: Event) -> Match | None:
        return None if e.client.startswith("Reader") else super()._crashed(e)

    def _unanswered(self, e: Event) -> Match | None:
        if e.op in READS or (e.kind == "refused" and e.status < 500):  # the request surely had no effect
            return None
        return Match(e.client, ("SendCreate", STUTTER), (), partial(is_unheard, *self._request(e)[:2]), e.op)

    def _answered(self, e: Event) -> Match:
        client = e.client
        if e.op == "list":
            ids = [i for i in map(self.namespace.file_id, e.keys) if i is not None]
            after = self.namespace.file_id(e.condition) if e.condition else 0
            last, full = after + len(ids), ids == list(range(after + 1, after + len(ids) + 1))
            if e.truncated:
                return Match(client, (STUTTER,), (), lambda a, s, l, s2, l2: full and last < len(s.files), e.op)
            return Match(client, ("List",), (), lambda a, s, l, s2, l2: full and last == len(s.files))
        file_id = self.namespace.file_id(e.key)
        if e.op == "get" and e.status == 200:
            m = decoded(e.body)
            return Match(client, ("ReadLatest", "ReadFenced", "ReadLanded"), (),
                         lambda a, s, l, s2, l2: l.n == file_id and s.files[file_id - 1] == m)
        if e.op in ("create", "put") and e.status == 200:
            m = decoded(e.body)
            return Match(client, ("CreateNext", "LoseReply"), (), lambda a, s, l, s2, l2: (
                l.n + 1 == file_id == len(s.files) + 1 and s2.files[-1] == m))
        if e.op == "create":
            return Match(client, ("CreateConflict",), (), lambda a, s, l, s2, l2: l.n + 1 == file_id)
        raise self._no_action(e, status=True)

    # --- requests whose clients no longer wait

    def _request(self, e: Event) -> Request:
        if e.op not in ("create", "put"):
            raise self._no_action(e)
        role, _, number = e.client.partition("#")
        return self.namespace.file_id(e.key), decoded(e.body), role, int(number)

    @staticmethod
    def _sends(event: tuple) -> Match:
        *_, client, (file_id, m, _, _) = event
        return Match(client, ("SendCreate",), (), lambda a, s, l, s2, l2: s2.pool[-1][:2] == (file_id, m))

    @staticmethod
    def _arrives(event: tuple) -> Match:
        *_, request, status = event

        def agrees(action: str | None, s: Shared, l: Any, s2: Shared, l2: Any) -> bool:
            at = next((at for at, (n, m, by) in enumerate(s.pool) if (n, m, *by[:2]) == request), None)
            return (at is not None and s2.pool == s.pool[:at] + s.pool[at + 1:]
                    and (status == 200) == (len(s2.files) > len(s.files)))

        return Match("", ("ApplyPending",), None, agrees)

    # --- responses to callers

    def _told_of(self, e: Event) -> str:
        """Check a response to a caller. The body of `opened` is the epoch, that of `read` the SSTs, and a failed open has none.
        Any other response has the update as its body, and as its key that of the manifest which holds the update."""
        role, _, number = e.client.partition("#")
        body, me = e.body.decode(), int(number)
        if e.op == "version_exists" and not any(
                old.op == "create" and old.status not in APPLIED for old in in_call(self, e)):
            raise self._misled(e, "its call has met no other manifest")
        if e.op == "read":
            seen = distinct(map(update_of, body.split()))
            return self._says(e, lambda s, l: l.pc == "Done" and l.got == seen)
        if e.op == "opened":
            epoch = int(body)
            return self._says(e, lambda s, l: l.open and (l.pc, l.epoch, l.k) == ("Idle", epoch, 0))
        if not body:
            so = OPENS[e.op]
            return self._says(e, lambda s, l: not l.open and so(s, l, role, me))
        whose, k = update_of(body)
        if whose != me:
            raise self._misled(e, "the update is another client's")
        if e.op in DONE:
            file_id = self.namespace.file_id(e.key)
            return self._says(e, lambda s, l: (l.open and (l.pc, l.k, l.tries) == ("Idle", k + 1, 0) and DONE[e.op] == role
                                               and (role != "Writer" or (me, k) in ssts(s.files[file_id - 1]))))
        if e.op == "nothing" and ((last := self._last_of(e)) is None or (last.kind, last.op) != ("applied", "get")):
            raise self._misled(e, "it has not just read the latest manifest")
        ended = UPDATES[e.op]
        return self._says(e, lambda s, l: l.open and l.k == k and ended(s, l, role, me))


def is_unheard(file_id: int, m: Manifest, action: str | None, s: Shared, l: Any, s2: Shared, l2: Any) -> bool:
    """Return whether the step fits a create without a response: it enters the pool now, or it was applied before."""
    if action is STUTTER:
        return not l.open or (l.pc, l.tries) == ("Idle", 1)
    return s2.pool[-1][:2] == (file_id, m)


def may_arrive(s: Shared, role: str, me: int) -> bool:
    return any(by[:2] == (role, me) and n > len(s.files) for n, _, by in s.pool)


def has_not_written(s: Shared, l: Any, role: str, me: int) -> bool:
    return not may_arrive(s, role, me) and (role, me) not in {by[:2] for by in s.by}


def is_in(s: Shared, l: Any, role: str, me: int) -> bool:
    """Return whether its current change is in a manifest: it has written more manifests than its open and finished updates."""
    return s.by.count((role, me, l.epoch)) > 1 + l.k


def is_nowhere(s: Shared, l: Any, role: str, me: int) -> bool:
    return not is_in(s, l, role, me) and not may_arrive(s, role, me)


OPENS = {  # response to an open -> the condition under which it is true
    "version_exists": has_not_written, "failed": has_not_written, "unknown": lambda s, l, role, me: True,
}
UPDATES = {  # response to an unfinished update -> the condition under which it is true
    "version_exists": is_nowhere, "failed": is_nowhere, "unknown": lambda s, l, role, me: l.pc != "Fenced",
    "nothing": lambda s, l, role, me: role != "Writer" and (l.pc, l.tries) == ("Idle", 0),
    "fenced": lambda s, l, role, me: l.pc == "Fenced" and is_nowhere(s, l, role, me),
    "fenced_applied": lambda s, l, role, me: l.pc == "Fenced" and (role != "Writer" or is_in(s, l, role, me)),
}
DONE = {"committed": "Writer", "compacted": "Compactor", "collected": "Collector"}  # response to a finished update -> its role

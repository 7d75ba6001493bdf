"""Safety: every request of the trace is an action of model/protocols/wal_fencing.py, and each response to a caller agrees with
the model's history.

A record's body "w.k" names the k-th record of the model's writer w. In a record of a store of keys the value is "w.k". A
request that was applied and whose reply was lost is one action of the model (Lose..). So for each applied request both cases
are followed, that its client received the reply and that it did not, until its next event decides.
"""

import json
from base64 import b64decode
from typing import Any

from highwater.impl.codecs.json.wal import FENCE, InvalidWal, Record, WalManifest, decode_manifest, decode_record
from highwater.impl.layout import Namespace
from highwater.model.explore.tabulated import BITS, FIELD
from highwater.model.protocols.wal_fencing import Body, Constants, Manifest, Shared, Writer, model, slot
from highwater.traces import trace
from highwater.traces.event import Event
from highwater.traces.form import MUTATIONS, READS, Keys
from highwater.traces.protocols.wal_fencing_calls import CALLS, JUDGES
from highwater.traces.refine import STUTTER, Match, Refiner
from highwater.traces.trace import distinct, refiner_without_witnesses

WAL = Namespace("db", "wal")
MANIFEST = "db/wal.manifest"
KEYS = Keys("db/wal", listed=(WAL.prefix,), single=(MANIFEST,))


def constants(writers: int, collectors: int) -> Constants:
    """Return the constants of a model without bounds, for traces of so many clients."""
    return Constants(WRITERS=writers, COLLECTORS=collectors, APPENDS=None, FLUSHES=None, CHECKPOINTS=None, MAX_PENDING=None,
                     MAX_LOST=None, MAX_CRASHES=None)


def refiner(c: Constants) -> Refiner:
    return refiner_without_witnesses(model(c))


def name_of(body: bytes) -> bytes:
    """Return the name in a record's body: the body, or the value of a put. Raises ValueError, LookupError."""
    return b64decode(json.loads(body)["value"]) if body.startswith(b"{") else body


def record_of(record: Record | None) -> Any:
    """Return (writer, number) of a record "w.k"; () for a fence. Raises ValueError."""
    if record is None:
        return ()
    writer, number = map(int, name_of(record.body).split(b"."))
    return writer, number


def manifest_of(body: bytes) -> Manifest:
    found: WalManifest = decode_manifest(body)
    return Manifest(found.writer_epoch, found.replay_after, distinct(map(record_of, found.flushed)),
                    distinct(map(tuple, found.checkpoints)), found.checkpoints_taken)


class Trace(trace.Trace):
    """Refines one trace of this protocol."""

    alien = (*trace.UNCHECKED, InvalidWal)
    calls, claims = CALLS, JUDGES
    keyed = ("got",)
    bodiless = ("not open", "flushed", "not flushed", "not checkpointed", "deleted", "not deleted")

    def _updates(self, e: Event) -> list[str]:
        """Return the update in a record. (A flush puts none: it says that the log's records are in the database.)"""
        record = decode_record(e.body)
        return [name_of(record.body).decode()] if record else []

    def __init__(self, refiner: Refiner, namespace: Keys = KEYS, skew_ms: int = 0):
        super().__init__(refiner, namespace, skew_ms)
        self.before: dict[str, tuple[int, set[int]]] = {}  # client -> its last read, and its local parts before
        self.answered: set[str] = set()  # clients whose open was answered
        self.puts: dict[Body, tuple[int, str]] = {}  # record of a store of keys and values -> its id in the log, and the key

    def _note(self, e: Event) -> None:
        record = decode_record(e.body) if e.key != MANIFEST else None
        if record and record.body.startswith(b"{"):
            self.puts[record_of(record)] = WAL.file_id(e.key) or 0, json.loads(record.body)["key"]

    def _take(self, e: Event) -> None:
        if e.kind == "told" and not e.client.startswith("Collector"):
            if (e.op in ("opened", "not open")) == (e.client in self.answered):
                raise self._misled(e, "its open was answered before" if e.client in self.answered else "it was not opened")
            self.answered.add(e.client)
            last = self._last_of(e)
            if e.op in ("flushed", "checkpointed", "dropped") and last and last.kind != "told" and last.key != MANIFEST:
                raise self._misled(e, "it has asked for something else since")
            if e.op == "committed" and not (last and last.key == MANIFEST and last.kind == "applied"
                                            and last.op in ("get", "get_if_changed")):
                raise self._misled(e, "it has not read the manifest after its create")
        elif e.op in READS and (e.awaited or e.kind != "applied"):
            self._hear(e)
        doubtful = e.kind == "timeout" or (e.kind == "refused" and e.status >= 500)  # a 503 to a mutation is indefinite
        if not doubtful or e.op not in MUTATIONS or e.client.startswith("Collector"):
            super()._take(e)
            return
        applied = any(old.kind == "applied" for old in self._same(e))
        if not e.pending:
            if e.t_ms < self.now_ms:
                raise self._refused("order", f"at {e.t_ms} ms, after what was at {self.now_ms} ms")
            self.now_ms = e.t_ms
            if e.request <= self.last.get(e.client, 0):
                self._replied(e)
            self._well_formed(e)
            self.last[e.client] = e.request
            if not applied:  # as a request in flight that will never arrive
                self.refiner.event(e.client, (0, 0, e.client, self._request(e)), self._sends)
            else:
                self.refiner.step(Match(e.client, (STUTTER,), (), lambda a, s, l, s2, l2: in_doubt(l), e.op))
        else:
            super()._take(e)

    def _hear(self, e: Event) -> None:
        """If the response to a read is lost, keep only the states in which the client has not received it."""
        part = self.refiner.index[e.client] + 1
        parts = [state >> BITS * part & FIELD for state in self.refiner.states]
        request, before = self.before.get(e.client, (0, set()))
        if e.kind == "applied":
            self.before[e.client] = e.request, set(parts)
        elif e.awaited and request == e.request:
            unheard = [state for state, local in zip(self.refiner.states, parts) if local in before]
            self.refiner.states = tuple(unheard) or self.refiner.states

    def _unanswered(self, e: Event) -> None:
        """Take no step: a read without a reply is sent again."""

    def _answered(self, e: Event) -> Match | None:
        if e.client.startswith("Collector"):
            return self._of_collector(e)
        return self._of_manifest(e) if e.key == MANIFEST else self._of_wal(e)

    def _of_collector(self, e: Event) -> Match | None:
        if e.key == MANIFEST and e.op == "get":
            found = manifest_of(e.body) if e.status == 200 else Manifest()
            return Match(e.client, ("ReadManifest",), (), lambda a, s, l, s2, l2: s.manifest == found, unheard=True)
        if e.op == "list" and not (e.truncated or e.condition):
            ids = [WAL.file_id(key) for key in e.keys]
            return Match(e.client, (STUTTER,), (), lambda a, s, l, s2, l2: present(s) == ids, e.op)
        if e.op == "delete":
            return Match(e.client, ("Delete",), (WAL.file_id(e.key),))
        raise self._no_action(e, "a collector")

    def _of_manifest(self, e: Event) -> Match:
        if e.op in ("get", "get_if_changed"):
            found = manifest_of(e.body) if e.status == 200 else Manifest() if e.status == 404 else None  # 304 shows none
            return Match(e.client, ("ReadManifest", "Validate", "ValidateFenced", "Accept", "Reject", "RereadCurrent",
                                    "RereadFenced"), (),
                         lambda a, s, l, s2, l2: s.manifest == found or (found is None and l.base == s.manifest), unheard=True)
        if e.op not in ("create", "update"):
            raise self._no_action(e, "a writer")
        if e.status != 200:
            return Match(e.client, ("ClaimConflict", "FlushConflict", "LoseManifest", "CheckpointConflict", "LoseCheckpoint"),
                         None)
        found = manifest_of(e.body)
        return Match(e.client, ("Claim", "FlushNext", "LoseManifest", "CheckpointNext", "LoseCheckpoint"), None,
                     lambda a, s, l, s2, l2: s2.manifest == found)

    def _of_wal(self, e: Event) -> Match:
        if e.op == "list" and not e.truncated:
            after = WAL.file_id(e.condition) or 0
            ids = [WAL.file_id(key) for key in e.keys]
            return Match(e.client, ("List",), (), lambda a, s, l, s2, l2: (
                after == l.base.replay_after and ids == [i for i in present(s) if i > after]), unheard=True)
        i = WAL.file_id(e.key)
        if e.op == "get":
            found = (record_of(decode_record(e.body)),) if e.status == 200 else ()
            return Match(e.client, ("ReadNext", "ReadMissing", "ReadOwn", "ReadOther", "ReadGone"), (),
                         lambda a, s, l, s2, l2: l.n + 1 == i and slot(s, i) == found, unheard=True)
        if e.op != "create":
            raise self._no_action(e, "a writer")
        record, ok = decode_record(e.body), e.status == 200
        body = record_of(record)
        actions = ("CreateFence" if ok else "FenceConflict", "LoseFence") if e.body == FENCE else (
            "CreateNext" if ok else "CreateConflict", "LoseCreate")
        return Match(e.client, actions, (), lambda a, s, l, s2, l2: l.n + 1 == i and (
            record is None or (body[1], record.epoch) == (l.k, l.epoch)) and (
            slot(s2, i) == (body,) if ok else s2.wal == s.wal))

    # --- requests that nobody waits for

    def _sent(self, e: Event) -> None:
        """Treat a DELETE that is applied late as one that is sent late."""
        if e.op == "delete":
            self.pending[e.client, e.request] = ("Delete", WAL.file_id(e.key)), trace.sent(e)
        else:
            super()._sent(e)

    def _request(self, e: Event) -> tuple:
        if e.key == MANIFEST:
            return "Manifest", manifest_of(e.body)
        return "Create", WAL.file_id(e.key), record_of(decode_record(e.body))

    def _sends(self, event: tuple) -> Match:
        *_, client, request = event
        actions = ("SendManifest", "SendCheckpoint")
        if request[0] != "Manifest":
            actions = ("SendCreate",) if request[2] else ("SendFence",)
        return Match(client, actions, None, lambda a, s, l, s2, l2: s2.pool[-1][-1] == request[-1] and (
            request[0] == "Manifest" or s2.pool[-1] == request))

    def _arrived(self, e: Event) -> None:
        if e.op == "delete":
            self._well_formed(e)
            _, asked = self.pending.pop((e.client, e.request), ((), ()))
            if asked != trace.sent(e):
                raise self._refused("Delete", f"request {e.request}, {e.op} {e.key}, was sent by nobody")
            self.refiner.event(e.client, e, self._of_collector)
        else:
            super()._arrived(e)

    def _arrives(self, event: tuple) -> Match:
        *_, request, status = event
        return Match("", ("ApplyPending",), None, lambda a, s, l, s2, l2: arrives(s, s2, request, status < 300))

    # --- responses to callers

    def _told_of(self, e: Event) -> str:
        if e.op == "opened":
            seen = distinct(tuple(map(int, name.split("."))) for name in e.body.decode().split())
            return self._says(e, lambda s, l: l.pc == "Open" and l.has == seen)
        if e.op == "got":
            found = tuple(map(int, e.body.split(b"."))) if e.body else ()
            puts = sorted((i, one) for one, (i, key) in self.puts.items() if key == e.key)
            return self._says(e, lambda s, l: l.pc == "Open" and found == next(
                (one for _, one in reversed(puts) if one in l.has), ()))
        if e.op in ("committed", "failed", "fenced", "unknown"):
            writer, number = map(int, e.body.split(b"."))
            if e.client != f"Writer#{writer}":
                raise self._misled(e, "the record is another writer's")
            return self._says(e, lambda s, l: SAID[e.op](s, l, (writer, number)))
        if e.op in ("checkpointed", "dropped"):
            number, *ids = map(int, e.body.split(b"."))
            return self._says(e, lambda s, l: l.pc == "Open" and (
                (number, *ids) in l.base.checkpoints if ids else all(one[0] != number for one in l.base.checkpoints)))
        return self._says(e, lambda s, l: OF_OTHERS[e.op](s, l))


def present(s: Shared) -> list[int]:
    return [i for i, one in enumerate(s.wal, 1) if one]


def in_doubt(w: Writer) -> bool:
    """Return whether the writer has a put of unknown outcome."""
    return w.pc in ("Doubt", "Listed", "Closed", "Reread")


def arrives(s: Shared, s2: Shared, request: tuple, ok: bool) -> bool:
    """Return whether the step takes this request out of the pool, and applies or refuses it as observed."""
    gone = list(s.pool)
    for one in s2.pool:
        gone.remove(one)
    return (gone[0][0], gone[0][-1]) == (request[0], request[-1]) and (request[0] == "Manifest" or gone[0] == request) and (
        ok == ((s2.manifest, s2.wal) != (s.manifest, s.wal)))


def is_nowhere(s: Shared, record: Body) -> bool:
    return record not in s.acked and all(record != body for one in s.wal for body in one) and \
        all(request[-1] != record for request in s.pool) and record not in s.manifest.flushed


SAID = {  # response to an append -> the condition under which it is true
    "committed": lambda s, w, record: w.pc == "Open" and w.k == record[1] + 1 and record in s.acked,
    "failed": lambda s, w, record: w.pc == "Open" and w.k == record[1] and is_nowhere(s, record),
    "fenced": lambda s, w, record: w.pc == "Fenced" and (record in s.refused or is_nowhere(s, record)),
    "unknown": lambda s, w, record: w.pc in ("Doubt", "Refused", "Created", "Fenced", "Open") and record not in s.acked,
}
OF_OTHERS = {  # the same for an open, or a flush
    "not open": lambda s, w: w.pc not in ("Open", "Created"),
    "flushed": lambda s, w: w.pc == "Open" and w.base is not None and w.base.flushed == w.has,
    **dict.fromkeys(("not flushed", "not checkpointed"), lambda s, w: w.pc in ("Open", "Reread", "Fenced")),
}

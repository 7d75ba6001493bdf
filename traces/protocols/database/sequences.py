"""Safety: every request on one sequence of files of a database is an action of model/protocols/sequenced_metadata_boundary.py.

Each client that changes the sequence is a writer of that model, and each of its attempts to create a file is an update of its
own. (Whether two attempts make the same change is the business of other parts.) So the model's content of a file is the content
of the file that its creator has read, and the creator's next update. A compactor that reads the latest file and a boundary
before it decides what to do is a writer that reads and does not create: the model has no action for that read of the boundary.

A writer of a database knows the file that it read or put last. If a listing after that file is empty, it builds on the file
without reading it again. For the model it lists and reads at that moment, unless the model's writer knows the file, too.

The history has the files that were created ahead of the boundary. A file created behind it is in nobody's history: the model
holds it, and the other parts see only a conflict, or nothing.
"""

from bisect import insort
from collections.abc import Callable, Mapping
from heapq import heappush
from typing import NamedTuple

from highwater.impl.layout import Namespace
from highwater.traces.event import Event
from highwater.traces.form import MUTATIONS, READS
from highwater.traces.protocols import sequenced_metadata_boundary as boundary
from highwater.traces.protocols.database.contents import numbered
from highwater.traces.refine import STUTTER, Match, Refiner
from highwater.traces.trace import copied

LOOKS = ("get", "get_if_changed")  # reads of a boundary
FORGETS = {"forget": "LoseReply", "crash": "Crash"}
NEW = tuple.__new__


class Put(NamedTuple):
    """One file as it was put, or as it was sent and may still be put. Its form has no expiries, so that forms recur."""

    id: int
    body: bytes
    form: bytes  # the content in the model's form
    place: int = -1  # zero-based place in the history; -1: not in it


class Sequence:
    """One sequence against the model. `names`: client -> its name in the model. `first`: the content of the first file.
    `checkpoints_in` returns the checkpoints in a content."""

    def __init__(self, refiner: Refiner, namespace: Namespace, skew_ms: int, names: Mapping[str, str],
                 first: bytes, checkpoints_in: Callable[[bytes], tuple]):
        self.trace = boundary.Trace(refiner, namespace, skew_ms)
        self.refiner, self.namespace, self.names, self.checkpoints_in = refiner, namespace, names, checkpoints_in
        self.page = refiner.model.constants.PAGE
        self.history: list[Put] = [Put(1, first, numbered(frozenset(), frozenset()), 0)]
        self.there: dict[int, Put] = {1: self.history[0]}  # id -> the file that exists
        self.ids: list[int] = [1]  # of the files that exist
        self.boundary = 0
        self.sent: dict[tuple[str, int], tuple] = {}  # client, request in flight -> the model's request, and the file or None
        self.got: dict[str, Put] = {}  # reader -> the file that it got last
        self.knows: dict[str, bool] = {}  # client -> whether its last listing began after a file that it knows
        self.after: dict[str, str] = {}  # client -> the key after which the next page of its listing begins
        self.met: dict[str, set[int]] = {}  # client that changes the sequence -> the ids of files that it has got or put
        self.few: set[str] = set()  # collectors that were listed nothing to collect

    def __copy__(self) -> "Sequence":
        again: Sequence = copied(self)
        again.trace = copied(self.trace)
        return again

    # --- what exists

    def latest(self) -> Put:
        """Return the latest file of the history."""
        return self.history[-1]

    def _put(self, put: Put) -> Put:
        for one in self.checkpoints_in(put.body):
            if one.expiry_ms:
                heappush(self.trace.expiries, (one.expiry_ms, one.manifest_id))
        if put.id > self.boundary:
            put = put._replace(place=len(self.history))
            self.history.append(put)
        if put.id not in self.there:
            insort(self.ids, put.id)
        self.there[put.id] = put
        return put

    def _note(self, e: Event) -> None:
        """Note what a request has changed, apart from a create."""
        if e.op == "delete" and e.status < 300:
            i = self.namespace.file_id(e.key) or 0
            if self.there.pop(i, None):
                self.ids.remove(i)
        elif e.key == self.namespace.boundary_key and e.op not in LOOKS and e.status == 200:
            self.boundary = int(e.body)

    # --- requests

    def pass_time(self, now_ms: int) -> None:
        """Let checkpoints expire."""
        if self.trace.expiries:
            self.trace.now_ms = now_ms
            self.trace._pass_time()

    def take(self, e: Event) -> Put | None:
        """Take a request that its client waits for, or the end of its waiting. Return the file that it has put, if any."""
        name = self.names[e.client]
        changes = name[0] == "W"
        if e.kind == "applied":
            if changes:
                return self._answered(e, name)
            if not self._is_aside(e):
                self._step(e, name)
            if e.op == "get" and e.status == 200 and e.key != self.namespace.boundary_key:
                self.got[e.client] = self.there[self.namespace.file_id(e.key) or 0]
            self._note(e)
            return None
        if e.pending and e.op in MUTATIONS:
            self._send(e, name)
        if e.kind == "crash":
            self.forget(e.client, "crash")
        elif changes:
            if not (e.kind == "refused" and e.status < 500 and e.op == "create"):  # it may send the same create again
                self.forget(e.client)
        elif not self._is_aside(e):
            self._step(e, name)
        return None

    def _is_aside(self, e: Event) -> bool:
        """Return whether a collector reads on although it has found nothing to collect. The model's collector stops there."""
        if e.op == "list" and self.names[e.client][0] == "C":
            few = e.kind == "applied" and not e.condition and not e.truncated and len(e.keys) < 2
            (self.few.add if few else self.few.discard)(e.client)
            return False
        return e.op in READS and e.client in self.few

    def _step(self, e: Event, name: str, body: bytes | None = None) -> None:
        """Take a step of the model, with the content in its form."""
        if body is None:
            is_file = e.body and e.key != self.namespace.boundary_key
            body = self.there[self.namespace.file_id(e.key) or 0].form if is_file else e.body
        event = NEW(Event, (*e[:2], name, *e[3:9], body, *e[10:]))
        self.refiner.event(name, event, self.trace._match)

    def forget(self, client: str, why: str = "forget") -> None:
        """Let a writer start over, or crash, if it has begun anything."""
        name = self.names[client]
        self.after.pop(client, None)
        if self.refiner.local(name).pc != "Idle":
            self.refiner.event(name, (0, 0, name, why), lost)

    def _answered(self, e: Event, name: str) -> Put | None:
        """Take the answer to a client that changes the sequence."""
        local = self.refiner.local(name)
        if e.op == "list":
            self._listed(e, name)
        elif e.key == self.namespace.boundary_key:
            if local.pc == "Created" or e.op not in LOOKS:
                self._step(e, name)
        elif e.op == "get":
            i = self.namespace.file_id(e.key) or 0
            self.met.setdefault(e.client, set()).add(i)
            if local.pc == "Listed" and local.n == i:
                self._step(e, name)
        elif e.op == "create":
            put = self._next(e, name)
            self._step(e, name, put.form)
            if e.status == 200:
                self.met.setdefault(e.client, set()).add(put.id)
                return self._put(put)
        else:
            self._step(e, name, e.body)
        return None

    def _next(self, e: Event, name: str) -> Put:
        """Return the file that a client puts: its content is that of the file which it has read, and its next update."""
        local = self.refiner.local(name)
        updates = local.base.updates | {(int(name.partition("#")[2]), local.k)}
        checkpoints = frozenset([one.manifest_id for one in self.checkpoints_in(e.body)])
        return Put(self.namespace.file_id(e.key) or 0, e.body, numbered(updates, checkpoints))

    # --- listings of clients that change the sequence

    def _listed(self, e: Event, name: str) -> None:
        if not e.condition or e.condition != self.after.get(e.client):  # a new listing
            self.knows[e.client] = bool(e.condition)
            if not e.condition:
                self.forget(e.client)
            elif not e.client.startswith("Writer") or self.namespace.file_id(e.condition) not in self.met.get(e.client, ()):
                why = f"{e.client} lists from {e.condition}, and has neither got nor put that file, nor read the page before"
                raise self.trace._refused("list", why)
        if not self.knows[e.client]:
            self._step(e, name)
        elif not e.truncated:
            self._listed_after(e, name)
        self.after[e.client] = e.keys[-1] if e.truncated and e.keys else e.condition if e.truncated else ""

    def _listed_after(self, e: Event, name: str) -> None:
        """Take a listing after a file that the client knows. If nothing follows, the client may build on that file."""
        local, latest = self.refiner.local(name), self.ids[-1]
        alone = not e.keys and self.namespace.file_id(e.condition) == latest
        if alone and (local.pc, local.n) == ("Ready", latest):
            return
        self.forget(e.client)
        cursor, ids = "", self.ids
        while ids or not cursor:
            page, ids = (ids[:self.page], ids[self.page:]) if self.page else (ids, [])
            keys = tuple(map(self.namespace.key, page))
            self._step(Event(e.t_ms, e.request, name, "applied", "list", e.key, cursor, 200, "", b"", keys, bool(ids)), name)
            cursor = keys[-1]
        if alone:
            form, key = self.there[latest].form, self.namespace.key(latest)
            self._step(Event(e.t_ms, e.request, name, "applied", "get", key, "", 200, "v", form), name, form)

    # --- requests that nobody waits for

    def _send(self, e: Event, name: str) -> None:
        put = self._next(e, name) if e.op == "create" and e.key != self.namespace.boundary_key else None
        request = self.trace._request(NEW(Event, (*e[:2], name, *e[3:9], put.form if put else e.body, *e[10:])))
        self.refiner.event(name, (0, 0, name, request), self.trace._sends)
        self.sent[e.client, e.request] = request, put

    def arrive(self, e: Event) -> Put | None:
        """Take a mutation that is applied although nobody waits for it. Return the file that it has put, if any."""
        request, put = self.sent.pop((e.client, e.request))
        self.refiner.event("", (0, 0, request, e.status), self.trace._arrives)
        if put is None:
            self._note(e)
        elif e.status == 200:
            return self._put(put)
        return None

    # --- a reader's caller

    def misread(self, client: str, got: Put) -> str:
        """Return why a reader cannot have read this file; "" if the model agrees with it."""
        local = self.refiner.local(self.names[client])
        read = boundary.decoded(got.form)[0].updates
        return "" if (local.pc, local.n, local.got) == ("Done", got.id, read) else f"in the model the reader is {local}"


def lost(event: tuple) -> Match:
    """Return the step of a client that starts over."""
    *_, name, why = event
    return Match(name, (FORGETS[why], STUTTER))

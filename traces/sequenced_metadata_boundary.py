"""Safety: every request of the trace is some action of model/sequenced_metadata_boundary.py, and what callers were told
is what the model's history says.

The mapping of events to actions. Client names are the model's process names: "Writer#0", "Collector#0", "Reader#0".
"""

from heapq import heappop, heappush
from typing import Any

from impl import manifest_json
from impl.layout import Namespace
from model.sequenced_metadata_boundary import Constants, File, Shared, model, page_after
from traces.event import Event
from traces.refine import STUTTER, Failure, Match, Refiner

LIST = ("List", "ListPage")
DECODED: dict[bytes, tuple] = {}  # what a body says is the same in every run


class Trace:
    """Refines one trace. `skew_ms`: how far any client's clock may be ahead of the store's."""

    def __init__(self, refiner: Refiner, namespace: Namespace, skew_ms: int = 0):
        self.refiner, self.namespace, self.skew_ms = refiner, namespace, skew_ms
        self.tokens: dict[str, tuple[int, int]] = {}  # update id -> (writer, its how-manieth) in the model
        self.files: dict[bytes, File] = {}
        self.boundaries: dict[str, int] = {"": 0}  # version -> value
        self.pending: dict[int, tuple] = {}  # request number -> its element of the model's pool
        self.expiries: list[tuple[int, int]] = []  # (when, id of the file that the checkpoint refers to)
        refiner.begin()

    def observe(self, e: Event) -> None:
        """Raises Failure."""
        while self.expiries and self.expiries[0][0] <= e.t_ms + self.skew_ms:
            self._step(e, "", ("ExpireCheckpoint", STUTTER), (heappop(self.expiries)[1],))
        if e.kind == "told":
            self._told(e)
        elif e.kind == "applied":
            if e.awaited:
                self._applied(e)
            elif e.request in self.pending:
                self._arrived(e)
        elif e.kind == "timeout" or e.kind == "crash":
            self._gone(e)
        elif e.kind == "refused":
            self._failed(e)

    def _step(self, e: Event, process: str, actions: tuple, choices: tuple | None = None, observed: object = None) -> None:
        self.refiner.step(Match(process, actions, choices, observed), e)

    # --- requests that were applied while their client waited

    def _applied(self, e: Event) -> None:
        role = e.client.partition("#")[0]
        if e.op == "list":
            ids = tuple([i for i in map(self.namespace.file_id, e.keys) if i is not None])
            cursor = self.namespace.file_id(e.condition) if e.condition else 0
            if role != "Collector" or e.truncated or cursor or len(ids) > 1:  # of a single file nothing is to collect
                self._step(e, e.client, LIST, None, (cursor, ids, e.truncated))
        elif e.key == self.namespace.boundary_key:
            self._boundary(e, role)
        else:
            self._file(e, role, self.namespace.file_id(e.key))

    def _boundary(self, e: Event, role: str) -> None:
        value = None
        if e.status == 200:
            value = self.boundaries[e.version] = int(e.body)
        if e.op in ("get", "get_if_changed"):
            value = 0 if e.status == 404 else self.boundaries[e.version]
            actions = {"Writer": ("Accept", "Reject"), "Reader": ("ReadAccept", "ReadReject"), "Collector": ("ReadBoundary",)}
            self._step(e, e.client, actions[role], None, value)
        elif e.status == 200:
            self._step(e, e.client, ("Advance",), (value,))
        else:
            self._step(e, e.client, ("AdvanceConflict",), ())

    def _file(self, e: Event, role: str, file_id: int) -> None:
        if e.op == "get":
            file = self._content(e) if e.status == 200 else None
            actions = ("ReadCheckpoints", "CheckpointsMissing") if role == "Collector" else ("ReadLatest", "ReadMissing")
            self._step(e, e.client, actions[:1] if file else actions[1:], (), (file_id, file))
        elif e.op == "create" and e.status == 200:
            self._step(e, e.client, ("CreateNext",), None, (file_id, self._created(e)))
        elif e.op == "create":
            self._step(e, e.client, ("CreateConflict",), (), file_id)
        elif e.op == "delete":
            self._step(e, e.client, ("Delete",), (file_id,))
        else:
            raise Failure("refinement", f"refinement:{role}.{e.op}", f"{e.op} of a sequenced file is no action of any client")

    # --- requests whose reply never comes

    def _gone(self, e: Event) -> None:
        """The client stops waiting, or dies. A mutation that may still be applied is now in the model's pool."""
        if e.pending and e.op in ("create", "update", "delete"):
            self.pending[e.request] = self._sent(e)
        if e.kind == "crash":
            self._step(e, e.client, ("Crash", STUTTER))
        else:
            self._failed(e)

    def _sent(self, e: Event) -> tuple:
        if e.key == self.namespace.boundary_key:
            value = int(e.body)
            self._step(e, e.client, ("SendAdvance",), (value,))
            return ("Advance", self.boundaries[e.condition], value)
        file_id = self.namespace.file_id(e.key)
        if e.op == "delete":
            self._step(e, e.client, ("SendDelete",), (file_id,))
            return ("Delete", file_id)
        file = self._created(e)
        request = ("Create", file_id, tuple(sorted(file.updates)), tuple(sorted(file.checkpoints)))
        self._step(e, e.client, ("SendCreate",), None, request)
        return request

    def _failed(self, e: Event) -> None:
        """No reply, or a refusal: the client goes on from what it knows. Of a delete it needs no reply."""
        if e.op != "delete":
            self._step(e, e.client, ("LoseReply", STUTTER))

    def _arrived(self, e: Event) -> None:
        """A request that nobody waits for is applied."""
        request = self.pending.pop(e.request)
        if request[0] == "Advance" and e.status == 200:
            self.boundaries[e.version] = request[2]
        self._step(e, "", ("ApplyPending",), request)
        if request[0] == "Create" and e.status == 200:
            self._note_checkpoints(e.body)

    # --- contents

    def _content(self, e: Event) -> File:
        file = self.files.get(e.body)
        if file is None:
            updates, checkpoints = decoded(e.body)
            unknown = [u for u in updates if u not in self.tokens]
            if unknown:
                raise Failure("refinement", "refinement:content", f"{e.key} holds updates that nobody has sent: {unknown}")
            file = self.files[e.body] = File(
                frozenset([self.tokens[u] for u in updates]), frozenset([file_id for file_id, _ in checkpoints]))
        return file

    def _created(self, e: Event) -> File:
        """What the client puts: an update id that is new is the one that the model's writer is at."""
        for update in decoded(e.body)[0]:
            if update not in self.tokens:
                self.tokens[update] = (self.refiner.model.processes[self.refiner.index[e.client]].index,
                                       self.refiner.local(e.client).k)
        self._note_checkpoints(e.body)
        return self._content(e)

    def _note_checkpoints(self, body: bytes) -> None:
        for file_id, expiry_ms in decoded(body)[1]:
            if expiry_ms:
                heappush(self.expiries, (expiry_ms, file_id))

    # --- what callers were told

    def _told(self, e: Event) -> None:
        """`committed` and `read` carry the file's key; the body is the update id, or for `read` the file's content."""
        shared: Shared = self.refiner.shared()
        if e.op == "read":
            reader, file_id = self.refiner.local(e.client), self.namespace.file_id(e.key)
            if (reader.pc, reader.n, reader.got) != ("Done", file_id, self._content(e).updates):
                raise self._misled(e, f"the reader of the model is {reader}")
            return
        token = self.tokens.get(e.body.decode())
        acked = {(w, k): i for i, w, k in shared.acked}
        if e.op == "committed" and acked.get(token) != self.namespace.file_id(e.key):
            raise self._misled(e, f"the model has {token} acknowledged " +
                               (f"as id {acked[token]}" if token in acked else "nowhere"))
        if e.op == "refused" and token in acked:
            raise self._misled(e, f"the model has it acknowledged as id {acked[token]}")
        if e.op == "failed" and token is not None:
            raise self._misled(e, f"the model has it sent, as {token}")

    def _misled(self, e: Event, why: str) -> Failure:
        return Failure("safety", f"told:{e.op}", f"{e.client} was told {e.op!r} of {e.body.decode()!r} {e.key}, but {why}",
                       self.refiner.unpacked())


def decoded(body: bytes) -> tuple[tuple[str, ...], tuple[tuple[int, int], ...]]:
    """(update ids, ((id of the file that a checkpoint refers to, expiry), ..)) of a file's content."""
    found = DECODED.get(body)
    if found is None:
        if len(DECODED) > 100_000:
            DECODED.clear()
        manifest = manifest_json.decode(body)
        found = manifest.updates, tuple([(c.manifest_id, c.expiry_ms) for c in manifest.checkpoints])
        DECODED[body] = found
    return found


def constants(writers: int, collectors: int, readers: int, page_size: int, checkpoints: bool) -> Constants:
    """The model without bounds, for traces of so many clients; `page_size` 0: a listing has one page."""
    return Constants(WRITERS=writers, COLLECTORS=collectors, READERS=readers, COMMITS=None, MAX_ID=None, PAGE=page_size,
                     CHECKPOINTS=None if checkpoints else 0, MAX_PENDING=None, MAX_LOST=None, MAX_CRASHES=None)


def refiner(c: Constants) -> Refiner:
    """Make it once, and use it for many traces: it keeps what it has worked out."""

    def agrees(action: str, observed: Any, s: Shared, local: Any, s2: Shared, local2: Any) -> bool:
        return observed is None or action not in AGREES or AGREES[action](c, observed, s, local, s2, local2)

    return Refiner(model(c), agrees)


def same_page(c: Constants, observed: tuple, s: Shared, local: Any, s2: Shared, local2: Any) -> bool:
    cursor, ids, truncated = observed
    return page_after(c, s, cursor) == (list(ids), truncated)


AGREES = {
    "List": same_page,
    "ListPage": same_page,
    "ReadLatest": lambda c, o, s, l, s2, l2: l.n == o[0] and s.files[o[0] - 1] == o[1],
    "ReadMissing": lambda c, o, s, l, s2, l2: l.n == o[0],
    "ReadCheckpoints": lambda c, o, s, l, s2, l2: max(l.listed) == o[0] and s.files[o[0] - 1] == o[1],
    "CheckpointsMissing": lambda c, o, s, l, s2, l2: max(l.listed) == o[0],
    "CreateNext": lambda c, o, s, l, s2, l2: l.n + 1 == o[0] and s2.files[o[0] - 1] == o[1],
    "CreateConflict": lambda c, o, s, l, s2, l2: l.n + 1 == o,
    "SendCreate": lambda c, o, s, l, s2, l2: o in s2.pool,
    "Accept": lambda c, o, s, l, s2, l2: s.boundary == o,
    "Reject": lambda c, o, s, l, s2, l2: s.boundary == o,
    "ReadBoundary": lambda c, o, s, l, s2, l2: s.boundary == o,
    "ReadAccept": lambda c, o, s, l, s2, l2: s.boundary == o,
    "ReadReject": lambda c, o, s, l, s2, l2: s.boundary == o,
}

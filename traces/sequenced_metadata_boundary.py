"""Safety: every request of the trace is some action of model/sequenced_metadata_boundary.py, and what callers were told
is what the model's history says.

Client names are the model's process names: "Writer#0", "Collector#0", "Reader#0". An update id is "w.k", for the k-th
update that the model's writer w begins.
"""

from functools import lru_cache
from heapq import heappop, heappush

from impl import manifest_json
from impl.layout import InvalidName, Namespace
from model.sequenced_metadata_boundary import Collector, Constants, File, Reader, Shared, Writer, model, page_after, present
from traces.event import Event
from traces.form import MUTATIONS, UNUSED, malformed
from traces.refine import REST, STUTTER, Failure, Match, Refiner

CLAIMS = {"committed": (1,), "refused": (1,), "failed": (0,), "unknown": (0, 1)}  # -> so many updates has it ended since
FILES: dict[bytes, tuple[File, tuple[tuple[int, int], ...]]] = {}  # what a body says is the same in every run
LIMIT = 100_000


def constants(writers: int, collectors: int, readers: int, page_size: int, checkpoints: bool) -> Constants:
    """The model without bounds, for traces of so many clients; `page_size` 0: a listing has one page."""
    return Constants(WRITERS=writers, COLLECTORS=collectors, READERS=readers, COMMITS=None, MAX_ID=None, PAGE=page_size,
                     CHECKPOINTS=None if checkpoints else 0, MAX_PENDING=None, MAX_LOST=None, MAX_CRASHES=None)


def refiner(c: Constants) -> Refiner:
    """Make it once, and use it for many traces: it keeps what it has worked out."""
    return Refiner(model(c)._replace(sometimes={}))


def decoded(body: bytes) -> tuple[File, tuple[tuple[int, int], ...]]:
    """The model's content of a file, and of each checkpoint the id that it refers to and its expiry."""
    found = FILES.get(body)
    if found is None:
        if len(FILES) > LIMIT:
            FILES.clear()
        manifest = manifest_json.decode(body)
        tokens = [tuple(map(int, update.split("."))) for update in manifest.updates]
        file = File(frozenset(tokens), frozenset([c.manifest_id for c in manifest.checkpoints]))
        found = FILES[body] = file, tuple([(c.manifest_id, c.expiry_ms) for c in manifest.checkpoints])
    return found


@lru_cache(LIMIT)
def update_of(client: str, body: bytes) -> tuple[int, int]:
    """The update that a writer is told of. Raises ValueError if it is no update of this writer's."""
    writer, number = map(int, body.split(b"."))
    if (client, body) != (f"Writer#{writer}", b"%d.%d" % (writer, number)):
        raise ValueError(f"{client} is told of {body!r}")
    return writer, number


def would_apply(s: Shared, request: tuple) -> bool:
    kind, *args = request
    return not present(s, args[0]) if kind == "Create" else s.boundary == args[0] if kind == "Advance" else True


def listed_up_to(local: Writer | Collector | Reader) -> int:
    """The id after which the next page of its listing begins."""
    return 0 if local.pc != "Listing" else max(local.listed) if isinstance(local, Collector) else local.n


def sent(e: Event) -> tuple:
    """What a client asks, without the reply."""
    return e.op, e.key, e.condition, e.body if e.op in MUTATIONS else b""


class Trace:
    """Refines one trace. `skew_ms`: how far any client's clock may be ahead of the store's."""

    def __init__(self, refiner: Refiner, namespace: Namespace, skew_ms: int = 0):
        self.refiner, self.namespace, self.skew_ms = refiner, namespace, skew_ms
        self.events: list[Event] = []
        self.last: dict[str, int] = {}  # number of the last request of each client: it has one at a time
        self.pending: dict[tuple[str, int], tuple] = {}  # client, number -> op, key, condition, body, and in the pool
        self.objects: dict[str, tuple[str, bytes]] = {}  # key -> version and content, as its last writer or reader saw it
        self.now_ms = 0
        self.expiries: list[tuple[int, int]] = []  # (when, id of the file that the checkpoint refers to)
        refiner.begin()

    def observe(self, e: Event) -> None:
        """Raises Failure, also for an event that is none of this protocol's."""
        self.events.append(e)
        try:
            self._take(e)
        except (LookupError, ValueError, TypeError, AttributeError, InvalidName, manifest_json.InvalidManifest) as error:
            message = f"event {len(self.events) - 1} is none of this protocol's: {error}"
            raise Failure("refinement", f"refinement:{type(error).__name__}", message, self.refiner.unpacked()) from error

    def _take(self, e: Event) -> None:
        t_ms, request, client, kind, op, key, condition, _, version, body, _, _, awaited, pending = e
        if t_ms < self.now_ms:
            raise self._refused("order", f"at {t_ms} ms, after what was at {self.now_ms} ms")
        self.now_ms = t_ms
        if self.expiries:
            self._expire(t_ms + self.skew_ms)
        if kind == "told":
            self._told(e)
        elif awaited or kind != "applied":
            if request <= self.last.get(client, 0):
                self._replied(e)
            self.last[client] = request
            if pending and op in MUTATIONS:
                self._sent(e)
            self.refiner.event(client, e, self._match)
            if (version or condition) and self.objects.get(key) != (version, body):
                self._stored(e)
        else:
            self._arrived(e)

    def _expire(self, now_ms: int) -> None:
        while self.expiries and self.expiries[0][0] <= now_ms:
            self.refiner.step(Match("", ("ExpireCheckpoint", STUTTER), (heappop(self.expiries)[1],)))

    def _note_checkpoints(self, e: Event) -> None:
        for file_id, expiry_ms in decoded(e.body)[1]:
            if expiry_ms:
                heappush(self.expiries, (expiry_ms, file_id))

    def _well_formed(self, e: Event) -> None:
        wrong = malformed(e, self.namespace)
        if wrong:
            raise self._refused("form", wrong)

    def _replied(self, e: Event) -> None:
        """A number that the client has used before comes again only where the reply to that request is lost, or the client
        dies before it has asked for anything else."""
        if e.request < (last := self.last.get(e.client, 1)):
            raise self._refused("order", f"{e.client} has asked for something else meanwhile: request {e.request} after {last}")
        asked = next((old for old in self.events[-2::-1] if (old.client, old.request) == (e.client, e.request)), None)
        lost = e.kind == "crash" or (e.kind == "timeout" and asked is not None and asked.kind == "applied")
        if asked is not None and (not lost or e.pending or sent(asked) != sent(e)):
            raise self._refused("order", f"request {e.request} of {e.client} had another end before")

    def _stored(self, e: Event) -> None:
        """A reply shows what the last writer has put, and a condition holds if it names the version of that."""
        if e.kind != "applied" or e.op == "list":
            return
        known = self.objects.get(e.key)
        version = known[0] if known else e.condition if e.status in (200, 304) else ""
        if e.op == "update":
            right = (e.status == 200) == (version == e.condition)
        elif e.status == 304:
            right = version == e.condition == e.version
        else:
            right = known is None or e.op in MUTATIONS or e.status == 404
        if not right:
            raise self._refused("store", f"{e.op} {e.key} is answered by {e.status} {e.version}, but what was put is {known}")
        if e.status == 200:
            self.objects[e.key] = e.version, e.body
            if e.op == "create" and e.key != self.namespace.boundary_key:
                self._note_checkpoints(e)

    def _refused(self, what: str, why: str) -> Failure:
        return Failure("refinement", f"refinement:{what}", why, self.refiner.unpacked())

    # --- what a request is in the model

    def _match(self, e: Event) -> Match | None:
        """Of the event alone: no state of this trace goes into it, but what is the same in every trace."""
        self._well_formed(e)
        if e.kind == "crash":
            return Match(e.client, ("Crash", STUTTER))
        if e.kind in ("timeout", "refused"):  # it goes on from what it knows; of a delete it needs no reply
            return Match(e.client, ("LoseReply", STUTTER)) if e.op != "delete" else None
        role = e.client.partition("#")[0]
        if e.op == "list":
            return self._listed(e, role)
        if e.key == self.namespace.boundary_key:
            return self._boundary(e, role)
        return self._file(e, role, self.namespace.file_id(e.key))

    def _listed(self, e: Event, role: str) -> Match | None:
        c = self.refiner.model.constants
        page = [i for i in map(self.namespace.file_id, e.keys) if i is not None], e.truncated
        cursor = self.namespace.file_id(e.condition) if e.condition else 0
        if role == "Collector" and not e.truncated and not cursor and len(page[0]) < 2:  # there is nothing to collect
            return Match(e.client, (STUTTER,), (), lambda a, s, l, s2, l2: page_after(c, s, cursor) == page, e.op)
        return Match(e.client, ("List", "ListPage"), (),
                     lambda a, s, l, s2, l2: cursor == listed_up_to(l) and page_after(c, s, cursor) == page)

    def _boundary(self, e: Event, role: str) -> Match:
        if e.op in ("get", "get_if_changed"):
            value = 0 if e.status == 404 else int(e.body) if e.status == 200 else None  # 304 shows no value
            actions = {"Writer": ("Accept", "Reject"), "Collector": ("ReadBoundary", STUTTER),
                       "Reader": ("ReadAccept", "ReadReject")}
            return Match(e.client, actions[role], (), lambda a, s, l, s2, l2: value in (None, s.boundary) and (
                a is not STUTTER or l.pc == "Known"))  # a collector that knows the boundary may look again
        if e.op in ("create", "update", "put") and e.status == 200:
            return Match(e.client, ("Advance",), (int(e.body),))
        if e.op in ("create", "update"):
            return Match(e.client, ("AdvanceConflict",), ())
        raise self._refused(f"{role}.{e.op}", f"{e.op} of {e.key} is no action of any client")

    def _file(self, e: Event, role: str, file_id: int | None) -> Match:
        client = e.client
        if e.op == "get" and role == "Collector":
            if e.status == 404:
                return Match(client, ("CheckpointsMissing",), (), lambda a, s, l, s2, l2: max(l.listed) == file_id)
            file = decoded(e.body)[0]
            return Match(client, ("ReadCheckpoints",), (),
                         lambda a, s, l, s2, l2: max(l.listed) == file_id and s.files[file_id - 1] == file)
        if e.op == "get":
            if e.status == 404:
                return Match(client, ("ReadMissing",), (), lambda a, s, l, s2, l2: l.n == file_id)
            file = decoded(e.body)[0]
            return Match(client, ("ReadLatest",), (),
                         lambda a, s, l, s2, l2: l.n == file_id and s.files[file_id - 1] == file)
        if e.op == "create" and e.status == 200:
            file = decoded(e.body)[0]
            return Match(client, ("CreateNext",), None,
                         lambda a, s, l, s2, l2: l.n + 1 == file_id and s2.files[file_id - 1] == file)
        if e.op == "create":
            return Match(client, ("CreateConflict",), (), lambda a, s, l, s2, l2: l.n + 1 == file_id)
        if e.op == "delete":
            return Match(client, ("Delete",), (file_id,), lambda a, s, l, s2, l2: e.status != 404 or not present(s, file_id))
        raise self._refused(f"{role}.{e.op}", f"{e.op} of {e.key} is no action of any client")

    # --- requests that nobody waits for

    def _sent(self, e: Event) -> None:
        """The client stops waiting, or dies, and its mutation may still be applied: it is now in the model's pool."""
        if e.key == self.namespace.boundary_key:
            request = ("Advance", self.refiner.local(e.client).b, int(e.body))
        elif e.op == "delete":
            request = ("Delete", self.namespace.file_id(e.key))
        elif e.op != "create":
            raise self._refused(f"Writer.{e.op}", f"{e.op} of {e.key} is no action of any client")
        else:
            file = decoded(e.body)[0]
            request = ("Create", self.namespace.file_id(e.key), tuple(sorted(file.updates)), tuple(sorted(file.checkpoints)))
        self.refiner.event(e.client, (0, 0, e.client, request), self._sends)
        self.pending[e.client, e.request] = request, sent(e)

    @staticmethod
    def _sends(event: tuple) -> Match:
        *_, client, request = event
        sends = {"Advance": "SendAdvance", "Delete": "SendDelete"}.get(request[0])
        if sends:
            return Match(client, (sends,), request[-1:])
        return Match(client, ("SendCreate",), None, lambda a, s, l, s2, l2: s2.pool == tuple(sorted((*s.pool, request))))

    def _arrived(self, e: Event) -> None:
        self._well_formed(e)
        if e.op not in MUTATIONS:  # a read, of which nobody learns
            of = [old for old in self.events[:-1] if (old.client, old.request) == (e.client, e.request)]
            request, asked = (), [sent(old) for old in of if old.pending] if all(old.awaited for old in of) else []
            asked = asked[0] if asked else None
        else:
            request, asked = self.pending.pop((e.client, e.request), ((), ()))
        if asked != sent(e):
            raise self._refused("ApplyPending", f"request {e.request}, {e.op} {e.key}, was sent by nobody")
        if not request:
            return
        self.refiner.event("", (0, 0, request, e.status), self._arrives)
        if e.status == 200:
            self._stored(e)

    @staticmethod
    def _arrives(event: tuple) -> Match:
        *_, request, status = event
        return Match("", ("ApplyPending",), (request,),
                     lambda a, s, l, s2, l2: (status < 300) == would_apply(s, request) if request[0] != "Delete" else
                     status != 404 or not present(s, request[1]))

    # --- what callers were told

    def _told(self, e: Event) -> None:
        """`committed` and `read` carry the file's key; the body is the update id, or for `read` the file's content."""
        known = self.refiner.pair(e.client), e[REST]
        if known in self.refiner.true and not e.request:
            return
        if e.request or e[6:9] != UNUSED[0] or e[10:] != UNUSED[1]:
            raise self._refused("form", f"{e.client} was told more than that: {e}")
        shared: Shared = self.refiner.shared()
        if e.op == "read":
            reader, file_id = self.refiner.local(e.client), self.namespace.file_id(e.key)
            if (reader.pc, reader.n, reader.got) != ("Done", file_id, decoded(e.body)[0].updates):
                raise self._misled(e, f"the reader of the model is {reader}")
            read = next((old.body for old in self.events[-2::-1] if (old.client, old.op, old.key) == (e.client, "get", e.key)
                         and old.awaited and old.status == 200), None)
            if read != e.body:  # of what it read itself: by now there may be another's file
                raise self._misled(e, "it has read another content")
            return
        self._told_of_update(e, shared)
        self.refiner.true.add(known)

    def _told_of_update(self, e: Event, shared: Shared) -> None:
        writer, number = update_of(e.client, e.body)
        if e.op not in CLAIMS or number > self.refiner.local(e.client).k or bool(e.key) != (e.op == "committed"):
            raise self._misled(e, "it has begun no such update, or nobody says so of one")
        found = [i for i, w, k in shared.acked if w == writer and k == number]
        if e.op == "committed" and self.namespace.file_id(e.key) not in found:
            raise self._misled(e, f"in the model it is acknowledged as id {found[0]}" if found else
                               "in the model it is not acknowledged")
        if e.op == "failed" and (any((writer, number) in file.updates for file in shared.files if file)
                                 or any(r[0] == "Create" and (writer, number) in r[2] for r in shared.pool)):
            raise self._misled(e, "in the model it is in a file, or under way")
        if e.op in ("refused", "failed") and found:
            raise self._misled(e, f"in the model it is acknowledged as id {found[0]}")
        local = self.refiner.local(e.client)
        if local.pc != "Idle" or local.k - number not in CLAIMS[e.op]:
            raise self._misled(e, "it has gone on to its next update meanwhile, or has not ended this one")

    def _misled(self, e: Event, why: str) -> Failure:
        return Failure("safety", f"told:{e.op}", f"{e.client} was told {e.op!r} of {e.body.decode()!r} {e.key}, but {why}",
                       self.refiner.unpacked())

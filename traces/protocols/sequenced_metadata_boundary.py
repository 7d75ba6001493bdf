"""Safety: every request of the trace is an action of model/protocols/sequenced_metadata_boundary.py, and each response to a
caller agrees with the model's history.

Client names are the model's process names: "Writer#0", "Collector#0", "Reader#0". An update id is "w.k", for the k-th update
that the model's writer w begins.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from heapq import heappop, heappush
from typing import Any

from highwater.impl.codecs.json.manifest import UPDATES, InvalidManifest
from highwater.impl.layout import Namespace
from highwater.model.protocols.sequenced_metadata_boundary import (
    Collector,
    Constants,
    File,
    Reader,
    Shared,
    Writer,
    model,
    page_after,
    present,
    recognises,
)
from highwater.traces import trace
from highwater.traces.calls import of_call
from highwater.traces.event import Event
from highwater.traces.options import Options, Recorded, StrangeClient, Unfit
from highwater.traces.protocols.sequenced_metadata_boundary_calls import CALLS, JUDGES
from highwater.traces.refine import STUTTER, Match, Refiner, refiner_of
from highwater.traces.trace import AGAIN, refiner_without_witnesses

CLAIMS = {  # response -> how many updates the writer may have ended since
    "committed": (1,), "recognised": (1,), "refused": (1,), "failed": (0,), "unknown": (0, 1),
}
FILES: dict[bytes, tuple[File, tuple[tuple[int, int], ...]]] = {}  # body -> its decoded content, the same in every run
LIMIT = 100_000


def constants(writers: int, collectors: int, readers: int, page_size: int, checkpoints: bool,
              on_refusal: str = "told", known: bool = False) -> Constants:
    """Return the constants of a model without bounds, for so many clients. `page_size` 0: a listing has one page. `on_refusal`:
    "recognised" for writers that update by MetadataStore.update_once. `known`: for those that keep what they have committed."""
    return Constants(WRITERS=writers, COLLECTORS=collectors, READERS=readers, COMMITS=None, MAX_ID=None, PAGE=page_size,
                     CHECKPOINTS=None if checkpoints else 0, MAX_PENDING=None, MAX_LOST=None, MAX_CRASHES=None,
                     ON_REFUSAL=on_refusal, KNOWN="accepted" if known else "never")


def refiner(c: Constants) -> Refiner:
    return refiner_without_witnesses(model(c))


def decoded(body: bytes) -> tuple[File, tuple[tuple[int, int], ...]]:
    """Return the model's content of a file, and for each checkpoint the id that it refers to and its expiry."""
    found = FILES.get(body)
    if found is None:
        if len(FILES) > LIMIT:
            FILES.clear()
        manifest = UPDATES.decode(body)
        tokens: list[Any] = [tuple(map(int, update.split("."))) for update in manifest.updates]
        file = File(frozenset(tokens), frozenset([c.manifest_id for c in manifest.checkpoints]))
        found = FILES[body] = file, tuple([(c.manifest_id, c.expiry_ms) for c in manifest.checkpoints])
    return found


@lru_cache(LIMIT)
def update_of(client: str, body: bytes) -> tuple[int, int]:
    """Return (writer, number) of the update in a response. Raises ValueError if it is not an update of this writer."""
    writer, number = map(int, body.split(b"."))
    if (client, body) != (f"Writer#{writer}", b"%d.%d" % (writer, number)):
        raise ValueError(f"{client} is told of {body!r}")
    return writer, number


def would_apply(s: Shared, request: tuple) -> bool:
    kind, *args = request
    return not present(s, args[0]) if kind == "Create" else s.boundary == args[0] if kind == "Advance" else True


def listed_up_to(local: Writer | Collector | Reader) -> int:
    """Return the id after which the next page of its listing begins."""
    return 0 if local.pc != "Listing" else max(local.listed) if isinstance(local, Collector) else local.n


class Trace(trace.Trace):
    """Refines one trace of this protocol."""

    alien = (*trace.UNCHECKED, InvalidManifest)
    calls, claims = CALLS, JUDGES
    keyed = ("committed", "read")
    at_rest: tuple[str, ...] = ("Idle",)  # a writer's `pc` at a response to its caller

    def _updates(self, e: Event) -> tuple[str, ...]:
        return UPDATES.decode(e.body).updates

    def _pass_time(self) -> None:
        self._expire(self.now_ms + self.skew_ms)

    def _expire(self, now_ms: int) -> None:
        while self.expiries and self.expiries[0][0] <= now_ms:
            self.refiner.step(Match("", ("ExpireCheckpoint", STUTTER), (heappop(self.expiries)[1],)))

    def _note(self, e: Event) -> None:
        if e.op == "create" and e.key != self.namespace.boundary_key:
            for file_id, expiry_ms in decoded(e.body)[1]:
                if expiry_ms:
                    heappush(self.expiries, (expiry_ms, file_id))  # the file that the checkpoint refers to

    # --- requests as actions of the model

    def _unanswered(self, e: Event) -> Match | None:
        """Return the step of a client without a reply: it continues from what it knows. A delete needs no reply."""
        return super()._unanswered(e) if e.op != "delete" else None

    def _answered(self, e: Event) -> Match | None:
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
        if role == "Collector" and not e.truncated and not cursor and len(page[0]) < 2:  # nothing to collect
            return Match(e.client, (STUTTER,), (), lambda a, s, l, s2, l2: page_after(c, s, cursor) == page, e.op)
        return Match(e.client, ("List", "ListPage"), (),
                     lambda a, s, l, s2, l2: cursor == listed_up_to(l) and page_after(c, s, cursor) == page)

    def _boundary(self, e: Event, role: str) -> Match:
        if e.op in ("get", "get_if_changed"):
            value = 0 if e.status == 404 else int(e.body) if e.status == 200 else None  # 304 shows no value
            doubts = role == "Writer" and recognises(self.refiner.model.constants)
            recognise = ("Recognise", "RecogniseReject") if doubts else ()
            actions = {"Writer": ("Accept", "Reject", *recognise), "Collector": (
                "CheckpointsAccept", "CheckpointsReject", "ReadBoundary", STUTTER), "Reader": ("ReadAccept", "ReadReject")}
            return Match(e.client, actions[role], (), lambda a, s, l, s2, l2: value in (None, s.boundary) and (
                a is not STUTTER or (l.pc == "Known" and l.checked >= l.marked)), unheard=doubts)  # a collector looks again
        if e.op in ("create", "update", "put") and e.status == 200:
            return Match(e.client, ("Advance",), (int(e.body),))
        if e.op in ("create", "update"):
            return Match(e.client, ("AdvanceConflict",), ())
        raise self._no_action(e, role=role)

    def _file(self, e: Event, role: str, file_id: Any) -> Match:
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
            applied = ("ReadApplied",) if role == "Writer" and recognises(self.refiner.model.constants) else ()
            return Match(client, ("ReadLatest", *applied), (),
                         lambda a, s, l, s2, l2: l.n == file_id and s.files[file_id - 1] == file)
        if e.op == "create" and e.status == 200:
            file = decoded(e.body)[0]
            return Match(client, ("CreateNext",), None, lambda a, s, l, s2, l2: l.n + 1 == file_id and (
                s2.files[file_id - 1] == file and s2.expired == s.expired))  # the model's file does not show a renewal
        if e.op == "create":
            return Match(client, ("CreateConflict",), (), lambda a, s, l, s2, l2: l.n + 1 == file_id)
        if e.op == "delete":
            return Match(client, ("Delete",), (file_id,), lambda a, s, l, s2, l2: e.status != 404 or not present(s, file_id))
        raise self._no_action(e, role=role)

    # --- requests that nobody waits for

    def _request(self, e: Event) -> tuple:
        if e.key == self.namespace.boundary_key:
            return "Advance", self.refiner.local(e.client).b, int(e.body)
        if e.op == "delete":
            return "Delete", self.namespace.file_id(e.key)
        if e.op != "create":
            raise self._no_action(e, role="Writer")
        file = decoded(e.body)[0]
        return "Create", self.namespace.file_id(e.key), tuple(sorted(file.updates)), tuple(sorted(file.checkpoints))

    @staticmethod
    def _sends(event: tuple) -> Match:
        *_, client, request = event
        sends = {"Advance": "SendAdvance", "Delete": "SendDelete"}.get(request[0])
        if sends:
            return Match(client, (sends,), request[-1:])
        return Match(client, ("SendCreate",), None, lambda a, s, l, s2, l2: s2.pool == tuple(sorted((*s.pool, request))))

    @staticmethod
    def _arrives(event: tuple) -> Match:
        *_, request, status = event
        return Match("", ("ApplyPending",), (request,),
                     lambda a, s, l, s2, l2: (status < 300) == would_apply(s, request) if request[0] != "Delete" else
                     status != 404 or not present(s, request[1]))

    # --- responses to callers

    def _told_of(self, e: Event) -> str | None:
        """Check a response. `committed` and `read` have the file's key; the body is the update id, for `read` the content."""
        if e.op != "read":
            return self._told_of_update(e, self.refiner.shared())
        reader, file_id = self.refiner.local(e.client), self.namespace.file_id(e.key)
        if (reader.pc, reader.n, reader.got) != ("Done", file_id, decoded(e.body)[0].updates):
            raise self._misled(e, f"in the model the reader is {reader}")
        read = next((old.body for old in of_call(self, e.client) if (old.op, old.key) == ("get", e.key) and old.awaited
                     and old.status == 200), None)
        if read != e.body:  # compare with its own GET: another file may be there by now
            raise self._misled(e, "no GET of this call returned that content")
        return AGAIN

    def _told_of_update(self, e: Event, shared: Shared) -> None:
        writer, number = update_of(e.client, e.body)
        if e.op not in CLAIMS or number > self.refiner.local(e.client).k or bool(e.key) != (e.op == "committed"):
            raise self._misled(e, "it has begun no such update, or an update has no such response")
        found = [i for i, w, k in shared.acked if w == writer and k == number]
        if e.op == "committed" and self.namespace.file_id(e.key) not in found:
            raise self._misled(e, f"in the model it is acknowledged as id {found[0]}" if found else
                               "in the model it is not acknowledged")
        if e.op == "failed" and (any((writer, number) in file.updates for file in shared.files if file)
                                 or any(r[0] == "Create" and (writer, number) in r[2] for r in shared.pool)):
            raise self._misled(e, "in the model it is in a file or in flight")
        if e.op == "recognised" and 0 not in found:
            raise self._misled(e, "in the model it is not recognised")
        if e.op in ("refused", "failed") and found:
            raise self._misled(e, f"in the model it is acknowledged as id {found[0]}")
        local = self.refiner.local(e.client)
        if local.pc not in self.at_rest or local.k - number not in CLAIMS[e.op]:
            raise self._misled(e, "it has begun its next update, or has not finished this one")


class KnowingTrace(Trace):
    """The trace of writers that may know that their own file is the latest. Such a writer is Ready before its update begins."""

    at_rest = ("Idle", "Ready")

    def _take(self, e: Event) -> None:
        """Take an event. A Ready writer that lists has forgotten its file, as after a lost reply: its process restarted."""
        lists = e.op == "list" and e.awaited and not e.condition and e.client.startswith("Writer")
        if lists and self.refiner.local(e.client).pc == "Ready":
            self.refiner.step(Match(e.client, ("LoseReply",)))
        super()._take(e)


# --- recorded traces

ROLES = ("Writer", "Collector", "Reader")
SHARED = (3, 2, 1)  # clients of each role in a shared model; a trace with more clients has its own model
CLIENT = re.compile(rf"({'|'.join(ROLES)})#\d{{1,2}}", re.ASCII)


def recorded(events: list[Event], options: Options, shared: bool) -> Callable[[], Trace]:
    """Make a Trace for the clients of these events. Clients that retry have their own kind of Trace. Raises Unfit."""
    clients = list(dict.fromkeys(e.client for e in events))
    strange = [client for client in clients if not CLIENT.fullmatch(client)]
    if strange:
        raise StrangeClient(f"client {strange[0]!r}: clients are Writer#0, Collector#0, Reader#0 and so on")
    if options.namespace not in ("manifest", "compactions"):
        raise Unfit(f"namespace {options.namespace!r}: manifest or compactions")
    numbers = [max(few, 1 + max([int(client.partition("#")[2]) for client in clients if client.startswith(role)], default=0))
               for role, few in zip(ROLES, SHARED if shared else (1, 1, 1))]
    kind, checker = retrying() if options.retries else (Trace, refiner)
    of = refiner_of(checker, constants(*numbers, page_size=options.page_size, checkpoints=options.namespace == "manifest"))
    where = Namespace(options.root, options.namespace)
    return lambda: kind(of, where, options.skew_ms)


def retrying() -> tuple[type[Trace], Callable[[Constants], Refiner]]:
    from highwater.traces.protocols import sequenced_metadata_boundary_retries as retries  # which imports this module

    return retries.RetryingTrace, retries.refiner


RECORDED = Recorded(("root", "namespace", "page_size", "skew_ms", "retries"), recorded)

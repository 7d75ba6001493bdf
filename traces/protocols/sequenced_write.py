"""Safety: every request of the trace is an action of model/protocols/sequenced_write.py, and each response to a caller agrees
with the model's history.

The update "w.k" is number k of the model's writer w, counted from zero. When the store applies a create, the trace does not yet
say whether the response is lost. Both cases are followed until the writer's next event decides. When the response to a read is
lost, the model's client has read but the real one has not: `forgets` takes the client back. A client may also start over with
a LIST. A create without a response, or with an indefinite error (5xx), is in flight from then on: it is in the model's `pool`.
If a writer in doubt cannot read whose file it is, it is treated as if it had crashed.
"""

from collections.abc import Iterator
from functools import lru_cache

from highwater.impl.codecs.json.manifest import UPDATES, InvalidManifest
from highwater.impl.layout import Namespace
from highwater.model.protocols.sequenced_write import (
    Constants,
    File,
    Reader,
    Shared,
    Update,
    Writer,
    content,
    model,
    present,
    read_next,
    writer_list,
)
from highwater.traces import trace
from highwater.traces.event import Event
from highwater.traces.protocols.sequenced_write_calls import CALLS
from highwater.traces.refine import STUTTER, Match, Refiner
from highwater.traces.trace import refiner_without_witnesses, update_of

LIMIT = 100_000  # contents whose updates are kept for the process


def constants(use: str, writers: int, readers: int, resolve: str, unknown: str) -> Constants:
    """Return the constants of a model that bounds only the numbers of writers and readers."""
    return Constants(USE=use, WRITERS=writers, COMMITS=None, READERS=readers, MAX_PENDING=None, MAX_LOST=None, MAX_CRASHES=None,
                     RESOLVE=resolve, UNKNOWN=unknown)


def writer_forget(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """Lose the reply to LIST, or to the GET of the latest file."""
    if w.pc in ("Listed", "Ready"):
        yield ("list",), s, Writer(k=w.k)
    if w.pc == "Ready":
        yield ("get",), s, Writer("Listed", w.n, k=w.k)


def list_anew(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """Start over with a LIST between two updates, or after a call that was cancelled before its GET."""
    if w.pc in ("Listed", "Ready"):
        yield from writer_list(c, me, s, Writer(k=w.k))


def reader_forget(c: Constants, me: int, s: Shared, r: Reader) -> Iterator:
    """End a failed read. With full state, the next read starts over. In a log, it continues after the entries read so far."""
    if r.pc in ("Listed", "Reading"):
        for heard in range(max(len(r.got) - 1, 0), len(r.got) + 1):
            yield (heard,), s, Reader("Idle", 0, r.must, r.got[:heard])


def read_anew(c: Constants, me: int, s: Shared, r: Reader) -> Iterator:
    """Read a log again from its beginning."""
    if r.got:
        yield from read_next(c, me, s, Reader(must=r.must))


def reader_crash(c: Constants, me: int, s: Shared, r: Reader) -> Iterator:
    yield (), s, Reader(must=r.must)


MORE = {"Writer": {"forgets": writer_forget, "lists anew": list_anew},
        "Reader": {"forgets": reader_forget, "reads anew": read_anew, "Crash": reader_crash}}


def refiner(c: Constants) -> Refiner:
    of = model(c)
    return refiner_without_witnesses(of._replace(processes=tuple(
        process._replace(actions={**process.actions, **MORE.get(process.role, {})}) for process in of.processes)))


@lru_cache(LIMIT)
def updates_in(body: bytes) -> tuple[str, ...]:
    """Return the names of the updates in a body. Raises InvalidManifest."""
    return UPDATES.decode(body).updates


class Trace(trace.Trace):
    """Refines one trace of this protocol."""

    alien = (*trace.UNCHECKED, InvalidManifest)
    calls = CALLS
    keyed = ("committed", "read")

    def __init__(self, refiner: Refiner, namespace: Namespace, skew_ms: int = 0):
        super().__init__(refiner, namespace, skew_ms)
        self.constants = refiner.model.constants

    def _updates(self, e: Event) -> tuple[str, ...]:
        return updates_in(e.body) if self.constants.USE == "state" else (e.body.decode(),)

    def _file(self, e: Event) -> File:
        """Return the model's file for an event. Raises InvalidManifest, ValueError."""
        return tuple(map(update_of, self._updates(e)))

    def _puts(self, client: str, w: Writer, file_id: int, file: File) -> bool:
        """Return whether this is the file that the writer creates next."""
        return (w.n + 1, content(self.constants, int(client.partition("#")[2]), w)) == (file_id, file)

    def _unanswered(self, e: Event) -> Match:
        client, file_id = e.client, self.namespace.file_id(e.key) if e.op != "list" else 0
        if e.op == "create" and e.kind == "refused" and e.status < 500:  # a definite error: it has no effect
            return Match(client, (STUTTER,), op=e.op)
        if e.op == "create":
            file = self._file(e)
            return Match(client, ("SendCreate", STUTTER), (), lambda a, s, l, s2, l2: l.pc in ("Idle", "Doubt") if a is STUTTER
                         else l.pc == "Ready" and self._puts(client, l, file_id, file))
        if client.startswith("Reader"):
            return Match(client, ("forgets", STUTTER), None, lambda a, s, l, s2, l2: (
                a is STUTTER or l2.got == (l.got[:file_id - 1] if file_id else l.got)))
        return Match(client, ("forgets", "Crash", STUTTER), None, lambda a, s, l, s2, l2: (
            l.pc == "Refused" if a == "Crash" else a is STUTTER or (l2.pc == "Idle" if e.op == "list" else l2.n == file_id)))

    def _answered(self, e: Event) -> Match:
        client, role = e.client, e.client.partition("#")[0]
        if e.op == "list" and not (e.truncated or e.condition):
            ids = [self.namespace.file_id(key) for key in e.keys]
            return Match(client, ("List", "lists anew"), (), lambda a, s, l, s2, l2: ids == list(range(1, len(s.files) + 1)))
        file_id = self.namespace.file_id(e.key) if e.op != "list" else 0
        if e.op == "create" and role == "Writer":
            file, there = self._file(e), e.status != 200
            return Match(client, ("CreateConflict" if there else "CreateNext", "LoseReply"), (), lambda a, s, l, s2, l2: (
                self._puts(client, l, file_id, file) and present(s, file_id - 1) == there))
        if e.op == "get" and e.status == 200:
            return self._read(e, role, file_id, self._file(e))
        if e.op == "get" and role == "Reader":
            return Match(client, ("ReadEnd",), (), lambda a, s, l, s2, l2: len(l.got) + 1 == file_id)
        raise self._no_action(e, role=role, status=True)

    def _read(self, e: Event, role: str, file_id: int, file: File) -> Match:
        if role == "Reader":
            return Match(e.client, ("ReadLatest", "ReadNext", "reads anew"), None, lambda a, s, l, s2, l2: (
                s.files[file_id - 1] == file and file_id == (l.n if a == "ReadLatest" else len(l2.got))))
        return Match(e.client, ("ReadLatest", "ReadOwn", "ReadOther", "Crash"), (), lambda a, s, l, s2, l2: (
            l.pc in ("Listed", "Refused") and s.files[file_id - 1] == file and file_id == l.n + (l.pc == "Refused")
            and (a != "Crash" or l.pc == "Refused")))  # the reply is lost

    def _request(self, e: Event) -> tuple:
        if e.op != "create":
            raise self._no_action(e, role="Writer")
        return "Create", self.namespace.file_id(e.key), self._file(e)

    def _sends(self, event: tuple) -> Match:
        *_, client, (_, file_id, file) = event
        return Match(client, ("SendCreate",), (), lambda a, s, l, s2, l2: self._puts(client, l, file_id, file))

    def _arrives(self, event: tuple) -> Match:
        *_, request, status = event
        return Match("", ("ApplyPending",), (request,),
                     lambda a, s, l, s2, l2: present(s, request[1] - 1) == (status != 200))

    # --- responses to callers

    def _told_of(self, e: Event) -> str:
        """Check a response. Its body is the update's name; for `read`, all names read. Only `committed` has the file's key."""
        if e.op == "read":
            return self._told_read(e)
        writer, number = update = update_of(e.body.decode())
        if e.client != f"Writer#{writer}" or bool(e.key) != (e.op == "committed"):
            raise self._misled(e, "the update is another writer's, or an update has no such response")
        if e.op == "committed":
            acked = self.namespace.file_id(e.key), *update
            return self._says(e, lambda s, l: acked in s.acked and l.pc == "Ready" and l.k == number + 1)
        if e.op == "failed":
            return self._says(e, lambda s, l: is_nowhere(s, l, update))
        return self._tells(e, Match(e.client, ("Crash", STUTTER), (), lambda a, s, l, s2, l2: (
            ((a is STUTTER or l.pc in ("Doubt", "Refused")) and (l2.pc, l2.k) == ("Idle", number + 1))
            or (a is STUTTER and is_nowhere(s, l, update)))))  # the call was cancelled before it requested anything

    def _told_read(self, e: Event) -> str:
        seen = tuple(map(update_of, e.body.decode().split()))
        last = self._last_of(e)
        if last is None or last.kind != "applied":
            raise self._misled(e, "it has sent no request for it to the store")
        if e.key and (last.op, last.key, last.status) != ("get", e.key, 200):
            raise self._misled(e, "it has not read that file last")
        return self._says(e, lambda s, l: l.pc == "Done" and l.got == seen)


def is_nowhere(s: Shared, w: Writer, update: Update) -> bool:
    """Return whether this is the writer's current update, and no file has it, nor can a create in flight add it."""
    return (w.k == update[1] and w.pc not in ("Doubt", "Refused") and all(update not in file for file in s.files)
            and all(update not in file for _, i, file in s.pool if not present(s, i - 1)))

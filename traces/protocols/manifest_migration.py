"""Safety: every request of the trace is an action of model/protocols/manifest_migration.py, and each response to a caller
agrees with the model's history. This includes the responses that an update is refused, that a phase has begun, and that a
manifest could not be read.

LIST is the model's read; the GET that follows must show the same manifest. The update "w.k" is the k-th of the model's writer
w, to fields that both versions have; "w.kn" is one to the new field. A read changes only what its writer knows. So a writer
that starts over is put back to where it was (`Read`, `forgets`). A writer that gives up an update of which no copy exists goes
on to the next name (`gives up`). The model decides at the moment of the create whether it is acknowledged; the caller may learn
less.

The model has no boundary: an id whose file is collected is not created again. In a trace a late create may do that, behind the
boundary. For the model this is a conflict, or a late create that is refused. A client may read such a file between LIST and
GET. Then its base is gone (`gone`), every create based on it is a conflict, and its content is not compared.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.header import version_of
from highwater.impl.codecs.slatedb.manifest import ManifestCodec
from highwater.impl.errors import Definite
from highwater.impl.layout import Namespace
from highwater.model.core import Process
from highwater.model.protocols import manifest_migration as of_model
from highwater.model.protocols.manifest_migration import Constants, File, Shared, Update, Writer, collect, model, read, upgrade
from highwater.traces import trace
from highwater.traces.event import Event
from highwater.traces.protocols.manifest_migration_calls import CALLS, JUDGES
from highwater.traces.reads import Reads
from highwater.traces.refine import STUTTER, Match, Refiner

MANIFESTS = Namespace("db", "manifest")
CODEC = ManifestCodec()  # it reads both versions
NEW = "n"
COLLECTORS = 2
LOOKS = ("get", "get_if_changed")  # reads of the boundary


def constants(writers: int, first: int) -> Constants:
    """Return the constants of a model without bounds, for traces of exactly so many writers that begin in this phase."""
    return Constants(WRITERS=writers, UPDATES=None, FIRST=first, MAX_PENDING=None)


def forgotten(w: Writer) -> Writer:
    return Writer(k=w.k, sealed=w.sealed)


def forget(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """Forget the manifest that was read."""
    if w.pc == "Ready":
        yield (), s, forgotten(w)


def read_latest(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """Start over with a read. If the latest manifest is unreadable to the writer, it knows none."""
    yield from list(read(c, me, s, forgotten(w))) or [((), s, forgotten(w))]


def give_up(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    yield (), s, forgotten(w)._replace(k=w.k + 1)


def begin_phase(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    yield from upgrade(c, me, s, forgotten(w))


MORE = {"forgets": forget, "Read": read_latest, "gives up": give_up, "Upgrade": begin_phase}


def refiner(c: Constants) -> Refiner:
    """Return a refiner in which collectors are clients; in the model the store itself loses a file."""
    of = model(c)._replace(sometimes={})
    writers = tuple(process._replace(actions={**process.actions, **MORE}) if process.name else process
                    for process in of.processes)
    return Refiner(of._replace(processes=writers + tuple(
        Process(f"Collector#{i}", "", i, (), {"Collect": collect}) for i in range(COLLECTORS))))


# --- updates in a manifest

def update_of(name: str) -> Update:
    """Return the update named "w.k" or "w.kn". Raises ValueError for any other name."""
    writer, number = map(int, name.removesuffix(NEW).split("."))
    if name.removesuffix(NEW) != f"{writer}.{number}":
        raise ValueError(f"{name!r} is no name of an update")
    return writer, number, name.endswith(NEW)


def names_in(manifest: Manifest) -> list[str]:
    """Return the names of a manifest's updates: from the sequence tracker, and from segments for the new field."""
    return [*(manifest.sequence_tracker or b"").decode().split(), *(segment.prefix.decode() for segment in manifest.segments)]


@lru_cache(10_000)
def decoded(body: bytes) -> tuple[int, frozenset[Update]]:
    """Return version and updates of a body. Raises InvalidFile, DamagedBuffer, ValueError."""
    return version_of(body), frozenset(map(update_of, names_in(CODEC.decode(body))))


class Trace(trace.Trace):
    """Refines one trace of this protocol."""

    alien = (*trace.UNCHECKED, Definite)  # Definite: raised by the codec
    collector = "Collector#"
    calls, claims = CALLS, JUDGES
    keyed, bodiless = ("committed",), ("remains", "not begun", "unreadable")

    def __init__(self, refiner: Refiner, namespace: Namespace = MANIFESTS, skew_ms: int = 0):
        super().__init__(refiner, namespace, skew_ms)
        self.reads = Reads(namespace.file_id, {namespace.boundary_key: namespace.prefix})

    def _updates(self, e: Event) -> list[str]:
        return sorted(names_in(CODEC.decode(e.body)), key=update_of)

    def _file(self, e: Event) -> File:
        """Return the model's file for an event. Raises InvalidFile, DamagedBuffer, ValueError."""
        return self.namespace.file_id(e.key), *decoded(e.body)

    def _take(self, e: Event) -> None:
        if self._is_collector(e):
            self._take_collection(e)
        elif e.awaited or e.kind != "applied":
            self._take_reads(e)
        super()._take(e)

    def _take_collection(self, e: Event) -> None:
        """Check that what is deleted is behind the boundary, which the model has not."""
        if e.kind == "applied" and e.key == self.namespace.boundary_key:
            self.reads.observe(e)
            if e.op in ("create", "update") and e.status == 200 and int(e.body) >= self.refiner.shared().files[-1][0]:
                raise self._refused("boundary", f"{e.body.decode()} is not behind the latest manifest")
        elif e.kind == "applied" and e.op == "delete" and self.namespace.file_id(e.key) > self.reads.boundary(e.key):
            raise self._refused("delete", f"{e.key} is deleted, and is ahead of the boundary")

    def _take_reads(self, e: Event) -> None:
        """Check that a writer has read what it acts upon. The model reads the latest manifest at LIST, and has no boundary."""
        heard = self.reads.of(e.client)
        if e.kind == "told":
            if e.op == "committed" and self.namespace.file_id(e.key) != heard.stands:
                raise self._misled(e, "it has not read a boundary behind that manifest after its create")
            if (e.op, e.body) == ("began", b"3") and not (
                    0 < heard.stands <= max(heard.listed, default=0) and set(heard.listed) <= set(heard.asked)):
                raise self._misled(e, "it has not read every manifest listed, after one of its own that stands")
            if e.op in ("refused", "unreadable") and not heard.base:
                raise self._misled(e, "it has not read the latest manifest")
        elif e.op == "create" and e.request > self.last.get(e.client, 0) and self.namespace.file_id(e.key) != heard.base + 1:
            raise self._refused("create", f"{e.client} puts {e.key}, and has not read the manifest before it")
        if why := self.reads.observe(e):
            raise self._refused("evidence", why)

    def _crashed(self, e: Event) -> Match:
        return Match(e.client, ("forgets", STUTTER))

    def _unanswered(self, e: Event) -> Match:
        if e.op == "create" and (e.kind == "timeout" or e.status >= 500):  # an indefinite error
            file = self._file(e)
            return Match(e.client, ("SendCreate", STUTTER), None, lambda a, s, l, s2, l2: (
                l.pc == "Idle" if a is STUTTER else sends(file, s, l, s2)))
        return Match(e.client, (STUTTER,), op=e.op)

    def _answered(self, e: Event) -> Match:
        client, i = e.client, None if e.op == "list" else self.namespace.file_id(e.key)
        if e.op == "list" and not (e.truncated or e.condition):
            ids = [self.namespace.file_id(key) for key in e.keys]
            return Match(client, ("Read",), (), lambda a, s, l, s2, l2: shows(ids, s))
        if e.key == self.namespace.boundary_key and e.op in LOOKS:
            return Match(client, (STUTTER,), op=e.op)
        if e.op == "get":
            file = self._file(e) if e.status == 200 else None
            return Match(client, (STUTTER,), (), lambda a, s, l, s2, l2: i <= s.files[-1][0] and at(s, i) in (file, None), e.op)
        if e.op == "create" and e.key != self.namespace.boundary_key:
            file, won = self._file(e), e.status == 200
            return Match(client, ("CreateNext", "CreateConflict", "forgets"), None, lambda a, s, l, s2, l2: (
                l.base + 1 == i and creates(a, file, won, s, l, s2)))
        raise self._no_action(e, "a writer", "Writer", status=True)

    def _of_collector(self, e: Event) -> Match:
        client, i = e.client, None if e.op == "list" else self.namespace.file_id(e.key)
        if e.op == "list" and not (e.truncated or e.condition):
            ids = [self.namespace.file_id(key) for key in e.keys]
            return Match(client, (STUTTER,), (), lambda a, s, l, s2, l2: shows(ids, s), e.op)
        if e.op == "delete" and i:
            return Match(client, (STUTTER,) if e.status == 404 else ("Collect", STUTTER), None, lambda a, s, l, s2, l2: (
                not at(s, i) if a is STUTTER else at(s, i) and not at(s2, i)), e.op)
        if e.key == self.namespace.boundary_key and e.op in (*LOOKS, "create", "update"):
            return Match(client, (STUTTER,), op=e.op)
        if e.op == "get":
            file = self._file(e) if e.status == 200 else None
            return Match(client, (STUTTER,), (), lambda a, s, l, s2, l2: at(s, i) in (file, None), e.op)
        raise self._no_action(e, "a collector", client.partition("#")[0])

    # --- requests that nobody waits for

    def _request(self, e: Event) -> tuple:
        if e.op != "create" or e.key == self.namespace.boundary_key:
            raise self._no_action(e, "a writer", "Writer")
        return "create", self._file(e)

    @staticmethod
    def _sends(event: tuple) -> Match:
        *_, client, (_, file) = event
        return Match(client, ("SendCreate",), None, lambda a, s, l, s2, l2: sends(file, s, l, s2))

    @staticmethod
    def _arrives(event: tuple) -> Match:
        *_, (_, file), status = event
        return Match("", ("ApplyPending",), None, lambda a, s, l, s2, l2: arrives(file, status == 200, s, s2))

    # --- responses to callers

    def _told_of(self, e: Event) -> str:
        """Check a response. Its body is the update's name, or the phase for `began`. `committed` has the file's key."""
        if e.op == "began":
            me, phase = int(e.client.partition("#")[2]), int(e.body)
            return self._tells(e, Match(e.client, ("Upgrade",), (), lambda a, s, l, s2, l2: s2.phases[me] == phase))
        if e.op in NOT_BEGUN:
            return self._tells(e, Match(e.client, (STUTTER,)))
        if e.op == "unreadable":
            return self._tells(e, Match(e.client, ("ReadUnreadable", "forgets"), (), lambda a, s, l, s2, l2: (
                a != "forgets" or gone(s, l))))
        writer, number, new = update = update_of(e.body.decode())
        if e.client != f"Writer#{writer}" or bool(e.key) != (e.op == "committed"):
            raise self._misled(e, "the update is another writer's, or an update has no such response")
        if e.op == "committed":
            i = self.namespace.file_id(e.key)
            return self._says(e, lambda s, l: (
                l.k == number + 1 and update in s.acked and (not at(s, i) or update in at(s, i)[2])))
        if e.op == "refused":
            return self._tells(e, Match(e.client, ("Refuse", "gives up"), (), lambda a, s, l, s2, l2: l.k == number and (
                a == "Refuse" or gone(s, l) or (new and of_model.version_of(s.phases[writer]) == 1))))
        if e.op == "failed":
            return self._says(e, lambda s, l: l.k == number and update not in s.acked)
        return self._tells(e, Match(e.client, ("gives up", STUTTER), (), lambda a, s, l, s2, l2: (
            l.k == number + (a is STUTTER))))


NOT_BEGUN = ("remains", "not begun")  # negative responses to a request for phase 3


def at(s: Shared, file_id: int | None) -> Any:
    return next((file for file in s.files if file[0] == file_id), None)


def gone(s: Shared, w: Writer) -> bool:
    """Return whether the manifest that the writer read was collected."""
    return w.pc == "Ready" and not at(s, w.base)


def shows(ids: list[int], s: Shared) -> bool:
    """Return whether a listing has all files that exist, and otherwise only ids created again behind the boundary."""
    there = {file[0] for file in s.files}
    return max(ids, default=0) == s.files[-1][0] and there <= set(ids)


def creates(action: str, file: File, won: bool, s: Shared, w: Writer, s2: Shared) -> bool:
    """Return whether the step fits a create. One that puts a collected id again, behind the latest, counts as a conflict."""
    if action == "CreateNext":
        return won and s2.files[-1] == file
    return file[0] <= s.files[-1][0] and not (won and at(s, file[0])) and (action != "forgets" or gone(s, w))


def sends(file: File, s: Shared, w: Writer, s2: Shared) -> bool:
    return s2.pool[-1] == file or (gone(s, w) and s2.pool[-1][0] == file[0])


def arrives(file: File, ok: bool, s: Shared, s2: Shared) -> bool:
    """Return whether the step takes this request out of the pool as observed. The model refuses one behind the latest."""
    (was,) = [entry for place, entry in enumerate(s.pool) if s.pool[:place] + s.pool[place + 1:] == s2.pool][:1]
    if was != file and (was[0] != file[0] or file[0] > s.files[-1][0]):
        return False
    return ok == (s2.files != s.files) or (ok and file[0] <= s.files[-1][0] and not at(s, file[0]))

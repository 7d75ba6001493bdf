"""Safety: every request of the trace is some action of model/protocols/manifest_compactions.py, and what callers were told is
what its history says.

LIST is the model's read; the GET that follows must show the same file. What was read counts only if something is made of it:
so of each LIST both are followed, that it was the read and that it was none, until the next mutation, or what is told, tells.
So too of the boundary's GET, whose reply may be lost. The collector's reads are no actions: it is judged by what it writes.

The SST "0.k" is the k-th flush of the model's only writer. Between LIST and GET a file may be collected, and another be put in
its place by who is late. What is made of that is put behind the boundary too, if it is not in conflict: the content of such
files is not compared. But their reader may take itself for fenced, as docs/protocols/manifest_compactions.md tells.
"""

from functools import partial
from typing import Any

from highwater.impl.layout import Namespace
from highwater.impl.protocols.manifest_compactions import Compactions as StoredCompactions
from highwater.impl.protocols.manifest_compactions import InvalidContent, JsonCodec
from highwater.impl.protocols.manifest_compactions import Manifest as StoredManifest
from highwater.model.protocols.manifest_compactions import (
    OPENS,
    Compactions,
    Compactor,
    Constants,
    Job,
    Manifest,
    Shared,
    Sst,
    Writer,
    boundary_of,
    files_of,
    is_manifest,
    model,
)
from highwater.traces import trace
from highwater.traces.event import Event
from highwater.traces.form import READS, Keys
from highwater.traces.refine import STUTTER, Match, Refiner
from highwater.traces.trace import refiner_without_witnesses

MANIFEST, COMPACTIONS = Namespace("db", "manifest"), Namespace("db", "compactions")
BOUNDARIES = (MANIFEST.boundary_key, COMPACTIONS.boundary_key)
KEYS = Keys("db", listed=(MANIFEST.prefix, COMPACTIONS.prefix), single=BOUNDARIES)
CODECS = {True: JsonCodec(StoredManifest), False: JsonCodec(StoredCompactions)}


def constants(writers: int, compactors: int, collectors: int) -> Constants:
    """The model without bounds, for traces of so many clients."""
    return Constants(WRITERS=writers, COMPACTORS=compactors, COLLECTORS=collectors, FLUSHES=None, COLLECTIONS=None,
                     MAX_PENDING=None, MAX_LOST=None, MAX_CRASHES=None)


def refiner(c: Constants) -> Refiner:
    return refiner_without_witnesses(model(c))


def sst_of(name: str) -> Sst:
    """Raises ValueError."""
    writer, number = map(int, name.split("."))
    if name != f"{writer}.{number}" or writer:
        raise ValueError(f"{name!r} is no name of an SST")
    return number


def job_of(names: tuple[str, ...] | list[str]) -> Job:
    return tuple(sorted(map(sst_of, names)))


def decoded(manifest: bool, body: bytes) -> Manifest | Compactions:
    """Raises InvalidContent, ValueError."""
    stored: Any = CODECS[manifest].decode(body)
    if manifest:
        return Manifest(stored.compactor_epoch, frozenset(map(sst_of, stored.l0)), job_of(stored.compacted))
    return Compactions(stored.compactor_epoch, frozenset(map(job_of, stored.jobs)))


def of_manifest(key: str) -> bool:
    return key.startswith(MANIFEST.prefix) or key == MANIFEST.boundary_key


def about(l: Writer | Compactor) -> bool:
    """Whether it is about the manifest."""
    return isinstance(l, Writer) or is_manifest(l)


class Trace(trace.Trace):
    """Refines one trace of this protocol."""

    alien = (*trace.ALIEN, InvalidContent)
    collector = "Collector"

    def __init__(self, refiner: Refiner, namespace: Keys = KEYS, skew_ms: int = 0):
        super().__init__(refiner, namespace, skew_ms)
        self.created: dict[str, int] = {}  # key -> so many times
        self.read: dict[str, str] = {}  # client -> key of the last file that it has read

    def _updates(self, e: Event) -> tuple[str, ...]:
        manifest = CODECS[True].decode(e.body)
        return manifest.compacted + manifest.l0

    def _take(self, e: Event) -> None:
        if e.kind == "applied" and e.status == 200:
            if e.op == "create":
                self.created[e.key] = self.created.get(e.key, 0) + 1
            elif e.op == "get" and e.key not in BOUNDARIES:
                self.read[e.client] = e.key
        super()._take(e)

    # --- what a request is in the model

    def _crashed(self, e: Event) -> Match:
        return Match(e.client, ("Crash" if e.client.startswith("Compactor") else "LoseReply", STUTTER), (), rests)

    def _unanswered(self, e: Event) -> Match | None:
        if e.key in BOUNDARIES or e.op not in READS:  # what it has created it does not know to stand
            return Match(e.client, ("LoseReply", STUTTER), (), rests, e.op)
        return None

    def _answered(self, e: Event) -> Match:
        client, manifest, i = e.client, of_manifest(e.key), KEYS.file_id(e.key)
        if e.op == "list":
            ids = [KEYS.file_id(key) for key in e.keys]
            return Match(client, ("Read", "ReadFenced", "ReadLanded", STUTTER), (),
                         lambda a, s, l, s2, l2: about(l) == manifest and l.pc == "Idle" and ids == ids_of(s, manifest)
                         and (a is not STUTTER or (isinstance(l, Compactor) and l.task == "Pick")), e.op, unheard=True)
        if e.key in BOUNDARIES and e.op in READS:
            value = 0 if e.status == 404 else int(e.body) if e.status == 200 else None  # 304 shows none
            return Match(client, ("Accept", "Reject", STUTTER), (), lambda a, s, l, s2, l2: (
                value in (None, boundary_of(s, manifest)) and (about(l) == manifest if a else l.pc != "Created")), e.op, True)
        if e.op == "get":
            file = decoded(manifest, e.body) if e.status == 200 else None
            return Match(client, (STUTTER,), (), lambda a, s, l, s2, l2: (
                l.pc != "Created" and (shown(s, manifest, i) == file or is_dead(s, manifest, i)) and (
                    l.pc != "Ready" or (l.n == i and file and (l.base == file or is_dead(s, manifest, i))))), e.op)
        if e.op == "create" and e.key not in BOUNDARIES:
            file = decoded(manifest, e.body)
            actions = ("CreateNext",) if e.status == 200 else ("CreateConflict",)
            return Match(client, actions, (), lambda a, s, l, s2, l2: about(l) == manifest and l.n + 1 == i and (
                a == "CreateConflict" or shown(s2, manifest, i) == file or is_dead(s, manifest, i)))
        raise self._no_action(e, client)

    def _of_collector(self, e: Event) -> Match:
        client, manifest, i = e.client, of_manifest(e.key), KEYS.file_id(e.key)
        delete, advance = ("DeleteManifest", "AdvanceManifest") if manifest else ("DeleteCompactions", "AdvanceCompactions")
        if e.op == "list":
            ids = [KEYS.file_id(key) for key in e.keys]
            return Match(client, (STUTTER,), (), lambda a, s, l, s2, l2: ids == ids_of(s, manifest), e.op)
        if e.op == "delete":
            return Match(client, (STUTTER,) if e.status == 404 else (delete, STUTTER), (i,),
                         lambda a, s, l, s2, l2: a is not STUTTER or not shown(s, manifest, i), e.op)
        if e.key in BOUNDARIES and e.op in ("create", "update") and e.status == 200:
            return Match(client, (advance,), (int(e.body),))
        if e.key in BOUNDARIES and e.op != "put":
            value = int(e.body) if e.op in READS and e.status == 200 else None
            return Match(client, (STUTTER,), (), lambda a, s, l, s2, l2: value in (None, boundary_of(s, manifest)), e.op)
        raise self._no_action(e, "a collector")

    # --- requests that nobody waits for

    def _request(self, e: Event) -> tuple:
        if e.op != "create" or e.key in BOUNDARIES:
            raise self._no_action(e, e.client)
        manifest = of_manifest(e.key)
        return "manifest" if manifest else "compactions", KEYS.file_id(e.key), decoded(manifest, e.body)

    @staticmethod
    def _sends(event: tuple) -> Match:
        *_, client, request = event
        return Match(client, ("SendCreate",), (), lambda a, s, l, s2, l2: s2.pool[-1] == request)

    @staticmethod
    def _arrives(event: tuple) -> Match:
        *_, request, status = event
        return Match("", ("ApplyPending",), None, partial(arrives, request, status == 200))

    # --- what callers were told

    def _told_of(self, e: Event) -> str:
        body = e.body.decode()
        if e.client.startswith("Writer"):
            k = sst_of(body)
            return self._says(e, partial(OF_FLUSH[e.op], k))
        if e.op == "opened":
            epoch = int(body)
            return self._says(e, lambda s, l: (l.pc, l.epoch) == ("Idle", epoch) and l.task not in OPENS and epoch in s.opened)
        if e.op == "compacted":
            job = job_of(body.split())
            return self._says(e, lambda s, l: (l.pc, l.task) == ("Idle", "Pick") and job in s.finished)
        astray = self.created.get(self.read.get(e.client, ""), 0) > 1
        return self._says(e, lambda s, l: OF_OTHERS[e.op](l) or (e.op == "fenced" and astray and l.pc == "Idle"))


def ids_of(s: Shared, manifest: bool) -> list[int]:
    return [i for i, file in enumerate(files_of(s, manifest), 1) if file]


def is_dead(s: Shared, manifest: bool, i: Any) -> bool:
    """At or behind the boundary: what is put there is refused, so its content need not be the model's."""
    return i <= boundary_of(s, manifest)


def shown(s: Shared, manifest: bool, i: Any) -> Manifest | Compactions | None:
    files = files_of(s, manifest)
    return files[i - 1] if i <= len(files) else None


def rests(action: str, s: Shared, l: Any, s2: Shared, l2: Any) -> bool:
    """Who stays as it is has nothing that it would have to give up."""
    return action is not STUTTER or l.pc not in ("Ready", "Created")


def arrives(request: tuple, ok: bool, action: str, s: Shared, l: Any, s2: Shared, l2: Any) -> bool:
    """It was this request, and it was applied, or refused, as it was."""
    at = s.pool.index(request) if request in s.pool else None
    return at is not None and s2.pool == s.pool[:at] + s.pool[at + 1:] and (
        ok == ((s2.manifests, s2.compactions) != (s.manifests, s.compactions)))


def is_nowhere(s: Shared, k: Sst) -> bool:
    under_way: list[Any] = [file for name, _, file in s.pool if name == "manifest"]
    return not any(file and (k in file.l0 or k in file.compacted) for file in (*s.manifests, *under_way))


OF_FLUSH = {  # what its caller is told -> when that is so
    "committed": lambda k, s, l: (l.pc, l.k) == ("Idle", k + 1) and k in s.acked,
    "failed": lambda k, s, l: (l.pc, l.k) == ("Idle", k) and is_nowhere(s, k),
    "unknown": lambda k, s, l: (l.pc, l.k) == ("Idle", k),
}
OF_OTHERS = {  # of an open, or of a compaction that has not come to its end
    "not open": lambda l: l.task in OPENS and l.pc in ("Idle", "Fenced"),
    "nothing": lambda l: (l.pc, l.task) == ("Idle", "Pick"),
    "fenced": lambda l: l.pc == "Fenced",
    "not compacted": lambda l: l.pc == "Idle" and l.task not in OPENS,
}

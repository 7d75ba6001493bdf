"""Safety: every request of the trace is an action of model/protocols/manifest_compactions.py, and each response to a caller
agrees with the model's history.

LIST is the model's read; the GET that follows must show the same file. A read counts only if the client uses what it read. So
for each LIST both cases are followed, that it was the read and that it was not. The client's next LIST, create or response
decides: it was the read if the client has read what it then needs (traces/reads.py). The same holds for a GET of the boundary,
whose reply may be lost. The collector's reads are no actions: it is judged by what it writes.

The SST "0.k" is the k-th flush of the model's only writer. Between LIST and GET a file may be collected, and a late create may
put another in its place. What a client makes of such a file is either in conflict or also behind the boundary, so the content
of such files is not compared.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from highwater.impl.codecs.json import compactions as compactions_json
from highwater.impl.codecs.json.compactions import InvalidCompactions
from highwater.impl.codecs.json.manifest import COMPACTED, InvalidManifest
from highwater.impl.layout import Namespace
from highwater.impl.protocols.manifest_compactions import name_of_pin
from highwater.model.explore.tabulated import BITS, FIELD
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
from highwater.traces.protocols.manifest_compactions_calls import CALLS, JUDGES
from highwater.traces.reads import Reads
from highwater.traces.refine import STUTTER, Match, Refiner
from highwater.traces.trace import distinct, refiner_without_witnesses

MANIFEST, COMPACTIONS = Namespace("db", "manifest"), Namespace("db", "compactions")
BOUNDARIES = (MANIFEST.boundary_key, COMPACTIONS.boundary_key)
KEYS = Keys("db", listed=(MANIFEST.prefix, COMPACTIONS.prefix), single=BOUNDARIES)
ANSWERED = {"committed": MANIFEST.prefix, "nothing": MANIFEST.prefix, "opened": COMPACTIONS.prefix,
            "compacted": COMPACTIONS.prefix}  # response -> the files that the last request before it is about
LOOKS = ("get", "get_if_changed")  # reads of a boundary
PIN = name_of_pin(())  # how the names of pins begin


def constants(writers: int, compactors: int, collectors: int) -> Constants:
    """Return the constants of a model without bounds, for traces of so many clients."""
    return Constants(WRITERS=writers, COMPACTORS=compactors, COLLECTORS=collectors, FLUSHES=None, COLLECTIONS=None,
                     MAX_PENDING=None, MAX_LOST=None, MAX_CRASHES=None)


def refiner(c: Constants) -> Refiner:
    return refiner_without_witnesses(model(c))


def sst_of(name: str) -> Sst:
    """Return the number of an SST named "0.k". Raises ValueError for any other name."""
    writer, number = map(int, name.split("."))
    if name != f"{writer}.{number}" or writer:
        raise ValueError(f"{name!r} is no name of an SST")
    return number


def job_of(names: tuple[str, ...] | list[str]) -> Job:
    return tuple(sorted(map(sst_of, names)))


def job_of_pin(name: str | None) -> Job:
    """Return the compaction for which a checkpoint of this name is a pin. Raises ValueError for any other name."""
    job = job_of((name or "").removeprefix(PIN).split())
    if name != name_of_pin(tuple(f"0.{sst}" for sst in job)):
        raise ValueError(f"{name!r} is no name of a pin")
    return job


def decoded(manifest: bool, body: bytes) -> Manifest | Compactions:
    """Return the content of a file. Raises InvalidManifest, InvalidCompactions, ValueError."""
    stored: Any = (COMPACTED if manifest else compactions_json).decode(body)
    if manifest:
        return Manifest(stored.compactor_epoch, distinct(map(sst_of, stored.l0)), job_of(stored.compacted),
                        distinct((job_of_pin(one.name), one.manifest_id) for one in stored.checkpoints))
    return Compactions(stored.compactor_epoch, distinct(map(job_of, stored.jobs)))


def of_manifest(key: str) -> bool:
    return key.startswith(MANIFEST.prefix) or key == MANIFEST.boundary_key


def file_id(key: str) -> int | None:
    """Return the id in the key of a file; None for another key. Raises InvalidName."""
    return (MANIFEST if key.startswith(MANIFEST.prefix) else COMPACTIONS).file_id(key)


def about(l: Writer | Compactor) -> bool:
    """Return whether the client is about to change the manifest."""
    return isinstance(l, Writer) or is_manifest(l)


class Trace(trace.Trace):
    """Refines one trace of this protocol."""

    alien = (*trace.UNCHECKED, InvalidManifest, InvalidCompactions)
    calls, claims = CALLS, JUDGES
    collector = "Collector"
    bodiless = ("not open", "nothing", "fenced", "not compacted")

    def __init__(self, refiner: Refiner, namespace: Keys = KEYS, skew_ms: int = 0):
        super().__init__(refiner, namespace, skew_ms)
        self.reads = Reads(file_id, {MANIFEST.boundary_key: MANIFEST.prefix, COMPACTIONS.boundary_key: COMPACTIONS.prefix})
        self.before: dict[str, set[int]] = {}  # client -> its local parts before its last LIST
        self.jobs: dict[str, frozenset[Job]] = {}  # compactor -> the job that it last worked on, one in each state

    def _updates(self, e: Event) -> tuple[str, ...]:
        manifest = COMPACTED.decode(e.body)
        return manifest.compacted + manifest.l0

    def _take(self, e: Event) -> None:
        if not self._is_collector(e) and (e.awaited or e.kind != "applied"):
            self._take_reads(e)
        if e.client.startswith("Compactor") and e.key.startswith(COMPACTIONS.prefix) and (
                jobs := frozenset(l.job for l in self.refiner.locals(e.client) if l.job)):
            self.jobs[e.client] = jobs
        super()._take(e)

    # --- a read counts if the client has read what it needs

    def _take_reads(self, e: Event) -> None:
        client = e.client
        if e.kind == "crash":
            self.before.pop(client, None)
        elif e.kind == "told" or e.op in ("list", "create"):
            self._decide(e)
        elif e.kind != "applied" and e.awaited and e.key in BOUNDARIES and any(
                l.pc == "Created" for l in self.refiner.locals(client)):
            self._keep(client, lambda part, l: l.pc == "Created")  # it has not learned what the boundary is
        if e.op == "list" and e.kind == "applied":
            shift = BITS * (self.refiner.index[client] + 1)
            self.before[client] = {state >> shift & FIELD for state in self.refiner.states}
        if why := self.reads.observe(e):
            raise self._refused("evidence", why)

    def _decide(self, e: Event) -> None:
        """Decide whether the last LIST was the model's read. A file is put, or fences, once it was read; for all else it must
        be current."""
        before, heard = self.before.pop(e.client, None), self.reads.of(e.client)
        done = heard.prefix == ANSWERED.get(e.op, "") and (heard.current or (heard.stands and e.op != "nothing"))
        if e.kind == "told" and e.op in ANSWERED and not done:
            raise self._misled(e, f"it has not read the latest of {ANSWERED[e.op]}, or put the next, and then the boundary")
        if before is None:
            return
        if (e.kind, e.op) == ("told", "nothing") and any(part not in before for part, _ in self._parts(e.client)):
            self._keep(e.client, lambda part, l: part not in before)
        elif not heard.current:
            self._keep(e.client, lambda part, l: part in before or (heard.base and l.pc in ("Ready", "Fenced")))

    def _parts(self, client: str) -> list[tuple[int, Any]]:
        """Return the client's local part, as number and value, in each of the states."""
        part = self.refiner.index[client] + 1
        values = self.refiner.explorer.values[part]
        return [(state >> BITS * part & FIELD, values[state >> BITS * part & FIELD]) for state in self.refiner.states]

    def _keep(self, client: str, holds: Callable[[int, Any], object]) -> None:
        self.refiner.states = tuple([state for state, part in zip(self.refiner.states, self._parts(client)) if holds(*part)])

    # --- requests as actions of the model

    def _crashed(self, e: Event) -> Match:
        return Match(e.client, ("Crash" if e.client.startswith("Compactor") else "LoseReply", STUTTER), (), rests)

    def _unanswered(self, e: Event) -> Match | None:
        if e.key in BOUNDARIES or e.op not in READS:  # it does not know whether its create stands
            return Match(e.client, ("LoseReply", STUTTER), (), rests, e.op)
        return None

    def _answered(self, e: Event) -> Match:
        client, manifest, i = e.client, of_manifest(e.key), file_id(e.key)
        if e.op == "list" and not (e.truncated or e.condition):
            ids = [file_id(key) for key in e.keys]
            return Match(client, ("Read", "ReadFenced", "ReadLanded", "ReadUnpinned", STUTTER), (),
                         lambda a, s, l, s2, l2: about(l) == manifest and l.pc == "Idle" and ids == ids_of(s, manifest)
                         and (a is not STUTTER or (isinstance(l, Compactor) and l.task == "Pick")), e.op, unheard=True)
        if e.key in BOUNDARIES and e.op in LOOKS:
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
        client, manifest, i = e.client, of_manifest(e.key), file_id(e.key)
        delete, advance = ("DeleteManifest", "AdvanceManifest") if manifest else ("DeleteCompactions", "AdvanceCompactions")
        if e.op == "list" and not (e.truncated or e.condition):
            ids = [file_id(key) for key in e.keys]
            return Match(client, (STUTTER,), (), lambda a, s, l, s2, l2: ids == ids_of(s, manifest), e.op)
        if e.op == "create" and e.key not in BOUNDARIES:
            return self._drops(e, manifest, i or 0)
        if e.op == "get" and e.key not in BOUNDARIES:
            file = decoded(manifest, e.body) if e.status == 200 else None
            return Match(client, (STUTTER,), (), lambda a, s, l, s2, l2: (
                shown(s, manifest, i) == file or is_dead(s, manifest, i)), e.op)
        if e.op == "delete":
            return Match(client, (STUTTER,) if e.status == 404 else (delete, STUTTER), (i,),
                         lambda a, s, l, s2, l2: a is not STUTTER or not shown(s, manifest, i), e.op)
        if e.key in BOUNDARIES and e.op in ("create", "update") and e.status == 200:
            return Match(client, (advance,), (int(e.body),))
        if e.key in BOUNDARIES and e.op in (*LOOKS, "create", "update"):
            value = int(e.body) if e.op in LOOKS and e.status == 200 else None
            return Match(client, (STUTTER,), (), lambda a, s, l, s2, l2: value in (None, boundary_of(s, manifest)), e.op)
        raise self._no_action(e, "a collector")

    def _drops(self, e: Event, manifest: bool, i: int) -> Match:
        """Match the create of a manifest without pins that have ended."""
        file = decoded(manifest, e.body)
        if e.status != 200:
            return Match(e.client, (STUTTER,), (), lambda a, s, l, s2, l2: (
                shown(s, manifest, i) is not None and drops_pins(s, manifest, i - 1, file)), e.op)
        return Match(e.client, ("DropPin", "PutBehind"), None, lambda a, s, l, s2, l2: (
            shown(s2, manifest, i) != shown(s, manifest, i) and (a == "PutBehind" or shown(s2, manifest, i) == file)), e.op)

    # --- requests that nobody waits for

    def _request(self, e: Event) -> tuple:
        if e.op != "create" or e.key in BOUNDARIES:
            raise self._no_action(e, e.client)
        manifest = of_manifest(e.key)
        return "manifest" if manifest else "compactions", file_id(e.key), decoded(manifest, e.body)

    @staticmethod
    def _sends(event: tuple) -> Match:
        *_, client, request = event
        return Match(client, ("SendCreate",), (), lambda a, s, l, s2, l2: s2.pool[-1] == request)

    @staticmethod
    def _arrives(event: tuple) -> Match:
        *_, request, status = event
        return Match("", ("ApplyPending",), None, partial(arrives, request, status == 200))

    # --- responses to callers

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
            own = job in self.jobs.get(e.client, ())
            return self._says(e, lambda s, l: (l.pc, l.task) == ("Idle", "Pick") and own and job in s.finished)
        return self._says(e, lambda s, l: OF_OTHERS[e.op](l))


def ids_of(s: Shared, manifest: bool) -> list[int]:
    return [i for i, file in enumerate(files_of(s, manifest), 1) if file]


def is_dead(s: Shared, manifest: bool, i: Any) -> bool:
    """Return whether id `i` is at or behind the boundary. A file there is refused, so its content need not be the model's."""
    return i <= boundary_of(s, manifest)


def shown(s: Shared, manifest: bool, i: Any) -> Manifest | Compactions | None:
    files = files_of(s, manifest)
    return files[i - 1] if i <= len(files) else None


def drops_pins(s: Shared, manifest: bool, i: int, new: Any) -> bool:
    """Return whether `new` is manifest `i` without some of its pins. Behind the boundary that need not be the model's."""
    old: Any = shown(s, manifest, i)
    return is_dead(s, manifest, i) or (
        manifest and old is not None and new.pins < old.pins and new == old._replace(pins=new.pins))


def rests(action: str | None, s: Shared, l: Any, s2: Shared, l2: Any) -> bool:
    """Return whether the client may take the step; STUTTER only if it holds nothing that it would have to give up."""
    return action is not STUTTER or l.pc not in ("Ready", "Created")


def arrives(request: tuple, ok: bool, action: str | None, s: Shared, l: Any, s2: Shared, l2: Any) -> bool:
    """Return whether the step takes this request out of the pool, and applies or refuses it as observed."""
    at = s.pool.index(request) if request in s.pool else None
    return at is not None and s2.pool == s.pool[:at] + s.pool[at + 1:] and (
        ok == ((s2.manifests, s2.compactions) != (s.manifests, s.compactions)))


def is_nowhere(s: Shared, k: Sst) -> bool:
    under_way: list[Any] = [file for name, _, file in s.pool if name == "manifest"]
    return not any(file and (k in file.l0 or k in file.compacted) for file in (*s.manifests, *under_way))


OF_FLUSH = {  # response -> the condition under which it is true
    "committed": lambda k, s, l: (l.pc, l.k) == ("Idle", k + 1) and k in s.acked,
    "failed": lambda k, s, l: (l.pc, l.k) == ("Idle", k) and is_nowhere(s, k),
    "unknown": lambda k, s, l: (l.pc, l.k) == ("Idle", k),
}
OF_OTHERS = {  # the same for an open, or for an unfinished compaction
    "not open": lambda l: l.task in OPENS and l.pc in ("Idle", "Fenced"),
    "nothing": lambda l: (l.pc, l.task) == ("Idle", "Pick"),
    "fenced": lambda l: l.pc == "Fenced",
    "not compacted": lambda l: l.pc == "Idle" and l.task not in OPENS,
}

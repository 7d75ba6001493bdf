"""Safety: every request of the trace is an action of model/protocols/clones.py, and each response to a caller agrees with the
model's history.

The create of the next manifest of a database is the model's update, at the moment at which the store applies it: what it
changes says which one. So a request that is applied late needs no pool, and reads are no actions. A manifest that is created
where one was collected is in no history, and is no step. The model's names are given when an SST, a checkpoint or a final is
first in a manifest of the history.
"""

from collections.abc import Callable
from typing import Any, Self

from highwater.impl.codecs.slatedb.flatbuffer import DamagedBuffer
from highwater.impl.codecs.slatedb.header import InvalidFile
from highwater.impl.layout import key_of_sst, sst_of
from highwater.model.protocols.clones import Constants, Pin, Shared, Sst, is_final, model
from highwater.traces import trace
from highwater.traces.calls import of_call
from highwater.traces.event import Event
from highwater.traces.evidence import BY_ANSWER, CURRENT, OF_THE_CLONE, TRUSTED, Evidence, has_put
from highwater.traces.form import MUTATIONS, READS
from highwater.traces.protocols.clones_calls import CALLS, CLAIMS
from highwater.traces.protocols.clones_contents import (
    FIRST_SST,
    KEYS,
    MANIFESTS,
    ROOTS,
    SSTS,
    WALS,
    File,
    database_of,
    file_of,
)
from highwater.traces.refine import Match, Refiner
from highwater.traces.trace import refiner_without_witnesses

DETACHER, COLLECTOR = "Detacher#0", "Collector#0"  # they know nothing, so it makes no difference who removes a checkpoint
NO_ROW = File(False, frozenset(), frozenset(), frozenset(), 0, 0)
UPLOADS = ("Writer",)
BOUNDARIES = frozenset(of.boundary_key for of in MANIFESTS)

TOLD = {  # role -> the responses of its calls, and what each needs, apart from what its answer needs
    "Writer": {"open": CURRENT, **dict.fromkeys(("not open", "logged", "not logged", "flushed", "not flushed", "unknown"), "")},
    "Cloner": dict.fromkeys(("cloned", "not cloned", "taken", "dropped", "not changed", "missing", "ended", "unknown"), ""),
    "Detacher": {"detached": TRUSTED, "not detached": ""},
    "Collector": {"deleted": TRUSTED, "not deleted": ""},
}
OF_ANY = ("not cloned", "deleted", "not detached")  # responses that rest on the files of any database


def constants(parents: str, cloners: int) -> Constants:
    """Return the constants of a model without bounds, for traces of so many cloners."""
    return Constants(PARENTS=parents, CLONERS=cloners, TAKES=None, TRIES=None, SSTS=None, APPENDS=None)


def refiner(c: Constants) -> Refiner:
    return refiner_without_witnesses(model(c))


class Histories(tuple[dict[int, File], ...]):
    """The history of each database: id -> file."""

    def __copy__(self) -> Self:
        return type(self)(dict(of) for of in self)


class Trace(trace.Trace):
    """Refines one trace of this protocol."""

    alien = (*trace.UNCHECKED, InvalidFile, DamagedBuffer)
    calls, claims = CALLS, CLAIMS
    aside = SSTS
    file_of: Callable[[bytes], File] = staticmethod(file_of)
    uploads = UPLOADS
    asked = ("",)  # of these clients it checks that they were shown what they act on; of others another judge does
    bodiless = ("not detached", "deleted", "not deleted")

    def __init__(self, refiner: Refiner, namespace: Any = KEYS, skew_ms: int = 0):
        super().__init__(refiner, namespace, skew_ms)
        self.files = Histories({} for _ in ROOTS)
        self.ssts: dict[str, Sst] = {FIRST_SST: (0, 0)}
        self.pins: dict[str, Pin] = {}
        self.log_ends: dict[str, bool] = {}  # writer -> it knows where the log ends
        self.evidence = Evidence(MANIFESTS, keeps=True)

    # --- requests as actions of the model

    def _is_collector(self, e: Event) -> bool:
        """Return True: a request that is applied late is an action of its own client, of whatever role."""
        return True

    def _take(self, e: Event) -> None:
        super()._take(e)
        if not self._asks(e):
            return
        self._looks(e)
        if why := self.evidence.observe(e):
            raise self._refused("evidence", why)

    def _asks(self, e: Event) -> bool:
        return e.client.startswith(self.asked)

    def _looks(self, e: Event) -> None:
        """Check that a client knows what a put or a delete takes."""
        if e.kind == "crash":
            self.log_ends.pop(e.client, None)
        if e.kind in ("told", "crash") or e.op not in ("create", "delete"):
            return
        if not self.evidence.is_new(e) or e.key in BOUNDARIES:
            return
        d, of, why = database_of(e.key), self.evidence.of(e.client), ""
        if e.op == "delete" and e.key.startswith(SSTS[d]):
            why = "" if self.evidence.heard(e.client, MANIFESTS[d]).current else "has not read the latest manifest last"
        elif e.op == "delete":
            latest = self.evidence.heard(e.client, MANIFESTS[d]).current
            kept = {i for _, i in self.files[d][latest].pins} if latest in self.files[d] else set()
            why = "has not read the latest manifest" if not latest else ""
            why = "a checkpoint keeps that" if MANIFESTS[d].file_id(e.key) in kept else why
        elif e.client.startswith("Writer") and e.client != f"Writer#{d}":
            why = f"is not the writer of {ROOTS[d]}"
        elif e.client.startswith("Writer") and e.key.startswith(WALS[d].prefix) and e.client not in self.log_ends:
            why = "" if WALS[d].prefix in of.whole else "does not know where the log ends"
            self.log_ends[e.client] = True
        if why:
            raise self._refused("evidence", f"{e.client} asks for {e.op} of {e.key}, and {why}")

    def _needs(self, e: Event, d: int, what: str) -> None:
        """Check that a client has had a manifest of this database that it could conclude from."""
        if self._asks(e) and e.awaited and MANIFESTS[d].prefix not in self.evidence.of(e.client).trusted:
            raise self._refused("evidence", f"{e.client} {what}, and has not read the latest manifest of {ROOTS[d]}")

    def _step(self, e: Event) -> None:
        self._well_formed(e)
        if e.kind != "applied" or e.op in READS or (e.op in MUTATIONS and e.op != "delete" and e.status != 200):
            return
        if e.key in BOUNDARIES:
            if e.op not in ("create", "update") or not e.client.startswith("Collector"):
                raise self._no_action(e, e.client)
            return
        d = database_of(e.key)
        if e.key.startswith(SSTS[d]):
            self._of_sst(e, d)
        elif e.key.startswith(WALS[d].prefix):
            self._of_wal(e, d, WALS[d].file_id(e.key) or 0)
        elif e.op == "create":
            self._of_manifest(e, d, MANIFESTS[d].file_id(e.key) or 0)
        elif e.op != "delete" or not e.client.startswith("Collector"):
            raise self._no_action(e, e.client)

    def _steps(self, client: str, action: str, choices: tuple | None, *agrees: Any,
               so: Callable[[Shared], object] | None = None) -> None:
        """Take a step in the model's terms: `agrees` has all that `so` depends on."""
        check = None if so is None else lambda a, s, l, s2, l2: so(s2)
        self.refiner.event(client, (0, 0, client, action, choices, *agrees), lambda _: Match(client, (action,), choices, check))

    def _of_sst(self, e: Event, d: int) -> None:
        sst = sst_of(ROOTS[d], e.key)
        if e.op == "create" and sst is not None and e.client.startswith(self.uploads):
            return
        if e.op != "delete" or sst is None:
            raise self._no_action(e, e.client)
        if sst in self.ssts and self.ssts[sst] in self.refiner.shared().ssts:
            self._steps(COLLECTOR, "Collect", (self.ssts[sst],))

    def _of_wal(self, e: Event, d: int, i: int) -> None:
        if e.op != "create":
            raise self._no_action(e, e.client)
        if e.client.startswith("Writer"):
            if self._asks(e) and e.body != b"%d.%d" % (d, i):
                raise self._refused("create", f"{e.key} has another row")
            self._steps(e.client, "Append", (), d, i, so=lambda s: (d, i) in s.acked)
        else:
            by = int(e.body.partition(b".")[0])
            self._steps(e.client, "Copy", None, d, i, by, so=lambda s: (d, i, by) in s.wal)

    def _of_manifest(self, e: Event, d: int, i: int) -> None:
        """Take the steps of a manifest: the next one, or none of the history, where one was collected."""
        files, new = self.files[d], self.file_of(e.body)
        if i <= max(files, default=1 - (d > 0)):
            return  # in the place of one that was collected
        old = files[max(files)] if files else self._first(d)
        files[i] = new
        self._updated(e, d, old, new)

    def _updated(self, e: Event, d: int, old: File, new: File) -> None:
        """Take the steps of a manifest that joins the history after `old`."""
        finals = {f for f, *_ in new.entries} - {f for f, *_ in old.entries}
        pins, gone = dict(new.pins - old.pins), {u for u, _ in old.pins} - {u for u, _ in new.pins}
        more = len(new.own - old.own) + (not new.ready and not old.ready and bool(finals)) + len(pins)
        more += bool(gone) + (new.ready and not old.ready) + bool({f for f, *_ in old.entries} - {f for f, *_ in new.entries})
        if more > 1:
            raise self._no_action(e, "any client: it changes several things")
        if new.ready and not old.ready:
            if self._asks(e) and e.awaited and (path := self._unpinned(e.client, new)):
                why = f"{e.client} initializes {ROOTS[d]}, and does not know that {path} lists its final"
                raise self._refused("evidence", why)
            self._changes(e.client, "Initialize", (d,), d, new)
        elif finals:
            self._begins(e, d, finals, new)
        elif new.own - old.own:
            self._flushes(e, d, old, new)
        elif pins:
            self._pins(e, d, *pins.popitem(), new)
        elif gone:
            for u in sorted(gone):
                self._steps(*((DETACHER, "Release") if is_final(self.pins[u]) else (COLLECTOR, "EndLease")), (self.pins[u],))
            self._agrees(d, new)
        elif left := {f for f, *_ in old.entries} - {f for f, *_ in new.entries}:
            for f in sorted(left):
                self._steps(DETACHER, "Remove", (d, self.pins[f]))
            self._agrees(d, new)
        elif new != old:
            raise self._no_action(e, e.client)

    @staticmethod
    def _first(d: int) -> File:
        return NO_ROW if d else File(True, frozenset({FIRST_SST}), frozenset(), frozenset(), 0, 0)

    def _shown(self, new: File) -> tuple:
        """Return what the model must have of a manifest."""
        entries = frozenset((self.pins[f], tuple(sorted(self.ssts[x] for x in ssts))) for f, _, _, ssts in new.entries)
        return (True, new.ready, frozenset(self.ssts[x] for x in new.own), entries,
                frozenset(self.pins[u] for u, _ in new.pins), new.seen)

    def _changes(self, client: str, action: str, choices: tuple | None, d: int, new: File, *more: Any,
                 so: Callable[[Shared], object] = lambda s: True) -> None:
        shown = self._shown(new)
        self._steps(client, action, choices, d, shown, *more, so=lambda s: s.dbs[d][:6] == shown and so(s))

    def _agrees(self, d: int, new: File) -> None:
        shown = self._shown(new)
        if self.refiner.shared().dbs[d][:6] != shown:
            raise self._refused("manifest", f"a manifest of {ROOTS[d]} changes more than the checkpoints that it removes")

    def _begins(self, e: Event, d: int, finals: set[str], new: File) -> None:
        me, k = int(e.client.partition("#")[2]), self.refiner.local(e.client).k
        entries = {f: (path, source) for f, path, source, _ in new.entries if f in finals}
        for f, (path, _) in entries.items():
            self.pins[f] = (me, k, ROOTS.index(path), d)
        paths = [ROOTS.index(path) for path, _ in entries.values()]  # the parent's, and those from which that was cloned
        trusted = self.evidence.of(e.client).trusted
        self._needs(e, next((of for of in paths if MANIFESTS[of].prefix in trusted), paths[0]), "clones it")
        pairs = frozenset((self.pins[f], self.pins[source]) for f, (_, source) in entries.items())
        first = len(self.files[d]) == 1
        self._changes(e.client, "Begin" if first else "Restart", None, d, new, pairs, so=lambda s: pairs <= s.sources)

    def _unpinned(self, client: str, file: File) -> str:
        """Return a database of which a clone names SSTs, and of which a client has no manifest to conclude from; "" if there is
        none."""
        paths = sorted({path for _, path, _, ssts in file.entries if ssts})
        return next((path for path in paths if not self.evidence.known(client, MANIFESTS[ROOTS.index(path)])), "")

    def _flushes(self, e: Event, d: int, old: File, new: File) -> None:
        for sst in new.own - old.own:
            if self._asks(e) and e.awaited and key_of_sst(ROOTS[d], sst) not in self.evidence.of(e.client).got:
                raise self._refused("evidence", f"{e.client} flushes {sst}, and has not put it")
            self.ssts[sst] = (d, self.refiner.local(e.client).k + 1)
        self._changes(e.client, "Flush", None, d, new)

    def _pins(self, e: Event, d: int, u: str, i: int, new: File) -> None:
        """Take the step of a new checkpoint: what it names is what its manifest names.

        A call that takes a checkpoint lists it again, if its lease ended before a retry. Then it is another one."""
        final, me = u in self.pins and is_final(self.pins[u]), int(e.client.partition("#")[2])
        if not final:
            self.pins[u] = (me, self.refiner.local(e.client).t, d, d)
        if final:
            self._needs(e, self.pins[u][3], "makes a final checkpoint")
        name, of = self.pins[u], self.files[d].get(i) or self._first(d)
        own = tuple(sorted(self.ssts[x] for x in of.own))
        entries = tuple(sorted((self.pins[f], tuple(sorted(self.ssts[x] for x in ssts)))
                               for f, _, _, ssts in of.entries if ssts))
        self._changes(e.client, "Pin" if final else "Take", None, d, new, name, own, entries, of.seen,
                      so=lambda s: (name, own, entries, of.seen) in s.contents)

    # --- responses to callers

    def _told_of(self, e: Event) -> str | None:
        if self._asks(e):
            self._founded(e)
        if e.op == "cloned" and not self.refiner.shared().dbs[database_of(e.body.decode() + "/")].ready:
            raise self._misled(e, "the clone is not initialized")
        return None

    def _founded(self, e: Event) -> None:
        """Check that a client was shown what the response to its caller rests on, in the database that it names."""
        role, _, number = e.client.partition("#")
        words = TOLD.get(role, {})
        if e.op not in words or (e.op in self.bodiless) == bool(e.body):
            raise self._misled(e, "no call of its role has this response")
        d = database_of(e.body.decode() + "/") if e.body else 0
        where = MANIFESTS if e.op in OF_ANY else MANIFESTS[d:d + 1]
        if why := self.evidence.unfounded(e.client, where, words[e.op] or BY_ANSWER.get("".join(e.keys[1:2]), "")):
            raise self._misled(e, why)
        if role == "Writer" and d != int(number):
            raise self._misled(e, f"it is the writer of {ROOTS[int(number)]}")
        if e.keys[1:2] == (OF_THE_CLONE,) and (why := self.evidence.unfounded(e.client, MANIFESTS[d:d + 1], TRUSTED)):
            raise self._misled(e, why)
        if e.op == "cloned":
            known = self.files[d].get(self.evidence.known(e.client, MANIFESTS[d]))
            if known and (path := self._unpinned(e.client, known)):
                raise self._misled(e, f"it has not read or put the latest manifest of {path}, which must list its final")
        if e.op == "logged" and not has_put(self, e.client, WALS[d].prefix):
            raise self._misled(e, "its last request has not put a WAL object there, or met it")
        asked = [old for old in of_call(self, e.client) if old.awaited]
        if e.body and asked and not asked[-1].key.startswith(ROOTS[d] + "/"):
            raise self._misled(e, f"its call has not begun with a request on {ROOTS[d]}")

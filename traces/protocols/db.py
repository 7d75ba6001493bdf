"""Safety: every request of the trace is an action that the abstract models of a database's parts allow, in the order in which
the store has applied them.

Nothing is mapped here a second time. The machine that judges recorded logs of SlateDB (traces/recorded/systems/slatedb.py) is
given each event as the request of such a log. It has no order to search for, because a simulated store knows it. Two facts that
such a log has are found out on the way:

    whose request it is     after a crash a client is another one, which knows nothing
    who was told            a create counts as heard once its client goes on, for its reply may still be lost

What callers are told is tied to requests in database/answers.py. Five checks are of no part, because those models know a
database's own SSTs only once they are shared:

- A manifest names only SSTs that are there, in its own database and in those that it was cloned from.
- An SST that a manifest begins to name has rows of the log, and a flush leaves none out (database/rows.py).
- No SST is deleted that the latest manifest names, or one that a listed checkpoint keeps, of this database or of a clone.
- A record is put into the WAL by a writer that has put a fence there since it claimed its epoch.
- No WAL object is deleted that a listed checkpoint has seen, and that its manifest has not flushed.

There are two databases: ROOT, and CLONE, which is cloned from it in some runs. A database that is destroyed keeps nothing.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from highwater.impl.codecs.destroyed import SEALED
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.db.damaged import DamagedObject
from highwater.impl.layout import Namespace, key_of_sst, prefix_of_ssts, sst_of
from highwater.model.core import Model, Process
from highwater.traces import trace
from highwater.traces.calls import outside, right_deletes, untrue
from highwater.traces.event import Event
from highwater.traces.form import MUTATIONS, Keys
from highwater.traces.protocols.database.answers import Answers
from highwater.traces.protocols.db_calls import CALLS
from highwater.traces.recorded.orders import Step
from highwater.traces.recorded.s3log import Body, Listed, Request
from highwater.traces.recorded.s3store import Change
from highwater.traces.recorded.systems.facts import WRITER, Knobs, Namespaced
from highwater.traces.recorded.systems.slatedb import Slatedb
from highwater.traces.recorded.systems.slatedb_layout import content_of
from highwater.traces.refine import Failure, Refiner

ROOTS = ROOT, CLONE = "db", "clone"


class Folders(NamedTuple):
    """The folders of a database."""

    root: str
    manifests: Namespace
    compactions: Namespace
    wal: Namespace
    ssts: str


def folders_of(root: str) -> Folders:
    manifests, compactions, wal = (Namespace(root, name) for name in ("manifest", "compactions", "wal"))
    return Folders(root, manifests, compactions, wal, prefix_of_ssts(root))


FOLDERS = {root: folders_of(root) for root in ROOTS}
_, MANIFESTS, COMPACTIONS, WAL, SSTS = FOLDERS[ROOT]
KEYS = Keys(f"{' and '.join(ROOTS)}", tuple(
    prefix for of in FOLDERS.values() for prefix in (of.manifests.prefix, of.compactions.prefix, of.wal.prefix, of.ssts)),
    tuple(key for of in FOLDERS.values() for key in (of.manifests.boundary_key, of.compactions.boundary_key)))
BUCKET = "bucket"
OPS = {"create": "put", "update": "put", "get_if_changed": "get", "get_range": "get"}  # of events; others are as in a log
METHODS = {"put": "PUT", "delete": "DELETE", "head": "HEAD"}
NEW = tuple.__new__  # makes a NamedTuple from its fields in order, in half the time
GONE = ("NoLatest", "NotFound", "InvalidBoundary")  # what may be said once a database is destroyed
LOST = 500  # the status of a read whose reply has not come


class Constants(NamedTuple):
    """The most clients of each role. The others are as if the composition of metadata had none, so it has no witnesses."""

    CLIENTS: tuple[tuple[str, int], ...]
    WRITERS: int = 0
    COMPACTORS: int = 0
    OPERATORS: int = 0
    READERS: int = 0
    COLLECTORS: int = 0
    COMPACTIONS_COLLECTORS: int = 0
    WAL_COLLECTORS: int = 0
    WAL: bool = False


def refiner(c: Constants) -> Refiner:
    """Return the clients' names. The abstract models take their steps in the machine, where no client has a state of its own.
    """
    processes = tuple(Process(f"{role}#{i}", role, i, (), {}) for role, number in c.CLIENTS for i in range(number))
    return Refiner(Model("db", c, (), processes, {}, {}))


class Trace(trace.Trace):
    """Refines one trace of a database. `fences`: collectors delete fences as they delete other objects of the WAL."""

    alien = (*trace.UNCHECKED, DamagedObject)
    calls = CALLS
    resumable = False

    def __init__(self, refiner_: Refiner, namespace: Keys = KEYS, skew_ms: int = 0, fences: bool = False):
        super().__init__(refiner_, namespace, skew_ms)
        self.more = (fences,)
        self.answers = Answers(ROOTS)
        self.machine = Slatedb(Knobs(SKEW_MS=skew_ms, FENCES=not fences), searched=False)
        self.deaths: dict[str, list[tuple[int, int]]] = {}  # process -> of each crash: its time, its last request before
        self.fenced: set[tuple[str, int | None]] = set()  # root, epoch of each fence; its id may be used again
        self.unheard: dict[str, tuple[Event, Request]] = {}  # client -> its create, of which it may be told next

    def observe(self, e: Event) -> None:
        """Check the next event. A refiner that records is shown the abstract models' actions."""
        taken = getattr(self.refiner, "taken", None)
        before = {} if taken is None else {**self.machine.actions}
        super().observe(e)
        if taken is not None:
            taken += [(e.client, action, ()) for action, many in self.machine.actions.items()
                      for _ in range(many - before.get(action, 0))]

    def _take(self, e: Event) -> None:
        self._on_time(e)
        if e.kind == "told":
            self._told(e)
            return
        self._well_formed(e)
        self._hears(e)
        if e.kind == "crash":
            self._dies(e)
        elif e.op != "list" and (e.kind == "applied" or e.op not in MUTATIONS):  # pages: traces/store.py, database/shown.py
            self._judge(e)
        if why := self.answers.observe(e):
            raise self._refused("evidence", why)

    def _told(self, e: Event) -> None:
        """Check what a caller was told: by the table of calls, and by the requests of its own client."""
        if e.keys and (why := outside(self.calls, e) or self._fault(e)):
            raise untrue(self, e, e.keys[1], why)
        answer = self.calls[e.keys[0]][e.keys[1]] if e.keys else None
        if why := self.answers.told(e, answer.claims if answer else ()):
            raise untrue(self, e, e.keys[1], why) if e.keys else self._misled(e, why)
        if answer and "deleted" in answer.claims and (why := right_deletes(self, e, e.keys[3].partition("=")[2])):
            raise untrue(self, e, "deleted", why)

    def _fault(self, e: Event) -> str:
        """Return what is wrong with an answer that says that an object is damaged or gone: these runs damage none."""
        call, result, *_ = e.keys
        if not self.calls[call][result].fault or (result in GONE and any(map(self._is_sealed, ROOTS))):
            return ""
        return "nobody has damaged an object"

    # --- whose it is, and who was told

    def _dies(self, e: Event) -> None:
        """Note the end of a life. Its tasks die at the same time."""
        deaths = self.deaths.setdefault(process_of(e.client), [])
        last = e.request
        if deaths and deaths[-1][0] == e.t_ms:
            last = max(last, deaths.pop()[1])
        deaths.append((e.t_ms, last))

    def _life(self, e: Event) -> str:
        """Return the name of a process in the life in which it has sent a request."""
        process = process_of(e.client)
        deaths = self.deaths.get(process)
        return life_of(process, sum([last < e.request for _, last in deaths]) if deaths else 0)

    def _hears(self, e: Event) -> None:
        """Let a client hear of its create, unless this is the end of it without a reply."""
        if not e.awaited and e.kind == "applied":
            return
        known = self.unheard.pop(e.client, None)
        if known and not (e.kind != "applied" and e.request == known[0].request):
            self.machine.hears(known[1]._replace(answered=2 * e.request - 1))

    # --- the request of a log

    def _judge(self, e: Event) -> None:
        request = self._request_of(e)
        change = Change(request, (BUCKET, e.key), request.op)
        mutates = request.op in ("put", "delete")
        if mutates and e.status < 300:
            self._check_named(e)
        refusal = self.machine.take(Step(len(self.events), request.sent, request.answered, mutates, change))
        if refusal:
            refusal = refusal.explain(refusal) if refusal.explain else refusal
            needs = f"; {refusal.needs}" if refusal.needs else ""
            raise self._refused(refusal.guard, f"{refusal.why}{needs}")
        of = FOLDERS[e.key.partition("/")[0]]
        if e.op == "create" and e.status == 200 and not e.body and e.key.startswith(of.wal.prefix):
            self.fenced.add((of.root, self._epoch(e, of)))
        if mutates and e.awaited and e.status == 200:
            self.unheard[e.client] = e, request

    def _request_of(self, e: Event) -> Request:
        """Return an event as a request of a log. As long as its client has not gone on, it is told of nothing."""
        op, conditions, now_us = OPS.get(e.op, e.op), NO_CONDITIONS, 1000 * max(e.t_ms, 1)
        if e.op == "create":
            conditions = IF_ABSENT
        elif e.op == "update":
            conditions = {"if-match": e.condition}
        elif e.op == "get_if_changed":
            conditions = {"if-none-match": e.condition}
        status = e.status if e.kind == "applied" else LOST
        if op == "put" and status != 200:
            status = 404 if status == 404 else 412
        sent, got = (e.body, b"") if op == "put" else (b"", e.body)
        return NEW(Request, (
            e.request, self._life(e), op, METHODS.get(op, "GET"), BUCKET, e.key,
            {"start-after": e.condition} if op == "list" and e.condition else NO_CONDITIONS, conditions, 2 * e.request,
            2 * e.request, 2 * e.request + 1, 0, (now_us, now_us, now_us, now_us), status, 0, "", e.version, "", body_of(sent),
            body_of(got), listed_of(e.keys), e.truncated, ""))

    # --- what is named is there

    def _check_named(self, e: Event) -> None:
        of = FOLDERS[e.key.partition("/")[0]]
        if e.op == "delete":
            if e.key.startswith(of.ssts):
                self._check_sst_spared(e, of)
            elif e.key.startswith(of.wal.prefix):
                self._check_log_spared(e, of)
        elif e.op == "create" and e.key.startswith(of.wal.prefix):
            self._check_fenced(e, of)
        elif e.op == "create" and e.key.startswith(of.manifests.prefix):
            manifest = content_of("manifest", body_of(e.body))
            i = of.manifests.file_id(e.key) or 0
            if isinstance(manifest, Manifest) and i > max(self._latest(of), self._boundary(of.root)):
                self._check_ssts_there(e, of, manifest)

    def _epoch(self, e: Event, of: Folders) -> int | None:
        """Return the epoch that a writer has claimed; None if it has claimed none."""
        return self.machine.facts.epochs.get((self._life(e), Namespaced(BUCKET, of.root, "manifest"), WRITER))

    def _check_fenced(self, e: Event, of: Folders) -> None:
        """The released writers know by fences alone that there is a later one."""
        epoch = self._epoch(e, of)
        if e.body and e.awaited and epoch is not None and (of.root, epoch) not in self.fenced:
            raise self._refused("fence", f"{e.client} puts {e.key} with epoch {epoch}, and has put no fence with that epoch")

    def _check_ssts_there(self, e: Event, of: Folders, manifest: Manifest) -> None:
        there, external = self.machine.store.versions, externals(manifest) if manifest.initialized else ()
        for root, ssts in ((of.root, manifest.named_ssts), *external):
            if gone := [sst for sst in sorted(ssts) if not there.get((BUCKET, key_of_sst(root, sst)))]:
                raise self._refused("sst", f"{e.client} puts {e.key}, which names {gone[0]} of {root}, and there is none")
        before = self._manifest(of, (of.manifests.file_id(e.key) or 0) - 1)
        if before is not None and before.initialized and (why := self.answers.rows.misnamed(
                of.root, before, manifest, e.t_ms + self.skew_ms, self._content)):
            raise self._refused("rows", f"{e.client} puts {e.key}: {why}")

    def _content(self, key: str) -> bytes | None:
        """Return the content of an object, as far as it is known."""
        store = self.machine.store
        body = store.bodies.get(((BUCKET, key), store.versions.get((BUCKET, key), "")))
        return body.data if body else None

    def _check_sst_spared(self, e: Event, of: Folders) -> None:
        sst = sst_of(of.root, e.key)
        for keeper, manifest in self._kept(of):
            if sst in manifest.named_ssts:
                raise self._refused("sst", f"{e.client} deletes {e.key}, which {keeper} names")
        for other in FOLDERS.values():
            for keeper, manifest in self._kept(other) if other is not of else ():
                if manifest.initialized and any(root == of.root and sst in ssts for root, ssts in externals(manifest)):
                    raise self._refused("sst", f"{e.client} deletes {e.key}, which {keeper} of {other.root} names")

    def _check_log_spared(self, e: Event, of: Folders) -> None:
        i = of.wal.file_id(e.key) or 0
        for keeper, manifest in self._kept(of):
            if manifest.replay_after_wal_id < i <= manifest.wal_id_last_seen:
                raise self._refused("wal", f"{e.client} deletes {e.key}, which {keeper} has seen, and not flushed")

    def _latest(self, of: Folders) -> int:
        return self.machine.facts.latest.get(Namespaced(BUCKET, of.root, "manifest"), 0)

    def _is_sealed(self, root: str) -> bool:
        """Return whether a database is being deleted: its boundary is ahead of all ids."""
        return self._boundary(root) >= SEALED

    def _boundary(self, root: str) -> int:
        return self.machine.facts.boundary.get(Namespaced(BUCKET, root, "manifest"), 0)

    def _kept(self, of: Folders) -> Iterator[tuple[str, Manifest]]:
        """Yield the latest manifest, and that of each checkpoint that it lists. A database that is being deleted keeps nothing.
        """
        latest = None if self._is_sealed(of.root) else self._manifest(of, self._latest(of))
        if latest is None:
            return
        yield "the latest manifest", latest
        for one in latest.checkpoints:
            kept = self._manifest(of, one.manifest_id)
            if kept is not None:
                yield f"the manifest of checkpoint {one.id}", kept

    def _manifest(self, of: Folders, file_id: int) -> Manifest | None:
        body = self._content(of.manifests.key(file_id))
        found = content_of("manifest", body_of(body)) if body else None
        return found if isinstance(found, Manifest) else None

    def _refused(self, what: str, why: str) -> Failure:
        return Failure("refinement", f"refinement:{what}", why, self.refiner.unpacked())


def externals(manifest: Manifest) -> tuple[tuple[str, frozenset[str]], ...]:
    """Return the SSTs that a manifest names in other databases, each with the root of its database."""
    names = frozenset(manifest.all_ssts)
    return tuple((one.path, names.intersection(one.sst_ids)) for one in manifest.external_dbs)


@lru_cache(1_000)
def process_of(client: str) -> str:
    """Return the process of a client, which may be one of its tasks."""
    return client.partition("/")[0]


@lru_cache(1_000)
def life_of(process: str, deaths: int) -> str:
    return f"{process}.{deaths}"


@lru_cache(10_000)
def listed_of(keys: tuple[str, ...]) -> tuple[Listed, ...]:
    return tuple([Listed(key, 0, "", "") for key in keys])


NOTHING = Body()
NO_CONDITIONS: dict[str, str] = {}  # these two are never written to
IF_ABSENT = {"if-none-match": "*"}


@lru_cache(10_000)
def body_of(data: bytes) -> Body:
    """Return a body. Its digest is left out: other judges compare contents (traces/store.py)."""
    return Body(len(data), "", data) if data else NOTHING


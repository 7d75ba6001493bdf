"""Safety: what clients do to a database and its clones is a behaviour of model/protocols/clones.py: what an initialized clone
names stays, and it has the WAL objects of its source.

The model sees finals, entries, SSTs and WAL objects, and neither epochs nor fences. It has one writer for each database, which
is whoever adds an SST or a WAL object. Whoever takes a checkpoint is a cloner of its own. Three things of a database are
steps here that the model's actions are not:

- A compaction replaces several SSTs by one. The model's writer replaces one.
- A checkpoint says how much of the WAL it has seen. In the model only a writer does, when it adds an SST.
- A WAL object behind the clone's replay_after is not copied: its records are in SSTs. For the model it is copied when the clone
  is initialized.

The first two are `compacted` and `seen_up_to`. tests/traces/test_database_clones.py adds them to the model's actions, and
explores small instances: every property of the model still holds.
"""

from collections.abc import Callable
from functools import lru_cache

from highwater.impl.codecs.json.ssts import ulid_of
from highwater.impl.layout import key_of_sst
from highwater.model.core import State, broken
from highwater.model.protocols.clones import Database, Shared, Sst, changed, ids
from highwater.traces.event import Event
from highwater.traces.evidence import Evidence
from highwater.traces.protocols import clones
from highwater.traces.protocols.cloned.contents import COMPACTIONS, KEYS, file_of
from highwater.traces.protocols.clones_contents import MANIFESTS, ROOTS, File
from highwater.traces.refine import Failure, Refiner

OF_ALL = "Cloner", "Detacher"  # the roles that work on several databases
FOLDERS = tuple(of.prefix for of in COMPACTIONS), tuple(of.boundary_key for of in COMPACTIONS)


@lru_cache(100_000)
def seen_file(body: bytes) -> File:
    """Return a manifest as the model sees it, with the ULIDs of SSTs. Raises InvalidManifest."""
    of = file_of(body)
    return of._replace(own=frozenset(map(ulid_of, of.own)), after=0, entries=frozenset(
        (final, path, source, tuple(sorted(map(ulid_of, ssts)))) for final, path, source, ssts in of.entries))


# --- steps that the model's actions are not

def compacted(s: Shared, d: int, old: frozenset[Sst], new: Sst) -> Shared | None:
    """Replace SSTs of a database by one; None if that is not possible."""
    of = s.dbs[d]
    if not of.ready or not old <= of.own.union(*(ssts for _, ssts in of.entries)) or new in s.ssts:
        return None
    entries = frozenset((f, tuple([x for x in ssts if x not in old])) for f, ssts in of.entries)
    return changed(s, d, own=of.own - old | {new}, entries=entries)._replace(ssts=s.ssts | {new})


def seen_up_to(s: Shared, d: int, i: int) -> Shared | None:
    """Let a manifest see more WAL objects; None if they are not there."""
    of = s.dbs[d]
    return changed(s, d, seen=i) if of.ready and of.seen < i <= max(ids(s, d), default=0) else None


class Projection(clones.Trace):
    """The requests on all databases against the model of clones."""

    file_of = staticmethod(seen_file)
    uploads = ("Writer", "Compactor")
    asked = OF_ALL

    def __init__(self, refiner: Refiner, skew_ms: int = 0):
        super().__init__(refiner, KEYS, skew_ms)
        self.uploaded: set[str] = set()  # SSTs that were put
        self.evidence = Evidence(MANIFESTS, keeps=True, after=("Cloner",))  # who lists the WAL behind replay_after
        self.taker = f"Cloner#{refiner.model.constants.CLONERS - 1}"
        x, first = refiner.explorer, refiner.unpacked()[0]  # a database begins without SSTs
        dbs = (Database(True, True), *first.shared.dbs[1:])
        refiner.states = (x.pack(first._replace(shared=first.shared._replace(dbs=dbs, ssts=frozenset()))),)

    def hear(self, e: Event) -> None:
        """Take a request, or a response to a client that works on several databases. The store was judged before. Raises
        Failure."""
        if e.key.startswith(FOLDERS[0]) or e.key in FOLDERS[1]:
            return
        self.events.append(e)
        try:
            self._take(e)
        except Failure as failure:
            kind, _, rest = failure.signature.partition(":")
            failure.signature, failure.match = f"{kind}:clones.{rest}", None
            raise
        self.by_client[e.client].append(e)

    @staticmethod
    def _first(d: int) -> File:
        return clones.NO_ROW._replace(ready=not d)

    # --- SSTs and WAL objects

    def _of_sst(self, e: Event, d: int) -> None:
        if e.op == "create":
            self.uploaded.add(e.key)
        elif not e.client.startswith("Collector"):
            raise self._no_action(e, e.client)
        super()._of_sst(e, d)

    def _of_wal(self, e: Event, d: int, i: int) -> None:
        if e.op == "delete" and e.client.startswith("Collector"):
            return  # database_metadata says which may go
        if e.op != "create":
            raise self._no_action(e, e.client)
        there = i in ids(self.refiner.shared(), d)
        if e.client.startswith("Cloner"):
            if not there:
                self._copies(e.client, d, i)
        elif not there:
            self._steps(f"Writer#{d}", "Append", (), d, i, so=lambda s: (d, i) in s.acked)

    def _copies(self, client: str, d: int, i: int) -> None:
        self._steps(client, "Copy", None, d, i, "copy", so=lambda s: any(one[:2] == (d, i) for one in s.wal))

    # --- manifests

    def _updated(self, e: Event, d: int, old: File, new: File) -> None:
        added, pins, ready = new.own - old.own, new.pins - old.pins, old.ready and new.ready
        if missing := [sst for sst in sorted(added) if key_of_sst(ROOTS[d], sst) not in self.uploaded]:
            raise self._refused("sst", f"{e.client} puts {e.key}, which names SST {missing[0]}, and that was never put")
        if ready and new.seen != old.seen and not added:
            self._leaps(e, lambda s: seen_up_to(s, d, new.seen))
            old = old._replace(seen=new.seen)
        if ready and added:
            gone = (old.own | in_entries(old)) - (new.own | in_entries(new))
            e = e._replace(client=f"Writer#{d}")
            if gone:
                return self._compacts(e, d, old, new, gone)
        elif pins and not e.client.startswith("Cloner"):
            e = e._replace(client=self.taker)
        if new.ready and not old.ready:
            for i in range(1, new.seen + 1):
                if i not in ids(self.refiner.shared(), d) and i <= self.flushed(e.body):
                    self._copies(e.client, d, i)
        return super()._updated(e, d, old, new)

    @staticmethod
    def flushed(body: bytes) -> int:
        """Return the id up to which a manifest has flushed the WAL."""
        return file_of(body).after

    def _compacts(self, e: Event, d: int, old: File, new: File, gone: frozenset[str]) -> None:
        if new._replace(own=old.own, entries=old.entries) != old or len(new.own - old.own) > 1:
            raise self._no_action(e, "any client: it changes several things")
        k = self.refiner.local(e.client).k + 1
        self.ssts.update((sst, (d, k)) for sst in new.own - old.own)
        self._leaps(e, lambda s: compacted(s, d, frozenset(self.ssts[x] for x in gone), (d, k)), True)
        self._agrees(d, new)

    def _leaps(self, e: Event, step: Callable[[Shared], Shared | None], adds: bool = False) -> None:
        """Take a step that is no action of the model. `adds`: the writer `e.client` has added an SST."""
        refiner, state = self.refiner, self.refiner.unpacked()[0]
        shared, locals_ = step(state.shared), list(state.locals)
        if shared is None:
            raise self._no_action(e, e.client)
        if adds:
            at = refiner.index[e.client]
            locals_[at] = locals_[at]._replace(k=locals_[at].k + 1)
        after = State(shared, tuple(locals_))
        if wrong := broken(refiner.model, after):
            raise Failure("safety", f"safety:{wrong[0]}", f"{wrong[0]} does not hold", (after,))
        refiner.states = (refiner.explorer.pack(after),)


def in_entries(of: File) -> frozenset[str]:
    return frozenset(sst for *_, ssts in of.entries for sst in ssts)


"""Safety: what clients do to one database, the root or a clone, is a behaviour of database_metadata, from its beginning on.

The judge is that of database_metadata. It sees the requests on one database under the keys of its own, and the manifests
without what only clones have. Cloners and detachers are operators there: they change checkpoints, or nothing that it sees.

A clone begins in three steps. Before its first manifest is created, nothing is there, and nothing is judged. Until it is
initialized, only its sequence of manifests is judged: no writer and no compactor may change it. When it is initialized, the
other parts begin in the state that its manifest and its WAL show, which is the state of the source: its SSTs, its epochs, and
what a writer would replay. So everything that is in the clone then counts as acknowledged.

Requests that were sent before a step may be applied after it. They can change nothing but what is behind a boundary: a first
manifest, or a WAL object behind replay_after. This module adds such an object to the models' states, because no model has a
client that sends such a request.
"""

from bisect import insort
from collections.abc import Callable
from typing import Any

from highwater.impl.codecs.json.wal import decode_record
from highwater.model.core import State
from highwater.model.protocols import manifest_compactions as compactions
from highwater.model.protocols import sequenced_metadata_boundary as boundary
from highwater.traces.event import Event
from highwater.traces.form import MUTATIONS
from highwater.traces.protocols import database_metadata as database
from highwater.traces.protocols.cloned.contents import compactions_of, database_of
from highwater.traces.protocols.cloned.refiner import Constants
from highwater.traces.protocols.clones_contents import ROOTS
from highwater.traces.protocols.database.claims import FLUSHER, Claims
from highwater.traces.protocols.database.contents import (
    CHECKPOINTS,
    Change,
    log_of,
    manifest_of,
    names_of,
    numbered,
)
from highwater.traces.protocols.database.epochs import Epochs
from highwater.traces.protocols.database.log import Log
from highwater.traces.protocols.database.parts import Parts
from highwater.traces.protocols.database.sequences import Put, Sequence
from highwater.traces.protocols.wal_fencing import manifest_of as log_manifest_of
from highwater.traces.protocols.wal_fencing import record_of
from highwater.traces.refine import Refiner

NEW = tuple.__new__
OF_CLONES = "epochs", "claims", "wal"  # the parts that begin when a clone is initialized
NOBODY = -1  # the writer of SSTs that a clone has from its parent, in the model of epochs
FIRST = database.MANIFEST.key(1)


class Manifests(Sequence):
    """The sequence of manifests, whose collectors read other files than the latest: old ones, and those of checkpoints.

    The model's collector reads the latest file that it has listed, once. Only that says what it may delete."""

    def _is_aside(self, e: Event) -> bool:
        if super()._is_aside(e):
            return True
        if self.names[e.client][0] != "C" or e.op != "get" or e.key == self.namespace.boundary_key:
            return False
        local = self.refiner.local(self.names[e.client])
        return local.marked or self.namespace.file_id(e.key) != max(local.listed, default=0)


class Root(database.Trace):
    """Refines the trace of one database."""

    sequence = Manifests

    def __init__(self, refiner: Parts, d: int, c: Constants, skew_ms: int, pins: bool):
        super().__init__(refiner, database.KEYS, skew_ms, pins)
        self.d, self.own_operators, self.others = d, c.OPERATORS, {
            **{f"Cloner#{i}": f"Operator#{c.OPERATORS + i}" for i in range(c.CLONERS)},
            **{f"Detacher#{i}": f"Operator#{c.OPERATORS + c.CLONERS + i}" for i in range(c.DETACHERS)}}
        self.is_there = self.is_open = d == 0  # its first manifest was created; it is initialized
        self.objects: dict[int, bytes] = {}  # of the WAL, until it is initialized
        self.early: set[tuple[str, int]] = set()  # requests that are not judged by a model, by client and number

    # --- events

    def translated(self, e: Event) -> Event:
        """Return an event on this database as its models see it."""
        here, there = f"{ROOTS[self.d]}/", "db/"
        ssts = f"{here}compacted/"

        def named(key: str) -> str:
            return there + key[len(here):] if key.startswith(here) else key

        def claimed(claim: str) -> str:
            name, equals, value = claim.partition("=")
            if name != "deleted":
                return claim
            return name + equals + " ".join(named(key) for key in value.split() if not key.startswith(ssts))

        key = named(e.key)
        body = e.body
        if body and e.kind != "told":
            body = (database_of(body) if key.startswith(database.MANIFEST.prefix) else
                    compactions_of(body) if key.startswith(database.COMPACTIONS.prefix) else body)
        return NEW(Event, (*e[:2], self.others.get(e.client, e.client), *e[3:5], key, named(e.condition), *e[7:9],
                           body, tuple(map(claimed if e.kind == "told" else named, e.keys)), *e[11:]))

    def hear(self, of: Event) -> None:
        """Take an event. The store was judged before. Raises Failure."""
        e = self.translated(of)
        self.events.append(e)
        self._guarded(self._take_unless_aside, e)
        self.by_client[e.client].append(e)

    def _take_unless_aside(self, e: Event) -> None:
        if e.kind == "told" or not self._aside(e):
            self._take(e)

    def end_call(self, client: str) -> None:
        """End a call of a client that works on several databases."""
        self.reads.end(self.others.get(client, client))

    def crashed(self, client: str) -> None:
        """Let a client crash whose last request was on another database."""
        self.end_call(client)
        name = self.others.get(client, client)
        if name in self.names["manifest"]:
            self._part("manifest", self.manifests.forget, name, "crash")

    def _aside(self, e: Event) -> bool:
        """Take a request that no model has: before the database is there, or a cloner's on the WAL. Return whether it is one.
        """
        of, in_wal = (e.client, e.request), e.key.startswith(database.WAL.prefix)
        in_manifests = e.key.startswith(database.MANIFEST.prefix) or e.key == database.MANIFEST.boundary_key
        first = e.op == "create" and e.key == FIRST
        before = (in_manifests and not self.is_there) or (in_wal and not self.is_open)
        if not (of in self.early or before or first or (in_wal and e.client.startswith("Operator"))):
            return False
        if e.kind == "applied" and e.awaited:
            self.last[e.client] = max(e.request, self.last.get(e.client, 0))
        self.early.add(of)
        if e.kind != "applied" or e.op not in MUTATIONS or e.status >= 300:
            return True
        if in_wal:
            self._put_early(e)
        elif first:
            self._begin(e)
        elif in_manifests:
            raise self._no_action(e, "any client before the database is there")
        return True

    def _part(self, name: str, step: Callable[..., Any], *arguments: Any) -> Any:
        return super()._part(name, step, *arguments) if self.is_open or name not in OF_CLONES else None

    # --- a clone begins

    def _begin(self, e: Event) -> None:
        """Begin with the first manifest. Its creator knows it, and may build on it without reading it."""
        if self.is_there:  # it is created where it was collected
            edit(self.parts["manifest"], lambda s: s._replace(files=(boundary.NO_FILE, *s.files[1:])))
            self.manifests._put(self.manifests.history[0]._replace(place=-1, body=e.body))
            return
        self.is_there, of = True, self.manifests
        of.history[0] = of.there[1] = Put(1, e.body, numbered(frozenset(), frozenset()), 0)
        if e.awaited:
            name, form = of.names[e.client], of.history[0].form
            start = e.t_ms, e.request, name, "applied"
            of._step(Event(*start, "list", database.MANIFEST.prefix, "", 200, "", b"", (FIRST,)), name)
            of._step(Event(*start, "get", FIRST, "", 200, "v", form), name, form)

    def _put_early(self, e: Event) -> None:
        """Note a WAL object that is put or deleted before the database is initialized, or by a cloner."""
        i = database.WAL.file_id(e.key) or 0
        put = e.op == "create"
        if not self.is_open:
            if put:
                self.objects[i] = e.body
            else:
                self.objects.pop(i, None)
            return
        if i > self.parts["wal"].shared().manifest.replay_after:
            raise self._refused("wal", f"{e.client} changes WAL object {i}, which a writer would replay")
        edit(self.parts["wal"], lambda s: s._replace(wal=with_slot(s.wal, i, slot_of(e.body) if put else ())))
        if put and i not in self.wal.there:
            insort(self.wal.there, i)
        elif not put and i in self.wal.there:
            self.wal.there.remove(i)

    def opens(self, seen: int, copied: Callable[[int], bytes | None]) -> None:
        """Begin the other parts: the database is initialized. `seen`: the last WAL object that it has from its source;
        `copied(i)`: what was first written under this id there."""
        body, parts = self.manifests.history[-1].body, self.parts
        log = log_manifest_of(log_of(body))
        for i in range(log.replay_after + 1, seen + 1):
            if self.objects.get(i) != copied(i):
                raise self._refused("copy", f"WAL object {i} of {ROOTS[self.d]} is not the one that its source has seen")
        self.is_open = True
        self._begin_epochs(body)
        self._begin_claims(body)
        self.wal = Log(parts["wal"])
        self.wal.there = sorted(self.objects)
        slots = tuple(slot_of(self.objects[i]) if i in self.objects else () for i in range(1, max(self.objects, default=0) + 1))
        acked = log.flushed | {one for of in slots[log.replay_after:] for one in of if one}
        edit(parts["wal"], lambda s: s._replace(manifest=log, wal=slots, acked=acked, first=slots))

    def _begin_epochs(self, body: bytes) -> None:
        self.epochs, m = Epochs(self.parts["epochs"]), manifest_of(body)
        self.parts["epochs"].begin()
        l0, merged = ({(NOBODY, i) for i in ids} for ids in (
            range(len(m.l0)), range(len(m.l0), len(m.l0) + len(m.compacted))))
        edit(self.parts["epochs"], lambda s: s._replace(files=(s.files[0]._replace(
            writer_epoch=m.writer_epoch, compactor_epoch=m.compactor_epoch, l0=frozenset(l0), compacted=frozenset(merged)),)))

    def _begin_claims(self, body: bytes) -> None:
        self.history, m = Claims(self.parts["claims"]), manifest_of(body)
        for sst in (*m.compacted, *m.l0):
            self.history.names[sst] = f"0.{len(self.history.names)}"
            self.history.holder.update(dict.fromkeys(names_of(sst), self.history.names[sst]))
        self.history.bodies = [self.history.manifest(m)]
        self.history.numbers = [1] * len(self.manifests.history)
        number = {sst: i for i, sst in enumerate(self.history.names)}
        first = compactions.Manifest(m.compactor_epoch, frozenset(number[sst] for sst in m.l0),
                                     tuple(sorted(number[sst] for sst in m.compacted)))
        edit(self.parts["claims"], lambda s: s._replace(manifests=(first,), acked=frozenset(number.values())),
             lambda name, l: l._replace(k=len(number)) if name == FLUSHER else l)

    # --- manifests

    def _changed(self, e: Event, before: Put) -> Change:
        """Return the change that a manifest makes. Cloners and detachers change nothing else that a database knows of."""
        role = e.client.partition("#")[0]
        if role == "Operator" and (e.body == before.body or not self.is_open):
            return Change(CHECKPOINTS)
        if not self.is_open:
            raise self._no_action(e, "any client before the database is initialized", role)
        return super()._changed(e, before)

    def _check_taken(self, e: Event, change: Change, before: Put) -> None:
        if e.client.startswith("Operator") and int(e.client.partition("#")[2]) < self.own_operators:
            super()._check_taken(e, change, before)


# --- states

def edit(refiner: Refiner, shared: Callable[[Any], Any], local: Callable[[str, Any], Any] = lambda name, l: l) -> None:
    """Change each state that a part may be in."""
    x, processes = refiner.explorer, refiner.model.processes
    refiner.states = tuple(dict.fromkeys(
        x.pack(State(shared(state.shared), tuple(local(p.name, l) for p, l in zip(processes, state.locals))))
        for state in refiner.unpacked()))


def slot_of(body: bytes) -> tuple:
    """Return a WAL object as the model has it. Raises InvalidWal, ValueError."""
    return (record_of(decode_record(body)),)


def with_slot(slots: tuple, i: int, slot: tuple) -> tuple:
    slots += ((),) * (i - len(slots))
    return (*slots[:i - 1], slot, *slots[i:])

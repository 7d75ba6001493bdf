"""Safety: every request of the trace is an action of database_metadata's models on the database that it is sent to, and of the
model of clones, and each response to a caller agrees with them.

The composed model is a product: for each database the models of its parts, and one model of clones for all. Each is refined by
itself, with the requests that it knows:

    a database, the root or a clone   database_clones_root.py         all requests on it, from its first manifest on
    clones                            database_clones_projection.py   manifests, SSTs and WAL objects of all databases

They meet in one step: when a clone is initialized, the models of its parts begin in the state of its source. This module
compares the two: each WAL object that the clone has is the one that was first written under its id in the parent.

Two more checks are of no part. An attempt has the epoch after its source's, and after that of the attempt before. And no WAL
object is deleted that a listed checkpoint has seen and not flushed: the checkpoints of database_metadata see no WAL object.
"""

from collections.abc import Callable
from typing import Any

from highwater.impl.codecs.json.compactions import InvalidCompactions
from highwater.impl.codecs.json.manifest import InvalidManifest
from highwater.impl.codecs.json.wal import InvalidWal
from highwater.impl.codecs.manifest import Manifest
from highwater.traces import trace
from highwater.traces.calls import judge_claims
from highwater.traces.event import Event
from highwater.traces.form import Keys
from highwater.traces.protocols.cloned.contents import KEYS, SSTS, manifest_of
from highwater.traces.protocols.cloned.projection import OF_ALL, Projection
from highwater.traces.protocols.cloned.refiner import Constants, Pair, refiner
from highwater.traces.protocols.cloned.root import Root
from highwater.traces.protocols.clones_contents import MANIFESTS, ROOTS, WALS, database_of
from highwater.traces.protocols.database_clones_calls import CALLS, CLAIMS
from highwater.traces.refine import Failure, Refiner

__all__ = ["KEYS", "Constants", "Trace", "refiner"]


class Trace(trace.Trace):
    """Refines one trace of a database and its clones."""

    alien = (*trace.UNCHECKED, InvalidManifest, InvalidCompactions, InvalidWal)
    calls, claims = CALLS, CLAIMS
    aside = SSTS
    resumable = False

    def __init__(self, refiner_: Refiner, namespace: Keys = KEYS, skew_ms: int = 0, pins: bool = False):
        super().__init__(refiner_, namespace, skew_ms)
        self.more = (pins,)
        c = refiner_.model.constants
        self.of = of = refiner_ if isinstance(refiner_, Pair) else Pair(c, type(refiner_))
        if of is not refiner_:  # one that records: each part records, too
            of.begin()
        self.roots = [Root(parts, d, c, skew_ms, pins) for d, parts in enumerate(of.databases)]
        self.projection = Projection(of.clones, skew_ms)
        if of is not refiner_:
            refiner_.states = (refiner_.explorer.pack(of.unpacked()[0]),)
        self.written: list[dict[int, bytes]] = [{} for _ in ROOTS]  # of each WAL: id -> what was first written
        self.epochs: list[dict[int, int]] = [{1: 0}, *({} for _ in ROOTS[1:])]  # of each database: manifest -> writer epoch
        self.attempts = [""] * len(ROOTS)  # of each clone: the first final of its latest attempt
        self.logs: list[dict[int, range]] = [{} for _ in ROOTS]  # of each database: manifest -> what it has seen, not flushed

    def observe(self, e: Event) -> None:
        if self.of is self.refiner:
            super().observe(e)
            return
        record: Any = self.refiner
        record.before, record.taken = record.unpacked(), []
        for _, part in self.of.parts():
            vars(part)["taken"] = []
        try:
            super().observe(e)
        finally:
            self._record(e.client, record)

    def _record(self, client: str, record: Any) -> None:
        """Show a refiner that records what the parts have done, and the state of all."""
        record.taken += [(client if process else "", f"{name}.{action}", choices) for name, part in self.of.parts()
                         for process, action, choices in vars(part)["taken"]]
        record.states = (record.explorer.pack(self.of.unpacked()[0]),)

    def _take(self, e: Event) -> None:
        self._on_time(e)
        if e.kind == "told":
            self._told(e)
            return
        d, role = database_of(e.key), e.client.partition("#")[0]
        if role not in OF_ALL and Pair.place(e.client) != d:
            raise self._no_action(e, "a client of another database", role)
        self._written(e, d)
        root = self.roots[d]
        if not e.key.startswith(SSTS[d]):
            self._of(d, root.hear, e)
        self._of_clones(e)
        if e.kind == "crash" and role in OF_ALL:
            for other in self.roots:
                other.crashed(e.client)
        files = self.projection.files[d]
        if not root.is_open and files and files[max(files)].ready:
            self._of(d, root.opens, files[max(files)].seen, self.written[self._parent(d)].get)

    def _written(self, e: Event, d: int) -> None:
        """Note the first content under each id, and compare the epoch of a clone with that of its source."""
        if e.kind == "applied" and e.op == "delete" and e.status < 300 and e.key.startswith(WALS[d].prefix):
            self._check_spared(e, d, WALS[d].file_id(e.key) or 0)
        if e.kind != "applied" or e.op != "create" or e.status != 200:
            return
        if e.key.startswith(WALS[d].prefix):
            self.written[d].setdefault(WALS[d].file_id(e.key) or 0, e.body)
        elif e.key.startswith(MANIFESTS[d].prefix):
            i, m, known = MANIFESTS[d].file_id(e.key) or 0, manifest_of(e.body), self.epochs[d]
            if i <= max(known, default=0):
                return  # where one was collected: it is in no history
            if d and not self.roots[d].is_open and m.external_dbs[0].final_checkpoint_id != self.attempts[d]:
                self._check_epoch(e, d, m)
                self.attempts[d] = m.external_dbs[0].final_checkpoint_id or ""
            known[i], self.logs[d][i] = m.writer_epoch, range(m.replay_after_wal_id + 1, m.wal_id_last_seen + 1)

    def _check_epoch(self, e: Event, d: int, m: Manifest) -> None:
        """Check that an attempt has the epoch after that of its source, or of the attempt before if that is higher."""
        source, parent, before = m.external_dbs[0].source_checkpoint_id, self._parent(d), self.epochs[d]
        kept = {i for of in self.projection.files[parent].values() for u, i in of.pins if u == source}
        last = before[max(before)] if before else 0
        if m.writer_epoch not in {max(self.epochs[parent][i], last) + 1 for i in kept}:
            raise self._refused("epoch", f"{e.client} begins a clone with the writer epoch {m.writer_epoch}, which is not the "
                                f"one after that of its source {source}, or of the attempt before")

    def _check_spared(self, e: Event, d: int, i: int) -> None:
        """Check that no listed checkpoint has seen this WAL object, and not flushed it."""
        files = self.projection.files[d]
        pins = files[max(files)].pins if files else ()
        if found := [u for u, of in sorted(pins) if i in self.logs[d].get(of, ())]:
            raise self._refused("wal", f"{e.client} deletes {e.key}, and checkpoint {found[0]} has seen it, and not flushed it")

    def _parent(self, d: int) -> int:
        return 1 if d == 2 and self.refiner.model.constants.NESTED else 0

    def _of(self, d: int, step: Callable[..., Any], *arguments: Any) -> None:
        """Take a step of one database. A failure names it."""
        try:
            step(*arguments)
        except Failure as failure:
            failure.message = f"{ROOTS[d]}: {failure.message}"
            failure.args, failure.match, failure.states = (failure.message,), None, self.of.unpacked()
            raise

    def _of_clones(self, e: Event) -> None:
        try:
            self.projection.hear(e)
        except Failure as failure:
            failure.states = self.of.unpacked()
            raise

    # --- what callers were told

    def _told(self, e: Event) -> None:
        if e.client.partition("#")[0] not in OF_ALL:
            d = Pair.place(e.client)
            self._of(d, self.roots[d].hear, e)
            if e.op == "deleted":  # a database knows no SSTs as objects
                judge_claims(self, e)
            return
        for root in self.roots:
            root.end_call(e.client)
        self._of_clones(e)

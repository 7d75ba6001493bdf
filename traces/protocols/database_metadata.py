"""Safety: every request of the trace is an action of each part's model that it concerns, and each response to a caller agrees
with the history of the parts that know of it.

A database uses five protocols on one log of requests, and each is checked by its own model:

    manifest, compactions   sequenced_metadata_boundary, once for each sequence: all requests on it, as they are
    epochs                  manifest_epochs: the claims of writers and compactors, and who is fenced
    claims                  manifest_compactions: flushes, and what compactors do in both sequences
    wal                     wal_fencing: the WAL, and the writer's fields of the manifest

The last three follow the history: the files that were created ahead of the boundary, in the order of their ids. The first two
check that such a file is never lost, and that its creator has read the file before it. When a file joins the history, it must
differ from the file before it by one action of one role. A file created behind the boundary concerns the first two parts alone:
for the others its creator has met a conflict, or nothing happened.

A compactor's pin is a change of checkpoints for the parts. Where compactors pin, this module checks that a pin keeps the
manifest that lists it first, and that none drops its inputs from L0 before the manifest lists its pin of them.

No part's model has the ids by which an operator recognises its own changes. So this module checks that no id is used twice, and
that the manifest which an operator is told of shows its change. The file of each part says what that part does not see.
"""

from collections.abc import Callable
from typing import Any

from highwater.impl.codecs.json import compactions as compactions_json
from highwater.impl.codecs.json.compactions import Compactions, InvalidCompactions
from highwater.impl.codecs.json.manifest import DATABASE, InvalidManifest
from highwater.impl.codecs.json.wal import InvalidWal
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.layout import Namespace
from highwater.traces import trace
from highwater.traces.calls import UNFINISHED, judge_answer, judge_claims
from highwater.traces.event import Event
from highwater.traces.form import MUTATIONS, UNUSED, Keys
from highwater.traces.protocols.database.claims import Claims
from highwater.traces.protocols.database.contents import (
    BUMP,
    CHECKPOINTS,
    CLAIM,
    COMPACTION,
    FLUSH,
    ROLES,
    Change,
    change_of,
    checkpoint_ids_in,
    is_pin,
    log_of,
    manifest_of,
    pinned_in,
    read_names,
)
from highwater.traces.protocols.database.epochs import Epochs, view_of
from highwater.traces.protocols.database.log import Log
from highwater.traces.protocols.database.parts import (
    Parts,
    constants,
    lift,
    names_of,
    refiner,
    refiners_of,
    state_of_all,
)
from highwater.traces.protocols.database.sequences import LOOKS, Put, Sequence
from highwater.traces.protocols.database_metadata_calls import CALLS, JUDGES
from highwater.traces.reads import Reads
from highwater.traces.refine import REST, Failure, Refiner
from highwater.traces.trace import UNCHECKED

__all__ = ["COMPACTIONS", "KEYS", "MANIFEST", "WAL", "Trace", "constants", "refiner"]

MANIFEST, COMPACTIONS, WAL = (Namespace("db", name) for name in ("manifest", "compactions", "wal"))
BOUNDARIES = {MANIFEST.boundary_key: MANIFEST.prefix, COMPACTIONS.boundary_key: COMPACTIONS.prefix}
KEYS = Keys("db", listed=(MANIFEST.prefix, COMPACTIONS.prefix, WAL.prefix), single=tuple(BOUNDARIES))
OPERATORS = ("taken", "renewed", "dropped", "ended")  # responses that name the manifest which shows the change
TOLD = {  # role -> the responses of its calls
    "Writer": ("opened", "not open", "committed", "fenced", "failed", "unknown", "flushed", "not flushed"),
    "Compactor": ("opened", "not open", "compacted", "nothing", "fenced", "not compacted"),
    "Reader": ("read", "not read"),
    "Operator": (*OPERATORS, "not changed", "change unknown", UNFINISHED),
    "Collector": ("deleted", "not deleted"),
}
EPOCHAL = CLAIM, FLUSH, BUMP, COMPACTION


def file_id(key: str) -> int | None:
    """Return the id in the key of a file; None for another key. Raises InvalidName."""
    return (MANIFEST if key.startswith(MANIFEST.prefix) else COMPACTIONS).file_id(key)


class Trace(trace.Trace):
    """Refines one trace of a database, part by part."""

    alien = (*UNCHECKED, InvalidManifest, InvalidCompactions, InvalidWal)
    calls, claims = CALLS, JUDGES
    sequence = Sequence  # of manifests
    keyed = ("read", *OPERATORS)
    bodiless = ("not open", "flushed", "not flushed", "nothing", "not compacted", "ended")

    def __init__(self, refiner: Refiner, namespace: Keys = KEYS, skew_ms: int = 0, pins: bool = False):
        super().__init__(refiner, namespace, skew_ms)
        self.pins, self.more = pins, (pins,)  # a compactor pins what it has claimed before it drops it
        c, parts = refiner.model.constants, refiner.parts if isinstance(refiner, Parts) else refiners_of(
            refiner.model.constants, type(refiner))
        if not isinstance(refiner, Parts):  # one that records: each part records, too
            for part in parts.values():
                part.begin()
        self.parts, self.names = parts, names_of(c)
        self.manifests = self.sequence(parts["manifest"], MANIFEST, skew_ms, self.names["manifest"],
                                       DATABASE.encode(Manifest()), lambda body: manifest_of(body).checkpoints)
        self.compactions = Sequence(parts["compactions"], COMPACTIONS, skew_ms, self.names["compactions"],
                                    compactions_json.encode(Compactions()), lambda body: ())
        self.epochs, self.history, self.wal = Epochs(parts["epochs"]), Claims(parts["claims"]), Log(parts["wal"])
        self.reads = Reads(file_id, BOUNDARIES)
        self.formed: set[tuple] = set()  # events without time and number that are well formed
        self.landed: dict[str, tuple[Put, Change]] = {}  # client -> its manifest in the history, of which it knows no more yet
        self.verdict: dict[str, tuple[int, bool]] = {}  # client -> its last read of the manifest's boundary, and whether the
        #                                                 file that it is about is ahead
        self.sent: dict[tuple[str, int], Change] = {}  # client, request in flight -> the change, if it may join the history
        self.bases: dict[str, Put] = {}  # client -> the manifest that it has got or put last
        self.taken: set[str] = set()  # ids of all checkpoints that a manifest of the history lists

    def _updates(self, e: Event) -> list[str]:
        """Return the update in a record. (A flush puts none: it says that the log's records are in the database.)"""
        return self.wal._updates(e) if e.key.startswith(WAL.prefix) else []

    # --- events

    def observe(self, e: Event) -> None:
        if isinstance(self.refiner, Parts):
            super().observe(e)
            return
        record: Any = self.refiner
        record.before, record.taken = record.unpacked(), []
        for part in self.parts.values():
            vars(part)["taken"] = []
        try:
            super().observe(e)
        finally:
            self._record(e.client, record)

    def _record(self, client: str, record: Any) -> None:
        """Show a refiner that records what the parts have done, and the state of all."""
        record.taken += [(client if process else "", f"{name}.{action}", choices) for name, part in self.parts.items()
                         for process, action, choices in vars(part)["taken"]]
        state, x = state_of_all(record.model, self.parts, self.names), record.explorer
        record.states = (x.pack(state),)

    def _take(self, e: Event) -> None:
        self._on_time(e)
        self.manifests.pass_time(e.t_ms)
        if e.kind == "told":
            self._told(e)
            self._checks(e)
            return
        if e[REST] not in self.formed:
            self._well_formed(e)
            if e.op == "head":
                raise self._no_action(e, "a client of a database")
            self.formed.add(e[REST])
        if not e.awaited and e.kind == "applied":
            self._arrived(e)
            return
        self._numbered(e)
        if e.pending and e.op in MUTATIONS:
            self.pending[e.client, e.request] = (), trace.sent(e)
        self._resolve(e)
        if e.key.startswith(WAL.prefix):
            self._of_wal(e)
        elif e.key.startswith(MANIFEST.prefix) or e.key == MANIFEST.boundary_key:
            self._of_manifest(e)
        else:
            self._of_compactions(e)

    def _part(self, name: str, step: Callable[..., Any], *arguments: Any) -> Any:
        """Take a step of a part. A failure names the part."""
        try:
            return step(*arguments)
        except Failure as failure:
            model = self.refiner.model
            lift(name, failure, self.events[-1].client, model, state_of_all(model, self.parts, self.names))
            raise

    def _arrived(self, e: Event) -> None:
        """Take a request that nobody waits for."""
        super()._arrived(e)
        if e.op not in MUTATIONS:
            return
        if e.key.startswith(WAL.prefix):
            self._part("wal", self.wal.request, e)
        elif e.key.startswith(MANIFEST.prefix) or e.key == MANIFEST.boundary_key:
            change, before = self.sent.pop((e.client, e.request), None), self.manifests.latest()
            put = self._part("manifest", self.manifests.arrive, e)
            if put is not None and put.place >= 0:
                if change is None:
                    raise self._refused("history", f"{e.key} joins the history, and was sent on the base of another file")
                self._joins_late(e, change, before)
        else:
            put = self._part("compactions", self.compactions.arrive, e)
            if put is not None and put.place >= 0:
                self._part("claims", self.history.arrive, e)

    # --- a client goes on

    def _resolve(self, e: Event) -> None:
        """Decide what a client has learned from its last read of the manifest's boundary, now that it goes on."""
        client, (request, ahead) = e.client, self.verdict.pop(e.client, (0, False))
        heard = ahead and (e.request != request or not e.awaited or e.kind == "applied")
        if client in self.landed and (request or not self._is_check(e)):
            self._decide(client, heard)
        if heard and client in self.names["wal"]:
            self._part("wal", self.wal.resolve, client, True)

    def _is_check(self, e: Event) -> bool:
        return e.kind == "applied" and e.key == MANIFEST.boundary_key and e.op in LOOKS

    def _decide(self, client: str, accepted: bool) -> None:
        put, change = self.landed.pop(client)
        if change.kind in EPOCHAL:
            self.epochs.decide(client, accepted)
        if change.kind in (CLAIM, FLUSH):
            self.wal.decide(client, accepted, log_of(put.body))

    # --- requests on the WAL

    def _of_wal(self, e: Event) -> None:
        if e.client not in self.names["wal"]:
            raise self._no_action(e, "a writer or a collector", e.client.partition("#")[0])
        if e.kind == "crash":
            self._crash(e, "manifest", "compactions")
        self._part("wal", self.wal.resolve, e.client, False)  # it goes on with what it knew before
        self._part("wal", self.wal.request, e)

    def _crash(self, e: Event, *parts: str) -> None:
        """Let a client crash in other sequences than that of its last request."""
        for name in parts:
            if e.client in self.names[name]:
                self._part(name, (self.manifests if name == "manifest" else self.compactions).forget, e.client, "crash")

    # --- requests on the compactions

    def _of_compactions(self, e: Event) -> None:
        client, files = e.client, self.compactions
        if client not in self.names["compactions"]:
            raise self._no_action(e, "a compactor or a collector", client.partition("#")[0])
        put = self._part("compactions", files.take, e)
        if e.kind == "crash":
            self._crash(e, "manifest")
        ahead = self._hears(e, files)
        if client not in self.names["claims"]:
            return
        if put is not None and put.place >= 0:
            self._part("claims", self.history.file, e, False, put.place + 1, self.history.compactions(put.body))
        elif self._may_join(e, files):
            self._part("claims", self.history.file, e, False, len(files.history) + 1, self.history.compactions(e.body))
        elif e.kind == "applied" and e.op == "list":
            if not e.truncated:
                self._part("claims", self.history.listed, e, False, len(files.history))
        else:
            self._claims(e, files, False, ahead)

    def _checks(self, e: Event) -> None:
        """Note what a client learns. Raises Failure if it has created a file, and does not read the boundary next."""
        if why := self.reads.observe(e):
            raise self._refused("evidence", why)

    def _hears(self, e: Event, files: Sequence) -> bool:
        """Note what a client learns. Return whether it has read a boundary, and the file that this is about is ahead of it."""
        if e.key in BOUNDARIES:
            self.reads.values[e.key] = files.boundary
        created = self.reads.of(e.client).created
        self._checks(e)
        if e.kind != "applied" or e.key not in BOUNDARIES or e.op not in LOOKS:
            return False
        heard = self.reads.of(e.client)
        return heard.stands > 0 if created else heard.current

    @staticmethod
    def _may_join(e: Event, files: Sequence) -> bool:
        """Return whether a create is in flight that joins the history if it arrives before any other."""
        return e.pending and e.op == "create" and files.namespace.file_id(e.key) == files.latest().id + 1

    def _claims(self, e: Event, files: Sequence, manifest: bool, ahead: bool) -> None:
        """Take a compactor's request, apart from listings and what joins the history."""
        if e.kind != "applied":
            self._part("claims", self.history.lost, e)
        elif e.key in BOUNDARIES:
            self._part("claims", self.history.checked, e, manifest, ahead)
        elif e.op == "get" and e.status == 200:
            put = files.there[files.namespace.file_id(e.key) or 0]
            if put.place >= 0:
                number = self.history.numbers[put.place] if manifest else put.place + 1
                body = self.history.bodies[number - 1] if manifest else self.history.compactions(put.body)
                self._part("claims", self.history.file, e, manifest, number, body)
        elif e.op == "create" and e.status != 200:
            self._part("claims", self.history.conflict, e, manifest, self.history.manifests if manifest else len(files.history))

    # --- requests on the manifest

    def _of_manifest(self, e: Event) -> None:
        client, files, before = e.client, self.manifests, self.manifests.latest()
        if client not in self.names["manifest"]:
            raise self._no_action(e, "a client of the manifest", client.partition("#")[0])
        put = self._part("manifest", files.take, e)
        if put is not None and put.place < 0 and (base := self.bases.get(client)) and base.id == put.id - 1:
            self._changed(e, base)  # in nobody's history: what it changes is judged by what its client has read
        if e.kind == "crash":
            self._crash(e, "compactions")
        if e.kind == "applied" and e.status == 200 and e.op in ("get", "create") and e.key.startswith(MANIFEST.prefix):
            self.bases[client] = Put(MANIFEST.file_id(e.key) or 0, e.body, b"")
        ahead = self._hears(e, files)
        if self._is_check(e):
            self.verdict[client] = e.request, ahead
        if put is not None and put.place >= 0:
            self._joins(e, put, before)
        elif self._may_join(e, files):
            self._sends_change(e, before)
        elif client in self.names["wal"]:
            if e.kind != "applied":
                self._part("wal", self.wal.lost, e)
            elif e.op == "list" and not e.truncated:
                knows = client.startswith("Writer") and files.knows.get(client, False)
                self._part("wal", self.wal.reads, e, not knows or bool(e.keys), log_of(files.latest().body))
        elif client in self.names["claims"]:
            if e.kind == "applied" and e.op == "list":
                if not e.truncated:
                    self._part("claims", self.history.listed, e, True, self.history.manifests)
            else:
                self._claims(e, files, True, ahead)

    def _changed(self, e: Event, before: Put) -> Change:
        """Return the change that a manifest makes to the one before it. Raises Failure if its client does not make such."""
        change, role = change_of(before.body, e.body), e.client.partition("#")[0]
        if change and change.kind == CHECKPOINTS and role == "Compactor" and self.pins:
            if is_pin(before.body, e.body, file_id(e.key)):
                return change
            raise self._refused("history", f"{e.client} puts {e.key}, and changes checkpoints in it, but does not pin it")
        if change is None or ROLES[change.kind] != role:
            what = "no action of any part" if change is None else f"an action of a {ROLES[change.kind]}"
            raise self._refused("history", f"{e.client} puts {e.key}, and what that changes in the file before it is {what}")
        if self.pins and change.kind == COMPACTION and change.ssts not in pinned_in(before.body):
            raise self._refused("history", f"{e.client} drops {', '.join(change.ssts)} from L0, and no checkpoint pins them")
        return change

    def _joins(self, e: Event, put: Put, before: Put) -> None:
        """Take a manifest that joins the history, and whose client waits for the response."""
        if put.id != before.id + 1:
            raise self._refused("history", f"{e.key} is put ahead of the boundary, and {before.id} is the latest id")
        client, change, manifest = e.client, self._changed(e, before), manifest_of(e.body)
        self._check_taken(e, change, before)
        self.history.join(change, manifest)
        if self.epochs.concerns(change):
            self._part("epochs", self.epochs.put, client, view_of(manifest))
        if change.kind in (CLAIM, FLUSH):
            self._part("wal", self.wal.put, client, change, log_of(e.body))
            if change.ssts:
                self._part("claims", self.history.flush)
        if change.kind in (BUMP, COMPACTION):
            self._part("claims", self.history.file, e, True, self.history.manifests, self.history.bodies[-1])
        if change.kind != CHECKPOINTS:
            self.landed[client] = put, change

    def _check_taken(self, e: Event, change: Change, before: Put) -> None:
        """Check that no checkpoint is taken that was there before."""
        if change.kind == CHECKPOINTS:
            new = checkpoint_ids_in(e.body) - checkpoint_ids_in(before.body)
            if again := new & self.taken:
                raise self._refused("history", f"{e.client} takes checkpoint {min(again)} again")
            self.taken |= new

    def _sends_change(self, e: Event, before: Put) -> None:
        """Take a manifest in flight that may join the history."""
        client, change, manifest = e.client, self._changed(e, before), manifest_of(e.body)
        self.sent[client, e.request] = change
        if self.epochs.concerns(change):
            self._part("epochs", self.epochs.send, client, view_of(manifest))
        if change.kind in (CLAIM, FLUSH):
            self._part("wal", self.wal.send, client, change, log_of(e.body))
            if e.kind == "crash":
                self._part("wal", self.wal.lost, e)
        if change.kind in (BUMP, COMPACTION):
            self._part("claims", self.history.file, e, True, self.history.manifests + 1, self.history.manifest(manifest))

    def _joins_late(self, e: Event, change: Change, before: Put) -> None:
        """Take a manifest that joins the history, and whose client waits no longer."""
        manifest, concerns = manifest_of(e.body), self.epochs.concerns(change)
        self._check_taken(e, change, before)
        self.history.join(change, manifest)
        if concerns:
            self._part("epochs", self.epochs.arrive, e.client, view_of(manifest))
        if change.kind in (CLAIM, FLUSH):
            self._part("wal", self.wal.arrive, log_of(e.body))
            if change.ssts:
                self._part("claims", self.history.flush)
        if change.kind in (BUMP, COMPACTION):
            self._part("claims", self.history.arrive, e)

    # --- what callers were told

    def _told(self, e: Event) -> None:
        more = (e.key and e.op not in self.keyed) or (e.body and e.op in self.bodiless)
        if e.request or e[6:9] != UNUSED[0] or e[11:] != UNUSED[1] or more:
            raise self._refused("form", f"{e.client} was told more than that: {e}")
        role = e.client.partition("#")[0]
        if e.op not in TOLD.get(role, ()):
            raise self._misled(e, f"no call of a {role} has this response")
        if role == "Operator" and e.keys and e.op != UNFINISHED and bool(e.body) == (e.keys[0] == "drop_ended"):
            raise self._misled(e, "the response does not say of which checkpoint it is")
        self._resolve(e)
        if e.op == "not open" or (role == "Operator" and e.op != UNFINISHED):
            # the next call begins anew, also after a create that the store refused
            self._part("manifest", self.manifests.forget, e.client)
        if e.client in self.names["wal"]:
            self._part("wal", self.wal.resolve, e.client, False)
        if role == "Writer":
            self._part("wal", self.wal.observe, e._replace(keys=()))
        elif role == "Compactor":
            self._part("claims", self.history.told, e)
            if e.op == "opened" and not self.epochs.has_opened(e.client, int(e.body)):
                raise self._misled(e, "in the history it has not claimed this epoch")
        elif e.op == "read":
            self._read(e)
        elif e.op in OPERATORS or e.keys[1:2] == ("CheckpointMissing",):
            self._operated(e)
        if e.op == "fenced" or (e.keys and e.keys[1].startswith("Fenced")):
            self._fenced(e)
        if e.keys:
            judge_answer(self, e)
            judge_claims(self, e)

    def _fenced(self, e: Event) -> None:
        """Check that a client is fenced. A writer may also be fenced by an object in the WAL, even one of a lower epoch."""
        last = self._last_of(e)
        if last is None or last.key.startswith(WAL.prefix):
            return
        if not self.reads.of(e.client).current:
            raise self._misled(e, "it has not read a file that says so, and then a boundary behind that file")
        if not self._part("epochs", self.epochs.fenced, e.client):
            raise self._misled(e, "in the history nobody of its role has claimed a higher epoch")

    def _read(self, e: Event) -> None:
        """Check what a reader was told: the records in the manifest that it got, which is current."""
        got = self.manifests.got.get(e.client)
        if got is None or MANIFEST.key(got.id) != e.key or read_names(got.body) != e.body:
            raise self._misled(e, "its own GET returned something else")
        if why := self.manifests.misread(e.client, got):
            raise self._misled(e, why)

    def _operated(self, e: Event) -> None:
        """Check what an operator was told: a manifest shows its change, or lacks the checkpoint, and is its own or current."""
        heard, checkpoint = self.reads.of(e.client), e.body.decode()
        known = heard.stands or (heard.base if heard.current else 0)
        if not known or (e.op in OPERATORS and e.key != MANIFEST.key(known)):
            raise self._misled(e, "it has neither put that manifest nor read it, and then a boundary behind it")
        put = next(put for put in reversed(self.manifests.history) if put.id == known)
        listed = checkpoint in checkpoint_ids_in(put.body)
        if e.op != "ended" and listed != (e.op in ("taken", "renewed")):
            raise self._misled(e, f"that manifest {'lists' if listed else 'does not list'} the checkpoint")
        was = checkpoint in checkpoint_ids_in(self.manifests.history[put.place - 1].body)
        if heard.stands and e.op in ("taken", "dropped") and listed == was:
            raise self._misled(e, "that manifest is its own, and does not change the checkpoint")

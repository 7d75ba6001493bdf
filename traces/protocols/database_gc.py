"""Safety: every request of the trace is an action of model/protocols/database_gc.py, and each response to a caller agrees with
the model's history.

An update of a sequence is one action: the create of the next file, at the moment at which the store applies it. What came
before it, and whether its client hears of it, makes no difference to the model. So reads are no actions, but for those of a
collector. A create that is behind the boundary makes no file of the history, and its client is told so.

The model numbers ULIDs as they are minted. A trace shows a ULID first when its object is put, or its compaction is listed. That
is when the model mints it, at its place in the order of all ULIDs so far.
"""

from bisect import bisect
from collections.abc import Callable
from functools import partial
from typing import Any

from highwater.impl.codecs.json import compactions as compactions_json
from highwater.impl.codecs.json.compactions import InvalidCompactions
from highwater.impl.codecs.json.manifest import DATABASE, InvalidManifest
from highwater.impl.codecs.manifest import Manifest as Stored
from highwater.impl.codecs.sst_ids import newest_l0
from highwater.impl.layout import Namespace, key_of_sst, prefix_of_ssts, sst_of
from highwater.model.protocols.database_gc import (
    Checkpoint,
    Compactions,
    Compactor,
    Constants,
    Manifest,
    Operator,
    Shared,
    Ulid,
    model,
    named,
)
from highwater.traces import trace
from highwater.traces.calls import in_call
from highwater.traces.contents import other_changes
from highwater.traces.event import Event
from highwater.traces.evidence import BY_ANSWER, CURRENT, KNOWN, TRUSTED, Evidence, has_put
from highwater.traces.form import MUTATIONS, Keys
from highwater.traces.protocols.database_gc_calls import CALLS, CLAIMS
from highwater.traces.refine import STUTTER, Match, Refiner
from highwater.traces.trace import distinct, refiner_without_witnesses

ROOT = "db"
MANIFEST, COMPACTIONS, WAL = (Namespace(ROOT, name) for name in ("manifest", "compactions", "wal"))
SSTS = prefix_of_ssts(ROOT)
BOUNDARIES = {MANIFEST.boundary_key: MANIFEST, COMPACTIONS.boundary_key: COMPACTIONS}
KEYS = Keys(ROOT, listed=(MANIFEST.prefix, COMPACTIONS.prefix, WAL.prefix, SSTS), single=(*BOUNDARIES,))
UPDATES = {  # role -> the actions that create a manifest
    "Writer": ("Commit",), "Compactor": ("OpenManifest", "Apply"), "Operator": ("Take", "Renew", "Drop"),
    "Collector": ("DropEnded",),
}
UPLOADS = {"Writer": "Upload", "Compactor": "Output"}
LISTED = {SSTS: ("ListSsts",), COMPACTIONS.prefix: ("ReadCompactions", STUTTER), MANIFEST.prefix: ("ReadManifest", STUTTER)}

EITHER = (MANIFEST, COMPACTIONS)
TOLD = {  # role -> the responses of its calls; what each needs, apart from what its answer needs, and in which sequences
    "Writer": {"flushed": (KNOWN, EITHER[:1]), **dict.fromkeys((
        "logged", "not logged", "not flushed", "flush unknown"), ("", EITHER[:1]))},
    "Compactor": {"opened": (KNOWN, EITHER[1:]), "compacted": (KNOWN, EITHER[1:]), "nothing": (CURRENT, EITHER[:1]),
                  **dict.fromkeys(("not open", "not compacted", "fenced"), ("", EITHER))},
    "Operator": {"read": (CURRENT, EITHER[:1]), **dict.fromkeys((
        "taken", "renewed", "dropped", "not changed", "change unknown", "not read"), ("", EITHER[:1]))},
    "Collector": {"deleted": (TRUSTED, EITHER[:1]), "not deleted": ("", EITHER[:1])},
}


def constants(writers: int, compactors: int, operators: int, collectors: int) -> Constants:
    """Return the constants of a model without bounds, for traces of so many clients."""
    return Constants(
        WRITERS=writers, COMPACTORS=compactors, OPERATORS=operators, COLLECTORS=collectors, UPLOADS=None, APPENDS=None,
        OPENS=None, COMPACTIONS=None, OUTPUTS=None, CHECKPOINTS=None, RENEWALS=None, SKEW=None, MAX_CRASHES=None,
        KINDS="ssts manifests wal")


def file_id(key: str) -> int | None:
    """Return the id in the key of a file; None for another key. Raises InvalidName."""
    return (MANIFEST if key.startswith(MANIFEST.prefix) else COMPACTIONS).file_id(key)


def refiner(c: Constants) -> Refiner:
    return refiner_without_witnesses(model(c))


class Trace(trace.Trace):
    """Refines one trace of this protocol."""

    alien = (*trace.UNCHECKED, InvalidManifest, InvalidCompactions)
    calls, claims = CALLS, CLAIMS
    keyed = ("taken", "renewed", "dropped")
    bodiless = ("nothing", "fenced", "not open", "not compacted", "not flushed", "not logged")
    aside = (SSTS,)

    def __init__(self, refiner: Refiner, namespace: Keys = KEYS, skew_ms: int = 0):
        super().__init__(refiner, namespace, skew_ms)
        self.ulids: dict[str, Ulid] = {}  # the model's number of each
        self.order: list[str] = []
        self.checkpoints: dict[str, Checkpoint] = {}  # all that a manifest has listed
        self.expiry_ms: dict[str, int] = {}  # of the checkpoints in the latest manifest
        self.boundaries = dict.fromkeys(BOUNDARIES, 0)
        self.compactions_id = 1  # of the latest file
        self.claimed: dict[str, bool] = {}  # compactor -> it knows compactions to conclude from, in this compaction
        self.outputs: dict[str, tuple[str, ...]] = {}  # compactor -> the SSTs that it has put since its last compaction
        self.log_ends: dict[str, bool] = {}  # writer -> it knows where the log ends
        self.stored: dict[int, Stored] = {1: Stored()}  # the manifests of the history, by id
        self.evidence = Evidence(BOUNDARIES.values(), (WAL.prefix, SSTS))

    # --- requests as actions of the model

    def _is_collector(self, e: Event) -> bool:
        """Return True: a request that is applied late is an action of its own client, of whatever role."""
        return True

    def _take(self, e: Event) -> None:
        super()._take(e)
        self._appends(e)
        if why := self.evidence.observe(e):
            raise self._refused("evidence", why)
        if e.client.startswith("Collector") and e.kind in ("told", "crash"):
            self._steps(e.client, ("ends",), lambda _: Match(e.client, ("Crash", STUTTER)))

    def _appends(self, e: Event) -> None:
        """Check that a writer knows where the log ends before it puts an object there."""
        if e.client.startswith("Compactor"):
            if e.kind == "crash" or e.op in ("opened", "not open", "compacted"):
                self.claimed.pop(e.client, None)
            elif self.evidence.known(e.client, COMPACTIONS):
                self.claimed[e.client] = True
        if e.kind == "crash":
            self.log_ends.pop(e.client, None)
            self.outputs.pop(e.client, None)
        elif e.op == "create" and e.client.startswith("Compactor") and e.key.startswith(SSTS) and e.awaited:
            put = tuple(key for key in self.outputs.get(e.client, ()) if key != e.key)  # a response may be lost
            self.outputs[e.client] = (*put, e.key) if e.status == 200 else put
        elif e.op == "create" and e.key.startswith(WAL.prefix) and e.client not in self.log_ends and e.awaited:
            if not (self.evidence.known(e.client, MANIFEST) and WAL.prefix in self.evidence.of(e.client).whole):
                raise self._refused("evidence", f"{e.client} puts {e.key}, and does not know where the log ends")
            self.log_ends[e.client] = True

    def _step(self, e: Event) -> None:
        self._well_formed(e)
        if e.kind != "applied" or (e.op in MUTATIONS and e.op != "delete" and e.status != 200):
            return
        if e.op != "list" and e.key.startswith((MANIFEST.prefix, COMPACTIONS.prefix)) and not file_id(e.key):
            raise self._no_action(e, e.client)
        namespace = next((of for of in (MANIFEST, COMPACTIONS, WAL) if e.key.startswith(of.prefix)), None)
        if e.key in BOUNDARIES:
            self._of_boundary(e)
        elif e.op == "list":
            self._listed(e)
        elif namespace is None:
            self._of_sst(e)
        elif e.op in MUTATIONS:
            if e.op not in ("create", "delete"):
                raise self._no_action(e)
            of = {MANIFEST: self._of_manifest, COMPACTIONS: self._of_compactions, WAL: self._of_wal}
            of[namespace](e, namespace.file_id(e.key))

    def _steps(self, client: str, what: tuple, match: Callable[[Any], Match]) -> None:
        """Take the step of a request in the model's terms: `what` says all that the match depends on."""
        self.refiner.event(client, (0, 0, client, *what), match)

    def _of_boundary(self, e: Event) -> None:
        if e.op in ("get", "get_if_changed"):
            return
        if e.op not in ("create", "update") or not e.client.startswith("Collector"):
            raise self._no_action(e, e.client)
        value = int(e.body)
        if e.key == COMPACTIONS.boundary_key and value >= self.compactions_id:
            raise self._refused("boundary", f"{e.key} is {value}, and the latest file {self.compactions_id}")
        self.boundaries[e.key] = value
        if e.key == MANIFEST.boundary_key:
            self._steps(e.client, ("boundary", value), lambda _: Match(
                e.client, (STUTTER,), (), lambda a, s, l, s2, l2: value < s.n, e.op))

    def _listed(self, e: Event) -> None:
        """Follow a listing of a collector. Its last page is the moment at which all that is listed is there."""
        if e.truncated or not e.client.startswith("Collector") or e.key not in LISTED:
            return
        found = frozenset(self.ulids[name] for key in e.keys if (name := sst_of(ROOT, key))) if e.key == SSTS else frozenset()
        self._steps(e.client, ("list", e.key, found), lambda _: Match(
            e.client, LISTED[e.key], None, lambda a, s, l, s2, l2: found <= s.ssts, e.op, unheard=True))

    def _of_sst(self, e: Event) -> None:
        sst = sst_of(ROOT, e.key)
        role = e.client.partition("#")[0]
        if sst is None or (e.op == "create" and role not in UPLOADS) or e.op not in ("create", "get", "delete"):
            raise self._no_action(e, role)
        if e.op == "create":
            looked = self.evidence.known(e.client, MANIFEST) if role == "Writer" else (
                self.claimed.get(e.client) or self.evidence.known(e.client, COMPACTIONS))
            if e.awaited and not looked:
                raise self._refused("evidence", f"{e.client} puts {e.key}, and has not read or put the latest file before")
            at, x = self._mint(sst)
            self._steps(e.client, ("upload", at, x), lambda _: Match(
                e.client, (UPLOADS[role],), None, lambda a, s, l, s2, l2: s2.order.index(x) == at and len(s.order) + 1 == x))
            return
        x = self.ulids.get(sst, 0)
        if e.op == "get":
            self._steps(e.client, ("get", x, e.status), lambda _: Match(
                e.client, (STUTTER,), (), lambda a, s, l, s2, l2: (e.status == 200) == (x in s.ssts), e.op))
        else:
            self._steps(e.client, ("delete", x), lambda _: Match(
                e.client, ("DeleteSst", STUTTER), (x,), lambda a, s, l, s2, l2: a is not STUTTER or x not in s.ssts, e.op))

    def _of_wal(self, e: Event, i: Any) -> None:
        if e.op == "delete":
            self._steps(e.client, ("delete wal", i), lambda _: Match(
                e.client, ("DeleteWal", STUTTER), (i,), lambda a, s, l, s2, l2: a is not STUTTER or i not in s.wal, e.op))
        else:  # an object behind the flushed ones is replayed by nobody
            self._steps(e.client, ("append", i), lambda _: Match(
                e.client, ("Append", STUTTER), (), lambda a, s, l, s2, l2: s2.logged == i if a else i < s.latest.after, e.op))

    def _of_compactions(self, e: Event, i: Any) -> None:
        if e.op == "delete":
            if i >= self.compactions_id or i > self.boundaries[COMPACTIONS.boundary_key]:
                raise self._refused("delete", f"{e.key} is not behind the boundary")
        elif i > self.boundaries[COMPACTIONS.boundary_key]:
            if i != self.compactions_id + 1:
                raise self._refused("create", f"{e.key} is created after {self.compactions_id}")
            stored, at = compactions_json.decode(e.body), -1
            for ulid in stored.ids:
                if ulid not in self.ulids:
                    at, _ = self._mint(ulid)
            content = Compactions(stored.compactor_epoch, distinct(self.ulids[ulid] for ulid in stored.ids))
            self.compactions_id = i
            self._steps(e.client, ("compactions", at, content), lambda _: Match(
                e.client, ("OpenCompactions", "Claim", "Finish"), None,
                lambda a, s, l, s2, l2: s2.compactions == content and (a != "Claim" or s2.order.index(len(s2.order)) == at)))

    def _of_manifest(self, e: Event, i: Any) -> None:
        if e.op == "delete":
            if i > self.boundaries[MANIFEST.boundary_key]:
                raise self._refused("delete", f"{e.key} is not behind the boundary")
            self._steps(e.client, ("delete manifest", i), lambda _: Match(
                e.client, ("DeleteManifest", STUTTER), (i,),
                lambda a, s, l, s2, l2: a is not STUTTER or i not in s.files, e.op))
        elif i > self.boundaries[MANIFEST.boundary_key]:
            stored = self.stored[i] = DATABASE.decode(e.body)
            self._is_change(e, self.stored[i - 1], stored)
            self._note_checkpoints(e, i, stored)
            content = self._content(stored)
            self._steps(e.client, ("manifest", i, content), lambda _: Match(
                e.client, UPDATES[e.client.partition("#")[0]], None,
                lambda a, s, l, s2, l2: s.n + 1 == s2.n == i and s2.latest == content))

    def _is_change(self, e: Event, before: Stored, after: Stored) -> None:
        """Check what the model leaves out of an update: other fields of the manifest."""
        if other := other_changes(before, after, "checkpoints", "updates", "l0", "compacted", "compactor_epoch",
                                  "replay_after_wal_id", "wal_id_last_seen", "last_compacted_l0_sst_id"):
            raise self._refused("create", f"{e.client} changes {other} in {e.key}")
        notes = e.client.startswith("Operator") and len(after.checkpoints) >= len(before.checkpoints)
        if after.updates[:-1] != before.updates if notes else after.updates != before.updates:
            raise self._refused("create", f"{e.client} does not note its change, or notes another, in {e.key}")
        names = (newest_l0(before) or None) if before.compacted != after.compacted else before.last_compacted_l0_sst_id
        if after.last_compacted_l0_sst_id != names:
            raise self._refused("create", f"{e.key} names another SST as the last compacted one")

    def _mint(self, ulid: str) -> tuple[int, Ulid]:
        """Return the place of a new ULID in the order, and its number. Raises ValueError if it is not new."""
        if ulid in self.ulids:
            raise ValueError(f"{ulid} is minted twice")
        at = bisect(self.order, ulid)
        self.order.insert(at, ulid)
        self.ulids[ulid] = len(self.order)
        return at, len(self.order)

    def _content(self, stored: Stored) -> Manifest:
        """Return a manifest in the model's terms. Raises KeyError, ValueError."""
        newest = newest_l0(stored)
        return Manifest(
            stored.compactor_epoch, distinct(map(self.ulids.__getitem__, stored.l0)),
            distinct(map(self.ulids.__getitem__, stored.compacted)), self.ulids[newest] if newest else 0,
            distinct(self.checkpoints[one.id] for one in stored.checkpoints), stored.replay_after_wal_id,
            stored.wal_id_last_seen)

    def _note_checkpoints(self, e: Event, i: int, stored: Stored) -> None:
        """Name the checkpoint that a manifest lists first, and check that a collector removes none that has not ended."""
        listed = {one.id: one.expiry_ms for one in stored.checkpoints}
        for id_, expiry_ms in self.expiry_ms.items():
            if e.client.startswith("Collector") and id_ not in listed and (
                    not expiry_ms or expiry_ms > e.t_ms + self.skew_ms):
                raise self._refused("DropEnded", f"checkpoint {id_} has not ended, and {e.client} removes it")
        for id_ in [id_ for id_ in listed if id_ not in self.checkpoints]:
            by = int(e.client.partition("#")[2])
            ids = frozenset(self.ulids[sst] for sst in stored.sst_names)
            number = sum(one.by == by for one in self.checkpoints.values())
            self.checkpoints[id_] = Checkpoint(by, number, i, tuple(sorted(ids)), stored.replay_after_wal_id,
                                               stored.wal_id_last_seen)
        self.expiry_ms = listed

    # --- responses to callers

    def _told_of(self, e: Event) -> str:
        self._founded(e)
        return self._says(e, partial(SAID[e.op], self, e.body.decode()))

    def _founded(self, e: Event) -> None:
        """Check that a client was shown what the response to its caller rests on."""
        words = TOLD.get(e.client.partition("#")[0], {})
        if e.op not in words:
            raise self._misled(e, "no call of its role has this response")
        need, where = words[e.op]
        if why := self.evidence.unfounded(e.client, where, need or BY_ANSWER.get("".join(e.keys[1:2]), "")):
            raise self._misled(e, why)
        if e.op in self.keyed and (why := self._not_changed(e)):
            raise self._misled(e, why)
        if e.op == "flushed" and key_of_sst(ROOT, e.body.decode()) not in [
                old.key for old in in_call(self, e) if old.op == "create" and old.status == 200]:
            raise self._misled(e, "it has put no such SST")
        if e.op == "compacted" and sorted(key_of_sst(ROOT, sst) for sst in e.body.decode().split()) != sorted(
                self.outputs.pop(e.client, ())):
            raise self._misled(e, "it has put other SSTs since its last compaction")
        if e.op == "deleted" and (why := self.evidence.unplanned(e.client, KEYS.listed, COMPACTIONS)):
            raise self._misled(e, why)
        if e.op == "logged" and has_put(self, e.client, WAL.prefix) != WAL.key(int(e.body)):
            raise self._misled(e, "its last request has not put that WAL object, or met it")

    def _not_changed(self, e: Event) -> str:
        """Return why the manifest that an operator is told of does not show its change; "" if it does."""
        i, id_ = self.evidence.known(e.client, MANIFEST), e.body.decode()
        if e.key != MANIFEST.key(i):
            return "it has neither put that manifest nor read it as the latest one"
        now, before = ([one for one in self.stored.get(n, Stored()).checkpoints if one.id == id_] for n in (i, i - 1))
        if bool(now) == (e.op == "dropped"):
            return f"that manifest {'lists' if now else 'does not list'} the checkpoint"
        return "that manifest is its own, and does not change the checkpoint" if (
            e.op != "renewed" and now == before and self.evidence.heard(e.client, MANIFEST).stands) else ""


def is_named(s: Shared, x: Ulid) -> bool:
    """Return whether a manifest has named the SST."""
    return x in named(s.latest) or x in s.replaced


def were_applied(of: Trace, body: str, s: Shared, l: Compactor) -> bool:
    return all(is_named(s, of.ulids[sst]) for sst in body.split()) and not l.applied & s.compactions.listed


def is_listed(of: Trace, body: str, s: Shared, l: Operator) -> bool:
    return of.checkpoints.get(body) in s.latest.checkpoints


def always(of: Trace, body: str, s: Shared, l: Any) -> bool:
    return True


SAID: dict[str, Callable[[Trace, str, Shared, Any], bool]] = {  # response -> the condition under which it is true
    "logged": lambda of, body, s, l: int(body) <= s.logged,
    "flushed": lambda of, body, s, l: is_named(s, of.ulids[body]),
    "not flushed": always,
    "not logged": always,
    "flush unknown": always,
    "opened": lambda of, body, s, l: l.open and l.epoch == int(body),
    "not open": lambda of, body, s, l: isinstance(l, Compactor),
    "compacted": were_applied,
    "nothing": lambda of, body, s, l: l.open,
    "fenced": lambda of, body, s, l: l.epoch < max(s.latest.epoch, s.compactions.epoch),
    "not compacted": lambda of, body, s, l: l.open,
    "taken": lambda of, body, s, l: body in of.checkpoints,
    "renewed": lambda of, body, s, l: body in of.checkpoints,
    "dropped": lambda of, body, s, l: not is_listed(of, body, s, l),
    "not changed": always,
    "change unknown": always,
    "read": always,
}

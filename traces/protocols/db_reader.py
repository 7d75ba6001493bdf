"""Safety: every request of the trace is an action of model/protocols/db_reader.py, and each response to a caller agrees with
the model's history.

An update of the manifest is one action: the create of the next file, at the moment at which the store applies it. What changes
says which one. A reader's tasks, "Reader#0/poller" for example, act for their reader. The trace does not show when a view is
replaced, or when the building of one is given up. So both are followed, until the next checkpoint, or what a caller is told,
decides. The model has no clock: a lease ends when something needs it, if it may have ended by the clocks.

The model numbers SSTs and checkpoints as a manifest of the history first lists them. That the SSTs of a manifest have the rows
up to its `last_l0_seq`, each once, is checked here.
"""

from functools import lru_cache
from typing import Any

from highwater.impl.codecs.json.manifest import DATABASE, InvalidManifest
from highwater.impl.codecs.json.rows import InvalidRows, decode_rows
from highwater.impl.codecs.manifest import Manifest as Stored
from highwater.impl.codecs.sst_ids import named, newest_l0
from highwater.impl.layout import Namespace, key_of_sst, prefix_of_ssts, sst_of
from highwater.model.protocols.db_reader import Checkpoint, Constants, Manifest, model
from highwater.traces import trace
from highwater.traces.calls import in_call
from highwater.traces.contents import other_changes
from highwater.traces.event import Event
from highwater.traces.evidence import BY_ANSWER, KNOWN, TRUSTED, Evidence, has_put
from highwater.traces.form import MUTATIONS, Keys
from highwater.traces.protocols.db_reader_calls import CALLS, CLAIMS
from highwater.traces.refine import STUTTER, Match, Refiner
from highwater.traces.trace import distinct, refiner_without_witnesses

ROOT = "db"
MANIFEST, COMPACTIONS, WAL = (Namespace(ROOT, name) for name in ("manifest", "compactions", "wal"))
SSTS = prefix_of_ssts(ROOT)
BOUNDARIES = (MANIFEST.boundary_key, COMPACTIONS.boundary_key)
KEYS = Keys(ROOT, listed=(MANIFEST.prefix, COMPACTIONS.prefix, WAL.prefix, SSTS), single=BOUNDARIES)
NO_STEP = ("logged", "not logged", "flushed", "not flushed", "flush unknown", "compacted", "not compacted",
           "compaction unknown", "deleted", "not deleted")

TOLD = {  # role -> the responses of its calls, and what each needs, apart from what its answer needs
    "Writer": {"flushed": KNOWN, "compacted": KNOWN, **dict.fromkeys((
        "logged", "not logged", "not flushed", "flush unknown", "not compacted", "compaction unknown"), "")},
    "Reader": {"opened": KNOWN, **dict.fromkeys(("not open", "scanning", "scanned", "lost", "not read", "closed"), "")},
    "Collector": {"deleted": TRUSTED, "not deleted": ""},
}


def constants(writers: int, readers: int, collectors: int) -> Constants:
    """Return the constants of a model without bounds, for traces of so many clients."""
    return Constants(WRITERS=writers, READERS=readers, COLLECTORS=collectors, APPENDS=None, FLUSHES=None, COMPACTIONS=None,
                     PINS=None, MAX_ENDED=None, MAX_LOST=None, MAX_CLOSED=None)


def refiner(c: Constants) -> Refiner:
    return refiner_without_witnesses(model(c))


@lru_cache(100_000)
def stored_in(body: bytes) -> Stored:
    """Return a manifest. Raises InvalidManifest."""
    return DATABASE.decode(body)


class Trace(trace.Trace):
    """Refines one trace of this protocol."""

    alien = (*trace.UNCHECKED, InvalidManifest, InvalidRows)
    calls, claims = CALLS, CLAIMS
    bodiless = (*(word for word in NO_STEP if word != "logged"), "closed")
    aside = (SSTS,)

    def __init__(self, refiner: Refiner, namespace: Keys = KEYS, skew_ms: int = 0):
        super().__init__(refiner, namespace, skew_ms)
        self.rows: dict[str, tuple[int, ...]] = {}  # SST -> the rows in it
        self.ssts: dict[str, int] = {}  # the model's number of each that a manifest has named
        self.checkpoints: dict[str, Checkpoint] = {}  # all that a manifest has listed; one that is taken again is another one
        self.taken = 0  # checkpoints so far
        self.expiry_ms: dict[str, int] = {}  # of the checkpoints in the latest manifest
        self.boundaries = dict.fromkeys(BOUNDARIES, 0)
        self.latest = {MANIFEST: 1, COMPACTIONS: 1}  # the ids of the latest files
        self.files: dict[int, Stored] = {1: Stored()}  # the manifests of the history, by id
        self.log_ends: dict[str, bool] = {}  # writer -> it knows where the log ends
        self.seen_wal: dict[str, bool] = {}  # reader -> it has listed the WAL since it read a manifest
        self.evidence = Evidence((MANIFEST, COMPACTIONS), (WAL.prefix, SSTS), after=("Reader",))

    # --- requests as actions of the model

    def _is_collector(self, e: Event) -> bool:
        """Return True: a request that is applied late is an action of its own client, of whatever role."""
        return True

    def _take(self, e: Event) -> None:
        super()._take(e)
        self._appends(e)
        if why := self.evidence.observe(e):
            raise self._refused("evidence", why)
        if e.kind == "applied" and e.awaited and e.op in ("list", "get") and e.key.startswith((WAL.prefix, MANIFEST.prefix)):
            self.seen_wal[e.client] = e.op == "list" and e.key == WAL.prefix and not e.truncated
        if e.kind == "crash" and e.client.startswith("Reader"):
            self._closes(of_process(e.client))

    def _step(self, e: Event) -> None:
        self._well_formed(e)
        if e.kind != "applied" or (e.op in MUTATIONS and e.op != "delete" and e.status != 200):
            return
        if e.key in BOUNDARIES:
            self._of_boundary(e)
        elif e.key.startswith(WAL.prefix) and e.op != "list":
            self._of_wal(e, WAL.file_id(e.key))
        elif e.key.startswith(SSTS) and e.op != "list":
            self._of_sst(e)
        elif e.key.startswith((MANIFEST.prefix, COMPACTIONS.prefix)) and e.op != "list":
            self._of_file(e, MANIFEST if e.key.startswith(MANIFEST.prefix) else COMPACTIONS)

    def _appends(self, e: Event) -> None:
        """Check that a writer knows where the log ends before it puts an object there."""
        if e.kind == "crash":
            self.log_ends.pop(e.client, None)
        elif e.op == "create" and e.key.startswith(WAL.prefix) and e.client not in self.log_ends and e.awaited:
            if not (self.evidence.known(e.client, MANIFEST) and WAL.prefix in self.evidence.of(e.client).whole):
                raise self._refused("evidence", f"{e.client} puts {e.key}, and does not know where the log ends")
            self.log_ends[e.client] = True

    def _steps(self, client: str, actions: tuple[str | None, ...], so: Any = None, choices: tuple | None = None,
               op: str = "", both: bool = False) -> None:
        """Take the step of one of these actions. `both`: it may also not have been taken."""
        self.refiner.step(Match(client, actions, choices, so, op, both))

    def _of_boundary(self, e: Event) -> None:
        if e.op in MUTATIONS:
            latest = self.latest[MANIFEST if e.key == MANIFEST.boundary_key else COMPACTIONS]
            if e.op == "delete" or not e.client.startswith("Collector") or int(e.body) >= latest:
                raise self._no_action(e, e.client)
            self.boundaries[e.key] = int(e.body)

    def _of_wal(self, e: Event, i: Any) -> None:
        client = of_process(e.client)
        if e.op == "delete" and client.startswith("Collector"):
            self._steps(client, ("DeleteWal", STUTTER), lambda a, s, l, s2, l2: a is not STUTTER or i not in s.wal, (i,), e.op)
        elif e.op == "create" and client.startswith("Writer"):
            if [row.seq for row in decode_rows(e.body)] != [i]:
                raise self._refused("create", f"{e.key} has other rows than {i}")
            self._steps(client, ("Append", STUTTER),  # an object behind the flushed ones is replayed by nobody
                        lambda a, s, l, s2, l2: s2.logged == i if a else i <= s.latest.after, (), e.op)
        elif e.op == "get" and client.startswith("Reader"):
            action = "Replay" if e.status == 200 else "Miss"
            self._steps(client, (action, STUTTER), lambda a, s, l, s2, l2: a is STUTTER or l.next.at + 1 == i, (), e.op, True)
        else:
            raise self._no_action(e, client)

    def _of_sst(self, e: Event) -> None:
        sst, client = sst_of(ROOT, e.key), of_process(e.client)
        if sst is None or e.op not in ("create", "get", "delete"):
            raise self._no_action(e, client)
        if e.op == "create" and client.startswith("Writer"):
            if e.awaited and not self.evidence.known(client, MANIFEST):
                raise self._refused("evidence", f"{client} puts {e.key}, and has not read the latest manifest")
            self.rows[sst] = tuple(row.seq for row in decode_rows(e.body))
        elif e.op == "delete" and client.startswith("Collector"):
            if x := self.ssts.get(sst):
                self._steps(client, ("DeleteSst", STUTTER), lambda a, s, l, s2, l2: a is not STUTTER or x not in s.ssts, (x,),
                            e.op)
        elif e.op == "get" and client.startswith("Reader"):
            x = self.ssts.get(sst, 0)
            self._steps(client, (STUTTER,), lambda a, s, l, s2, l2: x in l.scan.ssts, (), e.op)
        elif e.op != "get":
            raise self._no_action(e, client)

    def _of_file(self, e: Event, where: Namespace) -> None:
        i, client, boundary = where.file_id(e.key) or -1, of_process(e.client), self.boundaries[where.boundary_key]
        if i < 0:
            raise self._no_action(e, client)
        if e.op == "get":
            if where is MANIFEST and client.startswith("Reader") and e.status == 200:
                self._finds(client, stored_in(e.body))
        elif e.op == "delete":
            if i > boundary or not client.startswith("Collector"):
                raise self._refused("delete", f"{e.key} is not behind the boundary")
        elif e.op != "create" or where is COMPACTIONS:
            raise self._no_action(e, client)
        elif i > boundary:
            if i != self.latest[where] + 1:
                raise self._refused("create", f"{e.key} is created after {self.latest[where]}")
            self.latest[where], self.files[i] = i, stored_in(e.body)
            self._is_change(e, client, self.files[i - 1], self.files[i])
            self._updated(e, client, self.files[i])

    # --- updates of the manifest

    def _is_change(self, e: Event, client: str, before: Stored, after: Stored) -> None:
        """Check what the model leaves out of an update: other fields, and the reads that it takes."""
        if other := other_changes(before, after, "checkpoints", "l0", "compacted", "last_l0_seq", "replay_after_wal_id",
                                  "wal_id_last_seen", "last_compacted_l0_sst_id"):
            raise self._refused("create", f"{client} changes {other} in {e.key}")
        compacts = before.compacted != after.compacted
        if after.last_compacted_l0_sst_id != ((newest_l0(before) or None) if compacts else before.last_compacted_l0_sst_id):
            raise self._refused("create", f"{e.key} names another SST as the last compacted one")
        got = self.evidence.of(client).got
        if compacts and e.awaited and (unread := [sst for sst in sorted(named(before)) if key_of_sst(ROOT, sst) not in got]):
            raise self._refused("evidence", f"{client} compacts {unread[0]}, and has not read it")
        if e.awaited and client.startswith("Reader") and len(after.checkpoints) > len(before.checkpoints) and not (
                self.seen_wal.get(e.client)):
            raise self._refused("evidence", f"{client} takes a checkpoint, and has not listed the WAL since it read a manifest")

    def _updated(self, e: Event, client: str, stored: Stored) -> None:
        before, after = self.expiry_ms, {one.id: one.expiry_ms for one in stored.checkpoints}
        new, gone = after.keys() - before.keys(), before.keys() - after.keys()
        renewed = {one for one in after.keys() & before.keys() if after[one] != before[one]}
        content = self._content(client, stored, new)
        changes = self._is_latest(content)
        self.expiry_ms = after
        if client.startswith("Writer") and not new | gone | renewed:
            self._steps(client, ("Flush", "Compact"), changes)
        elif client.startswith("Collector") and gone and not new | renewed:
            for one in sorted(gone):
                k = self.checkpoints[one].k
                if not 0 < before[one] <= e.t_ms + self.skew_ms:
                    raise self._refused("Drop", f"checkpoint {one} has not ended, and {client} removes it")
                self._steps("", ("EndLease", STUTTER), lambda a, s, l, s2, l2, k=k: a is not STUTTER or k in s.ended, (k,))
                self._steps(client, ("Drop",), None, (k,))
            self.refiner.keep(client, lambda s, l: s.latest == content)
            self._must_be(client, content)
        elif client.startswith("Reader") and len(new | gone | renewed) == 1:
            self._of_reader(e, client, before, (new, gone, renewed), changes)
        else:
            raise self._refused("create", f"{client} changes other checkpoints than one of its own")

    def _of_reader(self, e: Event, client: str, before: dict[str, int], those: tuple[set[str], set[str], set[str]], changes: Any
                   ) -> None:
        new, gone, renewed = those
        if gone and e.client == client:  # it is no task's: the reader is being closed
            self._closes(client)
        self._settles(client)
        if new:
            for one, expiry_ms in sorted(before.items()):  # by its own clock
                if 0 < expiry_ms <= e.t_ms + self.skew_ms and f"Reader#{self.checkpoints[one].by}" == client:
                    self._steps("", ("EndLease", STUTTER), None, (self.checkpoints[one].k,), "", True)
            self._steps(client, ("Pin",) if e.awaited else ("Stray",), changes)
        elif gone:
            self._steps(client, ("Release",), changes, (self.checkpoints[min(gone)].k,))
        else:
            k = self.checkpoints[min(renewed)].k
            self._steps("", ("EndLease", STUTTER), lambda a, s, l, s2, l2: a is not STUTTER or k in s.ended, (k,))
            self._steps(client, ("Refresh",), changes, (k,))

    def _must_be(self, client: str, content: Manifest) -> None:
        if self.refiner.shared().latest != content:
            raise self._refused("Drop", f"{client} changes more than the list of checkpoints")

    @staticmethod
    def _is_latest(content: Manifest) -> Any:
        return lambda a, s, l, s2, l2: s2.latest == content

    def _content(self, client: str, stored: Stored, new: set[str]) -> Manifest:
        """Return a manifest in the model's terms. Raises KeyError, ValueError."""
        ssts = sorted(distinct((*stored.l0, *stored.compacted)))
        rows = sorted(row for sst in ssts for row in self.rows[sst])
        if rows != [*range(1, stored.last_l0_seq + 1)]:
            raise ValueError(f"the SSTs have the rows {rows}, and last_l0_seq is {stored.last_l0_seq}")
        for sst in ssts:
            self.ssts.setdefault(sst, len(self.ssts) + 1)
        numbers = tuple(sorted(self.ssts[sst] for sst in ssts))
        for one in stored.checkpoints:
            if one.id in new:
                by = int(client.partition("#")[2]) if client.startswith("Reader") else -1
                self.taken += 1
                self.checkpoints[one.id] = Checkpoint(self.taken, by, numbers, stored.last_l0_seq, stored.replay_after_wal_id,
                                                      stored.wal_id_last_seen)
        return Manifest(frozenset(numbers), stored.last_l0_seq, stored.replay_after_wal_id, stored.wal_id_last_seen,
                        frozenset(self.checkpoints[one.id] for one in stored.checkpoints))

    # --- what a trace does not show

    def _settles(self, client: str) -> None:
        """Follow each end that the building of a view may have had by now."""
        self._steps(client, ("Swap", "GiveUp", STUTTER), None, (), "", True)

    def _finds(self, client: str, stored: Stored) -> None:
        """A reader may find a checkpoint of its own in a manifest, of which it has not heard before."""
        me, numbers = int(client.partition("#")[2]), {one.k for one in map(self._number, stored.checkpoints) if one}
        if any(one.by == me and one.k in numbers and any(
                l.next.k != one.k > l.view.k for l in self.refiner.locals(client)) for one in self.checkpoints.values()):
            self._settles(client)
            self._steps(client, ("Adopt", STUTTER), None, None, "", True)

    def _number(self, one: Any) -> Checkpoint | None:
        return self.checkpoints.get(one.id)

    def _closes(self, client: str) -> None:
        self._steps(client, ("Close", STUTTER), lambda a, s, l, s2, l2: a is not STUTTER or l.view.k + l.next.k + l.scan.k == 0)

    # --- responses to callers

    def _told_of(self, e: Event) -> str | None:
        if e.op in NO_STEP:
            return None if e.op != "logged" else self._says(e, lambda s, l: int(e.body) <= s.logged)
        if e.op in ("not open", "closed"):
            self._closes(e.client)
            return trace.AGAIN
        k = self.checkpoints[e.body.decode()].k
        if e.op in ("opened", "scanning"):
            self._settles(e.client)
            self._says(e, lambda s, l: l.view.k == k)
            return self._tells(e, Match(e.client, ("StartScan",), ())) if e.op == "scanning" else trace.AGAIN
        if e.op == "lost":
            self._says(e, lambda s, l: k in s.dropped)
        return self._says(e, lambda s, l: l.scan.k == k)

    def _told(self, e: Event) -> None:
        self._founded(e)
        super()._told(e)
        if e.op in ("scanned", "lost", "not read"):
            self._steps(e.client, ("EndScan",))

    def _founded(self, e: Event) -> None:
        """Check that a client was shown what the response to its caller rests on."""
        words = TOLD.get(e.client.partition("#")[0], {})
        if e.op not in words:
            raise self._misled(e, "no call of its role has this response")
        need = words[e.op] or BY_ANSWER.get("".join(e.keys[1:2]), "")
        if why := self.evidence.unfounded(e.client, (MANIFEST,), need):
            raise self._misled(e, why)
        if e.op == "deleted" and (why := self.evidence.unplanned(e.client, KEYS.listed, COMPACTIONS)):
            raise self._misled(e, why)
        if e.op in ("flushed", "compacted") and (why := self._not_named(e)):
            raise self._misled(e, why)
        if e.op == "logged" and has_put(self, e.client, WAL.prefix) != WAL.key(int(e.body)):
            raise self._misled(e, "its last request has not put that WAL object, or met it")

    def _not_named(self, e: Event) -> str:
        """Return why the SST that a call has put is not in the manifest that the call ends with; "" if it is there."""
        put = [old.key for old in in_call(self, e) if old.op == "create" and old.key.startswith(SSTS)]
        last = self.files.get(self.evidence.known(e.client, MANIFEST), Stored())
        return f"no manifest that it knows names {put[0]}" if put and sst_of(ROOT, put[0]) not in named(last) else ""


def of_process(client: str) -> str:
    """Return the client to which a task belongs; the client itself if it is none."""
    return client.partition("/")[0]



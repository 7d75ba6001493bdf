"""Map the disk of one server, and its database, to the actions of model/protocols/log_snapshot.py. The server is a Raft group
of its own, so traces/protocols/raft.py judges its steps, too.

The bytes that go to the disk are read here, and not by the code of the server (impl/raft/records.py, impl/raft/snapshots.py say
what they mean). The database is the scenario's machine: each of its calls is a `step` event.

    append to a segment of the log  Append for each entry in it
    sync of a segment               Sync, if entries were written
    either of them fails            FailSync, at the end of the process: nothing may be written or synced before
    apply                           Apply, first of entries that have no effect
    dump                            BeginSnapshot, of what is applied
    write or sync of the
    snapshot's file fails           FailSink
    the snapshot gets its name      FinishSnapshot, if the file is synced; a crash may lose the name until it is read back
    removal of a segment            CutLog, up to where the next segment begins, if a snapshot of all that has read back
    the process or machine ends     Crash: the database is in memory, so it is lost
    a restart                       Restart, with what was found

An entry of the model is numbered as it was written. A leader's first entry has no effect on the database.
"""

from struct import Struct
from typing import Any

from highwater.model.protocols import log_snapshot
from highwater.model.protocols.log_snapshot import Constants, is_up
from highwater.traces.calls import untrue
from highwater.traces.event import Event
from highwater.traces.form import Keys
from highwater.traces.machines import node_of
from highwater.traces.nodes import NodeTrace, asks
from highwater.traces.protocols import raft
from highwater.traces.protocols.log_snapshot_calls import CALLS, JUDGES
from highwater.traces.protocols.raft import step_of
from highwater.traces.protocols.replicated.log import ENTRY, HEAD, SINK, is_segment, records_in
from highwater.traces.refine import STUTTER, Failure, Match, Refiner, refiner_of
from highwater.traces.trace import UNCHECKED, refiner_without_witnesses

KEYS = Keys("", listed=("",))  # a disk's files may have any name
SNAPSHOT = Struct(">8sHQQ")  # magic, version, index, term
DONE = 200
OF_THE_DATABASE = ("apply", "dump", "load")


def constants() -> Constants:
    """Return the constants of the model that traces refine: without bounds."""
    return Constants(None, None, None, None, None)


def refiner(c: Constants) -> Refiner:
    return refiner_without_witnesses(log_snapshot.model(c))


class Trace(NodeTrace):
    """Refines the trace of one server."""

    alien = UNCHECKED
    calls, claims = CALLS, JUDGES

    def __init__(self, refiner: Refiner, namespace: Keys = KEYS, skew_ms: int = 0):
        super().__init__(refiner, namespace, skew_ms)
        self.raft = raft.Trace(refiner_of(raft.refiner, raft.constants(1)), namespace, skew_ms)
        self.names: dict[int, str] = {}  # number of an entry -> the update in it; "" for an entry without effect
        self.heads: dict[str, int] = {}  # segment -> the index after which it begins
        self.sink, self.synced = b"", False  # the snapshot's file, and whether it is synced
        self.failed = ""  # the write or sync of the log that failed in this life
        self.verified = 0  # index of the latest snapshot that has read back
        self.loaded: tuple[str, ...] = ()  # what a restart gave to the database

    @property
    def refiners(self) -> tuple[Refiner, ...]:
        return self.refiner, self.raft.refiner

    def standing(self) -> Any:
        return super().standing(), self.raft.standing()

    def _take(self, e: Event) -> None:
        super()._take(e)
        if e.kind == "step" and e.op in OF_THE_DATABASE:
            if not is_up(self.refiner.local(e.client)) and e.op != "load":
                raise self._refused("form", f"{e.op} of {e.client}, which has not started")
        else:
            self._check_applied(e)
            try:
                self.raft._take(e)
            except Failure as failure:
                failure.states = self.refiner.unpacked()  # of this model, as all failures here
                raise
        if e.kind == "disk":
            self._on_disk(e, node_of(e.client))
        elif e.kind == "step" and not asks(e):
            self._on_step(e)
        elif e.kind == "told":
            self._told(e)
        elif e.kind == "died":
            self._died(e.client)

    def _check_applied(self, e: Event) -> None:
        """Check that the database has all that is committed, before the next step, and before a caller hears anything."""
        server = self.raft.known.get(node_of(e.client))
        if server and e.kind in ("step", "told") and not asks(e) and all(
                s.index < server.commit for s, *_ in self.refiner.unpacked()):
            raise self._refused("Server.Apply", f"{e.client} goes on, and has not applied entry {server.commit}")

    # --- the disk

    def _on_disk(self, e: Event, me: str) -> None:
        if e.key == SINK:
            self._on_sink(e, me)
        elif not is_up(self.refiner.local(me)):
            return  # a restart, which ends with its own event
        elif is_segment(e.key) and e.op in ("append", "sync"):
            self._on_log(e, me)
        elif is_segment(e.key) and e.op == "remove":
            self._cuts(e, me)
        elif e.op == "read" and e.status == DONE and e.body == self.sink != b"":
            self.verified = self._sunk()
            self._keep(me, "FinishSnapshot", lambda s: s.snapshot.upto == self.verified, "a snapshot reads back")

    def _on_log(self, e: Event, me: str) -> None:
        if self.failed:
            raise self._refused("Server.FailSync", f"{e.op} of {e.key} after {self.failed} has failed")
        if e.op == "append":
            for record in records_in(e.body):
                if record.type == HEAD:
                    self.heads[e.key] = record.index
                elif record.type == ENTRY:
                    self.names[self.refiner.local(me).sent + 1] = record.body[1:].decode()
                    self._do(me, "Append")
        elif e.status == DONE and self.refiner.local(me).pc == "Writing":
            self._do(me, "Sync")
            self._without_effect(me, unheard=True)
        if e.status != DONE:
            self.failed = f"{e.op} of {e.key}"

    def _cuts(self, e: Event, me: str) -> None:
        after = self.heads.get(f"log-{int(e.key[4:]) + 1:016d}")
        if after is None:
            raise self._refused("Server.CutLog", f"the newest segment of the log, {e.key}, is removed")
        if after > self.verified:
            raise self._refused("Server.CutLog", f"entries up to {after} are cut from the log, and the latest snapshot that "
                                f"has read back ends at {self.verified}")
        if after > self.refiner.shared().base:
            self._do(me, "CutLog", (after,), unheard=e.status != DONE)

    def _on_sink(self, e: Event, me: str) -> None:
        """Follow the snapshot's file, until it has its name. What is left of an earlier life's is removed at a restart."""
        if e.op == "create":
            self.sink, self.synced = b"", False
        elif e.op == "append" and e.status == DONE:
            self.sink += e.body
            self.synced = False
        elif e.op == "sync" and e.status == DONE:
            self.synced = True
        elif e.op == "rename" and is_up(self.refiner.local(me)):
            index = self._sunk()
            if not self.synced:
                raise self._refused("Server.FinishSnapshot", f"the snapshot up to {index} gets its name before it is synced")
            self._keep(me, "BeginSnapshot", lambda s: s.temp.upto == index, f"the file has the entries up to {index}")
            self._do(me, "FinishSnapshot", unheard=True)
        elif e.op in ("append", "sync") and self.refiner.shared().temp.state == "Written":
            self.refiner.event("", (0, 0, "", "FailSink", (), False), matched)

    def _sunk(self) -> int:
        """Return the index in the snapshot's file. Raises Failure if that is cut."""
        if len(self.sink) < SNAPSHOT.size:
            raise self._refused("Server.FinishSnapshot", f"the snapshot's file has {len(self.sink)} bytes")
        return SNAPSHOT.unpack_from(self.sink)[2]

    # --- the database, and the life of the process

    def _on_step(self, e: Event) -> None:
        me = e.client
        if e.op == "apply":
            self._without_effect(me, unheard=False)
            number = max((number for number, name in self.names.items() if name == e.body.decode()), default=0)
            self._do(me, "Apply", number)
            index = self.refiner.shared().index
            if index > self.raft.known[me].commit:
                raise self._refused("Server.Apply", f"{me} applies entry {index}, and has not committed it")
            self._without_effect(me, unheard=True)
        elif e.op == "dump":
            self._do(me, "BeginSnapshot")
            shown = names_in(e.body)
            self._keep(me, "BeginSnapshot", lambda s: self._shown(s.temp.rows) == shown, f"it has {' '.join(shown)}")
        elif e.op == "load":
            self.loaded = names_in(e.body)
        elif e.op == "Restart":
            step = step_of(e.body)
            if not is_up(self.refiner.local(me)) and step.found is not None:
                self._do(me, "Restart", (step.found[2][0] + len(step.found[3]), step.commit))
                self.verified = step.commit
                self._keep(me, "Restart", lambda s: self._shown(s.rows) == self.loaded, f"it has {' '.join(self.loaded)}")

    def _without_effect(self, me: str, unheard: bool) -> None:
        """Apply the next entries that have no effect. `unheard`: or not yet, because nobody sees it."""
        while True:
            following = {s.committed[s.index] for s, *_ in self.refiner.unpacked() if s.index < len(s.committed)}
            numbers = [number for number in sorted(following) if not self.names[number]]
            before = self.refiner.states
            for number in numbers:
                self._do(me, "Apply", number, unheard, stays=True)
            if self.refiner.states == before:
                return

    def _shown(self, rows: tuple[int, ...]) -> tuple[str, ...]:
        """Return the updates that a database with these entries shows."""
        return tuple(name for name in map(self.names.__getitem__, rows) if name)

    def _died(self, me: str) -> None:
        if self.failed and self.refiner.local(me).pc == "Writing":
            self._do(me, "FailSync", None)
        self._do(me, "Crash", None)
        self.failed, self.verified, self.loaded, self.sink, self.synced = "", 0, (), b"", False

    # --- one action

    def _do(self, me: str, action: str, choices: Any = (), unheard: bool = False, stays: bool = False) -> None:
        self.refiner.event(me, (0, 0, me, action, choices, unheard, stays), matched)

    def _keep(self, me: str, action: str, so: Any, why: str) -> None:
        """Keep the states in which `so` holds of the shared state."""
        if not self.refiner.keep(me, lambda s, w: so(s)):
            raise self._refused(f"Server.{action}", f"{me}: {why}, and not so in the model: {self.refiner.shared()}")

    # --- responses to callers

    def _told(self, e: Event) -> None:
        if e.op == "read":
            shown, seen = self._shown(self.refiner.shared().rows), tuple(e.body.decode().split())
            if shown[:len(seen)] != seen:
                raise untrue(self, e, "read", f"the server has applied {' '.join(shown) or 'nothing'}")
        super()._told(e)


def names_in(content: bytes) -> tuple[str, ...]:
    return tuple(content.decode().split())


def matched(event: tuple) -> Match:
    """Return the match of an action. `choices` of Apply: the entry; of Restart: what was found; None: any."""
    _, _, me, action, choices, unheard, *stays = event
    actions = (action, STUTTER) if any(stays) else (action,)
    if action == "Apply":
        return Match(me, actions, (), lambda action, s, w, s2, w2: action is STUTTER or s2.rows[-1] == choices, unheard=unheard)
    if action == "Crash":
        return Match(me, actions, None, lambda action, s, w, s2, w2: s2.index == 0)
    if action == "Restart":
        return Match(me, actions, (), lambda action, s, w, s2, w2: (s2.base + len(s2.log), s2.index) == choices)
    return Match(me, actions, choices, unheard=unheard)

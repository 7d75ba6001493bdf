"""Safety: every entry of a metadata index that shows or removes a block, every object that is read or deleted, and every answer
to a reader is an action of model/protocols/index_reads.py.

The index stands behind the key `index`: a PUT of it proposes an entry. Its version in the reply shows the index after the
entry. A PUT of `index/lead` begins a term, whose leader has another clock, and one of `index/read` is a consistent read. Blocks
are numbered in the order in which they come. A step of the model's time is UNIT_MS of the store's.

    index/read           Query, of a reader
    index/lead           Elect
    any entry            Add of each block that is visible then for the first time; Remove of each that is not any more; or Poll
    a worker's entry     HandOut of each block whose delay has passed by the log, too
    GET of a reader      Read, or ReadGone if there is no object. After its time neither: it must discard the answer
    DELETE               Delete, unless the block was never visible; HandOut before it, if its node has told the worker by its
                         own clock, without an entry
    an answer, a crash   Stop
"""

import json
from struct import error
from typing import NamedTuple

from highwater.impl.codecs.codec import Undecodable
from highwater.impl.codecs.index.entries import command_of
from highwater.impl.codecs.index.footer import metadata_of
from highwater.impl.codecs.index.messages import AddBlock, GetPlan, Truncate, UpdatePlan, encode
from highwater.impl.codecs.index.names import block_path
from highwater.impl.codecs.index.partitions import WINDOW_S
from highwater.impl.codecs.index.rows import U64
from highwater.impl.codecs.index.strings import tenant_of
from highwater.impl.errors import StoreError
from highwater.model.protocols import index_reads as m
from highwater.traces import trace
from highwater.traces.calls import content
from highwater.traces.event import Event
from highwater.traces.form import MUTATIONS, Keys
from highwater.traces.protocols.index_reads_calls import (
    ANSWERED,
    CALLS,
    CANCELLED,
    ENDED_BY,
    FOUND,
    JUDGES,
    MISSING,
    REFUSED,
    UNANSWERED,
)
from highwater.traces.refine import Match, Refiner
from highwater.traces.trace import AGAIN, refiner_without_witnesses, sent

INDEX, LEAD, READ = "index", "index/lead", "index/read"
TENANT, SHARD = "t", 1
RAW, RESULTS = f"segments/{SHARD}/anonymous/", f"blocks/{SHARD}/{TENANT}/"
NO_TENANTS = f"blocks/{SHARD}/anonymous/"  # results of no tenant: there are none, and an anonymous unit's deletion looks there
PLACES = RAW, RESULTS, NO_TENANTS
KEYS = Keys("", listed=PLACES, single=(INDEX, LEAD, READ))
START_S = 1_750_399_200  # 2025-06-20T06:00Z, where a partition begins
WINDOW_MS = 150  # of the run
TIMES = WINDOW_S * 1000 // WINDOW_MS  # ms of the index in one of the run
UNIT_MS = 50
READ_MS, SET_MS = 200, 100  # that a reader reads by its clock, and by which that may be set back meanwhile
QUERY, AHEAD = (READ_MS + SET_MS) // UNIT_MS, 2
DELAY = QUERY + AHEAD + 1
BLOCKS, READERS = 64, 2
CLIENTS = {"Reader": READERS, "Writer": 2, "Worker": 1, "Operator": 1}
NO_LEADER = "no leader"


class Shown(NamedTuple):
    """The content of the index after an entry."""

    index: int
    mark: str  # of the entry: its digest
    now_ns: int
    visible: tuple[str, ...]  # ULIDs


def version_of(shown: Shown) -> str:
    """Write what the index shows as the version of its object."""
    return json.dumps(shown, separators=(",", ":"))


def shown_in(version: str) -> Shown:
    index, mark, now_ns, visible = json.loads(version)
    return Shown(index, mark, now_ns, tuple(visible))


def ahead_ms(term: int) -> int:
    """Return how far the clock of a term's leader is ahead of the store's, in ms of the run."""
    return term % 2 * AHEAD * UNIT_MS


def stamp_ns(t_ms: int, term: int) -> int:
    """Return the time of an entry by the clock of its leader."""
    return (START_S * 1000 + (t_ms + ahead_ms(term)) * TIMES) * 1_000_000


def constants() -> m.Constants:
    return m.Constants(BLOCKS=BLOCKS, READERS=READERS, QUERY=QUERY, DELAY=DELAY, AHEAD=AHEAD, MAX_NOW=None)


def refiner(c: m.Constants) -> Refiner:
    return refiner_without_witnesses(m.model(c))


ASKS = {  # role -> its requests: op and where, and the commands of its entries
    "Reader": ({("put", READ), ("get", RAW), ("get", RESULTS)}, ()),
    "Writer": ({("create", RAW), ("put", INDEX)}, (AddBlock,)),
    "Worker": ({("create", RESULTS), ("put", INDEX), ("put", READ), ("list", NO_TENANTS), *(
        (op, place) for op in ("get", "list", "delete") for place in (RAW, RESULTS))}, (GetPlan, UpdatePlan)),
    "Operator": ({("put", LEAD), ("put", READ), ("put", INDEX)}, (Truncate,)),
}


def ulid_of(key: str) -> str:
    return key.split("/")[3]


class Trace(trace.Trace):
    """Refines one trace of the readers of an index."""

    alien = (*trace.UNCHECKED, Undecodable, StoreError, error)
    calls, claims = CALLS, JUDGES
    aside = (INDEX,)
    bodiless = ("read", "over", "gone", "not read")
    collector = ("Writer", "Worker", "Operator")  # they have no state in the model

    def __init__(self, refiner: Refiner, namespace: Keys = KEYS, skew_ms: int = 0):
        super().__init__(refiner, namespace, skew_ms)
        self.shown, self.term = Shown(0, "", 0, ()), 0
        self.others = 0  # requests to the index that were no entries
        self.blocks: dict[str, m.Block] = {}  # by ULID
        self.there: dict[str, None] = {}  # keys of the objects in the store
        self.bodies: dict[str, bytes] = {}  # key -> what was written, first or again
        self.made: dict[str, bytes] = {}  # ULID -> the metadata in its object
        self.ended: dict[str, str] = {}  # reader -> how the last request of its call ended
        self.read: dict[str, int] = {}  # reader -> objects that its call has read in its time
        self.late: set[str] = set()  # readers whose call has had an answer after its time

    @property
    def s(self) -> m.Shared:
        return self.refiner.shared()

    def knows(self, client: str) -> bool:
        of, _, task = client.partition("/")
        role, _, number = of.partition("#")
        return number in map(str, range(CLIENTS.get(role, 0))) and (not task or role == "Worker")

    def _pass_time(self) -> None:
        while self.s.now < self.now_ms // UNIT_MS:
            self._do("Tick")

    def _take(self, e: Event) -> None:
        if not self.knows(e.client):
            raise self._refused("form", f"there is no client {e.client}")
        if e.kind != "told":
            self._asks(e)
        super()._take(e)

    def _asks(self, e: Event) -> None:
        """Check that a client sends requests of its role only."""
        asks, commands = ASKS[e.client.partition("#")[0]]
        place = next((prefix for prefix in PLACES if e.key.startswith(prefix)), e.key)
        if (e.op, place) not in asks or (e.key in (LEAD, READ) and e.body):
            raise self._no_action(e, e.client)
        if e.key != INDEX:
            return
        command = command_of(e.body[U64.size:])
        if not isinstance(command, commands):
            raise self._no_action(e, e.client)
        made = [command.metadata] if isinstance(command, AddBlock) else [] if not isinstance(command, UpdatePlan) else [
            one for part in command.plan_update.completed_jobs for one in part.compacted_blocks.new_blocks]
        for one in made:
            if self.made.get(one.id) != encode(one):
                raise self._refused("Add", f"{e.client} shows {one.id}, whose object nobody has written so")

    def _step(self, e: Event) -> None:
        self._well_formed(e)
        if e.kind == "applied":
            self._applied(e)
        elif e.client.startswith("Reader"):
            self.ended[e.client] = {"refused": REFUSED, "crash": ""}.get(e.kind, UNANSWERED if e.awaited else CANCELLED)
            if e.kind == "crash":
                self._ends(e.client)

    def _sent(self, e: Event) -> None:
        self.pending[e.client, e.request] = ("sent",), sent(e)

    def _arrived(self, e: Event) -> None:
        super()._arrived(e)
        if e.op in MUTATIONS:
            self._applied(e)

    def _arrives(self, event: tuple) -> Match | None:
        return None

    # --- requests

    def _applied(self, e: Event) -> None:
        if e.key == INDEX:
            self._entry(e)
        elif e.key == LEAD:
            self.term += 1
            self._other(e, f"term {self.term}")
            self._do("Elect")
        elif e.key == READ:
            self._other(e, f"read of {self.shown.index}")
            if e.client.startswith("Reader") and e.awaited:
                self._ends(e.client)
                self.ended[e.client] = ANSWERED
                self._do("Query", me=e.client, stays=True)
        elif e.op == "create":
            self._writes(e)
        elif e.op == "delete":
            self.there.pop(e.key, None)
            b = self.blocks.get(ulid_of(e.key))
            if b in self.s.objects:
                self._do("HandOut", (b,), stays=True)
                self._do("Delete", (b,))
        elif e.op == "get" and e.client.startswith("Reader"):
            self._reads(e)

    def _writes(self, e: Event) -> None:
        made = metadata_of(e.body, len(e.body))
        if self.bodies.setdefault(e.key, e.body) != e.body or e.key != block_path(
                made.shard, tenant_of(made), made.id, made.compaction_level):
            raise self._refused("Add", f"{e.key} is written with another content, or is another block's")
        self.made[made.id] = encode(made)
        if e.status == 200:
            self.there[e.key] = None

    def _other(self, e: Event, said: str) -> None:
        """Check the answer to a request that is no entry."""
        self.others += 1
        if e.version != f"{said}, {self.others}":
            raise self._refused("index", f"{e.key} answers {e.version!r}, and not {said!r} as number {self.others}")

    def _reads(self, e: Event) -> None:
        b, w = self.blocks.get(ulid_of(e.key)), self.refiner.local(e.client)
        if b not in w.left:
            raise self._refused("Reader.Read", f"{e.client} reads {e.key}, which its answer does not name, or once more")
        self.ended[e.client] = FOUND if e.status == 200 else MISSING
        if self.s.now > w.since + QUERY:
            self.late.add(e.client)
            return
        self.read[e.client] = self.read.get(e.client, 0) + (e.status == 200)
        self._do("Read" if e.status == 200 else "ReadGone", (b,), e.client)

    def _entry(self, e: Event) -> None:
        if e.version.startswith(NO_LEADER) != (not self.term):
            raise self._refused("index", f"a node takes an entry in term {self.term}, or refuses it")
        if not self.term:
            self._other(e, f"{NO_LEADER} of {content(e.body)}")
            return
        after, before = shown_in(e.version), self.shown
        now_ns = max(before.now_ns + 1, stamp_ns(e.t_ms, self.term))
        if (after.index, after.mark, after.now_ns) != (before.index + 1, content(e.body), now_ns):
            raise self._refused("index", f"entry {after.index} at {after.now_ns} does not follow entry {before.index}, at "
                                f"{now_ns}")
        self.shown = after
        there = {ulid_of(key) for key in self.there}
        for ulid in sorted({*after.visible} - {*before.visible}):
            if ulid not in there:
                raise self._refused("Add", f"{ulid} is visible, and has no object")
            self._do("Add", (self.blocks.setdefault(ulid, len(self.blocks)),))
        for ulid in sorted({*before.visible} - {*after.visible}):
            self._do("Remove", (self.blocks[ulid],))
        self._do("Poll", stays=True)
        if e.client.startswith("Worker"):
            for b, _ in sorted(self.s.removed):
                self._do("HandOut", (b,), stays=True)

    # --- steps

    def _ends(self, reader: str) -> None:
        """End what a reader's call has begun."""
        self.read.pop(reader, None)
        self.late.discard(reader)
        self._do("Stop", me=reader, stays=True)

    def _do(self, action: str, choices: tuple = (), me: str = "", stays: bool = False) -> None:
        """Take an action. With `stays` nothing happens if it is not possible."""
        self.refiner.event(me, (0, 0, me, action, choices, stays), matched)

    # --- responses to callers

    def _told(self, e: Event) -> None:
        super()._told(e)
        self.ended.pop(e.client, None)
        self._ends(e.client)

    def _told_of(self, e: Event) -> str | None:
        if e.op not in self.bodiless or not e.client.startswith("Reader"):
            raise self._misled(e, "nobody has such a response")
        before, ended = self._last_of(e), self.ended.get(e.client, "")
        if before is None or before.kind in ("told", "crash"):
            raise self._misled(e, "it has sent no request")
        if e.keys and ended not in ENDED_BY.get(e.keys[1], (ended,)):
            raise self._misled(e, f"its last request was {ended}")
        if e.op == "gone" or (e.op == "read" and e.client in self.late):
            raise self._misled(e, "its time was over before the last answer" if e.client in self.late else "it was there")
        return AGAIN


def matched(event: tuple) -> Match:
    _, _, me, action, choices, stays = event
    return Match(me, (action, None) if stays else (action,), choices)

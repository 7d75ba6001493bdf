"""Safety: every entry of a metadata index, and every object that is put or deleted, is an action of
model/protocols/index_retention.py.

The index stands behind the key `index`: a PUT of it proposes an entry. Its version in the reply shows the index after the
entry. A PUT of `index/lead` begins a term, and one of `index/read` is a consistent read. The time of the model is that of the
log, in windows.

    index/lead           Elect, of the cleaner that asks
    AddBlock             Add of a block that is visible then
    UpdatePlan           JobEnd of a block that is replaced then
    Truncate             Read and Truncate for each unit that is dropped; nothing for others
    any entry            Tick before it; ForgetUnit after it, for each unit that is not known as dropped any more
    create, DELETE       Put; Sweep, when the first object of a dropped unit is deleted

A unit that has not changed since it was read may as well be read when it is dropped. So Read comes with Truncate: it must find
the version that the command names, in the command's term.
"""

import json
from struct import error
from typing import Any, NamedTuple

from highwater.impl.codecs.index.entries import command_of
from highwater.impl.codecs.index.messages import AddBlock, BlockMeta, GetPlan, Truncate, UpdatePlan, decode, encode
from highwater.impl.codecs.index.names import block_path
from highwater.impl.codecs.index.partitions import WINDOW_S
from highwater.impl.codecs.index.rows import U64
from highwater.impl.codecs.index.strings import tenant_of
from highwater.impl.errors import StoreError
from highwater.model.protocols import index_retention as m
from highwater.traces import trace
from highwater.traces.calls import content
from highwater.traces.event import Event
from highwater.traces.form import MUTATIONS, Keys
from highwater.traces.protocols.index_retention_calls import (
    CALLS,
    CANCELLED,
    ENDED_BY,
    JUDGES,
    NO_LEADER,
    OTHER_TERM,
    REFUSED,
    UNANSWERED,
)
from highwater.traces.refine import Match, Refiner
from highwater.traces.trace import AGAIN, refiner_without_witnesses, sent

INDEX, LEAD, READ = "index", "index/lead", "index/read"
RAW, RESULTS = "segments/", "blocks/"
KEYS = Keys("", listed=(RAW, RESULTS), single=(INDEX, LEAD, READ))
START_S = 1_750_399_200  # 2025-06-20T06:00Z, where a partition begins
WINDOW_NS = WINDOW_S * 1_000_000_000
DATA, WINDOWS, TENANTS, HORIZON = 12, 3, 2, 2
CLEANERS = 2
ANY = 0


class Shown(NamedTuple):
    """The content of the index after an entry. A block is the number of its datum, with DATA added for a job's result."""

    index: int
    mark: str  # of the entry: its digest
    term: int
    now_ns: int
    visible: tuple[int, ...]
    removed: tuple[int, ...]
    units: tuple[tuple[int, int, int], ...]  # that are there: window, tenant, and version
    dropped: tuple[tuple[int, int], ...]


def version_of(shown: Shown) -> str:
    """Write what the index shows as the version of its object."""
    return json.dumps(shown, separators=(",", ":"))


def shown_in(version: str) -> Shown:
    index, mark, term, now_ns, visible, removed, units, dropped = json.loads(version)
    return Shown(index, mark, term, now_ns, tuple(visible), tuple(removed), tuple(map(tuple, units)),
                 tuple(map(tuple, dropped)))  # pyright: ignore[reportArgumentType]  # of the lengths above


def constants(period: int, periods: int, ahead: int) -> m.Constants:
    return m.Constants(DATA=DATA, WINDOWS=WINDOWS, TENANTS=TENANTS, JOBS=DATA, PERIOD=period, PERIODS=periods, AHEAD=ahead,
                       HORIZON=HORIZON, CLEANERS=CLEANERS, MAX_NOW=None, MAX_TERM=None)


def refiner(c: m.Constants) -> Refiner:
    return refiner_without_witnesses(m.model(c))


def window_of(start_ns: int) -> int:
    return (start_ns // 1_000_000_000 - START_S) // WINDOW_S


def block_of(made: Any) -> m.Block:
    """Return the number of a block, whose only dataset is named by the datum's number."""
    (part,) = made.datasets
    return int(made.string_table[part.name].removeprefix("d")) + (DATA if made.compaction_level else 0)


ASKS = {  # role -> its requests: op and where, and the commands of its entries
    "Cleaner": ({("put", LEAD), ("put", READ), ("put", INDEX)}, (Truncate,)),
    "Writer": ({("create", RAW), ("put", INDEX)}, (AddBlock,)),
    "Worker": ({("create", RESULTS), *((op, place) for op in ("list", "delete") for place in (RAW, RESULTS)), ("put", INDEX)},
               (GetPlan, UpdatePlan)),
}


class Trace(trace.Trace):
    """Refines one trace of the retention of an index."""

    alien = (*trace.UNCHECKED, StoreError, error)
    calls, claims = CALLS, JUDGES
    aside = (INDEX,)
    bodiless = ("cleaned", "not cleaned")
    collector = "W"  # writers and workers have no state in the model

    def __init__(self, refiner: Refiner, namespace: Keys = KEYS, skew_ms: int = 0):
        super().__init__(refiner, namespace, skew_ms)
        self.c: m.Constants = refiner.model.constants
        self.shown = Shown(0, "", 0, 0, (), (), (), ())
        self.versions: dict[tuple[m.Unit, int], int] = {}  # a unit's version in the index -> the model's
        self.blocks: dict[str, m.Block] = {}  # by the key of its object
        self.others = 0  # requests to the index that were no entries
        self.leads: dict[str, tuple[int, int, int]] = {}  # cleaner -> request, the term that it was told, the one before
        self.ended: dict[str, str] = {}  # cleaner -> how the latest request of its call ended; a number: of units that it drops
        self.read: dict[str, int] = {}  # cleaner that has read the units -> the term that it led then, until it proposes
        self.contents: dict[str, bytes] = {}  # by ULID: what was written

    @property
    def s(self) -> m.Shared:
        return self.refiner.shared()

    def knows(self, client: str) -> bool:
        role, _, number = client.partition("#")
        return role in ASKS and number in map(str, range(1 if role == "Worker" else CLEANERS))

    def _take(self, e: Event) -> None:
        if not self.knows(e.client):
            raise self._refused("form", f"there is no client {e.client}")
        if e.kind != "told":
            self._asks(e)
        if e.kind in ("refused", "timeout", "crash"):
            self.read.pop(e.client, None)
            self.ended[e.client] = {"refused": REFUSED, "crash": ""}.get(e.kind, UNANSWERED if e.awaited else CANCELLED)
        if e.kind in ("timeout", "crash"):
            request, _, before = self.leads.get(e.client, (0, 0, 0))
            if e.kind == "crash" or (request == e.request and e.awaited):
                self.leads[e.client] = 0, 0 if e.kind == "crash" else before, 0
        super()._take(e)

    def _asks(self, e: Event) -> None:
        """Check that a client sends requests of its role only, and that a cleaner has read the units which it drops."""
        asks, commands = ASKS[e.client.partition("#")[0]]
        place = e.key if e.key.startswith(INDEX) else f"{e.key.partition('/')[0]}/"
        if (e.op, place) not in asks:
            raise self._no_action(e, e.client)
        late = e.request <= self.last.get(e.client, 0)  # it was judged before
        if e.key in (LEAD, READ) and (e.body or (e.key == READ and not late and not self._led(e.client))):
            raise self._no_action(e, e.client)
        if e.key != INDEX:
            return
        (term,), command = U64.unpack_from(e.body), command_of(e.body[2 * U64.size:])
        own = ANY if not isinstance(command, Truncate) else term if late else self._led(e.client)
        if not isinstance(command, commands) or term != own:
            raise self._no_action(e, e.client)
        if isinstance(command, Truncate) and not late and self.read.pop(e.client, ANY) != command.term:
            raise self._refused("Cleaner.Read", f"{e.client} drops units for term {command.term}, and has not read them in it")
        made = [command.metadata] if isinstance(command, AddBlock) else [] if not isinstance(command, UpdatePlan) else [
            one for part in command.plan_update.completed_jobs for one in part.compacted_blocks.new_blocks]
        for one in made:
            if self.contents.get(one.id) != encode(one):
                raise self._refused("Put", f"{e.client} shows {one.id}, whose object it has not written so")

    def _led(self, client: str) -> int:
        """Return the term that a cleaner leads, as far as it knows; ANY: none."""
        return self.leads.get(client, (0, ANY, 0))[1]

    def _step(self, e: Event) -> None:
        self._well_formed(e)
        if e.kind == "applied":
            self._applied(e)

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
        if e.key == INDEX and e.op == "put":
            self._entry(e)
        elif e.key == LEAD and e.op == "put":
            self._other(e, f"term {self.s.term + 1}")
            self._do("Elect", me=e.client)
            if e.awaited:
                self.ended.pop(e.client, None)
                self.leads[e.client] = e.request, self.s.term, self._led(e.client)
        elif e.key == READ and e.op == "put":
            self._other(e, f"read of {self.shown.index} in {self.s.term}")
            if e.awaited:
                self.ended[e.client], self.read[e.client] = "0", self._led(e.client)
        elif e.op == "create" and e.key.startswith((RAW, RESULTS)):
            made = decode(BlockMeta, e.body, "block")
            b = self.blocks.setdefault(e.key, block_of(made))
            if self.contents.setdefault(made.id, e.body) != e.body or e.key != block_path(
                    made.shard, tenant_of(made), made.id, made.compaction_level):
                raise self._refused("Put", f"{e.key} is written with another content, or is another block's")
            if e.status == 200:
                self._do("Put", (b,), stays=True)
        elif e.op == "delete" and e.key.startswith((RAW, RESULTS)):
            self._deletes(e, self.blocks[e.key])
        elif e.op != "list":
            raise self._no_action(e, e.client)

    def _other(self, e: Event, said: str) -> None:
        """Check the answer to a request that is no entry."""
        self.others += 1
        if e.version != f"{said}, {self.others}":
            raise self._refused("index", f"{e.key} answers {e.version!r}, and not {said!r} as number {self.others}")

    def _deletes(self, e: Event, b: m.Block) -> None:
        u = m.unit_of(self.c, b)
        if u not in self.s.buried:
            raise self._refused("Sweep", f"{e.client} deletes the object of {b}, and nobody has dropped its unit {u}")
        self._do("Sweep", (u,), stays=True)

    def _entry(self, e: Event) -> None:
        (term,) = U64.unpack_from(e.body)  # of the node that takes the entry; ANY: of any that leads
        leads = self.s.term > 0 and term in (ANY, self.s.term)
        if leads == e.version.startswith(NO_LEADER):
            raise self._refused("index", f"a node of term {term} takes an entry in term {self.s.term}, or refuses it")
        if not leads:
            self._other(e, f"{NO_LEADER} of {content(e.body)}")
            if e.awaited:
                self.ended[e.client] = NO_LEADER
            return
        after, before = shown_in(e.version), self.shown
        if (after.index, after.mark, after.now_ns > before.now_ns, after.term) != (
                before.index + 1, content(e.body), True, self.s.term):
            raise self._refused("index", f"entry {after.index} of term {after.term} does not follow entry {before.index}")
        self.shown = after
        while self.s.now < window_of(after.now_ns):
            self._do("Tick")
        command = command_of(e.body[2 * U64.size:])
        if isinstance(command, AddBlock):
            b = block_of(command.metadata)
            if b in after.visible and b not in self.s.visible:
                self._do("Add", (b,))
        elif isinstance(command, UpdatePlan):
            for b in sorted(b for b in self.s.visible if b < DATA and b not in after.visible):
                self._do("JobEnd", (b,))
        elif isinstance(command, Truncate):
            if e.awaited:
                self.ended[e.client] = str(len(command.tombstones)) if command.term == after.term else OTHER_TERM
            self._truncates(e, command, after)
        for u in sorted(self.s.dropped - {*after.dropped}):
            self._do("ForgetUnit", (u,))
        self._compare(after)

    def _truncates(self, e: Event, command: Any, after: Shown) -> None:
        there = {unit[:2] for unit in after.units}
        for message in command.tombstones:
            told = message.shard
            u = window_of(told.timestamp), int(told.tenant.removeprefix("t") or 0)
            if u not in there and m.times(self.s, u) != (0, 0):
                version = self.versions.get((u, told.unit_version), 0)
                self._do("Read", (u,), e.client, shows=(command.term, version))
                self._do("Truncate", me=e.client)

    def _compare(self, after: Shown) -> None:
        s = self.s
        index = {"visible": {*after.visible}, "removed": {*after.removed}, "dropped": {*after.dropped},
                 "units": {unit[:2] for unit in after.units}}
        model = {"visible": s.visible, "removed": s.removed, "dropped": s.dropped, "units": {u for u, _, _ in s.units}}
        for name, there in index.items():
            if there != model[name]:
                raise self._refused(f"index.{name}", f"{name}: the index has {sorted(there)}, the model {sorted(model[name])}")
        for window, tenant, version in after.units:
            own = m.times(s, (window, tenant))[0]
            if self.versions.setdefault(((window, tenant), version), own) != own:
                raise self._refused("index.units", f"version {version} of {window, tenant} is {own} in the model")

    # --- steps

    def _do(self, action: str, choices: tuple = (), me: str = "", stays: bool = False, shows: tuple = ()) -> None:
        """Take an action. With `stays` nothing happens if it is not possible. `shows`: term and version of a cleaner's read."""
        self.refiner.event(me, (0, 0, me, action, choices, stays, shows), matched)

    # --- responses to callers

    def _told_of(self, e: Event) -> str | None:
        if e.op not in self.bodiless or not e.client.startswith("Cleaner"):
            raise self._misled(e, "nobody has such a response")
        if e.op == "not cleaned":
            ended, before = self.ended.pop(e.client, ""), self._last_of(e)
            if before is None or before.kind in ("told", "crash"):
                raise self._misled(e, "it has sent no request")
            if e.keys and ended not in ENDED_BY.get(e.keys[1], (ended,)):
                raise self._misled(e, f"its last request ended otherwise: {ended or 'it began a term'}")
        self.read.pop(e.client, None)  # the call is over
        return AGAIN


def matched(event: tuple) -> Match:
    _, _, me, action, choices, stays, shows = event
    if shows:
        return Match(me, (action,), choices, lambda a, s, l, s2, l2: (l2.made, l2.version) == shows)
    return Match(me, (action, None) if stays else (action,), choices)

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
from typing import Any, NamedTuple

from highwater.impl.codecs.index.entries import command_of
from highwater.impl.codecs.index.messages import AddBlock, BlockMeta, Truncate, UpdatePlan, decode
from highwater.impl.codecs.index.partitions import WINDOW_S
from highwater.impl.codecs.index.rows import U64
from highwater.impl.errors import StoreError
from highwater.model.protocols import index_retention as m
from highwater.traces import trace
from highwater.traces.calls import content
from highwater.traces.event import Event
from highwater.traces.form import MUTATIONS, Keys
from highwater.traces.protocols.index_retention_calls import CALLS
from highwater.traces.refine import Match, Refiner
from highwater.traces.trace import AGAIN, refiner_without_witnesses, sent

INDEX, LEAD, READ = "index", "index/lead", "index/read"
RAW, RESULTS = "segments/", "blocks/"
KEYS = Keys("", listed=(RAW, RESULTS), single=(INDEX, LEAD, READ))
START_S = 1_750_399_200  # 2025-06-20T06:00Z, where a partition begins
WINDOW_NS = WINDOW_S * 1_000_000_000
DATA, WINDOWS, TENANTS, HORIZON = 12, 3, 2, 2
CLEANERS = 2
ANY, NO_LEADER = 0, "no leader"


class Shown(NamedTuple):
    """What the index shows after an entry. A block is the number of its datum, with DATA added for a job's result."""

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


class Trace(trace.Trace):
    """Refines one trace of the retention of an index."""

    alien = (*trace.ALIEN, StoreError)
    calls = CALLS
    aside = (INDEX,)
    bodiless = ("cleaned", "not cleaned")
    collector = "W"  # writers and workers have no state in the model

    def __init__(self, refiner: Refiner, namespace: Keys = KEYS, skew_ms: int = 0):
        super().__init__(refiner, namespace, skew_ms)
        self.c: m.Constants = refiner.model.constants
        self.shown = Shown(0, "", 0, 0, (), (), (), ())
        self.versions: dict[tuple[m.Unit, int], int] = {}  # a unit's version in the index -> the model's
        self.blocks: dict[str, m.Block] = {}  # by the key of its object

    @property
    def s(self) -> m.Shared:
        return self.refiner.shared()

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
            self._do("Elect", me=e.client)
        elif e.op == "create" and e.key.startswith((RAW, RESULTS)):
            b = self.blocks[e.key] = block_of(decode(BlockMeta, e.body))
            if e.status == 200:
                self._do("Put", (b,), stays=True)
        elif e.op == "delete" and e.key.startswith((RAW, RESULTS)):
            self._deletes(e, self.blocks[e.key])
        elif not (e.key == READ and e.op == "put") and e.op != "list":
            raise self._no_action(e, e.client)

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
        return AGAIN


def matched(event: tuple) -> Match:
    _, _, me, action, choices, stays, shows = event
    if shows:
        return Match(me, (action,), choices, lambda a, s, l, s2, l2: (l2.made, l2.version) == shows)
    return Match(me, (action, None) if stays else (action,), choices)

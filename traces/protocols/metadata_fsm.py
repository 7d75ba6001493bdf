"""Map the log of a metadata index, and what its clients do to objects, to the actions of model/protocols/metadata_fsm.py.

The index's own answers say which actions an entry is. Each must be possible in the model, in the order in which the index takes
them. After the entry the index must show what the model shows: blocks, waiting ones, jobs with their workers, tombstones with
the jobs that carry them, what is known as removed or dropped.

    AddBlock           Add, or nothing if that is not possible
    GetPlan            Propose, for each new job in the plan: it may be applied late
    UpdatePlan         Confirm, ConfirmUnit, Complete, Evict, Assign; NewJob, or LateJob if other entries stand between the two;
                       HandOut, HandOutUnit
    Truncate           Truncate, for each unit that is dropped
    any entry          Elect before it if its term is new; Age of what is too old by now; Forget, ForgetUnit after it
    put, delete        Put, or Run of a job's worker; Delete, or Sweep of a unit

A worker of the model is a lease. A datum's number is congruent to its window of time, as in the model. There is one shard;
writers' blocks are anonymous, and results belong to one tenant.
"""

import json
from typing import Any

from highwater.impl.codecs.index import ulids
from highwater.impl.codecs.index.messages import AddBlock, BlockMeta, GetPlan, Truncate, UpdatePlan
from highwater.impl.codecs.index.partitions import WINDOW_S, Partition, partition_of
from highwater.impl.codecs.index.rows import Unit
from highwater.model.protocols import metadata_fsm as m
from highwater.traces.calls import untrue
from highwater.traces.event import Event
from highwater.traces.form import Keys
from highwater.traces.protocols.indexed.answers import OK
from highwater.traces.protocols.indexed.log import KEYS, Entry, IndexTrace
from highwater.traces.protocols.indexed.rows import Shown, TombKey, message
from highwater.traces.protocols.metadata_fsm_calls import CALLS, JUDGES
from highwater.traces.refine import Refiner
from highwater.traces.trace import refiner_without_witnesses

START_S = 1_750_399_200  # 2025-06-20T06:00Z, where a partition begins
HORIZON_NS = 9_000 * 1_000_000_000
WINDOWS, BEFORE = 12, 2  # windows of time that a trace may have, and how many of them may be before its start
LEVELS = 2  # of which blocks are compacted
LEASES = 6  # that are valid at once: as many as the index has jobs at most, and some
WINDOW_NS = WINDOW_S * 1_000_000_000
Lease = tuple[str, int]  # a job's name, and the log index of its assignment, which jobs of one poll have in common


def constants(blocks: int) -> m.Constants:
    """Return the constants of the model for this number of writers' blocks, without other bounds."""
    unbounded = dict.fromkeys(("ASSIGNS", "TRUNCATES", "AGES", "EVICTS", "MAX_LATE", "MAX_TERM"))
    return m.Constants(BLOCKS=WINDOWS * blocks, WINDOWS=WINDOWS, LEVELS=LEVELS, WORKERS=LEASES, **unbounded)


def refiner(c: m.Constants) -> Refiner:
    return refiner_without_witnesses(m.model(c))


def window(start_ns: int) -> int:
    """Return the model's number of a partition."""
    return (start_ns // 1_000_000_000 - START_S) // WINDOW_S + BEFORE


class Trace(IndexTrace):
    """Refines the trace of a metadata index."""

    calls, claims = CALLS, JUDGES

    def __init__(self, refiner: Refiner, namespace: Keys = KEYS, skew_ms: int = 0):
        super().__init__(refiner, namespace, skew_ms)
        self.c: m.Constants = refiner.model.constants
        self.block_of: dict[str, m.Block] = {}  # by ULID
        self.data: dict[str, m.Datum] = {}  # by the name of a dataset
        self.young: dict[m.Datum, int] = {}  # not too old by the latest entry -> when its writer's block was made, in ns
        self.added: dict[str, int] = {}  # by ULID: the place in `applied` of the first entry after which it was visible
        self.sources: dict[str, m.Sources] = {}  # by the name of a job
        self.workers: dict[Lease, str] = {}  # -> the model's worker
        self.tokens: dict[Lease, int] = {}  # -> the model's token
        self.reporters: dict[Lease, int] = {}  # a job as it was when a plan was made -> the token of the report
        self.terms: dict[int, int] = {}  # -> the model's number of it
        self.planned = 0  # index of the latest GetPlan
        self.visible: list[frozenset[str]] = []  # ULIDs, after each entry of `applied`

    @property
    def s(self) -> m.Shared:
        return self.refiner.shared()

    # --- names

    def unit(self, unit: Unit) -> m.Unit:
        return window(unit.partition.start_ns), int(unit.tenant != "")

    def of_tombstone(self, told: Any) -> tuple[bool, list[Any]]:
        """Return whether a tombstone is of a unit, and what it names in the model."""
        if told.HasField("shard"):
            return True, [self.unit(Unit(Partition(told.shard.timestamp), told.shard.tenant, told.shard.shard))]
        return False, [self.block_of[ulid] for ulid in told.blocks.blocks]

    def writers_block(self, made: Any) -> m.Datum:
        """Give the datum of a block a number, when it is met first."""
        name = made.string_table[made.datasets[0].name]
        if name not in self.data:
            at = window(partition_of(made.id).start_ns)
            self.data[name] = at + WINDOWS * sum(d % WINDOWS == at for d in self.data.values())
            self.block_of[made.id] = m.raw(self.data[name])
            self.young[self.data[name]] = ulids.time_ns(made.id)
        return self.data[name]

    # --- objects

    def _on_client(self, e: Event) -> None:
        super()._on_client(e)
        if e.op == "put":
            made = message(BlockMeta, e.body)
            if made.compaction_level == 0:
                self._do("Put", self.writers_block(made))
            else:
                self._runs(made)
        elif e.op == "delete":
            self._deletes(e)

    def _runs(self, made: Any) -> None:
        """Take the result of a job as written. One that its job's worker cannot end with is in the store, and no more."""
        data = sorted(self.data[made.string_table[one.name]] for one in made.datasets)
        new = self.block_of.setdefault(made.id, (made.compaction_level, tuple(data)))
        for of in self.workers.values():
            w = self.refiner.local(of)
            if w.job and not w.ran and m.result_of(w.job) == new and m.token_of(self.s, w.job) == w.token:
                self._do("Run", me=of)

    def _deletes(self, e: Event) -> None:
        """Take the deletion of what one tombstone names: of one object, or of all that a unit has."""
        ulids_of = [key.split("/")[3] for key in e.keys]
        hit = {self.block_of[ulid] for ulid in ulids_of} & self.s.objects
        if e.key:
            tenant, start_ns = json.loads(e.body)
            u = window(start_ns), int(tenant != "")
            if u not in self.s.swept | {of for of, _ in self.s.unit_tombs}:
                raise self._refused("Sweep", f"{e.client} deletes the objects of {u}, which has no tombstone")
            if kept := {b for b in self.s.objects if m.unit_of(self.c, b) == u} - hit:
                raise self._refused("Sweep", f"{e.client} deletes the objects of {u}, and keeps {sorted(kept)}")
            self._do("Sweep", u, or_stays=True)
            if left := {b for b in hit if b in self.s.objects}:
                raise self._refused("Sweep", f"{e.client} deletes {sorted(left)}, which the tombstone of {u} does not name")
            return
        for ulid in ulids_of:
            b = self.block_of[ulid]
            if any(b == of for of, _ in self.s.tombs):
                self._do("Delete", b, or_stays=True)
            elif b not in self.s.deleted or b in self.s.visible:
                raise self._refused("Delete", f"{e.client} deletes the object of {b}, and no tombstone names it")

    # --- entries

    def _applied(self, entry: Entry, before: Shown, after: Shown) -> None:
        self._elects(entry.term)
        self._ages(after.clock_ns)
        command = entry.command
        if isinstance(command, AddBlock):
            self._adds(command.metadata, entry.code)
        elif isinstance(command, GetPlan):
            self._plans(command, entry)
        elif isinstance(command, UpdatePlan):
            self._updates(command, entry, before, after)
        elif isinstance(command, Truncate):
            self._truncates(command, entry, after)
        self._forgets(after)
        self._compare(after)
        self.visible.append(frozenset(after.visible))
        for ulid in after.visible:
            self.added.setdefault(ulid, len(self.visible) - 1)

    def _elects(self, term: int) -> None:
        if term not in self.terms:
            if self.terms:
                self._do("Elect")
            self.terms[term] = len(self.terms) + 1

    def _ages(self, now_ns: int) -> None:
        before_ns, old = now_ns - HORIZON_NS, self.s.old
        for d in [d for d, made_ns in self.young.items() if made_ns < before_ns]:
            del self.young[d]
            if d not in old:
                self._do("Age", d)

    def _ages_with(self, u: m.Unit, now_ns: int) -> None:
        """Let the data of a window that nobody has written become too old, if the window is."""
        if (START_S + (u[0] - BEFORE + 1) * WINDOW_S) * 1_000_000_000 <= now_ns - HORIZON_NS:
            for d in sorted({*range(u[0], self.c.BLOCKS, WINDOWS)} - {*self.data.values()} - self.s.old):
                self._do("Age", d)

    def _adds(self, made: Any, code: str) -> None:
        b, before = self.block_of[made.id], self.s.visible
        self._do("Add", b[1][0], or_stays=True)
        if self.s.visible != before:
            if code != OK:
                raise self._refused("Add", f"{b} is refused with {code}, and can be added")
        elif code == OK and b not in self.s.visible | self.s.removed:
            raise self._refused("Add", f"{b} is answered OK, and cannot be added")

    def _plans(self, command: Any, entry: Entry) -> None:
        self.planned = entry.index
        reports = {report.name: report.token for report in command.status_updates}
        for part in entry.done.completed_jobs:
            self.reporters[part.state.name, part.state.token] = reports[part.state.name]
        for part in entry.done.new_jobs:
            sources = self._sources(part.plan)
            if (sources, self.s.term) not in self.s.late:
                self._do("Propose", sources)

    def _sources(self, plan: Any) -> m.Sources:
        found = self.sources[plan.name] = tuple(sorted(self.block_of[ulid] for ulid in plan.source_blocks))
        return found

    def _updates(self, command: Any, entry: Entry, before: Shown, after: Shown) -> None:
        if entry.code != OK:
            return
        done = entry.done
        for key in done.deleted:
            self._confirms((key.index, key.name), before)
        for part in done.completed_jobs:
            self._completes(command, part)
        if done.updated_jobs and command.term != entry.term:
            raise self._refused("UpdatePlan", f"a plan of term {command.term} renews a lease in term {entry.term}")
        for part in done.evicted_jobs:
            self._do("Evict", self.sources[part.state.name])
        for part in done.assigned_jobs:
            self._assigns((part.state.name, part.state.token))
        for part in done.new_jobs:
            sources = self._sources(part.plan)
            if self.planned == entry.index - 1:
                self._do("NewJob", sources)
            else:
                self._do("LateJob", (sources, self.terms[command.term]))
            for told in after.plans[part.plan.name].tombstones if part.plan.name in after.plans else ():
                is_unit, whats = self.of_tombstone(told)
                for what in whats:
                    self._do("HandOutUnit" if is_unit else "HandOut", sources, what)

    def _confirms(self, key: TombKey, before: Shown) -> None:
        is_unit, whats = self.of_tombstone(before.tombstones[key])
        for what in whats:
            self._do("ConfirmUnit" if is_unit else "Confirm", what)

    def _assigns(self, lease: Lease) -> None:
        taken = {of for (name, token), of in self.workers.items()
                 if (self.sources[name], self.tokens[name, token]) in self.s.jobs}
        me = next(f"Worker#{number}" for number in range(LEASES) if f"Worker#{number}" not in taken)
        self.workers = {other: of for other, of in self.workers.items() if of != me}
        self._do("Assign", self.sources[lease[0]], me=me)
        self.workers[lease], self.tokens[lease] = me, self.s.assigns

    def _completes(self, command: Any, part: Any) -> None:
        name = part.state.name
        lease = name, self.reporters[name, part.state.token]
        if lease not in self.workers:
            raise self._refused("Worker.Complete", f"{name} is ended by a worker that has it no more")
        asked = next(one for one in command.plan_update.completed_jobs if one.state.name == name)
        (made,) = asked.compacted_blocks.new_blocks
        if self.block_of.get(made.id) != m.result_of(self.sources[name]):
            raise self._refused("Worker.Complete", f"the result of {name} is {self.block_of.get(made.id)}")
        me, new = self.workers[lease], m.result_of(self.sources[name])
        if not self.refiner.local(me).ran and new in self.s.objects:
            self._do("Run", me=me)  # a plan that came again has given it the same lease once more; its result is written
        self._do("Complete", me=me)

    def _truncates(self, command: Any, entry: Entry, after: Shown) -> None:
        """A unit that was dropped has a tombstone with the log index of the entry."""
        for told in command.tombstones:
            if (entry.index, told.shard.name) in after.tombstones:
                if command.term != entry.term:
                    raise self._refused("Truncate", f"a command of term {command.term} has an effect in term {entry.term}")
                self._do("Truncate", self.of_tombstone(told)[1][0])

    def _forgets(self, after: Shown) -> None:
        for b in sorted(self.s.removed - {self.block_of[of.ulid] for of in after.removed}):
            self._do("Forget", b)
        for u in sorted(self.s.dropped - set(map(self.unit, after.dropped))):
            self._ages_with(u, after.clock_ns)
            self._do("ForgetUnit", u)

    # --- what is compared

    def _compare(self, after: Shown) -> None:
        """Compare what the index shows with what the model shows. Raises Failure at the first difference."""
        block, s = self.block_of.__getitem__, self.s
        carried: dict[str, set] = {"tombs": set(), "unit_tombs": set()}
        for told in after.tombstones.values():
            is_unit, whats = self.of_tombstone(told)
            job = self.sources[told.job] if told.job else ()
            carried["unit_tombs" if is_unit else "tombs"] |= {(what, job) for what in whats}
        index = {
            "visible": set(map(block, after.visible)), "removed": {block(of.ulid) for of in after.removed},
            "queue": {block(one.ulid) for one in after.waiting},
            "jobs": {(self.sources[name], self.tokens[name, job.token] if job.token else 0)
                     for name, job in after.jobs.items()},
            "dropped": set(map(self.unit, after.dropped)), **carried,
        }
        for name, there in index.items():
            model = getattr(s, name)
            if there != model:
                raise self._refused(f"index.{name}", f"{name}: only the index has {sorted(there - model)}, only the model "
                                    f"{sorted(model - there)}")

    # --- responses to callers

    def _told(self, e: Event) -> None:
        super()._told(e)
        ulids_of = e.body.decode().split()
        if e.op == "added":
            (ulid,) = ulids_of
            if ulid not in self.added:
                raise untrue(self, e, e.keys[1], "it was never visible")
            self.heard = max(self.heard, self.added[ulid])
        elif e.op == "refused":
            b = self.block_of[ulids_of[0]]
            if b[1][0] not in self.s.old and m.unit_of(self.c, b) not in self.s.dropped:
                raise untrue(self, e, e.keys[1], "it is not too old, and its unit is not dropped")
        elif e.op == "read":
            asked = frozenset(self.call.body.decode().split())
            if not any(asked & there == frozenset(ulids_of) for there in self._states()):
                raise untrue(self, e, e.keys[1], "no state of the index since what was told before the call shows that")

    def _states(self) -> list[frozenset[str]]:
        """Return the ULIDs that were visible, in each state that a reader's question may show."""
        first = self.call.since.heard
        return self.visible[first:] if first >= 0 else [frozenset[str](), *self.visible]

    def had_results(self) -> list[bool]:
        """Return for each of these states whether a result of a job was visible."""
        return [any(self.block_of[ulid][0] > 0 for ulid in there) for there in self._states()]



"""Judge the metadata index by its model: each log entry changes the index as actions of model/protocols/metadata_fsm.py do.

The index's own answers say which actions an entry is. Each of them must be possible in the model, in the order in which the
index takes them. After the entry the index must show what the model shows: blocks, waiting ones, jobs with their workers,
tombstones with the jobs that carry them, what is known as removed or dropped. Every visible block must have its object. There
is one shard. Writers' blocks are anonymous, and results belong to one tenant.

A datum's number is congruent to its window, as in the model. Time makes no entry: what the horizon refuses is too old. A worker
is known by its lease.
"""

from collections import Counter
from typing import Any

from highwater.impl.codecs.index import names, rows, ulids
from highwater.impl.codecs.index.messages import AddBlock, GetPlan, Truncate, UpdatePlan
from highwater.impl.codecs.index.partitions import WINDOW_S, partition_of
from highwater.impl.codecs.index.rows import Unit
from highwater.impl.index import jobs, queue, tombstones, units
from highwater.impl.index.answers import OK
from highwater.impl.index.config import S
from highwater.impl.index.kv import under
from highwater.impl.index.machine import clock_ns
from highwater.model.protocols import metadata_fsm as m
from tests.support.metadata_index import START_S, Story

WINDOWS, BEFORE = 16, 2  # windows of time that a story may have, and how many of them may be before its start
SHARD, TENANT = 1, "t"  # of everything, and of results


Lease = tuple[str, int]  # a job's name, and the log index of its assignment, which jobs of one poll have in common


class NotAStep(AssertionError):
    """The index did what no action of the model does."""


def window_of(ulid: str) -> int:
    return (partition_of(ulid).start_ns // S - START_S) // WINDOW_S + BEFORE


class Judge:
    """The model beside an index. `number` is that of the writers' blocks there may be."""

    def __init__(self, story: Story, number: int):
        self.story = story
        unbounded = dict.fromkeys(("ASSIGNS", "TRUNCATES", "AGES", "EVICTS", "MAX_LATE", "MAX_TERM"))
        self.c = m.Constants(BLOCKS=WINDOWS * number, WINDOWS=WINDOWS, LEVELS=len(story.config.levels), **unbounded)
        self.s = m.initial()
        self.block_of: dict[str, m.Block] = {}  # by ULID
        self.ulid_of: dict[m.Block, str] = {}
        self.sources: dict[str, m.Sources] = {}  # by the name of a job
        self.workers: dict[Lease, m.Worker] = {}
        self.reported: dict[Lease, int] = {}  # a job as it was when a plan was made -> the token of the report
        self.data: dict[str, m.Datum] = {}  # by the name of a dataset
        self.named: dict[tuple[int, str], tuple[bool, list[Any]]] = {}  # tombstone -> whether of a unit, and what it names
        self.taken: Counter[str] = Counter()

    # --- steps of the model

    def step(self, action: str, *choices: Any) -> None:
        """Take an action of the index with these choices."""
        for chosen, after, _ in m.INDEX[action](self.c, 0, self.s, ()):
            if chosen == choices:
                self.taken[action] += 1
                self.s = after
                return
        raise NotAStep(f"{action}{choices} is not possible in the model")

    def worker_step(self, action: str, lease: Lease, *choices: Any) -> None:
        for chosen, after, worker in m.WORKER[action](self.c, 0, self.s, self.workers.get(lease, m.Worker())):
            if chosen == choices:
                self.taken[action] += 1
                self.s, self.workers[lease] = after, worker
                return
        raise NotAStep(f"{action}{choices} of the worker with {lease} is not possible in the model")

    # --- names

    def know(self, ulid: str, block: m.Block) -> None:
        self.ulid_of.setdefault(block, ulid)
        self.block_of.setdefault(ulid, block)

    def writers_block(self, made: Any) -> None:
        """Give a block's datum a number, when it is met first."""
        if made.id not in self.block_of:
            d = self.data[made.string_table[made.datasets[0].name]] = WINDOWS * len(self.data) + window_of(made.id)
            self.know(made.id, m.raw(d))

    def unit(self, unit: Unit) -> m.Unit:
        return ((unit.partition.start_ns // S - START_S) // WINDOW_S + BEFORE, int(unit.tenant != ""))

    def unit_of_tombstone(self, told: Any) -> m.Unit:
        return ((told.timestamp // S - START_S) // WINDOW_S + BEFORE, int(told.tenant != ""))

    def path(self, b: m.Block) -> str:
        return names.block_path(SHARD, TENANT if b[0] else "", self.ulid_of[b], b[0])

    # --- time, and objects

    def grow_old(self, now_ns: int) -> None:
        """Let data become too old. Those of a window that nobody has written are when the window is."""
        before_ns = now_ns - self.story.config.horizon_ns
        old = set(self.s.old)
        for ulid, (level, data) in self.block_of.items():
            if level == 0 and ulids.time_ns(ulid) < before_ns:
                old.update(data)
        written = {data[0] for level, data in self.block_of.values() if level == 0}
        for window in range(WINDOWS):
            if (START_S + (window - BEFORE + 1) * WINDOW_S) * S <= before_ns:
                old.update(d for d in range(window, self.c.BLOCKS, WINDOWS) if d not in written)
        self.s = self.s._replace(old=frozenset(old))

    def lose_objects(self) -> None:
        """Take the deletions of objects that are gone from the store."""
        for b in sorted(self.s.objects):
            if self.path(b) not in self.story.objects and b in self.s.objects:
                by_unit = m.unit_of(self.c, b) in self.s.swept | {u for u, _ in self.s.unit_tombs}
                if any(b == of for of, _ in self.s.tombs):
                    self.step("Delete", b)
                elif by_unit:
                    self.step("Sweep", m.unit_of(self.c, b))
                else:
                    raise NotAStep(f"the object of {b} is deleted, and no tombstone names it")

    # --- entries

    def entry(self, command: Any, answer: Any, term: int) -> None:
        """Take the actions of an entry that the index has applied, and compare the two. Raises NotAStep."""
        if isinstance(command, AddBlock):
            self.writers_block(command.metadata)
        with self.story.machine.kv.snapshot() as shown:
            self.grow_old(clock_ns(shown))
            self.lose_objects()
            if isinstance(command, AddBlock):
                self.added(command.metadata, answer)
            elif isinstance(command, GetPlan):
                self.planned(command, answer.value)
            elif isinstance(command, UpdatePlan):
                self.updated(shown, command, answer, term)
            elif isinstance(command, Truncate):
                self.truncated(shown, command, answer)
            self.lose_objects()
            self.forgotten(shown)
            self.compare(shown)

    def added(self, made: Any, answer: Any) -> None:
        b = self.block_of[made.id]
        if b not in self.s.objects | self.s.deleted:
            self.step("Put", b[1][0])
            self.lose_objects()
        possible = any(chosen == b[1] for chosen, *_ in m.add(self.c, 0, self.s, ()))
        if possible:
            if answer.code != OK:
                raise NotAStep(f"{b} is refused: {answer.text}")
            self.step("Add", b[1][0])
        elif answer.code == OK and b not in self.s.visible | self.s.removed:
            raise NotAStep(f"{b} is answered OK, and cannot be added")

    def planned(self, command: GetPlan, plan: Any) -> None:
        reports = {report.name: report.token for report in command.status_updates}
        for part in plan.completed_jobs:
            self.reported[part.state.name, part.state.token] = reports[part.state.name]

    def updated(self, shown: Any, command: UpdatePlan, answer: Any, term: int) -> None:
        if answer.code != OK:
            return
        if command.term != term:
            raise NotAStep(f"a plan of term {command.term} has an effect in term {term}")
        done = answer.value
        for key in done.deleted:
            self.confirmed(key)
        for part in done.completed_jobs:
            self.completed(command, part)
        for part in done.evicted_jobs:
            self.step("Evict", self.sources[part.state.name])
        for part in done.assigned_jobs:
            self.worker_step("Assign", (part.state.name, part.state.token), self.sources[part.state.name])
        for part in done.new_jobs:
            sources = tuple(sorted(self.block_of[ulid] for ulid in part.plan.source_blocks))
            self.sources[part.plan.name] = sources
            self.step("NewJob", sources)
            for message in jobs.plan(shown, part.plan.name).tombstones if jobs.plan(shown, part.plan.name) else ():
                if message.HasField("shard"):
                    self.step("HandOutUnit", sources, self.unit_of_tombstone(message.shard))
                for ulid in message.blocks.blocks:
                    self.step("HandOut", sources, self.block_of[ulid])

    def confirmed(self, key: Any) -> None:
        """A tombstone is known by its log index and its name; the index says which blocks it had."""
        is_unit, whats = self.named[key.index, key.name]
        for what in whats:
            if what not in (self.s.swept if is_unit else self.s.deleted):
                self.step("Sweep" if is_unit else "Delete", what)
            self.step("ConfirmUnit" if is_unit else "Confirm", what)

    def completed(self, command: UpdatePlan, part: Any) -> None:
        name = part.state.name
        lease = name, self.reported[name, part.state.token]
        asked = next(one for one in command.plan_update.completed_jobs if one.state.name == name)
        new = m.result_of(self.sources[name])
        (made,) = asked.compacted_blocks.new_blocks
        data = sorted(self.data[made.string_table[one.name]] for one in made.datasets)
        if tuple(data) != new[1] or made.compaction_level != new[0]:
            raise NotAStep(f"the result of {name} has the data {data}, and not {new[1]}")
        self.know(made.id, new)
        if not self.workers[lease].ran:
            self.worker_step("Run", lease)
        self.worker_step("Complete", lease)

    def truncated(self, shown: Any, command: Truncate, answer: Any) -> None:
        """A unit that was dropped has a tombstone with the log index of the entry."""
        made = {one.name for one in tombstones.all_of(shown) if one.index == self.story.index}
        for message in command.tombstones if answer.code == OK else ():
            if message.shard.name in made:
                self.step("Truncate", self.unit_of_tombstone(message.shard))

    def forgotten(self, shown: Any) -> None:
        for b in sorted(self.s.removed - self.known_as_removed(shown)):
            self.step("Forget", b)
        for u in sorted(self.s.dropped - self.known_as_dropped(shown)):
            self.step("ForgetUnit", u)

    # --- what is compared

    def number(self, job: Any) -> int:
        """Return the model's token of a job."""
        return self.workers[job.name, job.token].token if job.token else 0

    def known_as_removed(self, shown: Any) -> set[m.Block]:
        keys = [key for bucket in (rows.REMOVED, rows.GONE) for key, _ in under(shown, bucket)]
        return {self.block_of[rows.removed_of(key).ulid] for key in keys}

    def known_as_dropped(self, shown: Any) -> set[m.Unit]:
        return {self.unit(rows.unit_of(key[1:])[0]) for key, _ in under(shown, rows.DROPPED)}

    def compare(self, shown: Any) -> None:
        """Compare what the index shows with what the model shows. Raises NotAStep at the first difference."""
        block = self.block_of.__getitem__
        carried: dict[str, set] = {"tombs": set(), "unit_tombs": set()}
        self.named = {}
        for one in tombstones.all_of(shown):
            job = self.sources[one.message.job] if one.message.job else ()
            is_unit = one.message.HasField("shard")
            whats = [self.unit_of_tombstone(one.message.shard)] if is_unit else [*map(block, one.message.blocks.blocks)]
            carried["unit_tombs" if is_unit else "tombs"] |= {(what, job) for what in whats}
            self.named[one.index, one.name] = is_unit, whats
        index = {
            "visible": {block(ulid) for _, ulid in units.visible(shown)}, "removed": self.known_as_removed(shown),
            "queue": {block(one.ulid) for one in queue.waiting(shown)},
            "jobs": {(self.sources[job.name], self.number(job)) for job in jobs.states(shown)},
            "dropped": self.known_as_dropped(shown), **carried,
        }
        for name, there in index.items():
            model = getattr(self.s, name)
            if there != model:
                raise NotAStep(f"{name}: only the index has {sorted(there - model)}, only the model {sorted(model - there)}")
        for b in sorted(self.s.visible):
            if self.path(b) not in self.story.objects:
                raise NotAStep(f"{b} is visible, and its object is gone")

"""Drive the metadata index as its clients do: writers, workers, the cleaner, and the objects that they write and delete.

A datum is a dataset, named `d<number>`. A worker concatenates the datasets of its sources, as the real one does.
"""

from collections import Counter
from pathlib import Path
from typing import Any

from highwater.impl.codecs.index import names, rows, snapshot, ulids
from highwater.impl.codecs.index.entries import entry
from highwater.impl.codecs.index.messages import (
    IN_PROGRESS,
    SUCCESS,
    AddBlock,
    BlockMeta,
    CompactedBlocks,
    Dataset,
    GetPlan,
    StatusUpdate,
    TombstoneKey,
    Truncate,
    UpdatePlan,
)
from highwater.impl.codecs.index.partitions import partition_of
from highwater.impl.codecs.index.rows import Block, Unit
from highwater.impl.index import jobs, queue, removed, tombstones, units
from highwater.impl.index.answers import Answer
from highwater.impl.index.config import Config, Level, S
from highwater.impl.index.kv import MemoryKV, under
from highwater.impl.index.machine import Entry, Machine

START_S = 1_750_399_200  # 2025-06-20T06:00Z, where a partition begins
SMALL = Config(query_ns=S, retry_ns=S, horizon_ns=100 * S, delay_ns=200 * S, lease_ns=10 * S, failures=2,
               retry_failed_ns=50 * S, jobs=2, levels=(Level(2, 30 * S), Level(2, 60 * S)), tombstones=2, hand_outs=2)


def block(number: int, at_s: int = 0, tenant: str = "", shard: int = 1, level: int = 0, data: tuple[str, ...] | None = None,
          ulid: str | None = None) -> Any:
    """Return a block that was made `at_s` after the start."""
    ulid = ulid or ulids.made((START_S + at_s) * 1000, b"\0" * 8 + number.to_bytes(2))
    table = ["", *dict.fromkeys(filter(None, (tenant, "writer", "kind", "cpu", *(data or (f"d{number}",)))))]
    made = BlockMeta(id=ulid, tenant=table.index(tenant), shard=shard, compaction_level=level, min_time=1000, max_time=2000,
                     created_by=table.index("writer"), string_table=table)
    for name in data or (f"d{number}",):
        made.datasets.append(Dataset(tenant=table.index(tenant), name=table.index(name), min_time=1000, max_time=2000,
                                     labels=[1, table.index("kind"), table.index("cpu")]))
    return made


class Story:
    """An index with a log. Time is in seconds since the start."""

    def __init__(self, config: Config = SMALL, kv: Any = None):
        self.machine, self.config = Machine(kv or MemoryKV(), config), config
        self.index, self.term, self.now_s = 0, 1, 0
        self.log: list[Entry] = []
        self.objects: set[str] = set()

    def put(self, command: Any, term: int | None = None) -> Answer:
        """Append a command and apply it."""
        self.index += 1
        body = entry(command) if command is not None else b""
        self.log.append(Entry(self.index, term or self.term, (START_S + self.now_s) * S, body))
        answer = self.machine.apply(self.log[-1])
        assert answer is not None
        return answer

    def add(self, made: Any) -> Answer:
        self.objects.add(names.block_path(made.shard, "", made.id, made.compaction_level))
        return self.put(AddBlock(metadata=made))

    def get_plan(self, reports: tuple[Any, ...] = (), capacity: int = 9, deleted: tuple[Any, ...] = ()) -> Any:
        """Return the plan for a poll."""
        return self.put(GetPlan(status_updates=reports, assign_jobs_max=capacity, deleted=deleted)).value

    def update_plan(self, plan: Any, results: dict[str, Any] | None = None, made_in: int | None = None) -> Answer:
        for part in plan.completed_jobs:
            if results and part.state.name in results:
                part.compacted_blocks.CopyFrom(results[part.state.name])
        return self.put(UpdatePlan(term=made_in or self.term, plan_update=plan))

    def poll(self, reports: tuple[Any, ...] = (), capacity: int = 9, deleted: tuple[Any, ...] = (),
             results: dict[str, Any] | None = None) -> Any:
        """Poll, and return what of the plan had an effect."""
        plan = self.get_plan(reports, capacity, deleted)
        done = self.update_plan(plan, results).value
        assert done is not None
        return done

    def assign(self) -> list[Any]:
        """Poll until the jobs that are ready are planned and assigned; return the assignments (state and plan)."""
        return [*self.poll().assigned_jobs, *self.poll().assigned_jobs]

    def result(self, plan: Any) -> Any:
        """Compact the sources of a plan, and write the object."""
        sources = self.get(plan.tenant, plan.shard, list(plan.source_blocks))
        data = tuple(source.string_table[part.name] for source in sources for part in source.datasets)
        tenant = plan.tenant or "t"
        made = block(0, tenant=tenant, shard=plan.shard, level=plan.compaction_level + 1, data=data or ("none",),
                     ulid=names.compacted_id(list(plan.source_blocks), plan.compaction_level + 1, tenant))
        self.objects.add(names.block_path(made.shard, tenant, made.id, made.compaction_level))
        return CompactedBlocks(source_blocks={"blocks": plan.source_blocks}, new_blocks=[made])

    def finish(self, given: Any, deleted: bool = True, result: Any = None, capacity: int = 0) -> Any:
        """Do an assigned job and report it; with `deleted` also what its tombstones name. Nobody hears of further jobs."""
        result = result or self.result(given.plan)
        keys = self.delete(given.plan.tombstones) if deleted else ()
        return self.poll((success(given),), capacity, keys, {given.state.name: result})

    def delete(self, several: Any) -> tuple[Any, ...]:
        """Delete what tombstones name; return their keys."""
        for message in several:
            self.objects -= set(tombstones.objects_of(message, self.listed(message)))
        return tuple(TombstoneKey(index=one.index, name=tombstones.name_of(one)) for one in several)

    def listed(self, message: Any) -> list[tuple[str, str]]:
        """List the objects below the prefixes of a unit's tombstone, with their ULIDs."""
        told = message.shard
        prefixes = (f"blocks/{told.shard}/{told.tenant or 'anonymous'}/",
                    *(() if told.tenant else (f"segments/{told.shard}/anonymous/",)))
        return [(key.split("/")[3], key) for key in sorted(self.objects) if key.startswith(prefixes)]

    def truncate(self, *several: Unit, version: int | None = None, made_in: int | None = None) -> Answer:
        """Drop units as they are now, or as they were at a version."""
        command = Truncate(term=made_in or self.term)
        for unit in several:
            told = command.tombstones.add().shard
            told.name = names.unit_tombstone_name(unit.partition, unit.tenant, unit.shard)
            told.timestamp, told.duration = unit.partition.start_ns, unit.partition.length_s * S
            told.shard, told.tenant = unit.shard, unit.tenant
            told.unit_version = version or self.version(unit)
        return self.put(command)

    # --- what is there

    def version(self, unit: Unit) -> int:
        with self.machine.kv.snapshot() as shown:
            times = units.times(shown, unit)
        return times.version if times else 0

    def get(self, tenant: str, shard: int, several: list[str]) -> list[Any]:
        with self.machine.kv.snapshot() as shown:
            return units.get(shown, tenant, shard, several)

    def visible(self) -> list[Block]:
        with self.machine.kv.snapshot() as shown:
            return [Block(ulid, unit.shard, unit.tenant) for unit, ulid in units.visible(shown)]

    def data(self) -> Counter[str]:
        """Return how often each datum is visible."""
        return Counter(one.string_table[part.name] for named in self.visible()
                       for one in self.get(named.tenant, named.shard, [named.ulid]) for part in one.datasets)

    def states(self) -> dict[str, Any]:
        with self.machine.kv.snapshot() as shown:
            return {job.name: job for job in jobs.states(shown)}

    def plans(self) -> dict[str, Any]:
        with self.machine.kv.snapshot() as shown:
            return {name: jobs.plan(shown, name) for name in self.states()}

    def waiting(self) -> list[Block]:
        with self.machine.kv.snapshot() as shown:
            return [queue.block_of(one) for one in queue.waiting(shown)]

    def tombstones(self) -> list[Any]:
        with self.machine.kv.snapshot() as shown:
            return [one.message for one in tombstones.all_of(shown)]

    def overdue(self) -> list[Any]:
        """Return what the index's own deleter has to do."""
        with self.machine.kv.snapshot() as shown:
            return tombstones.for_own_deleter(shown, (START_S + self.now_s) * S, self.config)

    def content(self) -> list[tuple[bytes, bytes]]:
        """Return all rows but the applied index and the clock."""
        with self.machine.kv.snapshot() as shown:
            return [row for row in shown.range(b"", None) if row[0] not in (rows.APPLIED, rows.CLOCK)]

    def check(self) -> None:
        """Assert what holds after every entry."""
        assert not [name for name, count in self.data().items() if count > 1], f"a datum is visible twice: {self.data()}"
        visible = self.visible()
        sources = [Block(ulid, plan.shard, plan.tenant) for plan in self.plans().values() for ulid in plan.source_blocks]
        at_work = Counter((*sources, *self.waiting()))
        assert max(at_work.values(), default=1) == 1, f"a block has two jobs, or waits beside one: {at_work}"
        assert set(at_work) <= set(visible), "a job or the queue has a block that is not visible"
        top = len(self.config.levels)
        levels = {named: one.compaction_level for named in visible for one in self.get(named.tenant, named.shard, [named.ulid])}
        assert {named for named, level in levels.items() if level < top} == set(at_work), "a block waits for nothing"
        paths = {names.block_path(named.shard, named.tenant, named.ulid, level) for named, level in levels.items()}
        assert paths <= self.objects, f"dangling: {paths - self.objects}"
        with self.machine.kv.snapshot() as shown:
            assert not [named for named in visible if removed.is_removed(shown, named)]
            assert sorted(self.states()) == sorted(key[1:].decode() for key, _ in under(shown, rows.JOB_PLAN))
            buried = {rows.removed_of(key) for key, _ in under(shown, rows.REMOVED)}
        named = {Block(ulid, one.blocks.shard, one.blocks.tenant) for one in self.tombstones() for ulid in one.blocks.blocks}
        assert buried == named, "a removed object has no tombstone"


def success(given: Any) -> Any:
    return StatusUpdate(name=given.state.name, token=given.state.token, status=SUCCESS)


def progress(given: Any) -> Any:
    return StatusUpdate(name=given.state.name, token=given.state.token, status=IN_PROGRESS)


def anonymous(at_s: int = 0, shard: int = 1) -> Unit:
    """Return the unit of anonymous blocks that were made then."""
    return Unit(partition_of(block(0, at_s).id), "", shard)


def stream_of(out: Path) -> bytes:
    """Return the rows of a snapshot file before compression. Raises DamagedSnapshot."""
    return snapshot.stream(snapshot.decode(out.read_bytes())[1])[0]

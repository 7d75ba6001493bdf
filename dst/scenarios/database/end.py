"""Judge what callers of a database were told, and read everything back at the end.

Three things are compared: the rows of the log, what callers saw, and what the store holds in the end. Nothing acknowledged is
lost. Nothing is there that definitely failed. A checkpoint that lasts shows all that was acknowledged before it was asked for.

A clone is judged as a database is. Its log begins with the rows of its source: dst/scenarios/database/cloned.py. A database
that was destroyed has its tombstone. One that is only marked is read without a writer.
"""

from collections.abc import Coroutine, Iterator, Sequence
from itertools import count
from typing import Any, TypeVar

from highwater.dst.actors import METRICS, Actors, raise_anomalies
from highwater.dst.scenarios.database.calls import Asked, Gone, Pairs, Taken, View, joined, pairs, seq_of
from highwater.dst.scenarios.database.cloned import first_manifest, log_of_clone
from highwater.dst.world.ids import ClientIds
from highwater.dst.world.store import SimulatedStore
from highwater.impl.codecs.destroyed import SEALED
from highwater.impl.db import reader
from highwater.impl.db.db import Db, Options
from highwater.impl.db.manifest import manifests_of
from highwater.impl.db.pinned import DbReader
from highwater.impl.errors import StoreError
from highwater.impl.manifests.spans import EVERYTHING
from highwater.impl.protocols.destroy_mark import DatabaseDestroyed
from highwater.impl.stores.memory import MemoryStore
from highwater.impl.world import World
from highwater.traces.event import Event
from highwater.traces.histories.serial import Operation, anomalies
from highwater.traces.histories.versions import Batch, Logged, Read, logged, named, of_batches, of_reads
from highwater.traces.protocols.db import CLONE, FOLDERS, ROOT, WAL
from highwater.traces.refine import Failure

Result = TypeVar("Result")
SAID = {"written": "committed", "not written": "failed"}  # of writes; after anything else the batch may be there


def final_check(actors: Actors, events: list[Event]) -> None:
    log = logged(events, WAL)
    check(actors, ROOT, log, ())
    if actors.shape.cloners and (first := first_manifest(events)):
        cloned, last = log_of_clone(events, first)
        batches = [one.what.batch for one in actors.kept if one.root == ROOT and isinstance(one.what, Asked)]
        check(actors, CLONE, cloned, [batch for batch in batches if batch.seq <= last])


def check(actors: Actors, root: str, log: Logged, others: Sequence[Batch]) -> None:
    """Judge what callers of one database saw, and what is there. `others`: the batches of the database it was cloned from, some
    of which it has."""
    kept = [one.what for one in actors.kept if one.root == root]
    batches = [one.batch for one in kept if isinstance(one, Asked)]
    raise_anomalies([*of_batches(log, batches)])
    order = {seq: name for seq, name in sorted(named(log, [*others, *batches]).items()) if name}
    ours = {batch.name for batch in batches}
    operations = [of if of.update in ours else of._replace(update="") for of in actors.history()]
    for history in histories(operations, [one for one in kept if isinstance(one, View)], order):
        raise_anomalies(anomalies(history, [*order.values()]))
    raise_anomalies([*of_reads(log, [one for one in kept if isinstance(one, Read)], actors.shape.skew_ms, joined)])
    raise_anomalies([*read_back(actors, root, log, operations, kept)])


# --- what callers saw

def histories(operations: list[Operation], views: list[View], order: dict[int, str]) -> tuple[list[Operation], list[Operation]]:
    """Return the writes and the reads as those of a list of updates: once with what writers have shown, once with that of
    readers. `order`: number -> update, ascending.

    A writer may show what is old once another one has opened. So only the reads of the latest one count. Of a reader the state
    counts with which it begins. It may show a batch while the put of it is under way, and so before its writer does. But what a
    writer has shown is durable: for readers that begin later, it is committed."""
    writes = [of._replace(said=SAID.get(of.said, "unknown")) for of in operations if of.update]
    begun = {of.update: of for of in writes}
    of_writers, of_readers = list[Operation](), list[Operation]()
    for view in views:
        of = operations[view.place]
        if any(other.epoch > view.epoch > 0 and operations[other.place].end < of.begin for other in views):
            continue
        read = of._replace(said="read", seen=tuple(name for seq, name in order.items() if seq <= view.seq))
        if view.epoch:
            of_writers.append(read)
            of_readers += [begun[name]._replace(end=of.end, said="committed") for name in read.seen if name in begun]
        else:
            of_readers.append(read)
    return [*writes, *of_writers], [*writes, *of_readers]


# --- the end

class Still:
    """A clock that stands still."""

    def __init__(self, at_ms: int):
        self.at_ms = at_ms

    def now_ms(self) -> int:
        return self.at_ms


def done(work: Coroutine[Any, Any, Result]) -> Result:
    """Return the result of work that waits for nothing: a store in memory answers at once."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value
    raise RuntimeError("it waits for something")


def world_of(store: SimulatedStore, now_ms: int, number: int) -> World:
    """Return a world with a copy of the store, for a client of this number that nobody else has."""
    copy, clock = MemoryStore(lambda: now_ms), Still(now_ms)
    for key in store.keys:
        done(copy.put(key, store.objects[key][0].body))
    return World(copy, clock, ClientIds(clock, number, count()), METRICS)  # pyright: ignore[reportArgumentType]  # it only stands


def read_back(actors: Actors, root: str, log: Logged, operations: list[Operation], kept: list[Any]) -> Iterator[str]:
    """Open the database on what is in the store, and read all of it, and all of each checkpoint that lasts."""
    now_ms = actors.kernel.now_ms
    world = world_of(actors.store, now_ms, len(actors.ids))
    ends = [one.moment for one in kept if isinstance(one, Gone)]
    if ends or is_sealed(actors.store, root):
        yield from gone(actors.store, root, operations, min(ends, default=actors.moments))
        return
    if not log.rows:
        return
    reads = list[Read]()
    for taken in [one for one in kept if isinstance(one, Taken) and one.lasts]:
        seq, shown = opened(f"checkpoint {taken.id}", checkpoint(world, root, taken.id))
        least = acked_before(operations[taken.place].begin, operations, kept)
        if seq < least:
            yield f"old checkpoint: {taken.id} shows the rows up to {seq}, and {least} was written before it was asked for"
        reads.append(Read(f"checkpoint {taken.id}", seq, now_ms, now_ms, EVERYTHING, shown))
    is_marked = any(e.op == "marked" and e.body == root.encode() for e in actors.told)
    seq, shown = opened(f"the database {root}", (marked if is_marked else whole)(world, root))
    if seq != log.last:
        yield f"rows lost: in the end the last number is {seq}, and the log ends with {log.last}"
    reads.append(Read("the end", seq, now_ms, now_ms, EVERYTHING, shown))
    yield from of_reads(log, reads, actors.shape.skew_ms, joined)


def is_sealed(store: SimulatedStore, root: str) -> bool:
    boundary = store.objects.get(FOLDERS[root].manifests.boundary_key)
    return boundary is not None and int(boundary[0].body) >= SEALED


def gone(store: SimulatedStore, root: str, operations: list[Operation], moment: int) -> Iterator[str]:
    """A database that was destroyed stays so: its tombstone lets no manifest pass, and no write that begins later is
    acknowledged."""
    for of in operations:
        if of.update and of.said == "written" and of.begin > moment:
            yield f"written too late: {of.client} was told that {of.update} is written, and {root} was destroyed before"
    if not is_sealed(store, root):
        yield f"no tombstone: {root} was destroyed, and its boundary lets manifests pass"


def opened(what: str, work: Coroutine[Any, Any, tuple[int, Pairs]]) -> tuple[int, Pairs]:
    try:
        return done(work)
    except StoreError as error:
        raise Failure("safety", "history:cannot read", f"in the end {what} cannot be read: {type(error).__name__}: {error}"
                      ) from error


async def whole(world: World, root: str) -> tuple[int, Pairs]:
    try:
        db = await Db.open(world, root, Options(joined, poll_ms=0))
    except DatabaseDestroyed:
        return await marked(world, root)  # whoever marked it was not told so
    return db.seq, await pairs(db._reader(EVERYTHING).scan(EVERYTHING, world.clock.now_ms(), db.seq))


async def marked(world: World, root: str) -> tuple[int, Pairs]:
    """Read a database that takes no writer any more."""
    state = await reader.opened(world.store, root)
    seq = max([state.manifest.last_l0_seq, *(row.seq for row in state.unflushed)])
    return seq, await pairs(reader.Reader(world.store, state).scan(EVERYTHING, world.clock.now_ms(), seq))


async def checkpoint(world: World, root: str, taken: str) -> tuple[int, Pairs]:
    instance = DbReader(manifests_of(world, root), root)
    await instance.open(taken)
    return seq_of(instance), await pairs(instance.snapshot().scan())


def acked_before(moment: int, operations: list[Operation], kept: list[Any]) -> int:
    """Return the highest number that a caller was told before this moment; 0 if there is none."""
    numbers = {one.batch.name: one.batch.seq for one in kept if isinstance(one, Asked)}
    return max((numbers[of.update] for of in operations if of.update and of.end is not None and of.end < moment), default=0)


"""Writers of a database that take over from each other, and what their callers do with them."""

from typing import Any

from highwater.dst.actors import Actors, said_by
from highwater.dst.scenarios.database.calls import BYTES, Asked, Call, Kept, Taken, View, asked, joined, read
from highwater.dst.scenarios.database.shape import Impl, Shape
from highwater.dst.sim.kernel import Client
from highwater.impl.db.db import Db, Options
from highwater.impl.db.manifest import Built
from highwater.impl.db.writes import Op, delete, merge, put
from highwater.impl.world import World
from highwater.traces.histories.versions import Batch
from highwater.traces.protocols.database.rows import digest_of
from highwater.traces.protocols.db import ROOT
from highwater.traces.protocols.db_calls import CALLS
from highwater.traces.refine import Failure

WRITES = ("put", "put", "put", "batch", "delete", "merge", "merge", "ttl")
OPS = (*WRITES, "layers", "burst", "read", "read", "snapshot", "reads", "reads", "reads", "end", "flush", "flush", "flush",
       "checkpoint", "durable", "poll")

MANY = 1 << 30


def options_of(shape: Shape) -> Options:
    most_bytes, most_l0 = (shape.most_bytes, MANY) if shape.most_bytes else (MANY, shape.most_l0)
    return Options(merge=joined, l0_sst_bytes=shape.flush_bytes, max_unflushed_bytes=most_bytes, l0_max_ssts=most_l0,
                   poll_ms=shape.poll_ms, replay_flush=shape.replay_flush or None, attempts=shape.attempts,
                   built=Built(0, 64, 2))


async def writer(actors: Actors, client: Client, world: World, number: int) -> None:
    """Open the database, make calls, and close it, again and again."""
    shape, impl = actors.shape, actors.build(world, actors.shape, number)
    await world.clock.sleep_ms(1 + shape.skew_ms + actors.choose(f"{client.name}.apart", shape.apart_ms))
    while actors.left[client.name]:
        actors.left[client.name] -= 1
        db = await opened(actors, client, world, impl)
        if db is not None:
            await works(Session(actors, client, world, db))
            await db.close()
            actors.tell(client, "closed", b"")
        await world.clock.sleep_ms(1 + actors.choose(f"{client.name}.apart", shape.apart_ms))


async def opened(actors: Actors, client: Client, world: World, impl: Impl, root: str = ROOT) -> Db | None:
    call = Call(actors, client)
    said = await said_by(CALLS, "open", actors.in_time(client, impl.db.open(world, root, options_of(actors.shape))),
                         epoch=lambda db: str(db.epoch))
    db: Db | None = said.value
    call.end(said)
    if db is not None:
        actors.kept.append(Kept(root, View(call.place, db.seq, db.epoch)))
    elif actors.auditing and not actors.shape.destroyers:
        raise Failure("liveness", "liveness:open", f"{client.name} was told {said.keys}, with nobody else at work")
    return db


async def works(of: "Session") -> None:
    """Make calls until the writer is closed, or its caller has had enough."""
    actors, client = of.actors, of.client
    if actors.auditing:
        await read(actors, client, of.db.seq, of.db, of.db.epoch, of.db.root)
        return
    for _ in range(1 + of.choose("session", actors.shape.calls)):
        if not actors.left[client.name] or of.db.wal.closed:
            return
        actors.left[client.name] -= 1
        await of.once(OPS[of.choose("op", len(OPS))])
        await actors.pause(client, of.world)


class Session:
    """One open writer, and what its caller does with it."""

    def __init__(self, actors: Actors, client: Client, world: World, db: Db):
        self.actors, self.client, self.world, self.db = actors, client, world, db
        self.snapshots: list[Any] = []

    def choose(self, of: str, number: int) -> int:
        return self.actors.choose(f"{self.client.name}.{of}", number)

    async def once(self, what: str) -> None:
        """Make one call."""
        actors, client, db = self.actors, self.client, self.db
        if what in WRITES:
            await self.write(what)
        elif what in ("burst", "layers"):
            await getattr(self, what)()
        elif what == "snapshot":
            self.snapshots.append(db.snapshot())
        elif what == "read" or (what in ("reads", "end") and not self.snapshots):
            await read(actors, client, db.seq, db, db.epoch, db.root)
        elif what in ("reads", "end"):
            one = self.snapshots[self.choose("snapshot", len(self.snapshots))]
            if what == "reads":
                await read(actors, client, one.seq, one, root=db.root)
            else:
                one.end()
                self.snapshots.remove(one)
        elif what in ("checkpoint", "durable"):
            await self.checkpoint(what == "durable")
        else:
            await asked(actors, client, what, getattr(db, what)())

    def ops(self, what: str, name: bytes, place: int) -> list[Op]:
        """Return a batch whose values are its name, so that the rows tell whose they are."""
        key = BYTES[place:place + 1]
        if what == "batch":
            return [(put(one, name), delete(one))[one == key] for one in (BYTES[i:i + 1] for i in range(len(BYTES)))]
        if what == "ttl":
            return [(put, merge)[self.choose("ttl.kind", 2)](key, name, 1 + self.choose("ttl", self.actors.shape.ttl_ms))]
        return [delete(key) if what == "delete" else (put, merge)[what == "merge"](key, name)]

    async def write(self, what: str, place: int | None = None) -> None:
        actors, client, db = self.actors, self.client, self.db
        name = f"{'c' * (db.root != ROOT)}{client.name.partition('#')[2]}.{actors.named[client.name]}"
        actors.named[client.name] += 1
        batch = Batch(name, tuple(self.ops(
            what, name.encode(), self.choose("key", len(BYTES)) if place is None else place)))
        call, place = Call(actors, client, name), len(actors.kept)
        actors.kept.append(Kept(db.root, Asked(batch, db.epoch)))
        said = await said_by(CALLS, "write", actors.in_time(client, db.write(list(batch.ops))),
                             rows=lambda seq: f"{seq} {digest_of(batch.ops)}")
        if said.value is not None:
            actors.kept[place] = Kept(db.root, Asked(batch._replace(seq=said.value), db.epoch))
        call.end(said, name.encode())

    async def layers(self) -> None:
        """Write to one key twice, and flush; read a snapshot that was taken in between, perhaps after a compaction."""
        place = self.choose("key", len(BYTES))
        await self.write(WRITES[self.choose("layer", len(WRITES))], place)
        if self.choose("layer.flush", 2):
            await self.flush()
        if self.db.wal.closed:
            return
        self.snapshots.append(snapshot := self.db.snapshot())
        await self.write(WRITES[self.choose("layer", len(WRITES))], place)
        await self.flush()
        await self.world.clock.sleep_ms(1 + self.choose("layer.waits", 2 * self.actors.shape.apart_ms))
        await asked(self.actors, self.client, "poll", self.db.poll())
        if not self.db.wal.closed:
            await read(self.actors, self.client, snapshot.seq, snapshot, root=self.db.root)

    async def burst(self) -> None:
        """Write several batches at the same time, and perhaps flush in between."""
        works = [self.write(WRITES[self.choose("burst", len(WRITES))]) for _ in range(3)]
        if self.choose("burst.flush", 2):
            works.insert(1, self.flush())
        for task in [self.world.clock.spawn(work, f"caller {number}") for number, work in enumerate(works)]:
            await task

    async def flush(self) -> None:
        await asked(self.actors, self.client, "flush", self.db.flush())

    async def checkpoint(self, durable: bool) -> None:
        actors, call = self.actors, Call(self.actors, self.client)
        lifetime_ms = (None, actors.shape.lease_ms)[self.choose("lifetime", 2)]
        said = await said_by(CALLS, "checkpoint", actors.in_time(
            self.client, self.db.checkpoint(lifetime_ms, durable_only=durable)), checkpoint=str)
        call.end(said)
        if said.value is not None:
            actors.kept.append(Kept(self.db.root, Taken(call.place, said.value, lifetime_ms is None)))

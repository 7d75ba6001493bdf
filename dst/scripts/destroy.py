"""Scripts of operators that destroy a database, impl/protocols/destroy.py."""

from highwater.dst.script import LOST, Alone, Script, same
from highwater.impl.codecs.destroyed import HARD, MARK, SOFT, Mark, mark_of, pins_of
from highwater.impl.codecs.json.manifest import DATABASE
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.flatbuffer import uuid_of
from highwater.impl.codecs.slatedb.manifest import ManifestCodec
from highwater.impl.codecs.slatedb.tables import Checkpoint, ExternalDb, WriterCheckpoint
from highwater.impl.errors import OutcomeUnknown
from highwater.impl.layout import Namespace, key_of_sst
from highwater.impl.protocols.boundary_object import InvalidBoundary
from highwater.impl.protocols.checkpoints import create, delete, refresh
from highwater.impl.protocols.destroy import (
    SEALED,
    GraceRuns,
    InvalidDeletion,
    NotMarked,
    fence,
    finish,
    is_sealed,
    mark,
)
from highwater.impl.protocols.destroy_mark import DatabaseDestroyed
from highwater.impl.protocols.sequenced_metadata import Committed, MetadataStore, Recognised

MANIFESTS = Namespace("db", "manifest")


async def begun(alone: Alone) -> MetadataStore:
    manifests = MetadataStore(alone.world, MANIFESTS, DATABASE)
    await manifests.initialise(Manifest(l0=("a",), writer_epoch=1, compactor_epoch=4))
    await alone.real.create(key_of_sst("db", "a"), b"")
    alone.sent()
    return manifests


async def left(alone: Alone) -> list[str]:
    return [of.key for of in (await alone.real.list_page("db/")).entries]


async def hard(alone: Alone) -> None:
    """A hard mark needs a database without checkpoints, and then nothing is left but the tombstone."""
    manifests = await begun(alone)
    await alone.raises(NotMarked, finish(manifests, "db"))
    await create(manifests, "x")
    await alone.raises(InvalidDeletion, mark(manifests, HARD), checkpoint="x")
    await delete(manifests, "x")
    marked = await mark(manifests, HARD, 5)
    same((type(marked), mark_of(marked.value)), (Committed, Mark(HARD, alone.now, alone.now)))
    same((marked.value.writer_epoch, marked.value.compactor_epoch), (2, 5))
    for again in (HARD, SOFT):
        same(type(await mark(manifests, again)), Recognised)
    await alone.raises(DatabaseDestroyed, create(manifests, "y"), mark=Mark(HARD, alone.now, alone.now))
    files = [MANIFESTS.key(i) for i in (1, 2, 3, 4)]
    same((await is_sealed(manifests), await finish(manifests, "db")), (False, [key_of_sst("db", "a"), *files]))
    same((await left(alone), await is_sealed(manifests)), ([MANIFESTS.boundary_key], True))
    same((await alone.real.get(MANIFESTS.boundary_key)).body, b"%d" % SEALED)
    same(await finish(manifests, "db"), [])


async def fenced(alone: Alone) -> None:
    """A writer that has not read the mark meets the fence in the WAL, wherever it appends next."""
    manifests, wal = await begun(alone), Namespace("db", "wal")
    await manifests.update(lambda _, m: m._replace(replay_after_wal_id=1))
    marked = (await mark(manifests, SOFT, 5)).value
    same(await fence(manifests, "db", marked), 2)
    for i in (3, 4):
        await alone.real.create(wal.key(i), b"row")
    alone.fails("create", wal.key(5), LOST)
    same((await fence(manifests, "db", marked), [(await alone.real.get(wal.key(i))).body for i in (2, 5, 6)]), (6, [b""] * 3))
    alone.fails("create", wal.prefix, OutcomeUnknown, 1 + 5)
    await alone.raises(OutcomeUnknown, fence(manifests, "db", marked, 1))
    alone.sent()
    await alone.raises(OutcomeUnknown, fence(manifests, "db", marked))
    same(alone.sent(), ["list wal", *["create 7.sst"] * 5])


async def of_a_writer(alone: Alone) -> None:
    """A writer's own checkpoint is nobody's pin, and goes with the mark."""
    pin, own = Checkpoint("x", 1, 0, 0), Checkpoint("w", 1, 0, 0, WriterCheckpoint(1))
    same(pins_of(Manifest(checkpoints=(own, pin))), (pin,))
    manifests = MetadataStore(alone.world, MANIFESTS, ManifestCodec())
    await manifests.initialise(Manifest(initialized=True, checkpoints=(own._replace(id=uuid_of(4 << 76 | 0b10 << 62 | 1)),)))
    same([one.id for one in (await mark(manifests, HARD)).value.checkpoints], [MARK])


async def soft(alone: Alone) -> None:
    """A soft mark waits for the grace, and for the last checkpoint; a hard one takes its place."""
    manifests = await begun(alone)
    await create(manifests, "x")
    await create(manifests, "ends", 3)
    same(mark_of((await mark(manifests, SOFT, 10)).value), Mark(SOFT, alone.now, alone.now + 10))
    await alone.raises(DatabaseDestroyed, refresh(manifests, "x", 5))
    alone.now += 10
    await alone.raises(GraceRuns, finish(manifests, "db", 1), until_ms=alone.now + 1)
    alone.now += 1
    await alone.raises(InvalidDeletion, finish(manifests, "db", 1), checkpoint="x")
    same([one.id for one in (await manifests.current()).value.checkpoints], ["x", MARK])
    await alone.raises(InvalidDeletion, mark(manifests, HARD), checkpoint="x")
    await delete(manifests, "x")
    same(type(await mark(manifests, HARD)), Committed)
    await finish(manifests, "db", 1)
    same(await left(alone), [MANIFESTS.boundary_key])


async def resumed(alone: Alone) -> None:
    """A call that stops is continued by the next one. What lands late is no manifest of the history, and is deleted, too."""
    manifests = await begun(alone)
    alone.fails("create", "manifest/", LOST)
    same((await mark(manifests, HARD)).id, 2)
    alone.fails("delete", "compacted/", OutcomeUnknown)
    await alone.raises(OutcomeUnknown, finish(manifests, "db"))
    same(await left(alone), [key_of_sst("db", "a"), MANIFESTS.boundary_key, MANIFESTS.key(1), MANIFESTS.key(2)])
    alone.fails("delete", "manifest/", LOST)
    await alone.raises(OutcomeUnknown, finish(manifests, "db"))
    same(await left(alone), [MANIFESTS.boundary_key, MANIFESTS.key(2)])
    same(await finish(manifests, "db"), [MANIFESTS.key(2)])
    for key in (MANIFESTS.key(3), key_of_sst("db", "late")):
        await alone.real.create(key, DATABASE.encode(Manifest()))
    error = await alone.raises(InvalidBoundary, manifests.current())
    same("destroyed for good" in str(error) and "set it to less" not in str(error), True)
    same(await finish(manifests, "db"), [key_of_sst("db", "late"), MANIFESTS.key(3)])


async def of_a_clone(alone: Alone) -> None:
    """A clone that is destroyed lets go of its parents: also if one let go before, and if one is gone."""
    parent, one = [MetadataStore(alone.world, Namespace(root, "manifest"), ManifestCodec()) for root in ("p", "db")]
    await parent.initialise(Manifest(initialized=True))
    final, other = uuid_of(4 << 76 | 0b10 << 62 | 1), uuid_of(4 << 76 | 0b10 << 62 | 2)
    await create(parent, final)
    pins = tuple(ExternalDb(path, source, made) for path, source, made in (
        ("p", final, final), ("p", other, other), ("gone", final, final), ("p", final, None)))
    await one.initialise(Manifest(initialized=True, external_dbs=pins))
    await alone.raises(InvalidDeletion, mark(parent, HARD), checkpoint=final)
    await mark(one, HARD)
    await finish(one, "db")
    same((await parent.current()).value.checkpoints, ())
    same(await left(alone), [MANIFESTS.boundary_key])


SCRIPTS: tuple[Script, ...] = (hard, fenced, of_a_writer, soft, resumed, of_a_clone)

"""Scripts of writers, compactors and collectors with epochs, impl/protocols/manifest_epochs.py."""

from collections.abc import Awaitable, Callable

from highwater.dst.script import HANGS, LARGE, LOST, MANY, UNHEARD, Alone, Script, fails_with, same
from highwater.impl.codecs.json.manifest import EPOCHS, Checkpoint, InvalidManifest
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.errors import AlreadyExists, FencedApplied, FencedUnapplied, OutcomeUnknown, Unavailable
from highwater.impl.layout import Namespace
from highwater.impl.protocols.manifest_epochs import (
    EMPTY,
    Collection,
    Compaction,
    Flush,
    InDoubt,
    Instance,
    ManifestReader,
    Polled,
    initialise,
    open_collector,
    open_compactor,
    open_writer,
)
from highwater.impl.protocols.sequenced_metadata import Committed
from highwater.impl.protocols.sequenced_storage import NoLatest, ObjectVersionExists

decode, encode = EPOCHS.decode, EPOCHS.encode

FILES = Namespace("db", "manifest")
LIST = "list manifest"


def get(file_id: int) -> str:
    return f"get {file_id}.manifest"


def create(file_id: int) -> str:
    return f"create {file_id}.manifest"


def update(latest: int) -> list[str]:
    return [LIST, get(latest), create(latest + 1)]


def another(alone: Alone, file_id: int, manifest: Manifest = EMPTY, after_ms: int = 0) -> Callable[[], Awaitable[None]]:
    """Return what puts another client's file, `after_ms` later."""
    async def put() -> None:
        alone.now += after_ms
        await alone.real.create(FILES.key(file_id), encode(manifest))
    return put


async def written(alone: Alone) -> Instance:
    """Return an open writer. The latest file is 2."""
    await initialise(alone.world, "db")
    writer = await open_writer(alone.world, "db")
    alone.sent()
    return writer


async def first_file(alone: Alone) -> None:
    lasting = Manifest(checkpoints=(Checkpoint("a", 1, 0),))
    await initialise(alone.world, "db", lasting)
    same(alone.sent(), [LIST, create(1)])
    await initialise(alone.world, "db")
    same(alone.sent(), [LIST])
    same((await ManifestReader(alone.world, "db").poll()).manifest, lasting)
    alone.fails("create", "manifest/", lambda: alone.real.create(f"manifest/{1:020d}.manifest", encode(lasting)))
    await initialise(alone.world, "")
    for how in (Unavailable, OutcomeUnknown):
        alone.fails("create", "other/", how)
        await alone.raises(how, initialise(alone.world, "other"))
        await alone.raises(NoLatest, ManifestReader(alone.world, "other").poll())


async def roles(alone: Alone) -> None:
    await initialise(alone.world, "db")
    for number, (opened, role) in enumerate(((open_writer, "writer"), (open_compactor, "compactor"),
                                             (open_collector, "collector")), 2):
        alone.sent()
        instance = await opened(alone.world, "db")
        same((instance.role, instance.epoch), (role, 1))
        same(alone.sent(), update(number - 1))
        same((await opened(alone.world, "db", 1)).epoch, 2)
        await alone.real.delete(FILES.key(number + 1))
    manifest = (await ManifestReader(alone.world, "db").poll()).manifest
    same((manifest.writer_epoch, manifest.compactor_epoch, manifest.collector_epoch), (1, 1, 1))
    fails_with(ValueError, lambda: Instance(alone.world, "db", "reader"))


async def misuse(alone: Alone) -> None:
    writer = await written(alone)
    compactor, collector = (Instance(alone.world, "db", role) for role in ("compactor", "collector"))
    for call in (writer.open(), writer.compact(), writer.drop_ended_checkpoints(), compactor.flush("a"), compactor.compact(),
                 compactor.drop_ended_checkpoints(), collector.drop_ended_checkpoints(), collector.compact(),
                 Instance(alone.world, "db", "writer").flush("a")):
        await alone.raises(RuntimeError, call)
    same(alone.sent(), [])
    await alone.raises(NoLatest, Instance(alone.world, "other", "writer").open())
    await alone.raises(NoLatest, ManifestReader(alone.world, "other").poll())


async def open_that_conflicts(alone: Alone) -> None:
    await initialise(alone.world, "db")
    alone.fails("create", "manifest/", another(alone, 2))
    alone.sent()
    writer = Instance(alone.world, "db", "writer")
    await alone.raises(ObjectVersionExists, writer.open(), id=2)
    same(alone.sent(), update(1))
    await alone.raises(RuntimeError, writer.open())
    alone.fails("create", "manifest/", another(alone, 3, after_ms=999))
    same((await open_writer(alone.world, "db", 1)).epoch, 1)
    same(alone.sent(), update(2) + update(3))
    alone.fails("create", "manifest/", another(alone, 5, after_ms=1000))
    await alone.raises(ObjectVersionExists, open_writer(alone.world, "db", 1), id=5)
    same(alone.sent(), update(4))
    here = Alone()
    await initialise(here.world, "db")
    here.fails("create", "manifest/", another(here, 2, after_ms=499))
    here.fails("create", "manifest/", another(here, 3, after_ms=1))
    await here.raises(ObjectVersionExists, open_writer(here.world, "db", 0.5), id=3)  # a time may be a part of a second
    alone.fails("create", "manifest/", AlreadyExists, 99)
    await alone.raises(NoLatest, open_writer(alone.world, "db", 1))
    same(alone.sent().count(create(6)), 11)
    same(alone.counted.count("update_conflicts"), 14)
    alone.faults.clear()
    alone.fails("create", "manifest/", another(alone, 6, after_ms=-5))  # the clock is set back
    await alone.raises(ObjectVersionExists, Instance(alone.world, "db", "writer").open(), id=6)
    for opened in (open_writer, open_compactor, open_collector):
        alone.fails("create", "manifest/", AlreadyExists)
        await alone.raises(ObjectVersionExists, opened(alone.world, "db"), id=7)


async def open_in_doubt(alone: Alone) -> None:
    await initialise(alone.world, "db")
    writer = Instance(alone.world, "db", "writer")
    alone.fails("list", "manifest/", Unavailable)
    await alone.raises(Unavailable, writer.open())
    alone.fails("list", "manifest/", HANGS)
    await alone.cancels(writer.open())  # nothing of it is under way
    alone.fails("create", "manifest/", Unavailable)
    await alone.raises(Unavailable, writer.open())
    alone.sent()
    alone.fails("create", "manifest/", OutcomeUnknown)
    await alone.raises(OutcomeUnknown, writer.open())  # from the manifest that it has read before
    same(alone.sent(), [create(2)])
    await alone.raises(RuntimeError, writer.open())
    for how in (LOST, OutcomeUnknown):
        again = Instance(alone.world, "db", "writer")
        alone.fails("create", "manifest/", how)
        same((await again.open(1)).value.writer_epoch, again.epoch)
    same(again.epoch, 3)
    cancelled = Instance(alone.world, "db", "writer")
    alone.fails("create", "manifest/", HANGS)
    await alone.cancels(cancelled.open())
    await alone.raises(RuntimeError, cancelled.open())
    alone.fails("create", "manifest/", OutcomeUnknown)
    alone.fails("create", "manifest/", Unavailable)
    await alone.raises(OutcomeUnknown, open_writer(alone.world, "db", 1))
    doubtful = Instance(alone.world, "db", "writer")
    alone.fails("create", "manifest/", Unavailable)
    await alone.raises(Unavailable, doubtful.open())
    alone.fails("create", "manifest/", OutcomeUnknown)
    alone.fails("list", "manifest/", HANGS)
    await alone.cancels(doubtful.open(1))
    await alone.raises(RuntimeError, doubtful.open())


async def flushes(alone: Alone) -> None:
    writer = await written(alone)
    first = await writer.flush("a")
    after, then = first.value.replay_after_wal_id, first.value.next_wal
    own, = first.value.checkpoints
    same(first, Committed(3, Manifest(checkpoints=(own,), writer_epoch=1, l0=("a",), replay_after_wal_id=after, next_wal=then)))
    same(alone.sent(), update(2))
    second = (await writer.flush("b")).value
    same((second.l0, second.replay_after_wal_id - after, second.next_wal - then), (("a", "b"), 1, 1))
    alone.fails("create", "manifest/", LOST)
    alone.sent()
    same((await writer.flush("c")).id, 5)
    same(alone.sent(), [*update(4), LIST, get(5)])
    alone.fails("create", "manifest/", Unavailable)
    await alone.raises(Unavailable, writer.flush("d"))
    alone.sent()
    same((await writer.flush("d")).id, 6)
    same(alone.sent(), [create(6)])
    same(alone.counted.count("updates_in_doubt"), 1)


async def writer_checkpoints(alone: Alone) -> None:
    """An open writer has one checkpoint, of the manifest that it put last. No other role touches it."""
    lasting, ended = Checkpoint("a", 1, 0), Checkpoint("b", 1, 1)
    await initialise(alone.world, "db", Manifest(checkpoints=(lasting, ended)))

    async def own(file_id: int, epoch: int) -> Checkpoint:
        *others, one = (await ManifestReader(alone.world, "db").poll()).manifest.checkpoints
        same((others[0], one), (lasting, Checkpoint(one.id, file_id, 0, None, epoch)))
        return one

    first = await open_writer(alone.world, "db")
    ids = {(await own(2, 1)).id}
    await first.flush("a")
    ids |= {(await own(3, 1)).id}
    compactor, collector = await open_compactor(alone.world, "db"), await open_collector(alone.world, "db")
    await compactor.compact()
    same((await collector.drop_ended_checkpoints() or first_of_none()).id, 7)
    ids |= {(await own(3, 1)).id}
    second = await open_writer(alone.world, "db")
    ids |= {(await own(8, 2)).id}
    theirs = (await ManifestReader(alone.world, "db").poll()).manifest
    alone.fails("create", "manifest/", another(alone, 9, theirs))
    same((await second.flush("b")).id, 10)  # after a conflict it is of the manifest that was put
    ids |= {(await own(10, 2)).id}
    same((len(ids), len((await second.flush("c")).value.checkpoints)), (4, 2))


async def flush_over_its_deadline(alone: Alone) -> None:
    writer = await written(alone)
    deadline_ms = alone.now + 100
    alone.fails("create", "manifest/", another(alone, 3, Manifest(writer_epoch=1), 99))
    alone.fails("create", "manifest/", another(alone, 4, Manifest(writer_epoch=1), 1))
    await alone.raises(ObjectVersionExists, writer.flush("a", deadline_ms), id=4)
    same(alone.sent(), update(2) + update(3))
    same(alone.counted.count("update_conflicts"), 2)
    same((await writer.flush("b", alone.now)).id, 5)  # another: the first is nowhere
    alone.fails("create", "manifest/", OutcomeUnknown)
    await alone.raises(OutcomeUnknown, writer.flush("c", alone.now))
    await alone.raises(InDoubt, writer.flush("d"))
    same((await writer.flush("c")).id, 6)
    alone.fails("create", "manifest/", LOST)
    await alone.raises(OutcomeUnknown, writer.flush("e", alone.now))
    alone.sent()
    same((await writer.flush("e")).id, 7)
    same(alone.sent(), [LIST, get(7)])
    alone.fails("create", "manifest/", AlreadyExists, 99)
    await alone.raises(NoLatest, writer.flush("f"))
    same(alone.sent().count(create(8)), 11)


async def doubts(alone: Alone) -> None:
    """An update is in doubt until the id that it was sent for is taken."""
    writer = await written(alone)
    alone.fails("create", "manifest/", OutcomeUnknown)
    alone.fails("create", "manifest/", Unavailable)
    await alone.raises(OutcomeUnknown, writer.flush("a"))
    alone.fails("create", "manifest/", Unavailable)
    await alone.raises(OutcomeUnknown, writer.flush("a"))
    await another(alone, 3, Manifest(writer_epoch=1))()
    alone.fails("create", "manifest/", AlreadyExists)
    alone.fails("create", "manifest/", Unavailable)
    await alone.raises(Unavailable, writer.flush("a"))
    same((await writer.flush("a")).id, 4)
    alone.fails("create", "manifest/", HANGS)
    await alone.cancels(writer.flush("b"))
    await alone.raises(InDoubt, writer.flush("c"))
    alone.fails("create", "manifest/", Unavailable)
    await alone.raises(OutcomeUnknown, writer.flush("b"))
    alone.fails("list", "manifest/", HANGS)
    same((await writer.flush("b")).id, 5)
    await alone.cancels(writer.flush("c"))
    alone.sent()
    same((await writer.flush("d")).id, 6)
    same(alone.sent(), update(5))
    alone.fails("create", "manifest/", UNHEARD)
    await alone.cancels(writer.flush("e"))
    same((await writer.flush("e")).id, 7)
    alone.fails("create", "manifest/", HANGS)
    await alone.cancels(writer.flush("f"))
    await another(alone, 8, Manifest(writer_epoch=1))()
    alone.fails("create", "manifest/", Unavailable)
    await alone.raises(Unavailable, writer.flush("f"))  # the id that it was sent for is taken


async def doubts_of_others(alone: Alone) -> None:
    """The same of a compactor and of a collector."""
    first = Manifest(l0=("a",), checkpoints=(Checkpoint("a", 1, 1),))
    for opened, call in ((open_compactor, Instance.compact), (open_collector, Instance.drop_ended_checkpoints)):
        here = Alone()
        await initialise(here.world, "db", first)
        instance = await opened(here.world, "db")
        here.fails("create", "manifest/", OutcomeUnknown)
        here.fails("create", "manifest/", Unavailable)
        await here.raises(OutcomeUnknown, call(instance))
        here.fails("list", "manifest/", Unavailable)
        here.fails("create", "manifest/", HANGS)
        await here.cancels(call(instance))
        await here.raises(OutcomeUnknown, call(instance))
        same((await call(instance) or first_of_none()).id, 3)


async def fenced(alone: Alone) -> None:
    writer = await written(alone)
    await open_writer(alone.world, "db")
    alone.sent()
    await alone.raises(FencedUnapplied, writer.flush("a"), role="writer", epoch=1, stored=2)
    same(alone.sent(), [LIST, get(3)])
    await alone.raises(FencedUnapplied, writer.flush("a"), epoch=1, stored=2)
    await alone.raises(FencedUnapplied, writer.flush("b"))
    await alone.raises(FencedUnapplied, writer.open())
    same(alone.sent(), [])
    same(len(alone.warnings), 1)
    same(alone.counted.count("fenced"), 1)


async def fenced_after_it_was_applied(alone: Alone) -> None:
    writer = await written(alone)
    alone.fails("create", "manifest/", LOST)
    alone.fails("list", "manifest/", Unavailable)
    await alone.raises(Unavailable, writer.flush("z"))
    await alone.raises(OutcomeUnknown, writer.flush("a", alone.now))
    await open_writer(alone.world, "db")
    await alone.raises(FencedApplied, writer.flush("a"), epoch=1, stored=2)
    await alone.raises(FencedApplied, writer.flush("a"), role="writer", epoch=1, stored=2)
    await alone.raises(FencedUnapplied, writer.flush("b"))
    compactor = await open_compactor(alone.world, "db")
    alone.fails("create", "manifest/", LOST)
    await alone.raises(OutcomeUnknown, compactor.compact(deadline_ms=alone.now))
    await open_compactor(alone.world, "db")
    for _ in range(2):
        await alone.raises(FencedApplied, compactor.compact(), role="compactor", epoch=1, stored=2)


async def compacts(alone: Alone) -> None:
    writer, merged = await written(alone), []

    async def merge(picked: tuple[str, ...]) -> None:
        merged.append(picked)

    compactor = await open_compactor(alone.world, "db")
    alone.sent()
    same(await compactor.compact(merge), None)
    same(alone.sent(), [LIST, get(3)])
    for sst in "ab":
        await writer.flush(sst)
    theirs = (await writer.flush("c")).value
    await alone.real.delete(FILES.key(6))
    alone.fails("create", "manifest/", another(alone, 6, theirs))  # which comes back before the compaction is put
    alone.sent()
    found = await compactor.compact(merge)
    same((found and found.id, found and found.value.compacted, found and found.value.l0), (7, ("a", "b"), ("c",)))
    same(merged, [("a", "b")])
    same(alone.sent(), update(5) + update(6))
    alone.fails("create", "manifest/", LOST)
    same((await compactor.compact(merge) or first_of_none()).id, 8)
    same(alone.sent(), [*update(7), LIST, get(8)])
    same(merged[1:], [("c",)])
    await writer.flush("d")
    same((await compactor.compact() or first_of_none()).value.compacted, ("a", "b", "c", "d"))


def first_of_none() -> Committed:
    return Committed(-1, Manifest())


async def succeeded_by_another_compactor(alone: Alone) -> None:
    """Its successor merges the same SSTs first. Its own update had no effect, and it says so."""
    writer = await written(alone)
    await writer.flush("a")
    first = await open_compactor(alone.world, "db")

    async def successor(picked: tuple[str, ...]) -> None:
        await (await open_compactor(alone.world, "db")).compact()

    await alone.raises(FencedUnapplied, first.compact(successor), role="compactor", epoch=1, stored=2)


async def collects(alone: Alone) -> None:
    ended, lasting, later = (Checkpoint(name, 1, ms) for name, ms in (("a", 1), ("b", 0), ("c", alone.now + 1)))
    await initialise(alone.world, "db", Manifest(checkpoints=(ended, lasting, later)))
    collector = await open_collector(alone.world, "db")
    same((await collector.drop_ended_checkpoints() or first_of_none()).value.checkpoints, (lasting, later))
    alone.sent()
    same(await collector.drop_ended_checkpoints(), None)
    same(alone.sent(), [LIST, get(3)])
    same(alone.counted.count("updates_recognised"), 0)
    alone.now += 200
    alone.fails("create", "manifest/", OutcomeUnknown)
    await alone.raises(OutcomeUnknown, collector.drop_ended_checkpoints(alone.now))
    same((await collector.drop_ended_checkpoints() or first_of_none()).value.checkpoints, (lasting,))


async def renewed_meanwhile(alone: Alone) -> None:
    """The owner of an ended checkpoint renews it before the collector's update is put: the collector does not drop it."""
    ended, other = Checkpoint("a", 1, 1), Checkpoint("b", 1, 1)
    renewed = ended._replace(expiry_ms=alone.now + 100)
    await initialise(alone.world, "db", Manifest(checkpoints=(ended, other)))
    collector = await open_collector(alone.world, "db")
    alone.fails("create", "manifest/", another(alone, 3, Manifest(collector_epoch=1, checkpoints=(renewed, other))))
    found = await collector.drop_ended_checkpoints() or first_of_none()
    same((found.id, found.value.checkpoints), (4, (renewed,)))
    await another(alone, 5, Manifest(collector_epoch=1, checkpoints=(ended,)))()
    alone.fails("create", "manifest/", another(alone, 6, Manifest(collector_epoch=1, checkpoints=(renewed,))))
    found = await collector.drop_ended_checkpoints() or first_of_none()
    same((found.id, found.value.checkpoints), (6, (renewed,)))  # there is nothing left to drop


async def landed(alone: Alone) -> None:
    """Whether a manifest holds an update, and what it makes of one."""
    checkpoint = Checkpoint("c", 1, 5)
    for update, without, with_it in (
            (Flush("a"), Manifest(), Manifest(l0=("a",))),
            (Compaction(("a", "b")), Manifest(l0=("b",), compacted=("a",)), Manifest(compacted=("a", "b"))),
            (Collection((checkpoint,)), Manifest(checkpoints=(checkpoint,)), Manifest())):
        same((update.landed(without), update.landed(with_it), update.landed(update.applied(without))), (False, True, True))
    same(Compaction(("a", "b")).applied(Manifest(l0=("a", "b", "c"))), Manifest(l0=("c",), compacted=("a", "b")))
    same(Compaction(("a", "b")).applied(Manifest(l0=("b",), compacted=("a",))), Manifest(compacted=("a", "b")))
    same(Collection((checkpoint,)).landed(Manifest(checkpoints=(checkpoint._replace(expiry_ms=9),))), True)
    same(Collection((checkpoint, Checkpoint("d", 1, 5))).landed(Manifest(checkpoints=(checkpoint,))), False)


async def many(alone: Alone) -> None:
    ssts, ended = tuple(f"{i}" for i in range(MANY)), tuple(Checkpoint(f"{i}", 1, 1) for i in range(MANY))
    for file_id in range(1, MANY + 1):
        await another(alone, file_id, Manifest(l0=ssts, checkpoints=ended) if file_id == MANY else EMPTY)()
    reader, merged = ManifestReader(alone.world, "db"), []
    same((await reader.poll()).new, ssts)

    async def merge(picked: tuple[str, ...]) -> None:
        merged.append(picked)

    compactor = await open_compactor(alone.world, "db")
    same((await compactor.compact(merge) or first_of_none()).value.compacted, ssts)
    same(merged, [ssts])
    found = await (await open_collector(alone.world, "db")).drop_ended_checkpoints() or first_of_none()
    same((found.id, found.value.checkpoints), (MANY + 4, ()))
    same((await reader.poll()).new, ())


async def large_ids(alone: Alone) -> None:
    """Ids and epochs may be any u64."""
    for latest in LARGE:
        first = Manifest(writer_epoch=latest, compactor_epoch=latest, replay_after_wal_id=latest, next_wal=latest + 1)
        await another(alone, latest, first)()
        writer = await open_writer(alone.world, "db")
        same((await open_writer(alone.world, "db")).epoch, latest + 2)
        await alone.raises(FencedUnapplied, writer.flush("a"), epoch=latest + 1, stored=latest + 2)
        same((await open_compactor(alone.world, "db")).epoch, latest + 1)
        if latest < LARGE[-1]:
            found = await (await open_writer(alone.world, "db")).flush("b")
            same((found.id, found.value.replay_after_wal_id, found.value.next_wal), (latest + 5, latest + 1, latest + 2))


async def contents(alone: Alone) -> None:
    """A manifest as bytes, and which bytes are none."""
    full = Manifest(writer_epoch=1, compactor_epoch=2, collector_epoch=3, l0=("a",), compacted=("b",), replay_after_wal_id=4,
                    next_wal=5, checkpoints=(Checkpoint("c", 6, 7), Checkpoint("d", 8, 0, None, 9)))
    for manifest in (EMPTY, full):
        same(decode(encode(manifest)), manifest)
    changed = (encode(full).replace(b'"l0":["a"]', b'"l0":1'), encode(full).replace(b'"id":"c"', b'"strange":"c"'))
    for body in (b"", b"{", b"[]", b"1", b"{}", encode(full)[:-1] + b',"strange":1}', b"\xff", *changed):
        fails_with(InvalidManifest, lambda body=body: decode(body))


class OtherCodec:
    """A codec of one's own: that of this repository, behind a mark."""

    def encode(self, value: Manifest) -> bytes:
        return b"!" + encode(value)

    def decode(self, body: bytes) -> Manifest:
        same(body[:1], b"!", "the mark of the codec")
        return decode(body[1:])


async def another_codec(alone: Alone) -> None:
    codec = OtherCodec()
    await alone.real.create(FILES.key(1), codec.encode(EMPTY))
    writer = Instance(alone.world, "db", "writer", codec)
    await writer.open()
    await writer.flush("a")
    same((await ManifestReader(alone.world, "db", codec).poll()).new, ("a",))


async def polls(alone: Alone) -> None:
    writer, reader = await written(alone), ManifestReader(alone.world, "db")
    await writer.flush("a")
    first = await reader.poll()
    same((first.id, first.new), (3, ("a",)))
    alone.sent()
    await writer.flush("b")
    alone.sent()
    second = await reader.poll()
    same(second, Polled(4, second.manifest, ("b",)))
    same(second.manifest.l0, ("a", "b"))
    same(alone.sent(), [LIST, get(4)])
    same((await reader.poll()).new, ())


SCRIPTS: tuple[Script, ...] = (
    first_file, roles, misuse, open_that_conflicts, open_in_doubt, flushes, writer_checkpoints, flush_over_its_deadline,
    doubts, doubts_of_others, fenced, fenced_after_it_was_applied, compacts, succeeded_by_another_compactor, collects,
    renewed_meanwhile, landed, many, large_ids, contents, another_codec, polls)

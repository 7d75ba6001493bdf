"""Scripts of files whose names are the guard, impl/protocols/sequenced_write.py."""

from highwater.dst.script import HANGS, LARGE, LOST, MANY, Alone, Script, fails_with, same
from highwater.impl.codecs.json.manifest import UPDATES, InvalidManifest
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.errors import AlreadyExists, NotFound, OutcomeUnknown, Unavailable
from highwater.impl.layout import Namespace
from highwater.impl.protocols.sequenced_storage import NoLatest, ObjectVersionExists, SequencedStorage
from highwater.impl.protocols.sequenced_write import Committed, LogReader, LogWriter, Lost, NextFile, StateReader, StateWriter

encode = UPDATES.encode

FILES = Namespace("db", "manifest")
LIST = "list manifest"


def adds(update: str, asked: list[int] | None = None):
    """Make the change that adds an update, and note the ids that it is given."""
    def change(next_id: int, manifest: Manifest) -> Manifest:
        if asked is not None:
            asked.append(next_id)
        return manifest.with_update(update)
    return change


def get(file_id: int) -> str:
    return f"get {file_id}.manifest"


def create(file_id: int) -> str:
    return f"create {file_id}.manifest"


async def another(alone: Alone, file_id: int) -> None:
    """Put the file of another client."""
    await alone.real.create(FILES.key(file_id), encode(Manifest(("another",))))


async def state(alone: Alone) -> None:
    files, asked = SequencedStorage(alone.world, FILES), []
    writer, reader = StateWriter(files), StateReader(files)
    same(await reader.current(), None)
    alone.sent()
    same(await writer.update(adds("a", asked)), Committed(1, Manifest(("a",))))
    same(alone.sent(), [LIST, create(1)])
    same(await writer.update(adds("b", asked)), Committed(2, Manifest(("a", "b"))))
    same(alone.sent(), [create(2)])
    await another(alone, 3)
    same(await writer.update(adds("c", asked)), Committed(4, Manifest(("another", "c"))))
    same(alone.sent(), [create(3), get(3), create(4)])
    same(asked, [1, 2, 3, 4])
    same(alone.counted, ["update_conflicts"])
    same(await reader.current(), Committed(4, Manifest(("another", "c"))))
    same(await reader.read(2), Manifest(("a", "b")))
    await alone.raises(NotFound, reader.read(5))
    alone.sent()
    same((await StateWriter(files).update(adds("d"))).id, 5)
    same(alone.sent(), [LIST, get(4), create(5)])


async def state_by_listing(alone: Alone) -> None:
    writer = StateWriter(SequencedStorage(alone.world, FILES), resolve="list")
    await writer.update(adds("a"))
    await another(alone, 2)
    await another(alone, 3)
    alone.sent()
    same((await writer.update(adds("b"))).id, 4)
    same(alone.sent(), [create(2), LIST, get(3), create(4)])


async def state_that_fails(alone: Alone) -> None:
    writer = StateWriter(SequencedStorage(alone.world, FILES))
    await writer.update(adds("a"))
    alone.fails("create", "manifest/", Unavailable)
    await alone.raises(Unavailable, writer.update(adds("b")))
    alone.sent()
    await writer.update(adds("c"))
    same(alone.sent(), [create(2)])
    for how, error in ((LOST, OutcomeUnknown), (HANGS, None)):
        alone.fails("create", "manifest/", how)
        await (alone.raises(error, writer.update(adds("d"))) if error else alone.cancels(writer.update(adds("d"))))
        alone.sent()
        latest = (await writer.update(adds("e"))).id
        same(alone.sent(), [LIST, get(latest - 1), create(latest)])
    latest = (await writer.update(adds("f"))).id
    alone.fails("create", "manifest/", lambda: another(alone, latest + 1))
    alone.sent()
    await alone.raises(ObjectVersionExists, writer.update(adds("g"), 1), id=latest + 1)
    same(alone.sent(), [create(latest + 1)])
    alone.fails("create", "manifest/", lambda: another(alone, latest + 2))
    same((await writer.update(adds("g"), 2)).id, latest + 3)
    listing = StateWriter(SequencedStorage(alone.world, FILES), resolve="list")
    alone.fails("create", "manifest/", AlreadyExists, 99)
    alone.sent()
    await alone.raises(NoLatest, listing.update(adds("h")))
    same(alone.sent().count(create(latest + 4)), 11)


async def recognises(alone: Alone) -> None:
    """After a lost response the same PUT is sent again, and one GET shows whose file is there."""
    files = SequencedStorage(alone.world, FILES)
    writer = StateWriter(files, unknown="recognise")
    alone.fails("create", "manifest/", LOST)
    same((await writer.update(adds("a"))).id, 1)
    same(alone.sent(), [LIST, create(1), create(1), get(1)])
    alone.fails("create", "manifest/", OutcomeUnknown)
    same((await writer.update(adds("b"))).id, 2)
    same(alone.sent(), [create(2), create(2)])
    alone.fails("create", "manifest/", OutcomeUnknown)
    alone.fails("create", "manifest/", lambda: another(alone, 3))
    same((await writer.update(adds("c"))).id, 4)
    same(alone.sent(), [create(3), create(3), get(3), create(4)])
    few = NextFile(files, "recognise", 3)
    alone.fails("create", "manifest/", OutcomeUnknown, 3)
    await alone.raises(OutcomeUnknown, few.create(5, b""))
    same(alone.sent(), [create(5)] * 3)
    alone.fails("create", "manifest/", OutcomeUnknown)
    alone.fails("create", "manifest/", Unavailable)
    same(await few.create(5, b""), None)
    same(len(alone.sent()), 3)
    alone.fails("create", "manifest/", OutcomeUnknown)
    alone.fails("get", "manifest/", Unavailable)
    await alone.raises(OutcomeUnknown, few.create(5, b"x"))
    same(await few.create(5, b"x"), Lost(None))
    alone.fails("create", "manifest/", Unavailable)
    await alone.raises(Unavailable, few.create(6, b"x"))
    alone.fails("create", "manifest/", OutcomeUnknown)
    same(await few.create(5, b"x"), Lost(b""))
    alone.fails("create", "manifest/", OutcomeUnknown, 10)
    await alone.raises(OutcomeUnknown, NextFile(files, "recognise").create(6, b""))
    same(alone.sent()[-10:], [create(6)] * 10)
    once = NextFile(files)
    alone.fails("create", "manifest/", OutcomeUnknown)
    alone.sent()
    await alone.raises(OutcomeUnknown, once.create(6, b""))
    same(alone.sent(), [create(6)])


class Numbers:
    """A codec of one's own: a state is a number."""

    def encode(self, value: int) -> bytes:
        return b"%d" % value

    def decode(self, body: bytes) -> int:
        return int(body)


async def another_codec(alone: Alone) -> None:
    """The writer meets another client's file after a conflict, and after a lost response."""
    files = SequencedStorage(alone.world, FILES)
    writer, reader = StateWriter(files, Numbers(), 7, unknown="recognise"), StateReader(files, Numbers())
    same(await writer.update(lambda _, value: value + 1), Committed(1, 8))
    await alone.real.create(FILES.key(2), b"20")
    same(await writer.update(lambda _, value: value + 1), Committed(3, 21))
    alone.fails("create", "manifest/", OutcomeUnknown)
    alone.fails("create", "manifest/", lambda: alone.real.create(FILES.key(4), b"40"))
    same(await writer.update(lambda _, value: value + 1), Committed(5, 41))
    same(await reader.current(), Committed(5, 41))
    same(await reader.read(1), 8)


async def log(alone: Alone) -> None:
    files = SequencedStorage(alone.world, FILES)
    writer, reader = LogWriter(files), LogReader(files)
    same(await reader.read(), [])
    alone.sent()
    same([await writer.append(entry) for entry in (b"a", b"b")], [1, 2])
    same(alone.sent(), [LIST, create(1), create(2)])
    found = await reader.read()
    found.clear()
    await alone.real.create(FILES.key(3), b"c")
    same(await reader.read(), [b"a", b"b", b"c"])
    same(alone.sent(), [get(1), get(2), get(3), get(3), get(4)])
    same(await writer.append(b"d"), 4)
    same(alone.sent(), [create(3), create(4)])
    same(alone.counted, ["append_conflicts"])
    for how, error in ((LOST, OutcomeUnknown), (HANGS, None)):
        alone.fails("create", "manifest/", how)
        await (alone.raises(error, writer.append(b"e")) if error else alone.cancels(writer.append(b"e")))
        alone.sent()
        latest = await writer.append(b"f")
        same(alone.sent(), [LIST, create(latest)])
    alone.fails("create", "manifest/", Unavailable)
    await alone.raises(Unavailable, writer.append(b"g"))
    alone.sent()
    latest = await writer.append(b"g")
    same(alone.sent(), [create(latest)])
    alone.fails("create", "manifest/", AlreadyExists, 2)
    await alone.raises(ObjectVersionExists, writer.append(b"h", 2), id=latest + 2)
    same(await writer.append(b"h", 2), latest + 3)
    alone.fails("get", "manifest/", Unavailable)
    await alone.raises(Unavailable, reader.read())
    alone.fails("create", "manifest/", LOST)
    recognising = LogWriter(files, "recognise")
    alone.sent()
    same(await recognising.append(b"i"), latest + 4)
    same(len(alone.sent()), 4)


async def many(alone: Alone) -> None:
    files = SequencedStorage(alone.world, FILES)
    for file_id in range(1, MANY + 1):
        await another(alone, file_id)
    same((await StateWriter(files).update(adds("a"))).id, MANY + 1)
    same(await LogWriter(files).append(b"b"), MANY + 2)
    same((await LogReader(files).read())[MANY:], [encode(Manifest(("another", "a"))), b"b"])
    same((await StateReader(files).read(MANY + 1)).updates, ("another", "a"))
    alike = NextFile(files, "recognise")
    alone.fails("create", "manifest/", OutcomeUnknown)
    await alone.real.create(FILES.key(MANY + 3), b"x" * MANY + b"y")
    same(await alike.create(MANY + 3, b"x" * MANY + b"z"), Lost(b"x" * MANY + b"y"))


async def large_ids(alone: Alone) -> None:
    """An id may be any u64."""
    files = SequencedStorage(alone.world, FILES)
    for latest in LARGE:
        await another(alone, latest)
        state, log = StateWriter(files), LogWriter(files)
        same([(await state.update(adds("a"))).id for _ in range(2)], [latest + 1, latest + 2])
        same([await log.append(b"x") for _ in range(2)], [latest + 3, latest + 4])
        await alone.raises(InvalidManifest, StateReader(files).current())


async def refused(alone: Alone) -> None:
    files = SequencedStorage(alone.world, FILES)
    fails_with(ValueError, lambda: StateWriter(files, resolve="neither"))
    fails_with(ValueError, lambda: NextFile(files, "neither"))


SCRIPTS: tuple[Script, ...] = (state, state_by_listing, state_that_fails, recognises, another_codec, log, many,
    large_ids, refused)

"""Scripts of sequenced metadata: of its files (impl/protocols/sequenced_storage.py) and of its updates and collections.

Each script begins with one file in db/manifest/, unless it says otherwise.
"""

from highwater.dst.script import LARGE, LOST, MANY, Alone, Script, check, fails_with, refuses_a_cache, same
from highwater.impl.codecs.json.manifest import UPDATES, Checkpoint, InvalidManifest
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.errors import AlreadyExists, ListingNeverEnds, NotFound, OutcomeUnknown, PreconditionFailed, Unavailable
from highwater.impl.layout import InvalidId, InvalidName, Namespace
from highwater.impl.protocols.boundary_object import (
    BoundaryLost,
    InvalidBoundary,
    ObjectStoreBoundaryObject,
    ObjectVersionBehindBoundary,
)
from highwater.impl.protocols.sequenced_metadata import (
    Committed,
    MetadataStore,
    Policies,
    Recognised,
    compactions_store,
    manifest_store,
)
from highwater.impl.protocols.sequenced_metadata_boundary import BoundedSequencedStorage
from highwater.impl.protocols.sequenced_storage import Listed, NoLatest, ObjectVersionExists, SequencedStorage
from highwater.impl.world import Entry, Page, list_all

decode, encode = UPDATES.decode, UPDATES.encode

FILES = Namespace("db", "manifest")
BOUNDARY = "manifest.boundary"
LIST, CHECK = "list manifest", f"get {BOUNDARY}"


async def begun(alone: Alone, keep_latest: bool = False) -> MetadataStore:
    store = MetadataStore(alone.world, FILES, policies=Policies(keep_latest=keep_latest))
    await alone.real.create(FILES.key(1), encode(Manifest()))
    return store


def get(file_id: int) -> str:
    return f"get {file_id}.manifest"


def create(file_id: int) -> str:
    return f"create {file_id}.manifest"


def adds(update: str, asked: list[int] | None = None):
    """Make the change that adds an update, and note the ids that it is given."""
    def change(next_id: int, manifest: Manifest) -> Manifest:
        if asked is not None:
            asked.append(next_id)
        return manifest.with_update(update)
    return change


async def initialise(alone: Alone) -> None:
    store = manifest_store(alone.world, "db")
    await store.initialise(Manifest().with_update("a"))
    same(alone.sent(), [LIST, create(1), CHECK])
    await store.initialise(Manifest())
    same(alone.sent(), [LIST])
    same(await store.current(), Committed(1, Manifest().with_update("a")))
    other = MetadataStore(alone.world, Namespace("", "manifest"))  # an empty root; another client is faster
    alone.fails("create", "manifest/", lambda: alone.real.create(f"manifest/{1:020d}.manifest", encode(Manifest())))
    alone.sent()
    await other.initialise(Manifest().with_update("b"))
    same(alone.sent(), [LIST, create(1)])
    same((await other.current()).value, Manifest())


async def initialise_that_fails(alone: Alone) -> None:
    """The first file may not be there, or nobody knows: the call does not return."""
    store = manifest_store(alone.world, "db")
    for op, how in (("list", Unavailable), ("create", Unavailable), ("create", OutcomeUnknown)):
        alone.fails(op, "manifest/", how)
        await alone.raises(how, store.initialise(Manifest()))
        await alone.raises(NoLatest, store.current())
    alone.fails("get", BOUNDARY, Unavailable)
    await alone.raises(OutcomeUnknown, store.initialise(Manifest()))
    same((await store.current()).id, 1)


async def initialised_late(alone: Alone) -> None:
    """The first file is created anew after a collector has passed it."""
    alone.fails("get", BOUNDARY, lambda: alone.real.put(FILES.boundary_key, b"3"))
    await manifest_store(alone.world, "db").initialise(Manifest())
    same(alone.sent(), [LIST, create(1), CHECK])


async def update(alone: Alone) -> None:
    store, asked = await begun(alone), []
    same(await store.update(adds("a", asked)), Committed(2, Manifest().with_update("a")))
    same(alone.sent(), [LIST, get(1), create(2), CHECK])
    await store.update(adds("b", asked))
    same(alone.sent(), [LIST, get(2), create(3), CHECK])
    same(asked, [2, 3])
    alone.fails("create", "manifest/", Unavailable)
    await alone.raises(Unavailable, store.update(adds("c")))
    alone.sent()
    alone.fails("get", BOUNDARY, Unavailable)
    await alone.raises(OutcomeUnknown, store.update(adds("c")))
    same(alone.sent(), [LIST, get(3), create(4), CHECK])
    alone.fails("get", BOUNDARY, lambda: alone.real.put(FILES.boundary_key, b"5"))
    await alone.raises(ObjectVersionBehindBoundary, store.update(adds("d")), id=5, boundary=5)
    same(alone.counted.count("stale_writes_rejected"), 1)
    same(len(alone.warnings), 1)


async def update_from_its_own_last_file(alone: Alone) -> None:
    store = await begun(alone, keep_latest=True)
    await store.update(adds("a"))
    same(alone.sent(), [LIST, get(1), create(2), CHECK])
    same((await store.update(adds("b"))).value.updates, ("a", "b"))
    same(alone.sent(), [create(3), CHECK])
    alone.fails("create", "manifest/", OutcomeUnknown)
    await alone.raises(OutcomeUnknown, store.update(adds("c")))
    alone.sent()
    await store.update(adds("d"))
    same(alone.sent(), [LIST, get(3), create(4), CHECK])


async def conflicts(alone: Alone) -> None:
    store = await begun(alone)
    alone.fails("create", "manifest/", AlreadyExists, 2)
    await alone.raises(ObjectVersionExists, store.update(adds("a"), 2), id=2)
    same(alone.sent(), [LIST, get(1), create(2)] * 2)
    alone.fails("create", "manifest/", AlreadyExists, 1)
    same((await store.update(adds("a"), 2)).id, 2)
    same(alone.counted.count("update_conflicts"), 3)
    alone.sent()
    alone.fails("create", "manifest/", AlreadyExists, 10)
    same((await store.update(adds("b"))).id, 3)
    alone.fails("create", "manifest/", AlreadyExists, 99)  # and it is never listed
    alone.sent()
    error = await alone.raises(NoLatest, store.update(adds("c")))
    check(FILES.key(4) in str(error), f"{error} names the key")
    same(alone.sent().count(create(4)), 11)
    await alone.raises(NoLatest, store.update_once("c", adds("c")))
    same(alone.sent().count(create(4)), 11)
    same(alone.counted.count("update_conflicts"), 35)
    await alone.raises(ObjectVersionExists, store.update_once("c", adds("c"), 1), id=4)


async def update_once(alone: Alone) -> None:
    store, asked = await begun(alone), []
    same(await store.update_once("a", adds("a", asked)), Committed(2, Manifest().with_update("a")))
    same(alone.sent(), [LIST, get(1), create(2), CHECK])
    same(await store.update_once("a", adds("a", asked)), Recognised(2, Manifest().with_update("a")))
    same(alone.sent(), [LIST, get(2), CHECK])
    same(asked, [2])
    alone.fails("create", "manifest/", LOST)
    same((await store.update_once("b", adds("b"))), Recognised(3, Manifest().with_update("a").with_update("b")))
    same(alone.sent(), [LIST, get(2), create(3), LIST, get(3), CHECK])
    alone.fails("create", "manifest/", OutcomeUnknown)
    same(type(await store.update_once("c", adds("c"))), Committed)
    same(alone.counted.count("updates_recognised"), 2)
    same(alone.counted.count("updates_in_doubt"), 2)
    await alone.raises(ValueError, store.update_once("d", adds("another")))
    alone.fails("list", "manifest/", Unavailable)
    await alone.raises(Unavailable, store.update_once("d", adds("d")))
    alone.fails("create", "manifest/", OutcomeUnknown)
    await alone.raises(OutcomeUnknown, store.update_once("d", adds("d"), 1))


async def update_in_doubt(alone: Alone) -> None:
    """An attempt is in doubt, and the next has a definite error: whether the update is applied stays unknown."""
    store = await begun(alone)
    alone.fails("create", "manifest/", OutcomeUnknown)
    alone.fails("create", "manifest/", Unavailable)
    await alone.raises(OutcomeUnknown, store.update_once("a", adds("a")))
    same(alone.sent(), [LIST, get(1), create(2)] * 2)


async def recognised_behind_the_boundary(alone: Alone) -> None:
    store = await begun(alone)
    await store.update_once("a", adds("a"))
    alone.fails("get", BOUNDARY, lambda: alone.real.put(FILES.boundary_key, b"2"))
    await alone.raises(OutcomeUnknown, store.update_once("a", adds("a"), 1))


async def latest(alone: Alone) -> None:
    store = MetadataStore(alone.world, FILES)
    await alone.raises(NoLatest, store.update(adds("a")))
    await alone.raises(NoLatest, store.current())
    same(alone.sent(), [LIST] * 2)
    store = await begun(alone)
    alone.fails("get", "manifest/", NotFound, 9)
    same((await store.current()).id, 1)
    await alone.real.create(FILES.key(2), encode(Manifest()))
    alone.sent()
    alone.fails("get", "manifest/", NotFound, 10)
    error = await alone.raises(NoLatest, store.current())
    same(alone.sent(), [LIST, get(2)] * 10)
    check(FILES.key(2) in str(error), f"{error} names the key")
    same(await store.read(1), Manifest())
    await alone.raises(NotFound, store.read(3))


async def overtaken_reader(alone: Alone) -> None:
    """A collector passes the latest file each time before the reader reads the boundary."""
    for times, enough in ((9, True), (10, False)):
        here = Alone()
        store, files = await begun(here), [1]

        async def overtake(here: Alone = here, files: list[int] = files) -> None:
            files.append(files[-1] + 1)
            await here.real.create(FILES.key(files[-1]), encode(Manifest()))
            await here.real.put(FILES.boundary_key, b"%d" % files[-2])

        here.fails("get", BOUNDARY, overtake)
        here.fails("get_if_changed", BOUNDARY, overtake, times - 1)
        if enough:
            same((await store.current()).id, 10)
        else:
            await here.raises(NoLatest, store.current())
            same(len(here.sent()), 30)


async def listing(alone: Alone) -> None:
    files = SequencedStorage(alone.world, FILES)
    same(await files.list(), [])
    for file_id in (2, 10, 1):
        await files.create(file_id, b"")
    await alone.real.put("db/manifest/strange.txt", b"")
    same(await files.list(), [Listed(file_id, alone.now) for file_id in (1, 2, 10)])
    await files.list()
    same(len(alone.warnings), 1, "the number of warnings of one strange name")
    await alone.raises(ObjectVersionExists, files.create(2, b""), id=2)
    for op in ("put", "update", "get_if_changed", "head"):
        fails_with(AssertionError, lambda op=op: getattr(files.store, op)("db/manifest/x"))
    check(not files.store.caches, "the store of sequenced files does not cache")
    await alone.real.put("db/manifest/7.manifest", b"")
    await alone.raises(InvalidName, files.list(), key="db/manifest/7.manifest")
    SequencedStorage(alone.world, FILES, 0).check_listed(1, {})


class Pages:
    """A store that answers the requests for pages with these: (names, whether the page is truncated)."""

    def __init__(self, *pages: tuple[str, bool]):
        self.pages, self.after = [*pages], []

    async def list_page(self, prefix: str, after: str = "") -> Page:
        self.after.append(after)
        names, truncated = self.pages.pop(0)
        return Page(tuple(Entry(prefix + name, 0, 1, "1") for name in names), truncated)


async def pages(alone: Alone) -> None:
    """Each page is asked for from the last key of the page before, which a page may repeat."""
    for found, after, right in (
            ((("ab", True), ("cd", True), ("e", False)), ["", "k/b", "k/d"], "abcde"),
            ((("ab", True), ("bc", True), ("cd", False)), ["", "k/b", "k/c"], "abcd"),
            ((("ab", True), ("b", False)), ["", "k/b"], "ab"), ((("ab", True), ("", False)), ["", "k/b"], "ab")):
        store = Pages(*found)
        same([entry.key for entry in await list_all(store, "k/")], [f"k/{name}" for name in right])  # pyright: ignore[reportArgumentType]
        same(store.after, after)
    for found, last in (((("", True),), ""), ((("ab", True), ("", True)), "k/b"), ((("ab", True), ("b", True)), "k/b"),
                        ((("b", True), ("a", True)), "k/b")):
        error = await alone.raises(ListingNeverEnds, list_all(Pages(*found), "k/"))  # pyright: ignore[reportArgumentType]
        check(f"listing of 'k/' after {last!r} " in str(error), f"{error} names the prefix and the key")


async def nothing_ahead_of_the_boundary(alone: Alone) -> None:
    store = await begun(alone)
    await store.advance_boundary(1)
    await alone.raises(InvalidBoundary, store.update(adds("a")))
    await alone.raises(InvalidBoundary, store.current())
    await alone.real.create(FILES.key(2), encode(Manifest()))
    same((await store.current()).id, 2)


async def names(alone: Alone) -> None:
    same((FILES.name, FILES.boundary_key), ("manifest", "db/gc/manifest.boundary"))
    same(FILES.key(7), f"db/manifest/{7:020d}.manifest")
    same(Namespace("", "wal").key(2**64 - 1), "wal/18446744073709551615.sst")
    for file_id in (0, 7, 2**64 - 1):
        same(FILES.file_id(FILES.key(file_id)), file_id)
    same(FILES.file_id("db/manifest/strange.txt"), None)
    strange = (f"{'0' * 19}{last}" for last in ("", "00", "x", "\N{ARABIC-INDIC DIGIT THREE}", "\N{SUPERSCRIPT TWO}"))
    for digits in ("", "7", *strange, "18446744073709551616", "9" * 20):
        key = f"db/manifest/{digits}.manifest"
        fails_with(InvalidName, lambda key=key: FILES.file_id(key))
    for file_id in (-1, 2**64):
        fails_with(InvalidId, lambda file_id=file_id: FILES.key(file_id))


async def contents(alone: Alone) -> None:
    """A manifest as bytes, and which bytes are none."""
    lasts, ends = Checkpoint("a", 1, 0), Checkpoint("b", 2, 10)
    same([ends.active(now_ms) for now_ms in (9, 10, 11)], [True, False, False])
    same(lasts.active(2**60), True)
    full = Manifest(("u",), (lasts, ends), (("s", 1),))
    for manifest in (Manifest(), full, full._replace(sessions=())):
        same(decode(encode(manifest)), manifest)
    same(encode(Manifest(("u",))), b'{"checkpoints":[],"updates":["u"]}')
    for body in (b"", b"{", b"[]", b"1", b"{}", b'{"updates":[]}', b'{"checkpoints":[1],"updates":[]}',
                 b'{"checkpoints":[{}],"updates":[]}', b"\xff"):
        fails_with(InvalidManifest, lambda body=body: decode(body))


async def parts(alone: Alone) -> None:
    refuses_a_cache(lambda store: SequencedStorage(alone.world._replace(store=store), FILES))
    boundary = ObjectStoreBoundaryObject(alone.world, FILES)
    bounded = BoundedSequencedStorage(SequencedStorage(alone.world, FILES), boundary)
    check(MetadataStore(alone.world, FILES, storage=bounded).bounded is bounded, "a store uses the storage that it is given")


async def drop_ended(alone: Alone) -> None:
    store = await begun(alone)
    ended, lasts, soon = Checkpoint("a", 1, alone.now), Checkpoint("b", 1, 0), Checkpoint("c", 1, alone.now + 2)
    await store.update(lambda _, m: m.with_checkpoint(ended).with_checkpoint(lasts).with_checkpoint(soon))
    alone.now += 1
    same((await store.drop_ended()).value.checkpoints, (lasts, soon))
    alone.sent()
    same(type(await store.drop_ended()), Recognised)
    same(alone.sent(), [LIST, get(3), CHECK])
    await store.update(lambda _, m: m.with_checkpoint(ended))
    alone.fails("create", "manifest/", AlreadyExists)
    await alone.raises(ObjectVersionExists, store.drop_ended(1), id=5)


async def collect(alone: Alone) -> None:
    store = await begun(alone)
    await store.update(lambda next_id, m: m.with_checkpoint(Checkpoint("kept", next_id, 1)))
    for update in "abc":
        await store.update(adds(update))
    alone.now += 10
    alone.sent()
    same(await store.collect(10), [])
    same(alone.sent(), [LIST])
    alone.fails("delete", "3.manifest", OutcomeUnknown)
    same(await store.collect(9), [1, 4])
    same(alone.sent(), [LIST, CHECK, f"create {BOUNDARY}", get(5), f"get_if_changed {BOUNDARY}",
                        *(f"delete {file_id}.manifest" for file_id in (1, 3, 4))])
    same((await alone.real.get(FILES.boundary_key)).body, b"4")
    same(len(alone.warnings), 1)
    same(await store.collect(9), [3])
    alone.fails("update", BOUNDARY, Unavailable)
    await store.update(adds("d"))
    alone.now += 10
    await alone.raises(Unavailable, store.collect(9))
    alone.fails("update", BOUNDARY, PreconditionFailed, 100)
    await alone.raises(OutcomeUnknown, store.collect(9))


async def collect_by_an_old_listing(alone: Alone) -> None:
    """The latest file of the listing is gone, or behind the boundary, before it can be read: nothing is deleted."""
    store = await begun(alone)
    await store.update(adds("a"))
    alone.now += 10
    alone.fails("get", "2.manifest", NotFound)
    same(await store.collect(1), [])
    alone.fails("get", "2.manifest", lambda: alone.real.put(FILES.boundary_key, b"2"))
    same(await store.collect(1), [])
    check(not any(sent.startswith("delete") for sent in alone.sent()), "nothing is deleted")


async def emptied(alone: Alone) -> None:
    """All objects vanish. A client that has seen the boundary begins no history anew."""
    store = await begun(alone)
    for update in "ab":
        await store.update(adds(update))
    alone.now += 10
    same(await store.collect(9), [1, 2])
    for entry in (await alone.real.list_page("")).entries:
        await alone.real.delete(entry.key)
    for call in (store.update(adds("c")), store.update_once("c", adds("c")), store.current(), store.drop_ended()):
        await alone.raises(NoLatest, call)
    same(await store.collect(9), [])
    await alone.raises(BoundaryLost, store.initialise(Manifest()))
    for call in (store.update(adds("c")), store.current(), store.collect(9)):
        await alone.raises(InvalidBoundary, call)
    await alone.raises(BoundaryLost, store.advance_boundary(3))
    same([entry.key for entry in (await alone.real.list_page("")).entries], [FILES.key(1)])


async def many(alone: Alone) -> None:
    kept = tuple(Checkpoint(f"{file_id}", file_id, 0) for file_id in range(1, MANY, 100))
    for file_id in range(1, MANY + 1):
        await alone.real.create(FILES.key(file_id), encode(Manifest(checkpoints=kept)))
    store = manifest_store(alone.world, "db")
    alone.now += 10
    same((await store.update(adds("a"))).id, MANY + 1)
    same(type(await store.update_once("a", adds("a"))), Recognised)
    same(await store.collect(9), [file_id for file_id in range(1, MANY + 1) if file_id % 100 != 1])
    same((await store.current()).id, MANY + 1)


async def large_ids(alone: Alone) -> None:
    """An id may be any u64, and the boundary too."""
    store, old = manifest_store(alone.world, "db"), []
    for latest in LARGE:
        await alone.real.create(FILES.key(latest), encode(Manifest()))
        alone.now += 10
        new = [(await store.update(adds("a"))).id for _ in range(4)]
        same(new, [*range(latest + 1, latest + 5)])
        same(await store.collect(9), [*old, latest])
        same(await store.bounded.boundary.read(), latest)
        old = new
    await alone.raises(InvalidId, store.update(adds("a")))


async def compactions(alone: Alone) -> None:
    """The compactions have no checkpoints: their latest file is not read."""
    store = compactions_store(alone.world, "db")
    await store.initialise(Manifest())
    await store.update(adds("a"))
    alone.now += 10
    alone.sent()
    same(await store.collect(1), [1])
    same(alone.sent(), ["list compactions", "get compactions.boundary", "create compactions.boundary", "delete 1.compactions"])


SCRIPTS: tuple[Script, ...] = (
    initialise, initialise_that_fails, initialised_late, update, update_from_its_own_last_file, conflicts,
    update_once, update_in_doubt, recognised_behind_the_boundary, latest, overtaken_reader, listing, pages,
    nothing_ahead_of_the_boundary, parts, drop_ended, names, contents, emptied, many, large_ids, collect,
    collect_by_an_old_listing, compactions)

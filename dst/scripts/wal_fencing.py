"""Scripts of writers that fence each other, impl/protocols/wal_fencing.py, and of the store of keys on them, impl/kv/wal.py."""

from highwater.dst.script import HANGS, LARGE, LOST, MANY, Alone, Script, check, fails_with, refuses_a_cache, same
from highwater.impl.codecs.json.wal import (
    InvalidWal,
    Record,
    WalCheckpoint,
    WalManifest,
    decode_manifest,
    decode_record,
    encode_manifest,
    encode_record,
)
from highwater.impl.errors import (
    AlreadyExists,
    FencedUnapplied,
    NotFound,
    OutcomeUnknown,
    PreconditionFailed,
    Unavailable,
    UpdateConflict,
)
from highwater.impl.kv.wal import WalKv, decode, encode
from highwater.impl.layout import Namespace
from highwater.impl.protocols.wal_fencing import Closed, Known, ManifestLost, ManifestObject, Wal, collect, open

LOG = Namespace("db", "wal")
MANIFEST = "db/wal.manifest"
GET, ASK, CREATE, UPDATE = (f"{op} wal.manifest" for op in ("get", "get_if_changed", "create", "update"))


def put(file_id: int) -> str:
    return f"create {file_id}.sst"


def got(file_id: int) -> str:
    return f"get {file_id}.sst"


async def manifest(alone: Alone) -> WalManifest:
    return decode_manifest((await alone.real.get(MANIFEST)).body)


async def opens(alone: Alone) -> None:
    wal = await open(alone.world, "db")
    same(alone.sent(), [GET, CREATE, "list wal", put(1), ASK])
    same((wal.epoch, wal.records, wal.last_id, wal.attempts), (1, [], 1, 5))
    first = await wal.append(b"a")
    same(first, Record("id1", 1, b"a"))
    same(alone.sent(), [put(2), ASK])
    second = await wal.append(b"b")
    same(wal.records, [first, second])
    alone.sent()
    other = await open(alone.world, "db", attempts=2)
    same((other.epoch, other.records, other.last_id, other.attempts), (2, [first, second], 4, 2))
    same(alone.sent(), [GET, UPDATE, "list wal", put(4), got(1), got(2), got(3), ASK])
    same((await other.append(b"c")).epoch, 2)
    await alone.raises(FencedUnapplied, wal.append(b"d"))
    await alone.raises(FencedUnapplied, wal.flush())
    same(len(alone.warnings), 1)
    root = await open(alone.world, "")
    same((root.object.key, root.namespace.prefix), ("wal.manifest", "wal/"))
    refuses_a_cache(lambda store: Wal(alone.world._replace(store=store), "db", 5))


async def flushes(alone: Alone) -> None:
    wal = await open(alone.world, "db")
    first, second = await wal.append(b"a"), await wal.append(b"b")
    alone.sent()
    await wal.flush()
    same(alone.sent(), [UPDATE])
    same(await manifest(alone), WalManifest(1, 3, (first, second)))
    await wal.flush()
    same(alone.sent(), [])  # there is nothing new
    third = await wal.append(b"c")
    alone.fails("update", MANIFEST, LOST)
    alone.sent()
    await wal.flush()
    same(alone.sent(), [UPDATE, ASK])
    same(await manifest(alone), WalManifest(1, 4, (first, second, third)))
    await wal.append(b"d")
    alone.fails("update", MANIFEST, Unavailable, 4)
    alone.sent()
    await wal.flush()
    same(alone.sent(), [UPDATE] * 5)
    await wal.append(b"e")
    alone.fails("update", MANIFEST, OutcomeUnknown, 5)
    error = await alone.raises(OutcomeUnknown, wal.flush())
    check("as the script says" in str(error), f"{error} is the store's")
    await alone.raises(Closed, wal.append(b"f"))
    await alone.raises(Closed, wal.flush())


async def replays_in_parts(alone: Alone) -> None:
    wal = await open(alone.world, "db")
    records = [await wal.append(body) for body in (b"a", b"b", b"c", b"d", b"e")]
    alone.sent()
    other = await open(alone.world, "db", flush_every=2)
    same(alone.sent(), [GET, UPDATE, "list wal", put(7), got(1), got(2), got(3), UPDATE, got(4), got(5), UPDATE, got(6), ASK])
    same(other.records, records)
    same(await manifest(alone), WalManifest(2, 5, tuple(records[:4])))
    alone.sent()
    third = await open(alone.world, "db")
    same(alone.sent(), [GET, UPDATE, "list wal", put(8), got(6), got(7), ASK])
    same((third.records, third.last_id), (records, 8))
    for i in (6, 7, 10):  # the first, one between, and the last of those to replay
        alone.fails("get", f"{i}.sst", NotFound)
        await alone.raises(FencedUnapplied, open(alone.world, "db"))
    alone.fails("create", "wal/", lambda: alone.real.delete(MANIFEST))
    await alone.raises(ManifestLost, open(alone.world, "db"))


async def claims(alone: Alone) -> None:
    alone.fails("create", MANIFEST, AlreadyExists, 5)
    await alone.raises(UpdateConflict, open(alone.world, "db"))
    same(alone.sent(), [GET, CREATE] * 5)
    alone.fails("create", MANIFEST, AlreadyExists, 4)
    same((await open(alone.world, "db")).epoch, 1)
    alone.fails("update", MANIFEST, PreconditionFailed)
    alone.fails("update", MANIFEST, LOST, 2)
    same((await open(alone.world, "db")).epoch, 4)
    alone.fails("update", MANIFEST, OutcomeUnknown)
    alone.fails("update", MANIFEST, PreconditionFailed)
    await alone.raises(OutcomeUnknown, open(alone.world, "db", attempts=2))
    alone.fails("get", MANIFEST, Unavailable, 4)
    same((await open(alone.world, "db")).epoch, 5)
    alone.fails("get", MANIFEST, Unavailable, 5)
    alone.sent()
    await alone.raises(Unavailable, open(alone.world, "db"))
    same(alone.sent(), [GET] * 5)
    same(alone.counted.count("wal_reads_repeated"), 8)
    same(alone.counted.count("wal_claim_conflicts"), 11)


async def fences(alone: Alone) -> None:
    for how in (OutcomeUnknown, Unavailable):
        alone.fails("create", "wal/", how, 4)
        wal = await open(alone.world, "db")
        alone.fails("create", "wal/", how, 5)
        alone.sent()
        await alone.raises(how, open(alone.world, "db"))
        same([sent for sent in alone.sent() if sent.endswith(".sst")], [put(wal.last_id + 1)] * 5)
    here = Alone()
    here.fails("create", "wal/", lambda: here.real.create(LOG.key(1), b""))
    same((await open(here.world, "db")).last_id, 2)


async def appends_in_doubt(alone: Alone) -> None:
    wal = await open(alone.world, "db")
    alone.fails("create", "wal/", LOST)
    alone.sent()
    record = await wal.append(b"a")
    same(alone.sent(), [put(2), put(2), got(2), ASK])
    alone.fails("create", "wal/", OutcomeUnknown, 4)
    await wal.append(b"b")
    same(alone.sent(), [put(3)] * 5 + [ASK])
    alone.fails("create", "wal/", Unavailable)
    await alone.raises(Unavailable, wal.append(b"c"))
    alone.fails("create", "wal/", OutcomeUnknown)
    alone.fails("create", "wal/", Unavailable)
    same((await wal.append(b"c")).body, b"c")
    same(len(wal.records), 3)
    alone.fails("create", "wal/", OutcomeUnknown, 5)
    await alone.raises(OutcomeUnknown, wal.append(b"d"))
    await closed(alone, wal, Closed)
    same(wal.records[0], record)
    never = await open(alone.world, "db")
    never.attempts = 0
    await alone.raises(ValueError, never.append(b"e"))


async def closed(alone: Alone, wal: Wal, error: type[Exception]) -> None:
    """Check that a writer refuses all calls with this error, and sends nothing."""
    alone.sent()
    await alone.raises(error, wal.append(b""))
    await alone.raises(error, wal.flush())
    fails_with(error, wal.ensure_open)
    same(alone.sent(), [])


async def slots_of_others(alone: Alone) -> None:
    """The object in the slot of an append decides, as far as it can be read."""
    theirs = encode_record(Record("theirs", 1, b"x"))

    async def another() -> None:
        await alone.real.create(LOG.key(wal.last_id + 1), theirs)

    wal = await open(alone.world, "db")
    alone.fails("create", "wal/", another)
    await alone.raises(FencedUnapplied, wal.append(b"a"))
    await closed(alone, wal, FencedUnapplied)
    for how, state in ((None, FencedUnapplied), (NotFound, FencedUnapplied), (Unavailable, Closed), (InvalidWal, Closed)):
        wal = await open(alone.world, "db")
        alone.fails("create", "wal/", OutcomeUnknown)
        alone.fails("create", "wal/", another)
        if how:
            alone.fails("get", "wal/", how, 5)
        await alone.raises(OutcomeUnknown, wal.append(b"a"))
        await closed(alone, wal, state)
        alone.faults.clear()


async def manifests_of_others(alone: Alone) -> None:
    """A later writer's manifest, one that is gone, and one that cannot be read, after an append and in a flush."""
    for op, put_it in (("append", "create"), ("flush", "update")):
        for how, error, state in ((encode_manifest(WalManifest(9)), FencedUnapplied, FencedUnapplied),
                                  (None, ManifestLost, Closed),
                                  (b"x", InvalidWal, Closed)):
            here = Alone()
            wal = await open(here.world, "db")
            await wal.append(b"a")

            async def change(here: Alone = here, how: bytes | None = how) -> None:
                await (here.real.put(MANIFEST, how) if how is not None else here.real.delete(MANIFEST))

            here.fails(put_it, "wal", change)
            told = OutcomeUnknown if (op, error) != ("flush", FencedUnapplied) else FencedUnapplied
            await here.raises(told, wal.append(b"b") if op == "append" else wal.flush())
            await closed(here, wal, state)
    wal = await open(alone.world, "db")
    alone.fails("get_if_changed", MANIFEST, Unavailable, 5)
    await alone.raises(OutcomeUnknown, wal.append(b"a"))
    await closed(alone, wal, Closed)
    wal = await open(alone.world, "db")
    await wal.append(b"b")
    alone.fails("update", MANIFEST, OutcomeUnknown)
    alone.fails("get_if_changed", MANIFEST, lambda: alone.real.put(MANIFEST, encode_manifest(WalManifest(9))))
    await alone.raises(OutcomeUnknown, wal.flush())
    await closed(alone, wal, FencedUnapplied)


async def cancelled(alone: Alone) -> None:
    for op in ("append", "flush"):
        here = Alone()
        wal = await open(here.world, "db")
        await wal.append(b"a")
        here.fails("create" if op == "append" else "update", "wal", HANGS)
        await here.cancels(wal.append(b"b") if op == "append" else wal.flush())
        await closed(here, wal, Closed)
    here.faults.clear()


async def collects(alone: Alone) -> None:
    wal = await open(alone.world, "db")
    alone.sent()
    same(await collect(alone.world, "db"), [])
    same(alone.sent(), [GET])
    for body in (b"a", b"b"):
        await wal.append(body)
    await wal.flush()
    await wal.append(b"c")
    await alone.real.put("db/wal/strange.txt", b"")
    alone.now += 10
    alone.sent()
    same(await collect(alone.world, "db", 10), [])
    same(alone.sent(), [GET, "list wal"])
    alone.fails("delete", "2.sst", Unavailable)
    same(await collect(alone.world, "db", 9), [1, 3])
    same(alone.sent(), [GET, "list wal", "delete 1.sst", "delete 2.sst", "delete 3.sst"])
    same(len(alone.warnings), 1)
    same(await collect(alone.world, "db"), [2])
    await wal.append(b"d")
    await wal.flush()
    same(await collect(alone.world, "db"), [4, 5])  # of any age
    same([record.body for record in (await open(alone.world, "db")).records], [b"a", b"b", b"c", b"d"])


async def flushes_fences(alone: Alone) -> None:
    """A flush of a writer without new records passes the fences, so that they can be collected."""
    first = await open(alone.world, "db")
    await first.append(b"a")
    await first.flush()
    second = await open(alone.world, "db")
    alone.sent()
    await second.flush()
    same(alone.sent(), [UPDATE])
    same((await manifest(alone)).replay_after, 3)
    same(await collect(alone.world, "db"), [1, 2, 3])


async def checkpoints(alone: Alone) -> None:
    """A collector spares the objects of a checkpoint until it is dropped; an attempt without a reply is recognised."""
    wal = await open(alone.world, "db")
    first = await wal.append(b"a")
    alone.sent()
    same(await wal.checkpoint(), WalCheckpoint(0, 0, 2))
    same(alone.sent(), [UPDATE])
    same(await manifest(alone), WalManifest(1, 0, (), (WalCheckpoint(0, 0, 2),), 1))
    await wal.flush()
    alone.fails("update", MANIFEST, LOST)
    await wal.append(b"b")
    alone.sent()
    same(await wal.checkpoint(), WalCheckpoint(1, 2, 3))
    same(alone.sent(), [UPDATE, ASK])
    await wal.flush()
    same(await collect(alone.world, "db"), [])
    later = await open(alone.world, "db")
    alone.sent()
    await later.drop(0)
    same(alone.sent(), [UPDATE])
    await later.drop(0)
    same(alone.sent(), [])
    same((await manifest(alone)).checkpoints, (WalCheckpoint(1, 2, 3),))
    same(await collect(alone.world, "db"), [1, 2])
    same(decode_record((await alone.real.get(LOG.key(3))).body), later.records[1])
    same(later.records[0], first)
    await alone.raises(FencedUnapplied, wal.checkpoint())
    await alone.raises(FencedUnapplied, wal.drop(1))
    alone.fails("update", MANIFEST, OutcomeUnknown, 5)
    await alone.raises(OutcomeUnknown, later.checkpoint())
    await alone.raises(Closed, later.drop(1))


async def many(alone: Alone) -> None:
    records = [Record(f"{i}", 1, b"%d" % i) for i in range(1, MANY + 1)]
    for i, record in enumerate(records, 1):
        await alone.real.create(LOG.key(i), encode_record(record))
    wal = await open(alone.world, "db")
    same((wal.records, wal.last_id), (records, MANY + 1))
    same([sent for sent in alone.sent() if sent.startswith("create 1")], [put(MANY + 1)])
    records += [await wal.append(b"a")]
    same(wal.records, records)
    await wal.flush()
    same(await collect(alone.world, "db"), [*range(1, MANY + 3)])
    same((await open(alone.world, "db")).records, records)


async def large_ids(alone: Alone) -> None:
    """An id may be any u64."""
    for latest in LARGE:
        here = Alone()
        await here.real.create(MANIFEST, encode_manifest(WalManifest(latest, latest)))
        wal = await open(here.world, "db")
        same((wal.epoch, wal.last_id), (latest + 1, latest + 1))
        records = [await wal.append(b"a") for _ in range(2)]
        same((await open(here.world, "db")).records, records)
        here.now += 10
        await alone.raises(FencedUnapplied, wal.flush())
        same(await collect(here.world, "db"), [])


async def contents(alone: Alone) -> None:
    """A record and a manifest as bytes, and which bytes are none."""
    record = Record("i", 3, b"\xff")
    same(decode_record(encode_record(record)), record)
    same(decode_record(b""), None)
    full = WalManifest(1, 2, (record,))
    for manifest in (WalManifest(), full, full._replace(checkpoints=(WalCheckpoint(1, 2, 3),), checkpoints_taken=2)):
        same(decode_manifest(encode_manifest(manifest)), manifest)
    for body in (b"{", b"[]", b"1", b"{}", b'{"body":"/w==","epoch":3}', b'{"body":"/ w==","epoch":3,"id":"i"}',
                 b'{"body":1,"epoch":3,"id":"i"}'):
        fails_with(InvalidWal, lambda body=body: decode_record(body))
    for body in (b"", b"{", b"[]", b"1", b"{}", b'{"flushed":1,"replay_after":1,"writer_epoch":1}',
                 b'{"flushed":[{}],"replay_after":1,"writer_epoch":1}',
                 b'{"checkpoints":[{"number":1}],"checkpoints_taken":1,"flushed":[],"replay_after":1,"writer_epoch":1}'):
        fails_with(InvalidWal, lambda body=body: decode_manifest(body))


async def keys(alone: Alone) -> None:
    kv = await WalKv.open(alone.world, "db")
    same(await kv.get("k"), None)
    await kv.put("k", b"1")
    await kv.put("k", b"2")
    alone.sent()
    same(await kv.get("k"), b"2")
    same(alone.sent(), [])
    await kv.flush()
    same(alone.sent(), [UPDATE])
    other = await WalKv.open(alone.world, "db", attempts=1)
    same((await other.get("k"), other.wal.attempts), (b"2", 1))
    await alone.raises(FencedUnapplied, kv.put("k", b"3"))
    await alone.raises(FencedUnapplied, kv.get("k"))
    same(kv.table, {"k": b"2"})
    same(decode(encode("k", b"\xff")), ("k", b"\xff"))
    same(encode("k", b"v"), b'{"key":"k","value":"dg=="}')
    for body in (b"", b"{", b"[]", b'{"key":"k"}', b'{"key":"k","value":"d g=="}', b'{"key":"k","value":1}'):
        fails_with(InvalidWal, lambda body=body: decode(body))
    check(not alone.warnings[1:], "only the fenced writer warns")


class Forgets(ManifestObject):
    """A manifest that does not return what was flushed, as that of a database, which has it in SSTs."""

    keeps = False

    async def read(self) -> Known:
        return without(await super().read())

    async def read_again(self, known: Known) -> Known:
        return without(await super().read_again(known))

    async def put(self, known: Known, manifest: WalManifest) -> Known:
        return without(await super().put(known, manifest))


def without(known: Known) -> Known:
    return known._replace(manifest=known.manifest._replace(flushed=()))


async def forgets(alone: Alone) -> None:
    """A writer whose manifest does not keep what was flushed forgets it, and flushes nothing twice."""
    wal = await open(alone.world, "db", manifest=Forgets(alone.world, "db"))
    first = await wal.append(b"a")
    await wal.flush()
    same((wal.records, (await manifest(alone)).flushed), ([], (first,)))
    second = await wal.append(b"b")
    alone.fails("update", MANIFEST, LOST)
    alone.sent()
    await wal.flush()
    same((wal.records, (await manifest(alone)).flushed, alone.sent()), ([], (second,), [UPDATE, ASK]))
    await wal.flush()
    same(alone.sent(), [])
    third = await wal.append(b"c")
    same((await open(alone.world, "db", manifest=Forgets(alone.world, "db"))).records, [third])


async def refreshes(alone: Alone) -> None:
    wal = await open(alone.world, "db")
    alone.sent()
    await wal.refresh()
    same(alone.sent(), [ASK])
    await open(alone.world, "db")
    await alone.raises(FencedUnapplied, wal.refresh(), epoch=1, stored=2)
    alone.sent()
    await alone.raises(FencedUnapplied, wal.refresh())
    same(alone.sent(), [])


SCRIPTS: tuple[Script, ...] = (
    opens, flushes, forgets, refreshes, replays_in_parts, claims, fences, appends_in_doubt, slots_of_others,
    manifests_of_others, cancelled,
    flushes_fences, collects, checkpoints, many, large_ids, contents, keys)

"""Damages the objects of databases, and reads them every way there is: `python -m tests.support.slatedb.damaged INPUTS [SEED]`.

Each input is one damaged object of a database of ours, or one damaged reply, and one way to read. What is read must be right,
or an error must name the object, the byte and the field. Some inputs can say something else without an error, for no checksum
is wrong: a part with a right checksum behind it, a manifest, which has none, a compactions file that nobody acts on, and a few
WAL objects that are others (`is_another`). There, reading must end soon, with little memory, and with no error that nobody
expects.
"""

import asyncio
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from itertools import pairwise
from random import Random
from typing import Any, NamedTuple

from highwater.dst.actors import METRICS
from highwater.impl.codecs.codec import Undecodable
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb import compactions as compactions_file
from highwater.impl.codecs.slatedb.flatbuffer import ulid_of
from highwater.impl.codecs.slatedb.manifest import ManifestCodec, Phase, SameVersion
from highwater.impl.codecs.slatedb.tables import SstInfo
from highwater.impl.db import compactor, ssts
from highwater.impl.db.build import Built
from highwater.impl.db.cache import Cache
from highwater.impl.db.compaction import Form
from highwater.impl.db.compression import NAMES
from highwater.impl.db.damaged import DamagedObject
from highwater.impl.db.db import Db, Options
from highwater.impl.db.manifest import Built as Written
from highwater.impl.db.manifest import manifests_of
from highwater.impl.db.merge import Shown
from highwater.impl.db.pinned import DbReader
from highwater.impl.db.reader import Reader, opened
from highwater.impl.db.table import Table
from highwater.impl.db.tiers import Tiers
from highwater.impl.db.wal import rows_of
from highwater.impl.db.writes import delete, merge, put
from highwater.impl.errors import StoreError
from highwater.impl.layout import Namespace, key_of_sst, sst_of
from highwater.impl.manifests.spans import Span
from highwater.impl.protocols import db_reader
from highwater.impl.stores.memory import MemoryStore
from highwater.impl.stores.ranges import part_of
from highwater.impl.world import Object, World
from tests.support.database import Stopped, joined
from tests.support.slatedb.damage import RAW, bomb, forged, miswritten
from tests.support.slatedb.ranged import sizes
from tests.support.slatedb.tables import sst_v1

NOW_MS = 1_000_000
LONGEST_S = 20  # of one input; most take some milliseconds
BOMB = 1 << 24  # bytes of content
BOMBS = 4  # in one of so many inputs a bomb may be drawn
WAYS = ("whole", "ranges", "get", "scan", "db", "db", "pinned", "compactor")
SST, WAL, MANIFEST, COMPACTIONS = "SST", "WAL object", "manifest", "compactions file"
FOLDERS = {SST: "db/compacted/", WAL: "db/wal/", MANIFEST: "db/manifest/", COMPACTIONS: "db/compactions/"}
KINDS = (SST,) * 5 + (WAL,) * 2 + (MANIFEST, MANIFEST, COMPACTIONS)


class Sample(NamedTuple):
    """A database, and what it shows."""

    objects: dict[str, bytes]
    shown: dict[bytes, Shown]

    def all_of(self, kind: str) -> list[str]:
        """Return the keys of the objects that are not empty."""
        return [key for key in sorted(self.objects) if key.startswith(FOLDERS[kind]) and self.objects[key]]

    def read_of(self, kind: str) -> list[str]:
        """Return the keys of those that are read."""
        keys = self.all_of(kind)
        if kind == SST:
            return [key for key in keys if key in self.infos()]
        if kind == WAL:
            return [key for key in keys if key > Namespace("db", "wal").key(self.manifest().replay_after_wal_id)]
        return keys[-1:]

    def manifest(self) -> Manifest:
        """Return the latest one."""
        return ManifestCodec().decode(self.objects[self.all_of(MANIFEST)[-1]])


    def infos(self) -> dict[str, SstInfo]:
        """Return what the latest manifest says of each SST, by its key."""
        return {key_of_sst("db", sst.id): sst.info for sst in self.manifest().ssts}


class Input(NamedTuple):
    """One damage: of which object, in which way, and how it is read."""

    sample: Sample
    kind: str
    key: str
    body: bytes
    how: str
    way: str
    checksum: bool  # the damage is behind a checksum that is right, or there is none: it may go unnoticed
    replies: bool  # the object is well, but ranges of it arrive damaged
    seed: int


class Unexpected(Exception):
    """An input did what no damage may do."""


class Numbers:
    """Ids that are the same in each run."""

    def __init__(self, first: int):
        self.last = (NOW_MS << 32 | first) << 48

    def new_id(self) -> str:
        self.last += 1
        return ulid_of(self.last)


class Store(MemoryStore):
    """A store with these objects. Ranges of `key` arrive damaged, if one is given."""

    def __init__(self, objects: dict[str, bytes], key: str = "", seed: int = 0):
        super().__init__(lambda: NOW_MS)
        self._objects = {name: Object(body, "1", NOW_MS) for name, body in objects.items()}
        self._keys, self._writes = sorted(objects), 1
        self.key, self.draw = key, Random(seed)

    async def get_range(self, key: str, start: int, end: int) -> Object:
        found = part_of(await self.get(key), key, start, end)
        if key != self.key or self.draw.random() < 0.3:
            return found
        return found._replace(body=self.draw.choice(RAW)(found.body, self._objects[key].body, self.draw))


# ----------------------------------------------------------------------------------------------------------- databases

@cache
def samples() -> tuple[Sample, ...]:
    """One of each codec, one whose manifest is V1, and one with an SST of format 1."""
    built = [asyncio.run(written(codec, 2)) for codec in range(len(NAMES))]
    version_1 = asyncio.run(written(0, 1))
    return tuple(asyncio.run(sample_of(objects)) for objects in (*built, version_1, of_format_1(version_1)))


def world_of(store: MemoryStore) -> World:
    return World(store, Stopped(NOW_MS), Numbers(len(store._keys)), METRICS)


def options_of(codec: int, version: int) -> Options:
    return Options(joined, poll_ms=0, manifest_version=version, built=Written(codec, 150, 2), attempts=2)


async def written(codec: int, version: int) -> dict[str, bytes]:
    """Return the objects of a database with a run, SSTs in L0, and WAL objects behind a fence."""
    world, draw = world_of(Store({})), Random(codec)
    for part in range(5):
        db = await Db.open(world, "db", options_of(codec, version))
        for batch in range(3):
            await db.write([put(b"key%03d" % at, b"value %d " % part * draw.choice((0, 1, 9)), draw.choice((None, 99_000)))
                            for at in draw.sample(range(40), 6)])
            await db.write([delete(b"key%03d" % draw.randrange(40)), merge(b"m%d" % batch, b"+%d" % part)])
        if part < 4:
            await db.flush()
        await db.close()
        if part in (0, 1):
            await compacted(world, codec, Tiers(1, 2))
    return bodies_of(world.store)


async def compacted(world: World, codec: int, scheduler: Tiers) -> None:
    of = compactor.DbCompactor(compactor.stores_of(world, "db"), "db",
                               compactor.Options(scheduler=scheduler, form=Form(900, codec, 150, 2), attempts=2))
    await of.open()
    await of.compact_once()


def of_format_1(objects: dict[str, bytes]) -> dict[str, bytes]:
    """Write each SST again, in format 1, and the manifest that names them."""
    key = max(key for key in objects if key.startswith("db/manifest/"))
    manifest, found, built = ManifestCodec(Phase.WRITE_V1).decode(objects[key]), dict(objects), {}
    for sst in manifest.ssts:
        blocks = [rows for rows in Table("x", objects[key_of_sst("db", sst.id)]).blocks()]
        built[sst.id] = sst_v1(blocks)
        found[key_of_sst("db", sst.id)] = built[sst.id].body
    ssts = tuple(sst._replace(info=built[sst.id].info, format_version=1) for sst in manifest.ssts)
    return found | {key: ManifestCodec(Phase.WRITE_V1).encode(manifest._replace(ssts=ssts))}


def bodies_of(store: Any) -> dict[str, bytes]:
    return {key: found.body for key, found in store._objects.items()}


async def sample_of(objects: dict[str, bytes]) -> Sample:
    return Sample(objects, await shown_in(Store(objects)))


async def shown_in(store: MemoryStore) -> dict[bytes, Shown]:
    return {one.key: one async for one in Reader(store, await opened(store, "db")).scan(Span(), NOW_MS)}


# -------------------------------------------------------------------------------------------------------------- inputs

def input_of(seed: int, number: int) -> Input:
    draw = Random(f"{seed}/{number}")
    sample, kind = draw.choice(samples()), draw.choice(KINDS)
    key = draw.choice(sample.read_of(kind))
    body, how, checksum = sample.objects[key], "replies", False
    way = draw.choice([way for way in WAYS if kind in (SST, MANIFEST) or way not in ("ranges", "get")])
    replies = kind == SST and way not in ("whole", "pinned") and draw.random() < 0.3
    if not replies:
        other = sample.objects[draw.choice(sample.all_of(draw.choice((kind, kind, kind, *KINDS))))]
        damages = [*((damage.__name__, lambda damage=damage: damage(body, other, draw)) for damage in RAW)]
        if kind in (SST, WAL):
            damages += [("forged", lambda: forged(body, draw)), ("miswritten", lambda: miswritten(body, draw)),
                        ("miswritten", lambda: miswritten(body, draw))]
            damages += [("bomb", lambda: bomb(body, BOMB, draw))] * (draw.random() < 1 / BOMBS)
        how, damage = draw.choice(damages)
        made = damage()
        sample, body = (named(sample, key, made) if isinstance(made, Built) else sample), (
            made.body if isinstance(made, Built) else made)
        checksum = how in ("forged", "miswritten", "bomb") or kind == MANIFEST or (
            kind == COMPACTIONS and way == "whole") or (kind == WAL and is_another(sample, key, body, way))
    return Input(sample, kind, key, body, how, way, checksum, replies, draw.randrange(1 << 32))


def is_another(sample: Sample, key: str, body: bytes, way: str) -> bool:
    """Return whether the object with this key is a whole one in the wrong place, and nothing in the log says so.

    It may be a fence, of no bytes. Or it is the first one of the log, and has rows that are flushed, as those of a log may be
    whose flush has ended and whose manifest says less. Who reads one object alone does not see the order of several."""
    if not body:
        return True
    return body in sample.objects.values() and (way == "whole" or key == sample.read_of(WAL)[0])


def is_made_of_others(given: Input) -> bool:
    """Return whether each part of a damaged object is a whole one of some object, with its own right checksum.

    A block says neither of which object nor in which place it is. So one with keys that fit goes unnoticed."""
    try:
        table = Table("x", given.body)
    except DamagedObject:
        return False
    ends = [*table.offsets, table.end_of_blocks]
    parts = [*(given.body[a:b] for a, b in pairwise(ends)), given.body[table.end_of_blocks:table.info_offset]]
    return all(any(part in body for body in given.sample.objects.values()) for part in parts)


def named(sample: Sample, key: str, built: Built) -> Sample:
    """Return the database with a manifest that has the info of an SST that was written wrongly."""
    latest, sst = sample.all_of(MANIFEST)[-1], sst_of("db", key) if key.startswith("db/compacted/") else None
    codec = SameVersion()
    manifest = codec.decode(sample.objects[latest])
    if sst is None or sst not in {one.id for one in manifest.ssts}:
        return sample
    ssts = tuple(one._replace(info=built.info) if one.id == sst else one for one in manifest.ssts)
    return sample._replace(objects=sample.objects | {latest: codec.encode(manifest._replace(ssts=ssts))})


# --------------------------------------------------------------------------------------------------------------- reads

def read(given: Input) -> str:
    """Read one damaged object; return what came of it. Raises Unexpected."""
    draw = Random(given.seed)
    store = Store(given.sample.objects | {given.key: given.body}, given.key if given.replies else "", given.seed)
    limits = draw.choice(((0, 0, 1, 1), (0, 0, 300, 600), (0, 1 << 18, 200, 1 << 20), (1 << 16, 1 << 18, 1 << 16, 1 << 20)))
    try:
        with ended_in(LONGEST_S), sizes(*limits):
            right = asyncio.run(DONE[given.way](given, store, draw))
    except Unexpected:
        raise
    except Exception as error:
        return refused(given, error)
    if right or given.checksum or (given.kind == SST and is_made_of_others(given)):
        return "right rows" if right else "other rows"
    raise Unexpected(f"{given.key}, {given.how}, by {given.way}: wrong rows")


def refused(given: Input, error: Exception) -> str:
    """Return the class of an error. Raises Unexpected unless it may be raised for this damage, and says where that is."""
    told = f"{given.key}, {given.how}, by {given.way}: {type(error).__name__}: {error}"
    if not isinstance(error, StoreError):
        raise Unexpected(told) from error
    if isinstance(error, DamagedObject | Undecodable):
        longest = max(len(given.body), len(given.sample.objects[given.key])) * (3 if given.replies else 1)
        if not error.field or not (0 <= error.offset <= longest or given.kind == MANIFEST):
            raise Unexpected(told) from error
        if given.key not in str(error) and given.kind in (SST, WAL):  # of two WAL objects in the wrong order both are named
            raise Unexpected(told) from error
        return type(error).__name__
    if given.kind in (SST, WAL) and not given.checksum:
        raise Unexpected(told) from error
    return type(error).__name__


@contextmanager
def ended_in(seconds: int) -> Generator[None]:
    """End what takes longer, with Unexpected."""
    def stop(*_: Any) -> None:
        raise Unexpected(f"it took more than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


async def whole(given: Input, store: Store, draw: Random) -> bool:
    """Decode the object."""
    body, before = given.body, given.sample.objects[given.key]
    if given.kind == MANIFEST:
        return ManifestCodec().decode(body) == ManifestCodec().decode(before)
    if given.kind == COMPACTIONS:
        return compactions_file.decode(body) == compactions_file.decode(before)
    if given.kind == WAL:
        return not body or rows_of(given.key, body) == rows_of(given.key, before)  # nobody can tell an empty one from a fence
    return [*Table(given.key, body, given.sample.infos()[given.key]).rows()] == [*Table(given.key, before).rows()]


async def ranges(given: Input, store: Store, draw: Random) -> bool:
    """Read all blocks of an SST, as a scan or as `dump-sst` does."""
    if given.kind != SST:
        return await scan(given, store, draw)
    info, reader = given.sample.infos()[given.key], ssts.Ssts(store, Cache(draw.choice((0, 1 << 20))))
    keys = [row.key for row in Table(given.key, given.sample.objects[given.key]).rows()] if not given.checksum else []
    for key in draw.sample(keys, min(2, len(keys))):
        if not await reader.may_contain(given.key, info, key):
            return False
    with_manifest = given.body in given.sample.objects.values() or draw.random() < 0.8  # else none can tell that it is another
    end = await (reader.end(given.key, info) if with_manifest else reader.end_without_manifest(given.key))
    rows = [row async for block in reader.blocks_of(end) for row in block]
    return rows == [*Table(given.key, given.sample.objects[given.key]).rows()]


async def get(given: Input, store: Store, draw: Random) -> bool:
    reader = Reader(store, await opened(store, "db"))
    asked = [*draw.sample(sorted(given.sample.shown), 4), b"key%03d" % draw.randrange(50), b"x"]
    return all([await reader.get(key, NOW_MS) == given.sample.shown.get(key) for key in asked])


async def scan(given: Input, store: Store, draw: Random) -> bool:
    return told(given, await shown_in(store))


async def db(given: Input, store: Store, draw: Random) -> bool:
    """Open a writer, read, write, flush and read again."""
    of = await Db.open(world_of(store), "db", replace(options_of(0, 2), replay_flush=draw.choice((None, 1))))
    try:
        found = {key: await of.shown(key) for key in draw.sample(sorted(given.sample.shown), 3)}
        right = all(given.sample.shown[key] == one for key, one in found.items())
        right &= {key: value async for key, value in of.scan()} == {
            one.key: one.merged(joined) for one in given.sample.shown.values()}
        await of.put(b"new", b"value")
        if draw.random() < 0.5:
            await of.flush()
        right &= await of.get(b"new") == b"value"
    finally:
        await of.close()
    return right


async def pinned(given: Input, store: Store, draw: Random) -> bool:
    """Open a reader that takes checkpoints."""
    world = world_of(store)
    of = DbReader(manifests_of(world, "db"), "db", db_reader.Options(60_000, 600_000, attempts=2))
    await of.open()
    try:
        return told(given, {one.key: one async for one in of.snapshot().scan()})
    finally:
        await of.close()


async def compact(given: Input, store: Store, draw: Random) -> bool:
    """Compact what is there, and read the result."""
    await compacted(world_of(store), 0, draw.choice((Tiers(1, 2), Tiers(2, 8))))
    return told(given, await shown_in(store))


def told(given: Input, found: dict[bytes, Shown]) -> bool:
    """Return whether this is what the database shows. Raises Unexpected if there is more than its bytes can hold."""
    if len(found) > 20_000:
        raise Unexpected(f"{given.key}, {given.how}: {len(found):,} keys")
    return found == given.sample.shown


DONE = {"whole": whole, "ranges": ranges, "get": get, "scan": scan, "db": db, "pinned": pinned, "compactor": compact}


# ----------------------------------------------------------------------------------------------------------------- run

def try_damaged(seed: int, inputs: int, first: int = 0) -> Counter[tuple[str, str, str]]:
    """Read so many damaged objects; count them by kind, way of damage, and what came of it. Raises Unexpected."""
    found: Counter[tuple[str, str, str]] = Counter()
    for number in range(first, first + inputs):
        given = input_of(seed, number)
        try:
            found[given.kind, given.how, read(given)] += 1
        except Unexpected as error:
            raise Unexpected(f"input {number} of seed {seed}: {error}") from error
    return found


def memory_kb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main(inputs: int, seed: int = 0, first: int = 0) -> None:
    samples()
    begun_s, before_kb = time.monotonic(), memory_kb()
    found = try_damaged(seed, inputs, first)
    for kind in (SST, WAL, MANIFEST, COMPACTIONS):
        came = Counter[str]()
        for (of, _, what), number in found.items():
            came[what] += number * (of == kind)
        print(f"{kind}: {sum(came.values()):,} inputs: " + ", ".join(f"{what} {n:,}" for what, n in came.most_common() if n))
    ways = Counter[str]()
    for (_, how, _), number in found.items():
        ways[how] += number
    print("damage: " + ", ".join(f"{how} {number:,}" for how, number in ways.most_common()))
    print(f"{inputs:,} inputs of seed {seed} in {time.monotonic() - begun_s:,.0f} s; at most "
          f"{(memory_kb() - before_kb) / 1024:,.0f} MiB more than before")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

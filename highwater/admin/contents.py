"""Reads SSTs and WAL objects for a check. No row is kept: of each object a few numbers stay, so memory does not grow with rows.

    ends      footer, info, index, filter and statistics; of SSTs of L0, of neighbours in a sorted run that share a key, and of
              the WAL to replay also the first and the last block
    blocks    everything

Each part has a checksum, which is verified. The rest of the SST is compared with it: the manifest's account of the object, the
keys of the index, the order of the rows, the filter.
"""

from itertools import pairwise
from typing import Any, NamedTuple

from highwater.admin.database import Database, Place, Steps, wal_namespace
from highwater.admin.findings import Parents, runs_of, shared_keys
from highwater.impl.codecs.slatedb.tables import SstInfo
from highwater.impl.db.bloom import Bloom
from highwater.impl.db.cache import Cache
from highwater.impl.db.compression import CodecMissing
from highwater.impl.db.damaged import DamagedObject
from highwater.impl.db.rows import Row
from highwater.impl.db.ssts import End, Ssts, has_filter
from highwater.impl.errors import NotFound
from highwater.impl.layout import key_of_sst
from highwater.impl.world import ObjectStore, World


class Target(NamedTuple):
    """An object to read."""

    key: str
    store: ObjectStore
    size_bytes: int  # when it was listed
    info: SstInfo | None = None  # what a manifest says of it
    wal_id: int | None = None  # None: it is an SST
    needed: bool = True  # reads need it
    sampled: bool = False  # its first and last block are read in any case


class Content(NamedTuple):
    """The numbers that a check keeps of an object. `seqs` and the ends are those of the rows that were read."""

    fault: str = ""  # why the object is damaged; the rest is of what was read before
    not_read: str = ""  # why it could not be read, although it may be whole
    first: tuple[bytes, int] | None = None  # key and number of the first row; None: no row was read
    last: tuple[bytes, int] | None = None
    seqs: tuple[int, int] | None = None  # the smallest and the largest number of a row
    left_out: int = 0  # numbers between those of neighbouring rows of a WAL object
    blocks: int = 0
    rows: int = 0


class Contents(NamedTuple):
    """The contents of all objects; empty if none was to be read."""

    ssts: dict[str, Content]  # by the id of the SST
    wal: dict[int, Content]
    targets: dict[str, Target]  # by key
    by_key: dict[str, Content]
    whole: bool = False  # every block was read


NOTHING = Contents({}, {}, {}, {})


# ------------------------------------------------------------------------------------------------------- what is read

def targets_of(world: World, database: Database, parents: Parents, wal_at: Place | None, everything: bool) -> list[Target]:
    """Return the objects to read: SSTs that manifests name, here or in a parent, and the WAL to replay; or `everything`."""
    infos, homes, sampled = dict[str, SstInfo](), dict[str, str](), set[str]()
    for file in database.manifests:
        if file.value:
            infos |= {sst.id: sst.info for sst in file.value.ssts}
            homes |= {sst: one.path for one in file.value.external_dbs for sst in one.sst_ids}
    if database.latest:
        ssts = {sst.id: sst for sst in database.latest.ssts}
        for _, l0, runs in runs_of(database.latest):
            sampled |= {view.sst_id for view in l0}
            sampled |= {view.sst_id for run in runs for pair in shared_keys(run.views, ssts) for view in pair}
    found = []
    for name, info in infos.items():
        home = homes.get(name, database.root)
        there = database.ssts if name not in homes else parents[home].ssts if home in parents else {}
        if name in there:
            found.append(Target(key_of_sst(home, name), world.store, there[name], info, sampled=name in sampled))
    namespace, store = wal_namespace(database.root, wal_at), (wal_at.world if wal_at else world).store
    replayed = database.latest.replay_after_wal_id if database.latest else 0
    found += [Target(namespace.key(one.id), store, one.size_bytes, None, one.id, one.id > replayed, one.id > replayed)
              for one in database.wal if not one.fence and (everything or one.id > replayed)]
    if everything:
        outputs = {sst.id: sst.info for file in database.compactions if file.value
                   for one in file.value.recent_compactions for sst in one.output_ssts}
        found += [Target(key_of_sst(database.root, name), world.store, size, outputs.get(name), needed=False)
                  for name, size in database.ssts.items() if name not in infos]
    return found


async def contents_of(targets: list[Target], everything: bool, steps: Steps | None, known: Contents = NOTHING) -> Contents:
    """Read objects, but not again those that are whole in `known`: no client writes an object twice. Raises Unavailable."""
    read = Contents({}, {}, {}, {}, everything)
    for target in targets:
        content = known.by_key.get(target.key)
        if content is None or content.fault:
            if steps:
                steps(target.key, len(targets))
            content = await content_of(target, everything)
        if content is not None:
            read.targets[target.key], read.by_key[target.key] = target, content
            if target.wal_id is None:
                read.ssts[target.key.rpartition("/")[2].removesuffix(".sst")] = content
            else:
                read.wal[target.wal_id] = content
    return read


# ---------------------------------------------------------------------------------------------------------- one object

async def content_of(target: Target, everything: bool) -> Content | None:
    """Read an object; return None if it was deleted since it was listed. Raises Unavailable."""
    of = Reading(target, Parts(target.store, Cache(0)))
    try:
        await of.read(everything)
    except NotFound:
        return None
    except CodecMissing as error:
        return of.found._replace(not_read=str(error))
    except DamagedObject as error:
        return of.found._replace(fault=str(error).removeprefix(f"{target.key}: "))
    return of.found


class Parts(Ssts):
    """Reads single parts of SSTs, which no client does."""

    async def block_of(self, end: End, number: int) -> list[Row]:
        """Return the rows of one block of an SST whose end has been read. They are not kept."""
        start, stop = end.table.place_of(number)
        _, part = await self._part(end, start, stop)
        return end.table.decoded(number, part)

    async def filter_of(self, end: End) -> Bloom | None:
        """Return the filter of an SST whose end has been read; None if it has none that this release knows."""
        table = end.table
        alone = has_filter(table.info) and table.info.filter_offset < table.start
        return await self._filter(table.key, table.info) if alone else table.bloom


class Reading:
    """Reads one object. `found` has what is known so far."""

    def __init__(self, target: Target, ssts: Parts):
        self.target, self.ssts, self.found = target, ssts, Content()

    async def read(self, everything: bool) -> None:
        """Raises DamagedObject, CodecMissing, NotFound, Unavailable."""
        key, info = self.target.key, self.target.info
        end = await (self.ssts.end(key, info) if info else self.ssts.end_without_manifest(key))
        table = end.table
        if table.size_bytes != self.target.size_bytes:
            raise DamagedObject(key, table.size_bytes, "end", f"the object has {self.target.size_bytes:,} bytes")
        if table.offsets and table.is_wal != (self.target.wal_id is not None):
            raise DamagedObject(key, table.info_offset, "info, sst_type", f"{table.info.sst_type} is that of "
                                f"{'a WAL object' if table.is_wal else 'an SST'}, which was put in its place")
        _, bloom = table.stats, await self.ssts.filter_of(end)
        numbers = range(len(table.offsets))
        if everything:
            async for rows in self.ssts.blocks_of(end):
                self.add(rows, bloom)
        elif self.target.sampled:
            for number in sorted({*numbers[:1], *numbers[-1:]}):
                self.add(await self.ssts.block_of(end, number), bloom, number == numbers[0] or len(numbers) < 3)

    def add(self, rows: list[Row], bloom: Any, follows: bool = True) -> None:
        """Add a block, which follows the last one that was added if `follows`. Raises DamagedObject."""
        found, is_wal, first = self.found, self.target.wal_id is not None, rows[0]
        if found.last and (first.seq < found.last[1] if is_wal else (first.key, -first.seq) <= (found.last[0], -found.last[1])):
            raise DamagedObject(self.target.key, 0, "order of rows", f"a block begins with a row of number {first.seq}, "
                                f"which does not belong behind one of number {found.last[1]}")
        if bloom and not is_wal and not bloom.may_contain(first.key):
            raise DamagedObject(self.target.key, 0, "filter", "it excludes a key that the object has: it is another object's")
        seqs = [row.seq for row in rows]
        steps = pairwise([found.last[1], *seqs] if found.last and follows else seqs)
        known = found.seqs or (first.seq, first.seq)
        self.found = found._replace(
            first=found.first or (first.key, first.seq), last=(rows[-1].key, rows[-1].seq),
            seqs=(min(known[0], *seqs), max(known[1], *seqs)), blocks=found.blocks + 1, rows=found.rows + len(rows),
            left_out=found.left_out + (sum(max(0, b - a - 1) for a, b in steps) if is_wal else 0))

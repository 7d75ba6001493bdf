"""Reads the ends of SSTs and WAL files, and says which are cut short.

    data, filter, index, statistics      info, a FlatBuffer      its CRC-32, u32      its offset, u64      the version, u16

All numbers are big-endian. An SST in compacted/ and a file in wal/ end alike.
"""

import zlib
from collections.abc import Mapping

from highwater.admin.database import Database, Place, wal_namespace
from highwater.impl.db.ssts import LONGEST_INFO
from highwater.impl.errors import BeyondEnd, NotFound
from highwater.impl.world import World

FOOTER = 10  # bytes: the offset and the version
VERSIONS = (1, 2)  # that releases up to 0.17.0 write


def fault_of_end(body: bytes, start: int = 0) -> str:
    """Return why the end of an SST is not one; "" if it is whole. `body`: the object from byte `start` on."""
    size = start + len(body)
    if len(body) < FOOTER:
        return f"it has {size} bytes, fewer than a footer"
    offset, version = int.from_bytes(body[-FOOTER:-2]), int.from_bytes(body[-2:])
    if version not in VERSIONS or not start <= offset <= size - FOOTER - 4:
        return f"its {size:,} bytes do not end with a footer"
    info, checksum = body[offset - start:-FOOTER - 4], body[-FOOTER - 4:-FOOTER]
    return "" if zlib.crc32(info) == int.from_bytes(checksum) else "the checksum before its footer is wrong"


async def faults_of_ends(world: World, database: Database, wal_at: Place | None = None) -> dict[str, str]:
    """Return the faults by key, of the SSTs here and of the WAL files to replay. Of each file only the end is read."""
    replayed = database.latest.replay_after_wal_id if database.latest else 0
    namespace, folder = wal_namespace(database.root, wal_at), f"{database.root}/" if database.root else ""
    named = {view.sst_id for file in database.manifests if file.value for view in file.value.views}
    wal = await faults_at(wal_at.world if wal_at else world, {
        namespace.key(one.id): one.size_bytes for one in database.wal if one.id > replayed and not one.fence})
    return wal | await faults_at(world, {
        f"{folder}compacted/{name}.sst": database.ssts[name] for name in sorted(named & database.ssts.keys())})


async def faults_at(world: World, sizes: Mapping[str, int]) -> dict[str, str]:
    """Return the faults by key. `sizes`: the bytes of each object when it was listed."""
    found: dict[str, str] = {}
    for key, size in sizes.items():
        start = max(0, size - LONGEST_INFO)
        try:
            body = (await world.store.get_range(key, start, max(size, 1))).body
        except NotFound:
            continue  # it was deleted since it was listed
        except BeyondEnd:
            body = b""
        if fault := fault_of_end(body, start):
            found[key] = fault
    return found

"""Reads the ends of SSTs and WAL files, and says which are cut short.

    data, filter, index, statistics      info, a FlatBuffer      its CRC-32, u32      its offset, u64      the version, u16

All numbers are big-endian. An SST in compacted/ and a file in wal/ end alike.
"""

import zlib
from collections.abc import Iterable

from highwater.admin.database import Database, Place, wal_namespace
from highwater.impl.errors import NotFound
from highwater.impl.world import World

FOOTER = 10  # bytes: the offset and the version
VERSIONS = (1, 2)  # that releases up to 0.17.0 write


def fault_of_end(body: bytes) -> str:
    """Return why the end of an SST is not one; "" if it is whole."""
    if len(body) < FOOTER:
        return f"it has {len(body)} bytes, fewer than a footer"
    offset, version = int.from_bytes(body[-FOOTER:-2]), int.from_bytes(body[-2:])
    if version not in VERSIONS or offset + 4 > len(body) - FOOTER:
        return f"its {len(body):,} bytes do not end with a footer"
    info, checksum = body[offset:-FOOTER - 4], body[-FOOTER - 4:-FOOTER]
    return "" if zlib.crc32(info) == int.from_bytes(checksum) else "the checksum before its footer is wrong"


async def faults_of_ends(world: World, database: Database, wal_at: Place | None = None) -> dict[str, str]:
    """Return the faults by key, of the SSTs here and of the WAL files to replay. Each file is read whole."""
    replayed = database.latest.replay_after_wal_id if database.latest else 0
    namespace, folder = wal_namespace(database.root, wal_at), f"{database.root}/" if database.root else ""
    named = {view.sst_id for file in database.manifests if file.value for view in file.value.views}
    wal = await faults_at(wal_at.world if wal_at else world,
                          [namespace.key(one.id) for one in database.wal if one.id > replayed and not one.fence])
    return wal | await faults_at(world, [f"{folder}compacted/{name}.sst" for name in sorted(named & database.ssts.keys())])


async def faults_at(world: World, keys: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for key in keys:
        try:
            fault = fault_of_end((await world.store.get(key)).body)
        except NotFound:
            continue  # it was deleted since it was listed
        if fault:
            found[key] = fault
    return found

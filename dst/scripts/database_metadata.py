"""Scripts of a database's metadata, impl/protocols/database_metadata.py."""

from highwater.dst.script import Alone, Script, same
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.protocols.database_metadata import initialise, open, stores_of


async def first_files(alone: Alone) -> None:
    stores = stores_of(alone.world, "db")
    await initialise(stores)
    same(alone.sent(), ["list manifest", "create 1.manifest", "get manifest.boundary",
                        "list compactions", "create 1.compactions", "get compactions.boundary"])
    same((await stores.manifest.current()).value, Manifest())


async def write(alone: Alone) -> None:
    stores = stores_of(alone.world, "db")
    await initialise(stores)
    alone.sent()
    wal = await open(stores, "db")
    same(alone.sent(), ["list manifest", "get 1.manifest", "create 2.manifest", "get manifest.boundary", "list wal",
                        "create 1.sst", "list manifest"])
    await wal.append(b"a")
    same(alone.sent(), ["create 2.sst", "list manifest"])
    await wal.flush()
    same(alone.sent(), ["create 3.manifest", "get manifest.boundary"])
    await wal.flush()
    same(alone.sent(), [])


SCRIPTS: tuple[Script, ...] = (first_files, write)

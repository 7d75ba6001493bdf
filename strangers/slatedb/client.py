"""SlateDB: `client.py write URL NAME FROM TO` opens the database and writes rows, a flush each; `check URL NAME FROM TO`: they
are there, if the client ended with 0."""

import asyncio
import os
import sys

import slatedb.uniffi as s


def builder(url: str) -> s.DbBuilder:
    return s.DbBuilder("db", s.ObjectStore.resolve(url))


async def write(url: str, name: str, first: str, last: str) -> None:
    of, settings = builder(url), s.Settings.default()
    settings.set("compactor_options", "null")
    settings.set("garbage_collector_options", "null")
    of.with_settings(settings)
    db = await of.build()
    for row in range(int(first), int(last)):
        await db.put(f"{name}-{row}".encode(), b"row")
        await db.flush_with_options(s.FlushOptions(flush_type=s.FlushType.MEM_TABLE))
    await db.shutdown()


async def check(url: str, name: str, first: str, last: str) -> None:
    reader = await s.DbReaderBuilder("db", s.ObjectStore.resolve(url)).build()
    missing = [row for row in range(int(first), int(last)) if await reader.get(f"{name}-{row}".encode()) is None]
    await reader.shutdown()
    assert not missing or os.environ["HIGHWATER_EXIT"] != "0", missing


if __name__ == "__main__":
    asyncio.run({"write": write, "check": check}[sys.argv[1]](*sys.argv[2:]))

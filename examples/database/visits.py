"""Opens a database on SlateDB's own bytes, writes to it, and reads it: `python examples/database/visits.py URL`."""

import asyncio
import sys

from highwater.impl.db.db import Db, Options
from highwater.impl.db.writes import delete, merge, put
from highwater.impl.manifests.spans import Span
from highwater.impl.stores.system import open_database, system_world


def added(key: bytes, found: bytes | None, operand: bytes) -> bytes:
    """The merge operator: values and operands are numbers."""
    return b"%d" % (int(found or 0) + int(operand))


async def main(url: str) -> None:
    store, root = open_database(url, read_only=False)  # a folder that exists, or s3://bucket/prefix
    db = await Db.open(system_world(store), root, Options(merge=added))  # makes the database if there is none
    await db.put(b"user:42", b"Ada", ttl_ms=3_600_000)  # durable on return
    await db.write([put(b"user:43", b"Grace"), delete(b"user:7"), merge(b"visits", b"2")])  # all of it or nothing
    before = db.snapshot()
    await db.merge(b"visits", b"3")
    async for key, value in db.scan(Span(b"user:", b"user;")):
        print(key.decode(), "is", value.decode())
    print("visits:", int(await before.get(b"visits") or 0), "and now", int(await db.get(b"visits") or 0))
    await db.checkpoint(lifetime_ms=60_000, name="nightly")  # flushes, and keeps what is there for a minute
    await db.close()


asyncio.run(main(sys.argv[1]))

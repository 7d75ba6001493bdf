"""Commit and clean on a real store: `python -m tests.work URL [MUTANT]`. One client does all of it, in turn."""

import asyncio
import sys

from table.impl import FILES, TABLE, Content, Table, encode, name_of
from table.mutants import BUILDS
from table.scenario import Shape, production

from highwater import open_store, system_world


async def work(url: str, mutant: str = "") -> None:
    world = system_world(open_store(url))
    build = BUILDS[mutant][1] if mutant else production
    table: Table = build(world, Shape(), 0)
    await world.store.create(TABLE, encode(Content()))
    await table.append("0.0", b"first")
    await table.append("0.1", b"second")
    await table.store_file(name_of(2, "1.0"), b"lost the conflict for number 2")
    await table.store_file(name_of(3, "1.0"), b"is about to be committed")
    print("deleted:", *await table.clean())
    print("kept:", *[entry.key.removeprefix(FILES) for entry in (await world.store.list_page(FILES)).entries])


asyncio.run(work(*sys.argv[1:]))

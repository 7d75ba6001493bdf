"""The reader of a database on a real clock: its poller and its refresher run beside its caller."""

import asyncio

from highwater.dst.actors import METRICS
from highwater.impl.codecs.json.manifest import DATABASE
from highwater.impl.codecs.json.rows import Row, encode_rows
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.layout import Namespace, key_of_sst
from highwater.impl.protocols import checkpoints
from highwater.impl.protocols.db_reader import DbReader, Options
from highwater.impl.protocols.sequenced_metadata import MetadataStore
from highwater.impl.stores.memory import MemoryStore
from highwater.impl.stores.system import SystemClock, Ulids
from highwater.impl.world import World

A, B = "01ARZ3NDEKTSV4RRFFQ69G5FAV", "01ARZ3NDEKTSV4RRFFQ69G5FAW"


async def begun() -> MetadataStore:
    manifests = MetadataStore(World(MemoryStore(), SystemClock(), Ulids(), METRICS), Namespace("db", "manifest"), DATABASE)
    for sst, value in ((A, "old"), (B, "new")):
        await manifests.world.store.create(key_of_sst("db", sst), encode_rows([Row(1, "k", value)]))
    await manifests.initialise(Manifest(l0=(A,), last_l0_seq=1))
    return manifests


async def until(holds) -> None:
    for _ in range(400):
        if await holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not become true")


def test_the_poller_finds_other_ssts_and_a_lost_checkpoint():
    async def work() -> None:
        manifests = await begun()
        reader = DbReader(manifests, "db", Options(5, 10_000))
        first = (await reader.open()).checkpoint
        assert await reader.get("k") == "old"
        await manifests.update(lambda _, m: m._replace(l0=(B,)))

        async def changed() -> bool:
            return await reader.get("k") == "new"

        await until(changed)
        assert reader.view
        second = reader.view.checkpoint
        await checkpoints.delete(manifests, second)

        async def is_back() -> bool:
            shown = {reader.view.checkpoint} if reader.view else set()
            return {one.id for one in await checkpoints.listed(manifests)} == shown - {first, second}

        await until(is_back)
        await reader.close()
        assert await checkpoints.listed(manifests) == ()

    asyncio.run(work())


def test_the_refresher_renews_the_lease():
    async def work() -> None:
        manifests = await begun()
        reader = DbReader(manifests, "db", Options(100, 400))
        await reader.open()
        before = (await checkpoints.listed(manifests))[0].expiry_ms

        async def renewed() -> bool:
            return (await checkpoints.listed(manifests))[0].expiry_ms > before

        await until(renewed)
        await reader.close()

    asyncio.run(work())

"""Our compactor and released clients share a database: they read and go on after it, and finish what it has left."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from highwater.admin.check import judge
from highwater.impl.codecs.slatedb import compactions
from highwater.impl.codecs.slatedb.tables import COMPACTED, COMPLETED, FAILED, RUNNING
from highwater.impl.db.compaction import Form
from highwater.impl.db.compactor import DbCompactor, Options, stores_of
from highwater.impl.db.tiers import Tiers
from highwater.impl.stores.local import LocalStore
from highwater.impl.stores.system import system_world
from tests.impl.protocols.test_impl_manifest_compactions import Died
from tests.interop.test_interop import Database
from tests.interop.test_interop import database as database
from tests.interop.test_interop import peer as peer
from tests.interop.test_interop_tables import latest, read
from tests.support.slatedb.client import Client, compacting

pytestmark = pytest.mark.interop
HOUR_MS = 3_600_000
OPTIONS = Options(scheduler=Tiers(2, 3, 1e9), form=Form(3000, min_filter_keys=10))


@pytest.fixture(params=["0.15.0", "0.17.0"])
def release(request) -> str:
    return request.param


def ours(database: Database, work: Callable[[DbCompactor], Awaitable[Any]]) -> Any:
    """Open a compactor of ours, and let it work."""
    async def go() -> Any:
        compacting = DbCompactor(stores_of(system_world(LocalStore(database.path_on_disk)), ""), "", OPTIONS)
        await compacting.open()
        return await work(compacting)

    return asyncio.run(go())


async def everything(compacting: DbCompactor) -> list[int]:
    """Compact until there is nothing to do; return the statuses that are listed then."""
    done = 0
    while await compacting.compact_once():
        done += 1
    assert done
    return [one.status for one in (await compacting.stores.compactions.current()).value.recent_compactions]


def filled(peer: Client, name: str, flushes: int) -> None:
    """Values, tombstones, operands and times to live in so many SSTs; a snapshot keeps older versions."""
    for number in range(flushes):
        peer.write(batch=[["put", f"key{i:03d}", f"{name} {number} {i}"] for i in range(number % 3, 200, 3)]
                   + [["merge", "m", f"{name}{number},"], ["delete", f"key{number:03d}"], ["put", "ttl", name, HOUR_MS],
                      ["put", f"short{number}", "v", 1]])
        if number == 2:
            peer.snapshot()
        peer.flush()


def rows(peer: Client, database: Database) -> list[list]:
    """All rows but those that have expired: released clients show them until they are compacted."""
    return [row for row in peer.rows_of(path=database.path, merging=True) if not row[0].startswith("short")]


def shown(database: Database) -> list[list]:
    return [row for row in read(database) if not row[0].startswith("short")]


def listed(database: Database) -> list[int]:
    body = max(database.files("compactions").items())[1]
    return [one.status for one in compactions.decode(body).recent_compactions]


def test_released_clients_read_and_go_on_after_our_compactions(release, peer, database):
    peer.open(path=database.path, merging=True)
    filled(peer, "a", 6)
    peer.close()
    before = rows(peer, database)
    assert ours(database, everything) == [COMPLETED]
    manifest = latest(database)[1]
    assert not manifest.l0 and [len(run.views) > 1 for run in manifest.compacted] == [True]
    assert rows(peer, database) == before == shown(database)
    peer.open(path=database.path, merging=True, settings=compacting(release))
    filled(peer, "b", 9)
    until(lambda: len(latest(database)[1].l0) < 9 and COMPLETED in listed(database))
    peer.close()
    before = rows(peer, database)
    ours(database, everything)
    time.sleep(1.1)
    peer.collect(path=database.path)
    assert rows(peer, database) == before == shown(database)
    assert not [one for one in asyncio.run(judge(database.world, database.name)) if one.level != "note"]


def until(holds: Callable[[], bool]) -> None:
    for _ in range(200):
        if holds():
            return
        time.sleep(0.05)
    pytest.fail("it does not come")


@pytest.mark.parametrize(("step", "status"), [("_merge", RUNNING), ("_pin", COMPACTED), ("_finish", COMPACTED)])
def test_a_released_compactor_finishes_what_ours_has_left(release, peer, database, step, status):
    """Ours dies before the outputs are listed, before the result is in the manifest, and after that."""
    peer.open(path=database.path, merging=True)
    filled(peer, "a", 5)
    peer.close()
    before = rows(peer, database)

    async def dies(compacting: DbCompactor) -> None:
        async def dead(*_: Any) -> None:
            raise Died

        setattr(compacting, step, dead)
        with pytest.raises(Died):
            await compacting.compact_once()

    ours(database, dies)
    assert listed(database) == [status]
    settings = compacting(release) | {"compactor_options.worker_heartbeat_timeout": "1s"}  # of ours, which is dead
    peer.open(path=database.path, merging=True, settings=settings)
    until(lambda: all(one in (COMPLETED, FAILED) for one in listed(database)))
    filled(peer, "b", 6)
    until(lambda: listed(database) == [COMPLETED])
    found = peer.rows()
    peer.close()
    assert before != found and rows(peer, database) == [row for row in found if not row[0].startswith("short")]
    ours(database, everything)
    assert rows(peer, database) == [row for row in found if not row[0].startswith("short")] == shown(database)

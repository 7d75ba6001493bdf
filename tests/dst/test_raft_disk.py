"""The log of a Raft node on a simulated disk: what a failed sync leaves, and a restart of the process does not notice."""

import asyncio

import pytest

from highwater.dst.world.folder import Folder
from highwater.impl.node_world import DiskFailed
from highwater.impl.raft import log as raft_log
from highwater.impl.raft.entries import COMMAND, Entry
from highwater.impl.raft.faults import Damaged
from highwater.impl.raft.log import open_log
from highwater.impl.raft.state import Save


class Written:
    """A Disk of simulated files, whose next sync fails if it should."""

    def __init__(self):
        self.folder, self.fails = Folder(), False

    async def names(self) -> list[str]:
        return sorted(self.folder.names)

    async def read(self, name: str) -> bytes:
        return self.folder.names[name].content

    async def create(self, name: str) -> None:
        self.folder.apply("create", name, b"", "", None)

    async def append(self, name: str, body: bytes) -> None:
        self.folder.apply("append", name, body, "", None)

    async def truncate(self, name: str, size_bytes: int) -> None:
        self.folder.apply("truncate", name, b"", str(size_bytes), None)

    async def sync(self, name: str) -> None:
        if self.fails:
            self.folder.fail("sync", name, b"", "", last, "sync")
            raise DiskFailed("as the test says")
        self.folder.apply("sync", name, b"", "", self.folder.begin("sync", name))

    async def rename(self, old: str, new: str) -> None:
        self.folder.apply("rename", old, b"", new, None)

    async def remove(self, name: str) -> None:
        self.folder.apply("remove", name, b"", "", None)

    async def sync_names(self) -> None:
        self.folder.apply("sync_names", "", b"", "", None)


def last(site: str, bound: int) -> int:
    """Choose the worst: what may be lost is lost."""
    return bound - 1


LONG = b"2" * 10_000  # some pages: a later write is to the last of them alone


async def found_after_a_failed_sync() -> list[bytes]:
    """Return the entries after: a sync fails, the process starts again and writes on, and the machine crashes."""
    disk = Written()
    log, _ = await open_log(disk, "a", (0, 0))
    await log.write([Save(1, 1, "", 1, (Entry(1, COMMAND, b"1"),))])
    disk.fails = True
    with pytest.raises(DiskFailed):
        await log.write([Save(2, 1, "", 2, (Entry(1, COMMAND, LONG),))])
    disk.fails = False
    disk.folder.ended()
    log, recovered = await open_log(disk, "a", (0, 0))
    assert [entry.body for entry in recovered.log.entries] == [b"1", LONG]  # so it acknowledges both
    await log.write([Save(1, 1, "", 3, (Entry(1, COMMAND, b"3"),))])
    disk.folder.crash(last, "crash")
    _, recovered = await open_log(disk, "a", (0, 0))
    return [entry.body for entry in recovered.log.entries]


def test_what_looked_written_after_a_failed_sync_is_there_after_a_crash(monkeypatch):
    assert asyncio.run(found_after_a_failed_sync()) == [b"1", LONG, b"3"]
    monkeypatch.setattr(raft_log, "rewrite", lambda disk, newest: disk.sync(newest.name))
    with pytest.raises(Damaged):  # an acknowledged entry is gone
        asyncio.run(found_after_a_failed_sync())

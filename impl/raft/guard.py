"""Safety: a write or sync that took too long is never taken for one that worked.

A disk that gives up after a limit: a call that takes longer raises DiskFailed, and the node stops, as after any failure. What
it had waited for may still be written later, but then nobody counts on it or builds on it.
"""

from collections.abc import Awaitable
from typing import TypeVar

from highwater.impl.errors import TimedOut
from highwater.impl.node_world import Disk, DiskFailed
from highwater.impl.world import Clock

Result = TypeVar("Result")


class GuardedDisk:
    """A Disk on another one, each of whose calls may take `limit_ms`."""

    def __init__(self, disk: Disk, clock: Clock, limit_ms: int):
        self.disk, self.clock, self.limit_ms = disk, clock, limit_ms

    async def _in_time(self, what: str, call: Awaitable[Result]) -> Result:
        try:
            return await self.clock.timeout(self.limit_ms, call)
        except TimedOut as error:
            raise DiskFailed(f"{what} took more than {self.limit_ms:,} ms: the disk has stalled; look at the disk, then start "
                             "the node again") from error

    async def lock(self) -> None:
        await self._in_time("locking the folder", self.disk.lock())

    async def names(self) -> list[str]:
        return await self._in_time("listing the folder", self.disk.names())

    async def read(self, name: str) -> bytes:
        return await self._in_time(f"reading {name}", self.disk.read(name))

    async def create(self, name: str) -> None:
        await self._in_time(f"making {name}", self.disk.create(name))

    async def append(self, name: str, body: bytes) -> None:
        await self._in_time(f"writing {name}", self.disk.append(name, body))

    async def truncate(self, name: str, size_bytes: int) -> None:
        await self._in_time(f"cutting {name}", self.disk.truncate(name, size_bytes))

    async def sync(self, name: str) -> None:
        await self._in_time(f"syncing {name}", self.disk.sync(name))

    async def rename(self, old: str, new: str) -> None:
        await self._in_time(f"renaming {old}", self.disk.rename(old, new))

    async def remove(self, name: str) -> None:
        await self._in_time(f"removing {name}", self.disk.remove(name))

    async def sync_names(self) -> None:
        await self._in_time("syncing the folder", self.disk.sync_names())

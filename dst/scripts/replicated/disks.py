"""A disk in memory for scripts of impl/raft: it counts its calls, and fails where a script says."""

from collections.abc import Coroutine
from typing import Any

from highwater.impl.node_world import DiskFull, FileMissing


class Content:
    """The bytes of one file: what it has now, and what is durable."""

    def __init__(self) -> None:
        self.now, self.durable = b"", b""


class ScriptDisk:
    """A Disk. `fail` makes all calls of a method raise: {"sync": DiskFailed("..")}; `room_bytes` is what fits in."""

    def __init__(self) -> None:
        self.files: dict[str, Content] = {}
        self.durable_names: dict[str, Content] = {}
        self.fail: dict[str, Exception] = {}
        self.room_bytes = 1 << 40
        self.calls: list[tuple[str, str]] = []

    def _called(self, call: str, name: str = "") -> None:
        self.calls.append((call, name))
        if call in self.fail:
            raise self.fail[call]

    def _file(self, name: str) -> Content:
        if name not in self.files:
            raise FileMissing(name)
        return self.files[name]

    async def lock(self) -> None:
        self._called("lock")

    async def names(self) -> list[str]:
        self._called("names")
        return sorted(self.files)

    async def read(self, name: str) -> bytes:
        self._called("read", name)
        return self._file(name).now

    async def create(self, name: str) -> None:
        self._called("create", name)
        self.files[name] = Content()

    async def append(self, name: str, body: bytes) -> None:
        self._called("append", name)
        if sum(len(file.now) for file in self.files.values()) + len(body) > self.room_bytes:
            raise DiskFull(f"there is no room for {name}: make room, then start the node again")
        self._file(name).now += body

    async def truncate(self, name: str, size_bytes: int) -> None:
        self._called("truncate", name)
        self._file(name).now = self._file(name).now[:size_bytes]

    async def sync(self, name: str) -> None:
        self._called("sync", name)
        self._file(name).durable = self._file(name).now

    async def rename(self, old: str, new: str) -> None:
        self._called("rename", new)
        self.files[new] = self._file(old)
        del self.files[old]

    async def remove(self, name: str) -> None:
        self._called("remove", name)
        self._file(name)
        del self.files[name]

    async def sync_names(self) -> None:
        self._called("sync_names")
        self.durable_names = dict(self.files)


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine that never waits for anything."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits")

"""A Disk in memory that crashes: it keeps any subset of the 4 KiB pages of unsynced bytes, and any unsynced name or not."""

from random import Random

from highwater.impl.node_world import DiskFailed, DiskFull, FileMissing

PAGE = 4096


class Content:
    """The bytes of one file: what it has now, and what is durable."""

    def __init__(self):
        self.now, self.durable = b"", b""


class CrashingDisk:
    """A Disk. `fail` makes all calls of a method raise: {"sync": DiskFailed("..")}; `room_bytes` is what fits in."""

    def __init__(self):
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

    def crash(self, random: Random) -> None:
        """End the machine, and start it again."""
        for name in sorted({*self.files, *self.durable_names}):
            if self.files.get(name) is not self.durable_names.get(name) and random.random() < 0.5:
                if name in self.files:
                    self.durable_names[name] = self.files[name]
                else:
                    del self.durable_names[name]
        self.files = dict(self.durable_names)
        for file in self.files.values():
            file.now = file.durable = torn(file, random)
        self.fail, self.calls = {}, []


def torn(file: Content, random: Random) -> bytes:
    """Return what a crash leaves of a file: each page that was not synced is as it was before, or as it is now."""
    before, now = file.durable, file.now
    if len(now) < len(before):
        return random.choice((before, now))
    end = random.choice((len(now), len(now), random.randint(len(before), len(now))))
    kept = bytearray(before.ljust(end, b"\0"))
    for start in range(len(before) // PAGE * PAGE, end, PAGE):
        if random.random() < 0.5:
            kept[start:start + PAGE] = now[start:min(start + PAGE, end)]
    return bytes(kept[:end])


def broken() -> DiskFailed:
    return DiskFailed("the device does not answer; look at the disk, then start the node again")

"""A Disk in memory, which nothing outlives: for a node that is tried out, and for work on a copy of a folder."""

from highwater.impl.node_world import FileMissing


class MemoryDisk:
    """A Disk of files in memory. All that is written is durable at once."""

    def __init__(self, files: dict[str, bytes] | None = None):
        self.files = {name: bytearray(body) for name, body in (files or {}).items()}

    async def lock(self) -> None:
        pass  # nobody else has it

    async def names(self) -> list[str]:
        return sorted(self.files)

    async def read(self, name: str) -> bytes:
        return bytes(self._file(name))

    async def create(self, name: str) -> None:
        self.files[name] = bytearray()

    async def append(self, name: str, body: bytes) -> None:
        self._file(name).extend(body)

    async def truncate(self, name: str, size_bytes: int) -> None:
        del self._file(name)[size_bytes:]

    async def sync(self, name: str) -> None:
        self._file(name)

    async def rename(self, old: str, new: str) -> None:
        self.files[new] = self._file(old)
        del self.files[old]

    async def remove(self, name: str) -> None:
        self._file(name)
        del self.files[name]

    async def sync_names(self) -> None:
        pass

    def _file(self, name: str) -> bytearray:
        if name not in self.files:
            raise FileMissing(f"there is no file {name!r}")
        return self.files[name]

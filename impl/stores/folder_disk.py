"""Safety: what `sync` and `sync_names` returned for is on the device, and one process at a time works in the folder.

A Disk in a folder of a local file system: one file for each name, `fdatasync` for content, `fsync` of the folder for names, and
`flock` on a file of its own. All calls run in one thread, one after the other, also those whose caller has given up. So a late
write never lands behind a later one, and the lock outlives it.
"""

import asyncio
import errno
import fcntl
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from highwater.impl.node_world import DiskFailed, DiskFull, DiskLocked, FileMissing
from highwater.impl.stores.local import fsync_folder

Result = TypeVar("Result")
LOCK = ".lock"
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}  # of the device, of a quota, of a limit on file sizes


class FolderDisk:
    """The Disk in `folder`, which is made if it is missing. `close` it to give up its lock, or end the process."""

    def __init__(self, folder: str | os.PathLike):
        self.folder = os.path.abspath(folder)
        make_durably(self.folder)
        self._thread = ThreadPoolExecutor(1, "folder-disk")
        self._lock_fd: int | None = None
        self._open: dict[str, int] = {}  # files that were written: an error of the device is told to who had them open

    async def lock(self) -> None:
        await self._run(self._lock)

    async def names(self) -> list[str]:
        return await self._run(lambda: sorted(name for name in os.listdir(self.folder) if name != LOCK))

    async def read(self, name: str) -> bytes:
        return await self._run(self._read, name)

    async def create(self, name: str) -> None:
        await self._run(self._create, name)

    async def append(self, name: str, body: bytes) -> None:
        await self._run(self._append, name, body)

    async def truncate(self, name: str, size_bytes: int) -> None:
        await self._run(lambda: os.ftruncate(self._fd(name), size_bytes))

    async def sync(self, name: str) -> None:
        await self._run(lambda: os.fdatasync(self._fd(name)))

    async def rename(self, old: str, new: str) -> None:
        await self._run(self._rename, old, new)

    async def remove(self, name: str) -> None:
        await self._run(self._remove, name)

    async def sync_names(self) -> None:
        await self._run(fsync_folder, self.folder)

    async def close(self) -> None:
        """Close all files and give up the lock, after all calls that still run."""
        await self._run(self._close)
        self._thread.shutdown()

    async def _run(self, call: Callable[..., Result], *args) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._told, call, *args)

    def _told(self, call: Callable[..., Result], *args) -> Result:
        """Return what the call returns, and raise its error as one of the seam's."""
        try:
            return call(*args)
        except FileNotFoundError as error:
            raise FileMissing(f"{self.folder}: there is no file {args[0] if args else ''!r}: {error}") from error
        except OSError as error:
            raise DiskFailed(f"{self.folder}: {error}; look at the disk, then start the node again") from error

    def _path(self, name: str) -> str:
        if not name or name in (LOCK, ".", "..") or "/" in name or "\0" in name:
            raise ValueError(f"bad file name {name!r}: a name has no slash and is not {LOCK!r}")
        return os.path.join(self.folder, name)

    def _fd(self, name: str) -> int:
        if name not in self._open:
            self._open[name] = os.open(self._path(name), os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        return self._open[name]

    def _lock(self) -> None:
        if self._lock_fd is not None:
            return
        fd = self._lock_file()
        if fd is None:
            return
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            raise DiskLocked(f"{self.folder}: another process works in this folder: end it, or take another folder") from None
        self._lock_fd = fd

    def _lock_file(self) -> int | None:
        """Open the lock's file, which is made if it is missing; None if it cannot be, because the file system is read-only.
        Then nobody works here, and nobody can."""
        path = os.path.join(self.folder, LOCK)
        try:
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            if error.errno != errno.EROFS:
                raise
        try:
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None

    def _read(self, name: str) -> bytes:
        with open(self._path(name), "rb") as file:
            return file.read()

    def _create(self, name: str) -> None:
        self._forget(name)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        try:
            self._open[name] = os.open(self._path(name), flags, 0o666)
        except OSError as error:
            if error.errno in FULL:
                raise full(self.folder, name, error) from error
            raise

    def _append(self, name: str, body: bytes) -> None:
        fd = self._fd(name)
        size = os.fstat(fd).st_size
        unwritten = memoryview(body)
        try:
            while unwritten:
                unwritten = unwritten[os.write(fd, unwritten):]
        except OSError as error:
            if error.errno not in FULL:
                raise
            os.ftruncate(fd, size)  # if this fails, it is not known what the file has: DiskFailed
            raise full(self.folder, name, error) from error

    def _rename(self, old: str, new: str) -> None:
        os.rename(self._path(old), self._path(new))
        self._forget(new)
        if old in self._open:
            self._open[new] = self._open.pop(old)

    def _remove(self, name: str) -> None:
        os.unlink(self._path(name))
        self._forget(name)

    def _forget(self, name: str) -> None:
        if name in self._open:
            with suppress(OSError):
                os.close(self._open.pop(name))

    def _close(self) -> None:
        for name in list(self._open):
            self._forget(name)
        if self._lock_fd is not None:
            os.close(self._lock_fd)
            self._lock_fd = None


def make_durably(folder: str) -> None:
    """Make a folder and those above it, where they are missing, so that a crash of the machine leaves them."""
    if not os.path.isdir(folder):
        above = os.path.dirname(folder)
        make_durably(above)
        os.mkdir(folder)
        fsync_folder(above)


def full(folder: str, name: str, error: OSError) -> DiskFull:
    return DiskFull(f"{folder}: there is no room for {name}: {error.strerror}; make room, then start the node again")

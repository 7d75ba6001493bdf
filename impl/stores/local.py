"""Safety: an object is whole or absent, its versions never repeat, and a conditional write is atomic between processes.

How, on a local POSIX file system:

- Whole or absent. A body is written to a temporary file and fsynced; one system call gives it its name (`link` for
  create, which fails if the name is taken; `rename` for update and put), then the folder is fsynced. So a process may
  be killed, or the machine lose power, at any line here: what was acknowledged is there, and nothing is there in part.
- Atomic. Every mutation holds `flock` of its key's lock file from before it looks at the object until after it has
  changed it. The kernel drops the lock of a process that dies.
- One moment. Each of those system calls happens under a shared lock of the gate file, a page of a listing is read under
  the exclusive one: so a page, which takes many reads of folders, shows the store as it was at one moment.
- No version twice, and so no ABA. A version is inode-mtime-size. The file system gives a freed inode to the next file,
  and equal bodies have equal sizes, so it rests on the mtime, set to the nanosecond before the file has its name: it is
  the clock's time or one more than the last that this lock file gave, whichever is greater, so along the life of a key
  it grows with every write, over deletions too, and whatever the clock does.
"""

import asyncio
import errno
import fcntl
import os
import stat
import time
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, NamedTuple

from highwater.impl.errors import AlreadyExists, NotFound, OutcomeUnknown, PreconditionFailed, Unavailable
from highwater.impl.stores.keys import OWN_FOLDER, check_key, fault_of
from highwater.impl.world import Entry, Object, Page

LOCKS = 256  # lock files; keys share them, so that their number does not grow with the number of keys ever written
GONE = (FileNotFoundError, NotADirectoryError, IsADirectoryError)  # there is no object of that name


class Held(NamedTuple):
    """A key's lock, while it is held."""

    lock_fd: int  # the lock file's content is the last mtime that was given under it
    temp: str  # the one temporary file of this lock: whoever holds the lock owns it


class LocalStore:
    """An ObjectStore in the folder `root`: the object of key "a/b" is the file root/a/b.

    A file cannot be a folder: who has a key "a" cannot have "a/b" as well (ValueError), nor "a" once there was "a/b",
    for folders stay. `last_modified_ms` is by this machine's clock, and does not go back, as told above.
    """

    caches = False

    def __init__(self, root: str | os.PathLike, page_size: int = 1000, read_only: bool = False):
        """`read_only`: nothing is made, not even a lock; then a page of a listing may mix what was there at several moments."""
        self._root = os.path.abspath(root)
        self._page_size = page_size
        self._durable: set[str] = set()  # folders that this process knows to be durable up to the root
        self._read_only = read_only
        if read_only:
            return
        if not os.path.isdir(self._root):
            os.makedirs(self._root, exist_ok=True)
            fsync_folder(os.path.dirname(self._root))
        self._own = os.path.join(self._root, OWN_FOLDER)
        os.makedirs(self._own, exist_ok=True)
        self._gate = os.path.join(self._own, "gate")

    async def create(self, key: str, body: bytes) -> str:
        return await self._run(self._create, key, body)

    async def update(self, key: str, body: bytes, version: str) -> str:
        return await self._run(self._update, key, body, version)

    async def put(self, key: str, body: bytes) -> str:
        return await self._run(self._put, key, body)

    async def get(self, key: str) -> Object:
        return await self._run(self._get, key)

    async def get_if_changed(self, key: str, version: str) -> Object | None:
        return await self._run(self._get, key, version)

    async def head(self, key: str) -> Entry:
        return await self._run(self._head, key)

    async def list_page(self, prefix: str, after: str = "") -> Page:
        return await self._run(self._list_page, prefix, after)

    async def delete(self, key: str) -> None:
        return await self._run(self._delete, key)

    async def _run(self, work: Callable, *args: Any) -> Any:
        """`work` in a thread. What the operating system refuses before `_commit` has had no effect: Unavailable."""
        try:
            return await asyncio.to_thread(work, *args)
        except OSError as error:
            raise Unavailable(f"{args[0]!r}: {error}") from error

    def _create(self, key: str, body: bytes) -> str:
        path = self._path(key)
        with self._locked(key) as held:
            self._make_folder(key, os.path.dirname(path))
            if self._stat(path):
                raise AlreadyExists(key)
            version = write_temp(held, body)
            try:
                self._commit(key, os.link, held.temp, path)
            except FileExistsError:  # a folder, or the file of a program that knows nothing of the lock
                raise collision(key) if os.path.isdir(path) else AlreadyExists(key) from None
            with suppress(OSError):  # the object is there; whoever holds this lock next removes what is left
                os.unlink(held.temp)
            return version

    def _update(self, key: str, body: bytes, version: str) -> str:
        path = self._path(key)
        with self._locked(key) as held:
            found = self._stat(path)
            if not found or version_of(found) != version:
                raise PreconditionFailed(key)
            new_version = write_temp(held, body)
            self._commit(key, os.replace, held.temp, path)
            return new_version

    def _put(self, key: str, body: bytes) -> str:
        path = self._path(key)
        with self._locked(key) as held:
            self._make_folder(key, os.path.dirname(path))
            version = write_temp(held, body)
            try:
                self._commit(key, os.replace, held.temp, path)
            except IsADirectoryError:
                raise collision(key) from None
            return version

    def _delete(self, key: str) -> None:
        path = self._path(key)
        with self._locked(key):
            if self._stat(path):
                self._commit(key, os.unlink, path)

    def _get(self, key: str, known_version: str | None = None) -> Object | None:
        """Opened once: no write changes an open file's bytes, so they belong to the version of the same descriptor."""
        try:
            with open(self._path(key), "rb", buffering=0) as file:
                found = os.fstat(file.fileno())
                if version_of(found) == known_version:
                    return None
                return Object(file.readall(), version_of(found), last_modified_ms(found))
        except GONE:
            raise NotFound(key) from None

    def _head(self, key: str) -> Entry:
        found = self._stat(self._path(key))
        if not found:
            raise NotFound(key)
        return entry(key, found)

    def _list_page(self, prefix: str, after: str) -> Page:
        entries: list[Entry] = []
        folder = prefix.rpartition("/")[0]
        if folder and fault_of(folder):
            return Page((), truncated=False)  # no key can begin so
        with nullcontext() if self._read_only else flocked(self._gate, fcntl.LOCK_EX):
            for key in self._keys_below(folder and folder + "/", prefix, after):
                if len(entries) == self._page_size:
                    return Page(tuple(entries), truncated=True)
                found = self._stat(self._path(key))
                if found:  # a link to nothing, say, is no object
                    entries.append(entry(key, found))
        return Page(tuple(entries), truncated=False)

    def _keys_below(self, folder: str, prefix: str, after: str) -> Iterator[str]:
        """The keys in `folder` ("" or "a/b/") that start with `prefix` and are greater than `after`, in key order.

        A folder is sorted by its name and a slash, so "a-b" and "a.b" come before what is below "a/", as bytes do; it
        is opened only when the caller has come to it.
        """
        try:
            with os.scandir(os.path.join(self._root, folder)) as files:
                names = sorted(file.name + "/" * file.is_dir() for file in files)
        except GONE:
            return
        for key in (folder + name for name in names):
            if not key.startswith(prefix) or fault_of(key.removesuffix("/")):
                continue
            if key.endswith("/"):
                if key > after or after.startswith(key):
                    yield from self._keys_below(key, prefix, after)
            elif key > after:
                yield key

    def _path(self, key: str) -> str:
        check_key(key)
        return os.path.join(self._root, key)

    def _stat(self, path: str) -> os.stat_result | None:
        with suppress(*GONE):
            found = os.stat(path)
            return found if stat.S_ISREG(found.st_mode) else None

    @contextmanager
    def _locked(self, key: str) -> Generator[Held, None, None]:
        if self._read_only:
            raise PermissionError(errno.EROFS, "this store is open for reading only")
        name = f"{zlib.crc32(key.encode()) % LOCKS:02x}"
        with flocked(os.path.join(self._own, f"{name}.lock"), fcntl.LOCK_EX) as lock_fd:
            yield Held(lock_fd, os.path.join(self._own, f"{name}.temp"))

    def _commit(self, key: str, act: Callable, *paths: str) -> None:
        """`act`: the one system call at which a mutation happens, then the folder made durable.

        Raises OutcomeUnknown when either fails for a reason that does not show that nothing happened.
        """
        try:
            with flocked(self._gate, fcntl.LOCK_SH):
                act(*paths)
            fsync_folder(os.path.dirname(paths[-1]))
        except (FileExistsError, IsADirectoryError):
            raise
        except OSError as error:
            raise OutcomeUnknown(f"{key!r}: {error}") from error

    def _make_folder(self, key: str, folder: str) -> None:
        """Make `folder` and those above it, each durable before anything is put into it; whoever made it."""
        if folder == self._root or folder in self._durable:
            return
        self._make_folder(key, os.path.dirname(folder))
        try:
            os.mkdir(folder)
        except FileExistsError:
            if not os.path.isdir(folder):
                raise collision(key) from None
        fsync_folder(os.path.dirname(folder))
        self._durable.add(folder)


def write_temp(held: Held, body: bytes) -> str:
    """Write `body` to the temporary file of the lock that the caller holds, durably; returns its version.

    What is there already was left by a process that died, for its lock is ours now. It is unlinked and not overwritten:
    if the process died just after `link`, it is the object itself under a second name.
    """
    with suppress(FileNotFoundError):
        os.unlink(held.temp)
    with open(held.temp, "xb", buffering=0) as file:
        fd = file.fileno()
        unwritten = memoryview(body)
        while unwritten:
            unwritten = unwritten[file.write(unwritten) :]
        stamp_ns = next_stamp_ns(held.lock_fd)
        os.utime(fd, ns=(stamp_ns, stamp_ns))
        os.fsync(fd)
        written = os.fstat(fd)
    if written.st_mtime_ns != stamp_ns:
        raise OSError(f"the file system of {held.temp} does not keep times to the nanosecond, so versions could repeat")
    return version_of(written)


def next_stamp_ns(lock_fd: int) -> int:
    """The time, but greater than every stamp before it under the same lock, though the clock may have been set back."""
    last = os.pread(lock_fd, 20, 0)
    stamp_ns = max(time.time_ns(), int(last) + 1 if last.isdigit() else 0)
    os.pwrite(lock_fd, b"%020d" % stamp_ns, 0)
    return stamp_ns


@contextmanager
def flocked(path: str, how: int) -> Generator[int, None, None]:
    """Hold `flock` of the file, which is made if need be and never removed. Excludes threads as it does processes."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(fd, how)
        yield fd
    finally:
        with suppress(OSError):  # a mutation that has been made must not look refused
            fcntl.flock(fd, fcntl.LOCK_UN)  # closing would not do, if the process was forked meanwhile
        with suppress(OSError):
            os.close(fd)


def fsync_folder(folder: str) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def version_of(found: os.stat_result) -> str:
    return f"{found.st_ino}-{found.st_mtime_ns}-{found.st_size}"


def last_modified_ms(found: os.stat_result) -> int:
    return found.st_mtime_ns // 1_000_000


def entry(key: str, found: os.stat_result) -> Entry:
    return Entry(key, found.st_size, last_modified_ms(found), version_of(found))


def collision(key: str) -> ValueError:
    return ValueError(f"bad key {key!r}: a key before its slash names an object, or other keys have it as their folder")

"""Safety: an object is whole or absent, its versions never repeat, and a conditional write is atomic between processes.

LocalStore does this on a local POSIX file system as follows:

- Whole or absent. A body is written to a temporary file and fsynced. One system call then gives it its name: `link` for create,
  which fails if the name is taken, and `rename` for update and put. Then the folder is fsynced. A process may be killed, or the
  machine lose power, at any line here. Acknowledged writes are there, and no write is there in part.
- Atomic. Every mutation holds `flock` on its key's lock file from before it looks at the object until after it has changed it.
  The kernel drops the lock of a process that dies.
- One moment. Each of those system calls holds a shared lock on the gate file; reading a page of a listing holds the exclusive
  lock. A page takes many reads of folders, but shows the store as it was at one moment.
- No repeated version, and so no ABA. A version is inode-mtime-size. The file system reuses a freed inode, and equal bodies have
  equal sizes, so uniqueness rests on the mtime. It is set, to the nanosecond, before the file gets its name. It is the clock's
  time, or one more than the last mtime given under this lock file, whichever is greater. So it grows with every write of a key,
  also after deletions, whatever the clock does.
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
from typing import Any, NamedTuple, TypeVar

from highwater.impl.errors import AlreadyExists, BeyondEnd, NotFound, OutcomeUnknown, PreconditionFailed, Unavailable
from highwater.impl.stores.bounds import BoundExceeded, Bounds, Listings, usual_bounds
from highwater.impl.stores.keys import OWN_FOLDER, check_key, fault_of
from highwater.impl.stores.ranges import check_range
from highwater.impl.world import Entry, Object, Page

Result = TypeVar("Result")
PAGE = 50_000  # keys: each page reads its folders from the beginning
LOCKS = 256  # number of lock files; keys share them, so that it does not grow with the number of keys ever written
GONE = (FileNotFoundError, NotADirectoryError, IsADirectoryError)  # these mean that no object has that name


class Held(NamedTuple):
    """A key's lock while a mutation holds it."""

    lock_fd: int  # the lock file contains the last mtime that was given under it
    temp: str  # path of this lock's only temporary file, which belongs to the holder of the lock


class LocalStore:
    """An ObjectStore in the folder `root`: the object of key "a/b" is the file root/a/b.

    A file cannot be a folder. A store with a key "a" refuses "a/b" with ValueError. Folders stay, so after "a/b" it refuses
    "a". A pipe, a device or a socket is no object. A listing does not follow a link to a folder around the link. Unless
    the store is only read, it follows no link that leads out of it: whoever deletes or moves what it shows would do so there.
    `last_modified_ms` is the time of this machine's clock, but never goes back (see above).
    """

    caches = False

    def __init__(self, root: str | os.PathLike, page_size: int = PAGE, read_only: bool = False, threads: bool = True,
                 bounds: Bounds | None = None):
        """Open the folder, and make it if it is missing. `bounds`: of reads and listings [default: those of the environment].
        Raises ValueError if those are bad.

        With `read_only` nothing is made, not even a lock. A page of a listing may then mix objects of several moments. Without
        `threads` a request holds up the event loop, which is quicker where nothing else waits for it.
        """
        self._threads = threads
        self._root = os.path.abspath(root)
        self._page_size = page_size
        self._bounds = bounds or usual_bounds()
        self._listings = Listings(self._bounds)
        self._durable: set[str] = set()  # folders that are known to be durable, up to the root
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
        found = await self._run(self._get, key)
        assert found is not None  # without a known version it is read
        return found

    async def get_range(self, key: str, start: int, end: int) -> Object:
        check_range(start, end)
        return await self._run(self._get_range, key, start, end)

    async def get_if_changed(self, key: str, version: str) -> Object | None:
        return await self._run(self._get, key, version)

    async def head(self, key: str) -> Entry:
        return await self._run(self._head, key)

    async def list_page(self, prefix: str, after: str = "") -> Page:
        return await self._run(self._list_page, prefix, after)

    async def delete(self, key: str) -> None:
        return await self._run(self._delete, key)

    async def _run(self, work: Callable[..., Result], *args: Any) -> Result:
        """Run `work` in a thread. An error of the operating system before `_commit` had no effect and becomes Unavailable."""
        try:
            if self._threads:
                return await asyncio.to_thread(work, *args)
            await asyncio.sleep(0)  # a caller that only reads can be cancelled here
            return work(*args)
        except BoundExceeded as error:
            raise Unavailable(str(error)) from error
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
            except FileExistsError:  # a folder, or a file of a program that does not take the lock
                raise collision(key) if os.path.isdir(path) else AlreadyExists(key) from None
            with suppress(OSError):  # the object exists; the next holder of this lock removes the file
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
        """Read body and version from one open descriptor. No write changes the bytes of an open file, so they belong together.
        """
        with self._opened(key) as (fd, found):
            if version_of(found) == known_version:
                return None
            return self._read(key, fd, found, 0, found.st_size)

    def _get_range(self, key: str, start: int, end: int) -> Object:
        """Read the range from one open descriptor, as `_get` does."""
        with self._opened(key) as (fd, found):
            if start >= found.st_size:
                raise BeyondEnd(key)
            return self._read(key, fd, found, start, min(end, found.st_size))

    @contextmanager
    def _opened(self, key: str) -> Generator[tuple[int, os.stat_result], None, None]:
        """Open an object. To open a pipe would wait for its writer. Raises NotFound."""
        try:
            fd = os.open(self._path(key), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise NotFound(key) if is_gone(error) else error from None
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):
                raise NotFound(key)
            yield fd, found
        finally:
            os.close(fd)

    def _read(self, key: str, fd: int, found: os.stat_result, start: int, end: int) -> Object:
        self._bounds.check_body(end - start, key)
        return Object(read_range(fd, start, end), version_of(found), last_modified_ms(found))

    def _head(self, key: str) -> Entry:
        found = self._stat(self._path(key))
        if not found:
            raise NotFound(key)
        return entry(key, found)

    def _list_page(self, prefix: str, after: str) -> Page:
        folder = prefix.rpartition("/")[0]
        if folder and fault_of(folder):
            return Page((), truncated=False)  # no key can have this prefix
        begun_s, entries, truncated = time.monotonic() - self._listings.spent(prefix, after), list[Entry](), False

        def check_time() -> None:
            self._listings.check_time(prefix, time.monotonic() - begun_s)

        with nullcontext() if self._read_only else flocked(self._gate, fcntl.LOCK_EX):
            for key in self._keys_below(folder and folder + "/", prefix, after, check_time):
                if len(entries) == self._page_size:
                    truncated = True
                    break
                found = self._stat(self._path(key))
                if found:  # for example, a dangling link is not an object
                    entries.append(entry(key, found))
        return self._listings.add(prefix, after, Page(tuple(entries), truncated), time.monotonic() - begun_s)

    def _keys_below(self, folder: str, prefix: str, after: str, check: Callable[[], None],
                    around: frozenset[tuple[int, int]] = frozenset()) -> Iterator[str]:
        """Yield the keys in `folder` ("" or "a/b/") that start with `prefix` and are greater than `after`, in key order.

        A folder is sorted by its name and a slash. So "a-b" and "a.b" come before the keys below "a/", as in the order of
        bytes. A folder is opened only when the caller reaches it, and not below itself.
        `around`: the folders around it. `check` is called before each folder, because links can make 2^40 folders of few.
        """
        check()
        try:
            path = os.path.join(self._root, folder)
            found = os.stat(path)
            if (found.st_dev, found.st_ino) in around or not self._may_list(path):
                return
            with os.scandir(path) as files:
                names = sorted(file.name + "/" * is_folder(file) for file in files
                               if not file.is_symlink() or self._may_list(file.path))
        except GONE:
            return
        around |= {(found.st_dev, found.st_ino)}
        for key in (folder + name for name in names):
            if not key.startswith(prefix) or fault_of(key.removesuffix("/")):
                continue
            if key.endswith("/"):
                if key > after or after.startswith(key):
                    yield from self._keys_below(key, prefix, after, check, around)
            elif key > after:
                yield key

    def _may_list(self, path: str) -> bool:
        """Tell whether a file or folder lies in the store, whatever links lead to it. A store that is only read shows all."""
        root = os.path.realpath(self._root)
        return self._read_only or os.path.commonpath((root, os.path.realpath(path))) == root

    def strays(self, folder: str) -> list[str]:
        """Return the keys of files that no listing shows, although other programs may: links to nothing, bad names, pipes.
        Folders with a good name are among them, each with a slash behind its key: they may be in the place of a file."""
        try:
            with os.scandir(os.path.join(self._root, folder)) as files:
                return sorted(f"{folder}/{file.name}" + "/" * (not fault_of(file.name) and is_folder(file)) for file in files
                              if fault_of(file.name) or not os.path.isfile(file.path))
        except GONE:
            return []

    def _path(self, key: str) -> str:
        check_key(key)
        return os.path.join(self._root, key)

    def _stat(self, path: str) -> os.stat_result | None:
        try:
            found = os.stat(path)
        except OSError as error:
            if is_gone(error):
                return None
            raise
        return found if stat.S_ISREG(found.st_mode) else None

    @contextmanager
    def _locked(self, key: str) -> Generator[Held, None, None]:
        if self._read_only:
            raise PermissionError(errno.EROFS, "this store is open for reading only")
        name = f"{zlib.crc32(key.encode()) % LOCKS:02x}"
        with flocked(os.path.join(self._own, f"{name}.lock"), fcntl.LOCK_EX) as lock_fd:
            yield Held(lock_fd, os.path.join(self._own, f"{name}.temp"))

    def _commit(self, key: str, act: Callable[..., object], *paths: str) -> None:
        """Run `act`, the one system call at which a mutation takes effect, then make the folder durable.

        Raises OutcomeUnknown if either fails for a reason that does not show that nothing happened.
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
        """Make `folder` and its parents. Each is durable before anything is put into it, whichever process made it."""
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
    """Write `body` durably to the temporary file of the lock that the caller holds; return its version.

    A file that is there already was left by a process that died, because the caller holds the lock. It is unlinked, not
    overwritten: if that process died just after `link`, the file is the object itself under a second name.
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


def read_range(fd: int, start: int, end: int) -> bytes:
    """Return the bytes of an open file from `start` up to before `end`. One call may return fewer than it is asked for."""
    parts: list[bytes] = []
    while start < end and (part := os.pread(fd, end - start, start)):
        parts.append(part)
        start += len(part)
    return b"".join(parts)


def is_gone(error: OSError) -> bool:
    """Return whether an error means that no object has that name. A socket (ENXIO) and a link to itself (ELOOP) are none."""
    return isinstance(error, GONE) or error.errno in (errno.ENXIO, errno.ELOOP)


def is_folder(file: os.DirEntry) -> bool:
    """Return whether a name is that of a folder. A link to itself is not."""
    try:
        return file.is_dir()
    except OSError:
        return False


def next_stamp_ns(lock_fd: int) -> int:
    """Return the time, but more than every earlier stamp of the same lock, even if the clock was set back."""
    last = os.pread(lock_fd, 20, 0)
    stamp_ns = max(time.time_ns(), int(last) + 1 if last.isdigit() else 0)
    os.pwrite(lock_fd, b"%020d" % stamp_ns, 0)
    return stamp_ns


@contextmanager
def flocked(path: str, how: int) -> Generator[int, None, None]:
    """Hold `flock` on a file, which is made if it is missing and never removed. It excludes threads as well as processes."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(fd, how)
        yield fd
    finally:
        with suppress(OSError):  # an error here must not make a completed mutation look refused
            fcntl.flock(fd, fcntl.LOCK_UN)  # closing alone would keep the lock if the process was forked meanwhile
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
    """Return the error for a key that would need one name to be both a file and a folder."""
    return ValueError(f"bad key {key!r}: part of it up to a slash is the key of an object, or it is the folder of other keys")

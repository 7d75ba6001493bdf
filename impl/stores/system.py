"""Safety: no id is given twice, and no sleep is too short.

This module is the real world behind the seam: stores by URL, asyncio, the machine's clocks, metrics in memory.
"""

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Coroutine, Generator, Sequence
from traceback import format_tb
from typing import Any, Generic, NamedTuple
from urllib.parse import unquote

from ulid import ULID

from highwater.impl.errors import TaskCancelled, TimedOut
from highwater.impl.stores.databases import LocalDatabases, base_of
from highwater.impl.stores.keys import escaped
from highwater.impl.stores.local import LocalStore
from highwater.impl.stores.memory import MemoryStore, wall_clock_ms
from highwater.impl.stores.read_only import ReadOnly
from highwater.impl.world import ObjectStore, Result, World

ACCEPTED = "memory://, file:///a/folder, a/folder, s3://bucket or s3://bucket/prefix"
LONGEST_WARNING = 2_000  # letters of a warning in the log: keys and errors of a store are in it
log = logging.getLogger("highwater")


def open_store(url: str) -> ObjectStore:
    """Open the store that `url` names. Raises ValueError if the URL is not of an accepted form.

    No request is sent to a server yet. memory:// is a new, empty store at each call. A folder is made if it is missing. For
    s3://, region, credentials and endpoint come from the variables and files that every AWS tool reads: AWS_REGION,
    AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, ...
    """
    scheme, separator, place = url.partition("://")
    if not separator and url:
        return LocalStore(url)
    if url == "memory://":
        return MemoryStore()
    if scheme == "file" and place.startswith("/"):
        return LocalStore(unquote(place))
    bucket, _, prefix = place.partition("/")
    if scheme == "s3" and bucket:
        from highwater.impl.stores.s3 import S3Store, connect  # boto3 is slow to import and only needed here

        return S3Store(connect(), bucket, prefix, ids=Ulids())
    raise ValueError(f"bad store URL {url!r}: accepted are {ACCEPTED}")


def open_database(url: str, read_only: bool = True) -> tuple[ObjectStore, str]:
    """Return the store that holds the database at `url` and its parents, and the database's root in it. Raises ValueError for a
    bad URL, and if there is no such folder.

    The store is the whole bucket, or the folder from which a clone names its parents, else the whole file system.
    """
    places = locate([url])
    return open_located(places, read_only), places.roots[0]


class Located(NamedTuple):
    """Databases of one store."""

    bucket: str  # "": they are in folders
    base: str  # what comes before a key in it: "" in a bucket, else "/" or "/some/folder/"
    roots: tuple[str, ...]


def locate(urls: Sequence[str], new: Sequence[str] = (), base: str | None = None) -> Located:
    """Return where databases are. `new`: URLs of those that are to be made of the others. `base`: the folder from which they
    name their parents; None: the one from which a source does, or else the root of the file system.

    Raises ValueError for a bad URL, if not all of them are in one bucket or all below the folder from which one of them names
    its parents, if a new one is in the folder of another one, or around it, and for a folder that is missing.
    """
    places = [place_of(url) for url in (*urls, *new)]
    bucket, roots = places[0][0], tuple(root for _, root in places)
    for url, (other, _) in zip((*urls, *new), places):
        if other != bucket:
            raise ValueError(f"{url!r} is in another store than {urls[0]!r}: a clone names its parents by their paths in its "
                             "own bucket or file system, so give a URL there")
    real = roots if bucket else tuple(os.path.realpath(f"/{root}").strip("/") for root in roots)
    for one in real[len(urls):]:
        check_beside(one, real[:len(urls)])
    if base is not None and (bucket or place_of(base)[0]):
        raise ValueError(f"the store of {urls[0]!r} is {'its bucket' if bucket else 'no bucket'}: give a base for folders only")
    if bucket:
        return Located(bucket, "", roots)
    for root in roots[:len(urls)]:
        check_folder(root)
    for root in roots[len(urls):]:
        check_can_be_made(f"/{root}")
    return below([f"/{root}" for root in roots], None if base is None else f"/{place_of(base)[1]}")


def below(folders: list[str], base: str | None) -> Located:
    """Return where the databases in some folders are, below the one from which they name their parents: `base`, if it is given.

    Raises ValueError if one of them is not below it, or names its parents from another one."""
    if base is None:
        named = {folder: found for folder in folders if (found := base_of(folder) or base_of(os.path.realpath(folder)))}
        base = next(iter(named.values()), "/")
        for folder, other in named.items():
            if other != base:
                raise ValueError(f"{folder!r} names its parents by paths from {other!r}, and another source from {base!r}: one "
                                 "database cannot name both, so give sources of one store")
    check_folder(base.strip("/"))
    start = "/" if base == "/" else f"{base}/"
    real = "/" if base == "/" else f"{os.path.realpath(base)}/"
    roots: list[str] = []
    for folder in folders:
        spellings = (folder, start), (os.path.realpath(folder), real)  # one of them may be behind a link
        found = [path[len(above):] for path, above in spellings if f"{path}/".startswith(above)]
        if not found:
            raise ValueError(f"{folder!r} is not below {base!r}, from where parents are named: give a place there")
        roots.append(found[0])
    return Located("", start, tuple(roots))


def open_located(places: Located, read_only: bool) -> ObjectStore:
    """Return the store of databases. Writing needs a folder of a database only once something is written into it. A command
    that only reads folders does nothing else meanwhile, so it needs no threads."""
    if places.bucket:
        store = open_store(f"s3://{places.bucket}")
        return ReadOnly(store) if read_only else store
    return LocalStore(places.base, read_only=True, threads=False) if read_only else LocalDatabases(places.base)


def check_beside(new: str, others: Sequence[str]) -> None:
    """Check that a new database is not in the folder of another one, or around it. Raises ValueError."""
    for other in others:
        if new == other:
            raise ValueError(f"{new!r} is both a source and the new database: give another place for the new one")
        if f"{new}/".startswith(other and f"{other}/") or f"{other}/".startswith(new and f"{new}/"):
            raise ValueError(f"one of {new!r} and {other!r} is in the folder of the other, and would be deleted with it: give "
                             "a place beside it")


def place_of(url: str) -> tuple[str, str]:
    """Return the bucket of a database, and its root there; for a folder "" and its path from the root of the file system.

    Raises ValueError for a bad URL."""
    scheme, separator, place = url.partition("://")
    if scheme == "s3" and place.strip("/") and not place.startswith("/"):
        bucket, _, root = place.partition("/")
        return bucket, root.strip("/")
    if not url or (separator and (scheme != "file" or not place.startswith("/"))):
        raise ValueError(f"bad database URL {url!r}: accepted are file:///a/folder, a/folder, s3://bucket/prefix")
    return "", os.path.abspath(unquote(place) if separator else url).strip("/")


def check_can_be_made(folder: str) -> None:
    """Check that a folder can be made, or written in, as far as its permissions tell. Raises ValueError."""
    above = folder
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    if not os.path.isdir(above):
        raise ValueError(f"{above!r} is no folder, so no database can be made at {folder!r}: correct the path")
    if not os.access(above, os.W_OK | os.X_OK):
        raise ValueError(f"{above!r} may not be written: correct the path, or the folder's permissions")


def check_folder(root: str) -> None:
    if not os.path.isdir(f"/{root}"):
        raise ValueError(f"there is no folder {'/' + root!r}: correct the path")


def system_world(store: ObjectStore) -> World:
    """Return the world of one client outside of the simulator. Call it once for each client."""
    return World(store, SystemClock(), Ulids(), Counters())


class SystemTask(Generic[Result]):
    """A task of asyncio."""

    def __init__(self, work: Coroutine[Any, Any, Result], name: str):
        self.task = asyncio.create_task(work, name=name)

    def cancel(self) -> None:
        self.task.cancel()

    def __await__(self) -> Generator[Any, Any, Result]:
        return self._ended().__await__()

    async def _ended(self) -> Result:
        await asyncio.wait([self.task])  # unlike `await self.task`, it does not pass on a cancellation of the caller
        if self.task.cancelled():
            raise TaskCancelled(f"the task {self.task.get_name()!r} was cancelled")
        return self.task.result()


class SystemClock:
    """The machine's clocks: the wall clock, which may be set back, tells the time; the monotonic clock measures sleeps."""

    def now_ms(self) -> int:
        return wall_clock_ms()

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    async def sleep_ms(self, duration_ms: int) -> None:
        end_ns = time.monotonic_ns() + duration_ms * 1_000_000
        await asyncio.sleep(duration_ms / 1e3)  # also of 0 ms: the other tasks have their turn
        while (left_ns := end_ns - time.monotonic_ns()) > 0:  # a timer may fire a little early
            await asyncio.sleep(left_ns / 1e9)

    async def timeout(self, duration_ms: int, call: Awaitable[Result]) -> Result:
        limit = asyncio.timeout(duration_ms / 1e3)
        try:
            async with limit:
                return await call
        except TimeoutError:
            if limit.expired():
                raise TimedOut(f"the call was cancelled after {duration_ms:,} ms") from None
            raise

    def spawn(self, work: Coroutine[Any, Any, Result], name: str) -> SystemTask[Result]:
        return SystemTask(work, name)

    async def first(self, **works: Coroutine[Any, Any, Result]) -> Result:
        tasks = [self.spawn(work, name) for name, work in works.items()]
        running = [task.task for task in tasks]
        try:
            ended, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            winner = next(task for task in tasks if task.task in ended)
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
        return await winner


class Ulids:
    """A source of random ULIDs."""

    def new_id(self) -> str:
        return str(ULID())


def with_frames(error: Exception) -> str:
    """Return an error for a log, though its text may be a client's: in one line and cut, and then where it was raised."""
    text = f"{type(error).__name__}: {str(error)[:LONGEST_WARNING]}"
    return escaped(text) + "\n" + "".join(format_tb(error.__traceback__))


class Counters:
    """Metrics in memory; warnings go to the log as well."""

    def __init__(self):
        self._counts: dict[str, int] = {}
        self._values: dict[str, list[float]] = {}

    def count(self, name: str, amount: int = 1) -> None:
        self._counts[name] = self._counts.get(name, 0) + amount

    def observe(self, name: str, value: float) -> None:
        number, total, least, most = self._values.get(name, (0, 0.0, value, value))
        self._values[name] = [number + 1, total + value, min(least, value), max(most, value)]

    def warn(self, message: str) -> None:
        self.count("warnings")
        log.warning("%s", escaped(message[:LONGEST_WARNING]))

    def snapshot(self) -> dict[str, float]:
        """Return all metrics, sorted by name: {"gets": 2, "get_ms.count": 2, "get_ms.sum": 9.5, "get_ms.min": 1.5,
        "get_ms.max": 8.0}."""
        parts = ("count", "sum", "min", "max")
        values = {f"{name}.{part}": v for name, seen in self._values.items() for part, v in zip(parts, seen)}
        return dict(sorted({**self._counts, **values}.items()))

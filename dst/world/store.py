"""Safety: a request is applied at one moment, all of it or nothing, in the order in which the kernel says.

The simulated store: linearizable, and listing sees every put before it (source 004). What it does wrong is not here but
in faults.py, which decides when a request is applied and whether anyone hears of it.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Awaitable, Generator
from hashlib import blake2b
from types import coroutine
from typing import Any, NamedTuple

from dst.kernel import Client, Kernel, Request, Sleep
from impl.world import Entry, Object, Page

NEW = tuple.__new__  # makes a NamedTuple of its fields in order, in half the time


class Reply(NamedTuple):
    status: int  # as HTTP
    version: str = ""
    body: bytes = b""
    answer: Object | Page | Entry | str | None = None  # what the client is given


NO_CONTENT, NOT_FOUND, FAILED = Reply(204), Reply(404), Reply(412)


class SimulatedStore:
    """Objects in memory. `page_size`: keys on one page of a listing. A version is a digest of the content, as on S3: to
    put the same bytes again brings the same version back."""

    def __init__(self, page_size: int = 1000):
        self.objects: dict[str, tuple[Object, Entry]] = {}
        self.keys: list[str] = []  # sorted
        self.page_size = page_size

    def apply(self, op: str, key: str, body: bytes, condition: str, now_ms: int) -> Reply:
        if op == "list":
            return self._list(key, condition)
        found = self.objects.get(key)
        if op == "create":
            return FAILED if found else self.put(key, body, now_ms)
        if op == "update":
            return self.put(key, body, now_ms) if found and found[0].version == condition else FAILED
        if op == "put":
            return self.put(key, body, now_ms)
        if op == "delete":
            if found:
                del self.objects[key]
                del self.keys[bisect_left(self.keys, key)]
            return NO_CONTENT
        if found is None:
            return NOT_FOUND
        answer, entry = found
        if op == "get_if_changed" and answer.version == condition:
            return Reply(304, answer.version)
        return NEW(Reply, (200, answer.version, answer.body, entry if op == "head" else answer))

    def put(self, key: str, body: bytes, now_ms: int) -> Reply:
        if key not in self.objects:
            insort(self.keys, key)
        version = blake2b(body, digest_size=8).hexdigest()
        self.objects[key] = Object(body, version, now_ms), Entry(key, len(body), now_ms, version)
        return NEW(Reply, (200, version, b"", version))

    def _list(self, prefix: str, after: str) -> Reply:
        keys, objects = self.keys, self.objects
        first = bisect_right(keys, after) if after >= prefix else bisect_left(keys, prefix)
        last = bisect_left(keys, prefix[:-1] + chr(ord(prefix[-1]) + 1), first)  # the first key behind all with the prefix
        end = min(last, first + self.page_size)
        return Reply(200, answer=Page(tuple([objects[key][1] for key in keys[first:end]]), end < last))


@coroutine
def asked(op: str, key: str, body: bytes = b"", condition: str = "") -> Generator[Request, Any, Any]:
    """Ask the kernel, and wait for what the reply brings."""
    return (yield NEW(Request, (op, key, body, condition)))


class ClientStore:
    """The ObjectStore that a client sees: each method asks, and its reply brings what the seam says."""

    caches = False

    def create(self, key: str, body: bytes) -> Awaitable[str]:
        return asked("create", key, body)

    def update(self, key: str, body: bytes, version: str) -> Awaitable[str]:
        return asked("update", key, body, version)

    def put(self, key: str, body: bytes) -> Awaitable[str]:
        return asked("put", key, body)

    def get(self, key: str) -> Awaitable[Object]:
        return asked("get", key)

    def get_if_changed(self, key: str, version: str) -> Awaitable[Object | None]:
        return asked("get_if_changed", key, b"", version)

    def head(self, key: str) -> Awaitable[Entry]:
        return asked("head", key)

    def list_page(self, prefix: str, after: str = "") -> Awaitable[Page]:
        return asked("list", prefix, b"", after)

    def delete(self, key: str) -> Awaitable[None]:
        return asked("delete", key)


class ClientClock:
    """Virtual time, as this client's own clock shows it."""

    def __init__(self, kernel: Kernel, client: Client):
        self.kernel, self.client = kernel, client

    def now_ms(self) -> int:
        return self.kernel.now_ms + self.client.clock_offset_ms

    @coroutine
    def sleep_ms(self, duration_ms: int) -> Generator[Sleep, None, None]:
        yield Sleep(duration_ms)

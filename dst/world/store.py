"""Safety: a request is applied at one moment, all of it or nothing, in the order in which the kernel says.

The simulated store: linearizable, and listing sees every put before it (source 004). What it does wrong is not here but
in faults.py, which decides when a request is applied and whether anyone hears of it.
"""

from bisect import bisect_left, bisect_right, insort
from typing import NamedTuple

from dst.kernel import Client, Kernel, Request, Sleep, wait_for
from impl.world import Entry, Object, Page


class Stored(NamedTuple):
    body: bytes
    version: str
    last_modified_ms: int


class Reply(NamedTuple):
    status: int  # as HTTP
    version: str = ""
    body: bytes = b""
    last_modified_ms: int = 0
    page: Page | None = None


class SimulatedStore:
    """Objects in memory. `page_size`: keys on one page of a listing."""

    def __init__(self, page_size: int = 1000):
        self.objects: dict[str, Stored] = {}
        self.keys: list[str] = []  # sorted
        self.page_size, self._versions = page_size, 0

    def apply(self, r: Request, now_ms: int) -> Reply:
        op, key = r.op, r.key
        found = self.objects.get(key)
        if op == "create":
            return Reply(412) if found else self._store(key, r.body, now_ms)
        if op == "update":
            return self._store(key, r.body, now_ms) if found and found.version == r.condition else Reply(412)
        if op == "put":
            return self._store(key, r.body, now_ms)
        if op == "list":
            return self._list(key, r.condition)
        if op == "delete":
            if found:
                del self.objects[key]
                del self.keys[bisect_left(self.keys, key)]
            return Reply(204)
        if found is None:
            return Reply(404)
        if op == "get_if_changed" and found.version == r.condition:
            return Reply(304, found.version)
        return Reply(200, found.version, found.body, found.last_modified_ms)  # get, get_if_changed, head

    def _store(self, key: str, body: bytes, now_ms: int) -> Reply:
        self._versions += 1
        if key not in self.objects:
            insort(self.keys, key)
        self.objects[key] = Stored(body, f"v{self._versions}", now_ms)
        return Reply(200, f"v{self._versions}")

    def _list(self, prefix: str, after: str) -> Reply:
        keys = self.keys
        first = bisect_right(keys, after) if after >= prefix else bisect_left(keys, prefix)
        last = first
        while last < len(keys) and keys[last].startswith(prefix):
            last += 1
        page = keys[first:min(last, first + self.page_size)]
        entries = tuple(Entry(k, len(o.body), o.last_modified_ms, o.version) for k in page for o in (self.objects[k],))
        return Reply(200, page=Page(entries, last - first > self.page_size))


class ClientStore:
    """The ObjectStore that one client sees."""

    caches = False

    def __init__(self, client: Client):
        self.client = client

    async def create(self, key: str, body: bytes) -> str:
        return (await wait_for(Request(self.client, "create", key, body))).version

    async def update(self, key: str, body: bytes, version: str) -> str:
        return (await wait_for(Request(self.client, "update", key, body, version))).version

    async def put(self, key: str, body: bytes) -> str:
        return (await wait_for(Request(self.client, "put", key, body))).version

    async def get(self, key: str) -> Object:
        reply = await wait_for(Request(self.client, "get", key))
        return Object(reply.body, reply.version, reply.last_modified_ms)

    async def get_if_changed(self, key: str, version: str) -> Object | None:
        reply = await wait_for(Request(self.client, "get_if_changed", key, condition=version))
        return None if reply.status == 304 else Object(reply.body, reply.version, reply.last_modified_ms)

    async def head(self, key: str) -> Entry:
        reply = await wait_for(Request(self.client, "head", key))
        return Entry(key, len(reply.body), reply.last_modified_ms, reply.version)

    async def list_page(self, prefix: str, after: str = "") -> Page:
        return (await wait_for(Request(self.client, "list", prefix, condition=after))).page

    async def delete(self, key: str) -> None:
        await wait_for(Request(self.client, "delete", key))


class ClientClock:
    """Virtual time, as this client's own clock shows it."""

    def __init__(self, kernel: Kernel, client: Client):
        self.kernel, self.client = kernel, client

    def now_ms(self) -> int:
        return self.kernel.now_ms + self.client.clock_offset_ms

    async def sleep_ms(self, duration_ms: int) -> None:
        await wait_for(Sleep(duration_ms))

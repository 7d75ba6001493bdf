"""Safety: the holders' writes do not mix. Once a holder has written, no write of an earlier holder is applied.

The code follows model.py request by request. It has a clock, and trusts it only to be polite: a client waits until the lease of
another has expired, and renews its own in time. No write depends on it. Each write of the data names the version that was read,
and the data holds the token of its last writer.
"""

import json
from typing import NamedTuple

from highwater import AlreadyExists, Definite, NotFound, OutcomeUnknown, PreconditionFailed, World

LOCK, DATA = "db/lock", "db/data"


class Lock(NamedTuple):
    """The content of the lock. `number` rises with each write, so that no content comes back."""

    number: int = 0
    owner: str = ""  # "": released
    expires_ms: int = 0  # by the owner's clock


class Fenced(Definite):
    """A later holder has written: this client has lost its lease. Nothing was applied."""


class Conflict(Definite):
    """Somebody wrote between the GET and the PUT. Nothing was applied."""


def encode(content: object) -> bytes:
    return json.dumps(content).encode()


def decode_lock(body: bytes) -> Lock:
    return Lock(*json.loads(body))


class Lease:
    """One client of the lock and of the data that it guards."""

    def __init__(self, world: World, me: str, lease_ms: int):
        self.world, self.me, self.lease_ms = world, me, lease_ms
        self.held: Lock | None = None  # what this client last wrote
        self.version = ""  # of the lock

    async def append(self, update: str) -> None:
        """Append to the data as the holder of the lock.

        Raises Fenced, Conflict and Unavailable: nothing was applied. Raises OutcomeUnknown: it may be applied, now or later.
        """
        held = await self.hold()
        found = await self.world.store.get(DATA)
        content = json.loads(found.body)
        self.check(content, held.number)
        try:
            await self.put_data(encode([*content, [held.number, update]]), found.version)
        except PreconditionFailed:
            raise Conflict(f"{update!r}: another client wrote meanwhile") from None

    def check(self, content: list, token: int) -> None:
        if content and content[-1][0] > token:
            self.held = None
            raise Fenced(f"the token is {token}, and the data was written with {content[-1][0]}")

    async def put_data(self, body: bytes, version: str) -> None:
        await self.world.store.update(DATA, body, version)

    # --- the lock

    async def hold(self) -> Lock:
        """Return the lock once this client holds it: acquire it, or renew it after half of its time. Raises Unavailable."""
        while True:
            held, now_ms = self.held, self.world.clock.now_ms()
            if held is not None and now_ms < held.expires_ms - self.lease_ms // 2:
                return held
            if held is None or now_ms >= held.expires_ms:
                held = await self.free_lock()
            await self.write_lock(Lock(held.number + 1, self.me, self.world.clock.now_ms() + self.lease_ms))

    async def free_lock(self) -> Lock:
        """Read the lock until it is absent, released or expired."""
        self.held = None
        while True:
            try:
                found = await self.world.store.get(LOCK)
                lock, self.version = decode_lock(found.body), found.version
            except NotFound:
                lock, self.version = Lock(), ""
            left_ms = lock.expires_ms - self.world.clock.now_ms()
            if not lock.owner or left_ms <= 0:
                return lock
            await self.world.clock.sleep_ms(left_ms)

    async def release(self) -> None:
        """Give the lock up. It does not matter whether this succeeds: the lease expires."""
        if self.held is not None:
            await self.write_lock(Lock(self.held.number + 1))
            self.held = None

    async def write_lock(self, lock: Lock) -> None:
        """PUT the lock, and remember it if it was applied. After a conflict or a time-out the client must read it again."""
        self.held = None
        try:
            self.version = await self.put_lock(encode(lock), self.version)
            self.held = lock
        except (AlreadyExists, PreconditionFailed, OutcomeUnknown):
            pass

    async def put_lock(self, body: bytes, version: str) -> str:
        if version:
            return await self.world.store.update(LOCK, body, version)
        return await self.world.store.create(LOCK, body)

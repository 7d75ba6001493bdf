"""Safety: an id that passes `check` was ahead of the durable boundary at a moment after the call; the durable boundary never
moves backward.

SlateDB's RFC on GC boundary files: «The value is an inclusive high-watermark. A boundary value B means that metadata IDs <= B
in that namespace must be treated as potentially deleted.»
"""

import re
from typing import Protocol

from highwater.impl.errors import AlreadyExists, Indefinite, NotFound, OutcomeUnknown, PreconditionFailed, Unavailable
from highwater.impl.layout import U64, InvalidId, Namespace
from highwater.impl.world import World

NUMBER = re.compile(rb"\s*\d{1,40}\s*")


class ObjectVersionBehindBoundary(Indefinite):
    """A file was created with an id at or behind the boundary: the write is not committed.

    The error is indefinite because the write is not undone either. Another writer may have built upon the file before the
    collector moved the boundary past it. Then the update is in every later file. So no code may apply it again by itself.
    """

    def __init__(self, file_id: int, boundary: int):
        self.id, self.boundary = file_id, boundary
        super().__init__(f"id {file_id} is at or behind the boundary {boundary}: the file may have been collected before, "
                         "so this write is not committed; whether its update is in the history is not known")


class InvalidBoundary(Indefinite):
    """A boundary file with content that no collector writes.

    It is indefinite, like BoundaryLost: the fault is in the namespace, and says nothing about the operation that met it.
    """


class BoundaryLost(Indefinite):
    """A boundary that was seen before is gone. This is fatal: used ids can no longer be told from new ones.

    «If a process has observed a boundary file and later finds it missing, it panics because GC must never delete boundary
    files.»
    """


class BoundaryObject(Protocol):
    """The boundary of one namespace."""

    async def read(self) -> int:
        """Return the durable boundary at some moment between call and return; 0 if there has never been one."""
        ...

    @property
    def at_least(self) -> int:
        """The boundary when it was last read."""
        ...

    async def check(self, file_id: int) -> None:
        """Check that the id is ahead of the boundary. Raises ObjectVersionBehindBoundary.

        «verify that id is greater than the durable boundary»
        """

    async def advance(self, boundary: int) -> None:
        """Advance the boundary durably; it never moves backward.

        «durably advance the boundary to at least boundary»
        """


class ObjectStoreBoundaryObject:
    """A boundary in a file: one ASCII u64 in `<root>/gc/<name>.boundary`; a missing file reads as 0.

    The value last read is kept with its version. Later reads use GET If-None-Match: the store decides whether it is still
    current. So no check is answered from memory alone.
    """

    def __init__(self, world: World, namespace: Namespace, attempts: int = 100):
        if world.store.caches:
            raise ValueError(f"{type(world.store).__name__} answers reads from memory: a boundary must not be read through a "
                             "cache; give the store that it wraps")
        self.world, self.key, self.attempts = world, namespace.boundary_key, attempts
        self.seen: tuple[int, str] | None = None  # value, version

    @property
    def at_least(self) -> int:
        """The boundary when it was last read; it is no smaller now."""
        return self.seen[0] if self.seen else 0

    async def read(self) -> int:
        """Return the durable boundary. Raises BoundaryLost, InvalidBoundary, Unavailable."""
        try:
            if self.seen is None:
                found = await self.world.store.get(self.key)
            else:
                found = await self.world.store.get_if_changed(self.key, self.seen[1])
        except NotFound:
            if self.seen is not None:
                raise BoundaryLost(f"{self.key!r} was {self.seen[0]} and is gone: restore it with at least that value; "
                                   "nothing may delete a boundary file") from None
            return 0
        if found is not None:
            value = parse(self.key, found.body)
            if self.seen is not None and value < self.seen[0]:
                raise InvalidBoundary(f"{self.key!r} went back from {self.seen[0]} to {value}: somebody has overwritten it "
                                      "without the condition on the version read")
            self.seen = value, found.version
        return self.at_least

    async def check(self, file_id: int) -> None:
        start_ms = self.world.clock.now_ms()
        boundary = await self.read()
        self.world.metrics.observe("boundary_check_latency_ms", self.world.clock.now_ms() - start_ms)
        if file_id <= boundary:
            self.world.metrics.count("stale_writes_rejected")
            self.world.metrics.warn(f"stale write rejected: id {file_id} is at or behind {self.key!r} = {boundary}")
            raise ObjectVersionBehindBoundary(file_id, boundary)

    async def advance(self, boundary: int) -> None:
        """Advance the boundary to at least `boundary`, again after each conflict.

        «If a concurrent GC wins the conditional update race, retry until the durable boundary is greater than or equal to the
        desired value.» Another collector's win is progress, so `attempts` only limits the loop over a store that evaluates
        conditions wrongly. Raises what `read` raises, and OutcomeUnknown after that many attempts.
        """
        if not 0 <= boundary < U64:
            raise InvalidId(f"the boundary {self.key!r} cannot be {boundary}: it is not in 0 .. 2^64 - 1")
        for _ in range(self.attempts):
            try:
                if await self.read() >= boundary:
                    return
                self.world.metrics.count("boundary_advance_attempts")
                version = await self._write(boundary)
            except (AlreadyExists, PreconditionFailed, OutcomeUnknown) as error:
                self.world.metrics.warn(f"boundary advance of {self.key!r} to {boundary} failed, reading it again: {error}")
            except Unavailable as error:
                self.world.metrics.warn(f"boundary advance of {self.key!r} to {boundary} failed: {error}")
                raise
            else:
                self.seen = boundary, version
                return
        raise OutcomeUnknown(f"{self.key!r} could not be advanced to {boundary} in {self.attempts} attempts")

    async def _write(self, boundary: int) -> str:
        body = b"%d" % boundary
        if self.seen is None:
            return await self.world.store.create(self.key, body)
        return await self.world.store.update(self.key, body, self.seen[1])


class NoBoundary:
    """The boundary of a namespace of which nothing is ever deleted: no request is sent, and every id is ahead of it."""

    at_least = 0

    async def read(self) -> int:
        return 0

    async def check(self, file_id: int) -> None:
        """Accept every id."""

    async def advance(self, boundary: int) -> None:
        raise ValueError(f"nothing of this namespace may be deleted: its boundary stays 0, and does not become {boundary}")


def parse(key: str, body: bytes) -> int:
    """Return the number in a boundary file. Raises InvalidBoundary."""
    if not NUMBER.fullmatch(body) or int(body) >= U64:
        raise InvalidBoundary(f"{key!r} holds {body[:40]!r}, not an ASCII number below 2^64: restore the last value that a "
                              "collector wrote, or a larger one that is below the latest id")
    return int(body)

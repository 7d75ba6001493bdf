"""Safety: an entry that `append` returned for is in every later recovery, once, at the place that its id gives. No id is given
twice, although entries are deleted and any client may stall for any time at any point.

This is the append-only log of the essay on object-store protocols: «the state of the system is represented by reading all the
files and resolving them in order», and «a conflict» costs no GET. An entry is collected only if a durable snapshot holds it and
the durable boundary has passed it (SlateDB's RFC on GC boundary files). Entries are `<root>/log/<id>.log`, snapshots
`<root>/snapshot/<id>.snapshot`; the boundary is `<root>/gc/log.boundary`.

Each snapshot is a separate object for its id, created if absent, not one object that is overwritten. Its content follows from
its id, so a second snapshotter, a late request and an unknown outcome change nothing. An old snapshot serves as a checkpoint
until it is deleted, and deleting it needs no boundary. The price is a LIST at each recovery in place of a GET.
"""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from highwater.impl.errors import Definite, NotFound
from highwater.impl.layout import Namespace
from highwater.impl.protocols.boundary_object import InvalidBoundary, ObjectStoreBoundaryObject
from highwater.impl.protocols.sequenced_metadata_boundary import BoundedSequencedStorage
from highwater.impl.protocols.sequenced_storage import ObjectVersionExists, SequencedStorage, old_ids
from highwater.impl.world import World

MODES = ("boundary", "min_age")


class Fold(NamedTuple):
    """The functions that build a state from entries and encode a state."""

    empty: Any
    apply: Callable[[Any, bytes], Any]  # (state, the next entry) -> state
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]


class InvalidSnapshot(Definite):
    """A snapshot that this codec did not write."""


def texts_encoded(texts: tuple[str, ...]) -> bytes:
    return json.dumps(texts, separators=(",", ":")).encode()


def texts_decoded(body: bytes) -> tuple[str, ...]:
    """Decode a list of texts. Raises InvalidSnapshot."""
    try:
        texts = json.loads(body)
    except ValueError:
        texts = None
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise InvalidSnapshot(f"not a list of entries: {body[:60]!r}")
    return tuple(texts)


# The state is all entries as text. Bytes that are not UTF-8 are escaped, so every acknowledged entry can be read.
TEXTS = Fold((), lambda texts, entry: (*texts, entry.decode("utf-8", "surrogateescape")), texts_encoded, texts_decoded)


class NotRecovered(Definite):
    """Each attempt was overtaken by a collector, which deleted files before they could be read."""


class Recovered(NamedTuple):
    """The result of a recovery."""

    id: int  # the id of the last entry in the state; 0 if there is none
    state: Any
    snapshot: int  # the id of the snapshot that it was built upon; 0 if there is none


class AppendLog:
    """One log: entries, recoveries, snapshots, collection.

    The `mode` "min_age" is the essay's naive collection without a boundary. It is not safe: an appender that stalls for longer
    than `min_age_ms` creates a branch in the history.
    """

    def __init__(self, world: World, root: str, mode: str = "boundary", fold: Fold = TEXTS, read_attempts: int = 10):
        if mode not in MODES:
            raise ValueError(f"the mode of a log is one of {', '.join(MODES)}, not {mode!r}")
        self.world, self.fold, self.read_attempts = world, fold, read_attempts
        namespace = Namespace(root, "log")
        self.entries = SequencedStorage(world, namespace)
        self.snapshots = SequencedStorage(world, Namespace(root, "snapshot"))
        self.boundary = ObjectStoreBoundaryObject(world, namespace) if mode == "boundary" else None
        self.bounded = BoundedSequencedStorage(self.entries, self.boundary) if self.boundary else self.entries
        self.latest: int | None = None  # the latest id that is known to be taken; None: list first

    async def append(self, entry: bytes) -> int:
        """Put the entry under the next free id; return the id.

        «If the next sequential file already exists», the next id is tried; nothing has to be read. After a Definite error the
        entry is nowhere. After an Indefinite one (OutcomeUnknown, ObjectVersionBehindBoundary, a fault of the boundary) it may
        be in the log, so nothing here appends it again.
        """
        if self.latest is None:
            files = await self.bounded.list()  # a collector keeps the last entry, so a listing shows where the log ends
            self.latest = files[-1].id if files else 0
        file_id = self.latest + 1
        while True:
            try:
                await self.bounded.create(file_id, entry)
            except ObjectVersionExists:
                self.world.metrics.count("append_conflicts")
                file_id += 1
            except BaseException:  # also if the call is cancelled
                self.latest = None
                raise
            else:
                self.latest = file_id
                return file_id

    async def recover(self) -> Recovered:
        """Return the state of all entries.

        LIST the snapshots and GET the latest. GET the entries after it until one is missing. It is missing because the log ends
        there, or because a collector deleted it. Only the boundary tells: the result is trusted if a boundary read afterwards
        has not passed the snapshot. Otherwise recovery starts again. Raises NotRecovered, InvalidName, InvalidBoundary,
        BoundaryLost, Unavailable, and what the codec raises.
        """
        for _ in range(self.read_attempts):
            snapshot = await self._latest_snapshot()
            try:
                body = await self.snapshots.read(snapshot) if snapshot else None
            except NotFound:
                continue  # a collector deletes a snapshot only if there is a later one
            state = self.fold.empty if body is None else self.fold.decode(body)
            file_id, state = await self._replayed(snapshot, state)
            if self.boundary is None or await self.boundary.read() <= snapshot:
                return Recovered(file_id, state, snapshot)
            self.world.metrics.count("recoveries_overtaken")
        raise NotRecovered(f"{self.entries.namespace.prefix!r}: {self.read_attempts} times a collector was faster than "
                           "this recovery: collect with a larger min_age")

    async def _latest_snapshot(self) -> int:
        """Return the id of the latest snapshot, 0 if there is none.

        Raises InvalidBoundary if a boundary that was read before this listing is ahead of it.
        """
        boundary = self.boundary.at_least if self.boundary else 0
        listed = await self.snapshots.list()
        latest = listed[-1].id if listed else 0
        if latest < boundary:
            key = self.entries.namespace.boundary_key
            raise InvalidBoundary(f"{key!r} was {boundary}, but the latest snapshot is {latest}: entries may be deleted that "
                                  "no snapshot holds; restore the snapshot")
        return latest

    async def _replayed(self, file_id: int, state: Any) -> tuple[int, Any]:
        """Apply all entries after `file_id` up to the first missing one. Return the id of the last one and the state."""
        while True:
            try:
                entry = await self.entries.read(file_id + 1)
            except NotFound:
                return file_id, state
            file_id, state = file_id + 1, self.fold.apply(state, entry)

    async def snapshot(self) -> int:
        """Write a snapshot of all entries; return the id of the last entry in it. OutcomeUnknown does no harm."""
        recovered = await self.recover()
        if recovered.id > recovered.snapshot:
            try:
                await self.snapshots.create(recovered.id, self.fold.encode(recovered.state))
            except ObjectVersionExists:
                pass  # the existing snapshot has the same content
        return recovered.id

    async def collect(self, min_age_ms: int) -> list[int]:
        """Run one round of garbage collection; return the ids of the deleted entries.

        It deletes entries that the latest snapshot holds and that are older than `min_age_ms`, except the last entry of the
        log. It also deletes snapshots of that age, except the latest. «Before GC may delete sequenced metadata file ID i, the
        durable boundary for that namespace must be >= i.»
        """
        listed = await self.bounded.list()
        if not listed:
            return []
        snapshots = await self.snapshots.list()
        held = snapshots[-1].id if snapshots else 0
        now_ms = self.world.clock.now_ms()

        for file_id in old_ids(snapshots[:-1], now_ms, min_age_ms):
            await self.snapshots.collect(file_id)
        entries = [file_id for file_id in old_ids(listed[:-1], now_ms, min_age_ms) if file_id <= held]
        if entries and self.boundary:
            await self.boundary.advance(max(entries))
        return [file_id for file_id in entries if await self.entries.collect(file_id)]

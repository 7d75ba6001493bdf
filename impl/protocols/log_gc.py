"""Safety: what `append` returns as appended is in every later recovery, once, at the place that its id says, and no id is
ever given twice, although entries are deleted and any client may stall for any time at any point.

Source 004's append-only log: «the state of the system is represented by reading all the files and resolving them in
order», and «a conflict» costs no GET. Its garbage collection: an entry goes only when a durable snapshot holds it, and
behind a durable boundary (source 000). Entries are `<root>/log/<id>.log`, snapshots `<root>/snapshot/<id>.snapshot`, the
boundary is `<root>/gc/log.boundary`.

A snapshot is an object of its own for each id, put if absent, and not one object that is overwritten by its version: what
it holds follows from its id, so a second snapshotter, a late request and an unknown outcome change nothing, an old
snapshot is a checkpoint for as long as it is left, and old ones are deleted without a boundary of their own. The price is
a LIST at each recovery in place of a GET.
"""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from highwater.impl.errors import Definite, NotFound, OutcomeUnknown, StoreError
from highwater.impl.layout import Namespace
from highwater.impl.protocols.boundary_object import InvalidBoundary, ObjectStoreBoundaryObject
from highwater.impl.protocols.sequenced_metadata_boundary import BoundedSequencedStorage
from highwater.impl.protocols.sequenced_storage import Listed, ObjectVersionExists, SequencedStorage
from highwater.impl.world import World

MODES = ("boundary", "min_age")


class Fold(NamedTuple):
    """How entries make a state, and how a state is written down."""

    empty: Any
    apply: Callable[[Any, bytes], Any]  # (state, the next entry) -> state
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]


class InvalidSnapshot(Definite):
    """A snapshot that was not written by this codec."""


def texts_encoded(texts: tuple[str, ...]) -> bytes:
    return json.dumps(texts, separators=(",", ":")).encode()


def texts_decoded(body: bytes) -> tuple[str, ...]:
    """Raises InvalidSnapshot."""
    try:
        texts = json.loads(body)
    except ValueError:
        texts = None
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise InvalidSnapshot(f"not a list of entries: {body[:60]!r}")
    return tuple(texts)


# All entries, as text: UTF-8, and whatever is not, so that no entry that was acknowledged keeps a log from being read.
TEXTS = Fold((), lambda texts, entry: (*texts, entry.decode("utf-8", "surrogateescape")), texts_encoded, texts_decoded)


class NotRecovered(Definite):
    """Every attempt was overtaken: what was to be read had been collected before it could be read."""


class Recovered(NamedTuple):
    id: int  # of the last entry that the state holds, 0 if there is none
    state: Any
    snapshot: int  # that it was built upon, 0 if upon none


class AppendLog:
    """One log: entries, recoveries, snapshots, collection. `mode` "min_age" is the source's naive collection, which is not
    safe: there is no boundary, an appender that stalls for longer than `min_age_ms` makes a branch in the history."""

    def __init__(self, world: World, root: str, mode: str = "boundary", fold: Fold = TEXTS, read_attempts: int = 10):
        if mode not in MODES:
            raise ValueError(f"the mode of a log is one of {', '.join(MODES)}, not {mode!r}")
        self.world, self.fold, self.read_attempts = world, fold, read_attempts
        namespace = Namespace(root, "log")
        self.entries = SequencedStorage(world, namespace)
        self.snapshots = SequencedStorage(world, Namespace(root, "snapshot"))
        self.boundary = ObjectStoreBoundaryObject(world, namespace) if mode == "boundary" else None
        self.bounded = BoundedSequencedStorage(self.entries, self.boundary) if self.boundary else self.entries
        self.latest: int | None = None  # the latest id that is known to be taken; None: to be listed

    async def append(self, entry: bytes) -> int:
        """Put the entry under the next id; returns the id. «If the next sequential file already exists», on to the one after
        it, with nothing to read.

        A Definite error: the entry is nowhere. An Indefinite one (OutcomeUnknown, ObjectVersionBehindBoundary, a fault of
        the boundary): it may be in the log, so nothing here appends it again.
        """
        if self.latest is None:
            files = await self.bounded.list()  # a collector leaves the last entry, so a listing tells where the log ends
            self.latest = files[-1].id if files else 0
        file_id = self.latest + 1
        while True:
            try:
                await self.bounded.create(file_id, entry)
            except ObjectVersionExists:
                self.world.metrics.count("append_conflicts")
                file_id += 1
            except StoreError:
                self.latest = None
                raise
            else:
                self.latest = file_id
                return file_id

    async def recover(self) -> Recovered:
        """The state of all entries: LIST the snapshots, GET the latest, GET the entries after it until there is none, and
        then, for all of that to be trusted, a boundary that has not passed the snapshot. An entry is missing because it is
        the end of the log, or because a collector has been there: only the boundary tells; then start again.

        Raises NotRecovered, InvalidName, InvalidBoundary, BoundaryLost, Unavailable, and what the codec raises.
        """
        for _ in range(self.read_attempts):
            snapshot = await self._latest_snapshot()
            try:
                body = await self.snapshots.read(snapshot) if snapshot else None
            except NotFound:
                continue  # a collector deletes a snapshot only where there is a later one
            state = self.fold.empty if body is None else self.fold.decode(body)
            file_id, state = await self._replayed(snapshot, state)
            if self.boundary is None or await self.boundary.read() <= snapshot:
                return Recovered(file_id, state, snapshot)
            self.world.metrics.count("recoveries_overtaken")
        raise NotRecovered(f"{self.entries.namespace.prefix!r}: {self.read_attempts} times over a collector was faster than "
                           "this recovery: collect with a larger min_age")

    async def _latest_snapshot(self) -> int:
        """Its id, 0 if there is none. Raises InvalidBoundary where a boundary read before this listing is ahead of it."""
        boundary = self.boundary.at_least if self.boundary else 0
        listed = await self.snapshots.list()
        latest = listed[-1].id if listed else 0
        if latest < boundary:
            key = self.entries.namespace.boundary_key
            raise InvalidBoundary(f"{key!r} was {boundary}, but the latest snapshot is {latest}: entries may be deleted that "
                                  "no snapshot holds; restore the snapshot")
        return latest

    async def _replayed(self, file_id: int, state: Any) -> tuple[int, Any]:
        """The state with all entries after `file_id` up to the first that is not there; and the id of the last of them."""
        while True:
            try:
                entry = await self.entries.read(file_id + 1)
            except NotFound:
                return file_id, state
            file_id, state = file_id + 1, self.fold.apply(state, entry)

    async def snapshot(self) -> int:
        """Write the state of all entries down; returns the id of the last that it holds. OutcomeUnknown does no harm."""
        recovered = await self.recover()
        if recovered.id > recovered.snapshot:
            try:
                await self.snapshots.create(recovered.id, self.fold.encode(recovered.state))
            except ObjectVersionExists:
                pass  # it holds the same
        return recovered.id

    async def collect(self, min_age_ms: int) -> list[int]:
        """One round of garbage collection; returns the ids of the entries deleted.

        Deleted are entries that the latest snapshot holds and that are older than `min_age_ms`, but the last of the log, and
        snapshots as old, but the latest. «Before GC may delete sequenced metadata file ID i, the durable boundary for that
        namespace must be >= i.»
        """
        listed = await self.bounded.list()
        if not listed:
            return []
        snapshots = await self.snapshots.list()
        held = snapshots[-1].id if snapshots else 0
        now_ms = self.world.clock.now_ms()

        def old(files: list[Listed]) -> list[int]:
            return [file.id for file in files[:-1] if file.id <= held and now_ms - file.last_modified_ms > min_age_ms]

        for file_id in old(snapshots):
            await self._delete(self.snapshots, file_id)
        entries = old(listed)
        if entries and self.boundary:
            await self.boundary.advance(max(entries))
        return [file_id for file_id in entries if await self._delete(self.entries, file_id)]

    async def _delete(self, storage: SequencedStorage, file_id: int) -> bool:
        try:
            await storage.delete(file_id)
        except (Definite, OutcomeUnknown) as error:
            key = storage.namespace.key(file_id)
            self.world.metrics.warn(f"delete of {key!r} failed, the next round will find it: {error}")
            return False
        return True

"""Safety: an update that `update` returns as committed stays in the history that every later writer and reader builds on. No id
is ever committed twice, although old files are deleted and any client may stall for any time at any point.

The code implements SlateDB's RFC on GC boundary files in three parts:

- `collect`: «Before GC may delete sequenced metadata file ID i, the durable boundary for that namespace must be >= i.»
- `BoundedSequencedStorage.create`: «Before a writer may return success for sequenced metadata file ID i, it must observe the
  durable boundary for that namespace as < i after the file create succeeds.»
- `BoundedSequencedStorage.current`, which the RFC leaves out: a reader may trust the latest file only if its id is ahead of a
  boundary read after it. Otherwise a refused writer may have put another file in its place.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from highwater.impl.codecs.json.manifest import UPDATES
from highwater.impl.errors import Definite, NotFound, OutcomeUnknown, StoreError, Unavailable
from highwater.impl.layout import Namespace
from highwater.impl.protocols.boundary_object import (
    BoundaryObject,
    InvalidBoundary,
    ObjectStoreBoundaryObject,
    ObjectVersionBehindBoundary,
)
from highwater.impl.protocols.sequenced_storage import (
    FIRST_ID,
    Listed,
    NoLatest,
    ObjectVersionExists,
    SequencedStorage,
    old_ids,
)
from highwater.impl.world import World


class BoundedSequencedStorage:
    """A SequencedStorage whose creates succeed only ahead of the boundary."""

    def __init__(self, storage: SequencedStorage, boundary: BoundaryObject):
        self.storage, self.boundary = storage, boundary
        self.read = storage.read

    async def list(self) -> list[Listed]:
        """List the files as SequencedStorage.list does. Raises InvalidBoundary if the boundary is not behind the latest file.

        It compares the boundary read before this listing. The latest file is always ahead of the boundary; otherwise all
        clients would wait forever.
        """
        boundary = self.boundary.at_least
        files = await self.storage.list()
        if files and files[-1].id <= boundary:
            key = self.storage.namespace.boundary_key
            raise InvalidBoundary(f"{key!r} was {boundary}, but the latest file is {files[-1].id}: no collector puts the "
                                  "boundary at or ahead of the latest file; set it to less, after making sure of the files")
        return files

    async def latest(self) -> tuple[int, bytes]:
        """LIST, then GET the largest id: the file that a writer builds on. If it was stale, the writer's create conflicts.

        A collector may delete the file in between. Then there is a later one, so it lists again. Raises NoLatest, InvalidName,
        InvalidBoundary.
        """
        files: list[Listed] = []
        for _ in range(self.storage.read_attempts):
            files = await self.list()
            if not files:
                raise NoLatest(f"there is no file in {self.storage.namespace.prefix!r}: initialise it first")
            try:
                return files[-1].id, await self.read(files[-1].id)
            except NotFound:
                pass
        key = self.storage.namespace.key(files[-1].id)
        raise NoLatest(f"{key!r} is listed but not there, {self.storage.read_attempts} times over")

    async def current(self) -> tuple[int, bytes]:
        """Return the file that a reader may trust: the latest, if it is ahead of a boundary read after it; else try again."""
        for _ in range(self.storage.read_attempts):
            file_id, body = await self.latest()
            if file_id > await self.boundary.read():
                return file_id, body
        raise NoLatest(f"{self.storage.namespace.prefix!r}: {self.storage.read_attempts} times over the latest file was "
                       "behind the boundary before it could be read: this reader is slower than min_age")

    async def create(self, file_id: int, body: bytes) -> None:
        """«Create the next metadata file with create-if-absent», then «read the namespace boundary».

        Raises ObjectVersionExists (definite); ObjectVersionBehindBoundary, OutcomeUnknown, InvalidBoundary, BoundaryLost
        (indefinite).
        """
        await self.storage.create(file_id, body)
        try:
            await self.boundary.check(file_id)
        except Unavailable as error:
            raise OutcomeUnknown(f"id {file_id} is created, but the boundary could not be read: {error}") from error


class Committed(NamedTuple):
    """A committed update: the id of its file, and the value in it."""

    id: int
    value: Any


class Recognised(NamedTuple):
    """An update that an earlier attempt committed, at this id or before it; `value` contains it."""

    id: int
    value: Any


class MetadataStore:
    """One namespace of sequenced metadata with its boundary: updates, reads, collection.

    With `keep_latest` an `update` starts from the last file that this store committed, without LIST and GET. A commit then
    takes two requests if nobody else commits. Any error drops the kept file, and a conflict lists as usual. See
    docs/operating/cost.md.
    """

    def __init__(self, world: World, namespace: Namespace, codec: Any = UPDATES, spare_checkpoints: bool = True,
                 storage: BoundedSequencedStorage | None = None, keep_latest: bool = False):
        self.world, self.codec, self.spare_checkpoints = world, codec, spare_checkpoints
        self.keep_latest = keep_latest
        self.kept: tuple[int, bytes] | None = None  # the last accepted file; None while an update runs or after one failed
        self.bounded = storage or BoundedSequencedStorage(
            SequencedStorage(world, namespace), ObjectStoreBoundaryObject(world, namespace))

    async def initialise(self, value: Any) -> None:
        """Create the first file, if there is none and has never been one."""
        if not await self.bounded.list():
            try:
                await self.bounded.create(FIRST_ID, self.codec.encode(value))
            except (ObjectVersionExists, ObjectVersionBehindBoundary):
                pass  # another client created it; it may even have been collected since

    async def update(self, change: Callable[[int, Any], Any], attempts: int | None = None) -> Committed:
        """Apply `change(id of the next file, latest value)` to the latest value, again after each conflict.

        Returns the committed file. After a Definite error the update is nowhere and may be repeated (ObjectVersionExists after
        `attempts` conflicts). After an Indefinite one it may be in the history, now or later, so nothing here repeats it.
        """
        conflicts: dict[int, int] = {}
        kept, self.kept = self.kept, None
        while True:
            latest, body = kept or await self.bounded.latest()
            kept = None
            self.bounded.storage.check_listed(latest, conflicts)
            value = change(latest + 1, self.codec.decode(body))
            body = self.codec.encode(value)
            try:
                await self.bounded.create(latest + 1, body)
            except ObjectVersionExists:
                self.world.metrics.count("update_conflicts")
                conflicts = {latest: conflicts.get(latest, 0) + 1}
                attempts = None if attempts is None else attempts - 1
                if attempts == 0:
                    raise
            else:
                self.kept = (latest + 1, body) if self.keep_latest else None
                return Committed(latest + 1, value)

    async def update_once(self, update_id: str, change: Callable[[int, Any], Any],
                          attempts: int | None = None) -> Committed | Recognised:
        """Apply an update exactly once, however often this is called. `change` must put `update_id` into the value.

        Raises what `update_recognised` raises.
        """
        return await self.update_recognised(lambda value: value.holds(update_id), change, attempts)

    async def update_recognised(self, holds: Callable[[Any], bool | StoreError], change: Callable[[int, Any], Any],
                                attempts: int | None = None) -> Committed | Recognised:
        """Apply `change` as `update` does, and try again after a refusal or a missing reply unless the latest value `holds` it.

        If `holds` returns an error, it is raised: by that value nobody can tell. The value is believed only if its file is
        ahead of a boundary read after it (`current`). Otherwise an attempt that was long in flight may have created it where a
        file was collected, and it is in nobody's history. See docs/protocols/committed-but-rejected.md.

        After a Definite error this call's update is nowhere, and never will be. After an Indefinite one, also after `attempts`
        tries of which one is in doubt, call again with the same id to find out, from another process if need be.
        """
        conflicts: dict[int, int] = {}
        last, doubt, latest = None, None, FIRST_ID
        while attempts is None or attempts > 0:
            attempts = None if attempts is None else attempts - 1
            try:
                latest, body = await self.bounded.latest()
                value = self.codec.decode(body)
                if found := holds(value):
                    if latest <= await self.bounded.boundary.read():
                        raise OutcomeUnknown(f"id {latest} was behind the boundary before it could be read")
                    if isinstance(found, StoreError):
                        raise found
                    self.world.metrics.count("updates_recognised")
                    return Recognised(latest, value)
                self.bounded.storage.check_listed(latest, conflicts)
                value = change(latest + 1, value)
                if not holds(value):
                    raise ValueError("the changed value does not hold its update: it could never be recognised")
                await self.bounded.create(latest + 1, self.codec.encode(value))
                return Committed(latest + 1, value)
            except ObjectVersionExists as error:
                self.world.metrics.count("update_conflicts")
                conflicts, last = {latest: conflicts.get(latest, 0) + 1}, error
            except (ObjectVersionBehindBoundary, OutcomeUnknown) as error:
                self.world.metrics.count("updates_in_doubt")
                doubt = last = error
            except Definite as error:  # this attempt had no effect; an earlier one may have had one, or may have it later
                if doubt is None:
                    raise
                raise OutcomeUnknown(f"an earlier attempt is in doubt ({doubt}), and then: {error}") from error
        raise doubt or last  # pyright: ignore[reportGeneralTypeIssues]  # one attempt was made, and has failed

    async def current(self) -> Committed:
        """Return the latest committed value. Raises NoLatest, InvalidName, InvalidBoundary, BoundaryLost, Unavailable."""
        file_id, body = await self.bounded.current()
        return Committed(file_id, self.codec.decode(body))

    async def read(self, file_id: int) -> Any:
        """Return the value of one file, for example one that a checkpoint keeps behind the boundary. Raises NotFound."""
        return self.codec.decode(await self.bounded.read(file_id))

    async def advance_boundary(self, boundary: int) -> None:
        await self.bounded.boundary.advance(boundary)

    async def drop_ended(self, attempts: int | None = None) -> Committed | Recognised:
        """Remove the checkpoints that have ended by this client's clock, by an update; Recognised if there are none.

        Call it before `collect`, which deletes no file of a checkpoint that is listed. It may be repeated after any error.
        Raises what `update_recognised` raises.
        """
        now_ms = self.world.clock.now_ms()
        return await self.update_recognised(lambda value: value.without_ended(now_ms) == value,
                                            lambda _, value: value.without_ended(now_ms), attempts)

    async def collect(self, min_age_ms: int) -> list[int]:
        """Run one round of garbage collection; return the deleted ids.

        The boundary becomes «the maximum file ID from that filtered list»: all files older than `min_age_ms` except the latest,
        including those that a checkpoint refers to. Files in that list are deleted unless a checkpoint refers to them. It makes
        no difference whether the checkpoint has ended: its owner may renew it as long as it is listed.
        """
        files = await self.bounded.list()
        now_ms = self.world.clock.now_ms()
        old = old_ids(files[:-1], now_ms, min_age_ms)
        if not old:
            return []  # «If no files are old enough, GC skips the boundary update for that namespace.»
        await self.advance_boundary(max(old))
        spared = await self._spared(files[-1].id)
        if spared is None:
            return []
        return [file_id for file_id in old if file_id not in spared and await self.bounded.storage.collect(file_id)]

    async def _spared(self, latest: int) -> frozenset[int] | None:
        """Return the ids that checkpoints refer to, by the latest file listed; None if the listing is too old to tell.

        As for any reader, that file can be trusted only if its id is ahead of a boundary read after it. Otherwise it may have
        been collected and replaced by the file of a refused writer. Such a file may lack checkpoints: later ones, and those
        that its writer tried to remove.
        """
        if not self.spare_checkpoints:
            return frozenset()
        try:
            value = await self.read(latest)
        except NotFound:
            return None
        if latest <= await self.bounded.boundary.read():
            return None
        return value.referenced()


def manifest_store(world: World, root: str) -> MetadataStore:
    return MetadataStore(world, Namespace(root, "manifest"))


def compactions_store(world: World, root: str) -> MetadataStore:
    return MetadataStore(world, Namespace(root, "compactions"), spare_checkpoints=False)

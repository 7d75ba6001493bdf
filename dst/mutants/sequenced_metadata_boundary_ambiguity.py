"""Mutants that mishandle a create whose response is lost, and presets of runs in which that happens.

A mutant is a `Build`, as in sequenced_metadata_boundary.py. docs/operating/ambiguity.md has a paragraph on each. The
witnesses in traces/histories/ambiguity.py show which of the situations a run reached.
"""

from collections.abc import Callable
from typing import NamedTuple

from highwater.dst.scenarios.sequenced_metadata_boundary import Build, Codec, Shape
from highwater.dst.world.faults import Weights
from highwater.impl.errors import AlreadyExists, OutcomeUnknown, Unavailable
from highwater.impl.layout import Namespace
from highwater.impl.protocols.boundary_object import ObjectStoreBoundaryObject
from highwater.impl.protocols.sequenced_metadata import MetadataStore, Policies
from highwater.impl.protocols.sequenced_metadata_boundary import BoundedSequencedStorage
from highwater.impl.protocols.sequenced_storage import NoLatest, ObjectVersionExists, SequencedStorage
from highwater.impl.stores.verified import VerifiedStore
from highwater.impl.world import ObjectStore, World


class Preset(NamedTuple):
    """A shape and faults that make one situation likely."""

    shape: Shape
    weights: Weights


BUSY = Shape(writers=3, commits=4, collectors=1, rounds=3, think_ms=1, manifest=True)
PRESETS = {
    "self_412": Preset(BUSY._replace(sdk="boto3_standard"), Weights(50, 5, 0, 5, 60, 5, 5, 0)),
    "409_as_exists": Preset(BUSY._replace(sdk="boto3_standard"), Weights(50, 5, 150, 5, 40, 40, 5, 0)),
    "collected_before_read_back": Preset(
        BUSY._replace(sdk="object_store", collectors=2, rounds=4, min_age_ms=60, think_ms=20, manifest=False),
        Weights(200, 5, 5, 5, 80, 20, 5, 0)),
    "once": Preset(BUSY._replace(sdk="once"), Weights(50, 5, 0, 20, 60, 60, 5, 0)),
    "late": Preset(BUSY, Weights(100, 0, 0, 0, 0, 60, 60, 0)),
}


# --- mutants -------------------------------------------------------------------------------------------------------------

def below(store: ObjectStore) -> ObjectStore:
    """Return the store below the verification, if there is one."""
    return store.inner if isinstance(store, VerifiedStore) else store


class TakenForConflict(SequencedStorage):
    async def create(self, file_id: int, body: bytes) -> None:
        try:
            await super().create(file_id, body)
        except OutcomeUnknown:
            raise ObjectVersionExists(file_id) from None


class RolledBack(SequencedStorage):
    """Treats an indeterminate commit as failed: deletes its file, and reports failure."""

    async def create(self, file_id: int, body: bytes) -> None:
        try:
            await super().create(file_id, body)
        except OutcomeUnknown as error:
            await self.delete(file_id)
            raise Unavailable(f"rolled back: {error}") from None


class FencedByItself(SequencedStorage):
    """Concludes from any 412 to its create that another writer has taken over."""

    async def create(self, file_id: int, body: bytes) -> None:
        try:
            await super().create(file_id, body)
        except ObjectVersionExists as error:
            raise NoLatest(f"another writer has taken over: {error}") from None


class BusyIsExists:
    """Treats 409 as proof that the object exists."""

    def __init__(self, inner: ObjectStore):
        self.inner, self.caches = inner, inner.caches
        self.update, self.put, self.get, self.get_range = inner.update, inner.put, inner.get, inner.get_range
        self.get_if_changed = inner.get_if_changed
        self.head, self.list_page, self.delete = inner.head, inner.list_page, inner.delete

    async def create(self, key: str, body: bytes) -> str:
        try:
            return await self.inner.create(key, body)
        except Unavailable as error:
            if getattr(error, "status", 0) == 409:
                raise AlreadyExists(key) from None
            raise


class GoneIsNotMine(VerifiedStore):
    """Concludes from a missing file that it never wrote it."""

    async def verified(self, conflict: type[Exception], key: str, body: bytes, error: Exception) -> str:
        try:
            return await super().verified(conflict, key, body, error)
        except OutcomeUnknown as unknown:
            if "could not be read: NotFound" in str(unknown):
                raise conflict(key) from None
            raise


class AnothersIsNotMine(VerifiedStore):
    """Concludes from another writer's file that its own create was never applied."""

    async def verified(self, conflict: type[Exception], key: str, body: bytes, error: Exception) -> str:
        try:
            return await super().verified(conflict, key, body, error)
        except OutcomeUnknown as unknown:
            if "another's is there" in str(unknown):
                raise conflict(key) from None
            raise


class SentOnceIsNothing(VerifiedStore):
    """Sends a create again after a single attempt without an answer, as if only a retransmission could leave doubt."""

    async def verified(self, conflict: type[Exception], key: str, body: bytes, error: Exception) -> str:
        if getattr(error, "attempts", 0) == 1:
            raise Unavailable(f"sent once: {error}") from None
        return await super().verified(conflict, key, body, error)


class NothingHappened(SequencedStorage):
    async def create(self, file_id: int, body: bytes) -> None:
        try:
            await super().create(file_id, body)
        except OutcomeUnknown as error:
            raise Unavailable(f"nothing happened: {error}") from None


def on(wrap: Callable[[ObjectStore], ObjectStore], storage: type = SequencedStorage) -> Build:
    """Make production clients with another store below, and perhaps another way to create files."""
    def made(world: World, where: Namespace, spare: bool, client: int) -> MetadataStore:
        world = world._replace(store=wrap(world.store))
        bounded = BoundedSequencedStorage(storage(world, where), ObjectStoreBoundaryObject(world, where))
        return MetadataStore(world, where, Codec, Policies(spare_checkpoints=spare), bounded)

    return made


def of(storage: type) -> Build:
    return on(lambda store: store, storage)


def verified_by(how: type[VerifiedStore]) -> Callable[[ObjectStore], ObjectStore]:
    def wrap(store: ObjectStore) -> ObjectStore:
        if not isinstance(store, VerifiedStore):
            return store
        return how(store.inner, store.clock, store.put_id, store.kept, store.silent)

    return wrap


def trusting_409(store: ObjectStore) -> ObjectStore:
    if not isinstance(store, VerifiedStore):
        return BusyIsExists(store)
    return VerifiedStore(BusyIsExists(store.inner), store.clock, store.put_id, store.kept)


BUILDS: dict[str, tuple[str, Build]] = {  # name -> (its bug, its Build)
    "Z7": ("a create with an indeterminate outcome counts as a conflict: the update is applied to the latest file again",
           of(TakenForConflict)),
    "Z8": ("a create with an indeterminate outcome counts as a failure: the file that it may have created is deleted",
           of(RolledBack)),
    "Z9": ("412 counts as a conflict, although the existing file may be the writer's own", on(below)),
    "Z9_fenced": ("412 makes the writer stop, although the existing file may be its own", on(below, FencedByItself)),
    "Z10": ("409 counts as proof that the object exists", on(trusting_409)),
    "gone_is_not_mine": ("404 on reading back counts as proof that the create was never applied",
                         on(verified_by(GoneIsNotMine))),
    "anothers_is_not_mine": ("another writer's file on reading back counts as proof that the create was never applied",
                             on(verified_by(AnothersIsNotMine))),
    "sent_once_is_nothing": ("a time-out that its SDK reports after one attempt counts as proof that nothing happened",
                             on(verified_by(SentOnceIsNothing))),
    "timeout_is_nothing": ("a time-out counts as proof that nothing happened", of(NothingHappened)),
}

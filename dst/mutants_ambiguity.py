"""Safety: none, on purpose. What goes wrong where the answer to a create is lost: presets that reach it, witnesses that tell
whether a run has, and the known-bad clients that it must kill.

As in zoo.py a mutant is a `Build`; ids are those of simulation.md. docs/ambiguity.md has a paragraph on each.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from dst.scenarios.sequenced_metadata_boundary import Build, Codec, Shape
from dst.world.faults import Weights
from impl.boundary_object import ObjectStoreBoundaryObject
from impl.errors import AlreadyExists, Definite, OutcomeUnknown, Unavailable
from impl.layout import Namespace
from impl.sequenced_metadata_boundary import BoundedSequencedStorage, MetadataStore
from impl.sequenced_storage import ObjectVersionExists, SequencedStorage
from impl.stores.verified import VerifiedStore
from impl.world import ObjectStore, World
from traces.event import Event


class Preset(NamedTuple):
    """A shape and faults that make one thing likely."""

    shape: Shape
    weights: Weights


BUSY = Shape(writers=3, commits=4, collectors=1, rounds=3, think_ms=1, manifest=True)
PRESETS = {
    "self_412": Preset(BUSY._replace(sdk="boto3_standard"), Weights(50, 5, 0, 5, 60, 5, 5, 0)),
    "409_as_exists": Preset(BUSY._replace(sdk="boto3_standard"), Weights(50, 5, 150, 5, 40, 40, 5, 0)),
    "collected_before_read_back": Preset(
        BUSY._replace(sdk="object_store", collectors=2, rounds=4, min_age_ms=60, think_ms=20),
        Weights(200, 5, 5, 5, 80, 20, 5, 0)),
    "late": Preset(BUSY, Weights(100, 0, 0, 0, 0, 60, 60, 0)),
}


# --- witnesses: the events in which a run has reached it -----------------------------------------------------------------

def creates(events: list[Event]) -> Iterator[tuple[int, Event, list[Event]]]:
    """Each create of a file that was applied, with its place and the same client's events after it."""
    for place, e in enumerate(events):
        if e.op == "create" and e.kind == "applied" and not e.key.endswith(".boundary"):
            yield place, e, [later for later in events[place + 1:] if later.client == e.client]


def self_412(events: list[Event]) -> int:
    """A create was sent again, met its own success, and was reported as committed."""
    return sum(1 for _, e, after in creates(events) if e.status == 200 and (own := until_told(after))
               and any(again(e, later) and later.status >= 400 for later in own) and own[-1].op == "committed")


def refused_with_409(events: list[Event]) -> int:
    """A create that was in doubt was sent again, and answered with 409."""
    return sum(1 for place, e in enumerate(events) if e.kind == "timeout" and e.op == "create"
               and any(again(e, later, "refused") and later.status == 409
                       for later in until_told([o for o in events[place + 1:] if o.client == e.client])))


def collected_before_read_back(events: list[Event]) -> int:
    """A create was applied, its reply lost, its file collected; then it was read back, and was not there."""
    return sum(1 for _, e, after in creates(events) if e.status == 200 and any(
        later.op == "get" and later.key == e.key and later.status == 404 for later in until_told(after)))


def another_in_its_place(events: list[Event]) -> int:
    """As that, and another's file was there."""
    return sum(1 for _, e, after in creates(events) if e.status == 200 and any(
        later.op == "get" and later.key == e.key and later.status == 200 and later.body != e.body
        for later in until_told(after)))


def landed_late(events: list[Event], kind: str) -> int:
    """A create was applied after its client had given it up (`timeout`), or had died (`crash`)."""
    given_up = {e.request for e in events if e.kind == kind and e.pending}
    return sum(1 for _, e, _ in creates(events) if e.status == 200 and not e.awaited and e.request in given_up)


def again(first: Event, later: Event, kind: str = "applied") -> bool:
    return (later.op, later.key, later.body, later.kind) == (first.op, first.key, first.body, kind) and later.awaited


def until_told(events: list[Event]) -> list[Event]:
    """Of one client's events those up to what its caller is told, or up to its end: of one logical update at most."""
    found = []
    for e in events:
        found.append(e)
        if e.kind in ("told", "crash"):
            break
        if e.op == "list":
            return []
    return found


SOMETIMES: dict[str, Callable[[list[Event]], int]] = {
    "self_412": self_412,
    "409_as_exists": refused_with_409,
    "collected_before_read_back": collected_before_read_back,
    "another_in_its_place": another_in_its_place,
    "late_after_timeout": lambda events: landed_late(events, "timeout"),
    "late_after_crash": lambda events: landed_late(events, "crash"),
}


# --- mutants -------------------------------------------------------------------------------------------------------------

def below(store: ObjectStore) -> ObjectStore:
    """The SDK itself, or whatever is under the verification."""
    return store.inner if isinstance(store, VerifiedStore) else store


class TakenForConflict(SequencedStorage):
    async def create(self, file_id: int, body: bytes) -> None:
        try:
            await super().create(file_id, body)
        except OutcomeUnknown:
            raise ObjectVersionExists(file_id) from None


class RolledBack(SequencedStorage):
    """«The commit has failed»: it removes what it may have written, and says so."""

    async def create(self, file_id: int, body: bytes) -> None:
        try:
            await super().create(file_id, body)
        except OutcomeUnknown as error:
            await self.delete(file_id)
            raise Unavailable(f"rolled back: {error}") from None


class Fenced(Definite):
    """Another writer has taken over."""


class FencedByItself(SequencedStorage):
    """Any 412 to its create means that another writer has taken over."""

    async def create(self, file_id: int, body: bytes) -> None:
        try:
            await super().create(file_id, body)
        except ObjectVersionExists as error:
            raise Fenced(str(error)) from None


class BusyIsExists:
    """A 409 is the answer to a create of what is there, so it seems."""

    def __init__(self, inner: ObjectStore):
        self.inner, self.caches = inner, inner.caches
        self.update, self.put, self.get, self.get_if_changed = inner.update, inner.put, inner.get, inner.get_if_changed
        self.head, self.list_page, self.delete = inner.head, inner.list_page, inner.delete

    async def create(self, key: str, body: bytes) -> str:
        try:
            return await self.inner.create(key, body)
        except Unavailable as error:
            if getattr(error, "status", 0) == 409:
                raise AlreadyExists(key) from None
            raise


class GoneIsNotMine(VerifiedStore):
    """What is not there was never written."""

    async def verified(self, conflict: type[Exception], key: str, body: bytes, error: Exception) -> str:
        try:
            return await super().verified(conflict, key, body, error)
        except OutcomeUnknown as unknown:
            if "could not be read: NotFound" in str(unknown):
                raise conflict(key) from None
            raise


class AnothersIsNotMine(VerifiedStore):
    """What another's is there instead of was never written."""

    async def verified(self, conflict: type[Exception], key: str, body: bytes, error: Exception) -> str:
        try:
            return await super().verified(conflict, key, body, error)
        except OutcomeUnknown as unknown:
            if "another's is there" in str(unknown):
                raise conflict(key) from None
            raise


class NothingHappened(SequencedStorage):
    async def create(self, file_id: int, body: bytes) -> None:
        try:
            await super().create(file_id, body)
        except OutcomeUnknown as error:
            raise Unavailable(f"nothing happened: {error}") from None


def on(wrap: Callable[[ObjectStore], ObjectStore], storage: type = SequencedStorage) -> Build:
    """Production, but for how it creates files and on which store."""
    def made(world: World, where: Namespace, spare: bool, client: int) -> MetadataStore:
        world = world._replace(store=wrap(world.store))
        bounded = BoundedSequencedStorage(storage(world, where), ObjectStoreBoundaryObject(world, where))
        return MetadataStore(world, where, Codec, spare, bounded)

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


MUTANTS: dict[str, tuple[str, Build]] = {  # name -> (what it does wrong, its Build)
    "Z7": ("a create of unknown outcome is a conflict: the update is applied to the latest file again", of(TakenForConflict)),
    "Z8": ("a create of unknown outcome is a failure: what it may have written is removed", of(RolledBack)),
    "Z9": ("412 is a conflict, though it may be the writer's own file that was met", on(below)),
    "Z9_fenced": ("412 is the end of the writer, though it may be its own file that was met", on(below, FencedByItself)),
    "Z10": ("409 is «there is such an object»", on(trusting_409)),
    "gone_is_not_mine": ("404 on reading back: it was never applied", on(verified_by(GoneIsNotMine))),
    "anothers_is_not_mine": ("another's file on reading back: it was never applied", on(verified_by(AnothersIsNotMine))),
    "timeout_is_nothing": ("a time-out means that nothing has happened", of(NothingHappened)),
}

"""Safety: the name of the file is the commit point. Of all clients that create one id, at most one is told that it won, as long
as that file exists.

SlateDB's RFC on GC boundary files: «The filename is the commit point: a writer creates the next file with a create-if-absent
operation, and success means the sequenced update won.» This no longer holds once files are deleted. The boundary exists for
that case.
"""

from typing import Any, NamedTuple

from highwater.impl.errors import AlreadyExists, Definite, OutcomeUnknown
from highwater.impl.layout import Namespace
from highwater.impl.world import ObjectStore, World, list_all

FIRST_ID = 1  # not 0 as in SlateDB's page on the manifest: a missing boundary reads as 0 (docs/operating/boundary-files.md)


class ObjectVersionExists(Definite):
    """The next id is taken: another update won."""

    def __init__(self, file_id: int):
        self.id = file_id
        super().__init__(f"id {file_id} exists already: another update won; read the latest and apply yours to it")


class NoLatest(Definite):
    """No file exists at all, or the listing names a latest file that can never be read."""


class Listed(NamedTuple):
    """One file of a listing."""

    id: int
    last_modified_ms: int


def old_ids(files: list[Listed], now_ms: int, min_age_ms: int) -> list[int]:
    """Return the ids of the files that are older than `min_age_ms`."""
    return [file.id for file in files if now_ms - file.last_modified_ms > min_age_ms]


class MetadataOnly:
    """The requests of an ObjectStore that sequenced metadata may use: PUT create-if-absent, unconditional GET, DELETE and LIST.

    «Enforce this by asserting PutMode::Create and all GETs are unconditional.»
    """

    def __init__(self, store: ObjectStore):
        if store.caches:
            raise ValueError(f"{type(store).__name__} answers reads from memory: sequenced metadata and its boundary must "
                             "not be read through a cache; give the store that it wraps")
        self.create, self.get, self.delete, self.list_page = store.create, store.get, store.delete, store.list_page
        self.caches = False

    def _refused(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("sequenced metadata is put only if absent, and read without condition")

    put = update = get_range = get_if_changed = head = _refused


class SequencedStorage:
    """The files of one namespace, each written once, in the order of their ids."""

    def __init__(self, world: World, namespace: Namespace, read_attempts: int = 10):
        self.world, self.namespace, self.read_attempts = world, namespace, read_attempts
        self.store = MetadataOnly(world.store)
        self._warned: set[str] = set()

    async def list(self, after: int | None = None) -> list[Listed]:
        """Return all files in ascending order of id; only those with an id greater than `after`, if it is given.

        Raises InvalidName. Other suffixes are skipped, each with one warning."""
        files, file_id = [], self.namespace.file_id
        start = "" if after is None else self.namespace.key(after)
        for key, _, last_modified_ms, _ in await list_all(self.store, self.namespace.prefix, start):
            number = file_id(key)
            if number is not None:
                files.append(Listed(number, last_modified_ms))
            elif key not in self._warned:
                self._warned.add(key)
                self.world.metrics.warn(f"{key!r} is no file of {self.namespace.prefix!r}: ignored")
        return files

    async def read(self, file_id: int) -> bytes:
        """Return the file with this id, also if it is behind the boundary: a checkpoint may keep it. Raises NotFound."""
        return (await self.store.get(self.namespace.key(file_id))).body

    async def create(self, file_id: int, body: bytes) -> None:
        """Create the file with this id. Raises ObjectVersionExists, OutcomeUnknown."""
        try:
            await self.store.create(self.namespace.key(file_id), body)
        except AlreadyExists:
            raise ObjectVersionExists(file_id) from None

    def check_listed(self, latest: int, conflicts: dict[int, int]) -> None:
        """Check that the store does not say again and again that the next id exists, and never lists it.

        `conflicts`: how often the id after this one has conflicted since a listing showed another latest one. Raises NoLatest
        after more than `read_attempts`."""
        if conflicts.get(latest, 0) > self.read_attempts:
            key = self.namespace.key(latest + 1)
            raise NoLatest(f"{key!r} is said to exist, but is not listed, {conflicts[latest]} times over")

    async def delete(self, file_id: int) -> None:
        """Delete the file with this id. Raises OutcomeUnknown."""
        await self.store.delete(self.namespace.key(file_id))

    async def collect(self, file_id: int) -> bool:
        """Delete the file in a round of collection. Returns False, with a warning, if that failed: the next round finds it."""
        try:
            await self.delete(file_id)
        except (Definite, OutcomeUnknown) as error:
            key = self.namespace.key(file_id)
            self.world.metrics.warn(f"delete of {key!r} failed, the next round will find it: {error}")
            return False
        return True

"""Safety: an update that `update` returns as committed stays in the history that every later writer and reader builds on. No id
is ever committed twice, although old files are deleted and any client may stall for any time at any point.

The code implements SlateDB's RFC on GC boundary files in three parts:

- `collect`: «Before GC may delete sequenced metadata file ID i, the durable boundary for that namespace must be >= i.»
- `BoundedSequencedStorage.create`: «Before a writer may return success for sequenced metadata file ID i, it must observe the
  durable boundary for that namespace as < i after the file create succeeds.»
- `BoundedSequencedStorage.current`, which the RFC leaves out: a reader may trust the latest file only if its id is ahead of a
  boundary read after it. Otherwise a refused writer may have put another file in its place.
"""

from highwater.impl.codecs.destroyed import SEALED
from highwater.impl.errors import NotFound, OutcomeUnknown, Unavailable
from highwater.impl.protocols.boundary_object import BoundaryObject, InvalidBoundary
from highwater.impl.protocols.sequenced_storage import Listed, NoLatest, SequencedStorage


class BoundedSequencedStorage:
    """A SequencedStorage whose creates succeed only ahead of the boundary."""

    def __init__(self, storage: SequencedStorage, boundary: BoundaryObject):
        self.storage, self.boundary = storage, boundary
        self.read = storage.read

    async def list(self, after: int | None = None) -> list[Listed]:
        """List the files as SequencedStorage.list does. Raises InvalidBoundary if the boundary is not behind the latest file.

        It compares the boundary read before this listing. The latest file is always ahead of the boundary; otherwise all
        clients would wait forever. If nothing is listed after the file `after`, that is the latest.
        """
        boundary = self.boundary.at_least
        files = await self.storage.list(after)
        latest = files[-1].id if files else after
        if latest is not None and latest <= boundary:
            key = self.storage.namespace.boundary_key
            if boundary >= SEALED:
                raise InvalidBoundary(f"{key!r}: what was here is destroyed for good, and file {latest} was put later, by "
                                      "a late request: destroy it again to delete that, too")
            raise InvalidBoundary(f"{key!r} was {boundary}, but the latest file is {latest}: no collector puts the "
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

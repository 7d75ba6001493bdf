"""Safety: an update that was reported as committed is in the history once, at the place that its file's id gives. No file is
ever changed, so an old one is a checkpoint.

This is the sequenced write protocol of the essay on object-store protocols, «the file name as the guard», in both its uses.
With full state, each file holds the whole state: «cheap checkpoints of old versions of the data by simply leaving them around».
With a log, «the state of the system is represented by reading all the files and resolving them in order». A conflict then costs
no GET, because the next id is known. The code follows model/protocols/sequenced_write.py request by request. Nothing is
collected here; impl/protocols/sequenced_metadata_boundary.py does that.

After a read without a response, and after a request that was refused without effect, a writer continues from what it last knew.
This is safe: if others have added files since, its next create conflicts.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from highwater.impl.codecs.codec import Codec
from highwater.impl.codecs.json.manifest import UPDATES
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.errors import Definite, NotFound, OutcomeUnknown
from highwater.impl.protocols.sequenced_metadata import Committed
from highwater.impl.protocols.sequenced_storage import FIRST_ID, ObjectVersionExists, SequencedStorage

EMPTY = Manifest()  # the state before the first file


class Lost(NamedTuple):
    """Another client's file has this id."""

    body: bytes | None  # the content of that file, if it was read


class NextFile:
    """Creates the next file if absent, and handles a lost response.

    With `unknown` = "report" the caller gets OutcomeUnknown, and nothing repeats the PUT. With "recognise" the same PUT is sent
    again. If the store refuses it because a file has the id, one GET shows whose file that is. This compares bodies, so no two
    updates may have equal bodies. An id inside each body ensures that.
    """

    def __init__(self, storage: SequencedStorage, unknown: str = "report", attempts: int = 10):
        if unknown not in ("report", "recognise"):
            raise ValueError(f"unknown is {unknown!r}: accepted are 'report' and 'recognise'")
        self.storage, self.attempts = storage, attempts if unknown == "recognise" else 1

    async def create(self, file_id: int, body: bytes) -> Lost | None:
        """Create the file. Return None if it exists and is this client's, or `Lost` if the file is another client's.

        Raises OutcomeUnknown (it may exist, now or later), Unavailable (it does not, and never will by this call).
        """
        doubt = ""
        for _ in range(self.attempts):
            try:
                await self.storage.create(file_id, body)
                return None
            except ObjectVersionExists:
                return await self._whose(file_id, body) if doubt else Lost(None)
            except OutcomeUnknown as error:
                doubt = str(error)
            except Definite:
                if not doubt:
                    raise
        raise OutcomeUnknown(f"id {file_id}: no reply to its creation: {doubt}")

    async def _whose(self, file_id: int, body: bytes) -> Lost | None:
        """Read the file with this id. If it is another client's, it stays, so no PUT of ours can ever create this id."""
        try:
            found = await self.storage.read(file_id)
        except Definite as error:
            raise OutcomeUnknown(f"id {file_id} may be this client's or another's, it could not be read: {error}") from error
        return None if found == body else Lost(found)


class Known(NamedTuple):
    """The state that a writer builds on: the latest id, and its value once it is read."""

    id: int
    value: Any = None
    read: bool = False


class StateWriter:
    """A writer whose files each hold the full state.

    After a conflict `resolve` = "get" reads the file that is there. "list" lists again, which finds the latest at once if
    others are far ahead.
    """

    def __init__(self, storage: SequencedStorage, codec: Codec = UPDATES, empty: Any = EMPTY,
                 resolve: str = "get", unknown: str = "report"):
        if resolve not in ("get", "list"):
            raise ValueError(f"resolve is {resolve!r}: accepted are 'get' and 'list'")
        self.storage, self.codec, self.empty, self.resolve = storage, codec, empty, resolve
        self.next_file = NextFile(storage, unknown)
        self.known: Known | None = None

    async def update(self, change: Callable[[int, Any], Any], attempts: int | None = None) -> Committed:
        """Create the next file with `change(its id, latest value)`. After a conflict, apply `change` again to the new value.

        Returns the committed file. After its own create the writer knows the latest file, and needs no LIST or GET. It lists
        again after OutcomeUnknown, and after a call that was cancelled. After a Definite error the update is nowhere and may be
        repeated (ObjectVersionExists: after `attempts` conflicts; NoLatest: a file exists and is never listed). After
        OutcomeUnknown it may be in the history, now or later.
        """
        try:
            return await self._update(change, attempts)
        except Definite:
            raise
        except BaseException:  # OutcomeUnknown, or the call is cancelled
            self.known = None
            raise

    async def _update(self, change: Callable[[int, Any], Any], attempts: int | None) -> Committed:
        conflicts: dict[int, int] = {}
        while True:
            await self._find_out()
            assert self.known is not None
            self.storage.check_listed(self.known.id, conflicts)
            file_id, value = self.known.id + 1, change(self.known.id + 1, self.known.value)
            lost = await self.next_file.create(file_id, self.codec.encode(value))
            if lost is None:
                self.known = Known(file_id, value, True)
                return Committed(file_id, value)
            conflicts = {self.known.id: conflicts.get(self.known.id, 0) + 1}
            self._learn(file_id, lost)
            self.storage.world.metrics.count("update_conflicts")
            attempts = None if attempts is None else attempts - 1
            if attempts == 0:
                raise ObjectVersionExists(file_id)

    async def _find_out(self) -> None:
        if self.known is None:
            files = await self.storage.list()
            self.known = Known(files[-1].id) if files else Known(FIRST_ID - 1, self.empty, True)
        if not self.known.read:
            self.known = Known(self.known.id, self.codec.decode(await self.storage.read(self.known.id)), True)

    def _learn(self, file_id: int, lost: Lost) -> None:
        if lost.body is not None:
            self.known = Known(file_id, self.codec.decode(lost.body), True)
        else:
            self.known = Known(file_id) if self.resolve == "get" else None


class StateReader:
    """Reads the latest file (LIST, GET), and any old file by its id."""

    def __init__(self, storage: SequencedStorage, codec: Codec = UPDATES):
        self.storage, self.codec = storage, codec

    async def current(self) -> Committed | None:
        """Return the latest file, or None if there is none. Raises Unavailable."""
        files = await self.storage.list()
        return Committed(files[-1].id, await self.read(files[-1].id)) if files else None

    async def read(self, file_id: int) -> Any:
        """Return the state of an old file, which is a checkpoint. Raises NotFound, Unavailable."""
        return self.codec.decode(await self.storage.read(file_id))


class LogWriter:
    """A writer whose files are the entries of a log. With `unknown` = "recognise" no two entries may be equal."""

    def __init__(self, storage: SequencedStorage, unknown: str = "report"):
        self.storage, self.next_file = storage, NextFile(storage, unknown)
        self.latest: int | None = None  # the largest id that is known to be taken

    async def append(self, body: bytes, attempts: int | None = None) -> int:
        """Append an entry; return its id.

        LIST comes only before the first create and after OutcomeUnknown. Raises what `StateWriter.update` raises.
        """
        if self.latest is None:
            files = await self.storage.list()
            self.latest = files[-1].id if files else FIRST_ID - 1
        while True:
            file_id = self.latest + 1
            try:
                lost = await self.next_file.create(file_id, body)
            except Definite:
                raise
            except BaseException:  # OutcomeUnknown, or the call is cancelled
                self.latest = None
                raise
            self.latest = file_id
            if lost is None:
                return file_id
            self.storage.world.metrics.count("append_conflicts")
            attempts = None if attempts is None else attempts - 1
            if attempts == 0:
                raise ObjectVersionExists(file_id)


class LogReader:
    """Reads a log by getting the next id until there is none; it needs no LIST."""

    def __init__(self, storage: SequencedStorage):
        self.storage = storage
        self.entries: list[bytes] = []  # the entries read so far, from FIRST_ID on

    async def read(self) -> list[bytes]:
        """Return all entries in order. Raises Unavailable; the next call continues after the entries read so far."""
        while True:
            try:
                self.entries.append(await self.storage.read(FIRST_ID + len(self.entries)))
            except NotFound:
                return list(self.entries)

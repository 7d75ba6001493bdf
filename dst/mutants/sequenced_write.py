"""Mutants of impl/protocols/sequenced_write.py, each with one safeguard removed. Simulation must find each of them."""

from collections.abc import Callable
from typing import Any

from highwater.dst.scenario import Build, Mutants
from highwater.dst.scenarios.sequenced_write import made
from highwater.impl.errors import NotFound, OutcomeUnknown, Unavailable
from highwater.impl.protocols.sequenced_storage import FIRST_ID, Listed, ObjectVersionExists, SequencedStorage
from highwater.impl.protocols.sequenced_write import (
    Committed,
    Known,
    LogReader,
    LogWriter,
    Lost,
    NextFile,
    StateReader,
    StateWriter,
)


class Overwrites(SequencedStorage):
    """Puts a file without a condition."""

    async def create(self, file_id: int, body: bytes) -> None:
        await self.world.store.put(self.namespace.key(file_id), body)


class AsksUntilAnswered(SequencedStorage):
    """Lists again until the store answers."""

    async def list(self, after: int | None = None) -> list[Listed]:
        while True:
            try:
                return await super().list(after)
            except Unavailable:
                continue


class TakesNextId(StateWriter):
    """Puts the old content under the next id after a conflict, which is right only for a log."""

    def _learn(self, file_id: int, lost: Lost) -> None:
        assert self.known is not None
        self.known = Known(file_id, self.known.value, True)


class SkipsAnId(StateWriter):
    """Reads the winner's file after a conflict, and then leaves out an id."""

    def _learn(self, file_id: int, lost: Lost) -> None:
        self.skips = True
        super()._learn(file_id, lost)

    async def _find_out(self) -> None:
        await super()._find_out()
        if getattr(self, "skips", False):
            assert self.known is not None
            self.skips, self.known = False, self.known._replace(id=self.known.id + 1)


class ChangedForAnotherId(StateWriter):
    """Calls the change with the id of the latest file in place of the next one."""

    async def update(self, change: Callable[[int, Any], Any], attempts: int | None = None) -> Committed:
        return await super().update(lambda file_id, value: change(file_id - 1, value), attempts)


class LogSkipsAnId(LogWriter):
    async def append(self, body: bytes, attempts: int | None = None) -> int:
        try:
            return await super().append(body, 1)
        except ObjectVersionExists:
            assert self.latest is not None
            self.latest += 1
            return await super().append(body, attempts)


class LostReplyIsConflict(NextFile):
    """Treats its own create with an indeterminate outcome as another writer's, so its update is applied again."""

    async def create(self, file_id: int, body: bytes) -> Lost | None:
        try:
            return await super().create(file_id, body)
        except OutcomeUnknown:
            return Lost(None)


class ConflictIsAnothers(NextFile):
    """Sends the create again, and assumes without reading that an existing file is another writer's."""

    async def create(self, file_id: int, body: bytes) -> Lost | None:
        for _ in range(3):
            try:
                return await self.storage.create(file_id, body)
            except ObjectVersionExists:
                return Lost(None)
            except OutcomeUnknown:
                pass
        raise OutcomeUnknown(f"id {file_id}")


class ConflictIsMine(NextFile):
    """Sends the create again, and assumes without reading that an existing file is its own."""

    async def create(self, file_id: int, body: bytes) -> Lost | None:
        try:
            return await self.storage.create(file_id, body)
        except ObjectVersionExists:
            return Lost(None)
        except OutcomeUnknown:
            try:
                return await self.storage.create(file_id, body)
            except ObjectVersionExists:
                return None


class TimeoutIsFailure(NextFile):
    async def create(self, file_id: int, body: bytes) -> Lost | None:
        try:
            return await super().create(file_id, body)
        except OutcomeUnknown as error:
            raise Unavailable(str(error)) from None


class AcknowledgedUnheard(NextFile):
    async def create(self, file_id: int, body: bytes) -> Lost | None:
        try:
            return await super().create(file_id, body)
        except OutcomeUnknown:
            return None


class AbsentHasFailed(NextFile):
    """Looks for its file after an indeterminate create, and reports failure if it is absent, although it may still arrive."""

    def __init__(self, storage: SequencedStorage, unknown: str):
        super().__init__(storage)

    async def create(self, file_id: int, body: bytes) -> Lost | None:
        try:
            return await super().create(file_id, body)
        except OutcomeUnknown:
            try:
                return await self._whose(file_id, body)
            except OutcomeUnknown as error:
                raise Unavailable(str(error)) from None


class OldListing(SequencedStorage):
    """Answers every second listing of a reader from a cache."""

    listed: list[Listed] | None = None

    async def list(self) -> list[Listed]:
        listed, self.listed = self.listed, None
        if listed is None:
            self.listed = listed = await super().list()
        return listed


class OldListingReader(StateReader):
    def __init__(self, storage: SequencedStorage, *options: Any):
        super().__init__(OldListing(storage.world, storage.namespace), *options)


class OldEntriesReader(LogReader):
    fresh = False

    async def read(self) -> list[bytes]:
        self.fresh = not self.fresh
        return await super().read() if self.fresh else list(self.entries)


class BackwardReader(LogReader):
    """Reads two files at a time, the later one first, and resolves them in that order."""

    async def read(self) -> list[bytes]:
        while True:
            file_id = FIRST_ID + len(self.entries)
            try:
                first = await self.storage.read(file_id)
            except NotFound:
                return list(self.entries)
            try:
                self.entries.append(await self.storage.read(file_id + 1))
            except NotFound:
                pass
            self.entries.append(first)


class ReturnsItsBase(StateWriter):
    """Returns the state that it built on."""

    async def update(self, change: Callable[[int, Any], Any], attempts: int | None = None) -> Committed:
        base: list[Any] = []

        def changed(file_id: int, value: Any) -> Any:
            base.append(value)
            return change(file_id, value)

        return (await super().update(changed, attempts))._replace(value=base[-1])


def client(**parts: Any) -> Build:
    return lambda world, shape, number: made(world, shape, **parts)


BUILDS = {  # name -> (its bug, its Build)
    "overwrites": ("files are put without a condition", client(storage=Overwrites)),
    "unresolved": ("in a sequence of states, the old content is put under the next id after a conflict",
                   client(state=TakesNextId)),
    "gap": ("after a conflict an id is skipped", client(state=SkipsAnId, log=LogSkipsAnId)),
    "changed_for_another_id": ("the change is called with the id of the latest file", client(state=ChangedForAnotherId)),
    "lost_reply_is_conflict": ("a create with an indeterminate outcome is treated as a conflict and applied again",
                               client(next_file=LostReplyIsConflict)),
    "conflict_is_anothers": ("a create is repeated, and an existing file counts as another writer's",
                             client(next_file=ConflictIsAnothers)),
    "conflict_is_mine": ("a create is repeated, and an existing file counts as the writer's own",
                         client(next_file=ConflictIsMine)),
    "timeout_is_failure": ("a create with an indeterminate outcome is reported as failed", client(next_file=TimeoutIsFailure)),
    "acknowledged_unheard": ("a create with an indeterminate outcome is reported as committed",
                             client(next_file=AcknowledgedUnheard)),
    "absent_has_failed": ("a create without a response is reported as failed if its file is absent, although it may come later",
                          client(next_file=AbsentHasFailed)),
    "old_reads": ("a cache answers a reader", client(readers=(OldListingReader, OldEntriesReader))),
    "out_of_order": ("in a log, a reader resolves files out of the order of their ids",
                     client(readers=(StateReader, BackwardReader))),
    "returns_its_base": ("an update returns the state without its change", client(state=ReturnsItsBase)),
    "asks_until_answered": ("a listing that is refused is requested again and again", client(storage=AsksUntilAnswered)),
}

LOST, TWICE, DENIED, STALE = "history:lost update", "history:applied twice", "history:denied update", "history:stale read"
ORDER = "history:out of order"
CREATES = ("refinement:Writer.Create", "refinement:Writer.SendCreate")  # CreateNext, CreateConflict
GOES_ON = (*CREATES, "refinement:Writer.List", "refinement:Writer.Read", "refinement:Writer.get", "told:failed")
ORACLES = {  # name -> prefixes of its signatures: by model; by harm
    "overwrites": (("refinement:Writer.put",), (LOST, "history:read")),
    "unresolved": (CREATES, (LOST, "history:read")),
    "gap": (CREATES, (LOST, STALE, ORDER, "history:read")),
    "changed_for_another_id": (("told:change",), ("told:change",)),
    "lost_reply_is_conflict": (GOES_ON, (TWICE, LOST, STALE, ORDER, "history:read")),
    "conflict_is_anothers": (GOES_ON, (TWICE,)),
    "conflict_is_mine": ((*GOES_ON, "told:committed"), (LOST, TWICE)),
    "timeout_is_failure": (("told:failed",), (DENIED, TWICE)),
    "acknowledged_unheard": (("told:committed",), (LOST, STALE)),
    "absent_has_failed": ((*GOES_ON, "call:append attempts"), (DENIED, TWICE, ORDER, "call:append attempts")),
    "returns_its_base": (("call:update content", "told:change"), ("told:change",)),
    "old_reads": (("told:read", "call:", "refinement:Reader.ReadLatest"), (STALE, "history:read went back")),
    "out_of_order": (("told:read",), ("history:read",)),
    "asks_until_answered": (("liveness:",), ("liveness:",)),
}
MUTANTS = Mutants(BUILDS, ORACLES)

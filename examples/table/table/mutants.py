"""Mutants of impl.py, each with one safeguard removed. The simulation must find each of them."""

from highwater import Mutants, OutcomeUnknown, Unavailable, World
from highwater.dst.scenario import Build

from .impl import FILES, TABLE, Content, Table
from .scenario import Shape


class BlindCommit(Table):
    """Puts the table without a condition."""

    async def put_table(self, body: bytes, version: str) -> None:
        await self.world.store.put(TABLE, body)


class Unconfirmed(Table):
    """Commits a file although no response to its PUT came."""

    async def store_file(self, name: str, data: bytes) -> None:
        try:
            await self.world.store.put(FILES + name, data)
        except OutcomeUnknown:
            pass


class DeletesAll(Table):
    """Deletes each file that the table does not name, also one that a writer is about to commit."""

    def is_garbage(self, name: str, content: Content) -> bool:
        return name not in content.names


class DeletesNothing(Table):
    """Takes no file for garbage."""

    def is_garbage(self, name: str, content: Content) -> bool:
        return False


class TimeoutIsFailure(Table):
    """Reports a commit without a response as failed."""

    async def append(self, update: str, data: bytes) -> None:
        try:
            await super().append(update, data)
        except OutcomeUnknown as error:
            raise Unavailable(str(error)) from None


def client(kind: type[Table]) -> Build:
    def build(world: World, shape: Shape, number: int) -> Table:
        return kind(world)

    return build


BUILDS = {  # name -> (its bug, its Build)
    "blind_commit": ("the table is put without a condition", client(BlindCommit)),
    "unconfirmed": ("a file is committed without a response to its PUT", client(Unconfirmed)),
    "deletes_all": ("a file is deleted that a writer may still commit", client(DeletesAll)),
    "deletes_nothing": ("garbage is not deleted", client(DeletesNothing)),
    "timeout_is_failure": ("a commit without a response is reported as failed", client(TimeoutIsFailure)),
}
ORACLES = {  # name -> prefixes of its signatures: judged by the model; judged by harm to callers
    "blind_commit": (("refinement:put",), ("history:lost update",)),
    "unconfirmed": (("refinement:Writer.",), ("history:file missing",)),
    "deletes_all": (("refinement:Cleaner.",), ("history:file missing",)),
    "deletes_nothing": (("history:garbage kept",), ("history:garbage kept",)),
    "timeout_is_failure": (("told:failed",), ("history:denied update", "history:applied twice")),
}
MUTANTS = Mutants(BUILDS, ORACLES)

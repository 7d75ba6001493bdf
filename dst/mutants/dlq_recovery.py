"""Known-bad dead letters: the real sweeper of impl/index/letters with one of its steps changed, or the real index with one of
its functions replaced.

traces/protocols/dlq_recovery.py judges each request. Without it a run fails if a block that is kept is lost or comes back.
"""

from collections.abc import Callable
from typing import Any

from highwater.dst.mutants.metadata_fsm import never, with_swaps
from highwater.dst.scenario import Build, Mutants
from highwater.dst.scenarios.dlq_recovery import Impl
from highwater.impl.errors import Indefinite
from highwater.impl.index import removed, replicated
from highwater.impl.index.config import Config
from highwater.impl.index.letters.letter import ASIDE, REJECTED, InvalidLetter, letter_of
from highwater.impl.index.letters.sweeper import Sweeper
from highwater.impl.index.library import TooLate
from highwater.impl.raft.faults import NotLeader
from highwater.impl.raft.machine import Machine
from highwater.impl.world import Entry


class DeletesFirst(Sweeper):
    """It deletes a letter, and then adds its block."""

    async def settle(self, entry: Entry) -> None:
        body = (await self.world.store.get(entry.key)).body
        try:
            made = letter_of(entry.key, body)
        except InvalidLetter as error:
            await self.copy(entry.key, REJECTED, body, str(error))
            await self.world.store.delete(entry.key)
            return
        await self.world.store.delete(entry.key)
        try:
            await self.add(made)
        except TooLate as error:
            await self.copy(entry.key, ASIDE, body, str(error))


class MovesByDeletingFirst(Sweeper):
    """It deletes a damaged letter, and then puts the copy."""

    async def copy(self, key: str, prefix: str, body: bytes, why: str) -> None:
        if prefix == REJECTED:
            await self.world.store.delete(key)
        await super().copy(key, prefix, body, why)


class CountsUnanswered(Sweeper):
    """An addition without an answer counts as done."""

    async def settle(self, entry: Entry) -> None:
        own = self.add

        async def add(block: Any) -> None:
            try:
                await own(block)
            except Indefinite:
                pass

        self.add = add
        try:
            await super().settle(entry)
        finally:
            self.add = own


def copies_all_but(left_out: str) -> type[Sweeper]:
    """Return a sweeper that deletes letters which it should move under this prefix."""
    class Copies(Sweeper):
        async def copy(self, key: str, prefix: str, body: bytes, why: str) -> None:
            if prefix != left_out:
                await super().copy(key, prefix, body, why)

    return Copies


class StopsAtBad(Sweeper):
    """A sweep ends at a damaged letter."""

    async def copy(self, key: str, prefix: str, body: bytes, why: str) -> None:
        if prefix == REJECTED:
            raise NotLeader("", "")  # the error at which a sweep ends
        await super().copy(key, prefix, body, why)


def sweeping(of: type[Sweeper]) -> Build:
    return lambda world, shape, number: Impl(sweeper=of)


def applying(name: str, other: Callable) -> Build:
    """Make an index whose `removed` has another function of this name."""
    def machine(config: Config) -> Machine:
        own = replicated.machine(config)
        return own._replace(apply=with_swaps(own.apply, (removed, name, other)))

    return lambda world, shape, number: Impl(machine=machine)


BUILDS: dict[str, tuple[str, Build]] = {  # name -> (its bug, its Build)
    "deleted_first": ("a letter is deleted before its block is added", sweeping(DeletesFirst)),
    "moved_by_deleting_first": ("a damaged letter is deleted before its copy is there", sweeping(MovesByDeletingFirst)),
    "unanswered_counts": ("an addition without an answer counts as done", sweeping(CountsUnanswered)),
    "rejected_deleted": ("a damaged letter is deleted, and not moved", sweeping(copies_all_but(REJECTED))),
    "late_deleted": ("a letter that the index refuses is deleted, and not moved", sweeping(copies_all_but(ASIDE))),
    "stopped_by_one": ("a sweep ends at a damaged letter", sweeping(StopsAtBad)),
    "removed_unknown": ("a removed block is added again", applying("is_removed", never)),
    "no_horizon": ("blocks of any age are added", applying("is_too_old", never)),
}
MODEL = ("refinement:Sweeper.", "refinement:Writer.", "refinement:index.", "refinement:.", "safety:")
ORACLES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {  # name -> prefixes of its signatures: by model; by harm
    **dict.fromkeys(BUILDS, (MODEL, ("history:",))),
    "stopped_by_one": (("liveness:letters",), ("liveness:letters",)),
}
MUTANTS = Mutants(BUILDS, ORACLES)

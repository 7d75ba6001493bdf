"""Mutants of impl.py, each with one safeguard removed. The simulation must find each of them."""

from highwater import Mutants, OutcomeUnknown, Unavailable, World
from highwater.dst.scenario import Build

from .impl import DATA, LOCK, Lease
from .scenario import Shape


class NoToken(Lease):
    """Trusts its clock: writes without a look at the token in the data."""

    def check(self, content: list, token: int) -> None:
        pass


class BlindTakeover(Lease):
    """Puts the lock without a condition."""

    async def put_lock(self, body: bytes, version: str) -> str:
        return await self.world.store.put(LOCK, body)


class BlindAppend(Lease):
    """Checks the token, and then puts the data without a condition."""

    async def put_data(self, body: bytes, version: str) -> None:
        await self.world.store.put(DATA, body)


class TimeoutIsFailure(Lease):
    """Reports an append without a response as failed."""

    async def append(self, update: str) -> None:
        try:
            await super().append(update)
        except OutcomeUnknown as error:
            raise Unavailable(str(error)) from None


def client(kind: type[Lease]) -> Build:
    def build(world: World, shape: Shape, number: int) -> Lease:
        return kind(world, f"Client#{number}", shape.lease_ms)

    return build


BUILDS = {  # name -> (its bug, its Build)
    "no_token": ("a holder does not check the fencing token", client(NoToken)),
    "blind_takeover": ("the lock is put without a condition", client(BlindTakeover)),
    "blind_append": ("the data is put without a condition", client(BlindAppend)),
    "timeout_is_failure": ("an append without a response is reported as failed", client(TimeoutIsFailure)),
}
ORACLES = {  # name -> prefixes of its signatures: judged by the model; judged by harm to callers
    "no_token": (("refinement:Client.",), ("history:token",)),
    "blind_takeover": (("refinement:put",), ("history:token",)),
    "blind_append": (("refinement:put",), ("history:lost update",)),
    "timeout_is_failure": (("told:failed",), ("history:denied update", "history:applied twice")),
}
MUTANTS = Mutants(BUILDS, ORACLES)

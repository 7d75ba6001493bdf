"""Mutants of impl/protocols/baseline.py, each with one safeguard removed. Simulation must find each of them."""

from highwater.dst.scenario import Build, Mutants
from highwater.dst.scenarios.baseline import ROOT, Shape
from highwater.impl.errors import OutcomeUnknown, Unavailable
from highwater.impl.protocols.baseline import Baseline
from highwater.impl.world import World, list_all


class TimeoutIsFailure(Baseline):
    async def write(self, name: str, body: bytes) -> None:
        try:
            await super().write(name, body)
        except OutcomeUnknown as error:
            raise Unavailable(str(error)) from None


class AcknowledgedUnheard(Baseline):
    async def write(self, name: str, body: bytes) -> None:
        try:
            await super().write(name, body)
        except OutcomeUnknown:
            pass


class SharedKeys(Baseline):
    """Writers count separately but use the same names."""

    async def write(self, name: str, body: bytes) -> None:
        await super().write(f"0.{name.partition('.')[2]}", body)


class OldListing(Baseline):
    """Recovers from the first listing that it has seen, as a cache would."""

    listed: list[str] | None = None

    async def recover(self) -> dict[str, bytes]:
        if self.listed is None:
            self.listed = [entry.key.removeprefix(self.prefix) for entry in await list_all(self.world.store, self.prefix)]
        return {name: await self.read(name) for name in self.listed}


def client(kind: type[Baseline]) -> Build:
    def build(world: World, shape: Shape, number: int) -> Baseline:
        return kind(world, ROOT, shape.attempts)

    return build


BUILDS = {  # name -> (its bug, its Build)
    "timeout_is_failure": ("a write without a response is reported as failed", client(TimeoutIsFailure)),
    "acknowledged_unheard": ("a write without a response is reported as stored", client(AcknowledgedUnheard)),
    "shared_keys": ("writers share their keys", client(SharedKeys)),
    "old_listing": ("a reader uses a cached listing", client(OldListing)),
}
ORACLES = {  # name -> prefixes of its signatures: by model; by harm
    "timeout_is_failure": (("told:failed", "refinement:Writer."), ("history:denied update", "history:applied twice")),
    "acknowledged_unheard": (("told:committed",), ("history:lost update",)),
    "shared_keys": (("refinement:Writer.",), ()),  # names are unique unless a model counts them
    "old_listing": (("refinement:Reader.",), ("history:stale read", "history:read went back")),
}
MUTANTS = Mutants(BUILDS, ORACLES)

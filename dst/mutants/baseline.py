"""Mutants of impl/protocols/baseline.py, each with one safeguard removed. Simulation must find each of them."""

from highwater.dst.scenario import Build, Mutants
from highwater.dst.scenarios.baseline import ROOT, Shape
from highwater.impl.errors import Indefinite, OutcomeUnknown, Unavailable
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


class NamesMixedUp(Baseline):
    """Recovers each write under the name of another."""

    async def recover(self) -> dict[str, bytes]:
        found = await super().recover()
        names = [*found][1:] + [*found][:1]
        return dict(zip(names, found.values()))


class UnsentIsUnknown(Baseline):
    """Raises an indefinite error of its own for a write that the store refused."""

    async def write(self, name: str, body: bytes) -> None:
        try:
            await super().write(name, body)
        except Unavailable as error:
            raise Indefinite(str(error)) from None


def client(kind: type[Baseline]) -> Build:
    def build(world: World, shape: Shape, number: int) -> Baseline:
        return kind(world, ROOT, shape.attempts)

    return build


BUILDS = {  # name -> (its bug, its Build)
    "timeout_is_failure": ("a write without a response is reported as failed", client(TimeoutIsFailure)),
    "acknowledged_unheard": ("a write without a response is reported as stored", client(AcknowledgedUnheard)),
    "shared_keys": ("writers share their keys", client(SharedKeys)),
    "old_listing": ("a reader uses a cached listing", client(OldListing)),
    "names_mixed_up": ("a recovery returns each write under the name of another", client(NamesMixedUp)),
    "unsent_is_unknown": ("a write that was refused raises an indefinite error that no caller knows", client(UnsentIsUnknown)),
}
ORACLES = {  # name -> prefixes of its signatures: by model; by harm
    "timeout_is_failure": (("told:failed", "refinement:Writer."), ("history:denied update", "history:applied twice")),
    "acknowledged_unheard": (("told:committed",), ("history:lost update",)),
    "shared_keys": (("refinement:Writer.",), ()),  # names are unique unless a model counts them
    "old_listing": (("refinement:Reader.",), ("history:stale read", "history:read went back")),
    "names_mixed_up": (("call:recover writes",), ()),
    "unsent_is_unknown": (("call:write Indefinite",), ()),
}
MUTANTS = Mutants(BUILDS, ORACLES)

"""Mutants of impl/protocols/baseline.py, each with one safeguard removed. Simulation must find each of them."""

from collections.abc import Iterable

from highwater.dst.scenario import Build, Mutants
from highwater.dst.scenarios.baseline import ROOT, Impl
from highwater.impl.errors import Indefinite, OutcomeUnknown, Unavailable
from highwater.impl.protocols.baseline import Baseline, BaselineKv, record
from highwater.impl.world import list_all


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


class IdsAlone(BaselineKv):
    """Names its puts by its id alone, which need not be greater than that of the instance before."""

    def __init__(self, baseline: Baseline, found: dict[str, bytes], announced: Iterable[str] = ()):
        super().__init__(baseline, found, announced)
        self.me = f"{1:020d}.{self.me.partition('.')[2]}"


class RefusedIsServed(BaselineKv):
    """Serves a put from memory that the store refused."""

    async def put(self, key: str, value: bytes) -> None:
        self.served = {**getattr(self, "served", {}), key: value}
        await super().put(key, value)

    async def get(self, key: str) -> bytes | None:
        return getattr(self, "served", {}).get(key) or await super().get(key)


class DoubtForgotten(BaselineKv):
    """Forgets a put of unknown outcome, which others may have read."""

    async def put(self, key: str, value: bytes) -> None:
        try:
            await super().put(key, value)
        finally:
            self.doubtful.clear()


class RecoveredUnsorted(BaselineKv):
    """Takes the value of a key that was listed first."""

    def __init__(self, baseline: Baseline, found: dict[str, bytes], announced: Iterable[str] = ()):
        super().__init__(baseline, found, announced)
        for name, body in sorted(found.items(), reverse=True):
            self.stored[record(name, body)[0]] = name


def client(kind: type[Baseline]) -> Build:
    return lambda world, shape, number: Impl(kind(world, ROOT, shape.attempts))


def kv(kind: type[BaselineKv]) -> Build:
    return lambda world, shape, number: Impl(Baseline(world, ROOT, shape.attempts), kind.open)


BUILDS = {  # name -> (its bug, its Build)
    "timeout_is_failure": ("a write without a response is reported as failed", client(TimeoutIsFailure)),
    "acknowledged_unheard": ("a write without a response is reported as stored", client(AcknowledgedUnheard)),
    "shared_keys": ("writers share their keys", client(SharedKeys)),
    "old_listing": ("a reader uses a cached listing", client(OldListing)),
    "names_mixed_up": ("a recovery returns each write under the name of another", client(NamesMixedUp)),
    "unsent_is_unknown": ("a write that was refused raises an indefinite error that no caller knows", client(UnsentIsUnknown)),
    "ids_alone": ("of two puts of a key the one with the greater id wins, and ids need not rise after a restart", kv(IdsAlone)),
    "refused_is_served": ("a put that the store refused is returned by get", kv(RefusedIsServed)),
    "doubt_forgotten": ("get does not look for a put of unknown outcome", kv(DoubtForgotten)),
    "recovered_unsorted": ("a store that opens takes the first value of each key", kv(RecoveredUnsorted)),
}
UNSERIAL = ("history:not linearizable",)
ORACLES = {  # name -> prefixes of its signatures: by model; by harm
    "timeout_is_failure": (("told:failed", "refinement:Writer."), ("history:denied update", "history:applied twice")),
    "acknowledged_unheard": (("told:committed",), ("history:lost update",)),
    "shared_keys": (("refinement:Writer.", "refinement:ValueError"), ()),  # names are unique unless a model counts them
    "old_listing": (("refinement:Reader.", "told:read", "history:stale read"),
                    ("history:stale read", "history:read went back")),
    "names_mixed_up": (("call:recover writes",), ()),
    "unsent_is_unknown": (("call:write Indefinite",), ()),
    "ids_alone": (("refinement:Put", *UNSERIAL, "told:got"), UNSERIAL),
    "refused_is_served": ((*UNSERIAL, "told:got"), UNSERIAL),
    "doubt_forgotten": ((*UNSERIAL, "told:got"), UNSERIAL),
    "recovered_unsorted": ((*UNSERIAL, "told:got"), UNSERIAL),
}
MUTANTS = Mutants(BUILDS, ORACLES)

"""Safety: what was asked of a run is what is run, or it is refused with a line that says what there is."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from highwater.dst.bundle import Given, settings_in
from highwater.dst.scenarios import DEFAULT, named
from highwater.dst.sim.strategies import STRATEGIES
from highwater.dst.simulate import drawn_shape, replay_command
from highwater.dst.world.faults import NONE, Weights
from highwater.dst.world.profiles import PROFILES
from highwater.dst.world.sdk import IN_SIMULATION
from highwater.dst.zoo import build_of


class Wanted(NamedTuple):
    """Of runs, whatever their seeds: as a user wrote it."""

    mutant: str | None = None
    strategy: str = "portfolio"
    profile: str | None = None
    shape: tuple[str, ...] = ()  # NAME=VALUE in place of what is drawn
    faults: tuple[str, ...] = ()  # NAME=N, of 1,000 requests; then there are no others
    scenario: str = DEFAULT


def given_of(seed: int, wanted: Wanted) -> Given:
    """What is not said of the shape is drawn from the seed. Raises LookupError or ValueError for what there is not."""
    build_of(wanted.mutant, wanted.scenario)
    if wanted.profile and wanted.profile not in PROFILES:
        raise LookupError(f"there is no profile {wanted.profile!r}; there are {', '.join(PROFILES)}")
    strategy = strategy_of(wanted.strategy)
    return Given(wanted.scenario, seed, wanted.mutant, strategy, shapes_of(wanted)(seed), weights_of(wanted))


def strategy_of(name: str) -> str:
    """Raises LookupError."""
    if name != "portfolio" and name not in STRATEGIES:
        raise LookupError(f"there is no strategy {name!r}; there are portfolio, {', '.join(STRATEGIES)}")
    return name


def shapes_of(wanted: Wanted) -> Callable[[int], Any]:
    """Of a seed: its shape, drawn but for what is set. None: it is drawn, all of it. Raises ValueError."""
    if not (wanted.profile or wanted.shape):
        return lambda seed: None
    usual = named(wanted.scenario).shape()
    given = set_in(usual._replace(store=wanted.profile or usual.store), wanted.shape, "--shape", named(wanted.scenario).most)
    if given.sdk not in ("", *IN_SIMULATION):
        raise ValueError(f"--shape sdk={given.sdk}: there are {', '.join(IN_SIMULATION)}")
    names = {setting.partition("=")[0] for setting in wanted.shape} | ({"store"} if wanted.profile else set())
    values = {name: getattr(given, name) for name in given._fields if name in names}
    return lambda seed: given if len(values) == len(given) else drawn_shape(seed, wanted.scenario)._replace(**values)


def weights_of(wanted: Wanted) -> Weights | None:
    """None: they are drawn. Raises ValueError."""
    weights = set_in(NONE, wanted.faults, "--fault") if wanted.faults else None
    if weights and sum(weights) > 1000:
        raise ValueError(f"--fault: {sum(weights)} of 1,000 requests")
    return weights


def set_in(usual: Any, settings: tuple[str, ...], option: str, most: Mapping[str, int] = MappingProxyType({})) -> Any:
    """The usual record with what is set. Raises ValueError, with the option."""
    try:
        return settings_in(usual, settings, most)
    except ValueError as error:
        raise ValueError(f"{option}: {error}") from None


def command_of(seed: int, wanted: Wanted) -> str:
    """What a user types to see this run again."""
    more = [f"--profile {wanted.profile}"] if wanted.profile else []
    more += [f"--shape {setting}" for setting in wanted.shape] + [f"--fault {setting}" for setting in wanted.faults]
    return " ".join([replay_command(seed, wanted.mutant, wanted.strategy, wanted.scenario), *more])

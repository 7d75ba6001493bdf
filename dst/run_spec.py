"""Specify what to run, from the command line to a row: a `RunSpec` for any seed, and a `Run` for one seed.

Safety: the run is what the user requested, or the request is refused with a line that lists what is possible.
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from highwater import project
from highwater.dst.scenario import BaseShape, Draw, shape_of
from highwater.dst.scenarios import DEFAULT, named
from highwater.dst.sim.choose import Chooser
from highwater.dst.sim.strategies import STRATEGIES
from highwater.dst.world.node_faults import HARDWARE, AnyWeights
from highwater.dst.world.profiles import PROFILES
from highwater.dst.world.sdk import IN_SIMULATION
from highwater.dst.zoo import build_of
from highwater.messages import meant

TEXTS: Mapping[str, Iterable[str]] = MappingProxyType({"store": PROFILES, "hardware": HARDWARE})  # field -> its values


class Run(NamedTuple):
    """The parameters of one run, apart from the code and its tape."""

    seed: int
    scenario: str = DEFAULT
    mutant: str | None = None  # None: the implementation itself
    strategy: str = "portfolio"  # portfolio: one strategy is drawn
    shape: BaseShape | None = None  # None: drawn
    weights: AnyWeights | None = None  # of faults; None: drawn
    by_model: bool = True  # False: judged to its end by the callers' history alone

    def command(self) -> str:
        """Return the command that repeats this run, if its shape and weights are drawn."""
        return RunSpec(self.scenario, self.mutant, self.strategy).command(self.seed)


def fields_of(run: Run) -> dict[str, Any]:
    """Name the fields of a run in the order of a bundle's files, for JSON."""
    return {"scenario": run.scenario, "seed": run.seed, "mutant": run.mutant, "strategy": run.strategy,
            "shape": run.shape and run.shape._asdict(), "weights": run.weights and run.weights._asdict(),
            **({} if run.by_model else {"by_model": False})}


def run_of(fields: dict[str, Any]) -> Run:
    """Make a run from `fields_of` it. Nothing is checked."""
    run, shape, weights = Run(**fields), fields.get("shape"), fields.get("weights")
    of = named(run.scenario)
    return run._replace(shape=shape and of.shape(**shape), weights=weights and of.weights(**weights))


class RunSpec(NamedTuple):
    """The parameters of runs as the user wrote them, apart from seed, code and tape."""

    scenario: str = DEFAULT
    mutant: str | None = None
    strategy: str = "portfolio"
    profile: str | None = None  # the store's; None: drawn
    shape: tuple[str, ...] = ()  # NAME=VALUE, in place of drawn values
    faults: tuple[str, ...] = ()  # NAME=N, of 1,000 requests, and no other faults

    def at(self, seed: int) -> Run:
        """Resolve the run of a seed. Raises LookupError for unknown names, ValueError for bad values."""
        build_of(self.mutant, self.scenario)
        if self.profile and self.profile not in PROFILES:
            raise LookupError(f"there is no profile {self.profile!r}{meant(self.profile, PROFILES)}; there are "
                              f"{', '.join(PROFILES)}")
        strategy = strategy_of(self.strategy)
        return Run(seed, self.scenario, self.mutant, strategy, shape_at(seed, self), weights_of(self.faults, self.scenario))

    def command(self, seed: int) -> str:
        """Return the command that repeats the run of a seed."""
        words = [f"highwater dst run {protocol_words(self.scenario)} --seed {seed}"]
        words += [f"--mutant {self.mutant}"] if self.mutant else []
        words += [f"--strategy {self.strategy}"] if self.strategy != "portfolio" else []
        words += [f"--profile {self.profile}"] if self.profile else []
        return " ".join([*words, *(f"--shape {text}" for text in self.shape), *(f"--fault {text}" for text in self.faults)])


def protocol_words(scenario: str) -> str:
    """Return the options that select a scenario, and its project."""
    protocol = named(scenario).protocol
    more = ["--scenario", scenario] if scenario != protocol else []
    return " ".join([*project.words(), "--protocol", protocol, *more])


def strategy_of(name: str) -> str:
    """Return the name if it is a strategy's. Raises LookupError."""
    if name != "portfolio" and name not in STRATEGIES:
        raise LookupError(f"there is no strategy {name!r}{meant(name, ['portfolio', *STRATEGIES])}; there are portfolio, "
                          f"{', '.join(STRATEGIES)}")
    return name


def shape_at(seed: int, spec: RunSpec) -> BaseShape | None:
    """Return the shape of a seed's run: the settings, and drawn values for the other fields. None: all of it is drawn. Raises
    ValueError."""
    if not (spec.profile or spec.shape):
        return None
    scenario = named(spec.scenario)
    usual = scenario.shape()
    given = set_in(usual._replace(store=spec.profile or usual.store), spec.shape, "--shape", scenario.most)
    if given.sdk not in ("", *IN_SIMULATION):
        raise ValueError(f"--shape sdk={given.sdk}: there are {', '.join(IN_SIMULATION)}")
    if given.broken and given.broken not in scenario.breaks:
        raise ValueError(f"--shape broken={given.broken}: {spec.scenario} has {', '.join(scenario.breaks) or 'none'}")
    first = next(count for count, _ in scenario.roles.values())
    if not getattr(given, first):
        raise ValueError(f"--shape {first}=0: nothing happens without them; give 1 or more")
    names = {setting.partition("=")[0] for setting in spec.shape} | ({"store"} if spec.profile else set())
    every = given._asdict()
    values = {name: value for name, value in every.items() if name in names}
    return given if len(values) == len(every) else drawn_shape(seed, spec.scenario)._replace(**values)


def drawn_shape(seed: int, scenario: str = DEFAULT) -> Any:
    """Draw the shape of this seed's run."""
    chooser = Chooser(seed)
    return shape_of(named(scenario), seed, among(chooser.stream("workload")), chooser.stream("rare"))


def among(choose: Callable[[str, int], int]) -> Draw:
    """Make the function that draws a field of a shape: it picks one of the given values."""
    return lambda field, *values: values[choose(f"shape.{field}", len(values))]


def weights_of(faults: tuple[str, ...], scenario: str) -> AnyWeights | None:
    """Return the weights of the faults; None: they are drawn. Raises ValueError."""
    weights = set_in(named(scenario).no_faults, faults, "--fault") if faults else None
    if weights and sum(weights) > 1000:
        raise ValueError(f"--fault: {sum(weights)} of 1,000 {'operations' if named(scenario).nodes else 'requests'}")
    return weights


def set_in(usual: Any, settings: tuple[str, ...], option: str, most: Mapping[str, int] = MappingProxyType({})) -> Any:
    """Return the usual record with the settings. Raises ValueError, prefixed with the option."""
    try:
        return settings_in(usual, settings, most)
    except ValueError as error:
        raise ValueError(f"{option}: {error}") from None


def settings_in(usual: Any, settings: tuple[str, ...], most: Mapping[str, int] = MappingProxyType({})) -> Any:
    """Return the usual record with these NAME=VALUE settings. Raises ValueError."""
    values: dict[str, Any] = {}
    for setting in settings:
        name, _, text = setting.partition("=")
        if name not in usual._asdict():
            raise ValueError(f"{setting}: there is no {name!r}{meant(name, usual._asdict())}; there are "
                             f"{', '.join(usual._asdict())}")
        number = text.isascii() and text.isdigit()
        like = type(getattr(usual, name))
        values[name] = text in ("1", "True", "true") if like is bool else int(text) if number and like is int else text
    return record(usual, values, most)


def record(usual: Any, saved: dict[str, Any] | None, at_most: Mapping[str, int] = MappingProxyType({})) -> Any:
    """Return the usual record with saved fields. Raises ValueError if a field has a wrong type or exceeds the scenario's
    limit."""
    if saved is None:
        return None
    for name, value in saved.items():
        like = getattr(usual, name, None)
        most = at_most.get(name, 1 << 40)
        least = 1 if name in ("page_size", "min_age_ms", "think_ms", "chaos") else 0
        if type(value) is not type(like) or (name in TEXTS and value not in TEXTS[name]) or (
                type(value) is int and not least <= value <= most):
            texts = ", ".join(TEXTS.get(name, ("a text",)))
            may = {bool: "0 or 1", int: f"{least} to {most:,}"}.get(type(like), texts)
            raise ValueError(f"{name} is {value!r}, and may be {may}")
    return usual._replace(**saved)

"""Say what is to be run, once, from the command line to a row: a `RunSpec`, whatever the seed, and a `Run`, one seed of it.

Safety: what was asked for is what is run, or it is refused with a line that says what there is.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from highwater.dst.scenario import Shape
from highwater.dst.scenarios import DEFAULT, named
from highwater.dst.sim.choose import Chooser
from highwater.dst.sim.strategies import STRATEGIES
from highwater.dst.world.faults import NONE, Weights
from highwater.dst.world.profiles import PROFILES
from highwater.dst.world.sdk import IN_SIMULATION
from highwater.dst.zoo import build_of


class Run(NamedTuple):
    """What one run is a function of, apart from the code and its tape."""

    seed: int
    scenario: str = DEFAULT
    mutant: str | None = None  # None: the implementation itself
    strategy: str = "portfolio"  # one of these is drawn
    shape: Shape | None = None  # None: drawn
    weights: Weights | None = None  # of faults; None: drawn

    def command(self) -> str:
        """What a user types to see this run again, if its shape and weights are drawn."""
        return RunSpec(self.scenario, self.mutant, self.strategy).command(self.seed)


def fields_of(run: Run) -> dict[str, Any]:
    """Name the fields of a run in the order of a bundle's files, for JSON."""
    return {"scenario": run.scenario, "seed": run.seed, "mutant": run.mutant, "strategy": run.strategy,
            "shape": run.shape and run.shape._asdict(), "weights": run.weights and run.weights._asdict()}


def run_of(fields: dict[str, Any]) -> Run:
    """Make the run of its fields again, which are `fields_of` one: nothing is checked."""
    run, shape, weights = Run(**fields), fields.get("shape"), fields.get("weights")
    return run._replace(shape=shape and named(run.scenario).shape(**shape), weights=weights and Weights(**weights))


class RunSpec(NamedTuple):
    """What runs are a function of, apart from seed, code and tape, as a user wrote it."""

    scenario: str = DEFAULT
    mutant: str | None = None
    strategy: str = "portfolio"
    profile: str | None = None  # of the store; None: drawn
    shape: tuple[str, ...] = ()  # NAME=VALUE in place of what is drawn
    faults: tuple[str, ...] = ()  # NAME=N, of 1,000 requests; then there are no others

    def at(self, seed: int) -> Run:
        """Resolve the run of a seed. Raises LookupError or ValueError for what there is not."""
        build_of(self.mutant, self.scenario)
        if self.profile and self.profile not in PROFILES:
            raise LookupError(f"there is no profile {self.profile!r}; there are {', '.join(PROFILES)}")
        strategy = strategy_of(self.strategy)
        return Run(seed, self.scenario, self.mutant, strategy, shape_at(seed, self), weights_of(self.faults))

    def command(self, seed: int) -> str:
        """What a user types to see the run of a seed again."""
        words = [f"highwater dst run {protocol_words(self.scenario)} --seed {seed}"]
        words += [f"--mutant {self.mutant}"] if self.mutant else []
        words += [f"--strategy {self.strategy}"] if self.strategy != "portfolio" else []
        words += [f"--profile {self.profile}"] if self.profile else []
        return " ".join([*words, *(f"--shape {text}" for text in self.shape), *(f"--fault {text}" for text in self.faults)])


def protocol_words(scenario: str) -> str:
    """The options that choose a scenario."""
    protocol = named(scenario).protocol
    return f"--protocol {protocol}" + (f" --scenario {scenario}" if scenario != protocol else "")


def strategy_of(name: str) -> str:
    """Raises LookupError."""
    if name != "portfolio" and name not in STRATEGIES:
        raise LookupError(f"there is no strategy {name!r}; there are portfolio, {', '.join(STRATEGIES)}")
    return name


def shape_at(seed: int, spec: RunSpec) -> Shape | None:
    """The shape of a seed's run, drawn but for what is set. None: it is drawn, all of it. Raises ValueError."""
    if not (spec.profile or spec.shape):
        return None
    scenario = named(spec.scenario)
    usual = scenario.shape()
    given = set_in(usual._replace(store=spec.profile or usual.store), spec.shape, "--shape", scenario.most)
    if given.sdk not in ("", *IN_SIMULATION):
        raise ValueError(f"--shape sdk={given.sdk}: there are {', '.join(IN_SIMULATION)}")
    names = {setting.partition("=")[0] for setting in spec.shape} | ({"store"} if spec.profile else set())
    values = {name: getattr(given, name) for name in given._fields if name in names}
    return given if len(values) == len(given) else drawn_shape(seed, spec.scenario)._replace(**values)


def drawn_shape(seed: int, scenario: str = DEFAULT) -> Any:
    """The shape of the run of this seed, if none is given."""
    return named(scenario).draw_shape(among(Chooser(seed).stream("workload")))


def among(choose: Callable[[str, int], int]) -> Callable[..., Any]:
    """Make what a shape is drawn with: of a field, one of these values."""
    return lambda field, *values: values[choose(f"shape.{field}", len(values))]


def weights_of(faults: tuple[str, ...]) -> Weights | None:
    """None: they are drawn. Raises ValueError."""
    weights = set_in(NONE, faults, "--fault") if faults else None
    if weights and sum(weights) > 1000:
        raise ValueError(f"--fault: {sum(weights)} of 1,000 requests")
    return weights


def set_in(usual: Any, settings: tuple[str, ...], option: str, most: Mapping[str, int] = MappingProxyType({})) -> Any:
    """The usual record with what is set. Raises ValueError, with the option."""
    try:
        return settings_in(usual, settings, most)
    except ValueError as error:
        raise ValueError(f"{option}: {error}") from None


def settings_in(usual: Any, settings: tuple[str, ...], most: Mapping[str, int] = MappingProxyType({})) -> Any:
    """With these NAME=VALUE. Raises ValueError."""
    values: dict[str, Any] = {}
    for setting in settings:
        name, _, text = setting.partition("=")
        if name not in usual._fields:
            raise ValueError(f"{setting}: there is no {name!r}; there are {', '.join(usual._fields)}")
        number = text.isascii() and text.isdigit()
        like = type(getattr(usual, name))
        values[name] = text in ("1", "True", "true") if like is bool else int(text) if number and like is int else text
    return record(usual, values, most)


def record(usual: Any, saved: dict[str, Any] | None, at_most: Mapping[str, int] = MappingProxyType({})) -> Any:
    """Raises ValueError where a field is not of its kind, or beyond what the scenario is made for."""
    if saved is None:
        return None
    for name, value in saved.items():
        like = getattr(usual, name, None)
        most = at_most.get(name, 1 << 40)
        least = 1 if name in ("page_size", "min_age_ms", "think_ms", "chaos") else 0
        if type(value) is not type(like) or (type(value) is int and not least <= value <= most) or (
                name == "store" and value not in PROFILES):
            texts = ", ".join(PROFILES) if name == "store" else "a text"
            may = {bool: "0 or 1", int: f"{least} to {most:,}"}.get(type(like), texts)
            raise ValueError(f"{name} is {value!r}, and may be {may}")
    return usual._replace(**saved)

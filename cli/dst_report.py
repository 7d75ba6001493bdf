"""What the verbs of `highwater dst` say of a run, and what they keep of it."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from cli.console import STEM, build_of, console, refuse
from dst.bundle import SHRUNK, Given, Refused, files_of, settings_in, write
from dst.scenarios import named
from dst.simulate import Outcome, drawn_shape, replay_command
from dst.strategies import STRATEGIES
from dst.version import code_version
from dst.world.faults import NONE
from dst.world.profiles import PROFILES
from dst.world.sdk import IN_SIMULATION


def strategy_of(name: str) -> str:
    if name != "portfolio" and name not in STRATEGIES:
        refuse(f"there is no strategy {name!r}; there are portfolio, {', '.join(STRATEGIES)}")
    return name


class Wanted(NamedTuple):
    """Of runs, whatever their seeds: as a user wrote it."""

    mutant: str | None = None
    strategy: str = "portfolio"
    profile: str | None = None
    shape: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    scenario: str = STEM


def given_of(seed: int, mutant: str | None, strategy: str, profile: str | None = None, shape: tuple[str, ...] = (),
             faults: tuple[str, ...] = (), scenario: str = STEM) -> Given:
    """What is not said of the shape is drawn from the seed. Refuses what there is not."""
    build_of(mutant, scenario)
    if profile is not None and profile not in PROFILES:
        refuse(f"there is no profile {profile!r}; there are {', '.join(PROFILES)}")
    given = None
    if profile or shape:
        drawn = drawn_shape(seed, scenario)
        given = set_in(drawn._replace(store=profile or drawn.store), shape, "--shape", named(scenario).MOST)
    if given and given.sdk not in ("", *IN_SIMULATION):
        refuse(f"--shape sdk={given.sdk}: there are {', '.join(IN_SIMULATION)}")
    weights = set_in(NONE, faults, "--fault") if faults else None
    if weights and sum(weights) > 1000:
        refuse(f"--fault: {sum(weights)} of 1,000 requests")
    return Given(scenario, seed, mutant, strategy_of(strategy), given, weights)


def set_in(usual: Any, settings: tuple[str, ...], option: str, most: Mapping[str, int] = MappingProxyType({})) -> Any:
    try:
        return settings_in(usual, settings, most)
    except ValueError as error:
        refuse(f"{option}: {error}")


def command_of(seed: int, wanted: Wanted) -> str:
    """What a user types to see this run again."""
    more = [f"--profile {wanted.profile}"] if wanted.profile else []
    more += [f"--shape {setting}" for setting in wanted.shape] + [f"--fault {setting}" for setting in wanted.faults]
    return " ".join([replay_command(seed, wanted.mutant, wanted.strategy, wanted.scenario), *more])


def facts(outcome: Outcome, given: Given) -> str:
    shape = ", ".join(f"{name} {value}" for name, value in outcome.shape._asdict().items())
    drawn = f", drawn from the {given.strategy}" if given.strategy != outcome.strategy else ""
    return (f"seed {outcome.seed}: {outcome.requests} requests in {outcome.virtual_ms:,} ms of virtual time; {shape}; "
            f"strategy {outcome.strategy}{drawn}\ntrace {outcome.digest}\n")


def again_by(given: Given, kept: str) -> str:
    """What shows it again: its seed, unless only what was kept of it knows how large it was."""
    if given.shape is None and given.weights is None:
        return replay_command(given.seed, given.mutant, given.strategy, given.scenario)
    return f"highwater dst replay {kept}"


def report(outcome: Outcome, given: Given, command: str) -> None:
    """What a run was, if it failed why, to the line, and what shows it again."""
    console.print(facts(outcome, given), end="")
    if not outcome.kind:
        console.print("[green]ok[/]: the trace refines the model, nobody was told an untruth, everybody got on")
        return
    from traces.explain import explain

    console.print(f"[bold red]{outcome.kind}[/] ({outcome.signature})")
    trace = named(outcome.scenario).trace_of(outcome.shape)
    console.print(explain(outcome.events, outcome.failure, trace, command), markup=False)


def kept(outcome: Outcome, given: Given, code: str, prefix: str = "") -> dict[str, str]:
    """The files of a run in a bundle."""
    from cli.explain import look, text_of
    from cli.timeline import page_of

    told = look(outcome, given.mutant, again_by(given, "BUNDLE" + " --shrunk" * bool(prefix)))
    why = f"{outcome.kind} ({outcome.signature})\n{text_of(told)}" if outcome.kind else "ok\n"
    return files_of(given, outcome, code, facts(outcome, given) + why, page_of(told), prefix)


def bundle(outcome: Outcome, given: Given, folder: Path, shrunk: tuple[Outcome, Given] | None = None) -> None:
    """Refuses a folder that cannot be written, or that holds something else."""
    folder, code = folder.resolve(), code_version()
    if folder == Path.cwd():
        refuse(f"{folder} is where you are: a bundle replaces its folder; give another")
    try:
        files = kept(outcome, given, code)
        if shrunk:
            files |= kept(*shrunk, code, SHRUNK)
        write(folder, given, outcome, code, files)
    except Refused as error:
        refuse(str(error))
    except OSError as error:
        refuse(f"{folder} cannot be written: {error.strerror}")


def trace_command(outcome: Outcome, file: Path) -> str:
    """What holds the trace of a run against the model."""
    of = named(outcome.scenario).trace_options(outcome.shape)
    protocol = f" --protocol {outcome.scenario}" if outcome.scenario != STEM else ""
    return " ".join([f"highwater trace check {file}{protocol}", *of])

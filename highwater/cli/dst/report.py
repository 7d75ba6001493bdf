"""What the verbs of `highwater dst` say of a run."""

from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import Any

from highwater.cli.console import STEM, build_of, console, refuse
from highwater.dst.harm import callers
from highwater.dst.run_spec import Run
from highwater.dst.scenarios import named
from highwater.dst.simulate import Outcome


def or_refuse(ask: Callable, *of: object) -> Any:
    """What `ask` answers; refuses what there is not."""
    try:
        return ask(*of)
    except (LookupError, TypeError, ValueError) as error:  # a tape may name anything
        refuse(str(error))


def facts(outcome: Outcome, given: Run) -> str:
    shape = ", ".join(f"{name} {value}" for name, value in outcome.shape._asdict().items())
    drawn = f", drawn from the {given.strategy}" if given.strategy != outcome.strategy else ""
    return (f"seed {outcome.seed}: {outcome.requests} requests in {outcome.virtual_ms:,} ms of virtual time; {shape}; "
            f"strategy {outcome.strategy}{drawn}\ntrace {outcome.digest}\n")


def again_by(given: Run, otherwise: str) -> str:
    """What shows it again: its seed, unless only what was kept of it knows how large it was."""
    if given.shape is None and given.weights is None:
        return given.command()
    return otherwise


def typed(path: Path | str) -> str:
    """As a shell takes it, and for no seed and no option."""
    return quote(f"./{path}" if str(path).isdigit() or str(path).startswith("-") else str(path))


def replayed_by(kept: Path | str, shrunk: bool) -> str:
    """What shows again a bundle, or a tape, that is there, as seen from where the user is."""
    return f"highwater dst replay {typed(kept)}" + " --shrunk" * shrunk


def found_by(kept: Path, shrunk: bool) -> str:
    """The same, to be read anywhere, and of a bundle that may be moved."""
    return f"in the folder that holds {kept.name}: {replayed_by(kept.name, shrunk)}"


def report(outcome: Outcome, given: Run, command: str) -> None:
    """What a run was, if it failed why, to the line, and what shows it again."""
    console.print(facts(outcome, given), end="")
    if not outcome.kind:
        console.print("[green]ok[/]: the trace refines the model, nobody was told an untruth, everybody got on")
        return
    from highwater.traces.explain.explain import explain

    console.print(f"[bold red]{outcome.kind}[/] ({outcome.signature})")
    if harm := callers(outcome, build_of(given.mutant, given.scenario)):
        console.print(harm, markup=False)
    trace = named(outcome.scenario).trace_of(outcome.shape)
    console.print(explain(outcome.events, outcome.failure, trace, command), markup=False)


def trace_command(outcome: Outcome, file: Path) -> str:
    """What holds the trace of a run against the model."""
    of = named(outcome.scenario).trace_options(outcome.shape)
    protocol = f" --protocol {outcome.scenario}" if outcome.scenario != STEM else ""
    return " ".join([f"highwater trace check {quote(str(file))}{protocol}", *of])

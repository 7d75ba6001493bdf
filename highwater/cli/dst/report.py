"""Describe a run for the commands of `highwater dst`: its size, its failure, and the commands that replay it."""

from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, TypeVar

import typer

from highwater import project
from highwater.cli.console import build_of, console, refuse, terminal_width
from highwater.dst.harm import callers
from highwater.dst.limit import limited, place_of
from highwater.dst.run_spec import Run
from highwater.dst.scenarios import default, named
from highwater.dst.sim.alarm import Hung
from highwater.dst.simulate import Outcome
from highwater.gate.exits import TIMEOUT

Result = TypeVar("Result")
Limit = Annotated[float, typer.Option("--seed-limit-s", min=0.001, help="stop a run that takes longer; the exit code is 15")]


def or_refuse(ask: Callable, *of: object) -> Any:
    """Return `ask(*of)`. Refuses if it raises LookupError, TypeError or ValueError."""
    try:
        return ask(*of)
    except (LookupError, TypeError, ValueError) as error:  # a tape may name anything
        refuse(str(error))


def or_time_out(work: Callable[[], Result], limit_s: float, command: str) -> Result:
    """Return `work()`. If it does not end within the limit, report where it was, and exit."""
    try:
        with limited(limit_s):
            return work()
    except Hung as hung:
        console.print(f"[bold red]timeout[/]: the run did not end within {limit_s:g} s; it was at {place_of(hung)}, perhaps in "
                      "a loop without await: ", end="")
        console.print(command, markup=False)
        raise typer.Exit(TIMEOUT) from None


def facts(outcome: Outcome, given: Run) -> str:
    shape = ", ".join(f"{name} {value}" for name, value in outcome.shape._asdict().items())
    drawn = f", drawn from the {given.strategy}" if given.strategy != outcome.strategy else ""
    return (f"seed {outcome.seed}: {outcome.requests} requests in {outcome.virtual_ms:,} ms of virtual time; {shape}; "
            f"strategy {outcome.strategy}{drawn}\ntrace {outcome.digest}\n")


def again_by(given: Run, otherwise: str) -> str:
    """Return the command that replays a run by its seed; `otherwise` if its shape, fault weights or judge were given."""
    if given.shape is None and given.weights is None and given.by_model:
        return given.command()
    return otherwise


def which(shrunk: bool | None, outcome: Outcome) -> str:
    """Name the run of a bundle that holds two, and say where it ends; "" for the only run."""
    if not shrunk:
        return "" if shrunk is None else "the unshrunk run"
    if not outcome.by_model:
        return "the shrunk run, to its end, judged by the callers' history alone"
    return "the shrunk run" + ", cut at the first step that the model forbids" * (outcome.kind == "refinement")


def typed(path: Path | str) -> str:
    """Quote a path for a shell, such that it is not mistaken for a seed or an option."""
    return quote(f"./{path}" if str(path).isdigit() or str(path).startswith("-") else str(path))


def replayed_by(kept: Path | str, shrunk: bool | None = None) -> str:
    """Return the command that replays a tape at this path, from the working folder. `shrunk`: as in Saved."""
    option = {True: ["--shrunk"], False: ["--unshrunk"], None: []}[shrunk]
    return " ".join(["highwater dst replay", typed(kept), *project.words(), *option])


def found_by(kept: Path, shrunk: bool | None) -> str:
    """Return the command that replays a bundle that may be moved, with the folder in which to run it."""
    return f"in the folder that holds {kept.name}: {replayed_by(kept.name, shrunk)}"


def report(outcome: Outcome, given: Run, command: str) -> None:
    """Print what a run was and, if it failed, the explanation with the lines of the model, and the command that replays it."""
    console.print(facts(outcome, given), end="", markup=False, soft_wrap=not console.is_terminal)
    if not outcome.kind:
        console.print("[green]ok[/]: the trace refines the model, every response was true, every client finished")
        return
    from highwater.traces.explain.explain import explain

    console.print(f"[bold red]{outcome.kind}[/] ({outcome.signature})")
    if harm := callers(outcome, build_of(given.mutant, given.scenario)):
        console.print(harm, markup=False)
    trace = named(outcome.scenario).judge(outcome.shape)
    assert outcome.failure is not None
    console.print(explain(outcome.events, outcome.failure, trace, command, outcome.by_model, terminal_width()),
                  markup=False)


def trace_command(outcome: Outcome, file: Path) -> str:
    """Return the command that checks the trace of a run against the model."""
    of = named(outcome.scenario).trace_options(outcome.shape)
    protocol = ["--protocol", outcome.scenario] if outcome.scenario != default() else []
    return " ".join(["highwater trace check", quote(str(file)), *project.words(), *protocol, *of])

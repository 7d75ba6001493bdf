"""highwater dst explain: why a run failed, as text; and what its verbs and those of timeline and export run: a seed, a
bundle or a tape.
"""

from typing import Annotated, NamedTuple

import typer

from highwater.cli.console import Protocol, Scenario, build_of, console, refuse, scenario_of
from highwater.cli.dst.replay import as_recorded, saved_in, seed_of
from highwater.cli.dst.report import or_refuse, replayed_by
from highwater.dst.harm import callers
from highwater.dst.run_spec import Run, RunSpec
from highwater.dst.scenarios import named
from highwater.dst.search.nearest import Search, nearest
from highwater.dst.search.nearest import told as told_nearest
from highwater.dst.sim.choose import Lenient
from highwater.dst.simulate import Outcome, simulate
from highwater.dst.world.faults import NONE
from highwater.dst.world.store import refusals
from highwater.gate.exits import of_kinds
from highwater.traces.explain.causes import Cause
from highwater.traces.explain.explain import (
    Replayed,
    failing_events,
    instead,
    mattered,
    replay,
    skipped,
    step_before,
    told,
    what_mattered,
    words,
)
from highwater.traces.explain.timeline import Watched

What = Annotated[str, typer.Argument(help="a seed, a bundle's folder, or a tape.json")]
Shrunk = Annotated[bool, typer.Option("--shrunk", help="of a bundle: what `shrink` made of the run")]
Mutant = Annotated[str | None, typer.Option(help="a known-bad implementation of dst/mutants/ in place of impl/")]
Strategy = Annotated[str, typer.Option(help="with a seed: the strategy that it was run with")]


class Told(NamedTuple):
    """A run, and what there is to say of it."""

    outcome: Outcome
    mutant: str | None
    command: str  # shows it again; "" if only a tape can, and it is not said where that is
    watched: list[Watched]
    replayed: Replayed
    failing: list[int]
    causes: list[Cause]
    nearest: Search | None  # of a run that failed
    callers: str  # whether they came to harm, in a run that fails by refinement; else ""


def run_of(what: str, mutant: str | None = None, strategy: str = "portfolio", protocol: str | None = None,
           scenario: str | None = None, shrunk: bool = False) -> tuple[Outcome, str | None, str]:
    """The outcome, its mutant, and the command that shows it again. Refuses what is neither a seed nor holds a tape."""
    stem = scenario_of(protocol, scenario)
    seed = seed_of(what)
    if seed is not None and shrunk:
        refuse(f"--shrunk is of a bundle: {what} is a seed")
    if seed is not None:
        run = or_refuse(RunSpec(stem, mutant, strategy).at, seed)
        return simulate(run), mutant, run.command()
    if mutant or strategy != "portfolio":
        refuse(f"--mutant and --strategy go with a seed: {what} holds its own")
    saved = saved_in(what, shrunk)
    return as_recorded(saved), saved.run.mutant, replayed_by(what, shrunk)


def given(outcome: Outcome, mutant: str | None) -> Run:
    """The run, with the shape and the weights that it had been given where its tape does not hold them. (Which weights does not
    matter: what befell each request is on the tape.)"""
    sites = {site.partition(".")[0] for site, *_ in outcome.tape}
    return Run(outcome.seed, outcome.scenario, mutant, outcome.strategy, None if "shape" in sites else outcome.shape,
               None if "swarm" in sites else NONE)


def seen_in(outcome: Outcome, mutant: str | None) -> tuple[list[Watched], bool]:
    """Run it again and look on: what was seen (nothing, if it does not come out the same), and whether the model judges."""
    for by_model in (True, False):
        seen: list[Watched] = []
        same = simulate(given(outcome, mutant), None, outcome.tape, by_model,
                        watch=lambda *what, seen=seen: seen.append(Watched(*what)))
        if same.digest == outcome.digest:
            return seen, by_model
    return [], True


def look(outcome: Outcome, mutant: str | None = None, command: str = "", search: bool = True) -> Told:
    trace, build = named(outcome.scenario).trace_of(outcome.shape), build_of(mutant, outcome.scenario)
    replayed = replay(outcome.events, trace)
    seen, by_model = seen_in(outcome, mutant)
    failing = failing_events(replayed, outcome.failure)
    found = mattered(replayed, failing, trace, refusals(outcome.shape.store))
    run = given(outcome, mutant)
    near = nearest(outcome, lambda tape: simulate(run, None, None, by_model, Lenient(run.seed, tape))
                   ) if outcome.kind and search else None
    if not command and run.shape is None:  # a run whose shape was given has no seed that draws it
        command = run._replace(strategy="portfolio").command()
    return Told(outcome, mutant, command, seen, replayed, failing, found, near, callers(outcome, build) if search else "")


def text_of(look: Told) -> str:
    outcome, replayed = look.outcome, look.replayed
    left_out, before = skipped(replayed, look.failing), step_before(replayed, look.failing)
    other = instead(replayed, before) if before is not None and not left_out else []
    parts = [*filter(None, [look.callers]), told(replayed, outcome.failure).rstrip(), *([left_out] if left_out else []),
             *(f"At event {before}, {text}" for text in other), what_mattered(replayed, look.causes, look.failing)]
    if look.nearest:
        parts.append(told_nearest(look.nearest, outcome, lambda e: words(e).partition("\n")[0]))
    return "\n\n".join([*parts, f"Replay: {look.command}"] if look.command else parts) + "\n"


def explain_command(what: What, mutant: Mutant = None, strategy: Strategy = "portfolio", protocol: Protocol = None,
                    scenario: Scenario = None, shrunk: Shrunk = False) -> None:
    """Why a run failed: the failing event, the model's state, the guards that were false, what mattered, the nearest run that
    passes."""
    outcome, mutant, command = run_of(what, mutant, strategy, protocol, scenario, shrunk)
    if not outcome.kind:
        console.print(f"[green]ok[/]: seed {outcome.seed} passes, there is nothing to explain ({len(outcome.events)} events)")
        return
    console.print(f"[bold red]{outcome.kind}[/] ({outcome.signature})")
    console.print(text_of(look(outcome, mutant, command)), markup=False)
    raise typer.Exit(of_kinds([outcome.kind]))

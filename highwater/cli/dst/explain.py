"""highwater dst explain: say why a run failed. Also finds the run for explain, timeline and export, from a seed, a bundle or
a tape.
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
Shrunk = Annotated[bool, typer.Option("--shrunk", help="with a bundle: take the shrunk run")]
Mutant = Annotated[str | None, typer.Option(help="a known-bad implementation of dst/mutants/ in place of impl/")]
Strategy = Annotated[str, typer.Option(help="with a seed: the strategy of the run")]


class Told(NamedTuple):
    """A run with everything that its explanation and its timeline need."""

    outcome: Outcome
    mutant: str | None
    command: str  # replays the run; "" if only a tape at an unknown place does
    watched: list[Watched]
    replayed: Replayed
    failing: list[int]
    causes: list[Cause]
    nearest: Search | None  # None for a run that passes
    callers: str  # the harm to callers, if refinement failed; else ""


def run_of(what: str, mutant: str | None = None, strategy: str = "portfolio", protocol: str | None = None,
           scenario: str | None = None, shrunk: bool = False) -> tuple[Outcome, str | None, str]:
    """Run a seed or a tape. Return the outcome, its mutant, and the command that replays it. Refuses anything else."""
    stem = scenario_of(protocol, scenario)
    seed = seed_of(what)
    if seed is not None and shrunk:
        refuse(f"--shrunk needs a bundle, but {what} is a seed: leave it out")
    if seed is not None:
        run = or_refuse(RunSpec(stem, mutant, strategy).at, seed)
        return simulate(run), mutant, run.command()
    if mutant or strategy != "portfolio":
        refuse(f"--mutant and --strategy need a seed; {what} has its own: leave them out")
    saved = saved_in(what, shrunk)
    return as_recorded(saved), saved.run.mutant, replayed_by(what, shrunk)


def given(outcome: Outcome, mutant: str | None) -> Run:
    """Return the run of an outcome, with its shape and fault weights if the tape does not hold them. Any weights do, because
    the tape holds the fate of each request."""
    sites = {site.partition(".")[0] for site, *_ in outcome.tape}
    return Run(outcome.seed, outcome.scenario, mutant, outcome.strategy, None if "shape" in sites else outcome.shape,
               None if "swarm" in sites else named(outcome.scenario).no_faults)


def seen_in(outcome: Outcome, mutant: str | None) -> tuple[list[Watched], bool]:
    """Replay a run and watch it. Return what was seen, empty if the replay differs, and whether the model judges the run."""
    for by_model in (True, False):
        seen: list[Watched] = []
        same = simulate(given(outcome, mutant), None, outcome.tape, by_model,
                        watch=lambda *what, seen=seen: seen.append(Watched(*what)))
        if same.digest == outcome.digest:
            return seen, by_model
    return [], True


def look(outcome: Outcome, mutant: str | None = None, command: str = "", search: bool = True) -> Told:
    trace, build = named(outcome.scenario).judge(outcome.shape), build_of(mutant, outcome.scenario)
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
    assert outcome.failure is not None
    left_out, before = skipped(replayed, look.failing), step_before(replayed, look.failing)
    other = instead(replayed, before) if before is not None and not left_out else []
    parts = [*filter(None, [look.callers]), told(replayed, outcome.failure).rstrip(), *([left_out] if left_out else []),
             *(f"At event {before}, {text}" for text in other), what_mattered(replayed, look.causes, look.failing)]
    if look.nearest:
        parts.append(told_nearest(look.nearest, outcome, lambda e: words(e).partition("\n")[0]))
    return "\n\n".join([*parts, f"Replay: {look.command}"] if look.command else parts) + "\n"


def explain_command(what: What, mutant: Mutant = None, strategy: Strategy = "portfolio", protocol: Protocol = None,
                    scenario: Scenario = None, shrunk: Shrunk = False) -> None:
    """Explain why a run failed: the failing event, the model's state, the false guards, the causes, and the nearest run that
    passes."""
    outcome, mutant, command = run_of(what, mutant, strategy, protocol, scenario, shrunk)
    if not outcome.kind:
        console.print(f"[green]ok[/]: seed {outcome.seed} passes; there is nothing to explain ({len(outcome.events)} events)")
        return
    console.print(f"[bold red]{outcome.kind}[/] ({outcome.signature})")
    console.print(text_of(look(outcome, mutant, command)), markup=False)
    raise typer.Exit(of_kinds([outcome.kind]))

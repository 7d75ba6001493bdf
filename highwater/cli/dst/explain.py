"""highwater dst explain: say why a run failed. Also finds the run for explain, timeline and export, from a seed, a bundle or
a tape.
"""

from typing import Annotated, NamedTuple

import typer

from highwater.cli.console import Protocol, Scenario, announce, build_of, console, refuse, scenario_of, terminal_width
from highwater.cli.dst.replay import Shrunk, as_recorded, name_run, saved_in, seed_of
from highwater.cli.dst.report import Limit, or_refuse, or_time_out, replayed_by
from highwater.dst.harm import callers
from highwater.dst.limit import limited
from highwater.dst.run_spec import Run, RunSpec
from highwater.dst.scenarios import named
from highwater.dst.search.nearest import Search, nearest
from highwater.dst.search.nearest import told as told_nearest
from highwater.dst.sim.alarm import LONGEST_RUN_S, Hung
from highwater.dst.sim.choose import Choice, Lenient
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
Mutant = Annotated[str | None, typer.Option(help="a known-bad implementation of dst/mutants/ in place of impl/")]
Strategy = Annotated[str, typer.Option(help="with a seed: the strategy of the run")]


class Played(NamedTuple):
    """A run of a seed or a tape."""

    outcome: Outcome
    mutant: str | None
    command: str  # replays it
    shrunk: bool | None  # as in a bundle's Saved


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
    which: str  # of a bundle's two runs; "" for another run


def run_of(what: str, mutant: str | None = None, strategy: str = "portfolio", protocol: str | None = None,
           scenario: str | None = None, shrunk: bool | None = None, limit_s: float = LONGEST_RUN_S) -> Played:
    """Run a seed or a tape. Refuses anything else. Exits if the run takes longer than the limit."""
    seed = seed_of(what)
    if seed is not None and shrunk is not None:
        refuse(f"--shrunk and --unshrunk need a bundle, but {what} is a seed: leave them out")
    if seed is not None:
        run = or_refuse(RunSpec(scenario_of(protocol, scenario), mutant, strategy).at, seed)
        announce(run.scenario)
        return Played(or_time_out(lambda: simulate(run), limit_s, run.command()), mutant, run.command(), None)
    if mutant or strategy != "portfolio":
        refuse(f"--mutant and --strategy need a seed; {what} has its own: leave them out")
    saved = saved_in(what, shrunk)
    name_run(saved)
    again = replayed_by(what, saved.shrunk)
    return Played(as_recorded(saved, limit_s, again), saved.run.mutant, again, saved.shrunk)


def given(outcome: Outcome, mutant: str | None) -> Run:
    """Return the run of an outcome, with its shape and fault weights if the tape does not hold them. Any weights do, because
    the tape holds the fate of each request."""
    sites = {site.partition(".")[0] for site, *_ in outcome.tape}
    return Run(outcome.seed, outcome.scenario, mutant, outcome.strategy, None if "shape" in sites else outcome.shape,
               None if "swarm" in sites else named(outcome.scenario).no_faults, outcome.by_model)


def seen_in(outcome: Outcome, mutant: str | None) -> list[Watched]:
    """Replay a run and watch it. Return what was seen, empty if the replay differs."""
    seen: list[Watched] = []
    same = simulate(given(outcome, mutant), None, outcome.tape, watch=lambda *what: seen.append(Watched(*what)))
    return seen if same.digest == outcome.digest else []


def look(outcome: Outcome, mutant: str | None = None, command: str = "", search: bool = True, which: str = "",
         limit_s: float = LONGEST_RUN_S) -> Told:
    trace, build = named(outcome.scenario).judge(outcome.shape), build_of(mutant, outcome.scenario)
    replayed = replay(outcome.events, trace)
    seen = seen_in(outcome, mutant)
    failing = failing_events(replayed, outcome.failure, outcome.by_model)
    found = mattered(replayed, failing, trace, refusals(outcome.shape.store), outcome.by_model)
    run = given(outcome, mutant)

    def in_time(tape: list[Choice]) -> Outcome | None:
        try:
            with limited(limit_s):
                return simulate(run, chooser=Lenient(run.seed, tape))
        except Hung:
            return None

    near = nearest(outcome, in_time) if outcome.kind and search else None
    if not command and run.shape is None:  # a run whose shape was given has no seed that draws it
        command = run._replace(strategy="portfolio").command()
    return Told(outcome, mutant, command, seen, replayed, failing, found, near, callers(outcome, build) if search else "",
                which)


def text_of(look: Told, width: int | None = None) -> str:
    outcome, replayed = look.outcome, look.replayed
    assert outcome.failure is not None
    left_out, before = skipped(replayed, look.failing), step_before(replayed, look.failing)
    other = instead(replayed, before) if before is not None and not left_out and outcome.by_model else []
    parts = [*filter(None, [look.callers]), told(replayed, outcome.failure, "", outcome.by_model, width).rstrip(),
             *([left_out] if left_out else []),
             *(f"At event {before}, {text}" for text in other), what_mattered(replayed, look.causes, look.failing, width)]
    if look.nearest:
        parts.append(told_nearest(look.nearest, outcome, lambda e: words(e).partition("\n")[0]))
    return "\n\n".join([*parts, f"Replay: {look.command}"] if look.command else parts) + "\n"


def explain_command(what: What, mutant: Mutant = None, strategy: Strategy = "portfolio", protocol: Protocol = None,
                    scenario: Scenario = None, shrunk: Shrunk = None, limit_s: Limit = LONGEST_RUN_S) -> None:
    """Explain why a run failed: the failing event, the model's state, the false guards, the causes, and the nearest run that
    passes."""
    outcome, mutant, command, _ = run_of(what, mutant, strategy, protocol, scenario, shrunk, limit_s)
    if not outcome.kind:
        console.print(f"[green]ok[/]: seed {outcome.seed} passes; there is nothing to explain ({len(outcome.events)} events)")
        return
    console.print(f"[bold red]{outcome.kind}[/] ({outcome.signature})")
    console.print(text_of(look(outcome, mutant, command, limit_s=limit_s), terminal_width()), markup=False)
    raise typer.Exit(of_kinds([outcome.kind]))

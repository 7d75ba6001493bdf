"""highwater dst shrink: find a smaller run that fails in the same way, with fewer requests, faults and odd choices."""

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from highwater import project
from highwater.cli.console import Protocol, Scenario, build_of, console, refuse, scenario_of
from highwater.cli.dst.bundle import bundle
from highwater.cli.dst.replay import as_recorded, recorded, saved_in, seed_of
from highwater.cli.dst.report import Limit, or_time_out, replayed_by, report
from highwater.dst.determinism.doctor import Broken, replays
from highwater.dst.harm import harmed
from highwater.dst.run_spec import Run, RunSpec, protocol_words
from highwater.dst.scenarios import DEFAULT
from highwater.dst.search.shrink import BUDGET, Shrunk, faults, measure, shrink
from highwater.dst.sim.alarm import LONGEST_RUN_S, MOST_HUNG
from highwater.gate.exits import HARNESS, NONDETERMINISM

USUAL = ("portfolio", BUDGET)  # defaults, left out of commands


def shrink_command(what: Annotated[str, typer.Argument(help="a seed that fails, a bundle's folder, or a tape.json")],
                   budget: Annotated[int, typer.Option(min=1, help="maximum number of runs")] = BUDGET,
                   mutant: Annotated[str | None, typer.Option(help="with a seed: as `run` has it")] = None,
                   strategy: Annotated[str | None, typer.Option(help="with a seed: as `run` has it")] = None,
                   protocol: Protocol = None, scenario: Scenario = None, limit_s: Limit = LONGEST_RUN_S,
                   harm: Annotated[bool, typer.Option("--harm", help="keep the harm to a caller or a reader, and not just the "
                                                      "step that the model forbids")] = False,
                   out: Annotated[Path | None, typer.Option("-o", "--out", help="keep both runs in this bundle [default: the "
                                                            "bundle that is shrunk]")] = None) -> None:
    """Make a failing run smaller, such that it still fails in the same way."""
    seed = seed_of(what)
    if seed is None and (mutant or strategy):
        refuse(f"--mutant and --strategy need a seed; {what} has its own: leave them out")
    if seed is None:
        saved = saved_in(what, shrunk=False)
    else:
        saved = recorded(seed, RunSpec(scenario_of(protocol, scenario), mutant, strategy or "portfolio"), limit_s)
    command = replayed_by(what, saved.shrunk)
    outcome = as_recorded(saved, limit_s, command)
    if not outcome.kind:
        refuse(f"{what} does not fail: there is nothing to shrink")
    build = build_of(saved.run.mutant, saved.run.scenario)
    wanted = or_time_out(lambda: harmed(outcome, build), limit_s, command) if harm else outcome
    if wanted is None:
        refuse(f"{what} harms no caller or reader ({outcome.signature}): leave out --harm, or shrink another failing run")
    found = shrink(wanted, build, saved.run.shape, saved.run.weights, budget, limit_s)
    given = saved.run._replace(strategy=found.outcome.strategy, shape=found.shape, weights=found.weights,
                               by_model=found.outcome.by_model)
    folder = out or (Path(what) if Path(what).is_dir() else None)
    again = shrunk_by(what, saved.run if seed is not None else None, budget, harm)
    report(found.outcome, given, replayed_by(folder, True) if folder else again)
    console.print(told(found, budget))
    if outcome.kind == "refinement" and not harm:
        console.print("the run is cut at the first step that the model forbids; --harm keeps what harms a caller or reader")
    confirm(found, given)
    if folder:
        bundle(outcome, saved.run, folder, (found.outcome, given))
        console.print(f"written: {folder}; {replayed_by(folder, True)}", markup=False)
    else:
        console.print("to keep it as a bundle, add -o FOLDER")


def shrunk_by(what: str, of: Run | None, budget: int, harm: bool) -> str:
    """Return the command that shrinks the run again. `of`: the run, if `what` is a seed."""
    words = [protocol_words(of.scenario)] if of and of.scenario != DEFAULT else project.words()
    of_seed = {"--mutant": of.mutant, "--strategy": of.strategy} if of else {}
    given = {name: value for name, value in {**of_seed, "--budget": budget}.items() if value not in (None, *USUAL)}
    options = [f"{name} {value}" for name, value in given.items()] + ["--harm"] * harm
    return " ".join([f"highwater dst shrink {quote(what)}", *words, *options])


def told(found: Shrunk, budget: int) -> str:
    (a, b, _), (c, d, _) = measure(found.before), measure(found.outcome)
    ended = ", the whole budget: a larger one may shrink further" if found.runs >= budget else ""
    if found.hung:
        ended += f"; {found.hung} of them did not end" + ", so no more were tried" * (found.hung >= MOST_HUNG)
    return (f"requests {a} -> {c}, faults {faults(found.before)} -> {faults(found.outcome)}, choices other than the mildest "
            f"{b} -> {d}, {found.runs} runs used{ended}")


def confirm(found: Shrunk, small: Run) -> None:
    """Replay the shrunk run in a fresh process and report the result. Exits if it does not replay."""
    try:
        same = replays(found.outcome, small)
    except Broken as error:
        console.print(f"[bold red]not replayed[/]: {error}")
        raise typer.Exit(HARNESS) from None
    if not same:
        console.print("[bold red]nondeterminism[/]: in a fresh process the tape gives another run; see highwater dst doctor")
        raise typer.Exit(NONDETERMINISM)
    console.print("it replays strictly in a fresh process")

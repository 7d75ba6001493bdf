"""highwater dst replay: run a bundle, a tape or a seed again, strictly or leniently."""

from pathlib import Path
from typing import Annotated, NoReturn

import typer

from highwater import project
from highwater.cli.console import (
    LARGEST_SEED,
    Protocol,
    Scenario,
    announce,
    build_of,
    console,
    known_scenario,
    refuse,
    scenario_of,
    terminal_width,
)
from highwater.cli.dst.report import Limit, again_by, or_refuse, or_time_out, replayed_by, report
from highwater.dst.bundle import Refused, Saved, read
from highwater.dst.run_spec import RunSpec, strategy_of
from highwater.dst.scenarios import named
from highwater.dst.sim.alarm import LONGEST_RUN_S
from highwater.dst.sim.choose import Lenient, TapeMismatch
from highwater.dst.simulate import Outcome, simulate
from highwater.dst.version import code_version
from highwater.gate.exits import INCOMPLETE, of_kinds, worst

Shrunk = Annotated[bool | None, typer.Option("--shrunk/--unshrunk", help="which run of a bundle [default: the shrunk one, if "
                                             "`dst shrink` has made it]")]


def replay_command(what: Annotated[str, typer.Argument(help="a bundle's folder, a tape.json, or a seed")],
                   lenient: Annotated[bool, typer.Option("--lenient", help="if the tape does not fit: mildest choice")] = False,
                   shrunk: Shrunk = None,
                   until: Annotated[int | None, typer.Option(min=0, help="stop at this event, show the model state")] = None,
                   mutant: Annotated[str | None, typer.Option(help="with a seed: as `run` has it")] = None,
                   strategy: Annotated[str | None, typer.Option(help="with a seed: as `run` has it")] = None,
                   protocol: Protocol = None, scenario: Scenario = None, limit_s: Limit = LONGEST_RUN_S) -> None:
    """Replay a run from its tape. If a choice does not fit, report the first."""
    seed = seed_of(what)
    if seed is not None and (lenient or shrunk is not None):
        refuse(f"--lenient, --shrunk and --unshrunk need a bundle or a tape, but {what} is a seed: leave them out")
    if seed is None and (mutant or strategy):
        refuse(f"--mutant and --strategy need a seed; {what} has its own: leave them out")
    if seed is None:
        saved = saved_in(what, shrunk, lenient)
    else:
        saved = recorded(seed, RunSpec(scenario_of(protocol, scenario), mutant, strategy or "portfolio"), limit_s)
    name_run(saved)
    outcome = again(saved, lenient, limit_s, replayed_by(what, saved.shrunk))
    if until is not None:
        stop(outcome, until)
        return
    if outcome.kind == "nondeterminism" and is_of_other_code(saved):
        does_not_fit(saved, outcome.message)
    report(outcome, saved.run, again_by(saved.run, replayed_by(what, saved.shrunk)))
    code = of_kinds([outcome.kind] if outcome.kind else [])
    if outcome.digest != saved.digest and outcome.kind != "nondeterminism":
        if lenient or is_of_other_code(saved):
            console.print(f"the trace differs from the recorded one, {saved.digest}")
            code = code if lenient else worst([code, INCOMPLETE])
        else:
            console.print(f"[bold red]nondeterminism[/]: the recorded trace was {saved.digest}")
            code = of_kinds(["nondeterminism"])
    raise typer.Exit(code)


def seed_of(what: str) -> int | None:
    return int(what) if what.isascii() and what.isdigit() and int(what) <= LARGEST_SEED else None


def recorded(seed: int, spec: RunSpec, limit_s: float = LONGEST_RUN_S) -> Saved:
    """Simulate a seed and return its tape. Refuses invalid options. Exits if the run takes longer than the limit."""
    run = or_refuse(spec.at, seed)
    announce(run.scenario)
    outcome = or_time_out(lambda: simulate(run), limit_s, spec.command(seed))
    return Saved(run, outcome.tape, outcome.digest, None)


def saved_in(what: str, shrunk: bool | None = None, lenient: bool = False) -> Saved:
    """Read a bundle or a tape. Refuses a damaged one, and unknown scenarios, mutants, strategies. Warns of other code."""
    try:
        saved = read(Path(what), shrunk)
    except Refused as error:
        refuse(str(error))
    project.leave_for(known_scenario(saved.run.scenario))
    build_of(saved.run.mutant, saved.run.scenario)
    or_refuse(strategy_of, saved.run.strategy)
    announce(saved.run.scenario)
    if is_of_other_code(saved):
        console.print(f"[yellow]the code has changed[/]: it was recorded with {saved.code}, this is {code_version()}. "
                      "The results below may differ because of that.")
        if not lenient:
            command = replayed_by(what, saved.shrunk)
            console.print("To see the run as it was, check out the code that it was recorded with. To run its tape on this "
                          f"code, with the mildest choice where the tape does not fit: {command} --lenient", markup=False)
    return saved


def name_run(saved: Saved) -> None:
    """Print which run of a bundle it is, if the bundle holds two."""
    if saved.shrunk is not None:
        this, other = ("shrunk", "unshrunk") if saved.shrunk else ("unshrunk", "shrunk")
        console.print(f"the {this} run of the bundle (the {other} run: --{other})")


def is_of_other_code(saved: Saved) -> bool:
    return saved.code is not None and saved.code != code_version()


def again(saved: Saved, lenient: bool, limit_s: float, command: str) -> Outcome:
    """Run a tape. Exits if its first choices do not fit, or if the run takes longer than the limit; a later misfit is in the
    outcome."""
    chooser = Lenient(saved.run.seed, saved.tape) if lenient else None
    try:
        return or_time_out(lambda: simulate(saved.run, tape=saved.tape, chooser=chooser), limit_s, command)
    except TapeMismatch as error:
        does_not_fit(saved, str(error))


def as_recorded(saved: Saved, limit_s: float, command: str) -> Outcome:
    """Run a tape strictly. Exits if a choice does not fit, or if the run takes longer than the limit."""
    outcome = again(saved, False, limit_s, command)
    if outcome.kind == "nondeterminism":
        does_not_fit(saved, outcome.message)
    return outcome


def does_not_fit(saved: Saved, why: str) -> NoReturn:
    """Report that a tape does not fit and exit. With equal code this is nondeterminism; with other code it proves nothing."""
    other = is_of_other_code(saved)
    console.print(f"[bold red]{'the tape does not fit this code' if other else 'nondeterminism'}[/]: ", end="")
    console.print(why, markup=False)
    raise typer.Exit(INCOMPLETE if other else of_kinds(["nondeterminism"]))


def stop(outcome: Outcome, until: int) -> None:
    """Print the events up to number `until`, and the model's state after it."""
    from highwater.traces.explain.explain import fields, fields_in, in_the_model, replay, reply, request, table

    if until >= len(outcome.events):
        refuse(f"--until {until}: the run has {len(outcome.events)} events, numbered from 0")
    replayed = replay(outcome.events[:until + 1], named(outcome.scenario).judge(outcome.shape))
    last = replayed.rows[-1]
    console.print(table([(str(number), f"{e.t_ms} ms", e.client, request(e), reply(e), in_the_model(steps))
                         for number, (e, steps, _) in enumerate(replayed.rows)], width=terminal_width()), markup=False)
    state = last.after
    if state is None:
        console.print(f"\nAt event {replayed.failing} the run leaves the model: {replayed.error}", markup=False)
        assert replayed.failing is not None
        state = replayed.before(replayed.failing)
    assert state is not None  # before the first event that the model cannot follow it has a state
    console.print(f"\nThe model's state {'after' if last.after else 'before'} that event:", markup=False)
    for name, part in (("Shared", state.shared), *zip(replayed.record.index, state.locals)):
        if fields_in(part):
            console.print(fields(name, part), markup=False)

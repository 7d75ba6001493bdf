"""highwater dst: run | replay | shrink | explain | timeline | export | doctor | lint | zoo | mutate | coverage | exhaust."""

from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer
from rich.progress import track

from highwater import project
from highwater.cli.console import Protocol, Scenario, console, refuse, scenario_of, seeds_of
from highwater.cli.dst.bundle import bundle
from highwater.cli.dst.coverage import coverage_command
from highwater.cli.dst.doctor import doctor_command
from highwater.cli.dst.explain import explain_command
from highwater.cli.dst.export import export_command
from highwater.cli.dst.lint import lint_command
from highwater.cli.dst.mutate import mutate_command
from highwater.cli.dst.replay import replay_command as replay_tape
from highwater.cli.dst.report import or_refuse, report, trace_command
from highwater.cli.dst.shrink import shrink_command
from highwater.cli.dst.timeline import timeline_command
from highwater.cli.dst.zoo import exhaust_command, zoo_command
from highwater.dst.run_spec import Run, RunSpec
from highwater.dst.sim.alarm import LONGEST_RUN_S, Hung, alarmed, set_alarm
from highwater.dst.simulate import Outcome, simulate
from highwater.gate.exits import INTERRUPTED, TIMEOUT, of_kinds
from highwater.model.uncollected import uncollected
from highwater.traces.refine import REFINERS

app = typer.Typer(no_args_is_help=True)
Mutant = Annotated[str | None, typer.Option(help="a known-bad implementation of dst/mutants/ in place of impl/")]
Strategy = Annotated[str, typer.Option(help="the procedure that picks the next event: portfolio (draw one for each "
                                       "seed), times, random, pct, pos")]


@app.command("run")
def run_command(protocol: Protocol = None, scenario: Scenario = None, seed: Annotated[int | None, typer.Option(min=0)] = None,
                seeds: Annotated[str | None, typer.Option(help="A:B")] = None, mutant: Mutant = None,
                strategy: Strategy = "portfolio",
                profile: Annotated[str | None, typer.Option(help="the store profile: s3, gcs, azure, eventual, ... "
                                                            "[default: drawn from those that the protocol can use]")] = None,
                shape: Annotated[list[str] | None, typer.Option(help="NAME=VALUE, fix a part of the shape: writers=2, "
                                                                "sdk=boto3_standard, ...; may be repeated")] = None,
                fault: Annotated[list[str] | None, typer.Option(help="NAME=N, N of 1,000 requests, and no other faults: stall, "
                                                                "late, crash, ...; may be repeated")] = None,
                digests: Annotated[bool, typer.Option("--digests", help="print for each seed: seed, verdict, digest")] = False,
                out: Annotated[Path | None, typer.Option(help="with --seed: keep the run in this folder, as a bundle")] = None,
                traces: Annotated[Path | None, typer.Option(help="with --seeds: write the events of all runs to a .parquet or "
                                                            ".ndjson file, for `trace check` in bulk")] = None,
                ) -> None:
    """Run one seed and report what happened, or many and list the failures."""
    stem = scenario_of(protocol, scenario)
    spec = RunSpec(stem, mutant, strategy, profile, tuple(shape or ()), tuple(fault or ()))
    or_refuse(spec.at, 0)
    if (seed is None) == (seeds is None):
        refuse("give either --seed N or --seeds A:B")
    if out and seed is None:
        refuse("--out needs --seed: it keeps the tape and the trace of one run")
    if traces and seeds is None:
        refuse("--traces needs --seeds; for one run use --out")
    if seed is not None:
        given = spec.at(seed)
        outcome = run(given)
        if outcome is None:
            console.print(f"[bold red]timeout[/]: the run did not end within {LONGEST_RUN_S:g} s: {spec.command(seed)}")
            raise typer.Exit(TIMEOUT)
        if out:
            bundle(outcome, given, out)
        if digests:
            print(seed, outcome.signature or "ok", outcome.digest)
        else:
            report(outcome, given, spec.command(seed))
        if out:
            console.print(f"written: {out}, and the trace: {trace_command(outcome, out / 'trace.ndjson')}", markup=False)
        raise typer.Exit(of_kinds([outcome.kind] if outcome.kind else []))
    assert seeds is not None  # one of the two is given
    if traces is None:
        raise typer.Exit(many_seeds(seeds_of(seeds), spec, digests))
    if traces.suffix not in (".parquet", ".ndjson"):
        refuse(f"--traces {traces}: unknown format: end the name in .parquet or .ndjson")
    from highwater.dst.bulk.export import Export

    try:
        with Export(traces) as export:
            code = many_seeds(seeds_of(seeds), spec, digests, export.outcome)
    except OSError as error:
        refuse(f"{traces} cannot be written: {error.strerror or error}")
    if not digests:
        console.print(f"written: {traces}: highwater trace check {quote(str(traces))}{project.option()}", markup=False)
    raise typer.Exit(code)


@uncollected()
def many_seeds(seeds: range, spec: RunSpec, digests: bool, keep: Callable[[Outcome], None] = lambda outcome: None) -> int:
    """Run the seeds, print the failures, and return the exit code. `keep` is called with each outcome.

    The garbage collector is off meanwhile: a run leaves no cycles, and what is kept from run to run is large."""
    failed: dict[tuple[str, str], list[int]] = {}  # kind, signature -> seeds
    done, stopped = 0, False
    try:
        for seed in seeds if digests else track(seeds, "simulating", console=console, transient=True):
            outcome = run(spec.at(seed))
            kind, signature = outcome[1:3] if outcome else ("timeout", "timeout")
            if outcome:
                keep(outcome)
            if digests:
                print(seed, signature or "ok", outcome.digest if outcome else "")
            if kind:
                failed.setdefault((kind, signature), []).append(seed)
            done += 1
    except KeyboardInterrupt:
        stopped = True
    if not digests:
        console.print(f"{done:,} seeds, {sum(map(len, failed.values())):,} failed, strategy {spec.strategy}" + (
            f"; [yellow]interrupted[/], {len(seeds) - done:,} were not run" if stopped else ""))
        for (_, signature), those in sorted(failed.items()):
            console.print(f"[bold red]{len(those):6,}[/] {signature}: {spec.command(those[0])}")
    return INTERRUPTED if stopped else of_kinds({kind for kind, _ in failed})


def run(given: Run) -> Outcome | None:
    """Simulate one run. Return None if it does not end within LONGEST_RUN_S."""
    with alarmed():
        try:
            set_alarm(LONGEST_RUN_S)
            return simulate(given)
        except Hung:
            set_alarm(0)  # what follows may take more than a second: a large refiner is freed
            REFINERS.clear()  # the alarm may have interrupted a change of a refiner
            return None


COMMANDS = {"replay": replay_tape, "shrink": shrink_command, "explain": explain_command, "timeline": timeline_command,
            "export": export_command, "doctor": doctor_command, "lint": lint_command, "zoo": zoo_command,
            "mutate": mutate_command, "coverage": coverage_command, "exhaust": exhaust_command}
for name, command in COMMANDS.items():
    app.command(name)(command)

"""highwater dst: the group of its verbs."""

import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer
from rich.progress import Progress

from highwater import project
from highwater.cli.console import Protocol, Scenario, announce, complain, console, print_output, refuse, scenario_of, seeds_of
from highwater.cli.dst.bundle import bundle
from highwater.cli.dst.coverage import coverage_command
from highwater.cli.dst.doctor import doctor_command
from highwater.cli.dst.explain import explain_command
from highwater.cli.dst.export import export_command
from highwater.cli.dst.lint import lint_command
from highwater.cli.dst.mutate import mutate_command
from highwater.cli.dst.replay import replay_command as replay_tape
from highwater.cli.dst.report import Limit, Result, or_refuse, or_time_out, report, trace_command
from highwater.cli.dst.shrink import shrink_command
from highwater.cli.dst.timeline import timeline_command
from highwater.cli.dst.zoo import exhaust_command, zoo_command
from highwater.dst.campaign.supervised import Begun, Died, NoSeed, Supervisor
from highwater.dst.limit import OUT_OF_MEMORY, limited, memory_limited
from highwater.dst.run_spec import RunSpec
from highwater.dst.sim.alarm import LONGEST_RUN_S, MOST_HUNG, Hung
from highwater.dst.simulate import Outcome, simulate
from highwater.gate.exits import HARNESS, INTERRUPTED, of_kinds
from highwater.messages import mistakes
from highwater.model.uncollected import uncollected

app = typer.Typer(no_args_is_help=True)
REFRESH_S = 0.1
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
                limit_s: Limit = LONGEST_RUN_S) -> None:
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
        announce(stem)
        outcome = or_time_out(lambda: simulate(given), limit_s, spec.command(seed))
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
        raise typer.Exit(many_seeds(seeds_of(seeds), spec, digests, limit_s))
    if traces.suffix not in (".parquet", ".ndjson"):
        refuse(f"--traces {traces}: unknown format: end the name in .parquet or .ndjson")
    from highwater.dst.bulk.export import Export

    try:
        with Export(traces) as export:
            code = many_seeds(seeds_of(seeds), spec, digests, limit_s, export.outcome)
    except OSError as error:
        refuse(f"{traces} cannot be written: {error.strerror or error}")
    if not digests:
        console.print(f"written: {traces}: highwater trace check {quote(str(traces))}{project.option()}", markup=False)
    raise typer.Exit(code)


def many_seeds(seeds: range, spec: RunSpec, digests: bool, limit_s: float, keep: Callable[[Outcome], None] | None = None
               ) -> int:
    """Run the seeds in a child process, print the failures, and return the exit code. Stops after a few runs that do not end
    within the limit. `keep` is called with each outcome."""
    failed: dict[tuple[str, str], list[int]] = {}  # kind, signature -> seeds
    raised: dict[str, str] = {}  # signature of an exception -> its message, with file and line
    printed: dict[str, str] = {}  # signature -> the last lines that its first seed has printed
    done, hung, stopped = 0, 0, ""
    announce(spec.scenario)
    supervisor = Supervisor(partial(outcomes, spec, limit_s, keep is not None))
    results = supervisor.results(lambda todo: todo, seeds, limit_s)
    try:
        for seed, found in results if digests else shown(results, len(seeds)):
            kind, signature, message, digest = found[1:5] if isinstance(found, Outcome) else (found.kind, *found, "")
            if keep and isinstance(found, Outcome):
                keep(found)
            if isinstance(found, Died) or signature.startswith(("exception:", "harness:")):
                raised.setdefault(signature, message)
            if digests:
                print(seed, signature or "ok", digest)
            if kind:
                failed.setdefault((kind, signature), []).append(seed)
                if signature not in printed:
                    printed[signature] = supervisor.output()
            done += 1
            hung += kind == "timeout"
            if hung == MOST_HUNG and done < len(seeds):
                stopped = f"stopped, because {hung} runs did not end within {limit_s:g} s each"
                break
    except KeyboardInterrupt:
        stopped = "interrupted"
    except NoSeed as error:
        refuse(str(error), HARNESS)
    finally:
        supervisor.close()
    if done < len(seeds) and not stopped:
        refuse(f"{len(seeds) - done:,} of {len(seeds):,} seeds have no outcome", HARNESS)
    if digests and stopped:
        complain(f"{stopped}; {len(seeds) - done:,} seeds were not run")
    if not digests:
        console.print(f"{done:,} seeds, {sum(map(len, failed.values())):,} failed, strategy {spec.strategy}" + (
            f"; [yellow]{stopped}[/], {len(seeds) - done:,} were not run" if stopped else ""))
        for (_, signature), those in sorted(failed.items()):
            console.print(f"[bold red]{len(those):6,}[/] {signature}: {spec.command(those[0])}")
            if signature in raised:
                console.print(f"       {raised[signature]}", markup=False)
            print_output(printed[signature], console)
    return INTERRUPTED if stopped == "interrupted" else of_kinds({kind for kind, _ in failed})


def shown(results: Iterable[Result], total: int) -> Iterator[Result]:
    """Yield the results of seeds, and show their number on a terminal. Starts no thread, because the caller forks processes."""
    shown_s = 0.0
    with Progress(console=console, transient=True, auto_refresh=False, disable=not console.is_terminal) as bar:
        task = bar.add_task("simulating", total=total)
        for result in results:
            yield result
            bar.advance(task)
            if time.monotonic() - shown_s > REFRESH_S:
                bar.refresh()
                shown_s = time.monotonic()


def outcomes(spec: RunSpec, limit_s: float, traced: bool, seeds: range) -> Iterator[Begun | Outcome | Died]:
    """Simulate the seeds. Yield for each that it begins, and its outcome, with its events only if it is to be traced. Runs in a
    child process."""
    with mistakes(), memory_limited(), uncollected():
        for seed in seeds:
            yield Begun(seed)
            try:
                with limited(limit_s):
                    outcome = simulate(spec.at(seed))
                yield outcome._replace(failure=None, tape=[], events=outcome.events if traced else [])
            except (Hung, MemoryError) as error:  # the run was stopped anywhere: what it has left may fail the next
                hung = isinstance(error, Hung)
                yield Died("timeout", f"not done after {limit_s:g} s") if hung else Died("memory", OUT_OF_MEMORY)
                return


COMMANDS = {"replay": replay_tape, "shrink": shrink_command, "explain": explain_command, "timeline": timeline_command,
            "export": export_command, "doctor": doctor_command, "lint": lint_command, "zoo": zoo_command,
            "mutate": mutate_command, "coverage": coverage_command, "exhaust": exhaust_command}
for name, command in COMMANDS.items():
    app.command(name)(command)

"""highwater dst: run | replay | zoo."""

import json
from pathlib import Path
from statistics import median
from typing import Annotated

import typer
from rich.progress import track
from rich.table import Table

from cli.console import STEM, build_of, console, refuse, scenario_of, seeds_of, write_text
from cli.exits import of_kinds
from dst.scenarios.sequenced_metadata_boundary import Shape, namespace, trace_of
from dst.simulate import Outcome, replay_command, simulate
from traces.event import to_json

app = typer.Typer(no_args_is_help=True)
Scenario = Annotated[str, typer.Option(help="what to run")]
Mutant = Annotated[str | None, typer.Option(help="a known-bad implementation of dst/zoo.py in place of impl/")]


@app.command("run")
def run_command(scenario: Scenario = STEM, seed: Annotated[int | None, typer.Option(min=0)] = None,
                seeds: Annotated[str | None, typer.Option(help="A:B")] = None, mutant: Mutant = None,
                digests: Annotated[bool, typer.Option("--digests", help="print a line a seed: seed, verdict, digest")] = False,
                out: Annotated[Path | None, typer.Option(help="with --seed: write tape and trace in this folder")] = None,
                ) -> None:
    """Run one seed and tell what happened, or many and tell which failed."""
    scenario_of(scenario)
    build = build_of(mutant)
    if (seed is None) == (seeds is None):
        refuse("give either --seed N or --seeds A:B")
    if out and seed is None:
        refuse("--out goes with --seed: it holds the tape and the trace of one run")
    if seed is not None:
        outcome = simulate(seed, build)
        if out:
            bundle(outcome, mutant, out)
        if digests:
            print(seed, outcome.signature or "ok", outcome.digest)
        else:
            report(outcome, mutant)
        raise typer.Exit(of_kinds([outcome.kind] if outcome.kind else []))
    many_seeds(seeds_of(seeds), build, mutant, digests)


def many_seeds(seeds: range, build, mutant: str | None, digests: bool) -> None:
    failed: dict[str, list[Outcome]] = {}
    for seed in seeds if digests else track(seeds, "simulating", console=console, transient=True):
        outcome = simulate(seed, build)
        if digests:
            print(seed, outcome.signature or "ok", outcome.digest)
        if outcome.kind:
            failed.setdefault(outcome.signature, []).append(outcome._replace(events=[], tape=[], failure=None))
    if not digests:
        console.print(f"{len(seeds):,} seeds, {sum(map(len, failed.values())):,} failed")
        for signature, outcomes in sorted(failed.items()):
            console.print(f"[bold red]{len(outcomes):6,}[/] {signature}: {replay_command(outcomes[0].seed, mutant)}")
    raise typer.Exit(of_kinds({outcomes[0].kind for outcomes in failed.values()}))


def report(outcome: Outcome, mutant: str | None) -> None:
    """What a run was, and if it failed why, to the line."""
    shape = ", ".join(f"{name} {value}" for name, value in outcome.shape._asdict().items())
    console.print(f"seed {outcome.seed}: {outcome.requests} requests in {outcome.virtual_ms:,} ms of virtual time; {shape}")
    console.print(f"trace {outcome.digest}")
    if not outcome.kind:
        console.print("[green]ok[/]: the trace refines the model, nobody was told an untruth, everybody got on")
        return
    from traces.explain import explain

    console.print(f"[bold red]{outcome.kind}[/] ({outcome.signature})")
    text = explain(outcome.events, outcome.failure, trace_of(outcome.shape), replay_command(outcome.seed, mutant))
    console.print(text, markup=False)


def bundle(outcome: Outcome, mutant: str | None, folder: Path) -> None:
    """tape.json (what `replay` takes) and trace.ndjson (what `trace check` takes)."""
    tape = {"v": 1, "scenario": STEM, "seed": outcome.seed, "mutant": mutant, "digest": outcome.digest, "tape": outcome.tape}
    write_text(folder / "tape.json", json.dumps(tape) + "\n")
    write_text(folder / "trace.ndjson", "".join(to_json(event) + "\n" for event in outcome.events))
    console.print(f"written: {folder / 'tape.json'}, and the trace: {trace_command(outcome.shape, folder / 'trace.ndjson')}")


@app.command("replay")
def replay_command_(tape: Annotated[Path, typer.Argument(help="a tape.json that `run --out` wrote")]) -> None:
    """Run a tape again, strictly: the first choice that does not fit is named."""
    try:
        saved = json.loads(tape.read_text())
        choices = [(str(site), int(choice), int(bound)) for site, choice, bound in saved["tape"]]
        seed, mutant, digest = int(saved["seed"]), saved["mutant"], saved["digest"]
        if not all(0 <= choice < bound for _, choice, bound in choices):
            raise ValueError("a choice is not within its bound")
    except (OSError, ValueError, KeyError, TypeError) as error:
        refuse(f"{tape}: not a tape: {error}")
    scenario_of(saved.get("scenario"))
    outcome = simulate(seed, build_of(mutant), tape=choices)
    report(outcome, mutant)
    if outcome.digest != digest and outcome.kind != "nondeterminism":
        console.print(f"[bold red]nondeterminism[/]: the trace was {digest}")
        raise typer.Exit(of_kinds(["nondeterminism"]))
    raise typer.Exit(of_kinds([outcome.kind] if outcome.kind else []))


def trace_command(shape: Shape, file: Path) -> str:
    """What holds the trace of a run of this shape against the model."""
    page = f" --page-size {shape.page_size}" if shape.page_size < 1000 else ""
    return f"highwater trace check {file} --namespace {namespace(shape).name}{page}" + (
        f" --skew-ms {shape.skew_ms}" if shape.skew_ms else "")


@app.command("zoo")
def zoo_command(runs: Annotated[int, typer.Option(min=1, help="how many failures of each to wait for")] = 9,
                budget: Annotated[int, typer.Option(min=1, help="seeds for each at most")] = 5_000,
                harm: Annotated[bool, typer.Option("--harm", help="judge by what callers were told alone")] = False) -> None:
    """Run every mutant until it fails, and print how many seeds that took."""
    from dst.zoo import ZOO

    table = Table("mutant", "what it does wrong", "found", "median seeds", "as")
    missed = []
    for name, (what, build) in track(ZOO.items(), "mutants", console=console, transient=True):
        waits, signatures = hunt(build, runs, budget, by_model=not harm)
        wait = f"{median(waits):.0f}" if waits else "-"
        table.add_row(name, what, f"{len(waits)}/{runs}", wait, ", ".join(sorted(signatures)))
        missed += [] if waits else [name]
    console.print(table)
    if missed:
        console.print(f"[bold red]survived[/]: {', '.join(missed)}")
        raise typer.Exit(of_kinds(["harness"]))


def hunt(build, runs: int, budget: int, by_model: bool = True) -> tuple[list[int], set[str]]:
    """Seeds from each failure to the next, for as many failures as asked or within the budget; and their signatures."""
    waits, signatures, last = [], set(), -1
    for seed in range(budget):
        outcome = simulate(seed, build, by_model=by_model)
        if outcome.kind:
            waits.append(seed - last)
            signatures.add(outcome.signature)
            last = seed
            if len(waits) == runs:
                break
    return waits, signatures

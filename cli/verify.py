"""highwater verify: the gate. One row for each check; the exit code is the class of the worst failure.

Safety: 0 is said only if every check ran to its end and found what it was to find; a check that could not run is a row of
its own and makes the verdict incomplete (3), never green.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Annotated, NamedTuple

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from cli.console import STEM, console, write_text
from cli.exits import HARNESS, INCOMPLETE, NONDETERMINISM, OF_KIND, PROOF, SAFETY, SPEC, of_kinds, worst

CORES = 2
CANARY = "no_check"  # must fail, by the model and by what callers were told
CANARY_BUDGET = 2_000  # seeds
JUDGED = 4  # runs that FizzBee judges, too: some seconds each
IMPOSSIBLE = "delete_before_advance"  # a mutant that does what the spec cannot do


class Found(NamedTuple):
    """What a check came to. `code` as in cli/exits.py."""

    figure: str
    code: int = 0
    message: str = ""


class Check(NamedTuple):
    part: str
    what: str
    run: Callable[[], Found]


class Row(NamedTuple):
    part: str
    what: str
    figure: str
    seconds: float
    code: int
    message: str

    @property
    def verdict(self) -> str:
        return "ok" if self.code == 0 else "skipped" if self.code == INCOMPLETE else "FAILED"


def verify(seeds: Annotated[int, typer.Option(min=2, help="how many to simulate")] = 10_000,
           campaign: Annotated[int, typer.Option(min=2, help="how many on Spark")] = 2_000,
           report: Annotated[Path, typer.Option("--json", help="the same table, for machines")] = Path("out/verify.json"),
           ) -> None:
    """Check everything: specs, models, proofs, simulation, mutants, campaign."""
    write_text(report, "")  # before all else: if it cannot be written that should be known now
    start = time.monotonic()
    rows = []
    columns = (SpinnerColumn(), TextColumn("{task.completed}/{task.total} {task.description}"), TimeElapsedColumn())
    checks = [*specs(), *models(), *proofs(), *simulation(seeds), *mutants(), *campaigns(campaign)]
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=len(checks))
        for part in dict.fromkeys(check.part for check in checks):
            of_part = [check for check in checks if check.part == part]
            with ThreadPoolExecutor(CORES if part == "spec" else 1) as pool:  # FizzBee is a process of its own
                for check, row in zip(of_part, pool.map(timed, of_part)):
                    rows.append(row)
                    progress.update(task, advance=1, description=f"{check.part}: {check.what}")
    code = worst(row.code for row in rows)
    show(rows, code, time.monotonic() - start)
    document = {"exit": code, "rows": [{**row._asdict(), "verdict": row.verdict} for row in rows]}
    write_text(report, json.dumps(document, indent=1) + "\n")
    raise typer.Exit(code)


def timed(check: Check) -> Row:
    start = time.monotonic()
    try:
        found = check.run()
    except Exception as error:  # a check that breaks down has not passed
        code = PROOF if type(error).__name__ == "Misnamed" else HARNESS
        found = Found("", code, f"{type(error).__name__}: {error}")
    return Row(check.part, check.what, found.figure, round(time.monotonic() - start, 1), found.code, found.message)


def show(rows: list[Row], code: int, seconds: float) -> None:
    table = Table("part", "what", "figure", "s", "verdict")
    colours = {"ok": "green", "skipped": "yellow", "FAILED": "bold red"}
    for row in rows:
        table.add_row(row.part, row.what, row.figure, f"{row.seconds:.1f}", f"[{colours[row.verdict]}]{row.verdict}[/]")
    console.print(table)
    for row in rows:
        if row.code:
            console.print(f"[{colours[row.verdict]}]{row.verdict}[/] {row.part}, {row.what} (exit {row.code}): ", end="")
            console.print(row.message, markup=False)
    count = {verdict: sum(row.verdict == verdict for row in rows) for verdict in colours}
    console.print(f"{count['ok']} ok, {count['FAILED']} failed, {count['skipped']} skipped in {seconds:.0f} s: exit {code}")


# --- spec: FizzBee's verdicts, and its graphs against the model's

def specs() -> Iterator[Check]:
    from specs.fizz import Fizz, FizzMissing
    from specs.manifest import rows

    try:
        fizz = Fizz.find()
    except FizzMissing as error:
        missing = Found("", INCOMPLETE, str(error))
        yield Check("spec", "all rows of specs/*.toml", lambda: missing)
        return
    for row in rows():
        what = f"{row.id}: {row.expect}" + (f" {row.violates}" if row.violates else "")
        yield Check("spec", what, lambda row=row: conformance(row, fizz))


def conformance(row, fizz) -> Found:
    from cli.conform import conform

    result = conform(row, fizz)
    return Found(result.figure, 0 if result.ok else ({"spec": SPEC} | OF_KIND)[result.kind], result.message)


# --- model: instances larger than FizzBee's

INSTANCES = {  # constants, and the witnesses that the instance is too small for
    "2 writers x 2, 2 collectors": ({"COLLECTORS": 2},),
    "2 writers x 2, 1 reader, ids to 4": ({"READERS": 1, "MAX_ID": 4},),
    "2 writers x 2, a request pending": ({"MAX_PENDING": 1},),
    "2 writers x 2, checkpoints, a crash": ({"CHECKPOINTS": 1, "MAX_CRASHES": 1},),
    "1 writer x 3, pages, 2 collectors, ids to 4": ({"WRITERS": 1, "COMMITS": 3, "PAGE": 1, "COLLECTORS": 2, "MAX_ID": 4},
                                                    "StaleCreateLands", "RefusalIsIndefinite"),
}


def models() -> Iterator[Check]:
    for what, (constants, *never) in INSTANCES.items():
        yield Check("model", what, lambda constants=constants, never=tuple(never): exploration(constants, never))
    yield Check("model", "a refused file can always still be collected", collectable)
    for name, constants in LIVE.items():
        yield Check("model", f"{name}, if steps are weakly fair", lambda name=name, constants=constants: live(name, constants))
    yield Check("model", "reductions leave out nothing, on two instances", reductions)
    yield Check("model", "the wide engine visits what the plain one visits", engines)


def exploration(constants: dict, never: tuple[str, ...]) -> Found:
    from cli.explore import told
    from model.sequenced_metadata_boundary import Constants, model
    from model.tabulated import explore

    instance = model(Constants(**constants))
    found = explore(instance)
    if found.violated:
        return Found("", SAFETY, told(instance, found.violated, found.trace))
    if not found.complete or set(found.never) != set(never):
        return Found("", HARNESS, f"complete: {found.complete}; never witnessed: {found.never}, expected: {never}")
    return Found(f"{found.states:,} states, {found.transitions:,} transitions, depth {found.depth}")


LIVE = {"UpdatesEnd": {"MAX_ID": 5}, "ReadsEnd": {"COMMITS": 1, "READERS": 2}}


def live(name: str, constants: dict) -> Found:
    from cli.explore import told_lasso
    from model.liveness import eventually
    from model.sequenced_metadata_boundary import Constants, model

    instance = model(Constants(**constants))
    lasso = eventually(instance, [name])[name]
    if lasso:
        return Found("", OF_KIND["liveness"], told_lasso(instance, lasso))
    return Found(", ".join(f"{constant} = {value}" for constant, value in constants.items()))


def reductions() -> Found:
    from bench import boundary_peer
    from model import sequenced_metadata_boundary as protocol
    from model.reductions import merging_differs, symmetry_differs
    from model.tabulated import explore

    figures = []
    for instance in (protocol.model(protocol.Constants()), boundary_peer.model(boundary_peer.Constants())):
        if differs := symmetry_differs(instance) or merging_differs(instance):
            return Found("", HARNESS, f"{instance.name}: {differs}")
        figures.append(f"{explore(instance).states:,} to {explore(instance, symmetry=True).states:,} states")
    return Found(", ".join(figures))


def engines() -> Found:
    from bench import boundary_peer
    from model import plain, tabulated, wide

    instance = boundary_peer.model(boundary_peer.S1)
    found = {engine.__name__: engine.explore(instance) for engine in (plain, tabulated, wide)}
    if len(set(found.values())) > 1:
        return Found("", HARNESS, "\n".join(f"{name}: {result[:5]}" for name, result in found.items()))
    return Found(f"{found['model.wide'].states:,} states of S1, three engines")


def collectable() -> Found:
    from model.liveness import always_possible
    from model.sequenced_metadata_boundary import Constants, model, stale_files_are_collected

    stuck = always_possible(model(Constants(MAX_CRASHES=1)), stale_files_are_collected)
    if stuck is not None:
        return Found("", OF_KIND["liveness"], f"after {[step.label for step in stuck]} a stale file stays for ever")
    return Found("from every state of 2 writers x 2 with a crash")


# --- proof: any number of clients, ids, checkpoints, requests under way

BOUNDED = ({}, {"CHECK": "off"}, {"CONDITIONAL_ADVANCE": False, "COLLECTORS": 2, "WRITERS": 1})


def proofs() -> Iterator[Check]:
    from model.proofs.sequenced_metadata_boundary import SAFEGUARDS_OFF

    yield Check("proof", "every action keeps every clause", lambda: proof(True))
    yield Check("proof", "the same for a namespace without checkpoints", lambda: proof(False))
    for off in SAFEGUARDS_OFF:
        what = ", ".join(f"{name} = {value}" for name, value in off.items())
        yield Check("proof", f"fails with {what}", lambda off=off: proof_without(off))
    yield Check("proof", "its transition relation is the model's", tied)
    yield Check("proof", "unrolled, it breaks what the explorer says, and no sooner", unrolled)


def proof(checkpoints: bool) -> Found:
    from model.proofs.sequenced_metadata_boundary import prove

    found = prove(checkpoints=checkpoints)
    impossible = {action for action, possible in found.possible.items() if not possible}
    if found.failing or impossible != (set() if checkpoints else {"ExpireCheckpoint"}):
        failing = [f"{row.action} {row.clause} {row.verdict}\n{row.counterexample}"
                   for row in found.rows if row.verdict != "proved"]
        return Found("", PROOF, "\n".join(failing) or f"never possible, so nothing is proved of them: {sorted(impossible)}")
    return Found(f"{len(found.rows):,} queries, slowest {max(row.ms for row in found.rows):.0f} ms")


def proof_without(off: dict) -> Found:
    from model.proofs.sequenced_metadata_boundary import prove
    from model.sequenced_metadata_boundary import Constants

    found = prove(Constants(**off), explain=False)
    if not found.failing:
        return Found("", PROOF, f"the proof holds without it: {off}")
    return Found("at " + ", ".join(dict.fromkeys(action for action, _ in found.failing)))


def tied() -> Found:
    from model.proofs import sequenced_metadata_boundary as proofs
    from model.sequenced_metadata_boundary import Constants

    found = [(constants, proofs.tie(Constants(**constants))) for constants in proofs.INSTANCES]
    wrong = [text for _, one in found for text in one.mismatches]
    wrong += [f"{clause} with {constants}" for constants, one in found if not constants.keys() & proofs.SAFEGUARDS
              for clause in one.broken]
    if wrong:
        return Found("", PROOF, "\n".join(wrong[:5]))
    return Found(f"{sum(one.states for _, one in found):,} states, {sum(one.steps for _, one in found):,} steps agree")


def unrolled() -> Found:
    """Bounded model checking against exhaustive search: the same verdict, and shortest counterexamples as long."""
    from model.proofs.sequenced_metadata_boundary import bounded
    from model.sequenced_metadata_boundary import Constants, model
    from model.tabulated import explore

    figures = []
    for settings in BOUNDED:
        constants = Constants(**settings)
        found = explore(model(constants))
        result = bounded(constants, found.depth)
        steps = min((one.depth for one in result.found if one.steps), default=None)
        said = {"explorer": len(found.trace) - 1 if found.violated else None, "unrolled": steps}
        if len(set(said.values())) > 1 or any(one.verdict not in ("none", "fails") for one in result.found):
            return Found("", PROOF, f"steps to a violation with {settings or 'every safeguard'}: {said}")
        figures.append(f"{steps} steps" if steps else f"none in {found.depth}")
    return Found(", ".join(figures))


# --- simulation

def simulation(seeds: int) -> Iterator[Check]:
    yield Check("simulation", f"{seeds:,} seeds refine the model", lambda: seeds_refine(seeds))
    yield Check("simulation", "same digests in other processes, whatever the hash seed", deterministic)
    yield Check("simulation", "the canary fails, as it must", canary)
    yield Check("simulation", "FizzBee follows runs as we do, and not a mutant's", second_judge)


def run_range(bounds: tuple[int, int]) -> tuple[int, list[tuple[int, str, str]]]:
    """(requests, failures as (seed, kind, signature)) of a range of seeds."""
    from dst.simulate import many

    requests, failures = [], []

    def each(outcome) -> None:
        requests.append(outcome.requests)
        if outcome.kind:
            failures.append((outcome.seed, outcome.kind, outcome.signature))

    many(range(*bounds), each)
    return sum(requests), failures


def seeds_refine(seeds: int) -> Found:
    step = max(1, seeds // (4 * CORES))
    ranges = [(low, min(low + step, seeds)) for low in range(0, seeds, step)]
    start = time.monotonic()
    with ProcessPoolExecutor(CORES) as pool:
        results = list(pool.map(run_range, ranges))
    failures = [failure for _, found in results for failure in found]
    if failures:
        from dst.simulate import replay_command

        seed, _, signature = failures[0]
        message = f"{len(failures)} of {seeds:,} seeds failed, the first as {signature}: {replay_command(seed)}"
        return Found("", of_kinds(kind for _, kind, _ in failures), message)
    requests = sum(count for count, _ in results)
    return Found(f"{requests:,} requests, {seeds / (time.monotonic() - start):,.0f} runs/s on {CORES} cores")


def deterministic() -> Found:
    seeds = "0:100"
    command = [sys.executable, "-m", "cli.main", "dst", "run", "--seeds", seeds, "--digests"]
    said = {}
    for hash_seed in ("1", "2"):
        result = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONHASHSEED": hash_seed})
        said[hash_seed] = result.stdout.splitlines()
    if len(said["1"]) != 100:
        return Found("", HARNESS, result.stderr[-500:])
    for one, two in zip(said["1"], said["2"]):
        if one != two:
            return Found("", NONDETERMINISM, f"{one} with PYTHONHASHSEED=1, {two} with 2")
    return Found("100 seeds, 2 hash seeds")


def canary() -> Found:
    from dst.hunt import hunt
    from dst.mutants.sequenced_metadata_boundary import MUTANTS as ZOO

    judged = {by: hunt(ZOO[CANARY][1], 1, CANARY_BUDGET, by_model=by == "model") for by in ("model", "history")}
    silent = [by for by, (waits, _) in judged.items() if not waits]
    if silent:
        message = f"the mutant {CANARY} passed {CANARY_BUDGET} seeds judged by {silent}: the simulation finds nothing"
        return Found("", HARNESS, message)
    return Found(", ".join(f"by {by} after {waits[0]} seeds" for by, (waits, _) in judged.items()))


def second_judge() -> Found:
    """FizzBee, driven along runs of the simulation (cli/judge.py)."""
    from cli.judge import judge, small_runs
    from specs.fizz import Fizz, FizzMissing

    try:
        fizz = Fizz.find()
    except FizzMissing as error:
        return Found("", INCOMPLETE, str(error))
    runs = [*small_runs("", JUDGED), *small_runs(IMPOSSIBLE, 1)]
    with ThreadPoolExecutor(CORES) as pool:
        judged = list(pool.map(lambda run: judge(fizz, run[0]), runs))
    wrong = [f"{command}: ours says {outcome.signature or 'ok'}, FizzBee {'accepts' if found.accepted else found.why}"
             for (outcome, command), found in zip(runs, judged) if found.accepted == bool(outcome.kind)]
    if wrong:
        return Found("", SPEC, "\n".join(wrong))
    return Found(f"{JUDGED} runs accepted, {sum(found.steps for found in judged[:JUDGED])} links; rejected: {judged[-1].why}")


# --- mutants

def mutants() -> Iterator[Check]:
    from dst.mutants.sequenced_metadata_boundary import MUTANTS as ZOO

    for name, (what, build) in ZOO.items():
        yield Check("mutant", f"{name}: {what}", lambda build=build: killed(build))


def killed(build) -> Found:
    from dst.hunt import hunt

    waits, signatures = hunt(build, 5, 2_000)
    if not waits:
        return Found("", HARNESS, "survived 2,000 seeds")
    return Found(f"dies after {median(waits):.0f} seeds (median of {len(waits)}): {', '.join(sorted(signatures)[:2])}")


# --- campaign

def campaigns(seeds: int) -> Iterator[Check]:
    yield Check("campaign", f"{seeds:,} seeds on Spark, the same rows as here", lambda: on_spark(seeds))


def on_spark(seeds: int) -> Found:
    from dst import campaign

    summaries = {}
    with TemporaryDirectory() as folder:
        for engine in ("local", "spark"):
            start = partial(campaign.ENGINES[engine], CORES)
            try:
                summaries[engine] = campaign.run(campaign.campaign_of(STEM), (0, seeds), Path(folder) / engine, start, CORES)
            except campaign.NoSpark as error:
                return Found("", INCOMPLETE, str(error))
    if summaries["spark"] != summaries["local"]:
        return Found("", NONDETERMINISM, f"Spark: {summaries['spark']}, local processes: {summaries['local']}")
    failures = summaries["spark"]["failures"]
    if failures:
        return Found("", of_kinds(failure["kind"] for failure in failures), "\n".join(f["replay"] for f in failures))
    return Found(f"{summaries['spark']['runs']:,} rows, digest {summaries['spark']['digest'][:12]}")

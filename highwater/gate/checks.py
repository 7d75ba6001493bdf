"""Define the checks of `highwater verify` for one protocol: its specs, proof, simulation, judged runs, mutants, and the checks
of highwater/gate/protocols/.

Safety: a check that could not run never passes: its code is INCOMPLETE.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from statistics import median
from typing import NamedTuple

from highwater import project
from highwater.gate.exits import HARNESS, INCOMPLETE, NONDETERMINISM, OF_KIND, PROOF, SPEC, of_kinds
from highwater.gate.extras import install_command

CORES = 2
SAMPLE = 60  # seeds to run again in two other processes


class Found(NamedTuple):
    """The result of a check. `code` is an exit code of highwater/gate/exits.py."""

    figure: str
    code: int = 0
    message: str = ""


class Row(NamedTuple):
    """A finished check: its names, figure, time, exit code and message."""

    protocol: str
    part: str
    what: str
    figure: str
    seconds: float
    code: int
    message: str

    @property
    def verdict(self) -> str:
        return "ok" if self.code == 0 else "skipped" if self.code == INCOMPLETE else "FAILED"


class Check(NamedTuple):
    protocol: str
    part: str
    what: str
    run: Callable[[], Found]


def of_protocol(protocol: str, seeds: int, has_scenario: bool) -> Iterator[Check]:
    """Yield all checks of a protocol."""
    yield from specs(protocol)
    yield from own_checks(protocol)
    yield from proofs(protocol)
    if has_scenario:
        yield from simulation(protocol, seeds)
        yield from judged(protocol)
        yield from mutants(protocol)
    yield from missing(protocol)


def missing(protocol: str) -> Iterator[Check]:
    """Yield a check that cannot run for each part that a user's protocol lacks, so that the gate is incomplete."""
    parts = ("model", "scenario", "mutants") if project.is_users(protocol) else ()
    for part in (part for part in parts if not project.has(part, protocol)):
        lacks = Found("", INCOMPLETE, f"{project.file_of(part, protocol)} is missing: it is for {project.PARTS[part].verbs}")
        yield Check(protocol, part, f"there is no {part}.py", lambda lacks=lacks: lacks)


def timed(check: Check) -> Row:
    start = time.monotonic()
    try:
        found = check.run()
    except ModuleNotFoundError as error:
        command = install_command(error)
        found = Found("", INCOMPLETE if command else HARNESS, f"{error}; {command}" if command else f"{error}")
    except Exception as error:  # a check that crashes has not passed
        code = PROOF if type(error).__name__ == "Misnamed" else HARNESS
        found = Found("", code, f"{type(error).__name__}: {error}")
    return Row(*check[:3], found.figure, round(time.monotonic() - start, 1), found.code, found.message)


# --- spec: FizzBee's verdicts, and its graphs against the model's

def specs(protocol: str) -> Iterator[Check]:
    from highwater.specs.fizzbee.check import Fizz
    from highwater.specs.fizzbee.errors import FizzMissing
    from highwater.specs.runs import rows

    if project.is_users(protocol) and not project.spec(protocol, ".fizz").is_file():
        yield from model_alone(protocol)
        return
    try:
        fizz = Fizz.find()
    except FizzMissing as error:
        missing = Found("", INCOMPLETE, str(error))
        yield Check(protocol, "spec", "all of its rows in specs/", lambda: missing)
        return
    for row in rows():
        if row.stem == protocol:
            what = f"{row.id}: {row.expect}" + (f" {row.violates}" if row.violates else "")
            yield Check(protocol, "spec", what, lambda row=row: conformance(row, fizz))


def model_alone(protocol: str) -> Iterator[Check]:
    """Yield the checks of a user's protocol without a .fizz: its rows hold for the model, and there is no second opinion."""
    from highwater.specs.runs import rows

    if not project.has("model", protocol):
        return
    mine = [row for row in rows() if row.stem == protocol]
    for row in mine:
        yield Check(protocol, "model", f"{row.id}: {row.expect}" + (f" {row.violates}" if row.violates else ""),
                    lambda row=row: conformance(row, None))
    none = Found("not held against FizzBee") if mine else Found("", INCOMPLETE, (
        "there is no spec.toml, so no instance of the model is explored: `highwater model conform --accept` writes one"))
    yield Check(protocol, "spec", "no .fizz: the model has no second opinion", lambda: none)


def conformance(row, fizz) -> Found:
    from highwater.conformance.conform import conform

    result = conform(row, fizz)
    return Found(result.figure, 0 if result.ok else ({"spec": SPEC} | OF_KIND)[result.kind], result.message)


# --- proof: any number of clients, ids and requests in flight

def proofs(protocol: str) -> Iterator[Check]:
    if not project.has("proof", protocol):
        return
    of = project.load("proof", protocol)
    for note, system in of.SYSTEMS.items():
        yield Check(protocol, "proof", f"every action keeps every clause{note}", lambda system=system: proved(of, system))
    for off in of.SAFEGUARDS_OFF:
        what = ", ".join(f"{name} = {value}" for name, value in off.items())
        yield Check(protocol, "proof", f"fails with {what}", lambda off=off: unproved(of, off))
    yield Check(protocol, "proof", "its transition relation is the model's", lambda: tied(of))


def proved(of, system: dict) -> Found:
    found = of.prove(**system)
    if not found.holds:
        failing = [f"{row.action} {row.clause} {row.verdict}\n{row.counterexample}"
                   for row in found.rows if row.verdict != "proved"]
        return Found("", PROOF, "\n".join(failing) or f"nothing is proved of actions that never fire: {found.impossible}")
    return Found(f"{len(found.rows):,} queries, slowest {max(row.ms for row in found.rows):.0f} ms")


def unproved(of, off: dict) -> Found:
    found = of.prove(of.m.Constants(**off), explain=False)
    if not found.failing:
        return Found("", PROOF, f"the proof holds without the safeguard {off}, but must fail")
    return Found("at " + ", ".join(dict.fromkeys(action for action, _ in found.failing)))


def tied(of) -> Found:
    from highwater.model.proofs.engine.instances import tie

    found = [(constants, tie(of, of.m.Constants(**constants))) for constants in of.INSTANCES]
    wrong = [text for _, one in found for text in one.mismatches]
    wrong += [f"{clause} with {constants}" for constants, one in found if not constants.keys() & of.SAFEGUARDS
              for clause in one.broken]
    if wrong:
        return Found("", PROOF, "\n".join(wrong[:5]))
    return Found(f"{sum(one.states for _, one in found):,} states, {sum(one.steps for _, one in found):,} steps agree")


# --- simulation

def simulation(protocol: str, seeds: int) -> Iterator[Check]:
    yield Check(protocol, "simulation", f"{seeds:,} seeds refine the model", lambda: seeds_refine(protocol, seeds))
    yield Check(protocol, "simulation", "same digests in other processes, with any hash seed",
                lambda: deterministic(protocol))


def run_range(protocol: str, first: int, end: int) -> tuple[int, list[tuple[int, str, str]]]:
    """Run a range of seeds. Return the number of requests, and the failures as (seed, kind, signature)."""
    from highwater.dst.run_spec import Run
    from highwater.dst.simulate import many

    requests, failures = [], []

    def each(outcome) -> None:
        requests.append(outcome.requests)
        if outcome.kind:
            failures.append((outcome.seed, outcome.kind, outcome.signature))

    many((Run(seed, protocol) for seed in range(first, end)), each)
    return sum(requests), failures


def seeds_refine(protocol: str, seeds: int) -> Found:
    step = max(1, seeds // (4 * CORES))
    start = time.monotonic()
    with ProcessPoolExecutor(CORES) as pool:
        futures = [pool.submit(run_range, protocol, low, min(low + step, seeds)) for low in range(0, seeds, step)]
        results = [future.result() for future in futures]
    failures = [failure for _, found in results for failure in found]
    if failures:
        from highwater.dst.run_spec import Run

        seed, _, signature = failures[0]
        again = Run(seed, protocol).command()
        message = f"{len(failures)} of {seeds:,} seeds failed, the first as {signature}: {again}"
        return Found("", of_kinds(kind for _, kind, _ in failures), message)
    requests = sum(count for count, _ in results)
    return Found(f"{requests:,} requests, {seeds / (time.monotonic() - start):,.0f} runs/s on {CORES} cores")


def deterministic(protocol: str) -> Found:
    command = [sys.executable, "-m", "highwater", "dst", "run", "--scenario", protocol, "--seeds", f"0:{SAMPLE}", "--digests"]
    said = {}
    for hash_seed in ("1", "2"):
        result = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONHASHSEED": hash_seed})
        said[hash_seed] = result.stdout.splitlines()
        if len(said[hash_seed]) != SAMPLE:
            return Found("", HARNESS, f"exit code {result.returncode}: {result.stderr[-500:]}")
    for one, two in zip(said["1"], said["2"]):
        if one != two:
            return Found("", NONDETERMINISM, f"{one} with PYTHONHASHSEED=1, {two} with 2")
    return Found(f"{SAMPLE} seeds, 2 hash seeds")


# --- FizzBee, driven along runs of the simulation (highwater/conformance/judge.py)

JUDGED = 4  # runs that FizzBee judges too: some seconds each
TRIED = 50  # small runs for the rate that FizzBee can follow


def judged(protocol: str) -> Iterator[Check]:
    if project.has("judge", protocol):
        yield Check(protocol, "simulation", "FizzBee accepts good runs and refuses a mutant's", lambda: second_judge(protocol))


def second_judge(protocol: str) -> Found:
    from highwater.conformance.judge import judge, own, rate, small_runs
    from highwater.specs.fizzbee.check import Fizz
    from highwater.specs.fizzbee.errors import FizzMissing

    try:
        fizz = Fizz.find()
    except FizzMissing as error:
        return Found("", INCOMPLETE, str(error))
    good, bad = small_runs(protocol, "", JUDGED), small_runs(protocol, own(protocol).IMPOSSIBLE, 1)
    if not good or not bad:
        return Found("", HARNESS, f"{len(good)} good runs and {len(bad)} of a mutant fit into a guided trace; each needs one")
    with ThreadPoolExecutor(CORES) as pool:
        found = list(pool.map(lambda run: judge(fizz, run[0]), [*good, *bad]))
    wrong = [f"{command}: ours says {outcome.signature or 'ok'}, FizzBee {'accepts' if judgement.accepted else judgement.why}"
             for (outcome, command), judgement in zip([*good, *bad], found) if judgement.accepted == bool(outcome.kind)]
    if wrong:
        return Found("", SPEC, "\n".join(wrong))
    return Found(f"{len(good)} runs accepted, {sum(of.steps for of in found[:len(good)])} links; rejected: {found[-1].why}; "
                 f"{rate(protocol, TRIED)}")


# --- a protocol's own

def own_checks(protocol: str) -> Iterator[Check]:
    if project.has("checks", protocol):
        yield from project.load("checks", protocol).checks()


# --- mutants

def mutants(protocol: str) -> Iterator[Check]:
    from highwater.dst.scenarios import mutants_of

    if not project.has("mutants", protocol):
        return
    for name, (what, build) in mutants_of(protocol).builds.items():
        yield Check(protocol, "mutant", f"{name}: {what}", lambda name=name, build=build: killed(protocol, name, build))


def killed(protocol: str, name: str, build) -> Found:
    from highwater.dst.search.hunt import hunt
    from highwater.dst.zoo import expected

    waits, signatures = hunt(build, 5, 2_000, scenario=protocol)
    if not waits:
        return Found("", HARNESS, "survived 2,000 seeds")
    strange = sorted(signature for signature in signatures if not signature.startswith(expected(name, True, protocol)))
    if strange:
        return Found("", HARNESS, f"killed by {strange[0]}, expected {' or '.join(expected(name, True, protocol))}")
    return Found(f"killed after {median(waits):.0f} seeds (median of {len(waits)}): {', '.join(sorted(signatures)[:2])}")

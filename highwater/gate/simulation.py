"""Check the simulation: runs refine the model, they are the same everywhere, and FizzBee judges some of them too."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator

from highwater import project
from highwater.dst.scenarios import named
from highwater.gate.exits import HARNESS, LIVENESS, NONDETERMINISM, SPEC, of_kinds
from highwater.gate.rows import Check, Found
from highwater.gate.sizes import Size

HASH_SEEDS = ("1", "2")


def checks(protocol: str, size: Size) -> Iterator[Check]:
    seeds, each_strategy = (int(of * named(protocol).share) for of in (size.seeds, size.each_strategy))
    more = f", {each_strategy:,} more with each strategy" if each_strategy else ""
    yield Check(protocol, "simulation", f"{seeds:,} seeds refine the model{more}", seeds_refine,
                (protocol, seeds, each_strategy), weight=size.seeds / 300)
    yield Check(protocol, "simulation", "same digests in other processes, with any hash seed", deterministic,
                (protocol, size.compared), weight=4)
    if project.is_users(protocol):  # ours: tests/dst/test_lint.py
        yield Check(protocol, "simulation", "no cause of nondeterminism in the source", linted, ())
    if project.has("judge", protocol):
        yield Check(protocol, "simulation", "FizzBee accepts good runs and refuses a mutant's", second_judge,
                    (protocol, size.judged, size.tried), ("fizzbee",), 10)


def seeds_refine(protocol: str, seeds: int, each_strategy: int) -> Found:
    from highwater.dst.run_spec import Run
    from highwater.dst.sim.alarm import LONGEST_RUN_S, Hung, alarmed, set_alarm
    from highwater.dst.sim.strategies import STRATEGIES
    from highwater.dst.simulate import Outcome, many

    requests, failures, start = [], [], time.monotonic()

    def each(outcome: Outcome) -> None:
        requests.append(outcome.requests)
        set_alarm(LONGEST_RUN_S if len(requests) < len(runs) else 0)  # for the next run
        if outcome.kind:
            failures.append((runs[len(requests) - 1], outcome.kind, outcome.signature))

    runs = [Run(seed, protocol) for seed in range(seeds)]
    runs += [Run(seed, protocol, None, strategy) for strategy in STRATEGIES for seed in range(each_strategy)]
    try:
        with alarmed():
            set_alarm(LONGEST_RUN_S)
            many(runs, each)
    except Hung:
        run = runs[len(requests)]
        return Found("", LIVENESS, f"a run does not end in {LONGEST_RUN_S:.0f} s, perhaps a loop without await: "
                     + run.command())
    if len(requests) < len(runs):
        return Found("", HARNESS, f"{len(requests):,} of {len(runs):,} runs have an outcome")
    if failures:
        run, _, signature = failures[0]
        message = f"{len(failures)} of {len(runs):,} runs failed, the first as {signature}: {run.command()}"
        return Found("", of_kinds(kind for _, kind, _ in failures), message)
    return Found(f"{sum(requests):,} requests", speed=f"{len(runs) / (time.monotonic() - start):,.0f} runs/s on a core")


def linted() -> Found:
    """Look for causes of nondeterminism, as `highwater dst lint` does."""
    from highwater.dst.determinism.lint import lint, searched

    files, allowed = searched()
    found, unused = lint(files=files, allowed=allowed)
    if found:
        return Found("", NONDETERMINISM, f"{len(found)} found (all: highwater dst lint), the first: {found[0]}")
    if unused:
        return Found("", NONDETERMINISM, f"{unused[0].file}: {unused[0].code}: is allowed, but does not occur")
    return Found(f"{len(files)} files")


def deterministic(protocol: str, seeds: int) -> Found:
    said = {}
    for hash_seed in HASH_SEEDS:
        result = subprocess.run([sys.executable, "-P", "-m", __name__, protocol, str(seeds)], capture_output=True, text=True,
                                env=os.environ | {"PYTHONHASHSEED": hash_seed,
                                                  "PYTHONPATH": os.pathsep.join(filter(None, sys.path))})
        said[hash_seed] = result.stdout.splitlines()
        if len(said[hash_seed]) != seeds:
            return Found("", HARNESS, f"exit code {result.returncode}: {result.stderr[-500:]}")
    for one, two in zip(*said.values()):
        if one != two:
            return Found("", NONDETERMINISM, f"{one} with PYTHONHASHSEED={HASH_SEEDS[0]}, {two} with {HASH_SEEDS[1]}")
    return Found(f"{seeds} seeds, {len(HASH_SEEDS)} hash seeds")


def print_digests(protocol: str, seeds: int) -> None:
    """Print a line for each seed, as `highwater dst run --digests` does. That command imports every protocol."""
    from highwater.dst.run_spec import Run
    from highwater.dst.simulate import many

    many((Run(seed, protocol) for seed in range(seeds)),
         lambda outcome: print(outcome.seed, outcome.signature or "ok", outcome.digest))


# --- FizzBee, driven along runs of the simulation (highwater/conformance/judge.py)


def second_judge(protocol: str, judged: int, tried: int) -> Found:
    from highwater.conformance.judge import judge, own, rate, small_runs
    from highwater.specs.fizzbee.check import Fizz

    fizz = Fizz.find()
    good, bad = small_runs(protocol, "", judged), small_runs(protocol, own(protocol).IMPOSSIBLE, 1)
    if len(good) < judged or not bad:
        return Found("", HARNESS, f"{len(good)} good runs and {len(bad)} of a mutant fit into a guided trace, and not {judged} "
                     "and 1")
    found = [judge(fizz, outcome, cache=False) for outcome, _ in (*good, *bad)]
    wrong = [f"{command}: ours says {outcome.signature or 'ok'}, FizzBee {'accepts' if judgement.accepted else judgement.why}"
             for (outcome, command), judgement in zip([*good, *bad], found) if judgement.accepted == bool(outcome.kind)]
    if wrong:
        return Found("", SPEC, "\n".join(wrong))
    return Found(f"{len(good)} runs accepted, {sum(of.steps for of in found[:len(good)])} links; rejected: {found[-1].why}; "
                 f"{rate(protocol, tried)}")


if __name__ == "__main__":
    print_digests(sys.argv[1], int(sys.argv[2]))

"""highwater dst doctor: check that a seed gives the same run in every process."""

import sys
from typing import Annotated

import typer

from highwater.cli.console import Protocol, Scenario, announce, build_of, console, refuse, scenario_of, seeds_of
from highwater.cli.dst.report import or_refuse
from highwater.dst.determinism.doctor import HASH_SEEDS, Broken, Place, check, newer_python
from highwater.dst.run_spec import RunSpec, strategy_of
from highwater.gate.exits import HARNESS, NONDETERMINISM

MOST = 100_000


def doctor_command(seeds: Annotated[str, typer.Option(help="A:B")] = "0:100",
                   mutant: Annotated[str | None, typer.Option(help="a known-bad implementation of dst/mutants/")] = None,
                   strategy: Annotated[str, typer.Option(help="as for `run`")] = "portfolio",
                   protocol: Protocol = None, scenario: Scenario = None) -> None:
    """Run seeds in fresh processes, with two hash seeds and, if installed, another Python. All runs must be the same."""
    sample = seeds_of(seeds)
    if len(sample) > MOST:
        refuse(f"seeds {seeds!r}: too many, as each is run several times: give at most {MOST:,}")
    stem = scenario_of(protocol, scenario)
    build_of(mutant, stem)
    places = [Place(sys.executable, hash_seed) for hash_seed in HASH_SEEDS]
    other = newer_python()
    if isinstance(other, Place):
        places.append(other)
    else:
        console.print(f"[yellow]skipped[/]: another version of Python: {other}")
    spec = RunSpec(stem, mutant, or_refuse(strategy_of, strategy))
    announce(stem)
    try:
        difference = check(sample, spec, places)
    except Broken as error:
        console.print("[bold red]not run[/]: ", end="")
        console.print(str(error), markup=False)
        raise typer.Exit(HARNESS) from None
    if difference:
        console.print(f"[bold red]nondeterminism[/]: seed {difference.seed} gives different runs")
        console.print(difference.message, markup=False)
        raise typer.Exit(NONDETERMINISM)
    console.print(f"[green]ok[/]: {len(sample):,} seeds, the same tapes and traces with {', '.join(p.name for p in places)}")

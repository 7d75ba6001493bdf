"""highwater dst doctor: whether a seed is the same run everywhere."""

import sys
from typing import Annotated

import typer

from highwater.cli.console import STEM, build_of, console, refuse, scenario_of, seeds_of
from highwater.cli.dst.report import or_refuse
from highwater.dst.determinism.doctor import HASH_SEEDS, Broken, Place, check, newer_python
from highwater.dst.wanted import strategy_of
from highwater.gate.exits import HARNESS, NONDETERMINISM

MOST = 100_000


def doctor_command(seeds: Annotated[str, typer.Option(help="A:B")] = "0:100",
                   mutant: Annotated[str | None, typer.Option(help="a known-bad implementation of dst/mutants/")] = None,
                   strategy: Annotated[str, typer.Option(help="as `run` has it")] = "portfolio",
                   scenario: Annotated[str, typer.Option(help="as `run` has it")] = STEM) -> None:
    """Run seeds in fresh processes, under two hash seeds and, if there is one, on another Python: all must be the same."""
    sample = seeds_of(seeds)
    if len(sample) > MOST:
        refuse(f"seeds {seeds!r}: at most {MOST:,}: each is run several times")
    build_of(mutant, scenario_of(scenario))
    places = [Place(sys.executable, hash_seed) for hash_seed in HASH_SEEDS]
    other = newer_python()
    if isinstance(other, Place):
        places.append(other)
    else:
        console.print(f"[yellow]skipped[/]: another version of Python: {other}")
    try:
        difference = check(sample, mutant, or_refuse(strategy_of, strategy), places, scenario=scenario)
    except Broken as error:
        console.print("[bold red]not run[/]: ", end="")
        console.print(str(error), markup=False)
        raise typer.Exit(HARNESS) from None
    if difference:
        console.print(f"[bold red]nondeterminism[/]: seed {difference.seed} is not the same run everywhere")
        console.print(difference.message, markup=False)
        raise typer.Exit(NONDETERMINISM)
    console.print(f"[green]ok[/]: {len(sample):,} seeds, the same tapes and traces with {', '.join(p.name for p in places)}")

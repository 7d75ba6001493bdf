"""What the verbs have in common: how they print, and how they refuse bad input."""

from typing import NoReturn

import typer
from rich.console import Console

from cli.exits import BAD_INPUT

STEM = "sequenced_metadata_boundary"  # the one protocol so far
console = Console(highlight=False, soft_wrap=True)
if not console.is_terminal:
    console.width = 160  # a log has room


def refuse(message: str) -> NoReturn:
    """One line to stderr, exit 2."""
    Console(stderr=True, highlight=False, soft_wrap=True).print(f"[bold red]error:[/] {message}")
    raise typer.Exit(BAD_INPUT)


def scenario_of(name: str) -> str:
    if name != STEM:
        refuse(f"there is no scenario {name!r}; there is {STEM}")
    return name


def seeds_of(text: str) -> range:
    """"A:B", A included and B not."""
    low, colon, high = text.partition(":")
    if not (colon and low.isdigit() and high.isdigit() and int(low) < int(high)):
        refuse(f"seeds {text!r}: write A:B, with A < B; A is the first, B is one beyond the last")
    return range(int(low), int(high))


def build_of(mutant: str | None):
    """The implementation to run: production's, or a mutant's."""
    from dst.scenarios.sequenced_metadata_boundary import production
    from dst.zoo import ZOO

    if mutant is None:
        return production
    if mutant not in ZOO:
        refuse(f"there is no mutant {mutant!r}; there are {', '.join(ZOO)}")
    return ZOO[mutant][1]


def replay_command(seed: int, mutant: str | None = None) -> str:
    return f"highwater dst run --scenario {STEM} --seed {seed}" + (f" --mutant {mutant}" if mutant else "")

"""Read and write the recorded rates: how many mutants of each file were noticed, and by what.

`highwater dst mutate --json` writes a line for each mutant; `python -m bench.mutation` makes rates.toml beside this module of
them. docs/simulation/mutation.md shows the rates, and `highwater verify --deep` holds that they do not fall.
"""

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

RECORDED = Path(__file__).with_name("rates.toml")


class Rate(NamedTuple):
    """The mutants of a file that a seed draws first: how many there are, and what became of them."""

    drawn: int
    budget: int = 0  # simulated seeds for each; 0: given to the tests alone
    executed: int = 0  # by a scenario
    simulation: int = 0  # killed by it
    scripts: int = 0  # of those: a script noticed it first (dst/script.py)
    tests: int = 0  # killed by them, of those that the simulation left; also in tests that simulate
    tried: int = 0  # given to tests
    equivalent: int = 0  # of those that survived: listed as such

    @property
    def survived(self) -> int:
        return self.drawn - self.simulation - self.tests - self.equivalent


def recorded() -> dict[str, Rate]:
    """Return the rate of each file that has one."""
    return {file: Rate(**fields) for file, fields in tomllib.loads(RECORDED.read_text()).items()}


def rates(verdicts: Iterable[Mapping[str, Any]], budget: int, by_tests: bool) -> dict[str, Rate]:
    """Count the lines of `dst mutate --json`, file by file."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for verdict in verdicts:
        found.setdefault(verdict["file"], []).append(verdict)
    return {file: rate(those, budget, by_tests) for file, those in sorted(found.items())}


def rate(verdicts: list[Mapping[str, Any]], budget: int, by_tests: bool) -> Rate:
    simulation = sum(verdict["killed"] == "simulation" for verdict in verdicts)
    return Rate(len(verdicts), budget, sum(bool(verdict["reached"]) for verdict in verdicts), simulation,
                sum(verdict["how"].startswith("script:") for verdict in verdicts if verdict["killed"] == "simulation"),
                sum(bool(verdict["killed"]) for verdict in verdicts) - simulation,
                len(verdicts) - simulation if by_tests else 0,
                sum(bool(verdict["equivalent"]) and not verdict["killed"] for verdict in verdicts))


def text_of(rates: Mapping[str, Rate]) -> str:
    """Return the file of these rates."""
    head = "# Mutants of each file, and what noticed them. `python -m bench.mutation` writes this file.\n"
    return head + "".join(f"\n[{file!r}]\n" + "".join(f"{name} = {number}\n" for name, number in of._asdict().items())
                          for file, of in sorted(rates.items()))

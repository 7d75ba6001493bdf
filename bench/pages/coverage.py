"""The statements of the protocols that no simulated run executes, for docs/simulation/coverage.md.

Nothing is run: the row of `highwater verify` holds the list to what the simulation executes.
"""

from collections import Counter

from highwater.mutate.coverage import listed
from highwater.mutate.units import Unit, units_of
from highwater.mutate.wanted import simulated


def coverage() -> str:
    """Return a table of files, and one of reasons."""
    entries = listed()
    units = {unit for name, path in simulated().items() for lines in units_of(name, path).values() for unit in lines.values()}
    why = {unit: entry.reason for unit in units for entry in entries if entry.is_of(unit)}
    of, without = Counter(unit.file for unit in units), Counter(unit.file for unit in why)
    lines = ["| file | statements | executed | % |", "|---|--:|--:|--:|"]
    lines += [row(f"`{file}`", of[file], without[file]) for file in sorted(of)]
    lines += [row("all", len(units), len(why)), "", "| reason | statements | of |", "|---|--:|---|"]
    for reason in sorted(set(why.values())):
        those = [unit for unit in units if why.get(unit) == reason]
        lines.append(f"| {reason} | {len(those)} | {', '.join(sorted({name(unit) for unit in those}))} |")
    return "\n".join(lines) + "\n"


def row(file: str, statements: int, without: int) -> str:
    return f"| {file} | {statements} | {statements - without} | {100 * (statements - without) / statements:.1f} |"


def name(unit: Unit) -> str:
    return f"`{unit.function}`"

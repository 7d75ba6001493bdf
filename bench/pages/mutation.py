"""The recorded rates of mutants, for docs/simulation/mutation.md. Nothing is run."""

from highwater.mutate.rates import Rate, recorded

COLUMNS = ("file", "mutants", "executed by a scenario", "killed by simulation", "of these first by a script", "given to tests",
           "killed by tests", "equivalent", "survived")


def mutation() -> str:
    """Return a table with a row for each file that has a rate, and one for those that were simulated."""
    found = recorded()
    lines = [f"| {' | '.join(COLUMNS)} |", "|---|" + "--:|" * (len(COLUMNS) - 1)]
    lines += [row(f"`{file.removeprefix('impl/')}`", of) for file, of in sorted(found.items())]
    simulated = Rate(*map(sum, zip(*(of for of in found.values() if of.budget), strict=True)))
    return "\n".join([*lines, row("all that were simulated", simulated)]) + "\n"


def row(name: str, of: Rate) -> str:
    executed, simulation, scripts = (of.executed, of.simulation, of.scripts) if of.budget else ("-", "-", "-")
    tried, tests = (of.tried, of.tests) if of.tried else ("-", "-")
    fields = of.drawn, executed, simulation, scripts, tried, tests, of.equivalent, of.survived
    return f"| {name} | {' | '.join(map(str, fields))} |"

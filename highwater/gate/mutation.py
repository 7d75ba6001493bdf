"""Check that the simulation notices small mistakes in an implementation: source-level mutants, drawn by a seed.

Safety: a mutant that survives must be listed with a reason, and a listed one must survive. So nobody can weaken a scenario, or
mend one, without an edit of the list.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from highwater import pages, project
from highwater.dst.scenario import USUAL, counted
from highwater.gate.exits import HARNESS
from highwater.gate.rows import Check, Found
from highwater.mutate import wanted
from highwater.mutate.coverage import listed as unreached
from highwater.mutate.draw import drawn
from highwater.mutate.equivalent import OURS, Listed, entry_of, listed, place_of, reason
from highwater.mutate.judge import HANG_S, RECORDED, fails_by_itself, killed_by, reached_by, scenarios_of, tried
from highwater.mutate.operators import Mutant, mutants
from highwater.mutate.rates import recorded
from highwater.mutate.units import units_of
from highwater.specs.fizzbee.run import build_module

SEED, COUNT = 0, 5  # draws the mutants; of each file
MOST = 3  # scenarios that try a mutant
FEW, RARE = range(30), range(USUAL, USUAL + 30)  # seeds of each; from USUAL on there are rare settings
TRACED = 5  # seeds of each scenario that show which lines it executes


class Tally(NamedTuple):
    """The mutants of a row."""

    killed: dict[Mutant, tuple[str, int, str]]  # scenario, seed, signature
    left: list[Mutant]  # of statements that no simulated run executes, by the list of these
    survived: list[Mutant]


def checks(protocol: str, deep: bool) -> Iterator[Check]:
    """Yield the checks of a protocol's implementation, if it has one below the root of the names."""
    if project.has("impl", protocol) and project.file_of("impl", protocol).resolve().is_relative_to(wanted.root().resolve()):
        yield Check(protocol, "mutation", f"{COUNT} small mistakes in the implementation: a run fails, or the mistake is "
                    "listed", own, (protocol, COUNT), weight=6)
        if deep and not project.is_users(protocol):
            yield from rate_checks(protocol, wanted.files(protocol, ()))


def shared_checks(group: str, deep: bool) -> Iterator[Check]:
    """Yield the checks of the files that belong to no scenario alone."""
    yield Check(group, "mutation", f"{COUNT} small mistakes in each file that protocols share: a run fails, or the mistake "
                "is listed", shared, (COUNT,), weight=12)
    if deep:
        yield from rate_checks(group, shared_files())


def rate_checks(group: str, files: Iterable[str]) -> Iterator[Check]:
    for file in files:
        if (of := recorded().get(file)) and of.budget:
            yield Check(group, "mutation", f"runs fail with at least {of.simulation} of {of.drawn} small mistakes in {file}",
                        not_below, (file, *of[:2], of.simulation), weight=60)


def own(protocol: str, count: int) -> Found:
    from highwater.dst.scenarios import scenarios_of as scenarios_of_protocol

    scenarios = scenarios_of_protocol(protocol) or [protocol]
    files = wanted.files(protocol, ())
    return judged(files, {mutant: scenarios for mutant in drawn(files, count, SEED)})


def shared(count: int) -> Found:
    from highwater.dst.scenarios import stems
    from highwater.mutate.reached import of_scenario

    files = {name: path for name, path in shared_files().items() if not name.startswith(wanted.OF_ROOMS)}
    names = {str(path): name for name, path in files.items()}
    reached = {scenario: {names[path]: lines for path, lines in of_scenario(scenario, TRACED, list(names)).items()}
               for scenario in stems()}
    return judged(files, {mutant: scripted_first(name, scenarios_of(mutant, reached)) for name, path in files.items()
                          for mutant in drawn({name: path}, count, SEED)})


def of_rooms(rooms: Sequence[str], scenarios: Sequence[str], count: int) -> Found:
    """Judge the files of rooms by the scenarios that run nothing else: they take less time than others."""
    files = {name: path for name, path in shared_files().items() if name.startswith(tuple(rooms))}
    return judged(files, {mutant: scripted_first(name, scenarios) for name, path in files.items()
                          for mutant in drawn({name: path}, count, SEED)})


def scripted_first(file: str, scenarios: Sequence[str]) -> list[str]:
    """Return the scenarios, those first that have scripts of the file."""
    from highwater.dst.scenarios import named

    def has_none(stem: str) -> bool:
        return not any(script.__module__.endswith(f".{Path(file).stem}") for script in named(stem).scripts)

    return sorted(scenarios, key=has_none)


def shared_files() -> dict[str, Path]:
    """Return name -> path of the simulated files that belong to no scenario alone."""
    from highwater.dst.scenarios import stems

    of_stems = {project.file_of("impl", stem).resolve() for stem in stems()}
    return {name: path for name, path in wanted.simulated().items() if path.resolve() not in of_stems}


def not_below(file: str, count: int, budget: int, least: int) -> Found:
    """Simulate the mutants of a file whose rate was recorded, with as many seeds, and compare the rate."""
    from highwater.dst.scenarios import stems

    kept = build_module().cache() / "mutate"
    reached = reached_by(stems(), RECORDED, wanted.simulated(), wanted.root(), kept, 1)
    mutants = drawn({file: wanted.root() / file}, count, SEED)
    found = [killed_by(mutant, scenarios, budget) for mutant in mutants if (scenarios := scenarios_of(mutant, reached))]
    killed = [each for each in found if each]
    if failure := tried([(scenario, seed, seed + 1) for scenario, seed, _ in killed if seed >= 0], HANG_S):
        return Found("", HARNESS, str(fails_by_itself(failure)))
    if len(killed) < least:
        command = f"highwater dst mutate --file {file} --count {count} --budget {budget}"
        return Found("", HARNESS, f"runs fail with {len(killed)} of {len(mutants)} small mistakes, and it was {least}: "
                     f"{command}. If that is as it should be, record it, as {pages.named('mutation')} explains")
    return Found(f"{len(killed)} of {len(mutants)}")


def judged(files: Mapping[str, Path], scenarios: Mapping[Mutant, Sequence[str]]) -> Found:
    """Simulate mutants, and hold the survivors against the lists. `scenarios`: those to try for each mutant, in this order."""
    tally = simulated(files, scenarios)
    if failure := tried([(scenario, seed, seed + 1) for scenario, seed, _ in tally.killed.values() if seed >= 0], HANG_S):
        return Found("", HARNESS, str(fails_by_itself(failure)))
    wrong = unlisted(tally) or stale(tally, files)
    if wrong:
        return Found("", HARNESS, wrong)
    parts = {"killed": list(tally.killed), "in statements that only tests execute": tally.left, "listed": tally.survived}
    shares = ", ".join(f"{len(those)} {what}" for what, those in parts.items() if those)
    return Found(f"{counted(len(scenarios), 'mutant')}: {shares}")


def unlisted(tally: Tally) -> str:
    """Say which survivors are on no list, with the entries to add; "" if all are listed."""
    entries = [*listed("equivalent"), *listed("survivor")]
    new = [mutant for mutant in tally.survived if not reason(mutant, entries)]
    if not new:
        return ""
    texts = "\n\n".join(entry_of(mutant, "survivor", "not yet explained") for mutant in new)
    return (f"{counted(len(new), 'small mistake')} without a failing run, the first is {new[0].name}. Let a scenario or its "
            f"judge notice it, or list it in {place_of('survivor')}:\n{texts}")


def stale(tally: Tally, files: Mapping[str, Path]) -> str:
    """Say which entry of a list is not true any more; "" if there is none."""
    texts = [mutant for name, path in files.items() for mutant in mutants(name, path.read_text())]
    for kind in OURS:
        for entry in (entry for entry in listed(kind) if entry.file in files):
            if mutant := contradicted(entry, tally):
                return f"{place_of(kind)} lists a mutant as {kind}, but a run fails with it: remove the entry of {mutant.name}"
            if not any(map(entry.is_of, texts)):
                return (f"{place_of(kind)} lists a mutant that the code does not have any more: remove the entry of "
                        f"{entry.file}: {entry.operator}: {entry.before!r} -> {entry.after!r}")
    return ""


def contradicted(entry: Listed, tally: Tally) -> Mutant | None:
    """Return a killed mutant of an entry, unless another one of the same text survives."""
    if any(map(entry.is_of, tally.survived)):
        return None
    return next(filter(entry.is_of, tally.killed), None)


def simulated(files: Mapping[str, Path], scenarios: Mapping[Mutant, Sequence[str]]) -> Tally:
    tally = Tally({}, [], [])
    entries = unreached()
    units = {name: [unit for lines in units_of(name, path).values() for unit in lines.items()] for name, path in files.items()}
    for mutant, those in scenarios.items():
        within = [unit for line, unit in units[mutant.file] if mutant.first <= line <= mutant.last]
        if within and all(any(entry.is_of(unit) for entry in entries) for unit in within):
            tally.left.append(mutant)
        elif found := tried([(scenario, seeds.start, seeds.stop) for scenario in those[:MOST] for seeds in (FEW, RARE)], HANG_S,
                            mutant):
            tally.killed[mutant] = found
        else:
            tally.survived.append(mutant)
    return tally

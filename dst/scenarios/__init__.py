"""Scenarios: the clients of each protocol, their workload, and what judges a run. They are found by name.

A scenario is the module dst/scenarios/STEM.py, which ends with SCENARIO (see dst/scenario.py). A protocol has a scenario with
its own stem. It may have others, which name it in `model`. The mutants are in dst/mutants/STEM.py.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from highwater import messages, project
from highwater.dst.scenario import Mutants, Scenario, contradiction, contradiction_of_mutants
from highwater.interrupt import is_by_signal
from highwater.messages import meant

DEFAULT = "sequenced_metadata_boundary"
STEMS = project.ours("scenario")


def stems() -> tuple[str, ...]:
    """Return the scenarios of the project, if there is one; else ours and those of installed packages."""
    return project.stems("scenario")


def default() -> str:
    """Return the scenario to take if none is named. Raises ProjectError if the project has several protocols."""
    return project.only() or DEFAULT


@cache
def named(stem: str) -> Scenario:
    """Return the scenario of this stem. Raises LookupError."""
    found = project.load("scenario", known(stem)).SCENARIO
    if not isinstance(found, Scenario):
        raise project.ProjectError(f"{project.file_of('scenario', stem)}: SCENARIO is no highwater.Scenario")
    if found.stem != stem:
        file = project.file_of("scenario", stem)
        raise project.ProjectError(f"{file}: SCENARIO.stem is {found.stem!r}, and should be {stem!r}")
    checked("scenario", stem, "SCENARIO", contradiction, found)
    return found


def checked(part: str, stem: str, name: str, check: Callable[[Any], str], found: Any) -> None:
    """Check what a user's module defines. Raises ProjectError, in one line. Ours are checked by a test."""
    if not project.is_users(stem):
        return
    try:
        wrong = check(found)
    except BaseException as error:
        if is_by_signal(error):
            raise
        wrong = messages.mistake(error) or project.raised(error)
    if wrong:
        raise project.ProjectError(f"{project.file_of(part, stem)}: {name}: {wrong}")


def scenarios_of(protocol: str) -> list[str]:
    """Return the stems of a protocol's scenarios, its own first; [] if there is no such protocol."""
    return sorted((stem for stem in stems() if named(stem).protocol == protocol), key=lambda stem: stem != protocol)


def resolved(protocol: str | None = None, scenario: str | None = None) -> str:
    """Find the scenario that the options --protocol and --scenario select; a scenario alone is enough. Raises LookupError."""
    if protocol is None:
        return known(scenario or default())
    if not project.has("scenario", protocol) and not project.is_users(protocol):
        known_protocols = [stem for stem in stems() if not named(stem).model]
        raise LookupError(f"there is no protocol {protocol!r}{meant(protocol, known_protocols)}; there are: "
                          + ", ".join(known_protocols))
    if named(protocol).model:
        model = named(protocol).model
        raise LookupError(f"{protocol!r} is a scenario, not a protocol: --protocol {model} --scenario {protocol}")
    if scenario is not None and named(scenario).protocol != protocol:
        raise LookupError(f"{scenario!r} is not a scenario of {protocol}, but of {named(scenario).protocol}; "
                          f"{protocol} has: {', '.join(scenarios_of(protocol))}")
    return scenario or protocol


@cache
def mutants_of(stem: str) -> Mutants:
    """Return the mutants of this stem. Raises LookupError."""
    found = project.load("mutants", known(stem)).MUTANTS
    if not isinstance(found, Mutants):
        raise project.ProjectError(f"{project.file_of('mutants', stem)}: MUTANTS is no highwater.Mutants")
    checked("mutants", stem, "MUTANTS", contradiction_of_mutants, found)
    return found


def known(stem: str) -> str:
    """Return the stem. Raises LookupError if no scenario has it."""
    if not project.has("scenario", stem) and not project.is_users(stem):
        raise LookupError(f"there is no scenario {stem!r}{meant(stem, stems())}; there are: {', '.join(stems())}")
    return stem

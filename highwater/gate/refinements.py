"""Check that models refine their abstract models, and that no model does with a safeguard switched off."""

from collections.abc import Iterator
from typing import Any

from highwater import project
from highwater.gate.exits import REFINEMENT
from highwater.gate.rows import Check, Found
from highwater.model.core import Exploration
from highwater.model.explore.tabulated import explore
from highwater.model.refine import Mapped, failure, refining


def checks(protocol: str) -> Iterator[Check]:
    if project.has("refinement", protocol):
        of = project.load("refinement", protocol)
        yield Check(protocol, "refinement", f"every step is one of {of.ONTO}", refines, (protocol,), weight=5)
        if getattr(of, "OFF", ()):
            yield Check(protocol, "refinement", "fails with each safeguard off", fails, (protocol,), weight=2)


def explored(protocol: str, constants: dict[str, Any]) -> tuple[Mapped, Exploration]:
    of = project.load("model", protocol)
    c = of.Constants(**constants)
    mapped = Mapped(of.model(c), project.load("refinement", protocol).refinement(c))
    return mapped, explore(refining(mapped))


def refines(protocol: str) -> Found:
    """Check each step of all instances."""
    states = steps = 0
    for constants in getattr(project.load("refinement", protocol), "INSTANCES", ({},)):
        mapped, found = explored(protocol, constants)
        if found.violated:
            wrong = failure(mapped, found.trace[-1].state)
            assert wrong is not None
            return Found("", REFINEMENT, "\n".join((f"{wrong.process}.{wrong.action} with {constants}", *wrong.why)))
        if not mapped.taken:
            return Found("", REFINEMENT, f"every step leaves the mapped state as it is with {constants}")
        states, steps = states + found.states, steps + found.transitions
    return Found(f"{states:,} states, {steps:,} steps")


def fails(protocol: str) -> Found:
    """Check that some step fails without each safeguard."""
    of = project.load("refinement", protocol)
    passing = [off for off in of.OFF if not explored(protocol, off)[1].violated]
    if passing:
        return Found("", REFINEMENT, "\n".join(f"every step refines with {off}, but one must not" for off in passing))
    return Found(f"{len(of.OFF)} safeguards")

"""Check that models refine their abstract models, and that no model does with a safeguard switched off: each step of small
instances, and with Z3 each step of an instance of any size."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from highwater import project
from highwater.gate.exits import PROOF, REFINEMENT
from highwater.gate.rows import Check, Found
from highwater.model.core import Exploration
from highwater.model.explore.tabulated import explore
from highwater.model.refine import Mapped, failure, refining

if TYPE_CHECKING:
    from highwater.model.proofs.engine.inductive import Row


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


# --- for any number of clients, ids and requests

def unbounded_checks(protocol: str) -> Iterator[Check]:
    if not project.has("inheritance", protocol):
        return
    of = project.load("inheritance", protocol)
    for note in of.SYSTEMS:
        yield Check(protocol, "refinement", f"unbounded: every step is one of {of.REFINEMENT.names[1]}{note}", inherits,
                    (protocol, note), weight=10)
    for off, _ in of.OFF:
        what = ", ".join(f"{name} = {value}" for name, value in off.items())
        yield Check(protocol, "refinement", f"unbounded: fails with {what}", refuted, (protocol, off), weight=10)
    yield Check(protocol, "refinement", "unbounded: the mapping and the abstract relation are the models'", tied, (protocol,),
                weight=10)


def inherits(protocol: str, note: str) -> Found:
    """Check that the abstract invariant is proved, and each step. The concrete invariant has a row of its own, and counts here,
    too."""
    from highwater.model.proofs.engine.inherit import inherit

    of = project.load("inheritance", protocol)
    found = inherit(of, of.concrete.m.Constants(), of.SYSTEMS[note])
    if not found.holds:
        rows = [row for proof in found for row in proof.rows if row.verdict != "proved"]
        failing = [f"{row.action} {row.clause} {row.verdict}\n{row.counterexample}" for row in rows]
        never = [action for proof in found for action in proof.impossible]
        return Found("", REFINEMENT if found.concrete.holds and found.abstract.holds else PROOF,
                     "\n".join(failing) or f"nothing is proved of actions that never fire: {never}")
    return Found(f"{len(found.steps.rows):,} queries", speed=f"slowest {max(row.ms for row in found.steps.rows):.0f} ms")


class Refuted(Exception):
    """A step does not refine: the others need not be tried."""


def refuted(protocol: str, off: dict[str, Any]) -> Found:
    """Check that some step does not refine without a safeguard, and that a small state shows it."""
    from highwater.model.proofs.engine.refine import prove
    from highwater.model.proofs.engine.small import Small

    def each(row: "Row") -> None:
        if row.verdict == "fails":
            raise Refuted(f"at {row.action}: {row.clause}")

    of = project.load("inheritance", protocol)
    c = of.concrete.unbounded(of.concrete.m.Constants(**off))
    try:
        prove(of.REFINEMENT, c, explain=Small(of.REFINEMENT, c).find, progress=each)
    except Refuted as wrong:
        return Found(str(wrong))
    return Found("", REFINEMENT, f"every step refines with {off}, but one must not")


def tied(protocol: str) -> Found:
    from highwater.model.proofs.engine.inherit import tie

    found = tie(project.load("inheritance", protocol))
    if found.mismatches:
        return Found("", PROOF, "\n".join(found.mismatches[:5]))
    return Found(f"{found.states:,} states, {found.steps:,} steps agree")

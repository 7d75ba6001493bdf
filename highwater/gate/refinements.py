"""Check that models refine their abstract models, and that no model does with a safeguard switched off: each step of small
instances, and with Z3 each step of an instance of any size."""

from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

from highwater import project
from highwater.gate.exits import PROOF, REFINEMENT
from highwater.gate.rows import Check, Found
from highwater.model.core import Exploration, Model
from highwater.model.explore.tabulated import Explorer, explore
from highwater.model.refine import Failure, Mapped, failure, refining

if TYPE_CHECKING:
    from highwater.model.proofs.engine.inductive import Row


def checks(protocol: str, deep: bool) -> Iterator[Check]:
    if project.has("refinement", protocol):
        of = project.load("refinement", protocol)
        onto = ", ".join(names_of(of))
        yield Check(protocol, "refinement", f"every step is one of {onto}", refines, (protocol, deep), weight=5)
        if getattr(of, "OFF", ()):
            yield Check(protocol, "refinement", "fails with each safeguard off", fails, (protocol, deep), weight=2)


def names_of(mapping: ModuleType) -> tuple[str, ...]:
    """Return the models that a protocol refines: one, or for a composition its parts."""
    return (mapping.ONTO,) if isinstance(mapping.ONTO, str) else mapping.ONTO


def mapped_onto(mapping: ModuleType, model: Model, names: tuple[str, ...]) -> list[Mapped]:
    """Return the mappings of an instance onto these models. They share an explorer, so each step is taken once. Leave out the
    parts of a composition of which an instance has no client."""
    c, explorer = model.constants, Explorer(model)
    if isinstance(mapping.ONTO, str):
        return [Mapped(model, mapping.refinement(c), explorer)]
    return [Mapped(model, mapping.refinement(c, name), explorer) for name in names if mapping.has_clients(c, name)]


def explored(protocol: str, constants: dict[str, Any], onto: tuple[str, ...] = ()) -> tuple[list[Mapped], Exploration]:
    """Search an instance for a step that is none of one of these models; without `onto`, of all that the protocol refines."""
    of, mapping = project.load("model", protocol), project.load("refinement", protocol)
    mapped = mapped_onto(mapping, of.model(of.Constants(**constants)), onto or names_of(mapping))
    return mapped, explore(refining(*mapped))


def first_failure(mapped: list[Mapped], found: Exploration) -> tuple[Mapped, Failure]:
    """Return the step that is none, and the mapping that it breaks."""
    wrong = [(of, failure(of, found.trace[-1].state)) for of in mapped]
    return next((of, one) for of, one in wrong if one is not None)


def refines(protocol: str, deep: bool) -> Found:
    """Check each step of all instances; in the gate, not of those that the mapping lists in LATER."""
    mapping, states, steps = project.load("refinement", protocol), 0, 0
    later = () if deep else getattr(mapping, "LATER", ())
    for constants in getattr(mapping, "INSTANCES", ({},)):
        if constants in later:
            continue
        mapped, found = explored(protocol, constants)
        if found.violated:
            of, wrong = first_failure(mapped, found)
            what = f"{wrong.process}.{wrong.action} is no step of {of.refinement.onto.name} with {constants}"
            return Found("", REFINEMENT, "\n".join((what, *wrong.why)))
        unused = [of.refinement.onto.name for of in mapped if not of.taken]
        if unused:
            return Found("", REFINEMENT, f"every step leaves the mapped state of {unused} as it is with {constants}")
        states, steps = states + found.states, steps + found.transitions
    return Found(f"{states:,} states, {steps:,} steps")


def breaking(protocol: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield each instance with a safeguard switched off, and the model that it then does not refine."""
    of, mapping = project.load("model", protocol), project.load("refinement", protocol)
    for off in mapping.OFF:
        names = names_of(mapping) if isinstance(mapping.ONTO, str) else mapping.broken(of.Constants(**off))
        yield from ((off, name) for name in names)


def fails(protocol: str, deep: bool) -> Found:
    """Check that some step fails without each safeguard; in the gate, not in the instances that the mapping lists in LATER."""
    later = () if deep else getattr(project.load("refinement", protocol), "LATER", ())
    tried = [(off, onto) for off, onto in breaking(protocol) if off not in later]
    passing = [(off, onto) for off, onto in tried if not explored(protocol, off, (onto,))[1].violated]
    if passing:
        texts = [f"every step is one of {onto} with {off}, but one must not be" for off, onto in passing]
        return Found("", REFINEMENT, "\n".join(texts))
    return Found(f"{len({str(off) for off, _ in tried})} safeguards")


# --- for any number of clients, ids and requests

def unbounded_checks(protocol: str) -> Iterator[Check]:
    if not project.has("inheritance", protocol):
        return
    of = project.load("inheritance", protocol)
    for note in of.SYSTEMS:
        yield Check(protocol, "refinement", f"unbounded: every step is one of {of.REFINEMENT.names[1]}{note}", inherits,
                    (protocol, note), ("z3",), 10)
    for off, _ in of.OFF:
        what = ", ".join(f"{name} = {value}" for name, value in off.items())
        yield Check(protocol, "refinement", f"unbounded: fails with {what}", refuted, (protocol, off), ("z3",), 10)
    yield Check(protocol, "refinement", "unbounded: the mapping and the abstract relation are the models'", tied, (protocol,),
                ("z3",), 10)


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

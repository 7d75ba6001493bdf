"""Check the proofs, which are for any number of clients, ids and requests in flight."""

from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING

from highwater import project
from highwater.gate.exits import HARNESS, PROOF
from highwater.gate.rows import Check, Found

if TYPE_CHECKING:
    from highwater.model.proofs.engine.inductive import Row


def proof_of(protocol: str) -> ModuleType:
    return project.load("proof", protocol)


def checks(protocol: str, deep: bool) -> Iterator[Check]:
    if not project.has("proof", protocol):
        return
    of = proof_of(protocol)
    for note in of.SYSTEMS:
        yield Check(protocol, "proof", f"every action keeps every clause{note}", proved, (protocol, note), ("z3",), 20)
    for off in of.SAFEGUARDS_OFF:
        what = ", ".join(f"{name} = {value}" for name, value in off.items())
        yield Check(protocol, "proof", f"fails with {what}", unproved, (protocol, off), ("z3",), 10)
    yield Check(protocol, "proof", "its transition relation is the model's", tied, (protocol, deep), ("z3",), 20)


def proved(protocol: str, note: str) -> Found:
    of = proof_of(protocol)
    found = of.prove(**of.SYSTEMS[note])
    if not found.holds:
        failing = [f"{row.action} {row.clause} {row.verdict}\n{row.counterexample}"
                   for row in found.rows if row.verdict != "proved"]
        return Found("", PROOF, "\n".join(failing) or f"nothing is proved of actions that never fire: {found.impossible}")
    return Found(f"{len(found.rows):,} queries", speed=f"slowest {max(row.ms for row in found.rows):.0f} ms")


class Refuted(Exception):
    """A clause fails: the rest of the proof need not be tried."""


def unproved(protocol: str, off: dict) -> Found:
    """Check that some clause fails. A query that Z3 gave up counts only if a small state shows that the clause fails."""
    of = proof_of(protocol)

    def each(row: "Row") -> None:
        if row.verdict == "fails":
            raise Refuted(f"at {row.action}: {row.clause}")

    try:
        of.prove(of.m.Constants(**off), each)
    except Refuted as refuted:
        return Found(str(refuted))
    return Found("", PROOF, f"no clause fails without the safeguard {off}, but one must")


def tied(protocol: str, deep: bool) -> Found:
    """Compare the relation with the model in all states of small instances. A proof with NEAREST compares only so many of each
    in the gate, and they must take every action but those that no state of the instances takes (UNTAKEN)."""
    from highwater.model.proofs.engine.instances import tie
    from highwater.model.proofs.engine.system import title

    of = proof_of(protocol)
    nearest = None if deep else getattr(of, "NEAREST", None)
    found = [(constants, tie(of, of.m.Constants(**constants), nearest)) for constants in of.INSTANCES]
    wrong = [text for _, one in found for text in one.mismatches]
    wrong += [f"{clause} with {constants}" for constants, one in found if not constants.keys() & of.SAFEGUARDS
              for clause in one.broken]
    if wrong:
        return Found("", PROOF, "\n".join(wrong[:5]))
    if nearest:
        actions = {title(role, action) for role, those in of.ACTIONS.items() for action in those}
        taken = frozenset[str]().union(*(one.actions for _, one in found))
        if idle := sorted(actions - taken - of.UNTAKEN):
            return Found("", HARNESS, f"the {nearest} nearest states of the instances do not take {', '.join(idle)}")
    return Found(f"{sum(one.states for _, one in found):,} states, {sum(one.steps for _, one in found):,} steps agree")

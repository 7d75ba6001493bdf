"""Safety: an abstract property is inherited only if both invariants are proved, every step refines, and all the texts of the
proof are the executable models': both relations, and the mapping.

`of` is a module of model/proofs/refinements/. It has the mapping as REFINEMENT, the proofs as `concrete` and `abstract`, the
executable mapping as `executable`, and SYSTEMS, OFF, INSTANCES and NEAREST.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

from highwater.model.proofs.engine import tie as tying
from highwater.model.proofs.engine.inductive import TIMEOUT_MS, Proof, Row
from highwater.model.proofs.engine.refine import prove
from highwater.model.proofs.engine.small import Small
from highwater.model.proofs.engine.small import tie as mapping_tie


class Inherited(NamedTuple):
    concrete: Proof  # of the concrete invariant
    abstract: Proof
    steps: Proof  # that every step refines

    @property
    def holds(self) -> bool:
        return self.concrete.holds and self.abstract.holds and self.steps.holds


class Tie(NamedTuple):
    states: int
    steps: int
    mismatches: tuple[str, ...]


def inherit(of: ModuleType, constants: Any, system: dict[str, Any], progress: Callable[[Row], None] | None = None,
            timeout_ms: int = TIMEOUT_MS) -> Inherited:
    """Prove one of the systems of SYSTEMS with the safeguards of `constants`. Bounds among the constants have no effect."""
    c = of.concrete.unbounded(constants, **system)
    concrete = of.concrete.prove(constants, progress, explain=False, timeout_ms=timeout_ms, **system)
    abstract = of.abstract.prove(of.REFINEMENT.onto(c).constants, progress, explain=False, timeout_ms=timeout_ms)
    small = Small(of.REFINEMENT, c)
    steps = prove(of.REFINEMENT, c, small.enables, small.find, progress, timeout_ms, concrete.never)
    return Inherited(concrete, abstract, steps)


def tie(of: ModuleType) -> Tie:
    """Compare the abstract relation and the mapping with the executable ones. The concrete relation has a tie of its own."""
    abstract, ties = of.abstract, []
    for each in abstract.INSTANCES:
        c = abstract.constants(**each)
        ties.append(tying.tie(abstract.SYSTEM, abstract.model(c), abstract.scope(c), abstract.NEAREST))
    c = abstract.constants(**abstract.WALKED)
    ties.append(tying.walked(abstract.SYSTEM, abstract.model(c), abstract.scope(c), abstract.WALKS, abstract.STEPS))
    broken = [f"{clause} fails in a reachable state" for each in ties for clause in each.broken]
    for each in of.INSTANCES:
        c = of.concrete.m.Constants(**each)
        ties.append(mapping_tie(of.REFINEMENT, of.concrete.m.model(c), of.executable.refinement(c), of.NEAREST))
    mismatches = [text for each in ties for text in each.mismatches]
    return Tie(sum(each.states for each in ties), sum(each.steps for each in ties), (*mismatches, *broken))

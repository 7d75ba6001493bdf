"""Runs the engines on one instance of a protocol, given the module of its proof and its constants."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

from highwater.model.core import Step
from highwater.model.proofs.engine import bounded as unrolling
from highwater.model.proofs.engine import tie as tying
from highwater.model.proofs.engine.plain import Plain


def tie(proofs: ModuleType, c: Any, nearest: int | None = None) -> tying.Tie:
    """Whether the relation is the model, in all states, or the nearest."""
    return tying.tie(proofs.system(c), proofs.m.model(c), proofs.scope(c), nearest)


def walked(proofs: ModuleType, c: Any) -> tying.Tie:
    """Whether it is, along random walks."""
    return tying.walked(proofs.system(c), proofs.m.model(c), proofs.scope(c), proofs.WALKS, proofs.STEPS)


def bounded(proofs: ModuleType, c: Any, depth: int, progress: Callable[[int], None] | None = None,
            timeout_ms: int = unrolling.TIMEOUT_MS, reduced: bool = True) -> unrolling.Bounded:
    """Return, for each property, a shortest counterexample of at most `depth` steps."""
    return unrolling.bounded(proofs.system(c), c, proofs.scope(c), depth, progress, timeout_ms, reduced)


def told(proofs: ModuleType, c: Any, steps: tuple[Step, ...]) -> str:
    """A counterexample, in words."""
    return unrolling.told(Plain(proofs.system(c), c, proofs.scope(c)), steps)

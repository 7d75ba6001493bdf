"""Safety of a small instance up to a depth, by a third engine: no path of at most that many steps ends in a state that breaks a
property.

Z3 is asked at each depth (unrolled.py defines a path), so the first counterexample is a shortest one. This engine uses neither
the explorer nor the model's own actions, so a bug that both find was found independently. A path from Z3 is reported only after
the plain reading has taken it, too.
"""

import itertools
from collections.abc import Callable
from timeit import default_timer  # only to report what Z3 took; no verdict depends on it
from typing import Any, NamedTuple

import z3

from highwater.model.core import Step
from highwater.model.proofs.engine.inductive import verdict_of
from highwater.model.proofs.engine.logic import Or
from highwater.model.proofs.engine.plain import Plain, neat, rows
from highwater.model.proofs.engine.system import Scope, System, title
from highwater.model.proofs.engine.unrolled import SCOPE, Unrolled

TIMEOUT_MS = 60_000  # of a query, of which there is one for each depth, and for each counterexample


class Found(NamedTuple):
    property: str
    verdict: str  # none, fails, timeout, unknown; disagrees: the plain reading does not take the path that Z3 found
    depth: int  # steps of a shortest counterexample; otherwise up to here there is none
    ms: float  # until this was known
    steps: tuple[Step, ...] = ()  # the first label is ("", "Init", ()), as the explorer's


class Bounded(NamedTuple):
    found: tuple[Found, ...]  # of every property, in their order
    reached: bool  # there are paths as long as was asked for; or everything was broken before
    moves: int  # ways in which a process may take an action with a choice
    conditions: int  # of a state
    ms: float

    @property
    def holds(self) -> bool:
        return all(found.verdict == "none" for found in self.found)

    @property
    def shortest(self) -> tuple[Found, ...]:
        """Return a shortest counterexample for each property that has one."""
        fails = [found for found in self.found if found.verdict == "fails"]
        return tuple(found for found in fails if found.depth == min(each.depth for each in fails))


class GaveUp(Exception):
    """Z3 did, within its budget ("timeout") or for want of a method ("unknown")."""


def bounded(system: System, c: Any, scope: Scope, depth: int, progress: Callable[[int], None] | None = None,
            timeout_ms: int = TIMEOUT_MS, reduced: bool = True) -> Bounded:
    """Up to `depth` steps. Raises TooLarge; and ValueError if a step may leave the scope, of which nothing would be known."""
    start, plain, unrolled = default_timer(), Plain(system, c, scope), Unrolled(system, c, scope, reduced)
    left, found, known, verdict, reached = {**unrolled.broken}, {}, -1, "none", False

    def conclude(name: str, verdict: str, t: int, steps: tuple[Step, ...] = ()) -> None:
        found[name] = Found(name, verdict, t, (default_timer() - start) * 1000, steps)

    try:
        if solution(solver_of(timeout_ms, unrolled.step_keeps_values_proper())):
            raise AssertionError("the finite reading is wrong: a step gives a cell two values, or none")
        solver = solver_of(timeout_ms, unrolled.initially())
        for t in range(depth + 1):
            if progress:
                progress(t)
            if t:
                solver.add(unrolled.at(unrolled.step, t - 1), unrolled.at(unrolled.finite.proper(unrolled.then), t - 1))
            while left.keys() != {SCOPE} and (model := solution(solver, unrolled.at(Or(*left.values()), t))):
                broken = [name for name in left if z3.is_true(model.eval(unrolled.at(left[name], t), True))]
                if SCOPE in broken:
                    raise ValueError(f"after {t} steps a value may leave the scope")
                steps = path(unrolled, plain, model, t)
                for name in broken:
                    agreed = steps and plain.failure_in(system.properties[name], steps[-1].state)
                    conclude(name, "fails" if agreed else "disagrees", t, steps)
                    del left[name]
            known = t
            if left.keys() == {SCOPE}:
                break
        reached = solution(solver) is not None
    except GaveUp as gave_up:
        verdict = str(gave_up)
    for name in left:
        conclude(name, verdict, known)
    return Bounded(tuple(found[name] for name in system.properties), reached, len(unrolled.moves), len(unrolled.symbols[0]),
                   (default_timer() - start) * 1000)


def solver_of(timeout_ms: int, facts: list[z3.BoolRef]) -> z3.Solver:
    s = z3.SolverFor("QF_FD")  # finite domains: the propositional solver
    s.set("timeout", timeout_ms)
    s.add(*facts)
    return s


def solution(solver: z3.Solver, *formulas: z3.BoolRef) -> z3.ModelRef | None:
    """Return a model of the solver's assertions and these formulas, which are removed again; None if there is none."""
    asked = [z3.FreshBool("asked") for _ in formulas]
    solver.add(*map(z3.Implies, asked, formulas))
    verdict = verdict_of(solver, *asked)
    if verdict not in ("proved", "fails"):
        raise GaveUp(verdict)
    return solver.model() if verdict == "fails" else None


def path(unrolled: Unrolled, plain: Plain, model: z3.ModelRef, steps: int) -> tuple[Step, ...]:
    """Return a solution as the explorer's steps; () if the plain reading of the relation does not take it."""
    states, moves = unrolled.path(model, steps)
    states = [plain.state(unrolled.finite.whole(values)) for values in states]
    taken = [Step(("", "Init", ()), states[0])]
    for before, move, after in zip(states, moves, states[1:]):
        step = (move.action, plain.system.choices(move.action, move.choices, plain.seen("", None, before.shared)[1]), after)
        if step not in plain.after(before, move.role, move.me, [move.action]):
            return ()
        taken.append(Step((move.process, *step[:2]), after))
    return tuple(taken)


def told(plain: Plain, steps: tuple[Step, ...]) -> str:
    """A path, step by step: the process, the action, and each variable that changes."""
    lines = ["  0 Init"]
    for number, (before, after) in enumerate(itertools.pairwise(steps), 1):
        process, action, choices = after.label
        lines.append(f"{number:3} {title(process, action)}{neat(choices)}")
        was = plain.variables(before.state)
        lines += [f"      {row}" for row in rows(was, was, plain.variables(after.state))]
    return "\n".join(lines)

"""Safety: a step that does not refine is shown only after plain Python has found it, in a small state that satisfies the
concrete invariant. The mapping of a proof is compared with the one of the executable models.

Like a counterexample to induction (cti.py), the state need not be reachable.
"""

import functools
from collections.abc import Iterator
from inspect import CO_VARARGS
from typing import Any, NamedTuple

import z3

from highwater.model.core import Model, State, init, moves
from highwater.model.guards import refusal
from highwater.model.proofs.engine.cti import Finder
from highwater.model.proofs.engine.logic import And, Not, Or
from highwater.model.proofs.engine.plain import Plain, neat, rows, variables
from highwater.model.proofs.engine.refine import SHOWN, Goal, Pair, Refinement, Way, combinations, goals, joined, mapped, ways
from highwater.model.proofs.engine.system import View, Whole, title


class Small:
    """Finds a step that does not refine in the finite scope."""

    def __init__(self, of: Refinement, c: Any):
        self.of, self.c = of, c
        self.finder = Finder(joined(of), c)
        self.finder.solver.add(*self.finder.instances(of.shown, self.finder.state))
        self.plain = self.finder.plain
        self.find = functools.cache(self.found)

    def ways(self, role: str, action: str) -> Iterator[tuple[Any, Any, Way]]:
        """Yield (process, condition that it takes this way within the scope, way)."""
        finite, state = self.finder.finite, self.finder.state
        s = finite.view(state)
        for me in [me for of, me in finite.processes if of == role]:
            w = finite.view(state, role, me) if role else None
            for way in ways(self.of, self.c, role, action, s, w, combinations(self.of.scope(None))):
                changes = {**finite.changes(state, "", None, s, way.after[0]),
                           **finite.changes(state, role, me, w, way.after[1])}
                if (condition := And(way.guard, Not(finite.strays(changes)))) is not False:
                    yield me, condition, way

    def enables(self, role: str, action: str) -> bool:
        """Tell whether some state in the scope that satisfies the invariant has such a step, and the values of its plan."""
        return any(self.finder.solver.check(condition) == z3.sat for _, condition, _ in self.ways(role, action))

    def found(self, role: str, action: str) -> str:
        """Show a step that does not refine: both states, the action, and the abstract guard that is false."""
        broken = []
        for me, condition, way in self.ways(role, action):
            wrong = Or(*(Not(goal.holds) for goal in goals(self.of, self.c, role, way)))
            if wrong is not False:
                broken.append((me, And(condition, wrong)))
        s, text = self.finder.solver, "none in the finite scope"
        s.push()
        s.add(Or(z3.BoolVal(False), *(each for _, each in broken)))
        if s.check() == z3.sat:
            found = self.finder.smallest()
            me = next(me for me, each in broken if z3.is_true(found.eval(z3.BoolVal(each) if each is True else each, True)))
            finite = self.finder.finite
            values = finite.evaluated(self.finder.state, lambda x: z3.is_true(found.eval(x, True)))
            state = self.plain.state(finite.whole(values))
            text = wrong_step(self.of, self.c, self.plain, state, role, me, action)
            text = text or f"plain Python does not find it, in {state}"
        s.pop()
        return text


def seen(plain: Plain, state: State, role: str, me: Any) -> Pair:
    local = state.locals[plain.processes.index((role, me))] if role else None
    return plain.seen("", None, state.shared)[0], plain.seen(role, me, local)[0] if role else None


def wrong_step(of: Refinement, c: Any, plain: Plain, state: State, role: str, me: Any, action: str) -> str | None:
    """Describe a step of this process that does not refine; None if each does."""
    for way in ways(of, c, role, action, *seen(plain, state, role, me), combinations(plain.scope)):
        goal = next((goal for goal in goals(of, c, role, way) if not goal.holds), None) if way.guard else None
        if goal:
            return told(of, c, plain, way, goal, f"{role}#{me}" if role else "", action)
    return None


def told(of: Refinement, c: Any, plain: Plain, way: Way, goal: Goal, process: str, action: str) -> str:
    """Show both states before and after the step, without what is as initially, and why it does not refine."""
    onto, role = of.onto(c), process.partition("#")[0]
    there = Plain(of.abstract, onto.constants, plain.scope)
    initial = seen(plain, plain.state(start(plain)), role, way.before[1].me if role else None)
    lines = [f"{title(process, action)} {SHOWN} {of.names[1]}"]
    for name, reading, *pairs in (
            (of.names[0], plain, initial, way.before, way.after),
            (of.names[1], there, mapped(of, c, role, *initial), mapped(of, c, role, *way.before), goal.wanted)):
        table = rows(*(values(reading, *pair) for pair in pairs))
        lines += [f"  in {name}:", *(f"    {row}" for row in table or ["all is as initially"])]
    return "\n".join([*lines, f"  {why(of, there, onto, way, goal, action)}"])


def values(reading: Plain, s: View, w: Any) -> dict[str, Any]:
    local = [(f"{w.role}#{w.me}", reading.written(w.role, w))] if w else []
    return variables(("", reading.written("", s)), *local)


def start(plain: Plain) -> Whole:
    """Return the initial state as views."""
    fields = plain.system.initial(plain.c)
    return Whole(View(plain, None, {**fields[""], **plain.rigid}), lambda role, me: View(plain, me, fields[role], role))


def why(of: Refinement, there: Plain, onto: Model, way: Way, goal: Goal, action: str) -> str:
    """Return the abstract guard that is false, or the field that differs."""
    s, w = goal.reached
    if goal.taken is None:
        names = ", ".join(taken.action for taken in way.plan if taken.when)
        at = goal.role != ""
        reached, wanted = (there.written(goal.role, pair[at])._asdict() for pair in (goal.reached, goal.wanted))
        differ = [f for f in reached if reached[f] != wanted[f] and not (at and of.forgets and wanted[f] <= reached[f])]
        led = "; ".join(f"{f} is {neat(reached[f])} there, and the mapping says {neat(wanted[f])}" for f in differ)
        return (f"{names} leads elsewhere: {led}" if names else
                f"the mapping names no abstract action for {action} here, and the mapped state changes: {led}")
    process = next(one for one in onto.processes if one.role == goal.role and (w is None or one.index == w.me))
    function = process.actions[goal.taken.action]
    relation = there.system.actions[goal.role][goal.taken.action]
    _, chosen, *_ = next(iter(relation(onto.constants, s, w, *goal.taken.choices)))
    shared, local = there.written("", s), there.written(goal.role, w) if w else ()
    choices = there.system.choices(goal.taken.action, chosen, there.system.read("", shared))
    given = choices if function.__code__.co_flags & CO_VARARGS else ()
    needs = refusal(function, onto.constants, process.index, shared, local, *given, observed=None if given else choices)
    return f"{goal.taken.action}{neat(choices)} needs {needs}"


# --- the mapping of the proof is the executable models'

class Tie(NamedTuple):
    states: int
    steps: int
    mismatches: tuple[str, ...]


def tie(of: Refinement, model: Model, executable: Any, nearest: int) -> Tie:
    """Compare both mappings in the nearest reachable states of an instance, and check each of its steps in plain Python. Each
    step must have the values that its plan names, and the facts must hold. `executable` is a highwater.model.refine.Refinement
    of this instance."""
    c, scope, steps, mismatches = model.constants, of.scope(model.constants), 0, []
    plain, there = Plain(joined(of), c, scope), Plain(of.abstract, of.onto(c).constants, scope)
    states = [init(model)]
    for fact in of.facts:
        if failure := plain.failure_in(fact, states[0]):
            mismatches.append(f"{fact.__name__} is not so of {failure}")
    for state in states:  # grows while we walk it
        states += [step.state for step in moves(model, state) if len(states) < nearest and step.state not in states]
        for process, local in zip(model.processes, state.locals):
            pair = seen(plain, state, process.role, process.index)
            s, w = mapped(of, c, process.role, *pair)
            wanted = [executable.shared(c, state.shared)]
            found = [there.written("", s)]
            if w:
                wanted.append(executable.locals[process.role](c, process.index, local))
                found.append(there.written(w.role, w))
            mismatches += [f"{process.name}: the proof maps {neat(state)} to {neat(x)}, and the model to {neat(y)}"
                           for x, y in zip(found, wanted) if x != y]
            for action in process.actions:
                theirs = {step[2:] for step in plain.steps(process.role, process.index, state.shared, local, [action])}
                ours = {tuple(value if new is old else plain.written(process.role * at, new)
                              for at, (new, old, value) in enumerate(zip(way.after, way.before, (state.shared, local))))
                        for way in ways(of, c, process.role, action, *pair, combinations(scope)) if way.guard}
                steps += len(theirs)
                if theirs != ours:
                    mismatches.append(f"{title(process.name, action)}: no value is what its plan names, in {neat(state)}")
                if wrong := wrong_step(of, c, plain, state, process.role, process.index, action):
                    mismatches.append(wrong)
    return Tie(len(states), steps, tuple(mismatches))

"""Safety: a path of k steps is a solution of a propositional formula, which states the relation for every two consecutive
states.

The relation is the one that is proved, read once (finite.py). For step t it is instantiated with the conditions of states t and
t + 1. The formula has three more constraints, which lose no shortest counterexample:

- Every cell has one value. This holds initially. Z3 is asked whether a step keeps it, before anything depends on it.
- Clients of a role that no rigid field distinguishes begin in their order. A relation that is proved has its processes in an
  uninterpreted sort, so only rigid fields distinguish them. A path with two such clients swapped is also a path.
- If two consecutive steps each change only their own process, the process that comes first takes the first one: the steps
  commute.

Such swaps relate several paths. The one whose sequence of processes is lexicographically least satisfies the last two
constraints, has the same length, and ends in the same state up to names. With `reduced` off these two are left out; tests
compare the results.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import z3

from highwater.model.proofs.engine.finite import Cell, Finite, Move, Values, flat
from highwater.model.proofs.engine.logic import And, Cases, Implies, Not, Or, cases
from highwater.model.proofs.engine.system import Scope, System, base

SCOPE = "(no step leaves the scope)"  # checked at each depth, like a property
LARGEST = 1000  # limit for the cells of a state; writing the formula for that many takes about 15 s


class TooLarge(ValueError):
    """The instance is too large for this engine."""


class Unrolled:
    """The formula of the paths of one instance. Raises TooLarge."""

    def __init__(self, system: System, c: Any, scope: Scope, reduced: bool = True):
        self.finite = finite = Finite(system, c, scope)
        if len(finite.cells) > LARGEST:
            raise TooLarge(f"a state of this instance has {len(finite.cells):,} cells; up to {LARGEST:,} can be unrolled")
        self.named = functools.cache(self.names)
        self.now, self.then = finite.unknown("now "), finite.unknown("then ")
        self.moves = [*finite.moves(self.now)]
        self.chosen = [z3.Bool(f"move {number}") for number in range(len(self.moves))]
        self.helpers: list[z3.BoolRef] = []
        self.remembered: list[tuple[z3.BoolRef, z3.BoolRef, Any]] = []  # conditions: before the step, after it, made of this
        step = [Implies(chosen, move.guard) for chosen, move in zip(self.chosen, self.moves)]
        step += [*self.exactly_one(self.chosen), *self.follows(), *(self.swaps_left_out() if reduced else ())]
        step += [after == made for _, after, made in self.remembered]
        self.step = And(*step)
        self.broken = {name: Or(*map(Not, finite.instances(holds, self.now))) for name, holds in system.properties.items()}
        self.broken[SCOPE] = Or(*(And(move.guard, finite.strays(move.changes)) for move in self.moves))
        self.symbols = (flat(self.now) + [before for before, _, _ in self.remembered],
                        flat(self.then) + [after for _, after, _ in self.remembered], self.chosen + self.helpers)

    def exactly_one(self, xs: list[z3.BoolRef]) -> Iterator[Any]:
        """Yield clauses that exactly one of `xs` is true. One helper for each makes their number linear, not quadratic."""
        before: Any = False
        for x in xs:
            self.helpers.append(z3.Bool(f"up to {x}"))
            yield Or(Not(before), Not(x))
            yield self.helpers[-1] == Or(before, x)
            before = self.helpers[-1]
        yield before

    def follows(self) -> Iterator[z3.BoolRef]:
        """Yield clauses that a cell is the result of the chosen move, or its old value if the move does not change it."""
        changing: dict[Cell, list[tuple[z3.BoolRef, Any]]] = {}
        for chosen, move in zip(self.chosen, self.moves):
            for cell, value in move.changes.items():
                changing.setdefault(cell, []).append((chosen, value))
        for cell, then in self.then.items():
            changes = changing.get(cell, [])
            kept = Not(Or(*(chosen for chosen, _ in changes)))
            if isinstance(then, Cases):
                for v, when in then.when.items():
                    made = (And(chosen, dict(cases(value)).get(v, False)) for chosen, value in changes)
                    yield when == Or(*made, And(kept, self.now[cell].when[v]))
            else:
                yield then == Or(*(And(chosen, value) for chosen, value in changes), And(kept, self.now[cell]))

    def swaps_left_out(self) -> Iterator[Any]:
        processes, moved, alone, begun, last = self.finite.processes, [], [], [], []
        for n, process in enumerate(processes):
            own = [(chosen, move) for chosen, move in zip(self.chosen, self.moves) if (move.role, move.me) == process]
            moved.append(Or(*(chosen for chosen, _ in own)))
            alone.append(Or(*(chosen for chosen, move in own if all(role for role, *_ in move.changes))))
            begun.append(self.remember(f"{n} has begun", lambda was, n=n: Or(was, moved[n])))
            last.append(self.remember(f"{n} changed itself", lambda _, n=n: alone[n]))
        for q, process in enumerate(processes):
            alike = [p for p in range(q) if self.looks(processes[p]) == self.looks(process)]
            if alike:
                yield Implies(moved[q], begun[alike[-1]])
            yield from (Not(And(last[q], alone[p])) for p in range(q))

    def remember(self, name: str, made: Callable) -> z3.BoolRef:
        """Add a condition that is false initially, and whose value after each step is given by `made`."""
        before, after = z3.Bool(f"before: {name}"), z3.Bool(f"after: {name}")
        self.remembered.append((before, after, made(before)))
        return before

    def looks(self, process: tuple[str, Any]) -> tuple:
        """Return the features that distinguish a process: its role, and its rigid fields. Fields of more arguments only make
        names."""
        (role, me), system = process, self.finite.system
        processes = {*system.roles.values()}
        assert all(len(signature) <= 2 or base(signature[-1]) is object or not processes & {*signature}
                   for signature in system.rigid.values())
        rigid = [f for f, signature in system.rigid.items() if signature[:-1] == (system.roles.get(role),)]
        return (role, *(self.finite.rigid[f](me) for f in rigid))

    def at(self, formula: Any, t: int) -> z3.BoolRef:
        """Return the formula for the state after `t` steps and the step that follows."""
        if isinstance(formula, bool):
            return z3.BoolVal(formula)
        return z3.substitute(formula, *self.named(t).items())  # pyright: ignore[reportReturnType]  # it keeps the sort

    def names(self, t: int) -> dict[z3.BoolRef, z3.BoolRef]:
        return {x: z3.Bool(f"{when} {n}") for when, xs in zip((f"{t}", f"{t + 1}", f"{t} to {t + 1}"), self.symbols)
                for n, x in enumerate(xs)}

    def initially(self) -> list[z3.BoolRef]:
        values = [self.finite.equals(self.now, cell, value) for cell, value in self.finite.initial().items()]
        forgotten = [Not(before) for before, _, _ in self.remembered]
        return [self.at(x, 0) for x in (*values, self.finite.proper(self.now), *forgotten)]

    def step_keeps_values_proper(self) -> list[z3.BoolRef]:
        """Return formulas without a solution if a step within the scope keeps exactly one value in every cell."""
        finite = self.finite
        return [self.at(x, 0) for x in (finite.proper(self.now), self.step, Not(self.broken[SCOPE]),
                                        Not(finite.proper(self.then)))]

    def path(self, found: z3.ModelRef, steps: int) -> tuple[list[Values], list[Move]]:
        """Return the states of a solution, and the moves between them."""
        def true(x: z3.BoolRef, t: int) -> bool:
            return z3.is_true(found.eval(self.named(t)[x], True))
        states = [self.finite.evaluated(self.now, lambda x, t=t: true(x, t)) for t in range(steps + 1)]
        moves = [next(m for m, chosen in zip(self.moves, self.chosen) if true(chosen, t)) for t in range(steps)]
        return states, moves

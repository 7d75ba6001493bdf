"""Safety: a counterexample to induction is shown only after plain Python has found that the clause fails in it.

It is a small state of the model that satisfies the invariant, and a step after which a clause fails. It comes from a finite
scope and is as close to the initial state as possible. It need not be reachable: a failed proof is not yet a bug. Traces are
found by the explorer or the bounded engine. If the state cannot occur, the clause that says so is missing.
"""

from collections.abc import Callable, Iterable
from typing import Any

import z3

from highwater.model.proofs.engine.finite import Cell, Finite, Move, Values
from highwater.model.proofs.engine.logic import And, Not, Or
from highwater.model.proofs.engine.plain import Plain, neat, rows, table
from highwater.model.proofs.engine.system import System, base, title


class Finder:
    def __init__(self, system: System, c: Any):
        self.system, self.c = system, c
        self.plain, self.finite = Plain(system, c, system.scope), Finite(system, c, system.scope)
        self.state, initial = self.finite.unknown(), self.finite.initial()
        self.solver = z3.SolverFor("QF_FD")
        self.solver.add(self.finite.proper(self.state), *self.instances(system.clauses.values(), self.state))
        wishes = {cell: [self.finite.equals(self.state, cell, v) for v in (initial[cell], *self.finite.values_of(sort))]
                  for cell, sort in self.finite.cells.items()}
        numbers = [cell for cell, sort in self.finite.cells.items() if base(sort) is int]
        others = [cell for cell in self.finite.cells if cell not in numbers]
        self.wishes = [wishes[cell] for cell in (*sorted(numbers, key=self.urgency), *reversed(others))]

    def urgency(self, cell: Cell) -> int:
        """The store's numbers first, which others are compared with; then of processes the last, that it may be idle."""
        return -self.finite.processes.index(cell[:2]) % len(self.finite.processes)

    def instances(self, clauses: Iterable[Callable], state: Values) -> list[z3.BoolRef]:
        every = (each for clause in clauses for each in self.finite.instances(clause, state))
        return [z3.BoolVal(each) if isinstance(each, bool) else each for each in every if each is not True]

    def find(self, clause: Callable, name: str, role: str = "", action: str = "") -> str:
        """Describe where `clause` fails: in the initial state ("Init"), in a state ("Property"), or after an action."""
        if name == "Init":
            return self.show(self.finite.initial(), None, clause)
        moves = [*self.finite.moves(self.state, (role, action))] if action else [None]
        broken = [self.broken(clause, move) for move in moves]
        text, s = "none in the finite scope", self.solver
        s.push()
        s.add(Or(*broken))
        if s.check() == z3.sat:
            found = self.smallest()
            move = next(move for move, how in zip(moves, broken) if z3.is_true(found.eval(how, True)))
            text = self.show(self.finite.evaluated(self.state, lambda x: z3.is_true(found.eval(x, True))), move, clause)
        s.pop()
        return text

    def enables(self, role: str, action: str) -> bool:
        """Return whether some state in the finite scope satisfies the invariant and has such a step within the scope."""
        s = self.solver
        s.push()
        s.add(Or(z3.BoolVal(False), *(And(move.guard, Not(self.finite.strays(move.changes)))
                                      for move in self.finite.moves(self.state, (role, action)))))
        found = s.check() == z3.sat
        s.pop()
        return found

    def broken(self, clause: Callable, move: Move | None) -> Any:
        """The clause does not hold of the state, or after the move, which stays in the scope."""
        if move is None:
            return z3.Not(z3.And(self.instances([clause], self.state)))
        after = self.instances([clause], {**self.state, **move.changes})
        return And(move.guard, Not(self.finite.strays(move.changes)), z3.Not(z3.And(after)))

    def smallest(self) -> z3.ModelRef:
        """Return a solution that is as close to the initial state as possible, with small numbers. It does not depend on Z3's
        choices."""
        s, found, granted = self.solver, self.solver.model(), []
        for wish in self.wishes:
            for literal in wish:
                if not z3.is_true(found.eval(literal, True)):
                    if s.check(*granted, literal) != z3.sat:
                        continue
                    found = s.model()
                granted.append(literal)
                break
        return found

    def changed(self, values: Values) -> list[str]:
        """Return the fields that are other ones after the tables of a state have been written and read again."""
        plain, found = self.plain, {}
        for role, me in self.finite.processes:
            view = self.finite.view(values, role, me)
            again, _ = plain.see(role, me, plain.written(role, view))
            for f, (*arguments, result) in self.system.fields[role].items():
                ranges = [plain.scope[sort] for sort in arguments]
                if table(view.fields[f], ranges, result) != table(again.fields[f], ranges, result):
                    found[title(role, f)] = None
        return list(found)

    def show(self, values: Values, move: Move | None, clause: Callable) -> str:
        """The state, what the step changes, and what the clause then fails of, once plain Python agrees."""
        plain, initial = self.plain, self.plain.state(self.finite.whole(self.finite.initial()))
        before = plain.state(self.finite.whole(values))
        broken = next((name for name, each in self.system.clauses.items() if plain.failure_in(each, before)), "")
        if before != initial and broken:
            shown = rows(*[plain.variables(state) for state in (initial, before, before)])
            return "\n".join([f"Z3 found tables of no state of the model: `write` and then `read` change "
                              f"{', '.join(self.changed(values))}, and then {broken} fails. Add a clause about their form. "
                              "They are written as:", *shown])
        steps = [("", (), before)] if move is None else plain.after(before, move.role, move.me, [move.action])
        for _, choices, after in steps:
            if failure := plain.failure_in(clause, after):
                shown = rows(*map(plain.variables, (initial, before, after))) or ["all is as initially"]
                step = [f"{title(move.process, move.action)}{neat(choices)}"] if move else []
                return "\n".join([*step, *shown, f"fails of {failure}"])
        return f"plain Python does not find it, in {before}"

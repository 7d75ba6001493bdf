"""Safety: every state and every step of a finite instance is a formula without numbers, quantifiers or functions.

A cell is a field of one process for one choice of its arguments. It is a condition, or one of a few values, each under a
condition. So Z3 only has to do propositional logic. The relation is the one that is proved; this reading takes every process
and every choice separately.
"""

import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, get_args

import z3

from highwater.model.proofs.engine.logic import And, Cases, Not, Or, applied, cases, one_of
from highwater.model.proofs.engine.system import Scope, Sort, System, View, Whole, base, parameters, title

Cell = tuple[str, Any, str, tuple]  # role, process, field, arguments
Values = dict[Cell, Any]  # a state


class Move(NamedTuple):
    """One way in which one process may take one action with one choice."""

    role: str
    me: Any
    action: str
    choices: tuple
    guard: Any
    changes: Values

    @property
    def process(self) -> str:
        return self.role and f"{self.role}#{self.me}"


class Finite:
    """Values under conditions. A scope says what there is; what is out of it is in no set."""

    def __init__(self, system: System, c: Any, scope: Scope):
        self.system, self.c, self.scope, self.rigid = system, c, scope, system.meaning(c)
        self.processes = [("", None), *((role, me) for role, sort in system.roles.items() for me in scope[sort])]
        self.cells = {(role, me, f, xs): result for role, me in self.processes
                      for f, (*arguments, result) in system.fields[role].items()
                      for xs in itertools.product(*map(scope.__getitem__, arguments))}

    def every(self, sort: Sort, f: Callable) -> Any:
        return And(*map(f, self.scope[sort]))

    def some(self, sort: Sort, f: Callable) -> Any:
        return Or(*map(f, self.scope[sort]))

    def count(self, sort: Sort, f: Callable) -> Any:
        number: Any = 0
        for holds in map(f, self.scope[sort]):
            number = one_of([*((n, And(when, Not(holds))) for n, when in cases(number)),
                             *((n + 1, And(when, holds)) for n, when in cases(number))])
        return number

    def define(self, _: tuple, f: Callable) -> Callable:
        return f

    def greatest(self, sort: Sort, f: Callable) -> Any:
        pairs, none = [], True
        for x in sorted(self.scope[sort], reverse=True):
            holds = f(x)
            pairs.append((x, And(none, holds)))
            none = And(none, Not(holds))
        return one_of([*pairs, (0, none)])

    def values_of(self, sort: Sort) -> list:
        return [False, True] if sort is bool else [*get_args(sort)] or self.scope[sort]

    def unknown(self, name: str = "") -> Values:
        """A state of which nothing is known; its constants are named after the cells."""
        def constant(cell: Cell, value: str = "") -> z3.BoolRef:
            role, me, f, xs = cell
            return z3.Bool(f"{name}{title(role and f'{role}#{me}', f)}{xs or ''}{value}")
        return {cell: constant(cell) if sort is bool else
                Cases({v: constant(cell, f"={v}") for v in self.values_of(sort)}) for cell, sort in self.cells.items()}

    def initial(self) -> Values:
        tables = self.system.initial(self.c)
        return {(role, me, f, xs): tables[role][f](*xs) if callable(tables[role][f]) else tables[role][f]
                for role, me, f, xs in self.cells}

    def proper(self, state: Values) -> Any:
        """Every cell has exactly one value, as Z3's count of them."""
        return And(*(z3.PbEq([(when, 1) for when in state[cell].when.values()], 1)
                     for cell, sort in self.cells.items() if sort is not bool), z3.BoolVal(True))

    def strays(self, changes: Values) -> Any:
        """Some cell is to have a value that is out of the scope."""
        return Or(*(when for cell, value in changes.items() if self.cells[cell] is not bool
                    for v, when in cases(value) if v not in self.values_of(self.cells[cell])))

    def evaluated(self, state: Values, value: Callable[[Any], bool]) -> Values:
        """The state that one which was unknown is, by what each condition is."""
        return {cell: next(v for v, when in x.when.items() if value(when)) if isinstance(x, Cases) else value(x)
                for cell, x in state.items()}

    def equals(self, state: Values, cell: Cell, value: Any) -> Any:
        """Return the formula that a cell of an unknown state has this value of the scope."""
        known = state[cell]
        return known.when[value] if isinstance(known, Cases) else known if value else z3.Not(known)

    def view(self, state: Values, role: str = "", me: Any = None) -> View:
        fields = {}
        for f, (*arguments, result) in self.system.fields[role].items():
            table = {xs: state[role, me, f, xs] for xs in itertools.product(*map(self.scope.__getitem__, arguments))}
            fields[f] = self.looked_up(table, result) if arguments else table[()]
        if not role:
            fields |= {f: (lambda *xs, f=f: applied(self.rigid[f], *xs)) if callable(meant) else meant
                       for f, meant in self.rigid.items()}
        return View(self, me, fields, role)

    def looked_up(self, table: dict[tuple, Any], result: Sort) -> Callable:
        """Out of the scope, where no state has anything, it is the first value of its sort."""
        first = self.values_of(result)[0]
        get = lambda *xs: table.get(xs, first)  # noqa: E731
        return lambda *xs: get(*xs) if not any(isinstance(x, Cases) for x in xs) else applied(get, *xs)

    def whole(self, state: Values) -> Whole:
        return Whole(self.view(state), lambda role, me: self.view(state, role, me))

    def moves(self, state: Values, *only: tuple[str, str]) -> Iterator[Move]:
        """`only`: of these (role, action)."""
        s = self.view(state)
        for role, me in self.processes:
            own = self.view(state, role, me) if role else None
            for action, relation in self.system.actions.get(role, {}).items():
                if only and (role, action) not in only:
                    continue
                for xs in itertools.product(*(self.scope[sort] for sort in parameters(relation))):
                    for guard, choices, s2, own2 in relation(self.c, s, own, *xs):
                        if guard is not False:
                            changes = {**self.changes(state, "", None, s, s2), **self.changes(state, role, me, own, own2)}
                            yield Move(role, me, action, choices, guard, changes)

    def changes(self, state: Values, role: str, me: Any, before: Any, after: Any) -> Values:
        changed = {}
        for cell in () if after is before else self.cells:
            of, who, f, xs = cell
            if (of, who) == (role, me) and after.fields[f] is not before.fields[f]:
                value = after.fields[f](*xs) if callable(after.fields[f]) else after.fields[f]
                if value is not state[cell]:
                    changed[cell] = value
        return changed

    def instances(self, clause: Callable, state: Values) -> Iterator[Any]:
        """The clause, of all that its parameters may be."""
        s = self.view(state)
        for xs in itertools.product(*(self.scope[sort] for sort in parameters(clause))):
            yield clause(self.c, s, *(self.view(state, sort.__name__, x) if base(sort) is View else x
                                      for sort, x in zip(parameters(clause), xs)))


def flat(state: Values) -> list[z3.BoolRef]:
    """The conditions of an unknown state."""
    return [when for x in state.values() for when in (x.when.values() if isinstance(x, Cases) else (x,))]

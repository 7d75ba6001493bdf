"""Safety without bounds: neither the number of elements of a sort nor the size of a number is bounded.

The state after a step is a substitution: a relation is a function, and the relation after the step is another function around
it, inlined when Z3 sees it. So there are no primed symbols, no frame axioms and no arrays.
"""

import functools
from collections.abc import Callable, Iterable
from typing import Any, get_args

import z3

from highwater.model.proofs.engine.logic import And, If, Implies, Not, Or
from highwater.model.proofs.engine.system import Signature, Sort, System, View, Whole, base, parameters, title


class Symbolic:
    """The reading over Z3 terms: processes and requests in flight are uninterpreted, numbers are integers, sets are Boolean
    functions."""

    def __init__(self, system: System):
        self.system, self.used = system, 0
        self.definitions: list = []  # of the terms that `greatest` made
        self.given: tuple = ()  # the shared state, own state and choices of the action whose ways were asked for last
        self.functions = {role: {f: self.symbol(f, ((system.roles[role], *signature) if role else signature), role)
                                 for f, signature in signatures.items()} for role, signatures in system.fields.items()}
        self.rigid = {f: self.symbol(f, signature) for f, signature in system.rigid.items()}

    def z3(self, sort: Sort) -> z3.SortRef:
        if sort is bool:
            return z3.BoolSort()
        return z3.IntSort() if base(sort) is int or get_args(sort) else z3.DeclareSort(sort.__name__)

    def symbol(self, field: str, signature: Signature, role: str = "") -> Any:
        sorts = list(map(self.z3, signature))
        return z3.Function(title(role, field), *sorts) if len(sorts) > 1 else z3.Const(field, *sorts)

    def constant(self, sort: Sort) -> Any:
        self.used += 1
        return z3.Const(f"{sort.__name__}.{self.used}", self.z3(sort))

    def every(self, sort: Sort, f: Callable) -> Any:
        x = self.constant(sort)
        body = f(x)
        return body if isinstance(body, bool) else z3.ForAll([x], body)

    def some(self, sort: Sort, f: Callable) -> Any:
        return Not(self.every(sort, lambda x: Not(f(x))))

    def count(self, sort: Sort, f: Callable) -> Any:
        raise NotImplementedError("a proof is of the unbounded system, where nothing is counted")

    def greatest(self, sort: Sort, f: Callable) -> Any:
        """Return the greatest number for which `f` holds, as a defined term. A state is finite, so it exists, or is 0 by
        default."""
        x = self.constant(sort)
        self.definitions.append(And(Or(x == 0, f(x)), self.every(sort, lambda y: Implies(f(y), y <= x))))
        return x

    def define(self, sorts: Signature, f: Callable) -> Callable:
        """Return a new function with this meaning. Z3 sees its name where it would otherwise see quantifiers within others."""
        self.used += 1
        name = z3.Function(f"defined.{self.used}", *map(self.z3, sorts), z3.BoolSort())
        xs = [self.constant(sort) for sort in sorts]
        self.definitions.append(z3.ForAll(xs, name(*xs) == f(*xs)))
        return name

    def view(self, role: str, x: Any, functions: dict[str, Callable]) -> View:
        signatures = self.system.fields[role]
        return View(self, x, {f: function(x) if len(signatures[f]) == 1 else functools.partial(function, x)
                              for f, function in functions.items()}, role)

    def whole(self) -> Whole:
        return Whole(View(self, None, {**self.functions[""], **self.rigid}),
                     lambda role, x: self.view(role, x, self.functions[role]))

    def start(self, c: Any) -> Whole:
        initial, whole = self.system.initial(c), self.whole()
        return Whole(whole.shared.but(**initial[""]), lambda role, x: whole.local(role, x).but(**initial[role]))

    def after(self, role: str, own: Any, s2: View, own2: Any) -> Whole:
        """Return the whole state after the shared part has become `s2` and the process `own` has become `own2`."""
        functions = dict(self.functions)
        if role:
            functions[role] = {f: old if own2.fields[f] is own.fields[f] else changed(old, own.me, own2.fields[f])
                               for f, old in self.functions[role].items()}
        return Whole(s2, lambda r, x: self.view(r, x, functions[r]))

    def ways(self, c: Any, role: str, action: str) -> list[tuple[Any, Whole]]:
        """Return (guard, whole state after) for each way in which the action may go."""
        relation, before = self.system.actions[role][action], self.whole()
        own = before.local(role, self.constant(self.system.roles[role])) if role else None
        xs = [self.constant(sort) for sort in parameters(relation)]
        self.given = (before.shared, own, *xs)
        return [(guard, self.after(role, own, s2, own2)) for guard, _, s2, own2 in relation(c, before.shared, own, *xs)
                if guard is not False]

    def instance(self, c: Any, clause: Callable, state: Whole, xs: Iterable) -> Any:
        return clause(c, state.shared, *(
            state.local(sort.__name__, x) if base(sort) is View else x for sort, x in zip(parameters(clause), xs)))

    def hypothesis(self, c: Any, clause: Callable) -> Any:
        xs = [self.constant(sort) for sort in parameters(clause)]
        body = self.instance(c, clause, self.whole(), xs)
        return z3.ForAll(xs, body) if xs and not isinstance(body, bool) else body

    def negation(self, c: Any, clause: Callable, state: Whole, before: Whole | None = None) -> Any:
        """Return the formula that the clause fails for some arguments, and held for the same ones before.

        The second part follows from the hypothesis; stating it saves Z3 the search.
        """
        xs = [self.constant(sort) for sort in parameters(clause)]
        fails = Not(self.instance(c, clause, state, xs))
        return And(self.instance(c, clause, before, xs), fails) if before else fails


def changed(old: Callable, me: Any, value: Any) -> Callable:
    return lambda x, *xs: If(x == me, value(*xs) if callable(value) else value, old(x, *xs))

"""Safety: the proof is about the model: in this reading its views are the model's own states, and its steps the model's steps.
"""

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from highwater.model.core import Local, Shared, State
from highwater.model.proofs.engine.system import (
    Misnamed,
    Scope,
    Sort,
    System,
    Tables,
    View,
    Whole,
    base,
    of_roles,
    parameters,
    title,
)

WIDE = 120  # the width of a row with the values before and after side by side


class Plain:
    """The reading over Python values: the model's own states, as tables. A scope gives the elements of each sort. Raises
    Misnamed for a parameter of another sort."""

    def __init__(self, system: System, c: Any, scope: Scope):
        check_parameters(system, scope)
        self.system, self.c, self.scope, self.rigid = system, c, scope, system.meaning(c)
        self.processes = [(role, me) for role, sort in system.roles.items() for me in scope[sort]]
        self.seen = functools.cache(self.see)

    def every(self, sort: Sort, f: Callable) -> bool:
        return all(map(f, self.scope[sort]))

    def some(self, sort: Sort, f: Callable) -> bool:
        return any(map(f, self.scope[sort]))

    def count(self, sort: Sort, f: Callable) -> int:
        return sum(map(f, self.scope[sort]))

    def define(self, _: tuple, f: Callable) -> Callable:
        return f

    def greatest(self, sort: Sort, f: Callable) -> int:
        return max(filter(f, self.scope[sort]), default=0)

    def see(self, role: str, me: Any, value: Any) -> tuple[View, Tables]:
        """Return the model's `value` as a view and its tables."""
        try:
            tables, read = self.system.read(role, value), {} if role else dict(self.rigid)
        except AttributeError as error:
            raise Misnamed(f"{role or 'the store'}: {error}") from None
        for f, (*arguments, result) in self.system.fields[role].items():
            if f not in tables:
                raise Misnamed(f"the model has no variable {title(role, f)}; it has {', '.join(value._fields)}")
            if not arguments:
                read[f] = tables[f]
            elif result is not bool:
                read[f] = tables[f].__getitem__ if len(arguments) == 1 else lambda *xs, values=tables[f]: values[xs]
            elif len(arguments) == 1:
                read[f] = tables[f].__contains__
            else:
                read[f] = lambda *xs, pairs=tables[f]: xs in pairs
        return View(self, me, read, role), tables

    def written(self, role: str, view: View, was: View | None = None, before: Any = None) -> Any:
        """Return a view as the model's value; parts unchanged since `was` are taken from `before`."""
        tables = {f: before[f] if was and view.fields[f] is was.fields[f] else table(
            view.fields[f], [self.scope[sort] for sort in signature[:-1]], signature[-1])
            for f, signature in self.system.fields[role].items()}
        try:
            return self.system.write(role, tables)
        except TypeError as error:  # the number of variables or their names differ
            raise Misnamed(f"{role or 'the store'}: {error}") from None

    def state(self, whole: Whole) -> State:
        """Return the state of a reading without conditions."""
        return State(self.written("", whole.shared),
                     tuple(self.written(role, whole.local(role, me)) for role, me in self.processes))

    def variables(self, state: State) -> dict[str, Any]:
        own = ((f"{role}#{me}", local) for (role, me), local in zip(self.processes, state.locals))
        return variables(("", state.shared), *own)

    def initial(self, role: str) -> Any:
        fields, initial = self.system.fields[role], self.system.initial(self.c)[role]
        if unlike := fields.keys() ^ initial.keys():
            raise Misnamed(f"initially, or among its variables, {role or 'the store'} has not {', '.join(sorted(unlike))}")
        return self.written(role, View(self, None, self.system.initial(self.c)[role], role))

    def steps(self, role: str, me: int, shared: Shared, local: Local, actions: Iterable[str]) -> Iterator[tuple]:
        """Yield (action, choices, shared', local') for every way in which this process may take one of the actions."""
        s, before = self.seen("", None, shared)
        own, mine = self.seen(role, me, local) if role else (None, None)
        for action in actions:
            relation = self.system.actions[role][action]
            for xs in itertools.product(*(self.scope[sort] for sort in parameters(relation))):
                for guard, choices, s2, own2 in relation(self.c, s, own, *xs):
                    if guard:
                        yield (action, self.system.choices(action, choices, before),
                               shared if s2 is s else self.written("", s2, s, before),
                               local if own2 is own else self.written(role, own2, own, mine))

    def after(self, state: State, role: str, me: Any, actions: Iterable[str]) -> Iterator[tuple[str, tuple, State]]:
        """Yield (action, choices, state) for every step of this process."""
        n = self.processes.index((role, me)) if role else len(state.locals)
        own = state.locals[n] if role else ()
        for action, choices, shared, local in self.steps(role, me, state.shared, own, actions):
            yield action, choices, State(shared, (*state.locals[:n], local, *state.locals[n + 1:]) if role else state.locals)

    def failure_in(self, clause: Callable, state: State) -> str | None:
        """Return the arguments for which the clause fails in a state; None if it holds for all."""
        return self.failure(clause, state.shared, *(
            [(me, local) for (of, me), local in zip(self.processes, state.locals) if of == role] for role in of_roles(clause)))

    def failure(self, clause: Callable, shared: Shared, *processes: list[tuple[int, Local]]) -> str | None:
        """Return the arguments for which the clause fails; `processes` lists the candidates for each parameter that is a
        process."""
        given, (s, _) = iter(processes), self.seen("", None, shared)
        ranges: list[Iterable[Any]] = [
            [self.seen(sort.__name__, *each)[0] for each in next(given)] if base(sort) is View else self.scope[sort]
            for sort in parameters(clause)]
        for xs in itertools.product(*ranges):
            if not clause(self.c, s, *xs):
                return ", ".join(f"{name} = {f'{x.role}#{x.me}' if isinstance(x, View) else neat(x)}"
                                 for name, x in zip(clause.__annotations__, xs)) or "the state"
        return None


def check_parameters(system: System, scope: Scope) -> None:
    actions = (relation for of_role in system.actions.values() for relation in of_role.values())
    for f in (*system.clauses.values(), *system.properties.values(), *actions):
        for name, sort in f.__annotations__.items():
            if base(sort) is not View and sort not in scope:
                raise Misnamed(f"{f.__name__}: the parameter {name} has the sort {sort_name(sort)}; the scope has "
                               f"{', '.join(map(sort_name, scope))}")


def sort_name(sort: Sort) -> str:
    return getattr(sort, "__name__", str(sort))


def table(value: Any, ranges: list[list], result: Sort) -> Any:
    if not ranges:
        return value
    if len(ranges) == 1:
        return frozenset(filter(value, ranges[0])) if result is bool else {x: value(x) for x in ranges[0]}
    product = itertools.product(*ranges)
    return frozenset(xs for xs in product if value(*xs)) if result is bool else {xs: value(*xs) for xs in product}


# --- the model's values, to be read -------------------------------------------------------------------------------------

def variables(*parts: tuple[str, Any]) -> dict[str, Any]:
    """Return the name of each variable -> its value, for pairs (process or "", its state). The store's own state is ()."""
    return {title(name, f): value for name, part in parts if part for f, value in part._asdict().items()}


def rows(usual: dict[str, Any], before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return a row for each variable that is not at its usual value or changes: its value before and after."""
    shown = [v for v in before if before[v] != usual[v] or before[v] != after[v]]
    width, told = max(map(len, shown), default=0), []
    for v in shown:
        told.append(f"{v:{width}}  {neat(before[v])}")
        if before[v] != after[v]:
            becomes = f"→ {neat(after[v])}"
            if len(told[-1]) + len(becomes) < WIDE:
                told[-1] += f"  {becomes}"
            else:
                told.append(f"{'':{width}}{becomes}")
    return told


def neat(x: Any) -> str:
    """Return a value as text: sets in order, and parts of a state with the names of their variables."""
    if hasattr(x, "_asdict"):
        return "{" + ", ".join(f"{f} {neat(v)}" for f, v in x._asdict().items()) + "}"
    if isinstance(x, frozenset):
        return "{" + ", ".join(map(neat, sorted(x))) + "}"
    return "(" + ", ".join(map(neat, x)) + ")" if isinstance(x, tuple) else str(x)

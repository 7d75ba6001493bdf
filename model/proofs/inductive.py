"""Safety without bounds: what holds initially and is kept by every action holds in every reachable state.

A `System` is a transition relation and clauses over it, written once as plain functions of `View`s and read twice: over Z3
terms they are proved, one query for each (action, clause); over Python values they are evaluated, and `tie` compares them
with a model's explorer. Nothing here knows a protocol.

    def advance(c, s, g, d: Id):                # constants, shared state, own local state; what is chosen, by its sort
        yield And(...), (d,), s.but(...), g.but(...)            # guard, choices of the label, shared', local'

    def known_is_durable(c, s, g: Collector):   # a clause holds for all that its parameters may be
        return Implies(...)

Only what is chosen is annotated. The state after a step is a substitution: a relation is a function, and the relation after
the step another function around it, inlined when Z3 sees it: no primed symbols, no frame axioms, no arrays. A clause that
fails gets a counterexample to induction from a finite scope, where quantifiers are conjunctions, and plain Python evaluates
it before it is shown. It need not be reachable: a failed proof is not yet a bug, and a trace is the explorer's to find.
"""

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from timeit import default_timer  # only to report what Z3 took; no verdict depends on it
from typing import Any, NamedTuple, get_args

import z3

from model.core import Local, Model, Shared, graph

Sort = Any  # bool, a Literal of words, or a NewType: of int (unbounded), of View (a process), of object (anything)
Signature = tuple[Sort, ...]  # of a field: its arguments, its result
Tables = dict[str, Any]  # field -> value | frozenset of the arguments for which it is true | {argument: value}
Scope = dict[Sort, list]  # what there is of a sort, in a finite reading; a process is a number
RLIMIT = 5_000_000  # Z3's own count of its work: where it gives up does not depend on the machine


class System(NamedTuple):
    """A role is named as in the model; "" is the shared state, and the store, which has no local state."""

    fields: dict[str, dict[str, Signature]]  # of a role
    roles: dict[str, Sort]  # without ""
    rigid: dict[str, Signature]  # more fields of the shared state, which never change: uninterpreted when proving
    meaning: Callable[..., dict[str, Callable]]  # c -> rigid field -> what it is in a finite reading
    initial: Callable[..., dict[str, dict[str, Any]]]  # c -> role -> field -> value | function
    actions: dict[str, dict[str, Callable]]  # role -> action -> relation
    clauses: dict[str, Callable]  # together the invariant
    properties: dict[str, Callable]  # which the clauses imply
    scope: Scope  # for counterexamples
    read: Callable[..., Tables]  # (role, the model's value) -> its tables
    write: Callable[..., Any]  # (role, tables) -> the model's value
    choices: Callable[..., tuple]  # (action, choices, tables of shared) -> the choices as the model's label has them


class View:
    """What a process sees of the shared state, or of its own: the fields, and quantifiers over what there is."""

    def __init__(self, logic: Any, me: Any, fields: dict[str, Any]):
        self.logic, self.me, self.fields = logic, me, fields
        self.every, self.some, self.count, self.greatest = logic.every, logic.some, logic.count, logic.greatest
        self.__dict__.update(fields)

    def but(self, **changes: Any) -> "View":
        assert changes.keys() <= self.fields.keys(), changes.keys() - self.fields.keys()
        return View(self.logic, self.me, {**self.fields, **changes})


class Whole(NamedTuple):
    shared: View
    local: Callable[[Sort, Any], View]  # (role, process) -> its view


# --- connectives that fold on Python's booleans and otherwise are Z3's --------------------------------------------------

WORDS: dict[str, int] = {}


def term(x: Any) -> Any:
    return WORDS.setdefault(x, len(WORDS)) if isinstance(x, str) else x


def And(*xs: Any) -> Any:
    terms = []
    for x in xs:
        if x is False:
            return False
        if x is not True:
            terms.append(x)
    return z3.And(terms) if terms else True


def Or(*xs: Any) -> Any:
    terms = []
    for x in xs:
        if x is True:
            return True
        if x is not False:
            terms.append(x)
    return z3.Or(terms) if terms else False


def Not(x: Any) -> Any:
    return not x if isinstance(x, bool) else z3.Not(x)


def Implies(x: Any, y: Any) -> Any:
    return Or(Not(x), y)


def If(x: Any, y: Any, z: Any) -> Any:
    return (y if x else z) if isinstance(x, bool) else z3.If(x, term(y), term(z))


def at(x: Any, *words: str) -> Any:
    """The word `x` is one of `words`."""
    return x in words if isinstance(x, str) else Or(*(x == term(word) for word in words))


# --- the two readings ---------------------------------------------------------------------------------------------------

def base(sort: Sort) -> Any:
    return getattr(sort, "__supertype__", sort)


def parameters(f: Callable) -> tuple[Sort, ...]:
    return tuple(f.__annotations__.values())


class Plain:
    """Python values: the model's own states, read as tables. A scope says what there is."""

    def __init__(self, system: System, c: Any, scope: Scope):
        self.system, self.c, self.scope, self.rigid = system, c, scope, system.meaning(c)
        self.seen = functools.cache(self.see)

    def every(self, sort: Sort, f: Callable) -> bool:
        return all(map(f, self.scope[sort]))

    def some(self, sort: Sort, f: Callable) -> bool:
        return any(map(f, self.scope[sort]))

    def count(self, sort: Sort, f: Callable) -> int:
        return sum(map(f, self.scope[sort]))

    def greatest(self, sort: Sort, f: Callable) -> int:
        return max(filter(f, self.scope[sort]), default=0)

    def see(self, role: str, me: Any, value: Any) -> tuple[View, Tables]:
        """What the model has as `value`."""
        tables, read = self.system.read(role, value), {} if role else dict(self.rigid)
        for f, (*arguments, result) in self.system.fields[role].items():
            if not arguments:
                read[f] = tables[f]
            elif result is not bool:
                read[f] = tables[f].__getitem__
            elif len(arguments) == 1:
                read[f] = tables[f].__contains__
            else:
                read[f] = lambda *xs, pairs=tables[f]: xs in pairs
        return View(self, me, read), tables

    def written(self, role: str, view: View, was: View | None = None, before: Tables | None = None) -> Any:
        """A view as the model has it; what did not change since `was` is taken from `before`."""
        return self.system.write(role, {
            f: before[f] if was and view.fields[f] is was.fields[f] else table(
                view.fields[f], [self.scope[sort] for sort in signature[:-1]], signature[-1])
            for f, signature in self.system.fields[role].items()})

    def initial(self, role: str) -> Any:
        return self.written(role, View(self, None, self.system.initial(self.c)[role]))

    def steps(self, role: str, me: int, shared: Shared, local: Local, actions: Iterable[str]) -> Iterator[tuple]:
        """(action, choices, shared', local') for every way in which this process may take one of the actions."""
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

    def holds(self, clause: Callable, shared: Shared, *processes: tuple[int, Local]) -> bool:
        """Of these processes, one for each parameter that is one."""
        given = iter(processes)
        ranges = [[self.seen(sort.__name__, *next(given))[0]] if base(sort) is View else self.scope[sort]
                  for sort in parameters(clause)]
        s, _ = self.seen("", None, shared)
        return all(clause(self.c, s, *xs) for xs in itertools.product(*ranges))


def of_roles(clause: Callable) -> tuple[str, ...]:
    """The roles of the parameters that are processes."""
    return tuple(sort.__name__ for sort in parameters(clause) if base(sort) is View)


def table(value: Any, ranges: list[list], result: Sort) -> Any:
    if not ranges:
        return value
    if len(ranges) == 1:
        return frozenset(filter(value, ranges[0])) if result is bool else {x: value(x) for x in ranges[0]}
    product = itertools.product(*ranges)
    return frozenset(xs for xs in product if value(*xs)) if result is bool else {xs: value(*xs) for xs in product}


class Symbolic:
    """Z3 terms. With a scope everything is finite and quantifiers are conjunctions."""

    def __init__(self, system: System, c: Any = None, scope: Scope | None = None):
        self.system, self.used = system, 0
        self.facts: list = []  # that everything is in the scope
        self.definitions: list = []  # of the terms that `greatest` made
        self.elements: dict[Sort, list] = {
            sort: [z3.IntVal(v) if base(sort) is int else z3.Const(f"{sort.__name__}#{n}", self.z3(sort))
                   for n, v in enumerate(values)] for sort, values in (scope or {}).items()}
        self.functions = {role: {f: self.symbol(f, ((system.roles[role], *signature) if role else signature), role)
                                 for f, signature in signatures.items()} for role, signatures in system.fields.items()}
        self.rigid = {f: self.symbol(f, signature) for f, signature in system.rigid.items()}
        if scope:
            self.facts += [z3.Distinct(xs) for sort, xs in self.elements.items() if base(sort) is not int]
            for f, (*arguments, result) in system.rigid.items():
                for values in itertools.product(*map(scope.get, arguments)):
                    self.facts.append(self.rigid[f](*map(self.element, arguments, values)) == self.element(
                        result, system.meaning(c)[f](*values)))

    def element(self, sort: Sort, value: Any) -> Any:
        return value if sort is bool else self.elements[sort][self.system.scope[sort].index(value)]

    def z3(self, sort: Sort) -> z3.SortRef:
        if sort is bool:
            return z3.BoolSort()
        return z3.IntSort() if base(sort) is int or get_args(sort) else z3.DeclareSort(sort.__name__)

    def symbol(self, field: str, signature: Signature, role: str = "") -> Any:
        sorts = list(map(self.z3, signature))
        return z3.Function(title(role, field), *sorts) if len(sorts) > 1 else z3.Const(field, *sorts)

    def constant(self, sort: Sort) -> Any:
        self.used += 1
        x = z3.Const(f"{sort.__name__}.{self.used}", self.z3(sort))
        self.facts.append(self.within(sort, x))
        return x

    def within(self, sort: Sort, x: Any) -> Any:
        if get_args(sort):
            return at(x, *get_args(sort))
        return Or(*(x == e for e in self.elements[sort])) if sort in self.elements else True

    def every(self, sort: Sort, f: Callable) -> Any:
        if self.elements:
            return And(*map(f, self.elements[sort]))
        x = self.constant(sort)
        body = f(x)
        return body if isinstance(body, bool) else z3.ForAll([x], body)

    def some(self, sort: Sort, f: Callable) -> Any:
        return Not(self.every(sort, lambda x: Not(f(x))))

    def count(self, sort: Sort, f: Callable) -> Any:
        raise NotImplementedError("a proof is of the unbounded system, where nothing is counted")

    def greatest(self, sort: Sort, f: Callable) -> Any:
        """Not chosen but defined: what a state holds is finite, so there is one, or by default 0."""
        x = self.constant(sort)
        self.definitions.append(And(Or(x == 0, f(x)), self.every(sort, lambda y: Implies(f(y), y <= x))))
        return x

    def view(self, role: str, x: Any, functions: dict[str, Callable]) -> View:
        signatures = self.system.fields[role]
        return View(self, x, {f: function(x) if len(signatures[f]) == 1 else functools.partial(function, x)
                              for f, function in functions.items()})

    def whole(self) -> Whole:
        return Whole(View(self, None, {**self.functions[""], **self.rigid}),
                     lambda role, x: self.view(role, x, self.functions[role]))

    def start(self, c: Any) -> Whole:
        initial, whole = self.system.initial(c), self.whole()
        return Whole(whole.shared.but(**initial[""]), lambda role, x: whole.local(role, x).but(**initial[role]))

    def after(self, role: str, own: View | None, s2: View, own2: View | None) -> Whole:
        """Everything, once the shared part has become `s2` and a process, which was `own`, `own2`."""
        functions = dict(self.functions)
        if role:
            functions[role] = {f: old if own2.fields[f] is own.fields[f] else changed(old, own.me, own2.fields[f])
                               for f, old in self.functions[role].items()}
        return Whole(s2, lambda r, x: self.view(r, x, functions[r]))

    def instance(self, c: Any, clause: Callable, state: Whole, xs: Iterable) -> Any:
        return clause(c, state.shared, *(
            state.local(sort.__name__, x) if base(sort) is View else x for sort, x in zip(parameters(clause), xs)))

    def hypothesis(self, c: Any, clause: Callable) -> Any:
        sorts = parameters(clause)
        if self.elements:
            every = itertools.product(*map(self.elements.get, sorts))
            return And(*(self.instance(c, clause, self.whole(), xs) for xs in every))
        xs = [self.constant(sort) for sort in sorts]
        body = self.instance(c, clause, self.whole(), xs)
        return z3.ForAll(xs, body) if xs and not isinstance(body, bool) else body

    def negation(self, c: Any, clause: Callable, state: Whole) -> Any:
        return Not(self.instance(c, clause, state, [self.constant(sort) for sort in parameters(clause)]))


def changed(old: Callable, me: Any, value: Any) -> Callable:
    return lambda x, *xs: If(x == me, value(*xs) if callable(value) else value, old(x, *xs))


def title(role: str, name: str) -> str:
    return f"{role}.{name}" if role else name


# --- the proof ----------------------------------------------------------------------------------------------------------

class Row(NamedTuple):
    action: str  # "Writer.CreateNext"; "Init"; "Property"
    clause: str
    verdict: str  # proved, fails, unknown
    ms: float
    counterexample: str = ""  # to induction


class Proof(NamedTuple):
    rows: tuple[Row, ...]
    possible: dict[str, bool]  # action -> some state that satisfies the invariant enables it
    disabled: tuple[str, ...]  # the actions that these constants switch off
    ms: float

    @property
    def failing(self) -> tuple[tuple[str, str], ...]:
        return tuple((row.action, row.clause) for row in self.rows if row.verdict != "proved")

    @property
    def holds(self) -> bool:
        return not self.failing and all(self.possible.values())


def solver(*facts: Any) -> z3.Solver:
    s = z3.SimpleSolver()
    s.set("rlimit", RLIMIT)
    s.add(*facts)
    return s


def ways(system: System, logic: Symbolic, c: Any, role: str, action: str) -> list[tuple[Any, Whole]]:
    """(guard, everything after) for each way in which the action may go."""
    relation, before = system.actions[role][action], logic.whole()
    own = before.local(role, logic.constant(system.roles[role])) if role else None
    xs = [logic.constant(sort) for sort in parameters(relation)]
    return [(guard, logic.after(role, own, s2, own2)) for guard, _, s2, own2 in relation(c, before.shared, own, *xs)
            if guard is not False]


def prove(system: System, c: Any, progress: Callable[[Row], None] | None = None, explain: bool = True) -> Proof:
    """Every clause initially, every property, every clause after every action. `explain`: with counterexamples."""
    start, rows, possible, disabled = default_timer(), [], {}, []
    finder = functools.cache(lambda: Finder(system, c))

    def ask(name: str, clauses: dict[str, Callable], cases: list[tuple[z3.Solver, Whole]], *action: str) -> None:
        for clause_name, clause in clauses.items():
            began, answers = default_timer(), []
            for s, state in cases:
                s.push()
                s.add(state.shared.logic.negation(c, clause, state))
                answers.append(s.check())
                s.pop()
            ms, text = (default_timer() - began) * 1000, ""
            verdict = "fails" if z3.sat in answers else "unknown" if z3.unknown in answers else "proved"
            if explain and verdict == "fails" and name != "Init":
                text = finder().find(clause, *action, answers.index(z3.sat))
            rows.append(Row(name, clause_name, verdict, ms, text))
            if progress:
                progress(rows[-1])

    logic = Symbolic(system)
    invariant = [logic.hypothesis(c, clause) for clause in system.clauses.values()]
    ask("Init", system.clauses, [(solver(), logic.start(c))])
    ask("Property", system.properties, [(solver(*invariant), logic.whole())], "", "")
    for role, action in ((role, action) for role, actions in system.actions.items() for action in actions):
        logic = Symbolic(system)
        there = ways(system, logic, c, role, action)
        if there:
            cases = [(solver(*invariant, *logic.definitions, guard), after) for guard, after in there]
            possible[title(role, action)] = any(s.check() == z3.sat for s, _ in cases)
            ask(title(role, action), system.clauses, cases, role, action)
        else:
            disabled.append(title(role, action))
    return Proof(tuple(rows), possible, tuple(disabled), (default_timer() - start) * 1000)


# --- counterexamples to induction ---------------------------------------------------------------------------------------

class Finder:
    """A small state, in the system's finite scope, that satisfies the invariant, and a step after which a clause fails."""

    def __init__(self, system: System, c: Any):
        self.system, self.c, self.plain = system, c, Plain(system, c, system.scope)
        self.logic = logic = Symbolic(system, c, system.scope)
        self.solver = solver(*(logic.hypothesis(c, clause) for clause in system.clauses.values()), *self.within(logic.whole()))
        usual = [(x, sort, term(y)) for (x, sort), (y, _) in zip(self.terms(logic.whole()), self.terms(logic.start(c)))]
        self.wishes = [[x == v for v in (y, *self.plain.scope[sort])] for x, sort, y in usual if base(sort) is int]
        self.wishes += [[x == term(v) for v in (y, *get_args(sort))] for x, sort, y in reversed(usual) if base(sort) is not int]

    def terms(self, state: Whole) -> Iterator[tuple[Any, Sort]]:
        """The value of every field of every process for all its arguments, and the sort of it."""
        elements, roles = self.logic.elements, self.system.roles
        for role, view in [("", state.shared), *((r, state.local(r, x)) for r in roles for x in elements[roles[r]])]:
            for f, (*arguments, result) in self.system.fields[role].items():
                for xs in itertools.product(*map(elements.get, arguments)):
                    yield view.fields[f](*xs) if arguments else view.fields[f], result

    def within(self, state: Whole) -> list:
        return [self.logic.within(sort, x) for x, sort in self.terms(state)]

    def find(self, clause: Callable, role: str, action: str, number: int) -> str:
        s, logic, state = self.solver, self.logic, self.logic.whole()
        logic.definitions.clear()
        s.push()
        if action:
            guard, state = ways(self.system, logic, self.c, role, action)[number]
            s.add(guard, *self.within(state))
        s.add(logic.negation(self.c, clause, state), *logic.facts, *logic.definitions)
        text = self.show(self.smallest(), clause, role, action) if s.check() == z3.sat else "none in the finite scope"
        s.pop()
        return text

    def smallest(self) -> z3.ModelRef:
        """As much as possible is as it is initially, and numbers are small. The wishes alone determine it, not Z3's luck."""
        s, found = self.solver, self.solver.model()
        for wish in self.wishes:
            for value in wish:
                s.push()
                s.add(value)
                granted = z3.is_true(found.eval(value, True))
                if not granted and s.check() == z3.sat:
                    found, granted = s.model(), True
                s.pop()
                if granted:
                    s.add(value)
                    break
        return found

    def value(self, found: z3.ModelRef, x: Any, sort: Sort) -> Any:
        x = found.eval(x, True)
        if sort is bool:
            return z3.is_true(x)
        if base(sort) is int:
            return x.as_long()
        if get_args(sort):
            return next(word for word in get_args(sort) if term(word) == x.as_long())
        return next(v for v in self.plain.scope[sort] if found.eval(self.logic.element(sort, v), True).eq(x))

    def read(self, found: z3.ModelRef, role: str, view: View) -> Any:
        """What a view is in this Z3 model, as the protocol's model has it."""
        def plainly(f: str, arguments: list[Sort], result: Sort) -> Any:
            if not arguments:
                return self.value(found, view.fields[f], result)
            return lambda *xs: self.value(found, view.fields[f](*map(self.logic.element, arguments, xs)), result)
        return self.plain.written(role, View(self.plain, None, {
            f: plainly(f, arguments, result) for f, (*arguments, result) in self.system.fields[role].items()}))

    def show(self, found: z3.ModelRef, clause: Callable, role: str, action: str) -> str:
        """The state and what the step changes, once plain Python agrees that the clause fails there."""
        plain, whole, roles = self.plain, self.logic.whole(), self.system.roles
        shared = self.read(found, "", whole.shared)
        local = {r: [self.read(found, r, whole.local(r, x)) for x in self.logic.elements[roles[r]]] for r in roles}

        def holds(clause: Callable, shared: Shared, local: dict[str, list[Local]]) -> bool:
            processes = itertools.product(*(enumerate(local[r]) for r in of_roles(clause)))
            return all(plain.holds(clause, shared, *each) for each in processes)

        before = [differences("", shared, plain.initial(""))]
        before += [differences(f"{r}#{n} ", l, plain.initial(r)) for r in roles for n, l in enumerate(local[r])]
        text = "; ".join(filter(None, before))
        if not all(holds(each, shared, local) for each in self.system.clauses.values()):
            return f"{text}\nwhere plain Python finds another clause broken"
        if not action and not holds(clause, shared, local):
            return text
        for n, own in enumerate(local[role] if role else [()]):
            for _, choices, shared2, own2 in plain.steps(role, n, shared, own, filter(None, [action])):
                after = {**local, **({role: [*local[role][:n], own2, *local[role][n + 1:]]} if role else {})}
                if not holds(clause, shared2, after):
                    changes = filter(None, (differences("", shared2, shared), differences("its ", own2, own)))
                    return f"{text}\n{title(role and f'{role}#{n}', action)}{neat(choices)} makes it {'; '.join(changes)}"
        return f"{text}\nwhere plain Python does not find this clause broken"


def differences(title: str, value: Any, usual: Any) -> str:
    """The fields of a NamedTuple that are not as usual."""
    different = [f"{f}={neat(v)}" for f, v in value._asdict().items() if v != getattr(usual, f)] if value else []
    return title + " ".join(different) if different else ""


def neat(x: Any) -> str:
    if isinstance(x, frozenset):
        return "{" + ", ".join(map(neat, sorted(x))) + "}"
    return "(" + ", ".join(map(neat, x)) + ")" if isinstance(x, tuple) else str(x)


# --- the tie to the model -----------------------------------------------------------------------------------------------

class Tie(NamedTuple):
    states: int
    pairs: int  # (shared, own local): all that the moves of a process depend on
    steps: int  # of these pairs
    actions: frozenset[str]  # that some step takes
    mismatches: tuple[str, ...]  # what the relation and the model do not have in common
    broken: tuple[str, ...]  # clauses that fail in a reachable state

    @property
    def holds(self) -> bool:
        return not self.mismatches and not self.broken


def tie(system: System, model: Model, scope: Scope) -> Tie:
    """In every reachable state of an instance: the relation's steps are the explorer's, labels and successors, the properties
    judge as the model's do, and every clause holds. What depends on a part of the state is compared once for each such part."""
    plain, (explorer, edges) = Plain(system, model.constants, scope), graph(model)
    mismatches = [f"initially {p.name}" for p in model.processes if p.role and p.local != plain.initial(p.role)]
    mismatches += ["initially"] if model.shared != plain.initial("") else []
    mismatches += [f"the actions of {p.name}" for p in model.processes if [*p.actions] != [*system.actions[p.role]]]
    mismatches += ["the properties"] if [*model.always] != [*system.properties] else []
    pairs, combinations, steps, actions, broken = set(), set(), 0, set(), set()
    for packed, moves in edges.items():
        shared, local = explorer.unpack(packed)
        for p, process in enumerate(model.processes):
            if (p, shared, local[p]) not in pairs:
                pairs.add((p, shared, local[p]))
                theirs = {(action, choices, after.shared, after.locals[p]) for (name, action, choices), successor in moves
                          if name == process.name for after in [explorer.unpack(successor)]}
                ours = set(plain.steps(process.role, process.index, shared, local[p], system.actions[process.role]))
                steps += len(theirs)
                actions |= {title(process.role, action) for action, *_ in theirs}
                mismatches += [f"only the {who}: {process.name} {neat(step)} from {neat((shared, local[p]))}"
                               for who, only in (("model", theirs - ours), ("relation", ours - theirs)) for step in only]
        by_role = {role: [(process.index, l) for process, l in zip(model.processes, local) if process.role == role]
                   for role in system.roles}
        for roles in {of_roles(clause) for clause in system.clauses.values()}:
            for given in itertools.product(*map(by_role.get, roles)):
                if (roles, shared, given) not in combinations:
                    combinations.add((roles, shared, given))
                    broken |= {name for name, clause in system.clauses.items()
                               if of_roles(clause) == roles and not plain.holds(clause, shared, *given)}
                    mismatches += [f"{name} from {neat((shared, given))}" for name, holds in system.properties.items()
                                   if of_roles(holds) == roles and name in model.always and plain.holds(holds, shared, *given)
                                   != model.always[name][1](model.constants, shared, *(l for _, l in given))]
    return Tie(len(edges), len(pairs), steps, frozenset(actions), tuple(sorted(mismatches)), tuple(sorted(broken)))

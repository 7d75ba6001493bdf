"""Safety without bounds: from every state that satisfies the concrete invariant, every step of a concrete relation is a step of
an abstract one under a mapping, or leaves the mapped state as it is. So what is proved of the abstract relation holds in every
mapped state, and is not proved again.

The mapping is written in the words of a relation. For each concrete action it has a plan: the abstract actions to take, in
order, with their choices, and each under a condition. Nothing is searched, so a query is one implication: the guard of a
planned action, or one field of the abstract state, which must be what the mapping says after the concrete step.

A plan may name values by what they are, such as the file whose updates are those of the base. They are parameters after those
of the concrete action, and the plan's first result defines them. That such values exist is assumed here. small.py checks it in
the reachable states of instances.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from timeit import default_timer  # only to report what Z3 took; no verdict depends on it
from typing import Any, NamedTuple

import z3

from highwater.model.core import Model
from highwater.model.proofs.engine.inductive import TIMEOUT_MS, Proof, Row, verdict_of
from highwater.model.proofs.engine.logic import And, If, Implies, Not
from highwater.model.proofs.engine.symbolic import Symbolic
from highwater.model.proofs.engine.system import Misnamed, Scope, System, View, parameters, title

SHORT, LONG = 250_000, 2_500_000  # limits of the first two attempts, and of the others, in Z3's own count of its work
SEEDS = 6  # other attempts: whether Z3 finds a proof of nested quantifiers may depend on its random choices
SHOWN = "is no step of"

Pair = tuple[View, Any]  # the shared part, and the local part of a process; None for the store, and for what is no client


class Taken(NamedTuple):
    """An abstract action in a plan."""

    action: str
    choices: tuple = ()  # as the abstract relation takes them
    when: Any = True


Plan = Callable[..., tuple[Any, tuple[Taken, ...]]]  # (c, s, w, *choices, *named values) -> their definition, actions


class Refinement(NamedTuple):
    """A mapping of one relation onto another. A rigid field of the same name is the same field in both."""

    names: tuple[str, str]  # of the concrete model, and of the abstract one
    concrete: System
    abstract: System
    roles: Mapping[str, str]  # concrete role -> abstract role; processes of other roles are no clients of the abstract model
    shared: Callable[[Any, View], dict[str, Any]]  # (constants, shared part) -> abstract fields
    locals: Mapping[str, Callable[[Any, View, View], dict[str, Any]]]  # role -> f(constants, rigid fields, local part)
    plans: Mapping[str, Mapping[str, Plan]]  # role -> action -> plan; without one the mapped state must stay as it is
    facts: tuple[Callable, ...]  # what the rigid fields mean, as clauses
    onto: Callable[[Any], Model]  # concrete constants -> the abstract model
    scope: Callable[[Any], Scope]  # of both
    shown: tuple[Callable, ...] = ()  # clauses of the states that the model can write; no proof uses them, only what is shown
    forgets: bool = True  # the abstract model has an action with which a client forgets any fact


class Goal(NamedTuple):
    """A condition on a step: the guard of the abstract action `taken`; without one, that `field` is as mapped."""

    role: str
    field: str
    holds: Any
    taken: Taken | None
    reached: Pair  # the abstract state before the action; of a field, after all of them
    wanted: Pair  # what the mapping says after the concrete step

    @property
    def name(self) -> str:
        return f"{self.taken.action} is possible" if self.taken else f"{title(self.role, self.field)} is as mapped"


class Way(NamedTuple):
    """One way in which a process may take an action, with the values that the plan names."""

    guard: Any  # of the concrete action, and the definition of the values
    before: Pair  # concrete: the shared part, and the local part of the process
    after: Pair
    plan: tuple[Taken, ...]


def joined(of: Refinement) -> System:
    """Return the concrete system with the rigid fields of both."""
    return of.concrete._replace(
        rigid={**of.abstract.rigid, **of.concrete.rigid}, scope=of.scope(None),
        meaning=lambda c: {**of.abstract.meaning(of.onto(c).constants), **of.concrete.meaning(c)})


def mapped(of: Refinement, c: Any, role: str, s: View, w: Any) -> Pair:
    """Return the abstract shared part, and the local part; None for a process that is no client. A local part is mapped by
    itself, so it sees of the shared part only the rigid fields."""
    rigid = {f: s.fields[f] for f in (*of.abstract.rigid, *of.concrete.rigid)}
    shared = View(s.reading, None, {**checked(of, "", of.shared(c, s)), **rigid})
    if w is None or role not in of.roles:
        return shared, None
    fields = checked(of, of.roles[role], of.locals[role](c, View(s.reading, None, rigid), w))
    return shared, View(s.reading, w.me, fields, of.roles[role])


def checked(of: Refinement, role: str, fields: dict[str, Any]) -> dict[str, Any]:
    if unlike := fields.keys() ^ of.abstract.fields[role].keys():
        raise Misnamed(f"the mapping onto {of.names[1]} and its fields differ in {', '.join(sorted(unlike))}")
    return fields


def ways(of: Refinement, c: Any, role: str, action: str, s: View, w: Any, choose: Callable) -> Iterator[Way]:
    """Yield the ways in which a process may take an action; `choose(sorts)` gives tuples of values."""
    relation, plan = of.concrete.actions[role][action], of.plans.get(role, {}).get(action)
    sorts = parameters(relation)
    named = parameters(plan)[len(sorts):] if plan else ()
    for xs in choose(sorts):
        moves = [move for move in relation(c, s, w, *xs) if move[0] is not False]
        for values in choose(named) if moves else ():
            defined, planned = plan(c, s, w, *xs, *values) if plan else (True, ())
            for guard, _, s2, w2 in moves:
                if (both := And(guard, defined)) is not False:
                    yield Way(both, (s, w), (s2, w2), planned)


def goals(of: Refinement, c: Any, role: str, way: Way) -> Iterator[Goal]:
    """Yield what must hold of a step: the guards of the plan, then each abstract field."""
    constants, there = of.onto(c).constants, of.roles.get(role, "")
    reached, wanted = mapped(of, c, role, *way.before), mapped(of, c, role, *way.after)
    for taken in way.plan:
        relation = of.abstract.actions[there].get(taken.action) if role in of.roles or not role else None
        if relation is None:
            raise Misnamed(f"the mapping names {taken.action}, and {of.names[1]} has no such action of "
                           f"{there or ('these clients' if role else 'the store')}")
        moves = [move for move in relation(constants, *reached, *taken.choices) if move[0] is not False]
        if len(moves) > 1:
            raise Misnamed(f"{taken.action} of {of.names[1]} may go {len(moves)} ways: its choices must tell them apart")
        guard, _, s, w = moves[0] if moves else (False, (), *reached)
        yield Goal(there, "", Implies(taken.when, guard), taken, reached, wanted)
        reached = chosen(taken.when, s, reached[0]), chosen(taken.when, w, reached[1])
    for at, name in enumerate(("", there) if wanted[1] else ("",)):
        for f, signature in of.abstract.fields[name].items():
            less = of.forgets and at == 1 and signature[-1] is bool
            yield Goal(name, f, alike(way.before[0], signature, wanted[at].fields[f], reached[at].fields[f], less),
                       None, reached, wanted)


def chosen(when: Any, new: Any, old: Any) -> Any:
    """Return the view `new` under a condition, and else `old`."""
    if when is True or new is old:
        return new

    def either(f: str) -> Any:
        x, y = new.fields[f], old.fields[f]
        if x is y:
            return x
        return (lambda *xs: If(when, x(*xs), y(*xs))) if callable(x) or callable(y) else If(when, x, y)

    return View(new.reading, new.me, {f: either(f) for f in new.fields}, new.role)


def alike(s: View, signature: tuple, x: Any, y: Any, less: bool = False) -> Any:
    """Say that a field is the same in both states, or, where a client may forget, true only where it is in the second."""
    def of(*xs: Any) -> Any:
        one, two = (value(*xs) if callable(value) else value for value in (x, y))
        return Implies(one, two) if less else one == two

    def every(sorts: tuple, xs: tuple) -> Any:
        return s.every(sorts[0], lambda value: every(sorts[1:], (*xs, value))) if sorts else of(*xs)

    return every(signature[:-1], ())


# --- the queries

def prove(of: Refinement, c: Any, enables: Callable[[str, str], bool] | None = None,
          explain: Callable[[str, str], str] | None = None, progress: Callable[[Row], None] | None = None,
          timeout_ms: int = TIMEOUT_MS, never: frozenset[str] = frozenset()) -> Proof:
    """Prove that every step refines, and that the initial state is mapped to the initial one.

    The constants `c` bound nothing, and with them the concrete invariant must be proved. `enables(role, action)` and
    `explain(role, action)` look for a step and for one that does not refine (small.py). `never`: the actions that are to be
    impossible. Raises Misnamed if the mapping does not fit.
    """
    start, rows, possible, disabled, system = default_timer(), [], {}, [], joined(of)

    def ask(name: str, clause: str, holds: Any, attempts: Iterable[tuple[Any, ...]], *action: str) -> None:
        """Try each attempt: a limit, a seed for Z3's random choices, and facts. After two, look for a step that fails."""
        began, verdict, text = default_timer(), "", ""
        for number, (limit, seed, *facts) in enumerate(attempts):
            if number == 2 and explain:
                text = explain(*action)
                if SHOWN in text:  # also where Z3 gave up without bounds, and a small state will do
                    verdict = "fails"
                    break
            verdict = verdict_of(solver(timeout_ms, limit, seed, *facts, [Not(holds)]))
            if verdict == "proved":
                break
        rows.append(Row(name, clause, verdict, (default_timer() - began) * 1000, text * (verdict != "proved")))
        if progress:
            progress(rows[-1])

    logic = Symbolic(system)
    for clause, holds in initially(of, c, logic):
        ask("Init", clause, holds, [(LONG, 0, of_rigid(of, c, logic), logic.definitions)])
    for role, action in ((role, action) for role, actions in of.concrete.actions.items() for action in actions):
        logic, name = Symbolic(system), title(role, action)
        whole = logic.whole()
        w = whole.local(role, logic.constant(system.roles[role])) if role else None
        there = list(ways(of, c, role, action, whole.shared, w, unknown(logic)))
        for way in there:
            wanted = list(goals(of, c, role, way))
            few = [*of_rigid(of, c, logic), *logic.definitions, way.guard]
            invariant = [logic.hypothesis(c, each) for each in of.concrete.clauses.values()]
            if enables and name not in possible:
                possible[name] = enables(role, action)
            for goal in wanted:  # most goals need no invariant, and without it a query is small
                attempts = [(SHORT, 0, few), (SHORT, 0, invariant, few), *((LONG, n, invariant, few) for n in range(SEEDS))]
                ask(name, goal.name, goal.holds, attempts, role, action)
        if not there:
            disabled.append(name)
    return Proof(tuple(rows), possible, tuple(disabled), never, (default_timer() - start) * 1000)


def of_rigid(of: Refinement, c: Any, logic: Symbolic) -> list:
    return [logic.hypothesis(c, fact) for fact in of.facts]


def solver(timeout_ms: int, rlimit: int, seed: int, *facts: Iterable) -> z3.Solver:
    s = z3.SimpleSolver()
    s.set("rlimit", rlimit)
    s.set("random_seed", seed)
    s.set("timeout", timeout_ms)
    for those in facts:
        s.add(*those)
    return s


def initially(of: Refinement, c: Any, logic: Symbolic) -> Iterator[tuple[str, Any]]:
    """Yield what must hold of the initial state: each field of the mapped state is the abstract model's."""
    start, usual = logic.start(c), of.abstract.initial(of.onto(c).constants)
    for role in ("", *of.roles):
        w = start.local(role, logic.constant(of.concrete.roles[role])) if role else None
        there = mapped(of, c, role, start.shared, w)[bool(role)]
        for f, signature in of.abstract.fields[of.roles.get(role, "")].items():
            yield f"{title(of.roles.get(role, ''), f)} is as mapped", alike(
                start.shared, signature, there.fields[f], usual[of.roles.get(role, "")][f])


def unknown(logic: Symbolic) -> Callable[[tuple], list[tuple]]:
    """Return the choice of a proof: one new constant of each sort."""
    return lambda sorts: [tuple(map(logic.constant, sorts))]


def combinations(scope: Scope) -> Callable[[tuple], list[tuple]]:
    """Return the choices of a finite reading."""
    return lambda sorts: [*itertools.product(*(scope[sort] for sort in sorts))]

"""Safety: the proof is about the model: in every state that is compared, the relation and the model have the same steps.

The relation is a second text, so the plain reading evaluates it and compares it with the model. Labels and successors of every
process must be equal, properties must agree, and every clause of the invariant must hold. All reachable states of small
instances are compared (`tie`), and the states on random walks through a larger one (`walked`). Nothing is compared beyond its
bounds. A function of a part of the state is compared once for each such part. The comparison calls the model's own actions, not
an engine, whose errors would be shared.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import NamedTuple

from highwater.model.core import Label, Local, Model, Process, Shared, State
from highwater.model.proofs.engine.plain import Plain, neat, rows, variables
from highwater.model.proofs.engine.system import Misnamed, Scope, System, of_roles, title

MANY = 10  # mismatches are reported; the first are the nearest to the initial state
STALL = 15  # number of steps of a walk for which the same processes are slow


class Tie(NamedTuple):
    states: int
    pairs: int  # number of pairs (shared, own local) that were compared; the moves of a process depend on nothing else
    steps: int  # number of steps from these pairs
    actions: frozenset[str]  # the actions that some step takes
    mismatches: tuple[str, ...]  # steps that only the relation or only the model has
    broken: tuple[str, ...]  # clauses that fail in a state

    @property
    def holds(self) -> bool:
        return not self.mismatches and not self.broken


def tie(system: System, model: Model, scope: Scope, nearest: int | None = None) -> Tie:
    """Compare every reachable state of an instance breadth-first, or the `nearest` ones."""
    try:
        comparison = Comparison(system, model, scope)
        initial = State(model.shared, tuple(process.local for process in model.processes))
        seen, queue = {initial}, [initial]
        for state in queue:  # grows while we walk it
            for _, successor in comparison.compare(state):
                if successor not in seen and (nearest is None or len(seen) < nearest):
                    seen.add(successor)
                    queue.append(successor)
        return comparison.result(len(seen))
    except Misnamed as error:
        return Tie(0, 0, 0, frozenset(), (str(error),), ())


def walked(system: System, model: Model, scope: Scope, walks: int, steps: int) -> Tie:
    """Compare the states on `walks` random walks of at most `steps` steps; they are always the same walks.

    Some processes are slow for a while, so that they meet changes that others made meanwhile. A process does frequent actions
    less often, so that a walk gets far. The processes that get a turn are compared; at a walk's end also the clauses and
    properties.
    """
    try:
        comparison, states = Comparison(system, model, scope), 0
        for walk in range(walks):
            state, taken = State(model.shared, tuple(process.local for process in model.processes)), {}
            for step in range(steps):
                found = turn(comparison, state, taken, (walk, step))
                if found is None:
                    break
                label, state = found
                taken[label[:2]] = taken.get(label[:2], 1) + 1
                states += 1
            comparison.judge_all(state)
        return comparison.result(states)
    except Misnamed as error:
        return Tie(0, 0, 0, frozenset(), (str(error),), ())


def turn(comparison: "Comparison", state: State, taken: dict, at: tuple[int, int]) -> tuple[Label, State] | None:
    """Return a step of the first process that can take one; None if none can.

    The order of the processes is drawn anew at each step; their weights in it are drawn anew every STALL steps.
    """
    walk, step = at
    fast = [drawn(walk, step // STALL, n, "fast") ** 3 for n in range(len(comparison.model.processes))]
    for n in sorted(range(len(fast)), key=lambda n: fast[n] * drawn(walk, step, n), reverse=True):
        moves = [*comparison.after(n, state)]
        if moves:
            weights = [taken.get(label[:2], 1) ** -2 for label, _ in moves]
            ahead = itertools.accumulate(weights)
            rest = drawn(walk, step) * sum(weights)
            return next((move for move, weight in zip(moves, ahead) if rest < weight), moves[-1])
    return None


def drawn(*what: int | str) -> float:
    """Return a number from 0 to 1, the same for the same arguments."""
    return int.from_bytes(blake2b(repr(what).encode(), digest_size=8).digest()) / 2 ** 64


def by_roles(conditions: Mapping[str, Callable]) -> dict[tuple[str, ...], dict[str, Callable]]:
    """Return the conditions on the same roles together."""
    found: dict[tuple[str, ...], dict[str, Callable]] = {}
    for name, holds in conditions.items():
        found.setdefault(of_roles(holds), {})[name] = holds
    return found


class Comparison:
    """Compares a relation with a model. Raises Misnamed if one text names a variable that the other does not have."""

    def __init__(self, system: System, model: Model, scope: Scope):
        self.system, self.model, self.plain = system, model, Plain(system, model.constants, scope)
        self.moves: dict[tuple[int, Shared, Local], list[tuple]] = {}
        self.judged: set[tuple] = set()
        self.steps, self.actions, self.broken, self.mismatches = 0, set(), set(), []
        self.clauses, self.properties = by_roles(system.clauses), by_roles(system.properties)
        self.broken |= {name for name, axiom in system.axioms.items() if self.plain.failure(axiom, model.shared) is not None}
        self.processes = {role: [n for n, process in enumerate(model.processes) if process.role == role]
                          for role in system.roles}
        self.same("the properties", model.always, system.properties)
        for role, process in {process.role: process for process in model.processes}.items():
            self.same(f"the actions of {role or 'the store'}", process.actions, system.actions.get(role, {}))
            local = process.local if role else model.shared
            self.plain.see(role, 0, local)  # every variable of the relation is there
            theirs, ours = variables((role, local)), variables((role, self.plain.initial(role)))
            if theirs != ours:
                self.differ("initially, in the model → in the relation", rows(theirs, theirs, ours))

    def same(self, what: str, theirs: Iterable[str], ours: Iterable[str]) -> None:
        for who, names in (("the model", {*theirs} - {*ours}), ("the relation", {*ours} - {*theirs})):
            if names:
                self.differ(f"{what}: only {who} has {', '.join(sorted(names))}")

    def differ(self, what: str, table: Iterable[str] = ()) -> None:
        text = "\n  ".join([what, *table])
        if len(self.mismatches) < MANY and text not in self.mismatches:
            self.mismatches.append(text)

    def compare(self, state: State) -> Iterator[tuple[Label, State]]:
        """Yield the model's steps from this state, after comparing them with the relation's."""
        self.judge_all(state)
        for n in range(len(self.model.processes)):
            yield from self.after(n, state)

    def after(self, n: int, state: State) -> Iterator[tuple[Label, State]]:
        """Yield the model's steps of process `n`, after comparing them with the relation's."""
        process = self.model.processes[n]
        for action, choices, shared, local in self.moves_of(n, process, state.shared, state.locals[n]):
            yield ((process.name, action, choices),
                   State(shared, (*state.locals[:n], local, *state.locals[n + 1:])))

    def judge_all(self, state: State) -> None:
        for roles in self.clauses | self.properties:
            for given in itertools.product(*map(self.processes.__getitem__, roles)):
                processes = tuple((self.model.processes[n].index, state.locals[n]) for n in given)
                if (roles, state.shared, processes) not in self.judged:
                    self.judged.add((roles, state.shared, processes))
                    self.judge(roles, state.shared, processes)

    def judge(self, roles: tuple[str, ...], shared: Shared, processes: tuple[tuple[int, Local], ...]) -> None:
        """Check that every clause holds for these processes, and that each property agrees with the model."""
        def fails(holds: Callable) -> bool:
            return self.plain.failure(holds, shared, *([each] for each in processes)) is not None
        self.broken |= {name for name, clause in self.clauses.get(roles, {}).items() if fails(clause)}
        for name, ours in self.properties.get(roles, {}).items():
            if name in self.model.always:
                _, theirs = self.model.always[name]
                if fails(ours) == theirs(self.model.constants, shared, *(local for _, local in processes)):
                    here = variables(("", shared), *((f"{role}#{me}", local) for role, (me, local) in zip(roles, processes)))
                    who = "relation" if fails(ours) else "model"
                    self.differ(f"only the {who} finds {name} broken", rows(dict.fromkeys(here), here, here))

    def moves_of(self, n: int, process: Process, shared: Shared, local: Local) -> list[tuple[str, tuple, Shared, Local]]:
        if (n, shared, local) not in self.moves:
            theirs = [(action, *move) for action, moves in process.actions.items()
                      for move in moves(self.model.constants, process.index, shared, local)]
            ours = [*self.plain.steps(process.role, process.index, shared, local, self.system.actions.get(process.role, ()))]
            self.moves[n, shared, local] = theirs
            self.steps += len({*theirs})
            self.actions |= {title(process.role, action) for action, *_ in theirs}
            for who, only in (("model", {*theirs} - {*ours}), ("relation", {*ours} - {*theirs})):
                for action, choices, *after in sorted(only, key=neat):
                    usual, before, then = (variables(("", s), (process.name, own)) for s, own in (
                        (self.model.shared, process.local), (shared, local), after))
                    self.differ(f"only the {who}: {title(process.name, action)}{neat(choices)}", rows(usual, before, then))
        return self.moves[n, shared, local]

    def result(self, states: int) -> Tie:
        return Tie(states, len(self.moves), self.steps, frozenset(self.actions), tuple(self.mismatches),
                   tuple(sorted(self.broken)))

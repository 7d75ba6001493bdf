"""Safety: a property cannot distinguish the states that a reduced search leaves out from those it visits. This is checked.

**Symmetry**: states that differ only in the names of interchangeable clients represent one another. This is sound if renaming
is an automorphism: the moves of a renamed state are its moves, renamed, and no property distinguishes the two. `Symmetry`
checks this during the search, for each pair (shared, local) that it visits and each renaming.

**Merging**: an invisible action is taken in one step with the action before it. An action is invisible if only its own client
can see it: it reads nothing that others write, and writes nothing that others read. `merged` makes such a model from a model.
`merging_differs` says, for an instance, whether the result visits exactly the states of the whole graph in which no invisible
action is enabled.
"""

from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import permutations, product
from math import factorial, prod
from typing import Any

from highwater.model.core import Action, Bounds, Exploration, Label, Model, State, init
from highwater.model.explore.tabulated import BITS, FIELD, Explorer, explore, graph

Names = dict[str, tuple[int, ...]]  # role -> what client i of it is called
MANY = 5_040  # renamings: every state is told apart from so many others
ENDLESS = 100  # unseen actions in one step


class NotSymmetric(Exception):
    """A renaming that is declared in the model changes what the model does."""


class NotUnseen(Exception):
    """An action that is declared to be unseen can't be merged with the one before."""


class TooManyNames(OverflowError):
    """The renamings of this instance are too many to try them all for each state."""


def clients(model: Model, role: str) -> list[int]:
    """The places of a role's processes."""
    return [p for p, process in enumerate(model.processes) if process.role == role]


def group(model: Model, roles: list[str] | None = None) -> list[Names]:
    """Every renaming of the clients of the interchangeable roles; the first changes nothing."""
    roles = list(model.renamed) if roles is None else roles
    return [dict(zip(roles, names)) for names in product(*(permutations(range(len(clients(model, r)))) for r in roles))]


def turns(model: Model) -> list[Names]:
    """Renamings of the clients of roles that no part names; in one or the other each is called as each other of its role.
    The first changes nothing."""
    of = {role: len(clients(model, role)) for role, rename in model.renamed.items() if not rename}
    return [{role: tuple((i + k) % n for i in range(n)) for role, n in of.items()} for k in range(max((1, *of.values())))]


def renamed(model: Model, names: Names, part: Any) -> Any:
    """A shared or a local part under other names."""
    for role, calling in names.items():
        rename = model.renamed[role]
        if rename is not None and calling != tuple(range(len(calling))):
            part = rename(part, calling)
    return part


def places(model: Model, names: Names) -> list[int]:
    """p -> the place where the process at p stands once it is renamed."""
    return [clients(model, process.role)[names[process.role][process.index]] if process.role in names else p
            for p, process in enumerate(model.processes)]


def renaming(model: Model, names: Names) -> Callable[[State], State]:
    moved = places(model, names)

    def rename(state: State) -> State:
        locals_ = [None] * len(state.locals)
        for p, local in enumerate(state.locals):
            locals_[moved[p]] = renamed(model, names, local)
        return State(renamed(model, names, state.shared), tuple(locals_))

    return rename


class Symmetry:
    """The renamings of an explorer's packed states, as tables of numbers; and the check that they may be used.
    Raises TooManyNames."""

    def __init__(self, x: Explorer):
        model = x.model
        self.x = x
        roles = {role: len(clients(model, role)) for role, rename in model.renamed.items() if rename}
        if (many := prod(map(factorial, roles.values()))) > MANY:
            raise TooManyNames(f"{model.name}: {many:,} renamings of {', '.join(f'{n} {role}s' for role, n in roles.items())}, "
                               f"more than {MANY:,}; symmetry is for fewer clients")
        named = group(model, [*roles])
        # Where no part names the clients of a role, all there is to a renaming is who stands where: so each need only stand
        # once in the place of each other, which so many turns around do.
        self.all = [({**names, **turned}, g, places(model, {**names, **turned}))
                    for g, names in enumerate(named) for turned in turns(model)][1:]
        self.named = [(names, [BITS * (place + 1) for place in places(model, names)]) for names in named]
        # Where nobody names the clients of a role their locals may stand in any order: in that of their numbers.
        self.nameless = [[BITS * (p + 1) for p in clients(model, r)] for r, rename in model.renamed.items() if not rename]
        self.least: dict[int, tuple[int, list[int]]] = {}  # shared -> the least it can be called, and by which of `named`
        self.renumbered: list[list[dict[int, int]]] = [[{} for _ in x.values] for _ in named]
        self.arrays: list[list[Any]] = []  # renumbered, for numpy
        self.alike: set[tuple[int, int]] = set()  # shared parts that every property judges alike
        self.properties = x.judges  # all: nothing has been witnessed yet
        x.symmetry = self

    def number(self, g: int, part: int, number: int) -> int:
        """Return the number of a part after renaming `g` of `named`."""
        known = self.renumbered[g][part]
        if number not in known:
            names, value = self.named[g][0], self.x.values[part][number]
            back = {role: tuple(map(calling.index, range(len(calling)))) for role, calling in names.items()}
            after = renamed(self.x.model, names, value)
            if renamed(self.x.model, back, after) != value:
                raise NotSymmetric(f"{self.x.model.name}: to rename by {names} and back again changes {value}")
            known[number] = self.x.intern(part, after)
        return known[number]

    def close(self) -> None:
        """Numbers for every part under every renaming; `arrays[g][part]` is then the table of all of them."""
        import numpy as np
        if not self.arrays:
            self.arrays = [[np.zeros(0, np.int64) for _ in self.x.values] for _ in self.named]
        while any(len(array) < len(values) for array, values in zip(self.arrays[0], self.x.values)):
            for g, arrays in enumerate(self.arrays):
                for part, values in enumerate(self.x.values):
                    more = [self.number(g, part, number) for number in range(len(arrays[part]), len(values))]
                    arrays[part] = np.concatenate((arrays[part], np.array(more, np.int64)))

    def canonical(self, packed: int) -> int:
        """The least of the packed states that differ from this one by a renaming."""
        shared = packed & FIELD
        if shared not in self.least:
            called = [self.number(g, 0, shared) for g in range(len(self.named))]
            self.least[shared] = min(called), [g for g, number in enumerate(called) if number == min(called)]
        least, renamings = self.least[shared]
        best = -1
        for g in renamings:
            state, known = least, self.renumbered[g]
            for part, shift in enumerate(self.named[g][1], 1):
                local = packed >> BITS * part & FIELD
                number = known[part].get(local)
                state |= (self.number(g, part, local) if number is None else number) << shift
            for shifts in self.nameless:
                locals_ = sorted(state >> shift & FIELD for shift in shifts)
                for shift, local in zip(shifts, locals_):
                    state += (local - (state >> shift & FIELD)) << shift
            best = state if best < 0 or state < best else best
        return best

    def check(self, p: int, shared: int, local: int, moves: list[tuple[Label, int, int]]) -> None:
        """Raises NotSymmetric unless under each renaming the pair's moves are these, renamed, and every property judges
        it alike."""
        model, part, values = self.x.model, p + 1, self.x.values
        for names, g, place in self.all:
            q = place[p]
            shared_, local_ = self.number(g, 0, shared), self.number(g, part, local)
            ours = {(label[1], self.number(g, 0, shared2), self.number(g, part, local2)) for label, shared2, local2 in moves}
            theirs = {(label[1], shared2, local2) for label, shared2, local2 in self.x.moves(q, shared_, local_)}
            for action, shared2, local2 in sorted(ours ^ theirs):
                raise NotSymmetric(
                    f"{model.name}: {model.processes[p].name}.{action} does not do the same under other names: {names}\n"
                    f"  from      {values[0][shared]}, {values[part][local]}\n"
                    f"  renamed   {values[0][shared_]}, {values[part][local_]}\n"
                    f"  only {'the step, renamed,' if (action, shared2, local2) in ours else 'a step from the renamed state'} "
                    f"leads to\n            {values[0][shared2]}, {values[part][local2]}")
            if (shared, shared_) not in self.alike:
                self.alike.add((shared, shared_))
                self.check_verdicts(names, -1, (shared, -1), (shared_, -1))
            self.check_verdicts(names, p, (shared, local), (shared_, local_))

    def check_verdicts(self, names: Names, p: int, one: tuple[int, int], other: tuple[int, int]) -> None:
        x = self.x
        for name, answers in self.properties[p]:
            if x.verdict(name, answers, p, *one) != x.verdict(name, answers, p, *other):
                told = [(x.values[0][number], *(() if p < 0 else (x.values[p + 1][local],))) for number, local in (one, other)]
                raise NotSymmetric(f"{x.model.name}: {name} tells clients apart that are called {names}: {told[0]}, {told[1]}")


# --- merging

def merged(model: Model) -> Model:
    """The model whose processes take their unseen actions at once, in one step with the action before. Its labels hold
    what was taken after as choices: ("Collector#0", "List", ("Compute", (2,))). Its actions raise NotUnseen where there is
    no end to unseen ones."""
    processes = []
    for process in model.processes:
        unseen = {name: action for name, action in process.actions.items() if name in model.unseen.get(process.role, ())}
        seen = {name: fused(action, unseen) for name, action in process.actions.items()} if unseen else process.actions
        processes.append(process._replace(actions=seen))
    return model._replace(processes=tuple(processes), unseen={})


def fused(action: Action, unseen: dict[str, Action]) -> Action:
    def moves(c: Any, me: int, shared: Any, local: Any) -> Iterator:
        for choices, shared2, local2 in action(c, me, shared, local):
            yield from onward(c, me, choices, shared2, local2)

    def onward(c: Any, me: int, choices: tuple, shared: Any, local: Any, taken: int = 0) -> Iterator:
        if taken > ENDLESS:
            raise NotUnseen(f"{choices[-2]} cannot be merged: {taken} unseen actions follow each other, and there are more")
        steps = [(name, *move) for name, generator in unseen.items() for move in generator(c, me, shared, local)]
        for name, chosen, shared2, local2 in steps:
            yield from onward(c, me, (*choices, name, chosen), shared2, local2, taken + 1)
        if not steps:
            yield choices, shared, local

    return moves


def resting(model: Model, state: State) -> bool:
    """No client has an unseen action to take."""
    return not any(True for process, local in zip(model.processes, state.locals)
                   for name in model.unseen.get(process.role, ())
                   for _ in process.actions[name](model.constants, process.index, state.shared, local))


# --- both, held against the whole graph of an instance

class Whole:
    """An instance's whole graph, and what searches of it find. Each is computed once, when it is first asked for."""

    def __init__(self, model: Model, found: Exploration | None = None):
        self.model = model
        if found:
            self.found = found

    @cached_property
    def found(self) -> Exploration:
        return explore(self.model)

    @cached_property
    def symmetric(self) -> Exploration:
        """The reduced search. Raises NotSymmetric."""
        return explore(self.model, symmetry=True)

    @cached_property
    def states(self) -> frozenset[State]:
        x, edges = graph(self.model)
        return frozenset(map(x.unpack, edges))


def symmetry_differs(of: Model | Whole) -> str:
    """Empty if the states that a reduced search visits are one of each set of states that a renaming makes of one another
    in the whole graph, and both find a violation or none; else what is not so."""
    of = of if isinstance(of, Whole) else Whole(of)
    names = group(of.model)
    if len(names) == 1:
        return ""  # no client has another of its role
    rename = [renaming(of.model, each) for each in names]
    orbits = {frozenset(r(state) for r in rename) for state in of.states}
    for orbit in orbits:
        for state in orbit - of.states:
            return f"only by renaming there is {state}"
    try:
        found = of.symmetric
    except NotSymmetric as error:
        return str(error)
    return agreed(of.found, found, len(orbits))


def merging_differs(of: Model | Whole) -> str:
    """Empty if the merged model's states are the initial one and those of the whole graph in which no unseen action is
    enabled, and both find a violation or none; else what is not so."""
    of = of if isinstance(of, Whole) else Whole(of)
    model = of.model
    if not any(model.unseen.values()):
        return ""  # the merged model is the model
    resting_ = {state for state in of.states if resting(model, state)} | {init(model)}
    small = merged(model)
    y, edges = graph(small)
    reached = {y.unpack(packed) for packed in edges}
    for state in reached ^ resting_:
        return f"only {'the merged model' if state in reached else 'the whole graph'} has {state}"
    return agreed(of.found, explore(small), len(reached))


def small_enough(model: Model, states: int) -> bool:
    """Whether so many are all of its states, violations or not."""
    return not explore(model._replace(always={}, sometimes={}), bounds=Bounds(states=states)).stopped


def agreed(whole: Exploration, reduced: Exploration, states: int) -> str:
    if bool(whole.violated) != bool(reduced.violated):
        return f"violated: {whole.violated} in the whole graph, {reduced.violated} in the reduced"
    if not whole.violated and reduced.states != states:
        return f"{reduced.states} states, where the whole graph has {states} that differ"
    return ""

"""Safety: a verdict names every reachable state of the instance, or a shortest path to the state that breaks a property.

A model is shared state plus processes. An action is a generator over what its process can see: the guard is `if`, a
choice is `for`, the effect is a yield:

    def create_next(c, me, s, w):           # constants, own index, shared state, own local state
        if w.pc == "Ready" and ...:
            for pin in (False, True):
                yield (pin,), s._replace(...), w._replace(...)      # choices, shared', local'

so a label is (process, action, choices). States are immutable: ints, strings, tuples, frozensets.

Because an action sees only (shared, its own local), its moves are a function of that pair. `explore` interns both parts
as small integers, packs a global state into one integer, asks the readable action once for each pair, and keeps the
answer as integer differences: to explore is then to mask, look up and add.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

Shared = Any
Local = Any
Label = tuple[str, str, tuple]  # process, action, choices
Action = Callable[..., Iterator[tuple[tuple, Shared, Local]]]


class Process(NamedTuple):
    name: str  # "Writer#0"
    role: str  # "Writer"
    index: int
    local: Local  # initial
    actions: dict[str, Action]


Property = tuple[str | None, Callable[..., bool]]  # (None, f(c, shared)), or (role, f(c, shared, local)) of each process


class Model(NamedTuple):
    """The last four speak of roles: which actions are weakly fair, which nobody but their own client can see (Accept
    of a value read before), and which clients are interchangeable: `renamed[role](part, names)` is a shared or local
    part with client i of that role called names[i], and None instead of a function says that no part names a client."""

    name: str
    constants: Any
    shared: Shared  # initial
    processes: tuple[Process, ...]
    always: dict[str, Property]
    sometimes: dict[str, Property]
    eventually: dict[str, Property] = {}  # noqa: RUF012  # from every state on, again and again, if the fair actions are fair
    fair: dict[str, frozenset[str]] = {}  # noqa: RUF012
    unseen: dict[str, frozenset[str]] = {}  # noqa: RUF012
    renamed: dict[str, Callable[[Any, tuple[int, ...]], Any] | None] = {}  # noqa: RUF012


class State(NamedTuple):
    shared: Shared
    locals: tuple[Local, ...]


class Step(NamedTuple):
    label: Label
    state: State


class Exploration(NamedTuple):
    states: int
    transitions: int
    depth: int  # breadth-first levels after the initial state
    violated: str | None  # the `always` property that fails in the last state of `trace`
    trace: tuple[Step, ...]  # a shortest path to the violation; the first label is ("", "Init", ())
    fired: frozenset[tuple[str, str]]  # (role, action)
    never: tuple[str, ...]  # `sometimes` properties that no state witnesses (empty after a violation)
    complete: bool  # False: stopped at the bound on states or at a violation


BITS = 24  # of a packed state, for the shared part and for each local part: at most 16 million different values of each
FIELD = (1 << BITS) - 1


class Explorer:
    """The packed state space of one model. `table[p]`: (shared, local of p) packed -> tuple of (difference, label)."""

    def __init__(self, model: Model):
        self.model = model
        self.values: list[list[Any]] = [[] for _ in range(len(model.processes) + 1)]
        self.numbers: list[dict[Any, int]] = [{} for _ in self.values]
        self.masks = [FIELD | FIELD << BITS * (p + 1) for p in range(len(model.processes))]
        self.table: list[dict[int, tuple[int, ...]]] = [{} for _ in model.processes]
        self.labels: list[dict[int, tuple[Label, ...]]] = [{} for _ in model.processes]
        self.broken: dict[int, str] = {}  # the pair (shared, local of p) -> the property that it breaks
        self.fired: set[tuple[str, str]] = set()
        self.witnessed: set[str] = set()
        self.judged: dict[int, str | None] = {}
        self.initial = self.pack(State(model.shared, tuple(p.local for p in model.processes)))

    def intern(self, part: int, value: Any) -> int:
        number = self.numbers[part].setdefault(value, len(self.values[part]))
        if number == len(self.values[part]):
            if number > FIELD:
                raise OverflowError(f"{self.model.name}: more than {FIELD} different values of part {part}")
            self.values[part].append(value)
        return number

    def pack(self, state: State) -> int:
        packed = self.intern(0, state.shared)
        for part, local in enumerate(state.locals, 1):
            packed |= self.intern(part, local) << BITS * part
        return packed

    def unpack(self, packed: int) -> State:
        parts = [self.values[part][packed >> BITS * part & FIELD] for part in range(len(self.values))]
        return State(parts[0], tuple(parts[1:]))

    def expand(self, p: int, pair: int) -> tuple[int, ...]:
        """Ask the actions of process `p` for their moves from this pair, and the properties for their verdict of it."""
        model, process, part = self.model, self.model.processes[p], p + 1
        shared, local = self.values[0][pair & FIELD], self.values[part][pair >> BITS * part]
        self.judge(p, pair, shared, local)
        differences, labels = [], []
        for action, moves in process.actions.items():
            for choices, shared2, local2 in moves(model.constants, process.index, shared, local):
                successor = self.intern(0, shared2) | self.intern(part, local2) << BITS * part
                differences.append(successor - pair)
                labels.append((process.name, action, choices))
                self.fired.add((process.role, action))
        self.table[p][pair], self.labels[p][pair] = tuple(differences), tuple(labels)
        return self.table[p][pair]

    def judge(self, p: int, pair: int, shared: Shared, local: Local) -> None:
        c, role = self.model.constants, self.model.processes[p].role
        number = pair & FIELD
        if number not in self.judged:
            self.judged[number] = next(
                (n for n, (of, holds) in self.model.always.items() if of is None and not holds(c, shared)), None)
            self.witnessed |= {n for n, (of, holds) in self.model.sometimes.items() if of is None and holds(c, shared)}
        broken = self.judged[number] or next(
            (n for n, (of, holds) in self.model.always.items() if of == role and not holds(c, shared, local)), None)
        if broken:
            self.broken[pair] = broken
        self.witnessed |= {
            n for n, (of, holds) in self.model.sometimes.items()
            if of == role and n not in self.witnessed and holds(c, shared, local)}

    def successors(self, packed: int) -> Iterator[tuple[Label, int]]:
        for p, mask in enumerate(self.masks):
            pair = packed & mask
            differences = self.table[p].get(pair)
            if differences is None:
                differences = self.expand(p, pair)
            for difference, label in zip(differences, self.labels[p][pair]):
                yield label, packed + difference

    def path(self, parents: dict[int, int], packed: int) -> tuple[Step, ...]:
        """From the initial state to `packed`, following the parents that breadth-first search left."""
        steps: list[Step] = []
        while packed != self.initial:
            parent = parents[packed]
            label = next(label for label, successor in self.successors(parent) if successor == packed)
            steps.append(Step(label, self.unpack(packed)))
            packed = parent
        steps.append(Step(("", "Init", ()), self.unpack(packed)))
        return tuple(reversed(steps))


def explore(model: Model, max_states: int | None = None,
            progress: Callable[[int, int], None] | None = None) -> Exploration:
    """Breadth-first search from the initial state to the first violation of an `always` property, or to the end.

    `progress(states, depth)` is called once a level. `max_states` bounds the search (the result is then not complete).
    """
    x = Explorer(model)
    parents = {x.initial: x.initial}
    frontier, transitions, depth = [x.initial], 0, 0
    views = list(zip(x.masks, x.table, range(len(x.masks))))
    while frontier:
        following: list[int] = []
        for packed in frontier:
            for mask, table, p in views:
                pair = packed & mask
                differences = table.get(pair)
                if differences is None:
                    differences = x.expand(p, pair)
                    if pair in x.broken:
                        return Exploration(len(parents), transitions, depth, x.broken[pair],
                                           x.path(parents, packed), frozenset(x.fired), (), False)
                transitions += len(differences)
                for difference in differences:
                    successor = packed + difference
                    if successor not in parents:
                        parents[successor] = packed
                        following.append(successor)
        if progress:
            progress(len(parents), depth)
        if max_states is not None and len(parents) >= max_states and following:
            return Exploration(len(parents), transitions, depth, None, (), frozenset(x.fired), (), False)
        frontier = following
        depth += bool(following)
    never = tuple(n for n in model.sometimes if n not in x.witnessed)
    return Exploration(len(parents), transitions, depth, None, (), frozenset(x.fired), never, True)


def graph(model: Model) -> tuple[Explorer, dict[int, list[tuple[Label, int]]]]:
    """Every reachable packed state with its labelled edges, violations or not."""
    x = Explorer(model)
    edges: dict[int, list[tuple[Label, int]]] = {}
    stack = [x.initial]
    while stack:
        packed = stack.pop()
        if packed not in edges:
            edges[packed] = list(x.successors(packed))
            stack.extend(successor for _, successor in edges[packed])
    return x, edges


def always_possible(model: Model, goal: Callable[[Any, Shared], bool]) -> tuple[Step, ...] | None:
    """None if from every reachable state a state whose shared part satisfies `goal(c, shared)` can be reached;
    otherwise a shortest path to a state from which none can."""
    x, edges = graph(model)
    before: dict[int, list[int]] = {}
    for packed, moves in edges.items():
        for _, successor in moves:
            before.setdefault(successor, []).append(packed)
    reaching = {packed for packed in edges if goal(model.constants, x.values[0][packed & FIELD])}
    stack = list(reaching)
    while stack:
        for packed in before.get(stack.pop(), ()):
            if packed not in reaching:
                reaching.add(packed)
                stack.append(packed)
    parents, frontier = {x.initial: x.initial}, [x.initial]
    for packed in frontier:  # grows while we walk it: breadth first
        if packed not in reaching:
            return x.path(parents, packed)
        for _, successor in edges[packed]:
            if successor not in parents:
                parents[successor] = packed
                frontier.append(successor)
    return None

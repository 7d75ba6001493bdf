"""Safety: the search has the same states, edges and verdicts as model/explore/plain.py, but computes each move only once.

An action sees only (shared, its own local), so its moves are a function of that pair. `Explorer` interns both parts as small
integers and packs a global state into one integer. It calls the readable action once for each pair, or not at all if it was
called for a pair that differs only in fields it did not read. It stores the answer as integer differences. Exploring is then
masking, look-up and addition.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from highwater.model.core import Bounds, Exploration, Label, Local, Model, Process, Progress, State, Step, init
from highwater.model.explore.reads import Answers, NotPlain, asks_for_type, plain, recording, writes_of
from highwater.model.uncollected import uncollected

if TYPE_CHECKING:
    from highwater.model.explore.reductions import Symmetry

BITS = 24  # of a packed state, for the shared part and for each local part: at most 16 million different values of each
FIELD = (1 << BITS) - 1


class Explorer:
    """The packed state space of one model. `table[p]`: (shared, local of p) packed -> tuple of differences.

    The locals of one role share their numbers, so that a client's local means the same in another's place."""

    def __init__(self, model: Model):
        if not model.processes:  # somebody has to look at the shared part
            model = model._replace(processes=(Process("nobody", "nobody", 0, None, {}),))
        self.model = model
        self.values: list[list[Any]] = [[]]
        self.numbers: list[dict[Any, int]] = [{}]
        roles: dict[str, tuple[list, dict]] = {}
        for process in model.processes:
            values, numbers = roles.setdefault(process.role, ([], {}))
            self.values.append(values)
            self.numbers.append(numbers)
        self.masks = [FIELD | FIELD << BITS * (p + 1) for p in range(len(model.processes))]
        self.table: list[dict[int, tuple[int, ...]]] = [{} for _ in model.processes]
        self.labels: list[dict[int, tuple[Label, ...]]] = [{} for _ in model.processes]
        self.broken: dict[tuple[int, int], str] = {}  # (p, the pair) -> the property that it breaks
        self.fired: set[tuple[str, str]] = set()
        self.witnessed: set[str] = set()
        self.symmetry: Symmetry | None = None  # where one state stands for others
        # Shared parts by their fields, if they are records of the type of the first.
        self.names: tuple[str, ...] = getattr(model.shared, "_fields", ())
        self.fields: list[tuple[int, ...]] = []  # a shared part's number -> its fields' numbers; () if it is none of those
        self.shared: dict[tuple[int, ...], int] = {}  # and back
        self.field_values: list[list[Any]] = [[] for _ in self.names]
        self.field_numbers: list[dict[Any, int]] = [{} for _ in self.names]
        self.plans: list[dict[int, list[Answers]]] = [{} for _ in model.processes]  # by local: the actions that may fire
        self.idle: dict[tuple[int, str], dict[tuple[int, ...], set]] = {}  # see idles
        self.order = {name: number for number, name in enumerate(model.always)}
        self.judges = [self.properties(role) for role in (*(p.role for p in model.processes), None)]
        self.wholly = {name for name, (_, of) in model.always.items() if getattr(of, "reads_all", False)}  # asked of each pair
        self.sound: set[int] = set()  # shared parts that break no property
        self.locals: list[dict[int, tuple[int, ...]]] = [{} for _ in self.values]  # a local's number -> its fields' numbers
        self.field_of_locals: dict[Any, int] = {}
        for name in model.always.keys() & model.sometimes.keys():
            raise ValueError(f"{model.name}: {name} is both an always and a sometimes property")
        self.initial = self.pack(init(model))
        seen: set[int] = set()
        for name, function in (*[(f"{p.name}.{action}", of) for p in model.processes for action, of in p.actions.items()],
                               *[(name, of) for name, (_, of) in (*model.always.items(), *model.sometimes.items())]):
            if asks_for_type(function, seen):
                raise NotPlain(f"{model.name}: {name} uses type(...), and what it is given may be of a type derived from the "
                               "state's: use isinstance")

    def intern(self, part: int, value: Any) -> int:
        number = self.numbers[part].setdefault(value, len(self.values[part]))
        if number == len(self.values[part]):
            if number > FIELD:
                raise OverflowError(f"{self.model.name}: more than {FIELD} different values of part {part}")
            self.values[part].append(value)
            if not part:
                known = self.names and type(value) is type(self.model.shared)
                self.fields.append(tuple(map(self.field, range(len(self.names)), value)) if known else ())
                if known:
                    self.shared[self.fields[-1]] = number
        return number

    def field(self, place: int, value: Any) -> int:
        number = self.field_numbers[place].setdefault(value, len(self.field_values[place]))
        if number == len(self.field_values[place]):
            self.field_values[place].append(value)
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
        """The moves of process `p` from this pair, as differences."""
        shift = BITS * (p + 1)
        number, local = pair & FIELD, pair >> shift
        moves = self.visit(p, number, local)
        differences = tuple([shared2 - number + (local2 - local << shift) for _, shared2, local2 in moves])
        self.table[p][pair] = differences
        return differences

    def visit(self, p: int, number: int, local: int) -> list[tuple[Label, int, int]]:
        """`moves`; notes what the properties say of the pair; and checks that to rename it changes neither."""
        if number not in self.sound or self.judges[p]:
            self.judge(p, number, local)
        moves = self.moves(p, number, local)
        if self.symmetry:
            self.symmetry.check(p, number, local, moves)
        return moves

    def moves(self, p: int, number: int, local: int) -> list[tuple[Label, int, int]]:
        """(label, number of the shared part after, of the local) of each move of process `p` from two numbers."""
        fields, found, idle = self.fields[number], [], False
        if not fields:  # nothing is known of what is read of such a shared part
            return [(label, self.written(number, fields, writes), local2) for action in self.model.processes[p].actions
                    for label, writes, local2 in self.ask(p, action, self.values[p + 1][local], None, self.values[0][number])]
        plan = self.plans[p].get(local)
        if plan is None:
            plan = self.plans[p][local] = [Answers(partial(self.ask, p, action, self.values[p + 1][local]))
                                           for action in self.model.processes[p].actions
                                           if not self.idles(p, action, number, local)]
        for answers in plan:
            answer = answers.known.get(answers.read(fields))
            if answer is None:
                answer = self.answer(answers, number)
            for label, writes, local2 in answer:
                found.append((label, self.written(number, fields, writes) if writes else number, local2))
            if not answer and answers.constant:
                idle = True
        if idle:  # nothing comes of some of them from this local, whatever the shared part is
            plan[:] = [answers for answers in plan if not answers.constant or answers.known[None]]
        return found

    def idles(self, p: int, action: str, number: int, local: int) -> bool:
        """Whether some fields of a local part tell alone that nothing comes of an action: most often its pc."""
        process, own, fields = self.model.processes[p], self.values[p + 1][local], self.local_fields(p + 1, local)
        if not fields:
            return False
        known = self.idle.setdefault((p, action), {})
        for places, seen in known.items():
            if tuple([fields[place] for place in places]) in seen:
                return True
        shared, of, of_own = self.values[0][number], set(), set()
        moves = partial(process.actions[action], self.model.constants, process.index)
        for _ in moves(recording(shared, of), recording(own, of_own)):
            return False
        if of or any(True for _ in moves(shared, own)):
            return False
        known.setdefault(tuple(of_own), set()).add(tuple([fields[place] for place in of_own]))
        return True

    def answer(self, answers: Answers, number: int) -> list[tuple[Label, tuple, int]]:
        """Raises NotPlain."""
        shared, fields, ways = self.values[0][number], self.fields[number], len(answers.others)
        answer = answers.of((shared,), fields)
        if len(answers.others) > ways:
            ours, plainly = ([(label, self.written(number, fields, writes), local2) for label, writes, local2 in moves]
                             for moves in (answer, answers.ask(None, shared)))
            if ours != plainly:
                raise NotPlain(self.not_plain(".".join((plainly or ours)[0][0][:2]), shared))
        return answer

    def not_plain(self, what: str, shared: Any) -> str:
        return (f"{self.model.name}: {what} does not do the same with a record like the state as with the state, {shared}: "
                "ask for its type with isinstance")

    def ask(self, p: int, action: str, local: Local, reads: set[int] | None,
            shared: Any) -> list[tuple[Label, tuple, int]]:
        """The readable action's moves: (label, what it writes as (place of a field, number), number of the local). The
        place of a whole shared part is -1."""
        process, found = self.model.processes[p], []
        for choices, shared2, local2 in process.actions[action](self.model.constants, process.index, shared, local):
            writes = None if reads is None else writes_of(shared2, reads)
            if writes is None:
                writes = ((-1, self.intern(0, plain(shared2))),)
            elif writes:
                writes = tuple([(place, self.field(place, plain(value))) for place, value in writes])
            found.append(((process.name, action, choices), writes, self.intern(p + 1, local2)))
        if found:
            self.fired.add((process.role, action))
        return found

    def written(self, number: int, fields: tuple[int, ...], writes: tuple[tuple[int, int], ...]) -> int:
        """The number of the shared part in which these fields are written."""
        after = list(fields)
        for place, value in writes:
            if place < 0:
                return value
            after[place] = value
        known = self.shared.get(tuple(after))
        if known is None:
            known = self.intern(0, self.values[0][number]._make([of[value] for of, value in zip(self.field_values, after)]))
        return known

    def judge(self, p: int, number: int, local: int) -> None:
        """Notes what a pair breaks, and what it witnesses."""
        failing = ""
        if number not in self.sound:
            failing = self.first_broken(-1, number, -1)
            if not failing:
                self.sound.add(number)
        if self.judges[p]:
            own = self.first_broken(p, number, local)
            if own and (not failing or self.order[own] < self.order[failing]):
                failing = own
        if failing:
            self.broken[p, number | local << BITS * (p + 1)] = failing

    def first_broken(self, p: int, number: int, local: int) -> str:
        """Return the first broken property of process `p`, or (-1) of the shared part; "" if all hold."""
        failing, fields = "", self.fields[number]
        if p >= 0:
            own = self.locals[p + 1].get(local) or self.local_fields(p + 1, local)
            fields = fields and own and fields + own
        for name, answers in self.judges[p]:
            holds = answers.known.get(answers.read(fields)) if fields and name not in self.wholly else None
            if holds is None:
                holds = self.verdict(name, answers, p, number, local)
            if not holds:
                failing = failing or name * (name in self.order)
            elif name not in self.order:  # witnessed: nobody asks again
                self.witnessed.add(name)
                self.judges = [[judge for judge in judges if judge[0] != name] for judges in self.judges]
        return failing

    def properties(self, role: str | None) -> list[tuple[str, Answers]]:
        """Those of a role, or (None) of the shared part."""
        return [(name, Answers(lambda reads, *parts, holds=holds: bool(holds(self.model.constants, *parts))))
                for of in (self.model.always, self.model.sometimes) for name, (whose, holds) in of.items() if whose == role]

    def verdict(self, name: str, answers: Answers, p: int, number: int, local: int) -> bool:
        """Return a property's verdict on a shared part, or on it and a local part of process `p`. Raises NotPlain."""
        parts, fields = (self.values[0][number],), self.fields[number]
        if p >= 0:
            own = self.local_fields(p + 1, local)
            parts, fields = (*parts, self.values[p + 1][local]), fields and own and fields + own
        if not fields or name in self.wholly:
            return answers.ask(None, *parts)
        ways = len(answers.others)
        holds = answers.of(parts, fields)
        if len(answers.others) > ways and holds != answers.ask(None, *parts):
            raise NotPlain(self.not_plain(name, parts[0]))
        return holds

    def local_fields(self, part: int, local: int) -> tuple[int, ...]:
        """The numbers of a local part's fields; none if it is no record of its process's type."""
        known = self.locals[part].get(local)
        if known is None:
            value, kind = self.values[part][local], type(self.model.processes[part - 1].local)
            known = self.locals[part][local] = tuple([
                self.field_of_locals.setdefault(field, len(self.field_of_locals)) for field in value
            ]) if hasattr(kind, "_fields") and type(value) is kind else ()
        return known

    def never(self) -> tuple[str, ...]:
        return tuple(n for n in self.model.sometimes if n not in self.witnessed)

    def successors(self, packed: int) -> Iterator[tuple[Label, int]]:
        for p, mask in enumerate(self.masks):
            pair = packed & mask
            labels = self.labels[p].get(pair)
            if labels is None:
                labels = self.labels[p][pair] = tuple(
                    [label for label, _, _ in self.moves(p, pair & FIELD, pair >> BITS * (p + 1))])
            differences = self.table[p].get(pair)
            if differences is None:
                differences = self.expand(p, pair)
            for difference, label in zip(differences, labels):
                yield label, packed + difference

    def trace(self, path: Sequence[int], canonical: Callable[[int], int] | None = None) -> tuple[Step, ...]:
        """The steps along packed states that follow each other; where they stand for others, the steps of the first."""
        steps, here = [Step(("", "Init", ()), self.unpack(self.initial))], self.initial
        canonical = canonical or (lambda packed: packed)
        for wanted in map(canonical, path[1:]):
            label, here = next((label, after) for label, after in self.successors(here) if canonical(after) == wanted)
            steps.append(Step(label, self.unpack(here)))
        return tuple(steps)


@uncollected()
def explore(model: Model, max_states: int | None = None, progress: Progress | None = None, depth_first: bool = False,
            symmetry: bool = False, bounds: Bounds | None = None) -> Exploration:
    """Search from the initial state to the first violation of an `always` property, or to the end, or to a bound.

    The search is breadth-first unless `depth_first`. A violation that it finds is a nearest one, and its trace a shortest.
    Among violations at equal depth, the first property of `always` is reported. `progress(states, depth)` is called now and
    then. With `symmetry`, one state stands for all that differ from it in the names of interchangeable clients;
    model/explore/reductions.py checks that they are interchangeable.
    """
    bounds = bounds or Bounds(states=max_states)
    x, canonical = Explorer(model), None
    if symmetry:
        from highwater.model.explore.reductions import Symmetry
        canonical = Symmetry(x).canonical
        x.initial = canonical(x.initial)
    parents = {x.initial: x.initial}
    frontier, stack, transitions, depth, deepest, widest, ends, stopped = [x.initial], [], 0, 0, 0, 0, 0, ""
    views = [(mask, table.get, p) for p, (mask, table) in enumerate(zip(x.masks, x.table))]
    while frontier:
        following: list[int] = []
        violations: list[tuple[int, int]] = []  # (the property's place in `always`, the state), in this frontier
        for packed in frontier:
            degree = 0
            for mask, known, p in views:
                pair = packed & mask
                differences = known(pair)
                if differences is None:
                    differences = x.expand(p, pair)
                    if (p, pair) in x.broken:
                        violations.append((x.order[x.broken[p, pair]], packed))
                degree += len(differences)
                for difference in differences:
                    successor = packed + difference if canonical is None else canonical(packed + difference)
                    if successor not in parents:
                        parents[successor] = packed
                        following.append(successor)
            transitions += degree
            widest = degree if degree > widest else widest
            ends += not degree
        if violations:
            property_, packed = min(violations, key=lambda found: found[0])
            path = [packed]
            while path[-1] != x.initial:
                path.append(parents[path[-1]])
            return Exploration(len(parents), transitions, deepest, list(model.always)[property_],
                               x.trace(path[::-1], canonical), frozenset(x.fired), (), widest, ends)
        if progress and (not depth_first or len(parents) % 1024 == 0):
            progress(len(parents), depth)
        reached = bounds.reached(len(parents), depth) if following else ""
        stopped = stopped or reached
        if reached and not (depth_first and depth == bounds.depth):  # depth-first a deep path ends, not the search
            break
        if depth_first:
            stack += [(successor, depth + 1) for successor in reversed(following) if not reached]
            following, depth = ([], depth) if not stack else ([stack[-1][0]], stack.pop()[1])
        else:
            depth += bool(following)
        frontier, deepest = following, max(deepest, depth)
    return Exploration(len(parents), transitions, deepest, None, (), frozenset(x.fired), () if stopped else x.never(),
                       widest, ends, stopped)


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

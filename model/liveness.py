"""Safety: if the check passes, the property's goal holds again and again along every fair run of the instance. Otherwise there
is a lasso: a fair run that reaches a cycle in which the goal never holds.

An `eventually` property is FizzBee's `always eventually`: from every reachable state, along every fair run, its goal holds
again. A property of a role is one property for each of its processes. A run is fair if no process can forever take a fair
action (`Model.fair`) without ever taking it. This is weak fairness, for each process and each action separately. A step that
changes nothing counts as a step (TLA+ differs here). Any of an action's choices may be taken forever. A run may end, or stay
where it is forever, if no fair action is enabled. All of this follows FizzBee (specs/fizzbee/check.py).

So a property fails if and only if a certain strongly connected component of the states without its goal exists; it may be a
single state. For each fair action of each process it has a step that takes the action, or a state that disables it. The run
that goes around all of such a component is fair. If an action is enabled everywhere in a component and never taken in it, no
cycle in it is fair.

A million states take some 12 s to number, 10 s to judge, and 300 bytes each. Components are found on plain arrays: as a
networkx graph a million states took 1.3 GB and 37 s. (tests/model/test_liveness.py compares the two.)
"""

import sys
from array import array
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator
from typing import Any, NamedTuple

from highwater.model.core import Model, Progress, Property, Shared, Step
from highwater.model.explore.tabulated import Explorer

TRIES = 32  # states that are tried as the beginning of a cycle, the nearest ones, to find a short one
TAKEN, DISABLED, NEVER_ENABLED = "taken", "disabled", "never enabled"


class Witness(NamedTuple):
    """Why a cycle is fair to one action of one process."""

    process: str
    action: str
    how: str  # TAKEN | DISABLED | NEVER_ENABLED
    at: int  # TAKEN: by the cycle's step of this number, from 1; DISABLED: after that step, 0: where the cycle begins


class Lasso(NamedTuple):
    """A counterexample to an `eventually` property: a path, then a cycle that is taken forever."""

    violated: str
    process: str  # whose property it is; "" for the shared state's
    stem: tuple[Step, ...]  # from Init to where the cycle begins
    cycle: tuple[Step, ...]  # comes back to the last state of the stem; empty: nothing happens any more
    fair: tuple[Witness, ...]


class Space(NamedTuple):
    """The reachable states, numbered breadth-first, and their edges: those of state i are `starts[i]:starts[i + 1]`."""

    x: Explorer
    states: list[int]  # packed; a nearer state has a smaller number
    starts: array
    targets: array
    takes: array  # by edge: which of `fair` it takes, as a number from 1; 0: none
    arrival: array  # by state: the edge that reached it first
    enabled: list[int]  # by state: which of `fair` it enables, as bits from 1 on
    fair: list[tuple[str, str]]  # (process, action)

    def depth(self, i: int) -> int:
        depth = 0
        while i:
            i, depth = self.source(self.arrival[i]), depth + 1
        return depth

    def source(self, edge: int) -> int:
        return bisect_right(self.starts, edge) - 1

    def step(self, edge: int) -> Step:
        i = self.source(edge)
        label, packed = list(self.x.successors(self.states[i]))[edge - self.starts[i]]
        return Step(label, self.x.unpack(packed))

    def stem(self, i: int) -> tuple[Step, ...]:
        """A shortest path from Init to state i."""
        steps = []
        while i:
            steps.append(self.step(self.arrival[i]))
            i = self.source(self.arrival[i])
        return (Step(("", "Init", ()), self.x.unpack(self.states[0])), *reversed(steps))


def space(model: Model, progress: Progress | None = None) -> Space:
    x = Explorer(model)
    fair = [(p.name, action) for p in model.processes for action in p.actions if action in model.fair.get(p.role, ())]
    number = {name: n for n, name in enumerate(fair, 1)}
    found: dict[tuple, int] = {}  # label -> its number in `takes`
    states, numbers = [x.initial], {x.initial: 0}
    starts, targets, takes, arrival = array("q", [0]), array("i"), array("H"), array("q", [0])
    enabled, same = [], {}
    for packed in states:  # grows while we walk it
        bits = 0
        for label, successor in x.successors(packed):
            take = found.get(label)
            if take is None:
                take = found[label] = number.get(label[:2], 0)
            if take:
                bits |= 1 << take
            target = numbers.setdefault(successor, len(states))
            if target == len(states):
                states.append(successor)
                arrival.append(len(targets))
            targets.append(target)
            takes.append(take)
        starts.append(len(targets))
        enabled.append(same.setdefault(bits, bits))
        if progress and len(enabled) % 8192 == 0:
            progress(len(enabled), 0)
    return Space(x, states, starts, targets, takes, arrival, enabled, fair)


def eventually(model: Model, names: Collection[str] | None = None, of: Space | None = None) -> dict[str, Lasso | None]:
    """By name of the `eventually` property, all of them unless `names`: None, or a lasso that never comes to its goal."""
    of = of or space(model)
    unknown = set(names or ()) - set(model.eventually)
    if unknown:
        raise KeyError(f"{model.name} has no eventually property {', '.join(sorted(unknown))}")
    return {name: violation(of, name, prop) for name, prop in model.eventually.items() if names is None or name in names}


def violation(of: Space, name: str, prop: Property) -> Lasso | None:
    model, (role, holds) = of.x.model, prop
    if role is None:
        return lasso(of, name, "", without(of, lambda state: holds(model.constants, state.shared)))
    for p, process in enumerate(model.processes):
        if process.role == role:
            bad = without(of, lambda state, p=p: holds(model.constants, state.shared, state.locals[p]))
            found = lasso(of, name, process.name, bad)
            if found:
                return found
    return None


def without(of: Space, goal: Callable[[Any], bool]) -> bytearray:
    """By state: 1 where the goal does not hold."""
    return bytearray(not goal(of.x.unpack(packed)) for packed in of.states)


def components(of: Space, bad: bytearray) -> Iterator[list[int]]:
    """The strongly connected components of the bad states, single states included (Tarjan's algorithm), in an order in
    which each comes after those that it leads to."""
    starts, targets, closed = of.starts, of.targets, len(bad) + 1
    number = array("i", bytes(4 * len(bad)))  # 0: not met; from 1: in this order, while open; then `closed`
    lowest, following, count = number[:], starts[:], 0
    for root in range(len(bad)):
        if not bad[root] or number[root]:
            continue
        path, open_ = [root], [root]
        count += 1
        number[root] = lowest[root] = count
        while path:
            here = path[-1]
            for edge in range(following[here], starts[here + 1]):
                there = targets[edge]
                if not bad[there]:
                    continue
                if not number[there]:
                    following[here] = edge  # looked at once more when we are back: then it is met, and lowest is known
                    path.append(there)
                    open_.append(there)
                    count += 1
                    number[there] = lowest[there] = count
                    break
                if number[there] != closed and lowest[there] < lowest[here]:
                    lowest[here] = lowest[there]
            else:
                path.pop()
                if lowest[here] == number[here]:
                    members = []
                    while not members or members[-1] != here:
                        members.append(open_.pop())
                        number[members[-1]] = closed
                    yield members


def lasso(of: Space, name: str, process: str, bad: bytearray) -> Lasso | None:
    """A short one: the stem goes to the nearest states from which there is a fair cycle of bad states, and the cycle goes
    from one outstanding witness of fairness to the nearest next one."""
    home = array("i", bytes(4 * len(bad)))  # by state: the number of its component, from 1, if a run around it is fair
    within: list[int] = []
    for number, members in enumerate(components(of, bad), 1):
        for i in members:
            home[i] = number
        if around(of, home, members):
            within += members
        else:
            for i in members:
                home[i] = 0
    within.sort()
    best: tuple[int, int, list[int]] | None = None  # (length, where the cycle begins, the cycle's edges)
    for i in within[:TRIES]:
        depth = of.depth(i)
        if best and depth >= best[0]:
            break
        cycle = round_trip(of, home, i, best[0] - depth if best else sys.maxsize)
        if cycle is not None and (not best or depth + len(cycle) < best[0]):
            best = depth + len(cycle), i, cycle
    if not best:
        return None
    _, i, cycle = best
    return Lasso(name, process, of.stem(i), tuple(map(of.step, cycle)), tuple(witnesses(of, i, cycle)))


def around(of: Space, home: array, members: list[int]) -> bool:
    """Whether the run that goes around all of a component, over each of its edges, is fair."""
    outstanding = -1
    for i in members:
        outstanding &= of.enabled[i]
    if outstanding:
        for i in members:
            for edge in range(of.starts[i], of.starts[i + 1]):
                if home[of.targets[edge]] == home[i]:
                    outstanding &= ~(1 << of.takes[edge])
    return not outstanding


def round_trip(of: Space, home: array, start: int, limit: int) -> list[int] | None:
    """The edges of a fair cycle from `start`, in its component; None if this way it has `limit` edges or more."""
    here, cycle, outstanding = start, [], of.enabled[start]
    while outstanding or here != start:
        hop = nearest(of, home, here, outstanding, start, limit - len(cycle))
        if hop is None:
            return None
        cycle += hop
        here = of.targets[hop[-1]]
        for edge in hop:
            outstanding &= of.enabled[of.targets[edge]] & ~(1 << of.takes[edge])
    return cycle


def nearest(of: Space, home: array, here: int, outstanding: int, start: int, limit: int) -> list[int] | None:
    """A shortest path to an edge that serves an outstanding action, or back to `start` if none is outstanding."""
    arrival, level = {here: -1}, [here]
    while level and limit > 1:
        following = []
        for i in level:
            for edge in range(of.starts[i], of.starts[i + 1]):
                target = of.targets[edge]
                if home[target] != home[here]:
                    continue
                if outstanding & (~of.enabled[target] | 1 << of.takes[edge]) if outstanding else target == start:
                    path = [edge]
                    while arrival[of.source(path[-1])] >= 0:
                        path.append(arrival[of.source(path[-1])])
                    return path[::-1]
                if target not in arrival:
                    arrival[target] = edge
                    following.append(target)
        level, limit = following, limit - 1
    return None


def witnesses(of: Space, start: int, cycle: list[int]) -> Iterator[Witness]:
    along = [start, *(of.targets[edge] for edge in cycle)]
    for number, (process, action) in enumerate(of.fair, 1):
        taken = next((at for at, edge in enumerate(cycle, 1) if of.takes[edge] == number), None)
        disabled = next((at for at, i in enumerate(along) if not of.enabled[i] >> number & 1), None)
        if taken is not None:
            yield Witness(process, action, TAKEN, taken)
        elif disabled is None or all(not of.enabled[i] >> number & 1 for i in along):
            yield Witness(process, action, NEVER_ENABLED, 0)
        else:
            yield Witness(process, action, DISABLED, disabled)


def always_possible(model: Model, goal: Callable[[Any, Shared], bool]) -> tuple[Step, ...] | None:
    """None if from every reachable state a state whose shared part satisfies `goal(c, shared)` can be reached;
    otherwise a shortest path to a state from which none can."""
    of = space(model)
    bad = without(of, lambda state: goal(model.constants, state.shared))
    reaching = bytearray(not b for b in bad)
    for members in components(of, bad):  # a component comes after those that it leads to
        if any(reaching[of.targets[edge]] for i in members for edge in range(of.starts[i], of.starts[i + 1])):
            for i in members:
                reaching[i] = 1
    stuck = reaching.find(0)
    return None if stuck < 0 else of.stem(stuck)

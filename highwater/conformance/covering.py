"""Shortest paths of a model for FizzBee to follow: together they take every action that fires, and reach every witness.

FizzBee explores a large graph slowly: some thousand states take it half a minute. It follows a path in a tenth of a second.
"""

from collections.abc import Iterator, Set
from typing import NamedTuple

from highwater.model.core import Model, State, Step, init, moves, witnessed
from highwater.model.explore.plain import trace

Goal = tuple[str, str] | str  # (role, action), or the name of a witness


class Path(NamedTuple):
    """A path from the initial state, and the goals that it reaches."""

    steps: tuple[Step, ...]
    goals: frozenset[Goal]


def covering(model: Model, fired: Set[tuple[str, str]], never: tuple[str, ...]) -> list[Path]:
    """Return paths that take each action of `fired`, and reach each witness of the model that is not in `never`."""
    roles = {process.name: process.role for process in model.processes}
    goals = {*fired, *(name for name in model.sometimes if name not in never)}
    paths = []
    for goal, steps in shortest(model, roles, goals):
        taken = {(roles[label[0]], label[1]) for label, _ in steps}
        paths.append(Path(steps, frozenset(taken & goals | {goal})))
    found: list[Path] = []
    for path in sorted(paths, key=lambda path: -len(path.steps)):
        if not path.goals <= frozenset().union(*(of.goals for of in found)):
            found.append(path)
    return found


def shortest(model: Model, roles: dict[str, str], goals: Set[Goal]) -> Iterator[tuple[Goal, tuple[Step, ...]]]:
    """Search breadth-first. Yield a shortest path to each goal, without the initial state, until all are reached."""
    left, came, queue = {*goals}, dict[State, Step](), [init(model)]
    seen = {*queue}
    for state in queue:  # the loop appends to it
        for name in left.intersection(witnessed(model, state)):
            yield name, trace(model, came, state)[1:]
            left.remove(name)
        if not left:
            return
        for label, successor in moves(model, state):
            action = roles[label[0]], label[1]
            if action in left:
                yield action, (*trace(model, came, state)[1:], Step(label, successor))
                left.remove(action)
            if successor not in seen:
                seen.add(successor)
                came[successor] = Step(label, state)
                queue.append(successor)

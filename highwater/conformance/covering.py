"""Paths of a model for FizzBee to follow: together they take every action that fires, and reach every witness.

FizzBee explores a large graph slowly: some thousand states take it half a minute. It follows a path in a tenth of a second.
"""

from collections.abc import Set

from highwater.model.core import Model, State, Step, init, moves, witnessed
from highwater.model.explore.plain import trace
from highwater.specs.fizzbee.check import LONGEST_GUIDED

Path = tuple[Step, ...]  # from the initial state, which it lacks
Goal = tuple[str, str] | str  # (role, action), or the name of a witness


def covering(model: Model, fired: Set[tuple[str, str]], never: tuple[str, ...]) -> list[Path]:
    """Return paths that take each action of `fired`, and reach each witness of the model that is not in `never`. A path goes on
    to the nearest action or witness that is left, as long as there is one and FizzBee can follow it."""
    left: set[Goal] = {*fired, *(name for name in model.sometimes if name not in never)} - {*witnessed(model, init(model))}
    paths: list[Path] = []
    while left:
        path: Path = ()
        while found := nearest(model, path[-1].state if path else init(model), left):
            if path and len(path) + len(found) > LONGEST_GUIDED:
                break
            path += found
            left -= reached(model, found)
        if not path:
            raise ValueError(f"no path of the model reaches {', '.join(sorted(map(str, left)))}")
        paths.append(path)
    return paths


def reached(model: Model, path: Path) -> set[Goal]:
    """Return the actions and the witnesses of a path."""
    roles = {process.name: process.role for process in model.processes}
    return {(roles[label[0]], label[1]) for label, _ in path}.union(*(witnessed(model, state) for _, state in path))


def nearest(model: Model, start: State, goals: Set[Goal]) -> Path:
    """Search breadth-first for a shortest path from a state to one of the goals; () if there is none."""
    roles = {process.name: process.role for process in model.processes}
    names = [goal for goal in goals if isinstance(goal, str)]
    watched = model._replace(sometimes={name: model.sometimes[name] for name in names})
    came, queue = dict[State, Step](), [start]
    for state in queue:  # the loop appends to it
        for label, successor in moves(model, state):
            new = successor not in came and successor != start
            if (roles[label[0]], label[1]) in goals or (new and witnessed(watched, successor)):
                return (*trace(model, came, state)[1:], Step(label, successor))
            if new:
                came[successor] = Step(label, state)
                queue.append(successor)
    return ()

"""The simplest search: states as they are written, and a queue. It is the reference for the fast engines.

They must visit the same states, with the same edges between them.
"""

from collections.abc import Callable, Iterable

from highwater.model.core import Bounds, Exploration, Model, Progress, State, Step, broken, init, moves, witnessed


def explore(model: Model, max_states: int | None = None, progress: Progress | None = None, symmetry: bool = False,
            bounds: Bounds | None = None) -> Exploration:
    """Explore like model.explore.tabulated.explore, breadth-first."""
    bounds = bounds or Bounds(states=max_states)
    orbit = orbits(model) if symmetry else lambda state: (state,)
    came: dict[State, Step] = {}  # state -> the label of the step that led to it, and the state before
    seen, level, following = set(orbit(init(model))), [init(model)], []
    states, transitions, depth, widest, ends, fired, seen_witnesses = 1, 0, 0, 0, 0, set(), set()
    roles = {process.name: process.role for process in model.processes}

    def found(violated: str | None, trace: tuple[Step, ...] = (), stopped: str = "") -> Exploration:
        never = () if violated or stopped else tuple(name for name in model.sometimes if name not in seen_witnesses)
        return Exploration(states, transitions, depth, violated, trace, frozenset(fired), never, widest, ends, stopped)

    while level:
        for state in level:
            degree = 0
            seen_witnesses.update(witnessed(model, state))
            for label, successor in moves(model, state):
                degree += 1
                fired.add((roles[label[0]], label[1]))
                if successor not in seen:
                    seen.update(orbit(successor))
                    came[successor] = Step(label, state)
                    following.append(successor)
                    states += 1
            transitions, widest, ends = transitions + degree, max(widest, degree), ends + (not degree)
        failures = [(list(model.always).index(name), state) for state in level for name in broken(model, state)]
        if failures:
            name, state = min(failures, key=lambda failure: failure[0])
            return found(list(model.always)[name], trace(model, came, state))
        if progress:
            progress(states, depth)
        if following and (stopped := bounds.reached(states, depth)):
            return found(None, stopped=stopped)
        depth += bool(following)
        level, following = following, []
    return found(None)


def trace(model: Model, came: dict[State, Step], state: State) -> tuple[Step, ...]:
    steps = []
    while state in came:
        label, before = came[state]
        steps.append(Step(label, state))
        state = before
    return (Step(("", "Init", ()), state), *reversed(steps))


def orbits(model: Model) -> Callable[[State], Iterable[State]]:
    """A state -> all states that differ from it in the names of interchangeable clients, itself among them."""
    from highwater.model.explore.reductions import group, renaming

    def orbit(state: State) -> set[State]:
        return {renaming(model, names)(state) for names in group(model)}

    return orbit

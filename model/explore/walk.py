"""Safety: every walk is a run of the model, and a walk that ends in a violation is reported step by step.

This module takes random walks, some thousand at a time. In instances with too many states to visit them all, walks still go
deep. Each walk starts from the initial state and ends after a given number of steps, or in a state without a move. The moves of
a state are equally likely. The choices depend only on the seed and the walk's number, so a walk can be repeated by itself.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from highwater.model.core import Model, Progress, Step
from highwater.model.explore.tabulated import Explorer
from highwater.model.explore.wide import Wide, violating

ABREAST = 1 << 13


class Walks(NamedTuple):
    walks: int  # that were taken to their end; fewer than were asked for if the search was cut, or found a violation
    steps: int
    longest: int
    violated: str | None
    seed: int
    walk: int  # the walk that ended in the violation
    trace: tuple[Step, ...]
    fired: frozenset[tuple[str, str]]
    never: tuple[str, ...]  # `sometimes` properties that no walk witnessed


def mixed(x: np.ndarray) -> np.ndarray:
    """SplitMix64's finalizer: a well mixed 64-bit number for each."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def drawn(seed: int, walks: np.ndarray, step: int) -> np.ndarray:
    """A number for this step of each walk."""
    streams = mixed(walks.astype(np.uint64) + mixed(np.array([seed % 2**64], np.uint64)))
    return mixed(streams + np.uint64((step + 1) * 0x9E3779B97F4A7C15 % 2**64))


def walk(model: Model, seed: int = 0, walks: int = 10_000, steps: int = 1_000, progress: Progress | None = None,
         cut: Callable[[], bool] = lambda: False) -> Walks:
    """Take so many walks of at most so many steps, until one violates an `always` property.

    `cut` is asked before each step; once it says yes the walks under way are given up.
    Raises model.explore.wide.TooWide for a model whose states do not fit 63 bits.
    """
    w, taken, longest = Wide(model), 0, 0
    w.runs.clear()
    for first in range(0, walks, ABREAST):
        numbers = np.arange(first, min(walks, first + ABREAST))
        w.levels[1:] = [np.full(len(numbers), w.levels[0][0])]
        for step in range(steps + 1):  # the last states are looked at, too
            if cut():
                return Walks(first, taken, longest, None, seed, 0, (), frozenset(w.x.fired), w.x.never())
            rows = learnt(w)
            if w.x.broken:
                name, states = violating(w)
                number = int(numbers[np.isin(w.levels[1], states)].min())
                return Walks(first + len(numbers), taken, longest, name, seed, number, replay(w.x, seed, number, step),
                             frozenset(w.x.fired), ())
            counts = [moves.counts.take(row) for moves, row in zip(w.tables.moves, rows)]
            able = np.flatnonzero(sum(counts))
            if step == steps or not len(able):
                break
            numbers, rows = numbers[able], [row[able] for row in rows]
            choice = drawn(seed, numbers, step) % np.asarray(sum(counts))[able].astype(np.uint64)
            w.levels[1] = onward(w, w.levels[1][able], rows, [count[able] for count in counts], choice.astype(np.int64))
            taken, longest = taken + len(able), max(longest, step + 1)
            if progress:
                progress(taken, longest)
    return Walks(walks, taken, longest, None, seed, 0, (), frozenset(w.x.fired), w.x.never())


def learnt(w: Wide) -> list[np.ndarray]:
    """The rows of the states in hand, after the model was asked for those that were not known."""
    rows = w.tables.rows(w.levels[1])
    unknown = w.tables.unknown(w.levels[1], rows)
    if unknown is None:
        return rows
    w.learn(unknown)
    return w.tables.rows(w.levels[1])


def onward(w: Wide, states: np.ndarray, rows: list[np.ndarray], counts: list[np.ndarray], choice: np.ndarray) -> np.ndarray:
    """Each state's successor by its move of this number, the processes' moves one after another."""
    after = states.copy()
    for moves, row, count in zip(w.tables.moves, rows, counts):
        mine = np.flatnonzero((choice >= 0) & (choice < count))
        after[mine] += moves.deltas[row[mine], choice[mine]]
        choice -= count
    return after


def replay(x: Explorer, seed: int, number: int, steps: int) -> tuple[Step, ...]:
    """The first steps of one walk, told."""
    path, labels = [x.initial], [("", "Init", ())]
    for step in range(steps):
        moves = list(x.successors(path[-1]))
        label, after = moves[int(drawn(seed, np.array([number]), step)[0]) % len(moves)]
        path.append(after)
        labels.append(label)
    return tuple(Step(label, x.unpack(packed)) for label, packed in zip(labels, path))

"""Safety: the search has the same states, edges and verdicts as model.explore.tabulated.explore, but processes a whole level at
a time.

A state is one 64-bit integer: the number of its shared part in the high bits, those of the locals below. Each field is as wide
as the numbers so far need. If a number no longer fits, the fields of all states are widened.

A level is a sorted array. Its successors are computed with gathers and additions: for each process a dense table leads from
(shared, local) to that pair's moves. The readable model is asked for these once; they are stored as differences. Sorting
removes duplicates. The states seen are a few sorted runs, each several times as long as the next, merged as they grow. The
search is exact: nothing is hashed.

A level is processed in blocks that fit a cache, in threads (numpy releases the interpreter's lock). The results, and the
numbers of the parts, do not depend on the number of threads.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from highwater.model.core import Bounds, Exploration, Model, Progress
from highwater.model.explore.tabulated import BITS, FIELD, Explorer
from highwater.model.uncollected import uncollected

BLOCK = 1 << 17  # states that are expanded at once
NEEDLES = 1 << 14  # states that are looked up at once in a run of seen ones
GROWTH = 4  # a run of seen states is merged with the next when it is not so many times as long
KEY_BITS = 63
CELLS = 1 << 28  # pairs (shared part, local) of all processes, at most; a table needs 4 to 9 bytes for each


class TooWide(OverflowError):
    """A state of this model does not fit 63 bits, or its pairs of a shared part and a local do not fit a dense table.
    model.explore.tabulated.explore takes any model."""


class Learnt(NamedTuple):
    """The moves of some pairs of one process, in numbers of parts."""

    shared: np.ndarray
    local: np.ndarray
    counts: np.ndarray  # of each pair's moves
    steps: np.ndarray  # (all moves of all pairs, 2): the shared part after, the local


class Moves:
    """The moves of one process: `rows[shared, local]` is one more than the number of the pair, or 0 if it is not known;
    `counts[row]` says how many moves, `deltas[row, j]` what the j-th adds to a state. Arrays have room to grow."""

    def __init__(self) -> None:
        self.rows = np.zeros((1, 1), np.int32)
        self.pairs = 1  # so many rows are in use; row 0 is of no pair
        self.counts = np.zeros(1, np.int32)
        self.steps = np.zeros((2, 1, 1), np.int64)  # the differences of the shared number, and of the local's
        self.deltas = np.zeros((1, 1), np.int64)

    def room(self, shared: int, local: int) -> None:
        """For so many numbers."""
        self.rows = grown(self.rows, (shared, local))

    def learn(self, learnt: Learnt, shifts: tuple[int, int]) -> None:
        shared, local, counts, flat = learnt
        first, self.pairs = self.pairs, self.pairs + len(counts)
        widest = max(int(counts.max(initial=0)), self.deltas.shape[1])
        self.counts = grown(self.counts, (self.pairs,))
        self.steps = grown(self.steps, (2, self.pairs, widest))
        self.deltas = grown(self.deltas, (self.pairs, widest))
        self.rows[shared, local] = np.arange(first, self.pairs)
        self.counts[first:self.pairs] = counts
        column = np.arange(len(flat)) - np.repeat(np.cumsum(counts) - counts, counts)
        row = np.repeat(np.arange(first, self.pairs), counts)
        self.steps[0, row, column] = flat[:, 0] - np.repeat(shared, counts)
        self.steps[1, row, column] = flat[:, 1] - np.repeat(local, counts)
        self.settle(shifts, first)

    def settle(self, shifts: tuple[int, int], first: int = 0) -> None:
        """The deltas from this row on, for fields at these places."""
        steps = self.steps[:, first:self.pairs]
        self.deltas[first:self.pairs] = (steps[0] << shifts[0]) + (steps[1] << shifts[1])


def grown(array: np.ndarray, needed: tuple[int, ...]) -> np.ndarray:
    """With room for this shape and, where it grew, half as much again."""
    if all(n <= has for n, has in zip(needed, array.shape)):
        return array
    larger = np.zeros([has if n <= has else n + n // 2 for n, has in zip(needed, array.shape)], array.dtype)
    larger[tuple(slice(has) for has in array.shape)] = array
    return larger


class Tables:
    """The tables for expanding states: the positions of the fields, and each pair's moves.

    They hold only numbers, no state and no model, so they can be sent to workers.
    """

    def __init__(self, parts: int):
        self.moves = [Moves() for _ in range(parts - 1)]
        self.stand([1] * parts)

    def stand(self, widths: list[int]) -> None:
        """Puts the fields where these widths have them."""
        self.widths, self.shifts = widths, placed(widths)
        for p, moves in enumerate(self.moves):
            moves.settle((self.shifts[0], self.shifts[p + 1]))

    def room(self, sizes: list[int]) -> None:
        """For so many numbers of each part. Raises TooWide."""
        if sizes[0] * sum(sizes[1:]) > CELLS:
            raise TooWide(f"{sizes[0]:,} shared parts and {sum(sizes[1:]):,} locals have more than {CELLS:,} pairs, which the "
                          "wide engine's tables do not hold: take the tabulated engine")
        for p, moves in enumerate(self.moves):
            moves.room(sizes[0], sizes[p + 1])

    def learn(self, learnt: list[Learnt]) -> None:
        for p, of_process in enumerate(learnt):
            if len(of_process.counts):
                self.moves[p].learn(of_process, (self.shifts[0], self.shifts[p + 1]))

    def field(self, states: np.ndarray, part: int) -> np.ndarray:
        return field(states, self.widths, self.shifts, part)

    def rows(self, block: np.ndarray) -> list[np.ndarray]:
        """For each process the row of every state's pair."""
        shared = self.field(block, 0)
        return [moves.rows.ravel().take(shared * moves.rows.shape[1] + self.field(block, p + 1))
                for p, moves in enumerate(self.moves)]

    def unknown(self, block: np.ndarray, rows: list[np.ndarray]) -> list[np.ndarray] | None:
        """For each process the pairs that nobody has asked for, or None if there are none."""
        if all(row.all() for row in rows):
            return None
        found = []
        for p, row in enumerate(rows):
            states = block[row == 0]
            found.append(np.unique(self.field(states, 0) | self.field(states, p + 1) << BITS))
        return found

    def degrees(self, rows: list[np.ndarray]) -> np.ndarray:
        """How many moves each state has."""
        return np.asarray(sum(moves.counts.take(row) for moves, row in zip(self.moves, rows)))

    def steps(self, block: np.ndarray, rows: list[np.ndarray]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """(states, their successors), for each process and each of its moves."""
        for moves, row in zip(self.moves, rows):
            states, counts, width = block, moves.counts.take(row), moves.deltas.shape[1]
            for j in range(width):
                able = counts > j
                if not able.all():
                    states, row, counts = states[able], row[able], counts[able]
                if not len(states):
                    break
                yield states, states + moves.deltas.ravel().take(row * width + j)

    def breaking(self, states: np.ndarray, pairs: list[np.ndarray]) -> np.ndarray:
        """Those of the states that have, for some process, one of its pairs (packed as the explorer does)."""
        found = np.zeros(len(states), bool)
        for p, of_process in enumerate(pairs):
            if len(of_process):
                found |= np.isin(self.field(states, 0) | self.field(states, p + 1) << BITS, of_process)
        return states[found]


def placed(widths: list[int]) -> list[int]:
    """The fields' shifts: the shared part highest, the last local lowest."""
    return [sum(widths[part + 1:]) for part in range(len(widths))]


def field(states: np.ndarray, widths: list[int], shifts: list[int], part: int) -> np.ndarray:
    high = states >> shifts[part]
    return high if part == 0 else high & ((1 << widths[part]) - 1)


def widened(widths: list[int], sizes: list[int], name: str) -> list[int]:
    """Wide enough for so many numbers of each part. Raises TooWide."""
    needed = [max(width, (size - 1).bit_length()) for width, size in zip(widths, sizes)]
    if needed == widths and sum(widths) <= KEY_BITS:
        return widths
    spared = [n if n == w else n + 1 for n, w in zip(needed, widths)]  # one to spare, where there is room
    spared = spared if sum(spared) <= KEY_BITS else needed
    if sum(spared) > KEY_BITS:
        raise TooWide(f"{name}: a state takes {sum(spared)} bits, more than {KEY_BITS}")
    return spared


def moved(states: np.ndarray, before: list[int], after: list[int]) -> np.ndarray:
    """With their fields as wide as after, no less than before: states in order stay so."""
    anew, shifts = np.zeros_like(states), placed(before)
    for part, shift in enumerate(placed(after)):
        anew |= field(states, before, shifts, part) << shift
    return anew


def packed(state: int, widths: list[int]) -> int:
    """Return a state packed as the explorer packs it."""
    return sum((int(state) >> shift & ((1 << width) - 1)) << BITS * part
               for part, (width, shift) in enumerate(zip(widths, placed(widths))))


def ask(x: Explorer, unknown: list[np.ndarray]) -> list[Learnt]:
    """The moves of pairs (packed by the explorer), for each process. The explorer numbers what is new in their order."""
    learnt = []
    for p, pairs in enumerate(unknown):
        shared, local = pairs & FIELD, pairs >> BITS
        found = [x.visit(p, number, own) for number, own in zip(shared.tolist(), local.tolist())]
        counts = np.fromiter(map(len, found), np.int64, len(found))
        steps = np.array([step[1:] for moves in found for step in moves], np.int64).reshape(-1, 2)
        learnt.append(Learnt(shared, local, counts, steps))
    return learnt


class Wide:
    """The states of a model as sorted arrays. `levels[d]`: the new ones at depth d; `runs`: all of them."""

    def __init__(self, model: Model, symmetry: bool = False):
        self.x = Explorer(model)
        self.processes = range(len(self.x.model.processes))
        self.tables = Tables(len(self.x.values))
        self.symmetry = None
        if symmetry:
            from highwater.model.explore.reductions import Symmetry
            self.symmetry = Symmetry(self.x)
            self.x.initial = self.symmetry.canonical(self.x.initial)
        self.levels: list[np.ndarray] = []
        self.runs: list[np.ndarray] = []
        self.widen()
        self.add(np.array([initial(self.x, self.tables.shifts)], np.int64))

    def widen(self) -> bool:
        """Makes room for numbers that no longer fit; True if that changed the states."""
        sizes = [len(values) for values in self.x.values]
        self.tables.room(sizes)
        before, after = self.tables.widths, widened(self.tables.widths, sizes, self.x.model.name)
        if after == before:
            return False
        kept = {id(run): moved(run, before, after) for run in (*self.levels, *self.runs)}
        self.levels, self.runs = [kept[id(level)] for level in self.levels], [kept[id(run)] for run in self.runs]
        self.tables.stand(after)
        return True

    # --- moves

    def learn(self, unknown: list[np.ndarray]) -> bool:
        """Asks the model for the moves of pairs, as (shared, local) packed by the explorer; True if the states changed."""
        learnt = ask(self.x, unknown)
        if self.symmetry:
            self.symmetry.close()
        changed = self.widen()
        self.tables.learn(learnt)
        return changed

    def expand(self, block: np.ndarray) -> tuple:
        """(pairs that are not known, or None; new states, sorted; transitions, most moves of one state, states with none)"""
        rows = self.tables.rows(block)
        unknown = self.tables.unknown(block, rows)
        if unknown:
            return unknown, block[:0], 0, 0, 0
        degrees = self.tables.degrees(rows)
        following = [successors for _, successors in self.tables.steps(block, rows)]
        states = distinct(np.concatenate(following)) if following else block[:0]
        if self.symmetry:
            states = distinct(self.canonical(states))
        for run in self.runs:
            states = without(states, run)
        return None, states, int(degrees.sum()), int(degrees.max()), int(len(degrees) - np.count_nonzero(degrees))

    def canonical(self, states: np.ndarray) -> np.ndarray:
        """The least state that differs from each by a renaming, as model.explore.reductions has it."""
        assert self.symmetry is not None
        least: np.ndarray | None = None
        fields = [self.tables.field(states, part) for part in range(len(self.tables.widths))]
        for g, (_, at) in enumerate(self.symmetry.named):
            renumbered = [table.take(own) for table, own in zip(self.symmetry.arrays[g], fields)]
            at_place: list[Any] = [renumbered[0], *[None] * len(at)]
            for part, bits in enumerate(at, 1):
                at_place[bits // BITS] = renumbered[part]
            for parts in self.symmetry.nameless:
                locals_ = np.sort(np.stack([at_place[bits // BITS] for bits in parts]), axis=0)
                for bits, local in zip(parts, locals_):
                    at_place[bits // BITS] = local
            state: Any = sum(own << shift for own, shift in zip(at_place, self.tables.shifts))
            least = state if least is None else np.minimum(least, state)
        assert least is not None, "to rename nobody is a renaming, too"
        return least

    # --- what was seen

    def add(self, level: np.ndarray) -> None:
        self.levels.append(level)
        self.runs.append(level)
        while len(self.runs) > 1 and len(self.runs[-2]) < GROWTH * len(self.runs[-1]):
            last = self.runs.pop()
            self.runs[-1] = np.sort(np.concatenate((self.runs[-1], last)), kind="stable")

    def path(self, state: int) -> list[int]:
        """From the initial state to one of the last level, as the explorer packs them."""
        found = [state]
        for level in reversed(self.levels[:-1]):
            found.append(next(before for block in blocks(level) for before in self.predecessors(block, found[-1])))
        return [packed(state, self.tables.widths) for state in reversed(found)]

    def predecessors(self, block: np.ndarray, state: int) -> list[int]:
        found = []
        for states, successors in self.tables.steps(block, self.tables.rows(block)):
            same = (self.canonical(successors) if self.symmetry else successors) == state
            found += states[same].tolist()
        return sorted(found)


def blocks(level: np.ndarray) -> list[np.ndarray]:
    return [level[at:at + BLOCK] for at in range(0, len(level), BLOCK)]


def distinct(states: np.ndarray) -> np.ndarray:
    """Sorted, each once. The array is sorted in place."""
    states.sort()
    keep = np.empty(len(states), bool)
    keep[:1] = True
    np.not_equal(states[1:], states[:-1], out=keep[1:])
    return states[keep]


def without(states: np.ndarray, run: np.ndarray) -> np.ndarray:
    """Those of the sorted `states` that the sorted `run` does not have."""
    absent = np.empty(len(states), bool)
    bounds = np.searchsorted(run, states[::NEEDLES])
    for number, at in enumerate(range(0, len(states), NEEDLES)):
        needles = states[at:at + NEEDLES]
        part = run[bounds[number]:(bounds[number + 1] + 1 if number + 1 < len(bounds) else len(run))]
        places = np.searchsorted(part, needles)
        absent[at:at + NEEDLES] = part.take(places, mode="clip") != needles if len(part) else True
    return states[absent]


def explore(model: Model, max_states: int | None = None, progress: Progress | None = None, symmetry: bool = False,
            bounds: Bounds | None = None) -> Exploration:
    """Explore like model.explore.tabulated.explore, breadth-first. Raises TooWide if the states do not fit 63 bits."""
    return search(Wide(model, symmetry), bounds or Bounds(states=max_states), progress)


@uncollected()
def search(w: Wide, bounds: Bounds, progress: Progress | None = None) -> Exploration:
    x, states, transitions, widest, ends = w.x, 1, 0, 0, 0

    def found(violated: str | None = None, path: Sequence[int] = (), stopped: str = "") -> Exploration:
        canonical = w.symmetry.canonical if w.symmetry else None
        return Exploration(states, transitions, len(w.levels) - 1, violated, x.trace(path, canonical) if violated else (),
                           frozenset(x.fired), () if violated or stopped else x.never(), widest, ends, stopped)

    with ThreadPoolExecutor() as pool:
        while True:
            level = w.levels[-1]
            todo, results = blocks(level), []
            while todo:
                done = list(pool.map(w.expand, todo))
                unknown = [[] for _ in w.processes]
                for pairs, *_ in done:
                    for p, of_process in enumerate(pairs or ()):
                        unknown[p].append(of_process)
                results += [result for result in done if result[0] is None]
                todo = [block for block, result in zip(todo, done) if result[0]]
                if todo:
                    unknown = [np.unique(np.concatenate(pairs)) for pairs in unknown]
                    if w.learn(unknown):
                        todo, results = blocks(w.levels[-1]), []  # every state is another number now
            following = [states for _, states, *_ in results]
            fresh = distinct(np.concatenate(following)) if len(following) > 1 else following[0]
            states += len(fresh)
            transitions += sum(result[2] for result in results)
            widest = max(widest, *(result[3] for result in results))
            ends += sum(result[4] for result in results)
            if x.broken:
                name, worst = violating(w)
                return found(name, w.path(worst[0]))
            if progress:
                progress(states, len(w.levels) - 1)
            if not len(fresh):
                return found()
            needed = int(len(fresh) * transitions / states * 8 * 3)
            if stopped := bounds.reached(states, len(w.levels) - 1, needed):
                return found(stopped=stopped)
            w.add(fresh)


def initial(x: Explorer, shifts: list[int]) -> int:
    """The explorer's first state, with its fields at these places."""
    return sum((x.initial >> BITS * part & FIELD) << shift for part, shift in enumerate(shifts))


def violating(w: Wide) -> tuple[str, list[int]]:
    """The first broken property in the model's order, and the states of the last level that break it."""
    name, pairs = first_broken(w.x)
    return name, w.tables.breaking(w.levels[-1], pairs).tolist()


def first_broken(x: Explorer) -> tuple[str, list[np.ndarray]]:
    """The first broken property in the model's order, and for each process the pairs that break it."""
    first = min(x.broken.values(), key=x.order.__getitem__)
    pairs: list[list[int]] = [[] for _ in x.model.processes]
    for (p, pair), name in x.broken.items():
        if name == first:
            pairs[p].append((pair & FIELD) | pair >> BITS * (p + 1) << BITS)
    return first, [np.array(sorted(of_process), np.int64) for of_process in pairs]

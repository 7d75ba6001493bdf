"""Make a guided campaign's runs from its earlier rounds. Each row keeps the tape that replays its run.

The sketches of a round's rows are merged, in the order of the seeds, into a corpus: a few tapes that together reach everything
reached so far. Each run of the next round is drawn from its seed. Three in ten start from nothing; the others apply one of
dst/search/guide.py's mutations to a tape of the corpus. So a row depends on its seed and on the earlier rounds' rows, not on
how a round was cut into ranges or which engine ran them.
"""

import heapq
import json
from itertools import accumulate
from typing import NamedTuple

import pyarrow as pa

from highwater.dst.search.guide import FRESH, MOST_KEPT, MUTATIONS, Tape
from highwater.dst.sim.choose import drawing


class Corpus(NamedTuple):
    """The tapes from which a round's runs are made. `tapes`: JSON; a tape is picked in proportion to its number in
    `energies`."""

    number: int = 0
    tapes: tuple[str, ...] = ()
    energies: tuple[int, ...] = ()


class Kept(NamedTuple):
    seed: int
    born: int  # its round
    tape: str
    reached: frozenset[int]


class Merged:
    """Everything that the rounds so far reached, and the tapes that are kept."""

    def __init__(self) -> None:
        self.number, self.seen, self.kept = 0, set(), []

    def add(self, table: pa.Table) -> None:
        """Add the rows of the next round, sorted by seed: seed, tape, model_states, model_steps."""
        for row in table.to_pylist():
            reached = frozenset((*row["model_states"], *row["model_steps"]))
            if row["tape"] and not reached <= self.seen:
                self.seen |= reached
                self.kept.append(Kept(row["seed"], self.number, row["tape"], reached))
        self.number += 1
        self.kept = covering(self.kept, MOST_KEPT)

    def corpus(self) -> Corpus:
        """Return the corpus. Tapes that recently reached something that no earlier one reaches have the most energy."""
        energies = tuple(1 + 16 * gain // (self.number - one.born) for gain, one in zip(gains(self.kept), self.kept))
        return Corpus(self.number, tuple(one.tape for one in self.kept), energies)


def covering(kept: list[Kept], most: int) -> list[Kept]:
    """Choose a small subset that reaches everything that all of them reach, greedily, largest gain first; at most `most`."""
    heap = [(-len(one.reached), len(one.tape), one.seed, place) for place, one in enumerate(kept)]
    heapq.heapify(heap)
    covered: set[int] = set()
    chosen: list[Kept] = []
    while heap and len(chosen) < most:
        claimed, length, seed, place = heapq.heappop(heap)
        gain = len(kept[place].reached - covered)
        if gain == -claimed and gain:
            covered |= kept[place].reached
            chosen.append(kept[place])
        elif gain:
            heapq.heappush(heap, (-gain, length, seed, place))
    return chosen


def gains(kept: list[Kept]) -> list[int]:
    """Return, for each tape, the number of things that it reaches and none before it does."""
    covered: set[int] = set()
    found = []
    for one in kept:
        found.append(len(one.reached - covered))
        covered |= one.reached
    return found


class Maker:
    """Maker of the tapes for a round's runs."""

    def __init__(self, corpus: Corpus):
        self.sums, self.tapes = list(accumulate(corpus.energies)), corpus.tapes
        self.read: dict[int, Tape] = {}

    def tape(self, seed: int) -> Tape:
        """Make a seed's tape; [] for a run drawn from nothing."""
        draw = drawing(seed, "guide")
        if not self.tapes or draw(100) < FRESH:
            return []
        mark = draw(self.sums[-1])
        place = next(place for place, total in enumerate(self.sums) if total > mark)
        return MUTATIONS[draw(len(MUTATIONS))](self.of(place), self.of(draw(len(self.tapes))), draw)

    def of(self, place: int) -> Tape:
        if place not in self.read:
            self.read[place] = tape_of(self.tapes[place])
        return self.read[place]


def tape_of(text: str) -> Tape:
    return [(site, choice, bound) for site, choice, bound in json.loads(text)]


def text_of(tape: Tape) -> str:
    return json.dumps(tape, separators=(",", ":"))

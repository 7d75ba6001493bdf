"""Safety: a run is a function of its tape: every decision that is not the implementation's own is one labelled, bounded
choice `(site, choice, bound)`, and nothing else in a run is random.

Choices are drawn from named streams of one master seed, so that a draw more in one stream does not move the others. The
generator is BLAKE2b in counter mode: the same numbers on every machine and version of Python. Of every choice 0 is the
mildest: no fault, the earliest event, the shortest time.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import chain, count
from struct import Struct
from typing import Any

Choice = tuple[str, int, int]  # site, choice, bound
Choose = Callable[[str, int], int]  # choose(site, bound) -> a number in 0..bound-1
How = Callable[[Any], int]
Decide = Callable[[str, int, How, Any], int]  # decide(site, bound, how, argument): how(argument), recorded
BLOCK = Struct("<16I")


class TapeMismatch(Exception):
    """The run asked for another choice than the tape holds: the code has changed, or something is not deterministic."""


def words(seed: int, stream: str) -> Callable[[], int]:
    """word() -> a number of 32 bits, uniform."""
    return chain.from_iterable(blocks(seed, stream)).__next__


def blocks(seed: int, stream: str) -> Iterator[tuple[int, ...]]:
    key = blake2b(f"highwater/1/{seed}/{stream}".encode(), digest_size=32).digest()
    for counter in count():
        yield BLOCK.unpack(blake2b(counter.to_bytes(8, "little"), key=key).digest())[::-1]


def drawing(seed: int, stream: str) -> Callable[[int], int]:
    """draw(bound) -> a number in 0..bound-1, recorded nowhere."""
    word = words(seed, stream)
    return lambda bound: word() * bound >> 32


def drawing_of(seed: int, stream: str) -> Callable[[Sequence[int]], int]:
    """draw(table) -> one of its entries, recorded nowhere."""
    word = words(seed, stream)
    return lambda table: table[word() * len(table) >> 32]


class Chooser:
    """Draws, and records."""

    def __init__(self, seed: int):
        self.seed = seed
        self.tape: list[Choice] = []

    def stream(self, name: str) -> Choose:
        """A bound of 1 leaves no choice and is not recorded."""
        word, record = words(self.seed, name), self.tape.append

        def choose(site: str, bound: int) -> int:
            if bound == 1:
                return 0
            choice = word() * bound >> 32
            record((site, choice, bound))
            return choice

        return choose

    def decider(self) -> Decide:
        """For choices that are not drawn evenly, such as what befalls a request, or which event is next: what
        `how(argument)` says is recorded, and on replay it is not asked."""
        record = self.tape.append

        def decide(site: str, bound: int, how: How, argument: Any) -> int:
            if bound == 1:
                return 0
            choice = how(argument)
            record((site, choice, bound))
            return choice

        return decide

    def end(self) -> None:
        """Raises TapeMismatch if a tape that is replayed holds more choices than the run has asked for."""


class Strict(Chooser):
    """Replays a tape; the first mismatch is named."""

    def __init__(self, seed: int, tape: Iterable[Choice]):
        super().__init__(seed)
        self.left = deque(tape)

    def stream(self, name: str) -> Choose:
        return self._next

    def decider(self) -> Decide:
        return lambda site, bound, how, argument: self._next(site, bound)

    def end(self) -> None:
        if self.left:
            raise TapeMismatch(f"the run is over, the tape goes on with {self.left[0]}")

    def _next(self, site: str, bound: int) -> int:
        if bound == 1:
            return 0
        recorded = self.left.popleft() if self.left else None
        if recorded is None or (recorded[0], recorded[2]) != (site, bound):
            raise TapeMismatch(f"choice {len(self.tape)}: the run asks for {site!r} of {bound}, the tape holds "
                               f"{recorded or 'nothing more'}")
        self.tape.append(recorded)
        return recorded[1]


class Lenient(Chooser):
    """Takes for each choice the next that the tape holds for its site, and the mildest where there is none or where it is
    out of bounds; or, if `fresh`, draws there. So a tape survives changes of the code that keep the sites' labels, and
    choices can be cut out of it. What was chosen in the end is a tape that replays strictly."""

    def __init__(self, seed: int, tape: Iterable[Choice], fresh: bool = False):
        super().__init__(seed)
        self.fresh, self.left = fresh, {}
        for site, choice, _ in tape:
            self.left.setdefault(site, deque()).append(choice)

    def stream(self, name: str) -> Choose:
        draw = drawing(self.seed, name)
        return lambda site, bound: self._next(site, bound, draw, bound)

    def decider(self) -> Decide:
        return self._next

    def _next(self, site: str, bound: int, how: How, argument: Any) -> int:
        if bound == 1:
            return 0
        left = self.left.get(site)
        choice = left.popleft() if left else how(argument) if self.fresh else 0
        choice = choice if choice < bound else 0
        self.tape.append((site, choice, bound))
        return choice

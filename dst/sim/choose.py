"""Draw, record and replay choices. Safety: a run is a function of its tape.

Every decision that is not the implementation's own is one labelled, bounded choice `(site, choice, bound)`. Nothing else in a
run is random. Choices are drawn from named streams of one master seed, so one more draw in a stream does not change the others.
The generator is BLAKE2b in counter mode, with the same numbers on every machine and Python version. Choice 0 is always the
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
    """The run requested another choice than the tape holds: the code has changed, or something is not deterministic."""


def words(seed: int, stream: str) -> Callable[[], int]:
    """Return word(), which draws a uniform 32-bit number."""
    return chain.from_iterable(blocks(seed, stream)).__next__


def blocks(seed: int, stream: str) -> Iterator[tuple[int, ...]]:
    key = blake2b(f"highwater/1/{seed}/{stream}".encode(), digest_size=32).digest()
    for counter in count():
        yield BLOCK.unpack(blake2b(counter.to_bytes(8, "little"), key=key).digest())[::-1]


def drawing(seed: int, stream: str) -> Callable[[int], int]:
    """Return draw(bound), which draws a number in 0..bound-1 and does not record it."""
    word = words(seed, stream)
    return lambda bound: word() * bound >> 32


def drawing_of(seed: int, stream: str) -> Callable[[Sequence[int]], int]:
    """Return draw(table), which draws one of its entries and does not record it."""
    word = words(seed, stream)
    return lambda table: table[word() * len(table) >> 32]


class Chooser:
    """Draws choices and records them on a tape."""

    def __init__(self, seed: int):
        self.seed = seed
        self.tape: list[Choice] = []

    def stream(self, name: str) -> Choose:
        """Return choose(site, bound) for a stream. A choice with bound 1 is not recorded."""
        word, record = words(self.seed, name), self.tape.append

        def choose(site: str, bound: int) -> int:
            if bound == 1:
                return 0
            choice = word() * bound >> 32
            record((site, choice, bound))
            return choice

        return choose

    def decider(self) -> Decide:
        """Return decide(site, bound, how, argument) for choices that are not drawn evenly, such as a fate or the next event.

        It records the result of `how(argument)`. On replay `how` is not called."""
        record = self.tape.append

        def decide(site: str, bound: int, how: How, argument: Any) -> int:
            if bound == 1:
                return 0
            choice = how(argument)
            record((site, choice, bound))
            return choice

        return decide

    def end(self) -> None:
        """End the run. Raises TapeMismatch if a replayed tape holds more choices than the run requested."""


class Strict(Chooser):
    """Replays a tape. Raises TapeMismatch at the first difference."""

    def __init__(self, seed: int, tape: Iterable[Choice]):
        super().__init__(seed)
        self.left = deque(tape)

    def stream(self, name: str) -> Choose:
        return self._next

    def decider(self) -> Decide:
        return lambda site, bound, how, argument: self._next(site, bound)

    def end(self) -> None:
        if self.left:
            raise TapeMismatch(f"the run has ended, but the tape continues with {self.left[0]}")

    def _next(self, site: str, bound: int) -> int:
        if bound == 1:
            return 0
        recorded = self.left.popleft() if self.left else None
        if recorded is None or (recorded[0], recorded[2]) != (site, bound):
            raise TapeMismatch(f"choice {len(self.tape)}: the run requests {site!r} of {bound}, but the tape holds "
                               f"{recorded or 'nothing more'}")
        self.tape.append(recorded)
        return recorded[1]


class Lenient(Chooser):
    """Takes for each choice the tape's next choice at its site.

    If there is none, or it is out of bounds, the mildest is taken; with `fresh`, a missing one is drawn. So a tape survives
    changes of the code that keep the sites' labels, and choices can be cut out of it. The recorded choices form a tape that
    replays strictly."""

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

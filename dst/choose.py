"""Safety: a run is a function of its tape: every decision that is not the implementation's own is one labelled, bounded
choice `(site, choice, bound)`, and nothing else in a run is random.

Choices are drawn from named streams of one master seed, so that a draw more in one stream does not move the others. The
generator is BLAKE2b in counter mode: the same numbers on every machine and version of Python.
"""

from collections.abc import Callable, Iterator
from hashlib import blake2b
from itertools import count
from struct import Struct

Choice = tuple[str, int, int]  # site, choice, bound
BLOCK = Struct("<16I")


class TapeMismatch(Exception):
    """The run asked for another choice than the tape holds: the code has changed, or something is not deterministic."""


def words(seed: int, stream: str) -> Iterator[tuple[int, ...]]:
    """Numbers of 32 bits, uniform, sixteen at a time, without end."""
    key = blake2b(f"highwater/1/{seed}/{stream}".encode(), digest_size=32).digest()
    for counter in count():
        yield BLOCK.unpack(blake2b(counter.to_bytes(8, "little"), key=key).digest())


class Chooser:
    """Draws, and records; or, given a tape, replays it strictly: the first mismatch is named."""

    def __init__(self, seed: int, tape: list[Choice] | None = None):
        self.seed, self.tape = seed, [] if tape is None else tape
        self.replaying = None if tape is None else iter(tape)

    def stream(self, name: str) -> Callable[[str, int], int]:
        """choose(site, bound) -> a number in 0..bound-1; a bound of 1 leaves no choice and is not recorded."""
        return self._drawing(name) if self.replaying is None else self._replay

    def _drawing(self, name: str) -> Callable[[str, int], int]:
        more, drawn, record = words(self.seed, name), [], self.tape.append

        def choose(site: str, bound: int) -> int:
            if bound == 1:
                return 0
            if not drawn:
                drawn.extend(next(more))
            choice = drawn.pop() * bound >> 32
            record((site, choice, bound))
            return choice

        return choose

    def end(self) -> None:
        """Raises TapeMismatch if a tape that is replayed holds more choices than the run has asked for."""
        left = next(self.replaying, None) if self.replaying is not None else None
        if left is not None:
            raise TapeMismatch(f"the run is over, the tape goes on with {left}")

    def _replay(self, site: str, bound: int) -> int:
        if bound == 1:
            return 0
        recorded = next(self.replaying, None)
        if recorded is None or (recorded[0], recorded[2]) != (site, bound):
            raise TapeMismatch(f"the run asks for {site!r} of {bound}, the tape holds {recorded or 'nothing more'}")
        return recorded[1]

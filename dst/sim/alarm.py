"""Safety: a run that does not end is told of, as a failure of its own class; what ran before it is kept."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

LONGEST_RUN_S = 60.0  # thousands of times what a run takes


class Hung(BaseException):
    """A run has used up its time. Not an Exception: the simulation takes those for the implementation's."""


@contextmanager
def alarmed() -> Iterator[None]:
    """Within it `set_alarm` raises Hung, in the main thread."""
    handler = signal.signal(signal.SIGALRM, raise_hung)
    try:
        yield
    finally:
        set_alarm(0)
        signal.signal(signal.SIGALRM, handler)


def set_alarm(after_s: float) -> None:
    """0: off. It goes off again each second, lest Hung be lost in a destructor."""
    signal.setitimer(signal.ITIMER_REAL, after_s, 1)


def raise_hung(number: int, frame: FrameType | None) -> None:
    raise Hung

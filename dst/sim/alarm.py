"""Stop a run that does not end. Safety: it is reported as a failure of its own class, and earlier results are kept."""

import signal
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

LONGEST_RUN_S = 60.0  # thousands of times a usual run


class Hung(BaseException):
    """A run used up its time. Not an Exception, because the simulation attributes those to the implementation."""


@contextmanager
def alarmed() -> Generator[None, None, None]:
    """Let `set_alarm` raise Hung, in the main thread, inside this block."""
    handler = signal.signal(signal.SIGALRM, raise_hung)
    try:
        yield
    finally:
        set_alarm(0)
        signal.signal(signal.SIGALRM, handler)


def set_alarm(after_s: float) -> None:
    """Set the alarm; 0 turns it off. It repeats each second, because a destructor may swallow Hung."""
    signal.setitimer(signal.ITIMER_REAL, after_s, 1)


def raise_hung(number: int, frame: FrameType | None) -> None:
    raise Hung

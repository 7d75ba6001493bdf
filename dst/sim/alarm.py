"""Stop a run that does not end. Safety: it is reported as a failure of its own class, and earlier results are kept."""

import signal
from collections.abc import Generator
from contextlib import contextmanager
from mmap import mmap
from time import monotonic, process_time
from types import FrameType

from highwater.interrupt import Hung

LONGEST_RUN_S = 60.0  # thousands of times a usual run
WAITS_S = 60.0  # beside its limit: what a run may wait, for the processor or for anything else
MOST_HUNG = 3  # runs that do not end, after which a command starts no further run

_ends_s = (0.0, 0.0)  # of the run: in the time of the processor, and of the clock
latest_s: "memoryview[float] | list[float]" = memoryview(mmap(-1, 8)).cast("d")
"""When the alarm goes off at the latest, by the clock; 0: it is off. A forked process writes it, and its parent reads it, which
kills the process if the run does not end (highwater/cli/guard.py)."""


@contextmanager
def alarmed() -> Generator[None, None, None]:
    """Let `set_alarm` raise Hung, in the main thread, inside this block."""
    handler = signal.signal(signal.SIGALRM, raise_hung)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])  # an earlier run may have blocked it
    try:
        yield
    finally:
        set_alarm(0)
        signal.signal(signal.SIGALRM, handler)


def set_alarm(after_s: float) -> None:
    """Set the alarm; 0 turns it off. It raises Hung after this time, or later if the run had the processor for less than half
    of it: beside many other processes a run gets up to ten times as long, and at most WAITS_S more.

    It repeats each second, for this, and because a destructor may swallow Hung."""
    global _ends_s
    _ends_s = (process_time() + after_s / 2, monotonic() + longest_s(after_s))
    latest_s[0] = _ends_s[1] if after_s else 0
    signal.setitimer(signal.ITIMER_REAL, after_s, 1)


def longest_s(after_s: float) -> float:
    """Return after how long at most an alarm goes off."""
    return after_s + min(9 * after_s, WAITS_S)


def raise_hung(number: int, frame: FrameType | None) -> None:
    if process_time() >= _ends_s[0] or monotonic() >= _ends_s[1]:
        raise Hung

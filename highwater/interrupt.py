"""Signals to this process. Safety: the exception of a signal's handler is told from the same one raised by the code under test,
and a process ends with its parent, even if SIGKILL ends that.
"""

import ctypes
import os
import signal
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
_last_s = float("-inf")  # when the last signal came


class Interrupted(KeyboardInterrupt):
    """The user has stopped the program."""


class Hung(BaseException):
    """A run used up its time (dst/sim/alarm.py). Not an Exception, because those are attributed to the implementation."""


def install() -> None:
    """Let Ctrl-C and SIGTERM raise Interrupted. A signal that the program was started to ignore stays ignored."""
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, interrupt)


def interrupt(number: int, frame: FrameType | None) -> None:
    """Raise Interrupted, but once a second at most: who signals a group signals a parent too, which passes it on."""
    global _last_s
    before, _last_s = _last_s, time.monotonic()
    if _last_s > before + 1:
        raise Interrupted


def is_by_signal(error: BaseException) -> bool:
    """Return whether a signal's handler raised this, or may have: without `install` Ctrl-C raises what any code may raise."""
    return isinstance(error, (Hung, Interrupted)) or (
        isinstance(error, KeyboardInterrupt) and signal.getsignal(signal.SIGINT) is signal.default_int_handler)


@contextmanager
def deferred() -> Generator[None, None, None]:
    """Defer Ctrl-C and SIGTERM to the end of this block, in which a process forks and sets their handlers."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> None:
    """Let the system kill this process when the thread ends that forked it, or its process does, even if it is stopped. Only
    Linux can."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)

"""Sends a signal to the test's own process, so that its handler runs before anything else does.

Python runs a handler in whatever Python code comes next. If that is a callback of the garbage collector (Hypothesis has one) or
a destructor, the KeyboardInterrupt of the handler is reported and dropped, and the test has interrupted nothing.
"""

import gc
import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager


def deliver(number: int) -> None:
    """Send a signal to this thread, which is the main one. Return after its handler, or raise what the handler raises."""
    assert threading.current_thread() is threading.main_thread(), "a handler runs in the main thread, at some later time"
    handler, calls = signal.getsignal(number), []
    assert callable(handler), f"signal {number} has no handler in Python"

    def noted(*arguments: object) -> object:
        calls.append(arguments)
        return handler(*arguments)  # pyright: ignore[reportCallIssue]  # it is callable

    with without_collections():
        signal.signal(number, noted)
        try:
            signal.raise_signal(number)  # to this thread: with os.kill, any thread of the process may take it, and later
        finally:
            signal.signal(number, handler)
            assert len(calls) == 1, f"signal {number} was delivered {len(calls)} times"


@contextmanager
def without_collections() -> Generator[None, None, None]:
    """Let no garbage collection begin in a block. One that was requested is over before the block."""
    was_enabled = gc.isenabled()
    gc.disable()
    for _ in range(2):  # a jump back is where Python 3.12 and newer run a requested collection
        pass
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()

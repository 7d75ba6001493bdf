"""Switch Python's collector of cyclic garbage off for work that makes millions of objects and leaves no cycles."""

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Generator[None, None, None]:
    """The collector is off within, or while a function that this decorates runs; if it was on, it is on again after."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()

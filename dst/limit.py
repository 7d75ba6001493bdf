"""Limit the time of one run and the memory of a process. The next run is not disturbed by one that was stopped."""

import resource
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from traceback import extract_tb

from highwater.dst.sim import alarm
from highwater.dst.sim.alarm import Hung, alarmed, set_alarm
from highwater.traces.refine import REFINERS

MEMORY_MB = 4_096
OUT_OF_MEMORY = f"it took more than {MEMORY_MB:,} MiB"


@contextmanager
def limited(limit_s: float) -> Generator[None, None, None]:
    """Raise Hung if this block takes longer. Must be called in a main thread."""
    with alarmed():
        try:
            set_alarm(limit_s)
            yield
        except Hung:
            set_alarm(0)  # what follows may take more than a second: a large refiner is freed
            REFINERS.clear()  # the alarm may have interrupted a change of a refiner
            raise


@contextmanager
def memory_limited() -> Generator[None, None, None]:
    """Limit the memory of this process, so that an excessive run raises MemoryError and does not harm other processes."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    most = MEMORY_MB << 20
    if before[0] == resource.RLIM_INFINITY or before[0] > most:
        resource.setrlimit(resource.RLIMIT_AS, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def place_of(hung: Hung) -> str:
    """Return the file's name and the line that the alarm interrupted."""
    frames = [frame for frame in extract_tb(hung.__traceback__) if frame.filename not in (__file__, alarm.__file__)]
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "an unknown place"

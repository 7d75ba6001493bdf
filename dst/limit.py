"""Limit the time of one run, for commands that run a few: the next run is not disturbed by one that was stopped."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from traceback import extract_tb

from highwater.dst.sim import alarm
from highwater.dst.sim.alarm import Hung, alarmed, set_alarm
from highwater.traces.refine import REFINERS


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


def place_of(hung: Hung) -> str:
    """Return the file's name and the line that the alarm interrupted."""
    frames = [frame for frame in extract_tb(hung.__traceback__) if frame.filename not in (__file__, alarm.__file__)]
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "an unknown place"

"""For each protocol, which action of its model an event is.

A mapping is the module traces/protocols/STEM.py. It has the protocol's Trace. It may have RECORDED, a traces.options.Recorded,
if options of its own tell of a recorded trace. Without it the scenario's Shape tells.
"""

from functools import cache
from importlib import import_module
from pathlib import Path

from highwater.traces.options import Recorded


@cache
def recorded(stem: str) -> Recorded | None:
    """How the protocol's own mapping checks recorded traces; None where it leaves that to the scenario's Shape."""
    if not (Path(__file__).parent / f"{stem}.py").exists():
        return None  # a scenario that is checked by the mapping of another protocol
    return getattr(import_module(f"{__name__}.{stem}"), "RECORDED", None)

"""Map the events of each protocol to the actions of its model.

A mapping is the module traces/protocols/STEM.py. It has the protocol's Trace. It may have RECORDED, a traces.options.Recorded,
if its own options describe a recorded trace. Without RECORDED the scenario's Shape does.
"""

from functools import cache

from highwater import project
from highwater.traces.options import Recorded


@cache
def recorded(stem: str) -> Recorded | None:
    """Return the protocol's own check of recorded traces; None if the scenario's Shape describes them."""
    if not project.has("mapping", stem):
        return None  # a scenario that is checked by the mapping of another protocol
    return getattr(project.load("mapping", stem), "RECORDED", None)

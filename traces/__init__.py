"""Events of a trace, and the check that a trace refines a model."""

if __name__ != "highwater.traces":
    raise ImportError("this package is highwater.traces: write `import highwater.traces` in place of `import traces`")

from highwater.traces.event import Event, from_json, to_json
from highwater.traces.refine import Failure, Match, Refiner
from highwater.traces.trace import Trace

__all__ = ["Event", "Failure", "Match", "Refiner", "Trace", "from_json", "to_json"]

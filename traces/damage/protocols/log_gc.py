"""Define what callers of this protocol may be told, to explain damaged traces that pass.

A refused append may be in the log: a reader that was slow can have read it.
"""

from highwater.traces.damage.clients import OF_ALL
from highwater.traces.damage.knowledge import Knowledge
from highwater.traces.damage.survivors import Survivor, same_but


def refused_as_well(s: Survivor) -> bool:
    """Return whether an append of unknown outcome is told to be refused, and nobody was told that it is committed."""
    return same_but(s, "op") and (s.before.op, s.after.op) == ("unknown", "refused") and not any(
        (e.kind, e.op, e.body) == ("told", "committed", s.before.body) for e in s.good)


KNOWLEDGE = Knowledge(equivalences={**OF_ALL, "refused as well": (
    "nobody was told that the append is committed, and a refused one may be in the log too", refused_as_well)})

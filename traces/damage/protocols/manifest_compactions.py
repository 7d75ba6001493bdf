"""Define what clients of this protocol may do, to explain damaged traces that pass.

The model has no reads of a collector. An open that is fenced has not opened.
"""

from highwater.traces.damage.clients import OF_ALL
from highwater.traces.damage.knowledge import Knowledge
from highwater.traces.damage.possible import OF_RESPONSES, passed, response
from highwater.traces.damage.responses import EARLY
from highwater.traces.damage.survivors import Clients, Survivor, same_but
from highwater.traces.event import EMPTY
from highwater.traces.form import READS


def fenced_and_not_open(s: Survivor) -> bool:
    is_told = (s.before.op, s.after.op) == ("not open", "fenced")
    return same_but(s, "op") and is_told and s.locals[s.before.client].pc == "Fenced"


def fenced_by_the_file(s: Survivor) -> bool:
    """Return whether a compactor is told that it is fenced before its reads of a boundary, and nothing else: the latest file,
    which it has read, has a higher epoch."""
    if s.damage.kind != EARLY or response(s).op != "fenced":
        return False
    own = next((e for e in reversed(s.good[:s.damage.at]) if e.client == response(s).client and e.awaited), EMPTY)
    is_file = (own.kind, own.op, own.status) == ("applied", "get", 200) and not own.key.endswith(".boundary")
    return is_file and all(e.op in READS and e.key.endswith(".boundary") for e in passed(s))


KNOWLEDGE = Knowledge(
    held=8,
    clients=Clients(free=("Collector",)),
    equivalences={**OF_ALL, "fenced and not open": (
        "an open that is not open because it was fenced is told so", fenced_and_not_open)},
    responses={**OF_RESPONSES, "fenced by the file": (
        "the latest file, which the compactor has read, has a higher epoch, whatever the boundary is", fenced_by_the_file)})

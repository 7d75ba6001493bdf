"""Define what clients of this protocol may do, to explain damaged traces that pass.

The model has no reads of a collector. An open that is fenced has not opened.
"""

from highwater.traces.damage.clients import OF_ALL
from highwater.traces.damage.knowledge import Knowledge
from highwater.traces.damage.survivors import Clients, Survivor, same_but


def fenced_and_not_open(s: Survivor) -> bool:
    is_told = (s.before.op, s.after.op) == ("not open", "fenced")
    return same_but(s, "op") and is_told and s.locals[s.before.client].pc == "Fenced"


KNOWLEDGE = Knowledge(held=8, clients=Clients(free=("Collector",)), equivalences={**OF_ALL, "fenced and not open": (
    "an open that is not open because it was fenced is told so", fenced_and_not_open)})

"""Define what clients of this protocol may do, to explain damaged traces that pass.

A writer begins anew with each PUT. A reader begins anew with LIST.
"""

from highwater.traces.damage.knowledge import Knowledge
from highwater.traces.damage.survivors import Clients

KNOWLEDGE = Knowledge(clients=Clients(begins=("list", "put")))

"""Define what clients of this protocol may do, to explain damaged traces that pass.

A client begins anew when it reads the object.
"""

from highwater.traces.damage.knowledge import Knowledge
from highwater.traces.damage.survivors import Clients

KNOWLEDGE = Knowledge(clients=Clients(begins=("get", "head")))

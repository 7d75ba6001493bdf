"""Define what clients of this protocol may do, to explain damaged traces that pass.

Each request of a client stands by itself.
"""

from highwater.traces.damage.knowledge import Knowledge
from highwater.traces.damage.survivors import Clients
from highwater.traces.form import MUTATIONS, READS

KNOWLEDGE = Knowledge(clients=Clients(begins=READS + MUTATIONS))

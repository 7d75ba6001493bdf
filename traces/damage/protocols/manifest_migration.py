"""Define what clients of this protocol may do, to explain damaged traces that pass.

The model has no reads of a collector.
"""

from highwater.traces.damage.knowledge import Knowledge
from highwater.traces.damage.survivors import Clients

KNOWLEDGE = Knowledge(clients=Clients(free=("Collector",)))

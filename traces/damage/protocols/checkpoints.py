"""Define what clients of this protocol may do, to explain damaged traces that pass.

The model has no reads, and SSTs that no manifest names yet are unknown to it.
"""

from highwater.traces.damage.clients import OF_ALL
from highwater.traces.damage.knowledge import Knowledge
from highwater.traces.damage.survivors import Clients

KNOWLEDGE = Knowledge(held=8, clients=Clients(free=("Collector",)), equivalences={**OF_ALL})

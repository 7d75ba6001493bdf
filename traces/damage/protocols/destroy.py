"""Define what callers of this protocol may be told, to explain damaged traces that pass.

The content of an SST means nothing to who destroys a database. Its clients take checkpoints as those of checkpoints do.
"""

from highwater.traces.damage.clients import OF_ALL
from highwater.traces.damage.knowledge import Knowledge
from highwater.traces.damage.protocols.checkpoints import AS_WELL
from highwater.traces.damage.survivors import Clients
from highwater.traces.protocols.checkpoints_contents import SSTS

KNOWLEDGE = Knowledge(held=2, clients=Clients(opaque=(SSTS,)), equivalences={**OF_ALL, **AS_WELL})

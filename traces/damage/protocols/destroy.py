"""Require a reason for every damaged trace that passes. The content of an SST means nothing to who destroys a database."""

from highwater.traces.damage.knowledge import Knowledge
from highwater.traces.damage.survivors import Clients
from highwater.traces.protocols.checkpoints_contents import SSTS

KNOWLEDGE = Knowledge(clients=Clients(opaque=(SSTS,)))

"""Require a reason for every damaged trace that passes. The content of an SST means nothing to clones."""

from highwater.traces.damage.knowledge import Knowledge
from highwater.traces.damage.survivors import Clients
from highwater.traces.protocols.clones_contents import SSTS

KNOWLEDGE = Knowledge(held=2, clients=Clients(opaque=tuple(SSTS)))

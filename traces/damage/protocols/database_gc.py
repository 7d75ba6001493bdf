"""Require a reason for every damaged trace that passes. The contents of SSTs and of WAL objects mean nothing to a collector."""

from highwater.traces.damage.knowledge import Knowledge
from highwater.traces.damage.survivors import Clients
from highwater.traces.protocols.database_gc import SSTS, WAL

KNOWLEDGE = Knowledge(held=2, clients=Clients(opaque=(SSTS, WAL.prefix)))

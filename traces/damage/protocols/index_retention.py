"""Define what else may hold of a damaged trace of an index's retention."""

from highwater.traces.damage.clients import OF_ALL
from highwater.traces.damage.knowledge import Knowledge

KNOWLEDGE = Knowledge(equivalences=OF_ALL)

"""Define what else may hold of a damaged trace of an index."""

from highwater.traces.damage.protocols.indexed import OF_AN_INDEX

KNOWLEDGE = OF_AN_INDEX

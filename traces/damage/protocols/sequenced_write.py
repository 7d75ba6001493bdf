"""State that the predicates for all protocols explain the damaged traces of this one."""

from highwater.traces.damage.knowledge import Knowledge

KNOWLEDGE = Knowledge()

"""Require a reason for every damaged trace that passes.

What the reader, the writer and the collectors of a database may do explains all of them.
"""

from highwater.traces.damage.knowledge import Knowledge

KNOWLEDGE = Knowledge(held=2)

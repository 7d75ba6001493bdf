"""Require a reason for every damaged trace that passes. What clients of any protocol may do explains all of them here."""

from highwater.traces.damage.knowledge import Knowledge

KNOWLEDGE = Knowledge(held=2)

"""For some protocols, why a damaged trace can still be a good one: KNOWLEDGE in traces/damage/protocols/STEM.py."""

from functools import cache

from highwater import project
from highwater.traces.damage.knowledge import GENERALLY, Knowledge


@cache
def knowledge(stem: str) -> Knowledge:
    """Return the Knowledge of a protocol; GENERALLY if it has no module here."""
    if not project.has("damage", stem):
        return GENERALLY
    return project.load("damage", stem).KNOWLEDGE

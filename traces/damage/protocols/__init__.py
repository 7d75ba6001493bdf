"""For some protocols, why a damaged trace can still be a good one: KNOWLEDGE in traces/damage/protocols/STEM.py."""

from functools import cache
from importlib import import_module
from pathlib import Path

from highwater.traces.damage.knowledge import GENERALLY, Knowledge


@cache
def knowledge(stem: str) -> Knowledge:
    """Return the Knowledge of a protocol; GENERALLY if it has no module here."""
    if not (Path(__file__).parent / f"{stem}.py").exists():
        return GENERALLY
    return import_module(f"{__name__}.{stem}").KNOWLEDGE

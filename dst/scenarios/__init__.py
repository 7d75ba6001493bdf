"""Find scenarios and known-bad clients by name.

A scenario is the module dst/scenarios/STEM.py, which ends with SCENARIO: dst/scenario.py says what is in it. A protocol has the
scenario of its own stem, and perhaps others, whose `model` it is. The known-bad clients are in dst/mutants/STEM.py.
"""

from functools import cache
from importlib import import_module
from pathlib import Path

from highwater.dst.scenario import Mutants, Scenario

DEFAULT = "sequenced_metadata_boundary"
STEMS = tuple(sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*.py")))


@cache
def named(stem: str) -> Scenario:
    """Raises LookupError."""
    return import_module(f"{__name__}.{known(stem)}").SCENARIO


@cache
def mutants_of(stem: str) -> Mutants:
    """Raises LookupError."""
    return import_module(f"highwater.dst.mutants.{known(stem)}").MUTANTS


def known(stem: str) -> str:
    if stem not in STEMS:
        raise LookupError(f"there is no scenario {stem!r}; there are: {', '.join(STEMS)}")
    return stem

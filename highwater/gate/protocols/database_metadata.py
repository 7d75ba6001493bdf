"""Define checks of `highwater verify` for the composition only: its own properties and those of its parts in the instances that
refine, and random walks in instances that are too large to search."""

from collections.abc import Iterator
from typing import Any

from highwater.gate.exits import HARNESS, SAFETY
from highwater.gate.rows import Check, Found
from highwater.model.explore.tabulated import explore
from highwater.model.explore.walk import walk
from highwater.model.protocols.database_metadata import Constants, model
from highwater.model.refinements.database_metadata import INSTANCES
from highwater.reports.steps import told

STEM = "database_metadata"
LONGEST, BATCH = 1_000, 2_000  # steps of one walk; walks that share what is known of steps
FEW, MANY = 100_000, 25_000_000  # steps of an instance in `verify`, and in `verify-deep`: 100 million in all
WALKS: tuple[dict[str, Any], ...] = (  # more clients would not fit the 63 bits of a state
    {"WRITERS": 2, "COMPACTORS": 1, "COLLECTORS": 1, "MAX_ID": 6},
    {"WAL": False, "COMPACTORS": 2, "COLLECTORS": 1, "COMPACTIONS_COLLECTORS": 1, "MAX_ID": 8},
    {"WAL": False, "OPERATORS": 1, "TAKES": 3, "CHECKPOINTS": 1, "COLLECTORS": 1, "READERS": 1, "MAX_ID": 8, "MAX_PENDING": 1},
    {"WRITERS": 2, "APPENDS": 2, "FLUSHES": 2, "COLLECTORS": 1, "WAL_COLLECTORS": 1, "MAX_ID": 8, "MAX_LOST": 1,
     "MAX_CRASHES": 1},
)


def checks() -> Iterator[Check]:
    for constants in INSTANCES:
        yield Check(STEM, "model", f"properties of all parts: {shown(constants)}", exploration, (constants,), weight=10)
    yield from walks(deep=False)


def deep_checks() -> Iterator[Check]:
    yield from walks(deep=True)


def walks(deep: bool) -> Iterator[Check]:
    steps = MANY if deep else FEW
    for constants in WALKS:
        yield Check(STEM, "model", f"{steps:,} random steps: {shown(constants)}", walked, (constants, steps), weight=20)


def shown(constants: dict[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in constants.items()) or "default"


def exploration(constants: dict[str, Any]) -> Found:
    instance = model(Constants(**constants))
    found = explore(instance)
    if found.violated:
        return Found("", SAFETY, told(instance, found.violated, found.trace))
    if not found.complete:
        return Found("", HARNESS, f"stopped at {found.stopped}")
    return Found(f"{found.states:,} states, {found.transitions:,} transitions, depth {found.depth}")


def walked(constants: dict[str, Any], steps: int) -> Found:
    """Take walks until they have at least so many steps. Each batch has a seed, and forgets what the one before it learnt."""
    instance, taken, longest, seed = model(Constants(**constants)), 0, 0, 0
    while taken < steps:
        found = walk(instance, seed, min(BATCH, steps // LONGEST + 1), LONGEST)
        if found.violated:
            return Found("", SAFETY, told(instance, found.violated, found.trace))
        taken, longest, seed = taken + found.steps, max(longest, found.longest), seed + 1
    return Found(f"{taken:,} steps, the longest walk {longest:,}")

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
STEPS = 1_000  # of one walk
WALKS: tuple[tuple[dict[str, Any], int, int], ...] = (  # constants, walks in `verify`, and in `verify-deep`
    ({"WRITERS": 2, "COMPACTORS": 1, "COLLECTORS": 1, "MAX_ID": 6}, 200, 25_000),
    ({"WAL": False, "WRITERS": 2, "COMPACTORS": 2, "COLLECTORS": 1, "COMPACTIONS_COLLECTORS": 1, "MAX_ID": 8}, 200, 25_000),
    ({"WAL": False, "WRITERS": 2, "OPERATORS": 1, "TAKES": 3, "CHECKPOINTS": 1, "COLLECTORS": 1, "READERS": 1, "MAX_ID": 8,
      "MAX_PENDING": 1}, 200, 25_000),
    ({"WRITERS": 2, "APPENDS": 2, "FLUSHES": 2, "COLLECTORS": 1, "WAL_COLLECTORS": 1, "MAX_ID": 8, "MAX_LOST": 1,
      "MAX_CRASHES": 1}, 200, 25_000),
)


def checks() -> Iterator[Check]:
    for constants in INSTANCES:
        yield Check(STEM, "model", f"properties of all parts: {shown(constants)}", exploration, (constants,), weight=10)
    yield from walks(deep=False)


def deep_checks() -> Iterator[Check]:
    yield from walks(deep=True)


def walks(deep: bool) -> Iterator[Check]:
    for constants, few, many in WALKS:
        number = many if deep else few
        yield Check(STEM, "model", f"{number:,} random walks: {shown(constants)}", walked, (constants, number), weight=20)


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


def walked(constants: dict[str, Any], number: int) -> Found:
    instance = model(Constants(**constants))
    found = walk(instance, 0, number, STEPS)
    if found.violated:
        return Found("", SAFETY, told(instance, found.violated, found.trace))
    return Found(f"{found.steps:,} steps, the longest walk {found.longest:,}")

"""Define small runs, a mutant and `unlike_the_store` (final files and boundary) for the boundary protocol."""

from typing import Any

from highwater.dst.scenarios.sequenced_metadata_boundary import Shape, namespace
from highwater.dst.simulate import Outcome
from highwater.impl.codecs.json.manifest import UPDATES
from highwater.traces.event import Event

Files = dict[int, frozenset[tuple[int, ...]]]  # id -> its updates

SMALL = Shape(writers=2, commits=2, collectors=1, rounds=2, readers=1, reads=1, think_ms=1, min_age_ms=60, manifest=True)
IMPOSSIBLE = "delete_before_advance"


def unlike_the_store(state: dict[str, Any], outcome: Outcome) -> str:
    where = namespace(outcome.shape)  # pyright: ignore[reportArgumentType]  # of this scenario
    return compared(state, stored(outcome.events, where))


def compared(state: dict[str, Any], stored: tuple[Files, int]) -> str:
    files = {int(file_id): frozenset(map(tuple, file["updates"])) for file_id, file in state["files"].items()}
    return "" if (files, state["boundary"]) == stored else (
        f"FizzBee ends with the files {sorted(files)} and the boundary {state['boundary']}, "
        f"the store with {sorted(stored[0])} and {stored[1]}, or their updates differ")


def stored(events: list[Event], where: Any) -> tuple[Files, int]:
    """Return the final files and boundary according to the store's log."""
    files: Files = {1: frozenset()}
    boundary = 0
    for e in events:
        if e.kind != "applied" or e.status >= 300 or e.op not in ("create", "update", "put", "delete"):
            continue
        if e.key == where.boundary_key:
            boundary = int(e.body)
        elif e.op == "delete":
            files.pop(where.file_id(e.key), None)
        else:
            updates = UPDATES.decode(e.body).updates
            files[where.file_id(e.key)] = frozenset(tuple(map(int, update.split("."))) for update in updates)
    return files, boundary

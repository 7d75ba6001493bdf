"""The differences between a database that our code writes and one that a released client writes, for the same script.

Each is decided on. `align` takes one difference out of the rendered state of a database, on the side that has it; so whatever
is left is none that is decided. tests/interop/test_interop_differential.py checks that each of these is needed: without it, its
script shows the difference. The table in docs/operating/database.md is generated from here.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from tests.support.slatedb.releases import NEWEST
from tests.support.slatedb.sides import Step

State = dict[str, Any]
OURS, THEIRS = "ours", "theirs"
BOTH = ("0.15.0", NEWEST)


class Difference(NamedTuple):
    """`align(step, state, whose)` changes the state of a database after a step. `script`: shows the difference."""

    topic: str
    released: str
    here: str
    align: Callable[[Step, State, str], None]
    script: tuple[Step, ...]
    releases: tuple[str, ...] = BOTH


def write(*pairs: tuple[str, str]) -> Step:
    return ("write", [["put", *pair] for pair in pairs])


WRITTEN: tuple[Step, ...] = (write(("a", "1"), ("b", "1")), ("flush",), write(("b", "2"), ("c", "2")), ("flush",))


# --- what each takes out

def tracker(_: Step, state: State, whose: str) -> None:
    state["sequence_tracker"] = ""


def checkpoint_of_writer(_: Step, state: State, whose: str) -> None:
    state["checkpoints"] = [one for one in state["checkpoints"] if one["writer_epoch"] is None]
    state["files"]["manifests of writers"] = 0


def length_of_stats(_: Step, state: State, whose: str) -> None:
    for info in state["ssts"].values():
        info["stats_len"] = 0


def epoch_of_clone(_: Step, state: State, whose: str) -> None:
    if whose == THEIRS and state["external_dbs"]:
        state["writer_epoch"] += 1


def name_of_pin(_: Step, state: State, whose: str) -> None:
    for one in state["checkpoints"]:
        if whose == OURS and (one["name"] or "").startswith("compaction "):
            one["name"] = None


def manifest_at_close(step: Step, state: State, whose: str) -> None:
    if whose == THEIRS and step[0] in ("reopen", "reopen_again") and not state["external_dbs"]:
        state["manifests"] -= 1


def seen_at_close(step: Step, state: State, whose: str) -> None:
    if step[0] == "reopen_again":
        state["wal_id_last_seen"] = 0


def manifest_of_refresh(step: Step, state: State, whose: str) -> None:
    if step[0] == "refresh" and not state["external_dbs"]:
        state["manifests"] = 0


def manifest_of_delete(step: Step, state: State, whose: str) -> None:
    if whose == THEIRS and step[0] == "delete_unknown":
        state["manifests"] -= 1


def seen_by_reader(step: Step, state: State, whose: str) -> None:
    if step[0] == "reader":
        state["wal_id_last_seen"] = 0


def seen_by_checkpoint(step: Step, state: State, whose: str) -> None:
    if step[0] == "checkpoint_durable":
        state["wal_id_last_seen"] = 0


def flush_of_fences(step: Step, state: State, whose: str) -> None:
    if step[0] == "flush_nothing":
        state |= {"manifests": 0, "replay_after_wal_id": 0, "wal_id_last_seen": 0}


def flush_at_close(step: Step, state: State, whose: str) -> None:
    if step[0] == "reopen_unflushed":
        for name in ("manifests", "replay_after_wal_id", "wal_id_last_seen", "l0", "last_l0_seq", "recent_snapshot_min_seq",
                     "ssts", "checkpoints"):
            state[name] = {}
        state["files"] |= {"ssts": [], "SSTs of no manifest": 0}


def sst_of_an_attempt(step: Step, state: State, whose: str) -> None:
    if step[0] != "collect":
        state["files"]["SSTs of no manifest"] = 0


DECIDED = (
    Difference("the sequence tracker", "written: which number was the latest at which second",
               "not written; one that is there is kept", tracker, WRITTEN),
    Difference("the writer's own checkpoint (D11)", "none", "keeps the manifest that the writer has put last",
               checkpoint_of_writer, WRITTEN),
    Difference("the length of an SST's statistics", "a FlatBuffer with other padding", "the same content, in fewer bytes",
               length_of_stats, WRITTEN),
    Difference("the epoch of a clone (D13)", "that of its source", "the next one", epoch_of_clone,
               (*WRITTEN, ("clone", "clone0", None))),
    Difference("the checkpoint of a compaction", "has no name", "is named after the compaction", name_of_pin,
               (*WRITTEN, ("compact", 2, 0))),
    Difference("a manifest when a writer is closed", "one", "none", manifest_at_close, (*WRITTEN, ("reopen",))),
    Difference("the close of a writer that has flushed nothing", "sets wal_id_last_seen to its fence", "changes nothing",
               seen_at_close, (*WRITTEN, ("reopen",), ("reopen_again",))),
    Difference("rows that are only in the WAL when a writer is closed", "are flushed", "stay there",
               flush_at_close, (*WRITTEN, write(("d", "3")), ("reopen_unflushed",))),
    Difference("a flush whose manifest conflicts with another update", "names its SST in the next attempt",
               "uploads another SST for each attempt; the first one is collected", sst_of_an_attempt,
               (*WRITTEN, write(("d", "3")), ("checkpoint", None, None), ("flush",), ("collect",))),
    Difference("a flush without a row, after an open", "nothing", "a manifest that is to be replayed after the fence",
               flush_of_fences, (*WRITTEN, ("reopen",), ("flush_nothing",))),
    Difference("a refresh that changes nothing", "a manifest", "no manifest", manifest_of_refresh,
               (*WRITTEN, ("checkpoint", None, None), ("refresh", 0, None))),
    Difference("a delete of a checkpoint that is not listed (D21)", "a manifest that changes nothing", "no manifest",
               manifest_of_delete, (*WRITTEN, ("delete_unknown",))),
    Difference("a reader (D12)", "leaves wal_id_last_seen as it is", "sets it to the last WAL object that is listed",
               seen_by_reader, (*WRITTEN, write(("d", "3")), ("reader",))),
    Difference("a checkpoint of what is durable, with rows in the WAL", "by an operator: the rows are not in it",
               "by the writer: it sets wal_id_last_seen, so it has the rows", seen_by_checkpoint,
               (*WRITTEN, write(("d", "3")), ("checkpoint_durable", None, None))),
)


def table() -> str:
    """Return the table of the docs."""
    rows = [f"| {one.topic} | {one.released} | {one.here} |\n" for one in DECIDED]
    return "".join(["| topic | released, 0.15.0 and 0.17.0 | here |\n", "|---|---|---|\n", *rows])

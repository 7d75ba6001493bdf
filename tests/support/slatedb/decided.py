"""The differences between a database that our code writes and one that a released client writes, for the same script.

Each is decided on. `align` takes one difference out of the rendered state of a database, on the side that has it; so whatever
is left is none that is decided. tests/interop/test_interop_differential.py checks that each of these is needed: without it, its
script shows the difference. The table in docs/operating/database.md is generated from here.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from highwater.impl.codecs.slatedb.tables import INCLUDED, Bound, Range
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
PART: tuple[Step, ...] = (*WRITTEN, ("project", "part0", None, "b"))
EMPTY: tuple[Step, ...] = (*WRITTEN, ("project", "part0", "x", None))
UNION: tuple[Step, ...] = (*PART, ("project", "part1", "b", None),
                           ("union", "union0", ("part0", None, "b"), ("part1", "b", None)))


# --- what each takes out

def checkpoint_of_writer(_: Step, state: State, whose: str) -> None:
    state["checkpoints"] = [one for one in state["checkpoints"] if one["writer_epoch"] is None]
    state["files"]["manifests of writers"] = 0


def length_of_stats(_: Step, state: State, whose: str) -> None:
    for info in state["ssts"].values():
        info["stats_len"] = 0


def merged(_: Step, state: State, whose: str) -> None:
    for info in state["ssts"].values():
        if info["last_entry"] == b"m":  # the only key here that is merged
            info |= dict.fromkeys(("filter_offset", "index_offset", "stats_offset"), 0)


def epoch_of_clone(_: Step, state: State, whose: str) -> None:
    if whose == THEIRS and state["name"].startswith("clone"):
        state["writer_epoch"] += 1


def start_of_part(_: Step, state: State, whose: str) -> None:
    if state["name"].startswith("part"):
        state |= dict.fromkeys(("writer_epoch", "compactor_epoch", "replay_after_wal_id", "wal_id_last_seen",
                                "last_compacted_l0_view_id", "sequence_tracker"), 0)


def entry_of_empty_part(step: Step, state: State, whose: str) -> None:
    if step == EMPTY[-1]:
        state["external_dbs"] = []
        if whose == THEIRS and state["name"] == "db":
            state["manifests"] -= 1
            state["checkpoints"] = [one for one in state["checkpoints"] if one["lasts"] != "never"]


def version_of_part(_: Step, state: State, whose: str) -> None:
    if state["name"].startswith(("part", "union")):
        state["version"] = 2


def views_of_part(_: Step, state: State, whose: str) -> None:
    if state["name"].startswith("part"):
        for view in views(state):
            view["id"] = ""


def views(state: State) -> Iterator[State]:
    """Yield all views of a database, also those of its checkpoints."""
    for of in (state, *(one["keeps"] for one in state["checkpoints"])):
        yield from (*of["l0"], *(view for run in of["runs"].values() for view in run))


def range_of_whole(_: Step, state: State, whose: str) -> None:
    for view in views(state):
        info = state["ssts"].get(view["sst"])
        if info and view["range"] == Range(Bound(info["first_entry"], INCLUDED), Bound(info["last_entry"], INCLUDED)):
            view["range"] = None


def run_without_rows(_: Step, state: State, whose: str) -> None:
    for of in (state, *(one["keeps"] for one in state["checkpoints"])):
        of["runs"] = {run: there for run, there in of["runs"].items() if there}


def views_of_union(_: Step, state: State, whose: str) -> None:
    if state["name"].startswith("union"):
        state |= {"l0": [], "repeated view ids": 0}


def snapshot_of_union(_: Step, state: State, whose: str) -> None:
    if state["name"].startswith("union"):
        state["recent_snapshot_min_seq"] = 0


def union_of_0_15(_: Step, state: State, whose: str) -> None:
    if state["name"].startswith("union") and state["last_l0_clock_tick"]:
        state |= {"manifests": 0, "last_l0_clock_tick": ""}


def entries_of_union(step: Step, state: State, whose: str) -> None:
    if state["name"].startswith("union"):
        state["external_dbs"] = []
    elif step[0] == "union":
        state |= {"checkpoints": [], "manifests": 0}


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
    Difference("the writer's own checkpoint (D11)", "none", "keeps the manifest that the writer has put last",
               checkpoint_of_writer, WRITTEN),
    Difference("the length of an SST's statistics", "a FlatBuffer with other padding", "the same content, in fewer bytes",
               length_of_stats, WRITTEN),
    Difference("the epoch of a clone (D13)", "that of its source", "the next one", epoch_of_clone,
               (*WRITTEN, ("clone", "clone0", None))),
    Difference("merge operands in SSTs", "applied by the writer's operator, in flushes and compactions", "kept", merged,
               (("write", [["merge", "m", "1"]]), ("write", [["merge", "m", "2"]]), ("flush",))),
    Difference("a compaction without a result", "a run without SSTs", "no run", run_without_rows,
               (("write", [["delete", "a"]]), ("flush",), ("compact", 1, 0))),
    Difference("the start of a projection", "epochs, WAL ids, last_compacted and the tracker are those of its source",
               "none: it has no WAL",
               start_of_part, (*WRITTEN, ("compact", 1, 0), ("project", "part0", None, "b"))),
    Difference("the range of an SST that a projection shows whole", "from its first to its last key", "none", range_of_whole,
               (*WRITTEN, ("project", "part0", "b", None))),
    Difference("the views of a projection (D18)", "have the ids that they have in the source", "have ids of their own",
               views_of_part, PART),
    Difference("a projection without an SST", "pins its source", "has no parent", entry_of_empty_part, EMPTY),
    Difference("a projection or union of V1 manifests", "V1", "V2: V1 has no place for ids of views",
               version_of_part, PART, ("0.15.0",)),
    Difference("the views of a union (D18)", "those of its parts, with the same ids", "merged, with ids of their own",
               views_of_union, UNION),
    Difference("recent_snapshot_min_seq of a union (D19)", "0: compactions keep everything", "last_l0_seq", snapshot_of_union,
               UNION),
    Difference("the entries of a union (D17)", "one for each source and set of SSTs: each has a final checkpoint",
               "one for each manifest that they are kept by", entries_of_union, UNION),
    Difference("a union of 0.15.0", "one manifest less, no clock tick", "as 0.17.0",
               union_of_0_15, UNION, ("0.15.0",)),
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
    """Return the table of the docs. The numbers of decisions are of no use there."""
    rows = [f"| {re.sub(r' [(]D[0-9]+[)]', '', one.topic)} | {one.released} | {one.here} |\n" for one in DECIDED]
    return "".join(["| topic | released, 0.15.0 and 0.17.0 | here |\n", "|---|---|---|\n", *rows])

"""Lists every difference between consecutive manifests.

A manifest does not name its writer. The role (writer, compactor, collector, admin, clone) is inferred from the changes; it is
"?" if several roles or none could have made them.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from highwater.admin.database import Database, File
from highwater.impl.codecs.manifest import Manifest

COMPACTOR_LIFETIME_S = 900  # lifetime of the checkpoint that a released compactor takes before it drops its inputs
NAMED = ("external_dbs", "ssts", "l0", "compacted", "checkpoints")  # shown by their ids
PLAIN = tuple(name for name in Manifest._fields if name not in NAMED)
WRITERS = {"writer_epoch", "wal_id_last_seen", "replay_after_wal_id", "last_l0_seq", "last_l0_clock_tick",
           "recent_snapshot_min_seq", "sequence_tracker", "l0 added"}
COMPACTORS = {"compactor_epoch", "last_compacted_l0_view_id", "last_compacted_l0_sst_id", "l0 removed", "compacted"}


class Step(NamedTuple):
    """The change from one manifest to the next existing one."""

    before: int  # 0: there is no earlier one
    after: int
    last_modified_ms: int
    version: int
    role: str
    changes: tuple[tuple[str, str], ...]  # (field, change)


def history(database: Database) -> tuple[Step, ...]:
    steps = [step(None, file) for file in database.manifests[:1]]
    return (*steps, *(step(before, after) for before, after in pairwise(database.manifests)))


def step(before: File | None, after: File) -> Step:
    def made(role: str, changes: Any) -> Step:
        return Step(before.id if before else 0, after.id, after.last_modified_ms, after.version, role, tuple(changes))

    if before and before.value is None:
        return made("?", [("unreadable", after.fault or f"manifest {before.id}: {before.fault}")])
    if after.value is None:
        return made("?", [("unreadable", after.fault)])
    if before is None:
        return made("created" if after.id == 1 else "?", [] if after.id == 1 else [("earlier manifests", "are not there")])
    changes = list(changed(before.value, after.value))
    if before.version != after.version:
        changes.append(("format", f"V{before.version} -> V{after.version}"))
    if after.id > before.id + 1:
        return made("?", [("between", f"{after.id - before.id - 1} manifests are not there"), *changes])
    return made(role_of(before, after, {what for what, _ in changes}), changes)


def changed(before: Manifest, after: Manifest) -> Iterator[tuple[str, str]]:
    for name in PLAIN:
        old, new = getattr(before, name), getattr(after, name)
        if old != new:
            yield name, "changed" if name in ("sequence_tracker", "segments") else f"{shown(old)} -> {shown(new)}"
    for what, old, new in (("l0", before.l0, after.l0), ("sst", before.ssts, after.ssts),
                           ("checkpoint", before.checkpoints, after.checkpoints)):
        if gone := [one.id for one in old if one not in new]:
            yield f"{what} removed", ", ".join(gone)
        if come := [one.id for one in new if one not in old]:
            yield f"{what} added", ", ".join(come)
    if before.compacted != after.compacted:
        yield "compacted", f"{runs(before)} -> {runs(after)}"
    if before.external_dbs != after.external_dbs:
        yield "external_dbs", f"{externals(before)} -> {externals(after)}"


def role_of(before: File, after: File, what: set[str]) -> str:
    changes = what - {"format", "sst added", "sst removed"}
    if "format" in what:  # fields without a place in the other version are lost with it
        changes -= {"last_compacted_l0_view_id", "last_compacted_l0_sst_id"}
    if not changes:
        return "? (the same again)"
    if changes <= {"checkpoint added", "checkpoint removed"}:
        return role_of_checkpoints(before, after)
    if "initialized" in changes:
        return "clone"
    if "writer_epoch" in changes and changes <= WRITERS | {"checkpoint added", "checkpoint removed"}:
        return "writer opens"
    if "compactor_epoch" in changes and changes <= {"compactor_epoch", "checkpoint added", "checkpoint removed"}:
        return "compactor opens"
    if changes <= WRITERS:
        return "writer"
    if changes <= COMPACTORS | {"external_dbs", "l0 added", "segments"}:
        return "collector" if changes == {"external_dbs"} else "compactor"
    return "?"


def role_of_checkpoints(before: File, after: File) -> str:
    """Return the role of a change that affects only checkpoints."""
    old = {one.id: one for one in before.value.checkpoints}
    new = {one.id: one for one in after.value.checkpoints}
    come, gone = [new[name] for name in new if name not in old], [old[name] for name in old if name not in new]
    if gone and not come:
        expired = all(one.expire_time_s and one.expire_time_s * 1000 <= after.last_modified_ms for one in gone)
        return "collector" if expired else "admin"
    if len(come) == 1 and come[0].name is None and come[0].expire_time_s - come[0].create_time_s == COMPACTOR_LIFETIME_S:
        return "compactor"
    return "admin, reader or clone"


def runs(manifest: Manifest) -> str:
    return ", ".join(f"run {run.id} of {len(run.views)}" for run in manifest.compacted) or "no runs"


def externals(manifest: Manifest) -> str:
    return ", ".join(f"{one.path} ({len(one.sst_ids)} SSTs)" for one in manifest.external_dbs) or "none"


def shown(value: Any) -> str:
    return "none" if value is None else str(value)

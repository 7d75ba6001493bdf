"""Checks ids, numbers and times: is an id missing, is a number too large to count on, is a time in the future?"""

from collections.abc import Iterator
from itertools import pairwise

from highwater.admin.database import Database
from highwater.admin.findings import Finding, Parents, listed, sequences
from highwater.impl.codecs.sst_ids import is_ulid, time_ms
from highwater.impl.layout import U64

FAR = 1 << 48  # ids and epochs: at 1,000 a second this takes 8,900 years
FAR_SEQ = 1 << 63  # numbers of rows: a user of a released client may choose them
LAST_RUN = (1 << 32) - 1
AHEAD_MS, FAR_AHEAD_MS = 10_000, 300_000  # a released writer waits so long for its clock; clocks of machines differ by less


def ids_are_without_a_gap(database: Database, parents: Parents, now_ms: int) -> Iterator[Finding]:
    """Check that no id ahead of the boundary is missing.

    A collector without boundaries leaves gaps. It deletes all old manifests that no checkpoint refers to, so it has left each
    one before the gap for a checkpoint. And the missing files were once written, which took a millisecond each, at least."""
    ever = {one.manifest_id for file in database.manifests if file.value for one in file.value.checkpoints}
    first_unreferenced = next((file.id for file in database.manifests if file.id not in ever), U64)
    for name, files, boundary in sequences(database):
        ahead = {file.id: file.last_modified_ms for file in files if file.id > boundary}
        ids = [boundary, *ahead] if boundary else [*ahead]
        for before, after in pairwise(ids):
            if after == before + 1:
                continue
            what = f"{name}: {before} and {after} exist, but no file between them"
            if boundary or name != "manifest" or before >= first_unreferenced or (
                    after - before - 1 > max(0, ahead[after] - ahead[before]) + 1000):
                yield Finding(
                    "damage", "gap", what,
                    f"a client that reads on from {before} takes it for the latest, and forks the history; restore the files")
            else:
                yield Finding(
                    "note", "unusual gap", what,
                    "a collector that knows no boundaries leaves such gaps behind the manifest of a checkpoint; if none ran, "
                    "files are missing")


def numbers_are_in_reach(database: Database, parents: Parents, now_ms: int) -> Iterator[Finding]:
    numbers: list[tuple[str, int, int]] = []
    for name, files, boundary in sequences(database):
        numbers += [(f"the id of the latest {name}", files[-1].id, FAR)] if files else []
        numbers.append((f"gc/{name}.boundary", boundary, FAR))
    numbers += [("the id of the last WAL object", database.wal[-1].id, FAR)] if database.wal else []
    if latest := database.latest:
        numbers += [(name, getattr(latest, name), FAR) for name in (
            "writer_epoch", "compactor_epoch", "replay_after_wal_id", "wal_id_last_seen")]
        numbers += [(name, getattr(latest, name), FAR_SEQ) for name in ("last_l0_seq", "recent_snapshot_min_seq")]
        runs = [run.id for run in latest.compacted if not isinstance(run, str)]
        runs += [run.id for segment in latest.segments for run in segment.compacted]
        numbers.append(("the id of a sorted run", max(runs, default=0), LAST_RUN))
    if database.latest_compactions:
        numbers.append(("compactor_epoch of the compactions file", database.latest_compactions.compactor_epoch, FAR))
    for name, number, far in numbers:
        if number >= far:
            last = LAST_RUN if far == LAST_RUN else U64 - 1
            yield Finding(
                "danger", "number out of reach",
                f"{name} is {number:,}",
                f"no database counts so far, so it is damaged or a foreign file; after {last:,} there is no next one, and "
                "clients fail or wait forever")


def times_are_past(database: Database, parents: Parents, now_ms: int) -> Iterator[Finding]:
    latest = database.latest
    if latest and latest.last_l0_clock_tick > now_ms + AHEAD_MS:
        yield Finding(
            "danger", "clock ahead",
            f"last_l0_clock_tick is {latest.last_l0_clock_tick:,} ms, which is in the future",
            "released clients cannot write until then, and times of new rows, by which they expire, are counted from it")
    late_ms = now_ms + FAR_AHEAD_MS
    compactions = database.latest_compactions.recent_compactions if database.latest_compactions else ()
    if beats := [one.id for one in compactions if one.worker and one.worker.last_heartbeat_ms > late_ms]:
        yield Finding(
            "danger", "clock ahead",
            f"compaction {listed(beats)} has a last_heartbeat_ms in the future",
            "until then no other worker takes it over from one that has died")
    made = {
        "checkpoint": [one.id for one in latest.checkpoints if one.create_time_s * 1000 > late_ms] if latest else [],
        "compaction": [one.id for one in compactions if time_ms(one.id) > late_ms],
        "SST": [name for name in database.ssts if is_ulid(name) and time_ms(name) > late_ms],
        **{name: [str(file.id) for file in files if file.last_modified_ms > late_ms] for name, files, _ in sequences(database)},
        "WAL object": [str(one.id) for one in database.wal if one.last_modified_ms > late_ms]}
    for name, ids in made.items():
        if ids:
            yield Finding(
                "note", "unusual time",
                f"{name} {listed(ids)} was made in the future, by the clock here",
                "a clock was ahead when it was made, or is behind here; collectors keep it, and what is younger, until then")


NUMBERS = (ids_are_without_a_gap, numbers_are_in_reach, times_are_past)

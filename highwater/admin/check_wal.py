"""Checks the write-ahead log: are all objects there that a client replays, in order, and with rows unless they are fences?"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import pairwise

from highwater.admin.contents import Contents
from highwater.admin.database import Database
from highwater.admin.findings import Finding, Parents, span_of_runs
from highwater.impl.manifests.readable import gaps

LOST = "their records are lost"


def the_wal_is_whole(database: Database, parents: Parents, now_ms: int) -> Iterator[Finding]:
    """Check that no WAL object is missing among those to replay."""
    if not database.latest:
        return
    after, seen = database.latest.replay_after_wal_id, database.latest.wal_id_last_seen
    there = [one.id for one in database.wal if one.id > after]
    last = there[-1] if there else after
    missing = gaps(there, after + 1, max(last, seen))
    uri = database.latest.wal_object_store_uri
    if missing and uri and not database.wal_elsewhere:
        yield Finding(
            "note", "WAL elsewhere",
            f"the manifest says that the WAL is in the store {uri}",
            "it was not checked; name it with --wal-url")
        return
    if within := [run for run in missing if run.start < last or not database.wal]:
        yield Finding(
            "damage", "WAL missing",
            f"of WAL {after + 1} to {max(last, seen)}, which are to be replayed, {span_of_runs(within)} are missing",
            f"{LOST}: a client opens the database without them and later ones, or a writer cannot open it" if (
                database.wal or database.wal_elsewhere) else
            f"{LOST}, unless wal_id_last_seen is wrong; if the WAL is in another store, name it with --wal-url")
    elif missing:
        yield Finding(
            "damage", "WAL ends early",
            f"wal_id_last_seen is {seen}, but the last WAL object is {database.wal[-1].id}",
            f"either {span_of_runs(missing)} are lost with their records, or the number in the manifest is wrong; a writer "
            "cannot open the database, or opens it without them")


def fences_are_those_of_writers(database: Database, parents: Parents, now_ms: int) -> Iterator[Finding]:
    """Check that there are no more fences than writers: each has put one, as it opened. Collectors delete old ones."""
    if too_many := fences_too_many(database):
        yield Finding(
            "note", "unusual fences",
            f"{len(fences(database))} WAL objects are empty, as fences are, but only {len(fences(database)) - too_many} "
            "writers have opened the database",
            "a request of a writer was repeated, or WAL objects were emptied, and their records are lost; --deep looks for the "
            "numbers of lost rows")


def fences(database: Database) -> list[int]:
    """Return the ids of empty WAL objects that the oldest manifest has not seen: a clone begins with those of its parent, and
    its epochs begin with 0."""
    seen = next((file.value.wal_id_last_seen for file in database.manifests if file.value), 0)
    return [one.id for one in database.wal if one.fence and one.id > seen]


def fences_too_many(database: Database) -> int:
    return max(0, len(fences(database)) - database.latest.writer_epoch) if database.latest else 0


# --- with the rows

def wal_objects_follow_each_other(database: Database, contents: Contents) -> Iterator[Finding]:
    for (before, a), (later, b) in pairwise(replayed(database, contents)):
        if b[0] <= a[1]:
            yield Finding(
                "damage", "WAL out of order",
                f"WAL object {later} begins with row {b[0]}, but object {before} ends with row {a[1]}",
                "one of them is in the place of another one, whose records are lost; no client of this repository replays them")


def numbers_of_rows_have_no_hole(database: Database, contents: Contents) -> Iterator[Finding]:
    """Look for numbers that no row has. A transaction that a released client gave up leaves one."""
    if not database.latest:
        return
    found = replayed(database, contents)
    before = [(database.latest.replay_after_wal_id, (0, database.latest.last_l0_seq)), *found]
    holes = [(earlier, later, b[0] - a[1] - 1) for (earlier, a), (later, b) in pairwise(before) if b[0] > a[1] + 1]
    empty_ids = fences(database)
    empty = [(fence, number) for earlier, later, number in holes
             for fence in empty_ids[bisect_right(empty_ids, earlier):bisect_left(empty_ids, later)]]
    if empty and fences_too_many(database):
        yield Finding(
            "danger", "WAL emptied",
            f"WAL object {', '.join(sorted({str(fence) for fence, _ in empty}))} is empty, {empty[0][1]} numbers of rows are "
            "missing around it, and there are more empty objects than writers",
            "one of them had rows, which are lost: restore it")
    inside = sum(contents.wal[number].left_out for number, _ in found)
    if holes or inside:
        yield Finding(
            "note", "unusual numbers",
            f"{sum(number for *_, number in holes) + inside} numbers of rows are missing in the WAL"
            + (f", first between objects {holes[0][0]} and {holes[0][1]}" if holes else ""),
            "transactions that a client gave up leave such holes, and so do rows that are lost")


def rows_are_replayed_or_flushed(database: Database, contents: Contents) -> Iterator[Finding]:
    """Check that no WAL object has a row that clients skip, although no SST has it: they skip objects up to
    replay_after_wal_id, and rows up to last_l0_seq. The newest SST of L0 ends with that row, if this database wrote it."""
    if not (latest := database.latest) or not contents.whole:
        return
    after, flushed = latest.replay_after_wal_id, latest.last_l0_seq
    inherited = {sst for one in latest.external_dbs for sst in one.sst_ids}
    newest = contents.ssts.get(latest.l0[0].sst_id) if latest.l0 and latest.l0[0].sst_id not in inherited else None
    ends = newest.seqs[1] if newest and newest.seqs and not newest.fault else flushed
    for number, content in sorted(contents.wal.items()):
        if not content.seqs or content.fault:
            continue
        first, last = content.seqs
        if number <= after and last > flushed:
            skipped = f"replay_after_wal_id is {after}, and last_l0_seq {flushed}"
        elif number > after and ends < flushed and first <= flushed and last > ends:
            skipped = f"last_l0_seq is {flushed}, and the newest SST of L0 ends with row {ends}"
        else:
            continue
        yield Finding(
            "damage", "WAL not replayed",
            f"WAL object {number} has rows {first} to {last}, but {skipped}",
            "no client shows these rows: a number in the manifest is wrong, or the object is in the place of another one")


def replayed(database: Database, contents: Contents) -> list[tuple[int, tuple[int, int]]]:
    """Return the WAL objects to replay that have rows and are whole, with the numbers of their rows."""
    after = database.latest.replay_after_wal_id if database.latest else 0
    return [(number, content.seqs) for number, content in sorted(contents.wal.items())
            if number > after and content.seqs and not content.fault]


WAL = (the_wal_is_whole, fences_are_those_of_writers)
WAL_ROWS = (wal_objects_follow_each_other, numbers_of_rows_have_no_hole, rows_are_replayed_or_flushed)

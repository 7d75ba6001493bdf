"""Checks a database for damage, also while it is in use, and changes nothing.

A database in use changes while it is read: a listed file or an SST that a manifest names may be deleted. So each finding is
checked a second time, and reported only if it is still there (`examine`).

`Finding.level`: "damage" has happened; "danger" will do damage, or hang clients, if it stays; "note" is good to know.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from enum import IntEnum
from itertools import accumulate, pairwise
from typing import NamedTuple

from highwater import pages
from highwater.admin import check_clones
from highwater.admin.check_numbers import NUMBERS
from highwater.admin.check_order import ORDER, ORDER_OF_ROWS
from highwater.admin.check_wal import LOST, WAL, WAL_ROWS
from highwater.admin.contents import NOTHING, Contents, contents_of, targets_of
from highwater.admin.database import Aside, Database, Place, Seen, Steps, load, ssts_of
from highwater.admin.findings import (
    LEVELS,
    Finding,
    Parent,
    Parents,
    in_history,
    listed,
    referenced,
    runs_of,
    sequences,
    span,
)
from highwater.impl.codecs.destroyed import SEALED
from highwater.impl.codecs.slatedb.manifest import ManifestCodec
from highwater.impl.codecs.slatedb.tables import Sst
from highwater.impl.db.parts import FOOTER
from highwater.impl.errors import Definite, ListingNeverEnds, NotFound, Unavailable
from highwater.impl.layout import Namespace
from highwater.impl.protocols.sequenced_storage import SequencedStorage
from highwater.impl.stores.keys import fault_of
from highwater.impl.world import World

ENDLESS = 1 << 64  # the size of an SST in a parent that was not looked at
OPENS = {"manifest": "no client can open the database",
         "compactions": "no compactor can open the database; readers, and writers without a compactor, can"}
HARM = "reads of its keys may fail"  # of an SST


class Depth(IntEnum):
    """The objects that a check reads."""

    MANIFESTS = 0  # manifests, compactions files and boundaries, and the names and sizes of all other objects
    ENDS = 1  # also the ends of SSTs and of the WAL to replay
    BLOCKS = 2  # also every block of every SST and WAL object


class Report(NamedTuple):
    """The result of a check, or of one look at a database."""

    findings: tuple[Finding, ...]  # of a check, the worst first
    depth: Depth
    database: Database
    contents: Contents


async def judge(world: World, root: str, wal_at: Place | None = None, deep: bool = False) -> tuple[Finding, ...]:
    """Return the findings of `examine`; `deep` is the depth ENDS. Raises Unavailable, ListingNeverEnds."""
    return (await examine(world, root, wal_at, Depth.ENDS if deep else Depth.MANIFESTS)).findings


async def examine(world: World, root: str, wal_at: Place | None = None, depth: Depth = Depth.MANIFESTS,
                  steps: Steps | None = None) -> Report:
    """Return the findings that two looks have in common. Raises Unavailable, ListingNeverEnds.

    `wal_at`: where the WAL is, if it is elsewhere. `steps` is called for each object that is read. The second look
    reads sequenced files that have changed, and objects that were damaged."""
    seen: Seen = {}
    first = last = await look(world, root, wal_at, depth, steps, seen=seen)
    if any(finding.level != "note" for finding in first.findings):
        last = await look(world, root, wal_at, depth, steps, first.contents, seen)
    both = {*last.findings}
    found = (finding for finding in first.findings if finding in both)
    return last._replace(findings=tuple(sorted(found, key=lambda finding: (LEVELS.index(finding.level), finding.kind))))


async def look(world: World, root: str, wal_at: Place | None, depth: Depth, steps: Steps | None = None,
               known: Contents = NOTHING, seen: Seen | None = None) -> Report:
    """Read the database once, with its parents, and return all findings. `known`, `seen`: what an earlier look has read."""
    database = await load(world, root, wal_at, seen, steps)
    if database.boundaries["manifest"].value == SEALED:  # a file may still be there: a late request has put it
        sealed = Finding("note", "destroyed", "gc/manifest.boundary is 2^63-1: the database is destroyed, or about to be",
                         "no client may use it; `highwater admin destroy --hard` deletes what is left")
        return Report((sealed,), depth, database, NOTHING)
    parents = {}
    for external in database.latest.external_dbs if database.latest else ():
        parents[external.path] = await parent_at(world, external.path)
    now_ms = world.clock.now_ms()
    targets = targets_of(world, database, parents, wal_at, depth is Depth.BLOCKS) if depth else []
    contents = await contents_of(targets, depth is Depth.BLOCKS, steps, known)
    findings = (*(finding for check in CHECKS for finding in check(database, parents, now_ms)),
                *(finding for check in CHECKS_OF_CONTENTS for finding in check(database, contents)))
    return Report(findings, depth, database, contents)


async def parent_at(world: World, path: str) -> Parent:
    """Read the latest manifest of another database, and list its SSTs. Raises Unavailable, ListingNeverEnds."""
    storage = SequencedStorage(world, Namespace(path, "manifest"))
    latest, fault = None, ""
    try:
        files = await storage.list()
        latest = ManifestCodec().decode(await storage.read(files[-1].id)) if files else None
    except NotFound:
        pass
    except (Unavailable, ListingNeverEnds):
        raise
    except Definite as error:
        fault = str(error)
    return Parent(latest, await ssts_of(world, path, Aside([], set())), fault)


# ------------------------------------------------------------------------------------------------------ sequenced files

def there_is_a_manifest(database: Database, parents: Parents, now_ms: int) -> Iterator[Finding]:
    if not database.manifests:
        rest = database.wal or database.ssts or database.compactions
        yield Finding(
            "damage", "no manifest",
            f"there is no manifest in {database.root!r}",
            "restore the latest one: the rest of the database is there" if rest else "check the database's URL")


def files_can_be_read(database: Database, parents: Parents, now_ms: int) -> Iterator[Finding]:
    for name, files, _ in sequences(database):
        for file in files:
            last = file is files[-1]
            if file.fault:
                yield Finding(
                    "damage", "unreadable file",
                    f"{name} {file.id}{' (the latest)' if last else ''}: {file.fault}",
                    OPENS[name] if last else "reads of it by its id, as for a checkpoint, fail")
            elif file.value.unknown:
                yield Finding(
                    "note", "newer fields",
                    f"{name} {file.id} has {', '.join(file.value.unknown[:3])}",
                    "a newer release wrote it; an older one that writes it again silently drops these fields")


def boundaries_are_behind_the_latest(database: Database, parents: Parents, now_ms: int) -> Iterator[Finding]:
    for name, files, _ in sequences(database):
        boundary = database.boundaries[name]
        if boundary.value is None:
            yield Finding(
                "danger", "invalid boundary",
                boundary.fault,
                OPENS[name])
        elif files and boundary.value >= files[-1].id:
            yield Finding(
                "danger", "boundary ahead",
                f"gc/{name}.boundary is {boundary.value}, the latest {name} is {files[-1].id}",
                f"every {'client' if name == 'manifest' else 'compactor'} waits forever for a later one; if no file is missing"
                ", set it to less than the latest")
        elif boundary.value and not files:
            yield Finding(
                "damage", "boundary alone",
                f"gc/{name}.boundary is {boundary.value}, but there is no {name}",
                "all files of this kind are gone")


def nothing_lives_behind_the_boundary(database: Database, parents: Parents, now_ms: int) -> Iterator[Finding]:
    """Check for files behind the boundary that no collector has left there.

    A collector deletes after it has advanced the boundary. A file behind the boundary that is younger than one with a later id
    was put there by a stale writer, in place of a deleted file.
    """
    kept = referenced(database, now_ms)
    for name, files, boundary in sequences(database):
        behind = [file for file in files if file.id <= boundary]
        earliest_ms = [*accumulate((file.last_modified_ms for file in reversed(files)), min)][::-1]  # of it and all later ones
        for file, later_ms in zip(behind, earliest_ms):
            if later_ms < file.last_modified_ms:
                yield Finding(
                    "danger", "stale write",
                    f"{name} {file.id} is at or behind the boundary {boundary}, and younger than a later one",
                    "a stalled writer made it; it is in no history, but clients without boundaries would accept it; find out "
                    "whether its writer was told that it had succeeded")
        left = [file.id for file in behind if name == "compactions" or file.id not in kept]
        if left:
            yield Finding(
                "note", "to be collected",
                f"{name}: {span(left)} at or behind the boundary {boundary}",
                "the next collection deletes them")


def no_foreign_files(database: Database, parents: Parents, now_ms: int) -> Iterator[Finding]:
    for key in database.foreign:
        sequenced = "/compacted/" not in f"/{key}"
        yield Finding(
            "danger" if sequenced else "note", "foreign file",
            f"{key!r} has a name that no client gives",
            "released clients may take it for the latest and wait forever; move it away" if sequenced else "nobody reads it")


def no_strays(database: Database, parents: Parents, now_ms: int) -> Iterator[Finding]:
    for key in database.strays:
        named = fault_of(key.rpartition("/")[2])
        yield Finding(
            "danger", "foreign file" if named else "dangling link",
            f"{key!r} " + (f"has a name that no key can have: {named}" if named else "is a link to nothing"),
            "released clients list it, and may fail or wait forever; move it away")


def no_folder_is_in_the_place_of_a_file(database: Database, parents: Parents, now_ms: int) -> Iterator[Finding]:
    for key in database.folders:
        yield Finding(
            "danger", "folder",
            f"{key!r} is a folder with the name of a file",
            "released clients take it for the file, or cannot create the file, and wait forever; move it away")


def epochs_do_not_go_back(database: Database, parents: Parents, now_ms: int) -> Iterator[Finding]:
    for before, after in pairwise(in_history(database)):
        for name in ("writer_epoch", "compactor_epoch", "last_l0_seq", "replay_after_wal_id"):
            if getattr(after.value, name) < getattr(before.value, name):
                yield Finding(
                    "damage", "history goes back",
                    f"{name} is {getattr(before.value, name)} in manifest {before.id} and {getattr(after.value, name)} in "
                    f"{after.id}",
                    "a fenced client has written, or an old file was restored")
    if database.latest and database.latest_compactions:
        claimed, known = database.latest_compactions.compactor_epoch, database.latest.compactor_epoch
        if claimed != known:
            yield Finding(
                "note", "epochs apart",
                f"compactor_epoch is {known} in the manifest and {claimed} in the compactions file",
                "a compactor is opening, or has died in between; the next one to open repairs it")


# ----------------------------------------------------------------------------------------------- content of the manifests

def checkpoints_are_distinct(database: Database, parents: Parents, now_ms: int) -> Iterator[Finding]:
    if database.latest:
        places: dict[str, list[str]] = {}
        for one in database.latest.checkpoints:
            places.setdefault(one.id, []).append(str(one.manifest_id))
        for name, of in places.items():
            if len(of) > 1:
                yield Finding(
                    "damage", "checkpoint twice",
                    f"checkpoint {name} is {len(of)} times in the latest manifest (for manifests {', '.join(of)})",
                    "a write was applied, reported as refused, and repeated; `checkpoint delete` removes both")


def checkpoints_have_their_manifest(database: Database, parents: Parents, now_ms: int) -> Iterator[Finding]:
    there = {file.id for file in database.manifests}
    for one in database.latest.checkpoints if database.latest else ():
        if one.active(now_ms) and one.manifest_id not in there:
            yield Finding(
                "damage", "checkpoint lost",
                f"checkpoint {one.id} refers to manifest {one.manifest_id}, which does not exist",
                "its readers and clones fail; delete the checkpoint")


def ssts_are_there(database: Database, parents: Parents, now_ms: int) -> Iterator[Finding]:
    """Check the SSTs of the latest manifest and of the manifests that active checkpoints refer to."""
    kept = referenced(database, now_ms)
    for file in database.manifests:
        if file.value and (file is database.manifests[-1] or file.id in kept):
            external = {sst: one.path for one in file.value.external_dbs for sst in one.sst_ids}
            ends, missing = {sst.id: end_of(sst) for sst in file.value.ssts}, dict[str, str]()
            for name in sorted({view.sst_id for view in file.value.views}):
                home = external.get(name)
                there = database.ssts if home is None else parents[home].ssts if home in parents else {name: ENDLESS}
                size_bytes, least_bytes = there.get(name, 0), ends.get(name, 0)
                if not size_bytes:
                    missing[name] = home or database.root
                elif size_bytes < least_bytes:
                    yield Finding(
                        "damage", "cut short",
                        f"SST {name} in {home or database.root!r} has {size_bytes:,} bytes, but manifest {file.id} says that "
                        f"it has at least {least_bytes:,}",
                        HARM)
            for name, home in missing.items():
                yield Finding(
                    "damage", "SST missing",
                    f"manifest {file.id} names SST {name}, which is not in {home!r}/compacted/, or is empty",
                    "reads of its keys fail")


def end_of(sst: Sst) -> int:
    """Return the bytes that an SST has at least: what follows its data, and its footer."""
    info = sst.info
    return FOOTER.size + max(info.index_offset + info.index_len, info.filter_offset + info.filter_len,
                             info.stats_offset + info.stats_len)


def views_are_whole(database: Database, parents: Parents, now_ms: int) -> Iterator[Finding]:
    if not database.latest:
        return
    known = {sst.id for sst in database.latest.ssts}
    if unknown := {view.sst_id for view in database.latest.views} - known:
        yield Finding(
            "damage", "view of nothing",
            f"the latest manifest has views of SST {listed(unknown)}, which it does not list",
            "no client can open the database")
    for where, views, _ in runs_of(database.latest):
        twice = [name for name, number in Counter(view.id for view in views).items() if number > 1]
        if twice:
            yield Finding(
                "danger", "view twice",
                f"L0{where} has several views with the id {listed(twice)}",
                "a compaction takes the last of them for all, and the others' keys are lost: read everything and write it "
                f"to a new database, with no compactor running; {pages.named('findings')} explains the bug")


def expired_checkpoints_are_gone(database: Database, parents: Parents, now_ms: int) -> Iterator[Finding]:
    for one in database.latest.checkpoints if database.latest else ():
        if not one.active(now_ms):
            yield Finding(
                "note", "expired checkpoint",
                f"checkpoint {one.id} of manifest {one.manifest_id} has expired, and is still listed",
                "what it keeps stays until a collection removes it from the list; a released client may still refresh it")


def it_is_not_being_deleted(database: Database, parents: Parents, now_ms: int) -> Iterator[Finding]:
    if database.deleting:
        yield Finding(
            "danger", "being deleted",
            f"{database.root!r} has the mark .deleting",
            "it is being deleted, or was half deleted")


def what_nobody_names(database: Database, parents: Parents, now_ms: int) -> Iterator[Finding]:
    named = {view.sst_id for file in database.manifests if file.value for view in file.value.views}
    compactions = [one for file in database.compactions if file.value for one in file.value.recent_compactions]
    named |= {sst.id for one in compactions for sst in one.output_ssts}
    if orphans := sorted(database.ssts.keys() - named):
        yield Finding(
            "note", "unnamed SSTs",
            f"{len(orphans)} SSTs are in no existing manifest ({orphans[0]}, ...)",
            "they were just uploaded, or are garbage for a collector")
    old = [file.id for file in database.manifests if file.version == 1]
    if old and database.manifests[-1].version == 2:
        yield Finding(
            "note", "V1 remains",
            f"manifests {span(old)} are V1",
            "keep reading both versions until they are collected")


def objects_are_whole(database: Database, contents: Contents) -> Iterator[Finding]:
    """Report the damaged objects, and those that could not be read."""
    unread = {key: content.not_read for key, content in contents.by_key.items() if content.not_read}
    for key, content in contents.by_key.items():
        target = contents.targets[key]
        if content.fault and target.needed:
            yield Finding(
                "damage", "damaged object",
                f"{key!r}: {content.fault}",
                HARM if target.wal_id is None else f"{LOST}; no client can open the database")
        elif content.fault:
            yield Finding(
                "note", "damaged object",
                f"{key!r}: {content.fault}",
                "the latest state does not need it; the next collection with --data may delete it")
    if unread:
        yield Finding(
            "note", "not read",
            f"{listed(unread)}: {next(iter(unread.values()))}",
            "nothing is known of what is in these objects")


CHECKS: tuple[Callable[[Database, Parents, int], Iterator[Finding]], ...] = (
    there_is_a_manifest, files_can_be_read, *NUMBERS, boundaries_are_behind_the_latest, nothing_lives_behind_the_boundary,
    no_foreign_files, no_strays, no_folder_is_in_the_place_of_a_file, epochs_do_not_go_back, checkpoints_are_distinct,
    checkpoints_have_their_manifest, expired_checkpoints_are_gone, ssts_are_there, views_are_whole, *ORDER,
    check_clones.it_is_pinned, check_clones.each_pin_is_needed, *WAL, it_is_not_being_deleted, what_nobody_names,
)
CHECKS_OF_CONTENTS: tuple[Callable[[Database, Contents], Iterator[Finding]], ...] = (
    objects_are_whole, *WAL_ROWS, *ORDER_OF_ROWS)


def summary(report: Report) -> str:
    """Return what a check has read, as one line."""
    database, by_key = report.database, report.contents.by_key
    read = f"{len(database.manifests):,} manifests, {len(database.compactions):,} compactions files and the boundaries"
    ssts, wal = len(report.contents.ssts), len(report.contents.wal)
    if report.depth is Depth.MANIFESTS:
        return f"read {read}; of {len(database.ssts):,} SSTs and {len(database.wal):,} WAL objects only names and sizes"
    if report.depth is Depth.ENDS:
        return f"read {read}, and the ends of {ssts:,} SSTs and {wal:,} WAL objects; most blocks were not read"
    blocks, rows = sum(one.blocks for one in by_key.values()), sum(one.rows for one in by_key.values())
    return (f"read {read}, and {ssts:,} SSTs and {wal:,} WAL objects whole: {blocks:,} blocks, {rows:,} rows, "
            f"{sum(target.size_bytes for target in report.contents.targets.values()):,} bytes")

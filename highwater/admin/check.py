"""Checks a database for damage, also while it is in use, and changes nothing.

A database in use changes while it is read: a listed file or an SST that a manifest names may be deleted. So each finding is
checked a second time, and reported only if it is still there (`judge`).

`Finding.level`: "damage" has happened; "danger" will do damage, or hang clients, if it stays; "note" is good to know.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise

from highwater.admin import check_clones
from highwater.admin.database import Database, Place, load, ssts_of
from highwater.admin.deep import FOOTER, faults_of_ends
from highwater.admin.findings import LEVELS, Finding, Parent, Parents, referenced
from highwater.impl.codecs.destroyed import SEALED
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.manifest import ManifestCodec
from highwater.impl.codecs.slatedb.tables import Sst, View
from highwater.impl.errors import Definite, ListingNeverEnds, NotFound, Unavailable
from highwater.impl.layout import Namespace
from highwater.impl.protocols.sequenced_storage import SequencedStorage
from highwater.impl.stores.keys import fault_of
from highwater.impl.world import World

ENDLESS = 1 << 64  # the size of an SST in a parent that was not looked at
OPENS = {"manifest": "no client can open the database",
         "compactions": "no compactor can open the database; readers, and writers without a compactor, can"}
HARM = ("reads of its keys may fail", "its records are lost; no client can open the database")  # of an SST, of a WAL file


async def judge(world: World, root: str, wal_at: Place | None = None, deep: bool = False) -> tuple[Finding, ...]:
    """Return the findings that two looks have in common, the worst first. Raises Unavailable.

    `wal_at`: where the WAL is, if it is elsewhere. `deep`: read the SSTs and the WAL, too.
    """
    found = await look(world, root, wal_at, deep)
    if any(finding.level != "note" for finding in found):
        again = set(await look(world, root, wal_at, deep))
        found = [finding for finding in found if finding in again]
    return tuple(sorted(found, key=lambda finding: (LEVELS.index(finding.level), finding.kind)))


async def look(world: World, root: str, wal_at: Place | None, deep: bool) -> list[Finding]:
    """Read the database once, with its parents, and return all findings."""
    database = await load(world, root, wal_at)
    if (database.boundaries["manifest"].value or 0) >= SEALED:
        return [Finding("note", "destroyed", "gc/manifest.boundary is 2^63-1: the database is destroyed, or about to be",
                        "no client may use it; `highwater admin destroy --hard` deletes what is left")]
    parents = {}
    for external in database.latest.external_dbs if database.latest else ():
        parents[external.path] = await parent_at(world, external.path)
    now_ms = world.clock.now_ms()
    faults = await faults_of_ends(world, database, wal_at) if deep else {}
    return [*(finding for check in CHECKS for finding in check(database, parents, now_ms)),
            *(Finding("damage", "cut short", f"{key!r}: {fault}", HARM[key.split("/")[-2] == "wal"])
              for key, fault in faults.items())]


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
    return Parent(latest, await ssts_of(world, path, []), fault)


# ------------------------------------------------------------------------------------------------------ sequenced files

def there_is_a_manifest(database: Database, parents: Parents, now_ms: int) -> Iterator[Finding]:
    if not database.manifests:
        rest = database.wal or database.ssts or database.compactions
        yield Finding(
            "damage", "no manifest",
            f"there is no manifest in {database.root!r}",
            "restore the latest one: the rest of the database is there" if rest else "check the database's URL")


def files_can_be_read(database: Database, parents: Parents, now_ms: int) -> Iterator[Finding]:
    for name, files in (("manifest", database.manifests), ("compactions", database.compactions)):
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


def ids_are_without_a_gap(database: Database, parents: Parents, now_ms: int) -> Iterator[Finding]:
    """Check that no id ahead of the boundary is missing.

    Without a boundary, a collector may have left gaps. A file that it leaves below a gap is one that a checkpoint refers to, or
    did recently.
    """
    ever = {one.manifest_id for file in database.manifests if file.value for one in file.value.checkpoints}
    for name, files in (("manifest", database.manifests), ("compactions", database.compactions)):
        boundary = database.boundaries[name].value or 0
        ids = [*([boundary] if boundary else []), *(file.id for file in files if file.id > boundary)]
        for before, after in pairwise(ids):
            if after > before + 1 and (boundary or name != "manifest" or before not in ever):
                yield Finding(
                    "damage", "gap",
                    f"{name}: {before} and {after} exist, but no file between them",
                    f"a client that reads on from {before} takes it for the latest, and forks the history; restore the files")


def boundaries_are_behind_the_latest(database: Database, parents: Parents, now_ms: int) -> Iterator[Finding]:
    for name, files in (("manifest", database.manifests), ("compactions", database.compactions)):
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
    for name, files in (("manifest", database.manifests), ("compactions", database.compactions)):
        boundary = database.boundaries[name].value or 0
        behind = [file for file in files if file.id <= boundary]
        for file in behind:
            if any(later.last_modified_ms < file.last_modified_ms for later in files if later.id > file.id):
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


def epochs_do_not_go_back(database: Database, parents: Parents, now_ms: int) -> Iterator[Finding]:
    readable = [file for file in database.manifests if file.value and file.id > (database.boundaries["manifest"].value or 0)]
    for before, after in pairwise(readable):
        for name in ("writer_epoch", "compactor_epoch", "last_l0_seq", "replay_after_wal_id"):
            if getattr(after.value, name) < getattr(before.value, name):
                yield Finding(
                    "damage", "history goes back",
                    f"{name} is {getattr(before.value, name)} in manifest {before.id} and {getattr(after.value, name)} in "
                    f"{after.id}",
                    "a fenced client has written, or an old file was restored")
    if database.latest and database.compactions and database.compactions[-1].value:
        claimed, known = database.compactions[-1].value.compactor_epoch, database.latest.compactor_epoch
        if claimed != known:
            yield Finding(
                "note", "epochs apart",
                f"compactor_epoch is {known} in the manifest and {claimed} in the compactions file",
                "a compactor is opening, or has died in between; the next one to open repairs it")


# ----------------------------------------------------------------------------------------------- content of the manifests

def checkpoints_are_distinct(database: Database, parents: Parents, now_ms: int) -> Iterator[Finding]:
    if database.latest:
        for name, number in Counter(one.id for one in database.latest.checkpoints).items():
            if number > 1:
                places = ", ".join(str(one.manifest_id) for one in database.latest.checkpoints if one.id == name)
                yield Finding(
                    "damage", "checkpoint twice",
                    f"checkpoint {name} is {number} times in the latest manifest (for manifests {places})",
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
                        HARM[0])
            for name, home in missing.items():
                yield Finding(
                    "damage", "SST missing",
                    f"manifest {file.id} names SST {name}, which is not in {home!r}/compacted/, or is empty",
                    "reads of its keys fail")


def end_of(sst: Sst) -> int:
    """Return the bytes that an SST has at least: what follows its data, and its footer."""
    info = sst.info
    return FOOTER + max(info.index_offset + info.index_len, info.filter_offset + info.filter_len,
                        info.stats_offset + info.stats_len)


def views_are_whole(database: Database, parents: Parents, now_ms: int) -> Iterator[Finding]:
    if not database.latest:
        return
    known = {sst.id for sst in database.latest.ssts}
    if unknown := sorted({view.sst_id for view in database.latest.views} - known):
        yield Finding(
            "damage", "view of nothing",
            f"the latest manifest has views of SST {', '.join(unknown)}, which it does not list",
            "no client can open the database")
    for where, views in trees(database.latest):
        twice = sorted(name for name, number in Counter(view.id for view in views).items() if number > 1)
        if twice:
            yield Finding(
                "danger", "view twice",
                f"{where} has several views with the id {', '.join(twice)}",
                "a compaction takes the last of them for all, and the others' keys are lost (docs/operating/findings.md): read "
                "everything and write it to a new database, with no compactor running")


def trees(manifest: Manifest) -> Iterator[tuple[str, tuple[View, ...]]]:
    yield "L0", manifest.l0
    for segment in manifest.segments:
        yield f"L0 of segment {segment.prefix!r}", segment.l0


def expired_checkpoints_are_gone(database: Database, parents: Parents, now_ms: int) -> Iterator[Finding]:
    for one in database.latest.checkpoints if database.latest else ():
        if not one.active(now_ms):
            yield Finding(
                "note", "expired checkpoint",
                f"checkpoint {one.id} of manifest {one.manifest_id} has expired, and is still listed",
                "what it keeps stays until a collection removes it from the list; a released client may still refresh it")


def the_wal_is_whole(database: Database, parents: Parents, now_ms: int) -> Iterator[Finding]:
    """Check that no WAL file is missing among those to replay."""
    if not database.latest:
        return
    replayed = [one.id for one in database.wal if one.id > database.latest.replay_after_wal_id]
    expected = range(database.latest.replay_after_wal_id + 1, max([*replayed, database.latest.wal_id_last_seen]) + 1)
    if missing := sorted(set(expected) - set(replayed)):
        uri = database.latest.wal_object_store_uri
        if uri and not database.wal_elsewhere:
            yield Finding(
                "note", "WAL elsewhere",
                f"the manifest says that the WAL is in the store {uri}",
                "it was not checked; name it with --wal-url")
            return
        yield Finding(
            "damage", "WAL missing",
            f"of WAL {expected[0]} to {expected[-1]}, which are to be replayed, {span(missing)} are missing",
            "their records are lost: a client opens the database without them and later ones, or a writer cannot open it" if (
                replayed or database.wal_elsewhere) else
            "their records are lost; if the WAL is in another store, name it with --wal-url")


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


def span(ids: list[int]) -> str:
    return str(ids[0]) if len(ids) == 1 else f"{len(ids)} ({ids[0]} to {ids[-1]})"


CHECKS: tuple[Callable[[Database, Parents, int], Iterator[Finding]], ...] = (
    there_is_a_manifest, files_can_be_read, ids_are_without_a_gap, boundaries_are_behind_the_latest,
    nothing_lives_behind_the_boundary, no_foreign_files, no_strays, epochs_do_not_go_back, checkpoints_are_distinct,
    checkpoints_have_their_manifest, expired_checkpoints_are_gone, ssts_are_there, views_are_whole,
    check_clones.it_is_pinned, check_clones.each_pin_is_needed, the_wal_is_whole, it_is_not_being_deleted, what_nobody_names,
)

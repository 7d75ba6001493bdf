"""Makes a database of parts of others, without a copy of an SST: a projection of one, or a union of several.

impl/manifests/ makes the manifest. The steps are those of a clone, without a WAL (impl/protocols/clones.py): the manifest is
created uninitialized, each SST is pinned in the database that owns it, and then the new database is initialized. The command
may be given again after any error: it continues an attempt that shows the same rows.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from highwater.admin import several
from highwater.admin.clone import InDoubt, Made, stuck, without_ids
from highwater.admin.several import (
    Patient,
    Taken,
    check_ssts,
    check_unopened,
    database_at,
    log_behind,
    place_at,
    shown,
    source_at,
    stores_of_all,
    without_rows,
)
from highwater.impl.codecs.destroyed import mark_of
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.errors import Definite, Indefinite, StoreError, TimedOut, Unavailable
from highwater.impl.manifests import union
from highwater.impl.manifests.externals import SstOfTwoDatabases
from highwater.impl.manifests.merge import merge_views
from highwater.impl.manifests.readable import HasSegments, WalNotCompacted
from highwater.impl.manifests.spans import Malformed, Span
from highwater.impl.manifests.union import Overlap, Source
from highwater.impl.protocols import clones
from highwater.impl.protocols.checkpoints import CheckpointMissing, done, found
from highwater.impl.protocols.clones_manifest import NotPinned, Said
from highwater.impl.protocols.destroy_mark import DatabaseDestroyed
from highwater.impl.protocols.sequenced_metadata import Committed, Put, Recognised, Verdict
from highwater.impl.world import World

REFUSALS = (*several.REFUSALS, HasSegments, Malformed, NotPinned, Overlap, SstOfTwoDatabases, WalNotCompacted)
StoreOf = Callable[[str], Patient]


class Part(NamedTuple):
    """A source as the operator names it. `span`: the keys to take of it; None: those that it has."""

    path: str
    span: Span | None = None


class State(NamedTuple):
    """The manifest that is taken of a source, and the checkpoint that keeps it; "": one that is not taken yet."""

    checkpoint: str
    manifest_id: int
    manifest: Manifest


States = Mapping[str, State]  # by the path of the source


async def united(world: World, path: str, parts: Sequence[Part], checkpoints: Iterable[str], restart: bool, dry_run: bool
                 ) -> Made:
    """Make the database at `path` of these parts, or continue that. With `dry_run` nothing is written.

    `checkpoints`: of the sources; of a source without one the latest manifest is taken. `restart`: replace an unfinished
    attempt. Raises REFUSALS, ValueError if a source is no database or a checkpoint is in none, and InDoubt.
    """
    stores, sources = stores_of_all(world), list(dict.fromkeys(part.path for part in parts))
    there = await place_at(stores(path), path)
    known = {source: await database_at(stores(source), source) for source in sources}
    chosen = chosen_of(known, checkpoints)
    states: dict[str, State] = {}
    for source in sources:
        of = await source_at(stores(source), source, chosen.get(source), known[source])
        states[source] = State(chosen.get(source, ""), of.manifest_id, of.manifest)
    planned = await manifest_of(world, stores, parts, states, chosen)
    latest: dict[str, Said] = {**await check_ssts(stores, planned.external_dbs, known)}
    if there and there.value.initialized:
        check_same(there.value, planned, f"{path!r} is a database with other rows: give another place")
        await clones.check_pinned(stores, there.value)
        return Made(path, "complete already", there.id, there.value.external_dbs)
    if there and not restart:
        check_same(there.value, planned, f"{path!r} is unfinished, and has other rows: give --restart to replace it, or "
                   "another place")
    if there and restart:
        await check_no_wal(world, path, there.value)
    what = "made" if not there else "begun again" if restart else "continued"
    if dry_run:
        return Made(path, what, 0, there.value.external_dbs if there and not restart else without_ids(planned.external_dbs))
    try:
        attempt: Said = Recognised(*there) if there else Committed(0, planned)
        if what != "continued":
            value = await manifest_of(world, stores, parts, await taken(stores, sources, chosen, latest), chosen)
            attempt = await (replaced if there else clones.first)(stores(path), value)
            check_same(attempt.value, value, f"{path!r}: another client has just begun a database with other rows there")
        said = await completed(stores, path, attempt, {} if isinstance(attempt, Recognised) else latest)
    except CheckpointMissing as error:
        raise stuck(path, error) from error
    except Indefinite as error:
        raise InDoubt(error) from error
    return Made(path, what, said.id, said.value.external_dbs)


async def completed(stores: StoreOf, path: str, attempt: Said, latest: dict[str, Said]) -> Said:
    """Pin what the attempt names, and initialize it. `latest`: manifests that list the sources; a pin builds on one.

    Raises what `clones.pin` and `clones.initialize` raise."""
    try:
        for of in attempt.value.external_dbs:
            if of.sst_ids:
                latest[of.path] = await clones.pin(stores(of.path), of, latest.get(of.path))
        return await clones.initialize(stores(path), attempt)
    except (Unavailable, TimedOut):
        raise  # the store does not answer, or nobody waits any more
    except StoreError:
        await clones.give_up(stores, path, attempt.value)
        raise


def chosen_of(latest: Mapping[str, Committed], checkpoints: Iterable[str]) -> dict[str, str]:
    """Return which source each checkpoint is listed in. Raises ValueError."""
    chosen: dict[str, str] = {}
    for checkpoint in checkpoints:
        owner = next((source for source, of in latest.items() if found(of.value, checkpoint)), None)
        if owner is None:
            raise ValueError(f"{', '.join(map(repr, latest))}: {CheckpointMissing(checkpoint)}")
        if owner in chosen:
            raise ValueError(f"{owner!r} has both checkpoints {chosen[owner]} and {checkpoint}: give one for each source")
        chosen[owner] = checkpoint
    return chosen


async def taken(stores: StoreOf, sources: list[str], chosen: Mapping[str, str], latest: dict[str, Said]) -> States:
    """Take a checkpoint of each source that has none yet, and return what it keeps. `latest`: of the sources; it is replaced.

    Raises what `clones.source_of` raises."""
    states: dict[str, State] = {}
    for source in sources:
        of = await clones.source_of(stores(source), chosen.get(source), latest[source])
        latest[source] = of.parent
        entry = found(of.parent.value, of.id)
        states[source] = State(of.id, entry.manifest_id, of.value)
    return states


async def manifest_of(world: World, stores: StoreOf, parts: Sequence[Part], states: States, chosen: Mapping[str, str]
                      ) -> Manifest:
    """Return the manifest of the new database. Raises WalNotCompacted, and what `union` and `merge_views` raise."""
    sources: list[Source] = []
    for path, span in parts:
        checkpoint, manifest_id, manifest = states[path]
        fences = await fences_of(world, path, manifest, path not in chosen)
        sources.append(Source(path, checkpoint, manifest_id, manifest, span, fences))
    new_id = world.ids.new_id
    return merge_views(union.union(sources, new_id, await named_in(stores, states)), new_id)


async def fences_of(world: World, path: str, manifest: Manifest, later: bool) -> frozenset[int]:
    """Return the WAL objects behind the manifest that have no row. `later`: those that it has not seen must have none.

    Raises WalNotCompacted."""
    log = await log_behind(world, path, manifest)
    ids = (*log.seen, *(log.later if later else ()))
    empty = await without_rows(world, path, manifest, ids)
    if log.missing:
        raise WalNotCompacted(f"WAL object {log.missing[0].start} of {path!r} is not there, so its rows are unknown: flush the "
                              "memtable of the database, and see `highwater admin check`")
    if rows := [i for i in ids if i not in empty]:
        without = "" if rows[0] in log.seen else ", or give a checkpoint, which leaves them out, with --source"
        raise WalNotCompacted(f"WAL object {rows[0]} of {path!r} has rows that are in no SST ({len(rows)} such objects): flush "
                              f"the memtable of the database{without}, and give the command again")
    return empty


async def named_in(stores: StoreOf, states: States) -> dict[tuple[str, str], int]:
    """Return which manifests the checkpoints name that keep external SSTs. An unreadable database has none: then pins are
    not merged."""
    named: dict[tuple[str, str], int] = {}
    for path in sorted({of.path for state in states.values() for of in state.manifest.external_dbs}):
        try:
            latest = await stores(path).current()
        except Definite:
            continue
        named |= {(path, one.id): one.manifest_id for one in latest.value.checkpoints}
    return named


def check_same(there: Manifest, wanted: Manifest, otherwise: str) -> None:
    """Check that two manifests show the same rows of the same SSTs. Raises Taken."""
    if shown(there) != shown(wanted):
        raise Taken(otherwise)


async def check_no_wal(world: World, path: str, attempt: Manifest) -> None:
    """Check that an unfinished database has no WAL and gets none, and that no writer has opened it. Raises Taken."""
    if attempt.wal_id_last_seen > attempt.replay_after_wal_id:
        raise Taken(f"{path!r} is an unfinished clone with a WAL, whose objects may still be copied: give another place")
    await check_unopened(world, path, attempt._replace(wal_id_last_seen=0))


async def replaced(manifests: Patient, value: Manifest) -> Said:
    """Replace an unfinished attempt. Its entries stay without SSTs, so that a detach finds their checkpoints. Raises Taken."""
    async def decide(latest: int, manifest: Manifest) -> Put | Verdict:
        if manifests.codec.is_initialized(manifest):
            return Verdict(Taken("another client has just finished the attempt: give the command again"))
        if manifest.external_dbs[:len(value.external_dbs)] == value.external_dbs:
            return Verdict(Recognised(latest, manifest))
        if mark := mark_of(manifest):
            return Verdict(DatabaseDestroyed(mark))
        old = tuple(of._replace(sst_ids=()) for of in manifest.external_dbs)
        return Put(value._replace(external_dbs=(*value.external_dbs, *old), writer_epoch=manifest.writer_epoch + 1,
                                  compactor_epoch=manifest.compactor_epoch))

    return done(await manifests.apply(decide, True))

"""Clones a SlateDB database; impl/protocols/clones.py is the protocol.

The clone shares the SSTs of its parent, which a checkpoint there keeps. The command may be given again after any error: it
continues the clone that it finds.
"""

from typing import Any, NamedTuple

from highwater.admin import several
from highwater.admin.several import (
    Log,
    Taken,
    check_ssts,
    check_unopened,
    database_at,
    log_behind,
    place_at,
    shown,
    source_at,
    stores_of_all,
)
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.tables import ExternalDb
from highwater.impl.errors import Indefinite, NotFound
from highwater.impl.layout import Namespace
from highwater.impl.protocols import clones
from highwater.impl.protocols.checkpoints import CheckpointMissing, found
from highwater.impl.protocols.clones_manifest import (
    NotPinned,
    OtherParent,
    Source,
    SourceBehind,
    WalObjectMissing,
    check_parent,
)
from highwater.impl.protocols.sequenced_metadata import Committed, MetadataStore
from highwater.impl.world import World

REFUSALS = (*several.REFUSALS, NotPinned, OtherParent, SourceBehind, WalObjectMissing)  # for the sake of safety


class Made(NamedTuple):
    """A new database, or what would be made.

    `what`: "made", "continued", "begun again", "complete already", or "complete already, and changed since". `manifest_id`: of
    its latest manifest; 0 in a dry run. `wal_ids`: the WAL objects that are copied. `not_included`: those that its source has
    not seen, so that it lacks their rows.
    """

    path: str
    what: str
    manifest_id: int
    external_dbs: tuple[ExternalDb, ...]
    wal_ids: tuple[int, ...] = ()
    not_included: tuple[int, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the fields. An external database has the names of SlateDB's manifest."""
        return {**self._asdict(), "external_dbs": [one._asdict() for one in self.external_dbs]}


class InDoubt(Indefinite):
    """The command stopped on the way."""

    def __init__(self, error: Indefinite):
        super().__init__("the new database may be unfinished, or the last step may be applied later: give the command again "
                         f"({error})")


async def cloned(world: World, roots: list[str], checkpoint: str | None, restart: bool, dry_run: bool) -> Made:
    """Clone the first root into the second one, or continue that. With `dry_run` nothing is written.

    `restart`: begin an unfinished clone again, from this checkpoint or the latest manifest. Raises REFUSALS, ValueError if
    there is no database to clone, and InDoubt.
    """
    (parent, path), stores = roots, stores_of_all(world)
    here, of_parent = stores(path), stores(parent)
    attempt = await place_at(here, path)
    known: dict[str, Committed] = {}
    if attempt:
        check_parent(attempt.value, parent, None if restart else checkpoint)
    if attempt and (attempt.value.initialized or not restart):
        value, complete = attempt.value, attempt.value.initialized
        if complete:
            await clones.check_pinned(stores, value)
        source = await source_of(of_parent, value, parent)
        same = source is None or shown(source) == shown(value)
        if not same and not complete:
            raise Taken(f"{path!r} is an unfinished attempt with other rows than the parent, such as a projection: give the "
                        "command again that began it, or another place")
        log = await log_behind(world, parent, value)
        await check_copies(world, parent, path, () if complete else log.seen)
        what = "continued" if not complete else "complete already" if same else "complete already, and changed since"
        planned = Made(path, what, 0, value.external_dbs, () if complete else log.seen)
    else:
        if attempt:
            await check_unopened(world, path, attempt.value)
        source = await source_at(of_parent, parent, checkpoint, await database_at(of_parent, parent))
        log = await log_behind(world, parent, source.manifest)
        check_log(source.manifest, log, parent)
        here.codec.at_least(of_parent.codec.version)
        await check_copies(world, parent, path, log.seen if attempt else ())
        new = clones.cloned(here, parent, Source(checkpoint or "", source.manifest, source.latest))
        latest = await check_ssts(stores, new.external_dbs, {parent: source.latest})
        known = {} if attempt else latest
        planned = Made(path, "begun again" if attempt else "made", 0, without_ids(new.external_dbs), log.seen, log.later)
    if dry_run:
        return planned
    try:
        done = await clones.clone(stores, path, parent, checkpoint, restart, known)
    except CheckpointMissing as error:
        raise stuck(path, error) from error
    except Indefinite as error:
        raise InDoubt(error) from error
    return planned._replace(manifest_id=done.id, external_dbs=done.value.external_dbs)


async def source_of(manifests: MetadataStore, attempt: Manifest, parent: str) -> Manifest | None:
    """Return the manifest of the parent that an attempt is made of; None if nothing keeps it any more."""
    of = next(one for one in attempt.external_dbs if one.path == parent)
    latest = (await manifests.current()).value
    entry = found(latest, of.final_checkpoint_id or "") or found(latest, of.source_checkpoint_id)
    try:
        return await manifests.read(entry.manifest_id) if entry else None
    except NotFound:
        return None


def check_log(source: Manifest, log: Log, parent: str) -> None:
    """Check that the WAL objects can be copied. Raises ValueError, WalObjectMissing."""
    if source.wal_object_store_uri and (log.seen or log.missing):
        raise ValueError(f"the WAL of {parent!r} is in another store ({source.wal_object_store_uri}), which is not copied: "
                         "flush the memtable of the parent, and clone it then")
    if log.missing:
        raise WalObjectMissing(f"WAL object {log.missing[0].start} of {parent!r} is not there, and its rows are in no SST: see "
                               "`highwater admin check`. If the WAL is in another store, flush the memtable, and clone then")


async def check_copies(world: World, parent: str, path: str, ids: tuple[int, ...]) -> None:
    """Check that the WAL objects that are there are copies of the parent's. Raises Taken.

    A released writer opens an unfinished clone. Its WAL objects may have ids that are copied, and nothing overwrites them."""
    for i in ids:
        key = Namespace(path, "wal").key(i)
        try:
            there = (await world.store.get(key)).body
        except NotFound:
            continue
        if there != (await world.store.get(Namespace(parent, "wal").key(i))).body:
            raise Taken(f"{key!r} is no copy of the parent's: a writer has opened the unfinished clone, so it would lack rows "
                        "of its parent; give another place")


def without_ids(external_dbs: tuple[ExternalDb, ...]) -> tuple[ExternalDb, ...]:
    """Return the entries of a dry run: the checkpoints that would be made have no ids yet."""
    return tuple(of._replace(final_checkpoint_id=None) for of in external_dbs)


def stuck(path: str, error: CheckpointMissing) -> Taken:
    """Return the error of an attempt that nobody can continue."""
    return Taken(f"{path!r} is unfinished, and cannot be continued: checkpoint {error.checkpoint!r}, which it is made from, is "
                 "gone. Begin it again with --restart")

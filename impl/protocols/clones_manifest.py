"""Safety: the first manifest of a clone names what its source names, and has an entry for each database that these SSTs are of.

What the manifests of clones name and share: impl/protocols/clones.py makes, pins and detaches clones.
"""

from typing import NamedTuple

from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.tables import ExternalDb
from highwater.impl.errors import Definite, Indefinite
from highwater.impl.protocols import checkpoints
from highwater.impl.protocols.sequenced_metadata import Committed, MetadataStore, Recognised

Said = Committed | Recognised


class OtherParent(Definite):
    """The database at the clone's path is no clone of this parent, or of this checkpoint: use another path."""


class NotPinned(Definite):
    """The clone is initialized, and a final checkpoint of it is not listed: what it names may be gone."""


class SourceBehind(Definite):
    """The new source has seen less of the WAL than the one before: take a later checkpoint."""


class AttemptReplaced(Indefinite):
    """Another cloner has begun the attempt again from another source: call again, to continue that one."""


class WalObjectMissing(Definite):
    """A WAL object that the source has seen is gone: begin again from another source."""


class Source(NamedTuple):
    """A checkpoint of the parent with its manifest, and the parent's manifest in which it was listed."""

    id: str
    value: Manifest
    parent: Said


# --- what a manifest uses

def named_by(manifest: Manifest) -> frozenset[str]:
    return frozenset(manifest.all_ssts)


def without_sst(manifest: Manifest, sst: str) -> Manifest:
    """Return the manifest without an SST of L0: a compactor has replaced it. An external SST leaves its entry, too."""
    return manifest._replace(
        l0=tuple(view for view in manifest.l0 if view.sst_id != sst),
        ssts=tuple(one for one in manifest.ssts if one.id != sst),
        external_dbs=tuple(of._replace(sst_ids=tuple(one for one in of.sst_ids if one != sst)) for of in manifest.external_dbs))


def cloned(manifests: MetadataStore, parent: str, source: Source, old: tuple[ExternalDb, ...] = ()) -> Manifest:
    """Return the first manifest of an attempt. Entries of the attempt before stay without SSTs, so that `detach` finds them."""
    base, inherited = source.value, [of for of in source.value.external_dbs if source.value.uses(of)]
    others = frozenset(sst for of in inherited for sst in of.sst_ids)
    own = tuple(sst for sst in base.all_ssts if sst not in others)
    entries = [ExternalDb(parent, source.id, checkpoints.new_id(manifests), own)]
    entries += [ExternalDb(of.path, of.final_checkpoint_id or of.source_checkpoint_id, checkpoints.new_id(manifests),
                           tuple(sst for sst in of.sst_ids if sst in named_by(base))) for of in inherited]
    return base._replace(initialized=False, checkpoints=(), writer_epoch=base.writer_epoch + 1,
                         external_dbs=(*entries, *(of._replace(sst_ids=()) for of in old)))


def attempt_in(manifest: Manifest) -> str | None:
    """Return the name of an attempt: the final of the parent, whose entry comes first. Each attempt has a new one.
    """
    return next((of.final_checkpoint_id for of in manifest.external_dbs), None)


def entry_in(manifest: Manifest, entry: ExternalDb) -> ExternalDb | None:
    return next((of for of in manifest.external_dbs if of.final_checkpoint_id == entry.final_checkpoint_id), None)


def check_parent(manifest: Manifest, parent: str, checkpoint: str | None) -> None:
    """Check that the database is a clone of this parent, and of this checkpoint if one is given. Raises OtherParent."""
    entries = [of for of in manifest.external_dbs if of.path == parent]
    if not entries:
        raise OtherParent(f"the database at the clone's path is no clone of {parent!r}: use another path")
    if checkpoint is not None and entries[0].source_checkpoint_id != checkpoint:
        raise OtherParent(f"the clone is of checkpoint {entries[0].source_checkpoint_id!r}: go on with that one, or restart it")

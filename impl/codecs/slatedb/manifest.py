"""Safety: a manifest that is read and written again loses nothing; content that cannot be kept is refused.

This is the codec of SlateDB's manifests V1 and V2 (impl/codecs/slatedb/tables.py). It also covers the migration between them:
«Manifest V1 to V2 Migration» of SlateDB's RFC on checkpoints and clones. The form in memory (impl/codecs/manifest.py) follows
V2: SSTs, and views that show them.

V1 has no views. It stores an SST where it is used, and the SST's id is the view's id, too. «V1 encodes l0_last_compacted as an
SST ID rather than a view ID». Therefore a Manifest holds both ids, and code that sets one sets the other. A V2 file holds only
the view's id. After compaction nobody can say which SST that view showed, so writing V1 is refused. (Release 0.15.0 writes V1
without the id.)

V1 cannot hold segments, the name of their extractor, two views of one SST with different ids, or a last compacted view whose
SST is not known. V2 cannot hold the URI of a separate WAL store: the released V2 has no slot for it, and the RFC's sketch does
not mention it.
"""

from enum import IntEnum
from functools import lru_cache

from highwater.impl.codecs.manifest import CannotHold, Manifest, check_fields
from highwater.impl.codecs.slatedb.flatbuffer import NewerFields, write
from highwater.impl.codecs.slatedb.header import START, InvalidFile, closed, opened, table_in, version_of
from highwater.impl.codecs.slatedb.tables import (
    Checkpoint,
    ManifestV1,
    ManifestV2,
    Run,
    RunV1,
    Sst,
    SstV1,
    View,
)

LATELY = 16  # manifests that are kept decoded
TABLES = {1: ManifestV1, 2: ManifestV2}
ALIKE = tuple(name for name in ManifestV1._fields
              if name in ManifestV2._fields and name not in ("manifest_id", "l0", "compacted"))
KNOWN = frozenset(Manifest._fields) - {"updates", "sessions", "collector_epoch", "next_wal"}  # what their files may have


class Phase(IntEnum):
    """A phase of the migration: «Phase 1: Write V1, read V1+V2», «Phase 2: Write V2, read V1+V2», «Phase 3: Deprecate V1»."""

    WRITE_V1 = 1
    WRITE_V2 = 2
    V2_ONLY = 3


class ManifestCodec:
    """The codec that a MetadataStore uses in one phase of the migration. The migration's protocol in impl/protocols/ says what
    comes before phase 3."""

    checkpoint = Checkpoint

    def __init__(self, phase: Phase = Phase.WRITE_V2):
        self.phase = phase
        self.reads = (2,) if phase == Phase.V2_ONLY else (1, 2)

    def decode(self, body: bytes) -> Manifest:
        """Decode a manifest of a version that this phase reads. Raises InvalidFile, DamagedBuffer."""
        return decoded(body, self.reads)

    def encode(self, manifest: Manifest) -> bytes:
        """Encode a manifest in the version that this phase writes. Raises NewerFields, CannotHold."""
        if manifest.unknown:
            raise NewerFields("manifest", manifest.unknown)
        check_fields(manifest, KNOWN, "V1" if self.phase == Phase.WRITE_V1 else "V2")
        return closed(1, write(to_v1(manifest))) if self.phase == Phase.WRITE_V1 else closed(2, write(to_v2(manifest)))

    @staticmethod
    def is_initialized(manifest: Manifest) -> bool:
        """Return whether the database may be used: it is not a clone that is still being made."""
        return manifest.initialized


@lru_cache(LATELY)
def decoded(body: bytes, versions: tuple[int, ...]) -> Manifest:
    """Decode a manifest of one of these versions. Clients of a process read the latest manifests again and again."""
    version, buffer = opened(body, "manifests", versions)
    table, unknown = table_in(buffer, TABLES[version])
    return (from_v1 if version == 1 else from_v2)(table)._replace(unknown=unknown)


PHASES = {1: Phase.WRITE_V1, 2: Phase.WRITE_V2}  # the version of a file -> the phase that writes it


class SameVersion(ManifestCodec):
    """Writes a manifest in the version of the one that it read last. The clients of a database may read no other."""

    def decode(self, body: bytes) -> Manifest:
        manifest = super().decode(body)
        self.phase = PHASES[version_of(body)]
        return manifest


# ------------------------------------------------------------------------------------------------------------------ V1

def from_v1(table: ManifestV1) -> Manifest:
    """Return a V1 table as a Manifest. As in the released reader, an SST is a view of itself and has the same id.

    Raises InvalidFile if one id has two contents.
    """
    ssts: dict[str, Sst] = {}

    def views(used: tuple[SstV1, ...]) -> tuple[View, ...]:
        for one in used:
            sst = Sst(one.id, one.info, one.format_version)
            if ssts.setdefault(one.id, sst) != sst:
                raise InvalidFile(f"the manifest has SST {one.id} twice, with different contents: it is damaged", START,
                                  "ssts")
        return tuple(View(one.id, one.id, one.visible_range) for one in used)

    l0 = views(table.l0)
    compacted = tuple(Run(run.id, views(run.ssts)) for run in table.compacted)
    last = table.last_compacted_l0_sst_id
    return Manifest(**{name: getattr(table, name) for name in ALIKE},
                    last_compacted_l0_view_id=last, last_compacted_l0_sst_id=last, ssts=tuple(ssts.values()), l0=l0,
                    compacted=compacted, wal_object_store_uri=table.wal_object_store_uri)


def to_v1(manifest: Manifest) -> ManifestV1:
    """Return a Manifest as a V1 table. Raises CannotHold."""
    newer = "write V2, or continue in phase 2"
    if manifest.segments or manifest.segment_extractor_name is not None:
        raise CannotHold("V1", "segments", newer)
    shown: dict[str, str] = {}
    for view in manifest.views:
        if shown.setdefault(view.sst_id, view.id) != view.id:
            raise CannotHold("V1", f"two views of SST {view.sst_id} with ids of their own", newer)
    last, view_id = manifest.last_compacted_l0_sst_id, manifest.last_compacted_l0_view_id
    if (last is None) != (view_id is None):
        raise CannotHold("V1", f"the last compacted view {view_id} of SST {last}: both ids or none", newer)
    ssts = {sst.id: sst for sst in manifest.ssts}
    if unshown := sorted(ssts.keys() - shown.keys()):
        raise CannotHold("V1", f"SST {unshown[0]}, which has no view", newer)

    def used(views: tuple[View, ...]) -> tuple[SstV1, ...]:
        if missing := [view.sst_id for view in views if view.sst_id not in ssts]:
            raise CannotHold("V1", f"a view of SST {missing[0]}, which is not in the manifest", "it is damaged")
        found = [(ssts[view.sst_id], view.visible_range) for view in views]
        return tuple(SstV1(sst.id, sst.info, visible, sst.format_version) for sst, visible in found)

    return ManifestV1(**{name: getattr(manifest, name) for name in ALIKE}, last_compacted_l0_sst_id=last, l0=used(manifest.l0),
                      compacted=tuple(RunV1(run.id, used(run.views)) for run in manifest.compacted),
                      wal_object_store_uri=manifest.wal_object_store_uri)


# ------------------------------------------------------------------------------------------------------------------ V2

def from_v2(table: ManifestV2) -> Manifest:
    """Return a V2 table as a Manifest. The file does not say which SST the last compacted view showed."""
    return Manifest(**{name: value for name, value in table._asdict().items() if name != "manifest_id"})


def to_v2(manifest: Manifest) -> ManifestV2:
    """Return a Manifest as a V2 table. Raises CannotHold."""
    if manifest.wal_object_store_uri is not None:
        raise CannotHold("V2", f"the WAL store's URI {manifest.wal_object_store_uri!r}",
                         "write V1, or configure that store in every client and remove the URI")
    return ManifestV2(**{name: getattr(manifest, name) for name in ManifestV2._fields if name != "manifest_id"})

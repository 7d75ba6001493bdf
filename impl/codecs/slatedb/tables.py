"""Safety: every field that a released SlateDB writes has a name here, so that none is silently dropped.

These are the tables of SlateDB's manifests and compactions files, releases 0.12 to 0.17. The position of a field is its slot
(impl/codecs/slatedb/flatbuffer.py); new fields come last. The released reader requires the fields without a default.
"""

from typing import Annotated, NamedTuple

from highwater.impl.codecs.slatedb.flatbuffer import (
    I8,
    I64,
    REQUIRED,
    U16,
    U32,
    U64,
    UNION,
    Flag,
    Ulid,
    Uuid,
    number_of_ulid,
    number_of_uuid,
    uuid_of,
)

UNBOUNDED, INCLUDED, EXCLUDED = 1, 2, 3  # the kinds of a Bound
SUBMITTED, RUNNING, COMPLETED, FAILED, COMPACTED, SCHEDULED = range(6)  # the statuses of a Compaction
STATUSES = ("submitted", "running", "completed", "failed", "compacted", "scheduled")


class Bound(NamedTuple):
    key: bytes | None = None
    kind: I8 = 0


class Range(NamedTuple):
    """A range of keys."""

    start: Bound
    end: Bound


class SstInfo(NamedTuple):
    """The content of an SST and its position in the file; offsets and lengths are in bytes."""

    first_entry: bytes | None = None
    index_offset: U64 = 0
    index_len: U64 = 0
    filter_offset: U64 = 0
    filter_len: U64 = 0
    compression: I8 = 0
    sst_type: I8 = 0
    last_entry: bytes | None = None
    stats_offset: U64 = 0
    stats_len: U64 = 0
    filter_format: I8 = 0


class SstV1(NamedTuple):
    """An SST where it is used: V1 stores its content and its visible range together."""

    id: Ulid
    info: SstInfo
    visible_range: Range | None = None
    format_version: U16 = 0


class RunV1(NamedTuple):
    """A sorted run: SSTs in the order of their keys."""

    id: U32 = 0
    ssts: Annotated[tuple[SstV1, ...], REQUIRED] = ()


class Sst(NamedTuple):
    """An SST. It appears once in a manifest, however many views show it."""

    id: Ulid
    info: SstInfo
    format_version: U16 = 0


class View(NamedTuple):
    """The visible part of an SST; a range of None shows all of it."""

    id: Ulid
    sst_id: Ulid
    visible_range: Range | None = None


class Run(NamedTuple):
    """A sorted run: views in the order of their keys."""

    id: U32 = 0
    views: Annotated[tuple[View, ...], REQUIRED] = ()


class Segment(NamedTuple):
    """A separate tree for the keys with one prefix."""

    prefix: bytes
    last_compacted_l0_view_id: Ulid | None = None
    l0: Annotated[tuple[View, ...], REQUIRED] = ()
    compacted: Annotated[tuple[Run, ...], REQUIRED] = ()


class ExternalDb(NamedTuple):
    """A database whose SSTs this one reads, and the checkpoints there that keep those SSTs."""

    path: str
    source_checkpoint_id: Uuid
    final_checkpoint_id: Uuid | None = None  # optional in the released schema; without it nothing keeps the SSTs
    sst_ids: Annotated[tuple[Ulid, ...], REQUIRED] = ()


WRITER = "highwater: writer of epoch "  # how the name of a writer's checkpoint begins


class WriterCheckpoint(NamedTuple):
    epoch: U64 = 0


class Checkpoint(NamedTuple):
    """A checkpoint. «If checkpoint_expire_time_s is 0, the checkpoint will never expire.» (SlateDB's RFC on checkpoints and
    clones)"""

    id: Uuid
    manifest_id: U64 = 0
    expire_time_s: U32 = 0
    create_time_s: U32 = 0
    metadata: Annotated[WriterCheckpoint | None, UNION] = None
    name: str | None = None

    @classmethod
    def of_writer(cls, of: str, manifest_id: int, now_ms: int, epoch: int) -> "Checkpoint":
        """Return the checkpoint that a writer has for itself. Releases up to 0.17 drop the metadata, and keep the name."""
        return cls(of, manifest_id, 0, now_ms // 1000, WriterCheckpoint(epoch), f"{WRITER}{epoch}")

    @property
    def writer_epoch(self) -> int | None:
        """The epoch of the writer that has this checkpoint for itself; None: it is somebody else's."""
        if self.metadata is not None:
            return self.metadata.epoch
        epoch = (self.name or "").removeprefix(WRITER)
        return int(epoch) if epoch != self.name and epoch.isascii() and epoch.isdigit() else None

    def active(self, now_ms: int) -> bool:
        """Return whether the checkpoint is in force at `now_ms`. «If 0, the checkpoint will never expire.»

        Files store whole seconds, so a checkpoint is active until its last second is over.
        """
        return self.expire_time_s == 0 or now_ms < (self.expire_time_s + 1) * 1000

    @staticmethod
    def id_of(ulid: str) -> str:
        """Return a UUID of version 4, made of the bits of a ULID but the six that say so."""
        return uuid_of(number_of_ulid(ulid) & ~(0xF << 76 | 0b11 << 62) | 4 << 76 | 0b10 << 62)

    @classmethod
    def taken(cls, of: str, manifest_id: int, expiry_ms: int, now_ms: int, name: str | None) -> "Checkpoint":
        """Return a new checkpoint. Raises ValueError for an id that is no UUID, and for an expiry after 2106."""
        number_of_uuid(of)
        return cls(of, manifest_id, whole_seconds(expiry_ms), now_ms // 1000, name=name)

    def renewed(self, expiry_ms: int) -> "Checkpoint":
        """Return the checkpoint with another expiry. Raises ValueError for one after 2106."""
        return self._replace(expire_time_s=whole_seconds(expiry_ms))


LAST_S = (1 << 32) - 1


def whole_seconds(expiry_ms: int) -> int:
    """Round an expiry up to the seconds that a file holds, so that no lease is shorter than it was promised."""
    if -(-expiry_ms // 1000) > LAST_S:
        raise ValueError(f"a checkpoint that expires at {expiry_ms} ms: files hold no time after 2106; 0 is never")
    return -(-expiry_ms // 1000)


class ManifestV1(NamedTuple):
    manifest_id: U64 = 0  # never written: the file's name is the id
    external_dbs: tuple[ExternalDb, ...] = ()
    initialized: Flag = False
    writer_epoch: U64 = 0
    compactor_epoch: U64 = 0
    replay_after_wal_id: U64 = 0
    wal_id_last_seen: U64 = 0
    last_compacted_l0_sst_id: Ulid | None = None
    l0: Annotated[tuple[SstV1, ...], REQUIRED] = ()
    compacted: Annotated[tuple[RunV1, ...], REQUIRED] = ()
    last_l0_clock_tick: I64 = 0
    checkpoints: Annotated[tuple[Checkpoint, ...], REQUIRED] = ()
    last_l0_seq: U64 = 0
    wal_object_store_uri: str | None = None
    recent_snapshot_min_seq: U64 = 0
    sequence_tracker: bytes | None = None


class ManifestV2(NamedTuple):
    manifest_id: U64 = 0
    external_dbs: tuple[ExternalDb, ...] = ()
    initialized: Flag = False
    writer_epoch: U64 = 0
    compactor_epoch: U64 = 0
    replay_after_wal_id: U64 = 0
    wal_id_last_seen: U64 = 0
    last_compacted_l0_view_id: Ulid | None = None
    ssts: Annotated[tuple[Sst, ...], REQUIRED] = ()
    l0: Annotated[tuple[View, ...], REQUIRED] = ()
    compacted: Annotated[tuple[Run, ...], REQUIRED] = ()
    last_l0_clock_tick: I64 = 0
    checkpoints: Annotated[tuple[Checkpoint, ...], REQUIRED] = ()
    last_l0_seq: U64 = 0
    recent_snapshot_min_seq: U64 = 0
    sequence_tracker: bytes | None = None
    segments: tuple[Segment, ...] = ()
    segment_extractor_name: str | None = None


class Tiered(NamedTuple):
    """A compaction that merges L0 views and sorted runs into one sorted run."""

    ssts: tuple[Ulid, ...] = ()
    sorted_runs: tuple[U32, ...] = ()
    l0_view_ids: tuple[Ulid, ...] = ()
    segment: bytes | None = None
    destination: U32 = 0


class Drain(NamedTuple):
    """A compaction that removes a segment."""

    segment: bytes
    l0_view_ids: tuple[Ulid, ...] = ()
    sorted_runs: tuple[U32, ...] = ()


class Worker(NamedTuple):
    worker_id: str | None = None
    last_heartbeat_ms: U64 = 0


class Subcompaction(NamedTuple):
    range: Range
    output_ssts: tuple[SstV1, ...] = ()


class TieredContext(NamedTuple):
    subcompactions: tuple[Subcompaction, ...] = ()
    retention_min_seq: U64 = 0


class Compaction(NamedTuple):
    id: Ulid
    spec: Annotated[Tiered | Drain, UNION]
    status: I8 = 0
    output_ssts: tuple[SstV1, ...] = ()
    worker: Worker | None = None
    context: Annotated[TieredContext | None, UNION] = None


class CompactionsV1(NamedTuple):
    compactor_epoch: U64 = 0
    recent_compactions: Annotated[tuple[Compaction, ...], REQUIRED] = ()

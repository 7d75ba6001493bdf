"""Safety: a manifest has one form in memory, whichever codec reads or writes it. So no field is lost between two protocols.

The names and meanings are those of SlateDB's manifest V2 (impl/codecs/slatedb/tables.py), with a few fields of our own. A codec
refuses a manifest with a field that its files have no place for.
"""

from typing import Any, NamedTuple, Protocol

from highwater.impl.codecs.slatedb.tables import ExternalDb, Segment, Sst
from highwater.impl.errors import Definite


class Checkpoint(Protocol):
    """A checkpoint as clients see it, whichever format its file has."""

    @property
    def id(self) -> str: ...

    @property
    def manifest_id(self) -> int:
        """The id of the manifest that the checkpoint keeps."""
        ...

    @property
    def writer_epoch(self) -> int | None:
        """The epoch of the writer that has it for itself; None: it is somebody else's."""
        ...

    def active(self, now_ms: int) -> bool:
        """Return whether the checkpoint is still in force at `now_ms`."""
        ...


class Manifest(NamedTuple):
    """The decoded content of one manifest.

    An SST is a name in our own files, and a View in SlateDB's. A run of `compacted` is likewise a name or a Run. Ours add SSTs
    to the end of `l0`; in SlateDB's files the newest comes first.
    """

    updates: tuple[str, ...] = ()  # ours: the ids of all updates in the history of this file, in order
    checkpoints: tuple[Any, ...] = ()  # each is a Checkpoint
    sessions: tuple[tuple[str, int], ...] = ()  # ours: (session, number of its last update); the session used last comes last
    writer_epoch: int = 0
    compactor_epoch: int = 0
    collector_epoch: int = 0  # ours
    l0: tuple[Any, ...] = ()
    compacted: tuple[Any, ...] = ()
    replay_after_wal_id: int = 0  # «the id of the last WAL file processed by compaction»: its content is in an SST; 0: none
    next_wal: int = 1  # ours: «the id used to create the next WAL file»
    wal_id_last_seen: int = 0
    last_compacted_l0_sst_id: str | None = None  # the SST of the last compacted view; None if unknown
    last_l0_seq: int = 0  # the SSTs have the rows up to this sequence number
    external_dbs: tuple[ExternalDb, ...] = ()
    initialized: bool = False
    last_compacted_l0_view_id: str | None = None
    ssts: tuple[Sst, ...] = ()
    last_l0_clock_tick: int = 0
    wal_object_store_uri: str | None = None
    recent_snapshot_min_seq: int = 0
    sequence_tracker: bytes | None = None
    segments: tuple[Segment, ...] = ()
    segment_extractor_name: str | None = None
    unknown: tuple[str, ...] = ()  # the fields of the file that this release does not know

    def with_update(self, update: str) -> "Manifest":
        """Return the manifest with one more update."""
        return self._replace(updates=(*self.updates, update))

    def with_checkpoint(self, checkpoint: Checkpoint) -> "Manifest":
        """Return the manifest with one more checkpoint."""
        return self._replace(checkpoints=(*self.checkpoints, checkpoint))

    def holds(self, update_id: str) -> bool:
        """Return whether the history of this file contains the update. A checkpoint has the id of the update that takes it."""
        return update_id in self.updates or any(checkpoint.id == update_id for checkpoint in self.checkpoints)

    def has_sst(self, sst: str) -> bool:
        """Return whether L0 or a run has this name."""
        return sst in self.l0 or sst in self.compacted

    @property
    def sst_names(self) -> tuple[str, ...]:
        """The names of all SSTs of our own files: those of L0, then those of the runs."""
        return self.l0 + self.compacted

    @property
    def all_ssts(self) -> tuple[str, ...]:
        """The names of all SSTs, whichever form the file has: also those of other databases."""
        ours = (name for name in (*self.l0, *self.compacted) if isinstance(name, str))  # SlateDB's are views and runs
        return (*ours, *(sst.id for sst in self.ssts))

    @property
    def named_ssts(self) -> frozenset[str]:
        """The names of all SSTs of this database, whichever form the file has. Those of other databases belong to these."""
        return frozenset(self.all_ssts).difference(*(of.sst_ids for of in self.external_dbs))

    def uses(self, entry: ExternalDb) -> bool:
        """Return whether the manifest names an SST of this entry."""
        return not frozenset(self.all_ssts).isdisjoint(entry.sst_ids)

    def referenced(self) -> frozenset[int]:
        """Return the ids of the files that checkpoints refer to, also those that have ended: each may still be renewed."""
        return frozenset(checkpoint.manifest_id for checkpoint in self.checkpoints)

    def without_ended(self, now_ms: int) -> "Manifest":
        """Return the manifest without the checkpoints that have ended at `now_ms`, and those of writers that are fenced."""
        return self._replace(checkpoints=tuple(one for one in self.checkpoints if one.active(now_ms) and (
            one.writer_epoch is None or one.writer_epoch >= self.writer_epoch)))

    @property
    def views(self) -> tuple[Any, ...]:
        """All views of SlateDB's files: those of L0, of the sorted runs, and of the segments."""
        trees = ((self.l0, self.compacted), *((segment.l0, segment.compacted) for segment in self.segments))
        return tuple(view for l0, runs in trees for view in (*l0, *(view for run in runs for view in run.views)))


DEFAULTS = Manifest()._asdict()


class CannotHold(Definite):
    """The files of a codec have no place for something in the manifest."""

    def __init__(self, form: str, what: str, remedy: str):
        super().__init__(f"manifest {form} cannot hold {what}: {remedy}")


def check_fields(manifest: Manifest, known: frozenset[str], form: str) -> None:
    """Check that no field outside `known` has a value. Raises CannotHold."""
    for name, value, default in zip(Manifest._fields, manifest, DEFAULTS.values()):
        if value != default and name not in known:
            raise CannotHold(form, f"{name} = {value!r}", "write it with the codec that it was read with")

"""Reads what the clones' model needs from manifests and keys: the databases of a run are `dbs/0`, `dbs/1`, .."""

from functools import lru_cache
from typing import NamedTuple

from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.manifest import ManifestCodec
from highwater.impl.layout import Namespace, prefix_of_ssts
from highwater.traces.form import Keys

DATABASES = 3  # of the model
ROOTS = tuple(f"dbs/{d}" for d in range(DATABASES))
MANIFESTS = tuple(Namespace(root, "manifest") for root in ROOTS)
WALS = tuple(Namespace(root, "wal") for root in ROOTS)
SSTS = tuple(map(prefix_of_ssts, ROOTS))
KEYS = Keys("dbs/", listed=(*(of.prefix for of in MANIFESTS), *(of.prefix for of in WALS), *SSTS),
            single=tuple(of.boundary_key for of in MANIFESTS))
FIRST_SST = "0" * 26  # the SST that the root has from the beginning
SLATEDB = ManifestCodec()


class File(NamedTuple):
    """A manifest as the model sees it, with the names of the trace."""

    ready: bool
    own: frozenset[str]
    entries: frozenset[tuple[str, str, str, tuple[str, ...]]]  # final, path, source, SSTs
    pins: frozenset[tuple[str, int]]  # checkpoint, its manifest
    after: int  # the WAL objects up to this id are flushed
    seen: int


@lru_cache(100_000)
def file_of(body: bytes) -> File:
    """Return a manifest. Raises InvalidFile, DamagedBuffer."""
    return of_manifest(SLATEDB.decode(body))


def of_manifest(manifest: Manifest) -> File:
    names = frozenset(manifest.all_ssts)
    entries = [(of.final_checkpoint_id or "", of.path, of.source_checkpoint_id,
                tuple(sorted(sst for sst in of.sst_ids if sst in names))) for of in manifest.external_dbs]
    others = frozenset(sst for *_, ssts in entries for sst in ssts)
    return File(manifest.initialized, names - others, frozenset(entries),
                frozenset((one.id, one.manifest_id) for one in manifest.checkpoints), manifest.replay_after_wal_id,
                manifest.wal_id_last_seen)


def database_of(key: str) -> int:
    """Return the database that a key belongs to. Raises ValueError."""
    return ROOTS.index("/".join(key.split("/", 2)[:2]))

"""Reads what the models need from the manifests and keys of databases and their clones: `dbs/0`, `dbs/1`, .."""

from functools import lru_cache

from highwater.impl.codecs.json import compactions as compactions_json
from highwater.impl.codecs.json.database import CLONED
from highwater.impl.codecs.json.manifest import DATABASE
from highwater.impl.codecs.json.ssts import parts_of
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.layout import Namespace, prefix_of_ssts
from highwater.traces.form import Keys
from highwater.traces.protocols.clones_contents import MANIFESTS, ROOTS, WALS, File, of_manifest

COMPACTIONS = tuple(Namespace(root, "compactions") for root in ROOTS)
SSTS = tuple(map(prefix_of_ssts, ROOTS))
KEYS = Keys("dbs/", listed=(*(of.prefix for of in (*MANIFESTS, *WALS, *COMPACTIONS)), *SSTS),
            single=tuple(of.boundary_key for of in (*MANIFESTS, *COMPACTIONS)))
ROOT_OF = (0, 1, 2, 0, 1, 0, 2, 1)  # number of a client of one database -> that database
LIMIT = 10_000


@lru_cache(LIMIT)
def manifest_of(body: bytes) -> Manifest:
    """Decode a manifest. Raises InvalidManifest."""
    return CLONED.decode(body)


@lru_cache(LIMIT)
def file_of(body: bytes) -> File:
    """Return a manifest as the model of clones sees it. Raises InvalidManifest."""
    return of_manifest(manifest_of(body))


def parts_in(ssts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of what was flushed into these SSTs, in their order."""
    return tuple(part for sst in ssts for part in parts_of(sst))


@lru_cache(LIMIT)
def database_of(body: bytes) -> bytes:
    """Return a manifest as the models of a database see it: with what was flushed in the place of the SSTs that hold it, and
    without what only clones have. Raises InvalidManifest."""
    m = manifest_of(body)
    return DATABASE.encode(m._replace(l0=parts_in(m.l0), compacted=parts_in(m.compacted), external_dbs=(), initialized=False,
                                      wal_id_last_seen=0))


@lru_cache(LIMIT)
def compactions_of(body: bytes) -> bytes:
    """Return a compactions file as the models of a database see it: it claims what was flushed. Raises InvalidCompactions."""
    of = compactions_json.decode(body)
    return compactions_json.encode(of._replace(jobs=tuple(map(parts_in, of.jobs))))

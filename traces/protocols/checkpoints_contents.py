"""Reads what the checkpoints' model needs from manifests, in this repository's JSON form or one of SlateDB's forms."""

from functools import lru_cache
from typing import Any

from highwater.impl.codecs.json.manifest import DATABASE
from highwater.impl.codecs.manifest import Manifest as Stored
from highwater.impl.codecs.slatedb.flatbuffer import number_of_ulid, number_of_uuid, ulid_of, uuid_of
from highwater.impl.codecs.slatedb.manifest import ManifestCodec, Phase
from highwater.impl.layout import Namespace
from highwater.model.protocols.checkpoints import Id, Manifest, Sst
from highwater.traces.form import Keys
from highwater.traces.trace import distinct

ROOT = "db"
MANIFEST = Namespace(ROOT, "manifest")
SSTS = f"{ROOT}/compacted/"
KEYS = Keys(ROOT, listed=(MANIFEST.prefix, SSTS), single=(MANIFEST.boundary_key,))
SLATEDB = ManifestCodec(Phase.WRITE_V2)  # reads V1, too
COUNT = 62  # bits of an id's last part, after the bits that make it a UUID of version 4
HALF = 64


def checkpoint_name(client: int, number: int) -> str:
    """Return the id of the checkpoint that operation `number` of a client creates: a UUID of version 4."""
    return uuid_of(client << 80 | 4 << 76 | 0b10 << COUNT | number)


def checkpoint_of(name: str) -> Id:
    """Return client and operation of a checkpoint. Raises ValueError for a name that `checkpoint_name` does not return."""
    number = number_of_uuid(name)
    of = number >> 80, number & (1 << COUNT) - 1
    if checkpoint_name(*of) != name:
        raise ValueError(f"{name!r} is no checkpoint of a run")
    return of


def short_name(name: str) -> str:
    """Return the name "w.k" of the operation that creates a checkpoint. Raises ValueError as `checkpoint_of` does."""
    return "{}.{}".format(*checkpoint_of(name))


def sst_name(compactor: int, number: int) -> str:
    """Return the name of a compactor's SST: a ULID."""
    return ulid_of(compactor << HALF | number)


def sst_of(name: str) -> Sst:
    """Return compactor and number of an SST. Raises ValueError for a name that is no ULID."""
    number = number_of_ulid(name)
    return number >> HALF, number & (1 << HALF) - 1


@lru_cache(100_000)
def decoded(body: bytes) -> Stored:
    """Return a manifest in any of the forms. Raises InvalidManifest, InvalidFile, DamagedBuffer."""
    return DATABASE.decode(body) if body[:1] == b"{" else SLATEDB.decode(body)


@lru_cache(100_000)
def manifest_of(body: bytes) -> Manifest:
    """Return the model's manifest. Raises what `decoded` raises, and ValueError."""
    stored = decoded(body)
    if stored.l0 and isinstance(stored.l0[0], str):  # in our own form
        distinct(stored.l0)
    entries = [(checkpoint_of(one.id), one.manifest_id, ends_ms(one) > 0) for one in stored.checkpoints]
    return Manifest(frozenset(map(sst_of, stored.named_ssts)), frozenset(entries))


def ends_ms(entry: Any) -> int:
    """Return when a lease ends by a clock without skew; 0: never."""
    if "expiry_ms" in entry._fields:
        return entry.expiry_ms
    return entry.expire_time_s and (entry.expire_time_s + 1) * 1000


def leases(body: bytes) -> dict[Id, int]:
    """Return the end of each checkpoint's lease, as `ends_ms` does; nothing for b"", a manifest from before the trace."""
    return {} if not body else {checkpoint_of(one.id): ends_ms(one) for one in decoded(body).checkpoints}


def file_id(key: str) -> int | None:
    """Return the id in the key of a manifest; None for another key. Raises InvalidName."""
    return MANIFEST.file_id(key) if key.startswith(MANIFEST.prefix) else None

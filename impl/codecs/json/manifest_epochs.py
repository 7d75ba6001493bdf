"""The codec of manifests with epochs: one JSON object, keys sorted, no spaces.

    {"checkpoints":[{"expiry_ms":1700000000000,"id":"..","manifest_id":7}],"collector_epoch":0,"compacted":["0.0"],
     "compactor_epoch":1,"l0":["0.1"],"last_wal":2,"next_wal":3,"writer_epoch":1}

Source 002's «Manifest Contents». `l0`, `compacted`: names of SSTs, in the order in which they came. `last_wal`: «the id of the
last WAL file processed by compaction», that is: which is in an SST; 0 for none. `next_wal`: «the id used to create the next WAL
file».
"""

import json
from typing import Any, NamedTuple

from highwater.impl.codecs.json.manifest import Checkpoint, InvalidManifest


class Manifest(NamedTuple):
    writer_epoch: int = 0
    compactor_epoch: int = 0
    collector_epoch: int = 0
    l0: tuple[str, ...] = ()
    compacted: tuple[str, ...] = ()
    last_wal: int = 0
    next_wal: int = 1
    checkpoints: tuple[Checkpoint, ...] = ()

    @property
    def ssts(self) -> tuple[str, ...]:
        return self.l0 + self.compacted


ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


def encode(manifest: Manifest) -> bytes:
    return ENCODER.encode({**manifest._asdict(), "checkpoints": [c._asdict() for c in manifest.checkpoints]}).encode()


def decode(body: bytes) -> Manifest:
    """Raises InvalidManifest, also for one with fields that are none of these: to write it again would drop them."""
    try:
        fields: Any = json.loads(body)
        lists = {name: tuple(fields[name]) for name in ("l0", "compacted")}
        return Manifest(**{**fields, **lists, "checkpoints": tuple(Checkpoint(**c) for c in fields["checkpoints"])})
    except (ValueError, TypeError, KeyError) as error:
        raise InvalidManifest(f"not a manifest with epochs: {body[:60]!r}: {error}") from None

"""Encodes and decodes manifests with epochs: one JSON object, keys sorted, no spaces.

    {"checkpoints":[{"expiry_ms":1700000000000,"id":"..","manifest_id":7}],"collector_epoch":0,"compacted":["0.0"],
     "compactor_epoch":1,"l0":["0.1"],"last_wal":2,"next_wal":3,"writer_epoch":1}

The fields are those of «Manifest Contents» in SlateDB's page on the manifest. `l0` and `compacted` are names of SSTs, in the
order in which they were added. `last_wal` is «the id of the last WAL file processed by compaction»: its content is in an SST.
It is 0 if there is none. `next_wal` is «the id used to create the next WAL file».
"""

import json
from typing import Any, NamedTuple

from highwater.impl.codecs.json.manifest import Checkpoint, InvalidManifest


class Manifest(NamedTuple):
    """The decoded content of one manifest with epochs."""

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
    """Decode the bytes of a manifest. Raises InvalidManifest.

    It also refuses a manifest with unknown fields, because writing it again would drop them.
    """
    try:
        fields: Any = json.loads(body)
        lists = {name: tuple(fields[name]) for name in ("l0", "compacted")}
        return Manifest(**{**fields, **lists, "checkpoints": tuple(Checkpoint(**c) for c in fields["checkpoints"])})
    except (ValueError, TypeError, KeyError) as error:
        raise InvalidManifest(f"not a manifest with epochs: {body[:60]!r}: {error}") from None

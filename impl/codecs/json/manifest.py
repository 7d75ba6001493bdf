"""The codec of this repository's own sequenced files: one JSON object, keys sorted, no spaces.

    {"checkpoints":[{"expiry_ms":1700000000000,"id":"..","manifest_id":7}],"updates":["..", ".."]}

`updates`: the ids of all updates that the history of this file holds, in order. `expiry_ms`: 0 means never; else the
checkpoint is active up to that moment (milliseconds since the epoch). `"sessions":[["..",3]]`, where there are some: of each
session the number of its last update (impl/protocols/update_ids.py), the one that was used last at the end.
"""

import json
from typing import NamedTuple

from highwater.impl.errors import Definite


class Checkpoint(NamedTuple):
    id: str
    manifest_id: int
    expiry_ms: int

    def active(self, now_ms: int) -> bool:
        return self.expiry_ms == 0 or now_ms < self.expiry_ms


class Manifest(NamedTuple):
    updates: tuple[str, ...] = ()
    checkpoints: tuple[Checkpoint, ...] = ()
    sessions: tuple[tuple[str, int], ...] = ()

    def with_update(self, update: str) -> "Manifest":
        return self._replace(updates=(*self.updates, update))

    def with_checkpoint(self, checkpoint: Checkpoint) -> "Manifest":
        return self._replace(checkpoints=(*self.checkpoints, checkpoint))


class InvalidManifest(Definite):
    """A file that this codec has not written."""


ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


def encode(manifest: Manifest) -> bytes:
    document: dict[str, object] = {"checkpoints": [c._asdict() for c in manifest.checkpoints], "updates": manifest.updates}
    if manifest.sessions:
        document["sessions"] = manifest.sessions
    return ENCODER.encode(document).encode()


def decode(body: bytes) -> Manifest:
    """Raises InvalidManifest."""
    try:
        document = json.loads(body)
        return Manifest(tuple(document["updates"]), tuple(Checkpoint(**c) for c in document["checkpoints"]),
                        tuple((session, number) for session, number in document.get("sessions", ())))
    except (ValueError, TypeError, KeyError) as error:
        raise InvalidManifest(f"not a manifest: {body[:60]!r}: {error}") from None


def holds(manifest: Manifest, update: str) -> bool:
    """The history of this file holds the update."""
    return update in manifest.updates


def referenced(manifest: Manifest, now_ms: int) -> frozenset[int]:
    """The ids of the files that active checkpoints refer to."""
    return frozenset(c.manifest_id for c in manifest.checkpoints if c.active(now_ms))

"""Encodes and decodes this repository's own sequenced files: one JSON object, keys sorted, no spaces.

    {"checkpoints":[{"expiry_ms":1700000000000,"id":"..","manifest_id":7}],"updates":["..", ".."]}

`updates` lists the ids of all updates in the history of this file, in order. `expiry_ms` is the time until which the checkpoint
is active, in milliseconds since the epoch; 0 means that it never expires. `"sessions":[["..",3]]` is present only if there are
sessions. It maps each session to the number of its last update (for writers that name updates); the session used last comes
last.
"""

import json
from typing import NamedTuple

from highwater.impl.errors import Definite


class Checkpoint(NamedTuple):
    """A checkpoint that keeps the file with id `manifest_id`."""

    id: str
    manifest_id: int
    expiry_ms: int

    def active(self, now_ms: int) -> bool:
        """Return whether the checkpoint is still in force at `now_ms`."""
        return self.expiry_ms == 0 or now_ms < self.expiry_ms


class Manifest(NamedTuple):
    """The decoded content of one sequenced file."""

    updates: tuple[str, ...] = ()
    checkpoints: tuple[Checkpoint, ...] = ()
    sessions: tuple[tuple[str, int], ...] = ()

    def with_update(self, update: str) -> "Manifest":
        return self._replace(updates=(*self.updates, update))

    def with_checkpoint(self, checkpoint: Checkpoint) -> "Manifest":
        return self._replace(checkpoints=(*self.checkpoints, checkpoint))


class InvalidManifest(Definite):
    """A file that this codec did not write."""


ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


def encode(manifest: Manifest) -> bytes:
    document: dict[str, object] = {"checkpoints": [c._asdict() for c in manifest.checkpoints], "updates": manifest.updates}
    if manifest.sessions:
        document["sessions"] = manifest.sessions
    return ENCODER.encode(document).encode()


def decode(body: bytes) -> Manifest:
    """Decode the bytes of a file. Raises InvalidManifest."""
    try:
        document = json.loads(body)
        return Manifest(tuple(document["updates"]), tuple(Checkpoint(**c) for c in document["checkpoints"]),
                        tuple((session, number) for session, number in document.get("sessions", ())))
    except (ValueError, TypeError, KeyError) as error:
        raise InvalidManifest(f"not a manifest: {body[:60]!r}: {error}") from None


def holds(manifest: Manifest, update: str) -> bool:
    """Return whether the history of this file contains the update."""
    return update in manifest.updates


def referenced(manifest: Manifest) -> frozenset[int]:
    """Return the ids of the files that checkpoints refer to, also those that have ended: each may still be renewed."""
    return frozenset(c.manifest_id for c in manifest.checkpoints)


def without_ended(manifest: Manifest, now_ms: int) -> Manifest:
    """Return the manifest without the checkpoints that have ended at `now_ms`."""
    return manifest._replace(checkpoints=tuple(c for c in manifest.checkpoints if c.active(now_ms)))

"""Encodes and decodes this repository's own manifests: one JSON object, keys sorted, no spaces.

    {"checkpoints":[{"expiry_ms":1700000000000,"id":"..","manifest_id":7}],"updates":["..",".."]}
    {"checkpoints":[],"collector_epoch":0,"compacted":["0.0"],"compactor_epoch":1,"l0":["0.1"],"last_wal":2,"next_wal":3,
     "writer_epoch":1}

Each form has fields that it always writes. It writes any other field only if its value is not the default, for example
`"sessions":[["..",3]]`. `last_wal` is `replay_after_wal_id`, `last_seen` is `wal_id_last_seen`, `last_l0` is
`last_compacted_l0_sst_id`, and `last_seq` is `last_l0_seq`. `l0` and `compacted` are names of SSTs, in the order in which they
were added. `expiry_ms` is the time until which the checkpoint is active, in milliseconds since the epoch; 0 means that it never
expires.
"""

import json
from typing import Any, NamedTuple

from highwater.impl.codecs.manifest import DEFAULTS, Manifest, check_fields
from highwater.impl.errors import Definite


class Checkpoint(NamedTuple):
    """A checkpoint that keeps the file with id `manifest_id`."""

    id: str
    manifest_id: int
    expiry_ms: int
    name: str | None = None

    def active(self, now_ms: int) -> bool:
        """Return whether the checkpoint is still in force at `now_ms`."""
        return self.expiry_ms == 0 or now_ms < self.expiry_ms

    @staticmethod
    def id_of(ulid: str) -> str:
        return ulid

    @classmethod
    def taken(cls, of: str, manifest_id: int, expiry_ms: int, now_ms: int, name: str | None) -> "Checkpoint":
        """Return a new checkpoint. The file has no place for the time at which it was taken."""
        return cls(of, manifest_id, expiry_ms, name)

    def renewed(self, expiry_ms: int) -> "Checkpoint":
        return self._replace(expiry_ms=expiry_ms)


class InvalidManifest(Definite):
    """A file that this codec did not write."""


ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"))
NAMES = {  # field -> its name in the file
    **{name: name for name in ("updates", "checkpoints", "sessions", "writer_epoch", "compactor_epoch", "collector_epoch", "l0",
                               "compacted", "next_wal")},
    "replay_after_wal_id": "last_wal",
    "wal_id_last_seen": "last_seen",
    "last_compacted_l0_sst_id": "last_l0",
    "last_l0_seq": "last_seq",
}
FIELDS = {there: name for name, there in NAMES.items()}
KNOWN = frozenset(NAMES)
TYPES = {name: str if value is None else type(value) for name, value in DEFAULTS.items()}
OTHERS = Manifest()[len(KNOWN):]  # the fields that only SlateDB's files have come last


class ManifestCodec:
    """The codec of one form. `always` names the fields that each of its files has."""

    checkpoint = Checkpoint

    def __init__(self, *always: str):
        self.always = frozenset(always)

    def encode(self, manifest: Manifest) -> bytes:
        """Encode a manifest. Raises CannotHold if it has a field of SlateDB's that our files have no place for."""
        if manifest[len(KNOWN):] != OTHERS:
            check_fields(manifest, KNOWN, "in JSON")
        document = {there: value for name, there in NAMES.items()
                    if (value := getattr(manifest, name)) != DEFAULTS[name] or name in self.always}
        if "checkpoints" in document:
            document["checkpoints"] = [{name: value for name, value in checkpoint._asdict().items() if value is not None}
                                       for checkpoint in manifest.checkpoints]
        return ENCODER.encode(document).encode()

    def decode(self, body: bytes) -> Manifest:
        """Decode the bytes of a file. Raises InvalidManifest, also for a file with unknown fields: writing it again would drop
        them."""
        try:
            document: dict[str, Any] = json.loads(body)
            fields: dict[str, Any] = {FIELDS[there]: tuple(value) if isinstance(value, list) else value
                                      for there, value in document.items()}
            if "checkpoints" in fields:
                fields["checkpoints"] = tuple(Checkpoint(**one) for one in fields["checkpoints"])
            if "sessions" in fields:
                fields["sessions"] = tuple((session, number) for session, number in fields["sessions"])
            if strange := [name for name, value in fields.items() if type(value) is not TYPES[name]]:
                raise TypeError(f"{strange[0]} is {fields[strange[0]]!r}")
            if not self.always <= fields.keys():
                raise KeyError(min(self.always - fields.keys()))
            return Manifest(**fields)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InvalidManifest(f"not a manifest: {body[:60]!r}: {error}") from None

    @staticmethod
    def is_initialized(manifest: Manifest) -> bool:
        """Return whether the database may be used. These files know no clones, so it always may."""
        return True


UPDATES = ManifestCodec("checkpoints", "updates")
EPOCHS = ManifestCodec(*sorted(KNOWN - {"updates", "sessions", "wal_id_last_seen", "last_compacted_l0_sst_id",
                                        "last_l0_seq"}))
COMPACTED = ManifestCodec("compacted", "compactor_epoch", "l0")
DATABASE = ManifestCodec("checkpoints", "compacted", "compactor_epoch", "l0", "replay_after_wal_id", "writer_epoch")

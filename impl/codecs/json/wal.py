"""Encodes and decodes WAL objects and the WAL's manifest: one JSON object each, keys sorted, no spaces. A fence is an empty
object.

    <root>/wal/<id>.sst    {"body":"aGVsbG8=","epoch":3,"id":".."}
    <root>/wal.manifest    {"flushed":[{"body":"..","epoch":3,"id":".."}],"replay_after":7,"writer_epoch":4}

`body` is base64. `epoch` is the epoch of the writer that appended the record. `id` is unique, so that a writer can tell its own
object from another one with the same body. `replay_after` is the last WAL id whose record has been flushed. Real systems hold
the names of SSTs in place of the flushed records; the proof is the same for both.

Once a checkpoint was taken, the manifest has two more fields. `checkpoints_taken` counts the checkpoints ever taken, and the
count before a checkpoint is its number. `checkpoints` lists those that are not dropped, as objects of `number`, `replay_after`
and `last_id`. A program that does not know these fields loses them at its next put, and collects what they keep. So take
checkpoints only where every writer and collector knows them.
"""

import json
from base64 import b64decode, b64encode
from typing import NamedTuple

from highwater.impl.errors import Indefinite

FENCE = b""


class Record(NamedTuple):
    """One record of the log, with the epoch of the writer that appended it."""

    id: str
    epoch: int
    body: bytes


class WalCheckpoint(NamedTuple):
    """A checkpoint: the WAL objects whose ids are after `replay_after`, up to `last_id`, are kept while it is listed."""

    number: int
    replay_after: int
    last_id: int

    def refers_to(self, i: int) -> bool:
        """Return whether the object of this id is kept for the checkpoint."""
        return self.replay_after < i <= self.last_id


class WalManifest(NamedTuple):
    """The decoded content of the WAL's manifest."""

    writer_epoch: int = 0
    replay_after: int = 0
    flushed: tuple[Record, ...] = ()
    checkpoints: tuple[WalCheckpoint, ...] = ()
    checkpoints_taken: int = 0


class InvalidWal(Indefinite):
    """An object that this codec did not write.

    It is indefinite: the fault is in the log, and says nothing about the operation that met it.
    """


ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


def document_of(record: Record) -> dict[str, object]:
    return {"body": b64encode(record.body).decode(), "epoch": record.epoch, "id": record.id}


def record_of(document: dict) -> Record:
    return Record(document["id"], document["epoch"], b64decode(document["body"], validate=True))


def encode_record(record: Record) -> bytes:
    return ENCODER.encode(document_of(record)).encode()


def decode_record(body: bytes) -> Record | None:
    """Decode a WAL object; return None for a fence. Raises InvalidWal."""
    if body == FENCE:
        return None
    try:
        return record_of(json.loads(body))
    except (ValueError, TypeError, KeyError) as error:
        raise InvalidWal(f"not a WAL object: {body[:60]!r}: {error}") from None


def encode_manifest(manifest: WalManifest) -> bytes:
    document = manifest._asdict() | {"flushed": [document_of(record) for record in manifest.flushed],
                                     "checkpoints": [one._asdict() for one in manifest.checkpoints]}
    if not manifest.checkpoints_taken:
        del document["checkpoints"], document["checkpoints_taken"]
    return ENCODER.encode(document).encode()


def decode_manifest(body: bytes) -> WalManifest:
    """Decode the WAL's manifest. Raises InvalidWal."""
    try:
        document = json.loads(body)
        checkpoints = tuple(WalCheckpoint(**one) for one in document.get("checkpoints", ()))
        return WalManifest(document["writer_epoch"], document["replay_after"], tuple(map(record_of, document["flushed"])),
                           checkpoints, document.get("checkpoints_taken", 0))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InvalidWal(f"not a WAL manifest: {body[:60]!r}: {error}") from None

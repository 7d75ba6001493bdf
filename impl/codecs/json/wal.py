"""Encodes and decodes WAL objects and the WAL's manifest: one JSON object each, keys sorted, no spaces. A fence is an empty
object.

    <root>/wal/<id>.sst    {"body":"aGVsbG8=","epoch":3,"id":".."}
    <root>/wal.manifest    {"flushed":[{"body":"..","epoch":3,"id":".."}],"replay_after":7,"writer_epoch":4}

`body` is base64. `epoch` is the epoch of the writer that appended the record. `id` is unique, so that a writer can tell its own
object from another one with the same body. `replay_after` is the last WAL id whose record has been flushed. Real systems hold
the names of SSTs in place of the flushed records; the proof is the same for both.
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


class WalManifest(NamedTuple):
    """The decoded content of the WAL's manifest."""

    writer_epoch: int = 0
    replay_after: int = 0
    flushed: tuple[Record, ...] = ()


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
    return ENCODER.encode(manifest._asdict() | {"flushed": [document_of(record) for record in manifest.flushed]}).encode()


def decode_manifest(body: bytes) -> WalManifest:
    """Decode the WAL's manifest. Raises InvalidWal."""
    try:
        document = json.loads(body)
        return WalManifest(document["writer_epoch"], document["replay_after"], tuple(map(record_of, document["flushed"])))
    except (ValueError, TypeError, KeyError) as error:
        raise InvalidWal(f"not a WAL manifest: {body[:60]!r}: {error}") from None

"""Safety: `get` returns the value of the last acknowledged `put` of its key, also in every store that opens later.

This small key-value store tests a protocol by what its callers want: `await WalKv.open(world, root)`, `put`, `get`, `flush`.
WalKv logs its puts in a WAL. A store over the essay's baseline protocol would have the same four methods and no state. Each of
its puts would be an unconditional PUT of a separate object under `kv/`.
"""

import json
from base64 import b64decode, b64encode
from typing import Any, Protocol

from highwater.impl.codecs.json.wal import InvalidWal
from highwater.impl.protocols import wal_fencing
from highwater.impl.protocols.wal_fencing import Wal
from highwater.impl.world import World


class Kv(Protocol):
    """A key-value store as its caller sees it.

    A call that returns is done. After a Definite error it was not done and never will be. After an Indefinite error it may have
    been done, or may be done later.
    """

    @classmethod
    async def open(cls, world: World, root: str) -> "Kv":
        """Open the store with everything that was put before."""
        ...

    async def put(self, key: str, value: bytes) -> None:
        """Put a value; it is durable on return."""

    async def get(self, key: str) -> bytes | None:
        """Return the value that was put last, or None."""

    async def flush(self) -> None:
        """Move the puts from the place of fast writes to their final place, if the two differ."""


class WalKv:
    """A key-value store over a WAL, for one writer at a time.

    Gets are answered from memory. A writer that has been succeeded and does not know it may return old values. Its puts are
    refused.
    """

    def __init__(self, wal: Wal):
        self.wal = wal
        self.table = dict(decode(record.body) for record in wal.records)

    @classmethod
    async def open(cls, world: World, root: str, **options: Any) -> "WalKv":
        """Open the store and fence earlier writers. Options and errors are those of impl.protocols.wal_fencing.open."""
        return cls(await wal_fencing.open(world, root, **options))

    async def put(self, key: str, value: bytes) -> None:
        """Put a value. Raises FencedUnapplied or Closed if it was not put; raises OutcomeUnknown."""
        await self.wal.append(encode(key, value))
        self.table[key] = value

    async def get(self, key: str) -> bytes | None:
        """Return the value that was put last, or None. Raises FencedUnapplied, Closed: a newer writer may hold another."""
        self.wal.ensure_open()
        return self.table.get(key)

    async def flush(self) -> None:
        """Flush the log. Raises FencedUnapplied, Closed, OutcomeUnknown; all earlier puts stay."""
        await self.wal.flush()


def encode(key: str, value: bytes) -> bytes:
    """Encode one put as the body of a record: {"key":"..","value":"<base64>"}"""
    return json.dumps({"key": key, "value": b64encode(value).decode()}, sort_keys=True, separators=(",", ":")).encode()


def decode(body: bytes) -> tuple[str, bytes]:
    """Decode the body of a record to a key and a value. Raises InvalidWal."""
    try:
        document = json.loads(body)
        return document["key"], b64decode(document["value"], validate=True)
    except (ValueError, TypeError, KeyError) as error:
        raise InvalidWal(f"not a put: {body[:60]!r}: {error}") from None

"""Safety: what `put` returned for is what `get` returns, until the key is put again; for every store of keys that opens later,
too.

A small key-value store as one class over each protocol that can hold one, so that the protocols are tried by what a caller
wants of them: `await X.open(world, root)`, `put`, `get`, `flush`. WalKv logs its puts in a WAL. (One for the baseline protocol
of source 004, each put an unconditional PUT of an object of its own under `kv/`, has the same four methods and no state.)
"""

import json
from base64 import b64decode, b64encode
from typing import Protocol

from highwater.impl.codecs.json.wal import InvalidWal
from highwater.impl.protocols import wal_fencing
from highwater.impl.protocols.wal_fencing import Wal
from highwater.impl.world import World


class Kv(Protocol):
    """What a caller is told: done; a Definite error, it has not been done and never will be; an Indefinite one, it may have
    been, or may be later."""

    @classmethod
    async def open(cls, world: World, root: str) -> "Kv":
        """Ready to be used, with all that was put before."""
        ...

    async def put(self, key: str, value: bytes) -> None:
        """Durable when it returns."""

    async def get(self, key: str) -> bytes | None:
        """The value that was put last; None if there is none."""

    async def flush(self) -> None:
        """What was put is moved from where it is quickly written to where it stays, if the two differ."""


class WalKv:
    """Over a WAL: of one writer at a time. Gets are answered from memory, so a `get` of a writer that has been succeeded, and
    does not know it yet, may be of the past; what it puts is refused."""

    def __init__(self, wal: Wal):
        self.wal = wal
        self.table = dict(decode(record.body) for record in wal.records)

    @classmethod
    async def open(cls, world: World, root: str, **options: int) -> "WalKv":
        """The writers before it are fenced. `options` and errors: as impl.protocols.wal_fencing.open's."""
        return cls(await wal_fencing.open(world, root, **options))

    async def put(self, key: str, value: bytes) -> None:
        """Raises Fenced, Closed: it has not been put; OutcomeUnknown."""
        await self.wal.append(encode(key, value))
        self.table[key] = value

    async def get(self, key: str) -> bytes | None:
        """Raises Fenced, Closed: what was put last may be known to another."""
        self.wal.ensure_open()
        return self.table.get(key)

    async def flush(self) -> None:
        """Raises Fenced, Closed, OutcomeUnknown; what was put stays put."""
        await self.wal.flush()


def encode(key: str, value: bytes) -> bytes:
    """One put as the body of a record: {"key":"..","value":"<base64>"}"""
    return json.dumps({"key": key, "value": b64encode(value).decode()}, sort_keys=True, separators=(",", ":")).encode()


def decode(body: bytes) -> tuple[str, bytes]:
    """Raises InvalidWal."""
    try:
        document = json.loads(body)
        return document["key"], b64decode(document["value"], validate=True)
    except (ValueError, TypeError, KeyError) as error:
        raise InvalidWal(f"not a put: {body[:60]!r}: {error}") from None

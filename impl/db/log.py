"""Safety: a WAL object of a database is taken for the writer's own only if it has the same rows; a fence has none.

The log is that of impl/protocols/wal_fencing.py. Here its records are commits: the rows of one or more batches.
"""

from collections.abc import Sequence
from typing import NamedTuple

from highwater.impl.db.build import wal_of
from highwater.impl.db.rows import Row
from highwater.impl.db.wal import Order
from highwater.impl.protocols.wal_fencing import Form


class Commit(NamedTuple):
    """The rows of a WAL object, in the order of their numbers."""

    rows: tuple[Row, ...]


def form_of(codec: int, block_bytes: int) -> Form:
    """Return the form of the log of one writer, whose objects are packed with this codec."""
    order = Order()

    def encode(commit: Commit) -> bytes:
        return wal_of(commit.rows, codec, block_bytes).body

    def decode(key: str, body: bytes) -> Commit | None:
        rows = order.rows_of(key, body)
        return Commit(tuple(rows)) if rows else None

    def record(_: object, epoch: int, rows: Sequence[Row]) -> Commit:
        return Commit(tuple(rows))

    return Form(record, encode, decode)

"""Rows of SSTs and WAL objects, and the flags that each carries."""

from typing import NamedTuple

VALUE, TOMBSTONE, MERGE = 0, 1, 8  # the kinds of a row, as in its flags
KINDS = {VALUE: "value", TOMBSTONE: "tombstone", MERGE: "merge"}
HAS_EXPIRY, HAS_CREATION = 2, 4
KNOWN_FLAGS = TOMBSTONE | HAS_EXPIRY | HAS_CREATION | MERGE
LONGEST_KEY = (1 << 16) - 1
LONGEST_VALUE = (1 << 32) - 1


class Row(NamedTuple):
    """One version of one key."""

    key: bytes
    seq: int  # the number of its batch: larger is newer
    kind: int = VALUE
    value: bytes = b""  # of a merge: the operand; empty for a tombstone
    create_ms: int | None = None
    expire_ms: int | None = None  # from then on the row is not shown

    def expired(self, now_ms: int) -> bool:
        return self.expire_ms is not None and self.expire_ms <= now_ms


def flags_of(row: Row) -> int:
    return row.kind | (row.expire_ms is not None) * HAS_EXPIRY | (row.create_ms is not None) * HAS_CREATION


def check(row: Row) -> None:
    """Raise ValueError for a row that no block can hold."""
    if not 0 < len(row.key) <= LONGEST_KEY:
        raise ValueError(f"a key of {len(row.key):,} bytes: keys have 1 to {LONGEST_KEY:,}")
    if row.kind not in KINDS or (row.kind == TOMBSTONE and row.value):
        raise ValueError(f"the row {row.key!r} of kind {row.kind} is no value, tombstone or merge")
    if len(row.value) > LONGEST_VALUE or not 0 <= row.seq < 1 << 64:
        raise ValueError(f"the row {row.key!r} has {len(row.value):,} value bytes and the number {row.seq}: one is too large")

"""Safety: a batch is applied whole or not at all, and each of its keys has one row."""

from typing import NamedTuple

from highwater.impl.db.rows import MERGE, TOMBSTONE, VALUE, Row, check


class Op(NamedTuple):
    """One change of a batch: a row without its number. `ttl_ms`: after so many milliseconds it is not shown; None: for ever.
    """

    key: bytes
    kind: int
    value: bytes = b""
    ttl_ms: int | None = None


def put(key: bytes, value: bytes, ttl_ms: int | None = None) -> Op:
    return Op(key, VALUE, value, ttl_ms)


def delete(key: bytes) -> Op:
    return Op(key, TOMBSTONE)


def merge(key: bytes, operand: bytes, ttl_ms: int | None = None) -> Op:
    return Op(key, MERGE, operand, ttl_ms)


def check_batch(ops: list[Op]) -> None:
    """Raise ValueError for a batch that no log can hold: it is empty, a key is, or a key that is merged is there twice."""
    if not ops:
        raise ValueError("an empty batch: give at least one change")
    latest: dict[bytes, Op] = {}
    for op in ops:
        check(Row(op.key, 0, op.kind, op.value))
        if op.ttl_ms is not None and op.ttl_ms < 1:
            raise ValueError(f"a TTL of {op.ttl_ms} ms for {op.key!r}: it must be at least 1 ms")
        before = latest.get(op.key)
        if before is not None and MERGE in (before.kind, op.kind):
            raise ValueError(f"{op.key!r} is merged, and is twice in one batch, whose rows have one number: write two batches")
        latest[op.key] = op


def rows_of(ops: list[Op], seq: int, now_ms: int) -> list[Row]:
    """Return the rows of a batch, which has this number. Of a key that is there twice the last change counts."""
    latest = {op.key: op for op in ops}
    return [Row(op.key, seq, op.kind, op.value, now_ms, None if op.ttl_ms is None else now_ms + op.ttl_ms)
            for op in latest.values()]

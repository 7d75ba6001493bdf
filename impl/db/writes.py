"""Safety: a batch is applied whole or not at all, and each of its keys has one row."""

from typing import NamedTuple

from highwater.impl.db.merge import Merge
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


def folded(ops: list[Op], apply: Merge | None = None) -> list[Op]:
    """Return the changes of a batch with one for each key, since all rows of a batch have one number. `apply` is the database's
    merge operator.

    A put and a delete replace what comes before them. Merges after a put become its value, and merges after a delete a value.
    Merges with nothing before them become one operand. Released clients do the same, with the same values. Raises ValueError
    for a batch that no log can hold: it is empty, a key is, merges need an operator and there is none, or they end at different
    times.
    """
    if not ops:
        raise ValueError("an empty batch: give at least one change")
    found: dict[bytes, list[Op]] = {}
    for op in ops:
        check(Row(op.key, 0, op.kind, op.value))
        if op.ttl_ms is not None and op.ttl_ms < 1:
            raise ValueError(f"a TTL of {op.ttl_ms} ms for {op.key!r}: it must be at least 1 ms")
        found[op.key] = [*found.get(op.key, ()), op] if op.kind == MERGE else [op]
    return [one_of(of_key, apply) for of_key in found.values()]


def one_of(ops: list[Op], apply: Merge | None) -> Op:
    """Return the change that is the same as these of one key, of which all but the first are merges. Raises ValueError."""
    first = ops[0]
    if len(ops) == 1:
        return first
    if apply is None:
        raise ValueError(f"{first.key!r} is merged and changed in one batch, whose rows have one number: open the database "
                         "with Options(merge=..), or write two batches")
    merges = ops if first.kind == MERGE else ops[1:]
    if len({op.ttl_ms for op in (merges if first.kind == TOMBSTONE else ops)}) > 1:
        raise ValueError(f"{first.key!r} is changed in one batch with the TTLs {', '.join(str(op.ttl_ms) for op in ops)}: "
                         "write batches of their own, since all rows of a batch have one number")
    value = first.value if first.kind == VALUE else None
    for op in merges:
        value = apply(first.key, value, op.value)
    folded_op = Op(first.key, MERGE if first.kind == MERGE else VALUE, value or b"", merges[0].ttl_ms)
    check(Row(folded_op.key, 0, folded_op.kind, folded_op.value))
    return folded_op


def rows_of(ops: list[Op], seq: int, now_ms: int) -> list[Row]:
    """Return the rows of a batch with this number, which has one change for each key."""
    return [Row(op.key, seq, op.kind, op.value, now_ms, None if op.ttl_ms is None else now_ms + op.ttl_ms) for op in ops]

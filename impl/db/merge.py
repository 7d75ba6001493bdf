"""Safety: each key is shown once, by its newest version that is not hidden; an older version never hides a newer one.

Sources are SSTs, runs, and the rows of a WAL. Each yields blocks of rows whose keys ascend and whose versions descend. Which
version of a key is newer is decided by the rows' numbers alone, whatever source they come from.

    a tombstone            hides all older versions
    a value                is shown, and hides all older versions
    a merge operand        is applied to what the older versions show; nobody but the database's user knows how
    an expired value       hides older versions, as a tombstone does
    an expired operand     is left out
"""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from highwater.impl.db.rows import MERGE, TOMBSTONE, VALUE, Row
from highwater.impl.errors import Definite

Source = AsyncIterator[Sequence[Row]]
Merge = Callable[[bytes, bytes | None, bytes], bytes]  # (key, what was there, operand) -> what is there then


class TwoRows(Definite):
    """Two sources have different rows with the same key and number, so nobody can tell which one counts."""

    def __init__(self, one: Row, other: Row):
        super().__init__(f"the key {one.key!r} has two different rows of number {one.seq}: {one} and {other}: one of their "
                         "SSTs is not of this database, or damaged")


class Shown(NamedTuple):
    """The rows that a key shows."""

    key: bytes
    value: bytes | None  # None: there is nothing below the operands
    operands: tuple[bytes, ...]  # to be applied to the value, the oldest first
    seq: int  # these three are of the newest version; but a merge expires when its first part does
    create_ms: int | None
    expire_ms: int | None

    def merged(self, merge: Merge) -> bytes:
        """Return the value with all operands applied."""
        found = self.value
        for operand in self.operands:
            found = merge(self.key, found, operand)
        return found or b""


async def versions(sources: Iterable[Source]) -> AsyncIterator[list[Row]]:
    """Yield all versions of each key, the newest first; keys ascend. A row that several sources have is yielded once.

    Raises TwoRows, and what the sources raise.
    """
    heads = []
    for rank, source in enumerate(sources):
        if rows := await next_of(source):
            heads.append((rows[0].key, -rows[0].seq, rank, 0, rows, source))
    heapify(heads)
    found: list[Row] = []
    while heads:
        _, _, rank, at, rows, source = heappop(heads)
        others = heads[0][:2] if heads else None  # where the other sources go on: until there, this one has the next rows
        while rows:
            row = rows[at]
            if others is not None and (row.key, -row.seq) > others:
                heappush(heads, (row.key, -row.seq, rank, at, rows, source))
                break
            if found and row.key != found[0].key:
                yield found
                found = [row]
            elif not found or row.seq != found[-1].seq:
                found.append(row)
            elif row != found[-1]:
                raise TwoRows(found[-1], row)
            at += 1
            if at == len(rows):
                rows, at = await next_of(source), 0
    if found:
        yield found


async def next_of(source: Source) -> Sequence[Row]:
    """Return the next block of a source that has rows; nothing at its end."""
    async for rows in source:
        if rows:
            return rows
    return ()


def shown(rows: Sequence[Row], now_ms: int, seq: int | None = None) -> Shown | None:
    """Return what the versions of one key show, the newest first; None if they show nothing. Rows after `seq` are not there."""
    if len(rows) == 1 and rows[0].kind == VALUE and seq is None and rows[0].expire_ms is None:  # most keys
        return Shown(rows[0].key, rows[0].value, (), rows[0].seq, rows[0].create_ms, None)
    value, operands, parts = None, [], []
    for row in rows:
        if seq is not None and row.seq > seq:
            continue
        expired = row.expired(now_ms)
        if row.kind == MERGE and expired:
            continue
        if expired or row.kind == TOMBSTONE:
            break
        parts.append(row)
        if row.kind != MERGE:
            value = row.value
            break
        operands.append(row.value)
    if not parts:
        return None
    newest = parts[0]
    expiries = [row.expire_ms for row in parts if row.expire_ms is not None]
    return Shown(newest.key, value, tuple(reversed(operands)), newest.seq, newest.create_ms, min(expiries, default=None))

"""Safety: each read of a database shows exactly the newest versions at or below its number, and each batch is whole.

The rows are those of the write-ahead log, in its order: what was first put under each id. Every row that is anywhere in the
database was there once. A read has a number, and shows each key as the rows with numbers up to that one say. Two clocks may
differ about a row that expires. Such a row may be shown or not as long as one of them, or a compactor's, may be in doubt.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from highwater.impl.db.rows import MERGE, TOMBSTONE, Row
from highwater.impl.db.wal import rows_of
from highwater.impl.db.writes import Op
from highwater.impl.layout import Namespace
from highwater.impl.manifests.spans import Span
from highwater.traces.event import Event

Merge = Callable[[bytes, bytes | None, bytes], bytes]


class Batch(NamedTuple):
    """A batch that a caller has asked to write. `seq`: the number that it was told; 0: it was told none."""

    name: str
    ops: tuple[Op, ...]
    seq: int = 0


class Read(NamedTuple):
    """The answer to a read: what the keys of a span showed, by the rows up to `seq`, between two times of the store's clock."""

    client: str
    seq: int
    from_ms: int
    to_ms: int
    span: Span
    shown: tuple[tuple[bytes, bytes], ...]


class Logged(NamedTuple):
    """The rows of the log."""

    rows: tuple[Row, ...]  # in the order of the log

    @property
    def last(self) -> int:
        return max((row.seq for row in self.rows), default=0)


def logged(events: Iterable[Event], wal: Namespace) -> Logged:
    """Return the rows that were first put under each id. A later object of the same id is behind what was flushed."""
    return Logged(tuple(row for rows in objects(events, wal).values() for row in rows))


def objects(events: Iterable[Event], wal: Namespace) -> dict[int, tuple[Row, ...]]:
    """Return id -> the rows that were first put under it, ascending."""
    first: dict[int, Event] = {}
    for e in events:
        if e.kind == "applied" and e.op == "create" and e.status == 200 and e.key.startswith(wal.prefix):
            first.setdefault(wal.file_id(e.key) or 0, e)
    return {i: rows_in(first[i].key, first[i].body) for i in sorted(first)}


@lru_cache(10_000)
def rows_in(key: str, body: bytes) -> tuple[Row, ...]:
    """Return the rows of a WAL object. Raises DamagedObject."""
    return tuple(rows_of(key, body))


# --- batches

def of_batches(log: Logged, batches: Sequence[Batch]) -> Iterator[str]:
    """Check that numbers rise in the log, and that each batch whose number is known is there, whole."""
    before = 0
    for row in log.rows:
        if row.seq < before:
            yield f"numbers go back: {row} is in the log after number {before}"
        before = row.seq
    found = by_number(log)
    numbers = [batch.seq for batch in batches if batch.seq]
    if twice := sorted({seq for seq in numbers if numbers.count(seq) > 1}):
        yield f"number given twice: two batches were told that they have number {twice[0]}"
    for batch in batches:
        if batch.seq and not is_of(batch, found.get(batch.seq, ())):
            yield f"not the batch: {batch.name} was told that it has number {batch.seq}, and there is " \
                  f"{found.get(batch.seq) or 'nothing'}"


def named(log: Logged, batches: Sequence[Batch]) -> dict[int, str]:
    """Return number -> name of its batch; "" if nobody can tell whose it is: a delete without a number that was told."""
    found, told = {}, {batch.seq: batch.name for batch in batches if batch.seq}
    whose = {op.value: batch for batch in batches for op in batch.ops if op.value}
    for seq, rows in by_number(log).items():
        marks = [row.value for row in rows if row.value]
        batch = whose.get(marks[0]) if marks else None
        found[seq] = told.get(seq) or (batch.name if batch and is_of(batch, rows) else f"torn {seq}" if marks else "")
    return found


def by_number(log: Logged) -> dict[int, tuple[Row, ...]]:
    found: dict[int, tuple[Row, ...]] = {}
    for row in log.rows:
        found[row.seq] = (*found.get(row.seq, ()), row)
    return found


def is_of(batch: Batch, rows: Sequence[Row]) -> bool:
    """Return whether these are the rows of a batch, each once."""
    return sorted((op.key, op.kind, op.value) for op in batch.ops) == sorted((row.key, row.kind, row.value) for row in rows)


# --- reads

def of_reads(log: Logged, reads: Iterable[Read], skew_ms: int, merge: Merge) -> Iterator[str]:
    """Check that each read shows, for each key of its span, the newest versions at or below its number."""
    keys: dict[bytes, list[Row]] = {}
    for row in log.rows:
        keys.setdefault(row.key, []).insert(0, row)
    for read in reads:
        shown = dict(read.shown)
        if [*shown] != sorted(shown) or len(shown) < len(read.shown):
            yield f"out of order: {read.client} was shown the keys {[key for key, _ in read.shown]}"
        if strange := [key for key in shown if key not in keys or not within(read.span, key)]:
            yield f"strange key: {read.client} was shown {strange[0]!r}, which nobody has written, or it has not asked for"
        for key, rows in keys.items():
            if within(read.span, key):
                upto = [row for row in rows if row.seq <= read.seq]
                right = possible(upto, read.from_ms - skew_ms, read.to_ms + skew_ms, merge)
                if shown.get(key) not in right:
                    yield (f"wrong read: at number {read.seq} {read.client} was shown {shown.get(key)!r} for {key!r}, and not "
                           f"{' or '.join(map(repr, right))}, by {upto}")


def within(span: Span, key: bytes) -> bool:
    return span.start <= key and (span.end is None or key < span.end)


def possible(rows: Sequence[Row], from_ms: int, to_ms: int, merge: Merge) -> list[bytes | None]:
    """Return what the versions of a key, the newest first, may show at a time between two."""
    return list(dict.fromkeys(applied(rows[0].key, value, operands, merge) if rows else None
                              for value, operands in parts(rows, from_ms, to_ms)))


def parts(rows: Sequence[Row], from_ms: int, to_ms: int) -> Iterator[tuple[bytes | None, tuple[bytes, ...]]]:
    """Yield each (value, operands from the oldest on) that the versions may show."""
    if not rows or rows[0].kind == TOMBSTONE:
        yield None, ()
        return
    row, *older = rows
    lives, ends = not row.expired(from_ms), row.expired(to_ms)
    if row.kind == MERGE:
        for value, operands in parts(older, from_ms, to_ms):
            if lives:
                yield value, (*operands, row.value)
            if ends:
                yield value, operands
        return
    if lives:
        yield row.value, ()
    if ends:
        yield None, ()


def applied(key: bytes, value: bytes | None, operands: Iterable[bytes], merge: Merge) -> bytes | None:
    for operand in operands:
        value = merge(key, value, operand)
    return value

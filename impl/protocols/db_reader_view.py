"""Safety: a view is the log up to some row, each row once: the SSTs of a checkpoint, and the rows of the WAL that they lack.

A reader has rows of the WAL in memory, in tables of at most so many bytes. A row is in memory only if its sequence number is
after `last_l0_seq` of the checkpoint's manifest. WAL ids do not tell: `replay_after_wal_id` may be behind what the SSTs have.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from highwater.impl.codecs.json.rows import Row, decode_rows
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.sst_ids import named
from highwater.impl.errors import Definite, NotFound
from highwater.impl.layout import Namespace, key_of_sst
from highwater.impl.world import ObjectStore, list_all


class NotReadable(Definite):
    """An object of a view is gone: its checkpoint was dropped or deleted, or the database is damaged. Scan anew."""

    def __init__(self, checkpoint: str, key: str):
        self.checkpoint = checkpoint
        super().__init__(f"{key!r} is gone, and with it checkpoint {checkpoint!r}: begin another scan after the next poll")


class Form(NamedTuple):
    """The form of the rows in WAL objects."""

    rows_of: Callable[[str, bytes], Iterable[Any]]  # (key, body) -> the rows in their order, each with its number `seq`
    size_of: Callable[[Any], int]  # of a row in memory, in bytes


class Table(NamedTuple):
    """Rows of the WAL in memory, in their order."""

    rows: tuple[Any, ...]
    size_bytes: int


class View(NamedTuple):
    """The rows that a reader shows. They never change."""

    checkpoint: str
    manifest: Manifest  # that the checkpoint keeps
    tables: tuple[Table, ...]  # the oldest first
    wal: int  # replayed up to this WAL id


def size_of(row: Row) -> int:
    return 8 + len(row.key.encode()) + len((row.value or "").encode())


JSON = Form(lambda key, body: decode_rows(body), size_of)


def added(tables: tuple[Table, ...], rows: Iterable[Any], most_bytes: int, form: Form = JSON) -> tuple[Table, ...]:
    """Return the tables with more rows. A full table is left as it is, and another one begins."""
    made = list(tables)
    for row in rows:
        size = form.size_of(row)
        if not made or made[-1].size_bytes + size > most_bytes:
            made.append(Table((row,), size))
        else:
            made[-1] = Table((*made[-1].rows, row), made[-1].size_bytes + size)
    return tuple(made)


def purged(tables: tuple[Table, ...], upto: int, form: Form = JSON) -> tuple[Table, ...]:
    """Return the tables without the rows up to this sequence number, which the SSTs have."""
    left = [tuple(row for row in table.rows if row.seq > upto) for table in tables]
    return tuple(Table(rows, sum(map(form.size_of, rows))) for rows in left if rows)


async def last_wal_id(store: ObjectStore, wal: Namespace, after: int) -> int:
    """Return the last WAL id before which none is missing, from the first after `after` on; `after` if there is none.

    A listing of several pages is not a snapshot. Every id up to the returned one was listed, so its object was there.
    """
    last = after
    for entry in await list_all(store, wal.prefix, wal.key(after)):
        if wal.file_id(entry.key) == last + 1:
            last += 1
    return last


async def replayed(store: ObjectStore, wal: Namespace, before: View | None, checkpoint: str, manifest: Manifest,
                   most_bytes: int, form: Form = JSON) -> View:
    """Return the view of a checkpoint with this manifest. What the view before has in memory is not replayed again.

    Raises NotReadable if a WAL object is gone, Unavailable, and what the form raises: InvalidRows.
    """
    upto, last = manifest.last_l0_seq, manifest.wal_id_last_seen
    tables = purged(before.tables, upto, form) if before else ()
    first = max(manifest.replay_after_wal_id, before.wal if before else 0) + 1
    for i in range(first, last + 1):
        key = wal.key(i)
        try:
            found = await store.get(key)
        except NotFound:
            raise NotReadable(checkpoint, key) from None
        tables = added(tables, (row for row in form.rows_of(key, found.body) if row.seq > upto), most_bytes, form)
    return View(checkpoint, manifest, tables, last)


async def rows_in(store: ObjectStore, root: str, view: View) -> list[Row]:
    """Return all rows of a view, by their sequence numbers. Raises NotReadable, and Unavailable, InvalidRows."""
    rows: list[Row] = []
    for sst in sorted(named(view.manifest)):
        key = key_of_sst(root, sst)
        try:
            rows += decode_rows((await store.get(key)).body)
        except NotFound:
            raise NotReadable(view.checkpoint, key) from None
    rows += [row for table in view.tables for row in table.rows]
    return sorted(rows)

"""Safety: a transaction happens as a whole or not at all, also if the process dies in it.

The rows of the index in an lmdb file, the second `OrderedKV` (impl/index/kv.py). Nothing is synced: the index is rebuilt from
its snapshot and its log when it starts.
"""

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lmdb

from highwater.impl.index.kv import LONGEST_KEY_BYTES, Row, Rows, Transaction, checked

LARGEST_FILE_BYTES = 1 << 36  # of addresses, not of the disk


class LmdbRows:
    """The rows in one transaction of lmdb."""

    def __init__(self, transaction: Any):
        self._transaction = transaction

    def get(self, key: bytes) -> bytes | None:
        return self._transaction.get(key) if 0 < len(key) <= LONGEST_KEY_BYTES else None

    def range(self, start: bytes, end: bytes | None) -> Iterator[Row]:
        with self._transaction.cursor() as cursor:
            there = cursor.set_range(start) if start else cursor.first()
            while there and (end is None or cursor.key() < end):
                yield cursor.item()
                there = cursor.next()

    def put(self, key: bytes, value: bytes) -> None:
        self._transaction.put(checked(key), value)

    def delete(self, key: bytes) -> None:
        if 0 < len(key) <= LONGEST_KEY_BYTES:
            self._transaction.delete(key)

    def delete_range(self, start: bytes, end: bytes | None) -> None:
        with self._transaction.cursor() as cursor:
            there = cursor.set_range(start) if start else cursor.first()
            while there and (end is None or cursor.key() < end):
                there = cursor.delete()


class LmdbKV:
    """An lmdb file. Raises lmdb.Error if it is damaged, or in use by another environment of this process."""

    def __init__(self, path: Path):
        self._env: Any = lmdb.open(str(path), map_size=LARGEST_FILE_BYTES, subdir=False, sync=False, metasync=False)

    @contextmanager
    def snapshot(self) -> Generator[Rows]:
        with self._env.begin() as transaction:
            yield LmdbRows(transaction)

    @contextmanager
    def transaction(self) -> Generator[Transaction]:
        with self._env.begin(write=True) as transaction:
            yield LmdbRows(transaction)

    def restore(self, rows: Iterable[Row]) -> None:
        with self.transaction() as transaction:
            transaction.delete_range(b"", None)
            for key, value in rows:
                transaction.put(key, value)

    def close(self) -> None:
        self._env.close()

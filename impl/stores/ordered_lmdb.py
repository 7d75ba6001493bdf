"""Safety: a transaction happens as a whole or not at all; what an earlier process has left in the file is never read.

The rows of the index in an lmdb file, the second `OrderedKV` (impl/index/kv.py). Nothing is synced: the index is rebuilt from
its snapshot and its log when it starts. So the file begins empty, and one that is left is replaced.
"""

import struct
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lmdb

from highwater.impl.errors import Definite
from highwater.impl.index.kv import LONGEST_KEY_BYTES, Row, Rows, Transaction, checked

LARGEST_FILE_BYTES = 1 << 36  # of addresses, not of the disk
READERS = 4_096  # snapshots at once
MAGIC_AT, MAGIC = 16, struct.pack("=I", 0xBEEFC0DE)  # in the first page of a file of lmdb


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


class NoRows(Definite):
    """The file is none that rows were in, so it is not replaced. Give another name, or delete it."""


def remove_old(path: Path) -> None:
    """Remove a file of rows, if there is one. Raises NoRows if something else is there."""
    try:
        with path.open("rb") as file:
            head = file.read(MAGIC_AT + len(MAGIC))
    except FileNotFoundError:
        return
    except OSError as error:
        raise NoRows(f"{path} cannot be read: {error.strerror}") from None
    if head and head[MAGIC_AT:] != MAGIC:
        raise NoRows(f"{path} is no file of lmdb, or its beginning is damaged: give another name, or delete it")
    for old in (path, path.with_name(f"{path.name}-lock")):
        old.unlink(missing_ok=True)


class LmdbKV:
    """A new lmdb file, in the place of one that is left. Raises NoRows, and lmdb.Error if this process has it open."""

    def __init__(self, path: Path):
        remove_old(path)
        self._env: Any = lmdb.open(str(path), map_size=LARGEST_FILE_BYTES, subdir=False, sync=False, metasync=False,
                                   max_readers=READERS)

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

"""Safety: a transaction happens as a whole or not at all, and a snapshot never shows what came after it.

The index keeps its rows in an ordered store of keys and values with one writer: `OrderedKV`. This module has the interface and
the default, a sorted map in memory. `impl/stores/ordered_lmdb.py` is the second; one suite of tests holds both against it.

The map keeps its rows in leaves. A snapshot shares them. Whoever writes copies a leaf once, unless it is younger than the last
snapshot. So a snapshot costs nothing, and a write costs the copy of one leaf and of the list of leaves.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Generator, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from highwater.impl.errors import Definite

LONGEST_KEY_BYTES = 511  # lmdb's limit holds for every store, so that all take the same rows
LARGEST_LEAF = 256  # rows

Row = tuple[bytes, bytes]


class InvalidKey(Definite):
    """A key is empty, or longer than 511 bytes."""


class Rows(Protocol):
    """The rows at one moment."""

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key, or None."""
        ...

    def range(self, start: bytes, end: bytes | None) -> Iterator[Row]:
        """Yield the rows with start <= key < end in order; without an end, to the last. No row may change meanwhile."""
        ...


class Transaction(Rows, Protocol):
    """Rows that change. A read sees what the transaction has written."""

    def put(self, key: bytes, value: bytes) -> None:
        """Set a row. Raises InvalidKey."""
        ...

    def delete(self, key: bytes) -> None:
        """Remove a row, if there is one."""
        ...

    def delete_range(self, start: bytes, end: bytes | None) -> None:
        """Remove the rows with start <= key < end."""
        ...


class OrderedKV(Protocol):
    """An ordered store with one writer and any number of snapshots."""

    def snapshot(self) -> AbstractContextManager[Rows]:
        """Return the rows as of now; leave the context when done with them."""
        ...

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Return a transaction. It commits at the end of the context, unless that ends with an exception."""
        ...

    def restore(self, rows: Iterable[Row]) -> None:
        """Have these rows and no others, in one transaction. Raises InvalidKey."""
        ...


def after_prefix(prefix: bytes) -> bytes | None:
    """Return the first key behind all that begin with `prefix`; None if nothing is behind them."""
    short = prefix.rstrip(b"\xff")
    return short[:-1] + bytes([short[-1] + 1]) if short else None


def under(rows: Rows, prefix: bytes) -> Iterator[Row]:
    """Yield the rows whose keys begin with `prefix`, in order."""
    return rows.range(prefix, after_prefix(prefix))


def checked(key: bytes) -> bytes:
    """Return the key. Raises InvalidKey."""
    if not 0 < len(key) <= LONGEST_KEY_BYTES:
        raise InvalidKey(f"a key of {len(key)} bytes; keys have 1 to {LONGEST_KEY_BYTES}")
    return key


class Leaf:
    """Some neighbouring rows. Only the version that made a leaf may change it."""

    def __init__(self, keys: list[bytes], values: list[bytes], version: int):
        self.keys, self.values, self.version = keys, values, version


class View:
    """Rows in leaves, none of which is empty. `firsts[i]` is the first key of `leaves[i]`."""

    def __init__(self, firsts: list[bytes], leaves: list[Leaf]):
        self.firsts, self.leaves = firsts, leaves

    def get(self, key: bytes) -> bytes | None:
        at = bisect_right(self.firsts, key) - 1
        if at < 0:
            return None
        leaf = self.leaves[at]
        inside = bisect_left(leaf.keys, key)
        return leaf.values[inside] if inside < len(leaf.keys) and leaf.keys[inside] == key else None

    def range(self, start: bytes, end: bytes | None) -> Iterator[Row]:
        for at in range(max(0, bisect_right(self.firsts, start) - 1), len(self.leaves)):
            leaf = self.leaves[at]
            if end is not None and self.firsts[at] >= end:
                return
            upto = len(leaf.keys) if end is None else bisect_left(leaf.keys, end)
            for inside in range(bisect_left(leaf.keys, start), upto):
                yield leaf.keys[inside], leaf.values[inside]


class Writing(View):
    """The view of a transaction, which owns its two lists, and the leaves of its version."""

    def __init__(self, view: View, version: int):
        super().__init__(list(view.firsts), list(view.leaves))
        self.version = version

    def put(self, key: bytes, value: bytes) -> None:
        checked(key)
        at = max(0, bisect_right(self.firsts, key) - 1)
        if not self.leaves:
            self.firsts.append(key)
            self.leaves.append(Leaf([], [], self.version))
        leaf = self._own(at)
        inside = bisect_left(leaf.keys, key)
        if inside < len(leaf.keys) and leaf.keys[inside] == key:
            leaf.values[inside] = value
            return
        leaf.keys.insert(inside, key)
        leaf.values.insert(inside, value)
        self.firsts[at] = leaf.keys[0]
        if len(leaf.keys) > LARGEST_LEAF:
            half = LARGEST_LEAF // 2
            self.leaves.insert(at + 1, Leaf(leaf.keys[half:], leaf.values[half:], self.version))
            self.firsts.insert(at + 1, leaf.keys[half])
            del leaf.keys[half:], leaf.values[half:]

    def delete(self, key: bytes) -> None:
        self.delete_range(key, key + b"\0")

    def delete_range(self, start: bytes, end: bytes | None) -> None:
        at = max(0, bisect_right(self.firsts, start) - 1)
        while at < len(self.leaves) and (end is None or self.firsts[at] < end):
            keys = self.leaves[at].keys
            first, upto = bisect_left(keys, start), len(keys) if end is None else bisect_left(keys, end)
            if first == 0 and upto == len(keys):
                del self.firsts[at], self.leaves[at]
                continue
            if first < upto:
                leaf = self._own(at)
                del leaf.keys[first:upto], leaf.values[first:upto]
                self.firsts[at] = leaf.keys[0]
            at += 1

    def _own(self, at: int) -> Leaf:
        """Return the leaf, which may be changed now."""
        leaf = self.leaves[at]
        if leaf.version != self.version:
            leaf = self.leaves[at] = Leaf(list(leaf.keys), list(leaf.values), self.version)
        return leaf


class MemoryKV:
    """A sorted map in memory."""

    def __init__(self):
        self._view, self._version = View([], []), 0

    @contextmanager
    def snapshot(self) -> Generator[Rows]:
        yield self._view

    @contextmanager
    def transaction(self) -> Generator[Transaction]:
        self._version += 1
        writing = Writing(self._view, self._version)
        yield writing
        self._view = View(writing.firsts, writing.leaves)

    def restore(self, rows: Iterable[Row]) -> None:
        self._version += 1
        writing = Writing(View([], []), self._version)
        for key, value in rows:
            writing.put(key, value)
        self._view = View(writing.firsts, writing.leaves)

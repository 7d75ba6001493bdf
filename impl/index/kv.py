"""Safety: a transaction happens as a whole or not at all, and a snapshot never shows what came after it.

The index keeps its rows in an ordered store of keys and values with one writer: `OrderedKV`. This module has the interface and
the default, a sorted map in memory. `impl/stores/ordered_lmdb.py` is the second; one suite of tests holds both against it.

The map is a tree whose nodes are never changed once a view shows them. A transaction copies the nodes on its way, each once. So
a snapshot costs nothing, and a write costs the copies of three nodes or four.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Generator, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from highwater.impl.errors import Definite

LONGEST_KEY_BYTES = 511  # lmdb's limit holds for every store, so that all take the same rows
LARGEST_NODE = 64  # rows, or children

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


class Node:
    """A node of the tree: a leaf has keys and values, another one has children.

    The keys of child i are from `keys[i]` on and before `keys[i + 1]`; the first child has all before that, too. Only the
    version that made a node may change it.
    """

    __slots__ = ("is_leaf", "items", "keys", "version")

    def __init__(self, keys: list[bytes], items: list[Any], is_leaf: bool, version: int):
        self.keys, self.items, self.is_leaf, self.version = keys, items, is_leaf, version

    def place(self, key: bytes) -> int:
        """Return which child has a key."""
        return max(0, bisect_right(self.keys, key) - 1)


class View:
    """The rows of a tree, which nobody changes."""

    def __init__(self, root: Node | None = None):
        self.root = root or Node([], [], True, 0)

    def get(self, key: bytes) -> bytes | None:
        node = self.root
        while not node.is_leaf:
            node = node.items[node.place(key)]
        at = bisect_left(node.keys, key)
        return node.items[at] if at < len(node.keys) and node.keys[at] == key else None

    def range(self, start: bytes, end: bytes | None) -> Iterator[Row]:
        return ranged(self.root, start, end)


def ranged(node: Node, start: bytes, end: bytes | None) -> Iterator[Row]:
    """Yield the rows below a node with start <= key < end."""
    if node.is_leaf:
        upto = len(node.keys) if end is None else bisect_left(node.keys, end)
        for at in range(bisect_left(node.keys, start), upto):
            yield node.keys[at], node.items[at]
        return
    for at in range(node.place(start), len(node.keys)):
        if end is not None and at and node.keys[at] >= end:
            return
        yield from ranged(node.items[at], start, end)


class Writing(View):
    """The view of a transaction, which may change the nodes of its version, and copies others."""

    def __init__(self, view: View, version: int):
        super().__init__(view.root)
        self.version = version

    def put(self, key: bytes, value: bytes) -> None:
        self.root = self._own(self.root)
        second = self._put(self.root, checked(key), value)
        if second is not None:
            self.root = Node([self.root.keys[0], second.keys[0]], [self.root, second], False, self.version)

    def delete(self, key: bytes) -> None:
        if self.get(key) is not None:
            self.delete_range(key, key + b"\0")

    def delete_range(self, start: bytes, end: bytes | None) -> None:
        if next(self.range(start, end), None) is None:
            return
        self.root = self._own(self.root)
        self._delete(self.root, start, end)
        while not self.root.is_leaf and len(self.root.items) < 2:
            self.root = self.root.items[0] if self.root.items else Node([], [], True, self.version)

    def _own(self, node: Node) -> Node:
        """Return the node, or a copy of it, that may be changed."""
        if node.version == self.version:
            return node
        return Node(list(node.keys), list(node.items), node.is_leaf, self.version)

    def _put(self, node: Node, key: bytes, value: bytes) -> Node | None:
        """Put a row below a node of this version; return its second half if it had to be split."""
        if node.is_leaf:
            at = bisect_left(node.keys, key)
            if at < len(node.keys) and node.keys[at] == key:
                node.items[at] = value
                return None
            node.keys.insert(at, key)
            node.items.insert(at, value)
        else:
            at = node.place(key)
            node.keys[at] = min(node.keys[at], key)  # so that a second half of the first child is sorted in behind it
            child = node.items[at] = self._own(node.items[at])
            second = self._put(child, key, value)
            if second is None:
                return None
            node.keys.insert(at + 1, second.keys[0])
            node.items.insert(at + 1, second)
        if len(node.keys) <= LARGEST_NODE:
            return None
        half = len(node.keys) // 2
        second = Node(node.keys[half:], node.items[half:], node.is_leaf, self.version)
        del node.keys[half:], node.items[half:]
        return second

    def _delete(self, node: Node, start: bytes, end: bytes | None) -> None:
        """Remove rows below a node of this version. It may be empty then."""
        if node.is_leaf:
            first, upto = bisect_left(node.keys, start), len(node.keys) if end is None else bisect_left(node.keys, end)
            del node.keys[first:upto], node.items[first:upto]
            return
        at = node.place(start)
        while at < len(node.keys) and (end is None or at == 0 or node.keys[at] < end):
            child = node.items[at] = self._own(node.items[at])
            self._delete(child, start, end)
            if child.keys:
                at += 1
            else:
                del node.keys[at], node.items[at]


class MemoryKV:
    """A sorted map in memory."""

    def __init__(self):
        self._view, self._version = View(), 0

    @contextmanager
    def snapshot(self) -> Generator[Rows]:
        yield self._view

    @contextmanager
    def transaction(self) -> Generator[Transaction]:
        self._version += 1
        writing = Writing(self._view, self._version)
        yield writing
        self._view = View(writing.root)

    def restore(self, rows: Iterable[Row]) -> None:
        self._version += 1
        writing = Writing(View(), self._version)
        for key, value in rows:
            writing.put(key, value)
        self._view = View(writing.root)

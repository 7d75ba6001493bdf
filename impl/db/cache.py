"""Safety: what is kept takes at most so many bytes, by the sizes that were said of it."""

from collections.abc import Hashable
from typing import Any

USUAL_BYTES = 1 << 26


class Cache:
    """Values by key. Those that were not used for the longest time make room for new ones.

    Only what never changes may be put in: SSTs are written once, and their ids are given once.
    """

    def __init__(self, most_bytes: int = USUAL_BYTES):
        self.most_bytes, self.held_bytes = most_bytes, 0
        self._values: dict[Hashable, tuple[Any, int]] = {}  # in the order of their last use

    def get(self, key: Hashable) -> Any:
        """Return a value; None if it is not kept."""
        found = self._values.pop(key, None)
        if found is None:
            return None
        self._values[key] = found
        return found[0]

    def put(self, key: Hashable, value: Any, size_bytes: int) -> None:
        """Keep a value, and drop others until there is room. One that has no room alone is not kept."""
        self.drop(key)
        if size_bytes > self.most_bytes:
            return
        self._values[key] = value, size_bytes
        self.held_bytes += size_bytes
        while self.held_bytes > self.most_bytes:
            self.drop(next(iter(self._values)))

    def drop(self, key: Hashable) -> None:
        """Keep a value no longer, if it was kept."""
        _, size_bytes = self._values.pop(key, (None, 0))
        self.held_bytes -= size_bytes

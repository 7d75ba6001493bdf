"""Safety: the memtable has all versions of the rows that are in the WAL and in no SST, in the order of an SST."""

from collections.abc import Iterable

from highwater.impl.db.rows import Row
from highwater.impl.manifests.spans import Span

NUMBERS = 24  # bytes of a row's number and times


def size_of(row: Row) -> int:
    """Return how many bytes a row takes in memory, about."""
    return NUMBERS + len(row.key) + len(row.value)


class Memtable:
    """Rows in memory, by their keys; of each key the newest comes first."""

    def __init__(self, rows: Iterable[Row] = ()):
        self.versions: dict[bytes, list[Row]] = {}
        self.size_bytes = 0
        self._keys: list[bytes] | None = []  # sorted; None: there are new ones
        self.add(rows)

    def add(self, rows: Iterable[Row]) -> None:
        """Add rows that are newer than all others, in the order of their commits. Of equal keys and numbers the last counts."""
        for row in rows:
            versions = self.versions.setdefault(row.key, [])
            if not versions:
                self._keys = None
            elif versions[0].seq == row.seq:
                self.size_bytes -= size_of(versions.pop(0))
            versions.insert(0, row)
            self.size_bytes += size_of(row)

    def rows(self, span: Span) -> list[Row]:
        """Return the rows with keys of the span, sorted as in an SST."""
        if span.end == span.start + b"\0":  # one key
            return list(self.versions.get(span.start, ()))
        if self._keys is None:
            self._keys = sorted(self.versions)
        return [row for key in self._keys if span.start <= key and (span.end is None or key < span.end)
                for row in self.versions[key]]

"""Safety: an SST that a manifest names has rows of the log, and no others; a flush leaves none out that a read may need.

The models know the names of SSTs, and not what is in them. Rows are compared by key, number, kind and value. A flush or a
compaction may turn a row that has expired into a tombstone, and drop operands that have expired.
"""

from collections.abc import Callable, Iterable
from typing import Any

from highwater.impl.codecs.manifest import Manifest
from highwater.impl.db.damaged import DamagedObject
from highwater.impl.db.rows import MERGE, TOMBSTONE, Row
from highwater.impl.db.table import Table
from highwater.impl.layout import Namespace, key_of_sst
from highwater.traces.calls import content
from highwater.traces.histories.versions import rows_in


class Rows:
    """The rows in the logs of the databases of one trace."""

    def __init__(self, roots: Iterable[str]):
        self.logs = {of.prefix: of for of in (Namespace(root, "wal") for root in roots)}
        self.objects: dict[str, dict[int, tuple[Row, ...]]] = {prefix: {} for prefix in self.logs}  # as first put
        self.known: dict[tuple[bytes, int], set[tuple[int, bytes]]] = {}  # (key, number) -> kinds and values

    def log(self, key: str, body: bytes) -> tuple[Row, ...]:
        """Note a WAL object that was put; return its rows. Raises DamagedObject."""
        prefix, rows = key[:key.rfind("/") + 1], rows_in(key, body)
        self.objects[prefix].setdefault(self.logs[prefix].file_id(key) or 0, rows)
        for row in rows:
            found = self.known.setdefault((row.key, row.seq), set())
            found |= {(row.kind, row.value), *[(TOMBSTONE, b"")] * (row.expire_ms is not None)}
        return rows

    def misnamed(self, root: str, before: Manifest, after: Manifest, now_ms: int,
                 body_of: Callable[[str], bytes | None]) -> str:
        """Return what is wrong with the SSTs that a manifest names and the one before does not; "" if nothing is.

        `body_of(key)` returns what is in the store; None: it is not known. `now_ms`: the latest time by any clock."""
        new = {sst.id: sst for sst in after.ssts if sst.id in after.named_ssts} if after.ssts != before.ssts else {}
        flushed: set[tuple[bytes, int]] = set()
        for sst in new.keys() - {sst.id for sst in before.ssts}:
            key = key_of_sst(root, sst)
            body = body_of(key)
            if body is None:
                return ""
            try:
                rows = [*Table(key, body, new[sst].info).rows()]
            except DamagedObject as error:
                return str(error)
            for row in rows:
                if (row.kind, row.value) not in self.known.get((row.key, row.seq), ()):
                    return f"{key} has {row}, which is not in the log"
            flushed.update((row.key, row.seq) for row in rows)
        return self._left_out(root, before, after, now_ms, flushed)

    def _left_out(self, root: str, before: Manifest, after: Manifest, now_ms: int, flushed: set[tuple[bytes, int]]) -> str:
        """Return which row a flush has left out, the newest of its key; "" if none."""
        newest: dict[bytes, Row] = {}
        objects = self.objects[f"{root}/wal/"]
        for i in range(before.replay_after_wal_id + 1, after.replay_after_wal_id + 1):
            newest.update((row.key, row) for row in objects.get(i, ()) if row.seq > before.last_l0_seq)
        for row in newest.values():
            if (row.key, row.seq) not in flushed and not (row.kind == MERGE and row.expired(now_ms)):
                return f"{row} is in the log, and in none of its new SSTs, and is said to be flushed"
        return ""


def digest_of(rows: Iterable[Any]) -> str:
    """Name the changes of a batch: the key, kind and value of each Row or Op, without its times."""
    return content(b"".join(b"%d %d %b%d %b" % (row.kind, len(row.key), row.key, len(row.value), row.value)
                            for row in sorted(rows, key=lambda row: row.key)))

"""Safety: the rows of the WAL are those of all its objects after the last one that is in L0; a missing object is an error.

A WAL object holds the rows of commits, in their order. A fence has none: a new writer puts it to stop the one before. It is
empty since release 0.14; before, it is a table without blocks.

No object says its own id. So the numbers of rows tell whether objects are in each other's places: they ascend from each object
to the next. An object that was cut off to no bytes looks like a fence, and nobody can tell.
"""

from collections.abc import AsyncIterator

from highwater.impl.codecs.manifest import Manifest
from highwater.impl.db.damaged import DamagedObject
from highwater.impl.db.rows import Row
from highwater.impl.db.table import Table
from highwater.impl.errors import Definite, NotFound
from highwater.impl.layout import Namespace
from highwater.impl.world import ObjectStore, list_all

MOST_BYTES = 1 << 30  # of keys and values in one object; a released writer has at most so many in memory


class WalMissing(Definite):
    """A WAL object whose rows are in no SST is not there."""

    def __init__(self, key: str, last: int):
        super().__init__(f"{key}: it is missing, but the WAL goes on to object {last}; its rows are in no SST: if the WAL is "
                         "in another store, say where; else see `highwater admin check`")


def rows_of(key: str, body: bytes) -> list[Row]:
    """Return the rows of a WAL object in the order of their commits; none for a fence. Raises DamagedObject."""
    if not body:
        return []
    table, rows, size_bytes = Table(key, body), list[Row](), 0
    for block in table.blocks():
        size_bytes += sum(len(row.key) + len(row.value) for row in block)
        if size_bytes > MOST_BYTES:
            raise DamagedObject(key, 0, "rows", f"they have more than {MOST_BYTES:,} bytes of keys and values")
        rows += block
    if rows and not table.is_wal:
        raise DamagedObject(key, table.info_offset, "info, sst_type", f"{table.info.sst_type} is that of an SST, which was put "
                            "in its place")
    return rows


class Order:
    """Reads WAL objects one after the other, and checks that their rows go on where those before have ended."""

    def __init__(self):
        self.key, self.seq = "", -1  # of the object with rows that was read last, and of its last row

    def rows_of(self, key: str, body: bytes) -> list[Row]:
        """Return what `rows_of` returns. An object may be read again. Raises DamagedObject."""
        rows = rows_of(key, body)
        if rows and key > self.key and rows[0].seq <= self.seq:
            raise DamagedObject(key, 0, "numbers of rows", f"they begin with {rows[0].seq}, and {self.key} has {self.seq} "
                                "already: one of these objects is in the place of another one")
        if rows:
            self.key, self.seq = key, rows[-1].seq
        return rows


async def ids_after(store: ObjectStore, namespace: Namespace, after: int) -> list[int]:
    """Return the ids of the WAL objects behind `after`, in order. Raises InvalidName."""
    entries = await list_all(store, namespace.prefix, namespace.key(after))
    return [number for entry in entries if (number := namespace.file_id(entry.key)) is not None]


async def replayed(store: ObjectStore, namespace: Namespace, manifest: Manifest, later: bool) -> AsyncIterator[list[Row]]:
    """Yield the rows of each WAL object that are in no SST of the manifest: those that it has seen, and those `later`.

    Raises WalMissing, DamagedObject.
    """
    after, seq = manifest.replay_after_wal_id, manifest.last_l0_seq
    end = max([manifest.wal_id_last_seen, *(await ids_after(store, namespace, after) if later else ())])
    order = Order()
    for number in range(after + 1, end + 1):
        key = namespace.key(number)
        try:
            body = (await store.get(key)).body
        except NotFound:
            raise WalMissing(key, end) from None
        yield [row for row in order.rows_of(key, body) if row.seq > seq]


def table_of(rows: list[Row]) -> list[Row]:
    """Return rows of a WAL as an SST would have them: of equal keys and numbers the last one counts."""
    latest = {(row.key, -row.seq): row for row in rows}
    return [latest[place] for place in sorted(latest)]

"""Safety: the rows of the WAL are those of all its objects after the last one that is in L0; a missing object is an error.

A WAL object holds the rows of commits, in their order. A fence has none: a new writer puts it to stop the one before. It is
empty since release 0.14; before, it is a table without blocks.
"""

from collections.abc import AsyncIterator

from highwater.impl.codecs.manifest import Manifest
from highwater.impl.db.rows import Row
from highwater.impl.db.table import Table
from highwater.impl.errors import Definite, NotFound
from highwater.impl.layout import Namespace
from highwater.impl.world import ObjectStore, list_all


class WalMissing(Definite):
    """A WAL object whose rows are in no SST is not there."""

    def __init__(self, key: str, last: int):
        super().__init__(f"{key}: it is missing, but the WAL goes on to object {last}; its rows are in no SST: if the WAL is "
                         "in another store, say where; else see `highwater admin check`")


def rows_of(key: str, body: bytes) -> list[Row]:
    """Return the rows of a WAL object in the order of their commits; none for a fence. Raises DamagedObject."""
    return list(Table(key, body).rows()) if body else []


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
    for number in range(after + 1, end + 1):
        key = namespace.key(number)
        try:
            body = (await store.get(key)).body
        except NotFound:
            raise WalMissing(key, end) from None
        yield [row for row in rows_of(key, body) if row.seq > seq]


def table_of(rows: list[Row]) -> list[Row]:
    """Return rows of a WAL as an SST would have them: of equal keys and numbers the last one counts."""
    latest = {(row.key, -row.seq): row for row in rows}
    return [latest[place] for place in sorted(latest)]

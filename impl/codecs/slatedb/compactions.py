"""Safety: a compactions file that is read and written again loses nothing.

This is the codec of SlateDB's compactions files (impl/codecs/slatedb/tables.py). Version 2 adds fields to version 1. Both
versions are read; version 2 is written. A file of version 1 does not state the destination of a compaction. It reads as 0 here;
the released reader infers it.
"""

from typing import NamedTuple

from highwater.impl.codecs.slatedb.flatbuffer import NewerFields, write
from highwater.impl.codecs.slatedb.header import InvalidFile, closed, opened, table_in
from highwater.impl.codecs.slatedb.tables import Compaction, CompactionsV1

WRITTEN = 2


class Compactions(NamedTuple):
    """The decoded content of one compactions file. `version` and `unknown` describe the file it was read from."""

    compactor_epoch: int = 0
    recent_compactions: tuple[Compaction, ...] = ()
    version: int = WRITTEN  # the version of the file that this was read from
    unknown: tuple[str, ...] = ()

    def holds(self, update_id: str) -> bool:
        """Return whether the file has the compaction with this id. The id of a compaction is the id of the update that submits
        it."""
        return any(compaction.id == update_id for compaction in self.recent_compactions)


def decode(body: bytes) -> Compactions:
    """Decode a compactions file. Raises InvalidFile, DamagedBuffer."""
    version, buffer = opened(body, "compactions files", (1, WRITTEN))
    table, unknown = table_in(buffer, CompactionsV1)
    return Compactions(*table, version, unknown)  # pyright: ignore[reportCallIssue]  # the table has the first two fields


def encode(compactions: Compactions) -> bytes:
    """Encode a compactions file as version 2.

    Raises NewerFields if the file had fields that this release does not know. Raises InvalidFile for a file of version 1 that
    has compactions: as version 2 it would name 0 as their destination.
    """
    if compactions.unknown:
        raise NewerFields("compactions file", compactions.unknown)
    if compactions.version != WRITTEN and compactions.recent_compactions:
        raise InvalidFile("a compactions file of version 1 does not name the destinations of its compactions: let the release "
                          "that wrote it finish them", 0, "version")
    return closed(WRITTEN, write(CompactionsV1(compactions.compactor_epoch, compactions.recent_compactions)))

"""Safety: no compactions file is written that lacks something that was in the one read.

The codec of SlateDB's compactions files (impl/codecs/slatedb/tables.py). Version 2 is version 1 with further fields: both are
read, 2 is written. In version 1 the destination of a compaction is not said, and reads as 0; the released reader infers it.
"""

from typing import NamedTuple

from highwater.impl.codecs.slatedb.flatbuffer import NewerFields, read, write
from highwater.impl.codecs.slatedb.header import InvalidFile, closed, opened
from highwater.impl.codecs.slatedb.tables import Compaction, CompactionsV1

WRITTEN = 2


class Compactions(NamedTuple):
    compactor_epoch: int = 0
    recent_compactions: tuple[Compaction, ...] = ()
    version: int = WRITTEN  # of the file that this was read from
    unknown: tuple[str, ...] = ()


def decode(body: bytes) -> Compactions:
    """Raises InvalidFile, DamagedBuffer."""
    version, buffer = opened(body, "compactions files", (1, WRITTEN))
    table, unknown = read(buffer, CompactionsV1)
    return Compactions(*table, version, unknown)  # pyright: ignore[reportCallIssue]  # the table has the first two fields


def encode(compactions: Compactions) -> bytes:
    """Raises NewerFields; InvalidFile for one of version 1 that has compactions: as 2 it would name 0 as their destination."""
    if compactions.unknown:
        raise NewerFields("compactions file", compactions.unknown)
    if compactions.version != WRITTEN and compactions.recent_compactions:
        raise InvalidFile("a compactions file of version 1 does not say where its compactions go: let the release that wrote "
                          "it finish them")
    return closed(WRITTEN, write(CompactionsV1(compactions.compactor_epoch, compactions.recent_compactions)))


def holds(compactions: Compactions, update_id: str) -> bool:
    """Updates with an id are those that submit a compaction: its id is the update's."""
    return any(compaction.id == update_id for compaction in compactions.recent_compactions)


def referenced(compactions: Compactions, now_ms: int) -> frozenset[int]:
    """No checkpoint refers to a compactions file."""
    return frozenset()

"""Safety: a torn write is told from damage, as far as this can be told.

Reads one segment of the log. The newest segment may end in a batch that was never synced: a crash keeps any pages of it. A
batch is written only after the one before was synced. So where a record cannot be read, and one of a later batch than its own
stands behind it, it was durable, and is damaged. Otherwise it is taken for torn: damage in the last batch looks the same.
"""

import re
from struct import Struct
from typing import NamedTuple

from highwater.impl.raft.faults import Damaged, OtherNode, OtherVersion
from highwater.impl.raft.records import ENTRY, HARD, HEAD, SUMMED, TRUNCATE, Record, record_at, records_behind

MAGIC, VERSION = b"hwraftlg", 1
NAME = re.compile("log-([0-9]{16})")
HEAD_FIELDS = Struct(">8sHQB")  # magic, version, number of the segment, 1 if the log begins anew


class Segment(NamedTuple):
    """A segment as it was read. The first record is its head: the log goes on after entry (index, term) of it."""

    name: str
    number: int
    anew: bool  # what the segments before it hold is void: an installed snapshot is in its place
    records: tuple[Record, ...]
    size_bytes: int  # without what is torn
    torn_bytes: int


def name_of(number: int) -> str:
    return f"log-{number:016d}"


def number_of(name: str) -> int | None:
    """Return the number of the segment with this name; None if it is another file."""
    found = NAME.fullmatch(name)
    return int(found[1]) if found else None


def head(number: int, node: str, index: int, term: int, batch: int, anew: bool) -> Record:
    return Record(HEAD, index, term, batch, HEAD_FIELDS.pack(MAGIC, VERSION, number, anew) + node.encode())


def parsed(name: str, data: bytes, node: str, newest: bool) -> Segment | None:
    """Read a segment of `node`; None if its first batch is torn: it may lack term and vote, and nothing was written behind it.

    Raises Damaged, OtherNode, OtherVersion."""
    records: list[Record] = []
    position = 0
    while position < len(data):
        record = record_at(data, position)
        if record is None:
            check_torn(name, data, position, records[-1] if records else None, newest)
            break
        check_order(name, position, record, records[-1] if records else None)
        records.append(record)
        position = record.end
    if not records and not newest:
        raise Damaged(name, 0, "the segment is empty")
    anew = bool(records) and check_head(name, records[0], node)
    if newest and not any(record.is_last for record in records):
        return None
    number = number_of(name)
    assert number is not None
    return Segment(name, number, anew, tuple(records), position, len(data) - position)


def check_torn(name: str, data: bytes, position: int, before: Record | None, newest: bool) -> None:
    """Raises Damaged if the record at `position` cannot be read, but was durable once."""
    if not newest:
        raise Damaged(name, position, "no record can be read here, and a later segment follows")
    batch = 0 if before is None else before.batch + before.is_last  # of what cannot be read; 0: a head, all are later
    for later in records_behind(data, position):
        if later.batch > batch:
            raise Damaged(name, position, f"no record can be read here, and one of a later batch ends at byte {later.end:,}")


def check_order(name: str, position: int, record: Record, before: Record | None) -> None:
    """Raises Damaged unless the record may follow the one before it, OtherVersion if its type is unknown."""
    if record.type not in (HEAD, HARD, TRUNCATE, ENTRY, SUMMED):
        raise OtherVersion(f"{name}: byte {position:,}: a record of type {record.type}, which version {VERSION} of the log "
                           "does not have: start the version of highwater that wrote it")
    if (record.type == HEAD) != (before is None):
        raise Damaged(name, position, "the segment's head is not where it belongs")
    if before is not None and record.batch != before.batch + before.is_last:
        raise Damaged(name, position, f"a record of batch {record.batch} follows one of batch {before.batch}")


def check_head(name: str, record: Record, node: str) -> bool:
    """Check whose segment it is; return whether the log begins anew in it."""
    if len(record.body) < HEAD_FIELDS.size:
        raise Damaged(name, 0, "the segment's head is too short")
    magic, version, number, anew = HEAD_FIELDS.unpack_from(record.body)
    owner = record.body[HEAD_FIELDS.size:].decode(errors="replace")
    if magic != MAGIC or version != VERSION:
        raise OtherVersion(f"{name}: it has the form {magic!r} version {version}, and this highwater reads {MAGIC!r} version "
                           f"{VERSION}: start the version of highwater that wrote it")
    if owner != node:
        raise OtherNode(f"{name}: it belongs to node {owner!r}, and this is node {node!r}: give each node its own folder")
    if number != number_of(name):
        raise Damaged(name, 0, f"it holds segment {number}: the file was renamed or copied")
    return bool(anew)

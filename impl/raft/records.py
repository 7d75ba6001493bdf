"""Safety: a record is read as it was written, or not at all.

The form of a record in a segment of the log, integers big-endian: u32 length and u32 CRC-32C of what follows; then u8 type, u64
index, u64 term, u64 batch, and the body. A batch is what was made durable by one sync; the last record of each batch has the
highest bit of its type set, so that one can tell which batch a record after it would be of. The body of an entry is u8 kind and
its content; of a SUMMED one u8 kind, u32 checksum by the leader that made it, and the content.
"""

import re
from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from highwater.impl.codecs.crc32c import crc32c

HEAD, HARD, TRUNCATE, ENTRY, SUMMED = 1, 2, 3, 4, 5  # types: segment head, hard state, cut of the log, entry, with a checksum
LAST = 0x80
PREFIX, FIELDS, WHOLE = Struct(">II"), Struct(">BQQQ"), Struct(">IIBQQQ")
BEFORE_BODY = PREFIX.size + FIELDS.size
# where a record may begin, also one of a type to come
PLACES = re.compile(rb"(?=.{8}[\x01-\x0f\x81-\x8f]\0\0.{6}\0\0.{6}\0\0.{6})", re.DOTALL)


class Record(NamedTuple):
    """A record, or what one is made of: `end` is where the next one begins."""

    type: int
    index: int
    term: int
    batch: int
    body: bytes
    is_last: bool = False  # of its batch
    end: int = 0


def encoded(record: Record) -> bytes:
    content = FIELDS.pack(record.type | (LAST if record.is_last else 0), record.index, record.term, record.batch) + record.body
    return PREFIX.pack(len(content), crc32c(content)) + content


def batch_of(records: list[Record]) -> bytes:
    """Return the bytes of one batch; its last record is marked."""
    return b"".join(encoded(record) for record in [*records[:-1], records[-1]._replace(is_last=True)])


def record_at(data: bytes, start: int) -> Record | None:
    """Return the record that begins at `start`; None if there is none, or not as it was written."""
    if start + BEFORE_BODY > len(data):
        return None
    length, crc, type_, index, term, batch = WHOLE.unpack_from(data, start)
    content = start + PREFIX.size
    end = content + length
    if length < FIELDS.size or end > len(data) or crc32c(data[content:end]) != crc:
        return None
    return Record(type_ & ~LAST, index, term, batch, data[start + BEFORE_BODY:end], type_ >= LAST, end)


def records_behind(data: bytes, start: int) -> Iterator[Record]:
    """Yield the records that begin anywhere after `start`, where none can be read. They are told by their checksums.

    A checksum for each place takes hours if the content looks like many lengths. So one is computed only where a type stands,
    and numbers below 2^48 behind it.
    """
    end = start + 1
    for place in PLACES.finditer(data, end):
        record = record_at(data, place.start()) if place.start() >= end else None
        if record is not None:
            yield record
            end = record.end

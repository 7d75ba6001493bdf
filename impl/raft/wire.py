"""Safety: bytes are taken for a message only if they are one from their first to their last.

The form of messages between nodes: u8 version, u8 kind, then the fields in their order. An integer is i64, a truth value u8,
text and bytes are u32 length and content, entries are u32 number and, for each, u64 term, u8 kind and its bytes. Big-endian.
"""

from collections.abc import Callable
from struct import Struct, error
from typing import Any, NamedTuple

from highwater.impl.errors import Definite
from highwater.impl.raft.entries import Entry
from highwater.impl.raft.faults import OtherVersion
from highwater.impl.raft.fetch import Chunk, FetchChunk
from highwater.impl.raft.messages import (
    Append,
    Appended,
    Conflict,
    Heartbeat,
    HeartbeatReply,
    InstallSnapshot,
    Message,
    PreVote,
    PreVoteReply,
    ReadIndex,
    ReadIndexReply,
    RequestVote,
    TimeoutNow,
    Vote,
)

VERSION = 1
KINDS: dict[int, type] = {
    1: PreVote, 2: PreVoteReply, 3: RequestVote, 4: Vote, 5: Append, 6: Appended, 7: Conflict, 8: Heartbeat, 9: HeartbeatReply,
    10: InstallSnapshot, 11: ReadIndex, 12: ReadIndexReply, 13: TimeoutNow, 14: FetchChunk, 15: Chunk,
}
NUMBERS = {kind: number for number, kind in KINDS.items()}
HEADS = {kind: bytes([VERSION, number]) for kind, number in NUMBERS.items()}
INTS = {kind: Struct(f">{len(kind.__annotations__)}q") for kind in NUMBERS if {*kind.__annotations__.values()} == {int}}
INT, NUMBER, ENTRY_HEAD = Struct(">q"), Struct(">I"), Struct(">QBI")
OnWire = Message | FetchChunk | Chunk


class Malformed(Definite):
    """The bytes are no message of this version."""


class Read(NamedTuple):
    """A field's value, and where the next one begins."""

    value: Any
    end: int


def encoded(message: OnWire) -> bytes:
    kind = type(message)
    if kind in INTS:
        return HEADS[kind] + INTS[kind].pack(*message)
    fields = zip(message, kind.__annotations__.values())
    return HEADS[kind] + b"".join(FORMS[form][0](value) for value, form in fields)


def decoded(data: bytes) -> OnWire:
    """Return the message. Raises Malformed, OtherVersion."""
    if len(data) < 2:
        raise Malformed(f"a message of {len(data)} bytes has no version and kind")
    if data[0] != VERSION or data[1] not in KINDS:
        raise OtherVersion(f"a message of version {data[0]} and kind {data[1]}, and this highwater reads version {VERSION}, "
                           f"kinds {min(KINDS)} to {max(KINDS)}: start the version of highwater that the cluster has")
    kind, position, values = KINDS[data[1]], 2, []
    if kind in INTS and len(data) == 2 + INTS[kind].size:
        return kind(*INTS[kind].unpack_from(data, 2))
    try:
        for form in kind.__annotations__.values():
            value, position = FORMS[form][1](data, position)
            values.append(value)
    except (error, IndexError, UnicodeDecodeError) as problem:
        raise Malformed(f"a {kind.__name__} of {len(data):,} bytes cannot be read: {problem}") from problem
    if position != len(data):
        raise Malformed(f"a {kind.__name__} of {len(data):,} bytes ends at byte {position:,}")
    return kind(*values)


def int_at(data: bytes, start: int) -> Read:
    return Read(INT.unpack_from(data, start)[0], start + INT.size)


def bool_at(data: bytes, start: int) -> Read:
    return Read((False, True)[data[start]], start + 1)


def bytes_at(data: bytes, start: int) -> Read:
    (length,) = NUMBER.unpack_from(data, start)
    end = start + NUMBER.size + length
    if end > len(data):
        raise IndexError(f"{length:,} bytes are announced, and {len(data) - start - NUMBER.size:,} follow")
    return Read(data[start + NUMBER.size:end], end)


def text_at(data: bytes, start: int) -> Read:
    found, end = bytes_at(data, start)
    return Read(found.decode(), end)


def with_length(data: bytes) -> bytes:
    return NUMBER.pack(len(data)) + data


def entries_to(entries: tuple[Entry, ...]) -> bytes:
    parts = [NUMBER.pack(len(entries))]
    for entry in entries:
        parts += ENTRY_HEAD.pack(entry.term, entry.kind, len(entry.body)), entry.body
    return b"".join(parts)


def entries_at(data: bytes, start: int) -> Read:
    (number,) = NUMBER.unpack_from(data, start)
    position, entries = start + NUMBER.size, list[Entry]()
    for _ in range(number):
        term, kind, length = ENTRY_HEAD.unpack_from(data, position)
        position += ENTRY_HEAD.size + length
        if position > len(data):
            raise IndexError(f"an entry of {length:,} bytes is announced, and the message ends before")
        entries.append(Entry(term, kind, data[position - length:position]))
    return Read(tuple(entries), position)


FORMS: dict[Any, tuple[Callable[[Any], bytes], Callable[[bytes, int], Read]]] = {  # annotation -> how to write and to read
    int: (INT.pack, int_at),
    bool: (lambda value: bytes([value]), bool_at),
    str: (lambda value: with_length(value.encode()), text_at),
    bytes: (with_length, bytes_at),
    tuple[Entry, ...]: (entries_to, entries_at),
}

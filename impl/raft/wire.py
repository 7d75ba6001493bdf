"""Safety: bytes are taken for a message only if they are one from their first to their last.

The form of messages between nodes: u8 version, u8 kind, then the fields in their order. An integer is i64, a truth value u8,
text and bytes are u32 length and content, entries are u32 number and, for each, u64 term, u8 kind and its bytes. Big-endian.

Kind 17 is an Append whose entries have their checksums: u32 after the kind of each. It is sent from level 2 of the forms on.
"""

from collections.abc import Callable
from functools import partial
from struct import Struct, error
from typing import Any, NamedTuple

from highwater.impl.errors import Definite
from highwater.impl.raft.entries import Entry, is_intact, with_checksum
from highwater.impl.raft.fetch import Chunk, FetchChunk
from highwater.impl.raft.messages import (
    Append,
    Appended,
    ClockedReply,
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
    16: ClockedReply,
}
NUMBERS = {kind: number for number, kind in KINDS.items()}
HEADS = {kind: bytes([VERSION, number]) for kind, number in NUMBERS.items()}
APPEND_WITH_CHECKSUMS, HEAD_WITH_CHECKSUMS = 17, bytes([VERSION, 17])
CHECKSUMS = 2  # the level of forms from which entries have checksums
INTS = {kind: Struct(f">{len(kind.__annotations__)}q") for kind in NUMBERS if {*kind.__annotations__.values()} == {int}}
TEXT_BYTES = 256  # at most, of the id of a read: a leader holds those that wait
BOUND = 1 << 62  # of terms and indexes; -1 is an index, too
INT, NUMBER, ENTRY_HEAD, SUMMED_HEAD = Struct(">q"), Struct(">I"), Struct(">QBI"), Struct(">QBII")
OnWire = Message | FetchChunk | Chunk | ClockedReply


class Malformed(Definite):
    """The bytes are no message."""


class UnknownForm(Malformed):
    """The bytes may be a message of a later version: this one does not have its version or kind."""


class Read(NamedTuple):
    """A field's value, and where the next one begins."""

    value: Any
    end: int


def encoded(message: OnWire, forms: int = 1) -> bytes:
    """Return the bytes of a message to a node that knows this level of forms."""
    kind = type(message)
    if forms >= CHECKSUMS and isinstance(message, Append):
        return HEAD_WITH_CHECKSUMS + fields_of(message._replace(entries=tuple(map(with_checksum, message.entries))), SUMMED)
    if kind in INTS:
        return HEADS[kind] + INTS[kind].pack(*message)
    return HEADS[kind] + fields_of(message, FORMS)


def fields_of(message: OnWire, forms: "Forms") -> bytes:
    return b"".join(forms[form][0](value) for value, form in zip(message, type(message).__annotations__.values()))


def decoded(data: bytes) -> OnWire:
    """Return the message. Raises Malformed, and UnknownForm if a later version may have sent it."""
    if len(data) < 2:
        raise Malformed(f"a message of {len(data)} bytes has no version and kind")
    summed = data[1] == APPEND_WITH_CHECKSUMS
    if data[0] != VERSION or not (summed or data[1] in KINDS):
        raise UnknownForm(f"a message of version {data[0]} and kind {data[1]}, and this highwater reads version {VERSION}, "
                          f"kinds {min(KINDS)} to {APPEND_WITH_CHECKSUMS}: start the version of highwater that the cluster has")
    kind, forms, position, values = Append if summed else KINDS[data[1]], SUMMED if summed else FORMS, 2, []
    if kind in INTS and len(data) == 2 + INTS[kind].size:
        return within(kind(*INTS[kind].unpack_from(data, 2)))
    try:
        for form in kind.__annotations__.values():
            value, position = forms[form][1](data, position)
            values.append(value)
    except (error, IndexError, UnicodeDecodeError) as problem:
        raise Malformed(f"a {kind.__name__} of {len(data):,} bytes cannot be read: {problem}") from problem
    if position != len(data):
        raise Malformed(f"a {kind.__name__} of {len(data):,} bytes ends at byte {position:,}")
    return within(kind(*values))


def within(message: OnWire) -> OnWire:
    """Return the message. Raises Malformed if a term or an index is none that a group can come to, or an entry was changed
    on its way."""
    numbers = [value for value in message if type(value) is int]
    if isinstance(message, Append):
        numbers += [entry.term for entry in message.entries]
    if not all(-1 <= number < BOUND for number in numbers):
        raise Malformed(f"a {type(message).__name__} has the number {max(numbers, key=abs):,}, which no term and no index is")
    if isinstance(message, Append):
        for index, entry in enumerate(message.entries, message.prev_index + 1):
            if not is_intact(entry):
                raise Malformed(f"entry {index:,} of term {entry.term:,} does not have the checksum that its leader gave it")
    return message


def int_at(data: bytes, start: int) -> Read:
    return Read(INT.unpack_from(data, start)[0], start + INT.size)


def bool_at(data: bytes, start: int) -> Read:
    return Read((False, True)[data[start]], start + 1)


def bytes_at(data: bytes, start: int, most_bytes: int = 1 << 32) -> Read:
    (length,) = NUMBER.unpack_from(data, start)
    end, room = start + NUMBER.size + length, min(len(data) - start - NUMBER.size, most_bytes)
    if length > room:
        raise IndexError(f"{length:,} bytes are announced, and {room:,} may follow")
    return Read(data[start + NUMBER.size:end], end)


def text_at(data: bytes, start: int) -> Read:
    found, end = bytes_at(data, start, TEXT_BYTES)
    return Read(found.decode(), end)


def with_length(data: bytes) -> bytes:
    return NUMBER.pack(len(data)) + data


def entries_to(entries: tuple[Entry, ...], head: Struct = ENTRY_HEAD) -> bytes:
    parts = [NUMBER.pack(len(entries))]
    for term, kind, body, checksum in entries:
        parts += head.pack(term, kind, *(() if head is ENTRY_HEAD else (checksum,)), len(body)), body
    return b"".join(parts)


def entries_at(data: bytes, start: int, head: Struct = ENTRY_HEAD) -> Read:
    (number,) = NUMBER.unpack_from(data, start)
    position, entries = start + NUMBER.size, list[Entry]()
    for _ in range(number):
        term, kind, *checksum, length = head.unpack_from(data, position)
        position += head.size + length
        if position > len(data):
            raise IndexError(f"an entry of {length:,} bytes is announced, and the message ends before")
        entries.append(Entry(term, kind, data[position - length:position], *checksum))
    return Read(tuple(entries), position)


Forms = dict[Any, tuple[Callable[[Any], bytes], Callable[[bytes, int], Read]]]
FORMS: Forms = {  # annotation -> how to write and to read
    int: (INT.pack, int_at),
    bool: (lambda value: bytes([value]), bool_at),
    str: (lambda value: with_length(value.encode()), text_at),
    bytes: (with_length, bytes_at),
    tuple[Entry, ...]: (entries_to, entries_at),
}
SUMMED: Forms = FORMS | {tuple[Entry, ...]: (partial(entries_to, head=SUMMED_HEAD), partial(entries_at, head=SUMMED_HEAD))}

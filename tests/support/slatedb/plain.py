"""A plain reader and writer of FlatBuffers: one number at a time, each checked by itself.

It says the same as impl/codecs/slatedb/flatbuffer.py, in other words, and takes several times as long. Tests compare the two.
"""

import struct
from typing import Any, NamedTuple

from highwater.impl.codecs.slatedb.flatbuffer import (
    SHARING,
    STRUCTS,
    DamagedBuffer,
    Halves,
    Path,
    Slot,
    inline,
    number_of_ulid,
    number_of_uuid,
    shown,
    slots_of,
    text_of,
    ulid_of,
    uuid_of,
)


def read(buffer: bytes, table: type) -> tuple[Any, tuple[str, ...]]:
    """Return the table in a buffer, and the paths of the fields that are not known here. Raises DamagedBuffer."""
    reader = Reader(buffer)
    return reader.table(reader.follow(0, table.__name__), table, table.__name__), tuple(reader.unknown)


class Reader:
    """Reads one buffer. `path` names the place of an error or of an unknown field; `shown` makes it "ManifestV1.l0[2].info"."""

    def __init__(self, buffer: bytes):
        self.buffer, self.left, self.unknown = buffer, SHARING * len(buffer), []
        self.vtables: dict[int, tuple[int, list[int]]] = {}  # by position: size and offsets, which many tables share

    def raw(self, position: int, size_bytes: int, path: Path) -> bytes:
        if not 0 <= position <= len(self.buffer) - size_bytes:
            raise DamagedBuffer(f"{shown(path)}: bytes {position} to {position + size_bytes} are beyond the end of the buffer, "
                                f"which has {len(self.buffer)} bytes: the file is damaged or cut off")
        return self.buffer[position:position + size_bytes]

    def number(self, letter: str, position: int, path: Path) -> Any:
        of = STRUCTS[letter]
        if not 0 <= position <= len(self.buffer) - of.size:
            self.raw(position, of.size, path)
        return of.unpack_from(self.buffer, position)[0]

    def follow(self, position: int, path: Path) -> int:
        return position + self.number("I", position, path)

    def take(self, size_bytes: int, path: Path) -> None:
        """Count `size_bytes` against the budget of the buffer. However its offsets are damaged, reading ends soon."""
        self.left -= size_bytes
        if self.left < 0:
            raise DamagedBuffer(f"{shown(path)}: its parts overlap, so the file is damaged")

    def table(self, start: int, table: type, path: Path) -> Any:
        self.take(4, path)
        vtable = start - self.number("i", start, path)
        table_size, offsets = self.vtables.get(vtable) or self.vtable(vtable, path)
        self.raw(start, table_size, path)
        slots = slots_of(table)
        missing = len(slots) - len(offsets)
        for place, offset in enumerate(offsets[len(slots):], len(slots)):
            if offset:
                self.unknown.append(f"{shown(path)} slot {place}")
        values: dict[str, Any] = {}
        for slot, offset in zip(slots, offsets + [0] * missing if missing > 0 else offsets):
            here = path, slot.name
            if offset and not 4 <= offset <= table_size - slot.size_bytes:
                raise DamagedBuffer(f"{shown(here)}: its offset {offset} is outside its table of {table_size} bytes: the file "
                                    "is damaged")
            values[slot.name] = self.field(start + offset if offset else 0, slot, values, here)
        return table._make(map(values.__getitem__, table._fields))

    def vtable(self, at: int, path: Path) -> tuple[int, list[int]]:
        size, table_size = self.number("H", at, path), self.number("H", at + 2, path)
        if size < 4 or size % 2 or table_size < 4:
            raise DamagedBuffer(f"{shown(path)}: its vtable gives {size} bytes for itself and {table_size} for its table: the "
                                "file is damaged")
        found = self.vtables[at] = table_size, [self.number("H", at + place, path) for place in range(4, size, 2)]
        return found

    def field(self, position: int, slot: Slot, before: dict[str, Any], path: Path) -> Any:
        """Return the value of a slot. `position` is 0 if the field is absent. `before` holds the fields read so far, with the
        tags of unions."""
        kind = slot.kind
        if isinstance(kind, list):
            tag = before[f"{slot.name}_type"]
            if tag > len(kind):
                self.unknown.append(f"{shown(path)} of kind {tag}")
                return None
            position, kind = (position, kind[tag - 1]) if tag else (0, None)
        if position:
            return self.value(position, kind, path)
        if slot.required:
            raise DamagedBuffer(f"{shown(path)}: a required field is absent: the file is damaged")
        return slot.default

    def value(self, position: int, kind: Any, path: Path) -> Any:
        if kind in STRUCTS:
            return self.number(kind, position, path)
        at = self.follow(position, path)
        if kind in ("uuid", "ulid"):
            halves = self.table(at, Halves, path)
            return (uuid_of if kind == "uuid" else ulid_of)(halves.high << 64 | halves.low)
        if not isinstance(kind, tuple) and kind not in ("bytes", "str"):
            return self.table(at, kind, path)
        length = self.number("I", at, path)
        if kind in ("bytes", "str"):
            self.take(length, path)
            raw = self.raw(at + 4, length, path)
            return raw if kind == "bytes" else text_of(raw, at, path)
        step = STRUCTS[inline(kind[0])].size
        self.take(length * step, path)
        self.raw(at + 4, length * step, path)
        return tuple(self.value(at + 4 + i * step, kind[0], (path, i)) for i in range(length))


# ------------------------------------------------------------------------------------------------------------- writing

def write(value: NamedTuple) -> bytes:
    """Return a table as a buffer: its own bytes first, then those of its parts. Raises ValueError for a value that does not fit
    its type."""
    writer = Writer()
    writer.buffer += b"\0" * 4
    writer.point(0, value, type(value))
    return bytes(writer.buffer)


class Writer:
    """Writes one buffer. Every part is aligned to its own size from the buffer's beginning, as readers in other languages
    expect."""

    def __init__(self):
        self.buffer = bytearray()
        self.vtables: dict[bytes, int] = {}  # equal vtables are shared

    def align(self, size_bytes: int, beyond: int = 0) -> None:
        """Pad the buffer so that the position `beyond` bytes further on is a multiple of `size_bytes`."""
        self.buffer += b"\0" * (-(len(self.buffer) + beyond) % size_bytes)

    def put(self, letter: str, value: Any, position: int | None = None) -> None:
        try:
            packed = struct.pack("<" + letter, value)
        except struct.error as error:
            raise ValueError(f"{value!r} does not fit the struct format {letter!r}: {error}") from None
        if position is None:
            self.buffer += packed
        else:
            self.buffer[position:position + len(packed)] = packed

    def point(self, position: int, value: Any, kind: Any) -> None:
        """Write a part at the end, and its offset at `position`."""
        if kind in ("uuid", "ulid"):
            number = (number_of_uuid if kind == "uuid" else number_of_ulid)(value)
            value, kind = Halves(number >> 64, number & (1 << 64) - 1), Halves
        if isinstance(kind, tuple):
            at = self.vector(value, kind[0])
        elif kind in ("bytes", "str"):
            self.align(4)
            at, raw = len(self.buffer), value.encode() if kind == "str" else value
            self.put("I", len(raw))
            self.buffer += raw + b"\0" * (kind == "str")
        else:
            at = self.table(value)
        self.put("I", at - position, position)

    def vector(self, values: tuple, kind: Any) -> int:
        letter = inline(kind)
        self.align(4)
        self.align(struct.calcsize(letter), beyond=4)
        at = len(self.buffer)
        self.put("I", len(values))
        for value in values:
            self.put(letter, value if letter == kind else 0)
        for i, value in enumerate(values if letter != kind else ()):
            self.point(at + 4 + 4 * i, value, kind)
        return at

    def table(self, value: NamedTuple) -> int:
        """Write a table and return its position. Fields that equal their default are left out.

        The largest fields come first, so that all are aligned if the first is.
        """
        present = [(place, slot, given) for place, (slot, given) in enumerate(zip(slots_of(type(value)), given_of(value)))
                   if slot.required or given != slot.default]
        present.sort(key=lambda one: -struct.calcsize(inline(one[1].kind)))
        offsets, size = [0] * (1 + max((place for place, _, _ in present), default=-1)), 4
        for place, slot, _ in present:
            offsets[place], size = size, size + struct.calcsize(inline(slot.kind))
        vtable = struct.pack(f"<{2 + len(offsets)}H", 4 + 2 * len(offsets), size, *offsets)
        if vtable not in self.vtables:
            self.align(2)
            self.vtables[vtable] = len(self.buffer)
            self.buffer += vtable
        self.align(4)
        self.align(8, beyond=4)
        start = len(self.buffer)
        self.put("i", start - self.vtables[vtable])
        for _, slot, given in present:
            self.put(inline(slot.kind), given if inline(slot.kind) == slot.kind else 0)
        for place, slot, given in present:
            if isinstance(slot.kind, list):
                self.point(start + offsets[place], given, type(given))
            elif inline(slot.kind) != slot.kind:
                self.point(start + offsets[place], given, slot.kind)
        return start


def given_of(value: NamedTuple) -> list[Any]:
    """Return a value for each slot, tags of unions included."""
    given = []
    for slot in slots_of(type(value)):
        if slot.name in value._fields:
            given.append(getattr(value, slot.name))
        else:
            part = getattr(value, slot.name.removesuffix("_type"))
            union = next(s.kind for s in slots_of(type(value)) if s.name == slot.name.removesuffix("_type"))
            given.append(0 if part is None else 1 + union.index(type(part)))
    return given

"""Safety: reading returns what the bytes say, or raises an error that names the wrong bytes. Fields that the reader does not
know are reported, and a file that has them is never written again without them.

A table of FlatBuffers is a NamedTuple here. Its fields are the slots, in order; its annotations give their types.

    class Checkpoint(NamedTuple):
        id: Uuid                            # required: if it is absent, this reader and the released one raise an error
        manifest_id: U64 = 0                # a field that equals its default is left out
        parts: Annotated[tuple[Part, ...], REQUIRED] = ()    # required too, and written even if it equals the default
        name: str | None = None             # None: absent, which differs from the empty text
        metadata: Annotated[Writer | None, UNION] = None   # a union takes two slots: a tag that names the table, and the table

The format in short: numbers are little-endian. A table begins with the distance back to its vtable. The vtable holds its own
size, the table's size, and for each slot the position of the field in the table, or 0 if it is absent. Numbers stand in the
table itself. Everything else is a u32 offset, counted from its own position. Vectors and texts begin with their length.

The format has no checksum. Therefore every offset and length is compared with the size of the buffer. A buffer whose parts
overlap so much that it would decode to far more than it holds is refused.
"""

import re
import struct
from functools import cache, lru_cache
from operator import ne
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from highwater.impl.codecs.codec import Undecodable
from highwater.impl.errors import Definite

UNION = "union"
REQUIRED = "required"  # a vector that is written even if it is empty
Flag = Annotated[bool, "?"]
I8 = Annotated[int, "b"]
U8 = Annotated[int, "B"]
U16 = Annotated[int, "H"]
U32 = Annotated[int, "I"]
U64 = Annotated[int, "Q"]
I64 = Annotated[int, "q"]
Uuid = Annotated[str, "uuid"]  # 8-4-4-4-12 hexadecimal digits; the file has a table of its upper and its lower half
Ulid = Annotated[str, "ulid"]  # 26 letters of Crockford's base 32; the file has such a table, too

LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
PAIRS = [a + b for a in LETTERS for b in LETTERS]
ULID = re.compile(f"[0-7][{LETTERS}]{{25}}")
DIGITS = str.maketrans(LETTERS, "0123456789abcdefghijklmnopqrstuv")  # as `int` takes them
SHARING = 4  # reading may consume this many times the buffer's size; the released writer shares only vtables
LATELY = 10_000  # ids that are kept: a manifest names the same ones as the manifest before
LAYOUTS = 1_000  # that are kept: a type of table has one for each set of fields that files leave out
LONGEST_KEPT = 256  # bytes of a vtable whose meaning is kept


class DamagedBuffer(Undecodable):
    """Bytes that do not form the expected table."""


class NewerFields(Definite):
    """A file has fields that this release does not know. Writing it again would silently drop them."""

    def __init__(self, what: str, unknown: tuple[str, ...]):
        super().__init__(f"the {what} has {', '.join(unknown[:5])}, which this release does not know and would drop: write it "
                         "by a release that knows it")


class Halves(NamedTuple):
    """A number of 128 bits, as the file stores it."""

    high: U64 = 0
    low: U64 = 0


STRUCTS = {letter: struct.Struct("<" + letter) for letter in "?bBhHiIqQ"}
OFFSET, DISTANCE = STRUCTS["I"], STRUCTS["i"]
SIZES = struct.Struct("<HH")  # of a vtable, and of its tables


class Slot(NamedTuple):
    """One field of a table."""

    name: str
    kind: Any  # a letter of struct; "bytes", "str", "uuid", "ulid"; a table; (kind,) for a vector; [tables] for a union
    required: bool
    default: Any
    letter: str  # with which its entry in the table is packed: its own, or that of an offset
    size_bytes: int  # the size of its entry in the table

    @property
    def is_number(self) -> bool:
        """Whether its entry in the table is its value, and not an offset."""
        return self.letter == self.kind


# --------------------------------------------------------------------------------------------------- slots of a table

@cache
def slots_of(table: type) -> tuple[Slot, ...]:
    """Return the slots of a table, in order.

    A union has two slots. The first holds its tag (kind "B", named `<name>_type`).
    """
    defaults, slots = table._field_defaults, []
    for name, annotation in get_type_hints(table, include_extras=True).items():
        kind, required = kind_of(annotation), name not in defaults or REQUIRED in get_args(annotation)
        if isinstance(kind, list):
            slots.append(Slot(f"{name}_type", "B", required, 0, "B", 1))
        letter = inline(kind)
        slots.append(Slot(name, kind, required, defaults.get(name), letter, STRUCTS[letter].size))
    return tuple(slots)


@cache
def unions_of(table: type) -> tuple[tuple[int, list[type]], ...]:
    """Return the unions among the slots of a table, each with its place."""
    return tuple((place, slot.kind) for place, slot in enumerate(slots_of(table)) if isinstance(slot.kind, list))


def kind_of(annotation: Any) -> Any:
    """Return the `kind` of a Slot for an annotation."""
    if get_origin(annotation) is Annotated:
        base, mark = get_args(annotation)
        if mark == UNION:
            return [one for one in members(base) if one is not NoneType]
        return kind_of(base) if mark == REQUIRED else mark
    if get_origin(annotation) in (UnionType, Union):
        return kind_of(next(one for one in members(annotation) if one is not NoneType))
    if get_origin(annotation) is tuple:
        return (kind_of(get_args(annotation)[0]),)
    return {bytes: "bytes", str: "str"}.get(annotation, annotation)


def members(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) in (UnionType, Union) else (annotation,)


def inline(kind: Any) -> str:
    """Return the letter with which a field of this kind is packed in its table: its own, or that of an offset."""
    return kind if isinstance(kind, str) and len(kind) == 1 else "I"


# ------------------------------------------------------------------------------------------------------------- reading

def read(buffer: bytes, table: type, most: int | None = None) -> tuple[Any, tuple[str, ...]]:
    """Return the table in a buffer, and the paths of the fields that are not known here. Raises DamagedBuffer.

    `most`: a vector with more parts than so many is refused before they are read."""
    reader = Reader(buffer, most)
    return reader.table(reader.follow(0, table.__name__), table, table.__name__), tuple(reader.unknown)


Path = str | tuple["Path", str | int]  # joined to a text only when it is reported


def shown(path: Path) -> str:
    """Return a path as text."""
    if isinstance(path, str):
        return path
    before, last = path
    return f"{shown(before)}[{last}]" if isinstance(last, int) else f"{shown(before)}.{last}"


class Found(NamedTuple):
    """The places of the fields in the tables of one type that share a vtable."""

    size_bytes: int  # of the table
    entries: struct.Struct  # of the table: all of its entries at once
    defaults: tuple[Any, ...]  # of the fields that are absent
    picks: tuple[int, ...]  # for each field its place among the entries and, behind them, the defaults
    parts: tuple[tuple[int, int, Slot, int], ...]  # fields that are no numbers: place, offset or 0, slot, place of the tag
    newer: tuple[int, ...]  # the slots that are not known here, and have a value
    wrong: tuple[Slot, str] | None  # a slot that no table can have so, and why


@lru_cache(LAYOUTS)
def found_by(table: type, vtable: bytes) -> Found:
    """Return the places that a vtable of at least 4 bytes names."""
    _, size, *offsets = struct.unpack(f"<{len(vtable) // 2}H", vtable)
    slots = slots_of(table)
    newer = tuple(place for place, offset in enumerate(offsets[len(slots):], len(slots)) if offset)
    offsets += [0] * (len(slots) - len(offsets))
    there = sorted((offset, place) for place, offset in enumerate(offsets[:len(slots)]) if offset)
    form, end, picks = "<", 0, dict[int, int]()
    for offset, place in there:
        slot = slots[place]
        if not 4 <= offset <= size - slot.size_bytes:
            return Found(size, OFFSET, (), (), (), newer, (slot, f"its offset {offset} is outside its table of {size} bytes"))
        if offset < end:
            return Found(size, OFFSET, (), (), (), newer, (slot, f"its offset {offset} is inside another field"))
        form, end, picks[place] = f"{form}{offset - end}x{slot.letter}", offset + slot.size_bytes, len(picks)
    absent = [place for place in range(len(slots)) if place not in picks]
    picks |= {place: number for number, place in enumerate(absent, len(there))}
    tags = {place - 1 for place, _ in unions_of(table)}
    fields = [(place, slot) for place, slot in enumerate(slots) if place not in tags]
    parts = tuple((number, offsets[place], slot, picks.get(place - 1, 0)) for number, (place, slot) in enumerate(fields)
                  if isinstance(slot.kind, list) or (offsets[place] and not slot.is_number) or (
                      slot.required and not offsets[place]))
    return Found(size, struct.Struct(form), tuple(slots[place].default for place in absent),
                 tuple(picks[place] for place, _ in fields), parts, newer, None)


@lru_cache(LATELY)
def id_of(kind: str, halves: Halves) -> str:
    """Return the text of an id. Manifests name the same ids again and again."""
    return (uuid_of if kind == "uuid" else ulid_of)(halves.high << 64 | halves.low)


class Reader:
    """Reads one buffer. `path` names the place of an error or of an unknown field; `shown` makes it "ManifestV1.l0[2].info"."""

    def __init__(self, buffer: bytes, most: int | None = None):
        self.buffer, self.left, self.unknown = buffer, SHARING * len(buffer), []
        self.most = len(buffer) if most is None else most
        self.vtables: dict[tuple[int, type], Found] = {}  # by position, and type of the table; many tables share one

    def check(self, position: int, size_bytes: int, path: Path) -> None:
        """Check that these bytes are there. Raises DamagedBuffer."""
        if not 0 <= position <= len(self.buffer) - size_bytes:
            raise DamagedBuffer(f"bytes {position} to {position + size_bytes} are beyond the end of the buffer, which has "
                                f"{len(self.buffer)} bytes: the file is damaged or cut off",
                                min(max(position, 0), len(self.buffer)), shown(path))

    def u32(self, position: int, path: Path) -> int:
        if not 0 <= position <= len(self.buffer) - 4:
            self.check(position, 4, path)
        return OFFSET.unpack_from(self.buffer, position)[0]

    def follow(self, position: int, path: Path) -> int:
        return position + self.u32(position, path)

    def take(self, size_bytes: int, at: int, path: Path) -> None:
        """Count `size_bytes` against the budget of the buffer. However its offsets are damaged, reading ends soon."""
        self.left -= size_bytes
        if self.left < 0:
            raise DamagedBuffer("its parts overlap, so the file is damaged", at, shown(path))

    def table(self, start: int, table: type, path: Path) -> Any:
        self.take(4, start, path)
        if not 0 <= start <= len(self.buffer) - 4:
            self.check(start, 4, path)
        vtable = start - DISTANCE.unpack_from(self.buffer, start)[0]
        size, entries, defaults, picks, parts, newer, _ = self.vtables.get((vtable, table)) or self.vtable(vtable, table, path)
        if start > len(self.buffer) - size:
            self.check(start, size, path)
        if newer:
            self.take(len(newer), start, path)  # a newer release's field has a byte or more in its table
            self.unknown += [f"{shown(path)} slot {place}" for place in newer]
        given = entries.unpack_from(self.buffer, start) + defaults
        values = [given[place] for place in picks]
        for place, offset, slot, tag in parts:
            if type(slot.kind) is list:
                values[place] = self.union(start, offset, slot, given[tag], (path, slot.name))
            elif offset:
                values[place] = self.part(start + offset + values[place], slot.kind, (path, slot.name))
            else:
                self.absent(slot, start, (path, slot.name))
        return table._make(values)

    def vtable(self, at: int, table: type, path: Path) -> Found:
        self.check(at, 4, path)
        size, table_size = SIZES.unpack_from(self.buffer, at)
        if size < 4 or size % 2 or table_size < 4:
            raise DamagedBuffer(f"its vtable gives {size} bytes for itself and {table_size} for its table: the file is damaged",
                                at, shown(path))
        self.take(size, at, path)
        self.check(at, size, path)
        made = found_by if size <= LONGEST_KEPT else found_by.__wrapped__
        found = self.vtables[at, table] = made(table, self.buffer[at:at + size])
        if found.wrong:
            slot, why = found.wrong
            raise DamagedBuffer(f"{why}: the file is damaged", at, shown((path, slot.name)))
        return found

    def union(self, start: int, offset: int, slot: Slot, tag: int, path: Path) -> Any:
        """Return the value of a union, whose offset is `offset` bytes behind the table's start; 0: it is absent."""
        if tag > len(slot.kind):
            self.unknown.append(f"{shown(path)} of kind {tag}")
            return None
        if not tag or not offset:
            return self.absent(slot, start, path)
        return self.part(self.follow(start + offset, path), slot.kind[tag - 1], path)

    def absent(self, slot: Slot, start: int, path: Path) -> Any:
        """Return the default of a slot. Raises DamagedBuffer if the field is required."""
        if slot.required:
            raise DamagedBuffer("a required field is absent: the file is damaged", start, shown(path))
        return slot.default

    def part(self, at: int, kind: Any, path: Path) -> Any:
        """Return what is at a position to which an offset leads."""
        if kind == "ulid" or kind == "uuid":
            return id_of(kind, self.table(at, Halves, path))
        if isinstance(kind, type):
            return self.table(at, kind, path)
        length = self.u32(at, path)
        if isinstance(kind, tuple):
            return self.vector(at + 4, length, kind[0], path)
        self.take(length, at, path)
        self.check(at + 4, length, path)
        raw = self.buffer[at + 4:at + 4 + length]
        return raw if kind == "bytes" else text_of(raw, at, path)

    def vector(self, start: int, length: int, kind: Any, path: Path) -> tuple:
        letter = inline(kind)
        step = STRUCTS[letter].size
        if length > self.most:
            raise DamagedBuffer(f"it has {length:,} parts, and {self.most:,} at most are possible: the file is damaged",
                                start - 4, shown(path))
        self.take(length * step, start - 4, path)
        self.check(start, length * step, path)
        if letter == kind:
            return struct.unpack_from(f"<{length}{letter}", self.buffer, start)
        offsets = struct.unpack_from(f"<{length}I", self.buffer, start)
        return tuple([self.part(start + 4 * i + offset, kind, (path, i)) for i, offset in enumerate(offsets)])


def text_of(raw: bytes, at: int, path: Path) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise DamagedBuffer(f"{raw[:40]!r} is not UTF-8", at, shown(path)) from None


# ------------------------------------------------------------------------------------------------------------- writing

def write(value: NamedTuple) -> bytes:
    """Return a table as a buffer: its own bytes first, then those of its parts. Raises ValueError for a value that does not fit
    its type."""
    writer = Writer()
    writer.buffer += b"\0" * 4
    writer.point(0, value, type(value))
    return bytes(writer.buffer)


NEVER = object()  # equals no value: a required field is never left out


@cache
def left_out(table: type) -> tuple[Any, ...]:
    """Return for each slot the value with which it is left out."""
    return tuple(NEVER if slot.required else slot.default for slot in slots_of(table))


class Layout(NamedTuple):
    """How tables of one type are written that have the same fields. The largest fields come first, so that all are aligned if
    the first is."""

    vtable: bytes
    entries: struct.Struct  # the fields in this order
    places: tuple[int, ...]  # of their slots; -1: an offset, which is known later
    parts: tuple[tuple[int, int, Any], ...]  # for each offset: where it is in the table, the place of its slot, and its kind


@lru_cache(LAYOUTS)
def layout_of(table: type, present: tuple[bool, ...]) -> Layout:
    """Return the layout of the tables that have these slots."""
    those = [(place, slot) for place, (slot, there) in enumerate(zip(slots_of(table), present)) if there]
    offsets, size = [0] * (1 + max((place for place, _ in those), default=-1)), 4
    largest_first = sorted(those, key=lambda one: -one[1].size_bytes)
    for place, slot in largest_first:
        offsets[place], size = size, size + slot.size_bytes
    return Layout(struct.pack(f"<{2 + len(offsets)}H", 4 + 2 * len(offsets), size, *offsets),
                  struct.Struct("<" + "".join(slot.letter for _, slot in largest_first)),
                  tuple(place if slot.is_number else -1 for place, slot in largest_first),
                  tuple((offsets[place], place, slot.kind) for place, slot in largest_first if not slot.is_number))


@lru_cache(LATELY)
def id_table(kind: str, text: str) -> tuple[bytes, bytes]:
    """Return the vtable and the entries of the table of an id."""
    number = number_of_uuid(text) if kind == "uuid" else number_of_ulid(text)
    halves = Halves(number >> 64, number & (1 << 64) - 1)
    layout = layout_of(Halves, tuple(map(ne, halves, left_out(Halves))))
    return layout.vtable, layout.entries.pack(*(halves[place] for place in layout.places))


class Writer:
    """Writes one buffer. Every part is aligned to its own size from the buffer's beginning, as readers in other languages
    expect."""

    def __init__(self):
        self.buffer = bytearray()
        self.vtables: dict[bytes, int] = {}  # equal vtables are shared

    def align(self, size_bytes: int, beyond: int = 0) -> None:
        """Pad the buffer so that the position `beyond` bytes further on is a multiple of `size_bytes`."""
        missing = -(len(self.buffer) + beyond) % size_bytes
        if missing:
            self.buffer += b"\0" * missing

    def point(self, position: int, value: Any, kind: Any) -> None:
        """Write a part at the end, and its offset at `position`."""
        at = self.part(value, kind)
        OFFSET.pack_into(self.buffer, position, at - position)

    def part(self, value: Any, kind: Any) -> int:
        """Write a part and return its position."""
        if kind == "ulid" or kind == "uuid":
            vtable, entries = id_table(kind, value)
            at = self.begin(vtable)
            self.buffer += entries
            return at
        if isinstance(kind, tuple):
            return self.vector(value, kind[0])
        if isinstance(kind, type):
            return self.table(value)
        self.align(4)
        at, raw = len(self.buffer), value.encode() if kind == "str" else value
        self.buffer += OFFSET.pack(len(raw))
        self.buffer += raw
        if kind == "str":
            self.buffer += b"\0"
        return at

    def vector(self, values: tuple, kind: Any) -> int:
        letter, number = inline(kind), len(values)
        self.align(4)
        self.align(STRUCTS[letter].size, beyond=4)
        at = len(self.buffer)
        self.buffer += OFFSET.pack(number)
        if letter == kind:
            self.numbers(struct.Struct(f"<{number}{letter}"), letter * number, values)
            return at
        self.buffer += b"\0" * (4 * number)
        for i, value in enumerate(values):
            self.point(at + 4 + 4 * i, value, kind)
        return at

    def table(self, value: Any) -> int:
        """Write a table and return its position. Fields that equal their default are left out."""
        table, given = type(value), given_of(value)
        vtable, entries, places, parts = layout_of(table, tuple(map(ne, given, left_out(table))))
        start = self.begin(vtable)
        self.numbers(entries, entries.format[1:], [0 if place < 0 else given[place] for place in places])
        for offset, place, kind in parts:
            self.point(start + offset, given[place], type(given[place]) if type(kind) is list else kind)
        return start

    def begin(self, vtable: bytes) -> int:
        """Write a vtable, unless it is there, and the distance to it, with which a table begins. Return the table's position.
        """
        at = self.vtables.get(vtable)
        if at is None:
            self.align(2)
            at = self.vtables[vtable] = len(self.buffer)
            self.buffer += vtable
        self.align(8, beyond=4)  # the distance has 4 bytes, and behind it the largest field may have 8
        start = len(self.buffer)
        self.buffer += DISTANCE.pack(start - at)
        return start

    def numbers(self, form: struct.Struct, letters: str, values: Any) -> None:
        """Write numbers, each with its letter. Raises ValueError for one that does not fit."""
        try:
            self.buffer += form.pack(*values)
        except struct.error:
            for letter, value in zip(letters, values):
                try:
                    STRUCTS[letter].pack(value)
                except struct.error as error:
                    raise ValueError(f"{value!r} does not fit the struct format {letter!r}: {error}") from None
            raise


def given_of(value: Any) -> Any:
    """Return a value for each slot, tags of unions included."""
    unions = unions_of(type(value))
    if not unions:
        return value
    given = list(value)
    for place, kinds in unions:
        part = given[place - 1]
        given.insert(place - 1, 0 if part is None else 1 + kinds.index(type(part)))
    return given


# ----------------------------------------------------------------------------------------------- numbers of 128 bits

def uuid_of(number: int) -> str:
    digits = f"{number:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


@lru_cache(LATELY)
def ulid_of(number: int) -> str:
    return "".join([PAIRS[number >> shift & 1023] for shift in range(120, -1, -10)])


def number_of_uuid(text: str) -> int:
    """Return the number that a UUID stands for. Raises ValueError if the text is not in the usual form."""
    digits = text.replace("-", "")
    if len(digits) == 32 and all(digit in "0123456789abcdef" for digit in digits) and text == uuid_of(int(digits, 16)):
        return int(digits, 16)
    raise ValueError(f"{text!r} is not a UUID in its usual form")


def number_of_ulid(text: str) -> int:
    """Return the number that a ULID stands for. Raises ValueError if the text is not in the usual form."""
    if not ULID.fullmatch(text):
        raise ValueError(f"{text!r} is not a ULID in its usual form")
    return int(text.translate(DIGITS), 32)

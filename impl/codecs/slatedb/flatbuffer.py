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

import struct
from functools import cache, lru_cache
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
VALUE_OF = {letter: value for value, letter in enumerate(LETTERS)}
SHARING = 4  # reading may consume this many times the buffer's size; the released writer shares only vtables


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


class Slot(NamedTuple):
    """One field of a table."""

    name: str
    kind: Any  # a letter of struct; "bytes", "str", "uuid", "ulid"; a table; (kind,) for a vector; [tables] for a union
    required: bool
    default: Any
    size_bytes: int  # the size of its entry in the table


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
            slots.append(Slot(f"{name}_type", "B", required, 0, 1))
        slots.append(Slot(name, kind, required, defaults.get(name), STRUCTS[inline(kind)].size))
    return tuple(slots)


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


Path = str | tuple["Path", str, str]  # joined to a text only when it is reported


def shown(path: Path) -> str:
    """Return a path as text."""
    return path if isinstance(path, str) else shown(path[0]) + path[1] + path[2]


class Reader:
    """Reads one buffer. `path` names the place of an error or of an unknown field; `shown` makes it "ManifestV1.l0[2].info"."""

    def __init__(self, buffer: bytes, most: int | None = None):
        self.buffer, self.left, self.unknown = buffer, SHARING * len(buffer), []
        self.most = len(buffer) if most is None else most
        self.vtables: dict[int, tuple[int, list[int]]] = {}  # by position: size and offsets, which many tables share

    def raw(self, position: int, size_bytes: int, path: Path) -> bytes:
        if not 0 <= position <= len(self.buffer) - size_bytes:
            raise DamagedBuffer(f"bytes {position} to {position + size_bytes} are beyond the end of the buffer, which has "
                                f"{len(self.buffer)} bytes: the file is damaged or cut off",
                                min(max(position, 0), len(self.buffer)), shown(path))
        return self.buffer[position:position + size_bytes]

    def number(self, letter: str, position: int, path: Path) -> Any:
        of = STRUCTS[letter]
        if not 0 <= position <= len(self.buffer) - of.size:
            self.raw(position, of.size, path)
        return of.unpack_from(self.buffer, position)[0]

    def follow(self, position: int, path: Path) -> int:
        return position + self.number("I", position, path)

    def take(self, size_bytes: int, at: int, path: Path) -> None:
        """Count `size_bytes` against the budget of the buffer. However its offsets are damaged, reading ends soon."""
        self.left -= size_bytes
        if self.left < 0:
            raise DamagedBuffer("its parts overlap, so the file is damaged", at, shown(path))

    def table(self, start: int, table: type, path: Path) -> Any:
        self.take(4, start, path)
        vtable = start - self.number("i", start, path)
        table_size, offsets = self.vtables.get(vtable) or self.vtable(vtable, path)
        self.raw(start, table_size, path)
        slots = slots_of(table)
        missing = len(slots) - len(offsets)
        if missing < 0:
            self.take(-missing, start, path)  # a newer release's field has a byte or more in its table
            self.unknown += [f"{shown(path)} slot {place}" for place in range(len(slots), len(offsets)) if offsets[place]]
        values: dict[str, Any] = {}
        for slot, offset in zip(slots, offsets + [0] * missing if missing > 0 else offsets):
            here = path, ".", slot.name
            if offset and not 4 <= offset <= table_size - slot.size_bytes:
                raise DamagedBuffer(f"its offset {offset} is outside its table of {table_size} bytes: the file is damaged",
                                    start, shown(here))
            values[slot.name] = self.field(start, offset, slot, values, here)
        return table._make(map(values.__getitem__, table._fields))

    def vtable(self, at: int, path: Path) -> tuple[int, list[int]]:
        size, table_size = self.number("H", at, path), self.number("H", at + 2, path)
        if size < 4 or size % 2 or table_size < 4:
            raise DamagedBuffer(f"its vtable gives {size} bytes for itself and {table_size} for its table: the file is damaged",
                                at, shown(path))
        found = self.vtables[at] = table_size, [self.number("H", at + place, path) for place in range(4, size, 2)]
        return found

    def field(self, start: int, offset: int, slot: Slot, before: dict[str, Any], path: Path) -> Any:
        """Return the value of a slot, which is `offset` bytes behind the table's start; 0: it is absent. `before` holds the
        fields read so far, with the tags of unions."""
        kind, position = slot.kind, start + offset if offset else 0
        if isinstance(kind, list):
            tag = before[f"{slot.name}_type"]
            if tag > len(kind):
                self.unknown.append(f"{shown(path)} of kind {tag}")
                return None
            position, kind = (position, kind[tag - 1]) if tag else (0, None)
        if position:
            return self.value(position, kind, path)
        if slot.required:
            raise DamagedBuffer("a required field is absent: the file is damaged", start, shown(path))
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
            self.take(length, at, path)
            raw = self.raw(at + 4, length, path)
            return raw if kind == "bytes" else text_of(raw, at, path)
        step = STRUCTS[inline(kind[0])].size
        if length > self.most:
            raise DamagedBuffer(f"it has {length:,} parts, and {self.most:,} at most are possible: the file is damaged", at,
                                shown(path))
        self.take(length * step, at, path)
        self.raw(at + 4, length * step, path)
        return tuple(self.value(at + 4 + i * step, kind[0], (path, "[", f"{i}]")) for i in range(length))


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


# ----------------------------------------------------------------------------------------------- numbers of 128 bits

def uuid_of(number: int) -> str:
    digits = f"{number:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


@lru_cache(10_000)
def ulid_of(number: int) -> str:
    return "".join(LETTERS[number >> shift & 31] for shift in range(125, -1, -5))


def number_of_uuid(text: str) -> int:
    """Return the number that a UUID stands for. Raises ValueError if the text is not in the usual form."""
    digits = text.replace("-", "")
    if len(digits) == 32 and all(digit in "0123456789abcdef" for digit in digits) and text == uuid_of(int(digits, 16)):
        return int(digits, 16)
    raise ValueError(f"{text!r} is not a UUID in its usual form")


def number_of_ulid(text: str) -> int:
    """Return the number that a ULID stands for. Raises ValueError if the text is not in the usual form."""
    number = 0
    if len(text) == 26 and all(letter in VALUE_OF for letter in text):
        for letter in text:
            number = number << 5 | VALUE_OF[letter]
    if number >> 128 or text != ulid_of(number):
        raise ValueError(f"{text!r} is not a ULID in its usual form")
    return number

"""Ways to damage bytes, and the parts of SSTs and WAL objects to damage.

Damage without a right checksum behind it is that of a disk or a network. With one (`forged`, `repacked`, `bomb`), it is that of
a faulty or malicious writer.
"""

import struct
from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import NamedTuple

from highwater.impl.codecs.slatedb.flatbuffer import write
from highwater.impl.db.build import Built
from highwater.impl.db.compression import pack as packed_by
from highwater.impl.db.compression import unpack
from highwater.impl.db.damaged import Place
from highwater.impl.db.parts import CRC, FOOTER, BlockMeta, Index, sealed
from highwater.impl.db.table import Table

# lengths, in both orders of bytes
LARGE = (b"\xff", b"\xff\xff", b"\x7f\xff\xff\xff", b"\xff\xff\xff\x7f", b"\xff" * 4, b"\0\0\0\x10", b"\x10\0\0\0",
         b"\xff" * 8, b"\xff" * 7 + b"\x7f", b"\x7f" + b"\xff" * 7, b"\xff\xff\xff\xff\x0f", b"\x80" * 10)
Damage = Callable[[bytes, bytes, Random], bytes]  # (bytes, those of another object, draw) -> damaged


def flipped(body: bytes, _: bytes, draw: Random) -> bytes:
    """A few bits are others."""
    found = bytearray(body)
    for __ in range(draw.choice((1, 1, 1, 2, 9))):
        found[draw.randrange(len(found))] ^= 1 << draw.randrange(8)
    return bytes(found)


def cut(body: bytes, _: bytes, draw: Random) -> bytes:
    """The end is missing, or the beginning."""
    at = draw.randrange(len(body))
    return body[:at] if draw.random() < 0.8 else body[at:]


def grown(body: bytes, other: bytes, draw: Random) -> bytes:
    """More bytes stand behind the end."""
    return body + draw.choice((b"\0", bytes(10), other, body, draw.randbytes(40)))


def zeroed(body: bytes, _: bytes, draw: Random) -> bytes:
    """A page is empty."""
    start = draw.randrange(len(body))
    size = min(draw.choice((1, 4, 16, 100, 512)), len(body) - start)
    return body[:start] + draw.choice((b"\0", b"\xff")) * size + body[start + size:]


def spliced(body: bytes, other: bytes, draw: Random) -> bytes:
    """It begins as one object and goes on as another one."""
    at = draw.randrange(len(body))
    return draw.choice((body[:at] + other[at:], body[:at] + other[draw.randrange(len(other) + 1):], other[:at] + body[at:]))


def lengthened(body: bytes, _: bytes, draw: Random) -> bytes:
    """A number is large."""
    number = draw.choice(LARGE)
    at = draw.randrange(max(1, len(body) - len(number)))
    at -= at % draw.choice((1, len(number))) if len(number) in (1, 2, 4, 8) else 0
    return body[:at] + number + body[at + len(number):]


def pointed(body: bytes, _: bytes, draw: Random) -> bytes:
    """A few offsets, as FlatBuffers have them, lead anywhere."""
    found = bytearray(body)
    for __ in range(draw.choice((1, 1, 2, 5))):
        size, letter = draw.choice(((4, "<I"), (4, "<i"), (2, "<H")))
        if len(found) > size:
            at = draw.randrange(len(found) - size)
            far = draw.randrange(len(found)) if letter != "<i" else draw.randint(-len(found), len(found))
            struct.pack_into(letter, found, at, far & 0xffff if size == 2 else far)
    return bytes(found)


def moved(body: bytes, _: bytes, draw: Random) -> bytes:
    """A part is in another place, too."""
    size = min(draw.choice((1, 8, 40, 200)), len(body))
    start, at = (draw.randrange(len(body) - size + 1) for _ in range(2))
    return body[:at] + body[start:start + size] + body[at + size:]


def exchanged(_: bytes, other: bytes, __: Random) -> bytes:
    """Another object has this one's name."""
    return other


RAW: tuple[Damage, ...] = (flipped, cut, grown, zeroed, spliced, lengthened, pointed, moved, exchanged)
IN_PLACE: tuple[Damage, ...] = (flipped, zeroed, lengthened, pointed, moved)


# --------------------------------------------------------------------------------------------------- right checksums

class Parts(NamedTuple):
    """The parts of an object: its blocks, their first keys, and the other parts, unpacked; b"" for one that is absent."""

    blocks: tuple[bytes, ...]
    filter: bytes
    index: bytes
    stats: bytes
    table: Table


def parts_of(body: bytes) -> Parts:
    table = Table("x", body)
    info, codec = table.info, table.info.compression

    def content(start: int, length: int) -> bytes:
        return unpack(body[start:start + length - CRC], codec, Place("x", start, "part")) if length else b""

    ends = [*table.offsets, table.end_of_blocks] if table.offsets else []
    return Parts(tuple(content(start, end - start) for start, end in pairwise(ends)),
                 content(info.filter_offset, info.filter_len), content(info.index_offset, info.index_len),
                 content(info.stats_offset, info.stats_len), table)


def repacked(parts: Parts, keep_index: bool = False) -> Built:
    """Return an object with these parts, whose places, lengths and checksums are right. `keep_index`: even if it is wrong."""
    body, metas, info, codec = b"", [], parts.table.info, parts.table.info.compression
    for content, key in zip(parts.blocks, parts.table.first_keys):
        metas.append(BlockMeta(len(body), key))
        body += sealed(packed_by(content, codec))
    lengths = {}
    index = parts.index if keep_index else write(Index(tuple(metas)))
    for name, content in (("filter", parts.filter), ("index", index), ("stats", parts.stats)):
        part = sealed(packed_by(content, codec)) if content or name == "index" else b""
        lengths |= {f"{name}_offset": len(body), f"{name}_len": len(part)}
        body += part
    info = info._replace(**lengths)
    return Built(body + sealed(write(info)) + FOOTER.pack(len(body), parts.table.version), info)


def forged(body: bytes, draw: Random) -> bytes:
    """Damage one part, as it is packed, and put the right checksum behind it."""
    table = Table("x", body)
    info = table.info
    others = [(getattr(info, f"{name}_offset"), getattr(info, f"{name}_len")) for name in ("filter", "index", "stats")]
    places = [*pairwise([*table.offsets, table.end_of_blocks]), *((at, at + length) for at, length in others if length),
              (table.info_offset, len(body) - FOOTER.size)]
    start, end = draw.choice(places)
    part = draw.choice(IN_PLACE)(body[start:end - CRC], b"", draw)
    return body[:start] + sealed(part[:end - CRC - start]) + body[end:] if len(part) == end - CRC - start else (
        body[:start] + sealed(part) + body[end:])


def miswritten(body: bytes, draw: Random) -> Built:
    """Damage the content of one part, then pack it: all lengths and checksums are right."""
    parts = parts_of(body)
    names = [name for name in ("filter", "index", "stats") if getattr(parts, name)] + ["blocks"] * (2 if parts.blocks else 0)
    name = draw.choice(names)
    damage = draw.choice((*IN_PLACE, cut, grown))
    if name == "blocks":
        at = draw.randrange(len(parts.blocks))
        changed = damage(parts.blocks[at], parts.blocks[-1], draw)
        return repacked(parts._replace(blocks=(*parts.blocks[:at], changed, *parts.blocks[at + 1:])))
    return repacked(parts._replace(**{name: damage(getattr(parts, name), b"", draw)}), keep_index=name == "index")


def bomb(body: bytes, size: int, draw: Random) -> Built:
    """Put much content into one part. Packed it has few bytes."""
    parts = parts_of(body)
    content = draw.choice((bytes(size), b"\0\1\0k" * (size // 4), b"\x0c\0\0\0" * (size // 4),
                           parts.index * (size // len(parts.index))))
    name = draw.choice(("filter", "index", "stats", "blocks") if parts.blocks else ("index",))
    if name == "blocks":
        return repacked(parts._replace(blocks=(content, *parts.blocks[1:])))
    return repacked(parts._replace(**{name: getattr(parts, name) + content}), keep_index=name == "index")

"""Safety: a part that is unpacked has exactly the content that was packed, and takes no more memory than its caller allows.

Parts of an SST are packed one by one, with the codec that its info names. zlib is in the standard library; the others are done
by pyarrow, which the extra `codecs` brings. It is imported only for a table that needs it.

    1 snappy, raw      2 zlib      3 LZ4: the content's length, a little-endian u32, then one block      4 zstd frames
"""

import zlib
from typing import Any

from highwater.impl.db.damaged import Place
from highwater.impl.errors import Definite

NONE, SNAPPY, ZLIB, LZ4, ZSTD = range(5)
NAMES = ("none", "snappy", "zlib", "lz4", "zstd")
MOST = 1 << 28  # bytes of content of one part; a block of a release has 64 KiB, or one row that does not fit
STEP = 1 << 16  # bytes that are unpacked first; then twice as many
SHRINKS = {SNAPPY: 64, LZ4: 255}  # a packed byte stands for at most so many


class CodecMissing(Definite):
    """The library that unpacks this codec is not installed."""

    def __init__(self, codec: int):
        super().__init__(f"codec {NAMES[codec]} needs the package pyarrow, which the extra `codecs` brings")


def pack(content: bytes, codec: int) -> bytes:
    """Return the content packed. Raises CodecMissing, and ValueError for a codec that does not exist."""
    if not 0 <= codec < len(NAMES):
        raise ValueError(f"codec {codec} is not one of {', '.join(f'{i} {name}' for i, name in enumerate(NAMES))}")
    if codec == NONE:
        return content
    if codec == ZLIB:
        return zlib.compress(content)
    packed = arrow(codec).compress(content, asbytes=True)
    return len(content).to_bytes(4, "little") + packed if codec == LZ4 else packed


def unpack(packed: bytes, codec: int, place: Place, most: int | None = None) -> bytes:
    """Return the content of a packed part, of at most `most` bytes. Raises DamagedObject, CodecMissing."""
    most = MOST if most is None else min(most, MOST)
    if codec == NONE:
        return packed
    if codec == ZLIB:
        return of_zlib(packed, most, place)
    if codec == ZSTD:
        return of_zstd(packed, most, place)
    if codec not in SHRINKS:
        raise place.damaged(0, "codec", f"{codec} is none that this release knows")
    length, block = (of_snappy if codec == SNAPPY else of_lz4)(packed, place)
    if length > SHRINKS[codec] * len(packed):
        raise place.damaged(0, "length of the content", f"{length:,} bytes cannot come from {len(packed):,}")
    if length > most:
        raise place.damaged(0, "length of the content", f"{length:,} bytes, and it has at most {most:,}")
    try:
        content = arrow(codec).decompress(block, length, asbytes=True)
    except (OSError, ValueError) as error:
        raise place.damaged(0, "packed content", f"{NAMES[codec]} refuses it: {error}") from None
    return content


def arrow(codec: int) -> Any:
    """Return pyarrow's codec. Raises CodecMissing."""
    try:
        import pyarrow
    except ModuleNotFoundError:
        raise CodecMissing(codec) from None
    return pyarrow.Codec({SNAPPY: "snappy", LZ4: "lz4_raw", ZSTD: "zstd"}[codec])


def of_zlib(packed: bytes, most: int, place: Place) -> bytes:
    unpacker = zlib.decompressobj()
    try:
        content = unpacker.decompress(packed, most)
    except zlib.error as error:
        raise place.damaged(0, "packed content", f"zlib refuses it: {error}") from None
    if not unpacker.eof or unpacker.unused_data:
        raise place.damaged(0, "packed content", f"it is not one zlib stream of at most {most:,} bytes")
    return content


def of_zstd(packed: bytes, most: int, place: Place) -> bytes:
    """Unpack frames as a stream, since a released client does not write the length of the content."""
    arrow(ZSTD)
    import pyarrow

    try:
        with pyarrow.CompressedInputStream(pyarrow.BufferReader(packed), "zstd") as stream:
            parts = [stream.read(STEP)]  # a read takes the memory that it asks for
            while (size := sum(map(len, parts))) <= most and (part := stream.read(max(1, min(size, most + 1 - size)))):
                parts.append(part)
    except (OSError, ValueError) as error:
        raise place.damaged(0, "packed content", f"zstd refuses it: {error}") from None
    if size > most:
        raise place.damaged(0, "packed content", f"it has more than {most:,} bytes")
    return b"".join(parts)


def of_snappy(packed: bytes, place: Place) -> tuple[int, bytes]:
    """Return the length of the content, and the whole: snappy's own header is that length."""
    length = 0
    for at, byte in enumerate(packed[:5]):
        length |= (byte & 127) << 7 * at
        if byte < 128:
            return length, packed
    raise place.damaged(0, "length of the content", "it is cut off")


def of_lz4(packed: bytes, place: Place) -> tuple[int, bytes]:
    """Return the length of the content, and the block. The library would fill up a content that is too short."""
    if len(packed) < 5:
        raise place.damaged(0, "length of the content", f"{len(packed)} bytes are too few")
    length, block = int.from_bytes(packed[:4], "little"), packed[4:]
    try:
        found = length_of_lz4(block)
    except IndexError:
        found = -1
    if found != length:
        raise place.damaged(0, "length of the content", f"it says {length:,} bytes, and the block has "
                            f"{f'{found:,}' if found >= 0 else 'no end'}")
    return length, block


def length_of_lz4(block: bytes) -> int:
    """Return the length of a block's content: of its literals and matches. Raises IndexError if it is cut off."""
    at, length = 0, 0
    while True:
        token = block[at]
        at += 1
        literals = token >> 4
        while literals >= 15 and (more := block[at]) >= 0:
            literals, at = literals + more, at + 1
            if more < 255:
                break
        at, length = at + literals, length + literals
        if at == len(block):
            return length
        at += 2
        match = token & 15
        while match >= 15 and (more := block[at]) >= 0:
            match, at = match + more, at + 1
            if more < 255:
                break
        length += match + 4

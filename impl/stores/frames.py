"""Safety: bytes of another program, of another version or cluster, or cut on the way are never taken for a message.

Frames over asyncio's streams: u32 length and the body, big-endian. The first frame of a connection is a hello: the magic, u16
version of the handshake, the level that the receiver must know, the highest level that the sender knows (impl/level.py, two u16
each), u8 number of texts, and the texts: the purpose, the cluster, the sender, whom it takes the receiver for, the sender's
process, where it is dialled, and the settings of its machine, which an older highwater does not say. The receiver answers with
a welcome (u8 1, the highest level that it knows, its texts) or with the reason of its refusal (u8 0, a text), and then closes
the connection. So it does after a frame that is longer than allowed, too.

A later highwater may have further texts: a reader leaves out those that it does not know. So all versions from 2 on read each
other's levels, and a refusal names both.
"""

import asyncio
from collections.abc import Awaitable, Callable
from struct import Struct, error
from typing import NamedTuple

from highwater.impl import level
from highwater.impl.errors import Definite
from highwater.impl.level import Level

MAGIC = b"hwframes"
HANDSHAKE = 2
LENGTH, VERSION, TEXT = Struct(">I"), Struct(">H"), Struct(">H")
HELLO_BYTES = 4096  # at most, of a hello and of its answer
HANDSHAKE_S = 5.0
FRAME_S = 20.0  # from the length of a frame to its last byte
PEER, CLIENT = "peer", "client"
ACCEPTED, REFUSED = 1, 0


class Malformed(Definite):
    """The bytes are no frame of this protocol. The connection is closed."""


class HandshakeRefused(Definite):
    """The other side refuses the connection; the message has its reason."""


class Hello(NamedTuple):
    """The first frame of a connection."""

    level: Level  # that the receiver must know: a node's cluster has it
    known: Level  # the highest that the sender knows
    purpose: str  # PEER or CLIENT
    cluster: str
    sender: str  # a node's name; "" of a client
    to: str  # the node that the sender wants; "": any
    instance: str  # of the sender's process: two processes never have the same one
    address: str = ""  # where a node is dialled; "" of a client
    settings: str = ""  # of a node's machine; "": it has none, or does not say


class Welcome(NamedTuple):
    """The answer to a hello that is accepted."""

    known: Level  # the highest level that the node knows
    node: str
    instance: str


Room = Callable[[int], Awaitable[None]]  # returns once there is room for so many bytes


async def read_frame(reader: asyncio.StreamReader, most_bytes: int, room: Room | None = None) -> bytes | None:
    """Return the next frame's body; None if the connection has ended between two frames. `room` is awaited with the size before
    the body is read. Raises Malformed, OSError, and what `room` raises."""
    try:
        (length,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
        if length > most_bytes:
            raise Malformed(f"a frame of {length:,} bytes is announced, and at most {most_bytes:,} are taken")
        if room is not None:
            await room(length)
        async with asyncio.timeout(FRAME_S):  # whoever announces a frame keeps the room for it
            return await reader.readexactly(length)
    except asyncio.IncompleteReadError as cut:
        if cut.expected == LENGTH.size and not cut.partial:
            return None
        raise Malformed(f"the connection ended within a frame: {len(cut.partial):,} of {cut.expected:,} bytes came") from None


def framed(body: bytes) -> bytes:
    return LENGTH.pack(len(body)) + body


def texts_to(texts: tuple[str, ...]) -> bytes:
    return b"".join(TEXT.pack(len(text.encode())) + text.encode() for text in texts)


def counted_to(texts: tuple[str, ...]) -> bytes:
    return bytes([len(texts)]) + texts_to(texts)


def counted_of(data: bytes, least: int, most: int) -> tuple[str, ...]:
    """Return the first texts of at least so many, after their number; further ones are left out. Raises Malformed."""
    if not data or data[0] < least:
        raise Malformed(f"a handshake of {data[0] if data else 0} texts: it has {least} at least")
    return texts_of(data[1:], data[0])[:most]


def texts_of(data: bytes, number: int) -> tuple[str, ...]:
    """Return exactly so many texts. Raises Malformed."""
    position, texts = 0, list[str]()
    try:
        for _ in range(number):
            (length,) = TEXT.unpack_from(data, position)
            position += TEXT.size + length
            texts.append(data[position - length:position].decode())
    except (error, UnicodeDecodeError) as problem:
        raise Malformed(f"the texts of a handshake cannot be read: {problem}") from None
    if position != len(data):
        raise Malformed(f"the texts of a handshake take {position:,} bytes, and there are {len(data):,}")
    return tuple(texts)


def hello_to(hello: Hello) -> bytes:
    return MAGIC + VERSION.pack(HANDSHAKE) + b"".join(map(level.encoded, hello[:2])) + counted_to(hello[2:])


def hello_of(data: bytes | None) -> Hello:
    """Return the hello. One of another version is not read further than its version. Raises Malformed, HandshakeRefused."""
    begin = len(MAGIC) + VERSION.size
    if data is None:
        raise Malformed("the other side closed the connection before its hello: its log or its message says why")
    if len(data) < begin or data[:len(MAGIC)] != MAGIC:
        raise Malformed("the connection does not begin with a hello: it is of another program")
    (theirs,) = VERSION.unpack_from(data, len(MAGIC))
    if theirs != HANDSHAKE:
        raise HandshakeRefused(f"the version of the handshake is {theirs} on one side and {HANDSHAKE} on the other: start the "
                               "same version of highwater on both")
    wanted, end = level_at(data, begin)
    known, end = level_at(data, end)
    most = len(Hello._fields) - 2
    return Hello(wanted, known, *counted_of(data[end:], most - 1, most))


def level_at(data: bytes, start: int) -> tuple[Level, int]:
    """Return the level that begins at `start`, and where it ends. Raises Malformed."""
    end = start + level.BYTES.size
    try:
        return level.decoded(data[start:end]), end
    except error:
        raise Malformed("a handshake ends before its levels do") from None


async def introduce(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, hello: Hello) -> Welcome:
    """Say hello, and return the welcome. Raises HandshakeRefused, Malformed, OSError, TimeoutError."""
    async with asyncio.timeout(HANDSHAKE_S):
        writer.write(framed(hello_to(hello)))
        await writer.drain()
        answer = await read_frame(reader, HELLO_BYTES)
    if not answer:
        raise Malformed("the connection was closed without an answer to the hello: if the node has certificates, give "
                        "--tls-ca, --tls-cert and --tls-key")
    if answer[0] != ACCEPTED:
        raise HandshakeRefused(texts_of(answer[1:], 1)[0])
    known, end = level_at(answer, 1)
    texts = len(Welcome._fields) - 1
    return Welcome(known, *counted_of(answer[end:], texts, texts))


async def read_hello(reader: asyncio.StreamReader) -> Hello:
    """Raises Malformed, HandshakeRefused, OSError, TimeoutError."""
    async with asyncio.timeout(HANDSHAKE_S):
        return hello_of(await read_frame(reader, HELLO_BYTES))


def welcome(writer: asyncio.StreamWriter, answer: Welcome) -> None:
    writer.write(framed(bytes([ACCEPTED]) + level.encoded(answer.known) + counted_to(answer[1:])))


def refuse(writer: asyncio.StreamWriter, why: str) -> None:
    writer.write(framed(bytes([REFUSED]) + texts_to((why[:1000],))))

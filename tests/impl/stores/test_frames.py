"""Frames: what is sent arrives, and anything else than a frame or a hello is refused with a reason."""

import asyncio

import pytest

from highwater.impl.level import Level
from highwater.impl.stores import frames
from highwater.impl.stores.frames import CLIENT, HandshakeRefused, Hello, Malformed, Welcome

HELLO = Hello(Level(1, 2), Level(3, 4), CLIENT, "main", "1", "2", "x")


def read(data: bytes, most_bytes: int = 100) -> bytes | None:
    async def work():
        reader = asyncio.StreamReader()
        reader.feed_data(data)
        reader.feed_eof()
        return await frames.read_frame(reader, most_bytes)

    return asyncio.run(work())


@pytest.mark.parametrize("body", (b"", b"x", b"y" * 100))
def test_a_frame_is_read_as_it_was_written(body):
    assert read(frames.framed(body)) == body


def test_an_end_between_frames_is_no_error():
    assert read(b"") is None


@pytest.mark.parametrize("cut", (1, 3, 4, 8))
def test_an_end_within_a_frame_is_malformed(cut):
    with pytest.raises(Malformed, match="the connection ended within a frame"):
        read(frames.framed(b"12345")[:cut])


def test_a_frame_that_is_too_long_is_malformed_before_it_is_read():
    with pytest.raises(Malformed, match="a frame of 101 bytes is announced, and at most 100 are taken"):
        read(frames.framed(b"x" * 101)[:4])


def test_a_hello_is_read_as_it_was_written():
    assert frames.hello_of(frames.hello_to(HELLO)) == HELLO


@pytest.mark.parametrize("cut", range(len(frames.hello_to(HELLO))))
def test_a_cut_hello_is_malformed(cut):
    with pytest.raises(Malformed):
        frames.hello_of(frames.hello_to(HELLO)[:cut])


def test_an_older_hello_says_nothing_of_settings_and_a_later_ones_further_texts_are_left_out():
    head = frames.hello_to(HELLO)[:18]  # up to the number of texts
    older = head + frames.counted_to(HELLO[2:8])
    later = head + frames.counted_to((*HELLO[2:8], "a=1", "more"))
    assert frames.hello_of(older) == HELLO and frames.hello_of(later) == HELLO._replace(settings="a=1")


def test_what_follows_a_hello_within_its_frame_is_malformed():
    with pytest.raises(Malformed, match="take 27 bytes, and there are 28"):
        frames.hello_of(frames.hello_to(HELLO) + b"!")


def test_connection_closed_before_its_hello_is_malformed():
    with pytest.raises(Malformed, match="the other side closed the connection before its hello"):
        frames.hello_of(None)


@pytest.mark.parametrize("data", (b"", b"GET / HTTP/1.1\r\n\r\n"))
def test_another_program_is_malformed(data):
    with pytest.raises(Malformed, match="it is of another program"):
        frames.hello_of(data)


def test_another_version_is_named_and_not_read_further():
    data = frames.hello_to(HELLO)
    for version, body in ((1, data[10:]), (9, b"what version 9 adds")):
        with pytest.raises(HandshakeRefused, match=f"handshake is {version} on one side and 2 on the other: start the same"):
            frames.hello_of(data[:8] + frames.VERSION.pack(version) + body)


def test_a_hello_of_before_names_version_1_as_this_one_is_read_there():
    """Processes of before had u16 version after the magic, too, and refused another one before they read further."""
    assert frames.hello_to(HELLO)[:18].hex() == b"hwframes".hex() + "0002" + "00010002" + "00030004"


def test_texts_that_a_later_version_adds_are_left_out():
    data = frames.hello_to(HELLO)
    more = data[:18] + bytes([data[18] + 2]) + data[19:] + frames.texts_to(("later", "versions"))
    assert frames.hello_of(more) == HELLO
    with pytest.raises(Malformed, match="a handshake of 5 texts: it has 6 at least"):
        frames.hello_of(data[:18] + b"\5" + data[19:])


def test_an_answer_to_a_hello_is_read_as_it_was_written():
    class Written:
        def write(self, data: bytes) -> None:
            self.data = data

        async def drain(self) -> None:
            pass

    async def answered(data: bytes) -> Welcome:
        reader = asyncio.StreamReader()
        reader.feed_data(frames.framed(data))
        return await frames.introduce(reader, Written(), HELLO)  # pyright: ignore[reportArgumentType]

    written = Written()
    welcome = Welcome(Level(5, 6), "2", "process")
    frames.welcome(written, welcome)  # pyright: ignore[reportArgumentType]
    data = written.data[4:]
    assert asyncio.run(answered(data)) == welcome
    assert asyncio.run(answered(data[:5] + b"\3" + data[6:] + frames.texts_to(("later",)))) == welcome
    for cut in range(1, len(data)):
        with pytest.raises(Malformed):
            asyncio.run(answered(data[:cut]))
    with pytest.raises(HandshakeRefused, match="^why$"):
        asyncio.run(answered(b"\0" + frames.texts_to(("why",))))

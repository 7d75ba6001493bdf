"""Frames: what is sent arrives, and anything else than a frame or a hello is refused with a reason."""

import asyncio

import pytest

from highwater.impl.stores import frames
from highwater.impl.stores.frames import CLIENT, HandshakeRefused, Hello, Malformed

HELLO = Hello(1, CLIENT, "main", "1", "2", "x")


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
    assert frames.hello_of(frames.hello_to(HELLO), 1) == HELLO


@pytest.mark.parametrize("cut", range(len(frames.hello_to(HELLO))))
def test_a_cut_hello_is_malformed(cut):
    with pytest.raises(Malformed):
        frames.hello_of(frames.hello_to(HELLO)[:cut], 1)


def test_what_follows_a_hello_within_its_frame_is_malformed():
    with pytest.raises(Malformed, match="take 25 bytes, and there are 26"):
        frames.hello_of(frames.hello_to(HELLO) + b"!", 1)


@pytest.mark.parametrize("data", (None, b"", b"GET / HTTP/1.1\r\n\r\n"))
def test_another_program_is_malformed(data):
    with pytest.raises(Malformed, match="it is of another program"):
        frames.hello_of(data, 1)


def test_another_version_is_named_and_not_read_further():
    with pytest.raises(HandshakeRefused, match="is 9 on one side and 1 on the other"):
        frames.hello_of(frames.hello_to(HELLO._replace(version=9)) + b"what version 9 adds", 1)

"""Safety: the end of an HTTP/1.1 message is found without changing a byte of it.

Bytes pass through unchanged, so that signatures verify; here they are only inspected. RFC 9112, section 6.3, has the rules. For
a body with another framing inside (`aws-chunked`, which signs each chunk) the content is the inner one.
"""

import hashlib
from typing import NamedTuple, Protocol

from highwater.traces.recorded.s3log import Body

MOST_OF_A_LINE = 16_384
MOST_OF_TRAILERS = 65_536


class Malformed(Exception):
    """The bytes are not HTTP/1.1."""


class Head(NamedTuple):
    """The head of a message."""

    raw: bytes  # including the empty line
    first: tuple[str, str, str]  # method, target, version; or version, status, reason
    fields: dict[str, str]  # names in lower case; the last value of a repeated field

    def says(self, name: str, word: str) -> bool:
        return word in self.fields.get(name, "").lower()

    @property
    def status(self) -> int:
        return int(self.first[1])

    @property
    def lasts(self) -> bool:
        """True if its connection may be used again."""
        old = "HTTP/1.0" in self.first and not self.says("connection", "keep-alive")
        return not old and not self.says("connection", "close")


def head_of(raw: bytes) -> Head:
    try:
        first, *lines = raw[:-4].decode("latin-1").split("\r\n")
        a, b, *c = first.split(" ", 2)
        fields = {}
        for line in lines:
            name, colon, value = line.partition(":")
            if not colon:
                raise ValueError(line)
            fields[name.lower()] = value.strip()
        if a.startswith("HTTP/"):
            int(b)
        return Head(raw, (a, b, c[0] if c else ""), fields)
    except ValueError as error:
        raise Malformed(f"the head of a message cannot be read: {error}") from None


class Content:
    """The content of a body: its size, its digest, and its bytes if they are at most `keep_bytes`."""

    def __init__(self, keep_bytes: int):
        self.size_bytes, self._keep_bytes, self._parts, self._sha256 = 0, keep_bytes, [], hashlib.sha256()

    def feed(self, data: bytes) -> None:
        self.size_bytes += len(data)
        self._sha256.update(data)
        if self.size_bytes <= self._keep_bytes:
            self._parts.append(bytes(data))

    def body(self, whole: bool = True) -> Body:
        if whole and not self.size_bytes:
            return Body()
        data = b"".join(self._parts) if self.size_bytes <= self._keep_bytes else None
        return Body(self.size_bytes, self._sha256.hexdigest() if whole else "", data)


class Framing(Protocol):
    """Finds the end of a message's body."""

    @property
    def done(self) -> bool: ...

    left: int  # the least number of bytes still to come, if known; else 0

    def feed(self, data: bytes) -> int:
        """Return how many of these bytes belong to this message."""
        ...


class Counted:
    def __init__(self, length: int, content):
        self.left, self._content = length, content

    @property
    def done(self) -> bool:
        return not self.left

    def feed(self, data: bytes) -> int:
        taken = min(self.left, len(data))
        self.left -= taken
        self._content.feed(data[:taken])
        return taken


class ToTheEnd:
    """The framing of a reply that ends with its connection."""

    done, left = False, 0

    def __init__(self, content):
        self._content = content

    def feed(self, data: bytes) -> int:
        self._content.feed(data)
        return len(data)


class Chunked:
    """The chunked framing: `SIZE[;extension] CRLF data CRLF`, repeated, then `0 CRLF`, trailers, and an empty line."""

    left = 0

    def __init__(self, content):
        self._content, self._line, self._chunk, self._state = content, b"", 0, "size"
        self._trailers = 0  # bytes

    @property
    def done(self) -> bool:
        return self._state == "done"

    def feed(self, data: bytes) -> int:
        at = 0
        while at < len(data) and not self.done:
            if self._state == "data":
                piece = data[at:at + self._chunk]
                self._content.feed(piece)
                self._chunk -= len(piece)
                at += len(piece)
                if not self._chunk:
                    self._state = "after"
                continue
            end = data.find(b"\n", at)
            self._line += data[at:] if end < 0 else data[at:end + 1]
            at = len(data) if end < 0 else end + 1
            if len(self._line) > MOST_OF_A_LINE:
                raise Malformed("a chunk's line has no end")
            if end >= 0:
                self._state, self._line = self._next(self._line.strip()), b""
        return at

    def _next(self, line: bytes) -> str:
        if self._state == "after":
            return "size"
        if self._state == "trailers":
            self._trailers += len(line) + 2
            if self._trailers > MOST_OF_TRAILERS:
                raise Malformed("the trailers of a message have no end")
            return "trailers" if line else "done"
        try:
            self._chunk = int(line.partition(b";")[0], 16)
        except ValueError:
            raise Malformed(f"not the size of a chunk: {line[:40]!r}") from None
        return "data" if self._chunk else "trailers"


class Nested:
    """A Chunked framing inside a body, fed like a `Content`."""

    def __init__(self, content: Content):
        self._inside = Chunked(content)

    def feed(self, data: bytes) -> None:
        self._inside.feed(bytes(data))


def framing_of_request(head: Head, content: Content) -> Framing | None:
    """Return the framing of a request's body; None if it has no body."""
    fields = head.fields
    signed = "x-amz-decoded-content-length" in fields or head.says("content-encoding", "aws-chunked")
    sink = Nested(content) if signed else content
    if head.says("transfer-encoding", "chunked"):
        return Chunked(sink)
    length = length_of(fields)
    return Counted(length, sink) if length else None


def framing_of_reply(head: Head, method: str, content: Content) -> Framing | None:
    if method == "HEAD" or head.status in (204, 304) or head.status < 200:
        return None
    if head.says("transfer-encoding", "chunked"):
        return Chunked(content)
    if "content-length" not in head.fields:
        return ToTheEnd(content)
    length = length_of(head.fields)
    return Counted(length, content) if length else None


def length_of(fields: dict[str, str]) -> int:
    text = fields.get("content-length", "0")
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise Malformed(f"content-length {text[:40]!r}")
    return int(text)

"""An S3 server that means harm: what it answers is any bytes, in any time, without end if a test wants that.

`hostile.answer` is called with the method, the target and a `Wire` for each request; the tests give functions of ANSWERS or
their own. A connection ends with each answer, unless the answer is whole. Once the client has left, `Wire.send` raises OSError.
"""

import socket
import threading
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from urllib.parse import parse_qs, urlsplit
from xml.sax.saxutils import escape

DATE = "Sun, 29 Nov 2026 07:00:00 GMT"
OBJECT = f'ETag: "1"\r\nLast-Modified: {DATE}\r\n'


class Wire:
    """One connection, and what has been sent on it."""

    def __init__(self, to: socket.socket, ended: threading.Event):
        self._to, self._ended = to, ended

    def send(self, data: bytes) -> None:
        if self._ended.is_set():
            raise OSError("the test is over")
        self._to.sendall(data)

    def whole(self, body: bytes, status: str = "200 OK", head: str = OBJECT) -> None:
        self.send(f"HTTP/1.1 {status}\r\n{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)

    def for_ever(self, piece: bytes, every_s: float = 0) -> None:
        while True:
            self.send(piece)
            time.sleep(every_s)


Answer = Callable[[str, str, Wire], None]


class Hostile:
    def __init__(self, url: str):
        self.url, self.asked = url, list[str]()
        self.answer: Answer = lambda method, target, wire: wire.whole(b"")


def page_of(keys: Iterable[str], token: str | None = None, of: str = "") -> bytes:
    """Return a page of a listing; with a token of the next page it is truncated."""
    rows = "".join(f"<Contents><Key>{escape(key)}</Key><LastModified>2026-11-29T07:00:00.000Z</LastModified><ETag>\"1\"</ETag>"
                   f"<Size>1</Size></Contents>" for key in keys)
    more = f"<NextContinuationToken>{token}</NextContinuationToken>" if token else ""
    return (f"<?xml version=\"1.0\"?><ListBucketResult><IsTruncated>{'true' if token else 'false'}</IsTruncated>{more}"
            f"{rows}{of}</ListBucketResult>").encode()


def lists(method: str, target: str) -> bool:
    return method == "GET" and "list-type" in target


def query_of(target: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(target).query).items()}


@contextmanager
def hostile_server(begin: Callable[[Wire], object] | None = None) -> Generator[Hostile]:
    """Yield a server. `begin` is called with each connection, before a request is read."""
    listener, ended = socket.create_server(("127.0.0.1", 0), backlog=64), threading.Event()
    hostile = Hostile(f"http://127.0.0.1:{listener.getsockname()[1]}")

    def serve(connection: socket.socket) -> None:
        with connection, suppress(OSError, ValueError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if begin:
                begin(Wire(connection, ended))
            reader = connection.makefile("rb")
            while line := reader.readline():
                method, target, _ = line.decode("latin-1").split(" ", 2)
                fields = dict(field.decode("latin-1").lower().split(":", 1) for field in iter(reader.readline, b"\r\n"))
                if "100-continue" in fields.get("expect", ""):
                    connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
                reader.read(int(fields.get("content-length", 0)))
                hostile.asked.append(f"{method} {target}")
                hostile.answer(method, target, Wire(connection, ended))

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    accepting = threading.Thread(target=accept, daemon=True)
    accepting.start()
    try:
        yield hostile
    finally:
        ended.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        accepting.join()

"""Safety: every byte that an S3 server sends counts against a bound, and so does the time until the last one.

botocore's timeouts are for the pause between two bytes, and it reads a listing or an error whole, however long it is. Here the
socket of each of its connections counts: what it sends and receives from the first byte of a request to the last byte of its
reply. So the bounds hold for heads, chunks, trailers, pages and errors alike, whoever reads them. Each tag of XML
counts for more than its bytes, because one of four takes some hundred in memory once it is parsed.
"""

import io
from typing import Any

from botocore.awsrequest import AWSHTTPConnection, AWSHTTPConnectionPool, AWSHTTPSConnection, AWSHTTPSConnectionPool

from highwater.impl.stores.bounds import SLOWEST_BYTES, Allowance, Bounds


class Received(io.RawIOBase):
    """The bytes that come through a socket, counted."""

    def __init__(self, raw: Any, exchange: Allowance):
        self._raw, self._exchange = raw, exchange

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int | None:
        self._exchange.check_time()
        size_bytes = self._raw.readinto(buffer)
        self._exchange.received(size_bytes or 0)
        if size_bytes and not self._exchange.is_object:
            with memoryview(buffer) as view:
                self._exchange.received_marks(bytes(view[:size_bytes]))
        return size_bytes

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
        super().close()


class Reader(io.BufferedReader):
    """A reader that checks how many bytes it is asked for before it takes memory for them: a server chooses that number."""

    def __init__(self, received: Received, exchange: Allowance):
        super().__init__(received)
        self._exchange = exchange

    def read(self, size: int | None = -1, /) -> bytes:
        self._exchange.check_size(size or 0)
        return super().read(size)


class CountedSocket:
    """A socket whose bytes count against an exchange."""

    def __init__(self, inner: Any, exchange: Allowance):
        self.inner, self.exchange = inner, exchange

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def sendall(self, data: Any) -> None:
        """Send in pieces, so that a server that reads slowly is noticed between two of them."""
        with memoryview(data) as view, view.cast("B") as raw:
            for start in range(0, len(raw), SLOWEST_BYTES):
                self.exchange.check_time()
                self.inner.sendall(raw[start:start + SLOWEST_BYTES])
                self.exchange.moved_bytes += min(SLOWEST_BYTES, len(raw) - start)

    def makefile(self, mode: str, buffering: int = -1) -> Any:
        received = Received(self.inner.makefile(mode, 0), self.exchange)
        return received if buffering == 0 else Reader(received, self.exchange)


class Bounded:
    """A mixin for botocore's connections."""

    bounds: Bounds
    sock: Any

    def connect(self) -> None:
        super().connect()  # pyright: ignore[reportAttributeAccessIssue]
        self.sock = CountedSocket(self.sock, Allowance(self.bounds))

    def request(self, method: str, url: str, *args: Any, **more: Any) -> None:
        self._asks_for_object = method == "GET" and "?" not in url  # a listing is asked for by a query
        if self.sock is not None:
            self.sock.exchange = Allowance(self.bounds)
        super().request(method, url, *args, **more)  # pyright: ignore[reportAttributeAccessIssue]

    def getresponse(self) -> Any:
        exchange = self.sock.exchange
        reply = super().getresponse()  # pyright: ignore[reportAttributeAccessIssue]
        if self._asks_for_object and reply.status in (200, 206):
            exchange.brings_an_object()
        if reply.length_remaining:
            exchange.check_size(reply.length_remaining)
        return reply


def bound(client: Any, bounds: Bounds) -> Any:
    """Return a boto3 client, after its connections got these bounds. It must not have sent a request before."""
    plain = type("BoundedConnection", (Bounded, AWSHTTPConnection), {"bounds": bounds})
    secure = type("BoundedSecureConnection", (Bounded, AWSHTTPSConnection), {"bounds": bounds})
    client._endpoint.http_session._pool_classes_by_scheme.update(
        http=type("BoundedPool", (AWSHTTPConnectionPool,), {"ConnectionCls": plain}),
        https=type("BoundedSecurePool", (AWSHTTPSConnectionPool,), {"ConnectionCls": secure}))
    return client

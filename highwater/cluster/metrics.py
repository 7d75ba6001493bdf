"""Serves metrics to Prometheus: one page of text over HTTP, on the loopback address only."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress

from highwater.impl.stores.certificates import reason
from highwater.impl.stores.connections import Connection, Listener, Slots
from highwater.impl.stores.stream_net import Address, AddressInUse
from highwater.impl.stores.system import Counters

LIMIT_S = 5.0
CONNECTIONS = 16
HEAD = "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {length}\r\n" \
       "Connection: close\r\n\r\n"


@asynccontextmanager
async def serving_metrics(port: int | None, page: Callable[[], str]) -> AsyncGenerator[None]:
    """Serve what `page` returns at http://127.0.0.1:port/metrics within the context. Raises AddressInUse."""
    if port is None:
        yield
        return

    async def answer(connection: Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            request = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0]
            found = request.startswith((b"GET /metrics ", b"GET /metrics?", b"GET / "))
            body = (page() if found else "metrics are at /metrics\n").encode()
            head = HEAD.format(status="200 OK" if found else "404 Not Found", length=len(body))
            writer.write(head.encode() + body)
            await writer.drain()

    address = Address("127.0.0.1", port)
    listener = Listener(answer, Slots(CONNECTIONS, CONNECTIONS), lambda: LIMIT_S, Counters())
    try:
        await listener.start(*address)
    except OSError as error:
        raise AddressInUse(f"metrics cannot be served on {address}: {reason(error)}: end the other process, or take another "
                           "port") from error
    try:
        yield
    finally:
        await listener.close()

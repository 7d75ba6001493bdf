"""Safety: a request goes to the server unchanged, byte by byte, or not at all; and the log describes it truly.

This is a proxy on loopback, with one port for each client. Each client connection has its own connection to the server, kept
alive as long. A request without a rule (highwater/recorder/rules.py) streams through. A request that is held is read first, so
that it can continue after its client has given up, as a request in a network may.
"""

import asyncio
import itertools
import ssl
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, TextIO
from urllib.parse import urlsplit

from highwater.impl.stores.bounds import Allowance, BoundExceeded, usual_bounds
from highwater.recorder.http import Content, Framing, Head, Malformed, framing_of_reply, framing_of_request, head_of
from highwater.recorder.rules import Rule, Rules
from highwater.traces.recorded.s3log import CONDITIONS, Request, field, listing_of, named, to_json, write

PIECE = 256 * 1024
AT_ONCE = 64 * 1024  # a body up to this size is sent together with its head
SPOOL = 64 * 1024 * 1024  # a held request is read up to this size; the rest waits at its client
LISTING = 8 * 1024 * 1024  # limit for bodies that are parsed: a LIST page or DELETE of many has up to 1,000 keys of 1,024 bytes
INTERIM = 100  # replies before the reply, such as «100 Continue»
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
GONE = (ConnectionError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, Malformed, EOFError, BoundExceeded)


class Dropped(Exception):
    """The client's connection is to be closed without more work."""


class Exchange:
    """A request in flight."""

    def __init__(self, recorder: "Recorder", client: str, head: Head):
        self.head, self.recorder = head, recorder
        method, target, _ = head.first
        self.edges = [recorder.tick(), 0, 0, 0]
        self.times_us: list[Any] = [recorder.now_us(), 0, 0, 0]
        self.op, bucket, key, query = named(method, target, "x-amz-copy-source" in head.fields)
        self.conditions = {name: value for name, value in head.fields.items() if name in CONDITIONS}
        self.sent, self.got = Content(self._keeps("delete_many")), Content(self._keeps("delete_many", "list"))
        self.framing = framing_of_request(head, self.sent)
        self.reply: Head | None = None
        self.reply_framing: Framing | None = None
        self.told, self.continued = 0, False
        self.rule = recorder.rules.find(client, self.op, method, key, self.conditions)
        self.number = recorder.came = next(recorder.numbers)
        self.who = (self.number, client, self.op, method, bucket, key, query)

    def _keeps(self, *whole: str) -> int:
        """Return how many bytes of the body to keep; requests of the kinds in `whole` are parsed."""
        return max(LISTING, self.recorder.keep_bytes) if self.op in whole else self.recorder.keep_bytes

    @property
    def expects(self) -> bool:
        return self.head.says("expect", "100-continue")

    def passed(self, edge: int) -> None:
        if not self.edges[edge]:
            self.edges[edge], self.times_us[edge] = self.recorder.tick(), self.recorder.now_us()

    def request(self) -> Request:
        sent = self.sent.body(not self.framing or self.framing.done)
        got = self.got.body(bool(self.reply) and (not self.reply_framing or self.reply_framing.done))
        found = Request(*self.who, self.conditions, *self.edges, times_us=tuple(self.times_us), told=self.told, sent_body=sent,
                        rule=self.rule.text if self.rule else "")
        if not self.reply:
            return found
        fields, text = self.reply.fields, (got.data or b"")
        if self.op == "list" and self.reply.status == 200:
            listed, truncated = listing_of(text)
            found = found._replace(listed=listed, truncated=truncated)
        elif (self.op == "get" and self.reply.status in (200, 206)) or (self.op == "delete_many" and self.reply.status == 200):
            found = found._replace(got_body=got)
        elif text and (self.reply.status >= 300 or self.op in ("copy", "complete")):
            words = text.decode("utf-8", "replace")
            found = found._replace(code=field(words, "Code"), version=field(words, "ETag"))
        return found._replace(status=self.reply.status, version=fields.get("etag") or found.version,
                              last_modified=fields.get("last-modified", ""))


class Recorder:
    """The proxy. `log` gets the lines. `on_request` is called with each Request when it is over."""

    def __init__(self, upstream: str, log: TextIO, rules: Rules | None = None, keep_bytes: int = 65_536,
                 on_request: Callable[[Request], None] = lambda request: None):
        parts = urlsplit(upstream)
        self.host, self.port = parts.hostname, parts.port or {"https": 443}.get(parts.scheme, 80)
        self.tls = ssl.create_default_context() if parts.scheme == "https" else None
        self.log, self.rules, self.keep_bytes, self.on_request = log, rules or Rules(), keep_bytes, on_request
        self.upstream, self.clients, self.held = upstream, {}, {}
        self.numbers, self._ticks, self.came, self._written = itertools.count(1), itertools.count(1), 0, 0
        self._start_us = time.time_ns() // 1000 - time.monotonic_ns() // 1000
        self._changed, self._servers, self._tasks = asyncio.Event(), [], set()

    @property
    def quiet(self) -> bool:
        """True if no request is in flight."""
        return self.came == self._written

    def tick(self) -> int:
        return next(self._ticks)

    def now_us(self) -> int:
        return self._start_us + time.monotonic_ns() // 1000

    async def open(self, clients: Iterable[tuple[str, int]]) -> dict[str, str]:
        """Listen for these clients, each with its port (0: any free one). Return their URLs."""
        for name, port in clients:
            server = await asyncio.start_server(
                lambda reader, writer, name=name: self._serve(name, reader, writer), "127.0.0.1", port, limit=2 * PIECE)
            self._servers.append(server)
            self.clients[name] = server.sockets[0].getsockname()[1]
        write(self.log, kind="log", v=1, upstream=self.upstream, clients=self.clients, started_us=self.now_us(),
              keep_bytes=self.keep_bytes)
        if self.rules.text:
            self.note("rules", text=self.rules.text)
        return {name: f"http://127.0.0.1:{port}" for name, port in self.clients.items()}

    async def close(self) -> None:
        """End the requests in flight, and the log."""
        for server in self._servers:
            server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        write(self.log, kind="end", requests=self._written)
        self.log.flush()

    def set_rules(self, text: str) -> None:
        """Replace the rules. Raises BadRule; then the old ones stay in force. Requests held by a removed rule continue."""
        self.rules.replace(text)
        self.note("rules", text=text)
        self._changed.set()
        self._changed = asyncio.Event()

    def note(self, what: str, **more: object) -> None:
        write(self.log, kind="note", what=what, at=self.tick(), **more)
        self.log.flush()

    async def _serve(self, client: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self._tasks.add(task)
        connection = Connection(self, client, reader, writer)
        try:
            while await connection.one():
                pass
        except (*GONE, Dropped, asyncio.CancelledError):
            pass
        finally:
            connection.close()
            self._tasks.discard(task)

    def over(self, exchange: Exchange) -> None:
        request = exchange.request()
        self.log.write(to_json(request) + "\n")
        self.log.flush()
        self._written += 1
        self.on_request(request)

    async def until_gone(self, rule: Rule, exchange: Exchange) -> None:
        self.held[exchange.number] = rule.text
        self.note("held", request=exchange.number, client=exchange.who[1], method=exchange.who[3], key=exchange.who[5],
                  rule=rule.text)
        try:
            while self.rules.has(rule):
                await self._changed.wait()
        finally:
            del self.held[exchange.number]


class Connection:
    """One client's connection, and its own connection to the server."""

    def __init__(self, recorder: Recorder, client: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self.recorder, self.client, self.reader, self.writer = recorder, client, reader, writer
        self.up_reader: Any = None  # a StreamReader, once there is a connection
        self.up_writer: Any = None  # its StreamWriter
        self.unheard: Allowance | None = None  # of a reply whose client has left

    async def one(self) -> bool:
        """Serve one request; return whether there may be another."""
        try:
            raw = await self.reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return False
        exchange = Exchange(self.recorder, self.client, head_of(raw))
        try:
            return await (self._by_rule(exchange, exchange.rule) if exchange.rule else self._through(exchange))
        finally:
            self.recorder.over(exchange)

    def close(self) -> None:
        for writer in (self.writer, self.up_writer):
            if writer:
                writer.close()

    # --- A request that no rule touches

    async def _through(self, exchange: Exchange) -> bool:
        framing = exchange.framing
        await self._connect()
        if framing and (exchange.expects or not 0 < framing.left <= AT_ONCE):
            exchange.passed(1)
            self.up_writer.write(exchange.head.raw)
            pump = asyncio.ensure_future(self._pump(framing))
            try:
                lasts = await self._reply(exchange)
            finally:
                sent_all = framing.done and pump.done()
                pump.cancel()
                with suppress(*GONE, asyncio.CancelledError):
                    await pump
            return lasts and sent_all
        await self._send(exchange, await self._read_body(framing, AT_ONCE) if framing else b"")
        return await self._reply(exchange)

    async def _pump(self, framing: Framing) -> None:
        """Pass the body of a request on as it comes."""
        try:
            while not framing.done:
                data = await self.reader.read(PIECE if not framing.left else min(PIECE, framing.left))
                if not data:
                    raise EOFError
                framing.feed(data)
                self.up_writer.write(data)
                await self.up_writer.drain()
        except GONE:
            self.up_writer.transport.abort()  # the server must not take the partial body for the whole
            raise

    async def _connect(self) -> None:
        """Connect to the server, again if it has closed the last connection before anything was sent."""
        if not self.up_writer or self.up_writer.is_closing() or self.up_reader.at_eof():
            if self.up_writer:
                self.up_writer.close()
            of = self.recorder
            self.up_reader, self.up_writer = await asyncio.open_connection(of.host, of.port, ssl=of.tls, limit=2 * PIECE)

    async def _send(self, exchange: Exchange, body: bytes) -> None:
        exchange.passed(1)
        self.up_writer.write(exchange.head.raw + body if body else exchange.head.raw)
        await self.up_writer.drain()

    async def _head(self, exchange: Exchange) -> Head:
        """Read the head of the reply. «100 Continue» is passed on to a client that has not had one yet."""
        for _ in range(INTERIM):
            head = head_of(await self.up_reader.readuntil(b"\r\n\r\n"))
            if head.status >= 200:
                break
            if not exchange.continued:
                self._tell(head.raw)
        else:
            raise Malformed("the replies before the reply have no end")
        exchange.passed(2)
        exchange.reply = head
        exchange.reply_framing = framing_of_reply(head, exchange.head.first[0], exchange.got)
        return head

    async def _reply(self, exchange: Exchange) -> bool:
        return await self._deliver(exchange, await self._head(exchange))

    async def _deliver(self, exchange: Exchange, head: Head) -> bool:
        """Pass on a reply whose head has come; return whether the connections can be used again."""
        framing, first = exchange.reply_framing, head.raw
        while framing and not framing.done:
            data = await self._more(framing)
            if not data:
                break
            self._check_unheard(len(data))
            self._tell(first + data)
            first = b""
            if framing.left > PIECE or not framing.left:
                await self.writer.drain()
        if first:
            self._tell(first)
        self._told(exchange, head.status)
        return head.lasts and exchange.head.lasts and (not framing or framing.done)

    async def _more(self, framing: Framing) -> bytes:
        """Read more of a reply's body; empty at its end."""
        data = await self.up_reader.read(PIECE if not framing.left else min(PIECE, framing.left))
        framing.feed(data)
        return data

    def _check_unheard(self, size_bytes: int) -> None:
        """Check what still comes of a reply after its client has left. Raises BoundExceeded."""
        if self.writer.is_closing():
            self.unheard = self.unheard or Allowance.of_object(usual_bounds())
            self.unheard.received(size_bytes)
            self.unheard.check_time()

    def _tell(self, data: bytes) -> None:
        if not self.writer.is_closing():
            self.writer.write(data)

    def _told(self, exchange: Exchange, status: int) -> None:
        if not self.writer.is_closing() and not self.reader.at_eof():
            exchange.passed(3)
            exchange.told = status

    # --- A request that a rule touches

    async def _by_rule(self, exchange: Exchange, rule: Rule) -> bool:
        if rule.action == "drop":
            raise Dropped
        if rule.action == "fail":
            if exchange.framing and not exchange.expects:
                await self._read_body(exchange.framing, None)
            return self._make_up(exchange, rule) and not exchange.expects
        body = await self._spool(exchange)
        if rule.action == "late":
            self.writer.close()
        if rule.action == "hold":
            await self.recorder.until_gone(rule, exchange)
        elif rule.action in ("delay", "late"):
            await asyncio.sleep(rule.value / 1000)
        await self._connect()
        await self._send(exchange, body)
        if exchange.framing and not exchange.framing.done:
            await self._pump(exchange.framing)
        if rule.action in ("hold", "delay"):
            return await self._reply(exchange)
        return await self._spoil(exchange, rule)

    async def _spool(self, exchange: Exchange) -> bytes:
        """Read the body, up to SPOOL bytes; tell the client to send it."""
        if exchange.framing and exchange.expects:
            exchange.continued = True
            self._tell(CONTINUE)
        return await self._read_body(exchange.framing, SPOOL) if exchange.framing else b""

    async def _read_body(self, framing: Framing, most: int | None) -> bytes:
        """Read up to `most` bytes of a body; None reads all and keeps nothing. Raises EOFError if it ends too early."""
        parts, size = [], 0
        while not framing.done and (most is None or size < most):
            data = await self.reader.read(PIECE if not framing.left else min(PIECE, framing.left))
            if not data:
                raise EOFError
            framing.feed(data)
            size += len(data)
            if most is not None:
                parts.append(data)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def _spoil(self, exchange: Exchange, rule: Rule) -> bool:
        """Send the request on, and apply the rule to its reply."""
        head = await self._head(exchange)
        if rule.action in ("hold-reply", "delay-reply"):
            if rule.action == "hold-reply":
                await self.recorder.until_gone(rule, exchange)
            else:
                await asyncio.sleep(rule.value / 1000)
            return await self._deliver(exchange, head)
        framing, dropped = exchange.reply_framing, Allowance.of_object(usual_bounds())
        while framing and not framing.done and (data := await self._more(framing)):
            dropped.received(len(data))
            dropped.check_time()
        if rule.action == "fail-reply":
            return self._make_up(exchange, rule) and head.lasts
        self.recorder.note(rule.action, request=exchange.number, rule=rule.text, status=head.status)
        if rule.action == "stall":
            while not self.reader.at_eof() and not self.writer.is_closing():
                await asyncio.sleep(0.02)
        raise Dropped

    def _make_up(self, exchange: Exchange, rule: Rule) -> bool:
        """Send a reply of our own."""
        code = rule.code or {503: "SlowDown"}.get(rule.value, "InternalError")
        xml = f"<Error><Code>{code}</Code><Message>by a rule of the recorder</Message></Error>"
        body = "" if exchange.head.first[0] == "HEAD" else xml
        head = f"HTTP/1.1 {rule.value} {code}\r\nContent-Type: application/xml\r\nContent-Length: {len(body)}\r\n\r\n"
        self._tell((head + body).encode())
        self._told(exchange, rule.value)
        return exchange.head.lasts



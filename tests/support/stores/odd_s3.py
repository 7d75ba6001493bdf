"""An S3 server over a store in memory, which answers oddly now and then. It never says that a write was applied, or was not, if
the opposite is true, and no part of an object is another one: a store that lies so is no store.
"""

import sys
import threading
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from highwater.impl.errors import AlreadyExists, NotFound, PreconditionFailed
from highwater.impl.stores.memory import MemoryStore
from tests.fuzz.mutations import PAGES, mutated_xml
from tests.support.stores.hostile_server import DATE, query_of

BUCKET = "bucket"
DOUBTS = ("500 Bad", "502 Bad Gateway", "503 Slow Down", "200 OK")  # with a page of HTML and without an ETag they say nothing


def done(call: Coroutine[Any, Any, Any]) -> Any:
    """Return the result of a call that waits for nothing."""
    try:
        call.send(None)
    except StopIteration as ended:
        return ended.value
    raise AssertionError("it waits")


class OddS3:
    """The server's store, and how odd it is."""

    def __init__(self, seed: int):
        self.store, self.random, self.odd, self.url = MemoryStore(), Random(seed), 0.0, ""
        self.put_ids: dict[str, str] = {}
        self.counts = 0  # odd replies

    def is_odd(self) -> bool:
        self.counts += (odd := self.random.random() < self.odd)
        return odd


class Handler(BaseHTTPRequestHandler):
    """Answers one request after the other on a connection."""

    protocol_version = "HTTP/1.1"
    of: OddS3

    def log_message(self, *_: object) -> None:
        pass

    def reply(self, status: str, head: dict[str, str], body: bytes, cut: int | None = None) -> None:
        code, _, why = status.partition(" ")
        self.send_response(int(code), why)
        for name, value in {"Content-Length": str(len(body)), **head}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[:cut])
        if cut is not None:
            self.close_connection = True

    def handle_any(self) -> None:
        of, odd = self.of, self.of.is_odd()
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        is_read = self.command in ("GET", "HEAD")
        if odd and (is_read or of.random.random() < 0.5):
            if is_read and of.random.random() < 0.5:
                self.odd_read(*self.answer(body))
            else:  # nothing is applied
                self.reply(of.random.choice(DOUBTS[:3]), {}, of.random.choice(PAGES))
            return
        answer = self.answer(body)
        if odd:  # it was applied
            if of.random.random() < 0.3:
                self.close_connection = True
                return
            answer = of.random.choice(DOUBTS), {}, of.random.choice(PAGES)
        self.reply(*answer)

    do_GET = do_HEAD = do_PUT = do_DELETE = handle_any

    def odd_read(self, status: str, head: dict[str, str], body: bytes) -> None:
        """Answer a read with another page, a page with damage, or a part of the body."""
        random = self.of.random
        if body.startswith(b"<?xml") and random.random() < 0.6:
            self.reply(status, head, mutated_xml(body, random))
        elif random.random() < 0.5:
            self.reply("200 OK", {}, random.choice(PAGES))
        else:
            self.reply(status, head, body, random.randrange(len(body) + 1))

    def answer(self, body: bytes) -> tuple[str, dict[str, str], bytes]:
        store, parts = self.of.store, urlsplit(self.path)
        key = unquote(parts.path).removeprefix(f"/{BUCKET}").removeprefix("/")
        try:
            if not key:
                return "200 OK", {}, self.page(query_of(self.path))
            if self.command == "DELETE":
                done(store.delete(key))
                return "204 No Content", {}, b""
            if self.command == "PUT":
                version = self.put(key, body)
                self.of.put_ids[key] = self.headers.get("x-amz-meta-highwater-put-id", "")
                return "200 OK", {"ETag": f'"{version}"'}, b""
            found = done(store.get(key))
        except (NotFound, AlreadyExists, PreconditionFailed) as error:
            code = ("404 Not Found", "NoSuchKey") if isinstance(error, NotFound) else ("412 Failed", "PreconditionFailed")
            return code[0], {}, f"<?xml version='1.0'?><Error><Code>{code[1]}</Code></Error>".encode()
        head = {"ETag": f'"{found.version}"', "Last-Modified": DATE,
                "x-amz-meta-highwater-put-id": self.of.put_ids.get(key, "")}
        return "200 OK", head, found.body

    def put(self, key: str, body: bytes) -> str:
        store = self.of.store
        if self.headers.get("If-None-Match"):
            return done(store.create(key, body))
        if version := self.headers.get("If-Match"):
            return done(store.update(key, body, version.strip('"')))
        return done(store.put(key, body))

    def page(self, query: dict[str, str]) -> bytes:
        page = done(self.of.store.list_page(query.get("prefix", ""), query.get("start-after", "")))
        rows = "".join(f"<Contents><Key>{quote(entry.key)}</Key><LastModified>2026-11-29T07:00:00.000Z</LastModified>"
                       f"<ETag>\"{entry.version}\"</ETag><Size>{entry.size_bytes}</Size></Contents>" for entry in page.entries)
        truncated = str(page.truncated).lower()
        return (f"<?xml version=\"1.0\"?><ListBucketResult><EncodingType>url</EncodingType><IsTruncated>{truncated}"
                f"</IsTruncated>{rows}</ListBucketResult>").encode()


class Server(ThreadingHTTPServer):
    """The server. Clients may leave at any time."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


@contextmanager
def odd_s3(seed: int) -> Generator[OddS3]:
    """Serve within the context."""
    made = OddS3(seed)
    server = Server(("127.0.0.1", 0), type("OfOne", (Handler,), {"of": made}))
    made.url = f"http://127.0.0.1:{server.server_address[1]}"
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        serving.join()

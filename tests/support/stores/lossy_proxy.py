"""A proxy in front of an S3 server that loses responses: it does on purpose what a network may do to a request.

`proxy.next("PUT", LOST)` decides the fate of the next PUT only; further calls decide those of later PUTs. Every other request
passes. `proxy.seen` lists the methods received, so that a test can count how often a PUT was sent.
"""

import http.client
import socket
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import urlsplit

PASS, DROP, STALL, CUT = "pass", "drop", "stall", "cut"  # what becomes of the answer; or a status sent in its place


class Fate(NamedTuple):
    apply: bool = True  # the server gets the request before the client gets its answer
    answer: str | int = PASS
    code: str = "InternalError"  # S3's word beside a status
    meanwhile: Callable[[], None] = lambda: None  # what happens in between
    late: bool = False  # the server gets the request after all, once the test sets `proxy.release`


class Proxy:
    def __init__(self, upstream: str):
        self.upstream = urlsplit(upstream).netloc
        self.url = ""
        self.forget()

    def forget(self) -> None:
        """Begin anew, for the next test."""
        self.seen: list[str] = []
        self.release = threading.Event()  # ends stalls, and lets late requests go on
        self.arrived = threading.Event()  # a late request has been applied
        self._fates: dict[str, deque[Fate]] = defaultdict(deque)

    def next(self, method: str, *fates: Fate) -> None:
        self._fates[method].extend(fates)

    def fate_of(self, method: str) -> Fate:
        self.seen.append(method)
        return self._fates[method].popleft() if self._fates[method] else Fate()


@contextmanager
def lossy_proxy(upstream: str) -> Iterator[Proxy]:
    proxy = Proxy(upstream)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            fate = proxy.fate_of(self.command)
            reply = self.forward(body) if fate.apply else None
            fate.meanwhile()
            self.reply_with(fate, reply)
            if fate.late:
                proxy.release.wait(30)
                self.forward(body)
                proxy.arrived.set()

        do_GET = do_HEAD = do_PUT = do_DELETE = pass_on

        def forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
            connection = http.client.HTTPConnection(proxy.upstream, timeout=30)
            headers = {name: value for name, value in self.headers.items() if name.lower() != "expect"}
            connection.request(self.command, self.path, body, headers)
            reply = connection.getresponse()
            answer = reply.status, reply.getheaders(), reply.read()
            connection.close()
            return answer

        def reply_with(self, fate: Fate, reply: tuple | None) -> None:
            if fate.answer == STALL:
                proxy.release.wait(30)
            if fate.answer in (DROP, STALL):
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            if fate.answer in (PASS, CUT):
                status, headers, body = reply
            else:
                status, headers = fate.answer, [("Content-Type", "application/xml")]
                body = b"" if self.command == "HEAD" else f"<Error><Code>{fate.code}</Code></Error>".encode()
                headers.append(("Content-Length", str(len(body))))
            self.send_response_only(status)
            for name, value in headers:
                if name.lower() != "connection":
                    self.send_header(name.title(), value)  # as servers written in Go do, metadata included
            self.end_headers()
            self.wfile.write(body[: len(body) // 2] if fate.answer == CUT else body)
            self.close_connection = fate.answer == CUT

        def log_message(self, *args) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    proxy.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield proxy
    finally:
        proxy.release.set()
        server.shutdown()
        thread.join()
        server.server_close()

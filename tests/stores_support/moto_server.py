"""Safety: moto answers one request at a time, and never outlives the process that started it.

Plain moto checks a condition and then acts on it, in many threads at once: it lets two creators of one key both win.
Behind a lock it is linearizable. It runs in a process of its own, on a free port of 127.0.0.1, and ends as soon as its
standard input is closed, which the end of its parent does whatever the cause.
"""

import http.client
import logging
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager

START_LIMIT_S = 60


class CannotStart(Exception):
    """moto did not come up; the text says why."""


@contextmanager
def moto_server() -> Iterator[str]:
    """Its URL, while it runs."""
    with tempfile.TemporaryFile("w+") as errors:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": errors}
        server = subprocess.Popen([sys.executable, os.path.abspath(__file__)], text=True, **pipes)
        watchdog = threading.Timer(START_LIMIT_S, server.kill)
        watchdog.start()
        port = server.stdout.readline().strip()
        watchdog.cancel()
        try:
            if not port:
                errors.seek(0)
                last_line = (errors.read().strip().splitlines() or [f"it said nothing in {START_LIMIT_S} s"])[-1]
                raise CannotStart(f"moto did not start: {last_line}")
            yield f"http://127.0.0.1:{port}"
        finally:
            server.stdin.close()
            try:
                server.wait(10)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
            server.stdout.close()


def put_unsigned(url: str, *paths: str) -> None:
    """Put empty objects, or make buckets where a path is of one segment: moto does not ask who is asking."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"))
    for path in paths:
        connection.request("PUT", path, b"")
        reply = connection.getresponse()
        assert reply.status == 200, reply.read()
        reply.read()
    connection.close()


def serve() -> None:
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    moto, lock = DomainDispatcherApplication(create_backend_app), threading.Lock()

    def one_at_a_time(environ, start_response):
        with lock:
            return [b"".join(moto(environ, start_response))]

    class KeepAlive(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = make_server("127.0.0.1", 0, one_at_a_time, threaded=True, request_handler=KeepAlive)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    serve()

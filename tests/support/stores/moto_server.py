"""Safety: moto answers one request at a time.

Plain moto checks a condition and then acts on it, in many threads at once, so two creators of one key may both win. Behind a
lock it is linearizable. `python moto_server.py PORT` runs it in a process of its own (see s3_servers.py).

Two kinds must be rejected by the tests: `plain`, without the lock, pauses between check and act, as on a busy machine; `deaf`,
behind the lock, ignores conditions.
"""

import http.client
import logging
import sys
import threading
import time


def put_unsigned(url: str, *paths: str) -> None:
    """Put empty objects, or make buckets where a path is of one segment: moto does not ask who is asking."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"))
    for path in paths:
        connection.request("PUT", path, b"")
        reply = connection.getresponse()
        assert reply.status == 200, reply.read()
        reply.read()
    connection.close()


def rest_before(of: type, name: str) -> None:
    then = getattr(of, name)

    def rested(*args, **kwargs):
        time.sleep(0.01)
        return then(*args, **kwargs)

    setattr(of, name, rested)


def serve(port: int, kind: str = "") -> None:
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from moto.s3.models import S3Backend
    from werkzeug.serving import WSGIRequestHandler, make_server

    moto, lock = DomainDispatcherApplication(create_backend_app), threading.Lock()

    def one_at_a_time(environ, start_response):
        with lock:
            return [b"".join(moto(environ, start_response))]

    def deaf(environ, start_response):
        for name in ("HTTP_IF_MATCH", "HTTP_IF_NONE_MATCH"):
            environ.pop(name, None)
        return one_at_a_time(environ, start_response)

    class KeepAlive(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"

    if kind == "plain":
        rest_before(S3Backend, "put_object")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    application = {"plain": moto, "deaf": deaf}.get(kind, one_at_a_time)
    make_server("127.0.0.1", port, application, threaded=True, request_handler=KeepAlive).serve_forever()


if __name__ == "__main__":
    serve(int(sys.argv[1]), *sys.argv[2:])

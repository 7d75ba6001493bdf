"""highwater trace record: check the options, then record until Ctrl-C, or until a command ends."""

import asyncio
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TextIO
from urllib.parse import urlsplit

from highwater.cli.console import complain, console, refuse
from highwater.cli.server import server
from highwater.cli.store import ended_as_by_ctrl_c
from highwater.clients.trial import Place, environment_of, filled, kill_group
from highwater.gate.exits import INCOMPLETE
from highwater.recorder.rules import BadRule, presets
from highwater.recorder.session import Session, recording, text_of
from highwater.recorder.session import record as record_until_stopped
from highwater.servers import s3
from highwater.servers.leash import CannotStart

LAST_PORT = 65_535
CONNECT_S = 5  # limit of the connection that tests whether a server is there


def record(upstream: str, clients: list[str], out: Path, rules: Path | None, keep_bytes: int, more: str) -> None:
    """Record requests to a new log, until Ctrl-C. `more` are rules behind those of the file. Refuses bad options, bad rules,
    and a log that exists."""
    refuse_no_server(upstream)
    listening = [client_of(text) for text in clients]
    if len({name for name, _ in listening}) < len(listening):
        refuse("two clients have the same name: give each its own")
    with new_log(out, rules) as log:
        count = asyncio.run(record_until_stopped(upstream, listening, log, rules, keep_bytes, partial(tell, upstream), more))
    console.print(f"{out}: {count:,} requests")


def behind(words: list[str], upstream: str, bucket: str, clients: list[str], out: Path, rules: Path | None, keep_bytes: int,
           more: str) -> int:
    """Run a command behind a recorder, and return its exit code: 128 and the signal, if one ended it. Refuses bad options, bad
    rules, a command that is not there, and a log that exists."""
    if not shutil.which(words[0]):
        refuse(f"{words[0]!r} is no URL of a server, write http://HOST:PORT or https://HOST; and there is no such command")
    if upstream:
        refuse_no_server(upstream)
    if len(clients) > 1 or "=" in clients[0]:
        refuse("--client: a COMMAND is one client, whose port is chosen for it: give one NAME, or none")
    name, _ = client_of(clients[0])
    with ended_as_by_ctrl_c(), server(upstream) as url:
        os.environ.update({} if upstream else s3.CREDENTIALS)
        place = Place(url, bucket or new_bucket(url))
        with new_log(out, rules) as log:
            text = text_of(rules, more)
            if why := unreachable(url):
                out.unlink()
                refuse(f"{why}; start the server, or leave out --upstream", INCOMPLETE)
            with recording(url, (name,), text, log, keep_bytes) as session:
                place = place._replace(endpoint=session.urls[name])
                code = run([filled(word, place) for word in words], environment_of(place))
                count = settled(session)
    console.print(f"{out}: {count:,} requests; {name} ended with exit code {code}", markup=False)
    return code


def settled(session: Session) -> int:
    """Return the number of requests. A server that never ends its reply must not keep the recorder from ending."""
    try:
        return len(session.settled())
    except TimeoutError:
        complain("the server has not ended its reply to a request: the log has that request without its reply")
        return len(session.requests)


def run(words: list[str], environment: dict[str, str]) -> int:
    """Run a command in a process group of its own, which ends with this process. Return its exit code."""
    process = subprocess.Popen(words, env={**os.environ, **environment}, start_new_session=True)
    try:
        code = process.wait()
    finally:
        kill_group(process)
        process.wait()
    return code if code >= 0 else 128 - code


def new_bucket(url: str) -> str:
    try:
        return s3.new_bucket(url)
    except CannotStart as error:
        refuse(f"{error}; give one with --bucket")


def presets_of(each: list[str], first: list[str]) -> str:
    try:
        return presets(each, first)
    except BadRule as error:
        refuse(f"--lose-each, --lose-first: {error}")


def refuse_no_server(url: str) -> None:
    if not names_a_server(url):
        refuse(f"server {url!r} is no URL of a server: write http://HOST:PORT or https://HOST")


@contextmanager
def new_log(out: Path, rules: Path | None) -> Generator[TextIO, None, None]:
    """Open a log that does not exist. Refuses one that does, and bad rules; then no file is left."""
    try:
        with open(out, "x") as log:
            yield log
    except FileExistsError:
        refuse(f"{out} exists and is not overwritten: give another file")
    except BadRule as error:
        out.unlink()
        refuse(f"{rules}: {error}")
    except OSError as error:
        if not out.is_file() or not out.stat().st_size:
            out.unlink(missing_ok=True)
        refuse(f"{error.filename or 'the recorder'}: {error.strerror}")


def names_a_server(url: str) -> bool:
    """Return whether `url` is an HTTP server without a path. Clients send their own paths."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and parts.path in ("", "/")
    except ValueError:
        return False


def unreachable(url: str) -> str:
    """Return why no connection to a server can be made; "" if one can."""
    parts = urlsplit(url)
    try:
        socket.create_connection((parts.hostname, parts.port or {"https": 443}.get(parts.scheme, 80)), CONNECT_S).close()
    except OSError as error:
        return f"{url} does not answer: {error.strerror or error}"
    return ""


def client_of(text: str) -> tuple[str, int]:
    match = re.fullmatch(r"([\w#.-]+)(?:=(\d+))?", text)
    if not match:
        refuse(f"client {text!r}: write NAME or NAME=PORT")
    if int(match[2] or 0) > LAST_PORT:
        refuse(f"client {text!r}: there is no port {match[2]}: give 1 to {LAST_PORT}, or leave it out for any free one")
    return match[1], int(match[2] or 0)


def tell(upstream: str, urls: dict[str, str]) -> None:
    """Print the clients' URLs, and a warning if the server does not answer."""
    for name, url in urls.items():
        print(f"{name} {url}", flush=True)
    if why := unreachable(upstream):
        print(f"warning: {why}; each request fails until a server listens there", file=sys.stderr, flush=True)

"""highwater trace record: check the options, then record until Ctrl-C."""

import asyncio
import re
from pathlib import Path
from urllib.parse import urlsplit

from highwater.cli.console import console, refuse
from highwater.recorder.rules import BadRule
from highwater.recorder.session import record as record_until_stopped


def record(upstream: str, clients: list[str], out: Path, rules: Path | None, keep_bytes: int) -> None:
    """Record requests to a new log. Refuses bad options, bad rules, and a log that exists."""
    if not names_a_server(upstream):
        refuse(f"server {upstream!r} is no URL of a server: write http://HOST:PORT or https://HOST")
    listening = [client_of(text) for text in clients]
    if len({name for name, _ in listening}) < len(listening):
        refuse("two clients have the same name: give each its own")
    try:
        with open(out, "x") as log:
            count = asyncio.run(record_until_stopped(upstream, listening, log, rules, keep_bytes, tell))
    except FileExistsError:
        refuse(f"{out} exists and is not overwritten: give another file")
    except BadRule as error:
        out.unlink()
        refuse(f"{rules}: {error}")
    except OSError as error:
        if not out.is_file() or not out.stat().st_size:
            out.unlink(missing_ok=True)
        refuse(f"{error.filename or 'the recorder'}: {error.strerror}")
    console.print(f"{out}: {count:,} requests")


def names_a_server(url: str) -> bool:
    """Return whether `url` is an HTTP server without a path. Clients send their own paths."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and parts.path in ("", "/")
    except ValueError:
        return False


def client_of(text: str) -> tuple[str, int]:
    match = re.fullmatch(r"([\w#.-]+)(?:=(\d{1,5}))?", text)
    if not match or int(match[2] or 0) > 65_535:
        refuse(f"client {text!r}: write NAME or NAME=PORT")
    return match[1], int(match[2] or 0)


def tell(urls: dict[str, str]) -> None:
    for name, url in urls.items():
        print(f"{name} {url}", flush=True)

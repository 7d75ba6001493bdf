"""Starts S3 servers for tests: those of highwater/servers/s3.py, and moto, the quick double."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from highwater.servers import s3
from highwater.servers.leash import leashed

MOTO = Path(__file__).resolve().with_name("moto_server.py")
SERVERS = ["moto", "versitygw", *["minio"] * bool(s3.found("minio"))]  # that the suite runs on


@contextmanager
def s3_server(name: str) -> Iterator[str]:
    """Start a server and yield its URL. Raises CannotStart. Tests must reject `moto-plain` and `moto-deaf`."""
    name, _, kind = name.partition("-")
    started = leashed(name, lambda port: [sys.executable, str(MOTO), str(port), *[kind] * bool(kind)]) if name == "moto" \
        else s3.s3_server(name)
    with started as url:
        yield url

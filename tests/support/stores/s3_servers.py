"""Starts S3 servers for tests: versitygw, MinIO and gofakes3, built by tools/s3/build.py; and moto, the quick double.

Each runs in a process of its own, on a free port of 127.0.0.1, and keeps its data in memory or in a folder that is deleted at
its end. The key is `test`, the secret `testtest`. Raises CannotStart if a server is not built or does not start.
"""

import importlib.util
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.stores.leash import CannotStart, leashed

KEY, SECRET = "test", "testtest"
MOTO = Path(__file__).resolve().with_name("moto_server.py")
BUILD = Path(__file__).resolve().parents[3] / "tools" / "s3" / "build.py"


def found(name: str) -> Path | None:
    spec = importlib.util.spec_from_file_location("highwater_s3_build", BUILD)
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    return build.find(name)


@contextmanager
def s3_server(name: str) -> Iterator[str]:
    """Start a server and yield its URL. Tests must reject `moto-plain` and `moto-deaf`."""
    name, _, kind = name.partition("-")
    if name == "moto":
        with leashed(name, lambda port: [sys.executable, str(MOTO), str(port), *[kind] * bool(kind)]) as url:
            yield url
        return
    program = found(name)
    if not program:
        raise CannotStart(f"{name} is not built: run `python3 tools/s3/build.py {name}`")
    with tempfile.TemporaryDirectory(prefix=f"{name}-") as folder, leashed(name, COMMANDS[name](str(program), folder)) as url:
        yield url


def versitygw(program: str, folder: str):
    """It verifies signatures. Metadata is in extended attributes; beside the files where the file system has none."""
    for part in ("data", "beside"):
        os.mkdir(f"{folder}/{part}")
    try:
        os.setxattr(f"{folder}/data", "user.highwater", b"1")
        options = []
    except (OSError, AttributeError):
        options = ["--sidecar", f"{folder}/beside"]
    return lambda port: [program, "--port", f"127.0.0.1:{port}", "--access", KEY, "--secret", SECRET, "--quiet", "--keep-alive",
                         "posix", *options, f"{folder}/data"]


def minio(program: str, folder: str):
    settings = [f"MINIO_ROOT_USER={KEY}", f"MINIO_ROOT_PASSWORD={SECRET}", "MINIO_BROWSER=off", "MINIO_UPDATE=off"]
    return lambda port: ["env", *settings, program, "server", "--quiet", "--address", f"127.0.0.1:{port}", folder]


def gofakes3(program: str, folder: str):
    """Start gofakes3 with its data in memory; it checks no credentials."""
    return lambda port: [program, "-host", f"127.0.0.1:{port}", "-backend", "memory", "-quiet"]


COMMANDS = {"versitygw": versitygw, "minio": minio, "gofakes3": gofakes3}
SERVERS = ["moto", "versitygw", *["minio"] * bool(found("minio"))]  # that the suite runs on

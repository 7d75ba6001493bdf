"""Start versitygw, MinIO or gofakes3, as tools/s3/build.py built them.

Each runs in a process of its own, on a free port of 127.0.0.1, and keeps its data in memory or in a folder that is deleted at
its end. The key is `test`, the secret `testtest`.
"""

import os
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from highwater.project import PACKAGE
from highwater.servers.leash import CannotStart, leashed

KEY, SECRET = "test", "testtest"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1",
               "AWS_DEFAULT_REGION": "us-east-1"}
BUILD = PACKAGE / "tools/s3/build.py"
OnPort = Callable[[int], list[str]]  # the command that starts a server on a port


def found(name: str) -> Path | None:
    """Return the program of a server, if it is built."""
    spec = spec_from_file_location("highwater_s3_build", BUILD)
    assert spec and spec.loader  # as for every file that ends in .py
    build = module_from_spec(spec)
    spec.loader.exec_module(build)
    return build.find(name)


def program_of(name: str) -> Path:
    """Return the program of a server. Raises CannotStart if it is not built."""
    if program := found(name):
        return program
    raise CannotStart(f"{name} is not built: run `python3 {BUILD} {name}`")


@contextmanager
def s3_server(name: str = "versitygw") -> Generator[str, None, None]:
    """Start a server and yield its URL. Raises CannotStart if it is not built or does not start."""
    program = program_of(name)
    with tempfile.TemporaryDirectory(prefix=f"{name}-") as folder, leashed(name, COMMANDS[name](str(program), folder)) as url:
        yield url


def new_bucket(url: str) -> str:
    """Make a bucket on a server, and return its name. Raises CannotStart if the server does not answer, or refuses it."""
    from botocore.exceptions import BotoCoreError, ClientError

    from highwater.impl.stores.s3 import connect

    bucket = f"recorded-{time.time_ns() // 1_000_000:x}"
    try:
        connect(url).create_bucket(Bucket=bucket)
    except (BotoCoreError, ClientError) as error:
        raise CannotStart(f"{url}: no bucket can be made: {error}") from None
    return bucket


def versitygw(program: str, folder: str) -> OnPort:
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


def minio(program: str, folder: str) -> OnPort:
    settings = [f"MINIO_ROOT_USER={KEY}", f"MINIO_ROOT_PASSWORD={SECRET}", "MINIO_BROWSER=off", "MINIO_UPDATE=off"]
    return lambda port: ["env", *settings, program, "server", "--quiet", "--address", f"127.0.0.1:{port}", folder]


def gofakes3(program: str, folder: str) -> OnPort:
    """Start gofakes3 with its data in memory; it checks no credentials."""
    return lambda port: [program, "-host", f"127.0.0.1:{port}", "-backend", "memory", "-quiet"]


COMMANDS = {"versitygw": versitygw, "minio": minio, "gofakes3": gofakes3}

"""Records released SlateDB clients on versitygw, a real S3 server: each client is a process with its own recorder port.

    with recorded(log, A="0.17.0", B="0.17.0") as scene:
        scene.A.open(path="db", url=URL)
        scene.rules("hold PUT db/manifest/* client=A")
        flushing = scene.begin(scene.A.flush)
        scene.wait_for_hold()
        scene.rules("")
        flushing.told()         # "ok", or what the client raised

The test is skipped with a message if the server or a release is missing.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from highwater.recorder.session import Session, recording
from highwater.servers.leash import CannotStart
from highwater.servers.s3 import KEY, SECRET
from tests.support.slatedb.client import Client, PeerError, client
from tests.support.slatedb.releases import NotInstalled
from tests.support.stores.s3_servers import s3_server

BUCKET = "bucket"
URL = f"s3://{BUCKET}"
KEEP_BYTES = 1 << 20  # of each body, so that a manifest is in the log as a whole
A_SECOND_OLD_S = 1.2  # servers give times in whole seconds, and collectors spare objects of the current one
LIMIT_S = 120


class Asked:
    """A client's call that runs in a thread of its own."""

    def __init__(self, work: Callable[[], Any]):
        self._told: list[str] = []
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self._thread.start()

    def _run(self, work: Callable[[], Any]) -> None:
        try:
            work()
            self._told.append("ok")
        except PeerError as error:
            self._told.append(str(error))

    def told(self) -> str:
        self._thread.join(LIMIT_S)
        return self._told[0] if self._told else f"nothing within {LIMIT_S} s"


class Scene:
    """A client for each name that was given; the recorder; and what they wrote, as anybody else sees it."""

    def __init__(self, server: str, session: Session, clients: dict[str, Client]):
        self.server, self.session, self.clients = server, session, clients
        self.rules = session.rules

    def __getattr__(self, name: str) -> Client:
        try:
            return self.clients[name]
        except KeyError:
            raise AttributeError(name) from None

    def begin(self, work: Callable[[], Any]) -> Asked:
        return Asked(work)

    def wait_for_hold(self) -> None:
        self.session.wait(lambda session: session.held(), LIMIT_S)

    def collect_all(self, name: str, path: str = "db", **options: Any) -> None:
        """Let the client of that name collect, after a wait that makes every file old enough."""
        time.sleep(A_SECOND_OLD_S)
        self.clients[name].collect(path=path, url=URL, **options)

    def ids(self, folder: str, path: str = "db") -> list[int]:
        """List the ids of the files in a folder of the store. The recorder does not see these requests."""
        pages = s3(self.server).get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"{path}/{folder}/")
        return [int(one["Key"].rpartition("/")[2].partition(".")[0]) for page in pages for one in page.get("Contents", [])]


def s3(url: str) -> Any:
    return boto3.client("s3", endpoint_url=url, aws_access_key_id=KEY, aws_secret_access_key=SECRET, region_name="us-east-1",
                        config=Config(s3={"addressing_style": "path"}, read_timeout=LIMIT_S))


def environment(url: str) -> dict[str, str]:
    """Return the environment variables by which releases before 0.17 find a store."""
    return {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1", "AWS_ENDPOINT": url,
            "AWS_ALLOW_HTTP": "true"}


@contextmanager
def recorded(log: Path, others: tuple[str, ...] = (), limit_s: float = 600, **releases: str) -> Iterator[Scene]:
    """A client of each release under its name, until the limit: what they are asked later raises PeerError. `others` have a
    port of the recorder, too. The log is whole when the block has ended without an error."""
    with ExitStack() as stack:
        try:
            server = stack.enter_context(s3_server("versitygw"))
            s3(server).create_bucket(Bucket=BUCKET)
            file = stack.enter_context(open(log, "w"))
            session = stack.enter_context(recording(server, (*releases, *others), log=file, keep_bytes=KEEP_BYTES))
            clients = {name: stack.enter_context(client(release, environment(session.urls[name])))
                       for name, release in releases.items()}
        except (CannotStart, NotInstalled) as error:
            pytest.skip(str(error))
        watchdog = threading.Timer(limit_s, lambda: [one.kill() for one in clients.values()])
        stack.callback(watchdog.cancel)
        watchdog.start()
        yield Scene(server, session, clients)
        session.rules("")
        session.wait(lambda one: one._recorder.quiet, LIMIT_S)

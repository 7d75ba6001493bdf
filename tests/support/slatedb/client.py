"""A released SlateDB client in a process of its own; methods send it requests: `peer("0.17.0").open(path="db")`."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.support.slatedb.releases import python_of

SCRIPT = Path(__file__).with_name("peer.py")


class PeerError(Exception):
    """The error that the client raised, as text."""


class Client:
    """Each attribute is a method of peer.Peer."""

    def __init__(self, process: subprocess.Popen, name: str = ""):
        self._process, self._name = process, name

    def __getattr__(self, name: str) -> Any:
        return lambda **arguments: self._ask(name, arguments)

    def at(self, name: str) -> "Client":
        """Return a client with a writer and a reader of its own in the same process."""
        return Client(self._process, name)

    def kill(self) -> None:
        self._process.kill()

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def _ask(self, name: str, arguments: dict[str, Any]) -> Any:
        try:
            self._process.stdin.write(json.dumps({"do": name, "with": arguments, "at": self._name}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise PeerError(f"the client ended with {self._process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise PeerError(answer["error"])
        return answer["is"]


@contextmanager
def client(release: str, environment: dict[str, str] | None = None) -> Iterator[Client]:
    """Raises NotInstalled. The process ends with the block, whatever it was doing."""
    process = subprocess.Popen([str(python_of(release)), str(SCRIPT)], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, env=os.environ | (environment or {}))
    try:
        yield Client(process)
    finally:
        process.kill()
        process.wait()
        with suppress(BrokenPipeError):  # a request that a killed client has not read
            process.stdin.close()
        process.stdout.close()


def compacting(release: str) -> dict[str, str]:
    """Settings of a writer whose compactor is quick."""
    quick = {"compactor_options.poll_interval": "50ms", "manifest_poll_interval": "50ms"}
    return quick if release == "0.13.1" else quick | {"compactor_options.commit_compacted_interval": "50ms",
                                                      "compactor_options.worker.compactions_poll_interval": "50ms"}

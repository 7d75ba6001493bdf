"""Processes of a metadata index for tests. None outlives the context."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from highwater.impl.errors import StoreError
from highwater.impl.stores.certificates import Files
from highwater.impl.stores.grpc_calls import Channel
from highwater.impl.stores.stream_net import Address
from highwater.index.client import Client
from highwater.index.operator import STATUS
from highwater.servers.leash import free_port

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 60.0


def command(*words: Any) -> list[str]:
    return [sys.executable, "-m", "highwater", *map(str, words)]


def highwater(*words: Any) -> subprocess.CompletedProcess[str]:
    """Run a command line to its end."""
    return subprocess.run(command(*words), cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S)


class Cluster:
    """Processes with a folder and an API each."""

    def __init__(self, folder: Path, names: Sequence[str] = ("1", "2", "3"), options: Sequence[str] = ()):
        self.folder, self.names, self.options = folder, tuple(names), tuple(options)
        self.apis = {name: Address("127.0.0.1", free_port()) for name in names}
        self.peers = {name: Address("127.0.0.1", free_port()) for name in names}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.certificates: dict[str, Files] = {}  # of the nodes; none: nothing is encrypted
        self.files: Files | None = None  # the certificate of clients
        self.clocks: dict[str, Path] = {}  # how far the clock of a node is ahead: see tests/support/shifted.py
        self.environment: dict[str, str] = {}

    def start(self, *names: str) -> None:
        for name in names or self.names:
            joined = () if len(self.names) == 1 else (
                "--node", name, "--peers", listed(self.peers), "--apis", listed(self.apis))
            words = command("index", "serve", self.folder / name, "--api", self.apis[name], "--tick-ms", 20,
                            "--snapshot-entries", 200, *joined, *encrypted(self.certificates.get(name)), *self.options)
            if name in self.clocks:
                words = [sys.executable, "-m", "tests.support.shifted", str(self.clocks[name]), *words[3:]]
            with (self.folder / f"{name}.log").open("ab") as log:
                self.processes[name] = subprocess.Popen(words, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                                        env=os.environ | self.environment)

    def said(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    async def end(self, name: str, number: int = signal.SIGTERM) -> int:
        process = self.processes.pop(name)
        process.send_signal(signal.SIGCONT)
        process.send_signal(number)
        async with asyncio.timeout(LIMIT_S):
            while process.poll() is None:
                await asyncio.sleep(0.01)
        return process.returncode

    def client(self, limit_s: float = 20.0) -> Client:
        return Client(self.apis, self.files, limit_s)

    def channel(self, name: str) -> Channel:
        return Channel(self.apis[name], self.files)

    async def status(self, name: str) -> dict[str, Any] | None:
        async with self.channel(name) as channel:
            try:
                return json.loads(await channel.call(STATUS, b"", 5.0))
            except StoreError:
                return None

    async def leader(self) -> str:
        """Wait until all processes that run follow one leader."""
        async with asyncio.timeout(LIMIT_S):
            while True:
                found = [await self.status(name) for name in self.processes]
                leaders = {one["leader"] if one else "" for one in found}
                if len(leaders) == 1 and "" not in leaders:
                    return leaders.pop()
                await asyncio.sleep(0.05)


def encrypted(files: Files | None) -> list[str]:
    """Return the options for a certificate."""
    return ["--tls-ca", files[0], "--tls-cert", files[1], "--tls-key", files[2]] if files else []


def listed(nodes: dict[str, Address]) -> str:
    return ",".join(f"{name}={address}" for name, address in nodes.items())


@asynccontextmanager
async def cluster(folder: Path, **options: Any) -> AsyncIterator[Cluster]:
    """Give processes that have begun to start."""
    made = Cluster(folder, **options)
    made.start()
    try:
        yield made
    finally:
        for name in list(made.processes):
            await made.end(name, signal.SIGKILL)

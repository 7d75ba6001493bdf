"""Processes of a cluster for tests: start, stop, kill, and let fail. None outlives the context, nor the test's process."""

import asyncio
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random
from typing import IO, Any

from highwater.cluster.client import Client
from highwater.impl.errors import StoreError
from highwater.impl.level import FORMS
from highwater.impl.stores.certificates import Files, Tls
from highwater.impl.stores.stream_net import Address
from highwater.servers.leash import free_port
from tests.cluster.proxy import Proxy

ROOT = Path(__file__).resolve().parents[2]
MACHINE = str(ROOT / "examples" / "registers" / "machine.py") + ":SERVICE"
EVERYBODY = "*"  # who dials a node that joined: the log has one address of it
LIMIT_S = 60.0  # for what takes less than a second on a quiet machine


class Cluster:
    """Processes with a folder each. Their connections go through proxies."""

    def __init__(self, folder: Path, names: Sequence[str] = ("1", "2", "3"), seed: int = 0, bug: str = "", tick_ms: int = 50,
                 snapshot_entries: int = 400, machine: str = MACHINE, forms: int = FORMS):
        self.folder, self.names, self.random = folder, tuple(names), Random(seed)
        self.options: dict[str, Any] = {"bug": bug, "tick_ms": tick_ms, "snapshot_entries": snapshot_entries,
                                        "tls": None, "machine": machine, "forms": forms, "cluster": "main",
                                        "roles_required": False}
        self.certificates: dict[str, Files] = {}  # of some nodes, and not those of the options
        self.tls: Tls | None = None  # of clients
        self.addresses = {name: Address("127.0.0.1", free_port()) for name in names}
        self.metrics = {name: free_port() for name in names}
        self.proxies: dict[tuple[str, str], Proxy] = {}
        self.dialled: dict[tuple[str, str], Address] = {}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.founders = self.names
        self.copiers: dict[str, threading.Thread] = {}

    async def open(self) -> None:
        for one in self.names:
            for other in self.names:
                if one != other:
                    await self._connect(one, other)

    async def _connect(self, one: str, other: str) -> None:
        proxy = Proxy(self.addresses[other], Random(self.random.random()))
        self.proxies[one, other], self.dialled[one, other] = proxy, await proxy.start()

    async def add(self, name: str) -> Address:
        """Start a process that is no member, and knows where the founders are. Return where the others should dial it."""
        self.names = (*self.names, name)
        self.addresses[name], self.metrics[name] = Address("127.0.0.1", free_port()), free_port()
        for one, other in ((EVERYBODY, name), *((name, founder) for founder in self.founders)):
            await self._connect(one, other)
        self.start(name)
        await self.answers(name)
        return self.dialled[EVERYBODY, name]

    async def remove(self, name: str) -> None:
        """Forget a process that has ended for ever, and its folder."""
        self.names = tuple(other for other in self.names if other != name)
        for link in [link for link in self.proxies if name in link and name not in self.founders]:
            await self.proxies.pop(link).close()
        shutil.rmtree(self.folder / name)

    async def answers(self, name: str) -> None:
        """Wait until a process answers."""
        async with asyncio.timeout(LIMIT_S), self.client() as client:
            while await status(client, name) is None:
                await asyncio.sleep(0.02)

    async def said_so(self, name: str, what: str) -> None:
        """Wait until a process has said this."""
        async with asyncio.timeout(LIMIT_S):
            while what not in self.said(name):
                await asyncio.sleep(0.02)

    async def close(self) -> None:
        for name in list(self.processes):
            await self.kill(name)
        for proxy in self.proxies.values():
            await proxy.close()

    def start(self, *names: str) -> None:
        for name in names or self.names:
            known = self.founders if name in self.founders else (*self.founders, name)
            nodes = {other: self.dialled.get((name, other), self.addresses[other]) for other in known}
            wanted = {"parent": os.getpid(), "folder": str(self.folder / name), "node": name, "nodes": nodes,
                      "listen": self.addresses[name], "metrics": self.metrics[name],
                      "join": name not in self.founders, **self.options}
            wanted["tls"] = self.certificates.get(name, wanted["tls"])
            command = [sys.executable, "-m", "tests.cluster.node", json.dumps(wanted)]
            process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                       stderr=subprocess.STDOUT)
            copier = threading.Thread(target=copy, args=(process.stdout, self.log(name)), daemon=True)
            copier.start()
            self.processes[name], self.copiers[name] = process, copier

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def said(self, name: str) -> str:
        return self.log(name).read_text()

    def is_running(self, name: str) -> bool:
        return name in self.processes and self.processes[name].poll() is None

    def signal(self, name: str, number: int) -> None:
        self.processes[name].send_signal(number)

    async def kill(self, name: str) -> None:
        self.signal(name, signal.SIGKILL)
        await self.ended(name)

    async def stop(self, name: str) -> int:
        """End a process in good order; return its exit code."""
        self.signal(name, signal.SIGTERM)
        return await self.ended(name)

    async def ended(self, name: str) -> int:
        """Wait until a process has ended; return its exit code."""
        process = self.processes.pop(name)
        async with asyncio.timeout(LIMIT_S):
            while process.poll() is None:
                await asyncio.sleep(0.01)
        self.copiers[name].join(LIMIT_S)
        return process.returncode

    def fill_disk(self, name: str) -> None:
        """Let no file of a process grow beyond what the largest has now."""
        largest = max(file.stat().st_size for file in (self.folder / name).iterdir())
        with suppress(ProcessLookupError):
            resource.prlimit(self.processes[name].pid, resource.RLIMIT_FSIZE, (largest, largest))

    def client(self, limit_s: float = 5.0) -> Client:
        return Client(self.addresses, self.options["cluster"], self.tls, limit_s)

    async def leader(self) -> str:
        """Wait until a node leads that has committed something in its term, and all that run follow it."""
        end_s = time.monotonic() + LIMIT_S
        async with self.client() as client:
            while True:
                found = [answer for name in self.names if self.is_running(name)
                         and (answer := await status(client, name)) is not None]
                leaders = {answer["leader"] for answer in found}
                if len(leaders) == 1 and len(found) == sum(map(self.is_running, self.names)) and "" not in leaders:
                    leader = next((answer for answer in found if answer["node"] in leaders), None)
                    if leader is not None and leader["role"] == "leader" and leader["commit"] == leader["last"]:
                        return leader["node"]
                assert time.monotonic() < end_s, f"no leader: {found}; {[self.said(name)[-2000:] for name in self.names]}"
                await asyncio.sleep(0.02)


def copy(pipe: IO[bytes], path: Path) -> None:
    """Copy what a process says into a file. It has no file of its own, since a limit of file sizes would hold for that, too."""
    with pipe, path.open("ab", buffering=0) as file:
        while data := os.read(pipe.fileno(), 1 << 16):
            file.write(data)


async def status(client: Client, name: str) -> dict[str, Any] | None:
    """Return what a node says of itself; None if it does not answer."""
    try:
        return await client.status(name)
    except StoreError:
        return None


@asynccontextmanager
async def cluster(folder: Path, **options: Any) -> AsyncIterator[Cluster]:
    """Give three processes that have begun to start."""
    made = Cluster(folder, **options)
    await made.open()
    try:
        made.start()
        yield made
    except BaseException as error:
        for name in made.names:
            error.add_note(f"node {name!r}, running={made.is_running(name)}, said: {made.said(name)[-2000:]}")
        raise
    finally:
        await made.close()

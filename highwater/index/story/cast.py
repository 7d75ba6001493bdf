"""The processes of a story: three nodes, workers and writers, on one bucket; and what the nodes say of themselves."""

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from highwater.impl.errors import StoreError
from highwater.impl.stores.grpc_calls import Channel
from highwater.impl.stores.stream_net import Address
from highwater.index.operator import SNAPSHOT, STATUS
from highwater.index.story.blocks import PERIODS_S
from highwater.index.story.processes import Broken, Process
from highwater.servers.leash import free_port

PROGRAM = (sys.executable, "-m", "highwater")
WRITER = (sys.executable, "-m", "highwater.index.story.writer")
NAMES = ("1", "2", "3")
S = 1_000_000_000  # ns
DELAY_S, SWEEP_MS, CLEAN_MS = 6, 300, 500
SETTINGS = {"retry_ns": 3 * S, "horizon_ns": 5 * S, "delay_ns": DELAY_S * S, "lease_ns": 3 * S // 2, "retry_failed_ns": S // 2,
            "query_ns": 3 * S}
SERVE = ("--tick-ms", "20", "--snapshot-entries", "200", "--levels", "5:1000,3:3000", "--sweep-ms", str(SWEEP_MS),
         "--clean-ms", str(CLEAN_MS), *(word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")),
         "--retain-s", str(PERIODS_S["b"]), "--retain-tenant", f"a={PERIODS_S['a']}", "--quiet")
WELL_S = 120.0  # for all nodes to follow one leader


class Numbers(NamedTuple):
    """The amounts of a story."""

    writers: int = 2
    workers: int = 2
    pause_ms: int = 150  # of a writer, on average
    fault_s: float = 0.7  # between two faults, on average


class Cast:
    """All processes of a story. `program`: what the commands of the index are asked of."""

    def __init__(self, folder: Path, url: str, seed: int, numbers: Numbers, program: Sequence[str] = PROGRAM,
                 writer: Sequence[str] = WRITER):
        self.folder, self.url, self.program = folder, url, tuple(program)
        self.apis = {name: Address("127.0.0.1", free_port()) for name in NAMES}
        self.peers = {name: Address("127.0.0.1", free_port()) for name in NAMES}
        self.at = listed(self.apis)
        self.journals = [folder / f"writer-{number}.ndjson" for number in range(numbers.writers)]
        self.nodes = {name: self.process(f"node-{name}", self.node_words(name)) for name in NAMES}
        self.workers = [self.process(f"worker-{number}", [
            *program, "index", "work", url, "--at", self.at, "--poll-ms", "50", "--renew-ms", "300"])
            for number in range(numbers.workers)]
        self.writers = [self.process(f"writer-{number}", [
            *writer, url, self.at, str(journal), str(number), str(numbers.writers + 1), str(seed), str(numbers.pause_ms)])
            for number, journal in enumerate(self.journals)]

    def node_words(self, name: str) -> list[str]:
        return [*self.program, "index", "serve", str(self.folder / f"node-{name}"), "--node", name, "--peers",
                listed(self.peers), "--apis", self.at, "--api", str(self.apis[name]), "--bucket", self.url, *SERVE]

    def process(self, name: str, words: list[str]) -> Process:
        return Process(name, words, self.folder / f"{name}.log", os.environ)

    @property
    def all(self) -> list[Process]:
        return [*self.nodes.values(), *self.workers, *self.writers]

    def check(self) -> None:
        """Raise Broken if a process has ended by itself."""
        for process in self.all:
            process.check()

    def close(self) -> None:
        for process in self.all:
            process.close()

    # --- what nodes say

    async def status(self, name: str) -> dict[str, Any]:
        """Return what a node says of itself; {} if it does not answer."""
        if not self.nodes[name].runs:
            return {}
        async with Channel(self.apis[name]) as channel:
            try:
                return json.loads(await channel.call(STATUS, b"", 1.0))
            except StoreError:
                return {}

    async def leader(self) -> str:
        """Return the node that leads by what most nodes say; "" if they do not agree."""
        said = [of.get("leader", "") for of in await asyncio.gather(*map(self.status, NAMES))]
        names = [name for name in NAMES if said.count(name) * 2 > len(NAMES)]
        return names[0] if names else ""

    async def well(self, limit_s: float = WELL_S) -> bool:
        """Wait until all nodes follow one leader; return whether they do within the time."""
        try:
            async with asyncio.timeout(limit_s):
                while True:
                    said = {of.get("leader", "") for of in await asyncio.gather(*map(self.status, NAMES))}
                    if len(said) == 1 and "" not in said:
                        return True
                    self.check()
                    await asyncio.sleep(0.05)
        except TimeoutError:
            return False

    async def backup(self, name: str) -> bytes:
        """Return the snapshot file of a node: all that was acknowledged before. Raises StoreError."""
        async with Channel(self.apis[name]) as channel:
            return b"".join([part async for part in channel.parts(SNAPSHOT, b"", 20.0)])

    # --- commands

    async def command(self, *words: str, codes: Sequence[int] = (0,)) -> int:
        """Run a command of the index to its end. Raises Broken if it ends with none of these exit codes."""
        log = self.folder / "commands.log"
        with log.open("ab") as out:
            out.write(f"$ highwater index {' '.join(words)}\n".encode())
            out.flush()
            ran = await asyncio.create_subprocess_exec(*self.program, "index", *words, stdin=asyncio.subprocess.DEVNULL,
                                                       stdout=out, stderr=out)
            try:
                code = await ran.wait()
            finally:
                if ran.returncode is None:
                    ran.kill()
        if code not in codes:
            raise Broken(f"`highwater index {words[0]}` ended with {code}: see {log}")
        return code


def listed(nodes: dict[str, Address]) -> str:
    return ",".join(f"{name}={address}" for name, address in nodes.items())

"""An index with hostile clients and peers, an odd store and clocks that jump: nothing acknowledged is lost, no node stops."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from highwater.impl.codecs.index.messages import encode
from highwater.impl.errors import StoreError
from highwater.impl.index.letters.letter import QUEUE, key_of
from highwater.impl.stores.grpc_calls import Channel
from highwater.impl.stores.roles import OPERATOR, Roles
from highwater.impl.world import list_all
from highwater.index.client import Client
from highwater.servers.s3 import KEY, SECRET
from tests.cluster.hostile import Process
from tests.cluster.test_hostile import LONGEST_S, MOST_MEMORY_KIB, P99_S, p99, stolen
from tests.cluster.test_judged import memory_kib
from tests.cluster.test_roles import Certificates
from tests.index.processes import Cluster
from tests.index.soak import SETTINGS, Soak
from tests.support.certificates import Authority
from tests.support.stores.odd_s3 import BUCKET, OddS3, odd_s3

ODD = 0.05  # of the store's replies
JUMPS_S = (60, -60, 10 * 24 * 3600, 365 * 24 * 3600)
ENVIRONMENT = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_DEFAULT_REGION": "us-east-1"}
JUNK = [QUEUE + "/".join(["s" * 200] * 6)[:size] for size in (1_012, 1_019, 1_020)] + [f"{QUEUE}1/t/\x01\x1b[2J/meta.pb"]


class HostileSoak(Soak):
    """A run in which nobody is killed: the clients, the store and the clocks mean harm."""

    def __init__(self, cluster: Cluster, folder: Path, seed: int, store: OddS3, jumps_s: tuple[int, ...]):
        super().__init__(cluster, folder, seed)
        self.objects, self.store, self.odd, self.jumps_s = f"s3://{BUCKET}", store.store, store, jumps_s
        self.took_s: list[float] = []
        self.failed = 0  # good calls

    async def timed(self, call: Any) -> Any:
        begun_s = time.monotonic()
        try:
            return await call
        except StoreError as error:
            self.failed += 1
            self.counts[str(error)[:60]] += 1
            raise
        finally:
            self.took_s.append(time.monotonic() - begun_s)

    async def add(self, client: Client, block: Any) -> bool:
        """Add a block, or leave it to the dead letters."""
        if self.random.random() < 0.05:
            await self.store.put(key_of(block), encode(block))
            self.counts["letters"] += 1
            return False
        failed = self.counts["added"]
        added = await self.timed(super().add(client, block))
        self.failed += self.counts["added"] == failed
        return added

    async def ask(self, channel: Channel, objects: int) -> None:
        await self.timed(super().ask(channel, objects))

    async def faults(self) -> None:
        """Let the clock of the node that leads jump, and check that all run."""
        while not self.over:
            await asyncio.sleep(0.5)
            self.check_run()
            if self.jumps_s and self.random.random() < 0.2:
                name = await self.cluster.leader()
                self.cluster.clocks[name].write_text(str(1_000 * self.random.choice(self.jumps_s)))
                await asyncio.sleep(self.random.uniform(0.1, 1.0))
                self.cluster.clocks[name].write_text("0")
                self.counts["clocks jumped"] += 1

    def check_run(self) -> None:
        for name, process in self.cluster.processes.items():
            said = self.cluster.said(name)
            assert process.poll() is None and "Traceback" not in said and "andshake failed" not in said, said[-3000:]

    async def end(self) -> None:
        self.odd.odd = 0.0
        await super().end()
        async with asyncio.timeout(60):
            while any(entry.key not in JUNK for entry in await list_all(self.store, QUEUE)):
                await asyncio.sleep(0.2)
        self.check_run()


async def lived(folder: Path, seconds: float, seed: int, jumps_s: tuple[int, ...]) -> tuple[HostileSoak, Any, int]:
    """Return the run, what hostile clients did, and the largest memory of a node in KiB."""
    authority = Authority(folder)
    made, three = Certificates(authority), Cluster(folder, options=(
        *SETTINGS, "--roles", "required", "--bucket", f"s3://{BUCKET}", "--sweep-ms", "500"))
    three.certificates = {name: made.node(name) for name in three.names}
    three.files = authority.signed("operator", roles=[Roles("main").uri(OPERATOR)])
    three.clocks = {name: folder / f"{name}.clock" for name in three.names}
    with odd_s3(seed) as store:
        three.environment = {**ENVIRONMENT, "AWS_ENDPOINT_URL_S3": store.url}
        for key in JUNK:
            await store.store.put(key, b"\xff")
        three.start()
        try:
            await three.leader()
            soak = HostileSoak(three, folder, seed, store, jumps_s)
            apis = [*three.apis.values()]
            hostile = Process("tests.index.hostile", nodes=three.peers, apis=apis, ports=apis, seed=seed, cluster="main",
                              files=stolen(made, folder), takes_clients=False,
                              now_ms=time.time_ns() // 1_000_000)
            store.odd = ODD
            await hostile.start()
            living = asyncio.ensure_future(soak.live(seconds))
            await asyncio.wait([living], timeout=seconds)
            counts = await hostile.stop()
            await living
            return soak, counts, max(memory_kib(process.pid) for process in three.processes.values())
        finally:
            for name in list(three.processes):
                await three.end(name, 9)


def judged(folder: Path, seconds: float, seed: int, jumps_s: tuple[int, ...] = JUMPS_S) -> None:
    soak, counts, most_kib = asyncio.run(lived(folder, seconds, seed, jumps_s))
    print(f"seed {seed}: {len(soak.took_s):,} calls, {soak.failed:,} failed, p99 {p99(soak.took_s):.2f} s, longest "
          f"{max(soak.took_s):.2f} s, {most_kib >> 10} MiB, {len(soak.acknowledged):,} acknowledged, {soak.odd.counts:,} odd "
          f"replies, {dict(soak.counts)}; {dict(counts)}")
    assert not soak.wrong, (len(soak.wrong), soak.wrong[:5])
    assert len(soak.acknowledged) > 2 * seconds and soak.counts["answers"] > seconds and soak.counts["compacted"] > 0
    assert soak.failed < 0.05 * len(soak.took_s) and soak.counts["replicas compared"] and soak.odd.counts > seconds / 3
    assert p99(soak.took_s) <= P99_S and max(soak.took_s) <= LONGEST_S and most_kib <= MOST_MEMORY_KIB
    assert soak.counts["clocks jumped"] or not jumps_s
    for name in ("flood", "odd_calls", "costly_queries", "label_bomb", "huge_calls", "wrong_calls", "many_calls", "fake_peer"):
        assert any(one.startswith(name) for one in counts), (name, counts)


def test_thirty_seconds_of_hostile_clients_lose_nothing(tmp_path):
    judged(tmp_path, 30, seed=1)


@pytest.mark.slow
def test_ten_minutes_of_hostile_clients_lose_nothing(tmp_path):
    judged(tmp_path, 600, seed=2)

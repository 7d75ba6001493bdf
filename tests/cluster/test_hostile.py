"""A cluster with hostile clients and peers beside good ones: nothing acknowledged is lost, no node stops, calls stay short."""

import asyncio
import time
from collections import Counter
from pathlib import Path

import pytest

from highwater.cluster.client import Client
from highwater.impl.stores.certificates import Files
from highwater.impl.stores.roles import Roles, peer
from tests.cluster.hostile import MEMBER, Process
from tests.cluster.processes import Cluster
from tests.cluster.test_judged import memory_kib
from tests.cluster.test_roles import Certificates, encrypted
from tests.cluster.workload import Workload
from tests.support.certificates import Authority

CLIENTS = 4
P99_S, LONGEST_S = 5.0, 30.0
MOST_MEMORY_KIB = 512 << 10


class Timed(Workload):
    """A workload whose calls are timed."""

    def __init__(self, client: Client, names: tuple[str, ...], seed: int):
        super().__init__(client, names, seed)
        self.took_s: list[float] = []

    async def call(self, key: str, asked: tuple, node: str) -> None:
        begun_s = time.monotonic()
        await super().call(key, asked, node)
        self.took_s.append(time.monotonic() - begun_s)


def p99(took_s: list[float]) -> float:
    return sorted(took_s)[len(took_s) * 99 // 100]


def stolen(made: Certificates, folder: Path) -> dict[str, Files]:
    """Return the certificates of hostile clients."""
    (folder / "other").mkdir()
    client = made.authority.signed("hostile-client", roles=[Roles("main").uri("client")])
    ghost = made.authority.signed("ghost", roles=[Roles("main").uri(peer("ghost"))])
    return {"client": client, "ghost": ghost, "member": made.node(MEMBER),
            "foreign": Authority(folder / "other").signed("foreign")}


async def lived(folder: Path, seconds: float, seed: int) -> tuple[Timed, Counter[str], int]:
    """Let good and hostile clients work for so many seconds. Return what they did, and the largest memory of a node in KiB."""
    async with encrypted(folder, has_roles=True, seed=seed, tick_ms=100) as (three, made), \
            Client(three.addresses, tls=made.client("client"), limit_s=LONGEST_S) as client:
        work = Timed(client, three.names, seed)
        hostile = Process("tests.cluster.hostile", nodes=three.addresses, seed=seed, cluster="main",
                          ports=[("127.0.0.1", port) for port in three.metrics.values()], files=stolen(made, folder),
                          takes_clients=True)
        await hostile.start()
        clients = asyncio.ensure_future(work.run(CLIENTS))
        try:
            until_s = time.monotonic() + seconds
            while time.monotonic() < until_s:
                check_run(three)
                await asyncio.sleep(0.5)
        finally:
            work.is_over = True
            counts = await hostile.stop()
            await clients
        await three.leader()
        await work.read_all()
        check_run(three)
        return work, counts, max(memory_kib(process.pid) for process in three.processes.values())


def check_run(three: Cluster) -> None:
    for name in three.names:
        assert three.is_running(name) and "Traceback" not in three.said(name), f"node {name!r} said {three.said(name)[-3000:]}"


def judged(folder: Path, seconds: float, seed: int) -> None:
    work, counts, most_kib = asyncio.run(lived(folder, seconds, seed))
    print(f"seed {seed}: {len(work.took_s):,} calls, p99 {p99(work.took_s):.2f} s, longest {max(work.took_s):.2f} s, "
          f"{most_kib >> 10} MiB, {dict(work.told)}; {dict(counts)}")
    assert not work.problems()
    assert work.told["ok"] > 5 * seconds and work.told["ok"] > 0.99 * work.told.total()
    assert p99(work.took_s) <= P99_S and max(work.took_s) <= LONGEST_S and most_kib <= MOST_MEMORY_KIB
    actors = {name.partition(":")[0] for name in counts}
    assert actors == {"flood", "wrong_role", "fake_peer", "stolen", "any_name", "many_clients", "does_not_read", "drips",
                      "huge"}


def test_twenty_seconds_of_hostile_clients_lose_nothing(tmp_path):
    judged(tmp_path, 20, seed=1)


@pytest.mark.slow
def test_ten_minutes_of_hostile_clients_lose_nothing(tmp_path):
    judged(tmp_path, 600, seed=2)

"""Real processes under faults: nothing acknowledged is lost, and all that clients were told is linearizable.

The faults: SIGKILL of one, two or all; SIGSTOP; dropped frames; connections cut in one direction or both; a disk that fails,
and one that is full; hand-over; a rolling restart; a node that joins, perhaps leads, and leaves; one whose folder is lost, in
whose place another one joins.
"""

import asyncio
import os
import re
from pathlib import Path

import pytest

from tests.cluster.faults import Faults
from tests.cluster.processes import Cluster, cluster
from tests.cluster.workload import Workload

CLIENTS = 6
MOST_MEMORY_KIB = 300 << 10
MOST_FOLDER_BYTES = 8 << 20


async def lived(folder: Path, seconds: float, seed: int) -> tuple[Workload, Faults, Cluster]:
    """Let clients and faults work for so many seconds, heal, and read all back on every node."""
    async with cluster(folder, seed=seed) as three, three.client(limit_s=1.0) as client:
        await three.leader()
        work = Workload(client, three.names, seed)
        faults = Faults(three, seed, work)
        clients = asyncio.ensure_future(work.run(CLIENTS))
        try:
            await faults.run(seconds)
        finally:
            work.is_over = True
            await clients
        await three.leader()
        client.limit_s = 30.0
        await work.read_all()
        for name in three.names:
            assert memory_kib(three.processes[name].pid) < MOST_MEMORY_KIB
            assert sum(file.stat().st_size for file in (folder / name).iterdir()) < MOST_FOLDER_BYTES
        return work, faults, three


def memory_kib(pid: int) -> int:
    """Return the largest memory that a process has had; 0 where the system does not tell."""
    status = Path(f"/proc/{pid}/status")
    found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text()) if status.exists() else None
    return int(found[1]) if found else 0


def judged(folder: Path, seconds: float, seed: int) -> tuple[Workload, Faults]:
    work, faults, three = asyncio.run(lived(folder, seconds, seed))
    print(f"seed {seed}: {dict(faults.counts)} {dict(work.told)}, {sum(map(len, work.history.values()))} calls of "
          f"{len(work.history)} keys")
    assert not work.problems()
    for name in three.names:
        assert "Traceback" not in three.said(name)
    assert work.told["ok"] > seconds * 5
    return work, faults


def test_twenty_seconds_of_faults_lose_nothing(tmp_path):
    _, faults = judged(tmp_path, 20, seed=int.from_bytes(os.urandom(4)))
    assert len(faults.counts) >= 3  # kinds; on a quiet machine all


def test_ten_minutes_of_faults_lose_nothing(tmp_path):
    work, faults = judged(tmp_path, 600, seed=int.from_bytes(os.urandom(4)))
    assert len(faults.counts) == len(faults.all) and work.told["ok"] > 10_000


# --- the judge notices


async def quiet(folder: Path, bug: str) -> list[str]:
    """Let clients work until the judge complains, for ten seconds at most."""
    async with cluster(folder, bug=bug) as three, three.client(limit_s=1.0) as client:
        await three.leader()
        for seed in range(10):
            work = Workload(client, three.names, seed)
            clients = asyncio.ensure_future(work.run(CLIENTS))
            await asyncio.sleep(1)
            work.is_over = True
            await clients
            if problems := work.problems():
                return problems
    return []


def test_reads_without_the_leaders_word_are_noticed(tmp_path):
    assert asyncio.run(quiet(tmp_path, "unconfirmed"))


def test_disks_that_forget_are_noticed(tmp_path):
    async def work() -> bool:
        async with cluster(tmp_path, bug="forgets") as three, three.client() as client:
            await three.leader()
            for seed in range(10):
                work = Workload(client, three.names, seed)
                for value in range(5):
                    await work.call("l0", ("append", value), "1")
                for name in three.names:
                    await three.kill(name)
                three.start()
                await three.leader()
                await work.read_all()
                if work.problems():
                    return True
        return False

    assert asyncio.run(work())


@pytest.mark.parametrize("seed", range(2))
def test_a_quiet_cluster_is_not_blamed(tmp_path, seed):
    async def work() -> list[str]:
        async with cluster(tmp_path) as three, three.client() as client:
            await three.leader()
            work = Workload(client, three.names, seed)
            clients = asyncio.ensure_future(work.run(CLIENTS))
            await asyncio.sleep(1)
            work.is_over = True
            await clients
            await work.read_all()
            assert set(work.told) == {"ok"}
            return work.problems()

    assert asyncio.run(work()) == []

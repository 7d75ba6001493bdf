"""Bad input of an operator: one clear line, the exit code of its class, and nothing lost."""

import asyncio
import json
import os
import resource
import socket
import subprocess
import sys

import pytest

from highwater.impl.level import FORMS
from highwater.impl.raft import identity, snapshots
from highwater.impl.raft.identity import FolderIdentity
from highwater.impl.raft.log import DiskLog
from highwater.impl.raft.snapshots import Snapshot
from highwater.impl.raft.state import Save
from highwater.impl.stores.folder_disk import FolderDisk
from highwater.servers.leash import free_port
from tests.cluster.processes import LIMIT_S, MACHINE, ROOT, cluster
from tests.support.certificates import Authority


def highwater(*words: str, most_bytes: int = resource.RLIM_INFINITY) -> subprocess.CompletedProcess[str]:
    """Run a command, none of whose files may grow beyond `most_bytes`."""
    return subprocess.run([sys.executable, "-m", "highwater", "raft", *words], cwd=ROOT, text=True, capture_output=True,
                          timeout=LIMIT_S, env={**os.environ, "COLUMNS": "200"},
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes)))


def serve(folder, node: str = "1", nodes: str = "", *more: str) -> subprocess.CompletedProcess[str]:
    """Run `highwater raft serve`, which ends by itself only if it is refused."""
    return highwater("serve", str(folder), "--node", node, "--nodes", nodes or nodes_of("1"), "--machine", MACHINE, *more)


def nodes_of(names: str) -> str:
    return ",".join(f"{name}=127.0.0.1:{free_port()}" for name in names)


def refused(ran: subprocess.CompletedProcess[str], code: int, what: str) -> None:
    lines = [line for line in ran.stderr.splitlines() if "error:" in line]
    assert ran.returncode == code and len(lines) == 1 and what in lines[0] and "Traceback" not in ran.stderr, ran.stderr


def files(folder) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.name != ".lock"}


def test_a_port_in_use(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused(serve(tmp_path / "1", "1", f"1=127.0.0.1:{port}"), 2,
                f"node '1' cannot listen on 127.0.0.1:{port}: Address already in use: end the other process, or take")
        refused(serve(tmp_path / "1", "1", "", "--metrics", str(port)), 2,
                f"metrics cannot be served on 127.0.0.1:{port}: Address already in use")


@pytest.mark.parametrize("node,names,more,what", (
    ("1", "12", ("--cluster", "other"), "the folder is of cluster 'main', and this node was given 'other'"),
    ("2", "12", (), "the folder is of node '1', and this is node '2'"),
    ("1", "13", (), "the nodes of the group are 1, 2, and this node was given 1, 3: two groups could lead"),
))
def test_a_folder_of_somebody_else(tmp_path, node, names, more, what):
    async def work():
        async with cluster(tmp_path, names=("1", "2")) as two:
            await two.leader()

    asyncio.run(work())
    before = files(tmp_path / "1")
    refused(serve(tmp_path / "1", node, nodes_of(names), *more), 2, what)
    assert files(tmp_path / "1") == before


def test_a_second_process_in_one_folder(tmp_path):
    async def work():
        async with cluster(tmp_path) as three:
            await three.leader()
            ran = await asyncio.to_thread(serve, tmp_path / "1", "1", nodes_of("123"))
            refused(ran, 2, "another process works in this folder: end it, or take another folder")
            check = await asyncio.to_thread(highwater, "check", str(tmp_path / "1"))
            refused(check, 2, "another process works in this folder")

    asyncio.run(work())


@pytest.mark.parametrize("most_bytes", (50, 130))  # at its start, and at its first entry
def test_a_full_disk(tmp_path, most_bytes):
    words = ("serve", str(tmp_path / "1"), "--node", "1", "--nodes", nodes_of("1"), "--machine", MACHINE, "--tick-ms", "10")
    refused(highwater(*words, most_bytes=most_bytes), 3, "there is no room for log-0000000000000001: File too large; make room")


def test_two_nodes_of_one_name(tmp_path):
    async def work():
        async with cluster(tmp_path) as three:
            await three.leader()
            nodes = ",".join(f"{name}={address}" for name, address in three.addresses.items())
            twin = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "highwater", "raft", "serve", str(tmp_path / "twin"), "--node", "3", "--nodes", nodes,
                "--machine", MACHINE, "--listen", f"127.0.0.1:{free_port()}", cwd=ROOT, stderr=subprocess.PIPE)
            try:
                async with asyncio.timeout(LIMIT_S):
                    said, wanted = "", {"'1'", "'2'"}
                    while wanted:
                        said = (await twin.stderr.readline()).decode()
                        for name in list(wanted):
                            if f"another process is connected to node {name} as node '3'" in said:
                                wanted.remove(name)
                assert twin.returncode is None
                await three.leader()
            finally:
                twin.kill()
                await twin.wait()

    asyncio.run(work())


def test_an_expired_certificate(tmp_path):
    late = Authority(tmp_path).signed("late", days=-1)
    more = ("--tls-ca", late.authority, "--tls-cert", late.certificate, "--tls-key", late.key)
    refused(serve(tmp_path / "1", "1", "", *more), 2, "others would refuse it: certificate has expired; make a new one")
    assert not (tmp_path / "1").exists()
    refused(serve(tmp_path / "1", "1", "", *more[:4]), 2, "give all of --tls-ca, --tls-cert and --tls-key, or none of them")


@pytest.mark.parametrize("nodes,what", (
    ("1=127.0.0.1", "bad address '127.0.0.1': write HOST:PORT"),
    ("1=127.0.0.1:99999", "bad address '127.0.0.1:99999'"),
    ("127.0.0.1:7001", "write 1=HOST:PORT,2=HOST:PORT, each name once"),
    ("1=127.0.0.1:7001,1=127.0.0.1:7002", "each name once"),
    ("2=127.0.0.1:7001", "node '1' is none of those in --nodes: 2"),
    ("1=0.0.0.0:7001", "0.0.0.0 can be reached from other machines, and there are no certificates: give them, or allow"),
))
def test_bad_addresses(tmp_path, nodes, what):
    refused(serve(tmp_path / "1", "1", nodes), 2, what)
    assert not (tmp_path / "1").exists()


def test_bad_machines(tmp_path):
    broken = tmp_path / "broken.py"
    broken.write_text("1 / 0\n")
    for machine, what in ((f"{tmp_path}/none.py:X", "write FILE.py:NAME, with a file that is there"),
                          (f"{broken}:X", "cannot be imported: ZeroDivisionError: division by zero"),
                          (MACHINE.replace(":SERVICE", ":EMPTY"), "has no Service of the name 'EMPTY'")):
        refused(highwater("serve", str(tmp_path / "1"), "--node", "1", "--nodes", "1=127.0.0.1:7001", "--machine", machine), 2,
                what)


def test_a_damaged_snapshot_is_named(tmp_path):
    async def work():
        disk, found = FolderDisk(tmp_path / "1"), Snapshot(9, 1, ("1",), b"x" * 50)
        await disk.lock()
        await snapshots.store(disk, found)
        await DiskLog(disk, "1").write([Save(0, 1, "", 10, (), (9, 1))])
        await identity.write(disk, FolderIdentity("main", "1", ("1",)))
        await disk.close()
        return tmp_path / "1" / snapshots.name_of(9, 1)

    file = asyncio.run(work())
    file.write_bytes(file.read_bytes()[:-1])
    for ran in (serve(tmp_path / "1"), highwater("check", str(tmp_path / "1")),
                highwater("recover", str(tmp_path / "1"), "--cluster", "other")):
        refused(ran, 10, f"error: {file.name}: byte 0: the checksum of the snapshot's")


# --- status, transfer and check


def test_status_transfer_and_check(tmp_path):
    async def work():
        async with cluster(tmp_path) as three:
            leader = await three.leader()
            nodes = ",".join(f"{name}={address}" for name, address in three.addresses.items())
            shown = await asyncio.to_thread(highwater, "status", "--nodes", nodes)
            assert shown.returncode == 0 and shown.stdout.count("follower") == 2 and shown.stdout.count("leader") >= 2
            target = next(name for name in three.names if name != leader)
            moved = await asyncio.to_thread(highwater, "transfer", target, "--nodes", nodes)
            assert moved.returncode == 0 and f"handed over to node {target}" in moved.stdout
            assert await three.leader() == target
            await three.stop(leader)
            shown = await asyncio.to_thread(highwater, "status", "--nodes", nodes)
            assert shown.returncode == 3 and "cannot be reached: Connection refused" in shown.stdout
            checked = await asyncio.to_thread(highwater, "check", str(tmp_path / leader))
            assert checked.returncode == 0 and "the node can start in this folder" in checked.stdout
            assert f"node '{leader}' of cluster 'main', at level {FORMS}.1\nvoters by its log: 1, 2, 3\n" in checked.stdout
            other = await asyncio.to_thread(highwater, "status", "--nodes", nodes, "--cluster", "other")
            assert other.returncode == 3 and "is of cluster 'main', and not of 'other'" in other.stdout

    asyncio.run(work())


def test_check_finds_damage_and_changes_nothing(tmp_path):
    async def work():
        async with cluster(tmp_path, names=("1",)) as one, one.client() as client:
            await one.leader()
            for number in range(20):
                await client.propose(json.dumps({"do": "append", "key": "l", "value": number}).encode())

    asyncio.run(work())
    log = tmp_path / "1" / "log-0000000000000001"
    whole = log.read_bytes()
    log.write_bytes(whole[:-3])
    before = files(tmp_path / "1")
    torn = highwater("check", str(tmp_path / "1"))
    assert torn.returncode == 0 and "bytes of a last write that was cut: the next start removes them" in torn.stdout
    log.write_bytes(whole[:len(whole) // 2] + b"?" + whole[len(whole) // 2 + 1:])
    refused(highwater("check", str(tmp_path / "1")), 10, "no record can be read here, and one of a later batch ends")
    refused(serve(tmp_path / "1"), 10, "no record can be read here, and one of a later batch ends")
    log.write_bytes(whole[:-3])
    assert files(tmp_path / "1") == before
    (tmp_path / "1" / "lost+found").mkdir()  # a folder may be a file system of its own
    assert highwater("check", str(tmp_path / "1")).returncode == 0
    (tmp_path / "1" / "lost+found").rmdir()
    log.unlink()
    for ran in (highwater("check", str(tmp_path / "1")), serve(tmp_path / "1")):
        refused(ran, 10, "log-0000000000000001: byte 0: a node worked in this folder, and no segment of its log can be read")
    assert not log.exists()
    for folder in (tmp_path, tmp_path / "none"):
        refused(highwater("check", str(folder)), 2, "is no folder of a node")
        refused(highwater("recover", str(folder), "--cluster", "other"), 2, "is no folder of a node")
        assert not (folder / ".lock").exists()

"""The disk in a folder keeps the rules of all disks; its lock, its limits and its failures are told as the seam says."""

import asyncio
import errno
import os
import resource
import signal
import subprocess
import sys
import time
from random import Random

import pytest

from highwater.impl.node_world import DiskFailed, DiskFull, DiskLocked
from highwater.impl.raft.node import Node, Options
from highwater.impl.raft.state import Config
from highwater.impl.stores import folder_disk
from highwater.impl.stores.folder_disk import FolderDisk
from highwater.impl.stores.node_system import local_worlds
from tests.impl.raft.appending import APPENDING
from tests.impl.raft.crashing import CrashingDisk
from tests.impl.raft.disk_rules import RULES

QUICK = Options(Config(election_ticks=40), tick_ms=10, snapshot_entries=8, keep_entries=2, segment_bytes=500)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_disk_in_a_folder_keeps_the_rules(rule, tmp_path):
    async def work():
        disk = FolderDisk(tmp_path / "folder")
        await rule(disk)
        await disk.close()

    asyncio.run(work())


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_disk_in_memory_keeps_the_rules(rule):
    asyncio.run(rule(CrashingDisk()))


def test_a_folder_is_locked_against_others(tmp_path):
    async def work():
        first, second = FolderDisk(tmp_path), FolderDisk(tmp_path)
        await first.lock()
        await first.lock()
        with pytest.raises(DiskLocked, match="another process works in this folder"):
            await second.lock()
        await first.close()
        await second.lock()
        await second.close()

    asyncio.run(work())


def test_each_new_folder_is_durable_in_the_one_above(tmp_path, monkeypatch):
    synced = list[str]()
    monkeypatch.setattr(folder_disk, "fsync_folder", synced.append)
    FolderDisk(tmp_path / "a" / "b" / "c")
    assert synced == [str(tmp_path), str(tmp_path / "a"), str(tmp_path / "a" / "b")]
    FolderDisk(tmp_path / "a" / "b" / "c")
    assert len(synced) == 3


@pytest.mark.parametrize("has_lock", (True, False))
def test_a_folder_on_a_read_only_file_system_can_be_read(has_lock, tmp_path, monkeypatch):
    """A copy on such a file system is checked as any other, and a node that works there by another path is noticed."""
    real = os.open

    def opened(path, flags, *more):
        if flags & (os.O_CREAT | os.O_RDWR):
            raise OSError(errno.EROFS, "Read-only file system", path)
        return real(path, flags, *more)

    async def work():
        (tmp_path / "a").write_bytes(b"x")
        writer = FolderDisk(tmp_path)
        if has_lock:
            await writer.lock()
        monkeypatch.setattr(os, "open", opened)
        disk = FolderDisk(tmp_path)
        if has_lock:
            with pytest.raises(DiskLocked):
                await disk.lock()
            await writer.close()
        await disk.lock()
        assert await disk.read("a") == b"x"
        with pytest.raises(DiskFailed, match="Read-only file system"):
            await disk.create("b")
        await disk.close()

    asyncio.run(work())


@pytest.mark.parametrize("name", ("", ".", "..", "a/b", ".lock", "a\0b"))
def test_a_name_has_no_folder(name, tmp_path):
    async def work():
        disk = FolderDisk(tmp_path)
        with pytest.raises(ValueError, match="bad file name"):
            await disk.create(name)
        await disk.close()

    asyncio.run(work())


def test_a_full_device_takes_nothing_of_a_write(tmp_path):
    """With a limit on file sizes, as `ulimit -f` sets it."""
    async def work():
        disk = FolderDisk(tmp_path)
        await disk.create("a")
        await disk.append("a", b"x" * 3000)
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
        try:
            with pytest.raises(DiskFull, match="no room for a: .*; make room, then start the node again"):
                await disk.append("a", b"y" * 3000)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert await disk.read("a") == b"x" * 3000
        await disk.close()

    asyncio.run(work())


def test_a_failed_sync_is_told(tmp_path, monkeypatch):
    def fails(fd):
        raise OSError(errno.EIO, "Input/output error")

    async def work():
        disk = FolderDisk(tmp_path)
        await disk.create("a")
        monkeypatch.setattr(folder_disk.os, "fdatasync", fails)
        with pytest.raises(DiskFailed, match="Input/output error"):
            await disk.sync("a")
        await disk.close()

    asyncio.run(work())


def test_calls_that_nobody_waits_for_any_more_come_before_later_ones(tmp_path, monkeypatch):
    write = os.write

    def slow(fd, body):
        time.sleep(0.2)
        return write(fd, body)

    async def work():
        disk = FolderDisk(tmp_path)
        await disk.create("a")
        monkeypatch.setattr(folder_disk.os, "write", slow)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await disk.append("a", b"late")
        await disk.create("a")
        assert await disk.read("a") == b""
        await disk.close()

    asyncio.run(work())


# --- a node in a folder


def test_a_node_in_a_folder_finds_all_again(tmp_path):
    async def life(number: int) -> list[str]:
        disk = FolderDisk(tmp_path)
        node = await Node.open(local_worlds([("a", disk)])["a"], "a", ("a",), APPENDING, QUICK)
        while not node.state.leader:
            await asyncio.sleep(0.01)
        for place in range(10):
            await node.propose(b"%d.%d" % (number, place))
        found = [body for _, body in await node.read()]
        await node.close()
        await disk.close()
        return found

    for number in range(3):
        assert asyncio.run(life(number)) == [f"{before}.{place}" for before in range(number + 1) for place in range(10)]


CHILD = """
import asyncio, sys
from highwater.impl.raft.node import Node
from highwater.impl.stores.folder_disk import FolderDisk
from highwater.impl.stores.node_system import local_worlds
from tests.impl.raft.appending import APPENDING
from tests.impl.raft.test_folder_disk import QUICK

async def work():
    node = await Node.open(local_worlds([("a", FolderDisk(sys.argv[1]))])["a"], "a", ("a",), APPENDING, QUICK)
    while not node.state.leader:
        await asyncio.sleep(0.01)
    known = len(await node.read())
    print("had", known, flush=True)
    while True:
        await node.propose(b"%d" % known)
        known += 1
        print("acked", known, flush=True)

asyncio.run(work())
"""


def test_a_killed_process_loses_nothing_it_acknowledged(tmp_path):
    random, acked = Random(1), 0
    for _ in range(3):
        with subprocess.Popen([sys.executable, "-c", CHILD, str(tmp_path)], stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            had = int(child.stdout.readline().split()[1])
            assert had >= acked
            for _ in range(random.randint(5, 30)):
                child.stdout.readline()
            child.send_signal(signal.SIGKILL)
            rest = child.stdout.read().split("\n")
            acked = max([had, *(int(line.split()[1]) for line in rest if line.startswith("acked ") and line.split()[1:])])
    assert acked > 10

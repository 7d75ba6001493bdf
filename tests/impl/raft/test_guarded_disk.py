"""The disk that gives up: each call goes through, and one that takes too long is told as a failure of the disk."""

import asyncio

import pytest

from highwater.impl.node_world import DiskFailed, FileMissing
from highwater.impl.raft.guard import GuardedDisk
from tests.impl.raft.crashing import CrashingDisk
from tests.impl.raft.disk_rules import RULES
from tests.impl.raft.virtual import VirtualClock, run

CALLS = {"lock": (), "names": (), "read": ("a",), "create": ("a",), "append": ("a", b"x"), "truncate": ("a", 0), "sync": ("a",),
         "rename": ("a", "b"), "remove": ("a",), "sync_names": ()}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_it_keeps_the_rules_of_disks(rule):
    run(rule(GuardedDisk(CrashingDisk(), VirtualClock(), 100)))


@pytest.mark.parametrize("call", CALLS)
def test_a_late_call_is_a_failure(call):
    async def work():
        async def late(*args):
            await asyncio.sleep(0.2)

        disk = CrashingDisk()
        setattr(disk, call, late)
        with pytest.raises(DiskFailed, match="took more than 100 ms: the disk has stalled"):
            await getattr(GuardedDisk(disk, VirtualClock(), 100), call)(*CALLS[call])
        await getattr(GuardedDisk(disk, VirtualClock(), 300), call)(*CALLS[call])

    run(work())


def test_errors_pass():
    async def work():
        with pytest.raises(FileMissing):
            await GuardedDisk(CrashingDisk(), VirtualClock(), 100).read("a")

    run(work())

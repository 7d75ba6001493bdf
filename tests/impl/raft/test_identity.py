"""A folder's identity: what is refused, and that nothing is changed then."""

import asyncio
from itertools import count
from random import Random

import pytest

from highwater.dst.scripts.replicated.disks import ScriptDisk, run
from highwater.impl.node_world import DiskFailed
from highwater.impl.raft import identity, owned
from highwater.impl.raft.faults import Damaged, OtherNode, OtherSettings
from highwater.impl.raft.identity import FolderIdentity
from highwater.impl.raft.node import USUAL
from highwater.impl.stores.memory_disk import MemoryDisk
from highwater.impl.stores.node_system import local_worlds
from tests.impl.raft.appending import APPENDING
from tests.impl.raft.crashing import CrashingDisk, broken

MINE = FolderIdentity("main", "1", ("1", "2"))


def checked(disk: MemoryDisk, mine: FolderIdentity = MINE) -> FolderIdentity | None:
    before = dict(disk.files)
    try:
        return asyncio.run(identity.check(disk, mine))
    finally:
        assert disk.files == before


def written() -> MemoryDisk:
    disk = MemoryDisk()
    asyncio.run(identity.write(disk, MINE))
    return disk


def test_a_folder_knows_whose_it_is_once_it_was_written():
    assert not checked(MemoryDisk()) and checked(written())
    assert [*written().files] == [identity.FILE]


def test_the_voters_of_the_beginning_are_told_to_who_names_none():
    assert checked(written(), MINE._replace(voters=())) == MINE
    joined = MemoryDisk()
    asyncio.run(identity.write(joined, MINE._replace(voters=())))
    assert checked(joined) == MINE._replace(voters=())


def test_the_settings_of_a_machine_stay_as_they_are():
    disk = MemoryDisk()
    for given, there in (("", ""), ("a=1 b=2", "a=1 b=2"), ("b=2 a=1", "a=1 b=2"), ("", "a=1 b=2")):  # unknown ones are taken
        mine = MINE._replace(settings=given)
        asyncio.run(identity.take(disk, mine, checked(disk, mine)))
        assert checked(disk) == MINE._replace(settings=there)
    with pytest.raises(OtherSettings, match="applied with b=2, and this node was given b=3 c=4: give what it had"):
        checked(disk, MINE._replace(settings="a=1 b=3 c=4"))


def test_an_identity_survives_a_crash():
    disk = ScriptDisk()
    run(identity.write(disk, MINE))
    assert [*disk.durable_names] == [identity.FILE]
    assert identity.decoded(disk.durable_names[identity.FILE].durable) == MINE


def test_an_unfinished_identity_is_none():
    assert not checked(MemoryDisk({identity.TEMPORARY: b"{"}))


@pytest.mark.parametrize("changed,why", (
    ({"cluster": "other"}, "the folder is of cluster 'main', and this node was given 'other'"),
    ({"node": "2"}, "the folder is of node '1', and this is node '2'"),
    ({"voters": ("1", "2", "3")}, "the nodes of the group are 1, 2, and this node was given 1, 2, 3: two groups could lead"),
))
def test_somebody_elses_folder_is_refused(changed, why):
    with pytest.raises(OtherNode, match=why):
        checked(written(), MINE._replace(**changed))


@pytest.mark.parametrize("content", (b"", b"{", b"[]", b"{}", b'{"cluster": "main", "node": "1"}', b"\xff", b"[" * 100_000))
def test_an_identity_that_cannot_be_read_is_damage(content):
    with pytest.raises(Damaged, match="it does not name a cluster and a node"):
        checked(MemoryDisk({identity.FILE: content}))


def test_a_first_start_may_be_cut_off_anywhere():
    """The folder that a crash then leaves is taken for one in which no node has worked, or for this node's."""
    class CutOff(CrashingDisk):
        left = 1 << 30

        def _called(self, call: str, name: str = "") -> None:
            self.left -= 1
            if self.left < 0:
                raise broken()
            super()._called(call, name)

    async def opens() -> None:
        await (await owned.opened(local_worlds([("1", disk)])["1"], MINE, APPENDING, USUAL)).close()

    ended = 0
    for calls in count():
        for seed in range(20):
            disk = CutOff()
            disk.left = calls
            try:
                asyncio.run(opens())
                ended += 1
            except DiskFailed:
                pass
            disk.crash(Random(seed))
            disk.left = 1 << 30
            asyncio.run(opens())
            assert checked(disk) == MINE
        if ended:
            break
    assert calls > 20

"""Scripts of a node's own folder, impl/raft/owned.py: what a first start leaves, and which folders are refused."""

from highwater.dst.script import Alone, Script, check, same
from highwater.dst.scripts.replicated.disks import ScriptDisk
from highwater.dst.scripts.replicated.node import MACHINE, OPTIONS, world_of
from highwater.impl.raft import identity, owned, snapshots
from highwater.impl.raft.faults import Damaged, HalfChanged, OtherNode
from highwater.impl.raft.identity import FolderIdentity
from highwater.impl.raft.log import open_log
from highwater.impl.raft.segments import name_of
from highwater.impl.raft.snapshots import Snapshot
from highwater.impl.raft.state import Save

MINE, FIRST = FolderIdentity("main", "a", ("a", "b", "c")), name_of(1)


async def starts(alone: Alone, disk: ScriptDisk, mine: FolderIdentity = MINE) -> tuple[str, ...]:
    """Open a node and close it. Return whom it takes for the voters."""
    node = await owned.opened(world_of(alone, disk), mine, MACHINE, OPTIONS)
    same((node.stopped, node.state.me), ("", mine.node))
    await node.close()
    return node.state.voters


async def a_new_folder_has_a_log_and_then_an_identity(alone: Alone) -> None:
    disk = ScriptDisk()
    same(await starts(alone, disk), ("a", "b", "c"))
    same(sorted(disk.durable_names), [identity.FILE, FIRST])
    same(identity.decoded(disk.files[identity.FILE].durable), MINE)
    check(disk.calls.index(("sync", FIRST)) < disk.calls.index(("rename", identity.FILE)), "the log is durable first")
    check(disk.calls.index(("lock", "")) < disk.calls.index(("names", "")), "the folder is locked first")
    disk.calls = []
    same(await starts(alone, disk, MINE._replace(voters=())), ("a", "b", "c"))
    check(("rename", identity.FILE) not in disk.calls, "a folder that has an identity keeps it")
    await alone.raises(OtherNode, starts(alone, disk, MINE._replace(cluster="other")))
    await disk.remove(identity.FILE)  # as if the first start had ended before it
    await starts(alone, disk)
    check(identity.FILE in disk.files, "a start that was cut off is made anew")


async def a_folder_that_has_lost_its_identity_is_refused(alone: Alone) -> None:
    """Otherwise it would get the identity of any cluster that has a node of this name."""
    voted, restored = ScriptDisk(), ScriptDisk()
    log, _ = await open_log(voted, "a", (0, 0))
    await log.write([Save(1, 1, "a", 1, ())])
    await snapshots.store(restored, Snapshot(3, 1, ("a",), b""))
    for disk in (voted, restored):
        before = {name: of.now for name, of in disk.files.items()}
        lost = await alone.raises(Damaged, starts(alone, disk))
        check("identity: byte 0: the file is missing, and a node has worked in the folder" in str(lost), str(lost))
        same({name: of.now for name, of in disk.files.items()}, before)


async def a_folder_that_is_half_changed_is_refused(alone: Alone) -> None:
    """An operator's change of it has begun, and its log may be the old one."""
    disk = ScriptDisk()
    await starts(alone, disk)
    await identity.write(disk, MINE._replace(unfinished="a change"))
    same(identity.decoded(disk.files[identity.FILE].durable), MINE._replace(unfinished="a change"))
    refused = await alone.raises(HalfChanged, starts(alone, disk))
    same(str(refused), "identity: a change has begun in this folder, and has not ended: give that command again")
    await identity.write(disk, MINE)
    same(b"unfinished" in disk.files[identity.FILE].now, False)
    await starts(alone, disk)


SCRIPTS: tuple[Script, ...] = (
    a_new_folder_has_a_log_and_then_an_identity, a_folder_that_has_lost_its_identity_is_refused,
    a_folder_that_is_half_changed_is_refused)

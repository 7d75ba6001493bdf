"""Checks the folder of a node that does not run, with the same code that opens it, on a copy in memory: nothing is changed."""

from typing import NamedTuple

from highwater.impl.level import Level
from highwater.impl.node_world import Disk
from highwater.impl.raft import identity, in_force, levels, snapshots
from highwater.impl.raft.entries import LEVEL, Log, last_index, last_term
from highwater.impl.raft.identity import FolderIdentity
from highwater.impl.raft.log import open_log, segments_in
from highwater.impl.raft.members import Members
from highwater.impl.raft.records import record_at
from highwater.impl.raft.segments import HEAD_FIELDS, number_of
from highwater.impl.raft.snapshots import Snapshot
from highwater.impl.stores.memory_disk import MemoryDisk


class Content(NamedTuple):
    """The content of a folder that can be opened."""

    whose: FolderIdentity | None  # None: the node was never opened by a cluster's server
    node: str
    term: int
    vote: str
    snapshot: Snapshot
    first: int  # the entries of the log
    last: int
    last_term: int
    segments: int
    unfinished: tuple[str, ...]  # snapshots that were never finished, which the next start removes
    torn_bytes: int  # of a last write that was never acknowledged, which the next start removes
    members: Members  # by its last entry about them, which may not be committed
    level: Level  # likewise


class NoFolder(Exception):
    """The folder is no node's."""


async def checked(disk: Disk) -> Content:
    """Read the whole folder as a start would. Raises DiskLocked, NoFolder, Damaged, OtherVersion."""
    await disk.lock()
    files = await files_of(disk)
    copy = MemoryDisk(files)
    names = segments_in(await copy.names())
    whose = identity.decoded(files[identity.FILE]) if identity.FILE in files else None
    if not names and not whose:
        raise NoFolder("no segment of a log is in it: it is no node's folder, or its node never started")
    node = whose.node if whose else owner_of(files[names[0]])
    snapshot, bad = await snapshots.load(copy)
    with snapshots.named(bad):
        opened, recovered = await open_log(copy, node, (snapshot.index, snapshot.term))
    before = sum(len(body) for name, body in files.items() if name in names)
    after = sum(len(body) for name, body in copy.files.items() if name in names)
    log = recovered.log
    return Content(whose, node, recovered.term, recovered.vote, snapshot, log.base_index + 1, last_index(log), last_term(log),
                   len(opened.segments), tuple(name for name, _ in bad), max(before - after, 0),
                   members_in(log, snapshot, whose), level_in(log, snapshot))


def is_of_node(name: str) -> bool:
    """Tell whether a file of this name is one that a node makes, and reads when it starts."""
    return name == identity.FILE or number_of(name) is not None or snapshots.is_snapshot(name)


async def files_of(disk: Disk) -> dict[str, bytes]:
    """Return the files of a node by their names, and nothing else that may be in its folder."""
    return {name: await disk.read(name) for name in await disk.names() if is_of_node(name)}


def members_in(log: Log, snapshot: Snapshot, whose: FolderIdentity | None) -> Members:
    first = snapshot.members or Members(snapshot.voters or (whose.voters if whose else ()))
    changes = in_force.changes_in(log.entries, log.base_index + 1)
    return changes[-1].members if changes else first


def level_in(log: Log, snapshot: Snapshot) -> Level:
    level = snapshot.level
    for index, entry in enumerate(log.entries, log.base_index + 1):
        level = level.raised(levels.of_entry(index, entry)) if entry.kind == LEVEL else level
    return level


def owner_of(segment: bytes) -> str:
    """Return the node whose segment it is, by its head; "" if that cannot be read."""
    head = record_at(segment, 0)
    return head.body[HEAD_FIELDS.size:].decode(errors="replace") if head is not None else ""

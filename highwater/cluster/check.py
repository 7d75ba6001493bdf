"""Checks the folder of a node that does not run, with the same code that opens it, on a copy in memory: nothing is changed."""

from typing import Any, NamedTuple

from highwater.impl.level import Level
from highwater.impl.node_world import Disk
from highwater.impl.raft import identity, in_force, levels, snapshots
from highwater.impl.raft.entries import LEVEL, Log, entry_at, last_index, last_term
from highwater.impl.raft.faults import OtherSettings
from highwater.impl.raft.identity import FolderIdentity
from highwater.impl.raft.log import open_log, segments_in
from highwater.impl.raft.machine import Machine, applied, named
from highwater.impl.raft.members import Members
from highwater.impl.raft.records import record_at
from highwater.impl.raft.segments import HEAD_FIELDS, number_of
from highwater.impl.raft.snapshots import Snapshot
from highwater.impl.raft.terms import FAR
from highwater.impl.settings import difference
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
    log: Log

    def is_spoilt(self) -> bool:
        """Tell whether the term is so far ahead of all entries that other nodes may ignore this one: see impl/raft/terms.py."""
        return self.term > max(self.last_term, self.snapshot.term) + FAR


class NoFolder(Exception):
    """The folder is no node's."""


class BadState(Exception):
    """The machine cannot load or dump its state: the message says which, and why."""


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
        opened, recovered = await open_log(copy, node, (snapshot.index, snapshot.term), may_be_spoilt=True)
    before = sum(len(body) for name, body in files.items() if name in names)
    after = sum(len(body) for name, body in copy.files.items() if name in names)
    log = recovered.log
    return Content(whose, node, recovered.term, recovered.vote, snapshot, log.base_index + 1, last_index(log), last_term(log),
                   len(opened.segments), tuple(name for name, _ in bad), max(before - after, 0),
                   members_in(log, snapshot, whose), level_in(log, snapshot), log)


def replay(content: Content, machine: Machine) -> Any:
    """Apply all entries behind the snapshot as a node would, also those that may not be committed. Return the state.

    Raises CannotApply for the first entry that the machine cannot apply, BadState for the snapshot, and OtherSettings if the
    folder's entries were applied with others than the machine's."""
    theirs = content.whose.settings if content.whose else ""
    if theirs and (other := difference(theirs, machine.settings)):
        raise OtherSettings(f"the folder's entries were applied with {other[0]}, and the machine has {other[1]}")
    snapshot, log = content.snapshot, content.log
    value, level = machine.initial, snapshot.level
    try:
        value = machine.load(snapshot.content) if snapshot.index else value
    except Exception as error:
        raise BadState(f"the machine cannot load the snapshot up to entry {snapshot.index:,}: {named(error)}") from error
    for index in range(snapshot.index + 1, last_index(log) + 1):
        value, level, _ = applied(machine, value, level, index, entry_at(log, index))
    return value


def try_dump(content: Content, machine: Machine, value: Any) -> None:
    """Raises BadState if the machine cannot dump the state that `replay` returned."""
    try:
        machine.dump(value)
    except Exception as error:
        raise BadState(f"the machine cannot dump its state after entry {content.last:,}: {named(error)}") from error


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

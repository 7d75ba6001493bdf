"""Safety: replicas that go on without an entry that the machine cannot apply have the same entries, and none has applied it.

Turns one command into an entry without an effect, in the folders of a group whose nodes are stopped. All folders are checked
before any is changed. Then all get the name of a new cluster, so the others refuse a folder that was forgotten. Only then
the entry is changed. A folder in which that has not ended is refused by its node, and the same call goes on.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from highwater.cluster.check import BadState, Content, checked, replay
from highwater.impl.errors import Definite
from highwater.impl.node_world import Disk
from highwater.impl.raft import identity
from highwater.impl.raft.entries import COMMAND, NOOP, Entry, entry_at, term_at
from highwater.impl.raft.identity import FolderIdentity
from highwater.impl.raft.log import open_log, put, segments_in
from highwater.impl.raft.machine import CannotApply, Machine
from highwater.impl.raft.records import ENTRY, SUMMED, encoded, record_at


class NotSkipped(Definite):
    """Nothing was changed: the message says why."""


class Skip(NamedTuple):
    """The entry that will have no effect, and the name of the new cluster."""

    index: int
    term: int
    cluster: str
    without: frozenset[str] = frozenset()  # members whose folders are lost: they never come back

    def __str__(self) -> str:
        return f"`highwater raft skip-entry` of entry {self.index} of term {self.term}"


async def skip_entry(disks: Mapping[str, Disk], machine_of: Callable[[Content], Machine], skip: Skip) -> dict[str, bool]:
    """Skip an entry in the folders of all members, by their names. Return for each whether it had the entry.

    Raises NotSkipped, DiskLocked, NoFolder, Damaged, OtherVersion, OtherSettings; then nothing was changed. Raises DiskFull,
    DiskFailed; then the same call goes on."""
    found = {name: await checked(disk) for name, disk in disks.items()}
    check_group(found, skip)
    for name, content in found.items():
        check_unapplied(name, content, machine_of(content), skip)
    for name, content in found.items():
        await identity.write(disks[name], renamed(content, skip)._replace(unfinished=str(skip)))
    for name, content in found.items():
        at = content.snapshot.index, content.snapshot.term
        await open_log(disks[name], content.node, at, may_be_spoilt=True)  # cuts a torn end
        await rewrite(disks[name], skip)
        await identity.write(disks[name], renamed(content, skip))
    return {name: entry_in(content, skip) is not None for name, content in found.items()}


def renamed(content: Content, skip: Skip) -> FolderIdentity:
    assert content.whose is not None
    return content.whose._replace(cluster=skip.cluster, unfinished="")


def entry_in(content: Content, skip: Skip) -> Entry | None:
    """Return the entry to skip; None if the folder does not have it, or another one in its place."""
    return entry_at(content.log, skip.index) if skip.index > content.log.base_index and term_at(
        content.log, skip.index) == skip.term else None


def check_group(found: Mapping[str, Content], skip: Skip) -> None:
    """Raises NotSkipped unless these are the folders of all members of one cluster, and one of them has the entry."""
    nodes, clusters, members, entries = dict[str, str](), dict[str, str](), set[str](), list[Entry]()
    for name, content in found.items():
        if content.whose is None:
            raise NotSkipped(f"{name}: {identity.FILE} is missing: no server of a cluster was ever opened in this folder")
        if content.node in nodes:
            raise NotSkipped(f"{name} and {nodes[content.node]} are both of node {content.node!r}: name each folder once")
        nodes[content.node] = name
        begun = content.whose.unfinished
        if begun not in ("", str(skip)):
            raise NotSkipped(f"{name}: {begun} has begun, and has not ended: give that command again first")
        entry = entry_in(content, skip)
        if content.whose.cluster != skip.cluster:
            clusters[content.whose.cluster] = name
        elif not begun and entry is not None and entry.kind != NOOP:
            raise NotSkipped(f"{name}: the folder is of cluster {skip.cluster!r}: give the new cluster another name, so that a "
                             "folder that is forgotten is refused")
        if content.snapshot.index >= skip.index:
            raise NotSkipped(f"{name}: entry {skip.index:,} is in its snapshot up to entry {content.snapshot.index:,}, so the "
                             "node has applied it")
        members |= {*content.members.voters, *content.members.learners}
        entries += [entry] if entry is not None else []
    if len(clusters) > 1:
        several = ", ".join(f"{name} of {of!r}" for of, name in clusters.items())
        raise NotSkipped(f"the folders are of different clusters: {several}")
    if missing := sorted(members - {*nodes} - skip.without):
        raise NotSkipped(f"the folders of members are missing: {', '.join(missing)}. Name them, too; or, if they are lost for "
                         "ever, name each of these nodes by --without")
    kinds = {entry.kind for entry in entries}
    if not kinds:
        raise NotSkipped(f"no folder has entry {skip.index:,} of term {skip.term:,}: `highwater raft check --machine` names it")
    is_begun = any(content.whose and content.whose.cluster == skip.cluster for content in found.values())
    bodies = {entry.body for entry in entries if entry.kind == COMMAND}
    if not kinds <= {NOOP, COMMAND} or len(bodies) > 1 or not (bodies or is_begun):
        raise NotSkipped(f"entry {skip.index:,} of term {skip.term:,} is no command, or another one in each folder")


def check_unapplied(name: str, content: Content, machine: Machine, skip: Skip) -> None:
    """Raises NotSkipped unless the entry is the first that the machine cannot apply. What it can apply, the node may have."""
    entry = entry_in(content, skip)
    try:
        replay(content, machine)
    except CannotApply as error:
        if error.index < skip.index:
            raise NotSkipped(f"{name}: {error}: skip that one first") from None
        if error.index == skip.index and entry is not None:
            return
    except BadState as error:
        raise NotSkipped(f"{name}: {error}") from None
    if entry is not None and entry.kind == COMMAND:
        raise NotSkipped(f"{name}: the machine applies entry {skip.index:,} of term {skip.term:,}: a node may have applied it")


async def rewrite(disk: Disk, skip: Skip) -> None:
    """Put each segment that has the entry in its own place, without the command."""
    for name in segments_in(await disk.names()):
        before = await disk.read(name)
        after = skipped(before, skip)
        if after != before:
            await put(disk, name, after)


def skipped(segment: bytes, skip: Skip) -> bytes:
    parts, start = list[bytes](), 0
    while (record := record_at(segment, start)) is not None:
        is_it = record.type in (ENTRY, SUMMED) and (record.index, record.term) == (skip.index, skip.term)
        parts.append(encoded(record._replace(type=ENTRY, body=bytes([NOOP]))) if is_it else segment[start:record.end])
        start = record.end
    return b"".join(parts)

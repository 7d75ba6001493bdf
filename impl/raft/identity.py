"""Safety: a node never goes on in the folder of another cluster, with other voters, or with a machine of other settings.

A folder's identity: a file of JSON that names the cluster, the node, the voters of the beginning and the settings of its
machine. It is written when the node is first opened there, before it says anything to others. A node that joined later began
with no voters. After a restart the log behind the snapshot is applied again. With other settings the node would then have
another state than it has told of.
"""

import json
from typing import NamedTuple

from highwater.impl.node_world import Disk
from highwater.impl.raft.faults import Damaged, HalfChanged, OtherNode, OtherSettings
from highwater.impl.settings import difference

FILE, TEMPORARY = "identity", "identity.tmp"


class FolderIdentity(NamedTuple):
    """The owner of a folder."""

    cluster: str
    node: str
    voters: tuple[str, ...]  # sorted; () of a node that joined, or was recovered
    settings: str = ""  # of the machine; "": it has none, or they are not known
    unfinished: str = ""  # the change of an operator that has begun in the folder, and has not ended


async def check(disk: Disk, mine: FolderIdentity) -> FolderIdentity | None:
    """Return the folder's identity; None if it has none yet. Changes nothing. Raises OtherNode, OtherSettings, HalfChanged,
    Damaged."""
    if FILE not in await disk.names():
        return None
    found = decoded(await disk.read(FILE))
    if found.cluster != mine.cluster:
        raise OtherNode(f"{FILE}: the folder is of cluster {found.cluster!r}, and this node was given {mine.cluster!r}: give "
                        "the node its own folder")
    if found.node != mine.node:
        raise OtherNode(f"{FILE}: the folder is of node {found.node!r}, and this is node {mine.node!r}: give the node its own "
                        "folder")
    if found.voters and mine.voters and found.voters != mine.voters:
        raise OtherNode(f"{FILE}: the nodes of the group are {', '.join(found.voters)}, and this node was given "
                        f"{', '.join(mine.voters)}: two groups could lead at once; name the same nodes; those that joined "
                        "later are known from the log")
    if found.unfinished:
        raise HalfChanged(f"{FILE}: {found.unfinished} has begun in this folder, and has not ended: give that command again")
    if found.settings and mine.settings and (other := difference(found.settings, mine.settings)):
        raise OtherSettings(f"{FILE}: the folder's entries were applied with {other[0]}, and this node was given {other[1]}: "
                            "give what it had; other settings need a new cluster, made of a backup")
    return found


async def take(disk: Disk, mine: FolderIdentity, known: FolderIdentity | None) -> None:
    """Give the folder this identity where `check` found none, or no settings."""
    if known is None or (mine.settings and not known.settings):
        await write(disk, mine if known is None else known._replace(settings=mine.settings))


async def write(disk: Disk, mine: FolderIdentity) -> None:
    """Give the folder its identity, durably."""
    await disk.create(TEMPORARY)
    fields = {name: value for name, value in mine._asdict().items() if value or name != "unfinished"}
    await disk.append(TEMPORARY, json.dumps(fields, sort_keys=True).encode() + b"\n")
    await disk.sync(TEMPORARY)
    await disk.rename(TEMPORARY, FILE)
    await disk.sync_names()


def decoded(data: bytes) -> FolderIdentity:
    try:
        found = json.loads(data)
        return FolderIdentity(str(found["cluster"]), str(found["node"]), tuple(map(str, found["voters"])),
                              str(found.get("settings", "")), str(found.get("unfinished", "")))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Damaged(FILE, 0, f"it does not name a cluster and a node: {error!r}") from error

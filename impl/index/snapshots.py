"""Safety: a snapshot that failed is never taken for one. Its name is there only once all its bytes are durable and read back.

`save` writes a temporary file, syncs it, reads it back, renames it, syncs the folder, and reads it back once more. Only after
it has returned may the log be cut. `newest` refuses a damaged file instead of taking an older one, because the log may be cut
up to the damaged one.
"""

import re
from typing import NamedTuple

from highwater.impl.codecs.index import snapshot
from highwater.impl.codecs.index.snapshot import DamagedSnapshot, Position, Row
from highwater.impl.errors import Definite
from highwater.impl.node_world import Disk

TEMPORARY = "snapshot.tmp"
NAME = re.compile(r"snapshot-(\d{20})-(\d{20})\.hwix")


class SnapshotNotKept(Definite):
    """The disk returned other bytes than were written. The log must not be cut."""


class Saved(NamedTuple):
    """A snapshot file and what it holds."""

    name: str
    position: Position
    rows: list[Row]


def name_of(position: Position) -> str:
    return f"snapshot-{position.index:020d}-{position.term:020d}.hwix"


async def save(disk: Disk, position: Position, rows: list[Row]) -> str:
    """Write a snapshot and return its name; the log may be cut now. Raises SnapshotNotKept, and what the disk raises."""
    file, name = snapshot.encode(position, rows), name_of(position)
    await disk.create(TEMPORARY)
    await disk.append(TEMPORARY, file)
    await disk.sync(TEMPORARY)
    await _verified(disk, TEMPORARY, file)
    await disk.rename(TEMPORARY, name)
    await disk.sync_names()
    await _verified(disk, name, file)
    return name


async def _verified(disk: Disk, name: str, file: bytes) -> None:
    if await disk.read(name) != file:
        raise SnapshotNotKept(f"{name}: the disk returns other bytes than were written; check the disk, and do not cut the log")


async def newest(disk: Disk) -> Saved | None:
    """Return the newest snapshot; None if there is none. Raises DamagedSnapshot, which names the file."""
    names = [name for name in await disk.names() if NAME.fullmatch(name)]
    if not names:
        return None
    try:
        position, rows = snapshot.decode(await disk.read(names[-1]))
    except DamagedSnapshot as error:
        raise error.of(names[-1]) from None
    if name_of(position) != names[-1]:
        raise DamagedSnapshot(f"it is of index {position.index}, term {position.term}", 0, "name", names[-1])
    return Saved(names[-1], position, rows)


async def clean(disk: Disk) -> None:
    """Remove what a failed `save` has left, and all snapshots but the newest."""
    names = await disk.names()
    old = [name for name in names if NAME.fullmatch(name)][:-1]
    for name in old + [name for name in names if name == TEMPORARY]:
        await disk.remove(name)
    await disk.sync_names()

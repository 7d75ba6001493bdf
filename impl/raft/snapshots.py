"""Safety: what is taken for a snapshot was written whole and read back, and never replaces a later one.

A snapshot is the machine's content up to an entry. Its file: the magic, u16 version, u64 index and u64 term of that entry, u16
number of voters, each with u16 length and name, u64 length of the content, the content, and u32 CRC-32C of all before;
integers big-endian. Once the members have changed, it has version 2. Then all members stand in the place of the voters, as in
an entry (members.py), after the u16 length of that. Once the level was raised, it has version 3: as version 2, and before the
length of the content u8 1 if the members have changed, and the level (impl/level.py).

It is written under another name, synced, renamed, its name synced, and read back. Only then may the log be cut, and older
snapshots go.
"""

import re
from collections.abc import Generator
from contextlib import contextmanager
from struct import Struct, error
from typing import NamedTuple

from highwater.impl import level
from highwater.impl.codecs.crc32c import crc32c
from highwater.impl.level import FIRST, Level
from highwater.impl.node_world import Disk, DiskFailed
from highwater.impl.raft import members
from highwater.impl.raft.faults import Damaged, OtherVersion
from highwater.impl.raft.members import Members

MAGIC, VERSION, WITH_MEMBERS, WITH_LEVEL = b"hwraftsn", 1, 2, 3
FIXED, CONTENT, SUM = Struct(">8sHQQH"), Struct(">Q"), Struct(">I")
NAME = re.compile("snapshot-[0-9]{16,}-[0-9]{16,}")  # another file, such as a copy, is not ours: it stays
TEMPORARY = "snapshot.tmp"
PIECE_BYTES = 1 << 20  # of one append


class Snapshot(NamedTuple):
    """A snapshot of the machine."""

    index: int
    term: int  # of the entry at `index`
    voters: tuple[str, ...]
    content: bytes
    members: Members | None = None  # None: the voters are those of the beginning
    level: Level = FIRST  # of the group, after the entry at `index`


EMPTY = Snapshot(0, 0, (), b"")


def name_of(index: int, term: int) -> str:
    return f"snapshot-{index:016d}-{term:016d}"


def is_snapshot(name: str) -> bool:
    return NAME.fullmatch(name) is not None


def encoded(snapshot: Snapshot) -> bytes:
    if snapshot.level != FIRST:
        body = members.encoded(snapshot.members or Members(snapshot.voters))
        data = FIXED.pack(MAGIC, WITH_LEVEL, snapshot.index, snapshot.term, len(body)) + body
        data += bytes([snapshot.members is not None]) + level.encoded(snapshot.level)
    elif snapshot.members is None:
        names = b"".join(members.text_to(name) for name in snapshot.voters)
        data = FIXED.pack(MAGIC, VERSION, snapshot.index, snapshot.term, len(snapshot.voters)) + names
    else:
        body = members.encoded(snapshot.members)
        data = FIXED.pack(MAGIC, WITH_MEMBERS, snapshot.index, snapshot.term, len(body)) + body
    data += CONTENT.pack(len(snapshot.content)) + snapshot.content
    return data + SUM.pack(crc32c(data))


def decoded(name: str, data: bytes) -> Snapshot:
    """Return the snapshot in a file. Raises Damaged, OtherVersion."""
    version = int.from_bytes(data[8:10], "big")
    is_whole = SUM.pack(crc32c(data[:-SUM.size])) == data[-SUM.size:]
    if len(data) >= 10 and data[:8] == MAGIC and not VERSION <= version <= WITH_LEVEL:
        damaged = "" if is_whole else ", or a damaged one, since its checksum is wrong"
        raise OtherVersion(f"{name}: a snapshot of version {version}{damaged}, and this highwater reads versions {VERSION} to "
                           f"{WITH_LEVEL}: start the version of highwater that wrote it")
    if len(data) < FIXED.size + CONTENT.size + SUM.size or not is_whole:
        raise Damaged(name, 0, f"the checksum of the snapshot's {len(data):,} bytes is wrong: it is cut or changed")
    try:
        magic, _, index, term, number = FIXED.unpack_from(data)
        position, voters, of, raised = FIXED.size, list[str](), None, FIRST
        if version in (WITH_MEMBERS, WITH_LEVEL):
            of = members.decoded(data[position:position + number])
            position, number, voters = position + number, 0, [*of.voters]
        if version == WITH_LEVEL:
            of, raised = of if data[position] else None, level.decoded(data[position + 1:position + 1 + level.BYTES.size])
            position += 1 + level.BYTES.size
        for _ in range(number):
            voter, position = members.text_at(data, position)
            voters.append(voter)
        (size,) = CONTENT.unpack_from(data, position)
    except (error, IndexError, UnicodeDecodeError) as problem:
        raise Damaged(name, 0, f"the snapshot's head cannot be read: {problem}") from problem
    content = data[position + CONTENT.size:-SUM.size]
    if magic != MAGIC or len(content) != size:
        raise Damaged(name, 0, "the file is no snapshot")
    return Snapshot(index, term, tuple(voters), content, of, raised)


async def store(disk: Disk, snapshot: Snapshot) -> None:
    """Make a snapshot durable, and verify it. Raises DiskFull, DiskFailed; then earlier snapshots and the log are as before."""
    name, data = name_of(snapshot.index, snapshot.term), encoded(snapshot)
    await disk.create(TEMPORARY)
    for start in range(0, len(data), PIECE_BYTES):
        await disk.append(TEMPORARY, data[start:start + PIECE_BYTES])
    await disk.sync(TEMPORARY)
    await disk.rename(TEMPORARY, name)
    await disk.sync_names()
    if await disk.read(name) != data:
        raise DiskFailed(f"{name}: the disk does not give back what was written to it; look at the disk, then start the node "
                         "again")


async def remove_older(disk: Disk, kept: Snapshot) -> None:
    """Remove all snapshots before `kept`, which must have been verified."""
    older = [name for name in await disk.names() if is_snapshot(name) and name < name_of(kept.index, kept.term)]
    for name in older:
        await disk.remove(name)
    if older:
        await disk.sync_names()


async def load(disk: Disk) -> tuple[Snapshot, list[tuple[str, Damaged]]]:
    """Return the newest snapshot that can be read, or EMPTY, and the files that are newer but cannot be, with what is wrong.

    The caller must refuse the folder for those, unless the log goes on from the older snapshot: it is cut only after a snapshot
    was verified. Raises OtherVersion.
    """
    bad: list[tuple[str, Damaged]] = []
    for name in reversed([name for name in await disk.names() if is_snapshot(name)]):
        data = await disk.read(name)
        try:
            snapshot = decoded(name, data)
        except Damaged as damage:
            bad.append((name, damage))
            continue
        if name != name_of(snapshot.index, snapshot.term):
            bad.append((name, Damaged(name, 0, f"it holds the snapshot up to entry {snapshot.index:,}: the file was renamed")))
            continue
        return snapshot, bad
    return EMPTY, bad


@contextmanager
def named(bad: list[tuple[str, Damaged]]) -> Generator[None]:
    """Refuse a folder for a snapshot that cannot be read, and not for what of the log is missing because of it: the log was cut
    after that snapshot, so it was whole once. Raises Damaged."""
    try:
        yield
    except Damaged:
        if bad:
            raise bad[0][1] from None
        raise


async def remove_unfinished(disk: Disk, bad: list[tuple[str, Damaged]]) -> None:
    """Remove files that never became a snapshot, and make the names of the others durable."""
    for name in [*(name for name in await disk.names() if name == TEMPORARY), *(name for name, _ in bad)]:
        await disk.remove(name)
    await disk.sync_names()

"""Safety: what counts as durable is read from the bytes that a crash leaves, and not from what a node says.

The log of a node as it would be found if its machine lost its power now, and lost all that it may.
"""

from functools import lru_cache

from highwater.dst.world.folder import Folder
from highwater.impl.raft import segments, snapshots
from highwater.impl.raft.entries import Log
from highwater.impl.raft.faults import FolderRefused
from highwater.impl.raft.log import Replay, goes_on
from highwater.impl.raft.segments import number_of

KEPT = 10_000  # segments


@lru_cache(KEPT)
def segment_of(name: str, content: bytes, node: str, newest: bool) -> segments.Segment | None:
    return segments.parsed(name, content, node, newest)


@lru_cache(KEPT)
def snapshot_of(name: str, content: bytes) -> tuple[int, int] | None:
    """Return (index, last term) of a snapshot's file; None if it cannot be read."""
    try:
        return snapshots.decoded(name, content)[:2]
    except FolderRefused:
        return None


def durable_snapshot(folder: Folder) -> tuple[int, int]:
    """Return (index, last term) of the newest snapshot that a crash leaves; (0, 0) if there is none."""
    those = sorted([name for name in folder.durable if snapshots.is_snapshot(name)], reverse=True)
    found = [snapshot_of(name, folder.durable[name].durable) for name in those]
    return next((one for one in found if one is not None), (0, 0))


def durable_log(folder: Folder, node: str) -> Log:
    """Return the log that a crash leaves at least, with its snapshot; empty if the folder would be refused."""
    names = sorted(name for name in folder.durable if number_of(name) is not None)
    first = number_of(names[0]) if names else None
    replay = Replay()
    try:
        for number, name in enumerate(names, first or 0):
            segment = segment_of(name, folder.durable[name].durable, node, name == names[-1])
            if number_of(name) != number:
                return Log()  # a segment is missing
            if segment is not None:
                replay.add(segment)
    except FolderRefused:
        return Log()
    log, snapshot = replay.recovered().log, durable_snapshot(folder)
    if log.base_index > snapshot[0]:
        return Log()  # entries are missing
    return log if goes_on(log, snapshot) else Log(*snapshot)

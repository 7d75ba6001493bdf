"""Safety: what counts as durable is read from the bytes that a crash leaves, and not from what a node says.

The log of a node as it would be found if its machine lost its power now, and lost all that it may.
"""

from functools import lru_cache

from highwater.dst.world.folder import Folder
from highwater.impl.raft import segments
from highwater.impl.raft.entries import Log
from highwater.impl.raft.faults import FolderRefused
from highwater.impl.raft.log import Replay
from highwater.impl.raft.segments import number_of

KEPT = 10_000  # segments


@lru_cache(KEPT)
def segment_of(name: str, content: bytes, node: str, newest: bool) -> segments.Segment | None:
    return segments.parsed(name, content, node, newest)


def durable_log(folder: Folder, node: str) -> Log:
    """Return the log that a crash leaves at least; empty if the folder would be refused."""
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
    return replay.recovered().log

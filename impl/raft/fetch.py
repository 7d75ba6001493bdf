"""Safety: a fetched snapshot is taken only whole, with its own checksum, and for the entry that the leader offered.

The leader offers a snapshot by a message; the follower then asks for its bytes, a chunk at a time, and asks again for what does
not come. So a lost message costs one chunk, and the leader keeps nothing about who fetches.
"""

from typing import NamedTuple

from highwater.impl.raft.faults import Damaged
from highwater.impl.raft.snapshots import Snapshot, decoded


class FetchChunk(NamedTuple):
    """Ask for the bytes of the snapshot (index, last_term) from `offset` on."""

    index: int
    last_term: int
    offset: int


class Chunk(NamedTuple):
    """An answer to FetchChunk. `size_bytes` is that of the whole file; 0 if the sender does not have this snapshot any more."""

    index: int
    last_term: int
    offset: int
    size_bytes: int
    body: bytes


def chunk_of(asked: FetchChunk, snapshot: Snapshot, data: bytes, most_bytes: int) -> Chunk:
    """Answer from the own snapshot, whose file is `data`."""
    if asked[:2] != (snapshot.index, snapshot.term) or not 0 <= asked.offset < len(data):
        return Chunk(*asked, 0, b"")
    return Chunk(*asked, len(data), data[asked.offset:asked.offset + most_bytes])


class Fetched:
    """A snapshot while it comes in."""

    def __init__(self, leader: str, index: int, last_term: int):
        self.leader, self.index, self.last_term = leader, index, last_term
        self.data = bytearray()
        self.size_bytes: int | None = None  # until the first chunk came

    def wants(self) -> FetchChunk:
        return FetchChunk(self.index, self.last_term, len(self.data))

    def take(self, sender: str, chunk: Chunk) -> bool:
        """Take a chunk, if it is the one that is missed next; tell whether it was."""
        expected = (self.leader, self.index, self.last_term, len(self.data))
        if (sender, chunk.index, chunk.last_term, chunk.offset) != expected:
            return False
        self.size_bytes = chunk.size_bytes
        self.data += chunk.body
        return True

    def is_gone(self) -> bool:
        return self.size_bytes == 0

    def is_whole(self) -> bool:
        return bool(self.size_bytes) and len(self.data) >= self.size_bytes

    def snapshot(self) -> Snapshot | None:
        """Return the snapshot; None if what came is not the one that was offered. Raises OtherVersion."""
        try:
            found = decoded(f"the snapshot from {self.leader}", bytes(self.data))
        except Damaged:
            return None
        return found if (found.index, found.term) == (self.index, self.last_term) else None

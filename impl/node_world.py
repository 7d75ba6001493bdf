"""Defines the seam of a replicated node: its own disk, the network to its peers, and signals between its tasks.

It stands beside impl/world.py, whose clock, ids and metrics a node is given, too. In production the seam is a real folder and
real streams (impl/stores); the simulator gives its own. A node awaits only these methods and those of the clock.
"""

from typing import NamedTuple, Protocol

from highwater.impl.errors import Definite, Indefinite
from highwater.impl.level import Level
from highwater.impl.world import Clock, Ids, Metrics


class DiskFull(Definite):
    """A write found no room: nothing of it is in the file, or is ever read from it."""


class DiskFailed(Indefinite):
    """A write or a sync failed: what was written since the last good sync may be there or not, now or after a crash."""


class DiskLocked(Definite):
    """Another process works in this folder: end it, or take another folder."""


class FileMissing(Definite):
    """No file has this name."""


class Message(NamedTuple):
    """A message as its receiver got it."""

    sender: str
    body: bytes


class Disk(Protocol):
    """The folder of one node. File names have no folder.

    At a crash a file keeps any subset of the 4 KiB pages of what was written since its last `sync`; the rest reads as zeros, or
    is cut off. A created, renamed or removed name is durable only after the next `sync_names`. Every method raises DiskFailed.
    """

    async def lock(self) -> None:
        """Take the folder for this process, until it ends. Raises DiskLocked."""
        ...

    async def names(self) -> list[str]:
        """Return the names of all files, sorted."""
        ...

    async def read(self, name: str) -> bytes:
        """Return the whole file. Raises FileMissing."""
        ...

    async def create(self, name: str) -> None:
        """Make an empty file. One with this name is emptied."""
        ...

    async def append(self, name: str, body: bytes) -> None:
        """Write at the end of a file. Raises FileMissing, DiskFull."""
        ...

    async def truncate(self, name: str, size_bytes: int) -> None:
        """Cut a file, so that it has this size. Raises FileMissing."""
        ...

    async def sync(self, name: str) -> None:
        """Make all that is in a file durable. Raises FileMissing."""
        ...

    async def rename(self, old: str, new: str) -> None:
        """Rename a file, atomically, in the place of any that has the new name. Raises FileMissing."""
        ...

    async def remove(self, name: str) -> None:
        """Remove a file. Raises FileMissing."""
        ...

    async def sync_names(self) -> None:
        """Make durable which files there are, and their names."""
        ...


class Net(Protocol):
    """The network between nodes. A message arrives once, later, twice or never, and in any order."""

    async def send(self, to: str, body: bytes) -> None:
        """Hand over a message. Nothing tells whether it arrives."""
        ...

    async def receive(self, timeout_ms: int) -> Message | None:
        """Return the next message to this node; None if none came within `timeout_ms`."""
        ...

    def known_of(self, peer: str) -> Level | None:
        """Return the highest level that a peer has said it knows; None if it has said nothing."""
        ...

    def end_from(self, sender: str) -> None:
        """End the connections on which messages of a sender come: it sent what is no message. It may connect again."""
        ...


class Signal(Protocol):
    """Something that happens once, and that tasks of one node wait for."""

    def set(self) -> None:
        """Let all who wait go on, and all who will."""
        ...

    async def wait(self) -> None:
        """Return once `set` was called."""
        ...


class Signals(Protocol):
    """A maker of signals."""

    def signal(self) -> Signal:
        """Return a new signal."""
        ...


class NodeWorld(NamedTuple):
    """Everything that one node is given."""

    disk: Disk
    net: Net
    clock: Clock
    signals: Signals
    ids: Ids
    metrics: Metrics

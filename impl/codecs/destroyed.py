"""How a database says that it is destroyed: in its manifest by a mark, and when that is gone, in the boundary.

No release of SlateDB has a field for it, and drops a field of ours. So the mark is an entry in the list of checkpoints, which
every release keeps: an id that nobody draws, no lease, and a name that says how and when. A released collector spares what it
names.
"""

from typing import Any, NamedTuple

from highwater.impl.codecs.manifest import Manifest

SEALED = (1 << 63) - 1  # no id is ahead of this boundary
MARK = "00000000-0000-4000-8000-64657374726f"  # «destro»: in the form of a UUID of version 4
SOFT, HARD = "soft", "hard"


class Mark(NamedTuple):
    """The mark: SOFT or HARD, when it was made, and when its grace is over, by its operator's clock."""

    kind: str
    at_ms: int
    due_ms: int


def mark_of(manifest: Manifest) -> Mark | None:
    """Return the mark of a manifest; None if it has none."""
    name = next((one.name for one in manifest.checkpoints if one.id == MARK), None)
    if name is None:
        return None
    _, kind, at_ms, due_ms = name.split(" ")
    return Mark(kind, int(at_ms), int(due_ms))


def pins_of(manifest: Manifest) -> tuple[Any, ...]:
    """Return the checkpoints of others. SlateDB's RFC gives a writer one of its own, which goes with the writer's epoch."""
    return tuple(one for one in manifest.checkpoints if one.id != MARK and one.writer_epoch is None)

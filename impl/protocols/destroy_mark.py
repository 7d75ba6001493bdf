"""Safety: the mark of a destroyed database is in the manifest that its checkpoints were checked in, and every later manifest
has it.

No release of SlateDB has a field for it, and drops a field of ours. So it is an entry in the list of checkpoints, which every
release keeps: an id that nobody draws, no lease, and a name that says how and when. A released collector spares what it names.
"""

from typing import Any, NamedTuple

from highwater.impl.codecs.manifest import Manifest
from highwater.impl.errors import Definite

MARK = "00000000-0000-4000-8000-64657374726f"  # «destro»: in the form of a UUID of version 4
SOFT, HARD = "soft", "hard"


class Mark(NamedTuple):
    """The mark: SOFT or HARD, when it was made, and when its grace is over, by its operator's clock."""

    kind: str
    at_ms: int
    due_ms: int


class DatabaseDestroyed(Definite):
    """The database is marked as destroyed: it gets no new checkpoint, and none is refreshed."""

    def __init__(self, mark: Mark):
        self.mark = mark
        super().__init__(f"the database was destroyed ({mark.kind}) at {mark.at_ms} ms: it takes no new checkpoints and no "
                         "writers, and what is listed may only be deleted")


def mark_of(manifest: Manifest) -> Mark | None:
    """Return the mark of a manifest; None if it has none."""
    name = next((one.name for one in manifest.checkpoints if one.id == MARK), None)
    if name is None:
        return None
    _, kind, at_ms, due_ms = name.split(" ")
    return Mark(kind, int(at_ms), int(due_ms))


def pins_of(manifest: Manifest) -> tuple[Any, ...]:
    """Return the checkpoints of others. SlateDB's RFC gives a writer one of its own, which goes with the writer's epoch."""
    return tuple(one for one in manifest.checkpoints if one.id != MARK and not of_writer(one))


def of_writer(entry: Any) -> bool:
    """Return whether the entry is the checkpoint of a writer. Only SlateDB's form has a place for that."""
    return getattr(entry, "metadata", None) is not None


def with_mark(manifest: Manifest, mark: Mark, codec: Any, file_id: int) -> Manifest:
    """Return the manifest of this id with the mark, without a writer's checkpoint, and with the next epochs."""
    entry = codec.checkpoint.taken(MARK, file_id, 0, mark.at_ms, " ".join(("destroyed", *map(str, mark))))
    return manifest._replace(checkpoints=(*pins_of(manifest), entry), writer_epoch=manifest.writer_epoch + 1,
                             compactor_epoch=manifest.compactor_epoch + 1)

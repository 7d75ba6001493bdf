"""Safety: the mark of a destroyed database is in the manifest that its checkpoints were checked in, and every later manifest
has it. impl/codecs/destroyed.py says what it is."""

from typing import Any

from highwater.impl.codecs.destroyed import MARK, SEALED, Mark, pins_of
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.errors import Definite


class DatabaseDestroyed(Definite):
    """The database is marked as destroyed: it gets no new checkpoint, and none is refreshed."""

    def __init__(self, mark: Mark):
        self.mark = mark
        super().__init__(f"the database was destroyed ({mark.kind}) at {mark.at_ms} ms: it takes no new checkpoints and no "
                         "writers, and what is listed may only be deleted")


async def is_sealed(manifests: Any) -> bool:
    """Return whether the database has the tombstone: it is being deleted, or is gone. Raises what reading the boundary
    raises."""
    return await manifests.bounded.boundary.read() >= SEALED


def with_mark(manifest: Manifest, mark: Mark, codec: Any, file_id: int) -> Manifest:
    """Return the manifest of this id with the mark, without a writer's checkpoint, and with the next epochs."""
    entry = codec.checkpoint.taken(MARK, file_id, 0, mark.at_ms, " ".join(("destroyed", *map(str, mark))))
    return manifest._replace(checkpoints=(*pins_of(manifest), entry), writer_epoch=manifest.writer_epoch + 1,
                             compactor_epoch=manifest.compactor_epoch + 1)

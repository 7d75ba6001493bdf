"""Safety: no client reads V2 only while there is a V1 manifest that it might have to read.

«Once no V1 manifests remain on disk (i.e., all have been superseded), V1 reading support can be removed.» (source 001) A V1
file that a checkpoint keeps remains as long as the checkpoint does. That none is written later is for the operator to see to:
who is still in phase 1 must have ended before phase 3 begins (specs/ManifestMigration.fizz shows what comes of it else).
"""

from impl.errors import Definite, NotFound
from impl.header_slatedb import version_of
from impl.layout import Namespace
from impl.sequenced_storage import SequencedStorage
from impl.world import World


class V1Remains(Definite):
    """Phase 3 is refused."""

    def __init__(self, prefix: str, ids: list[int]):
        self.ids = ids
        shown = ", ".join(map(str, ids[:5])) + (", ..." if len(ids) > 5 else "")
        super().__init__(f"{len(ids)} manifests in {prefix!r} are V1 ({shown}): go on in phase 2 until they are superseded, "
                         "their checkpoints have ended and a collector has deleted them")


async def begin_v2_only(world: World, root: str) -> None:
    """Look at every manifest that there is. Raises V1Remains, InvalidName, InvalidFile, Unavailable."""
    namespace = Namespace(root, "manifest")
    storage, found = SequencedStorage(world, namespace), []
    for file in await storage.list():
        try:
            if version_of(await storage.read(file.id)) == 1:
                found.append(file.id)
        except NotFound:
            continue  # deleted since
    if found:
        raise V1Remains(namespace.prefix, found)

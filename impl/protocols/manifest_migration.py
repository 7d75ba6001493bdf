"""Safety: an acknowledged update is in every later manifest, whichever releases have written since, and no client meets a
manifest that it cannot read.

SlateDB's RFC on checkpoints and clones has three phases. The first two are a setting of the codec
(impl/codecs/slatedb/manifest.py). The codec refuses content for which the version it writes has no place. The third phase
begins here.

«Once no V1 manifests remain on disk (i.e., all have been superseded), V1 reading support can be removed.» That is not enough:
the create of a client that was in phase 1 may be in flight and be applied after the check. So a V2 manifest is written first.
It takes the id that such a create needs. One condition is left to the operator: every client must have left phase 1 before.
"""

from highwater.impl.codecs.slatedb.header import version_of
from highwater.impl.codecs.slatedb.manifest import ManifestCodec, Phase
from highwater.impl.errors import Definite, NotFound
from highwater.impl.layout import Namespace
from highwater.impl.protocols.sequenced_metadata import MetadataStore
from highwater.impl.world import World


class V1Remains(Definite):
    """Phase 3 is refused because V1 manifests remain."""

    def __init__(self, prefix: str, ids: list[int]):
        self.ids = ids
        super().__init__(f"{len(ids)} manifests in {prefix!r} are V1, the first is {ids[0]}: go on in phase 2 until they are "
                         "superseded, their checkpoints have ended and a collector has deleted them")


async def begin_v2_only(world: World, root: str) -> MetadataStore:
    """Return a store that reads and writes V2 only. A V1 file that a checkpoint keeps stays as long as the checkpoint.

    Raises V1Remains, NewerFields, CannotHold, and what MetadataStore.update raises.
    """
    namespace = Namespace(root, "manifest")
    store = MetadataStore(world, namespace, ManifestCodec(Phase.WRITE_V2))
    await store.update(lambda _, manifest: manifest)
    found = []
    for file in await store.bounded.list():
        try:
            if version_of(await store.bounded.read(file.id)) == 1:
                found.append(file.id)
        except NotFound:
            continue  # it was deleted after the listing
    if found:
        raise V1Remains(namespace.prefix, found)
    return MetadataStore(world, namespace, ManifestCodec(Phase.V2_ONLY))

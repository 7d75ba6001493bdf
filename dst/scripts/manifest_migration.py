"""Scripts of the migration from V1 to V2 manifests, impl/protocols/manifest_migration.py."""

from highwater.dst.script import MANY, Alone, Script, same
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.header import version_of
from highwater.impl.codecs.slatedb.manifest import ManifestCodec, Phase
from highwater.impl.errors import NotFound, Unavailable
from highwater.impl.layout import Namespace
from highwater.impl.protocols.manifest_migration import V1Remains, begin_v2_only

FILES = Namespace("db", "manifest")


async def begin(alone: Alone) -> None:
    for file_id, phase in ((1, Phase.WRITE_V1), (2, Phase.WRITE_V1), (3, Phase.WRITE_V2)):
        await alone.real.create(FILES.key(file_id), ManifestCodec(phase).encode(Manifest()))
    error = await alone.raises(V1Remains, begin_v2_only(alone.world, "db"), ids=[1, 2])
    same(str(error).startswith("2 manifests in 'db/manifest/' are V1, the first is 1: "), True, f"the beginning of {error}")
    same(version_of((await alone.real.get(FILES.key(4))).body), 2, "the version of the manifest that it writes")
    same(alone.sent(), ["list manifest", "get 3.manifest", "create 4.manifest", "get manifest.boundary", "list manifest",
                        *(f"get {file_id}.manifest" for file_id in (1, 2, 3, 4))])
    alone.fails("get", "1.manifest", Unavailable)
    await alone.raises(Unavailable, begin_v2_only(alone.world, "db"))
    await alone.real.delete(FILES.key(2))
    alone.fails("get", "1.manifest", NotFound)  # it is deleted after the listing
    store = await begin_v2_only(alone.world, "db")
    same(store.codec.phase, Phase.V2_ONLY)
    same((await store.current()).id, 6)


async def many(alone: Alone) -> None:
    for file_id in range(1, MANY + 1):
        phase = Phase.WRITE_V1 if file_id in (1, MANY - 1) else Phase.WRITE_V2
        await alone.real.create(FILES.key(file_id), BODIES[phase])
    await alone.raises(V1Remains, begin_v2_only(alone.world, "db"), ids=[1, MANY - 1])


BODIES = {phase: ManifestCodec(phase).encode(Manifest()) for phase in (Phase.WRITE_V1, Phase.WRITE_V2)}
SCRIPTS: tuple[Script, ...] = (begin, many)

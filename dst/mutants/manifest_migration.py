"""Mutants of the migration, each with one safeguard removed. Simulation must find each of them.

Each knob of model/protocols/manifest_migration.py has at least one mutant: REFUSE (`drops_newer_fields`: slatedb#779,
`writes_what_v1_cannot_hold`), ORDERED (`writes_v2_early`), LOOK (`begins_without_a_look`, `looks_first`), BARRIER
(`begins_without_a_barrier`).
"""

from collections.abc import Awaitable, Callable

from highwater.dst.scenario import Mutants
from highwater.dst.scenarios.manifest_migration import Impl, Shape, codec_of, production
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.header import version_of
from highwater.impl.codecs.slatedb.manifest import ManifestCodec, Phase
from highwater.impl.errors import NotFound, OutcomeUnknown
from highwater.impl.layout import Namespace
from highwater.impl.protocols.manifest_migration import V1Remains
from highwater.impl.protocols.sequenced_metadata import Committed, MetadataStore
from highwater.impl.protocols.sequenced_metadata_boundary import BoundedSequencedStorage
from highwater.impl.protocols.sequenced_storage import FIRST_ID, SequencedStorage
from highwater.impl.world import World


def in_v1(manifest: Manifest) -> Manifest:
    """Return the manifest without the fields that V1 does not have."""
    return manifest._replace(segments=(), segment_extractor_name=None)


class DropsNewerFields(ManifestCodec):
    """Reads V2 as a V1 client reads a table with unknown slots, dropping them, and writes the rest."""

    def decode(self, body: bytes) -> Manifest:
        manifest = super().decode(body)
        return in_v1(manifest) if self.phase == Phase.WRITE_V1 else manifest


class WritesWhatV1CannotHold(ManifestCodec):
    """Drops whatever V1 cannot hold when it writes, even from its own update."""

    def encode(self, manifest: Manifest) -> bytes:
        return super().encode(in_v1(manifest) if self.phase == Phase.WRITE_V1 else manifest)


class WritesV2Early(ManifestCodec):
    """Writes V2 in phase 1, although some clients may know only V1."""

    def __init__(self, phase: Phase):
        super().__init__(Phase.WRITE_V2 if phase == Phase.WRITE_V1 else phase)


class UnheardIsReported(MetadataStore):
    """Reports an update with an indeterminate outcome as committed."""

    async def update(self, change: Callable[[int, Manifest], Manifest], attempts: int | None = None) -> Committed:
        try:
            return await super().update(change, attempts)
        except OutcomeUnknown:
            return Committed(FIRST_ID, None)


class Overwrites(SequencedStorage):
    """Puts the next manifest without a condition."""

    async def create(self, file_id: int, body: bytes) -> None:
        await self.world.store.put(self.namespace.key(file_id), body)


def store_of(world: World, root: str, phase: Phase) -> MetadataStore:
    return MetadataStore(world, Namespace(root, "manifest"), ManifestCodec(phase))


async def write_v2(world: World, root: str) -> None:
    await store_of(world, root, Phase.WRITE_V2).update(lambda _, manifest: manifest)


async def look(world: World, root: str) -> MetadataStore:
    bounded: BoundedSequencedStorage = store_of(world, root, Phase.WRITE_V2).bounded
    for file in await bounded.list():
        try:
            if version_of(await bounded.read(file.id)) == 1:
                raise V1Remains(root, [file.id])
        except NotFound:
            continue
    return store_of(world, root, Phase.V2_ONLY)


async def without_a_look(world: World, root: str) -> MetadataStore:
    await write_v2(world, root)
    return store_of(world, root, Phase.V2_ONLY)


async def look_first(world: World, root: str) -> MetadataStore:
    store = await look(world, root)
    await write_v2(world, root)
    return store


Build = Callable[[World, Shape, int], Impl]


def with_codec(codec: type[ManifestCodec]) -> Build:
    def build(world: World, shape: Shape, phase: int) -> Impl:
        impl = production(world, shape, phase)
        impl.store.codec = codec_of(phase, codec)
        return impl

    return build


def beginning(begin_v2_only: Callable[[World, str], Awaitable[MetadataStore]]) -> Build:
    return lambda world, shape, phase: production(world, shape, phase)._replace(begin_v2_only=begin_v2_only)


def reporting(world: World, shape: Shape, phase: int) -> Impl:
    impl = production(world, shape, phase)
    return impl._replace(store=UnheardIsReported(world, Namespace("db", "manifest"), impl.store.codec))


def overwriting(world: World, shape: Shape, phase: int) -> Impl:
    impl = production(world, shape, phase)
    impl.store.bounded.storage = Overwrites(world, impl.store.bounded.storage.namespace)
    return impl


BUILDS = {  # name -> (its bug, its Build)
    "drops_newer_fields": ("a client in phase 1 drops the newer fields of V2 when it rewrites the manifest",
                           with_codec(DropsNewerFields)),
    "writes_what_v1_cannot_hold": ("a client in phase 1 drops updates that V1 cannot hold", with_codec(WritesWhatV1CannotHold)),
    "writes_v2_early": ("a client in phase 1 writes V2", with_codec(WritesV2Early)),
    "begins_without_a_look": ("phase 3 begins while a V1 manifest remains", beginning(without_a_look)),
    "begins_without_a_barrier": ("phase 3 begins without writing a V2 manifest before it looks for V1", beginning(look)),
    "looks_first": ("phase 3 writes its V2 manifest only after it looks for V1", beginning(look_first)),
    "unheard_is_reported": ("an update without a response is reported as committed", reporting),
    "overwrites": ("the manifest is put without a condition", overwriting),
}

CREATE, LOST, UNREADABLE = "refinement:Writer.CreateNext", "history:lost update", "history:unreadable manifest"
BEHIND = "liveness:behind"
ORACLES = {  # name -> prefixes of its signatures: by model; by harm
    "drops_newer_fields": ((CREATE, "refinement:Writer.SendCreate"), (LOST,)),
    "writes_what_v1_cannot_hold": ((CREATE, "refinement:Writer.SendCreate"), (LOST,)),
    "writes_v2_early": ((CREATE, "refinement:Writer.SendCreate"), (UNREADABLE,)),
    "begins_without_a_look": (("told:began",), (UNREADABLE,)),
    "begins_without_a_barrier": (("told:began", BEHIND), (UNREADABLE, BEHIND)),  # BEHIND: if nobody else writes V2
    "looks_first": (("told:began", BEHIND), (UNREADABLE, BEHIND)),
    "unheard_is_reported": (("told:committed",), (LOST,)),
    "overwrites": (("refinement:Writer.put",), (LOST,)),
}
MUTANTS = Mutants(BUILDS, ORACLES)

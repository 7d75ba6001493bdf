"""Give a database each bug of its parts: the mutants of sequenced metadata, update ids, epochs, compactions and the WAL.

A mutant of a sequence is made twice, for manifests and for compactions. UNMADE lists the mutants that a database cannot have,
each with the request that it never makes.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from highwater.dst.mutants import manifest_compactions as of_compactions
from highwater.dst.mutants import sequenced_metadata_boundary as of_boundary
from highwater.dst.mutants import sequenced_metadata_boundary_ambiguity as of_sdks
from highwater.dst.mutants import update_ids as of_ids
from highwater.dst.mutants import wal_fencing as of_wal
from highwater.dst.scenarios.database_metadata import COMPACTIONS, MANIFEST, ROOT, Impl, Shape, production
from highwater.impl.codecs.json import compactions as compactions_json
from highwater.impl.codecs.json.manifest import DATABASE
from highwater.impl.layout import Namespace
from highwater.impl.protocols import wal_fencing
from highwater.impl.protocols.database_metadata import Deleted, SequencedManifest
from highwater.impl.protocols.manifest_compactions import Stores
from highwater.impl.protocols.sequenced_metadata import MetadataStore
from highwater.impl.protocols.wal_fencing import Wal
from highwater.impl.world import World

Build = Callable[[World, Shape, int], Impl]
CODECS = {MANIFEST.name: DATABASE, COMPACTIONS.name: compactions_json}
NO_SST = "a flush by the name of an SST (manifest_compactions.flush): the WAL's writer puts the manifest"
NO_SDK = "a request that an SDK repeats"
NO_SESSION = "an update of a session: operators use update ids"
NO_KV = "a get of a store of keys and values"
NO_UPDATE = "MetadataStore.update: compactors claim an epoch, all other updates are recognised"
SPARED = "a collection without the pins; manifest_checkpoints_not_spared is this bug"
NO_LOG_CHECKPOINTS = "a checkpoint of the WAL: checkpoints of a database pin no WAL object"
NO_OBJECT = "a put of the object wal.manifest; manifest_overwrites is this bug in a sequence"
NO_CHECKPOINTS = "a look for checkpoints in compactions, which have none"
NO_DOUBT = "an answer that tells a conflict from a refusal: a compactor looks for each update, and tells no caller of one"
UNMADE: dict[str, str] = {  # stem/mutant of a part, or the mutant of one sequence -> the request that a database never makes
    **{f"sequenced_metadata_boundary/{name}": NO_SDK for name in of_sdks.BUILDS},
    **{f"update_ids/{name}": NO_SESSION for name in ("number_kept", "last_forgotten", "forgotten_is_new")},
    **{f"manifest_compactions/{name}": NO_SST for name in ("refused_is_repeated", "unheard_is_reported", "flush_unread")},
    "manifest_compactions/pinned_not_spared": SPARED,
    **{f"wal_fencing/{name}": NO_KV for name in ("served_unlogged", "oldest_wins")},
    **{f"wal_fencing/{name}": NO_LOG_CHECKPOINTS for name in (
        "collects_checkpointed", "collects_end", "forgets_checkpoints", "one_too_few")},
    "wal_fencing/blind_manifest": NO_OBJECT,
    **{f"sequenced_metadata_boundary/{name}": NO_UPDATE for name in ("conflict_not_looked_at", "returns_no_value")},
    **{f"compactions_{name}": NO_CHECKPOINTS for name in (
        "checkpoints_not_spared", "expired_not_spared", "checkpoints_not_checked")},
    **{f"compactions_{name}": NO_DOUBT for name in ("lost_reply_is_conflict", "refused_is_applied_again")},
    "compactions_reads_not_checked": "a read of the compactions by `current`",
}


# --- a bug of one sequence

def in_sequence(name: str, bug: Callable[..., MetadataStore]) -> Build:
    """Return a database with the bug in the sequence of this name. `bug(world, namespace, spare, number)` makes its client."""
    def build(world: World, shape: Shape, number: int) -> Impl:
        impl = production(world, shape, number)
        usual = getattr(impl.stores, name)
        store = bug(world, Namespace(ROOT, name), usual.policies.spare_checkpoints, number)
        store.codec, store.policies = CODECS[name], usual.policies
        return impl._replace(stores=impl.stores._replace(**{name: store}))

    return build


OF_SEQUENCES = {
    f"{name}_{mutant}": (f"{name}: {what}", in_sequence(name, bug))
    for name in CODECS for mutant, (what, bug) in of_boundary.BUILDS.items()
    if not {f"sequenced_metadata_boundary/{mutant}", f"{name}_{mutant}"} & UNMADE.keys()}
OF_IDS = {mutant: (f"operators: {what}", in_sequence(MANIFEST.name, bug)) for mutant, (what, bug) in of_ids.BUILDS.items()
       if f"update_ids/{mutant}" not in UNMADE}


# --- bugs of compactions

def of_compactor(bug: Callable[..., Any]) -> Build:
    """Return a database with the stores and the compactor of a mutant of compactions."""
    def build(world: World, shape: Shape, number: int) -> Impl:
        broken: Any = bug(world, of_compactions.Shape(), number)
        stores: Stores = broken.stores
        impl = production(world, shape, number)
        stores.manifest.codec, stores.manifest.policies = DATABASE, impl.stores.manifest.policies
        return impl._replace(stores=stores, compactor=broken.compactor)

    return build


async def collect_first(stores: Stores, root: str, min_age_ms: int) -> Deleted:
    manifests, compactions = await of_compactions.collect_first(stores, min_age_ms)
    return manifests, compactions, []


OF_COMPACTIONS = {mutant: (what, of_compactor(bug)) for mutant, (what, bug) in of_compactions.BUILDS.items()
                if f"manifest_compactions/{mutant}" not in UNMADE}
OF_COMPACTIONS["collects_first"] = (of_compactions.BUILDS["collects_first"][0], lambda world, shape, number: production(
    world, shape, number)._replace(collect=collect_first))


# --- bugs of the WAL

def of_log(bug: Callable[..., Any]) -> Build:
    """Return a database whose writers and collectors of the WAL are those of a mutant of wal_fencing."""
    def build(world: World, shape: Shape, number: int) -> Impl:
        broken: Any = bug(world, shape, number)

        async def open(stores: Stores, root: str, flush_every: int | None = None) -> Wal:
            return await broken.open(stores.manifest.world, root, flush_every=flush_every,
                                     manifest=SequencedManifest(stores.manifest))

        impl = production(world, shape, number)
        collects = broken.collect is not wal_fencing.collect
        return impl._replace(open=impl.open if collects else open, collect=partial(collect_wal_by, broken.collect))

    return build


async def collect_wal_by(collect: Callable[..., Any], stores: Stores, root: str, min_age_ms: int) -> Deleted:
    """Run one round with another collector of the WAL."""
    manifests, compactions = await stores.manifest.collect(min_age_ms), await stores.compactions.collect(min_age_ms)
    current = SequencedManifest(stores.manifest).current
    return manifests, compactions, await collect(stores.manifest.world, root, min_age_ms, current)


OF_WAL = {mutant: (what, of_log(bug)) for mutant, (what, bug) in of_wal.BUILDS.items() if f"wal_fencing/{mutant}" not in UNMADE}

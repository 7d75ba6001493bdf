"""Mutants of impl/protocols/checkpoints.py, each with one safeguard removed. Simulation must find each of them.

Each knob of model/protocols/checkpoints.py has a mutant: SPARE_CHECKPOINTED (`not_spared`), DROP_EXPIRED_FIRST
(`active_spared`), SPARE_LATEST (`latest_not_spared`), SPARE_SSTS (`ssts_not_spared`), SOURCE_IN_SAME_CAS (`source_before`),
REFRESH_NEEDS_ENTRY (`refresh_lists_again`), RECOGNISE (`created_again`), SKEW_MARGIN (`clock_ahead`).

Released SlateDB 0.17 has three of the bugs: it renews an ended lease (`ended_is_renewed`), it copies one (`ended_is_copied`),
and it rounds a lease down to whole seconds (`lease_is_cut`).
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from highwater.dst.scenario import Mutants
from highwater.dst.scenarios.checkpoints import Impl, Shape, production, swapped
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.errors import NotFound, OutcomeUnknown
from highwater.impl.layout import key_of_sst
from highwater.impl.protocols import checkpoints
from highwater.impl.protocols.boundary_object import ObjectVersionBehindBoundary
from highwater.impl.protocols.checkpoints import CheckpointEnded, CheckpointMissing, expiry_ms, found
from highwater.impl.protocols.sequenced_metadata import Committed, MetadataStore, Put, Recognised, Verdict
from highwater.impl.protocols.sequenced_storage import FIRST_ID, SequencedStorage, old_ids
from highwater.impl.world import World, list_all

Done = Committed | Recognised
Deleted = tuple[list[int], list[str]]


# --- collectors

async def collect_as(manifests: MetadataStore, root: str, min_age_ms: int, skew_ms: int, *, drops: bool = True,
                     spares: str = "listed", latest: bool = True, ssts: bool = True) -> Deleted:
    """Collect, and spare what checkpoints name that are "listed", or "active", or of "none"; with `latest` the SSTs of the
    latest manifest, and with `ssts` those of the spared ones."""
    if drops:
        await manifests.drop_ended(skew_ms=skew_ms)
    files, now_ms = await manifests.bounded.list(), manifests.world.clock.now_ms()
    value = (await manifests.current()).value
    entries = () if spares == "none" else [one for one in value.checkpoints if spares == "listed" or one.active(now_ms)]
    spared, old, names = {one.manifest_id for one in entries}, old_ids(files[:-1], now_ms, min_age_ms), {}
    for file_id in sorted({*spared, *old}):
        try:
            names[file_id] = (await manifests.read(file_id)).named_ssts
        except NotFound:
            if file_id in spared:
                return [], []
    alive = set(value.named_ssts if latest else ()).union(*(names[i] for i in spared if ssts))
    garbage = [file_id for file_id in old if file_id in names and file_id not in spared]
    dead = sorted(set().union(*(names[i] for i in garbage)) - alive)
    for sst in dead:
        await manifests.world.store.delete(key_of_sst(root, sst))
    if garbage:
        await manifests.advance_boundary(max(garbage))
    return [file_id for file_id in garbage if await manifests.bounded.storage.collect(file_id)], dead


async def collect_by_listing(manifests: MetadataStore, root: str, min_age_ms: int, skew_ms: int) -> Deleted:
    """Delete each SST that no manifest names, also one that is uploaded and not yet in a manifest."""
    value = (await manifests.current()).value
    try:
        alive = value.named_ssts.union(*[(await manifests.read(i)).named_ssts for i in sorted(value.referenced())])
    except NotFound:
        return [], []
    folder, deleted = key_of_sst(root, "").removesuffix(".sst"), []
    for entry in await list_all(manifests.world.store, folder):
        sst = entry.key.removeprefix(folder).removesuffix(".sst")
        if sst not in alive:
            await manifests.world.store.delete(entry.key)
            deleted.append(sst)
    ids, ssts = await checkpoints.collect(manifests, root, min_age_ms, skew_ms)
    return ids, sorted({*deleted, *ssts})


class CheckedReads(MetadataStore):
    """Refuses to read a manifest behind the boundary, although a checkpoint keeps it."""

    async def read(self, file_id: int) -> Any:
        value = await super().read(file_id)
        if file_id <= await self.bounded.boundary.read():
            raise NotFound(f"id {file_id} is behind the boundary")
        return value


async def collect_ahead(manifests: MetadataStore, root: str, min_age_ms: int, skew_ms: int) -> Deleted:
    """Drop the checkpoints that have ended by this clock, which may be ahead of the owner's."""
    return await checkpoints.collect(manifests, root, min_age_ms)


async def collect_without_dropping(manifests: MetadataStore, root: str, min_age_ms: int, skew_ms: int) -> Deleted:
    """Leave the checkpoints that have ended in the list."""
    return await collect_as(manifests, root, min_age_ms, skew_ms, drops=False)


# --- clients

async def create_from_before(manifests: MetadataStore, which: str, lifetime_ms: int | None = None, name: str | None = None,
                             source: str | None = None) -> Done:
    """Look the source up first, and then create the checkpoint in whatever manifest is the latest."""
    if source is None:
        return await checkpoints.create(manifests, which, lifetime_ms, name)
    value = (await manifests.current()).value
    of = found(value, source)
    if of is None or not of.active(manifests.world.clock.now_ms()):
        raise CheckpointEnded(source) if of else CheckpointMissing(source)
    return await created_as(manifests, which, lifetime_ms, lambda _, m: of.manifest_id)


async def created_as(manifests: MetadataStore, which: str, lifetime_ms: int | None,
                     keeps: Callable[[int, Manifest], int]) -> Done:
    """Create a checkpoint of the manifest that `keeps(id of the next file, latest manifest)` names."""
    entry = manifests.codec.checkpoint.taken(which, 0, expiry_ms(manifests, lifetime_ms), manifests.world.clock.now_ms(), None)
    return await manifests.update_recognised(
        lambda m: found(m, which) is not None,
        lambda file_id, m: m.with_checkpoint(entry._replace(manifest_id=keeps(file_id, m))))


async def create_of_first_read(manifests: MetadataStore, which: str, lifetime_ms: int | None = None, name: str | None = None,
                               source: str | None = None) -> Done:
    """Name the manifest after the one that was read first, also after a conflict."""
    if source is not None:
        return await checkpoints.create(manifests, which, lifetime_ms, name, source)
    first: list[int] = []

    def keeps(file_id: int, _: Manifest) -> int:
        first.append(file_id)
        return first[0]

    return await created_as(manifests, which, lifetime_ms, keeps)


async def create_from_latest(manifests: MetadataStore, which: str, lifetime_ms: int | None = None, name: str | None = None,
                             source: str | None = None) -> Done:
    """Name the manifest that lists the new checkpoint, and not its source's."""
    return await checkpoints.create(manifests, which, lifetime_ms, name)


async def create_again(manifests: MetadataStore, which: str, lifetime_ms: int | None = None, name: str | None = None,
                       source: str | None = None) -> Done:
    """Create the checkpoint again after a refusal or a lost reply, without looking for it."""
    entry = manifests.codec.checkpoint.taken(which, 0, expiry_ms(manifests, lifetime_ms), manifests.world.clock.now_ms(), None)

    async def decide(latest: int, m: Manifest) -> Put | Verdict:
        of = found(m, source) if source else None
        if source and (of is None or not of.active(manifests.world.clock.now_ms())):
            return Verdict(CheckpointEnded(source) if of else CheckpointMissing(source))
        return Put(m.with_checkpoint(entry._replace(manifest_id=of.manifest_id if of else latest + 1)))

    return checkpoints.done(await manifests.apply(decide, True))


async def create_from_ended(manifests: MetadataStore, which: str, lifetime_ms: int | None = None, name: str | None = None,
                            source: str | None = None) -> Done:
    """Copy a checkpoint although its lease has ended."""
    if source is None:
        return await checkpoints.create(manifests, which, lifetime_ms, name)
    entry = manifests.codec.checkpoint.taken(which, 0, expiry_ms(manifests, lifetime_ms), manifests.world.clock.now_ms(), None)

    async def decide(latest: int, m: Manifest) -> Put | Verdict:
        of = found(m, source)
        if found(m, which) or of is None:
            return Verdict(Recognised(latest, m) if found(m, which) else CheckpointMissing(source))
        return Put(m.with_checkpoint(entry._replace(manifest_id=of.manifest_id)))

    return checkpoints.done(await manifests.apply(decide, True))


def blindly(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return the call that reports an unknown outcome as success."""
    async def reported(manifests: MetadataStore, *arguments: Any) -> Done:
        try:
            return await call(manifests, *arguments)
        except (OutcomeUnknown, ObjectVersionBehindBoundary):
            return Committed(FIRST_ID, Manifest())

    return reported


async def refresh_ended(manifests: MetadataStore, which: str, lifetime_ms: int | None = None) -> Done:
    """Renew a lease that has ended."""
    return await renewed_as(manifests, which, lifetime_ms, None)


async def refresh_lists_again(manifests: MetadataStore, which: str, lifetime_ms: int | None = None) -> Done:
    """Renew a checkpoint that was listed when the call began, and put it back if it is not listed any more."""
    entry = found((await manifests.current()).value, which)
    if entry is None or not entry.active(manifests.world.clock.now_ms()):
        raise CheckpointEnded(which) if entry else CheckpointMissing(which)
    return await renewed_as(manifests, which, lifetime_ms, entry)


async def renewed_as(manifests: MetadataStore, which: str, lifetime_ms: int | None, known: Any) -> Done:
    ends_ms = expiry_ms(manifests, lifetime_ms)

    async def decide(latest: int, m: Manifest) -> Put | Verdict:
        entry = found(m, which)
        if entry is None and known is None:
            return Verdict(CheckpointMissing(which))
        renewed = (entry or known).renewed(ends_ms)
        if entry == renewed:
            return Verdict(Recognised(latest, m))
        others = tuple(one for one in m.checkpoints if one.id != which)
        return Put(m._replace(checkpoints=(*others, renewed)))

    return checkpoints.done(await manifests.apply(decide, True))


async def refresh_missing(manifests: MetadataStore, which: str, lifetime_ms: int | None = None) -> Done:
    """Report a checkpoint as renewed although it is not listed."""
    try:
        return await checkpoints.refresh(manifests, which, lifetime_ms)
    except CheckpointMissing:
        latest = await manifests.current()
        return Recognised(latest.id, latest.value)


async def delete_unlisted(manifests: MetadataStore, which: str) -> Done:
    """Write a manifest although there is nothing to delete."""
    return await manifests.update(lambda _, m: m._replace(checkpoints=tuple(one for one in m.checkpoints if one.id != which)))


async def listed_unchecked(manifests: MetadataStore, name: str | None = None) -> tuple[Any, ...]:
    """Return the checkpoints of a manifest that may be in nobody's history."""
    _, body = await manifests.bounded.latest()
    return manifests.codec.decode(body).checkpoints


class Cut(MetadataStore):
    """Rounds a lease down to the seconds of the file."""

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        codec, real = self.codec, self.codec.checkpoint

        class Codec:
            encode, decode, is_initialized = codec.encode, codec.decode, codec.is_initialized

            class checkpoint:
                @staticmethod
                def taken(which: str, manifest_id: int, ends_ms: int, now_ms: int, name: str | None) -> Any:
                    return real.taken(which, manifest_id, ends_ms // 1000 * 1000, now_ms, name)

        self.codec = Codec


# --- the sequence, and compactors

class Unbounded:
    """A BoundedSequencedStorage whose creates succeed regardless of the boundary."""

    def __init__(self, of: Any):
        self.storage, self.boundary = of.storage, of.boundary
        self.list, self.latest, self.current, self.read = of.list, of.latest, of.current, of.read
        self.create = of.storage.create


class Overwriting(SequencedStorage):
    """Puts the next file without a condition."""

    async def create(self, file_id: int, body: bytes) -> None:
        await self.world.store.put(self.namespace.key(file_id), body)


def unchecked(world: World, shape: Shape, number: int) -> Impl:
    impl = production(world, shape, number)
    impl.manifests.bounded = Unbounded(impl.manifests.bounded)  # pyright: ignore[reportAttributeAccessIssue]
    return impl


def overwriting(world: World, shape: Shape, number: int) -> Impl:
    impl = production(world, shape, number)
    impl.manifests.bounded.storage = Overwriting(world, impl.manifests.bounded.storage.namespace)
    return impl


def keeps_first_list(world: World, shape: Shape, number: int) -> Impl:
    """After a conflict a compactor puts back the checkpoints that it read first."""
    first: dict[str, tuple] = {}

    def replace(shape: Shape, new: str, at: int, file_id: int, m: Manifest) -> Manifest:
        return swapped(shape, new, at, file_id, m)._replace(checkpoints=first.setdefault(new, m.checkpoints))

    return production(world, shape, number)._replace(replace=replace)


def instead(**parts: Callable[..., Any]) -> Callable[[World, Shape, int], Impl]:
    return lambda world, shape, number: production(world, shape, number)._replace(**parts)


def with_store(kind: type[MetadataStore]) -> Callable[[World, Shape, int], Impl]:
    def build(world: World, shape: Shape, number: int) -> Impl:
        impl, of = production(world, shape, number), production(world, shape, number).manifests
        return impl._replace(manifests=kind(world, of.bounded.storage.namespace, of.codec, of.policies, of.bounded))

    return build


BUILDS = {  # name -> (its bug, its Build)
    "not_spared": ("a collector spares nothing that a checkpoint names", instead(collect=partial(collect_as, spares="none"))),
    "active_spared": ("a collector deletes what a checkpoint names that has ended, and is still listed",
                      instead(collect=partial(collect_as, spares="active", drops=False))),
    "latest_not_spared": ("a collector spares the SSTs of checkpointed manifests, and not those of the latest one",
                          instead(collect=partial(collect_as, latest=False))),
    "ssts_not_spared": ("a collector spares the manifests of checkpoints, and not their SSTs",
                        instead(collect=partial(collect_as, ssts=False))),
    "listed_ssts": ("a collector deletes an SST that is uploaded and not yet in a manifest",
                    instead(collect=collect_by_listing)),
    "clock_ahead": ("a collector drops a checkpoint that has ended by its clock alone", instead(collect=collect_ahead)),
    "ended_stay": ("a collector leaves checkpoints that have ended in the list", instead(collect=collect_without_dropping)),
    "checked_reads": ("a collector takes a manifest behind the boundary for missing, although a checkpoint keeps it",
                      with_store(CheckedReads)),
    "source_before": ("the source of a checkpoint is looked up before the update", instead(create=create_from_before)),
    "first_read_is_named": ("after a conflict a checkpoint names the id that was next before it",
                            instead(create=create_of_first_read)),
    "latest_is_named": ("a checkpoint from a source names the latest manifest", instead(create=create_from_latest)),
    "created_again": ("a checkpoint that is refused, or has no response, is created again", instead(create=create_again)),
    "ended_is_copied": ("a checkpoint is created from one that has ended", instead(create=create_from_ended)),
    "unheard_is_taken": ("a create without a response is reported as done", instead(create=blindly(checkpoints.create))),
    "ended_is_renewed": ("a lease that has ended is renewed", instead(refresh=refresh_ended)),
    "refresh_lists_again": ("a refresh lists a checkpoint again that was dropped meanwhile",
                            instead(refresh=refresh_lists_again)),
    "missing_is_renewed": ("a refresh of a checkpoint that is not listed is reported as done",
                           instead(refresh=refresh_missing)),
    "unlisted_is_deleted": ("a delete writes a manifest although the checkpoint is not listed",
                            instead(delete=delete_unlisted)),
    "listed_unchecked": ("a listing is of a manifest that may be in nobody's history", instead(listed=listed_unchecked)),
    "lease_is_cut": ("a lease is rounded down to whole seconds", with_store(Cut)),
    "unchecked": ("the boundary is not checked after a create", unchecked),
    "overwrites": ("the manifest is put without a condition", overwriting),
    "first_list_is_kept": ("after a conflict a compactor puts back the checkpoints that it read first", keeps_first_list),
}
OF_COLLECTOR, OF_CLIENT, SOURCE = "refinement:Collector", "refinement:Client", "told:source"
GONE = "history:"  # what is listed is not there, or it is listed twice
ORACLES = {  # name -> prefixes of its signatures: by model; by harm
    "not_spared": ((OF_COLLECTOR,), (GONE,)),
    "active_spared": ((OF_COLLECTOR,), (GONE, "liveness:")),
    "latest_not_spared": ((OF_COLLECTOR,), (GONE,)),
    "ssts_not_spared": ((OF_COLLECTOR,), (GONE,)),
    "listed_ssts": ((OF_COLLECTOR, GONE), (GONE,)),
    "clock_ahead": ((OF_COLLECTOR,), ()),
    "ended_stay": (("liveness:",), ("liveness:",)),
    "checked_reads": (("liveness:",), ("liveness:",)),
    "source_before": ((OF_CLIENT, "refinement:ended", SOURCE), (GONE, SOURCE)),
    "first_read_is_named": ((OF_CLIENT, "refinement:ended", SOURCE), (GONE, SOURCE)),
    "latest_is_named": ((SOURCE,), (SOURCE,)),
    "created_again": ((OF_CLIENT, SOURCE), (GONE, SOURCE)),
    "ended_is_copied": (("refinement:ended",), ()),
    "unheard_is_taken": (("told:committed", "call:create", SOURCE), (SOURCE,)),
    "ended_is_renewed": (("refinement:ended",), ()),
    "refresh_lists_again": ((OF_CLIENT, "refinement:ended"), (GONE, "told:lease")),
    "missing_is_renewed": (("told:renewed",), ()),
    "unlisted_is_deleted": ((OF_CLIENT, "told:dropped", "call:delete"), ()),
    "listed_unchecked": (("told:listed",), ()),
    "lease_is_cut": (("told:lease",), ("told:lease",)),
    "unchecked": (("told:", "call:"), ()),
    "overwrites": (("refinement:put",), (GONE, SOURCE)),
    "first_list_is_kept": (("refinement:Compactor",), (GONE,)),
}
MUTANTS = Mutants(BUILDS, ORACLES)

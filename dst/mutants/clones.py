"""Mutants of impl/protocols/clones.py, each with one safeguard removed. Simulation must find each of them.

Each knob of model/protocols/clones.py has a mutant: FINAL_FIRST (`initialized_first`), FINAL_NEEDS_SOURCE
(`final_without_source`), FRESH_FINALS (`old_finals`), OPEN_INITIALIZED (`opened_early`), COPY_IF_ABSENT (`copied_over`, with a
writer that opens early), DETACH_CHECKPOINTS (`detached_from_checkpoints`), PARENT_FIRST (`entry_first`), COPY_BEFORE_INIT
(`not_copied`), RESTART_FORWARD (`source_behind`), SEEN_OF_SOURCE (`seen_of_latest`).

`copied_over` is what released SlateDB does.
"""

from collections.abc import Callable
from typing import Any

from highwater.dst.scenario import Mutants
from highwater.dst.scenarios.clones import Impl, Shape, production
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.tables import ExternalDb
from highwater.impl.errors import NotFound
from highwater.impl.layout import Namespace
from highwater.impl.protocols import checkpoints, clones
from highwater.impl.protocols.checkpoints import found
from highwater.impl.protocols.clones import Said, Source, StoreOf
from highwater.impl.protocols.sequenced_metadata import Committed, MetadataStore, Put, Recognised, Verdict
from highwater.impl.world import World


async def clone_as(stores: StoreOf, path: str, parent: str, checkpoint: str | None = None, again: bool = False, *,
                   pins: bool = True, copies: str = "if absent", first: Callable = clones.begin,
                   restart: Callable = clones.restart, pin: Callable = clones.pin) -> Said:
    """Clone with some steps left out, or with others in their place."""
    here = stores(path)
    attempt = await clones.existing(here)
    if attempt is None:
        attempt = await first(here, parent, await clones.source_of(stores(parent), checkpoint))
    elif again and not attempt.value.initialized:
        attempt = await restart(here, parent, await clones.source_of(stores(parent), checkpoint))
    clones.check_parent(attempt.value, parent, None)
    if attempt.value.initialized:
        await clones.check_pinned(stores, attempt.value)
        return attempt
    for of in attempt.value.external_dbs if pins else ():
        if of.sst_ids:
            await pin(stores(of.path), of)
    if copies == "over":
        await copy_over(here, parent, path, attempt.value)
    elif copies:
        await clones.copy_wal(here, parent, path, attempt.value)
    return await clones.initialize(here, attempt)


def cloning(**parts: Any) -> Callable[..., Any]:
    async def clone(*arguments: Any) -> Said:
        return await clone_as(*arguments, **parts)

    return clone


async def copy_over(manifests: MetadataStore, parent: str, path: str, manifest: Manifest) -> None:
    for i in range(1, manifest.wal_id_last_seen + 1):
        try:
            body = (await manifests.world.store.get(Namespace(parent, "wal").key(i))).body
        except NotFound:
            continue
        await manifests.world.store.put(Namespace(path, "wal").key(i), body)


async def pin_without_source(manifests: MetadataStore, entry: ExternalDb) -> Said:
    """Make the final of the manifest that the source named when it was read first, though the source may be gone by now."""
    of = found((await manifests.current()).value, entry.source_checkpoint_id)
    final = entry.final_checkpoint_id or ""
    await manifests.world.clock.sleep_ms(200)

    async def decide(latest: int, manifest: Manifest) -> Put | Verdict:
        if found(manifest, final):
            return Verdict(Recognised(latest, manifest))
        keeps = of.manifest_id if of else max(1, latest - 2)
        return Put(manifest.with_checkpoint(manifests.codec.checkpoint.taken(final, keeps, 0, 1000, None)))

    return checkpoints.done(await manifests.apply(decide, True))


async def restart_with_old_finals(manifests: MetadataStore, parent: str, source: Source) -> Said:
    """Begin again, and keep the finals of the attempt before."""
    def change(_: int, manifest: Manifest) -> Manifest:
        if manifest.initialized:
            return manifest
        old = {of.path: of.final_checkpoint_id for of in manifest.external_dbs if of.sst_ids}
        new = clones.cloned(manifests, parent, source)
        return new._replace(external_dbs=tuple(of._replace(final_checkpoint_id=old.get(of.path, of.final_checkpoint_id))
                                               for of in new.external_dbs))

    return await manifests.update(change)


async def restart_behind(manifests: MetadataStore, parent: str, source: Source) -> Said:
    """Begin again from a source that has seen less of the WAL."""
    return await manifests.update(lambda _, manifest: manifest if manifest.initialized else clones.cloned(
        manifests, parent, source, manifest.external_dbs))


async def begin_at_latest(manifests: MetadataStore, parent: str, source: Source) -> Said:
    """Take over what the parent's latest manifest has seen of the WAL."""
    seen = source.parent.value.wal_id_last_seen
    return await clones.begin(manifests, parent, source._replace(value=source.value._replace(wal_id_last_seen=seen)))


async def restart_at_latest(manifests: MetadataStore, parent: str, source: Source) -> Said:
    seen = source.parent.value.wal_id_last_seen
    return await clones.restart(manifests, parent, source._replace(value=source.value._replace(wal_id_last_seen=seen)))


async def restart_emptied(stores: StoreOf, path: str, parent: str, checkpoint: str | None = None, again: bool = False) -> Said:
    """Empty the clone's WAL before an attempt is begun again, as a first idea of a repair would."""
    here = stores(path)
    attempt = await clones.existing(here)
    if attempt and again and not attempt.value.initialized:
        for entry in (await here.world.store.list_page(Namespace(path, "wal").prefix)).entries:
            await here.world.store.delete(entry.key)
    return await clones.clone(stores, path, parent, checkpoint, again)


async def open_early(manifests: MetadataStore) -> Committed:
    return await manifests.current()


async def detach_as(stores: StoreOf, path: str, *, held: bool = True, entry_first: bool = False) -> list[str]:
    """Detach by the latest manifest alone, or the entry before its final."""
    here = stores(path)
    latest = (await clones.opened(here)).value
    old = [await here.read(i) for i in sorted(latest.referenced())] if held else []
    gone = []
    for of in latest.external_dbs:
        entries = [(m, clones.entry_in(m, of)) for m in (latest, *old)]
        if any(entry and m.uses(entry) for m, entry in entries):
            continue
        steps = [lambda of=of: clones.release(stores(of.path), of), lambda of=of: clones.remove(here, of)]
        for step in reversed(steps) if entry_first else steps:
            await step()
        gone.append(of.final_checkpoint_id or "")
    return gone


def detaching(**parts: bool) -> Callable[..., Any]:
    async def detach(*arguments: Any) -> list[str]:
        return await detach_as(*arguments, **parts)

    return detach


def instead(**parts: Callable[..., Any]) -> Callable[[World, Shape, int], Impl]:
    return lambda world, shape, number: production(world, shape, number)._replace(**parts)


BUILDS = {  # name -> (its bug, its Build)
    "initialized_first": ("a clone is initialized before its final checkpoints are listed", instead(clone=cloning(pins=False))),
    "final_without_source": ("a final checkpoint is made although its source is gone",
                             instead(clone=cloning(pin=pin_without_source))),
    "old_finals": ("an attempt that is begun again keeps the finals of the one before",
                   instead(clone=cloning(restart=restart_with_old_finals))),
    "opened_early": ("a writer opens a clone that is not initialized", instead(opened=open_early)),
    "copied_over": ("a writer opens a clone that is not initialized, and the copy overwrites its records",
                    instead(opened=open_early, clone=cloning(copies="over"))),
    "not_copied": ("a clone is initialized without the WAL objects of its source", instead(clone=cloning(copies=""))),
    "source_behind": ("an attempt is begun again from a source that has seen less of the WAL",
                      instead(clone=cloning(restart=restart_behind))),
    "seen_of_latest": ("a clone has the WAL objects that the parent's latest manifest has seen",
                       instead(clone=cloning(first=begin_at_latest, restart=restart_at_latest))),
    "wal_emptied": ("the WAL of a clone is emptied before an attempt is begun again", instead(clone=restart_emptied)),
    "detached_from_checkpoints": ("a clone is detached although a checkpoint of it uses the entry",
                                  instead(detach=detaching(held=False))),
    "entry_first": ("an entry goes before its final checkpoint", instead(detach=detaching(entry_first=True))),
}
OF_CLONER, OF_DETACHER, HARM = "refinement:Cloner", "refinement:Detacher", "history:"
ORACLES = {  # name -> prefixes of its signatures: by model; by harm
    "initialized_first": ((OF_CLONER,), (HARM,)),
    "final_without_source": ((OF_CLONER,), (HARM,)),
    "old_finals": ((OF_CLONER, "refinement:create"), (HARM,)),
    "opened_early": (("refinement:Writer",), ()),
    "copied_over": (("refinement:Writer", "refinement:put"), (HARM,)),
    "not_copied": ((OF_CLONER,), (HARM,)),
    "source_behind": ((OF_CLONER,), ()),
    "seen_of_latest": ((OF_CLONER,), ()),
    "wal_emptied": (("refinement:delete",), (HARM,)),
    "detached_from_checkpoints": ((OF_DETACHER,), ()),
    "entry_first": ((OF_DETACHER,), ()),
}
MUTANTS = Mutants(BUILDS, ORACLES)

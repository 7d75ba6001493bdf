"""Mutants of impl/protocols/destroy.py, each with one safeguard removed. Simulation must find each of them.

Each knob of model/protocols/destroy.py has a mutant: CHECK_PINS (`pins_unchecked`, `pins_of_a_soft_mark_unchecked`),
CHECK_AND_MARK_IN_ONE_CAS (`mark_is_put_after_the_check`), REFUSE_PINS (`pinned_after_the_mark`), CLAIM_EPOCH (`not_fenced`),
KEEP_GRACE (`grace_is_cut`), SEAL (`not_sealed`), KEEP_TOMBSTONE (`tombstone_goes`), MANIFEST_LAST (`manifests_first`), RESUME
(`not_resumed`). `delete_db` of release 0.17 is `pins_unchecked`.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from highwater.dst.scenario import Mutants
from highwater.dst.scenarios.destroy import Impl, Shape, production
from highwater.impl.codecs.destroyed import HARD, SOFT, Mark, mark_of, pins_of
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.errors import OutcomeUnknown
from highwater.impl.protocols import checkpoints, destroy
from highwater.impl.protocols.boundary_object import ObjectStoreBoundaryObject
from highwater.impl.protocols.checkpoints import done, found
from highwater.impl.protocols.destroy import InvalidDeletion, NotMarked, check_time, is_sealed, others_of
from highwater.impl.protocols.destroy_mark import with_mark
from highwater.impl.protocols.sequenced_metadata import Committed, MetadataStore, Put, Recognised, Verdict
from highwater.impl.protocols.sequenced_storage import FIRST_ID
from highwater.impl.world import World

Done = Committed | Recognised


# --- marks

def made(manifests: MetadataStore, kind: str, grace_ms: int) -> Mark:
    now_ms = manifests.world.clock.now_ms()
    return Mark(kind, now_ms, now_ms + (grace_ms if kind == SOFT else 0))


async def mark_as(manifests: MetadataStore, kind: str, grace_ms: int = 0, *, checks: str = "in the update", fences: bool = True
                  ) -> Done:
    """Mark the database. `checks` for checkpoints: "in the update", "before" it, or "" for never."""
    of = made(manifests, kind, grace_ms)
    if checks == "before" and kind == HARD and (pins := pins_of((await manifests.current()).value)):
        raise InvalidDeletion(pins[0].id)

    async def decide(latest: int, m: Manifest) -> Put | Verdict:
        before, pins = mark_of(m), pins_of(m)
        if before and before.kind in (kind, HARD):
            return Verdict(Recognised(latest, m))
        if checks == "in the update" and kind == HARD and pins:
            return Verdict(InvalidDeletion(pins[0].id))
        marked = with_mark(m, of, manifests.codec, latest + 1)
        return Put(marked if fences else marked._replace(writer_epoch=m.writer_epoch))

    return done(await manifests.apply(decide, True))


async def mark_blindly(manifests: MetadataStore, kind: str, grace_ms: int = 0) -> Done:
    """Report an unknown outcome as success."""
    try:
        return await destroy.mark(manifests, kind, grace_ms)
    except OutcomeUnknown:
        return Committed(FIRST_ID, Manifest())


# --- deletions

async def finish_as(manifests: MetadataStore, root: str, skew_ms: int = 0, *, pins: bool = True, grace: bool = True,
                    seal: bool = True, last: bool = True, resumes: bool = True, tombstone: bool = True, lists: int = 100
                    ) -> list[str]:
    """Finish with some safeguards: checkpoints of a soft mark, its grace, the seal, the manifests last."""
    if not await is_sealed(manifests):
        latest = await manifests.drop_ended(skew_ms=skew_ms)
        value = latest.value
        check_time(value if pins else value._replace(checkpoints=without_pins(value)), manifests, skew_ms if grace else -10**9)
        await manifests.advance_boundary(destroy.SEALED if seal else latest.id)
    elif not resumes:
        return []
    deleted: list[str] = []
    if not last:
        deleted += await delete_manifests(manifests)
    while lists and (keys := await others_of(manifests, root)):
        lists -= 1
        for key in keys:
            await manifests.world.store.delete(key)
        deleted += keys
    deleted += await delete_manifests(manifests) if last else []
    if not tombstone:
        await manifests.world.store.delete(manifests.bounded.storage.namespace.boundary_key)
        boundary = manifests.bounded.boundary
        assert isinstance(boundary, ObjectStoreBoundaryObject)
        boundary.seen = None
        deleted.append(manifests.bounded.storage.namespace.boundary_key)
    return deleted


def without_pins(m: Manifest) -> tuple[Any, ...]:
    gone = {one.id for one in pins_of(m)}
    return tuple(one for one in m.checkpoints if one.id not in gone)


async def delete_manifests(manifests: MetadataStore) -> list[str]:
    deleted = []
    for file in await manifests.bounded.storage.list():
        await manifests.bounded.storage.delete(file.id)
        deleted.append(manifests.bounded.storage.namespace.key(file.id))
    return deleted


async def finish_latest_first(manifests: MetadataStore, root: str, skew_ms: int = 0) -> list[str]:
    """Delete the latest manifest before the others."""
    if not await is_sealed(manifests):
        check_time((await manifests.drop_ended(skew_ms=skew_ms)).value, manifests, skew_ms)
        await manifests.advance_boundary(destroy.SEALED)
    deleted = []
    while keys := await others_of(manifests, root):
        for key in keys:
            await manifests.world.store.delete(key)
        deleted += keys
    for file in reversed(await manifests.bounded.storage.list()):
        await manifests.bounded.storage.delete(file.id)
        deleted.append(manifests.bounded.storage.namespace.key(file.id))
    return deleted


async def finish_unmarked(manifests: MetadataStore, root: str, skew_ms: int = 0) -> list[str]:
    """Delete a database that nobody has marked."""
    try:
        return await destroy.finish(manifests, root, skew_ms)
    except NotMarked:
        await manifests.advance_boundary(destroy.SEALED)
        return await destroy.finish(manifests, root, skew_ms)


async def finish_blindly(manifests: MetadataStore, root: str, skew_ms: int = 0) -> list[str]:
    """Report a deletion that stopped as done."""
    try:
        return await destroy.finish(manifests, root, skew_ms)
    except OutcomeUnknown:
        return []


# --- clients

async def create_in_marked(manifests: MetadataStore, which: str, lifetime_ms: int | None = None, name: str | None = None,
                           source: str | None = None) -> Done:
    """Create a checkpoint in a marked manifest, too."""
    if source is not None:
        return await checkpoints.create(manifests, which, lifetime_ms, name, source)

    async def decide(latest: int, m: Manifest) -> Put | Verdict:
        if found(m, which):
            return Verdict(Recognised(latest, m))
        return Put(m.with_checkpoint(manifests.codec.checkpoint.taken(which, latest + 1, 0, 0, name)))

    return done(await manifests.apply(decide, True))


def instead(**parts: Any) -> Callable[[World, Shape, int], Impl]:
    return lambda world, shape, number: production(world, shape, number)._replace(**parts)


def finishing(**parts: Any) -> Callable[[World, Shape, int], Impl]:
    return instead(finish=partial(finish_as, **parts))


BUILDS = {  # name -> (its bug, its Build)
    "pins_unchecked": ("a hard mark is put although checkpoints are listed, and all is deleted",
                       instead(mark=partial(mark_as, checks=""), finish=partial(finish_as, pins=False))),
    "pins_of_a_soft_mark_unchecked": ("a soft mark does not wait for checkpoints", finishing(pins=False)),
    "mark_is_put_after_the_check": ("checkpoints are looked for before the update that marks",
                                    instead(mark=partial(mark_as, checks="before"), finish=partial(finish_as, pins=False))),
    "pinned_after_the_mark": ("a checkpoint is created in a marked manifest", instead(create=create_in_marked)),
    "not_fenced": ("a mark does not claim the writer's epoch", instead(mark=partial(mark_as, fences=False))),
    "grace_is_cut": ("a soft mark is finished within its grace", finishing(grace=False)),
    "not_sealed": ("the boundary is set to the manifest that was checked", finishing(seal=False)),
    "tombstone_goes": ("the boundary is deleted, too", finishing(tombstone=False)),
    "manifests_first": ("manifests are deleted before SSTs", finishing(last=False)),
    "latest_first": ("the latest manifest is deleted before the others", instead(finish=finish_latest_first)),
    "not_resumed": ("a deletion that stopped is not continued", finishing(resumes=False)),
    "listed_once": ("SSTs are listed once, and manifests deleted although others have come", finishing(lists=1)),
    "unmarked": ("a database is deleted that nobody has marked", instead(finish=finish_unmarked)),
    "unheard_mark": ("a mark without a response is reported as done", instead(mark=mark_blindly)),
    "unheard_delete": ("a deletion without a response is reported as done", instead(finish=finish_blindly)),
}
OF_OPERATOR, PINNED, GONE = "refinement:Operator", "history:pinned is deleted", "history:"
ORACLES = {  # name -> prefixes of its signatures: by model; by harm
    "pins_unchecked": ((OF_OPERATOR,), (PINNED,)),
    "pins_of_a_soft_mark_unchecked": ((OF_OPERATOR, "refinement:"), (PINNED,)),
    "mark_is_put_after_the_check": ((OF_OPERATOR,), (PINNED,)),
    "pinned_after_the_mark": (("refinement:Client",), (PINNED,)),
    "not_fenced": (("refinement:Writer",), ()),
    "grace_is_cut": (("refinement:",), ()),
    "not_sealed": (("refinement:",), (GONE,)),
    "tombstone_goes": (("refinement:",), (GONE,)),
    "manifests_first": ((OF_OPERATOR,), ()),
    "latest_first": ((OF_OPERATOR,), ()),
    "not_resumed": (("told:destroyed", "call:finish", "liveness:"), ("liveness:",)),
    "listed_once": ((OF_OPERATOR,), ()),
    "unmarked": (("refinement:",), (GONE,)),
    "unheard_mark": (("told:marked", "call:mark"), ()),
    "unheard_delete": (("told:destroyed", "call:finish"), ("liveness:", "call:finish")),
}
MUTANTS = Mutants(BUILDS, ORACLES)

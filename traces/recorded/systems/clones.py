"""Map requests that concern more than one database of SlateDB to actions of shared_files.

    PUT manifest/N of a parent      CreateFinal, Detach: a final checkpoint comes, goes, or gets a lifetime
    PUT manifest/N of a clone       Initialize, Open, Rewrite, Leave

A database is a parent from the time when a manifest of a clone names a final checkpoint in it. Each external database is judged
by itself: its SSTs count as one. A clone is asked for the manifests that its checkpoints keep, too.
"""

from collections.abc import Iterator

from highwater.impl.codecs import destroyed
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.tables import ExternalDb
from highwater.model.abstract import shared_files as shared
from highwater.model.abstract.shared_files import NONE, SSTS, Clone, Parent
from highwater.traces.recorded.judge import send
from highwater.traces.recorded.orders import Refusal
from highwater.traces.recorded.s3log import Body, Request
from highwater.traces.recorded.systems.facts import Facts, Final, Namespaced
from highwater.traces.recorded.systems.slatedb_files import is_begun_again
from highwater.traces.recorded.systems.slatedb_layout import Place, content_of, key_of, mark_of

FINAL = frozenset({(0, SSTS)})
OTHER = frozenset({(None, SSTS)})


# --- what the log shows of a database

def manifest_of(facts: Facts, bucket: str, root: str, file_id: int | None = None) -> Manifest | None:
    """Return a manifest, or the latest one, as far as the log shows its content."""
    where = Namespaced(bucket, root, "manifest")
    file_id = file_id or facts.latest.get(where)
    if file_id is None:
        return None
    key = key_of(where, file_id)
    return manifest_in(facts.store.bodies.get((key, facts.store.version(key) or "")))


def manifest_in(body: Body | None) -> Manifest | None:
    found = content_of("manifest", body) if body else None
    return found if isinstance(found, Manifest) else None


def lasting(manifest: Manifest) -> frozenset[str]:
    """Return the checkpoints that never end."""
    return frozenset([one.id for one in manifest.checkpoints if not one.expire_time_s])


def listed(manifest: Manifest) -> frozenset[str]:
    return frozenset([one.id for one in manifest.checkpoints])


def entries(manifest: Manifest) -> dict[str, ExternalDb]:
    """Return the external databases by their final checkpoints."""
    return {one.final_checkpoint_id: one for one in manifest.external_dbs if one.final_checkpoint_id}


def names(facts: Facts, bucket: str, root: str, final: str) -> Iterator[str]:
    """Yield the SSTs that a clone names under a final checkpoint, in its latest manifest and in those its checkpoints keep.

    A clone that is destroyed names none."""
    if is_destroyed(facts, bucket, root):
        return
    latest = manifest_of(facts, bucket, root)
    kept = [manifest_of(facts, bucket, root, one.manifest_id) for one in latest.checkpoints] if latest else []
    for one in (latest, *kept):
        if one and final in (found := entries(one)):
            yield from found[final].sst_ids


def is_marked(facts: Facts, bucket: str, root: str) -> bool:
    return is_being_deleted(facts, bucket, root) or is_destroyed(facts, bucket, root)


def is_being_deleted(facts: Facts, bucket: str, root: str) -> bool:
    return bool(facts.store.version(mark_of(bucket, root)))


def is_emptied(facts: Facts, bucket: str, root: str) -> bool:
    """Return whether everything of a database is being deleted. With our mark that begins with the tombstone: until then others
    still collect what they may."""
    return is_being_deleted(facts, bucket, root) or is_sealed(facts, bucket, root)


def is_sealed(facts: Facts, bucket: str, root: str) -> bool:
    return facts.boundary.get(Namespaced(bucket, root, "manifest"), 0) >= destroyed.SEALED


def is_destroyed(facts: Facts, bucket: str, root: str) -> bool:
    """Return whether a database has our mark: in its latest manifest, or, when that is gone, in the boundary."""
    manifest = manifest_of(facts, bucket, root)
    return bool(manifest and destroyed.mark_of(manifest)) or is_sealed(facts, bucket, root)


def named(has: object) -> frozenset[int]:
    return SSTS if has else NONE


# --- a manifest is put

def puts(facts: Facts, request: Request, place: Place) -> Refusal | None:
    """Judge a manifest that sequenced_files allows. One of a database without clones, and that is no clone, costs a look."""
    after = manifest_in(request.sent_body)
    if after is None or not (after.external_dbs or facts.finals):
        return None
    key = place.key(place.id - 1)
    before = manifest_in(facts.store.bodies.get((key, facts.seen.get((request.client, key), ""))))
    refusal = None
    if before is not None and facts.finals:
        refusal = parent_puts(facts, request, place.where, before, after)
    if refusal is None and (after.external_dbs or (before and before.external_dbs)):
        refusal = clone_puts(facts, request, place.where, before or (Manifest() if place.id == 1 else None), after)
    return refusal


def parent_puts(facts: Facts, request: Request, where: Namespaced, before: Manifest, after: Manifest) -> Refusal | None:
    was, now = lasting(before), lasting(after)
    for pin in sorted(was ^ now):
        final = facts.finals.get((where.bucket, where.root, pin))
        if final and (refusal := (creates_final if pin in now else detaches)(facts, request, where, before, pin, final)):
            return refusal
    return None


def creates_final(facts: Facts, request: Request, where: Namespaced, before: Manifest, pin: str, final: Final
                  ) -> Refusal | None:
    base = Parent(SSTS, OTHER if final.source in listed(before) else NONE, is_marked(facts, where.bucket, where.root))
    w = shared.Client(frozenset({base}), frozenset({(0, Clone(SSTS))}))
    return send(shared, facts.shared, w, lambda: (
        f"{request.client} puts final checkpoint {pin} of {final.clone[1]} into {where.root}, from checkpoint {final.source}"
        + (f", and {where.root} is marked as deleted" if base.marked else "")),
        "CreateFinal", base, 0) or facts.count("CreateFinal")


def detaches(facts: Facts, request: Request, where: Namespaced, before: Manifest, pin: str, final: Final) -> Refusal | None:
    (bucket, root), base = final.clone, Parent(SSTS, FINAL)
    clone, needs = manifest_of(facts, bucket, root), [*names(facts, bucket, root, pin)]
    begun = clone is not None and not clone.initialized and not is_destroyed(facts, bucket, root) and is_of_attempt(clone, pin)
    w = shared.Client(frozenset({base}), unnamed=named(not needs and not begun))
    return send(shared, facts.shared, w, lambda: (
        f"{request.client} takes final checkpoint {pin} of {root} from {where.root}, or gives it a lifetime, and {root} "
        + (f"names {needs[0]} there" if needs else "is not initialized")), "Detach", base, 0) or facts.count("Detach")


def is_of_attempt(clone: Manifest, final: str) -> bool:
    """Return whether a clone that is not initialized needs a final, and it is not that of an attempt which was begun again."""
    one = entries(clone).get(final)
    return one is None or bool(one.sst_ids) or one == clone.external_dbs[0]


def clone_puts(facts: Facts, request: Request, where: Namespaced, before: Manifest | None, after: Manifest) -> Refusal | None:
    notes(facts, where, after)
    if before is None:
        facts.grant("a clone may be put as it is: the log does not show its manifest before")
        return None
    was, now = entries(before), entries(after)
    if not before.initialized:
        return (opens(facts, request, where, before, after) or
                (initializes(facts, request, where, now) if after.initialized else None))
    for final, one in now.items():
        refusal = rewrites(facts, request, where, was.get(final), one)
        if refusal:
            return refusal
    for final in sorted(was.keys() - now.keys()):
        refusal = leaves(facts, request, where, was[final])
        if refusal:
            return refusal
    return None


def notes(facts: Facts, where: Namespaced, manifest: Manifest) -> None:
    """Remember whose the final checkpoints are, and which SSTs are named under them."""
    for final, one in entries(manifest).items():
        at = where.bucket, one.path, final
        if at not in facts.finals:
            facts.store.put(facts.finals, at, Final((where.bucket, where.root), one.source_checkpoint_id))
            for sst in one.sst_ids:
                of = where.bucket, one.path, sst
                facts.store.put(facts.shown, of, facts.shown.get(of, NONE) | {final})


def opens(facts: Facts, request: Request, where: Namespaced, before: Manifest, after: Manifest) -> Refusal | None:
    """Judge a claim of the writer's epoch. The mark of a destroyed database raises it, too, and an attempt that is begun again.
    """
    if after.writer_epoch <= before.writer_epoch or before == Manifest() or is_begun_again(before, after):
        return None
    if destroyed.mark_of(after) not in (None, destroyed.mark_of(before)):
        return None
    clone = Clone(SSTS)
    return send(shared, facts.shared, shared.Client(clones=frozenset({(0, clone)})), lambda: (
        f"{request.client} claims writer epoch {after.writer_epoch} of {where.root}, which is not initialized"),
        "Open", 0, clone)


def initializes(facts: Facts, request: Request, where: Namespaced, now: dict[str, ExternalDb]) -> Refusal | None:
    for final, one in now.items():
        parent, clone = manifest_of(facts, where.bucket, one.path), Clone(named(one.sst_ids))
        if parent is None and facts.latest.get(Namespaced(where.bucket, one.path, "manifest")) is None:
            facts.grant("the final checkpoint of a clone is there: the log does not show the parent's manifest")
            continue
        w = shared.Client(clones=frozenset({(0, clone)}), pinned=named(parent and final in lasting(parent)))
        refusal = send(shared, facts.shared, w, lambda final=final, one=one: (
            f"{request.client} initializes {where.root}, and {one.path} has no checkpoint {final} without an end"),
            "Initialize", 0, clone)
        if refusal:
            return refusal
    return facts.count("Initialize")


def rewrites(facts: Facts, request: Request, where: Namespaced, before: ExternalDb | None, after: ExternalDb
             ) -> Refusal | None:
    old = frozenset(before.sst_ids if before else ())
    more = sorted(set(after.sst_ids) - old)
    if not more and len(after.sst_ids) == len(old):
        return None
    clone = Clone(named(old), True)
    return send(shared, facts.shared, shared.Client(clones=frozenset({(0, clone)})), lambda: (
        f"{request.client} puts a manifest of {where.root} that names {more[0]} of {after.path}, and the one before does not"),
        "Rewrite", 0, clone, frozenset({1}) if more else NONE) or facts.count("Rewrite")


def leaves(facts: Facts, request: Request, where: Namespaced, one: ExternalDb) -> Refusal | None:
    parent, clone = manifest_of(facts, where.bucket, one.path), Clone(NONE, True)
    there = bool(parent and one.final_checkpoint_id in listed(parent))
    w = shared.Client(clones=frozenset({(0, clone)}), gone=named(not there))
    return send(shared, facts.shared, w, lambda: (
        f"{request.client} takes {one.path} from the manifest of {where.root}, and checkpoint {one.final_checkpoint_id} is "
        f"still in {one.path}"), "Leave", 0, clone) or facts.count("Leave")

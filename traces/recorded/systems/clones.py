"""Map requests that concern more than one database of SlateDB to actions of shared_files.

    PUT manifest/N of a parent      CreateFinal, Detach: a final checkpoint comes, goes, or gets a lifetime
    PUT manifest/N of a clone       Initialize, Open, Rewrite, Leave
    DELETE compacted/ULID.sst       Delete, if a clone has named it
    PUT .deleting                   Mark
    DELETE anything below it        DeleteDb

A database is a parent from the time when a manifest of a clone names a final checkpoint in it. Each external database is judged
by itself: its SSTs count as one. A clone is asked for the manifests that its checkpoints keep, too.
"""

from collections.abc import Iterator

from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.tables import ExternalDb
from highwater.model.abstract import shared_files as shared
from highwater.model.abstract.shared_files import NONE, SSTS, Clone, Parent
from highwater.traces.recorded.judge import send
from highwater.traces.recorded.orders import Refusal
from highwater.traces.recorded.s3log import Body, Request
from highwater.traces.recorded.s3store import Key
from highwater.traces.recorded.systems.facts import Facts, Final, Namespaced
from highwater.traces.recorded.systems.slatedb_layout import DATA, Place, content_of, key_of, mark_of

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


def active(facts: Facts, request: Request, bucket: str, root: str) -> str:
    """Return a checkpoint that is active when the request is sent, a clone's if there is one; "" if there is none."""
    now_ms, manifest = request.times_us[1] // 1000 + facts.knobs.SKEW_MS, manifest_of(facts, bucket, root)
    found = [one.id for one in manifest.checkpoints if one.active(now_ms)] if manifest else []
    return max(found, key=lambda pin: (bucket, root, pin) in facts.finals, default="")


def entries(manifest: Manifest) -> dict[str, ExternalDb]:
    """Return the external databases by their final checkpoints."""
    return {one.final_checkpoint_id: one for one in manifest.external_dbs if one.final_checkpoint_id}


def names(facts: Facts, bucket: str, root: str, final: str) -> Iterator[str]:
    """Yield the SSTs that the latest manifest of a clone, and those that its checkpoints keep, name under a final checkpoint."""
    latest = manifest_of(facts, bucket, root)
    kept = [manifest_of(facts, bucket, root, one.manifest_id) for one in latest.checkpoints] if latest else []
    for one in (latest, *kept):
        if one and final in (found := entries(one)):
            yield from found[final].sst_ids


def is_marked(facts: Facts, bucket: str, root: str) -> bool:
    return bool(facts.store.version(mark_of(bucket, root)))


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
        if final is None:
            continue
        bucket, root = final.clone
        if pin in now:
            base = Parent(SSTS, OTHER if final.source in listed(before) else NONE, is_marked(facts, where.bucket, where.root))
            w = shared.Client(frozenset({base}), frozenset({(0, Clone(SSTS))}))
            refusal = send(shared, facts.shared, w, lambda: (
                f"{request.client} puts final checkpoint {pin} of {root} into {where.root}, from checkpoint {final.source}"),
                "CreateFinal", base, 0)
            action = "CreateFinal"
        else:
            clone, base = manifest_of(facts, bucket, root), Parent(SSTS, FINAL)
            needs = [*names(facts, bucket, root, pin)] or (clone is not None and not clone.initialized)
            w = shared.Client(frozenset({base}), unnamed=NONE if needs else SSTS)
            refusal = send(shared, facts.shared, w, lambda: (
                f"{request.client} takes final checkpoint {pin} of {root} from {where.root}, and {root} "
                + (f"names {needs[0]} there" if isinstance(needs, list) else "is not initialized")), "Detach", base, 0)
            action = "Detach"
        if refusal:
            return refusal
        facts.count(action)
    return None


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
        old = frozenset(was[final].sst_ids if final in was else ())
        if len(one.sst_ids) == len(old) == len(old.intersection(one.sst_ids)):
            continue
        more = sorted(set(one.sst_ids) - old)
        clone = Clone(named(old), True)
        refusal = send(shared, facts.shared, shared.Client(clones=frozenset({(0, clone)})), lambda one=one, more=more: (
            f"{request.client} puts a manifest of {where.root} that names {more[0]} of {one.path} again"),
            "Rewrite", 0, clone, frozenset({1}) if more else NONE)
        if refusal:
            return refusal
        facts.count("Rewrite")
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
    if after.writer_epoch <= before.writer_epoch or before == Manifest():
        return None
    clone = Clone(SSTS)
    return send(shared, facts.shared, shared.Client(clones=frozenset({(0, clone)})), lambda: (
        f"{request.client} claims writer epoch {after.writer_epoch} of {where.root}, which is not initialized"), "Open", 0, clone)


def initializes(facts: Facts, request: Request, where: Namespaced, now: dict[str, ExternalDb]) -> Refusal | None:
    for final, one in now.items():
        parent, clone = manifest_of(facts, where.bucket, one.path), Clone(named(one.sst_ids))
        if parent is None and facts.latest.get(Namespaced(where.bucket, one.path, "manifest")) is None:
            facts.grant("the final checkpoint of a clone is there: the log does not show the parent's manifest")
        elif refusal := send(shared, facts.shared, shared.Client(
                clones=frozenset({(0, clone)}), pinned=named(parent and final in lasting(parent))), lambda final=final, one=one: (
                f"{request.client} initializes {where.root}, and {one.path} has no checkpoint {final} without an end"),
                "Initialize", 0, clone):
            return refusal
    return facts.count("Initialize")


def leaves(facts: Facts, request: Request, where: Namespaced, one: ExternalDb) -> Refusal | None:
    parent, clone = manifest_of(facts, where.bucket, one.path), Clone(NONE, True)
    there = bool(parent and one.final_checkpoint_id in listed(parent))
    w = shared.Client(clones=frozenset({(0, clone)}), gone=named(not there))
    return send(shared, facts.shared, w, lambda: (
        f"{request.client} takes {one.path} from the manifest of {where.root}, and checkpoint {one.final_checkpoint_id} is "
        f"still in {one.path}"), "Leave", 0, clone) or facts.count("Leave")


# --- something is deleted

def deletes_data(facts: Facts, request: Request, key: Key) -> Refusal | None:
    """Delete, of an SST that a clone has named: it may be pinned, or named without a pin."""
    match = DATA.fullmatch(key[1])
    if match is None:
        return None
    bucket, (root, sst) = key[0], match.groups("")
    if is_marked(facts, bucket, root):
        return deletes_database(facts, request, key, bucket, root)
    finals, parent = facts.shown.get((bucket, root, sst), NONE), manifest_of(facts, bucket, root)
    if not finals:
        return None
    for final in sorted(finals):
        of = facts.finals[bucket, root, final].clone
        clone = manifest_of(facts, *of)
        pinned = parent is not None and final in listed(parent)
        needed = clone is not None and clone.initialized and sst in names(facts, *of, final)
        refusal = send(shared, facts.shared, shared.Client(unpinned=NONE if pinned or needed else SSTS), lambda of=of, final=final: (
            f"{request.client} deletes {sst} of {root}; final checkpoint {final} of {of[1]} "
            + ("keeps it" if pinned else "does not keep it, and the clone names it")), "Delete", 0)
        if refusal:
            return refusal
    return facts.count("Delete, of the SSTs")


def marks(facts: Facts, request: Request, place: Place) -> Refusal | None:
    bucket, root, _ = place.where
    base = Parent(SSTS, OTHER if (pin := active(facts, request, bucket, root)) else NONE)
    return send(shared, facts.shared, shared.Client(frozenset({base})), lambda: (
        f"{request.client} marks {root} as deleted, and checkpoint {pin} is active in it{whose(facts, bucket, root, pin)}"),
        "Mark", base) or facts.count("Mark")


def deletes_database(facts: Facts, request: Request, key: Key, bucket: str, root: str) -> Refusal | None:
    base = Parent(SSTS, OTHER if (pin := active(facts, request, bucket, root)) else NONE, True)
    return send(shared, facts.shared, shared.Client(frozenset({base})), lambda: (
        f"{request.client} deletes {key[1]}, and checkpoint {pin} is active in it{whose(facts, bucket, root, pin)}"),
        "DeleteDb", base) or facts.count("DeleteDb")


def whose(facts: Facts, bucket: str, root: str, pin: str) -> str:
    final = facts.finals.get((bucket, root, pin))
    return f": the final one of {final.clone[1]}" if final else ""


def ends(facts: Facts, place: Place) -> None:
    """The mark is deleted: what comes under this root is a new database."""
    bucket, root, _ = place.where
    for table in (facts.latest, facts.boundary, facts.first, facts.committed, facts.seen, facts.refused, facts.unchecked,
                  facts.epochs, facts.fences, facts.copied):
        for at in [at for at in table if belongs(at, bucket, f"{root}/" if root else "")]:
            facts.store.put(table, at, None)


def belongs(at: tuple, bucket: str, prefix: str) -> bool:
    """Tell whether a row of the facts is about a key, or a sequence, below a root."""
    return any(isinstance(part, Namespaced) and (part.bucket, f"{part.root}/" if part.root else "") == (bucket, prefix) or
               type(part) is tuple and part[0] == bucket and str(part[1]).startswith(prefix) for part in (at, *at))

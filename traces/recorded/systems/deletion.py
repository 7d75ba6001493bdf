"""Map requests that delete an SST, or a whole database of SlateDB, to actions of shared_files.

    DELETE compacted/ULID.sst       Delete, if a clone has named it
    PUT .deleting                   Mark
    PUT manifest/N with our mark    Mark, if it is a hard one; a soft one does not ask for checkpoints
    PUT a boundary ahead of all ids, once our mark is there     DeleteDb
    DELETE anything below it        DeleteDb

An SST that no clone has named is not judged. Once `.deleting` is deleted, what comes under that root is a new database.
Our mark is in the manifest, and later in its boundary, where it stays (impl/protocols/destroy.py).
"""

from highwater.impl.codecs.destroyed import HARD, SEALED, mark_of, pins_of
from highwater.model.abstract import shared_files as shared
from highwater.model.abstract.shared_files import NONE, SSTS, Parent
from highwater.traces.recorded.judge import send
from highwater.traces.recorded.orders import Refusal
from highwater.traces.recorded.s3log import Request
from highwater.traces.recorded.s3store import Key
from highwater.traces.recorded.systems import clones
from highwater.traces.recorded.systems.clones import OTHER, listed, manifest_of, named, names
from highwater.traces.recorded.systems.facts import Facts, Namespaced
from highwater.traces.recorded.systems.sequences import boundary_of
from highwater.traces.recorded.systems.slatedb_layout import DATA, Place


def active(facts: Facts, request: Request, bucket: str, root: str) -> str:
    """Return a checkpoint that is active when the request is sent, a clone's if there is one; "" if there is none."""
    now_ms, manifest = request.times_us[1] // 1000 + facts.knobs.SKEW_MS, manifest_of(facts, bucket, root)
    found = [one.id for one in pins_of(manifest) if one.active(now_ms)] if manifest else []
    return max(found, key=lambda pin: (bucket, root, pin) in facts.finals, default="")


def deletes_data(facts: Facts, request: Request, key: Key) -> Refusal | None:
    """Delete, of an SST that a clone has named: it may be pinned, or named without a pin."""
    match = DATA.fullmatch(key[1])
    if match is None:
        return None
    bucket, (root, sst) = key[0], match.groups("")
    if clones.is_emptied(facts, bucket, root):
        return deletes_database(facts, request, key, bucket, root)
    finals, parent = facts.shown.get((bucket, root, sst), NONE), manifest_of(facts, bucket, root)
    if not finals:
        return None
    for final in sorted(finals):
        refusal = deletes_shared(facts, request, bucket, root, sst, final, bool(parent and final in listed(parent)))
        if refusal:
            return refusal
    return facts.count("Delete, of the SSTs")


def deletes_shared(facts: Facts, request: Request, bucket: str, root: str, sst: str, final: str, pinned: bool
                   ) -> Refusal | None:
    of = facts.finals[bucket, root, final].clone
    clone = manifest_of(facts, *of)
    needed = clone is not None and clone.initialized and sst in names(facts, *of, final)
    return send(shared, facts.shared, shared.Client(unpinned=named(not pinned and not needed)), lambda: (
        f"{request.client} deletes {sst} of {root}; final checkpoint {final} of {of[1]} "
        + ("keeps it" if pinned else "does not keep it, and the clone names it")), "Delete", 0)


def puts(facts: Facts, request: Request, place: Place) -> Refusal | None:
    """Judge a manifest that marks its database as destroyed."""
    after, before = clones.manifest_in(request.sent_body), manifest_of(facts, *place.where[:2])
    made = mark_of(after) if after else None
    is_new = made and made.kind == HARD and (before is None or mark_of(before) != made)
    return marks(facts, request, place) if is_new else None


def marks(facts: Facts, request: Request, place: Place) -> Refusal | None:
    bucket, root, _ = place.where
    base = Parent(SSTS, OTHER if (pin := active(facts, request, bucket, root)) else NONE)
    return send(shared, facts.shared, shared.Client(frozenset({base})), lambda: (
        f"{request.client} marks {root} as deleted, and checkpoint {pin} is active in it{whose(facts, bucket, root, pin)}"),
        "Mark", base) or facts.count("Mark")


def is_seal(facts: Facts, request: Request, place: Place) -> bool:
    """Return whether the boundary of a destroyed database is put ahead of all ids, which is our tombstone."""
    boundary = boundary_of(request.sent_body)
    is_ahead = place.name == "manifest" and boundary is not None and boundary >= SEALED
    return is_ahead and clones.is_destroyed(facts, *place.where[:2])


def seals(facts: Facts, request: Request, place: Place) -> Refusal | None:
    bucket, root, _ = place.where
    refusal = deletes_database(facts, request, (bucket, request.key), bucket, root)
    if refusal is None:
        facts.store.put(facts.boundary, place.where, SEALED)
    return refusal


def deletes_database(facts: Facts, request: Request, key: Key, bucket: str, root: str) -> Refusal | None:
    """DeleteDb. The tombstone was judged by itself: a manifest that is put behind it is in no history, and keeps nothing."""
    if clones.is_sealed(facts, bucket, root):
        return facts.count("DeleteDb")
    base = Parent(SSTS, OTHER if (pin := active(facts, request, bucket, root)) else NONE, True)
    return send(shared, facts.shared, shared.Client(frozenset({base})), lambda: (
        f"{request.client} {request.op}s {key[1]}, and checkpoint {pin} is active in it{whose(facts, bucket, root, pin)}"),
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
    return any((isinstance(part, Namespaced) and (part.bucket, f"{part.root}/" if part.root else "") == (bucket, prefix)) or
               (type(part) is tuple and part[0] == bucket and str(part[1]).startswith(prefix)) for part in (at, *at))

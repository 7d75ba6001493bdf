"""Safety: a file that joins the history differs from the file before it by one change of one role; any other difference is
refused.

These are pure functions of the contents. The history of a sequence is its files that were created ahead of the boundary, in the
order of their ids. An SST's name says which records it holds (impl/codecs/json/ssts.py), so manifests need no data files.
"""

from collections import Counter
from functools import lru_cache
from typing import Any, NamedTuple

from highwater.impl.codecs.json import compactions as compactions_json
from highwater.impl.codecs.json.compactions import Compactions
from highwater.impl.codecs.json.manifest import DATABASE, UPDATES, Checkpoint
from highwater.impl.codecs.json.ssts import parts_of, records_of
from highwater.impl.codecs.json.wal import Record, WalManifest, encode_manifest
from highwater.impl.codecs.manifest import Manifest
from highwater.traces.event import Event
from highwater.traces.protocols.manifest_compactions import PIN
from highwater.traces.trace import distinct

LIMIT = 100_000
CLAIM, FLUSH, BUMP, COMPACTION, CHECKPOINTS = "claim", "flush", "bump", "compaction", "checkpoints"
ROLES = {  # change -> the role that makes it
    CLAIM: "Writer", FLUSH: "Writer", BUMP: "Compactor", COMPACTION: "Compactor", CHECKPOINTS: "Operator",
}


class Change(NamedTuple):
    """The difference between a manifest and the one before it in the history."""

    kind: str
    ssts: tuple[str, ...] = ()  # new in L0, or moved out of L0 into the compacted ones


@lru_cache(LIMIT)
def manifest_of(body: bytes) -> Manifest:
    """Decode a manifest. Raises InvalidManifest."""
    return DATABASE.decode(body)


@lru_cache(LIMIT)
def compactions_of(body: bytes) -> Compactions:
    """Decode a compactions file. Raises InvalidCompactions."""
    return compactions_json.decode(body)


@lru_cache(LIMIT)
def checkpoint_ids_in(body: bytes) -> frozenset[str]:
    """Return the ids of the checkpoints in a manifest. Raises InvalidManifest."""
    return frozenset(one.id for one in manifest_of(body).checkpoints)


@lru_cache(LIMIT)
def is_pin(before: bytes, after: bytes, file_id: int | None) -> bool:
    """Return whether the second manifest only adds a pin of itself, the file `file_id`. Raises InvalidManifest."""
    old, new = manifest_of(before).checkpoints, manifest_of(after).checkpoints
    return new[:-1] == old and (new[-1].name or "").startswith(PIN) and new[-1].manifest_id == file_id


@lru_cache(LIMIT)
def pinned_in(body: bytes) -> list[tuple[str, ...]]:
    """Return what each compactor's pin in a manifest keeps, as it was flushed. Raises InvalidManifest."""
    pins = [one.name.removeprefix(PIN) for one in manifest_of(body).checkpoints if one.name and one.name.startswith(PIN)]
    return [tuple(part for sst in pin.split() for part in parts_of(sst)) for pin in pins]


@lru_cache(LIMIT)
def records_in(body: bytes) -> tuple[Record, ...]:
    """Return all records in a manifest, in the order of its SSTs: the compacted ones, then L0. Raises InvalidManifest."""
    manifest = manifest_of(body)
    return tuple(record for sst in manifest.compacted + manifest.l0 for record in records_of(sst))


def names_of(sst: str) -> list[str]:
    """Return the names "w.k" of the records in an SST."""
    return [record.body.decode() for record in records_of(sst)]


@lru_cache(LIMIT)
def change_of(before: bytes, after: bytes) -> Change | None:
    """Return the change between two manifests; None if no role makes it. Raises InvalidManifest."""
    old, new = manifest_of(before), manifest_of(after)
    others = {"checkpoints": new.checkpoints, "updates": new.updates}
    if new == old._replace(writer_epoch=old.writer_epoch + 1):
        return Change(CLAIM)
    if new == old._replace(compactor_epoch=old.compactor_epoch + 1):
        return Change(BUMP)
    if new == old._replace(**others):
        return Change(CHECKPOINTS) if new != old and is_once(old, new) else None
    added = new.l0[len(old.l0):]
    if new == old._replace(l0=old.l0 + added, replay_after_wal_id=new.replay_after_wal_id):
        ahead = new.replay_after_wal_id > old.replay_after_wal_id
        return Change(FLUSH, added) if ahead and len(added) <= 1 and is_new(old, added) else None
    moved = new.compacted[len(old.compacted):]
    if new == old._replace(compacted=old.compacted + moved, l0=tuple(sst for sst in old.l0 if sst not in moved)):
        return Change(COMPACTION, moved) if set(moved) <= set(old.l0) and len(set(moved)) == len(moved) else None
    return None


def is_once(old: Manifest, new: Manifest) -> bool:
    """Return whether the ids of earlier updates are still there, and no update or checkpoint is there twice."""
    ids = [one.id for one in new.checkpoints]
    return (new.updates[:len(old.updates)] == old.updates and len(set(new.updates)) == len(new.updates)
            and len(set(ids)) == len(ids))


def is_new(old: Manifest, added: tuple[str, ...]) -> bool:
    """Return whether no record of the added SSTs is in the manifest already."""
    there = Counter(record for sst in old.compacted + old.l0 + added for record in records_of(sst))
    return all(number == 1 for number in there.values())


# --- the parts' own forms

@lru_cache(LIMIT)
def numbered(updates: frozenset[tuple[int, int]], checkpoints: frozenset[int]) -> bytes:
    """Return the content of a file in the form of sequenced_metadata_boundary: the updates that it holds, and the ids of the
    files that checkpoints refer to."""
    return UPDATES.encode(Manifest(updates=tuple(f"{w}.{k}" for w, k in sorted(updates)),
                                   checkpoints=tuple(Checkpoint("", i, 0) for i in sorted(checkpoints))))


@lru_cache(LIMIT)
def log_of(body: bytes) -> bytes:
    """Return a manifest in the form of wal_fencing: the writer's epoch, replay_after and the flushed records.

    Raises InvalidManifest, ValueError."""
    manifest = manifest_of(body)
    return encode_manifest(WalManifest(manifest.writer_epoch, manifest.replay_after_wal_id, tuple(records_in(body))))


@lru_cache(LIMIT)
def read_names(body: bytes) -> bytes:
    """Return the names of the records in a manifest as a reader is told them. Raises ValueError if one is there twice."""
    names = [record.body for record in records_in(body)]
    distinct(names)
    return b" ".join(names)


# --- a part's own state

def observed(of: Any, e: Event) -> None:
    """Let a part's trace take an event in the model's form. The store was judged before."""
    of.events.append(e)
    of._take(e)
    of.by_client[e.client].append(e)

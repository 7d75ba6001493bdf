"""Safety: each SST of a union is pinned in the database that owns it, and rounds of projection and union do not add pins.

Every entry costs a checkpoint in another database. «Without this deduplication, repeated cycles of projection and union
cause exponential growth of duplicated entries» (SlateDB's RFC on checkpoints and clones). The RFC merges entries with one
path and one source checkpoint. That does not suffice: each clone has checkpoints of its own, also of one and the same
manifest.

Here an owner has at most one entry for each of its manifests that are pinned, and an SST is in one entry only. So the
number of entries is at most owners x distinct manifests, after any number of rounds.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from highwater.impl.codecs.slatedb.tables import Checkpoint, ExternalDb
from highwater.impl.errors import Definite

Named = Mapping[tuple[str, str], int]  # (path, id of a checkpoint there) -> the id of the manifest that the checkpoint names


class SstOfTwoDatabases(Definite):
    """Two databases own an SST with the same id. A reader finds an SST's database by its id, so it would read one for the
    other."""


class Pin(NamedTuple):
    """SSTs of the database at `path`, and a checkpoint there that keeps them."""

    path: str
    checkpoint_id: str
    ssts: frozenset[str]


def inherited(external_dbs: Iterable[ExternalDb]) -> list[Pin]:
    """Return the pins of a source's own external databases. Its final checkpoint keeps the SSTs as long as the source needs
    them; the one that this was made from may be anyone's, and may be gone."""
    return [Pin(one.path, one.final_checkpoint_id or one.source_checkpoint_id, frozenset(one.sst_ids))
            for one in external_dbs if one.sst_ids]


def owners(pins: Iterable[Pin]) -> dict[str, str]:
    """Return the path of each SST's database. Raises SstOfTwoDatabases."""
    found: dict[str, str] = {}
    for pin in pins:
        for sst in sorted(pin.ssts):
            if found.setdefault(sst, pin.path) != pin.path:
                raise SstOfTwoDatabases(f"both {found[sst]!r} and {pin.path!r} own an SST {sst}: rewrite one of the two, for "
                                        "instance by compacting it; no release has a place for a second name")
    return found


def deduplicated(pins: Iterable[Pin], named: Named) -> list[Pin]:
    """Return pins of the same SSTs: one for each owner and manifest, and each SST in one of them. Pins of unknown manifests
    are merged if their checkpoint is the same. The pin with the most SSTs takes those that it shares with others."""
    groups: dict[tuple[str, int | str], Pin] = {}
    for pin in pins:
        key = pin.path, named.get((pin.path, pin.checkpoint_id), pin.checkpoint_id)
        first = groups.setdefault(key, pin)
        groups[key] = first._replace(ssts=first.ssts | pin.ssts)
    kept: list[Pin] = []
    covered: set[tuple[str, str]] = set()
    for pin in sorted(groups.values(), key=lambda pin: -len(pin.ssts)):  # which is stable
        if left := frozenset(sst for sst in pin.ssts if (pin.path, sst) not in covered):
            kept.append(pin._replace(ssts=left))
            covered |= {(pin.path, sst) for sst in left}
    return kept


def entries(pins: Iterable[Pin], new_id: Callable[[], str]) -> tuple[ExternalDb, ...]:
    """Return the external databases of a new database, each with a final checkpoint id that nobody has used."""
    return tuple(ExternalDb(pin.path, pin.checkpoint_id, Checkpoint.id_of(new_id()), tuple(sorted(pin.ssts))) for pin in pins)

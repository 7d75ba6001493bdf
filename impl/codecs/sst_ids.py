"""Safety: every SST that a manifest names is found in it, in our form and in SlateDB's. A collector deletes what is not found.

SSTs are objects at `<root>/compacted/<ULID>.sst`. The names in our own manifests may also be names that carry their records
(impl/codecs/json/ssts.py). No object has such a name.
"""

from highwater.impl.codecs.json.compactions import Compactions
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.compactions import Compactions as SlateDbCompactions
from highwater.impl.codecs.slatedb.flatbuffer import number_of_ulid

RANDOM = 80  # bits of a ULID after its time


def is_ulid(name: str) -> bool:
    try:
        number_of_ulid(name)
    except ValueError:
        return False
    return True


def time_ms(ulid: str) -> int:
    """Return the time at which a ULID was minted, by the clock of its client."""
    return number_of_ulid(ulid) >> RANDOM


def named(manifest: Manifest) -> frozenset[str]:
    """Return the ids of all SSTs that a manifest names."""
    those = (*manifest.l0, *manifest.compacted)
    ours = [one for one in those if isinstance(one, str)]
    theirs = manifest.views if len(ours) < len(those) or manifest.segments else ()
    return frozenset((*ours, *(view.sst_id for view in theirs), *(sst.id for sst in manifest.ssts)))


def newest_l0(manifest: Manifest) -> str:
    """Return the newest SST that was committed to L0; "" if none was."""
    trees = (manifest.l0, *(segment.l0 for segment in manifest.segments))
    l0 = [one if isinstance(one, str) else one.sst_id for tree in trees for one in tree]
    last = [manifest.last_compacted_l0_sst_id or manifest.last_compacted_l0_view_id,
            *(segment.last_compacted_l0_view_id for segment in manifest.segments)]
    return max((one for one in (*l0, *last) if one and is_ulid(one)), default="")


def listed(compactions: Compactions | SlateDbCompactions) -> tuple[str, ...] | None:
    """Return the ULIDs of the listed compactions; None if one has none, so that nobody can tell what its outputs are."""
    if isinstance(compactions, Compactions):
        return compactions.ids if len(compactions.ids) == len(compactions.jobs) else None
    return tuple(one.id for one in compactions.recent_compactions)

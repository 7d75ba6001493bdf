"""Check at the end of a run what callers of a metadata index were promised, without a model."""

from collections import Counter
from typing import Any

from highwater.dst.scenarios.indexed.group import SHARD, IndexGroup
from highwater.impl.codecs.index import names
from highwater.impl.index import units
from highwater.traces.refine import Failure


def check(group: IndexGroup) -> None:
    """Check that what was acknowledged is there once, unless it was dropped, and that each visible block has its object."""
    view: Any = group.final
    there = {(unit, ulid): units.get(view, unit.tenant, unit.shard, [ulid])[0] for unit, ulid in units.visible(view)}
    counts = Counter(one.string_table[part.name] for one in there.values() for part in one.datasets)
    if twice := sorted(name for name, count in counts.items() if count > 1):
        raise Failure("safety", "history:twice", f"{', '.join(twice)} is in two visible blocks")
    lost = sorted(group.acknowledged - counts.keys())
    if lost and not group.dropped:
        raise Failure("safety", "history:lost", f"{', '.join(lost)} was acknowledged, and is in no visible block")
    paths = {names.block_path(SHARD, unit.tenant, ulid, one.compaction_level) for (unit, ulid), one in there.items()}
    if gone := sorted(paths - group.objects.keys()):
        raise Failure("safety", "history:dangling", f"{', '.join(gone)} is visible, and its object is gone")

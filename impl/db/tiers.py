"""Safety: what is picked is always the oldest of L0, or runs that are neighbours. So no row moves below a row that is older.

Size-tiered compaction: L0 becomes a new run, and runs of similar sizes become one. The options have SlateDB's names and
defaults.
"""

from collections.abc import Sequence
from typing import NamedTuple

from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.tables import Sst, Tiered, View
from highwater.impl.manifests.spans import effective


class Tiers(NamedTuple):
    """When to compact, and how much at once. A source is an SST of L0, or a run."""

    min_compaction_sources: int = 4
    max_compaction_sources: int = 8
    include_size_threshold: float = 4.0  # a run is similar to the newer ones up to so many times the smallest of them

    def refusal(self) -> str:
        """Return why nothing can be picked by these options; "" if they are sound."""
        if not 1 <= self.min_compaction_sources <= self.max_compaction_sources:
            return (f"min_compaction_sources is {self.min_compaction_sources} and max_compaction_sources "
                    f"{self.max_compaction_sources}: at least 1, and not more than the latter")
        if self.max_compaction_sources < 2:
            return "max_compaction_sources is 1: a compaction of one run would repeat for ever"
        if self.include_size_threshold < 1:
            return f"include_size_threshold is {self.include_size_threshold}: at least 1"
        return ""


USUAL = Tiers()


def pick(manifest: Manifest, tiers: Tiers = USUAL) -> Tiered | None:
    """Return the next compaction; None if there are too few sources. Raises Malformed.

    L0 comes first: its oldest SSTs become a run with the next id. They wait if that run would be similar to those below it, and
    these are `max_compaction_sources` already.
    """
    ssts = {sst.id: sst for sst in manifest.ssts}
    sizes = [sum(size_of(view, ssts) for view in run.views) for run in manifest.compacted]
    ids = [run.id for run in manifest.compacted]
    oldest = oldest_of(manifest.l0, tiers.max_compaction_sources)
    if len(manifest.l0) >= tiers.min_compaction_sources and not is_crowded(
            sum(size_of(view, ssts) for view in oldest), sizes, 0, tiers):
        return Tiered(l0_view_ids=tuple(view.id for view in oldest), segment=b"", destination=ids[0] + 1 if ids else 0)
    for start in range(len(ids)):
        end = end_of_similar(sizes, start, tiers)
        while end > start and is_crowded(sum(sizes[start:end]), sizes, end, tiers):
            end -= 1
        if end - start >= max(2, tiers.min_compaction_sources):
            picked = ids[max(start, end - tiers.max_compaction_sources):end]
            return Tiered(sorted_runs=tuple(picked), segment=b"", destination=picked[-1])
    return None


def size_of(view: View, ssts: dict[str, Sst]) -> int:
    """Return the size in bytes of the blocks of the SST that a view shows, whatever part of it is visible. Raises Malformed."""
    return ssts[view.sst_id].info.filter_offset if effective(view, ssts) else 0


def oldest_of(l0: Sequence[View], most: int) -> Sequence[View]:
    """Return the oldest views of L0, which has the newest first.

    Releases up to 0.17 make unions in which two views have one id. A compaction names views by their ids, so both go into it.
    """
    start = max(0, len(l0) - most)
    while any(view.id in {one.id for one in l0[start:]} for view in l0[:start]):
        start -= 1
    return l0[start:]


def end_of_similar(sizes: Sequence[int], start: int, tiers: Tiers) -> int:
    """Return the end of the similar runs that begin at `start`: each is at most so many times the smallest before it."""
    end = start + 1
    while end < len(sizes) and sizes[end] <= min(sizes[start:end]) * tiers.include_size_threshold:
        end += 1
    return end


def is_crowded(size: int, sizes: Sequence[int], place: int, tiers: Tiers) -> bool:
    """Return whether a result of this size, just above the run at `place`, would join as many similar runs as are compacted at
    once."""
    return (place < len(sizes) and sizes[place] <= size * tiers.include_size_threshold
            and end_of_similar(sizes, place, tiers) - place >= tiers.max_compaction_sources)

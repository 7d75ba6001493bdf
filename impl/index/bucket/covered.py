"""Safety: a block is called covered only if the name of another one proves that it is made of this block.

The name of a compacted block is the hash of its sources, in order (names.py). Sources are consecutive blocks of one level in a
unit's queue, but which of them, and whether some are deleted already, the names alone do not say. A block that begins at the
millisecond of a source is suspected; it is proved if consecutive blocks from that source on give its name.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from highwater.impl.codecs.index import ulids
from highwater.impl.codecs.index.names import compacted_id

LONGEST = 100  # sources of a block


class Known(NamedTuple):
    """A block by what its key and metadata say."""

    ulid: str
    shard: int
    tenant: str
    level: int
    tenants: tuple[str, ...] = ()  # whose datasets it has


class Covered(NamedTuple):
    """A source that stands beside the block it was compacted to. `proved`: the names prove it; else the times agree."""

    source: Known
    by: Known
    proved: bool


def covered(blocks: Iterable[Known]) -> Iterator[Covered]:
    """Yield each source that a later block covers, in the order of shards, levels, sources."""
    below: dict[tuple[int, int], list[Known]] = defaultdict(list)
    for block in sorted(blocks):
        below[block.shard, block.level].append(block)
    for shard, level in sorted(below):
        sources = below[shard, level]
        at = {source: number for number, source in enumerate(sources)}
        first = defaultdict(list)
        for source in sources:
            first[ulids.time_ms(source.ulid)].append(source)
        for by in below.get((shard, level + 1), ()):
            for source in first.get(ulids.time_ms(by.ulid), ()):
                if source.tenant in ("", by.tenant):
                    proof = proved(sources[at[source]:at[source] + LONGEST], by)
                    yield from (Covered(one, by, bool(proof)) for one in proof or [source])


def left_out(found: Iterable[Covered]) -> set[Known]:
    """Return the blocks without which each datum is in one block, as far as names prove it.

    A source goes if for each tenant of whom it has data a block is made of it. If that is so for some tenants only, the worker
    had not put all its results, and so had not reported them: these go.
    """
    by: dict[Known, list[Known]] = defaultdict(list)
    for one in found:
        if one.proved:
            by[one.source].append(one.by)
    gone: set[Known] = set()
    for source, results in by.items():
        whole = set(source.tenants) <= {result.tenant for result in results}
        gone |= {source} if whole else set(results)
    return gone


def proved(sources: list[Known], by: Known) -> list[Known]:
    """Return those of the sources, from the first on, whose names make the name of the block; [] if none do."""
    same = [one for one in sources if one.tenant == sources[0].tenant]
    for count in range(1, len(same) + 1):
        if compacted_id([one.ulid for one in same[:count]], by.level, by.tenant) == by.ulid:
            return same[:count]
    return []

"""Safety: a manifest with content that a function would lose is refused before the function begins.

A projection and a union know L0, the sorted runs and the SSTs of a manifest. They know nothing of the write-ahead log, of
segments, or of fields of newer releases.
"""

from collections.abc import Iterable

from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.flatbuffer import NewerFields
from highwater.impl.codecs.slatedb.tables import Sst
from highwater.impl.errors import Definite
from highwater.impl.manifests.spans import Malformed


class HasNoViews(Definite):
    """The manifest has names instead of views, as this repository's own files do: there is no range to narrow."""


class HasSegments(Definite):
    """The manifest has segments, which no function here can cut or unite."""


class WalNotCompacted(Definite):
    """The write-ahead log may have rows that are in no SST. No visible range applies to them."""


def check(manifest: Manifest) -> None:
    """Check that views in L0 and in sorted runs show all SSTs. Raises HasNoViews, HasSegments, NewerFields."""
    if manifest.unknown:
        raise NewerFields("manifest", manifest.unknown)
    if any(isinstance(one, str) for one in (*manifest.l0, *manifest.compacted)):
        raise HasNoViews("the manifest names SSTs and has no views: only SlateDB's form of a manifest has ranges of keys")
    if manifest.segments or manifest.segment_extractor_name is not None:
        raise HasSegments("the manifest has segments, which this release neither cuts nor unites")


def gaps(ids: Iterable[int], first: int, last: int) -> list[range]:
    """Return the ids from `first` to `last` that are not among `ids`, as runs. The ids ascend. The result has at most one run
    more than there are ids, however far apart `first` and `last` are."""
    found = []
    for one in (*ids, last + 1):
        if first < (stop := min(one, last + 1)):
            found.append(range(first, stop))
        first = max(first, one + 1)
    return found


def check_log(manifest: Manifest, fences: frozenset[int]) -> None:
    """Check that the SSTs have all rows. `fences` are the ids of WAL objects that are known to have none.

    Raises WalNotCompacted.
    """
    if rows := gaps(sorted(fences), manifest.replay_after_wal_id + 1, manifest.wal_id_last_seen):
        number = sum(part.stop - part.start for part in rows)
        raise WalNotCompacted(f"WAL object {rows[0].start} may have rows that are in no SST ({number} such objects): flush the "
                              "memtable of the database, and take the manifest that this writes")


def ssts_of(manifest: Manifest) -> dict[str, Sst]:
    """Return the listed SSTs by their ids. Raises Malformed if one id has two contents."""
    found: dict[str, Sst] = {}
    for sst in manifest.ssts:
        if found.setdefault(sst.id, sst) != sst:
            raise Malformed(f"the manifest lists SST {sst.id} twice, with different contents: it is damaged")
    return found

"""Safety: the rows of a projection are the rows of its source with a key in the span; each key keeps the order of its
versions.

«Projection» of SlateDB's RFC on checkpoints and clones. «Projection is logically equivalent to deleting all entries outside
the projected range.»
"""

from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.tables import ExternalDb, Run, Sst, View
from highwater.impl.manifests import readable
from highwater.impl.manifests.spans import Span, effective, in_run, meet, with_span


def project(manifest: Manifest, span: Span, fences: frozenset[int] = frozenset()) -> Manifest:
    """Return the manifest with the keys of `span` only. Fields that have no keys are copied: a clone gets new ones anyway.

    «Sorted runs whose SSTs were all excluded are removed entirely»; the others keep their ids. An SST that nothing shows
    any more is listed no longer, neither here nor in `external_dbs`, and «Entries whose sst_ids list becomes empty are
    removed entirely». `fences` are the ids of WAL objects that are known to have no rows.

    Raises what `readable.check` raises, WalNotCompacted, Malformed.
    """
    readable.check(manifest)
    readable.check_log(manifest, fences)
    ssts = readable.ssts_of(manifest)
    l0 = narrowed([(view, shown) for view in manifest.l0 if (shown := effective(view, ssts))], span, ssts)
    runs = ((run, narrowed(in_run(run.id, run.views, ssts), span, ssts)) for run in manifest.compacted)
    compacted = tuple(Run(run.id, views) for run, views in runs if views)
    shown = {view.sst_id for views in (l0, *(run.views for run in compacted)) for view in views}
    return manifest._replace(l0=l0, compacted=compacted, ssts=tuple(sst for sst in ssts.values() if sst.id in shown),
                             external_dbs=pruned(manifest.external_dbs, shown))


def narrowed(views: list[tuple[View, Span]], span: Span, ssts: dict[str, Sst]) -> tuple[View, ...]:
    """Return the views that show a key of `span`, each cut to it. A view that stays as it is keeps the range that it
    has."""
    met = ((view, meet(shown, span)) for view, shown in views)
    return tuple(view if both == effective(view, ssts) else with_span(view, both, ssts[view.sst_id])
                 for view, both in met if both)


def pruned(external_dbs: tuple[ExternalDb, ...], shown: set[str]) -> tuple[ExternalDb, ...]:
    """Return the external databases with only those SSTs that are still shown, and without those that have none."""
    left = (one._replace(sst_ids=tuple(sst for sst in one.sst_ids if sst in shown)) for one in external_dbs)
    return tuple(one for one in left if one.sst_ids)

"""Safety: a compaction counts as done only if the manifest has no input of it any more, and is refused unless all are there.

SlateDB's compactions files list compactions; each has a status. Released compactors and ours understand each other by these:

    submitted, scheduled     nobody works on it yet
    running                  the compactor in `worker` merges the inputs
    compacted                the outputs are uploaded and named here, and the manifest does not have them yet
    completed, failed        it is over; the latest of these stays in the file, so that collectors have a bound for SSTs
"""

from collections.abc import Iterable, Sequence

from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.compactions import Compactions
from highwater.impl.codecs.slatedb.tables import (
    COMPACTED,
    COMPLETED,
    FAILED,
    RUNNING,
    Compaction,
    Run,
    Sst,
    SstV1,
    Tiered,
    View,
    Worker,
)

OVER = (COMPLETED, FAILED)
STARTED = (RUNNING, COMPACTED)


# --- the list

def active(compactions: Compactions) -> list[Compaction]:
    """Return the compactions that are not over, the oldest first."""
    return sorted((one for one in compactions.recent_compactions if one.status not in OVER), key=lambda one: one.id)


def listed(compactions: Compactions, compaction_id: str) -> Compaction | None:
    """Return a compaction that is not over; None if it is not listed as that."""
    return next((one for one in active(compactions) if one.id == compaction_id), None)


def with_one(compactions: Compactions, compaction: Compaction) -> Compactions:
    """Return the file with this compaction, in place of the one with its id. Those that are over go, but the latest of them."""
    every = {one.id: one for one in (*compactions.recent_compactions, compaction)}
    last = max((one.id for one in every.values() if one.status in OVER), default="")
    kept = tuple(every[id_] for id_ in sorted(every) if every[id_].status not in OVER or id_ == last)
    return compactions._replace(recent_compactions=kept)


def running(compaction: Compaction, worker: Worker) -> Compaction:
    """Return the compaction as `worker` begins it. What another one has made of it is dropped."""
    return compaction._replace(status=RUNNING, output_ssts=(), worker=worker, context=None)


def compacted(compaction: Compaction, worker: Worker, outputs: Iterable[Sst]) -> Compaction:
    """Return the compaction with its outputs."""
    ssts = tuple(SstV1(sst.id, sst.info, None, sst.format_version) for sst in outputs)
    return compaction._replace(status=COMPACTED, output_ssts=ssts, worker=worker)


# --- inputs and result in a manifest

def refusal(manifest: Manifest, compaction: Compaction) -> str:
    """Return why the manifest does not allow a compaction, as released compactors judge it; "" if it does.

    The inputs are neighbours: the oldest of L0, then the newest runs; or runs only. The destination is the oldest of these
    runs, or the id of a new run above all.
    """
    spec = compaction.spec
    if not isinstance(spec, Tiered) or spec.segment:
        return "it is of a segment, and this release compacts none"
    if not spec.l0_view_ids and not spec.sorted_runs:
        return "it has no inputs"
    number, ids = len(spec.l0_view_ids), [view.id for view in manifest.l0]
    left, inputs = ids[:len(ids) - number], ids[len(ids) - number:]
    if tuple(inputs) != spec.l0_view_ids:
        return f"its inputs {list(spec.l0_view_ids)} are not the oldest of L0, {ids}"
    if both := set(left) & set(inputs):
        return f"two views of L0 have the id {min(both)}, and it names only one of them"
    runs = [run.id for run in manifest.compacted]
    if spec.sorted_runs:
        first = runs.index(spec.sorted_runs[0]) if spec.sorted_runs[0] in runs else len(runs)
        if tuple(runs[first:first + len(spec.sorted_runs)]) != spec.sorted_runs or (number and first):
            return f"its runs {list(spec.sorted_runs)} are no neighbours{' below L0' if number else ''} among {runs}"
        if spec.destination != spec.sorted_runs[-1]:
            return f"its destination {spec.destination} is not its oldest run, {spec.sorted_runs[-1]}"
    elif runs and spec.destination <= runs[0]:
        return f"its destination {spec.destination} is no new run above {runs[0]}"
    return ""


def is_applied(manifest: Manifest, spec: Tiered, outputs: Sequence[Sst] | None) -> bool:
    """Return whether the manifest has the result: no input is left. `outputs` is None if the caller does not know them.

    A compaction of one run into itself is known by its outputs alone. Without them it counts as not applied: it may be
    repeated.
    """
    runs = {run.id: run for run in manifest.compacted}
    others = [run for run in spec.sorted_runs if run != spec.destination]
    if spec.l0_view_ids or others:
        return not any(view.id in spec.l0_view_ids for view in manifest.l0) and not any(run in runs for run in others)
    there = runs[spec.destination].views if spec.destination in runs else ()
    return outputs is not None and [view.sst_id for view in there] == [sst.id for sst in outputs]


def with_result(manifest: Manifest, spec: Tiered, outputs: Sequence[Sst]) -> Manifest:
    """Return the manifest with a run of the outputs in place of the inputs.

    SSTs that no view shows any more are listed no longer, neither here nor among those of another database. The entry of that
    database stays, so that the checkpoint there is found when the clone is detached.
    """
    newest = next((view for view in manifest.l0 if view.id in spec.l0_view_ids), None)
    l0 = tuple(view for view in manifest.l0 if view.id not in spec.l0_view_ids)
    result = [Run(spec.destination, tuple(View(sst.id, sst.id) for sst in outputs))] if outputs else []
    runs = [run for run in manifest.compacted if run.id not in (*spec.sorted_runs, spec.destination)]
    changed = manifest._replace(l0=l0, compacted=tuple(sorted((*runs, *result), key=lambda run: -run.id)))
    if newest is not None:
        changed = changed._replace(last_compacted_l0_view_id=newest.id, last_compacted_l0_sst_id=newest.sst_id)
    shown = {view.sst_id for view in changed.views}
    return changed._replace(
        ssts=tuple(sst for sst in (*manifest.ssts, *outputs) if sst.id in shown),
        external_dbs=tuple(of._replace(sst_ids=tuple(sst for sst in of.sst_ids if sst in shown))
                           for of in manifest.external_dbs))


def inputs(manifest: Manifest, spec: Tiered) -> tuple[tuple[View, ...], tuple[Run, ...]]:
    """Return the views of L0 and the runs that a compaction merges, as far as the manifest has them."""
    return (tuple(view for view in manifest.l0 if view.id in spec.l0_view_ids),
            tuple(run for run in manifest.compacted if run.id in spec.sorted_runs))


def is_bottom(manifest: Manifest, spec: Tiered) -> bool:
    """Return whether the destination is the oldest run once the inputs are gone, so that no older version is anywhere else."""
    return all(run.id > spec.destination for run in manifest.compacted if run.id not in spec.sorted_runs)

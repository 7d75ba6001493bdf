"""Say what a manifest or a compactions file of SlateDB is in the model of sequenced files.

A file of the model is a set of updates, with an epoch for each role. Of two files that follow each other only the difference
matters. So a file is mapped together with the one before it, to what is lost and to what must not have been added:

    a counter that goes back                    an update is lost
    an L0 view that goes, with nothing compacted    an update is lost. (A compaction may leave no row, and so no run)
    a checkpoint that is in it twice            an update of nobody: an update is in a history once
    an epoch that differs                       a claim. A program may leave out epochs: the next one stands for any higher one
    the mark of a destroyed database is new     a seal, which raises all epochs
    the clone is begun again                    another file, which keeps the counter of its WAL, and a mark
"""

from typing import Any

from highwater.impl.codecs.destroyed import mark_of
from highwater.impl.codecs.manifest import Manifest
from highwater.model.abstract.sequenced_files import SEAL, File, Update
from highwater.traces.recorded.systems.facts import NOBODY, WRITER, Edit

EPOCHS = {"manifest": ("writer_epoch", "compactor_epoch"), "compactions": ("compactor_epoch",)}
COUNTERS = ("replay_after_wal_id", "wal_id_last_seen", "last_l0_seq")


def change_of(folder: str, before: Any, after: Any) -> Edit:
    """Map two decoded files; None stands for one that the log does not show."""
    if before is None or after is None:
        return Edit()
    if folder == "manifest" and is_begun_again(before, after):
        lost = {"wal_id_last_seen": after.wal_id_last_seen < before.wal_id_last_seen,
                "the mark": mark_of(before) not in (None, mark_of(after))}
        return Edit(File(frozenset([(None, name) for name, is_lost in lost.items() if is_lost])))
    was, now = (tuple(getattr(one, role) for role in EPOCHS[folder]) for one in (before, after))
    marked = folder == "manifest" and mark_of(after) not in (None, mark_of(before))
    if was != now and not marked:
        raised = [place for place, (old, new) in enumerate(zip(was, now)) if new > old]
        epochs = tuple(old + 1 if new > old else new for old, new in zip(was, now))
        role = raised[0] if raised else 0
        return Edit(File(epochs=was), File(epochs=epochs), role, now[role])
    if not isinstance(before, Manifest):
        return Edit(File(epochs=was), File(epochs=now))
    gone, new = l0_views(before) - l0_views(after), l0_views(after) - l0_views(before)
    if compacted(after) != compacted(before):
        gone = frozenset()
    lost = [name for name in COUNTERS if getattr(after, name) < getattr(before, name)]
    lost += [f"L0 view {one}" for one in sorted(gone)]
    added: list[Update] = [(NOBODY, f"checkpoint {one}, again") for one in again(before, after)]
    if marked:
        return Edit(File(frozenset([(None, one) for one in lost]), epochs=was), File(frozenset([*added, SEAL]), epochs=now))
    return Edit(File(frozenset([(None, one) for one in lost]), epochs=was), File(frozenset(added), epochs=now),
                  WRITER if new else None)


def is_begun_again(before: Manifest, after: Manifest) -> bool:
    """Return whether a cloner has begun its attempt again from another source: with other final checkpoints."""
    if before.initialized or not before.external_dbs:
        return False
    was, now = ({one.final_checkpoint_id for one in of.external_dbs} for of in (before, after))
    return not now <= was


def compacted(manifest: Manifest) -> tuple[Any, ...]:
    return manifest.compacted, manifest.segments, manifest.last_compacted_l0_view_id


def l0_views(manifest: Manifest) -> frozenset[str]:
    return frozenset([view.id for view in manifest.l0])


def again(before: Manifest, after: Manifest) -> set[str]:
    """The checkpoints that are in it more than once, unless they were before."""
    found = repeated(after)
    return found if found and found != repeated(before) else set()


def repeated(manifest: Manifest) -> set[str]:
    ids = [one.id for one in manifest.checkpoints]
    return {one for one in ids if ids.count(one) > 1} if len(set(ids)) < len(ids) else set()

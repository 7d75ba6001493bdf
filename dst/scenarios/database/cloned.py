"""Rows that a clone begins with: exactly those that its source checkpoint keeps.

The source is the checkpoint that the first initialized manifest of the clone names. Its rows are found in the parent's own
history: the manifest that the checkpoint keeps, as it was first put, and the parent's log. So nothing that the clone says about
its rows is believed.
"""

from highwater.impl.codecs.manifest import Manifest
from highwater.traces.event import Event
from highwater.traces.histories.versions import Logged, logged, objects
from highwater.traces.protocols.db import CLONE, FOLDERS, ROOT
from highwater.traces.recorded.systems.slatedb_layout import decoded


def manifests(events: list[Event], root: str) -> dict[int, Manifest]:
    """Return id -> the manifest that was first put under it."""
    found: dict[int, Manifest] = {}
    of = FOLDERS[root].manifests
    for e in events:
        if e.kind == "applied" and e.op == "create" and e.status == 200 and e.key.startswith(of.prefix):
            found.setdefault(of.file_id(e.key) or 0, decoded("manifest", e.body))
    return found


def first_manifest(events: list[Event]) -> Manifest | None:
    """Return the first initialized manifest of the clone; None if there is none."""
    return next((manifest for _, manifest in sorted(manifests(events, CLONE).items()) if manifest.initialized), None)


def log_of_clone(events: list[Event], first: Manifest) -> tuple[Logged, int]:
    """Return the rows of a clone in their order, and the highest number among those of its source."""
    if not first.external_dbs:  # a writer was faster than the cloner: it is a database of its own
        return logged(events, FOLDERS[CLONE].wal), 0
    source = first.external_dbs[0].source_checkpoint_id
    parent = manifests(events, ROOT)
    kept = next(parent[one.manifest_id] for _, manifest in sorted(parent.items()) for one in manifest.checkpoints
                if one.id == source)
    seen = kept.wal_id_last_seen
    rows = [row for i, those in objects(events, FOLDERS[ROOT].wal).items() for row in those
            if i <= seen or row.seq <= kept.last_l0_seq]
    own = [row for i, those in objects(events, FOLDERS[CLONE].wal).items() for row in those if i > seen]
    return Logged((*rows, *own)), max((row.seq for row in rows), default=kept.last_l0_seq)

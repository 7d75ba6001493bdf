"""Renders the databases of a side so that two sides can be compared: without ids and times, and with what checkpoints keep.

    SSTs and checkpoints       are named in the order in which they come up
    the manifest of a checkpoint   is what it shows
    a time of expiry           is "never", "minutes" or "hours": how long the checkpoint lasts from when it was taken
"""

import asyncio
import time
from pathlib import Path
from typing import Any

from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb import sequences
from highwater.impl.codecs.slatedb.manifest import ManifestCodec
from highwater.impl.codecs.slatedb.tables import STATUSES, Checkpoint, Tiered, View
from highwater.impl.db.reader import Reader, opened
from highwater.impl.layout import Namespace
from highwater.impl.manifests.spans import Span
from highwater.impl.stores.system import open_database
from tests.support.slatedb.batches import joined
from tests.support.slatedb.sides import Side, listed

State = dict[str, Any]
HOUR_S = 3_000  # a checkpoint that lasts longer is of "hours"


class Renderer:
    """Renders one side, after each step; it remembers the names that it has given."""

    def __init__(self, side: Side):
        self.side = side
        self.names: dict[str, str] = {}
        self.latest: dict[str, int] = {}  # database -> its latest manifest at the last look

    def state(self) -> dict[str, State]:
        """Return all databases of the side, by their names."""
        names = sorted(one.name for one in self.side.root.iterdir() if (one / "manifest").exists())
        return {name: self.database(name) for name in names}

    def database(self, name: str) -> State:
        folder = self.side.root / name
        ids = sorted(int(one.name[:20]) for one in (folder / "manifest").glob("*.manifest"))
        manifest, before = self.manifest(folder, ids[-1]), self.latest.get(name, 0)
        self.latest[name] = ids[-1]
        return self.shown(manifest) | {
            "name": name, "rows": self.rows(name), "manifests": ids[-1] - before, "version": self.version(folder, ids[-1]),
            "initialized": manifest.initialized, "repeated view ids": len(manifest.l0) - len({view.id for view in manifest.l0}),
            "writer_epoch": manifest.writer_epoch, "compactor_epoch": manifest.compactor_epoch,
            "replay_after_wal_id": manifest.replay_after_wal_id, "wal_id_last_seen": manifest.wal_id_last_seen,
            "recent_snapshot_min_seq": manifest.recent_snapshot_min_seq,
            "last_l0_clock_tick": "set" if manifest.last_l0_clock_tick > 0 else "unset",
            "last_compacted_l0_view_id": self.name("sst", manifest.last_compacted_l0_view_id),
            "sequence_tracker": "set" if manifest.sequence_tracker and sequences.decode(manifest.sequence_tracker) else "unset",
            "ssts": {self.name("sst", sst.id): sst.info._asdict() for sst in manifest.ssts},
            "external_dbs": [self.external(one) for one in manifest.external_dbs],
            "checkpoints": [self.checkpoint(folder, one) for one in manifest.checkpoints],
            "compactions": self.compactions(name), "files": self.files(name, manifest)}

    def files(self, name: str, manifest: Manifest) -> State:
        """Return which SSTs and WAL objects there are, and how many other files that nobody needs.

        A manifest that only a writer's own checkpoint keeps is counted apart, and so is an SST that no manifest names. Such an
        SST is in flight for all that a collector knows, if it is newer than the compaction that is listed; then it is not
        counted. Before a collection nothing tells how many files there must be, so they are not counted."""
        folder, listed_ids = self.side.root / name, [one.id for one in listed(self.side.root, name).recent_compactions]
        writers = {one.manifest_id for one in manifest.checkpoints if one.writer_epoch is not None}
        others = {one.manifest_id for one in manifest.checkpoints if one.writer_epoch is None}
        ids = {int(one.name[:20]) for one in (folder / "manifest").glob("*.manifest")}
        ssts = [one.stem for one in (folder / "compacted").glob("*.sst")]
        return {"manifests of writers": len(ids & (writers - others - {max(ids)})), "manifests": sorted(others - ids),
                "needless": len(ids - writers - others - {max(ids)}) if (folder / "gc").exists() else 0,
                "wal": sorted(int(one.name[:20]) for one in (folder / "wal").glob("*.sst")),
                "compactions": len([*(folder / "compactions").glob("*.compactions")]) if (folder / "gc").exists() else 0,
                "ssts": sorted(self.names[sst] for sst in ssts if sst in self.names),
                "SSTs of no manifest": sum(sst not in self.names and all(sst < one for one in listed_ids) for sst in ssts)}

    def rows(self, name: str) -> dict[str, list[Any]]:
        """Return what our reader shows of a database: each key with its value and its number."""
        store, root = open_database(str(self.side.root / name))

        async def read() -> dict[str, list[Any]]:
            reader = Reader(store, await opened(store, root))
            return {one.key.decode(): [one.merged(joined).decode(), one.seq]
                    async for one in reader.scan(Span(), time.time_ns() // 1_000_000)}

        return asyncio.run(read())

    # --- parts of a manifest

    def manifest(self, folder: Path, file_id: int) -> Manifest:
        return ManifestCodec().decode((folder / Namespace("", "manifest").key(file_id)).read_bytes())

    def version(self, folder: Path, file_id: int) -> int:
        return int.from_bytes((folder / Namespace("", "manifest").key(file_id)).read_bytes()[:2], "big")

    def shown(self, manifest: Manifest) -> State:
        """Return what a manifest shows. SSTs that come up first get their names here: the oldest of L0 first, then the runs."""
        l0 = [self.view(view) for view in reversed(manifest.l0)]
        runs = {run.id: [self.view(view) for view in run.views] for run in reversed(manifest.compacted)}
        return {"l0": l0, "runs": runs, "last_l0_seq": manifest.last_l0_seq}

    def view(self, view: View) -> State:
        return {"sst": self.name("sst", view.sst_id), "id": "that of its SST" if view.id == view.sst_id else "its own",
                "range": view.visible_range}

    def name(self, kind: str, of: str | None) -> str | None:
        if of is None:
            return None
        if of not in self.names:
            self.names[of] = f"{kind} {sum(name.startswith(kind) for name in self.names.values())}"
        return self.names[of]

    def checkpoint(self, folder: Path, one: Checkpoint) -> State:
        kept = self.shown(self.manifest(folder, one.manifest_id))
        lasts_s = one.expire_time_s - one.create_time_s
        lasts = "never" if not one.expire_time_s else "hours" if lasts_s > HOUR_S else "minutes"
        name = "own" if one.writer_epoch is not None else self.name("checkpoint", one.id)
        return {"id": name, "keeps": kept, "lasts": lasts, "name": one.name,
                "writer_epoch": one.writer_epoch}

    def external(self, one: Any) -> State:
        return {"path": Path("/", one.path).relative_to(self.side.root).as_posix(),
                "source": self.name("checkpoint", one.source_checkpoint_id),
                "final": self.name("checkpoint", one.final_checkpoint_id),
                "sst_ids": sorted(str(self.name("sst", sst)) for sst in one.sst_ids)}

    def compactions(self, name: str) -> State:
        found = listed(self.side.root, name)
        specs = [{"status": STATUSES[one.status], "spec": {
            "l0": [self.name("sst", view) for view in one.spec.l0_view_ids], "runs": one.spec.sorted_runs,
            "destination": one.spec.destination} if isinstance(one.spec, Tiered) else None} for one in found.recent_compactions]
        return {"compactor_epoch": found.compactor_epoch, "listed": specs}

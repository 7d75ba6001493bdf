"""Safety: what a reader shows is the log up to some row, each row once, and never less than it showed before. Each object that
it needs for this is there, unless its checkpoint was dropped.

The reader of SlateDB's RFC on checkpoints and clones. It takes a checkpoint of the latest manifest (checkpoints.py here), and
writes with the same update how far the WAL is seen: this keeps the WAL, too. Then it replays the WAL into memory. A poller
looks for other SSTs, and for the loss of the checkpoint, and then takes another one. The earlier view stays until the new one
is built, and its checkpoint until the last scan on it has ended. A refresher renews the leases at half their lifetime.

A scan reads one view to its end, whatever the poller does meanwhile. The two tasks run beside the caller, as tasks of the
client; all state of the reader changes between two awaits.
"""

from collections import Counter
from typing import NamedTuple

from highwater.impl.codecs.json.rows import Row
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.sst_ids import named
from highwater.impl.errors import Definite, NotFound, StoreError, TaskCancelled
from highwater.impl.layout import Namespace
from highwater.impl.protocols import checkpoints
from highwater.impl.protocols.checkpoints import CheckpointEnded, CheckpointMissing, found
from highwater.impl.protocols.db_reader_view import JSON, Form, View, last_wal_id, replayed, rows_in
from highwater.impl.protocols.sequenced_metadata import MetadataStore, Recognised
from highwater.impl.world import Task


class Options(NamedTuple):
    """The settings of a reader. `lifetime_ms` of its checkpoints: None: they never end, and somebody must delete them."""

    poll_ms: int = 10_000
    lifetime_ms: int | None = 600_000
    max_memtable_bytes: int = 64 << 20
    attempts: int | None = None  # of an update of the manifest

    def check(self) -> None:
        """Raises ValueError: «This lifetime must always be greater than manifest_poll_interval x 2»."""
        if self.lifetime_ms is not None and self.lifetime_ms <= 2 * self.poll_ms:
            raise ValueError(f"a lifetime of {self.lifetime_ms} ms: it must be more than twice {self.poll_ms} ms, the time "
                             "between two polls")


USUAL = Options()


class NotOpen(Definite):
    """The reader is not open: open another one."""


class Scan:
    """An open scan of one view. End it, so that its checkpoint can go."""

    def __init__(self, reader: "DbReader", view: View):
        self.reader, self.view, self.open = reader, view, True
        reader.scans[view.checkpoint] += 1

    async def rows(self) -> list[Row]:
        """Return all rows, by their sequence numbers. Raises NotReadable if the checkpoint was lost, Unavailable, InvalidRows.
        """
        return await self.reader.rows_of(self.view)

    async def get(self, key: str) -> str | None:
        """Return the latest value of a key; None if there is none. Raises what `rows` raises."""
        return next((row.value for row in reversed(await self.rows()) if row.key == key), None)

    def end(self) -> None:
        """End the scan. The next poll deletes its checkpoint, if it is not in use any more."""
        if self.open:
            self.open = False
            self.reader.scans[self.view.checkpoint] -= 1


class DbReader:
    """A reader of one database. `open` it, then scan, then `close` it: it has tasks until then."""

    def __init__(self, manifests: MetadataStore, root: str, options: Options = USUAL, form: Form = JSON):
        """Make a reader that is not open. With another `form` than JSON, its views are read by others: impl/db/pinned.py."""
        options.check()
        self.manifests, self.root, self.options, self.wal = manifests, root, options, Namespace(root, "wal")
        self.form = form
        self.view: View | None = None
        self.known = 0  # the last manifest that was looked at
        self.scans: Counter[str] = Counter()  # checkpoint -> open scans
        self.held: dict[str, int] = {}  # own checkpoint that may be listed -> the time at which its lease ends; 0: never
        self.lost: set[str] = set()  # of these: no longer listed, or ended
        self.building = ""  # of these: its view is being built
        self.keeper: Task[None] | None = None

    # --- its life

    async def open(self, checkpoint: str | None = None) -> View:
        """Take a checkpoint, replay the WAL, and start the poller and the refresher.

        With a `checkpoint` it reads that one, and neither polls nor refreshes. Raises CheckpointMissing for it, and what `poll`
        raises: then nothing is open.
        """
        if checkpoint is not None:
            self.view = await self._given(checkpoint)
            return self.view
        view = await self._establish()
        self.keeper = self.manifests.world.clock.spawn(self._keep(), "keeper")
        return view

    async def close(self) -> None:
        """End the tasks, and delete the own checkpoints. A delete that fails is left to the lease, with a warning."""
        if self.keeper is not None:
            self.keeper.cancel()
            try:
                await self.keeper
            except TaskCancelled:
                pass
        self.view, self.keeper = None, None
        self.scans.clear()
        await self._release()

    def scan(self) -> Scan:
        """Begin a scan of what the reader shows now. Raises NotOpen."""
        if self.view is None:
            raise NotOpen("this reader is not open: open another one")
        return Scan(self, self.view)

    async def rows_of(self, view: View) -> list[Row]:
        """Return all rows of a view, by their sequence numbers. Raises what `Scan.rows` raises."""
        return await rows_in(self.manifests.world.store, self.root, view)

    async def get(self, key: str) -> str | None:
        """Return the latest value of a key; None if there is none. Raises NotOpen, and what `Scan.get` raises."""
        scan = self.scan()
        try:
            return await scan.get(key)
        finally:
            scan.end()

    # --- its tasks

    async def _keep(self) -> None:
        works = {"poller": self._poll_on()}
        if self.options.lifetime_ms is not None:
            works["refresher"] = self._refresh_on(self.options.lifetime_ms)
        await self.manifests.world.clock.first(**works)

    async def _poll_on(self) -> None:
        world = self.manifests.world
        while True:
            await world.clock.sleep_ms(self.options.poll_ms)
            try:
                await self.poll()
            except StoreError as error:
                world.metrics.count("db_reader_poll_failures")
                world.metrics.warn(f"a poll of {self.root!r} failed, the next one tries again: {error}")

    async def _refresh_on(self, lifetime_ms: int) -> None:
        """Renew the leases, at the latest when half their lifetime is left."""
        world = self.manifests.world
        while True:
            await world.clock.sleep_ms(max(lifetime_ms // 4, 1))
            await self.refresh()

    async def poll(self) -> bool:
        """Look for other SSTs, and for the loss of the checkpoint; if so, take another one. Return whether that was done.

        If there is nothing new, this takes at most two requests. The view stays as it is until the new one is built. Raises
        what `checkpoints.create` raises, CheckpointEnded or NotReadable if the new checkpoint is lost at once, and Unavailable,
        InvalidRows.
        """
        await self._release()
        if not await self._changed():
            return False
        await self._establish()
        return True

    async def _changed(self) -> bool:
        """Return whether another checkpoint is needed.

        What the latest manifest says counts only if a boundary read after it is behind it: else it may be in nobody's history.
        """
        view = self.view
        if view is None or view.checkpoint in self.lost:
            return True
        files = await self.manifests.bounded.list(self.known)
        if not files:
            return False
        try:
            latest = await self.manifests.read(files[-1].id)
        except NotFound:
            return False  # there is a later one, which the next poll finds
        listed = found(latest, view.checkpoint) is not None
        if listed and named(latest) == named(view.manifest):
            self.known = files[-1].id
            return False
        if files[-1].id <= await self.manifests.bounded.boundary.read():
            return False
        if not listed:
            self.lost.add(view.checkpoint)
        return True

    async def refresh(self) -> None:
        """Renew the lease of each checkpoint in use of which at most half is left. One that is gone is noted as lost."""
        lifetime_ms, world = self.options.lifetime_ms, self.manifests.world
        if lifetime_ms is None:
            return
        for checkpoint in sorted(self._used() - self.lost):
            if checkpoint not in self.held:
                continue  # the poller has deleted it meanwhile
            ends_ms = world.clock.now_ms() + lifetime_ms
            if 2 * (self.held[checkpoint] - world.clock.now_ms()) > lifetime_ms:
                continue
            try:
                await checkpoints.refresh(self.manifests, checkpoint, lifetime_ms, self.options.attempts)
                if checkpoint in self.held:
                    self.held[checkpoint] = ends_ms
            except (CheckpointMissing, CheckpointEnded):
                if checkpoint in self.held:
                    self.lost.add(checkpoint)
            except StoreError as error:
                world.metrics.warn(f"checkpoint {checkpoint!r} could not be renewed, which is tried again: {error}")

    # --- its checkpoints

    def _used(self) -> set[str]:
        """Return the own checkpoints that are in use."""
        shown = self.view.checkpoint if self.view else ""
        return {one for one in self.held if one in (shown, self.building) or self.scans[one]}

    async def _establish(self) -> View:
        """Take a checkpoint, build its view, and show it.

        Raises CheckpointEnded if it is found again after a lost reply, when its lease is over: a collector may have dropped it.
        """
        manifests, options = self.manifests, self.options
        checkpoint = checkpoints.new_id(manifests)
        self.held[checkpoint] = checkpoints.expiry_ms(manifests, options.lifetime_ms)
        taken = await checkpoints.create(manifests, checkpoint, options.lifetime_ms, attempts=options.attempts,
                                         also=self._with_seen)
        self.building = checkpoint  # from now on it is renewed; before, it would be noted as lost
        try:
            manifest, file_id = taken.value, taken.id
            if isinstance(taken, Recognised):  # later updates may have changed the SSTs
                entry = found(manifest, checkpoint)
                if not entry.active(manifests.world.clock.now_ms()):
                    raise CheckpointEnded(checkpoint)
                file_id = entry.manifest_id
                manifest = await manifests.read(file_id)
            self.view = await self._built(checkpoint, manifest)
            self.known = file_id
        finally:
            self.building = ""
        return self.view

    async def _with_seen(self, manifest: Manifest) -> Manifest:
        """Return the manifest that says how far the WAL is seen: never less than before."""
        seen = await last_wal_id(self.manifests.world.store, self.wal, manifest.replay_after_wal_id)
        return manifest._replace(wal_id_last_seen=max(manifest.wal_id_last_seen, seen))

    async def _given(self, checkpoint: str) -> View:
        """Return the view of a checkpoint that somebody else keeps."""
        entry = found((await self.manifests.current()).value, checkpoint)
        if entry is None or not entry.active(self.manifests.world.clock.now_ms()):
            raise CheckpointEnded(checkpoint) if entry else CheckpointMissing(checkpoint)
        manifest = await self.manifests.read(entry.manifest_id)
        return await self._built(checkpoint, manifest)

    async def _built(self, checkpoint: str, manifest: Manifest) -> View:
        return await replayed(self.manifests.world.store, self.wal, self.view, checkpoint, manifest,
                              self.options.max_memtable_bytes, self.form)

    async def _release(self) -> None:
        """Delete the own checkpoints that are not in use. One that cannot be deleted now is tried again."""
        for checkpoint in [one for one in self.held if one not in self._used()]:
            try:
                if checkpoint not in self.lost:
                    await checkpoints.delete(self.manifests, checkpoint, self.options.attempts)
            except CheckpointMissing:
                pass
            except StoreError as error:
                self.manifests.world.metrics.warn(f"checkpoint {checkpoint!r} is not deleted yet: {error}")
                continue
            self.held.pop(checkpoint, None)
            self.lost.discard(checkpoint)

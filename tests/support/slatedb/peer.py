"""A SlateDB client that takes commands from standard input, one JSON object per line: {"do": .., "with": {..}, "at": name}.

Each name has a writer and a reader of its own, so that one process works on several databases. The process runs under the
interpreter of a release (releases.py) and imports nothing of highwater. It answers each line by one: {"is": result} or
{"error": text, "kind": name}. It ends with its standard input.
"""

import asyncio
import json
import sys
from collections import defaultdict

from slatedb import uniffi as s


def plain(value):
    """Records of the binding as what JSON has; bytes as Latin-1 text, enums by their names."""
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if hasattr(value, "name") and hasattr(value, "value") and type(value).__mro__[1].__name__ == "Enum":
        return value.name
    return {"is": type(value).__name__} | {name: plain(one) for name, one in vars(value).items() if not name.startswith("__")}


def settings_of(given):
    """No background work but what is given: no collector, no compactor, no polling. Keys may have dots in them."""
    made, quiet = s.Settings.default(), {"manifest_poll_interval": "600s"}
    for name in ("compactor_options", "garbage_collector_options"):
        if not any(key.startswith(name) for key in given):
            quiet[name] = None
    for name, value in (quiet | given).items():
        made.set(name, json.dumps(value))
    return made


class Peer:
    def __init__(self):
        self.db = None
        self.held = []  # snapshots

    async def open(self, path, url="file:///", settings=None, wal_url=None, merging=False, block=None):
        """`merging`: with a merge operator, which joins values; `block`: the name of a block size."""
        builder = s.DbBuilder(path, s.ObjectStore.resolve(url))
        builder.with_settings(settings_of(settings or {}))
        if merging:
            builder.with_merge_operator(Joined())
        if block:
            builder.with_sst_block_size(getattr(s.SstBlockSize, block))
        if wal_url:
            builder.with_wal_object_store(s.ObjectStore.resolve(wal_url))
        self.db = await builder.build()

    async def put(self, **pairs):
        for key, value in pairs.items():
            await self.db.put(key.encode(), value.encode())

    async def delete(self, key):
        await self.db.delete(key.encode())

    async def write(self, batch, durable=True):
        """One batch: lists of "put" | "merge" | "delete", key, value, milliseconds to live or None; texts are Latin-1.

        `durable`: wait as long as the release does."""
        made = s.WriteBatch()
        for what, key, *more in batch:
            key = key.encode("latin-1")
            if what == "delete":
                made.delete(key)
                continue
            value, live_ms = more[0].encode("latin-1"), more[1] if len(more) > 1 else None
            ttl = s.Ttl.NO_EXPIRY() if live_ms is None else s.Ttl.EXPIRE_AFTER_TICKS(live_ms) if hasattr(
                s.Ttl, "EXPIRE_AFTER_TICKS") else s.Ttl.EXPIRE_AFTER_MILLIS(live_ms)
            options = s.PutOptions(ttl=ttl) if what == "put" else s.MergeOptions(ttl=ttl)
            getattr(made, f"{what}_with_options")(key, value, options)
        if durable or "await_durable" not in s.WriteOptions.__init__.__code__.co_varnames:  # 0.17.0 does not wait
            await self.db.write(made)
        else:
            await self.db.write_with_options(made, s.WriteOptions(await_durable=False))

    async def snapshot(self):
        """Keep a snapshot until the client ends, so that a flush keeps the versions down to it."""
        self.kept = await self.db.snapshot()

    async def hold(self):
        """Hold a snapshot until it is dropped, or the writer closes; its place."""
        self.held.append(await self.db.snapshot())
        return len(self.held) - 1

    async def drop(self, place):
        self.held[place] = None

    async def got(self, keys, place=None):
        """The values that point reads of keys show, of the writer or of a held snapshot; texts are Latin-1."""
        found = [await (self.db if place is None else self.held[place]).get(key.encode("latin-1")) for key in keys]
        return [None if value is None else bytes(value).decode("latin-1") for value in found]

    async def scanned(self, start=None, end=None, place=None):
        """Key -> value of the keys from `start` on and before `end`, of the writer or of a held snapshot."""
        return await everything(self.db if place is None else self.held[place], start, end)

    async def rows(self):
        """The rows of a scan: key, value, seq, create and expire time; texts are Latin-1."""
        return await every_row(self.db)

    async def rows_of(self, path, url="file:///", merging=False):
        """The rows of a scan by a reader of its own."""
        builder = s.DbReaderBuilder(path, s.ObjectStore.resolve(url))
        if merging:
            builder.with_merge_operator(Joined())
        reader = await builder.build()
        try:
            return await every_row(reader)
        finally:
            await reader.shutdown()

    async def flush(self, kind="MEM_TABLE"):
        await self.db.flush_with_options(s.FlushOptions(flush_type=getattr(s.FlushType, kind)))

    async def close(self):
        db, self.db, self.held = self.db, None, []
        await db.shutdown()

    async def all(self):
        return await everything(self.db)

    async def read(self, path, url="file:///", checkpoint=None, merging=False):
        """Everything that a reader of its own sees."""
        builder = s.DbReaderBuilder(path, s.ObjectStore.resolve(url))
        if merging:
            builder.with_merge_operator(Joined())
        if checkpoint and hasattr(builder, "with_reader_mode"):
            builder.with_reader_mode(s.ReaderMode.CHECKPOINT(checkpoint))
        elif checkpoint:
            builder.with_checkpoint_id(checkpoint)
        reader = await builder.build()
        try:
            return await everything(reader)
        finally:
            await reader.shutdown()

    async def begin_scan(self, path, url="file:///", poll_ms=200, lifetime_ms=60_000):
        """A reader that follows the database, and a scan of it; the first key."""
        builder = s.DbReaderBuilder(path, s.ObjectStore.resolve(url))
        builder.with_options(s.ReaderOptions(manifest_poll_interval_ms=poll_ms, checkpoint_lifetime_ms=lifetime_ms,
                                             max_memtable_bytes=1 << 26, skip_wal_replay=False))
        builder.with_db_cache_disabled()
        self.reader = await builder.build()
        self.rows = await self.reader.scan(s.KeyRange(start=None, start_inclusive=True, end=None, end_inclusive=False))
        return (await self.rows.next()).key.decode()

    async def begin_reader(self, path, url="file:///", lifetime_ms=60_000):
        """A reader that is never closed: its checkpoint stays until its lease ends."""
        builder = s.DbReaderBuilder(path, s.ObjectStore.resolve(url))
        builder.with_options(s.ReaderOptions(manifest_poll_interval_ms=lifetime_ms // 3, checkpoint_lifetime_ms=lifetime_ms,
                                             max_memtable_bytes=1 << 26, skip_wal_replay=False))
        self.reader = await builder.build()

    async def end_scan(self):
        """The other keys of the scan."""
        found = []
        while (row := await self.rows.next()) is not None:
            found.append(row.key.decode())
        return found

    async def checkpoints(self, path, name=None, url="file:///"):
        return plain(await self._admin(path, url).list_checkpoints(name))

    async def delete_checkpoint(self, path, id, url="file:///"):
        await self._admin(path, url).delete_checkpoint(id)

    async def manifest(self, path, id=None, url="file:///"):
        return plain(await self._admin(path, url).read_manifest(id))

    async def compactions(self, path, id=None, url="file:///"):
        return plain(await self._admin(path, url).read_compactions(id))

    async def second_of(self, path, seq, url="file:///", round_up=False):
        """The second in which a number was written, by the manifest's sequence tracker."""
        return await self._admin(path, url).get_timestamp_for_sequence(seq, round_up)

    async def submit(self, path, l0, runs, destination, url="file:///"):
        """Submit a compaction of these views of L0 and these runs, which a compactor then picks up."""
        sources = [*(s.SourceId.SST_VIEW(one) for one in l0), *(s.SourceId.SORTED_RUN(one) for one in runs)]
        spec = s.CompactionSpec.TIERED(segment=b"", sources=sources, destination=destination)
        await self._admin(path, url).submit_compaction(spec)

    async def checkpoint(self, path, url="file:///", lifetime_ms=None, name=None, source=None):
        options = s.CheckpointOptions(lifetime_ms=lifetime_ms, source=source, name=name)
        return plain(await self._admin(path, url).create_detached_checkpoint(options))

    async def refresh(self, path, id, url="file:///", lifetime_ms=None):
        await self._admin(path, url).refresh_checkpoint(id, lifetime_ms)

    async def clone(self, path, sources, url="file:///"):
        """`sources`: lists of path, first key or None, key after the last or None, and a checkpoint, or none."""
        specs = [s.CloneSourceSpec(path=source, checkpoint=of[0] if of else None, projection_range=span(first, end))
                 for source, first, end, *of in sources]
        builder = self._admin(path, url).create_clone_builder_from_source(specs[0])
        for spec in specs[1:]:
            builder = builder.with_source(spec) or builder
        await builder.build()

    async def delete_db(self, path, url="file:///"):
        await self._admin(path, url).delete_db(True)

    async def collect(self, path, url="file:///", min_age_ms=0, data_min_age_ms=0, fences=True, boundary=True):
        """One round of collection of everything; `data`: WAL objects, fences, and compacted SSTs."""
        each, data = (s.GarbageCollectorDirectoryOptions(interval_ms=None, min_age_ms=age_ms, dry_run=False)
                      for age_ms in (min_age_ms, data_min_age_ms))
        dry = s.GarbageCollectorDirectoryOptions(interval_ms=None, min_age_ms=data_min_age_ms, dry_run=True)
        fields = {"manifest_options": each, "wal_options": data, "compacted_options": data, "compactions_options": each,
                  "wal_fence_options": data if fences else dry,
                  "detach_options": s.GarbageCollectorScheduleOptions(interval_ms=None),
                  "disable_boundary_files": not boundary}
        known = s.GarbageCollectorOptions.__init__.__code__.co_varnames
        await self._admin(path, url).run_gc_once(
            s.GarbageCollectorOptions(**{name: value for name, value in fields.items() if name in known}))

    def _admin(self, path, url):
        return s.AdminBuilder(path, s.ObjectStore.resolve(url)).build()


def span(first, end):
    if first is None and end is None:
        return None
    return s.KeyRange(start=first and first.encode(), start_inclusive=True, end=end and end.encode(), end_inclusive=False)


class Joined(s.MergeOperator):
    """Joins the operands to what was there."""

    def merge(self, key, existing_value, operand):
        return (existing_value or b"") + operand


async def every_row(db):
    found, rows = [], await db.scan(s.KeyRange(start=None, start_inclusive=True, end=None, end_inclusive=False))
    while (row := await rows.next()) is not None:
        found.append([row.key.decode("latin-1"), row.value.decode("latin-1"), row.seq, row.create_ts, row.expire_ts])
    return found


async def everything(db, start=None, end=None):
    found, rows = {}, await db.scan(s.KeyRange(start=start and start.encode(), start_inclusive=True, end=end and end.encode(),
                                               end_inclusive=False))
    while (row := await rows.next()) is not None:
        found[row.key.decode()] = row.value.decode()
    return found


async def serve():
    peers, loop = defaultdict(Peer), asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        asked = json.loads(line)
        try:
            answer = {"is": await getattr(peers[asked["at"]], asked["do"])(**asked["with"])}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}", "kind": type(error).__name__}
        print(json.dumps(answer), flush=True)


asyncio.run(serve())

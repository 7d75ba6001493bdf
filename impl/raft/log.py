"""Safety: what `write` returned for is there after any crash, and what is there is as it was written, or the folder is refused.

The log of one node on its disk: term, vote and entries, in segments. A batch of saves costs one append and one sync. A crash
may leave a torn last batch: `open_log` cuts it durably before anything else is written. What a process that was killed had not
synced may still be read, so it is written again then, and synced. Entries that contradict the leader's are voided by a record.
"""

from collections.abc import Sequence
from typing import NamedTuple

from highwater.impl.node_world import Disk
from highwater.impl.raft import segments
from highwater.impl.raft.entries import Entry, Log, last_index, last_term
from highwater.impl.raft.faults import Damaged
from highwater.impl.raft.records import ENTRY, HARD, HEAD, TRUNCATE, Record, batch_of
from highwater.impl.raft.segments import Segment, name_of, number_of
from highwater.impl.raft.state import Save

SEGMENT_BYTES = 16 << 20
REWRITTEN = "rewritten"  # the newest segment, while it is written again


class Recovered(NamedTuple):
    """What the disk holds of a node."""

    term: int
    vote: str
    log: Log


class DiskLog:
    """The open log. One task at a time uses it. After an error of the disk its state is unknown: the node must stop."""

    def __init__(self, disk: Disk, node: str, segment_bytes: int = SEGMENT_BYTES):
        self.disk, self.node, self.segment_bytes = disk, node, segment_bytes
        self.segments: list[tuple[int, int]] = []  # (number, index of the entry before it), ascending
        self.size_bytes = 0  # of the newest
        self.batch = 0  # the latest
        self.term, self.vote, self.last = 0, "", (0, 0)  # as written; `last`: index, term

    async def write(self, saves: Sequence[Save]) -> None:
        """Make saves durable, in their order. Raises DiskFull, DiskFailed."""
        records: list[Record] = []
        for save in saves:
            if save.base is not None:
                await self._write(records)
                records = []
                self.term, self.vote, self.last = save.term, save.vote, save.base
                await self._new_segment(anew=True)
            records += self._records(save)
        await self._write(records)

    def _records(self, save: Save) -> list[Record]:
        if not save.entries and save.first_index <= self.last[0]:
            raise ValueError("a save cuts the log and puts nothing in its place")
        records: list[Record] = []
        if (save.term, save.vote) != (self.term, self.vote):
            self.term, self.vote = save.term, save.vote
            records.append(self._hard_state())
        if save.first_index <= self.last[0]:
            records.append(Record(TRUNCATE, save.first_index - 1, 0, 0, b""))
        for index, entry in enumerate(save.entries, save.first_index):
            records.append(Record(ENTRY, index, entry.term, 0, bytes([entry.kind]) + entry.body))
            self.last = index, entry.term
        return records

    def _hard_state(self) -> Record:
        return Record(HARD, 0, self.term, 0, self.vote.encode())

    async def _write(self, records: list[Record]) -> None:
        """Make records durable as one batch, in a new segment if the newest is full."""
        if not records:
            return
        self.batch += 1
        data = batch_of([record._replace(batch=self.batch) for record in records])
        name = name_of(self.segments[-1][0])
        await self.disk.append(name, data)
        await self.disk.sync(name)
        self.size_bytes += len(data)
        if self.size_bytes >= self.segment_bytes:
            await self._new_segment()

    async def _new_segment(self, anew: bool = False) -> None:
        """Begin a segment. It repeats term and vote, so that the older ones can go once a snapshot covers them."""
        number = self.segments[-1][0] + 1 if self.segments else 1
        self.batch += 1
        index, term = self.last
        data = batch_of([segments.head(number, self.node, index, term, self.batch, anew),
                         self._hard_state()._replace(batch=self.batch)])
        name = name_of(number)
        await self.disk.create(name)
        await self.disk.append(name, data)
        await self.disk.sync(name)
        await self.disk.sync_names()
        self.segments.append((number, index))
        self.size_bytes = len(data)

    async def compact(self, index: int) -> None:
        """Remove the segments that only hold entries up to `index`, which a durable and verified snapshot covers."""
        while len(self.segments) > 1 and self.segments[1][1] <= index:
            await self.disk.remove(name_of(self.segments[0][0]))
            await self.disk.sync_names()
            del self.segments[0]


async def open_log(disk: Disk, node: str, snapshot: tuple[int, int], segment_bytes: int = SEGMENT_BYTES
                   ) -> tuple[DiskLog, Recovered]:
    """Read and check the log of `node`, cut a torn end, and go on behind it. `snapshot`: (index, last term) of its snapshot.

    A log that does not reach the snapshot's last entry, or has another one there, begins anew after it. Raises Damaged,
    OtherNode, OtherVersion, DiskFull, DiskFailed. If the folder is refused, nothing in it was changed.
    """
    parsed, torn_head = await read_segments(disk, node)
    if not parsed and snapshot != (0, 0):
        raise Damaged(torn_head or name_of(1), 0, "there is a snapshot, but no segment of the log that can be read")
    found = after_gap(parsed)
    opened = DiskLog(disk, node, segment_bytes)
    recovered = replayed(found)
    check_reaches(found, recovered.log, snapshot)
    for name in [*(segment.name for segment in parsed if segment not in found), *([torn_head] if torn_head else [])]:
        await disk.remove(name)
        await disk.sync_names()
    if found:
        await rewrite(disk, found[-1])
    opened.term, opened.vote = recovered.term, recovered.vote
    opened.last = last_index(recovered.log), last_term(recovered.log)
    opened.segments = [(segment.number, segment.records[0].index) for segment in found]
    if found:
        latest = found[-1].records[-1]
        opened.size_bytes, opened.batch = found[-1].size_bytes, latest.batch - (not latest.is_last)
    if goes_on(recovered.log, snapshot):
        if not found:
            await opened._new_segment()
        return opened, recovered
    opened.last = snapshot
    if snapshot[1] > recovered.term:  # the snapshot was durable before the term was, so nobody heard of this node in that term
        opened.term, opened.vote = snapshot[1], ""
    await opened._new_segment(anew=True)
    return opened, Recovered(opened.term, opened.vote, Log(*snapshot))


async def rewrite(disk: Disk, newest: Segment) -> None:
    """Write the newest segment again, without what is torn, and put it durably in its own place.

    To sync it as it is would not do. If a sync of an earlier process failed, the system may still show pages that are not on the
    disk, and take them for written: the next sync then succeeds, and a later crash of the machine loses them.
    """
    whole = (await disk.read(newest.name))[:newest.size_bytes]
    await disk.create(REWRITTEN)
    await disk.append(REWRITTEN, whole)
    await disk.sync(REWRITTEN)
    await disk.rename(REWRITTEN, newest.name)
    await disk.sync_names()


async def read_segments(disk: Disk, node: str) -> tuple[list[Segment], str]:
    """Return all segments, and the name of the newest if it is torn from its first byte on; "" otherwise."""
    names = [name for name in await disk.names() if number_of(name) is not None]
    found: list[Segment] = []
    for name in names:
        segment = segments.parsed(name, await disk.read(name), node, newest=name == names[-1])
        if segment is None:
            return found, name
        found.append(segment)
    return found, ""


def after_gap(found: list[Segment]) -> list[Segment]:
    """Return the segments that follow each other without a gap up to the newest. What stands before a gap was removed already,
    or is missed by `check_reaches`."""
    start = max((place for place in range(1, len(found)) if found[place].number != found[place - 1].number + 1), default=0)
    return found[start:]


def check_reaches(found: list[Segment], log: Log, snapshot: tuple[int, int]) -> None:
    """Raises Damaged if entries between the snapshot and the log are missing."""
    if log.base_index > snapshot[0]:
        raise Damaged(found[0].name, 0, f"the log begins after entry {log.base_index:,}, and the snapshot ends with entry "
                                        f"{snapshot[0]:,}: a file is missing")


def goes_on(log: Log, snapshot: tuple[int, int]) -> bool:
    """Tell whether the log has the last entry of the snapshot, or begins right after it."""
    place = snapshot[0] - log.base_index - 1
    if place < 0:
        return place == -1 and log.base_term == snapshot[1]
    return place < len(log.entries) and log.entries[place].term == snapshot[1]


def replayed(found: list[Segment]) -> Recovered:
    """Return what the records say together. Raises Damaged where they contradict each other."""
    term, vote, base, entries, batch = 0, "", (0, 0), list[Entry](), 0
    for segment in found:
        start = 0
        for record in segment.records:
            last = base[0] + len(entries)
            if record.type == HEAD:
                before = last, entries[-1].term if entries else base[1]
                if segment is found[0] or segment.anew:
                    base, entries = (record.index, record.term), []
                elif before != (record.index, record.term) or record.batch != batch + 1:
                    raise Damaged(segment.name, start, f"it goes on after entry {record.index:,} of term {record.term:,} with "
                                                       f"batch {record.batch:,}, and the log before it ends with entry "
                                                       f"{before[0]:,} of term {before[1]:,} in batch {batch:,}")
            elif record.type == HARD:
                if record.term < term:
                    raise Damaged(segment.name, start, f"the term falls from {term:,} to {record.term:,}")
                term, vote = record.term, record.body.decode()
            elif record.type == TRUNCATE:
                if not base[0] <= record.index < last:
                    raise Damaged(segment.name, start, f"the log is cut after entry {record.index:,}, and has "
                                                       f"{base[0] + 1:,} to {last:,}")
                del entries[record.index - base[0]:]
            else:
                if record.index != last + 1:
                    raise Damaged(segment.name, start, f"entry {record.index:,} follows entry {last:,}")
                entries.append(Entry(record.term, record.body[0], record.body[1:]))
            start, batch = record.end, record.batch
    return Recovered(term, vote, Log(*base, tuple(entries)))

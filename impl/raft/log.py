"""Safety: what `write` returned for is there after any crash, and what is there is as it was written, or the folder is refused.

The log of one node on its disk: term, vote and entries, in segments. A batch of saves costs one append and one sync. A crash
may leave a torn last batch: `open_log` cuts it durably before anything else is written. What a process that was killed had not
synced may still be read, so it is written again then, and synced. Entries that contradict the leader's are voided by a record.
"""

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

from highwater.impl.level import ANY_MACHINE, Level
from highwater.impl.node_world import Disk
from highwater.impl.raft import levels, segments
from highwater.impl.raft.entries import Entry, Log, is_intact, last_index, last_term, with_checksum
from highwater.impl.raft.faults import Altered, Damaged, TermSpoilt
from highwater.impl.raft.identity import FILE as IDENTITY
from highwater.impl.raft.records import ENTRY, HARD, SUMMED, TRUNCATE, Record, batch_of
from highwater.impl.raft.segments import Segment, name_of, number_of
from highwater.impl.raft.state import Save

SEGMENT_BYTES = 16 << 20
KIND_AND_CHECKSUM = Struct(">BI")
MOST_TERM = (1 << 62) - 1  # a message has a term below 2^62, and a candidate takes one that is higher by one
UNKNOWN = -1  # the term of an entry that is there no more
REWRITTEN = "rewritten"  # the newest segment, while it is written again


class Recovered(NamedTuple):
    """The content of a log: the latest term and vote, and the entries."""

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
        self.checksums = False  # entries are written with theirs: the group has come to the level of forms that allows it

    async def write(self, saves: Sequence[Save]) -> None:
        """Make saves durable, in their order. Raises DiskFull, DiskFailed, and Altered before anything of the batch is written.
        """
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
            if not is_intact(entry):
                raise Altered(f"entry {index:,} of term {entry.term:,} does not have the checksum that its leader gave it: the "
                              "memory of this machine is at fault, or a program; nothing of the entry was written")
            records.append(Record(SUMMED if self.checksums else ENTRY, index, entry.term, 0, body_of(entry, self.checksums)))
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

    async def replace(self, term: int, vote: str, log: Log) -> None:
        """Let the log be this one, also with an earlier term than it has. It is so as a whole, or not at all. Raises DiskFull,
        DiskFailed."""
        number = self.segments[-1][0] + 1
        self.term, self.vote, self.last, self.batch = term, vote, (log.base_index, log.base_term), self.batch + 1
        records = [segments.head(number, self.node, log.base_index, log.base_term, self.batch, anew=True), self._hard_state(),
                   *self._records(Save(0, term, vote, log.base_index + 1, log.entries))]
        await put(self.disk, name_of(number), batch_of([record._replace(batch=self.batch) for record in records]))
        self.segments.append((number, log.base_index))

    async def compact(self, index: int) -> None:
        """Remove the segments that only hold entries up to `index`, which a durable and verified snapshot covers."""
        while len(self.segments) > 1 and self.segments[1][1] <= index:
            await self.disk.remove(name_of(self.segments[0][0]))
            await self.disk.sync_names()
            del self.segments[0]


async def open_log(disk: Disk, node: str, snapshot: tuple[int, int], segment_bytes: int = SEGMENT_BYTES,
                   known: Level = ANY_MACHINE, may_be_spoilt: bool = False) -> tuple[DiskLog, Recovered]:
    """Read and check the log of `node`, cut a torn end, and go on behind it. `snapshot`: (index, last term) of its snapshot.
    `known`: the highest level that the node knows. `may_be_spoilt`: take also a log whose term no group comes to.

    A log that does not reach the snapshot's last entry, or has another one there, begins anew after it. Raises Damaged,
    OtherNode, OtherVersion, TermSpoilt, DiskFull, DiskFailed. If the folder is refused, nothing in it was changed.
    """
    there = await disk.names()
    names = segments_in(there)
    replay = Replay()
    newest, torn_head = None, ""
    for name in names:
        segment = segments.parsed(name, await disk.read(name), node, newest=name == names[-1])
        if segment is None:
            torn_head = name
        else:
            replay.add(segment)
            newest = segment._replace(records=segment.records[-1:])
    if newest is None and snapshot != (0, 0):
        raise Damaged(torn_head or name_of(1), 0, "there is a snapshot, but no segment of the log that can be read")
    if newest is None and IDENTITY in there:  # it was written after the first segment was durable
        raise Damaged(torn_head or name_of(1), 0, "a node worked in this folder, and no segment of its log can be read")
    opened, recovered = DiskLog(disk, node, segment_bytes), replay.recovered()
    check_reaches(names, recovered.log, snapshot)
    levels.check(recovered.log.base_index + 1, recovered.log.entries, known)
    if recovered.term >= MOST_TERM and not may_be_spoilt:
        raise TermSpoilt(recovered.term)
    if torn_head:
        await disk.remove(torn_head)
        await disk.sync_names()
    if newest is not None:
        await rewrite(disk, newest)
        latest = newest.records[-1]
        opened.size_bytes, opened.batch = newest.size_bytes, latest.batch - (not latest.is_last)
    opened.term, opened.vote = recovered.term, recovered.vote
    opened.last = last_index(recovered.log), last_term(recovered.log)
    opened.segments = replay.segments
    if goes_on(recovered.log, snapshot):
        if newest is None:
            await opened._new_segment()
        return opened, recovered
    opened.last = snapshot
    if snapshot[1] > recovered.term:  # the snapshot was durable before the term was, so nobody heard of this node in that term
        opened.term, opened.vote = snapshot[1], ""
    await opened._new_segment(anew=True)
    return opened, Recovered(opened.term, opened.vote, Log(*snapshot))


async def rewrite(disk: Disk, newest: Segment) -> None:
    """Write the newest segment again, without what is torn, and put it durably in its own place.

    To sync it as it is would not do. If a sync of an earlier process failed, the system may still show pages that are not on
    the disk, and take them for written: the next sync then succeeds, and a later crash of the machine loses them.
    """
    await put(disk, newest.name, (await disk.read(newest.name))[:newest.size_bytes])


async def put(disk: Disk, name: str, segment: bytes) -> None:
    """Write a segment as a whole, in the place of any that has its name."""
    await disk.create(REWRITTEN)
    await disk.append(REWRITTEN, segment)
    await disk.sync(REWRITTEN)
    await disk.rename(REWRITTEN, name)
    await disk.sync_names()


def segments_in(there: list[str]) -> list[str]:
    """Return the names of all segments, in order. Raises Damaged if one is missing: the oldest are removed one by one."""
    names = [name for name in there if number_of(name) is not None]
    if names:
        first = number_of(names[0])
        assert first is not None
        for number, name in enumerate(names, first):
            if name != name_of(number):
                raise Damaged(name_of(number), 0, f"the file is missing, and {name} is there")
    return names


def check_reaches(names: list[str], log: Log, snapshot: tuple[int, int]) -> None:
    """Raises Damaged if entries between the snapshot and the log are missing."""
    if log.base_index > snapshot[0]:
        raise Damaged(names[0], 0, f"the log begins after entry {log.base_index:,}, and the snapshot ends with entry "
                                        f"{snapshot[0]:,}: a file is missing")


def goes_on(log: Log, snapshot: tuple[int, int]) -> bool:
    """Tell whether the log has the last entry of the snapshot, or begins right after it."""
    place = snapshot[0] - log.base_index - 1
    if place < 0:
        return place == -1 and log.base_term == snapshot[1]
    return place < len(log.entries) and log.entries[place].term == snapshot[1]


def body_of(entry: Entry, checksums: bool) -> bytes:
    """Return the body of an entry's record."""
    if not checksums:
        return bytes([entry.kind]) + entry.body
    _, kind, body, checksum = with_checksum(entry)
    return KIND_AND_CHECKSUM.pack(kind, checksum) + body


def entry_of(record: Record) -> Entry | None:
    """Return the entry of a record; None if it does not have its checksum."""
    if record.type == ENTRY:
        return Entry(record.term, record.body[0], record.body[1:])
    kind, checksum = KIND_AND_CHECKSUM.unpack_from(record.body)
    entry = Entry(record.term, kind, record.body[KIND_AND_CHECKSUM.size:], checksum)
    return entry if is_intact(entry) else None


class Replay:
    """The content of a log, while its segments are read one after the other."""

    def __init__(self):
        self.term, self.vote, self.batch = 0, "", 0
        self.base, self.entries = (0, 0), list[Entry]()
        self.is_compacted = False  # segments may have been removed before the one with which the log begins
        self.segments: list[tuple[int, int]] = []  # (number, index of the entry before it)

    def add(self, segment: Segment) -> None:
        """Apply the next segment. Raises Damaged where it contradicts itself, or what is before it."""
        entries, start, index = self.entries, 0, self.base[0] + len(self.entries)  # `index`: of the last entry
        for record in segment.records:
            if record.type in (ENTRY, SUMMED):
                index += 1
                entry = entry_of(record)
                if entry is None:
                    raise Damaged(segment.name, start, f"entry {record.index:,} is not as its leader made it, by its checksum")
                if record.index != index:
                    raise Damaged(segment.name, start, f"entry {record.index:,} follows entry {index - 1:,}")
                if self.base[1] == UNKNOWN:
                    self.base = record.index, record.term
                else:
                    entries.append(entry)
            elif record.type == TRUNCATE:
                if record.index < self.base[0] and self.is_compacted:
                    # Segments were removed before the oldest. A snapshot covers what they had, and the next entry, too.
                    self.base, index = (record.index, UNKNOWN), record.index
                    entries.clear()
                    start = record.end
                    continue
                if not self.base[0] <= record.index < index:
                    raise Damaged(segment.name, start, f"the log is cut after entry {record.index:,}, and has "
                                                       f"{self.base[0] + 1:,} to {index:,}")
                del entries[record.index - self.base[0]:]
                index = record.index
            elif record.type == HARD:
                if record.term < self.term:
                    raise Damaged(segment.name, start, f"the term falls from {self.term:,} to {record.term:,}")
                self.term, self.vote = record.term, record.body.decode()
            else:
                self._begin(segment, record)
                entries, index = self.entries, record.index
            start = record.end
        self.batch = segment.records[-1].batch

    def _begin(self, segment: Segment, head: Record) -> None:
        """Go on with a segment, which follows the ones before it, or lets the log begin anew."""
        last = self.base[0] + len(self.entries), self.entries[-1].term if self.entries else self.base[1]
        if segment.anew:
            self.term = 0  # a recovered folder may have an earlier one
        if not self.segments or segment.anew:
            self.base, self.entries, self.is_compacted = (head.index, head.term), [], not segment.anew
        elif last != (head.index, head.term) or head.batch != self.batch + 1:
            raise Damaged(segment.name, 0, f"it goes on after entry {head.index:,} of term {head.term:,} with batch "
                                           f"{head.batch:,}, and the log before it ends with entry {last[0]:,} of term "
                                           f"{last[1]:,} in batch {self.batch:,}")
        self.segments.append((segment.number, head.index))

    def recovered(self) -> Recovered:
        return Recovered(self.term, self.vote, Log(*self.base, tuple(self.entries)))

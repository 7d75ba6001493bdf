"""Scripts of the bytes of impl/raft: messages, records, and snapshots, whole and in chunks."""

from highwater.dst.script import Alone, Script, check, same
from highwater.dst.scripts.replicated.disks import ScriptDisk, run
from highwater.impl.codecs import crc32c
from highwater.impl.node_world import DiskFailed, DiskFull
from highwater.impl.raft import records, segments, snapshots, wire
from highwater.impl.raft.entries import Entry, Log, agreeing, entries_from, term_at
from highwater.impl.raft.fetch import Chunk, FetchChunk, Fetched, chunk_of
from highwater.impl.raft.messages import Append, ClockedReply, Heartbeat, ReadIndexReply
from highwater.impl.raft.snapshots import Snapshot

SNAPSHOT = Snapshot(7, 3, ("a", "b", "c"), b"the machine's content")


async def the_forms_are_pinned(alone: Alone) -> None:
    same(wire.encoded(Heartbeat(1, 2, 3)).hex(), "0108" + "".join(f"{number:016x}" for number in (1, 2, 3)))
    same(wire.encoded(ReadIndexReply(1, "é", -1)).hex(), "010c" + f"{1:016x}" + "00000002c3a9" + "f" * 16)
    same(
        wire.encoded(Append(5, 1, 4, (Entry(5, 1, b"x"),), 0)).hex(),
        "0105" + f"{5:016x}{1:016x}{4:016x}" + "00000001" + f"{5:016x}" + "01" + "00000001" + "78" + f"{0:016x}",
    )
    same(wire.encoded(ClockedReply(1, 2, 3)).hex(), "0110" + "".join(f"{number:016x}" for number in (1, 2, 3)))
    same(len(set(wire.KINDS.values())), 16)


async def the_form_of_a_record_is_pinned(alone: Alone) -> None:
    data = records.encoded(records.Record(records.ENTRY, 2, 3, 4, b"x", True))
    content = bytes.fromhex("84" + f"{2:016x}{3:016x}{4:016x}" + "78")
    same(data, len(content).to_bytes(4, "big") + crc32c.by_table(content).to_bytes(4, "big") + content)


async def records_behind_a_gap_are_found(alone: Alone) -> None:
    record = records.Record(records.ENTRY, 2, 3, 4, b"x", True)
    data = bytes(50) + records.encoded(record) + b"???" + records.encoded(record)
    same([found._replace(end=0) for found in records.records_behind(data, 0)], [record, record])


async def other_names_are_of_no_segment_and_no_snapshot(alone: Alone) -> None:
    for digits in ("\u00b2" * 16, "\u0663" * 16, "0" * 15, "0" * 17, "000000000000000x"):
        same(segments.number_of(f"log-{digits}"), None)
    same(segments.number_of(segments.name_of(12)), 12)
    name = snapshots.name_of(7, 3)
    same([of for of in (name, f"{name}.bak", "snapshot-notes", "snapshot.tmp") if snapshots.is_snapshot(of)], [name])


async def few_checksums_tell_what_is_behind_a_gap(alone: Alone) -> None:
    """Tear a write whose numbers look like lengths of records. With a checksum for each, a large one takes hours."""
    head = records.batch_of([segments.head(1, "a", 0, 0, 1, False)])
    numbers = b"".join(of.to_bytes(4, "big") for of in range(1 << 14))
    torn = records.encoded(records.Record(records.ENTRY, 1, 1, 2, numbers, True))
    summed: list[int] = []
    whole = records.crc32c

    def counted(data: bytes) -> int:
        summed.append(len(data))
        return whole(data)

    records.crc32c = counted
    try:
        found = segments.parsed(segments.name_of(1), head + bytes(8) + torn[8:], "a", newest=True)
    finally:
        records.crc32c = whole
    same(found and found.torn_bytes, len(torn))
    check(sum(summed) < 100 * len(torn), f"{sum(summed):,} bytes are summed to judge {len(torn):,}")


async def a_snapshot_comes_back(alone: Alone) -> None:
    same(snapshots.decoded("x", snapshots.encoded(SNAPSHOT)), SNAPSHOT)


async def a_snapshot_is_written_aside_and_renamed(alone: Alone) -> None:
    disk = ScriptDisk()
    run(snapshots.store(disk, SNAPSHOT))
    name = snapshots.name_of(7, 3)
    same([call for call, _ in disk.calls], ["create", "append", "sync", "rename", "sync_names", "read"])
    same(run(snapshots.load(disk)), (SNAPSHOT, []))
    same(list(disk.files), [name])


async def a_snapshot_that_cannot_be_written_is_none(alone: Alone) -> None:
    calls = ["create", "append", "sync", "rename", "sync_names", "read"]
    newer = SNAPSHOT._replace(index=9)
    for at, call in enumerate(calls):
        for error in (DiskFailed("failed"), DiskFull("full")):
            disk = ScriptDisk()
            run(snapshots.store(disk, SNAPSHOT))
            disk.fail, disk.calls = {call: error}, []
            await alone.raises(type(error), snapshots.store(disk, newer))
            same([of for of, _ in disk.calls], calls[:at + 1])  # nothing after it
            same(snapshots.name_of(9, 3) in disk.files, at > calls.index("rename"))


async def older_snapshots_go_and_bad_newer_ones_are_told(alone: Alone) -> None:
    disk = ScriptDisk()
    newer = SNAPSHOT._replace(index=9)
    run(snapshots.store(disk, SNAPSHOT))
    run(snapshots.store(disk, newer))
    run(snapshots.remove_older(disk, newer))
    same(list(disk.files), [snapshots.name_of(9, 3)])
    disk.files[snapshots.name_of(11, 3)] = disk.files[snapshots.name_of(9, 3)]
    found, bad = run(snapshots.load(disk))
    same(found, newer)
    same([name for name, _ in bad], [snapshots.name_of(11, 3)])
    check("renamed" in str(bad[0][1]), "older snapshots go and bad newer ones are told")


async def a_snapshot_comes_in_chunks(alone: Alone) -> None:
    data = snapshots.encoded(SNAPSHOT)
    fetched = Fetched("b", 7, 3)
    while not fetched.is_whole():
        chunk = chunk_of(fetched.wants(), SNAPSHOT, data, 10)
        check(not fetched.take("c", chunk), "a snapshot comes in chunks")
        check(fetched.take("b", chunk), "a snapshot comes in chunks")
        check(not fetched.take("b", chunk), "a snapshot comes in chunks")
    same(fetched.snapshot(), SNAPSHOT)


async def a_snapshot_that_is_gone_is_told(alone: Alone) -> None:
    data = snapshots.encoded(SNAPSHOT)
    for asked in (FetchChunk(8, 3, 0), FetchChunk(7, 2, 0), FetchChunk(7, 3, len(data)), FetchChunk(7, 3, -1)):
        same(chunk_of(asked, SNAPSHOT, data, 10), Chunk(*asked, 0, b""))
    fetched = Fetched("b", 7, 3)
    check(fetched.take("b", Chunk(7, 3, 0, 0, b"")), "a snapshot that is gone is told")
    check(fetched.is_gone(), "a snapshot that is gone is told")
    check(not fetched.is_whole(), "a snapshot that is gone is told")


async def another_snapshot_than_the_offered_one_is_not_taken(alone: Alone) -> None:
    for other in (SNAPSHOT._replace(index=8), SNAPSHOT._replace(term=4)):
        data = snapshots.encoded(other)
        fetched = Fetched("b", 7, 3)
        fetched.take("b", Chunk(7, 3, 0, len(data), data))
        check(fetched.is_whole(), "another snapshot than the offered one is not taken")
        check(fetched.snapshot() is None, "another snapshot than the offered one is not taken")
    fetched = Fetched("b", 7, 3)
    fetched.take("b", Chunk(7, 3, 0, 5, b"other"))
    check(fetched.snapshot() is None, "another snapshot than the offered one is not taken")


async def parts_of_a_log(alone: Alone) -> None:
    log = Log(4, 1, tuple(Entry(term, 1, b"xx") for term in (1, 2, 2, 5)))
    same([term_at(log, index) for index in range(3, 10)], [None, 1, 1, 2, 2, 5, None])
    same([len(entries_from(log, 5, size)) for size in (0, 1, 2, 3, 4, 100)], [1, 1, 1, 1, 2, 4])
    same(agreeing(log, 9, 4), (7, 2))
    same(agreeing(log, 6, 9), (6, 2))
    same(agreeing(log, 9, 0), (4, 1))


SCRIPTS: tuple[Script, ...] = (
    the_forms_are_pinned,
    the_form_of_a_record_is_pinned,
    records_behind_a_gap_are_found,
    few_checksums_tell_what_is_behind_a_gap,
    other_names_are_of_no_segment_and_no_snapshot,
    a_snapshot_comes_back,
    a_snapshot_is_written_aside_and_renamed,
    a_snapshot_that_cannot_be_written_is_none,
    older_snapshots_go_and_bad_newer_ones_are_told,
    a_snapshot_comes_in_chunks,
    a_snapshot_that_is_gone_is_told,
    another_snapshot_than_the_offered_one_is_not_taken,
    parts_of_a_log,
)

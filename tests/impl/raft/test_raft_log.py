"""The log on a disk: what was durable is there after any crash, torn ends are cut, and damage is refused in one line."""

from random import Random

import pytest

from highwater.impl.node_world import DiskFull
from highwater.impl.raft import log as disk_log
from highwater.impl.raft import records, segments
from highwater.impl.raft.entries import COMMAND, Entry, Log, last_index, last_term, spliced
from highwater.impl.raft.faults import Damaged, OtherNode, OtherVersion
from highwater.impl.raft.log import REWRITTEN, open_log
from highwater.impl.raft.records import ENTRY, Record
from highwater.impl.raft.segments import name_of
from highwater.impl.raft.state import Save
from tests.impl.raft.crashing import PAGE, CrashingDisk

FIRST = name_of(1)


def run(work):
    """Run a coroutine that never waits for anything."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits")


def entries(term: int, *bodies: bytes) -> tuple[Entry, ...]:
    return tuple(Entry(term, COMMAND, body) for body in bodies)


def written(*batches: list[Save], size: int = 1 << 20) -> CrashingDisk:
    disk = CrashingDisk()

    async def work():
        log, _ = await open_log(disk, "n1", (0, 0), size)
        for saves in batches:
            await log.write(saves)

    run(work())
    return disk


def opened(disk: CrashingDisk, snapshot: tuple[int, int] = (0, 0), size: int = 1 << 20) -> disk_log.Recovered:
    return run(open_log(disk, "n1", snapshot, size))[1]


def batch(number: int, first: int, *bodies: bytes, term: int = 1, vote: str = "") -> Save:
    return Save(number, term, vote, first, entries(term, *bodies))


THREE = [[batch(1, 1, b"one", b"two")], [batch(2, 3, b"three")], [batch(3, 4, b"four", b"five", b"six")]]


def ends(data: bytes) -> list[int]:
    """Return where each record of a segment ends."""
    found, position = [], 0
    while (record := records.record_at(data, position)) is not None:
        position = record.end
        found.append(position)
    return found


# --- what was written is read


def test_an_empty_folder_is_a_new_node():
    disk = CrashingDisk()
    assert opened(disk) == disk_log.Recovered(0, "", Log())
    assert opened(disk) == disk_log.Recovered(0, "", Log())


def test_saves_are_read_again():
    disk = written([batch(1, 1, b"one", b"two", term=2, vote="n3")], [Save(2, 3, "n1", 3, ())])
    assert opened(disk) == disk_log.Recovered(3, "n1", Log(0, 0, entries(2, b"one", b"two")))


def test_a_conflict_is_cut_by_a_record():
    disk = written(THREE[0], THREE[1], [batch(4, 2, b"deux", term=2)])
    assert opened(disk).log == Log(0, 0, entries(1, b"one") + entries(2, b"deux"))
    assert ("truncate", FIRST) not in disk.calls


def test_a_batch_costs_one_append_and_one_sync():
    disk = CrashingDisk()

    async def work():
        log, _ = await open_log(disk, "n1", (0, 0))
        disk.calls.clear()
        await log.write([batch(1, 1, b"one", vote="n1"), batch(2, 2, b"two", vote="n1")])

    run(work())
    assert disk.calls == [("append", FIRST), ("sync", FIRST)]


def test_full_segments_are_followed_by_others_and_go_after_a_snapshot():
    disk = written(*THREE, size=200)
    assert len(disk.files) > 2
    assert last_index(opened(disk, size=200).log) == 6

    async def cut(index):
        log, _ = await open_log(disk, "n1", (0, 0), 200)
        await log.compact(index)

    run(cut(3))
    found = opened(disk, (4, 1), 200)
    assert FIRST not in disk.files and 0 < found.log.base_index <= 3 and last_index(found.log) == 6 and found.term == 1


def test_a_cut_that_reached_behind_its_segment_is_read_without_the_segments_before():
    """The newest segment begins after entry 6, and cuts the log after entry 1. Then a snapshot lets the older ones go."""
    disk = CrashingDisk()
    after = [b"deux", b"trois", b"quatre", b"cinq", b"six", b"sept"]

    async def work():
        log, _ = await open_log(disk, "n1", (0, 0), 200)
        for saves in (*THREE, [batch(4, 2, *after, term=2)]):
            await log.write(saves)
        cut = next(number for number, index in reversed(log.segments) if index < 7)
        await log.compact(6)
        return cut, log.segments

    cut, left = run(work())
    assert left[0][0] == cut and left[0][1] > 1
    assert opened(disk, (6, 2), 200).log == Log(2, 2, entries(2, *after[1:]))


def test_a_cut_in_a_later_segment_may_reach_behind_the_first_that_is_left():
    """Let a later segment cut the log after entry 1. The first segment that is left begins after entry 3."""
    disk = CrashingDisk()
    after = [b"deux", b"trois", b"quatre", b"cinq", b"six", b"sept"]

    async def work():
        log, _ = await open_log(disk, "n1", (0, 0), 200)
        for saves in (*THREE, [batch(4, 2, *after, term=2)]):
            await log.write(saves)
        await log.compact(3)
        return log.segments

    left = run(work())
    assert [index for _, index in left[:2]] == [3, 6]
    assert opened(disk, (4, 2), 200).log == Log(2, 2, entries(2, *after[1:]))


def test_a_new_segment_is_durable_before_it_is_used():
    disk = CrashingDisk()
    opened(disk)
    second = disk.calls[-4:]
    assert second == [("create", FIRST), ("append", FIRST), ("sync", FIRST), ("sync_names", "")]


def test_an_installed_snapshot_lets_the_log_begin_anew():
    disk = written(*THREE, [Save(4, 2, "", 11, (), (10, 2))], [batch(5, 11, b"eleven", term=2)])
    assert opened(disk, (10, 2)).log == Log(10, 2, entries(2, b"eleven"))


def test_a_snapshot_that_is_ahead_of_the_log_takes_its_place():
    disk = written(*THREE)
    assert opened(disk, (9, 3)) == disk_log.Recovered(3, "", Log(9, 3))  # and nobody heard of this node in term 3
    assert opened(disk, (9, 3)) == disk_log.Recovered(3, "", Log(9, 3))


def test_a_snapshot_with_another_last_entry_takes_the_logs_place():
    assert opened(written(*THREE), (5, 2)).log == Log(5, 2)


def test_a_log_that_has_the_snapshots_last_entry_stays():
    assert last_index(opened(written(*THREE), (5, 1)).log) == 6


# --- torn ends


def test_a_torn_end_is_cut_durably_before_anything_is_written():
    disk = written(*THREE)
    cut = ends(disk.files[FIRST].now)[-2]
    disk.files[FIRST].now = disk.files[FIRST].now[:-2]
    disk.calls.clear()
    assert last_index(opened(disk).log) == 5
    assert disk.calls[-3:] == [("sync", REWRITTEN), ("rename", FIRST), ("sync_names", "")]
    assert disk.files[FIRST].durable == disk.files[FIRST].now and len(disk.files[FIRST].now) == cut


def test_what_a_killed_process_had_not_synced_is_synced_before_it_counts():
    disk = written(*THREE)
    disk.files[FIRST].durable = b""
    opened(disk)
    assert disk.files[FIRST].durable == disk.files[FIRST].now


def test_a_hole_in_the_last_batch_is_a_torn_write():
    disk = written(*THREE)
    data = bytearray(disk.files[FIRST].now)
    places = ends(bytes(data))
    data[places[-3] - 1] ^= 1  # the end of "four"; "five" and "six" of the same batch stand behind it
    disk.files[FIRST].now = bytes(data)
    assert last_index(opened(disk).log) == 3


def test_the_log_goes_on_after_a_cut_in_the_middle_of_a_batch():
    disk = written(*THREE)
    disk.files[FIRST].now = disk.files[FIRST].now[:-2]

    async def go_on():
        log, _ = await open_log(disk, "n1", (0, 0))
        await log.write([batch(9, 6, b"SIX", term=2)])
        await log.write([batch(10, 7, b"seven", term=2)])

    run(go_on())
    assert opened(disk).log.entries[-2:] == entries(2, b"SIX", b"seven")


def test_a_new_segment_that_is_torn_from_its_first_byte_is_removed():
    disk = written(*THREE)
    for torn in (b"", bytes(90)):
        run(disk.create(name_of(2)))
        run(disk.append(name_of(2), torn))
        assert last_index(opened(disk).log) == 6 and list(disk.files) == [FIRST]


# --- damage


def refused(disk: CrashingDisk, kind: type, snapshot: tuple[int, int] = (0, 0)) -> str:
    """Return the one line with which the folder is refused; nothing in it changes."""
    before = {name: file.now for name, file in disk.files.items()}
    with pytest.raises(kind) as caught:
        opened(disk, snapshot)
    assert {name: file.now for name, file in disk.files.items()} == before
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("place", range(6))
def test_a_damaged_record_before_the_last_batch_is_refused(place):
    disk = written(*THREE)
    data = bytearray(disk.files[FIRST].now)
    data[ends(bytes(data))[place] - 1] ^= 1
    disk.files[FIRST].now = bytes(data)
    start = [0, *ends(disk.files[FIRST].now)][-1]
    line = refused(disk, Damaged)
    assert line.startswith(f"{FIRST}: byte {start}: ") and "restore the file" in line


def test_damage_in_an_earlier_segment_is_refused():
    disk = written(*THREE, size=200)
    disk.files[FIRST].now = disk.files[FIRST].now[:-1]
    assert refused(disk, Damaged).startswith(f"{FIRST}: byte ")


def test_a_missing_segment_is_refused():
    disk = written(*THREE, [batch(4, 7, b"seven")], size=130)
    del disk.files[name_of(2)]
    assert "the file is missing, and log-0000000000000003 is there" in refused(disk, Damaged)


def test_a_snapshot_that_ends_before_the_log_begins_is_refused():
    disk = written([Save(1, 2, "", 11, (), (10, 2))], [batch(2, 11, b"eleven", term=2)])
    del disk.files[FIRST]
    assert "the log begins after entry 10, and the snapshot ends with entry 9" in refused(disk, Damaged, (9, 2))


def test_a_segment_that_does_not_go_on_from_the_one_before_is_refused():
    disk, other = written(*THREE, size=200), written([batch(1, 1, b"x" * 200)], [batch(2, 2, b"y")], size=200)
    disk.files[name_of(2)] = other.files[name_of(2)]
    for number in (3, 4):
        disk.files.pop(name_of(number), None)
    assert "it goes on after entry 1 of term 1 with batch 3, and the log before it ends with entry" in refused(disk, Damaged)


def test_an_empty_segment_before_others_is_refused():
    disk = written(*THREE, size=200)
    disk.files[FIRST].now = b""
    assert "the segment is empty" in refused(disk, Damaged)


def test_heads_in_wrong_places_are_refused():
    for record, said in ((Record(records.HEAD, 0, 0, 1, b"short"), "the segment's head is too short"),
                         (Record(records.HARD, 0, 0, 1, b""), "the segment's head is not where it belongs")):
        disk = CrashingDisk()
        run(disk.create(FIRST))
        run(disk.append(FIRST, records.batch_of([record])))
        assert said in refused(disk, Damaged)


def test_a_cut_without_entries_is_no_save():
    with pytest.raises(ValueError, match="puts nothing in its place"):
        written(THREE[0], [Save(2, 2, "", 2, ())])


def test_a_missing_log_beside_a_snapshot_is_refused():
    assert "no segment of the log" in refused(CrashingDisk(), Damaged, (5, 1))


def test_a_renamed_segment_is_refused():
    disk = written(*THREE)
    disk.files[name_of(2)] = disk.files.pop(FIRST)
    assert "it holds segment 1" in refused(disk, Damaged)


def test_a_folder_of_another_node_is_refused():
    disk = written(*THREE)
    with pytest.raises(OtherNode, match="it belongs to node 'n1', and this is node 'n2'"):
        run(open_log(disk, "n2", (0, 0)))


def test_a_folder_of_another_version_is_refused(monkeypatch):
    with monkeypatch.context() as later:
        later.setattr(segments, "VERSION", 2)
        disk = written(*THREE)
    assert "version 2" in refused(disk, OtherVersion) and "version 1" in refused(disk, OtherVersion)


def test_an_unknown_type_of_record_is_refused():
    disk = written(*THREE)
    disk.files[FIRST].now += records.batch_of([Record(9, 0, 0, 5, b"")])
    assert "a record of type 9" in refused(disk, OtherVersion)


def test_contradicting_records_are_refused():
    for record, said in ((Record(ENTRY, 9, 1, 5, b"\1x"), "entry 9 follows entry 6"),
                         (Record(ENTRY, 7, 1, 6, b"\1x"), "batch 6"),
                         (Record(records.TRUNCATE, 6, 0, 5, b""), "cut after entry 6"),
                         (Record(records.HARD, 0, 0, 5, b""), "the term falls from 1 to 0")):
        disk = written(*THREE)
        disk.files[FIRST].now += records.batch_of([record])
        assert said in refused(disk, Damaged)


def test_a_full_disk_loses_nothing():
    disk = written(*THREE)
    size = len(disk.files[FIRST].now)
    disk.room_bytes = 2 * size + 10

    async def overfill():
        log, _ = await open_log(disk, "n1", (0, 0))
        await log.write([batch(4, 7, b"seven" * 200)])

    with pytest.raises(DiskFull):
        run(overfill())
    disk.crash(Random(1))
    disk.room_bytes = size + 10
    with pytest.raises(DiskFull):
        opened(disk)  # the newest segment is written again at a start, so that needs room, too
    disk.room_bytes = 1 << 40
    assert last_index(opened(disk).log) == 6


def test_what_a_failed_sync_left_to_be_read_is_written_again():
    """Its pages may not be on the disk, and the next sync of the file may not write them: only other writes count."""
    disk = written(*THREE)
    disk.calls.clear()
    opened(disk)
    assert ("sync", FIRST) not in disk.calls
    assert disk.calls[-5:] == [("create", REWRITTEN), ("append", REWRITTEN), ("sync", REWRITTEN), ("rename", FIRST),
                               ("sync_names", "")]


# --- any crash


def crashes(seed: int, size: int) -> int:
    """Write, crash and open again; return how many entries were lost that were not synced."""
    random, disk = Random(seed), CrashingDisk()
    log, found = run(open_log(disk, "n1", (0, 0), size))
    durable = (found.term, found.vote, found.log)
    number = lost = 0
    for _ in range(12):
        maybe = [durable]
        term, vote, content = durable
        for _ in range(random.randint(1, 4)):
            number, term = number + 1, term + random.randint(0, 1)
            vote = random.choice(("", "n1")) if term > maybe[-1][0] else vote
            first = random.randint(max(1, last_index(content) - 2), last_index(content) + 1)
            bodies = [random.randbytes(random.choice((3, 60, PAGE))) for _ in range(random.randint(1, 3))]
            term = max(term, last_term(content))
            content = spliced(content, first, entries(term, *bodies))
            saves = [Save(number, term, vote, first, entries(term, *bodies))]
            if random.random() < 0.3:
                disk.fail["sync"] = RuntimeError()
            try:
                run(log.write(saves))
            except RuntimeError:
                maybe.append((term, vote, content))
                break
            durable = term, vote, content
            maybe = [durable]
        disk.crash(random)
        log, found = run(open_log(disk, "n1", (0, 0), size))
        possible = beginnings(maybe)
        assert (found.term, found.vote, found.log) in possible, f"seed {seed}"
        lost += last_index(maybe[-1][2]) - last_index(found.log)
        durable = found.term, found.vote, found.log
    return lost


def beginnings(maybe: list) -> list:
    """Return what may be found: what is durable, and any beginning of the save that was not."""
    durable, *others = maybe
    found = [durable]
    for term, vote, content in others:
        same = next((index for index, (a, b) in enumerate(zip(durable[2].entries, content.entries)) if a != b),
                    min(len(durable[2].entries), len(content.entries)))
        found += [(term, vote, durable[2])]
        found += [(term, vote, Log(0, 0, content.entries[:end])) for end in range(same, len(content.entries) + 1)]
    return found


@pytest.mark.parametrize("size", (1 << 20, 300))
def test_no_crash_loses_what_was_synced(size):
    assert sum(crashes(seed, size) for seed in range(150)) > 0


def test_a_log_that_is_not_synced_loses_entries(monkeypatch):
    async def lies(self, name):
        pass

    monkeypatch.setattr(CrashingDisk, "sync", lies)
    with pytest.raises((AssertionError, Damaged)):
        for seed in range(50):
            crashes(seed, 1 << 20)


def test_a_folder_that_is_not_synced_loses_segments(monkeypatch):
    async def lies(self):
        pass

    monkeypatch.setattr(CrashingDisk, "sync_names", lies)
    with pytest.raises((AssertionError, Damaged)):
        for seed in range(50):
            crashes(seed, 300)


def test_damage_taken_for_a_torn_write_loses_entries(monkeypatch):
    monkeypatch.setattr(segments, "check_torn", lambda *args: None)
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        test_a_damaged_record_before_the_last_batch_is_refused(3)

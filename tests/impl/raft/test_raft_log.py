"""The log on a disk: what was durable is there after any crash, torn ends are cut, and damage is refused in one line."""

from random import Random

import pytest

from highwater.dst.scripts.replicated.disks import run
from highwater.dst.scripts.replicated.log import FIRST, THREE, batch, ends, entries, opened, refused, written
from highwater.impl.node_world import DiskFull
from highwater.impl.raft import segments
from highwater.impl.raft.entries import Log, last_index, last_term, spliced
from highwater.impl.raft.faults import Damaged, OtherNode, OtherVersion
from highwater.impl.raft.log import open_log
from highwater.impl.raft.state import Save
from highwater.traces.refine import Failure
from tests.impl.raft.crashing import PAGE, CrashingDisk

# --- damage


@pytest.mark.parametrize("place", range(6))
def test_a_damaged_record_before_the_last_batch_is_refused(place):
    disk = written(*THREE)
    data = bytearray(disk.files[FIRST].now)
    data[ends(bytes(data))[place] - 1] ^= 1
    disk.files[FIRST].now = bytes(data)
    start = [0, *ends(disk.files[FIRST].now)][-1]
    line = refused(disk, Damaged)
    assert line.startswith(f"{FIRST}: byte {start}: ") and "raft rejoin" in line


def test_a_cut_without_entries_is_no_save():
    with pytest.raises(ValueError, match="puts nothing in its place"):
        written(THREE[0], [Save(2, 2, "", 2, ())])


def test_a_folder_of_another_node_is_refused():
    disk = written(*THREE)
    with pytest.raises(OtherNode, match="it belongs to node 'n1', and this is node 'n2'"):
        run(open_log(disk, "n2", (0, 0)))


def test_a_folder_of_another_version_is_refused(monkeypatch):
    with monkeypatch.context() as later:
        later.setattr(segments, "VERSION", 2)
        disk = written(*THREE)
    assert "version 2" in refused(disk, OtherVersion) and "version 1" in refused(disk, OtherVersion)


def test_a_full_disk_loses_nothing():
    disk = CrashingDisk()
    written(*THREE, disk=disk)
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
    with pytest.raises(Failure, match="the folder is not refused"):
        test_a_damaged_record_before_the_last_batch_is_refused(3)

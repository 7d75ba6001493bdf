"""Scripts of the log on a disk, impl/raft/log.py: what it gives back, what it cuts, and what it refuses."""

from highwater.dst.script import Alone, Script, check, same, wrong
from highwater.dst.scripts.replicated.disks import ScriptDisk, run
from highwater.impl.node_world import DiskFailed, DiskFull
from highwater.impl.raft import identity, records
from highwater.impl.raft import log as disk_log
from highwater.impl.raft.entries import COMMAND, Entry, Log, last_index
from highwater.impl.raft.faults import Damaged, FolderRefused, OtherVersion, TermSpoilt
from highwater.impl.raft.log import REWRITTEN, open_log
from highwater.impl.raft.records import ENTRY, Record
from highwater.impl.raft.segments import name_of
from highwater.impl.raft.state import Save

FIRST = name_of(1)


def entries(term: int, *bodies: bytes) -> tuple[Entry, ...]:
    return tuple(Entry(term, COMMAND, body) for body in bodies)


def written(*batches: list[Save], size: int = 1 << 20, disk: ScriptDisk | None = None) -> ScriptDisk:
    """Return a disk, this one or a new one, with a log of these batches."""
    disk = disk or ScriptDisk()

    async def work():
        log, _ = await open_log(disk, "n1", (0, 0), size)
        for saves in batches:
            await log.write(saves)

    run(work())
    return disk


def opened(disk: ScriptDisk, snapshot: tuple[int, int] = (0, 0), size: int = 1 << 20) -> disk_log.Recovered:
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


def refused(disk: ScriptDisk, kind: type, snapshot: tuple[int, int] = (0, 0)) -> str:
    """Return the one line with which the folder is refused; nothing in it changes."""
    before = {name: file.now for name, file in disk.files.items()}
    try:
        opened(disk, snapshot)
    except FolderRefused as error:
        same(type(error), kind)
        same({name: file.now for name, file in disk.files.items()}, before)
        check("\n" not in str(error), "the folder is refused in one line")
        return str(error)
    raise wrong("the folder is not refused")


async def an_empty_folder_is_a_new_node(alone: Alone) -> None:
    disk = ScriptDisk()
    same(opened(disk), disk_log.Recovered(0, "", Log()))
    same(opened(disk), disk_log.Recovered(0, "", Log()))


async def saves_are_read_again(alone: Alone) -> None:
    disk = written([batch(1, 1, b"one", b"two", term=2, vote="n3")], [Save(2, 3, "n1", 3, ())])
    same(opened(disk), disk_log.Recovered(3, "n1", Log(0, 0, entries(2, b"one", b"two"))))


async def a_conflict_is_cut_by_a_record(alone: Alone) -> None:
    disk = written(THREE[0], THREE[1], [batch(4, 2, b"deux", term=2)])
    same(opened(disk).log, Log(0, 0, entries(1, b"one") + entries(2, b"deux")))
    check(("truncate", FIRST) not in disk.calls, "a conflict is cut by a record")


async def a_batch_costs_one_append_and_one_sync(alone: Alone) -> None:
    disk = ScriptDisk()

    async def work():
        log, _ = await open_log(disk, "n1", (0, 0))
        disk.calls.clear()
        await log.write([batch(1, 1, b"one", vote="n1"), batch(2, 2, b"two", vote="n1")])

    run(work())
    same(disk.calls, [("append", FIRST), ("sync", FIRST)])


async def full_segments_are_followed_by_others_and_go_after_a_snapshot(alone: Alone) -> None:
    disk = written(*THREE, size=200)
    check(len(disk.files) > 2, "full segments are followed by others and go after a snapshot")
    same(last_index(opened(disk, size=200).log), 6)

    async def cut(index):
        log, _ = await open_log(disk, "n1", (0, 0), 200)
        await log.compact(index)

    run(cut(3))
    found = opened(disk, (4, 1), 200)
    check(FIRST not in disk.files, "full segments are followed by others and go after a snapshot")
    check(0 < found.log.base_index <= 3, "full segments are followed by others and go after a snapshot")
    same(last_index(found.log), 6)
    same(found.term, 1)


async def a_segment_goes_for_good_before_the_next_one_does(alone: Alone) -> None:
    """A crash that keeps the second removal and not the first would leave a gap, and the folder would be refused."""
    disk = written(*THREE, [batch(4, 7, b"seven")], size=130)
    begun = sorted(disk.files)

    async def cut():
        log, _ = await open_log(disk, "n1", (0, 0), 130)
        disk.calls = []
        await log.compact(7)

    run(cut())
    same(disk.calls, [call for name in begun[:-1] for call in (("remove", name), ("sync_names", ""))])
    check(len(begun) > 2, "two segments go at once")


async def a_batch_that_cannot_be_written_counts_for_nothing(alone: Alone) -> None:
    for call, error in (("append", DiskFull("full")), ("append", DiskFailed("failed")), ("sync", DiskFailed("failed"))):
        disk = written(THREE[0])

        async def write(disk: ScriptDisk = disk, call: str = call, error: Exception = error):
            log, _ = await open_log(disk, "n1", (0, 0))
            disk.fail, disk.calls = {call: error}, []
            await log.write(THREE[1])

        await alone.raises(type(error), write())
        same(disk.calls, [("append", FIRST), ("sync", FIRST)][:1 + (call == "sync")])


AFTER = [b"deux", b"trois", b"quatre", b"cinq", b"six", b"sept"]  # entries from 2 on, once a cut has taken the old ones


def cut_and_compacted(disk: ScriptDisk, index: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Let a later segment cut the log after entry 1, and compact the log up to an index. Return the segments before and after
    that: number, and index after which each begins."""
    async def work():
        log, _ = await open_log(disk, "n1", (0, 0), 200)
        for saves in (*THREE, [batch(4, 2, *AFTER, term=2)]):
            await log.write(saves)
        before = [*log.segments]
        await log.compact(index)
        return before, [*log.segments]

    return run(work())


async def a_cut_that_reached_behind_its_segment_is_read_without_the_segments_before(alone: Alone) -> None:
    """The newest segment begins after entry 6, and cuts the log after entry 1. Then a snapshot lets the older ones go."""
    disk = ScriptDisk()
    before, left = cut_and_compacted(disk, 6)
    same(left[0][0], next(number for number, index in reversed(before) if index < 7))
    check(left[0][1] > 1, "the first segment that is left begins after the cut")
    same(opened(disk, (6, 2), 200).log, Log(2, 2, entries(2, *AFTER[1:])))


async def a_cut_in_a_later_segment_may_reach_behind_the_first_that_is_left(alone: Alone) -> None:
    """Let a later segment cut the log after entry 1. The first segment that is left begins after entry 3."""
    disk = ScriptDisk()
    _, left = cut_and_compacted(disk, 3)
    same([index for _, index in left[:2]], [3, 6])
    same(opened(disk, (4, 2), 200).log, Log(2, 2, entries(2, *AFTER[1:])))


async def a_new_segment_is_durable_before_it_is_used(alone: Alone) -> None:
    disk = ScriptDisk()
    opened(disk)
    second = disk.calls[-4:]
    same(second, [("create", FIRST), ("append", FIRST), ("sync", FIRST), ("sync_names", "")])


async def an_installed_snapshot_lets_the_log_begin_anew(alone: Alone) -> None:
    disk = written(*THREE, [Save(4, 2, "", 11, (), (10, 2))], [batch(5, 11, b"eleven", term=2)])
    same(opened(disk, (10, 2)).log, Log(10, 2, entries(2, b"eleven")))


async def a_new_segment_repeats_term_and_vote(alone: Alone) -> None:
    """Those before it may go when it is full, or when the log begins anew after a snapshot. A vote may come after its term."""
    voted = [[batch(1, 1, b"one", term=7)], [Save(2, 7, "n3", 2, ())]]
    full, anew = [batch(3, 2, b"y" * 200, term=7, vote="n3")], [Save(3, 7, "n3", 11, (), (10, 7))]
    for later, snapshot in ((full, (2, 7)), (anew, (10, 7))):
        disk = ScriptDisk()

        async def work(later=later, disk=disk):
            log, _ = await open_log(disk, "n1", (0, 0), 200)
            for saves in (*voted, later):
                await log.write(saves)
            await log.compact(log.last[0])

        run(work())
        check(FIRST not in disk.files, "the first segment goes")
        same(opened(disk, snapshot)[:2], (7, "n3"))
    same(opened(written(*voted))[:2], (7, "n3"))


async def a_snapshot_that_is_ahead_of_the_log_takes_its_place(alone: Alone) -> None:
    disk = written(*THREE)
    same(opened(disk, (9, 3)), disk_log.Recovered(3, "", Log(9, 3)))
    same(opened(disk, (9, 3)), disk_log.Recovered(3, "", Log(9, 3)))


async def a_snapshot_with_another_last_entry_takes_the_logs_place(alone: Alone) -> None:
    same(opened(written(*THREE), (5, 2)).log, Log(5, 2))


async def a_log_that_has_the_snapshots_last_entry_stays(alone: Alone) -> None:
    same(last_index(opened(written(*THREE), (5, 1)).log), 6)


async def a_torn_end_is_cut_durably_before_anything_is_written(alone: Alone) -> None:
    disk = written(*THREE)
    cut = ends(disk.files[FIRST].now)[-2]
    disk.files[FIRST].now = disk.files[FIRST].now[:-2]
    disk.calls.clear()
    same(last_index(opened(disk).log), 5)
    same(disk.calls[-3:], [("sync", REWRITTEN), ("rename", FIRST), ("sync_names", "")])
    same(disk.files[FIRST].durable, disk.files[FIRST].now)
    same(len(disk.files[FIRST].now), cut)


async def what_a_killed_process_had_not_synced_is_synced_before_it_counts(alone: Alone) -> None:
    disk = written(*THREE)
    disk.files[FIRST].durable = b""
    opened(disk)
    same(disk.files[FIRST].durable, disk.files[FIRST].now)


async def a_hole_in_the_last_batch_is_a_torn_write(alone: Alone) -> None:
    disk = written(*THREE)
    data = bytearray(disk.files[FIRST].now)
    places = ends(bytes(data))
    data[places[-3] - 1] ^= 1
    disk.files[FIRST].now = bytes(data)
    same(last_index(opened(disk).log), 3)


async def a_hole_in_a_batch_with_another_one_behind_it_is_damage(alone: Alone) -> None:
    """Each record of the batch was durable before the next batch was written, the last one, too."""
    for hole in (2, 3):
        disk = written(THREE[0], [batch(2, 3, b"three", b"drei")], [batch(3, 5, b"five")])
        data = bytearray(disk.files[FIRST].now)
        places = ends(bytes(data))[-5:]
        data[places[hole] - 1] ^= 1
        disk.files[FIRST].now = bytes(data)
        check(f"byte {places[hole - 1]:,}: no record can be read here, and one of a later batch" in refused(disk, Damaged),
              "the place of the damage is told")


async def the_log_goes_on_after_a_cut_in_the_middle_of_a_batch(alone: Alone) -> None:
    disk = written(*THREE)
    disk.files[FIRST].now = disk.files[FIRST].now[:-2]

    async def go_on():
        log, _ = await open_log(disk, "n1", (0, 0))
        await log.write([batch(9, 6, b"SIX", term=2)])
        await log.write([batch(10, 7, b"seven", term=2)])

    run(go_on())
    same(opened(disk).log.entries[-2:], entries(2, b"SIX", b"seven"))


async def entries_are_not_there_without_their_term(alone: Alone) -> None:
    """Term and vote come first in a batch, so a tear leaves no entry of a term that the server does not know."""
    disk = written(*THREE, [batch(4, 5, b"cinq", b"six", term=3, vote="n2")])
    whole = disk.files[FIRST].now
    found = []
    for end in ends(whole)[-4:]:
        disk.files[FIRST].now = whole[:end]
        term, vote, log = opened(disk)
        found.append((term, vote, last_index(log)))
    same(found, [(3, "n2", 6), (3, "n2", 4), (3, "n2", 5), (3, "n2", 6)])


async def a_new_segment_that_is_torn_from_its_first_byte_is_removed(alone: Alone) -> None:
    disk = written(*THREE)
    for torn in (b"", bytes(90)):
        run(disk.create(name_of(2)))
        run(disk.append(name_of(2), torn))
        same(last_index(opened(disk).log), 6)
        same(list(disk.files), [FIRST])


async def a_new_segment_whose_first_batch_is_torn_is_removed(alone: Alone) -> None:
    """Term and vote may be what is torn. Once a snapshot lets the older segments go, nothing else would have them."""
    disk = written([batch(1, 1, b"x" * 200, term=7, vote="n3")], size=200)
    newest = disk.files[name_of(2)]
    newest.now = newest.now[:ends(newest.now)[0]]

    async def go_on():
        log, _ = await open_log(disk, "n1", (0, 0))
        same(sorted(disk.files), [FIRST])
        await log.write([batch(2, 2, b"y" * 200, term=7, vote="n3")])
        await log.compact(1)

    run(go_on())
    same(opened(disk, (1, 7))[:2], (7, "n3"))


async def damage_in_an_earlier_segment_is_refused(alone: Alone) -> None:
    disk = written(*THREE, size=200)
    disk.files[FIRST].now = disk.files[FIRST].now[:-1]
    check(refused(disk, Damaged).startswith(f"{FIRST}: byte "), "damage in an earlier segment is refused")


async def an_earlier_segment_with_nothing_but_its_head_is_refused(alone: Alone) -> None:
    """Only the newest segment may have been torn: what others had was durable, though a snapshot has the entries."""
    disk = written(*THREE, size=200)
    disk.files[FIRST].now = disk.files[FIRST].now[:ends(disk.files[FIRST].now)[0]]
    check(f"{name_of(2)}: byte 0: it goes on after entry" in refused(disk, Damaged, (6, 1)), "the segment behind it is named")


async def a_missing_segment_is_refused(alone: Alone) -> None:
    disk = written(*THREE, [batch(4, 7, b"seven")], size=130)
    del disk.files[name_of(2)]
    check("the file is missing, and log-0000000000000003 is there" in refused(disk, Damaged), "a missing segment is refused")


async def a_folder_in_which_a_node_worked_and_that_has_no_log_is_refused(alone: Alone) -> None:
    disk = written(*THREE)
    run(identity.write(disk, identity.FolderIdentity("main", "n1", ("n1",))))
    same(last_index(opened(disk).log), 6)
    for torn in (b"", bytes(90)):
        disk.files[FIRST].now = torn
        check("no segment of its log can be read" in refused(disk, Damaged), "a log that is lost is refused")
    del disk.files[FIRST]
    check(refused(disk, Damaged).startswith(f"{FIRST}: byte 0: "), "the file that is missing is named")


async def a_snapshot_that_ends_before_the_log_begins_is_refused(alone: Alone) -> None:
    disk = written([Save(1, 2, "", 11, (), (10, 2))], [batch(2, 11, b"eleven", term=2)])
    del disk.files[FIRST]
    check(
        "the log begins after entry 10, and the snapshot ends with entry 9" in refused(disk, Damaged, (9, 2)),
        "a snapshot that ends before the log begins is refused",
    )


async def a_segment_that_does_not_go_on_from_the_one_before_is_refused(alone: Alone) -> None:
    disk, other = (written(*THREE, size=200), written([batch(1, 1, b"x" * 200)], [batch(2, 2, b"y")], size=200))
    disk.files[name_of(2)] = other.files[name_of(2)]
    for number in (3, 4):
        disk.files.pop(name_of(number), None)
    check(
        "it goes on after entry 1 of term 1 with batch 3, and the log before it ends with entry" in refused(disk, Damaged),
        "a segment that does not go on from the one before is refused",
    )


async def an_empty_segment_before_others_is_refused(alone: Alone) -> None:
    disk = written(*THREE, size=200)
    disk.files[FIRST].now = b""
    check(f"{FIRST}: byte 0: the segment is empty" in refused(disk, Damaged), "an empty segment before others is refused")


async def heads_in_wrong_places_are_refused(alone: Alone) -> None:
    for record, said in (
        (Record(records.HEAD, 0, 0, 1, b"short"), "the segment's head is too short"),
        (Record(records.HARD, 0, 0, 1, b""), "the segment's head is not where it belongs"),
    ):
        disk = ScriptDisk()
        run(disk.create(FIRST))
        run(disk.append(FIRST, records.batch_of([record])))
        check(said in refused(disk, Damaged), "heads in wrong places are refused")


async def a_missing_log_beside_a_snapshot_is_refused(alone: Alone) -> None:
    check("no segment of the log" in refused(ScriptDisk(), Damaged, (5, 1)), "a missing log beside a snapshot is refused")


async def a_renamed_segment_is_refused(alone: Alone) -> None:
    disk = written(*THREE)
    disk.files[name_of(2)] = disk.files.pop(FIRST)
    check("it holds segment 1" in refused(disk, Damaged), "a renamed segment is refused")


async def an_unknown_type_of_record_is_refused(alone: Alone) -> None:
    disk = written(*THREE)
    disk.files[FIRST].now += records.batch_of([Record(9, 0, 0, 5, b"")])
    check("a record of type 9" in refused(disk, OtherVersion), "an unknown type of record is refused")


async def contradicting_records_are_refused(alone: Alone) -> None:
    for record, said in (
        (Record(ENTRY, 9, 1, 5, b"\x01x"), "entry 9 follows entry 6"),
        (Record(ENTRY, 7, 1, 6, b"\x01x"), "batch 6"),
        (Record(records.TRUNCATE, 6, 0, 5, b""), "cut after entry 6"),
        (Record(records.HARD, 0, 0, 5, b""), "the term falls from 1 to 0"),
    ):
        disk = written(*THREE)
        disk.files[FIRST].now += records.batch_of([record])
        check(said in refused(disk, Damaged), "contradicting records are refused")


async def what_a_failed_sync_left_to_be_read_is_written_again(alone: Alone) -> None:
    """Its pages may not be on the disk, and the next sync of the file may not write them: only other writes count."""
    disk = written(*THREE)
    disk.calls.clear()
    opened(disk)
    check(("sync", FIRST) not in disk.calls, "what a failed sync left to be read is written again")
    same(
        disk.calls[-5:],
        [("create", REWRITTEN), ("append", REWRITTEN), ("sync", REWRITTEN), ("rename", FIRST), ("sync_names", "")],
    )


async def a_log_with_a_term_that_no_group_comes_to_is_refused_and_replaced(alone: Alone) -> None:
    """The log in its place has its entries and an earlier term. Where that ends halfway, all is as it was."""
    for term in (disk_log.MOST_TERM, 2**64 - 1):
        disk = written(*THREE, [Save(4, term, "n2", 7, ())])
        check(f"its log is in term {term:,}, to which no group comes" in refused(disk, TermSpoilt), "it is refused")
        log, found = run(open_log(disk, "n1", (0, 0), may_be_spoilt=True))
        same((found.term, found.vote), (term, "n2"))
        before = {name: file.now for name, file in disk.files.items()}
        renames, disk.rename = disk.rename, failing  # pyright: ignore[reportAttributeAccessIssue]
        await alone.raises(DiskFailed, log.replace(2, "n1", found.log))
        disk.rename = renames
        del disk.files[REWRITTEN]
        same({name: file.now for name, file in disk.files.items()}, before)
        log, found = run(open_log(disk, "n1", (0, 0), may_be_spoilt=True))
        await log.replace(2, "n1", found.log)
        await log.write([batch(5, 7, b"seven", term=2, vote="n1")])
        same(opened(disk), found._replace(term=2, vote="n1", log=found.log._replace(
            entries=(*found.log.entries, *entries(2, b"seven")))))
        same(opened(disk, (6, 1)).term, 2)


async def failing(*of: str) -> None:
    raise DiskFailed("as the script says")


SCRIPTS: tuple[Script, ...] = (
    a_log_with_a_term_that_no_group_comes_to_is_refused_and_replaced,
    an_empty_folder_is_a_new_node,
    saves_are_read_again,
    a_conflict_is_cut_by_a_record,
    a_batch_costs_one_append_and_one_sync,
    full_segments_are_followed_by_others_and_go_after_a_snapshot,
    a_segment_goes_for_good_before_the_next_one_does,
    a_batch_that_cannot_be_written_counts_for_nothing,
    a_cut_that_reached_behind_its_segment_is_read_without_the_segments_before,
    a_cut_in_a_later_segment_may_reach_behind_the_first_that_is_left,
    a_new_segment_is_durable_before_it_is_used,
    an_installed_snapshot_lets_the_log_begin_anew,
    a_new_segment_repeats_term_and_vote,
    a_snapshot_that_is_ahead_of_the_log_takes_its_place,
    a_snapshot_with_another_last_entry_takes_the_logs_place,
    a_log_that_has_the_snapshots_last_entry_stays,
    a_torn_end_is_cut_durably_before_anything_is_written,
    what_a_killed_process_had_not_synced_is_synced_before_it_counts,
    a_hole_in_the_last_batch_is_a_torn_write,
    a_hole_in_a_batch_with_another_one_behind_it_is_damage,
    the_log_goes_on_after_a_cut_in_the_middle_of_a_batch,
    entries_are_not_there_without_their_term,
    a_new_segment_that_is_torn_from_its_first_byte_is_removed,
    a_new_segment_whose_first_batch_is_torn_is_removed,
    damage_in_an_earlier_segment_is_refused,
    an_earlier_segment_with_nothing_but_its_head_is_refused,
    a_missing_segment_is_refused,
    a_folder_in_which_a_node_worked_and_that_has_no_log_is_refused,
    a_snapshot_that_ends_before_the_log_begins_is_refused,
    a_segment_that_does_not_go_on_from_the_one_before_is_refused,
    an_empty_segment_before_others_is_refused,
    heads_in_wrong_places_are_refused,
    a_missing_log_beside_a_snapshot_is_refused,
    a_renamed_segment_is_refused,
    an_unknown_type_of_record_is_refused,
    contradicting_records_are_refused,
    what_a_failed_sync_left_to_be_read_is_written_again,
)

"""The bytes of the metadata index: equal to Pyroscope's, odd values included; damaged bytes are refused."""

import json
import random
import struct
from pathlib import Path

import pytest
import zstandard
from google.protobuf import json_format
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.impl.codecs.codec import Undecodable
from highwater.impl.codecs.crc32c import crc32c
from highwater.impl.codecs.index import entries, footer, labels, messages, names, partitions, rows, snapshot, strings, ulids
from highwater.impl.codecs.index.messages import BlockMeta, decode, encode
from highwater.impl.codecs.index.partitions import Partition
from highwater.impl.codecs.index.rows import Block, Queued, Times, Unit
from highwater.impl.codecs.index.snapshot import Position

GOLDEN = json.loads((Path(__file__).resolve().parents[2] / "golden/index/pyroscope.json").read_text())
SIX = Partition(1_750_399_200_000_000_000)  # 2025-06-20T06:00Z
ULID = "01JY6CFS8048BXQH4PSE7835SY"
TENANTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=9).filter("-".__ne__)


def of_case(cases: list) -> list:
    return [pytest.param(case, id=case["case"]) for case in cases]


# --- as Pyroscope writes them

@pytest.mark.parametrize("case", of_case(GOLDEN["footers"]))
def test_footers_are_pyroscopes(case):
    block = json_format.ParseDict(case["meta"], BlockMeta())
    body = bytes.fromhex(case["hex"])
    assert footer.footer(block) == body
    assert footer.metadata_of(b"data" + body) == block
    assert footer.footer_size_bytes(body[-8:]) == len(body)
    assert footer.metadata_of(body, 77).size == 77


@pytest.mark.parametrize("case", of_case(GOLDEN["footers"]))
def test_a_cut_or_changed_footer_is_refused(case):
    body = bytes.fromhex(case["hex"])
    for size in range(len(body)):
        with pytest.raises(Undecodable):
            footer.metadata_of(body[:size])
        with pytest.raises(Undecodable):
            footer.metadata_of(body[size + 1:])
    for at in range(8 * len(body)):
        changed = bytearray(body)
        changed[at // 8] ^= 1 << at % 8
        with pytest.raises(Undecodable):
            footer.metadata_of(bytes(changed))


@pytest.mark.parametrize("case", of_case(GOLDEN["entries"]))
def test_entries_are_pyroscopes(case):
    command = json_format.ParseDict(case["request"], entries.KINDS[case["type"]]())
    assert entries.entry(command).hex() == case["hex"]
    assert entries.command_of(bytes.fromhex(case["hex"])) == command


@pytest.mark.parametrize("case", of_case(GOLDEN["jobnames"]))
def test_names_of_jobs_are_pyroscopes(case):
    assert names.job_name(case["tenant"], case["shard"], case["level"], case["blocks"]) == case["name"]


def test_the_name_of_a_unit_tombstone_is_that_of_the_entry():
    tombstone = GOLDEN["entries"][0]["request"]["tombstones"][0]["shard"]
    assert names.unit_tombstone_name(Partition(int(tombstone["timestamp"])), "t", 1) == tombstone["name"]


def test_rows_have_the_bytes_that_pyroscope_writes():
    assert partitions.encode(SIX).hex() == "184aaacc6320c00000005460"
    told = "000001978cc7e500" "000001978cc80c0f" "0000000000000001"
    times = Times(0x1978cc7e500, 0x1978cc80c0f, 1)
    assert rows.times_value(times).hex() == told and rows.times_of(bytes.fromhex(told)) == times
    assert rows.times_of(bytes.fromhex(told[:32])) == times._replace(version=0)
    assert rows.strings_value(("sw-0", "t")).hex() == "00000002" "00000004" "73772d30" "00000001" "74"
    assert rows.applied_value(3, 9).hex() == "0000000000000003" "0000000000000009"
    assert rows.tombstone_key(1, 2, "j")[1:].hex() == "0000000000000001" "0000000000000002" "6a"
    row = Queued(7, ULID, 5, 1, 2, "t")
    assert rows.queue_key(7, ULID)[1:] == struct.pack(">Q", 7) + ULID.encode()
    assert rows.queue_value(row).hex() == "0000000000000005" "00000001" "00000002" "74"


def test_paths_of_objects():
    assert names.block_path(7, "", ULID, 0) == f"segments/7/anonymous/{ULID}/block.bin"
    assert names.block_path(7, "a", ULID, 1) == f"blocks/7/a/{ULID}/block.bin"
    assert names.dead_letter_path(7, "", ULID) == f"dlq/7/anonymous/{ULID}/meta.pb"
    assert names.dead_letter_path(7, "a", ULID) == f"dlq/7/a/{ULID}/meta.pb"


# --- what protobuf allows

def test_fields_that_nobody_knows_are_kept():
    newer = bytes.fromhex("a2060474657374") + b"\xba\x3e\x03\x01\x02\x03"  # fields 100 and 999
    body = encode(BlockMeta(id=ULID)) + newer
    assert encode(decode(BlockMeta, body)) == body
    inside = encode(BlockMeta(datasets=[messages.Dataset(name=1)]))
    inside = inside[:1] + bytes([inside[1] + len(newer)]) + inside[2:] + newer
    assert encode(decode(BlockMeta, inside)) == inside
    own, _ = strings.imported(strings.EMPTY, decode(BlockMeta, encode(BlockMeta(id=ULID)) + newer))
    assert encode(own).endswith(newer), "an imported block keeps them, too"


def test_numbers_may_be_packed_or_not_and_come_in_any_order():
    packed = messages.Dataset(labels=[1, 2, -3], table_of_contents=[1 << 63, 5])
    apart = b"\x40\x01\x40\x02" + b"\x40" + b"\xfd" + b"\xff" * 8 + b"\x01" + b"\x28" + b"\x80" * 9 + b"\x01" + b"\x28\x05"
    assert decode(messages.Dataset, apart) == packed
    assert encode(decode(messages.Dataset, apart)) == encode(packed)


def test_defaults_are_left_out_and_the_last_of_two_values_counts():
    assert encode(decode(BlockMeta, b"\x08\x00\x12\x00\x18\x00")) == b""
    assert decode(BlockMeta, b"\x08\x01\x08\x02").format_version == 2
    assert decode(messages.Tombstones, b"\x0a\x03\x0a\x01a\x0a\x02\x10\x05").blocks == messages.BlockTombstones(
        name="a", shard=5), "messages that come twice are merged"
    assert encode(messages.Tombstones(blocks=messages.BlockTombstones())) == b"\x0a\x00", "an empty message is there"


def test_a_status_that_nobody_knows_is_kept():
    assert encode(decode(messages.StatusUpdate, b"\x18\x07")) == b"\x18\x07"


@pytest.mark.parametrize("body", [b"\x08", b"\x12\x05ab", b"\x12\x01\xff", b"\x0f", b"\x80" * 11, b"\x00\x01"])
def test_what_is_no_message_is_refused(body):
    with pytest.raises(messages.DamagedMessage):
        decode(BlockMeta, body)


@pytest.mark.parametrize("body", [b"", b"\0\0\0", b"\0\0\0\0", b"\0\0\0\5", b"\0\0\0\1\x0a\x05"])
def test_an_entry_of_a_newer_kind_or_a_damaged_one_is_refused(body):
    with pytest.raises(Undecodable):
        entries.command_of(body)


def test_our_own_fields_are_those_that_pyroscopes_readers_skip():
    ours = {f"{name}.{field.name}" for name, kind in messages.CLASSES.items() for field in kind.DESCRIPTOR.fields
            if field.number >= messages.OWN}
    assert ours == {
        "Tombstones.index", "Tombstones.job", "Tombstones.handed_out", "ShardTombstone.unit_version",
        "CompactionJobState.heard", "CompactionJobState.paused", "QueryMetadataRequest.shards",
        "QueryMetadataLabelsRequest.shards",
        "PolledStatusUpdate.deleted", "PollCompactionJobsRequest.takes_overdue", "PollCompactionJobsResponse.overdue",
        "GetCompactionPlanUpdateRequest.deleted", "CompactionPlanUpdate.deleted",
            "AddBlockRequest.past_horizon", "AddBlockMetadataRequest.past_horizon"}


# --- ULIDs, partitions, names

@pytest.mark.parametrize("text", [
    "!" * 26, ULID.lower(), ULID[:25], f"{ULID}0", "8" + "0" * 25, "O" + ULID[1:], "I" * 26, "", "é" * 26])
def test_what_is_no_ulid_is_refused(text):
    with pytest.raises(ulids.InvalidUlid):
        ulids.time_ms(text)


def test_ulids_at_the_ends():
    assert ulids.time_ms("0" * 26) == 0 and ulids.time_ms("7" + "Z" * 25) == (1 << 48) - 1
    assert ulids.made((1 << 48) - 1, b"\xff" * 10) == "7" + "Z" * 25
    with pytest.raises(ulids.InvalidUlid):
        ulids.made(1 << 48, bytes(10))


def test_a_partition_holds_its_first_and_not_its_end():
    first, end = ulids.made(SIX.start_ns // 10**6, bytes(10)), ulids.made(SIX.end_ns // 10**6, bytes(10))
    assert partitions.partition_of(first) == SIX == partitions.decode(partitions.encode(SIX))
    assert SIX.holds(first) and not SIX.holds(end) and partitions.partition_of(end).start_ns == SIX.end_ns
    assert SIX.holds(ulids.made(SIX.end_ns // 10**6 - 1, b"\xff" * 10))


@pytest.mark.parametrize("start_s, length_s, text", [
    (0, 21600, "1970-01-01 00:00:00 (6h0m0s)"), (951_782_400, 5400, "2000-02-29 00:00:00 (1h30m0s)"),
    (4_107_542_399, 45, "2100-02-28 23:59:59 (45s)"), (4_107_542_400, 60, "2100-03-01 00:00:00 (1m0s)"),
    (-1, 1, "1969-12-31 23:59:59 (1s)"), (1_735_689_599, 21600, "2024-12-31 23:59:59 (6h0m0s)")])
def test_windows_as_text(start_s, length_s, text):
    assert partitions.text(Partition(start_s * 10**9, length_s)) == text


def test_dates_are_those_of_the_calendar():
    from datetime import date, timedelta
    for day in range(-60_000, 60_000, 13):
        there = date(1970, 1, 1) + timedelta(days=day)
        assert partitions.date_of(day) == (there.year, there.month, there.day)


def test_a_compacted_block_has_its_oldest_sources_time_whatever_the_order():
    later = ulids.made(ulids.time_ms(ULID) + 1, bytes(10))
    made = names.compacted_id([later, ULID], 1, "t")
    assert ulids.time_ms(made) == ulids.time_ms(ULID) and made == names.compacted_id([later, ULID], 1, "t")
    assert len({made, names.compacted_id([ULID, later], 1, "t"), names.compacted_id([later, ULID], 2, "t"),
                names.compacted_id([later, ULID], 1, "")}) == 4


# --- labels and strings

def test_labels_are_cut_into_groups():
    assert labels.groups_of([2, 5, 19, 3, 15, 0, 1, 24, 9]) == (((5, 19), (3, 15)), (), ((24, 9),))
    assert labels.groups_of([0, 1, 2, 2, 0]) == ((), ((2, 2),), ())
    assert labels.positions([2, 5, 19, 3, 15, 0, 1, 24, 9]) == [1, 2, 3, 4, 7, 8]


@pytest.mark.parametrize("numbers", [[1], [1, 2], [2, 1, 1], [-1], [0, -1], [1, 2, 3, 1]])
def test_labels_that_are_cut_are_refused(numbers):
    with pytest.raises(labels.MalformedLabels):
        labels.groups_of(numbers)


@given(st.lists(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), max_size=3), max_size=4))
def test_groups_come_back(groups):
    assert labels.groups_of(labels.flat(map(tuple, groups))) == tuple(map(tuple, groups))


WORDS = st.lists(st.sampled_from(["a", "b", "cc", "t", "é\0x", ""]), max_size=6)


@st.composite
def blocks(draw):
    """A block with odd tables: strings twice, "" in the middle."""
    table = ["", *draw(WORDS)]
    reference = st.integers(0, len(table) - 1)
    made = BlockMeta(id=ULID, tenant=draw(reference), created_by=draw(reference), string_table=table)
    for _ in range(draw(st.integers(0, 3))):
        groups = draw(st.lists(st.lists(st.tuples(reference, reference), max_size=2).map(tuple), max_size=2))
        made.datasets.add(tenant=draw(reference), name=draw(reference), labels=labels.flat(groups))
    return made


def read(block, table) -> tuple:
    """Return the content of a block as texts."""
    return (table[block.tenant], table[block.created_by], [
        (table[part.tenant], table[part.name],
         [[(table[a], table[b]) for a, b in group] for group in labels.groups_of(part.labels)])
        for part in block.datasets])


@settings(deadline=None)
@given(st.lists(blocks(), min_size=1, max_size=4))
def test_strings_stand_once_in_a_shard_and_come_out_as_they_went_in(several):
    table = strings.EMPTY
    for block in several:
        before = encode(block)
        own, new = strings.imported(table, block)
        table = strings.table_of((*table.strings[1:], *new))  # raises if a string stands twice
        kept = encode(own)
        assert encode(block) == before and not own.string_table
        out = strings.exported(table.strings, own)
        assert read(block, block.string_table) == read(own, table.strings) == read(out, out.string_table)
        assert encode(own) == kept and out.string_table[0] == "" and len(set(out.string_table)) == len(out.string_table)
        assert strings.tenant_of(block) == table.strings[own.tenant]


def test_an_export_takes_strings_in_the_order_of_their_references():
    block = BlockMeta(tenant=4, created_by=3, datasets=[messages.Dataset(tenant=4, name=2, labels=[1, 1, 5])])
    out = strings.exported(["", "k", "n", "c", "t", "v", "other"], block)
    assert list(out.string_table) == ["", "t", "c", "n", "k", "v"]
    assert (out.tenant, out.created_by, list(out.datasets[0].labels)) == (1, 2, [1, 4, 5])


def test_an_import_takes_all_strings_in_order_also_those_that_nothing_refers_to():
    own, new = strings.imported(strings.table_of(("t", "x")), BlockMeta(tenant=2, string_table=["", "q", "t", "q", "r"]))
    assert new == ("q", "r") and own.tenant == 1


@pytest.mark.parametrize("block", [
    BlockMeta(tenant=1), BlockMeta(tenant=-1, string_table=[""]), BlockMeta(created_by=1, string_table=[""]),
    BlockMeta(string_table=["", "a"], datasets=[messages.Dataset(name=2)]),
    BlockMeta(string_table=["", "a"], datasets=[messages.Dataset(labels=[1, 1, 2])]),
    BlockMeta(string_table=["", "a"], datasets=[messages.Dataset(labels=[1, 1])]),
    BlockMeta(string_table=[""], datasets=[messages.Dataset(tenant=1)])])
def test_references_without_a_string_are_refused_also_in_blocks_with_one_string(block):
    with pytest.raises(Undecodable):
        strings.imported(strings.table_of(("somebody's", "else's")), block)


# --- keys and values of rows

UNITS = st.builds(Unit, st.builds(Partition, st.integers(-(1 << 63), (1 << 63) - 1), st.integers(0, (1 << 32) - 1)),
                  TENANTS | st.just(""), st.integers(0, (1 << 32) - 1))


@given(UNITS, UNITS)
def test_keys_of_units_are_read_back_and_none_begins_another(one, other):
    assert rows.unit_of(rows.unit_key(one) + b"rest") == (one, b"rest")
    assert one == other or not rows.unit_key(one).startswith(rows.unit_key(other))


@given(st.integers(0, (1 << 64) - 1), st.integers(0, (1 << 63) - 1), TENANTS, st.integers(0, (1 << 32) - 1))
def test_rows_are_read_back(number, at_ns, text, small):
    assert rows.tombstone_of(rows.tombstone_key(number, at_ns, text)) == (number, at_ns, text)
    row = Queued(number, ULID, at_ns, small, small, text)
    assert rows.queued_of(rows.queue_key(number, ULID), rows.queue_value(row)) == row
    block = Block(ULID, small, text)
    assert rows.removed_of(rows.removed_key(rows.GONE, block)) == block
    assert rows.applied_of(rows.applied_value(number, number)) == (number, number)
    assert rows.strings_of(rows.strings_value((text, "", text))) == (text, "", text)


@pytest.mark.parametrize("read, body", [
    (rows.strings_of, b""), (rows.strings_of, b"\0\0\0\1"), (rows.strings_of, b"\0\0\0\1\0\0\0\2a"),
    (rows.strings_of, b"\0\0\0\0x"), (rows.strings_of, b"\0\0\0\1\0\0\0\1\xff"), (rows.times_of, bytes(23)),
    (rows.applied_of, bytes(15)), (rows.unit_of, bytes(11)), (rows.unit_of, bytes(12) + b"t"),
    (rows.unit_of, bytes(12) + b"t\0abc"),
    (rows.tombstone_of, bytes(16)), (rows.removed_of, bytes(30)), (rows.unit_of, bytes(12) + b"\xff\0" + bytes(4)),
    (lambda body: rows.queued_of(rows.queue_key(1, ULID), body), bytes(15)),
    (lambda body: rows.queued_of(body, bytes(16)), bytes(34)),
    (partitions.decode, bytes(13))])
def test_damaged_rows_are_refused(read, body):
    with pytest.raises(Undecodable):
        read(body)


def test_a_tenant_with_a_zero_byte_has_no_key():
    with pytest.raises(rows.DamagedRow):
        rows.unit_key(Unit(SIX, "a\0b", 1))


# --- snapshots

ROWS = [(b"a", b"1"), (b"a\0", b""), (b"b", b"x" * 999)]


@pytest.mark.parametrize("rows_", [[], ROWS])
def test_a_snapshot_is_read_back(rows_):
    position = Position(1 << 63, 7, (1, 2, 3))
    assert snapshot.decode(snapshot.encode(position, rows_)) == (position, rows_)
    assert snapshot.rows_of(snapshot.stream(rows_)[0]) == rows_


def test_rows_of_a_snapshot_ascend():
    with pytest.raises(ValueError, match="after"):
        snapshot.encode(Position(1, 1, ()), ROWS[::-1])
    backwards = b"".join(snapshot.stream([row])[0] for row in ROWS[::-1])
    with pytest.raises(snapshot.DamagedSnapshot, match="ascend"):
        snapshot.rows_of(backwards)


def test_a_cut_or_changed_snapshot_is_refused():
    file = snapshot.encode(Position(5, 2, (1,)), ROWS)
    for size in range(len(file)):
        with pytest.raises(snapshot.DamagedSnapshot):
            snapshot.decode(file[:size])
    for at in range(8 * len(file)):
        changed = bytearray(file)
        changed[at // 8] ^= 1 << at % 8
        with pytest.raises(snapshot.DamagedSnapshot):
            snapshot.decode(bytes(changed))


@pytest.mark.parametrize("change", [(4, 2), (8, 0), (8, 255), (28, 9), (44, 1)])
def test_a_snapshot_that_was_written_wrong_is_refused_although_its_checksum_holds(change):
    at, value = change
    body = bytearray(snapshot.encode(Position(5, 2, (1,)), ROWS)[:-4])
    body[at + 3] = value
    with pytest.raises(snapshot.DamagedSnapshot):
        snapshot.decode(bytes(body) + struct.pack(">I", crc32c(bytes(body))))


def with_packed_rows(packed: bytes) -> bytes:
    """Return a snapshot file that has these bytes in the place of its compressed rows, and a checksum that holds."""
    file = snapshot.HEAD.pack(snapshot.MAGIC, snapshot.VERSION, 20) + snapshot.POSITION.pack(5, 2, 0)
    file += struct.pack(">Q", len(packed)) + packed + struct.pack(">Q", 1)
    return file + struct.pack(">I", crc32c(file))


@pytest.mark.parametrize("behind", [b"", b"x", zstandard.compress(b"more")])
def test_nothing_stands_behind_the_compressed_rows(behind):
    file = with_packed_rows(zstandard.compress(snapshot.stream(ROWS[:1])[0]) + behind)
    if not behind:
        assert snapshot.decode(file) == (Position(5, 2, ()), ROWS[:1])
    else:
        with pytest.raises(snapshot.DamagedSnapshot, match="unused data"):
            snapshot.decode(file)


def test_rows_that_claim_more_than_memory_holds_are_refused():
    """A few bytes of zstd may claim to hold up to LARGEST_BYTES. Whether the machine gives so much is its own affair."""
    claims = bytes.fromhex("28b52ffde0") + struct.pack("<Q", snapshot.LARGEST_BYTES) + bytes.fromhex("010000")
    with pytest.raises(snapshot.DamagedSnapshot, match="zstd"):
        snapshot.decode(with_packed_rows(claims))


def test_garbage_is_refused_everywhere():
    chance = random.Random(26)
    file, meta = snapshot.encode(Position(5, 2, (1,)), ROWS), bytes.fromhex(GOLDEN["footers"][1]["hex"])
    refused = 0
    for _ in range(3_000):
        for whole, reads in ((file, [snapshot.decode, snapshot.rows_of]), (meta, [
                footer.metadata_of, entries.command_of, rows.strings_of, rows.unit_of, rows.removed_of, rows.tombstone_of])):
            body = bytearray(whole[chance.randrange(len(whole)):][:chance.randrange(1, 200)])
            body[chance.randrange(len(body))] = chance.randrange(256)
            for one in reads:
                try:
                    one(bytes(body))
                except Undecodable:
                    refused += 1
    assert refused > 20_000

"""Scripts of the bytes of a metadata index: what its rows, snapshots and names are, and what is refused as damaged."""

import struct
from typing import Any

import zstandard

from highwater.dst.script import Alone, Script, check, fails_with, same
from highwater.dst.scripts.indexed.one import START_S, block, says, ulid
from highwater.impl.codecs.crc32c import crc32c
from highwater.impl.codecs.index import entries, footer, labels, messages, names, partitions, rows, snapshot, strings, ulids
from highwater.impl.codecs.index.entries import UnknownEntry
from highwater.impl.codecs.index.footer import DamagedFooter
from highwater.impl.codecs.index.labels import MalformedLabels
from highwater.impl.codecs.index.messages import BlockMeta, DamagedMessage, Dataset, GetPlan, decode, encode
from highwater.impl.codecs.index.partitions import InvalidPartition, Partition
from highwater.impl.codecs.index.rows import Block, DamagedRow, Queued, Times, Unit
from highwater.impl.codecs.index.snapshot import DamagedSnapshot, Position
from highwater.impl.codecs.index.strings import UnknownString
from highwater.impl.codecs.index.ulids import InvalidUlid

SIX = Partition(START_S * 10**9)
UNIT = Unit(SIX, "t", 7)
KEY = "184aaacc6320c00000005460"  # of SIX
ROWS = [(b"a", b"1"), (b"a\0", b""), (b"b", b"x" * 99)]


async def ulids_and_partitions(alone: Alone) -> None:
    first = ulids.made(START_S * 1000, bytes(10))
    same((first, ulids.time_ms(first), ulids.time_ns(first)), ("01JY5YRAR00000000000000000", START_S * 1000, SIX.start_ns))
    same(ulids.made((1 << 48) - 1, b"\xff" * 12), "7" + "Z" * 25)
    same(ulids.made(0, bytes(range(10))), "0000000000000G40R40M30E209")
    for at_ms in (-1, 1 << 48):
        says(InvalidUlid, f"byte 0, ULID: {at_ms} ms do not fit a ULID", lambda at_ms=at_ms: ulids.made(at_ms, bytes(10)))
    for text in ("!" * 26, first.lower(), first[:25], f"{first}0", "8" + "0" * 25, "I" * 26, ""):
        fails_with(InvalidUlid, lambda text=text: ulids.time_ms(text))
    last = ulids.made(SIX.end_ns // 10**6 - 1, b"\xff" * 10)
    end = ulids.made(SIX.end_ns // 10**6, bytes(10))
    same([SIX.holds(one) for one in (first, last, end, ulids.made(START_S * 1000 - 1, bytes(10)))], [True, True, False, False])
    same((partitions.partition_of(first), partitions.partition_of(last)), (SIX, SIX))
    same(partitions.partition_of(end), Partition(SIX.end_ns))
    same((partitions.encode(SIX).hex(), partitions.decode(bytes.fromhex(KEY))), (KEY, SIX))
    says(InvalidPartition, "byte 0, partition: 11 bytes", lambda: partitions.decode(bytes(11)))
    latest = ulids.made((1 << 63) // 10**6 // (6 * 3600_000) * 6 * 3600_000 - 1, bytes(10))
    check(partitions.partition_of(latest).end_ns < 1 << 63, "the last partition ends within 63 bits")
    late = ulids.made(ulids.time_ms(latest) + 1, bytes(10))
    says(InvalidPartition, f"byte 0, ULID: {late} was made too late for a partition", lambda: partitions.partition_of(late))


async def windows_as_text(alone: Alone) -> None:
    for start_s, length_s, text in (
            (0, 21600, "1970-01-01 00:00:00 (6h0m0s)"), (951_782_400, 5400, "2000-02-29 00:00:00 (1h30m0s)"),
            (4_107_542_399, 45, "2100-02-28 23:59:59 (45s)"), (4_107_542_400, 60, "2100-03-01 00:00:00 (1m0s)"),
            (-1, 1, "1969-12-31 23:59:59 (1s)"), (1_735_689_599, 3661, "2024-12-31 23:59:59 (1h1m1s)"),
            (1_704_067_200, 0, "2024-01-01 00:00:00 (0s)"), (13_573_569_600, 9, "2400-02-17 12:00:00 (9s)")):
        same(partitions.text(Partition(start_s * 10**9, length_s)), text)
    same([partitions.date_of(day) for day in (-719_468, -1, 58, 59, 60, 11_016, 11_017)], [
        (0, 3, 1), (1969, 12, 31), (1970, 2, 28), (1970, 3, 1), (1970, 3, 2), (2000, 2, 29), (2000, 3, 1)])


async def names_of_jobs_and_objects(alone: Alone) -> None:
    one, other = ulid(1), ulid(2, 1)
    same(names.job_name("t", 7, 2, [one, other]), "82995c9c9e9b9fed-Tt-S7-L2")
    same(names.job_name("", 1, 0, []), "ef46db3751d8e999-T-S1-L0")
    same(names.unit_tombstone_name(SIX, "t", 7), "2025-06-20 06:00:00 (6h0m0s)-Tt-S7")
    made = names.compacted_id([other, one], 1, "t")
    same((ulids.time_ms(made), made), (START_S * 1000, "01JY5YRAR0KC6Y4MPXEFSHD522"))
    same(len({made, *(names.compacted_id(*of) for of in (([one, other], 1, "t"), ([other, one], 2, "t"), ([one], 1, "t"),
                                                         ([other, one], 1, "")))}), 5)
    for level, tenant, path in ((0, "t", f"segments/7/anonymous/{one}/block.bin"), (1, "t", f"blocks/7/t/{one}/block.bin"),
                                (1, "", f"blocks/7/anonymous/{one}/block.bin")):
        same(names.block_path(7, tenant, one, level), path)
    same([names.dead_letter_path(7, tenant, one) for tenant in ("", "t")],
         [f"dlq/7/anonymous/{one}/meta.pb", f"dlq/7/t/{one}/meta.pb"])


async def keys_and_values_of_rows(alone: Alone) -> None:
    same([bucket[0] for bucket in (rows.INDEX, rows.APPLIED, rows.TOMBSTONES, rows.QUEUE, rows.JOB_PLAN, rows.JOB_STATE,
                                   rows.REMOVED, rows.GONE, rows.DROPPED, rows.CLOCK)], [*range(1, 11)])
    same([kind[0] for kind in (rows.TIMES, rows.INCARNATION, rows.STRINGS, rows.BLOCK)], [1, 2, 3, 4])
    key = KEY + "74" "00" "00000007"
    same(rows.unit_key(UNIT).hex(), key)
    same(rows.unit_key(UNIT._replace(tenant="")).hex(), KEY + "2d" "00" "00000007")
    same(rows.unit_of(bytes.fromhex(key) + b"rest"), (UNIT, b"rest"))
    same(rows.unit_of(rows.unit_key(UNIT._replace(tenant=""))), (UNIT._replace(tenant=""), b""))
    same((rows.index_key(UNIT).hex(), rows.index_key(UNIT, rows.BLOCK, b"x").hex()), (f"01{key}", f"01{key}0478"))
    same((rows.block_key(UNIT, "U").hex(), rows.strings_key(UNIT, 3).hex()), (f"01{key}0455", f"01{key}0300000003"))
    same(rows.dropped_key(UNIT).hex(), f"09{key}")
    times = Times(5, 6, 2)
    same((rows.times_value(times), rows.times_of(struct.pack(">qqQ", 5, 6, 2))), (struct.pack(">qqQ", 5, 6, 2), times))
    same(rows.times_of(struct.pack(">qq", 5, 6)), Times(5, 6, 0))
    same(rows.strings_value(("ab", "é")).hex(), "00000002" "00000002" "6162" "00000002" "c3a9")
    same(rows.strings_of(rows.strings_value(("ab", "", "é"))), ("ab", "", "é"))
    same((rows.applied_value(3, 9), rows.applied_of(struct.pack(">QQ", 3, 9))), (struct.pack(">QQ", 3, 9), (3, 9)))
    same(rows.tombstone_key(1, 2, "j").hex(), "03" "0000000000000001" "0000000000000002" "6a")
    same(rows.tombstone_of(rows.tombstone_key(1, 2, "jé")), (1, 2, "jé"))
    same(rows.tombstone_of(rows.tombstone_key(1, 2, "")), (1, 2, ""))
    queued = Queued(7, ulid(1), 5, 1, 2, "t")
    same((rows.queue_key(7, ulid(1)), rows.queue_value(queued).hex()),
         (b"\4" + struct.pack(">Q", 7) + ulid(1).encode(), "0000000000000005" "00000001" "00000002" "74"))
    same(rows.queued_of(rows.queue_key(7, ulid(1)), rows.queue_value(queued)), queued)
    anonymous = queued._replace(tenant="")
    same(rows.queued_of(rows.queue_key(7, ulid(1)), rows.queue_value(anonymous)), anonymous)
    same(rows.name_key(rows.JOB_PLAN, "j"), b"\5j")
    for named in (Block(ulid(1), 7, "t"), Block(ulid(1), 7, "")):
        key_ = rows.removed_key(rows.GONE, named)
        same((key_, rows.removed_of(key_)), (b"\x08" + ulid(1).encode() + b"\0\0\0\7" + named.tenant.encode(), named))


async def damaged_rows_are_refused(alone: Alone) -> None:
    whole = rows.unit_key(UNIT)
    queued, value = rows.queue_key(1, ulid(1)), bytes(16)
    cases: tuple[tuple[Any, tuple[Any, ...], str], ...] = (
        (rows.strings_of, (b"\0\0\0",), "byte 3, .strings: cut short"),
        (rows.strings_of, (b"\0\0\0\1\0\0\0",), "byte 7, .strings: cut short"),
        (rows.strings_of, (b"\0\0\0\1\0\0\0\2a",), "byte 9, .strings: cut short"),
        (rows.strings_of, (b"\0\0\0\0xy",), "byte 4, .strings: 2 bytes too many"),
        (rows.times_of, (bytes(23),), "byte 0, .index: 23 bytes instead of 24"),
        (rows.times_of, (bytes(17),), "byte 0, .index: 17 bytes instead of 24"),
        (rows.applied_of, (bytes(15),), "byte 0, applied index: 15 bytes instead of 16"),
        (rows.unit_of, (whole[:-1],), f"byte {len(whole) - 1}, key: the key of a unit is cut short"),
        (rows.unit_of, (bytes(12) + b"t",), "byte 13, key: the key of a unit is cut short"),
        (rows.tombstone_of, (bytes(16),), "byte 16, key of a tombstone: cut short"),
        (rows.removed_of, (bytes(30),), "byte 30, key of a removed block: cut short"),
        (rows.queued_of, (queued, bytes(15)), "byte 35, row of the compaction queue: cut short"),
        (rows.queued_of, (queued[:-1], value), "byte 34, row of the compaction queue: cut short"),
        (rows.queued_of, (queued + b"0", value), "byte 36, row of the compaction queue: cut short"),
        (rows.tenant_bytes, ("a\0b",), "byte 0, tenant: the tenant 'a\\x00b' has a zero byte"))
    read: Any
    of: Any
    for read, of, text in cases:
        says(DamagedRow, text, lambda read=read, of=of: read(*of))
    for read, of in ((rows.strings_of, (b"\0\0\0\1\0\0\0\1\xff",)), (rows.tenant_text, (b"\xff",)),
                     (rows.tombstone_of, (bytes(17) + b"\xff",)), (rows.queued_of, (queued, value + b"\xff"))):
        fails_with(DamagedRow, lambda read=read, of=of: read(*of))
    try:
        rows.text_of(b"a\xff", "name")
    except DamagedRow as error:
        same((error.offset, error.field), (1, "name"))


async def labels_are_cut_into_groups(alone: Alone) -> None:
    told = [2, 5, 19, 3, 15, 0, 1, 24, 9]
    groups = (((5, 19), (3, 15)), (), ((24, 9),))
    same((labels.groups_of(told), labels.flat(groups), labels.positions(told)), (groups, told, [1, 2, 3, 4, 7, 8]))
    same((labels.groups_of([]), labels.groups_of([0]), labels.positions([0, 0])), ((), ((),), []))
    for wrong, text in (([1], "a group of 1 pairs has 0 numbers"), ([2, 1, 1, 2], "a group of 2 pairs has 3 numbers"),
                        ([-1], "a group of -1 pairs")):
        says(MalformedLabels, f"byte 0, labels: {text}", lambda wrong=wrong: labels.groups_of(wrong))
        says(MalformedLabels, f"byte 1, labels: {text}", lambda wrong=wrong: labels.groups_of([0, *wrong]))


async def strings_move_between_tables(alone: Alone) -> None:
    same(strings.table_of(("a", "b")), strings.Table(("", "a", "b"), {"": 0, "a": 1, "b": 2}))
    same(strings.table_of_rows((rows.strings_value(("a", "b")), rows.strings_value(("c",)))).strings, ("", "a", "b", "c"))
    for twice in (("a", "a"), ("a", "")):
        says(UnknownString, "byte 0, .strings: a string stands twice in the table of a shard",
             lambda twice=twice: strings.table_of(twice))
    made = BlockMeta(id=ulid(1), tenant=2, created_by=1, string_table=["", "q", "t", "q", "r"],
                     datasets=[Dataset(tenant=2, name=4, labels=[1, 1, 4])])
    own, new = strings.imported(strings.table_of(("t", "x")), made)
    same((new, own.tenant, own.created_by, len(own.string_table)), (("q", "r"), 1, 3, 0))
    same((own.datasets[0].tenant, own.datasets[0].name, list(own.datasets[0].labels)), (1, 4, [1, 3, 4]))
    same((made.tenant, len(made.string_table)), (2, 5))
    out = strings.exported(("", "t", "x", "q", "r"), own)
    same((list(out.string_table), out.tenant, out.created_by), (["", "t", "q", "r"], 1, 2))
    same((out.datasets[0].tenant, out.datasets[0].name, list(out.datasets[0].labels)), (1, 3, [1, 2, 3]))
    same((own.tenant, len(own.string_table)), (1, 0))
    same(strings.imported(strings.EMPTY, BlockMeta()), (BlockMeta(), ()))
    says(UnknownString, "byte 0, string_table: reference 1 into a table of 0 strings",
         lambda: strings.imported(strings.EMPTY, BlockMeta(tenant=1)))
    for reference in (-1, 2):
        says(UnknownString, f"byte 0, .strings: reference {reference} into a table of 2 strings",
             lambda of=reference: strings.exported(("", "a"), BlockMeta(tenant=of)))
        says(UnknownString, f"byte 0, string_table: reference {reference} into a table of 2 strings",
             lambda of=reference: strings.imported(strings.EMPTY, BlockMeta(tenant=of, string_table=["", "a"])))
        says(UnknownString, f"byte 0, tenant: tenant {reference} of a table of 2 strings",
             lambda of=reference: strings.tenant_of(BlockMeta(tenant=of, string_table=["", "a"])))
    same([strings.tenant_of(of) for of in (BlockMeta(), BlockMeta(string_table=[""]), made)], ["", "", "t"])
    says(UnknownString, "byte 0, tenant: tenant 1 of a table of 0 strings", lambda: strings.tenant_of(BlockMeta(tenant=1)))


async def references_are_checked(alone: Alone) -> None:
    strings.check_references(BlockMeta())
    for of in ({"tenant": 2}, {"tenant": -1}, {"created_by": 2}, {"datasets": [Dataset(tenant=2)]},
               {"datasets": [Dataset(), Dataset(name=2)]}, {"datasets": [Dataset(labels=[1, 2, 1])]},
               {"datasets": [Dataset(labels=[1, 1, 1, 1, 0, 2])]}):
        fails_with(UnknownString, lambda of=of: strings.check_references(BlockMeta(string_table=["", "a"], **of)))
    fails_with(MalformedLabels, lambda: strings.check_references(BlockMeta(datasets=[Dataset(labels=[1])])))
    says(UnknownString, "byte 0, string_table: reference 1 into a table of 1 strings",
         lambda: strings.check_references(BlockMeta(tenant=1)))


async def entries_of_the_log(alone: Alone) -> None:
    body = entries.entry(GetPlan(assign_jobs_max=3))
    same((body[:4], entries.command_of(body)), (b"\0\0\0\2", GetPlan(assign_jobs_max=3)))
    same([(kind, of.DESCRIPTOR.name) for kind, of in entries.KINDS.items()], [
        (1, "AddBlockMetadataRequest"), (2, "GetCompactionPlanUpdateRequest"), (3, "UpdateCompactionPlanRequest"),
        (4, "TruncateIndexRequest")])
    same(entries.LEVEL, 1)
    says(UnknownEntry, "byte 0, kind: 3 bytes are too few for an entry", lambda: entries.command_of(bytes(3)))
    for kind in (0, 5):
        says(UnknownEntry,
             f"byte 0, kind: kind {kind}, and this highwater, whose index has level 1, knows kinds 1 to 4: start the "
             "version that wrote it", lambda kind=kind: entries.command_of(struct.pack(">I", kind)))
    fails_with(DamagedMessage, lambda: entries.command_of(b"\0\0\0\1\x0a\x05"))


async def messages_are_protobuf(alone: Alone) -> None:
    made = block(1, tenant="t")
    same(decode(BlockMeta, encode(made)), made)
    same(messages.from_json(BlockMeta, messages.to_json(made).encode()), made)
    check('"min_time":"1000"' in messages.to_json(made).replace(" ", ""), "JSON has the names of the table")
    for status, name in enumerate(("UNSPECIFIED", "IN_PROGRESS", "SUCCESS")):
        told = messages.from_json(messages.StatusUpdate, b'{"status":"COMPACTION_STATUS_%s"}' % name.encode())
        same((told.status, f"COMPACTION_STATUS_{name}" in messages.to_json(told) or not status), (status, True))
    for wrong in (b"{", b"\xff", b'{"nothing": 1}'):
        fails_with(DamagedMessage, lambda wrong=wrong: messages.from_json(BlockMeta, wrong))
    fails_with(DamagedMessage, lambda: decode(BlockMeta, b"\x08"))
    fails_with(DamagedMessage, lambda: messages.fill(BlockMeta(), b"\x08"))
    newer = encode(made) + b"\xba\x3e\x03\x01\x02\x03"
    same(encode(decode(BlockMeta, newer)), newer)
    copy = messages.copied(made)
    copy.shard = 9
    same((made.shard, copy.id), (1, made.id))
    described = messages.described("1 *string a, 2 Dataset b, 3 CompactionJobStatus c")
    same([(of.number, of.name, of.label, of.type, of.type_name) for of in described], [
        (1, "a", 3, 9, ""), (2, "b", 1, 11, ".highwater.index.Dataset"), (3, "c", 1, 14,
                                                                          ".highwater.index.CompactionJobStatus")])
    again = messages.classes()
    same([(name, of.DESCRIPTOR.full_name) for name, of in again.items()],
         [(name, f"highwater.index.{name}") for name in messages.MESSAGES])


async def footers_of_objects(alone: Alone) -> None:
    made = block(1)
    told = footer.footer(made)
    metadata = encode(made)
    sized = metadata + struct.pack(">I", len(metadata))
    same(told, sized + struct.pack(">I", crc32c(sized)))
    same((footer.footer_size_bytes(told), footer.footer_size_bytes(told[-8:])), (len(told), len(told)))
    same((footer.metadata_of(told), footer.metadata_of(b"data" + told)), (made, made))
    made.size = 99
    same(footer.metadata_of(told, 99), made)
    says(DamagedFooter, "byte 0, footer: 7 bytes are too few for a footer", lambda: footer.footer_size_bytes(bytes(7)))
    says(DamagedFooter, f"byte {len(told) - 9}, size: the footer needs 1 bytes more than there are",
         lambda: footer.metadata_of(told[1:]))
    says(DamagedFooter, f"byte {len(told) - 4}, checksum: the CRC-32C does not hold",
         lambda: footer.metadata_of(b"\1" + told[1:]))


def sealed(file: bytes) -> bytes:
    return file + struct.pack(">I", crc32c(file))


async def snapshots_are_whole(alone: Alone) -> None:
    body, count = snapshot.stream(ROWS)
    same((body[:19].hex(), count), ("00000001" "61" "00000001" "31" "00000002" "6100" "000000", 3))
    same((snapshot.rows_of(body), snapshot.rows_of(b""), snapshot.stream([])), (ROWS, [], (b"", 0)))
    for wrong in ([ROWS[1], ROWS[0]], [ROWS[0], ROWS[0]]):
        says(ValueError, f"key b'a' after {wrong[0][0]!r}", lambda wrong=wrong: snapshot.stream(wrong))
        pieces = b"".join(snapshot.stream([row])[0] for row in wrong)
        says(DamagedSnapshot, f"byte {len(pieces)}, rows: keys do not ascend", lambda of=pieces: snapshot.rows_of(of))
    for size in (1, 4, 8, 9, len(body) - 1):
        fails_with(DamagedSnapshot, lambda size=size: snapshot.rows_of(body[:size]))
    position = Position(1 << 63, 7, (3, 1, 2))
    file = snapshot.encode(position, ROWS)
    same((snapshot.decode(file), file[:12]), ((position, ROWS), b"HWIX" + struct.pack(">II", 1, 44)))
    same(snapshot.decode(snapshot.encode(Position(0, 0, ()), [])), (Position(0, 0, ()), []))


async def damaged_snapshots_are_refused(alone: Alone) -> None:
    file = snapshot.encode(Position(5, 2, (1,)), ROWS)
    packed = zstandard.ZstdCompressor().compress(snapshot.stream(ROWS)[0])
    head = struct.pack(">4sIIQQIQ", b"HWIX", 1, 28, 5, 2, 1, 1)
    end = len(file) - 4

    def made(head: bytes = head, packed: bytes = packed, size: int = 0, count: int = 3) -> bytes:
        return sealed(head + struct.pack(">Q", size or len(packed)) + packed + struct.pack(">Q", count))

    whole = len(made())
    same(snapshot.decode(made()), (Position(5, 2, (1,)), ROWS))
    claims = zstandard.ZstdCompressor().compressobj(size=(1 << 36) + 1).compress(b"x" * (1 << 18))
    for wrong, text in (
            (file[:51], "byte 0, snapshot: 51 bytes are too few"), (b"X" + file[1:], "byte 0, magic: this is no snapshot"),
            (file[:4] + struct.pack(">I", 2) + file[8:], "byte 4, version: version 2: this release reads version 1"),
            (file[:end - 1] + b"\1" + file[end:], f"byte {end}, checksum: the CRC-32C does not hold"),
            (made(head[:8] + struct.pack(">I", 19) + head[12:]), "byte 12, header: its length is not that of its parts"),
            (made(head[:8] + struct.pack(">I", 999) + head[12:]), "byte 12, header: its length is not that of its parts"),
            (made(head[:8] + struct.pack(">I", whole - 31) + head[12:]),
             "byte 12, header: its length is not that of its parts"),
            (made(head[:8] + struct.pack(">I", whole - 32) + head[12:]),
             f"byte {whole - 20}, rows: its length is not that of its parts"),
            (made(struct.pack(">4sIIQQI", b"HWIX", 1, 20, 5, 2, 1)), "byte 32, rows: its length is not that of its parts"),
            (made(size=len(packed) + 1), "byte 40, rows: its length is not that of its parts"),
            (made(count=4), f"byte {len(made()) - 12}, number of rows: 3 rows, and not 4")):
        says(DamagedSnapshot, text, lambda wrong=wrong: snapshot.decode(wrong))
    says(DamagedSnapshot, "byte 48, rows: it claims to hold too much", lambda: snapshot.decode(made(packed=claims)))
    fails_with(DamagedSnapshot, lambda: snapshot.decode(made(packed=b"no zstd")))
    fails_with(DamagedSnapshot, lambda: snapshot.decode(made(packed=packed[:-3])))
    fails_with(DamagedSnapshot, lambda: snapshot.decode(made(packed=packed + b"more")))
    fails_with(DamagedSnapshot, lambda: snapshot.decode(made(packed=packed + packed)))


SCRIPTS: tuple[Script, ...] = (
    ulids_and_partitions, windows_as_text, names_of_jobs_and_objects, keys_and_values_of_rows, damaged_rows_are_refused,
    labels_are_cut_into_groups, strings_move_between_tables, references_are_checked, entries_of_the_log, messages_are_protobuf,
    footers_of_objects, snapshots_are_whole, damaged_snapshots_are_refused)

"""SlateDB's own files: reading, writing, refusals, and damage."""

import asyncio
import random
import struct
from functools import cache
from typing import NamedTuple

import hypothesis
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.impl.codecs.manifest import CannotHold, Manifest
from highwater.impl.codecs.slatedb import compactions
from highwater.impl.codecs.slatedb import tables as table_module
from highwater.impl.codecs.slatedb.flatbuffer import (
    I64,
    STRUCTS,
    U16,
    U64,
    DamagedBuffer,
    Flag,
    NewerFields,
    Uuid,
    Writer,
    number_of_ulid,
    number_of_uuid,
    read,
    slots_of,
    ulid_of,
    uuid_of,
    write,
)
from highwater.impl.codecs.slatedb.header import InvalidFile, version_of
from highwater.impl.codecs.slatedb.manifest import KNOWN, ManifestCodec, Phase
from highwater.impl.codecs.slatedb.tables import (
    COMPACTED,
    COMPLETED,
    EXCLUDED,
    FAILED,
    INCLUDED,
    RUNNING,
    SCHEDULED,
    STATUSES,
    SUBMITTED,
    UNBOUNDED,
    Bound,
    Checkpoint,
    CompactionsV1,
    ExternalDb,
    ManifestV1,
    ManifestV2,
    Range,
    Run,
    Segment,
    Sst,
    SstInfo,
    SstV1,
    Tiered,
    View,
    Worker,
    WriterCheckpoint,
)
from highwater.impl.errors import Definite
from highwater.impl.layout import Namespace
from highwater.impl.protocols.manifest_migration import V1Remains, begin_v2_only
from highwater.impl.protocols.sequenced_storage import ObjectVersionExists, SequencedStorage
from highwater.impl.stores.memory import MemoryStore
from highwater.impl.stores.system import system_world
from tests.support.slatedb import plain, written

V1, V2, V2_ONLY = (ManifestCodec(phase) for phase in Phase)
A, B, C = (ulid_of(number) for number in (1 << 80, 2 << 80, 3 << 80))
UUID = "01740ee5-6459-44af-9a45-85deb6e468e3"
SSTS = tuple(Sst(name, SstInfo(first_entry=b"a", index_offset=40, index_len=52, last_entry=b"z"), 2) for name in (A, B, C))
LEFT, RIGHT = (Range(Bound(*start), Bound(*end)) for start, end in (((b"a", INCLUDED), (b"m", EXCLUDED)),
                                                                    ((b"m", INCLUDED), (b"z", INCLUDED))))
FULL = Manifest(
    external_dbs=(ExternalDb("some/where", UUID, UUID, (B,)),), initialized=True, writer_epoch=3, compactor_epoch=2,
    replay_after_wal_id=7, wal_id_last_seen=9, last_compacted_l0_view_id=C, last_compacted_l0_sst_id=C, ssts=SSTS[:2],
    l0=(View(A, A),), compacted=(Run(1, (View(B, B, LEFT),)), Run(0, (View(B, B, RIGHT),))), last_l0_clock_tick=-5,
    checkpoints=(Checkpoint(UUID, 4, 0, 1_795_304_338, WriterCheckpoint(3), "nightly"),), last_l0_seq=11,
    recent_snapshot_min_seq=10, sequence_tracker=b"\x01\x02")


# -------------------------------------------------------------------------------------------------- what others wrote

def test_a_v1_manifest_of_a_released_client():
    manifest = V1.decode(written.MANIFEST_V1)
    name = "01M807YTAWX4FF20EJ82ZS312V"
    assert manifest.l0 == (View(name, name),) and manifest.ssts[0].info.first_entry == b"k00"
    assert manifest.ssts[0].format_version == 2 and manifest.ssts[0].info.stats_len == 84
    assert (manifest.initialized, manifest.writer_epoch, manifest.compactor_epoch) == (True, 1, 0)
    assert (manifest.replay_after_wal_id, manifest.wal_id_last_seen, manifest.last_l0_seq) == (4, 4, 3)
    assert not manifest.unknown and V1.decode(V1.encode(manifest)) == manifest


def test_a_v2_manifest_of_a_released_client():
    manifest = V2.decode(written.MANIFEST_V2)
    assert [view.id for view in manifest.l0] == [sst.id for sst in manifest.ssts] == [manifest.views[0].sst_id]
    assert manifest.writer_epoch == 1 and not manifest.unknown and V2.decode(V2.encode(manifest)) == manifest


def test_a_compactions_file_of_a_released_client():
    found = compactions.decode(written.COMPACTIONS)
    (compaction,) = found.recent_compactions
    assert isinstance(compaction.spec, Tiered) and len(compaction.spec.l0_view_ids) == 4 and compaction.spec.segment == b""
    assert compaction.status == RUNNING and compaction.worker == Worker("01M8088235NY24HKP290CGG3FY", 1795304982772)
    assert compactions.decode(compactions.encode(found)) == found


# ------------------------------------------------------------------------------------------------------- all there is

@pytest.mark.parametrize("codec", [V1, V2], ids=["V1", "V2"])
def test_what_is_written_is_read_again(codec):
    assert V2.decode(codec.encode(FULL))._replace(last_compacted_l0_sst_id=C) == FULL
    assert codec.encode(FULL)[:2] == bytes([0, {V1: 1, V2: 2}[codec]])


def test_v2_holds_segments():
    manifest = FULL._replace(segments=(Segment(b"p/", C, (View(C, A, LEFT),), (Run(5, (View(B, B),)),)),),
                             segment_extractor_name="prefix")
    assert V2.decode(V2.encode(manifest)) == manifest._replace(last_compacted_l0_sst_id=None)
    assert len(manifest.views) == 5


def values_of(kind):
    """A strategy for any kind of slot."""
    if isinstance(kind, list):
        return st.one_of(*map(tables, kind))
    if isinstance(kind, tuple):
        return st.lists(values_of(kind[0]), max_size=3).map(tuple)
    if isinstance(kind, type):
        return tables(kind)
    if kind in ("bytes", "str"):
        return st.binary(max_size=9) if kind == "bytes" else st.text(max_size=9)
    if kind in ("uuid", "ulid"):
        return st.integers(0, 2**128 - 1).map(uuid_of if kind == "uuid" else ulid_of)
    if kind == "?":
        return st.booleans()
    bits = 8 * struct.calcsize(kind)
    return st.integers(-2**(bits - 1), 2**(bits - 1) - 1) if kind.islower() else st.integers(0, 2**bits - 1)


@cache
def tables(table):
    slots = [slot for slot in slots_of(table) if slot.name in table._fields]
    return st.builds(table, **{slot.name: values_of(slot.kind) if slot.required else
                               st.one_of(st.just(slot.default), values_of(slot.kind)) for slot in slots})


@pytest.mark.parametrize("table", [ManifestV1, ManifestV2, CompactionsV1], ids=lambda table: table.__name__)
@settings(max_examples=15, deadline=None, derandomize=True)
@given(data=st.data())
def test_any_table_is_written_and_read(table, data):
    value = data.draw(tables(table))
    assert read(write(value), table) == (value, ())


def test_every_number_is_at_a_multiple_of_its_size():
    """Readers in other languages rely on it: the released reader refuses a file with a misaligned number."""
    buffer = write(ManifestV2(writer_epoch=1, initialized=True, last_l0_clock_tick=5))
    start = struct.unpack_from("<I", buffer)[0]
    vtable = start - struct.unpack_from("<i", buffer, start)[0]
    offsets = struct.unpack_from(f"<{(struct.unpack_from('<H', buffer, vtable)[0] - 4) // 2}H", buffer, vtable + 4)
    for slot, offset in zip(slots_of(ManifestV2), offsets):
        if offset and isinstance(slot.kind, str) and len(slot.kind) == 1:
            assert (start + offset) % struct.calcsize(slot.kind) == 0


class Columns(NamedTuple):
    """Vectors of numbers of every size. SlateDB's files have none of these, but the format does."""

    flags: tuple[Flag, ...] = ()
    small: tuple[U16, ...] = ()
    whole: tuple[U64, ...] = ()
    signed: tuple[I64, ...] = ()
    name: str | None = None


class Strict(plain.Reader):
    """A reader that accepts numbers at multiples of their size only, and texts that end with a zero byte."""

    def number(self, letter, position, path):
        assert position % struct.calcsize(letter) == 0, f"{path}: {letter} at {position}"
        return super().number(letter, position, path)

    def value(self, position, kind, path):
        found = super().value(position, kind, path)
        if kind == "str":
            at = self.follow(position, path)
            assert self.buffer[at + 4 + self.number("I", at, path)] == 0, f"{path}: no zero byte after {found!r}"
        return found


@pytest.mark.parametrize("table", [ManifestV1, ManifestV2, CompactionsV1, Columns], ids=lambda table: table.__name__)
@settings(max_examples=25, deadline=None, derandomize=True, phases=[hypothesis.Phase.generate])  # it shrinks for minutes
@given(data=st.data())
def test_whatever_is_written_a_strict_reader_accepts(table, data):
    """The root stands at 0. Equal values have equal bytes, so a copy of a file can be recognised."""
    value = data.draw(tables(table))
    reader = Strict(write(value))
    assert reader.table(reader.follow(0, ""), table, "") == value and not reader.unknown
    assert write(table._make(value)) == reader.buffer


@pytest.mark.parametrize("table", [ManifestV1, ManifestV2, CompactionsV1, Columns], ids=lambda table: table.__name__)
@settings(max_examples=25, deadline=None, derandomize=True, phases=[hypothesis.Phase.generate])
@given(data=st.data())
def test_reader_and_writer_say_the_same_as_plain_ones(table, data):
    """Both return the same for a damaged buffer, or both refuse it. Ours alone refuses a field inside another one."""
    value, choose = data.draw(tables(table)), random.Random(data.draw(st.integers(0, 1 << 32)))
    written_ = write(value)
    assert written_ == plain.write(value)
    for _ in range(30):
        damaged = bytearray(written_)
        for _ in range(choose.randrange(1, 4)):
            damaged[choose.randrange(len(damaged))] = choose.choice((0, 1, 4, 8, 127, 128, 255, choose.randrange(256)))
        found, expected = (read_by(one, bytes(damaged), table) for one in (read, plain.read))
        assert found == expected or (isinstance(found, str) and "is inside another field" in found)


def read_by(reads, buffer, table):
    """Return what is read, or the text of the refusal up to the place of the damage."""
    try:
        return reads(buffer, table)
    except DamagedBuffer as error:
        return "refused" if "is inside another field" not in str(error) else str(error)


def test_fields_that_overlap_are_damage():
    buffer = bytearray(write(SstInfo(index_offset=1, index_len=2)))
    vtable = buffer.index(struct.pack("<HHH", 10, 20, 0))
    buffer[vtable + 8:vtable + 10] = struct.pack("<H", 4)
    with pytest.raises(DamagedBuffer, match="SstInfo.index_len: its offset 4 is inside another field"):
        read(bytes(buffer), SstInfo)


def test_an_absent_number_is_zero():
    """A released client leaves out what is 0, and a FlatBuffer does not say what an absent field is. Its schema does."""
    of_files = [table for table in vars(table_module).values() if isinstance(table, type) and hasattr(table, "_fields")
                and table.__module__ == table_module.__name__]
    numbers = [slot for table in of_files for slot in slots_of(table) if slot.kind in list(STRUCTS)]
    assert len(of_files) > 15 and len(numbers) > 40
    assert [slot for slot in numbers if slot.default not in (0, False)] == []
    assert {default for name in KNOWN if isinstance(default := getattr(Manifest(), name), int)} == {0}


def test_numbers_of_bounds_and_statuses_are_those_of_the_schema():
    assert (UNBOUNDED, INCLUDED, EXCLUDED) == (1, 2, 3)
    assert (SUBMITTED, RUNNING, COMPLETED, FAILED, COMPACTED, SCHEDULED) == (0, 1, 2, 3, 4, 5) and len(STATUSES) == 6


def test_two_bytes_are_a_version():
    assert version_of(b"\0\2") == 2
    with pytest.raises(InvalidFile, match="it has 1 bytes, too few for a version"):
        version_of(b"\0")
    with pytest.raises(DamagedBuffer):
        V2.decode(b"\0\2")


@pytest.mark.parametrize("text", ["", UUID.upper(), UUID.replace("-", ""), UUID[:-1] + "g"])
def test_what_is_no_uuid(text):
    with pytest.raises(ValueError, match="UUID"):
        number_of_uuid(text)


@pytest.mark.parametrize("text", ["", "01m807ytawx4ff20ej82zs312v", A + "0", "8" * 26, "U" * 26])
def test_what_is_no_ulid(text):
    with pytest.raises(ValueError, match="ULID"):
        number_of_ulid(text)


# --------------------------------------------------------------------------------------------------------- newer files

def with_another_slot(manifest):
    """The file of a release that has added one field to V2: what an older one knows of it is the same."""
    newer = NamedTuple("Newer", [*ManifestV2.__annotations__.items(), ("ingest_outcome", Uuid)])
    newer._field_defaults = ManifestV2._field_defaults | {"ingest_outcome": None}
    return b"\0\x02" + write(newer(*read(V2.encode(manifest)[2:], ManifestV2)[0], UUID))


def test_a_newer_field_is_told_and_not_dropped():
    found = V2.decode(with_another_slot(FULL))
    assert found.unknown == ("ManifestV2 slot 18",) and found.writer_epoch == 3
    for codec in (V1, V2):
        with pytest.raises(NewerFields, match="ManifestV2 slot 18, which this release does not know and would drop"):
            codec.encode(found._replace(writer_epoch=4))


def test_a_newer_kind_of_a_union_is_told():
    file = bytearray(compactions.encode(compactions.decode(written.COMPACTIONS)))
    place = next(at for at in range(2, len(file)) if file[at] == 1 and is_tag(file, at))
    file[place] = 7
    found = compactions.decode(bytes(file))
    assert found.unknown == ("CompactionsV1.recent_compactions[0].spec of kind 7",)
    with pytest.raises(NewerFields, match="kind 7"):
        compactions.encode(found)


def is_tag(file, at):
    changed = bytearray(file)
    changed[at] = 7
    try:
        return bool(compactions.decode(bytes(changed)).unknown)
    except Definite:
        return False


def test_an_old_compactions_file_is_not_called_new():
    old = b"\0\x01" + compactions.encode(compactions.decode(written.COMPACTIONS))[2:]
    with pytest.raises(InvalidFile, match="version 1"):
        compactions.encode(compactions.decode(old))
    assert compactions.decode(compactions.encode(compactions.decode(b"\0\x01" + write(CompactionsV1(4))))).compactor_epoch == 4


# --------------------------------------------------------------------------------------------------------------- damage

@pytest.mark.parametrize("body", [b"", b"\0", b"\0\x02", b"\0\x03" + V2.encode(FULL)[2:], b"\x02\0", b"{}", b"\xff" * 100,
                                  V2.encode(FULL)[:-1], V2.encode(FULL)[:40], b"\0\x02" + b"\0" * 60], ids=repr)
def test_what_is_no_manifest(body):
    with pytest.raises((InvalidFile, DamagedBuffer)):
        V2.decode(body)


def test_a_version_that_is_not_known_is_named():
    with pytest.raises(InvalidFile, match="its version is 3, but this release reads manifests of version 1 or 2"):
        V2.decode(b"\0\x03" + V2.encode(FULL)[2:])


def test_every_cut_of_a_file_is_noticed():
    manifests = (V2.decode, V1.encode(FULL)), (V2.decode, written.MANIFEST_V2)
    for decode, file in (*manifests, (compactions.decode, written.COMPACTIONS)):
        for size_bytes in range(len(file) - 8):  # at the end may be zeros that align
            with pytest.raises((InvalidFile, DamagedBuffer)):
                decode(file[:size_bytes])


def test_no_damage_is_more_than_an_error():
    """Whatever a byte becomes: a value, or one of two errors; and soon."""
    choose = random.Random(7)
    files = [(V2.decode, V1.encode(FULL)), (V2.decode, V2.encode(FULL)), (compactions.decode, written.COMPACTIONS)]
    noticed = 0
    for _ in range(1500):
        decode, file = choose.choice(files)
        file = bytearray(file)
        for _ in range(choose.randrange(1, 4)):
            file[choose.randrange(2, len(file))] = choose.choice((0, 1, 127, 128, 255, choose.randrange(256)))
        try:
            decode(bytes(file))
        except (InvalidFile, DamagedBuffer):
            noticed += 1
    assert noticed > 500


class Sharing(Writer):
    """Writes equal tables once, and points to them from everywhere."""

    def __init__(self):
        super().__init__()
        self.made = {}

    def table(self, value):
        if value not in self.made:
            self.made[value] = super().table(value)
        return self.made[value]


def test_parts_that_overlap_do_not_read_for_ever():
    """1,000 offsets to one SST with a key of 4,000 bytes: 8 KB that would be read as 4 MB."""
    writer = Sharing()
    writer.buffer += b"\0" * 4
    writer.point(0, ManifestV1(l0=(SstV1(A, SstInfo(first_entry=b"x" * 4000)),) * 1000), ManifestV1)
    assert len(writer.buffer) < 9000
    with pytest.raises(DamagedBuffer, match="overlap"):
        read(bytes(writer.buffer), ManifestV1)


# ------------------------------------------------------------------------------------------------------ the migration

def test_phase_1_writes_v1_and_reads_both():
    assert V1.decode(V2.encode(FULL)).l0 == FULL.l0
    assert V1.encode(FULL)[1] == 1


def test_phase_1_keeps_the_sst_beside_the_view():
    """«a last_compacted_l0_sst_id field is maintained alongside last_compacted_l0_sst_view_id, since V1 encodes
    l0_last_compacted as an SST ID rather than a view ID»"""
    compacted = FULL._replace(last_compacted_l0_view_id=B, last_compacted_l0_sst_id=A)
    assert read(V1.encode(compacted)[2:], ManifestV1)[0].last_compacted_l0_sst_id == A
    assert read(V2.encode(compacted)[2:], ManifestV2)[0].last_compacted_l0_view_id == B


@pytest.mark.parametrize("change, what", [
    ({"segments": (Segment(b"p"),)}, "segments"),
    ({"segment_extractor_name": "prefix"}, "segments"),
    ({"l0": (View(A, A, LEFT), View(C, A, RIGHT))}, "two views of SST"),
    ({"last_compacted_l0_sst_id": None}, "the last compacted view"),
    ({"ssts": SSTS}, "which has no view"),
    ({"ssts": SSTS[:1]}, "which is not in the manifest"),
])
def test_what_v1_cannot_hold_is_refused(change, what):
    with pytest.raises(CannotHold, match=f"manifest V1 cannot hold .*{what}"):
        V1.encode(FULL._replace(**change))
    assert V2.encode(FULL._replace(**change))


def test_what_v2_cannot_hold_is_refused():
    manifest = FULL._replace(wal_object_store_uri="s3://wal")
    assert V1.decode(V1.encode(manifest)) == manifest
    with pytest.raises(CannotHold, match="manifest V2 cannot hold the WAL store's URI 's3://wal'"):
        V2.encode(manifest)


def test_two_views_with_one_id_stand_in_v1_as_they_are():
    """Release 0.17.0 makes such views in a union (docs/operating/findings.md)."""
    manifest = FULL._replace(l0=(View(A, A, LEFT), View(A, A, RIGHT)))
    assert V1.decode(V1.encode(manifest)) == manifest


def test_a_v1_file_with_two_contents_of_one_sst_is_refused():
    table = ManifestV1(l0=(SstV1(A, SSTS[0].info), SstV1(A, SSTS[0].info._replace(index_len=1))))
    with pytest.raises(InvalidFile, match="twice, with different contents"):
        V1.decode(b"\0\x01" + write(table))


def test_phase_3_reads_v2_only():
    with pytest.raises(InvalidFile, match="its version is 1, but this release reads manifests of version 2"):
        V2_ONLY.decode(V1.encode(FULL))
    assert V2_ONLY.decode(V2_ONLY.encode(FULL)).writer_epoch == 3


def test_phase_3_is_refused_while_a_v1_file_remains():
    async def go():
        world = system_world(MemoryStore())
        key = Namespace("db", "manifest").key
        for file_id, codec in enumerate((V1, V2, V1, V2), 1):
            await world.store.create(key(file_id), codec.encode(FULL))
        with pytest.raises(V1Remains, match=r"2 manifests in 'db/manifest/' are V1, the first is 1"):
            await begin_v2_only(world, "db")
        for file_id in (1, 3):
            await world.store.delete(key(file_id))
        store = await begin_v2_only(world, "db")
        assert (await store.current()).value == FULL._replace(last_compacted_l0_sst_id=None)

    asyncio.run(go())


def test_a_v1_create_that_is_under_way_finds_its_id_taken():
    """It was sent after manifest 1, and nobody is in phase 1 any more: what the look cannot see, the barrier keeps out."""
    async def go():
        world = system_world(MemoryStore())
        storage = SequencedStorage(world, Namespace("db", "manifest"))
        await storage.create(1, V2.encode(FULL))
        await begin_v2_only(world, "db")
        with pytest.raises(ObjectVersionExists):
            await storage.create(2, V1.encode(FULL))

    asyncio.run(go())


# ------------------------------------------------------------------------------------------------------- what refers

def test_a_checkpoint_is_active_until_its_last_second_is_over():
    manifest = Manifest(checkpoints=(Checkpoint(UUID, 4, expire_time_s=100), Checkpoint(UUID, 5), Checkpoint(UUID, 6, 99)))
    assert manifest.without_ended(100_999).referenced() == {4, 5} and manifest.referenced() == {4, 5, 6}
    assert manifest.without_ended(101_000).referenced() == {5}


def test_an_update_is_known_by_its_checkpoint():
    assert FULL.holds(UUID) and not FULL.holds(A)
    found = compactions.decode(written.COMPACTIONS)
    assert found.holds(found.recent_compactions[0].id) and not found.holds(A)

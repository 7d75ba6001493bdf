"""Forms of bytes: messages, snapshots, chunks of them, records and their checksums; what is no such thing is refused."""

import importlib.util
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.impl.codecs import crc32c
from highwater.impl.node_world import DiskFailed
from highwater.impl.raft import records, snapshots, wire
from highwater.impl.raft.entries import Entry, Log, agreeing, entries_from, term_at
from highwater.impl.raft.faults import Damaged, OtherVersion
from highwater.impl.raft.fetch import Chunk, FetchChunk, Fetched, chunk_of
from highwater.impl.raft.messages import Append, Heartbeat, ReadIndexReply
from highwater.impl.raft.snapshots import Snapshot
from tests.impl.raft.crashing import CrashingDisk
from tests.impl.raft.test_raft_log import run

NUMBER = st.integers(0, 2**63 - 1)
ENTRY = st.builds(Entry, NUMBER, st.integers(0, 255), st.binary(max_size=20))
FIELDS = {int: st.integers(-1, 2**63 - 1), bool: st.booleans(), str: st.text(max_size=10), bytes: st.binary(max_size=20),
          tuple[Entry, ...]: st.lists(ENTRY, max_size=4).map(tuple)}
MESSAGES = st.one_of([st.builds(kind, *(FIELDS[form] for form in kind.__annotations__.values()))
                      for kind in wire.KINDS.values()])
SNAPSHOT = Snapshot(7, 3, ("a", "b", "c"), b"the machine's content")


# --- CRC-32C


@pytest.mark.parametrize("compute", (crc32c.crc32c, crc32c.by_table), ids=lambda compute: compute.__name__)
def test_known_checksums(compute):
    """The check value of the polynomial's catalogue, and vectors of RFC 3720, B.4."""
    assert compute(b"123456789") == 0xE3069283
    assert compute(bytes(32)) == 0x8A9136AA and compute(b"\xff" * 32) == 0x62A8AB43
    assert compute(bytes(range(32))) == 0x46DD794E and compute(b"") == 0


@pytest.mark.skipif(importlib.util.find_spec("google_crc32c") is None, reason="google-crc32c is not installed")
def test_the_library_and_the_table_agree():
    for size in range(200):
        data = Random(size).randbytes(size)
        assert crc32c.by_library(data) == crc32c.by_table(data)


# --- messages


@given(MESSAGES)
def test_messages_come_back(message):
    assert wire.decoded(wire.encoded(message)) == message


@given(MESSAGES, st.data())
@settings(max_examples=300)
def test_cut_and_longer_messages_are_refused(message, data):
    whole = wire.encoded(message)
    for bytes_ in (whole[:data.draw(st.integers(0, len(whole) - 1))], whole + b"\0"):
        with pytest.raises(wire.Malformed):
            wire.decoded(bytes_)


@given(st.binary(max_size=80))
def test_any_bytes_are_a_message_or_refused(data):
    for body in (data, bytes([wire.VERSION, 5]) + data):
        try:
            assert wire.encoded(wire.decoded(body)) == body
        except wire.Malformed:
            pass


def test_the_forms_are_pinned():
    assert wire.encoded(Heartbeat(1, 2, 3)).hex() == "0108" + "".join(f"{number:016x}" for number in (1, 2, 3))
    assert wire.encoded(ReadIndexReply(1, "é", -1)).hex() == "010c" + f"{1:016x}" + "00000002c3a9" + "f" * 16
    assert wire.encoded(Append(5, 1, 4, (Entry(5, 1, b"x"),), 0)).hex() == (
        "0105" + f"{5:016x}{1:016x}{4:016x}" + "00000001" + f"{5:016x}" + "01" + "00000001" + "78" + f"{0:016x}")
    assert len(set(wire.KINDS.values())) == 15


def test_another_version_is_named():
    with pytest.raises(wire.Malformed, match="begins with 0208: this node speaks version 1"):
        wire.decoded(b"\2" + wire.encoded(Heartbeat(1, 2, 3))[1:])


# --- records


@given(st.lists(st.tuples(st.sampled_from((records.HARD, records.TRUNCATE, records.ENTRY)), NUMBER, NUMBER,
                          st.binary(max_size=30)), min_size=1, max_size=5))
def test_records_come_back(values):
    data = records.batch_of([records.Record(*value[:3], 9, value[3]) for value in values])
    position, found = 0, []
    while position < len(data):
        record = records.record_at(data, position)
        assert record is not None
        found.append(record)
        position = record.end
    assert [(record.type, record.index, record.term, record.body) for record in found] == values
    assert [record.is_last for record in found] == [False] * (len(values) - 1) + [True] and found[0].batch == 9


def test_the_form_of_a_record_is_pinned():
    data = records.encoded(records.Record(records.ENTRY, 2, 3, 4, b"x", True))
    content = bytes.fromhex("84" + f"{2:016x}{3:016x}{4:016x}" + "78")
    assert data == len(content).to_bytes(4, "big") + crc32c.by_table(content).to_bytes(4, "big") + content


def test_records_behind_a_gap_are_found():
    record = records.Record(records.ENTRY, 2, 3, 4, b"x", True)
    data = bytes(50) + records.encoded(record) + b"???" + records.encoded(record)
    assert [found._replace(end=0) for found in records.records_behind(data, 0)] == [record, record]


# --- snapshots


def test_a_snapshot_comes_back():
    assert snapshots.decoded("x", snapshots.encoded(SNAPSHOT)) == SNAPSHOT


def test_a_changed_or_cut_snapshot_is_damaged():
    data = snapshots.encoded(SNAPSHOT)
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 64
        with pytest.raises(OtherVersion if place in (8, 9) else Damaged):
            snapshots.decoded("x", bytes(changed))
        with pytest.raises(Damaged, match="x: byte 0: the checksum of the snapshot's .* restore the file"):
            snapshots.decoded("x", data[:place])


def test_content_that_only_has_the_checksum_of_a_snapshot_is_refused():
    for body in (b"otherone" + bytes(40), b"hwraftsn\0\1" + bytes(16) + b"\0\x09" + bytes(30), b"hwraftsn\0\1" + bytes(16)
                 + b"\0\1\0\1\xff" + bytes(30)):
        with pytest.raises(Damaged):
            snapshots.decoded("x", body + snapshots.SUM.pack(crc32c.crc32c(body)))


def test_a_snapshot_is_written_aside_and_renamed():
    disk = CrashingDisk()
    run(snapshots.store(disk, SNAPSHOT))
    name = snapshots.name_of(7, 3)
    assert [call for call, _ in disk.calls] == ["create", "append", "sync", "rename", "sync_names", "read"]
    assert run(snapshots.load(disk)) == (SNAPSHOT, []) and list(disk.files) == [name]


def test_a_snapshot_that_is_not_read_back_is_refused():
    disk = CrashingDisk()

    async def other(name):
        return b"other"

    disk.read = other
    with pytest.raises(DiskFailed, match="does not give back what was written"):
        run(snapshots.store(disk, SNAPSHOT))


@pytest.mark.parametrize("seed", range(60))
def test_a_crash_leaves_the_old_snapshot_or_the_new_one(seed):
    random, disk = Random(seed), CrashingDisk()
    old = SNAPSHOT._replace(content=random.randbytes(9_000))
    new = old._replace(index=9, content=random.randbytes(9_000))
    run(snapshots.store(disk, old))
    disk.fail[random.choice(("create", "append", "sync", "rename", "sync_names", "read"))] = RuntimeError()
    with pytest.raises(RuntimeError):
        run(snapshots.store(disk, new))
    disk.crash(random)
    found, bad = run(snapshots.load(disk))
    assert found in (old, new) and not bad


def test_older_snapshots_go_and_bad_newer_ones_are_told():
    disk = CrashingDisk()
    newer = SNAPSHOT._replace(index=9)
    run(snapshots.store(disk, SNAPSHOT))
    run(snapshots.store(disk, newer))
    run(snapshots.remove_older(disk, newer))
    assert list(disk.files) == [snapshots.name_of(9, 3)]
    disk.files[snapshots.name_of(11, 3)] = disk.files[snapshots.name_of(9, 3)]
    found, bad = run(snapshots.load(disk))
    assert found == newer and [name for name, _ in bad] == [snapshots.name_of(11, 3)] and "renamed" in str(bad[0][1])


# --- chunks


def test_a_snapshot_comes_in_chunks():
    data = snapshots.encoded(SNAPSHOT)
    fetched = Fetched("b", 7, 3)
    while not fetched.is_whole():
        chunk = chunk_of(fetched.wants(), SNAPSHOT, data, 10)
        assert not fetched.take("c", chunk) and fetched.take("b", chunk) and not fetched.take("b", chunk)
    assert fetched.snapshot() == SNAPSHOT


def test_a_snapshot_that_is_gone_is_told():
    data = snapshots.encoded(SNAPSHOT)
    for asked in (FetchChunk(8, 3, 0), FetchChunk(7, 2, 0), FetchChunk(7, 3, len(data)), FetchChunk(7, 3, -1)):
        assert chunk_of(asked, SNAPSHOT, data, 10) == Chunk(*asked, 0, b"")
    fetched = Fetched("b", 7, 3)
    assert fetched.take("b", Chunk(7, 3, 0, 0, b"")) and fetched.is_gone() and not fetched.is_whole()


def test_another_snapshot_than_the_offered_one_is_not_taken():
    for other in (SNAPSHOT._replace(index=8), SNAPSHOT._replace(term=4)):
        data = snapshots.encoded(other)
        fetched = Fetched("b", 7, 3)
        fetched.take("b", Chunk(7, 3, 0, len(data), data))
        assert fetched.is_whole() and fetched.snapshot() is None
    fetched = Fetched("b", 7, 3)
    fetched.take("b", Chunk(7, 3, 0, 5, b"other"))
    assert fetched.snapshot() is None


# --- logs in memory


def test_parts_of_a_log():
    log = Log(4, 1, tuple(Entry(term, 1, b"xx") for term in (1, 2, 2, 5)))
    assert [term_at(log, index) for index in range(3, 10)] == [None, 1, 1, 2, 2, 5, None]
    assert [len(entries_from(log, 5, size)) for size in (0, 1, 2, 3, 4, 100)] == [1, 1, 1, 1, 2, 4]
    assert agreeing(log, 9, 4) == (7, 2) and agreeing(log, 6, 9) == (6, 2) and agreeing(log, 9, 0) == (4, 1)

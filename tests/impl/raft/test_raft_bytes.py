"""Forms of bytes: messages, snapshots, chunks of them, records and their checksums; what is no such thing is refused."""

import importlib.util
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.dst.scripts.replicated.disks import run
from highwater.impl.codecs import crc32c
from highwater.impl.node_world import DiskFailed
from highwater.impl.raft import members, records, snapshots, wire
from highwater.impl.raft.entries import Entry, made
from highwater.impl.raft.faults import Damaged, OtherVersion
from highwater.impl.raft.members import Members
from highwater.impl.raft.messages import Append, Heartbeat, ReadIndex
from highwater.impl.raft.snapshots import Snapshot
from tests.impl.raft.crashing import CrashingDisk

NUMBER = st.integers(0, 2**62 - 1)
ENTRY = st.builds(made, NUMBER, st.integers(0, 255), st.binary(max_size=20))
FIELDS = {int: st.integers(-1, 2**62 - 1), bool: st.booleans(), str: st.text(max_size=10), bytes: st.binary(max_size=20),
          tuple[Entry, ...]: st.lists(ENTRY, max_size=4).map(tuple)}
MESSAGES = st.one_of([st.builds(kind, *(FIELDS[form] for form in kind.__annotations__.values()))
                      for kind in wire.KINDS.values()])
SNAPSHOT = Snapshot(7, 3, ("a", "b", "c"), b"the machine's content")
CHANGED = SNAPSHOT._replace(members=Members(("a", "b", "c"), ("d",), (("d", "127.0.0.1:7004"),)))


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
    """In the older form without the checksums of entries."""
    assert wire.decoded(wire.encoded(message, 2)) == message
    if isinstance(message, Append):
        message = message._replace(entries=tuple(Entry(*entry[:3]) for entry in message.entries))
    assert wire.decoded(wire.encoded(message)) == message


@given(st.lists(ENTRY, min_size=1, max_size=4), st.data())
def test_an_entry_that_was_changed_on_its_way_is_refused(entries, data):
    """Each bit of the content, of the kind and of the term, also where the message is whole."""
    at = data.draw(st.integers(0, len(entries) - 1))
    term, kind, body, checksum = entries[at]
    field = data.draw(st.sampled_from(("term", "kind", "body") if body else ("term", "kind")))
    if field == "body":
        place = data.draw(st.integers(0, 8 * len(body) - 1))
        body = bytes(byte ^ (1 << place % 8) * (number == place // 8) for number, byte in enumerate(body))
    changed = Entry(term ^ (field == "term"), kind ^ (field == "kind"), body, checksum)
    message = Append(1, 0, 0, (*entries[:at], changed, *entries[at + 1:]), 0)
    with pytest.raises(wire.Malformed, match=f"entry {at + 1} of term {changed.term:,} does not have the checksum"):
        wire.decoded(wire.encoded(message, 2))


@given(MESSAGES, st.data())
@settings(max_examples=300)
def test_cut_and_longer_messages_are_refused(message, data):
    whole = wire.encoded(message)
    for bytes_ in (whole[:data.draw(st.integers(0, len(whole) - 1))], whole + b"\0"):
        with pytest.raises(wire.Malformed):
            wire.decoded(bytes_)


@given(MESSAGES.filter(lambda message: int in message.__annotations__.values()), st.data())
def test_numbers_that_no_group_comes_to_are_refused(message, data):
    name = data.draw(st.sampled_from([name for name, form in message.__annotations__.items() if form is int]))
    strange = message._replace(**{name: data.draw(st.sampled_from((2**62, 2**63 - 1, -2, -2**63)))})
    with pytest.raises(wire.Malformed, match="has the number"):
        wire.decoded(wire.encoded(strange))
    entries = (Entry(data.draw(st.integers(2**62, 2**64 - 1)), 1, b""),)
    with pytest.raises(wire.Malformed, match="has the number"):
        wire.decoded(wire.encoded(Append(1, 0, 0, entries, 0)))


def test_long_ids_of_reads_are_refused():
    assert wire.decoded(wire.encoded(ReadIndex(1, "x" * 256))) == ReadIndex(1, "x" * 256)
    with pytest.raises(wire.Malformed, match="257 bytes are announced, and 256 may follow"):
        wire.decoded(wire.encoded(ReadIndex(1, "x" * 257)))


@given(st.binary(max_size=80))
def test_any_bytes_are_a_message_or_refused(data):
    for body, forms in ((data, 1), (bytes([wire.VERSION, 5]) + data, 1), (bytes([wire.VERSION, 17]) + data, 2)):
        try:
            assert wire.encoded(wire.decoded(body), forms) == body
        except wire.Malformed:
            pass


def test_another_version_is_named():
    with pytest.raises(wire.UnknownForm, match="of version 2 and kind 8, and this highwater reads version 1, kinds 1 to 17"):
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


# --- snapshots


def test_a_snapshot_of_members_that_never_changed_has_the_first_form_and_other_ones_the_second():
    head = b"hwraftsn" + bytes.fromhex("0001 0000000000000007 0000000000000003 0003 000161 000162 000163 0000000000000015")
    assert snapshots.encoded(SNAPSHOT).startswith(head + b"the machine")
    data = snapshots.encoded(CHANGED)
    assert data[8:10] == b"\0\2" and members.encoded(CHANGED.members) in data
    for snapshot in (SNAPSHOT, CHANGED):
        assert snapshots.decoded("x", snapshots.encoded(snapshot)) == snapshot


@pytest.mark.parametrize("snapshot", [SNAPSHOT, CHANGED], ids=("first form", "second form"))
def test_a_changed_or_cut_snapshot_is_damaged(snapshot):
    data = snapshots.encoded(snapshot)
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 64
        with pytest.raises(OtherVersion if place in (8, 9) else Damaged):
            snapshots.decoded("x", bytes(changed))
        with pytest.raises(Damaged, match="x: byte 0: the checksum of the snapshot's .* raft rejoin"):
            snapshots.decoded("x", data[:place])


def test_a_snapshot_of_another_version_may_be_a_damaged_one():
    data = bytearray(snapshots.encoded(Snapshot(9, 4, ("a",), b"content")))
    data[9] = 88
    with pytest.raises(OtherVersion, match="x: a snapshot of version 88, or a damaged one, since its checksum is wrong"):
        snapshots.decoded("x", bytes(data))
    whole = bytes(data[:-4]) + crc32c.crc32c(bytes(data[:-4])).to_bytes(4, "big")
    with pytest.raises(OtherVersion, match="x: a snapshot of version 88, and this highwater reads"):
        snapshots.decoded("x", whole)


def test_content_that_only_has_the_checksum_of_a_snapshot_is_refused():
    for body in (b"otherone" + bytes(40), b"hwraftsn\0\1" + bytes(16) + b"\0\x09" + bytes(30), b"hwraftsn\0\1" + bytes(16)
                 + b"\0\1\0\1\xff" + bytes(30)):
        with pytest.raises(Damaged):
            snapshots.decoded("x", body + snapshots.SUM.pack(crc32c.crc32c(body)))


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

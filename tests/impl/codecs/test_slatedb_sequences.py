"""The sequence tracker: what is recorded is read again, by few entries; what is damaged is kept as it is."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.impl.codecs.codec import Undecodable
from highwater.impl.codecs.slatedb.sequences import EVERY_S, MOST, Entry, decode, encode, recorded
from highwater.impl.db.db import Db
from tests.support.database import OPTIONS, Stopped, world_of

WRITTEN = bytes.fromhex("010100000000000001000000000000000100000001000000006b0852ce")  # by release 0.13.1
STEPS = st.lists(st.tuples(st.integers(1, 5000) | st.sampled_from((1, 63, 64, 255, 256, 2047, 2048, 1 << 31)),
                           st.integers(EVERY_S, 5000)), max_size=40)


def entries_of(steps, seq: int, at_s: int) -> list[Entry]:
    found = [Entry(seq, at_s)]
    for more, later_s in steps:
        found.append(Entry(found[-1].seq + more, found[-1].at_s + later_s))
    return found


@settings(max_examples=100, deadline=None)
@given(steps=STEPS, seq=st.integers(0, 1 << 62), at_s=st.integers(0, 1 << 33))
def test_what_is_written_is_read_again(steps, seq, at_s):
    entries = entries_of(steps, seq, at_s)
    try:
        tracker = encode(entries)
    except ValueError:
        assert any(more >= 1 << 31 for more, _ in steps)
        return
    assert decode(tracker) == tuple(entries)


def test_a_tracker_of_a_released_client():
    assert decode(WRITTEN) == (Entry(1, 0x6b0852ce),)
    assert encode(decode(WRITTEN)) == WRITTEN


def test_version_2_has_wider_differences():
    """Two numbers: 1, and 1 + 2^40."""
    bits = f"{2:032b}{1:064b}1111{1 << 40:064b}0000"
    stream = int(bits, 2).to_bytes(len(bits) // 8, "big")
    times = encode([Entry(0, 5), Entry(0, 65)])[5 + 13:]
    assert decode(b"\2\2\0\0\0" + stream + times) == (Entry(1, 5), Entry(1 + (1 << 40), 65))


@settings(max_examples=200, deadline=None)
@given(tracker=st.binary(max_size=60), at=st.integers(0, 200), with_=st.integers(0, 255))
def test_what_is_damaged_is_an_error_and_stays(tracker, at, with_):
    good = bytearray(encode(entries_of([(5, 60)] * 20, 1, 100)))
    good[at % len(good)] = with_
    for body in (tracker, bytes(good), bytes(good)[:at % len(good)]):
        try:
            assert len(decode(body)) <= 8 * len(body)
        except Undecodable as error:
            assert error.field == "sequence_tracker"
            assert recorded(body, [(9, 9000)]) == body or not body


def test_one_number_a_minute_is_recorded_and_no_more_than_so_many():
    tracker = recorded(None, ((seq, 1_000_000 + 10_000 * seq) for seq in range(1, 20)))
    assert decode(tracker or b"") == (Entry(1, 1010), Entry(7, 1070), Entry(13, 1130), Entry(19, 1190))
    assert recorded(tracker, [(20, 1_200_000)]) is tracker
    assert recorded(tracker, [(21, 900_000)]) is tracker  # the clock went back
    tracker = recorded(None, ((seq, 60_000 * seq) for seq in range(MOST + 1)))
    entries = decode(tracker or b"")
    assert entries[:2] == (Entry(0, 0), Entry(2, 120)) and len(entries) == MOST // 2 + 1


def test_a_flush_records_what_it_flushes():
    async def work() -> None:
        clock = Stopped(1_000_000)
        db = await Db.open(world_of(clock=clock), "db", OPTIONS)
        for minute in range(3):
            for _ in range(2):
                await db.put(b"k", b"v")
                clock.at_ms += 30_000
            if minute != 1:
                await db.flush()
        assert decode(db.manifest.sequence_tracker or b"") == (Entry(1, 1000), Entry(3, 1060), Entry(5, 1120))
        await db.close()

    asyncio.run(work())


@pytest.mark.parametrize("tracker", (b"\3\0\0\0\0", b"\1"))
def test_a_tracker_that_is_not_known_stays(tracker):
    assert recorded(tracker, [(1, 1000)]) == tracker

"""Versions of a key that stay: of every history of up to three, at every number that is kept, at the bottom or not."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from itertools import product

import pytest

from highwater.impl.db import retention
from highwater.impl.db.merge import shown
from highwater.impl.db.retention import retained
from highwater.impl.db.rows import KINDS, MERGE, TOMBSTONE, VALUE, Row

NOW_MS, LATER_MS = 100, 300
EXPIRIES = (None, 50, 200)  # none, before now, between now and later
OLDER = [Row(b"k", 1, value=b"old")]  # in an SST that is not in the input

Retained = Callable[[Sequence[Row], int, int, bool], list[Row]]


def histories() -> Iterator[list[Row]]:
    """Versions 2, 4, .. of one key, the newest first; a tombstone does not expire."""
    versions = [(kind, expiry) for kind, expiry in product(KINDS, EXPIRIES) if kind != TOMBSTONE or expiry is None]
    for length in range(1, 4):
        for drawn in product(versions, repeat=length):
            yield [Row(b"k", 2 * (length - place), kind, b"" if kind == TOMBSTONE else b"%d" % place, 7, expiry)
                   for place, (kind, expiry) in enumerate(drawn)]


def check(retained: Retained) -> None:
    """Check that what is shown stays, and that what nobody needs goes."""
    for rows in histories():
        newest = rows[0].seq
        for keep_from, bottom in product(range(0, newest + 2), (True, False)):
            kept = retained(rows, keep_from, NOW_MS, bottom)
            below = [] if bottom else OLDER
            for seq, now_ms in product(range(keep_from, newest + 2), (NOW_MS, LATER_MS)):
                assert shown([*rows, *below], now_ms, seq) == shown([*kept, *below], now_ms, seq), (rows, keep_from, kept)
            assert kept == retained(kept, keep_from, NOW_MS, bottom)
            left = [row for row in kept if row.seq <= keep_from]
            assert sum(row.kind != MERGE for row in left) <= 1 and not any(row.expired(NOW_MS) for row in left)
            assert not any(row.kind == VALUE and row.expired(NOW_MS) for row in kept)
            assert not (bottom and kept and kept[-1].kind == TOMBSTONE)


def test_reads_show_the_same_and_nothing_that_they_do_not_need_stays():
    check(retained)


@pytest.mark.parametrize(("code", "broken"), [
    ("row.seq <= keep_from and row.kind != MERGE:", "row.seq <= keep_from:"),  # the base of operands goes
    ("row.seq <= keep_from and row.kind != MERGE:", "row.seq <= keep_from + 1 and row.kind != MERGE:"),
    ("row.seq <= keep_from and row.kind != MERGE:", "row.kind != MERGE:"),  # only the newest value stays
    ("row.seq <= keep_from and row.kind != MERGE:", "False:"),  # nothing goes
    ("while bottom and", "while"),  # a tombstone goes although older versions are elsewhere
    ("while bottom and", "while False and"),
    ("if expired and row.kind == MERGE and row.seq <= keep_from", "if expired"),  # an expired value hides nothing
    ("if expired and row.kind == MERGE and row.seq <= keep_from", "if row.kind == MERGE and row.seq <= keep_from"),
    ("if expired and row.kind != MERGE else", "if expired else"),  # an expired operand hides what it was applied to
    ("row.expired(now_ms)", "row.expired(now_ms + 150)"),
])
def test_every_safeguard_is_needed(code: str, broken: str):
    source = inspect.getsource(retention)
    assert source.count(code) == 1
    module: dict = {}
    exec(source.replace(code, broken), module)
    with pytest.raises(AssertionError):
        check(module["retained"])


def test_a_tombstone_that_no_snapshot_sees_past_goes_at_the_bottom():
    deleted = [Row(b"k", 5, TOMBSTONE), Row(b"k", 3, value=b"v")]
    assert retained(deleted, 5, 0, True) == []
    assert retained(deleted, 4, 0, True) == deleted  # a snapshot of 4 sees the value
    assert retained(deleted, 5, 0, False) == deleted[:1]

"""Safety: no read at `keep_from` or after shows anything else once the other versions are gone, and no older version shows up.

A flush and a compaction drop the versions of a key that no read needs. A read sees the versions up to a number: the number of a
snapshot, or the latest one. `keep_from` is the least of those numbers that a read may still have. SlateDB's manifest names it
`recent_snapshot_min_seq`; with 0 there, every version stays.
"""

from collections.abc import Sequence

from highwater.impl.db.rows import MERGE, TOMBSTONE, Row


def retained(rows: Sequence[Row], keep_from: int, now_ms: int, bottom: bool) -> list[Row]:
    """Return the versions of one key that stay. `rows` are all its versions in the input, the newest first.

    - All versions after `keep_from` stay. Of the others, a read at `keep_from` needs the merge operands down to the first value
      or tombstone, and that one.
    - An expired value becomes a tombstone of the same number: it hides older versions, also those outside the input. Expired
      operands at or before `keep_from` go, for no read applies them.
    - At the `bottom` the input has all versions of the key. So a tombstone without a version below it hides nothing, and goes.

    Released compactors do the same, but apply merge operands with the user's operator.
    """
    kept: list[Row] = []
    for row in rows:
        expired = row.expired(now_ms)
        if expired and row.kind == MERGE and row.seq <= keep_from:
            continue
        kept.append(row._replace(kind=TOMBSTONE, value=b"", expire_ms=None) if expired and row.kind != MERGE else row)
        if row.seq <= keep_from and row.kind != MERGE:
            break
    while bottom and kept and kept[-1].kind == TOMBSTONE:
        kept.pop()
    return kept

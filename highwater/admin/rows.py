"""Says what is in SSTs, WAL objects and reads, as plain values; and writes keys as text.

A key is written as ASCII; a byte that is not printable ASCII is \\xNN, and a backslash is doubled. `bytes_of` reads that again.
"""

import re
from typing import Any

from highwater.admin.show import plain
from highwater.impl.db.compression import NAMES
from highwater.impl.db.merge import Shown
from highwater.impl.db.rows import KINDS, TOMBSTONE, Row
from highwater.impl.db.table import Table
from highwater.impl.manifests.spans import Span

PIECE = re.compile(r"\\x([0-9a-fA-F]{2})|\\(\\)|([^\\]+)", re.DOTALL)


def text_of(raw: bytes) -> str:
    """Return bytes as text."""
    return "".join("\\\\" if byte == 92 else chr(byte) if 32 <= byte < 127 else f"\\x{byte:02x}" for byte in raw)


def bytes_of(text: str) -> bytes:
    """Return the bytes that a text stands for; what is not ASCII is UTF-8. Raises ValueError for another backslash."""
    raw, at = bytearray(), 0
    while at < len(text):
        match = PIECE.match(text, at)
        if match is None:
            raise ValueError(f"key {text!r}: after the backslash at character {at} write xNN, two hexadecimal digits, or "
                             "another backslash")
        raw += bytes.fromhex(match[1]) if match[1] else b"\\" if match[2] else match[3].encode("utf-8", "surrogateescape")
        at = match.end()
    return bytes(raw)


def span_of(start: str | None, end: str | None, prefix: str | None) -> Span:
    """Return the span of keys from `start` on, before `end`, and with `prefix`. Raises ValueError if there is none."""
    span = Span(bytes_of(start or ""), None if end is None else bytes_of(end))
    if prefix:
        first = bytes_of(prefix)
        last = first.rstrip(b"\xff")
        after = last[:-1] + bytes([last[-1] + 1]) if last else None
        ends = [one for one in (span.end, after) if one is not None]
        span = Span(max(span.start, first), min(ends, default=None))
    if span.ends_by(span.start):
        raise ValueError(f"no key is from {text_of(span.start)!r} on and before {text_of(span.end or b'')!r}")
    return span


def row_of(row: Row) -> dict[str, Any]:
    """Return a row as JSON has it."""
    value = {} if row.kind == TOMBSTONE else {"value": text_of(row.value)}
    return {"key": text_of(row.key), "seq": row.seq, "kind": KINDS[row.kind]} | value | times_of(row)


def shown_of(shown: Shown) -> dict[str, Any]:
    """Return what a key shows as JSON has it. Operands are listed, the oldest first: only the database's user merges them."""
    value = None if shown.value is None else text_of(shown.value)
    operands = {"operands": [text_of(one) for one in shown.operands]} if shown.operands else {}
    return {"key": text_of(shown.key), "value": value} | operands | {"seq": shown.seq} | times_of(shown)


def times_of(row: Row | Shown) -> dict[str, int]:
    times = {"create_ms": row.create_ms, "expire_ms": row.expire_ms}
    return {name: time for name, time in times.items() if time is not None}


def table_of(table: Table) -> dict[str, Any]:
    """Return what an object says of itself: its info, blocks, filter and statistics."""
    bloom, stats, info = table.bloom, table.stats, table.info
    blocks = [{"offset": offset} | ({"first_seq": int.from_bytes(key, "big")} if table.is_wal else {"first_key": text_of(key)})
              for offset, key in zip(table.offsets, table.first_keys)]
    if stats and len(stats.blocks) == len(blocks):
        blocks = [block | counted._asdict() for block, counted in zip(blocks, stats.blocks)]
    first, last = info.first_entry, info.last_entry
    return {"object": table.key, "bytes": table.size_bytes, "format": table.version, "wal": table.is_wal,
            "codec": NAMES[info.compression], "first_key": None if first is None or table.is_wal else text_of(first),
            "last_key": None if last is None else text_of(last), "blocks": blocks, "info": plain(info._asdict()),
            "filter": bloom and {"probes": bloom.probes, "bits": 8 * len(bloom.bits)},
            "stats": stats and {name: value for name, value in stats._asdict().items() if name != "blocks"}}

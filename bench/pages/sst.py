"""Draws an SST: its parts, a block of it, and an entry of that block, each with the place that it has in one real object.

The object is built by impl/db/build.py and read again by impl/db/table.py, so the numbers in the picture are those of its
bytes.
"""

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from bench.pages.diagram import LETTER, LINE, STYLE, edge
from highwater.impl.db.block import shared_prefix, trailer
from highwater.impl.db.build import Built, sst_of
from highwater.impl.db.damaged import Place
from highwater.impl.db.parts import CRC, FOOTER
from highwater.impl.db.rows import TOMBSTONE, Row
from highwater.impl.db.table import Table

MARGIN, PAD, HIGH, ABOVE = 24, 7, 44, 104  # px: around all; beside a text; of a box; between two rows of boxes
SEALED = "each part but the last two: a payload, packed or not, and its CRC-32"
PARTS = (".sealed{fill:#eaf4ea}.note{font-size:11px;fill:#5c6870}"
         "@media(prefers-color-scheme:dark){.sealed{fill:#1f3324}.note{fill:#9fabb3}}")


class Box(NamedTuple):
    """A part: its name, what is in it, its length in bytes, and whether it ends with a checksum."""

    name: str
    what: str
    size_bytes: int
    is_sealed: bool = False

    @property
    def wide(self) -> float:
        return 2 * PAD + LETTER * max(len(self.name), len(self.what), 6)


def example() -> Built:
    """An SST of seven rows in two blocks, with a filter."""
    rows = [Row(b"user:1", 7, value=b"Ada", create_ms=1), Row(b"user:2", 9, TOMBSTONE, create_ms=1),
            Row(b"user:2", 8, value=b"Bob", create_ms=1), Row(b"user:3", 7, value=b"Cy", create_ms=1, expire_ms=9),
            *(Row(b"zone:%d" % i, 5, value=b"z", create_ms=1) for i in range(3))]
    return sst_of(rows, block_bytes=130, least_filtered=1)


def parts_of(table: Table) -> list[Box]:
    """Return the parts of an SST."""
    info = table.info
    ends = [*table.offsets[1:], table.end_of_blocks]
    return [*(Box(f"block {number}", f"{len(table.block(number))} rows", end - start, True)
              for number, (start, end) in enumerate(zip(table.offsets, ends))),
            Box("filter", "Bloom", info.filter_len, True), Box("index", "first keys", info.index_len, True),
            Box("stats", "counts", info.stats_len, True),
            Box("info", "where all is", table.size_bytes - FOOTER.size - table.info_offset, True),
            Box("offset of info", f"u64 = {table.info_offset}", 8), Box("version", f"u16 = {table.version}", 2)]


def entries_of(table: Table, number: int) -> list[Box]:
    """Return the entries of a block, and what is behind them."""
    start, end = table.place_of(number)
    block = table.body[start:end - CRC]
    restarts, at = trailer(block, Place(table.key, start, "block"))
    rows, sizes, before = table.block(number), [], b""
    for row in rows:
        sizes.append(sum(box.size_bytes for box in fields_of(row, before)))
        before = row.key
    assert sum(sizes) == at, "the picture has every byte"
    return [*(Box(f"entry {i}", row.key.decode(), size) for i, (row, size) in enumerate(zip(rows, sizes))),
            Box("offsets", f"u16: {', '.join(map(str, restarts))}", 2 * len(restarts)),
            Box("count", f"u16 = {len(restarts)}", 2), Box("CRC-32", "u32", CRC)]


def fields_of(row: Row, before: bytes) -> list[Box]:
    """Return the fields of an entry after the key `before`."""
    shared = shared_prefix(before, row.key)
    boxes = [Box("shared", f"LEB128 = {shared}", 1), Box("unshared", f"LEB128 = {len(row.key) - shared}", 1),
             Box("value length", f"LEB128 = {len(row.value)}", 1),
             Box("rest of key", repr(row.key[shared:].decode()), len(row.key) - shared),
             Box("value", repr(row.value.decode()), len(row.value)), Box("seq", f"u64 = {row.seq}", 8), Box("flags", "u8", 1)]
    for name, at_ms in (("expire ms", row.expire_ms), ("create ms", row.create_ms)):
        if at_ms is not None:
            boxes.append(Box(name, f"i64 = {at_ms}", 8))
    return boxes


def text(x: float, y: float, said: str, kind: str = "", anchor: str = "middle") -> str:
    of_class = f' class="{kind}"' if kind else ""
    return f'<text{of_class} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(said)}</text>'


def drawn(boxes: Sequence[Box], y: float, first_byte: int | None) -> tuple[list[str], list[float]]:
    """Return a row of boxes, and the left ends of them, with the right end of the last. `first_byte`: of the first one; each
    then has its place in the object below it."""
    found, ends, at = [], [float(MARGIN)], first_byte
    for box in boxes:
        x, middle = ends[-1], ends[-1] + box.wide / 2
        kind = "state sealed" if box.is_sealed else "state"
        found += [f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{box.wide:.1f}" height="{HIGH}"/>',
                  text(middle, y + 18, box.name), text(middle, y + 35, box.what, "note"),
                  text(middle, y + HIGH + 15, f"{box.size_bytes} B", "note")]
        if at is not None:
            found.append(text(x + 2, y - 5, str(at), "note", "start"))
            at += box.size_bytes
        ends.append(x + box.wide)
    return found, ends


def svg() -> str:
    """Return the picture."""
    table = Table("example", example().body)
    start = table.place_of(0)[0]
    rows = table.block(0)
    number = next(i for i in range(1, len(rows)) if rows[i].expire_ms is not None)
    entries = entries_of(table, 0)
    entry_start = start + sum(box.size_bytes for box in entries[:number])
    shown = ((parts_of(table), 0, "an SST, with the offset of each part"), (entries, start, "block 0, format 2"),
             (fields_of(rows[number], rows[number - 1].key), entry_start,
              f"entry {number}: it shares with the key of the entry before"))
    found, y, above = [], MARGIN + 44, None
    right = 0.0
    for boxes, first_byte, title in shown:
        if above is not None:
            x0, x1, bottom = above
            row_end = MARGIN + sum(box.wide for box in boxes)
            found += [edge(f"M{a:.1f} {bottom + 20:.1f}L{b:.1f} {y - 38:.1f}") for a, b in ((x0, MARGIN), (x1, row_end))]
        made, ends = drawn(boxes, y, first_byte)
        found += made
        found.append(text(MARGIN, y - 22, title, "role", "start"))
        place = 0 if boxes is shown[0][0] else number
        above = ends[place], ends[place + 1], y + HIGH
        right, y = max(right, ends[-1]), y + HIGH + ABOVE
    found.append(text(MARGIN, y - 60, SEALED, "note", "start"))
    wide, high = max(right, MARGIN + len(SEALED) * LETTER) + MARGIN, y - 60 + LINE
    title = "The bytes of an SST"
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide:.0f}" height="{high:.0f}" viewBox="0 0 {wide:.0f} {high:.0f}" '
        f'role="img">', f"<title>{title}</title>",
        f"<desc>{escape('; '.join(f'{title}: ' + ', '.join(box.name for box in boxes) for boxes, _, title in shown))}</desc>",
        f"<style>{STYLE}{PARTS}</style>",
        f'<rect class="back" x=".5" y=".5" width="{wide - 1:.0f}" height="{high - 1:.0f}" rx="9"/>', *found, "</svg>\n"])

"""Objects whose parts are damaged, with right checksums behind: `python -m tests.support.slatedb.forged INPUTS [SEED]`.

No checksum notices them, so all that is checked is that reading ends: with rows, or with an error that says where.
"""

import random
import sys
from contextlib import suppress
from itertools import pairwise

from highwater.impl.codecs.slatedb.tables import SstInfo
from highwater.impl.db.build import sst_of, wal_of
from highwater.impl.db.compression import LZ4, NAMES
from highwater.impl.db.damaged import DamagedObject
from highwater.impl.db.parts import FOOTER, sealed
from highwater.impl.db.rows import MERGE, TOMBSTONE, Row
from highwater.impl.db.table import Table
from tests.support.slatedb.ranged import rows_by_ranges, sizes
from tests.support.slatedb.tables import sst_v1

SOME = [Row(b"a%03d" % i, 9 - i % 2, MERGE if i % 5 == 1 else TOMBSTONE if i % 7 == 2 else 0, b"" if i % 7 == 2 and i % 5 != 1
            else b"v%d" % i * (i % 9), None if i % 3 else 1000 + i, 2000 + i if i % 4 else None) for i in range(120)]


def read_whole(body: bytes, info: SstInfo | None = None) -> list[Row]:
    table = Table("db/x.sst", body, info)
    assert table.bloom is None or table.bloom.probes
    assert table.stats is None or table.stats.puts >= 0
    found = list(table.rows())
    with sizes(first=600):
        assert rows_by_ranges(body, info) == found
    return found


def parts_of(body: bytes) -> list[tuple[int, int]]:
    """The places where the parts with a checksum begin and end."""
    table = Table("x", body)
    info, blocks = table.info, [*table.offsets, table.end_of_blocks]
    others = [(getattr(info, f"{name}_offset"), getattr(info, f"{name}_len")) for name in ("filter", "index", "stats")]
    return [*pairwise(blocks), *((start, start + length) for start, length in others if length),
            (table.info_offset, len(body) - FOOTER.size)]


def forged(body: bytes, parts: list[tuple[int, int]], draw: random.Random) -> bytes:
    """Damage one part and put the right checksum behind it, as a faulty writer does."""
    start, end = draw.choice(parts)
    part = bytearray(body[start:end - 4])
    for _ in range(draw.choice((1, 1, 2, 8))):
        part[draw.randrange(len(part))] = draw.choice((0, 1, 127, 128, 255, draw.randrange(256)))
    return body[:start] + sealed(bytes(part)) + body[end:]


def try_forged(seed: int, inputs: int) -> int:
    """Read forged objects of all codecs and both formats. Return how many were refused; nothing else than that may happen."""
    draw, refused = random.Random(seed), 0
    built = [*(sst_of(SOME, codec, 400, least_filtered=3) for codec in range(len(NAMES))), sst_v1([SOME[:60], SOME[60:]]),
             *(wal_of(sorted(SOME, key=lambda row: row.seq), codec, 400) for codec in (0, LZ4))]
    bodies = [(one.body, parts_of(one.body)) for one in built]
    for _ in range(inputs):
        body = forged(*draw.choice(bodies), draw)
        try:
            found = read_whole(body)
        except DamagedObject as error:
            assert error.key == "db/x.sst" and 0 <= error.offset <= len(body)
            refused += 1
            with sizes(first=600), suppress(DamagedObject):  # ranges need not read what is damaged
                assert len(rows_by_ranges(body)) < 500
        else:
            assert all(isinstance(row.value, bytes) and row.key for row in found) and len(found) < 500
    return refused


if __name__ == "__main__":
    inputs, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    print(f"{try_forged(seed, inputs):,} of {inputs:,} forged objects were refused, and none did anything else than be read")

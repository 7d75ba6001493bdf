"""Safety: a filter never excludes a key that was added to it.

An SST's filter part holds named filters: their number u16, then for each the length u16 of its name, the name, the length u64
of its content, the content. SlateDB writes one, named `_bf`, a Bloom filter: the number of probes u16, then the bits.
It holds the SipHash-1-3 of each row's key, with the keys 0 and 0. A filter of another name excludes nothing here.

The two halves of a hash give its probes: h and d, the low and the high half modulo the number of bits m. For each number i from
0 on, d grows by i, the bit h is probed, and h grows by d, modulo m. Bit i is bit i % 8 of byte i // 8, from the low end.
"""

import struct
from collections.abc import Iterable, Iterator

from highwater.impl.db.damaged import Place

NAME = b"_bf"
BITS_A_KEY, PROBES = 10, 6
MOST_PROBES = 64
MASK, HALF = (1 << 64) - 1, (1 << 32) - 1
COMPOSITE = 1  # the `filter_format` of such a part


class Bloom:
    """A Bloom filter."""

    def __init__(self, probes: int, bits: bytes | bytearray):
        self.probes, self.bits = probes, bits

    def may_contain(self, key: bytes) -> bool:
        return all(self.bits[bit >> 3] >> (bit & 7) & 1 for bit in bits_of(key, self.probes, 8 * len(self.bits)))


def bits_of(key: bytes, probes: int, size: int) -> Iterator[int]:
    """Yield the bits of a key in a filter of `size` bits."""
    number = siphash13(key)
    h, d = (number & HALF) % size, (number >> 32) % size
    for i in range(probes):
        d = (d + i) % size
        yield h
        h = (h + d) % size


def filter_of(keys: Iterable[bytes], rows: int) -> bytes:
    """Return the content of a filter part with the keys of so many rows."""
    bits = bytearray(-(-rows * BITS_A_KEY // 8))
    for key in keys:
        for bit in bits_of(key, PROBES, 8 * len(bits)):
            bits[bit >> 3] |= 1 << (bit & 7)
    content = PROBES.to_bytes(2, "big") + bits
    return b"".join((b"\0\1", struct.pack(">H", len(NAME)), NAME, struct.pack(">Q", len(content)), content))


def decode(part: bytes, place: Place) -> Bloom | None:
    """Return the Bloom filter of a part; None if it has none. Raises DamagedObject."""
    found: Bloom | None = None
    number, at = int.from_bytes(part[:2], "big"), 2
    for _ in range(number):
        start = at
        name_end = at + 2 + int.from_bytes(part[at:at + 2], "big")
        name, at = part[at + 2:name_end], name_end + 8
        end = at + int.from_bytes(part[name_end:at], "big")
        if end > len(part):
            raise place.damaged(start, "filter", f"it ends at byte {end}, beyond the part's {len(part)}")
        if name == NAME:
            found = bloom_of(part[at:end], place, at)
        at = end
    if at != len(part):
        raise place.damaged(at, "filters", f"{number} of them end before the part's {len(part)} bytes")
    return found


def bloom_of(content: bytes, place: Place, at: int) -> Bloom:
    probes, bits = int.from_bytes(content[:2], "big"), content[2:]
    if not bits or not 0 < probes <= MOST_PROBES:
        raise place.damaged(at, "Bloom filter", f"{probes} probes in {len(bits)} bytes")
    return Bloom(probes, bits)


def siphash13(data: bytes) -> int:
    """Return SipHash-1-3 of `data` with the keys 0 and 0: one round for each word of 8 bytes, then three to finish."""
    v0, v1, v2, v3 = 0x736f6d6570736575, 0x646f72616e646f6d, 0x6c7967656e657261, 0x7465646279746573
    whole = len(data) & ~7
    last = int.from_bytes(data[whole:], "little") | (len(data) & 255) << 56
    for round_of, word in enumerate((*struct.unpack_from(f"<{whole // 8}Q", data), last, 0, 0, 0), -(whole // 8) - 1):
        if round_of == 0:
            v2 ^= 0xff
        v3 ^= word
        v0 = v0 + v1 & MASK
        v1 = (v1 << 13 | v1 >> 51) & MASK ^ v0
        v0 = (v0 << 32 | v0 >> 32) & MASK
        v2 = v2 + v3 & MASK
        v3 = (v3 << 16 | v3 >> 48) & MASK ^ v2
        v0 = v0 + v3 & MASK
        v3 = (v3 << 21 | v3 >> 43) & MASK ^ v0
        v2 = v2 + v1 & MASK
        v1 = (v1 << 17 | v1 >> 47) & MASK ^ v2
        v2 = (v2 << 32 | v2 >> 32) & MASK
        v0 ^= word
    return v0 ^ v1 ^ v2 ^ v3

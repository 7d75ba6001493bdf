"""Safety: what is recorded of numbers and times is read again, by this code and by released clients; or it is left as it is.

A manifest's `sequence_tracker` says roughly when which number was written: one number a minute, with its second. So an operator
finds the number of a time, and the reverse. No read and no write of rows depends on it.

    version u8: 1, or 2 since release 0.18 · how many u32, little-endian · the numbers · the seconds

Each of the two is a stream of bits, filled up to whole bytes: how many u32, the first value u64, and for each other one by how
much its distance to the one before differs from the distance before:

    0                     it is the same          1110 and 12 bits     up to 2047 more or less
    10 and 7 bits         up to 63 more or less   1111 and 32 bits     any other; in version 2 it has 64 bits
    110 and 9 bits        up to 255

Differences are two's complements, with the high bits first. Version 1 is written, which all releases read.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from highwater.impl.codecs.codec import Undecodable

VERSION, WIDE = 1, 2
MOST, EVERY_S = 8192, 60  # entries, of which then every other one stays; and the time between two
SIZES = ((7, 63), (9, 255), (12, 2047))  # bits, and the largest difference that is written with so many
LARGEST = {VERSION: 32, WIDE: 64}  # bits of any other difference
U64 = 1 << 64


class Entry(NamedTuple):
    """A number, and the second in which it was written."""

    seq: int
    at_s: int


def recorded(tracker: bytes | None, written: Iterable[tuple[int, int]]) -> bytes | None:
    """Return a tracker with the numbers that were written, of which each minute has one. `written`: numbers and milliseconds,
    ascending.

    A tracker of another version, or a damaged one, is returned as it is; so is one that needs no entry."""
    try:
        before = decode(tracker) if tracker else ()
    except Undecodable:
        return tracker
    entries = list(before)
    for seq, at_ms in written:
        at_s = at_ms // 1000
        if not entries or (at_s - entries[-1].at_s >= EVERY_S and seq > entries[-1].seq):
            entries.append(Entry(seq, at_s))
            if len(entries) > MOST:
                entries = entries[::2]
    if len(entries) == len(before):
        return tracker
    try:
        return encode(entries)
    except ValueError:
        return tracker


# ------------------------------------------------------------------------------------------------------------- reading

def decode(tracker: bytes) -> tuple[Entry, ...]:
    """Return the entries of a tracker. Raises Undecodable."""
    if len(tracker) < 5 or tracker[0] not in LARGEST:
        raise Undecodable(f"{len(tracker)} bytes of version {tracker[0] if tracker else 'none'}: {VERSION} and {WIDE} are "
                          "known", 0, "sequence_tracker")
    number = int.from_bytes(tracker[1:5], "little")
    seqs, end = values_of(tracker, 5, LARGEST[tracker[0]])
    seconds, end = values_of(tracker, end, LARGEST[tracker[0]])
    if not len(seqs) == len(seconds) == number or end != len(tracker):
        raise Undecodable(f"{number} entries with {len(seqs)} numbers and {len(seconds)} times, and {len(tracker) - end} more "
                          "bytes", 1, "sequence_tracker")
    return tuple(Entry(seq % U64, signed(at_s % U64, 64)) for seq, at_s in zip(seqs, seconds))


def values_of(buffer: bytes, start: int, largest: int) -> tuple[list[int], int]:
    """Return the values of a stream, and the byte after it. Raises Undecodable."""
    at, text = 8 * start, f"{int.from_bytes(buffer, 'big'):0{8 * len(buffer)}b}"

    def take(bits: int) -> int:
        nonlocal at
        at += bits
        if at > len(text):
            raise Undecodable("it is cut off", (at - bits) // 8, "sequence_tracker")
        return int(text[at - bits:at], 2)

    number = take(32)
    if number > len(text):
        raise Undecodable(f"{number} values are more than {len(buffer)} bytes have", start, "sequence_tracker")
    values, delta = [take(64)] if number else [], 0
    while len(values) < number:
        ones = 0
        while ones < 4 and take(1):
            ones += 1
        bits = (0, *(size for size, _ in SIZES), largest)[ones]
        delta += signed(take(bits), bits) if bits else 0
        values.append(values[-1] + delta)
    return values, -(-at // 8)


def signed(value: int, bits: int) -> int:
    """Return the number whose two's complement of so many bits is `value`."""
    return value - (1 << bits) if value >> bits - 1 else value


# ------------------------------------------------------------------------------------------------------------- writing

def encode(entries: Sequence[Entry]) -> bytes:
    """Return a tracker with these entries. Raises ValueError for a difference that version 1 cannot hold."""
    return b"".join((bytes([VERSION]), len(entries).to_bytes(4, "little"), stream_of([one.seq for one in entries]),
                     stream_of([one.at_s for one in entries])))


def stream_of(values: Sequence[int]) -> bytes:
    bits = f"{len(values):032b}" + "".join(f"{value % U64:064b}" for value in values[:1]) + "".join(differences(values))
    bits += "0" * (-len(bits) % 8)
    return int(bits, 2).to_bytes(len(bits) // 8, "big")


def differences(values: Sequence[int]) -> Iterator[str]:
    """Yield the bits of each value but the first. Raises ValueError."""
    delta = 0
    for before, value in pairwise(values):
        change, delta = value - before - delta, value - before
        if not change:
            yield "0"
            continue
        ones, bits = next(((ones, size) for ones, (size, most) in enumerate(SIZES, 1) if abs(change) <= most), (4, 32))
        if not -(1 << bits - 1) <= change < 1 << bits - 1:
            raise ValueError(f"the numbers or times {before} and {value} are too far apart")
        yield f"{'1' * ones}{'0' * (ones < 4)}{change & (1 << bits) - 1:0{bits}b}"

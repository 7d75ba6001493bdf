"""A partition is a window of 6 hours. A block belongs to the one in which its ULID was made, whenever its data is from."""

import struct
from typing import NamedTuple

from highwater.impl.codecs.codec import Undecodable
from highwater.impl.codecs.index import ulids

KEY = struct.Struct(">qI")  # ns, s
WINDOW_S = 6 * 3600
NS_PER_S = 1_000_000_000
DAY_S = 86_400
LAST_NS = (1 << 63) - 1  # times in keys are i64


class InvalidPartition(Undecodable):
    """A partition's key of the wrong size, or a ULID whose partition has no key: it is from the year 2262 or later."""


class Partition(NamedTuple):
    """A window of time: its start, since 1970, and its length."""

    start_ns: int
    length_s: int = WINDOW_S

    @property
    def end_ns(self) -> int:
        return self.start_ns + self.length_s * NS_PER_S

    def holds(self, ulid: str) -> bool:
        """Return whether this ULID was made inside the window. Raises InvalidUlid."""
        return self.start_ns <= ulids.time_ns(ulid) < self.end_ns


def partition_of(ulid: str) -> Partition:
    """Return the partition that a block belongs to. Raises InvalidUlid, InvalidPartition."""
    length_ns = WINDOW_S * NS_PER_S
    start_ns = ulids.time_ns(ulid) // length_ns * length_ns
    if start_ns + length_ns > LAST_NS:
        raise InvalidPartition(f"{ulid} was made too late for a partition", field="ULID")
    return Partition(start_ns)


def encode(partition: Partition) -> bytes:
    return KEY.pack(*partition)


def decode(key: bytes) -> Partition:
    """Return the partition of a key. Raises InvalidPartition."""
    if len(key) != KEY.size:
        raise InvalidPartition(f"{len(key)} bytes", field="partition")
    return Partition(*KEY.unpack(key))


def date_of(day: int) -> tuple[int, int, int]:
    """Return (year, month, day) in the Gregorian calendar of a day counted from 1970-01-01."""
    era, day_of_era = divmod(day + 719_468, 146_097)  # eras of 400 years; a year begins in March, so that leap days end it
    year = (day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year + year // 4 - year // 100)
    month = (5 * day_of_year + 2) // 153
    return era * 400 + year + (month >= 10), (month + 2) % 12 + 1, day_of_year - (153 * month + 2) // 5 + 1


def length_text(seconds: int) -> str:
    """Return a length as `6h0m0s`; larger units that are 0 are left out."""
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes}m{rest}s" if hours else f"{minutes}m{rest}s" if minutes else f"{rest}s"


def text(partition: Partition) -> str:
    """Return the window as names of tombstones have it: `2025-06-20 06:00:00 (6h0m0s)`, in UTC."""
    day, second = divmod(partition.start_ns // NS_PER_S, DAY_S)
    year, month, of_month = date_of(day)
    clock = f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
    return f"{year:04d}-{month:02d}-{of_month:02d} {clock} ({length_text(partition.length_s)})"

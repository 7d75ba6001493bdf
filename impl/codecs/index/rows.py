"""Safety: keys sort as what they stand for, and a key is read back as it was written, whatever a tenant is called.

The rows of the index in an ordered key-value store. Integers are big-endian. The values, and the parts of keys, have the bytes
that Pyroscope's index has in its nested buckets. Here a key is flat, so that any ordered store has them:

    bucket u8 | ..                                      below
    INDEX   | partition 12 | tenant 00 | shard u32 | kind u8 | ..    a unit's rows stand together
        TIMES        -> i64 min, i64 max (ms), u64 version
        INCARNATION  -> u64 log index at which the unit was made (ours)
        STRINGS | u32 number of the first -> u32 count, then u32 length and UTF-8 of each
        BLOCK   | ULID                    -> BlockMeta without a table; references into the unit's
    APPLIED                                             -> u64 term, u64 log index
    TOMBSTONES | u64 log index | u64 appended ns | name -> Tombstones
    QUEUE      | u64 log index | ULID                   -> i64 appended ns, u32 level, u32 shard, tenant
    JOB_PLAN   | name                                   -> CompactionJobPlan
    JOB_STATE  | name                                   -> CompactionJobState
    REMOVED    | ULID | shard u32 | tenant              -> u64 log index of the removal (ours)
    GONE       | ULID | shard u32 | tenant              -> the same, once the object is deleted (ours)
    DROPPED    | partition 12 | tenant 00 | shard u32   -> u64 log index, u64 appended ns of the truncation (ours)
    CLOCK                                               -> u64 ns, the latest time of an applied entry (ours)

A tenant's name in a key is `-` if it is anonymous. Zero bytes in names are refused, since one ends the name.
"""

import struct
from typing import NamedTuple

from highwater.impl.codecs.codec import Undecodable
from highwater.impl.codecs.index import partitions
from highwater.impl.codecs.index.partitions import Partition
from highwater.impl.codecs.index.ulids import LENGTH

INDEX, APPLIED, TOMBSTONES, QUEUE, JOB_PLAN, JOB_STATE, REMOVED, GONE, DROPPED, CLOCK = (
    bytes([number]) for number in range(1, 11))
TIMES, INCARNATION, STRINGS, BLOCK = (bytes([number]) for number in range(1, 5))
ANONYMOUS = b"-"
LONGEST_KEY_BYTES = 511  # lmdb's limit
U32, U64 = struct.Struct(">I"), struct.Struct(">Q")
TWO_U64 = struct.Struct(">QQ")
UNIT_TIMES = struct.Struct(">qqQ")
QUEUED = struct.Struct(">qII")
PARTITION_BYTES = partitions.KEY.size


class DamagedRow(Undecodable):
    """A key or a value that this release did not write."""


class Unit(NamedTuple):
    """The blocks of one partition, tenant ("" is anonymous) and shard. Retention drops a unit as a whole."""

    partition: Partition
    tenant: str
    shard: int


class Times(NamedTuple):
    """The smallest and largest time of a unit's data, in ms, and how often the unit has changed; 0 means unset."""

    min_ms: int
    max_ms: int
    version: int


class Queued(NamedTuple):
    """A block that waits for its compaction."""

    index: int
    ulid: str
    appended_ns: int
    level: int
    shard: int
    tenant: str


class Block(NamedTuple):
    """A block's name in the whole index: a client may use one ULID in two shards."""

    ulid: str
    shard: int
    tenant: str


def tenant_bytes(tenant: str) -> bytes:
    """Return a tenant's name in a key. Raises DamagedRow if it has a zero byte."""
    if "\0" in tenant:
        raise DamagedRow(f"the tenant {tenant!r} has a zero byte", field="tenant")
    return tenant.encode() or ANONYMOUS


def tenant_text(name: bytes) -> str:
    """Return the tenant of a name in a key. Raises DamagedRow."""
    return "" if name == ANONYMOUS else text_of(name, "tenant")


def text_of(body: bytes, field: str) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise DamagedRow(f"not UTF-8: {error}", error.start, field) from None


def numbers(form: struct.Struct, body: bytes, field: str) -> tuple[int, ...]:
    """Return the numbers of a value that has nothing else. Raises DamagedRow."""
    if len(body) != form.size:
        raise DamagedRow(f"{len(body)} bytes instead of {form.size}", field=field)
    return form.unpack(body)


def unit_key(unit: Unit) -> bytes:
    """Return what the name of a unit is in keys. Raises DamagedRow."""
    return partitions.encode(unit.partition) + tenant_bytes(unit.tenant) + b"\0" + U32.pack(unit.shard)


def unit_of(key: bytes) -> tuple[Unit, bytes]:
    """Return the unit that a key without its bucket begins with, and the rest. Raises DamagedRow, InvalidPartition."""
    end = key.find(b"\0", PARTITION_BYTES)
    if end < 0 or len(key) < end + 5:
        raise DamagedRow("the key of a unit is cut short", len(key), "key")
    (shard,) = U32.unpack_from(key, end + 1)
    unit = Unit(partitions.decode(key[:PARTITION_BYTES]), tenant_text(key[PARTITION_BYTES:end]), shard)
    return unit, key[end + 5:]


def index_key(unit: Unit, kind: bytes = b"", rest: bytes = b"") -> bytes:
    """Return the key of a unit's row; without a kind, what all its rows begin with."""
    return INDEX + unit_key(unit) + kind + rest


def block_key(unit: Unit, ulid: str) -> bytes:
    return index_key(unit, BLOCK, ulid.encode())


def ulid_of(rest: bytes) -> str:
    """Return the ULID in the key of a block, of which this is what follows BLOCK. Raises DamagedRow."""
    return text_of(rest, "key of a block")


def times_value(times: Times) -> bytes:
    return UNIT_TIMES.pack(*times)


def times_of(value: bytes) -> Times:
    """Return a unit's times; a value without a version is read, too. Raises DamagedRow."""
    return Times(*numbers(UNIT_TIMES, value + bytes(8) if len(value) == 16 else value, ".index"))


def strings_key(unit: Unit, first: int) -> bytes:
    return index_key(unit, STRINGS, U32.pack(first))


def strings_value(strings: tuple[str, ...]) -> bytes:
    encoded = [text.encode() for text in strings]
    return U32.pack(len(encoded)) + b"".join(U32.pack(len(text)) + text for text in encoded)


def strings_of(value: bytes) -> tuple[str, ...]:
    """Return the strings of one row. Raises DamagedRow."""
    found, at = [], 4
    if len(value) < at:
        raise DamagedRow("cut short", len(value), ".strings")
    (count,) = U32.unpack_from(value)
    for _ in range(count):
        if len(value) < at + 4:
            raise DamagedRow("cut short", len(value), ".strings")
        (size,) = U32.unpack_from(value, at)
        at += 4 + size
        if len(value) < at:
            raise DamagedRow("cut short", len(value), ".strings")
        found.append(text_of(value[at - size:at], ".strings"))
    if at != len(value):
        raise DamagedRow(f"{len(value) - at} bytes too many", at, ".strings")
    return tuple(found)


def applied_value(term: int, index: int) -> bytes:
    return TWO_U64.pack(term, index)


def applied_of(value: bytes) -> tuple[int, int]:
    """Return (term, log index) of the last applied entry. Raises DamagedRow."""
    term, index = numbers(TWO_U64, value, "applied index")
    return term, index


def tombstone_key(index: int, appended_ns: int, name: str) -> bytes:
    return TOMBSTONES + TWO_U64.pack(index, appended_ns) + name.encode()


def tombstone_of(key: bytes) -> tuple[int, int, str]:
    """Return (log index, appended ns, name) of a tombstone's key, with its bucket. Raises DamagedRow."""
    if len(key) < 1 + TWO_U64.size:
        raise DamagedRow("cut short", len(key), "key of a tombstone")
    index, appended_ns = TWO_U64.unpack_from(key, 1)
    return index, appended_ns, text_of(key[1 + TWO_U64.size:], "key of a tombstone")


def queue_key(index: int, ulid: str) -> bytes:
    return QUEUE + U64.pack(index) + ulid.encode()


def queue_value(row: Queued) -> bytes:
    return QUEUED.pack(row.appended_ns, row.level, row.shard) + row.tenant.encode()


def queued_of(key: bytes, value: bytes) -> Queued:
    """Return a row of the queue from its key, with its bucket, and its value. Raises DamagedRow."""
    if len(key) != 9 + LENGTH or len(value) < QUEUED.size:
        raise DamagedRow("cut short", len(key), "row of the compaction queue")
    (index,) = U64.unpack_from(key, 1)
    appended_ns, level, shard = QUEUED.unpack_from(value)
    ulid = text_of(key[9:], "row of the compaction queue")
    return Queued(index, ulid, appended_ns, level, shard, text_of(value[QUEUED.size:], "tenant"))


def name_key(bucket: bytes, name: str) -> bytes:
    """Return the key of a job's plan or state."""
    return bucket + name.encode()


def removed_key(bucket: bytes, block: Block) -> bytes:
    """Return the key of a removed block, in the bucket REMOVED or GONE."""
    return bucket + block.ulid.encode() + U32.pack(block.shard) + block.tenant.encode()


def removed_of(key: bytes) -> Block:
    """Return the block of such a key, with its bucket. Raises DamagedRow."""
    if len(key) < 5 + LENGTH:
        raise DamagedRow("cut short", len(key), "key of a removed block")
    (shard,) = U32.unpack_from(key, 1 + LENGTH)
    return Block(text_of(key[1:1 + LENGTH], "ULID"), shard, text_of(key[5 + LENGTH:], "tenant"))


def dropped_key(unit: Unit) -> bytes:
    return DROPPED + unit_key(unit)

"""Safety: every removed object is deleted in the end, and none while a query may still read it.

A tombstone names objects to delete. It is handed out with a job after the delay, and stays here until a worker reports that it
is done. If its job ends without that report it goes out with a later job. After some jobs the index's own deleter takes it.
Pyroscope forgets a tombstone as soon as a job takes it.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from highwater.impl.codecs.index import names, ulids
from highwater.impl.codecs.index import rows as row
from highwater.impl.codecs.index.messages import BlockTombstones, Tombstones, copied, decode, encode
from highwater.impl.codecs.index.partitions import Partition
from highwater.impl.codecs.index.rows import Block, Unit
from highwater.impl.index import removed
from highwater.impl.index.config import Config
from highwater.impl.index.kv import Rows, Transaction, under


class Stored(NamedTuple):
    """A tombstone with its row's key."""

    key: bytes
    index: int
    appended_ns: int
    name: str
    message: Any


def name_of(message: Any) -> str:
    return message.shard.name if message.HasField("shard") else message.blocks.name


def add(rows: Transaction, message: Any, index: int, now_ns: int) -> None:
    """Keep a tombstone that the log entry `index` has made."""
    stored = copied(message)
    stored.index = index
    rows.put(row.tombstone_key(index, now_ns, name_of(stored)), encode(stored))


def of_blocks(job: str, level: int, blocks: list[Block]) -> Any:
    """Return the tombstone of some blocks of one tenant, shard and level, by the name of the job that has replaced them."""
    return Tombstones(blocks=BlockTombstones(name=job, shard=blocks[0].shard, tenant=blocks[0].tenant, compaction_level=level,
                                             blocks=[block.ulid for block in blocks]))


def all_of(rows: Rows) -> Iterable[Stored]:
    """Yield the tombstones, the oldest first."""
    for key, value in under(rows, row.TOMBSTONES):
        yield Stored(key, *row.tombstone_of(key), decode(Tombstones, value))


def find(rows: Rows, index: int, name: str) -> Stored | None:
    """Return the tombstone that a log entry has made under a name."""
    for key, value in under(rows, row.TOMBSTONES + row.U64.pack(index)):
        stored = Stored(key, *row.tombstone_of(key), decode(Tombstones, value))
        if stored.name == name:
            return stored
    return None


def names_unit(rows: Rows, unit: Unit) -> bool:
    """Return whether all objects of a unit are still to be deleted: a tombstone names it."""
    name = names.unit_tombstone_name(unit.partition, unit.tenant, unit.shard)
    return any(stored.name == name and stored.message.HasField("shard") for stored in all_of(rows))


def is_due(stored: Stored, now_ns: int, config: Config) -> bool:
    """Return whether queries that began before the removal are over."""
    return stored.appended_ns + config.delay_ns <= now_ns


def is_free(stored: Stored, now_ns: int, config: Config) -> bool:
    """Return whether the next job may carry a tombstone."""
    return is_due(stored, now_ns, config) and not stored.message.job and stored.message.handed_out < config.hand_outs


def for_own_deleter(rows: Rows, now_ns: int, config: Config) -> list[Any]:
    """Return the tombstones that jobs have carried in vain, or that no job has carried for another delay."""
    return [stored.message for stored in all_of(rows) if not stored.message.job and is_due(stored, now_ns, config) and (
        stored.message.handed_out >= config.hand_outs or stored.appended_ns + 2 * config.delay_ns <= now_ns)]


def hand_out(rows: Transaction, stored: Stored, job: str) -> Any:
    """Give a tombstone to a job; return it as the job carries it."""
    carried = copied(stored.message)
    carried.job, carried.handed_out = job, carried.handed_out + 1
    rows.put(stored.key, encode(carried))
    return carried


def take_back(rows: Transaction, job: str, carried: Iterable[Any]) -> None:
    """Free the tombstones that a job, which has ended, carried and nobody has confirmed."""
    for message in carried:
        stored = find(rows, message.index, name_of(message))
        if stored is not None and stored.message.job == job:
            free = copied(stored.message)
            free.job = ""
            rows.put(stored.key, encode(free))


def confirm(rows: Transaction, index: int, name: str, now_ns: int, config: Config) -> bool:
    """Forget a tombstone whose objects are deleted, by whomever. One that was never due is kept: nobody had it to delete."""
    stored = find(rows, index, name)
    if stored is None or not is_due(stored, now_ns, config):
        return False
    rows.delete(stored.key)
    blocks = stored.message.blocks
    for ulid in blocks.blocks:
        removed.gone(rows, Block(ulid, blocks.shard, blocks.tenant))
    return True


def objects_of(message: Any, listed: Iterable[tuple[str, str]]) -> list[str]:
    """Return the keys of the objects that a tombstone lets be deleted.

    For a unit they are among `listed`, pairs (ULID, key) below the tenant's prefix of the shard: those that were made inside
    the window. Pyroscope deletes everything older, too, such as a unit that is kept for its later data.
    """
    if message.HasField("shard"):
        window = Partition(message.shard.timestamp, message.shard.duration // 1_000_000_000)
        return [key for ulid, key in listed if is_inside(window, ulid)]
    blocks = message.blocks
    return [names.block_path(blocks.shard, blocks.tenant, ulid, blocks.compaction_level) for ulid in blocks.blocks]


def is_inside(window: Partition, ulid: str) -> bool:
    """Return whether a unit's tombstone is for this object."""
    try:
        return window.holds(ulid)
    except ulids.InvalidUlid:
        return False  # not an object of the index

"""The size of a run of a whole database, and the parts of its clients."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from highwater.dst.scenario import STORES, BaseShape, Draw
from highwater.dst.world.network import TIMEOUT_MS
from highwater.impl.db.compactor import DbCompactor
from highwater.impl.db.db import Db
from highwater.impl.db.pinned import DbReader
from highwater.impl.protocols import clones, database_gc, destroy
from highwater.impl.protocols.database_gc import Plan
from highwater.impl.world import World


@dataclass(frozen=True)
class Shape(BaseShape):
    """The size of a run, drawn from its seed unless given."""

    writers: int = 2
    calls: int = 10  # of a writer, over all its lives; an open is one
    readers: int = 1
    reads: int = 5
    operators: int = 1
    changes: int = 3
    compactors: int = 1
    compactions: int = 3
    collectors: int = 1
    rounds: int = 2
    cloners: int = 0  # of a clone; most runs have none
    clones: int = 14  # calls of a cloner, most of them in its clone
    destroyers: int = 0
    destroys: int = 3
    flush_bytes: int = 300  # in memory: then a flush begins
    most_bytes: int = 0  # in memory: then writes wait; 0: never
    most_l0: int = 8  # while L0 has so many, no flush begins by itself, unless writes wait: they would wait for a compactor
    poll_ms: int = 0  # of writers; 0: none
    replay_flush: int = 0  # WAL objects flushed at a time during a replay; 0: all later
    attempts: int = 5  # of a request whose outcome stays unknown, or of a read without an answer
    sources: int = 1  # of a compaction, at least
    pin_ms: int = 900_000  # the lifetime of a compactor's pin; 0: it takes none
    lease_ms: int = 600  # the lifetime of checkpoints
    ttl_ms: int = 100
    min_age_ms: int = 60
    grace_ms: int = 60  # of a soft destroy
    fences: bool = False  # collectors delete fences, too
    apart_ms: int = 300  # a writer opens at most so late, and stays away so long
    pause_ms: int = 60  # between two operations of a client, at most
    whole_keys: bool = True  # a run has all versions of a key in one SST; False: an SST ends where it is full


MOST = {"writers": 3, "readers": 2, "operators": 2, "compactors": 2, "collectors": 2, "cloners": 2, "destroyers": 1}
POLL_MS = 60  # of readers
SMALLEST_PAGE = 2


def draw_shape(of: Draw) -> Shape:
    """Draw a shape. One run in six has clones, for it costs several times as much. One in three is in small parts: pages of
    listings, and SSTs that end amid the versions of a key."""
    shape = Shape.drawn(of, writers=(2, 1, 3), calls=(10, 6, 16), readers=(1, 1, 2, 0), reads=(5, 3), operators=(1, 0),
                       changes=(3, 2), compactors=(1, 1, 2, 0), compactions=(3, 5), collectors=(1, 1, 2, 0),
                       rounds=(2, 4), flush_bytes=(300, 100, 100_000), most_bytes=(0, 0, 200), most_l0=(8, 2),
                       poll_ms=(0, 0, 100), replay_flush=(0, 0, 1), attempts=(5, 2), sources=(1, 2, 3),
                       pin_ms=(900_000, 0, 300), lease_ms=(600, 320, 2000), ttl_ms=(100, 20, 1000),
                       min_age_ms=(60, 1, 200), fences=(False, True), apart_ms=(300, 1, 1000), pause_ms=(60, 1, 300),
                       page_size=(1000, 1000, SMALLEST_PAGE), chaos=(30, 5), audit=(True, False), skew_ms=(0, 0, 50),
                       store=("s3", "s3", "s3", *STORES),
                       cloners=(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2), clones=(14, 8, 20), destroyers=(0, 1), destroys=(3, 1, 6),
                       grace_ms=(60, 1, 600))
    shape = shape._replace(whole_keys=shape.page_size > SMALLEST_PAGE)
    return shape if shape.cloners else shape._replace(destroyers=0)


def waits_ms(shape: Shape) -> tuple[int, ...]:
    return shape.pause_ms, TIMEOUT_MS, shape.min_age_ms, shape.lease_ms


def length(shape: Shape) -> int:
    return (shape.writers * 6 * shape.calls + shape.readers * 10 * shape.reads + shape.operators * 6 * shape.changes
            + shape.compactors * 16 * shape.compactions + shape.collectors * 14 * shape.rounds
            + shape.cloners * 10 * shape.clones + shape.destroyers * 10 * shape.destroys)


class Impl(NamedTuple):
    """The parts of a client, each of which a mutant may replace."""

    db: type[Db] = Db
    reader: type[DbReader] = DbReader
    compactor: type[DbCompactor] = DbCompactor
    collect: Callable[..., Awaitable[Plan]] = database_gc.collect
    clone: Callable[..., Awaitable[Any]] = clones.clone
    detach: Callable[..., Awaitable[list[str]]] = clones.detach
    mark: Callable[..., Awaitable[Any]] = destroy.mark
    finish: Callable[..., Awaitable[list[str]]] = destroy.finish


def production(world: World, shape: Shape, number: int) -> Impl:
    return Impl()

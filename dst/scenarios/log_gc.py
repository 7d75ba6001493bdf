"""Simulate appenders, readers that write snapshots, and collectors of impl/protocols/log_gc.py.

traces/protocols/log_gc.py judges them. Each appender appends its entries one after another. An entry with an indeterminate
outcome is not appended again; one that was certainly not applied may be. A reader recovers the log, or writes a snapshot of it.
After the faults have stopped, one appender, one reader and one collector must each succeed. Then no entry that a snapshot holds
may be left, except the last entry.
"""

from dataclasses import dataclass
from typing import Any

from highwater.dst.actors import Actors, Said, raise_anomalies, said_by
from highwater.dst.scenario import RARE, STORES, BaseShape, Draw, Scenario, counted
from highwater.dst.scripts import log_gc as scripts
from highwater.dst.sim.choose import Choose
from highwater.dst.sim.kernel import Client
from highwater.dst.world.network import TIMEOUT_MS
from highwater.dst.world.store import SimulatedStore
from highwater.dst.world.tampering import DAMAGE, deleted
from highwater.impl.protocols.log_gc import AppendLog, texts_decoded
from highwater.impl.world import World
from highwater.traces.calls import content
from highwater.traces.event import Event
from highwater.traces.histories.history import too_young
from highwater.traces.histories.promises import recovered_rightly
from highwater.traces.histories.serial import anomalies
from highwater.traces.protocols.log_gc import BOUNDARY, KEYS, LOG, SNAPSHOT, Trace, constants, refiner
from highwater.traces.protocols.log_gc_calls import CALLS
from highwater.traces.refine import Failure, refiner_of

ROOT = "db"


@dataclass(frozen=True)
class Shape(BaseShape):
    """The size of a run, drawn from its seed unless given."""

    appenders: int = 2
    entries: int = 4
    readers: int = 1
    reads: int = 3
    collectors: int = 1
    rounds: int = 3
    min_age_ms: int = 60
    pause_ms: int = 60  # between two entries of an appender, at most
    read_attempts: int = 10  # of a recovery


MOST = {"appenders": 3, "readers": 2, "collectors": 2}  # what the model is made for


def draw_shape(of: Draw) -> Shape:
    return Shape.drawn(of, appenders=(2, 3), entries=(4, 3, 8), readers=(1, 2), reads=(3, 2, 6), collectors=(1, 2),
                       rounds=(3, 2, 6), min_age_ms=(60, 20, 150, 400), pause_ms=(60, 1, 300), chaos=(30, 5, 100),
                       audit=(True, False), skew_ms=(0, 0, 50), store=("s3", "s3", "s3", *STORES))


def unit_ms(shape: Shape) -> int:
    return max(shape.min_age_ms, 60)


def waits_ms(shape: Shape) -> tuple[int, ...]:
    """Return the waiting times of the protocol and its callers."""
    return shape.min_age_ms, TIMEOUT_MS, shape.pause_ms


def length(shape: Shape) -> int:
    entries = shape.appenders * shape.entries
    return 3 * entries + shape.readers * shape.reads * (4 + entries // 3) + shape.collectors * shape.rounds * (5 + entries // 3)


def trace_of(shape: Shape) -> Trace:
    return Trace(refiner_of(refiner, constants(MOST["appenders"], MOST["readers"], MOST["collectors"])), KEYS, shape.skew_ms)


def production(world: World, shape: Shape, number: int) -> AppendLog:
    return AppendLog(world, ROOT, read_attempts=shape.read_attempts)


async def appender(actors: Actors, client: Client, world: World, number: int) -> None:
    log = actors.build(world, actors.shape, number)
    while actors.left[client.name]:
        actors.left[client.name] -= 1
        while await appended(actors, client, log) and not actors.choose(f"{client.name}.gives_up", 2):
            pass
        await actors.pause(client, world)
    actors.tell(client, "closed", b"")  # a client that starts again lists again


async def appended(actors: Actors, client: Client, log: AppendLog) -> bool:
    """Append one entry. Returns True if it was certainly not applied and may be appended again."""
    entry = actors.name_update(client.name)
    actors.begin(client, entry)
    said = await said_by(CALLS, "append", actors.in_time(client, log.append(entry.encode())), LOG.key,
                         content=lambda _: content(entry.encode()))
    actors.end(client, said.told, said.key, keys=said.keys)
    return said.told == "failed"


async def reader(actors: Actors, client: Client, world: World, number: int) -> None:
    log = actors.build(world, actors.shape, number)
    while actors.left[client.name]:
        actors.left[client.name] -= 1
        await world.clock.sleep_ms(pause_ms(actors, client))
        reads = actors.choose(f"{client.name}.reads", 2)
        if actors.auditing or not reads:
            await written(actors, client, log)
        if actors.auditing or reads:
            await recovered(actors, client, log)


async def written(actors: Actors, client: Client, log: AppendLog) -> None:
    actors.begin(client)
    said = await said_by(CALLS, "snapshot", actors.in_time(client, log.snapshot()),
                         rounds=lambda _: str(actors.shape.read_attempts))
    if said.error:
        actors.tell(client, said.told, b"", keys=said.keys)
    else:
        actors.end(client, "snapshot", body=b"%d" % said.value, keys=said.keys)


async def recovered(actors: Actors, client: Client, log: AppendLog) -> None:
    actors.begin(client)
    said = await said_by(CALLS, "recover", actors.in_time(client, log.recover()), id=lambda of: str(of.id),
                         rounds=lambda _: str(actors.shape.read_attempts))
    if said.error:
        actors.tell(client, said.told, b"", keys=said.keys)
        return
    seen = said.value.state
    actors.end(client, "read", body=" ".join(seen).encode(errors="surrogateescape"), seen=seen, keys=said.keys)


async def collector(actors: Actors, client: Client, world: World, number: int) -> None:
    log = actors.build(world, actors.shape, number)
    await actors.collect_in_rounds(client, lambda: world.clock.sleep_ms(pause_ms(actors, client)),
                                   lambda: collected(actors, client, log))


async def collected(actors: Actors, client: Client, log: AppendLog) -> Said:
    asked = actors.in_time(client, log.collect(actors.shape.min_age_ms))
    return await said_by(CALLS, "collect", asked, deleted=lambda ids: " ".join(map(LOG.key, sorted(ids))))


def pause_ms(actors: Actors, client: Client) -> int:
    shape = actors.shape
    if actors.auditing:
        return 2 * shape.min_age_ms + 2 * shape.skew_ms + 30  # everything is old
    return 1 + actors.choose(f"{client.name}.pause", 2 * shape.min_age_ms)


# --- when the faults have stopped

def recoverable(store: SimulatedStore) -> list[str]:
    """Return the entries that an undisturbed recovery finds."""
    latest = max(numbers(store, SNAPSHOT), default=0)
    found = list(texts_decoded(store.objects[SNAPSHOT.key(latest)][0].body)) if latest else []
    while LOG.key(latest + 1) in store.objects:
        latest += 1
        found.append(store.objects[LOG.key(latest)][0].body.decode())
    return found


def numbers(store: SimulatedStore, of: Any) -> list[int]:
    return [of.file_id(key) for key in store.keys if key.startswith(of.prefix)]


def final_check(actors: Actors, events: list[Event]) -> None:
    """Check that every acknowledged entry is recovered once, in log order, and that every recovery saw a prefix of the log."""
    shape, store = actors.shape, actors.store
    if shape.broken == SNAPSHOTS_LOST:
        raise_anomalies([found for found in [recovered_rightly(events, SNAPSHOT, BOUNDARY)] if found])
        return
    found = anomalies(actors.history(), recoverable(store))
    raise_anomalies(found)
    young = actors.trace and too_young(events, LOG, shape.min_age_ms - store.profile.last_modified_ms + 1, actors.ahead_ms())
    if young:
        raise Failure("safety", "history:too young", young)
    if actors.auditing:
        gets_on(actors)
    if actors.trace and actors.auditing and shape.readers and shape.collectors:
        nothing_stale(store)


def gets_on(actors: Actors) -> None:
    """Check that Appender#0's last append, without faults or other clients, was committed."""
    told = next(e for e in reversed(actors.told) if e.client == "Appender#0" and e.op != "closed")
    if told.op != "committed":
        raise Failure("liveness", "liveness:append", f"Appender#0 was told {told.op!r} of {told.body.decode()}, with nobody "
                      "else at work and no fault")


def nothing_stale(store: SimulatedStore) -> None:
    there, snapshots = numbers(store, LOG), numbers(store, SNAPSHOT)
    stale = [i for i in there[:-1] if i <= max(snapshots)]
    if stale or len(snapshots) > 1:
        raise Failure("liveness", "liveness:stale", f"after the last round of collection entries {stale} are still there, "
                      f"which a snapshot holds, and of snapshots {snapshots}")


# --- what a campaign should reach


def moments_of(events: list[Event], shape: Shape) -> set[str]:
    found: set[str] = set()
    before: dict[str, Event] = {}  # client -> its last request
    collected: set[str] = set()
    for e in events:
        if e.kind != "applied":
            continue
        if e.op == "delete":
            collected.add(e.key)
        elif e.op == "create" and e.status == 200 and e.key in collected:
            found.add("collected entry put again")
        elif e.awaited:
            found |= {name for name, is_so in REPLIED.items() if is_so(e, before.get(e.client))}
        before[e.client] = e
    return found


REPLIED = {  # a condition on a request and the client's request before it, if any
    "append conflict": lambda e, last: e.op == "create" and e.status != 200 and e.key.startswith(LOG.prefix),
    "idle append": lambda e, last: e.op == "create" and e.key.startswith(LOG.prefix) and last is not None and
    last.key == BOUNDARY,
    "advance conflict": lambda e, last: e.op in ("create", "update") and e.key == BOUNDARY and e.status != 200,
    "snapshot conflict": lambda e, last: e.op == "create" and e.status != 200 and e.key.startswith(SNAPSHOT.prefix),
    "snapshot gone before it was read": lambda e, last: e.op == "get" and e.status == 404 and e.key.startswith(SNAPSHOT.prefix),
    "boundary unchanged": lambda e, last: e.op == "get_if_changed" and e.status == 304,
}


SNAPSHOTS_LOST = "snapshots_lost"


def all_lost(store: SimulatedStore, shape: Shape, now_ms: int, choose: Choose) -> bool:
    """Delete all snapshots, once a boundary says that entries are gone."""
    there = [key for key in store.keys if key.startswith(SNAPSHOT.prefix)]
    return BOUNDARY in store.objects and bool(there) and all([deleted(store, key, now_ms) for key in there])


SCENARIO = Scenario(
    stem="log_gc",
    shape=Shape,
    draw_shape=draw_shape,
    roles={"Appender": ("appenders", "entries"), "Reader": ("readers", "reads"), "Collector": ("collectors", "rounds")},
    most=MOST,
    optional=("Reader", "Collector"),
    mildest=Shape(pause_ms=1, audit=False),
    tiny=Shape(appenders=2, entries=2, readers=1, reads=1, collectors=1, rounds=1, min_age_ms=2, pause_ms=1, audit=False),
    unit_ms=unit_ms,
    waits_ms=waits_ms,
    length=length,
    production=production,
    work={"Appender": appender, "Reader": reader, "Collector": collector},
    audit=(("Appender#0",), ("Reader#0",), ("Collector#0",), ("Reader#0",)),
    scripts=scripts.SCRIPTS,
    trace_of=trace_of,
    final_check=final_check,
    told=("committed", "refused", "failed", "unknown", "read", "not read", "snapshot", "closed", "deleted", "not deleted"),
    moments=("append conflict", "idle append", "advance conflict", "snapshot conflict", "snapshot gone before it was read",
             "boundary unchanged", "collected entry put again"),
    moments_of=moments_of,
    cost={counted(n, "appender"): Shape(appenders=n, entries=100, reads=30, rounds=30, min_age_ms=200, pause_ms=1, chaos=1_000,
                                         audit=False) for n in (1, 2, 4)},  # in which logs are collected
    breaks={**DAMAGE, SNAPSHOTS_LOST: all_lost},
    rare=(*RARE, {"broken": SNAPSHOTS_LOST, "min_age_ms": 20, "rounds": 6, "reads": 6},
          {"read_attempts": 1, "min_age_ms": 20, "collectors": 2, "entries": 8, "rounds": 6}),
    needs=("create", "update", "cache", "list"),
)

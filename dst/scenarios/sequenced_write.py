"""Simulate writers and readers of impl/protocols/sequenced_write.py, for traces/protocols/sequenced_write.py to judge.

There are two uses: each file is the full state, or each file is an entry of a log. Each writer does its updates one after
another. An update that was certainly not applied is repeated; one with an indeterminate outcome is not.
"""

from dataclasses import dataclass
from typing import NamedTuple

from highwater.dst.actors import Actors, Change, Said, raise_anomalies, said_by
from highwater.dst.scenario import RARE, STORES, BaseShape, Cached, Draw, Scenario, counted
from highwater.dst.scripts import sequenced_write as scripts
from highwater.dst.sim.kernel import Client
from highwater.dst.world.tampering import DAMAGE
from highwater.impl.codecs.json.manifest import UPDATES
from highwater.impl.layout import Namespace
from highwater.impl.protocols.sequenced_storage import SequencedStorage
from highwater.impl.protocols.sequenced_write import Committed, LogReader, LogWriter, NextFile, StateReader, StateWriter
from highwater.impl.world import World
from highwater.traces.calls import content
from highwater.traces.event import Event
from highwater.traces.histories.serial import anomalies
from highwater.traces.protocols.sequenced_write import Trace, constants, refiner
from highwater.traces.protocols.sequenced_write_calls import CALLS
from highwater.traces.refine import refiner_of


@dataclass(frozen=True)
class Shape(BaseShape):
    """The size of a run, drawn from its seed unless given."""

    writers: int = 2
    updates: int = 3
    readers: int = 1
    reads: int = 2
    log: bool = False  # True: a file is an entry of a log; False: the full state
    list: bool = False  # state: after a conflict a writer lists; False: it reads the winner's file
    recognise: bool = False  # True: a create without a response is repeated and recognised; False: the caller is told
    attempts: int = 0  # of one update; 0: no limit
    pause_ms: int = 60  # between two operations of a client, at most


MOST = {"writers": 3, "readers": 2}  # the model's numbers of clients; a run may have fewer


def draw_shape(of: Draw) -> Shape:
    return Shape.drawn(of, writers=(2, 3), updates=(2, 3, 4), readers=(1, 2), reads=(1, 2, 3), log=(False, True),
                       list=(False, False, True), recognise=(False, True), attempts=(0, 0, 2, 4), pause_ms=(60, 1, 300),
                       chaos=(3, 30), audit=(True, False), store=("s3", "s3", *STORES))


def length(shape: Shape) -> int:
    updates = shape.writers * shape.updates
    return 3 * updates + shape.readers * (shape.reads + updates if shape.log else 2 * shape.reads)


NAMESPACES = {True: Namespace("db", "wal"), False: Namespace("db", "manifest")}


def options(shape: Shape) -> tuple[str, str]:
    """Return what a writer does after a conflict, and after an indeterminate outcome."""
    return "list" if shape.list and not shape.log else "get", "recognise" if shape.recognise else "report"


def trace_of(shape: Shape) -> Trace:
    of = constants("log" if shape.log else "state", MOST["writers"], MOST["readers"], *options(shape))
    return Trace(refiner_of(refiner, of), NAMESPACES[shape.log], shape.skew_ms)


def trace_options(shape: Shape) -> list[str]:
    return [f"--shape {name}=True" for name in ("log", "list", "recognise") if getattr(shape, name)]


class Ends(NamedTuple):
    """A writer and a reader on the same files. A client of the simulation uses one of them."""

    writer: StateWriter | LogWriter
    reader: StateReader | LogReader


Codec = Cached(UPDATES)


def made(world: World, shape: Shape, storage: type = SequencedStorage, next_file: type = NextFile, state: type = StateWriter,
         log: type = LogWriter, readers: tuple[type, type] = (StateReader, LogReader)) -> Ends:
    files, (resolve, unknown) = storage(world, NAMESPACES[shape.log]), options(shape)
    writer = log(files, unknown=unknown) if shape.log else state(files, Codec, resolve=resolve, unknown=unknown)
    writer.next_file = next_file(files, unknown)
    return Ends(writer, readers[shape.log](files))


def production(world: World, shape: Shape, number: int) -> Ends:
    return made(world, shape)


async def put(of: StateWriter | LogWriter, update: str, attempts: int | None) -> Said:
    """Put an update, and return what was said."""
    if isinstance(of, LogWriter):
        return await said_by(CALLS, "append", of.append(update.encode(), attempts), NAMESPACES[True].key,
                             content=lambda _: content(update.encode()), attempts=lambda _: str(attempts or 0))
    change = Change(lambda _, value: value.with_update(update))
    said = await said_by(CALLS, "update", of.update(change, attempts), key_of, content=shown,
                         attempts=lambda _: str(attempts or 0))
    if said.value is not None:
        change.check(said.value)
    return said


def key_of(of: Committed) -> str:
    return NAMESPACES[False].key(of.id)


def shown(of: Committed) -> str:
    return content(Codec.encode(of.value))


async def writer(actors: Actors, client: Client, world: World, number: int) -> None:
    shape = actors.shape
    of = actors.build(world, shape, number).writer

    await actors.write_one_by_one(client, world, lambda update: put(of, update, shape.attempts or None))


async def read(actors: Actors, client: Client, of: StateReader | LogReader) -> Said:
    if isinstance(of, LogReader):
        return await said_by(CALLS, "read", actors.in_time(client, of.read()))
    return await said_by(CALLS, "current", actors.in_time(client, of.current()), key_of, content=shown)


def seen_in(found: Committed | list[bytes] | None) -> tuple[str, ...]:
    if isinstance(found, list):
        return tuple(entry.decode() for entry in found)
    return found.value.updates if found else ()


async def reader(actors: Actors, client: Client, world: World, number: int) -> None:
    of = actors.build(world, actors.shape, number).reader
    await actors.read_one_by_one(client, world, lambda: read(actors, client, of), seen_in)


def final_check(actors: Actors, events: list[Event]) -> None:
    """Check the callers' history against the final state: all log entries in order, or the latest file.

    «the state of the system is represented by reading all the files and resolving them in order»"""
    where, objects = NAMESPACES[actors.shape.log], actors.store.objects
    files = [objects[key][0].body for key in sorted(objects) if key.startswith(where.prefix)]
    if actors.shape.log:
        final = tuple(body.decode() for body in files)
    else:
        final = UPDATES.decode(files[-1]).updates if files else ()
    found = anomalies(actors.history(), final)
    raise_anomalies(found)


def moments_of(events: list[Event], shape: Shape) -> set[str]:
    found, last = set(), {}  # client -> its last create since its last listing
    for e in events:
        if e.op == "list" or e.kind == "crash":
            last.pop(e.client, None)
        elif e.op == "create" and not e.awaited:
            found.add("late create applied" if e.status == 200 else "late create refused")
        elif e.op == "create" and e.kind == "applied":
            before = last.get(e.client)
            found |= {"conflict"} if e.status != 200 else {"create without a listing"} if before else set()
            found |= {"the same create again"} if before == (e.key, e.body) else set()
            last[e.client] = e.key, e.body
        elif (e.op, e.status) == ("get", 404):
            found.add("end of the log")
    return found


SCENARIO = Scenario(
    stem="sequenced_write",
    shape=Shape,
    draw_shape=draw_shape,
    roles={"Writer": ("writers", "updates"), "Reader": ("readers", "reads")},
    most=MOST,
    optional=("Reader",),
    mildest=Shape(pause_ms=1, audit=False),
    tiny=Shape(writers=2, updates=1, readers=1, reads=1, pause_ms=1, audit=False),
    length=length,
    production=production,
    work={"Writer": writer, "Reader": reader},
    audit=(("Writer#0",), ("Reader#0",)),
    scripts=scripts.SCRIPTS,
    trace_of=trace_of,
    trace_options=trace_options,
    final_check=final_check,
    told=("committed", "failed", "unknown", "read", "not read"),
    moments=("conflict", "create without a listing", "the same create again", "late create refused", "late create applied",
             "end of the log"),
    moments_of=moments_of,
    cost={f"{'log' if log else 'state'}, {counted(n, 'writer')}": Shape(
              writers=n, updates=40, readers=0, reads=0, log=log, pause_ms=1, audit=False)
          for log in (False, True) for n in (1, 4)},
    breaks=DAMAGE,
    rare=RARE,
    needs=("create", "list"),
)

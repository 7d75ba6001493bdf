"""Simulate clients of the store itself, for traces/protocols/store_primitives.py to judge.

Each client sends one primitive of the essay on object-store protocols after another: PUT, PUT If-None-Match, PUT If-Match, GET,
GET If-None-Match, LIST.
"""

from dataclasses import dataclass
from typing import Any

from highwater.dst.actors import Actors
from highwater.dst.scenario import BaseShape, Draw, Scenario
from highwater.dst.sim.kernel import Client
from highwater.dst.world.network import TIMEOUT_MS
from highwater.dst.world.store import profile_of
from highwater.impl.errors import AlreadyExists, Definite, Indefinite, NotFound, PreconditionFailed, TimedOut
from highwater.impl.world import ObjectStore, World
from highwater.traces.event import Event
from highwater.traces.histories.linearizable import CONFLICT, MISSING, UNCHANGED, Operation, check
from highwater.traces.protocols.store_primitives import KEYS, PREFIX, Trace, constants, refiner
from highwater.traces.refine import Failure, refiner_of

FEW, UNIQUE = 3, 60  # number of different contents: few, so that they recur, or all different


@dataclass(frozen=True)
class Shape(BaseShape):
    """The size of a run, drawn from its seed unless given."""

    clients: int = 2
    requests: int = 6
    keys: int = 2
    bodies: int = UNIQUE
    pause_ms: int = 30  # between two requests of a client, at most


MOST = {"clients": 3, "keys": 2}  # what the model is made for


def draw_shape(of: Draw) -> Shape:
    return Shape.drawn(of, clients=(2, 3), requests=(6, 3, 10), keys=(1, 2), bodies=(UNIQUE, FEW), pause_ms=(30, 1),
                       chaos=(10, 100), audit=(True, False), store=("s3", "gcs", "azure", "r2", "minio-2025-08", "ceph"))


def unit_ms(shape: Shape) -> int:
    return max(shape.pause_ms, 30)


def waits_ms(shape: Shape) -> tuple[int, ...]:
    return unit_ms(shape), TIMEOUT_MS


def length(shape: Shape) -> int:
    return 2 * shape.clients * shape.requests


def trace_of(shape: Shape) -> Trace:
    version = "digest" if profile_of(shape.store).version == "digest" else "unique"
    of = constants(MOST["clients"], MOST["keys"], UNIQUE, version)
    return Trace(refiner_of(refiner, of), KEYS, shape.skew_ms)


def trace_options(shape: Shape) -> list[str]:
    return [f"--shape store={shape.store}"]


def production(world: World, shape: Shape, number: int) -> ObjectStore:
    return world.store


async def client(actors: Actors, me: Client, world: World, number: int) -> None:
    store, shape = actors.build(world, actors.shape, number), actors.shape
    known: dict[str, str] = {}  # key -> the last version that it learned
    while actors.left[me.name]:
        actors.left[me.name] -= 1
        key = f"{PREFIX}{1 + actors.choose(f'{me.name}.key', shape.keys)}"
        ops = ("get", "put", "create", "list", *(("update", "get_if_changed") if key in known else ()))
        op = "get" if actors.auditing else ops[actors.choose(f"{me.name}.request", len(ops))]
        actors.begun += 1
        body = b"%d" % (actors.begun if shape.bodies == UNIQUE else 1 + actors.choose(f"{me.name}.body", shape.bodies))
        asked = f"{op} {key} {body.decode()} {known.get(key, '') if op in ('update', 'get_if_changed') else ''}"
        actors.begin(me, asked)
        try:
            said, shown, version = await actors.in_time(me, ask(store, op, key, body, known.get(key, "")))
        except TimedOut:
            said, shown, version = "unknown", "", ""
        if version:
            known[key] = version
        actors.end(me, said, body=shown.encode(), seen=(shown, version))
        await actors.pause(me, world)


async def ask(store: ObjectStore, op: str, key: str, body: bytes, version: str) -> tuple[str, str, str]:
    """Send a request. Returns the response to the caller, the content that it shows, and the version that it gives, or ""."""
    try:
        match op:
            case "put":
                return "stored", body.decode(), await store.put(key, body)
            case "create":
                return "created", body.decode(), await store.create(key, body)
            case "update":
                return "updated", body.decode(), await store.update(key, body, version)
            case "get":
                found = await store.get(key)
                return "read", found.body.decode(), found.version
            case "get_if_changed":
                found = await store.get_if_changed(key, version)
                return ("read", found.body.decode(), found.version) if found else ("unchanged", "", "")
            case _:
                page = await store.list_page(PREFIX)
                return "listed", " ".join(sorted(entry.key.removeprefix(PREFIX) for entry in page.entries)), ""
    except AlreadyExists:
        return "exists", "", ""
    except PreconditionFailed:
        return "changed", "", ""
    except NotFound:
        return "missing", "", ""
    except Definite:
        return "failed", "", ""
    except Indefinite:
        return "unknown", "", ""


def final_check(actors: Actors, events: list[Event]) -> None:
    """Check that the callers' history is linearizable, if no two contents are equal."""
    if actors.shape.bodies != UNIQUE:
        return
    found = check(map(operation, (of for of in actors.history() if of.said != "failed")))
    if found:
        raise Failure("safety", "history:not linearizable", found)


def operation(of: Any) -> Operation:
    op, key, body, version = of.update.split(" ")
    body = body.encode() if op in ("put", "create", "update") else b""
    key = PREFIX if op == "list" else key
    result: object = {"exists": CONFLICT, "changed": CONFLICT, "missing": MISSING, "unchanged": UNCHANGED}.get(of.said)
    if of.said in ("stored", "created", "updated"):
        result = of.seen[1]
    elif of.said == "read":
        result = of.seen[0].encode(), of.seen[1]
    elif of.said == "listed":
        result = tuple(PREFIX + key for key in of.seen[0].split())
    return Operation(op, key, body, version, of.begin, None if of.said in ("unknown", "") else of.end, result)


SCENARIO = Scenario(
    stem="store_primitives",
    shape=Shape,
    draw_shape=draw_shape,
    roles={"Client": ("clients", "requests")},
    most=MOST,
    mildest=Shape(pause_ms=1, audit=False),
    tiny=Shape(clients=2, requests=2, keys=1, pause_ms=1, audit=False),
    unit_ms=unit_ms,
    waits_ms=waits_ms,
    length=length,
    production=production,
    work={"Client": client},
    audit=(("Client#0",),),
    trace_of=trace_of,
    trace_options=trace_options,
    final_check=final_check,
    told=("stored", "created", "exists", "updated", "changed", "read", "missing", "unchanged", "listed", "failed", "unknown"),
    rare=({"patience_ms": 300},),
    needs=(),
    cost={},
)

"""Simulate writers of one register."""

from dataclasses import dataclass
from typing import Any

from highwater import Definite, Event, Failure, Indefinite, Scenario, World
from highwater.dst.actors import Actors
from highwater.dst.scenario import BaseShape, Draw
from highwater.traces.refine import refiner_of
from register.impl import KEY, Register, Taken
from register.mapping import KEYS, Trace, refiner

MOST = {"writers": 3}


@dataclass(frozen=True)
class Shape(BaseShape):
    writers: int = 2
    updates: int = 2
    pause_ms: int = 60
    chaos: int = 10
    audit: bool = False


def draw_shape(of: Draw) -> Shape:
    return Shape.drawn(of, writers=(2, 3), updates=(1, 2, 3), pause_ms=(60, 1))


async def writer(actors: Actors, client: Any, world: World, number: int) -> None:
    """Write updates one after another, until one is refused because the register has a value."""
    register = actors.build(world, actors.shape, number)
    while actors.left[client.name]:
        actors.left[client.name] -= 1
        actors.begin(client, actors.name_update(client.name))
        try:
            await register.write(actors.open[client.name].update.encode())
            actors.end(client, "committed")
        except Definite as error:
            actors.end(client, "failed")
            if isinstance(error, Taken):
                actors.left[client.name] = 0
        except Indefinite:
            actors.end(client, "unknown")
        await actors.pause(client, world)


def final_check(actors: Actors, events: list[Event]) -> None:
    """Judge the responses to the callers: the one that was told of a commit wrote the final value."""
    stored = actors.store.objects.get(KEY)
    final = stored[0].body.decode() if stored else ""
    wrong = [of.update for of in actors.history() if of.said == "committed" and of.update != final]
    if wrong:
        raise Failure("safety", "history:lost update", f"{wrong[0]} was committed, and the register is {final!r}")


SCENARIO = Scenario(
    stem="register",
    shape=Shape,
    draw_shape=draw_shape,
    roles={"Writer": ("writers", "updates")},
    most=MOST,
    mildest=Shape(pause_ms=1),
    tiny=Shape(writers=2, updates=1, pause_ms=1),
    length=lambda shape: 3 * shape.writers * shape.updates,
    production=lambda world, shape, number: Register(world),
    work={"Writer": writer},
    audit=(),
    trace_of=lambda shape: Trace(refiner_of(refiner, MOST["writers"]), KEYS, shape.skew_ms),
    final_check=final_check,
    told=("committed", "failed", "unknown"),
    cost={"2 writers": Shape(writers=2, updates=2, pause_ms=1)},
)

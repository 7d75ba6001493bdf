"""Safety: none of its own; the clients of one run, which run impl/ unchanged, for traces/ to judge.

What they do is their scenario's. Here is what all have: they are started, and after a crash started again knowing nothing,
with what is left to do; some retire when the faults have stopped; and some work once more in the end. Here are also the loops
of writers, readers and collectors that several scenarios have in common.
"""

from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

from highwater.dst.scenario import Scenario
from highwater.dst.sim.kernel import Client, Kernel
from highwater.dst.world.ids import ClientIds
from highwater.dst.world.network import offset_ms
from highwater.dst.world.store import NEW, ClientClock, ClientStore, SimulatedStore
from highwater.impl.errors import Definite, Indefinite
from highwater.impl.world import World
from highwater.traces.event import Event
from highwater.traces.histories.serial import Operation
from highwater.traces.refine import Failure


class QuietMetrics:
    def count(self, name: str, amount: int = 1) -> None:
        pass

    def observe(self, name: str, value: float) -> None:
        pass

    def warn(self, message: str) -> None:
        pass


STORE, METRICS = ClientStore(), QuietMetrics()  # they hold nothing


class Actors:
    """`shape`: the scenario's. `left`: client -> how much it has still to do. `told`: what callers were told, in order."""

    def __init__(self, scenario: Scenario, kernel: Kernel, store: SimulatedStore, shape: Any,
                 choose: Callable[[str, int], int], trace: Any, tell: Callable[[Event], None], build: Any):
        self.scenario, self.kernel, self.shape, self.choose, self.trace = scenario, kernel, shape, choose, trace
        self.tell_trace, self.build, self.store, self.begun, self.told = tell, build, store, 0, []
        scenario.begin(store, shape)
        self.left = {f"{role}#{i}": getattr(shape, amount) for role, (number, amount) in scenario.roles.items()
                     for i in range(getattr(shape, number))}
        self.clients = [self._client(name) for name in self.left]
        self.ids = {name: (number, count()) for number, name in enumerate(self.left)}  # of clients: dst/world/ids.py
        self.auditing = False
        self.moments = 0
        self.operations: list[Operation] = []
        self.open: dict[str, Operation] = {}  # client -> what it is about

    def _client(self, name: str) -> Client:
        skew_ms = self.shape.skew_ms
        return Client(name, offset_ms(self.choose, f"{name}.skew", skew_ms) if skew_ms else 0)

    def start(self, client: Client) -> None:
        """Begin, or begin again after a crash, with what is left to do, and knowing nothing."""
        clock = ClientClock(self.kernel, client)
        ids = ClientIds(clock, *self.ids[client.name])  # pyright: ignore[reportArgumentType]  # a clock of generators
        world = World(STORE, clock, ids, METRICS)  # pyright: ignore[reportArgumentType]  # the same of both
        role, _, number = client.name.partition("#")
        self.kernel.start(client, self.scenario.work[role](self, client, world, int(number)))

    def tell(self, client: Client, op: str, body: bytes, key: str = "") -> None:
        """What the caller of a client is told, at this moment."""
        event = NEW(Event, (self.kernel.now_ms, 0, client.name, "told", op, key, "", 0, "", body, (), False, True, False))
        self.told.append(event)
        self.tell_trace(event)

    def begin(self, client: Client, update: str = "") -> None:
        """The caller of a client asks for an update of this name, or for a read. What never ends is of unknown outcome."""
        if client.name in self.open:
            self.operations.append(self.open[client.name])
        self.moments += 1
        self.open[client.name] = Operation(client.name, self.moments, None, "", update)

    def end(self, client: Client, said: str, key: str = "", body: bytes | None = None, seen: tuple[str, ...] = ()) -> None:
        """The caller is told what became of it: of a read what it saw, of an update, unless `body` is given, its name."""
        of = self.open.pop(client.name)
        self.moments += 1
        self.operations.append(of._replace(end=self.moments, said=said, seen=seen))
        self.tell(client, said, of.update.encode() if body is None else body, key)

    def history(self) -> list[Operation]:
        return [*self.operations, *self.open.values()]

    def name_update(self, client: str) -> str:
        """As the model counts them, so that bodies, and what was worked out for them, recur in many runs."""
        self.begun += 1
        number = max(local.k for local in self.trace.refiner.locals(client)) if self.trace else self.begun
        return f"{client.partition('#')[2]}.{number}"

    async def pause(self, client: Client, world: World) -> None:
        """Between two operations, up to the shape's `pause_ms`."""
        if self.shape.pause_ms > 1:
            await world.clock.sleep_ms(1 + self.choose(f"{client.name}.pause", self.shape.pause_ms))

    # --- what clients of several scenarios do

    async def write_one_by_one(self, client: Client, world: World, write: Callable[[str], Awaitable[str]],
                               may_give_up: bool = False) -> None:
        """Bring a writer's updates home one after another. `write` an update of a name: returns the key that tells where it
        is, or "". One that surely did not happen is asked for again, unless the caller gives up; one in doubt is not."""
        while self.left[client.name]:
            self.left[client.name] -= 1
            update = self.name_update(client.name)
            while True:
                self.begin(client, update)
                try:
                    self.end(client, "committed", await write(update))
                except Definite:
                    self.end(client, "failed")
                    if not (may_give_up and self.choose(f"{client.name}.gives_up", 2)):
                        continue
                except Indefinite:
                    self.end(client, "unknown")
                break
            await self.pause(client, world)

    async def read_one_by_one(self, client: Client, world: World, read: Callable[[], Awaitable[tuple[str, ...]]]) -> None:
        """Read time after time, and tell the reader's caller the names of the updates that it sees."""
        while self.left[client.name]:
            self.left[client.name] -= 1
            await self.pause(client, world)
            self.begin(client)
            try:
                seen = await read()
            except Definite:
                continue
            self.end(client, "read", body=" ".join(seen).encode(), seen=seen)

    async def collect_in_rounds(self, client: Client, wait: Callable[[], Awaitable], collect: Callable[[], Awaitable]) -> None:
        """Collect garbage time after time. A round that fails is over: the next one begins anew."""
        while self.left[client.name]:
            self.left[client.name] -= 1
            await wait()
            try:
                await collect()
            except (Definite, Indefinite):
                continue

    # --- when the faults have stopped

    def who_retires(self) -> list[Client]:
        """Of one run in four, a random set: the others have to get on without them."""
        some = self.choose("retire", 4) == 3
        return [client for client in self.clients if some and self.choose(f"{client.name}.retires", 2)]

    def unfinished(self) -> list[str]:
        return [client.name for client in self.clients if not client.done]

    def work_once_more(self, names: tuple[str, ...]) -> None:
        self.auditing = True
        for client in self.clients:
            if client.name in names:
                self.left[client.name] = 1
                self.start(client)


def raise_anomalies(found: list[str]) -> None:
    """Raise a Failure of the callers' history if anything is wrong with it. Each text is "name: what is wrong"."""
    if found:
        raise Failure("safety", f"history:{found[0].partition(':')[0]}", "; ".join(found))

"""Clients of one simulated run: start, crash, restart, retire, audit, and their callers. They run impl/ unchanged.

The scenario says what each client does. After a crash a client starts again with no knowledge and with the work that is left.
In some runs some clients retire once the faults have stopped. In some runs clients do one more operation at the end, the audit.
This module also holds the loops of writers, readers and collectors that several scenarios share.
"""

from collections import Counter
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any, NamedTuple, Protocol, TypeVar

from highwater.dst.scenario import Scenario
from highwater.dst.sim.kernel import Client, Kernel
from highwater.dst.world.clock import ClientClock
from highwater.dst.world.ids import ClientIds, ScatteredIds
from highwater.dst.world.machines import Machines
from highwater.dst.world.network import offset_ms
from highwater.dst.world.store import NEW, ClientStore, SimulatedStore
from highwater.dst.world.tampering import DAMAGED
from highwater.impl.errors import Definite, Indefinite, StoreError, TimedOut
from highwater.impl.world import Clock, World
from highwater.traces.calls import DEFINITE, INDEFINITE, RETURNED, Calls
from highwater.traces.event import Event
from highwater.traces.histories.serial import Operation
from highwater.traces.nodes import ASKS
from highwater.traces.refine import Failure

Result = TypeVar("Result")


class QuietMetrics:
    def count(self, name: str, amount: int = 1) -> None:
        pass

    def observe(self, name: str, value: float) -> None:
        pass

    def warn(self, message: str) -> None:
        pass


class HasClock(Protocol):
    """The world of a client or of a node."""

    @property
    def clock(self) -> Clock: ...


STORE, METRICS = ClientStore(), QuietMetrics()  # without state
UNLISTED = {RETURNED: "unknown", DEFINITE: "failed", INDEFINITE: "unknown"}  # of answers that no table has


class Said(NamedTuple):
    """The answer of a call of the implementation: what it returned or raised."""

    told: str  # the kind of response
    keys: tuple[str, ...]  # of its event: traces/calls.py
    value: Any = None  # the result; None after an error
    key: str = ""  # of the object that the result names
    error: StoreError | None = None


async def said_by(calls: Calls, call: str, asked: Awaitable[Any], key: Callable[[Any], str] = lambda value: "",
                  **claims: Callable[[Any], str]) -> Said:
    """Await a call, and return its answer by the table of calls.

    `key` returns the key that a result names, and each of `claims` the value that is claimed."""
    value = raised = None
    try:
        value = await asked
    except StoreError as error:
        raised = error.with_traceback(None)  # a traceback refers to frames, and they to much else
        result, kind = type(error).__name__, DEFINITE if isinstance(error, Definite) else INDEFINITE
    else:
        result, kind = type(value).__name__, RETURNED
    answer = calls[call].get(result)
    if answer is None:
        return Said(UNLISTED[kind], (call, result, kind), value, "", raised)
    keys = call, result, kind
    if answer.claims:
        keys += tuple([f"{name}={claims[name](value)}" for name in answer.claims])
    return NEW(Said, (answer.told, keys, value, "" if value is None else key(value), raised))


class Actors:
    """The clients of one run, the work that each has left, and the responses that their callers received.

    `shape` is the scenario's. `left` maps a client to its number of operations to do, `work` has these numbers
    at the beginning. `told` lists the responses in order."""

    def __init__(self, scenario: Scenario, kernel: Kernel, store: SimulatedStore, shape: Any,
                 choose: Callable[[str, int], int], trace: Any, tell: Callable[[Event], None], build: Any):
        self.scenario, self.kernel, self.shape, self.choose, self.trace = scenario, kernel, shape, choose, trace
        self.tell_trace, self.build, self.store, self.begun, self.told = tell, build, store, 0, []
        self.named: Counter[str] = Counter()  # client -> updates that were named for it
        scenario.begin(store, shape)
        self.left = {f"{role}#{i}": getattr(shape, amount) for role, (number, amount) in scenario.roles.items()
                     for i in range(getattr(shape, number))}
        self.work = tuple(self.left.values())
        self.clients = [self._client(name) for name in self.left]
        self.ids = {name: (number, count()) for number, name in enumerate(self.left)}  # of clients: dst/world/ids.py
        self.auditing, self.hurried = False, self.shape.patience_ms > 0  # whether callers may cancel their calls
        self.machines: Machines | None = None  # of a scenario with nodes
        self.moments = 0
        self.operations: list[Operation] = []
        self.kept: list[Any] = []  # what the scenario's clients keep for its final check
        self.open: dict[str, Operation] = {}  # client -> its operation in progress

    def _client(self, name: str) -> Client:
        skew_ms = self.shape.skew_ms
        return Client(name, offset_ms(self.choose, f"{name}.skew", skew_ms) if skew_ms else 0)

    def start(self, client: Client) -> None:
        """Start a client, or restart it after a crash: without knowledge, with the work that is left."""
        clock = ClientClock(self.kernel, client)
        ids = ClientIds(clock, *self.ids[client.name])  # pyright: ignore[reportArgumentType]  # a clock of generators
        role, _, number = client.name.partition("#")
        if self.machines and role in self.scenario.nodes:
            salt = self.machines.fault(client.sites["ids"], 1 << 16)
            scattered = ScatteredIds(clock, *self.ids[client.name], salt)  # pyright: ignore[reportArgumentType]
            world = self.machines.world(client, clock, scattered, METRICS)
        else:
            world = World(STORE, clock, ids, METRICS)  # pyright: ignore[reportArgumentType]  # the same of both
        self.kernel.start(client, self.scenario.work[role](self, client, world, int(number)))

    def tell(self, client: Client, op: str, body: bytes, key: str = "", keys: tuple[str, ...] = ()) -> None:
        """Record the response that a client's caller receives now. `body`: what is reported, in bytes; `keys`: what the call
        returned or raised. Raises TypeError for a body of another type."""
        if not isinstance(body, bytes):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"tell: the body is {body!r}, a {type(body).__name__}: give bytes, such as {str(body)!r}.encode()")
        event = NEW(Event, (self.kernel.now_ms, 0, client.name, "told", op, key, "", 0, "", body, keys, False, True, False))
        self.told.append(event)
        self.tell_trace(event)

    def ask(self, client: Client, call: str, body: bytes = b"") -> None:
        """Record that a client on a node's machine begins a call. `body`: the content that its response is judged by."""
        self.tell_trace(NEW(Event, (self.kernel.now_ms, 0, client.name, "step", ASKS, "", "", 0, "", body, (call,), False, True,
                                    False)))

    def begin(self, client: Client, update: str = "") -> None:
        """Record that a client's caller requests the update of this name, or a read. Without an `end` its outcome is
        indeterminate."""
        if client.name in self.open:
            self.operations.append(self.open[client.name])
        self.moments += 1
        self.open[client.name] = NEW(Operation, (client.name, self.moments, None, "", update, ()))

    def end(self, client: Client, said: str, key: str = "", body: bytes | None = None, seen: tuple[str, ...] = (),
            keys: tuple[str, ...] = ()) -> None:
        """Record the response: `seen` for a read; for an update its name, unless `body` is given."""
        of = self.open.pop(client.name)
        self.moments += 1
        self.operations.append(NEW(Operation, (of.client, of.begin, self.moments, said, of.update, seen)))
        self.tell(client, said, of.update.encode() if body is None else body, key, keys)

    def check_words(self) -> None:
        """Check that the scenario lists each word that callers were told. Raises ValueError."""
        strange = [event for event in self.told if event.op not in self.scenario.told]
        if strange:
            raise ValueError(f"{strange[0].client}'s caller was told {strange[0].op!r}, and SCENARIO.told lists "
                             + ", ".join(self.scenario.told))

    def check_work(self) -> None:
        """Check that some client sent a request or crashed, if there was work. Raises ValueError."""
        if self.machines and self.machines.operations:
            return
        if not any(client.number or client.incarnation for client in self.clients) and any(self.work):
            raise ValueError("all clients finished their work without a request to the store: is an await missing in "
                             "SCENARIO.work?")

    def history(self) -> list[Operation]:
        return [*self.operations, *self.open.values()]

    def name_update(self, client: str) -> str:
        """Name the next update as the model counts it, so that bodies, and cached results for them, recur in many runs."""
        number = max([local.k for local in self.trace.refiner.locals(client)]) if self.trace else self.named[client]
        self.named[client] += 1
        return f"{client.partition('#')[2]}.{number}"

    def ahead_ms(self) -> dict[str, int]:
        """Return the most that each client's clock was ahead of the store's."""
        return {client.name: client.ahead_ms for client in self.clients}

    def in_time(self, client: Client, call: Awaitable[Result]) -> Awaitable[Result]:
        """Return the call as its caller awaits it: in runs with `patience_ms`, until a drawn time. Raises TimedOut then."""
        if not self.hurried:
            return call
        duration_ms = self.choose(client.sites["patience"], self.shape.patience_ms)
        return ClientClock(self.kernel, client).timeout(duration_ms, call) if duration_ms else call

    async def initialise(self, client: Client, initialise: Callable[[], Awaitable[None]]) -> None:
        """Initialise the store before the first operation of a life, if the run began with an empty one (`fresh`)."""
        if not self.shape.fresh:
            return
        self.tell(client, "initialising", b"")
        while True:
            try:
                await initialise()
            except (Definite, Indefinite):
                if self.shape.broken:
                    return
                continue
            self.tell(client, "initialised", b"")
            return

    async def pause(self, client: Client, world: HasClock) -> None:
        """Wait between two operations, for at most the shape's `pause_ms`."""
        if self.shape.pause_ms > 1:
            await world.clock.sleep_ms(1 + self.choose(f"{client.name}.pause", self.shape.pause_ms))

    # --- what clients of several scenarios do

    async def write_one_by_one(self, client: Client, world: World, write: Callable[[str], Awaitable[str] | Awaitable[Said]],
                               may_give_up: bool = False) -> None:
        """Commit a writer's updates one after another.

        `write` takes an update's name and returns what was said, or the key that holds the update, or "". After a definite
        error the update is requested again, unless the caller gives up or something is broken. After an indefinite error it is
        not."""
        while self.left[client.name]:
            self.left[client.name] -= 1
            update = self.name_update(client.name)
            while True:
                self.begin(client, update)
                try:
                    written = await self.in_time(client, write(update))
                    said = written if isinstance(written, Said) else Said("committed", (), key=written)
                except Definite:
                    said = Said("failed", ())
                except Indefinite:
                    said = Said("unknown", ())
                self.end(client, said.told, said.key, keys=said.keys)
                if said.told != "failed" or self.shape.broken or (may_give_up and self.choose(f"{client.name}.gives_up", 2)):
                    break
            await self.pause(client, world)

    def not_read(self, client: Client, said: Said) -> None:
        """Record that a read failed. An indefinite error says that the namespace is broken. In most runs nobody breaks it."""
        if isinstance(said.error, Indefinite) and not isinstance(said.error, TimedOut) and not self.shape.broken:
            raise said.error
        self.tell(client, said.told, b"", keys=said.keys)

    async def read_one_by_one(self, client: Client, world: World, read: Callable[[], Awaitable[Any]],
                              seen_in: Callable[[Any], tuple[str, ...]]) -> None:
        """Read repeatedly, and report the names of the updates that each read sees to the reader's caller. `read` returns a
        `Said`, or the result itself, and `seen_in` finds the names in the result. A definite error that `read` raises is not
        reported. An indefinite one is raised, so the run fails, but TimedOut ends only this read."""
        while self.left[client.name]:
            self.left[client.name] -= 1
            await self.pause(client, world)
            self.begin(client)
            try:
                result = await read()
            except (Definite, TimedOut):
                continue
            said = result if isinstance(result, Said) else Said("read", (), result)
            if said.told != "read":
                self.not_read(client, said)
                continue
            seen = () if self.shape.broken == DAMAGED else seen_in(said.value)
            self.end(client, "read", said.key, " ".join(seen).encode(), seen, said.keys)

    async def collect_in_rounds(self, client: Client, wait: Callable[[], Awaitable], collect: Callable[[], Awaitable[Any]]
                                ) -> None:
        """Call `wait` and then `collect`, once for each round that is left. A `Said` that `collect` returns is reported to the
        collector's caller; any other result is not. A Definite or Indefinite error ends the round, and is not reported. Any
        other exception is raised, so the run fails."""
        while self.left[client.name]:
            self.left[client.name] -= 1
            await wait()
            try:
                said = await collect()
            except (Definite, Indefinite):
                continue
            if isinstance(said, Said):
                self.tell(client, said.told, b"", keys=said.keys)

    # --- when the faults have stopped

    def who_retires(self) -> list[Client]:
        """Draw the clients that retire: a random set in one run in four, else none. The others must finish without them."""
        some = self.choose("retire", 4) == 3
        found = [client for client in self.clients if some and self.choose(f"{client.name}.retires", 2)]
        return found[:self.scenario.may_retire(self.shape)]

    def unfinished(self) -> list[str]:
        return [client.name for client in self.clients if not client.done]

    def work_once_more(self, names: tuple[str, ...]) -> None:
        self.auditing = True
        for client in self.clients:
            if client.name in names:
                self.left[client.name] = 1
                self.start(client)


class Change:
    """A caller's change of a content. It notes with which id it was called last, and what it returned."""

    def __init__(self, change: Callable[[int, Any], Any]):
        self.change, self.last = change, (0, None)

    def __call__(self, next_id: int, value: Any) -> Any:
        made = self.change(next_id, value)
        self.last = next_id, made
        return made

    def check(self, committed: Any) -> None:
        """Check that what the last call returned was committed, under the id that it was given. Raises Failure."""
        if (committed.id, committed.value) != self.last:
            raise Failure("safety", "told:change", f"id {committed.id} is reported as committed, but the change was last "
                          f"called for id {self.last[0]}, and returned {self.last[1]}")


def raise_anomalies(found: list[str]) -> None:
    """Raise Failure for the callers' history if it has anomalies. Each text is "name: what is wrong"."""
    if found:
        raise Failure("safety", f"history:{found[0].partition(':')[0]}", "; ".join(found))

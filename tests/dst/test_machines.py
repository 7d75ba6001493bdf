"""Two nodes with disks and messages, without any protocol: what each fault does, and that a run is a function of its tape."""

from collections import Counter
from collections.abc import Callable, Coroutine
from itertools import pairwise
from typing import Any, NamedTuple

import pytest

from highwater.dst.actors import METRICS
from highwater.dst.sim.choose import Chooser, Lenient, Strict, TapeMismatch, drawing, drawing_of
from highwater.dst.sim.kernel import Client, Delivery, Kernel, Request
from highwater.dst.sim.strategies import STRATEGIES, racing
from highwater.dst.simulate import scheduled
from highwater.dst.world.clock import ClientClock
from highwater.dst.world.ids import ClientIds
from highwater.dst.world.machines import Chances, Machines, ended
from highwater.dst.world.messages import CUTS
from highwater.dst.world.network import Network
from highwater.dst.world.node_faults import HARDWARE, MESSAGE_FATES, NO_FAULTS, NodeWeights
from highwater.dst.world.store import SimulatedStore
from highwater.impl.errors import TaskCancelled, TimedOut
from highwater.impl.node_world import DiskFailed, DiskFull, DiskLocked, FileMissing, NodeWorld
from highwater.traces.event import Event, digest, from_json, to_json

Node = Callable[[NodeWorld, "Run"], Coroutine[Any, Any, None]]
RECORDS = 4


class Run(NamedTuple):
    events: list[Event]
    tape: list
    told: list[bytes]  # records that the primary reported as durable on both nodes
    watched: list[tuple]
    machines: Machines
    kernel: Kernel


def play(nodes: dict[str, Node], seed: int = 0, weights: NodeWeights = NO_FAULTS, chooser: Chooser | None = None,
         strategy: str = "times", until_ms: int = 3000, heal: bool = True) -> Run:
    """Run these nodes, with faults until `until_ms`, and then without until they end."""
    chooser = chooser or Chooser(seed)
    decide, fault, draw = chooser.decider(), chooser.stream("fault"), drawing(seed, "strategy")
    untimed = STRATEGIES[strategy] is not None
    kernel = Kernel(scheduled(STRATEGIES[strategy], draw, decide, 100) if untimed else None)
    run = Run([], chooser.tape, [], [], None, kernel)  # type: ignore[arg-type]
    processes = {name: Client(name) for name in nodes}

    def start(process: Client) -> None:
        clock = ClientClock(kernel, process)
        world = machines.world(process, clock, ClientIds(clock, 0, iter(range(1000))), METRICS)  # type: ignore[arg-type]
        kernel.start(process, nodes[process.name](world, run._replace(machines=machines)))

    Network(kernel, SimulatedStore(), run.events.append, fault, fault, decide, drawing_of(seed, "fate"), b"", (1,), 0, start)
    machines = Machines(kernel, run.events.append,
                        Chances(chooser.stream("machines"), fault, decide, drawing_of(seed, "node fate")), weights, (50, 200),
                        HARDWARE["usual"], start, lambda *what: run.watched.append(what))
    run = run._replace(machines=machines)
    for process in processes.values():
        start(process)
    kernel.run(until_ms, 20_000)
    kernel.in_time()
    if heal:
        machines.heal()
        kernel.run(kernel.now_ms + 100_000, 20_000)
        assert all(process.done for process in processes.values())
    kernel.close()
    chooser.end()
    return run


# --- a primary that sends records to a backup, until the backup has them

def primary(sync: bool = True) -> Node:
    async def work(world: NodeWorld, run: Run) -> None:
        mine = await opened(world)
        for record in (b"%d" % number for number in range(RECORDS)):
            mine = mine if record in mine else await written(world, mine, record, sync)
            while record not in run.told:
                await world.net.send("Node#1", record)
                heard = await world.net.receive(60)
                if heard and heard.body == record:
                    run.told.append(record)

    return lambda world, run: until_it_works(world, run, work)


def backup(sync: bool = True) -> Node:
    async def work(world: NodeWorld, run: Run) -> None:
        mine = await opened(world)
        while len(run.told) < RECORDS:
            heard = await world.net.receive(50)
            if heard and heard.body not in mine:
                mine = await written(world, mine, heard.body, sync)
            if heard:
                await world.net.send("Node#0", heard.body)

    return lambda world, run: until_it_works(world, run, work)


async def until_it_works(world: NodeWorld, run: Run, work: Node) -> None:
    """An operation that fails is tried again from the beginning, as after a restart of the process."""
    while True:
        try:
            await work(world, run)
            return
        except (DiskFailed, DiskFull):
            await world.clock.sleep_ms(20)


async def opened(world: NodeWorld) -> list[bytes]:
    if "log" not in await world.disk.names():
        await world.disk.create("log")
        await world.disk.sync_names()
    content = await world.disk.read("log")
    whole = content[:content.rfind(b"\n") + 1]
    await world.disk.truncate("log", len(whole))
    await world.disk.sync("log")
    await world.disk.sync_names()
    return whole.split(b"\n")[:-1]


async def written(world: NodeWorld, mine: list[bytes], record: bytes, sync: bool) -> list[bytes]:
    await world.disk.append("log", record + b"\n")
    if sync:
        await world.disk.sync("log")
    return [*mine, record]


def two(sync: bool = True, seed: int = 0, **more: Any) -> Run:
    return play({"Node#0": primary(sync), "Node#1": backup(sync)}, seed, **more)


def on_disk(run: Run, node: str) -> bytes:
    files = run.machines.disks[node].folder.durable
    return files["log"].durable if "log" in files else b""


def lost_records(run: Run) -> bool:
    """Return whether a record that was reported is not durable on a node."""
    return any(record + b"\n" not in on_disk(run, node) for record in run.told for node in ("Node#0", "Node#1"))


def test_without_faults_each_message_arrives_once_and_all_is_durable():
    run = two()
    numbers = Counter(e.request for e in run.events if e.kind == "received")
    assert run.told == [b"0", b"1", b"2", b"3"] and set(numbers.values()) == {1} and not lost_records(run)
    sent = {e.request: (e.client, e.key, e.t_ms) for e in run.events if e.kind == "sent"}
    for e in run.events:
        if e.kind == "received":
            assert sent[e.request][:2] == (e.key, e.client) and 0 < e.t_ms - sent[e.request][2] <= 60 + 8
    assert not [e for e in run.events if e.kind == "died" or (e.kind == "disk" and e.status != 200)] and not run.watched


def died(run: Run, how: str) -> list[Event]:
    return [e for e in run.events if e.kind == "died" and e.op == how]


def statuses(run: Run) -> set[int]:
    return {e.status for e in run.events if e.kind == "disk"}


def longest_ms(run: Run) -> int:
    sent = {e.request: e.t_ms for e in run.events if e.kind == "sent"}
    return max(e.t_ms - sent[e.request] for e in run.events if e.kind == "received")


def arrivals(run: Run) -> Counter:
    return Counter({e.request: 0 for e in run.events if e.kind == "sent"}) + Counter(
        e.request for e in run.events if e.kind == "received")


def unreceived(run: Run) -> int:
    return sum(e.kind == "sent" for e in run.events) - len(arrivals(run))


def longest_operation_ms(run: Run) -> int:
    gaps, last = [0], {}
    for e in run.events:
        if e.kind == "disk" and e.client in last:
            gaps.append(e.t_ms - last[e.client])
        last[e.client] = e.t_ms
    return max(gaps)


def longest_silence_ms(run: Run) -> int:
    """Return the longest time in which a node has done nothing. It waits for no message longer than 60 ms."""
    times = {node: [e.t_ms for e in run.events if e.client == node] for node in ("Node#0", "Node#1")}
    return max(later - earlier for of in times.values() for earlier, later in pairwise(of))


SIGNS = {  # fault -> what it shows
    "slow": lambda run: longest_operation_ms(run) > 30,
    "failed": lambda run: 500 in statuses(run),
    "full": lambda run: 507 in statuses(run),
    "lie": lambda run: any(what == "lie" for what, *_ in run.watched),
    "late": lambda run: longest_ms(run) > 20,
    "lost": lambda run: any(what == "lost" for what, *_ in run.watched) and unreceived(run) > 0,
    "doubled": lambda run: max(arrivals(run).values()) > 1,
    "cut": lambda run: Counter(what for what, *_ in run.watched)["lost"] > 2,
    "slow_link": lambda run: 10 < longest_ms(run) <= 80,
    "stall": lambda run: longest_silence_ms(run) > 60,
    "crash": lambda run: bool(died(run, "process")),
}


@pytest.mark.parametrize("fault", NodeWeights._fields)
def test_each_fault_shows_and_only_with_its_weight(fault):
    weights = NO_FAULTS._replace(**{fault: 150})
    assert any(SIGNS[fault](two(seed=seed, weights=weights)) for seed in range(12))
    assert not any(SIGNS[fault](two(seed=seed)) for seed in range(12))


def test_a_crash_of_the_machine_loses_what_was_not_synced_and_nothing_else():
    weights = NO_FAULTS._replace(crash=60)
    runs = [two(seed=seed, weights=weights) for seed in range(60)]
    assert any(died(run, "machine") for run in runs) and not any(map(lost_records, runs))
    careless = [two(False, seed=seed, weights=weights) for seed in range(60)]
    assert any(map(lost_records, careless)) and any(e.keys for run in careless for e in died(run, "machine"))
    assert not any(e.keys for run in careless for e in died(run, "process"))


def test_a_sync_that_lies_loses_what_was_reported():
    weights = NO_FAULTS._replace(crash=60, lie=300)
    assert any(lost_records(two(seed=seed, weights=weights)) for seed in range(60))


def test_no_usual_fault_loses_what_was_reported():
    for seed in range(60):
        assert not lost_records(two(seed=seed, weights=NodeWeights(*[3 * weight for weight in NodeWeights()])))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_run_is_a_function_of_its_tape(strategy):
    weights = NodeWeights(*[3 * weight for weight in NodeWeights()])
    for seed in range(8):
        run = two(seed=seed, weights=weights, strategy=strategy)
        again = two(seed=seed, weights=weights, strategy=strategy)
        replayed = two(seed=seed, weights=weights, strategy=strategy, chooser=Strict(seed, run.tape))
        assert digest(run.events) == digest(again.events) == digest(replayed.events)
        assert all(0 <= choice < bound for _, choice, bound in run.tape)
        mild = two(seed=seed, weights=weights, strategy=strategy, chooser=Lenient(seed, []))
        assert not died(mild, "process") and statuses(mild) == {200} and not any(choice for _, choice, _ in mild.tape)
    with pytest.raises(TapeMismatch):
        two(seed=seed, weights=weights, strategy=strategy, chooser=Strict(seed, run.tape[:-1]))


def test_seeds_differ_and_events_are_written_as_version_2_and_read_again():
    weights = NodeWeights()
    runs = [two(seed=seed, weights=weights) for seed in range(10)]
    assert len({digest(run.events) for run in runs}) == 10
    for e in (e for run in runs for e in run.events):
        assert '"v":2' in to_json(e) and from_json(to_json(e)) == e


@pytest.mark.parametrize("kind, lost", [
    (0, {(0, 1)}), (1, {(0, 1), (0, 2)}), (2, {(1, 0), (2, 0)}), (3, {(0, 1), (0, 2), (1, 0), (2, 0)})])
def test_a_cut_is_of_one_direction_unless_it_is_of_both(kind, lost):
    """Node#0's first message, to Node#1, begins a cut of each kind. Later each node sends to each."""
    arrived = set()

    async def node(world: NodeWorld, me: int) -> None:
        if me == 0:
            await world.net.send("Node#1", b"first")
        await world.clock.sleep_ms(10)
        for to in range(3):
            await world.net.send(f"Node#{to}", b"later")
        while message := await world.net.receive(30):
            if message.body == b"later":
                arrived.add((int(message.sender[-1]), me))

    tape = [("Node#0.send", MESSAGE_FATES.index("cut"), len(MESSAGE_FATES)), ("Node#0.cut_off", kind, len(CUTS)),
            ("Node#0.cut", 63, 64)]
    play({f"Node#{me}": lambda world, run, me=me: node(world, me) for me in range(3)}, chooser=Lenient(0, tape))
    assert arrived == {(sender, to) for sender in range(3) for to in range(3)} - lost


def test_messages_race_only_with_messages_to_the_same_node():
    one, two, other = Delivery("Node#0", "a", 1), Delivery("Node#0", "b", 2), Delivery("Node#1", "b", 2)
    put = Request("put", "k", b"")
    assert racing(one, two) and not racing(one, other) and not racing(one, put) and not racing(put, one)
    assert racing(put, put) and not racing(one, None)


# --- one node alone

def alone(work: Callable[[NodeWorld], Coroutine[Any, Any, None]], **more: Any) -> Run:
    return play({"Node#0": lambda world, run: work(world)}, **more)


def test_messages_signals_and_cancelled_calls():
    said = []

    async def work(world: NodeWorld) -> None:
        net, clock = world.net, world.clock
        assert await net.receive(30) is None and clock.now_ms() == 30
        assert await net.receive(0) is None
        with pytest.raises(TimedOut):
            await clock.timeout(7, net.receive(1000))
        await net.send("Node#0", b"to myself")
        await clock.sleep_ms(50)
        with pytest.raises(TimedOut):
            await clock.timeout(7, nothing(world))
        message = await net.receive(1000)  # none was lost to the call that was cancelled
        assert message == ("Node#0", b"to myself")
        await net.send("Node#7", b"to nobody")

        signal = world.signals.signal()

        async def waiting(number: int) -> None:
            await signal.wait()
            said.append(number)

        tasks = [clock.spawn(waiting(number), f"waiting{number}") for number in range(3)]
        await clock.sleep_ms(1)
        tasks[1].cancel()
        await clock.sleep_ms(1)
        assert not said
        signal.set()
        signal.set()
        await signal.wait()
        for number, of in enumerate(tasks):
            if number == 1:
                with pytest.raises(TaskCancelled):
                    await of
            else:
                await of

    alone(work)
    assert said == [0, 2]


async def nothing(world: NodeWorld) -> None:
    await world.signals.signal().wait()


def test_operations_of_a_disk():
    async def work(world: NodeWorld) -> None:
        disk = world.disk
        await disk.lock()
        with pytest.raises(DiskLocked):
            await disk.lock()
        with pytest.raises(FileMissing):
            await disk.read("a")
        await disk.create("a")
        await disk.append("a", b"hello")
        await disk.append("a", b" world")
        await disk.truncate("a", 7)
        assert await disk.read("a") == b"hello w"
        await disk.rename("a", "b")
        await disk.create("c")
        assert await disk.names() == ["b", "c"]
        await disk.remove("c")
        await disk.sync("b")
        await disk.sync_names()
        await disk.create("b")
        assert await disk.read("b") == b"" and await disk.names() == ["b"]

    run = alone(work)
    assert [e.op for e in run.events if e.kind == "disk"] == [
        "lock", "lock", "read", "create", "append", "append", "truncate", "read", "rename", "create", "names", "remove", "sync",
        "sync_names", "create", "read", "names"]
    assert run.machines.disks["Node#0"].folder.durable["b"].durable == b"hello w"


def test_an_operation_whose_call_is_cancelled_takes_effect_all_the_same():
    async def work(world: NodeWorld) -> None:
        await world.disk.create("a")
        with pytest.raises(TimedOut):
            await world.clock.timeout(1, world.disk.append("a", b"late"))
        assert await world.disk.read("a") == b""
        await world.clock.sleep_ms(5000)
        assert await world.disk.read("a") == b"late"

    assert any(slow_append(work, seed) for seed in range(20))


def test_an_operation_under_way_at_a_crash_has_no_effect_in_the_next_life():
    found = []

    async def work(world: NodeWorld, run: Run) -> None:
        if not found:
            await world.disk.create("a")
            world.clock.spawn(world.disk.append("a", b"late"), "appending")
            await world.clock.sleep_ms(1)
            found.append(b"first life")
            await ended(run.machines, run.machines.nets["Node#0"].process)
        await world.clock.sleep_ms(20_000)
        found.append(await world.disk.read("a"))

    play({"Node#0": work}, weights=NO_FAULTS._replace(slow=1000), until_ms=100_000)
    assert found == [b"first life", b""]


def slow_append(work: Callable[[NodeWorld], Coroutine[Any, Any, None]], seed: int) -> bool:
    """Return whether the append of this run was slow, and the others were not."""
    try:
        alone(work, seed=seed, weights=NO_FAULTS._replace(slow=300), until_ms=100_000)
    except (AssertionError, pytest.fail.Exception):
        return False
    return True


def test_the_crash_semantic_of_pages_reaches_the_node():
    """A node writes three pages without a sync, and crashes again and again: it finds every subset of them."""
    found = set()

    async def work(world: NodeWorld) -> None:
        if "a" not in await world.disk.names():
            await world.disk.create("a")
            await world.disk.sync_names()
        content = await world.disk.read("a")
        if content:
            found.add(tuple(content[at:at + 1] for at in range(0, len(content), 4096)))
            await world.disk.truncate("a", 0)
            await world.disk.sync("a")
        await world.disk.append("a", b"".join(letter * 4096 for letter in (b"a", b"b", b"c")))
        await world.clock.sleep_ms(1)
        for _ in range(100):
            await world.disk.names()

    for seed in range(30):
        alone(work, seed=seed, weights=NO_FAULTS._replace(crash=20), until_ms=20_000)
    assert {len(pages) for pages in found} == {1, 2, 3}
    assert {tuple(page != b"\0" for page in pages) for pages in found if len(pages) == 3} == {
        (one, two, three) for one in (True, False) for two in (True, False) for three in (True, False)}

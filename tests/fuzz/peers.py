"""Gives a node messages of other nodes: of each kind, near the node's own state or at the bounds of numbers, and damaged."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from highwater.cluster.service import loaded
from highwater.impl import level
from highwater.impl.level import Level
from highwater.impl.node_world import Message, NodeWorld
from highwater.impl.raft import core, in_force, members, wire
from highwater.impl.raft.entries import COMMAND, KINDS, LEVEL, MEMBERS, Entry, last_index, last_term
from highwater.impl.raft.fetch import FetchChunk
from highwater.impl.raft.following import Contradiction
from highwater.impl.raft.members import Members
from highwater.impl.raft.messages import Append
from highwater.impl.raft.node import Node, Options
from highwater.impl.raft.state import LEADER, Config, Received
from highwater.impl.stores.node_system import SystemSignals
from highwater.impl.stores.system import Counters
from tests.cluster.processes import MACHINE
from tests.fuzz.lives import Over, Stopped, Subject, check_node
from tests.fuzz.mutations import SIGNED, TEXTS, mutated, mutated_json
from tests.impl.raft.crashing import CrashingDisk
from tests.impl.raft.virtual import VirtualClock, run

OPTIONS = Options(Config(), tick_ms=10, disk_limit_ms=60_000, snapshot_entries=30, keep_entries=5, chunk_bytes=100,
                  fetch_retry_ms=5, fetch_attempts=2)
VALID = ({"do": "write", "key": "x", "value": 1}, {"do": "swap", "key": "x", "old": 1, "new": 2},
         {"do": "append", "key": "l", "value": "a", "id": "1"})
MOST_ENTRY_BYTES = 8 << 20  # a frame has no more


class Numbered:
    """Ids that are the same in each run."""

    def __init__(self) -> None:
        self.number = 0

    def new_id(self) -> str:
        self.number += 1
        return f"{self.number:026}"


class Net:
    """The network of one node, whose other side is the fuzzer."""

    def __init__(self) -> None:
        self.inbox: asyncio.Queue[Message] = asyncio.Queue()
        self.sent: list[tuple[str, bytes]] = []

    async def send(self, to: str, body: bytes) -> None:
        self.sent = [*self.sent[-20:], (to, body)]

    async def receive(self, timeout_ms: int) -> Message | None:
        try:
            async with asyncio.timeout(timeout_ms / 1e3):
                return await self.inbox.get()
        except TimeoutError:
            return None

    def known_of(self, peer: str) -> Level | None:
        return None  # nobody has said that it is of a later version

    def end_from(self, sender: str) -> None:
        pass  # the fuzzer goes on


class Step:
    """The step of the core. It notes a contradiction between members, which stops a node on purpose. So does an entry that the
    machine cannot apply, where `appends`: other members can append entries."""

    def __init__(self, appends: bool = False):
        self.appends, self.contradiction = appends, ""

    def __call__(self, state: Any, given: Any) -> Any:
        try:
            return core.step(state, given)
        except Contradiction as error:
            if not isinstance(given, Received) or in_force.is_known(state, given.sender):
                self.contradiction = str(error)
            raise

    def check(self, node: Node, counts: Counter[str]) -> None:
        """Check that a node runs. Raises Over after a contradiction."""
        try:
            check_node(node)
        except Stopped:
            unapplied = self.appends and "the machine cannot apply it" in node.stopped
            if not self.contradiction and not unapplied:
                raise
            counts["entries that cannot be applied" if unapplied else "contradictions"] += 1
            raise Over from None


class Peers:
    """A node, and the messages that it gets."""

    def __init__(self, chance: Random, machine: Any):
        self.net, self.disk, self.counts = Net(), CrashingDisk(), Counter[str]()
        self.voters, self.machine = chance.choice((("a",), ("a", "b", "c"))), machine
        self.world = NodeWorld(self.disk, self.net, VirtualClock(), SystemSignals(), Numbered(), Counters())
        self.sent: list[bytes] = []  # valid ones
        self.node: Node
        self.step = Step(appends=True)

    async def open(self) -> None:
        self.node = await Node.open(self.world, "a", self.voters, self.machine, OPTIONS, self.step)

    def number(self, chance: Random, *near: int) -> int:
        if chance.random() < 0.15:
            return chance.choice(SIGNED)
        return chance.choice(near) + chance.choice((-1, 0, 0, 0, 1, 2))

    def entry(self, chance: Random) -> Entry:
        state = self.node.state
        kind = chance.choice((*KINDS, COMMAND, COMMAND, COMMAND, chance.randrange(256)))
        body = mutated_json(chance.choice(VALID), chance)
        if kind == MEMBERS:
            names = chance.choice((("a",), ("a", "b"), ("a", "b", "c"), ("b", "c"), ("d",)))
            body = members.encoded(Members(names, addresses=(("d", "127.0.0.1:1"),) if "d" in names else ()))
        elif kind == LEVEL:
            body = level.encoded(Level(chance.choice((1, 2, 3, 65535)), chance.choice((0, 1, 2))))
        if chance.random() < (0.3 if kind == MEMBERS else 0.1):
            body = mutated(body, chance)
        return Entry(self.number(chance, state.term) % (1 << 64), kind, body[:MOST_ENTRY_BYTES])

    def field(self, form: Any, name: str, chance: Random) -> Any:
        state = self.node.state
        if form is int:
            log = (last_index(state.log), state.commit, state.snapshot[0], 0)
            near = {"term": (state.term,), "last_term": (last_term(state.log),), "prev_term": (last_term(state.log),),
                    "hint_term": (last_term(state.log),), "offset": (0, 40), "size_bytes": (0, 100),
                    "round": (0, 1, 9)}.get(name, log)
            return self.number(chance, *near)
        if form is bool:
            return chance.random() < 0.5
        if form is str:
            return chance.choice((*self.node.asked, f"{1:026}", *(text for text in TEXTS if text.isascii())))
        if form is bytes:
            return chance.choice((self.node.snapshot_data, chance.randbytes(chance.choice((0, 1, 100)))))
        return tuple(self.entry(chance) for _ in range(chance.choice((0, 1, 1, 2, 5))))

    def accepted(self, made: Append) -> Append:
        """Return an Append that the node takes, with these entries behind its own."""
        state = self.node.state
        term = state.term + (state.role == LEADER)
        entries = tuple(entry._replace(term=term) for entry in made.entries)
        return Append(term, last_index(state.log), last_term(state.log), entries, state.commit + 1)

    def message(self, chance: Random) -> bytes:
        kind = chance.choice((*wire.NUMBERS, *[chance.choice((*wire.NUMBERS,))] * 3))
        made = kind(*(self.field(form, name, chance) for name, form in kind.__annotations__.items()))
        if kind is Append and chance.random() < 0.5:
            made = self.accepted(made)
        data = wire.encoded(made, chance.choice((1, wire.CHECKSUMS)))
        self.sent = [*self.sent[-30:], data]
        return mutated(data, chance, self.sent) if chance.random() < 0.4 else data

    async def give(self, chance: Random) -> None:
        data = self.message(chance)
        self.net.inbox.put_nowait(Message(chance.choice(("b", "b", "c", "stranger")), data))
        await asyncio.sleep(chance.choice((0.001, 0.001, 0.001, 0.02, 1.0)))
        self.step.check(self.node, self.counts)
        self.counts["messages"] += 1

    async def check(self) -> None:
        """Ask for a chunk, and open the node again, with what is on its disk."""
        asked = FetchChunk(self.node.snapshot.index, self.node.snapshot.term, 0)
        self.net.sent = []
        self.net.inbox.put_nowait(Message("good", wire.encoded(asked)))
        await asyncio.sleep(0.1)
        self.step.check(self.node, self.counts)
        if not any(to == "good" for to, _ in self.net.sent):
            raise Stopped("the node does not answer a good message")
        await self.node.close()
        await self.open()
        if self.voters == self.node.state.voters == ("a",):
            await asyncio.sleep(5.0)  # it leads, whatever it has heard
            self.step.check(self.node, self.counts)
            async with asyncio.timeout(60.0):
                await self.node.propose(json.dumps(VALID[0]).encode())
            self.counts["proposals"] += 1


@asynccontextmanager
async def begin(chance: Random) -> AsyncGenerator[Peers]:
    one = Peers(chance, loaded(MACHINE).machine)
    await one.open()
    await asyncio.sleep(2.0)
    try:
        yield one
    finally:
        try:
            await one.node.close()
        except Exception:
            pass  # of a task; it is reported


SUBJECT = Subject("peers", begin, run)

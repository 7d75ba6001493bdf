"""Carry messages between nodes. Safety: a message arrives only where it was sent to, and only if its receiver is up then.

A message arrives once, late, twice or never. Each takes its own time, so they overtake each other. A link may lose all messages
in one direction, or be slow, for a long time.
"""

from collections import deque
from collections.abc import Generator
from types import coroutine
from typing import TYPE_CHECKING, Any, NamedTuple

from highwater.dst.sim.kernel import Client, Delivery
from highwater.dst.world.node_faults import MESSAGE_FATES
from highwater.dst.world.store import NEW
from highwater.impl.level import ANY_MACHINE, Level
from highwater.impl.node_world import Message
from highwater.traces.event import Event

if TYPE_CHECKING:
    from highwater.dst.world.machines import Machines

CUTS = ("link", "from", "to", "both ways")  # what is lost: from the sender to one, from it, to it, or from it and to it
SLOWER = 10  # times, on a slow link


class Receive(NamedTuple):
    """A client awaits a message."""

    net: "Net"
    timeout_ms: int

    def begin(self, client: Client) -> None:
        self.net.wait(client, self.timeout_ms)


class Crash(NamedTuple):
    """A client awaits nothing: its process crashes now."""

    machines: "Machines"
    process: Client

    def begin(self, client: Client) -> None:
        self.machines.crash(self.process)


class Net:
    """The end of the network at one node. The node's code calls `send` and `receive`: impl/node_world.py."""

    def __init__(self, machines: "Machines", process: Client):
        self.machines, self.process = machines, process
        self.arrived: deque[Delivery] = deque()
        self.waiting: tuple[Client, int, int] | None = None  # who waits, in which incarnation, until when
        self.alarm = 0, 0  # number and time of the only timer that still counts

    @coroutine
    def send(self, to: str, body: bytes) -> Generator[Crash, None, None]:
        if self.machines.links.post(self.process, to, body):
            yield NEW(Crash, (self.machines, self.process))

    @coroutine
    def receive(self, timeout_ms: int) -> Generator[Receive, Any, Message | None]:
        return (yield NEW(Receive, (self, timeout_ms)))

    def known_of(self, peer: str) -> Level | None:
        return ANY_MACHINE if peer in self.machines.nets else None  # all nodes of a run have one version

    def end_from(self, sender: str) -> None:
        pass  # there are no connections

    # --- the simulation's own

    def begin(self) -> None:
        """Begin a life of the node: what had arrived in an earlier one is gone."""
        self.arrived.clear()
        self.waiting = None

    def wait(self, client: Client, timeout_ms: int) -> None:
        kernel = self.machines.kernel
        until_ms = kernel.now_ms + max(timeout_ms, 0)
        self.waiting = client, client.incarnation, until_ms
        if self.arrived:
            kernel.at(kernel.now_ms, client.name, self._go_on)
        elif self.alarm[1] <= kernel.now_ms or until_ms < self.alarm[1]:
            self._set_alarm(until_ms)

    def deliver(self, delivery: Delivery) -> None:
        if self.process.coroutine is not None and not self.process.done:  # else the node is down
            self.arrived.append(delivery)
            self._go_on()

    def _set_alarm(self, until_ms: int) -> None:
        self.alarm = self.alarm[0] + 1, until_ms
        self.machines.kernel.at(until_ms, self.process.name, self._ring, self.alarm[0])

    def _ring(self, number: int) -> None:
        now_ms = self.machines.kernel.now_ms
        if number != self.alarm[0]:
            return
        self.alarm = number, 0
        if self.waiting and self.waiting[2] > now_ms:
            self._set_alarm(self.waiting[2])
        elif self.waiting:
            self._resume(None)

    def _go_on(self) -> None:
        """Let who waits go on, if there is something for it."""
        if self.waiting is None or not self.arrived:
            return
        client, incarnation, _ = self.waiting
        if client.incarnation != incarnation:  # it was cancelled: what has arrived is for who waits next
            self.waiting = None
        else:
            self._resume(self.arrived.popleft())

    def _resume(self, delivery: Delivery | None) -> None:
        assert self.waiting is not None
        client, incarnation, _ = self.waiting
        self.waiting = None
        if delivery and client.incarnation == incarnation:
            self.machines.received(self.process, delivery)
        self.machines.kernel.resume(client, incarnation, delivery and delivery.message)


class Links:
    """The links between the nodes of a run."""

    def __init__(self, machines: "Machines"):
        self.machines = machines
        self.cut_until_ms: dict[tuple[str, str], int] = {}  # (sender, receiver), and "" for any
        self.slow_until_ms: dict[tuple[str, str], int] = {}
        self.still_until_ms: dict[str, int] = {}  # node -> until when it stands still

    def post(self, process: Client, to: str, body: bytes) -> bool:
        """Send a message. Returns whether the sender crashes now."""
        machines, sender = self.machines, process.name
        number, fate, now_ms = machines.numbered(), "ok", machines.kernel.now_ms
        if machines.shows_io:
            machines.observe(NEW(Event, (now_ms, number, sender, "sent", "message", to, "", 0, "", body, (), False, True,
                                         False)))
        if machines.message_fates:
            fate = MESSAGE_FATES[machines.decide(process.sites["send"], len(MESSAGE_FATES), machines.draw,
                                                 machines.message_fates)]
        if fate == "crash" and machines.fault(process.sites["crash"], 2) == 0:
            return True  # before it leaves
        if fate == "stall":
            self._stall(process)
        elif fate in ("cut", "slow_link"):
            self._befall(fate, process, to)
        if fate == "lost" or self._is_cut(sender, to) or to not in machines.nets:
            machines.note("lost", process, number)
            return fate == "crash"
        if fate != "ok":
            machines.note(fate, process, number)
        for copy in range(1 + (fate == "doubled")):
            long_ms = machines.long_ms(process, "late") if fate == "late" or copy else 0
            there_ms = now_ms + 1 + self._there_ms(process, to) + long_ms
            machines.kernel.at(max(there_ms, self.still_until_ms.get(to, 0)), f"{sender} to {to}", machines.nets[to].deliver,
                               NEW(Delivery, (to, NEW(Message, (sender, body)), number)))
        return fate == "crash"

    def _befall(self, fate: str, process: Client, to: str) -> None:
        """Begin a long time in which a link is slow, or messages in one direction are lost."""
        until_ms = self.machines.kernel.now_ms + self.machines.long_ms(process, fate)
        if fate == "slow_link":
            self.slow_until_ms[process.name, to] = until_ms
            return
        how = CUTS[self.machines.fault(process.sites["cut_off"], len(CUTS))]
        of = {"link": [(process.name, to)], "from": [(process.name, "")], "to": [("", process.name)],
              "both ways": [(process.name, ""), ("", process.name)]}[how]
        self.cut_until_ms.update(dict.fromkeys(of, until_ms))

    def _stall(self, process: Client) -> None:
        """Let a node stand still: nothing that it waits for happens to it, and messages reach it only afterwards."""
        name, kernel = process.name, self.machines.kernel
        until_ms = self.still_until_ms[name] = kernel.now_ms + self.machines.long_ms(process, "stall")
        kernel.postpone(lambda owner: owner.rpartition(" ")[2].partition("/")[0] == name, until_ms)

    def is_still(self, node: str) -> bool:
        return self.machines.kernel.now_ms < self.still_until_ms.get(node, 0)

    def _is_cut(self, sender: str, to: str) -> bool:
        until, now_ms = self.cut_until_ms, self.machines.kernel.now_ms
        return bool(until) and sender != to and any(now_ms < until.get(link, 0)
                                                    for link in ((sender, to), (sender, ""), ("", to)))

    def _there_ms(self, process: Client, to: str) -> int:
        machines = self.machines
        if not machines.timed:
            return 0
        times = SLOWER if machines.kernel.now_ms < self.slow_until_ms.get((process.name, to), 0) else 1
        return machines.latency(process.sites["there_ms"], times * machines.hardware.there_ms)

    def heal(self) -> None:
        self.cut_until_ms.clear()
        self.slow_until_ms.clear()
        self.still_until_ms.clear()

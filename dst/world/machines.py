"""The machines of a run's nodes: each with a disk that outlives its node, and an end of the network.

Safety: a node that starts again has the disk that the crash left, and nothing else. A crash of the process alone leaves all
that was written; a crash of the machine leaves what was synced, and of the rest what the run's choices say.
"""

from collections.abc import Callable, Generator
from types import coroutine
from typing import Any, NamedTuple

from highwater.dst.sim.choose import Choose, Decide
from highwater.dst.sim.kernel import Client, Delivery, Kernel
from highwater.dst.world.disk import Disk
from highwater.dst.world.faults import long_time_ms
from highwater.dst.world.messages import Links, Net
from highwater.dst.world.node_faults import Hardware, NodeWeights, disk_fates, message_fates
from highwater.dst.world.signals import SimulatedSignals
from highwater.dst.world.store import NEW
from highwater.impl.node_world import NodeWorld
from highwater.traces.event import Event

CRASHES = ("process", "machine")


class Chances(NamedTuple):
    """The streams of a run's choices. `draw(table)` draws a fate, and `decide` records it."""

    latency: Choose
    fault: Choose
    decide: Decide
    draw: Callable[[bytes], int]


class Exit(NamedTuple):
    """A client awaits nothing: its process ends now, and is started again."""

    machines: "Machines"
    process: Client

    def begin(self, client: Client) -> None:
        self.machines.exit(self.process)


@coroutine
def ended(machines: "Machines", process: Client) -> Generator[Exit, None, None]:
    """End a node's process, with all its tasks. It is started again after a long time. This never returns."""
    yield Exit(machines, process)


class Machines:
    """All machines of one run. `around_ms`: times around which long ones are drawn. `restart(client)` starts a node again.
    `watch(what, client, number)` receives what a trace does not show. `shows_io`: the trace has messages, and
    operations of disks."""

    def __init__(self, kernel: Kernel, observe: Callable[[Event], None], chances: Chances, weights: NodeWeights,
                 around_ms: tuple[int, ...], hardware: Hardware, restart: Callable[[Client], None],
                 watch: Callable[[str, str, int], None] | None = None, shows_io: bool = True):
        self.kernel, self.observe, self.hardware, self.restart, self.watch = kernel, observe, hardware, restart, watch
        self.latency, self.fault, self.decide, self.draw = chances
        self.shows_io = shows_io
        self.around_ms, self.timed = around_ms, kernel.schedule is None
        self.disk_fates, self.message_fates = disk_fates(weights), message_fates(weights)
        self.disks: dict[str, Disk] = {}
        self.nets: dict[str, Net] = {}
        self.links = Links(self)
        self.operations = 0  # of disks, and messages

    def world(self, process: Client, clock: Any, ids: Any, metrics: Any) -> NodeWorld:
        """Return the world of a node that starts now, for the first time or again."""
        name = process.name
        if name not in self.disks:
            self.disks[name], self.nets[name] = Disk(self, process), Net(self, process)
        self.nets[name].begin()
        self._tell(process, "started", "process", ())
        return NodeWorld(self.disks[name], self.nets[name], clock, SimulatedSignals(self.kernel),  # pyright: ignore
                         ids, metrics)

    def crash(self, process: Client) -> None:
        """Crash a node, and start it again after a long time."""
        self.stop(process)
        self._start_later(process)

    def stop(self, process: Client) -> None:
        """Crash a node's process alone, or its machine."""
        how, disk = CRASHES[self.fault(process.sites["power"], len(CRASHES))], self.disks[process.name]
        lost = tuple(disk.folder.crash(self.fault, process.sites["lost"])) if how == "machine" else ()
        self._ended(process, disk, how, lost)

    def _ended(self, process: Client, disk: Disk, how: str, lost: tuple[str, ...] = ()) -> None:
        disk.folder.ended()
        disk.life += 1
        self._tell(process, "died", how, lost)
        self.kernel.crash(process)

    def exit(self, process: Client) -> None:
        """End a node's process, as it does by itself after an error of its disk, and start it again after a long time."""
        self._ended(process, self.disks[process.name], "process")
        self._start_later(process)

    def _start_later(self, process: Client) -> None:
        self.kernel.at(self.kernel.now_ms + self.long_ms(process, "restart"), process.name, self._start_again, process)

    def _start_again(self, process: Client) -> None:
        if not process.done:  # it may have retired meanwhile
            self.restart(process)

    def heal(self) -> None:
        """Stop all faults: the links work, the disks have room, and no operation fails."""
        self.disk_fates = self.message_fates = b""
        self.links.heal()
        for disk in self.disks.values():
            disk.full_until_ms = 0

    # --- of disks and messages

    def numbered(self) -> int:
        self.operations += 1
        return self.operations

    def long_ms(self, client: Client, of: str) -> int:
        return long_time_ms(self.fault, client.sites[of], self.around_ms)

    def note(self, what: str, client: Client, number: int) -> None:
        if self.watch:
            self.watch(what, client.name, number)

    def received(self, process: Client, delivery: Delivery) -> None:
        """Record that a node took a message that had arrived."""
        if self.shows_io:
            self.observe(NEW(Event, (self.kernel.now_ms, delivery.number, process.name, "received", "message",
                                     delivery.message.sender, "", 0, "", b"", (), False, True, False)))

    def _tell(self, process: Client, kind: str, op: str, said: tuple[str, ...]) -> None:
        self.observe(NEW(Event, (self.kernel.now_ms, 0, process.name, kind, op, "", "", 0, "", b"", said, False, True, False)))

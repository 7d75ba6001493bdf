"""The disk of a simulated node. Safety: an operation takes effect at one moment between its call and its return, or never.

Each operation is one event of the kernel and one of the trace. If its caller is cancelled meanwhile, it takes effect all the
same. A crash drops the operations under way, except that the one at which the node crashes may be done before.
"""

from collections.abc import Callable, Generator
from types import coroutine
from typing import TYPE_CHECKING, Any, NamedTuple

from highwater.dst.sim.kernel import Client
from highwater.dst.world.folder import DONE, FAILED, FULL, LOCKED, MISSING, Folder
from highwater.dst.world.node_faults import DISK_FATES
from highwater.dst.world.store import NEW
from highwater.impl.node_world import DiskFailed, DiskFull, DiskLocked, FileMissing
from highwater.traces.event import Event

if TYPE_CHECKING:
    from highwater.dst.world.machines import Machines

SAID: dict[int, Callable[[str], Exception]] = {
    MISSING: lambda said: FileMissing(said),
    LOCKED: lambda said: DiskLocked(f"{said}: another process works in this folder"),
    FAILED: lambda said: DiskFailed(f"{said}: input/output error"),
    FULL: lambda said: DiskFull(f"{said}: no space left on the disk"),
}


class Operation(NamedTuple):
    """An operation of a disk, which a client awaits."""

    disk: "Disk"
    op: str
    name: str = ""
    body: bytes = b""
    to: str = ""  # the new name of a rename; the new size of a truncate

    def begin(self, client: Client) -> None:
        self.disk.begin(client, self)


Asked = Generator[Operation, Any, Any]


class Disk:
    """The disk of one node. The node's code awaits the methods below; impl/node_world.py says what each does."""

    def __init__(self, machines: "Machines", process: Client):
        self.machines, self.process, self.folder = machines, process, Folder()
        self.full_until_ms = 0
        self.life = 0  # of the node: an operation of an earlier one has no effect

    @coroutine
    def lock(self) -> Asked:
        yield NEW(Operation, (self, "lock", "", b"", ""))

    @coroutine
    def names(self) -> Asked:
        return (yield NEW(Operation, (self, "names", "", b"", "")))

    @coroutine
    def read(self, name: str) -> Asked:
        return (yield NEW(Operation, (self, "read", name, b"", "")))

    @coroutine
    def create(self, name: str) -> Asked:
        yield NEW(Operation, (self, "create", name, b"", ""))

    @coroutine
    def append(self, name: str, body: bytes) -> Asked:
        yield NEW(Operation, (self, "append", name, body, ""))

    @coroutine
    def truncate(self, name: str, size_bytes: int) -> Asked:
        yield NEW(Operation, (self, "truncate", name, b"", str(size_bytes)))

    @coroutine
    def sync(self, name: str) -> Asked:
        yield NEW(Operation, (self, "sync", name, b"", ""))

    @coroutine
    def rename(self, old: str, new: str) -> Asked:
        yield NEW(Operation, (self, "rename", old, b"", new))

    @coroutine
    def remove(self, name: str) -> Asked:
        yield NEW(Operation, (self, "remove", name, b"", ""))

    @coroutine
    def sync_names(self) -> Asked:
        yield NEW(Operation, (self, "sync_names", "", b"", ""))

    # --- the simulation's own

    def begin(self, client: Client, asked: Operation) -> None:
        """Begin an operation. What a sync covers is what the file is now."""
        machines, kernel, op = self.machines, self.machines.kernel, asked.op
        number, fate, done_ms = machines.numbered(), "ok", kernel.now_ms
        if machines.timed:
            done_ms += self._duration_ms(client, op)
        if machines.disk_fates:
            fate = DISK_FATES[machines.decide(client.sites[op], len(DISK_FATES), machines.draw, machines.disk_fates)]
        if fate == "slow":
            done_ms += machines.long_ms(client, "slow")
        if fate != "ok":
            machines.note(fate, client, number)
        kernel.at(done_ms, client.name, self.end, client, client.incarnation, number, asked, fate,
                  self.folder.begin(op, asked.name), self.life)

    def _duration_ms(self, client: Client, op: str) -> int:
        hardware = self.machines.hardware
        if op in ("sync", "sync_names"):
            return 1 + self.machines.latency(client.sites["sync_ms"], hardware.sync_ms)
        return self.machines.latency(client.sites["write_ms"], hardware.write_ms + 1) if op == "append" else 0

    def end(self, client: Client, incarnation: int, number: int, asked: Operation, fate: str, covered: Any, life: int) -> None:
        """Take the effect of an operation, and let its caller go on, unless the process crashed meanwhile."""
        if self.life != life:
            return
        machines = self.machines
        _, op, name, body, to = asked
        if fate == "crash":
            if machines.fault(client.sites["crash"], 2):
                self._take(client, number, asked, DONE, covered)
            machines.crash(self.process)
            return
        status, result = DONE, None
        if fate == "failed":
            status = FAILED
            self.folder.fail(op, name, body, to, machines.fault, client.sites[f"failed {op}"])
        elif op == "append" and self._is_full(client, fate):
            status = FULL
        elif not (fate == "lie" and op in ("sync", "sync_names")):
            status, result = self.folder.apply(op, name, body, to, covered)
        self._observe(client, number, asked, status, result)
        error = SAID[status](f"{op} {name}".rstrip()) if status != DONE else None
        machines.kernel.resume(client, incarnation, result, error)

    def _take(self, client: Client, number: int, asked: Operation, status: int, covered: Any) -> None:
        status, result = self.folder.apply(*asked[1:], covered)
        self._observe(client, number, asked, status, result)

    def _is_full(self, client: Client, fate: str) -> bool:
        now_ms = self.machines.kernel.now_ms
        if fate == "full":
            self.full_until_ms = now_ms + self.machines.long_ms(client, "full")
        return now_ms < self.full_until_ms

    def _observe(self, client: Client, number: int, asked: Operation, status: int, result: Any) -> None:
        if not self.machines.shows_io:
            return
        _, op, name, body, to = asked
        body, keys = (result or b"", ()) if op == "read" else (body, tuple(result or ()))
        self.machines.observe(NEW(Event, (self.machines.kernel.now_ms, number, client.name, "disk", op, name, to, status, "",
                                          body, keys, False, True, False)))

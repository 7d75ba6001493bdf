"""Signals between the tasks of a simulated node. Whoever waits goes on in an event of its own, so that every order is tried."""

from collections.abc import Generator
from types import coroutine
from typing import NamedTuple

from highwater.dst.sim.kernel import Client, Kernel


class Wait(NamedTuple):
    """A client awaits a signal."""

    signal: "SimulatedSignal"

    def begin(self, client: Client) -> None:
        self.signal.waiting.append((client, client.incarnation))


class SimulatedSignal:
    def __init__(self, kernel: Kernel):
        self.kernel, self.is_set = kernel, False
        self.waiting: list[tuple[Client, int]] = []

    def set(self) -> None:
        self.is_set = True
        for client, incarnation in self.waiting:
            self.kernel.at(self.kernel.now_ms, client.name, self.kernel.resume, client, incarnation, None)
        self.waiting.clear()

    @coroutine
    def wait(self) -> Generator[Wait, None, None]:
        if not self.is_set:
            yield Wait(self)


class SimulatedSignals:
    def __init__(self, kernel: Kernel):
        self.kernel = kernel

    def signal(self) -> SimulatedSignal:
        return SimulatedSignal(self.kernel)

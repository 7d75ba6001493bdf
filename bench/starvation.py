"""Measures how often an open has to try again, by how often another client writes manifests.

SlateDB's page on the manifest warns: «If updates occur too frequently, there might be conflict between the SlateDB instances.
Too many conflicts can lead to starvation». A writer flushes, with a pause after each flush. A compactor opens meanwhile, and
tries again after each lost race. Requests take as long as the inputs of `highwater cost` say, and no fault happens. Both
clients run impl/protocols/manifest_epochs.py unchanged. All updates of the manifest count alike, so the result also holds for
a writer that opens behind a compactor.
"""

from collections.abc import Callable
from itertools import count, product
from math import ceil
from typing import NamedTuple

from highwater.cli.cost import INPUTS, inputs_of
from highwater.dst.actors import QuietMetrics
from highwater.dst.cost import sampler
from highwater.dst.sim.kernel import Client, Kernel
from highwater.dst.world.clock import ClientClock
from highwater.dst.world.ids import ClientIds
from highwater.dst.world.network import Network
from highwater.dst.world.store import ClientStore, SimulatedStore
from highwater.impl.codecs.json.manifest import EPOCHS
from highwater.impl.protocols.manifest_epochs import EMPTY, Instance, open_writer
from highwater.impl.protocols.sequenced_storage import FIRST_ID, ObjectVersionExists
from highwater.impl.world import Object, World
from highwater.traces.protocols.manifest_epochs import MANIFESTS

encode = EPOCHS.encode

PAUSES_MS = (3_000, 1_000, 300, 100, 30, 0)
SLOWER_MS = (0, 500)  # an open's time between its read and its create, apart from the requests
PATIENCE_S = (1, 5, 20)  # of an open that retries
RUNS = 100
FLUSHES_BEFORE = 3
ROOT = "db"


class Opened(NamedTuple):
    """One open. `ms`: its duration; `attempts`: its creates; `every_ms`: the writer's time between two flushes meanwhile."""

    ms: int
    attempts: int
    every_ms: float
    failed: bool


class Conflicts(QuietMetrics):
    def __init__(self) -> None:
        self.met = 0

    def count(self, name: str, amount: int = 1) -> None:
        self.met += amount if name == "update_conflicts" else 0


class SlowStore(ClientStore):
    """A client's store whose reads take `slower_ms` longer."""

    def __init__(self, clock: ClientClock, slower_ms: int):
        self.clock, self.slower_ms = clock, slower_ms

    async def get(self, key: str) -> Object:
        found = await super().get(key)
        if self.slower_ms:
            await self.clock.sleep_ms(self.slower_ms)
        return found


def open_behind(pause_ms: int, slower_ms: int, late_ms: int, delay_ms: Callable[[str], int]) -> Opened:
    """Run an open beside a writer that pauses `pause_ms` after each flush; the open begins `late_ms` after a flush."""
    kernel, store = Kernel(), SimulatedStore()
    store.put(MANIFESTS.key(FIRST_ID), encode(EMPTY), 0)
    Network(kernel, store, lambda event: None, mildest, mildest, None, None, b"", (), 0, None, delay_ms=delay_ms)
    writing, opening, conflicts, flushed_ms = Client("Writer#0"), Client("Compactor#0"), Conflicts(), []
    found: list[tuple[int, bool]] = []

    async def writes() -> None:
        clock = ClientClock(kernel, writing)
        world = World(ClientStore(), clock, ClientIds(clock, 0, count()), QuietMetrics())
        writer = await open_writer(world, ROOT)
        while not found:
            await writer.flush(f"0.{len(flushed_ms)}")
            flushed_ms.append(kernel.now_ms)
            if pause_ms:
                await world.clock.sleep_ms(pause_ms)
            if len(flushed_ms) == FLUSHES_BEFORE:
                kernel.start(opening, opens())

    async def opens() -> None:
        clock = ClientClock(kernel, opening)
        world = World(SlowStore(clock, slower_ms), clock, None, conflicts)
        await world.clock.sleep_ms(late_ms)
        begin_ms, failed = kernel.now_ms, False
        try:
            await Instance(world, ROOT, "compactor").open(max(PATIENCE_S))
        except ObjectVersionExists:
            failed = True
        found.append((kernel.now_ms - begin_ms, failed))

    kernel.start(writing, writes())
    kernel.run(10_000_000, 10_000_000)
    (ms, failed), = found
    every_ms = (flushed_ms[-1] - flushed_ms[0]) / (len(flushed_ms) - 1)
    return Opened(ms, conflicts.met + (not failed), every_ms, failed)


def mildest(site: str, bound: int) -> int:
    return 0


def quantile(values: list[int], q: float) -> int:
    return sorted(values)[ceil(q * len(values)) - 1]


def starvation(runs: int = RUNS) -> str:
    """Render the table of docs/protocols/manifest_epochs.md."""
    latencies = inputs_of(INPUTS).latencies
    head = ("work of an open between read and PUT, ms", "pause between flushes, ms", "a manifest every, ms",
            "opens that succeed at once", "attempts p50 / p99 / max", "open takes, ms p50 / p99",
            *(f"fails after {s} s" for s in PATIENCE_S))
    rows = [head, ("---",) * len(head)]
    for slower_ms, pause_ms in product(SLOWER_MS, PAUSES_MS):
        delay_ms = sampler(latencies, 0)
        of = [open_behind(pause_ms, slower_ms, (pause_ms + 100) * run // runs, delay_ms) for run in range(runs)]
        attempts, ms = [each.attempts for each in of], [each.ms for each in of]
        late = [sum(each.failed or each.ms > 1000 * s for each in of) for s in PATIENCE_S]
        rows.append((f"{slower_ms}", f"{pause_ms:,}", f"{sum(each.every_ms for each in of) / runs:,.0f}",
                     f"{sum(n == 1 for n in attempts) / runs:.0%}",
                     f"{quantile(attempts, 0.5)} / {quantile(attempts, 0.99)} / {max(attempts)}",
                     f"{quantile(ms, 0.5):,} / {quantile(ms, 0.99):,}", *(f"{count / runs:.0%}" for count in late)))
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + f"\n\nEach row: {runs} opens.\n"


if __name__ == "__main__":
    print(starvation())

"""An index on one node, for scripts: what is proposed is applied at once, and the script sets the time."""

from types import SimpleNamespace
from typing import Any

from highwater.dst.script import Alone, fails_with, same
from highwater.dst.scripts.replicated.disks import ScriptDisk
from highwater.dst.scripts.replicated.node import world_of
from highwater.impl.codecs.index import ulids
from highwater.impl.codecs.index.messages import BlockMeta, Dataset
from highwater.impl.errors import StoreError
from highwater.impl.index import replicated
from highwater.impl.index.config import Config, Level, S
from highwater.impl.index.library import Index
from highwater.impl.raft.clocks import Clocks, Told
from highwater.impl.raft.faults import CommandRefused, NotRunning
from highwater.impl.raft.machine import Command
from highwater.impl.raft.node import Done
from highwater.impl.raft.state import LEADER

START_S = 1_750_399_200  # 2025-06-20T06:00Z, where a partition begins
SMALL = Config(query_ns=S, retry_ns=S, horizon_ns=100 * S, delay_ns=200 * S, lease_ns=10 * S, failures=2,
               retry_failed_ns=50 * S, jobs=2, levels=(Level(2, 30 * S), Level(2, 60 * S)), tombstones=2, hand_outs=2)


def ulid(number: int, at_s: int = 0) -> str:
    return ulids.made((START_S + at_s) * 1000, bytes(8) + number.to_bytes(2))


def block(number: int, at_s: int = 0, tenant: str = "", shard: int = 1, level: int = 0, data: tuple[str, ...] = (),
          **fields: Any) -> Any:
    """Return a block that was made `at_s` after the start."""
    names = data or (f"d{number}",)
    table = ["", *dict.fromkeys(filter(None, (tenant, "writer", "kind", "cpu", *names)))]
    made = BlockMeta(id=ulid(number, at_s), tenant=table.index(tenant), shard=shard, compaction_level=level, min_time=1000,
                     max_time=2000, created_by=table.index("writer"), string_table=table)
    for name in names:
        made.datasets.append(Dataset(tenant=table.index(tenant), name=table.index(name), min_time=1000, max_time=2000,
                                     labels=[1, table.index("kind"), table.index("cpu")]))
    for name, value in fields.items():
        setattr(made, name, value)
    return made


class OneNode:
    """A node that leads a group of one. `troubles`: what the next proposals raise."""

    def __init__(self, config: Config, alone: Alone):
        self.alone, self.machine = alone, replicated.machine(config)
        self.value, self.index, self.reads = self.machine.initial, 0, 0
        self.state = SimpleNamespace(term=1, leader="a", me="a", role=LEADER)
        self.voters, self.told, self.commanded_ms = ("a",), dict[str, Told](), alone.monotonic_ms()
        self.troubles: list[StoreError] = []
        self.stopped = ""

    def check_running(self) -> None:
        if self.stopped:
            raise NotRunning(self.stopped)

    async def propose(self, body: bytes) -> Done:
        if self.troubles:
            raise self.troubles.pop(0)
        command = Command(self.index + 1, self.state.term, body)
        if (why := self.machine.refusal(self.value, command)) is not None:
            raise CommandRefused(why)
        self.index += 1
        self.value, result = self.machine.apply(self.value, command)
        self.commanded_ms = self.alone.monotonic_ms()
        return Done(self.index, result)

    async def read(self) -> Any:
        self.reads += 1
        return self.value

    async def settled(self) -> None:
        pass

    def clocks(self) -> Clocks:
        return Clocks("a", self.voters, self.alone.now_ms(), self.told, self.alone.monotonic_ms() - self.commanded_ms)


def opened(alone: Alone, config: Config = SMALL) -> Any:
    """Return an index on such a node."""
    at(alone, 0)
    node: Any = OneNode(config, alone)
    return Index(node, world_of(alone, ScriptDisk()), config)


def at(alone: Alone, second: float) -> None:
    """Set the time, in seconds since the start."""
    alone.now = round((START_S + second) * 1000)


def says(error: type[Exception], text: str, call: Any) -> None:
    """Check that a plain call raises exactly this class with this text."""
    fails_with(error, call)
    try:
        call()
    except error as raised:
        same(str(raised), text, "the message")

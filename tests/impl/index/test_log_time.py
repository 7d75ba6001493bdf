"""Log time: a minority of wrong clocks does not move it, with one voter and with three, in virtual time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.impl.codecs.index.messages import PollRequest
from highwater.impl.index.config import Config, Level, S
from highwater.impl.index.library import Index, InvalidArgument
from highwater.impl.index.log_time import BOUNDS, MS, log_time, majority
from highwater.impl.index.machine import clock_ns
from highwater.impl.index.retention import Cleaner, Policy
from highwater.impl.level import Level as GroupLevel
from highwater.impl.raft.clocks import Clocks, Told
from highwater.impl.raft.node import CLOCKED, Options
from highwater.impl.stores.node_system import local_worlds
from tests.impl.index.test_index_library import FAST, Late, first_leader
from tests.impl.raft.crashing import CrashingDisk
from tests.impl.raft.virtual import run
from tests.support.metadata_index import START_S, block

CONFIG = Config(levels=(Level(2, 36 * S),))
DAY, HOUR = 86_400, 3_600
NAMES = ("1", "2", "3")


class Wrong(Late):
    """A clock that is ahead of virtual time."""

    ahead_s = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_s * 1000


class Group:
    """Nodes of one index, each with a clock that a test sets."""

    def __init__(self, *names: str, options: Options = FAST):
        self.options, self.names, self.disks = options, names, {name: CrashingDisk() for name in names}
        self.clocks = {name: Wrong() for name in names}
        self.nodes: dict[str, Index] = {}
        self.stacks: dict[str, AsyncExitStack] = {}

    async def start(self) -> Index:
        """Open all nodes, and return the one that leads."""
        for name, world in local_worlds(list(self.disks.items())).items():
            self.stacks[name] = AsyncExitStack()
            opening = Index.open(world._replace(clock=self.clocks[name]), CONFIG, name, self.names, self.options)
            self.nodes[name] = await self.stacks[name].enter_async_context(opening)
        return await self.leader()

    async def leader(self) -> Index:
        return await first_leader([*self.nodes.values()])

    async def stop(self, *names: str) -> None:
        for name in names:
            del self.nodes[name]
            await self.stacks.pop(name).aclose()

    async def raised(self) -> Index:
        """Raise the level, and return the leader once it is told the clocks of all."""
        index = await self.leader()
        await index.node.raise_level(GroupLevel(CLOCKED))
        await asyncio.sleep(1)
        assert index.node.told.keys() == {*self.names} - {index.node.state.me}
        return index

    def clock(self, index: Index) -> Wrong:
        return self.clocks[index.node.state.me]

    def followers(self, index: Index) -> list[str]:
        return [name for name in self.names if name != index.node.state.me]


@asynccontextmanager
async def group(*names: str, options: Options = FAST) -> AsyncIterator[Group]:
    made = Group(*names, options=options)
    try:
        yield made
    finally:
        await made.stop(*list(made.nodes))


def warnings(index: Index) -> int:
    metrics: Any = index.world.metrics
    return metrics.snapshot().get("index_clock_alarms", 0)


def true_ns() -> int:
    return Late().now_ms() * MS


async def stamped(index: Index) -> int:
    """Let an idle worker poll, and return by how many seconds log time is ahead."""
    await index.poll(PollRequest())
    return round((clock_ns(index.node.value) - true_ns()) / S)


def fresh(number: int) -> Any:
    return block(number, at_s=Late().now_ms() // 1000 - START_S)


def test_a_glitch_of_ten_days_refuses_no_later_block():
    async def work():
        for names in (("1",), NAMES):
            async with group(*names) as of:
                index = await of.start()
                await index.add(fresh(1))
                index = await of.raised() if len(names) > 1 else index
                of.clock(index).ahead_s = 10 * DAY
                assert await stamped(index) == 0
                assert (warnings(index), index.alarm != "") == ((1, True) if len(names) == 1 else (0, False))
                await asyncio.sleep(0.3)
                of.clock(index).ahead_s = 0
                await index.add(fresh(2))
                assert (await stamped(index), index.alarm) == (0, "")

    run(work())


def test_a_jump_of_sixty_days_drops_no_unit():
    async def work():
        for names in (("1",), NAMES):
            async with group(*names) as of:
                index = await of.start()
                for number in (1, 2):
                    made = block(number, at_s=-DAY * number, tenant="a")
                    made.max_time = (START_S - DAY * number) * 1000
                    await index.add(made)
                index = await of.raised() if len(names) > 1 else index
                lines: list[str] = []
                cleaner = Cleaner(index, lambda: True, Policy(usual_s=40 * HOUR), log=lines.append)
                of.clock(index).ahead_s = 60 * DAY
                assert await cleaner.clean() == 1 and await cleaner.clean() == 0
                assert len(lines) == 1 and "tenant 'a', shard 1, window 2025-06-18 06:00:00" in lines[0]

    run(work())


def test_a_clock_a_year_ahead_deletes_nothing_early():
    async def work():
        async with group(*NAMES) as of:
            index = await of.start()
            await index.add(fresh(1))
            index = await of.raised()
            of.clock(index).ahead_s = 366 * DAY
            assert await stamped(index) == 0
            await index.add(fresh(2))
            assert await index.overdue() == [] and abs(index.now_ns() - true_ns()) < S
            transferred = of.followers(index)[0]
            await index.node.transfer(transferred)
            index = await of.leader()
            assert (index.node.state.me, await stamped(index)) == (transferred, 0)

    run(work())


def test_clocks_count_from_the_second_level_on():
    """At the first level a leader knows its own clock alone, as one voter does."""
    async def work():
        async with group(*NAMES) as of:
            index = await of.start()
            assert await stamped(index) == 0
            own = of.clock(index)
            for ahead_s, follows_s, alarms in ((HOUR - 60, HOUR - 60, 0), (3 * HOUR, HOUR - 60, 1)):
                own.ahead_s = ahead_s
                assert (await stamped(index), warnings(index)) == (follows_s, alarms)
            own.ahead_s = 0
            index = await of.raised()
            for clock in of.clocks.values():
                clock.ahead_s = 3 * HOUR
            await asyncio.sleep(1)
            of.clock(index).ahead_s = 50 * HOUR
            assert (await stamped(index), index.alarm) == (3 * HOUR, "")

    run(work())


def test_two_of_three_clocks_that_agree_are_followed():
    async def work():
        async with group(*NAMES) as of:
            index = await of.start()
            assert await stamped(index) == 0
            index = await of.raised()
            silent, other = of.followers(index)
            await of.stop(silent)
            await asyncio.sleep(11)
            of.clock(index).ahead_s = of.clocks[other].ahead_s = 30 * HOUR
            await asyncio.sleep(1)
            assert (await stamped(index), index.alarm) == (30 * HOUR, "")

    run(work())


@pytest.mark.parametrize("own_s, other_s, follows_s, alarm", (
    (50 * HOUR, 0, 0, False), (0, 50 * HOUR, 0, False), (50 * HOUR, 30 * HOUR, 0, True), (2 * HOUR, 600, 600, False)))
def test_two_clocks_that_disagree_do_not_jump(own_s, other_s, follows_s, alarm):
    async def work():
        async with group(*NAMES) as of:
            index = await of.start()
            assert await stamped(index) == 0
            index = await of.raised()
            silent, other = of.followers(index)
            await of.stop(silent)
            await asyncio.sleep(11)
            of.clock(index).ahead_s, of.clocks[other].ahead_s = own_s, other_s
            await asyncio.sleep(1)
            assert (await stamped(index), index.alarm != "") == (follows_s, alarm)

    run(work())


def test_an_hours_outage_of_three_nodes_needs_nobody():
    async def work():
        async with group(*NAMES) as of:
            index = await of.start()
            assert await stamped(index) == 0
            await of.raised()
            await of.stop(*NAMES)
            await asyncio.sleep(30 * HOUR)
            index = await of.start()
            await asyncio.sleep(1)
            assert (await stamped(index), warnings(index)) == (0, 0)

    run(work())


def test_an_hours_outage_of_one_node_is_confirmed():
    async def work():
        async with group("1") as of:
            assert await stamped(await of.start()) == 0
            await of.stop("1")
            await asyncio.sleep(30 * HOUR)
            index = await of.start()
            assert (await stamped(index), warnings(index)) == (-30 * HOUR, 1)
            with pytest.raises(InvalidArgument, match="set the wrong clock right"):
                await index.confirm_clock(true_ns() // MS - HOUR * 1000)
            await index.confirm_clock(true_ns() // MS)
            assert (await stamped(index), index.alarm) == (0, "")
            of.clock(index).ahead_s = 2 * HOUR
            assert (await stamped(index), warnings(index)) == (0, 2)

    run(work())


def test_an_idle_index_needs_nobody():
    async def work():
        async with group("1", options=FAST._replace(tick_ms=1_000)) as of:
            index = await of.start()
            assert await stamped(index) == 0
            await asyncio.sleep(3 * HOUR)
            assert (await stamped(index), warnings(index)) == (0, 0)

    run(work())


def test_a_clock_that_is_set_back_slows_log_time():
    async def work():
        async with group("1") as of:
            index = await of.start()
            assert await stamped(index) == 0
            for back_s, alarms in ((600, 0), (30 * DAY, 1)):
                of.clock(index).ahead_s = -back_s
                before = clock_ns(index.node.value)
                await asyncio.sleep(100)
                await stamped(index)
                assert round((clock_ns(index.node.value) - before) / S) == 50
                assert warnings(index) == alarms

    run(work())


CLOCK = st.integers(-(10**12), 10**12)


@given(st.integers(1, 7), st.data())
def test_a_minority_of_wrong_clocks_moves_nothing(size, data):
    """The time is one that a right clock shows, or log time goes on by the monotonic clock, whoever is wrong or silent."""
    voters = tuple(map(str, range(size)))
    wrong = set(data.draw(st.permutations(voters))[:data.draw(st.integers(0, (size - 1) // 2))])
    silent = set(data.draw(st.permutations(voters[1:]))[:data.draw(st.integers(0, size - 1))])
    now = START_S * 1000
    shown = {name: now + data.draw(CLOCK if name in wrong else st.integers(0, BOUNDS.agree_ms)) for name in voters}
    told = {name: Told(shown[name], 0) for name in voters[1:] if name not in silent}
    clocks = Clocks("0", voters, shown["0"], told, data.draw(st.integers(0, 1000)))
    right = [shown[name] for name in voters if name not in wrong and name not in silent]
    found = majority(clocks, BOUNDS)
    time_ms = log_time(now * MS, clocks, BOUNDS).time_ns // MS
    assert time_ms <= now + max(BOUNDS.agree_ms, clocks.passed_ms) and time_ms >= now
    if found and len(right) > size // 2:
        assert found.time_ms in right or min(right) <= found.time_ms <= max(right)
        assert found.agrees == (size > 1)

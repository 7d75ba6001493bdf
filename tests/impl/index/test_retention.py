"""Retention: which units the policy drops, and that a cleaner drops these only, for ever, and while its node leads."""

from typing import Any

import pytest

from highwater.impl.codecs.index.messages import QueryRequest
from highwater.impl.codecs.index.partitions import Partition
from highwater.impl.codecs.index.rows import Times, Unit
from highwater.impl.index.config import Config, Level, S
from highwater.impl.index.library import Index, PollAgain, TooLate
from highwater.impl.index.query.catalogue import all_units
from highwater.impl.index.retention import AT_ONCE, Cleaner, Policy, PolicyRefused, checked, command, is_over, over
from highwater.impl.raft.faults import NotLeader
from tests.impl.index.test_index_library import FAST, first_leader, leads, worlds
from tests.impl.raft.virtual import run
from tests.support.metadata_index import START_S, block

CONFIG = Config(levels=(Level(2, 36 * S),))
HOUR = 3600
POLICY = Policy(usual_s=10, tenants={"long": 24 * HOUR, "ever": 0})


def old(number: int, tenant: str = "", until_s: float = -7 * HOUR, shard: int = 1, at_s: int = -12 * HOUR) -> Any:
    """Return a block whose window ended six hours before the start; its data end `until_s` after the start."""
    made = block(number, at_s=at_s, tenant=tenant, shard=shard)
    made.max_time = int((START_S + until_s) * 1000)
    return made


def played(story: Any) -> None:
    async def work() -> None:
        async with Index.open(worlds("1")["1"], CONFIG, options=FAST) as index:
            await leads(index)
            await story(index)

    run(work())


async def ids(index: Index) -> set[str]:
    tenants = ["", "a", "long", "ever"]
    return {one.id for tenant in tenants for shard in (1, 2) for one in await index.get(
        tenant, shard, [old(number, tenant, shard=shard).id for number in range(50)])}


END_NS = (START_S - 6 * HOUR) * S


@pytest.mark.parametrize("tenant, policy, max_s, after_s, drops", [
    ("a", Policy(10), -HOUR, 9.9, False), ("a", Policy(10), -HOUR, 10, True),  # since the window
    ("a", Policy(10), 5, 14.9, False), ("a", Policy(10), 5, 15, True),  # since the last datum
    ("a", Policy(0), -HOUR, 1e9, False), ("a", Policy(10, {"a": 0}), -HOUR, 1e9, False),  # for ever
    ("a", Policy(10, {"a": 20}), -HOUR, 15, False), ("a", Policy(20, {"a": 10}), -HOUR, 15, True),
    ("a", Policy(10, {"b": 0}), -HOUR, 10, True),  # another tenant's period does not count
    ("", Policy(10, {"b": 20}), -HOUR, 19, False), ("", Policy(10, {"b": 20}), -HOUR, 20, True),  # the longest
    ("", Policy(10, {"b": 0}), -HOUR, 1e9, False), ("", Policy(0, {"b": 5}), -HOUR, 1e9, False)])
def test_a_unit_goes_when_its_period_has_passed_for_its_window_and_its_data(tenant, policy, max_s, after_s, drops):
    unit = Unit(Partition(END_NS - 6 * HOUR * S), tenant, 1)
    times = Times(1, (END_NS + int(max_s * S)) // 1_000_000, 1)
    assert is_over(checked(policy), unit, times, END_NS + int(after_s * S)) == drops


@pytest.mark.parametrize("policy", [Policy(-1), Policy(1, {"a": -5}), Policy(1 << 60), Policy(1, {"": 5}), Policy(1, {"-": 5}),
                                    Policy(1, {"a/b": 5})], ids=str)
def test_nonsensical_periods_are_refused(policy):
    with pytest.raises(PolicyRefused):
        checked(policy)


def test_a_cleaner_drops_what_is_over_and_nothing_else():
    async def story(index: Index) -> None:
        goes, stays = [old(1, "a"), old(2, "a", shard=2)], [old(3, "long"), old(4, "ever"), old(5), old(6, "a", at_s=-HOUR)]
        for one in (*goes, *stays):
            await index.add(one)
        before = {unit for unit, _ in all_units(await index.rows())}
        cleaner = Cleaner(index, lambda: True, POLICY)
        assert await cleaner.clean() == 2 and await cleaner.clean() == 0
        left = {unit for unit, _ in all_units(await index.rows())}
        assert {(unit.tenant, unit.shard) for unit in before - left} == {("a", 1), ("a", 2)} and len(left) == 4
        for one in goes:  # a retry, or a dead letter
            with pytest.raises(TooLate, match="retention has dropped"):
                await index.add(one)
        asked = QueryRequest(tenant_id=["a", "long", "ever"], start_time=0, end_time=1 << 62, query="{}")
        assert {one.id for one in goes}.isdisjoint(one.id for one in (await index.query(asked)).blocks)

    played(story)


def test_a_block_that_came_after_the_read_keeps_its_unit():
    async def story(index: Index) -> None:
        await index.add(old(1, "a"))
        term, read = index.node.state.term, list(over(await index.rows(), POLICY, index.now_ns()))
        await index.add(old(2, "a", until_s=0))
        await index.truncate(command(term, read))
        assert len(await ids(index)) == 2
        assert await Cleaner(index, lambda: True, POLICY).clean() == 0, "the late block's data are young"

    played(story)


def test_a_command_of_an_earlier_term_has_no_effect():
    async def story(index: Index) -> None:
        await index.add(old(1, "a"))
        read = list(over(await index.rows(), POLICY, index.now_ns()))
        with pytest.raises(PollAgain):
            await index.truncate(command(index.node.state.term - 1, read))
        assert len(await ids(index)) == 1

    played(story)


def test_a_node_that_does_not_lead_drops_nothing():
    async def work() -> None:
        from contextlib import AsyncExitStack

        async with AsyncExitStack() as stack:
            names = ("1", "2", "3")
            nodes = [await stack.enter_async_context(Index.open(world, CONFIG, name, names, FAST))
                     for name, world in worlds(*names).items()]
            leader = await first_leader(nodes)
            await leader.add(old(1, "a"))
            other = next(one for one in nodes if one is not leader)
            with pytest.raises(NotLeader):
                await Cleaner(other, lambda: True, POLICY).clean()
            assert len(await ids(leader)) == 1

    run(work())


def test_many_units_are_dropped_some_at_a_time():
    async def story(index: Index) -> None:
        for number in range(AT_ONCE + 3):
            await index.add(old(number, "a", shard=number))
        cleaner = Cleaner(index, lambda: True, POLICY)
        assert [await cleaner.clean() for _ in range(3)] == [AT_ONCE, 3, 0]

    played(story)

"""Scripts of log time: whose clocks it follows, when it raises an alarm, and what an operator may confirm."""

from typing import Any

from highwater.dst.script import Alone, Script, same
from highwater.dst.scripts.indexed.one import START_S, at, block, opened
from highwater.impl.index import log_time
from highwater.impl.index.library import InvalidArgument, bounds_of
from highwater.impl.index.log_time import BOUNDS, MS, LogTime, Majority, S
from highwater.impl.index.machine import clock_ns
from highwater.impl.raft.clocks import Clocks, Told
from highwater.impl.raft.faults import NotLeader
from highwater.impl.raft.node import Options
from highwater.impl.raft.state import FOLLOWER, Config

HOUR, DAY = 3_600_000, 24 * 3_600_000  # ms
NOW = START_S * 1000
ALONE, THREE, FOUR, FIVE = ("a",), ("a", "b", "c"), ("a", "b", "c", "d"), ("a", "b", "c", "d", "e")


def clocks(voters: tuple[str, ...], own: int, *told: int, age_ms: int = 0, passed_ms: int = 0) -> Clocks:
    """Return clocks that are so many ms ahead: the own one, and those of the voters after the first that are heard."""
    return Clocks("a", voters, NOW + own, {name: Told(NOW + ahead - age_ms, age_ms) for name, ahead in zip(voters[1:], told)},
                  passed_ms)


async def a_majority_has_reached_its_time(alone: Alone) -> None:
    for of, time, agrees in (
            (clocks(ALONE, 5), 5, False),  # no clock vouches for a single one
            (clocks(THREE, DAY, 1, 2), 2, True), (clocks(THREE, 1, DAY, 2), 2, True), (clocks(THREE, -DAY, 1, 2), 1, True),
            (clocks(THREE, 7, DAY), 7, False), (clocks(THREE, DAY, 7), 7, False), (clocks(THREE, 7, 60_007), 7, True),
            (clocks(THREE, 7, 60_008), 7, False), (clocks(THREE, 0, DAY, 2 * DAY), DAY, False),
            (clocks(FOUR, 0, DAY, DAY, 1), 1, False), (clocks(FOUR, 0, 1, 2, DAY), 1, True),
            (clocks(FIVE, DAY, DAY, 1, 2, 3), 3, True), (clocks(FIVE, 5, -DAY, 1), -DAY, False),
            (clocks(THREE, DAY, 1, 2, age_ms=10_000), 2, True)):
        same(log_time.majority(of, BOUNDS), Majority(NOW + time, agrees), f"of {of}")
    for of in (clocks(THREE, 0), clocks(THREE, 0, 1, 2, age_ms=10_001), clocks(FIVE, 0, 1),
               clocks(THREE, 0)._replace(told={"x": Told(NOW, 0), "a": Told(NOW, 0)}),  # a learner, and itself
               clocks(("b", "c", "d"), 0),  # it leads until it has left
               clocks((), 0)):  # it does not lead
        same(log_time.majority(of, BOUNDS), None, f"of {of}")


async def log_time_follows_the_clocks_within_bounds(alone: Alone) -> None:
    last = NOW * MS + 3
    for of, after_ms, shown_ms in (
            (clocks(ALONE, 900, passed_ms=1000), 900, None), (clocks(ALONE, 1100, passed_ms=1000), 1100, None),
            (clocks(ALONE, HOUR + 1000, passed_ms=1000), HOUR + 1000, None),  # within the hour
            (clocks(ALONE, HOUR + 1001, passed_ms=1000), 1000, HOUR + 1001), (clocks(ALONE, DAY), 0, DAY),
            (clocks(THREE, DAY, DAY + 1, 2 * DAY), DAY + 1, None),  # after an outage
            (clocks(THREE, DAY, 2 * DAY, 3 * DAY, passed_ms=5), 5, 2 * DAY),  # none agree
            (clocks(THREE, DAY, passed_ms=5), 5, None),  # a majority is not heard
            (clocks(ALONE, -1000, passed_ms=1000), 500, None), (clocks(ALONE, -HOUR, passed_ms=1000), 500, -HOUR),
            (clocks(THREE, -DAY, -DAY, -DAY, passed_ms=1000), 500, -DAY)):
        shown = None if shown_ms is None else (NOW + shown_ms) * MS
        found = log_time.log_time(last, of, BOUNDS)
        same((found.time_ns // MS - NOW, found.shown_ns), (after_ms, shown), f"of {of}")
    same(log_time.log_time(last, clocks(ALONE, 0, passed_ms=0), BOUNDS), LogTime(last))  # never back
    for of, time_ms in ((clocks(ALONE, DAY), NOW + DAY), (clocks(THREE, DAY), NOW + DAY), (clocks(THREE, DAY, 1, 2), NOW + 2),
                        (clocks(ALONE, -NOW - 1), 0)):
        same(log_time.log_time(0, of, BOUNDS), LogTime(time_ms * MS))
    same([bounds_of(Options(Config(heartbeat_ticks=2), tick_ms=tick_ms)).silent_ms for tick_ms in (100, 1000)],
         [10_000, 20_000])


async def times_are_shown_in_utc(alone: Alone) -> None:
    for time_ns, text in ((0, "1970-01-01T00:00:00Z"), (START_S * S + S - 1, "2025-06-20T06:00:00Z"),
                          ((START_S + 3661) * S, "2025-06-20T07:01:01Z")):
        same(log_time.utc(time_ns), text)
    start, ahead, behind = START_S * S, (START_S + 7200) * S, (START_S - 7200) * S
    same(log_time.alarm_of(start, ahead),
         "the clocks show 2025-06-20T08:00:00Z, which is 7,200 s ahead of log time, 2025-06-20T06:00:00Z: it goes on by the "
         "monotonic clock. Set the wrong clock right, or confirm the time with `highwater index clock --confirm`")
    same(log_time.alarm_of(start, behind),
         "the clocks show 2025-06-20T04:00:00Z, which is 7,200 s behind log time, 2025-06-20T06:00:00Z: it runs at half speed "
         "until they have caught up. Set the wrong clock right, or restore a snapshot with another clock")


def jump(alone: Alone, ms: int) -> None:
    """Set the clock ahead, and let no time pass."""
    alone.now, alone.jumped = alone.now + ms, alone.jumped + ms


def stamp(index: Any) -> int:
    """Return the last stamp, in ms after the start."""
    return clock_ns(index.node.value) // MS - NOW


async def a_clock_that_jumps_raises_one_alarm(alone: Alone) -> None:
    index = opened(alone)
    await index.add(block(1))
    jump(alone, DAY)
    for seconds in (1, 1):
        alone.now += seconds * 1000
        await index.add(block(2, seconds))
    same((stamp(index), len(alone.warnings), alone.counted), (2000, 1, ["index_clock_alarms"]))
    same(index.alarm, log_time.alarm_of((NOW + 2000) * MS, (NOW + DAY + 2000) * MS))
    jump(alone, -DAY)
    await index.add(block(3, 2))
    same((stamp(index), index.alarm), (2000, ""))
    jump(alone, -DAY)
    alone.now += 1000
    await index.overdue()
    same((len(alone.warnings), index.alarm), (2, log_time.alarm_of(NOW * MS + 2500 * MS, (NOW - DAY + 3000) * MS)))


async def clocks_of_followers_outvote_the_own(alone: Alone) -> None:
    index = opened(alone)
    index.node.voters = THREE
    for day in (0, DAY, -DAY):
        jump(alone, day)
        index.node.told = {name: Told(NOW + 5000, 0) for name in ("b", "c")}
        await index.add(block(1))
        same((stamp(index), index.alarm), (5000, ""))
        jump(alone, -day)


async def an_operator_confirms_the_present_time(alone: Alone) -> None:
    index = opened(alone)
    await index.add(block(1))
    jump(alone, 2 * DAY)
    before = index.node.index
    for apart_ms in (-60_001, 60_001):
        await alone.raises(InvalidArgument, index.confirm_clock(NOW + 2 * DAY + apart_ms))
    same(str(await alone.raises(InvalidArgument, index.confirm_clock(NOW))),
         "this node's clock shows 2025-06-22T06:00:00Z, and that of the operator 2025-06-20T06:00:00Z: set the wrong clock "
         "right, then confirm again")
    same((index.node.index, index.now_ns() // MS - NOW, index.alarm != ""), (before, 0, True))
    same(await index.confirm_clock(NOW + 2 * DAY + 60_000), NOW + 2 * DAY)
    same((stamp(index), index.node.index, index.alarm), (2 * DAY, before + 1, ""))
    jump(alone, 2 * DAY)  # it has confirmed that time, and no later one
    await index.add(block(2, 2 * DAY // 1000))
    same((stamp(index), index.alarm != ""), (2 * DAY, True))
    at(alone, 0)
    same(str(await alone.raises(InvalidArgument, index.confirm_clock(NOW))),
         "log time is 2025-06-22T06:00:00Z already, and never goes back: if it is wrong, restore a snapshot with another clock")
    index.node.state.role = FOLLOWER
    await alone.raises(NotLeader, index.confirm_clock(NOW))


SCRIPTS: tuple[Script, ...] = (
    a_majority_has_reached_its_time, log_time_follows_the_clocks_within_bounds, times_are_shown_in_utc,
    a_clock_that_jumps_raises_one_alarm, clocks_of_followers_outvote_the_own, an_operator_confirms_the_present_time)

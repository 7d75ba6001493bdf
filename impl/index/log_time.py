"""Safety: a minority of wrong clocks does not move log time, and log time never goes back.

Log time is what entries are stamped with, and what the age of data is judged by. It follows the majority time: the latest time
that a majority of all voters has reached, found as the commit index is. A voter that is silent has not reached any time. While
the clocks of a majority agree they are followed wherever they lead: after an outage log time is right at once.

Otherwise, and with one voter, no clock vouches for another. Then a majority time that is more than `jump_ms` ahead of log time
is not followed: log time goes on by the monotonic clock, with an alarm. Where the clocks are behind log time, it runs at half
speed until they have caught up, so that leases still end.
"""

from typing import NamedTuple

from highwater.impl.codecs.index.partitions import DAY_S, date_of
from highwater.impl.raft.clocks import Clocks

MS = 1_000_000  # ns
S = 1_000 * MS


class Bounds(NamedTuple):
    """The limits of log time, in ms."""

    jump_ms: int = 3_600_000  # that the clocks may be ahead if no majority of them agrees
    agree_ms: int = 60_000  # by which clocks that agree differ at most: they are told with the delay of the network
    silent_ms: int = 10_000  # a voter is silent if its last reply is older


BOUNDS = Bounds()


class Majority(NamedTuple):
    """The majority time, and whether the clocks of a majority agree. It is one of theirs then: two majorities have a member in
    common."""

    time_ms: int
    agrees: bool


class LogTime(NamedTuple):
    """The log time. `shown_ns`: the majority time if it is not followed, because it is too far away; None if all is well."""

    time_ns: int
    shown_ns: int | None = None


def majority(clocks: Clocks, bounds: Bounds) -> Majority | None:
    """Return the majority time; None if fewer voters are heard. A follower's clock has gone on since its reply."""
    reached = [told.clock_ms + told.age_ms for name, told in clocks.told.items()
               if name in clocks.voters and name != clocks.me and told.age_ms <= bounds.silent_ms]
    if clocks.me in clocks.voters:
        reached.append(clocks.own_ms)
    reached.sort(reverse=True)
    quorum = len(clocks.voters) // 2 + 1
    if len(reached) < quorum:
        return None
    agrees = quorum > 1 and any(first - last <= bounds.agree_ms for first, last in zip(reached, reached[quorum - 1:]))
    return Majority(reached[quorum - 1], agrees)


def log_time(last_ns: int, clocks: Clocks, bounds: Bounds) -> LogTime:
    """Return the log time. `last_ns`: the latest stamp that is applied; 0 if there is none: the first stamp has nothing to be
    compared with, so it is the leader's own clock if no majority is heard."""
    found = majority(clocks, bounds)
    if not last_ns:
        return LogTime(max(found.time_ms if found else clocks.own_ms, 0) * MS)
    passed_ns = clocks.passed_ms * MS
    usual_ns, slow_ns = last_ns + passed_ns, last_ns + passed_ns // 2
    if found is None:
        return LogTime(usual_ns)
    ahead_ns = found.time_ms * MS - usual_ns
    if ahead_ns > bounds.jump_ms * MS and not found.agrees:
        return LogTime(usual_ns, found.time_ms * MS)
    behind = -ahead_ns > bounds.jump_ms * MS
    return LogTime(max(found.time_ms * MS, slow_ns), found.time_ms * MS if behind else None)


def utc(time_ns: int) -> str:
    """Return a time as text, in UTC."""
    day, second = divmod(time_ns // S, DAY_S)
    year, month, of_month = date_of(day)
    return f"{year:04d}-{month:02d}-{of_month:02d}T{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}Z"


def alarm_of(time_ns: int, shown_ns: int) -> str:
    """Return the alarm that log time does not follow the clocks."""
    is_ahead, apart_s = shown_ns > time_ns, abs(shown_ns - time_ns) // S
    then = ("goes on by the monotonic clock. Set the wrong clock right, or confirm the time with `highwater index clock "
            "--confirm`") if is_ahead else (
        "runs at half speed until they have caught up. Set the wrong clock right, or restore a snapshot with another clock")
    return (f"the clocks show {utc(shown_ns)}, which is {apart_s:,} s {'ahead of' if is_ahead else 'behind'} log time, "
            f"{utc(time_ns)}: it {then}")

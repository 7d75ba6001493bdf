"""Safety: none; this is what goes wrong. Which of it, and how often, is drawn for each run (swarm sampling).

A fault befalls one request, when it is issued. Long times are drawn log-uniform around the protocol's own constant, its
`min_age`, for bugs live where a stall and a time-out of the protocol meet.
"""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

Choose = Callable[[str, int], int]


class Weights(NamedTuple):
    """How often, of 1000 requests."""

    stall: int = 100  # the client does not run for a long time after the reply came
    refused: int = 10  # 503: not applied, and the client is told so
    request_lost: int = 10  # never applied; the client gets a time-out
    reply_lost: int = 10  # applied; the client gets a time-out
    late: int = 10  # the client gets a time-out, and the request is applied long after
    crash: int = 10  # the client dies: before the request leaves, or with it under way, or before its reply


NONE = Weights(0, 0, 0, 0, 0, 0)
SWARM = (0, 1, 1, 3)  # a weight is multiplied by one of these in each run


def swarm(choose: Choose, weights: Weights) -> Weights:
    return Weights(*(weight * SWARM[choose(f"swarm.{name}", len(SWARM))] for name, weight in weights._asdict().items()))


@cache
def fates(weights: Weights) -> tuple[str, ...]:
    """A table of 1000 entries: index it with a choice."""
    table = [name for name, weight in weights._asdict().items() for _ in range(weight)]
    return tuple(table[:1000] + ["ok"] * (1000 - len(table)))


LOG_UNIFORM = tuple(round(100 * 50 ** (i / 63)) for i in range(64))  # 0.1 to 5, in thousandths


def long_time_ms(choose: Choose, site: str, around_ms: int) -> int:
    """Log-uniform from 0.1 to 5 times `around_ms`."""
    return LOG_UNIFORM[choose(site, 64)] * around_ms // 1000 + 1

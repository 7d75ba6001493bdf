"""Safety: none; this is what goes wrong. Which of it, and how often, is drawn for each run (swarm sampling).

A fault befalls one request, when it is issued. What is applied is a fact of the store; what a client learns of it is the error
that impl/errors.py has for the answer. A failed read has no effect to doubt, so its error is always Definite. Long times are
drawn log-uniform around the constants that the protocol and its callers wait by, for bugs live where a stall and a time-out
meet. The catalogue is in docs/simulation.md.
"""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

Choose = Callable[[str, int], int]


class Weights(NamedTuple):
    """How often, of 1000 requests."""

    stall: int = 100  # the client does not run for a long time after the reply came, and its clock has jumped (F12, F13)
    refused: int = 10  # 503: never applied, but the client of a mutation cannot tell (Indefinite) (F10)
    conflict: int = 5  # 409 to a mutation, as another one is under way: never applied, and the client can tell (Definite) (F6)
    request_lost: int = 10  # never applied; the client gets a time-out (of a mutation Indefinite) (F4)
    reply_lost: int = 10  # applied; the client gets the same time-out (F1)
    late: int = 10  # the client gets the same time-out, and the request is applied long after (F4)
    crash: int = 10  # the client dies: before the request leaves, or with it under way, or before its reply (F21, F22)
    # For a long time this client's requests, or their replies, are lost, or its credentials are refused (403:
    # never applied, and the client can tell) (F23, F24).
    cut_off: int = 3


FATES = ("ok", *Weights._fields)  # a fate is its place here
NONE = Weights(0, 0, 0, 0, 0, 0, 0, 0)
AMBIGUOUS = Weights(100, 5, 60, 5, 60, 30, 5, 0)  # of many a mutation the client cannot tell whether it was applied
SWARM = (1, 0, 1, 3)  # a weight is multiplied by one of these in each run
SITES = tuple(f"swarm.{name}" for name in Weights._fields)


def swarm(choose: Choose, weights: Weights) -> Weights:
    return Weights._make([weight * SWARM[choose(site, len(SWARM))] for site, weight in zip(SITES, weights)])


def drawn(choose: Choose, retries: bool) -> Weights:
    """Of one run. Where clients send requests again, two runs in three are ambiguous: what goes wrong there needs two faults of
    one update, and the usual weights seldom make both."""
    return swarm(choose, AMBIGUOUS if retries and choose("swarm.ambiguous", 3) else Weights())


@cache
def fates(weights: Weights) -> bytes:
    """A table of 1000 entries, to be indexed with a random number."""
    table = b"".join([bytes([fate]) * weight for fate, weight in enumerate(weights, 1)])
    return bytes(1000 - min(len(table), 1000)) + table[:1000]


LOG_UNIFORM = tuple(round(100 * 50 ** (i / 63)) for i in range(64))  # 0.1 to 5, in thousandths


def long_time_ms(choose: Choose, site: str, around_ms: tuple[int, ...]) -> int:
    """Log-uniform from 0.1 to 5 times one of these."""
    return LOG_UNIFORM[choose(site, 64)] * around_ms[choose(f"{site}.around", len(around_ms))] // 1000 + 1

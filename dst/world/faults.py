"""Define the faults. Which of them occur in a run, and how often, is drawn for each run (swarm sampling).

A fault affects one request, when it is issued. The store alone determines whether the request is applied. The client learns the
error that impl/errors.py has for the response. A failed read has no effect, so its error is always Definite. Long times are
drawn log-uniformly around the waiting times of the protocol and its callers, because bugs appear where a stall and a time-out
meet. docs/simulation/simulation.md has the catalogue.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, TypeVar

Choose = Callable[[str, int], int]
Drawn = TypeVar("Drawn", bound=Any)  # Weights, or those of another kind of faults


class Weights(NamedTuple):
    """The rate of each fault, of 1000 requests."""

    stall: int = 100  # the client stalls long after the response arrived, and its clock jumps (F12, F13)
    refused: int = 10  # 503: never applied, but the client of a mutation cannot know (Indefinite) (F10)
    conflict: int = 5  # 409: another mutation is in flight; never applied, and the client knows (Definite) (F6)
    request_lost: int = 10  # never applied; the client times out (Indefinite for a mutation) (F4)
    reply_lost: int = 10  # applied; the client times out in the same way (F1)
    late: int = 10  # the client times out in the same way, and the request is applied long after (F4)
    crash: int = 10  # the client crashes before the request leaves, while it is in flight, or before its response (F21, F22)
    # For a long time this client's requests or their responses are lost, or its credentials are refused (403:
    # never applied, and the client knows) (F23, F24).
    cut_off: int = 3


FATES = ("ok", *Weights._fields)  # a fate is an index into this
NONE = Weights(0, 0, 0, 0, 0, 0, 0, 0)
AMBIGUOUS = Weights(100, 5, 60, 5, 60, 30, 5, 0)  # many mutations with an indeterminate outcome
SWARM = (1, 0, 1, 3)  # each weight is multiplied by one of these


def swarm(choose: Choose, weights: Drawn) -> Drawn:
    """Draw the weights of a run. `weights`: a record of them."""
    return weights._make([weight * SWARM[choose(f"swarm.{name}", len(SWARM))]
                          for name, weight in zip(weights._fields, weights)])


def drawn(choose: Choose, retries: bool) -> Weights:
    """Draw the weights of a run. If clients repeat requests, two runs in three use AMBIGUOUS.

    Bugs in that case need two faults in one update, which the usual weights seldom produce."""
    return swarm(choose, AMBIGUOUS if retries and choose("swarm.ambiguous", 3) else Weights())


@cache
def fates(weights: tuple[int, ...]) -> bytes:
    """Return a table of 1000 fates, to be indexed with a random number: 0, and the numbers from 1 on of these weights."""
    table = b"".join([bytes([fate]) * weight for fate, weight in enumerate(weights, 1)])
    return bytes(1000 - min(len(table), 1000)) + table[:1000]


LOG_UNIFORM = tuple(round(100 * 50 ** (i / 63)) for i in range(64))  # factors from 0.1 to 5, in thousandths


def long_time_ms(choose: Choose, site: str, around_ms: tuple[int, ...]) -> int:
    """Draw a time, log-uniformly from 0.1 to 5 times one of these."""
    return LOG_UNIFORM[choose(site, 64)] * around_ms[choose(f"{site}.around", len(around_ms))] // 1000 + 1

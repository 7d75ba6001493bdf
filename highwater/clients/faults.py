"""The faults that a client of an object store must bear, and the rules of the recorder that make them.

A fault is placed by the client and the number of its mutation: a request that puts, copies or deletes objects. `HOLD` is placed
by the number of any request. It is held until the other clients have ended, so they commit inside the client's window.
"""

from collections.abc import Iterable
from typing import NamedTuple

HOLD = "held while others run"
LATE_MS = 300  # the client has been told before, and most retry earlier
PAST_MS = 500  # beyond the time-out


class Fault(NamedTuple):
    """`action` and `options` of a rule (highwater/recorder/rules.py). `kills`: "before" or "after" its reply.
    `of_conditions`: only a request with a condition may meet it."""

    action: str
    options: str = ""
    kills: str = ""
    of_conditions: bool = False


FAULTS = {
    "reply lost": Fault("lose"),
    "request lost": Fault("drop"),
    "applied late": Fault(f"late {LATE_MS}"),
    "500, applied": Fault("fail-reply 500"),
    "503, applied": Fault("fail-reply 503"),
    "409": Fault("fail 409", " code=ConditionalRequestConflict", of_conditions=True),
    "killed before the reply": Fault("hold-reply", kills="before"),
    "killed after the reply": Fault("drop", kills="after"),  # drops its later mutations: it may not be dead at once
}


class Placed(NamedTuple):
    """A fault of FAULTS, `HOLD`, or one that a time-out adds, at the `nth` mutation of a client, from 1; HOLD: at its `nth`
    request."""

    fault: str
    client: str
    nth: int

    def __str__(self) -> str:
        return f"{self.fault}, {'request' if self.fault == HOLD else 'mutation'} {self.nth} of {self.client}"


def faults_of(timeout_s: float | None, hang: bool) -> dict[str, Fault]:
    """Return the faults by name. A time-out adds those for which the client has to wait. `hang`: a lost reply leaves the
    connection open."""
    found = dict(FAULTS)
    if timeout_s is not None:
        found["delayed past the time-out"] = Fault(f"delay {round(timeout_s * 1000) + PAST_MS}")
    if hang:
        found["reply lost"] = Fault("stall")
    return found


def rule(placed: Placed, faults: dict[str, Fault]) -> str:
    """Return the rule that makes a fault."""
    if placed.fault == HOLD:
        return f"hold * * client={placed.client} nth={placed.nth}"
    of = faults[placed.fault]
    which = "after" if of.kills == "after" else "nth"
    return f"{of.action} MUTATION * client={placed.client} {which}={placed.nth}{of.options}"


def rules(placed: Iterable[Placed], faults: dict[str, Fault]) -> str:
    return "".join(f"{rule(one, faults)}\n" for one in placed)

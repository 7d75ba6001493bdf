"""The answers of impl/index/retention.py to whoever runs a cleaner, and what is true then."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from highwater.traces.calls import NONE, Calls, Claim, definite, indefinite, returns
from highwater.traces.event import Event

OTHER_TERM = "PollAgain"  # a class of errors
# How the last request of a call ended that has failed
NO_LEADER, REFUSED, UNANSWERED, CANCELLED = "no leader", "refused", "unanswered", "cancelled"
ENDED_BY = {  # class of the error -> how the last request of the call may have ended
    OTHER_TERM: (OTHER_TERM,), "NotLeader": (NO_LEADER,), "Unavailable": (REFUSED,), "OutcomeUnknown": (REFUSED, UNANSWERED),
    "TimedOut": (UNANSWERED, CANCELLED),
}
CALLS: Calls = {
    "clean": {
        "int": returns("cleaned", "units that were still as they were read are dropped; the others stay for the next time",
                       "units", update=NONE),
        OTHER_TERM: definite("not cleaned", "another term has begun since the units were read: clean again", NONE),
        "NotLeader": definite("not cleaned", "this node does not lead: the leader's cleaner drops the units", NONE),
        "Unavailable": definite("not cleaned", "the log took no command: clean again", NONE),
        "OutcomeUnknown": indefinite("not cleaned", "the command may drop units, now or later: clean again", NONE),
        "TimedOut": indefinite("not cleaned", "the caller's time was over: clean again", NONE),
    },
}


def right_units(trace: Any, e: Event, value: str) -> str:
    """The call has read the units and, if the policy drops some, has proposed so many."""
    found = trace.ended.pop(e.client, "")
    return "" if found == value else f"the last request of this call {f'names {found} units' if found else 'is no such one'}"


JUDGES: Mapping[str, Claim] = MappingProxyType({"units": right_units})

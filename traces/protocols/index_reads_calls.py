"""The answers of impl/index/reader.py to whoever reads the objects of an answer, and what is true then."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from highwater.traces.calls import NONE, Calls, Claim, definite, indefinite, returns
from highwater.traces.event import Event

# How the last request of a call ended
ANSWERED, FOUND, MISSING, REFUSED, UNANSWERED, CANCELLED = "answered", "found", "missing", "refused", "unanswered", "cancelled"
ENDED_BY = {  # class of a result or error -> how the last request of the call may have ended
    "int": (ANSWERED, FOUND), "QueryOver": (FOUND, MISSING), "NotFound": (MISSING,), "Unavailable": (REFUSED, UNANSWERED),
    "OutcomeUnknown": (REFUSED, UNANSWERED), "TimedOut": (UNANSWERED, CANCELLED),
}
CALLS: Calls = {
    "read": {
        "int": returns("read", "every block of the answer was taken with its object", "blocks", update=NONE),
        "QueryOver": definite("over", "the time of the query is over: ask again for less, or read faster", NONE),
        "NotFound": definite("gone", "somebody who is none of the index's has deleted an object", NONE),
        "Unavailable": definite("not read", "the store does not answer: read again", NONE),
        "OutcomeUnknown": indefinite("not read", "the index does not answer: read again", NONE),
        "TimedOut": indefinite("not read", "the caller's time was over: read again", NONE),
    },
}


def right_blocks(trace: Any, e: Event, value: str) -> str:
    """The call has read so many objects in its time."""
    read = trace.read.get(e.client, 0)
    return "" if value == str(read) else f"this call has read {read} objects"


JUDGES: Mapping[str, Claim] = MappingProxyType({"blocks": right_blocks})

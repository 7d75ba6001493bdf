"""The answers that each call of impl/protocols/baseline.py may give, and what is true then."""

from highwater.traces.calls import (
    DEFINITE,
    NONE,
    Calls,
    Claim,
    content,
    definite,
    fault,
    in_call,
    indefinite,
    returns,
    unreadable,
    with_timeouts,
)
from highwater.traces.calls import JUDGES as COMMON
from highwater.traces.event import Event
from highwater.traces.trace import Trace

UNKNOWN = indefinite("unknown", "the write may be stored, now or later; a later recovery tells whether it is stored by then")
UNSENT = definite("failed", "call again, with the same name")
AGAIN = definite("not read", "call again", NONE)
ALL = "every write that was acknowledged before the call is in it, and perhaps writes of unknown outcome"
LISTED = {"NotFound": fault("not read", "a write that was listed is gone, which nobody may do", NONE, DEFINITE),
          "Unavailable": AGAIN, **unreadable("not read", NONE, "ListingNeverEnds")}
FOREIGN = {"InvalidRecord": fault("not read", "an object below the prefix is not of this store: move it away", NONE, DEFINITE)}
CALLS: Calls = with_timeouts({
    "write": {"NoneType": returns("committed", "it is stored"), "Unavailable": UNSENT, "OutcomeUnknown": UNKNOWN},
    "read": {
        "bytes": returns("read", "the body of the write", update=NONE),
        "NotFound": definite("not read", "no write with this name is stored; one of unknown outcome may be later", NONE),
        "Unavailable": AGAIN,
    },
    "recover": {"dict": returns("read", ALL, "writes", update=NONE), **LISTED},
    "open": {"BaselineKv": returns("opened", ALL, update=NONE), **LISTED, **FOREIGN},
    "put": {"NoneType": returns("committed", "it is stored"), "Unavailable": UNSENT, "OutcomeUnknown": UNKNOWN},
    "get": {
        "bytes": returns("got", "the latest value of the key", update=NONE),
        "NoneType": returns("got", "the key has no value", update=NONE),
        "NotFound": fault("not read", "an acknowledged put is gone, which nobody may do", NONE, DEFINITE),
        "Unavailable": AGAIN,
        **FOREIGN,
    },
    "flush": {"NoneType": returns("flushed", "every put that returned was stored before", update=NONE)},
})


def right_writes(trace: Trace, e: Event, value: str) -> str:
    """A recovery returns the writes that it got, under their names. `value`: each name, a colon, and its content."""
    got = sorted([f"{old.key.removeprefix(trace.namespace.prefix)}:{content(old.body)}" for old in in_call(trace, e)
                  if old.op == "get"])
    return "" if got == sorted(value.split()) else f"this call got {' '.join(got)}"


JUDGES: dict[str, Claim] = {**COMMON, "writes": right_writes}

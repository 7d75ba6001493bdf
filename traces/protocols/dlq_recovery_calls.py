"""The answers of impl/index/letters to those who add blocks and to those who sweep, and what is true then."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from highwater.traces.calls import NONE, Calls, Claim, definite, indefinite, returns
from highwater.traces.event import Event

AGAIN = "add the block again, which changes nothing if it is kept"
LATE = "the caller's time was over"
ENDED_BY = {  # class of the error of a sweep -> how its last listing may have ended; "": of a trace without classes
    "NotLeader": ("applied",), "Unavailable": ("refused", "timeout"), "TimedOut": ("timeout",),
    "": ("applied", "refused", "timeout"),
}
CALLS: Calls = {
    "add": {
        "str": returns("stored", "the index has the block, or a letter names it and a sweeper adds it later", "how"),
        "InvalidArgument": definite("invalid", "the metadata is refused, and the message says why"),
        "TooLate": definite("refused", "the block is older than the horizon, or retention has dropped its unit: keep it aside"),
        "LetterTaken": definite("failed", "another block has this ULID and a letter: give each block a ULID of its own"),
        "Unavailable": definite("failed", "neither the index nor the store took it: " + AGAIN),
        "OutcomeUnknown": indefinite("unknown", "the index or the store may have it, or may have it later: " + AGAIN),
        "TimedOut": indefinite("unknown", f"{LATE}: {AGAIN}"),
    },
    "sweep": {
        "NoneType": returns("swept", "each letter of the listing was settled, or stays for the next sweep", update=NONE),
        "NotLeader": definite("not swept", "this node does not lead: the leader sweeps", NONE),
        "Unavailable": definite("not swept", "the letters could not be listed: sweep again", NONE),
        "TimedOut": indefinite("not swept", f"{LATE}: sweep again", NONE),
    },
}


def right_how(trace: Any, e: Event, value: str) -> str:
    """The block is kept as the caller is told: "added" to the index, or "kept" in a letter."""
    return trace.kept_wrongly(e.body.decode(), value)


JUDGES: Mapping[str, Claim] = MappingProxyType({"how": right_how})

"""Safety: a client can tell from the code of an answer whether its call had an effect, and whether it may be repeated.

The codes are gRPC's. UNKNOWN is the only one of a call that may have had an effect, now or later. It may be repeated, as all
calls may be.
"""

from highwater.impl.errors import Definite, StoreError, TimedOut
from highwater.impl.index.library import InvalidArgument, PollAgain, QueryTooLong, TooLate
from highwater.impl.index.query.answers import AnswerTooLarge
from highwater.impl.index.query.meter import QueryTooCostly
from highwater.impl.raft.faults import LeadershipLost, NodeStopped, NotLeader, NotRunning, QueueFull, TooLarge

OK, INVALID_ARGUMENT, FAILED_PRECONDITION, RESOURCE_EXHAUSTED = (
    "OK", "INVALID_ARGUMENT", "FAILED_PRECONDITION", "RESOURCE_EXHAUSTED")
ABORTED, UNAVAILABLE, UNKNOWN, UNIMPLEMENTED = "ABORTED", "UNAVAILABLE", "UNKNOWN", "UNIMPLEMENTED"
DEADLINE_EXCEEDED = "DEADLINE_EXCEEDED"  # no call but a query gets it from a node, and a query has no effect


class OverLimit(Definite):
    """The call is above a limit of this node. The message names the limit."""


CODES: tuple[tuple[type[StoreError], str, str], ...] = (  # error, code, and what a client does then
    (InvalidArgument, INVALID_ARGUMENT, "correct the request"),
    (TooLate, FAILED_PRECONDITION, "never add the block again; keep it aside"),
    (OverLimit, RESOURCE_EXHAUSTED, "ask for less, or later, as the message says"),
    (QueryTooCostly, RESOURCE_EXHAUSTED, "narrow the question, as the message says"),
    (QueryTooLong, DEADLINE_EXCEEDED, "narrow the question, as the message says"),
    (AnswerTooLarge, RESOURCE_EXHAUSTED, "narrow the question, as the message says"),
    (TooLarge, RESOURCE_EXHAUSTED, "split the block"),
    (QueueFull, RESOURCE_EXHAUSTED, "repeat it later"),
    (PollAgain, ABORTED, "begin again: poll, or read"),
    (NotLeader, UNAVAILABLE, "repeat it at the node that the message and the metadata `highwater-leader` name"),
    (NotRunning, UNAVAILABLE, "repeat it at another node"),
    (LeadershipLost, UNKNOWN, "repeat it: it may have had its effect"),
    (NodeStopped, UNKNOWN, "repeat it: it may have had its effect"),
    (TimedOut, UNKNOWN, "repeat it: it may have had its effect"),
)


def code_of(error: StoreError) -> str:
    """Return the code of an error that a call of the index raised."""
    for kind, code, _ in CODES:
        if isinstance(error, kind):
            return code
    return FAILED_PRECONDITION if isinstance(error, Definite) else UNKNOWN

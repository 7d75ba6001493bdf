"""The answers that each call of impl/index/library.py may give, and what is true then."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from highwater.traces.calls import NONE, Answer, Calls, Claim, definite, indefinite, returns
from highwater.traces.event import Event
from highwater.traces.protocols import raft_calls

AGAIN = "ask the leader, or another node"
STOPPED = "the node stopped meanwhile"
LATE = "the caller's time was over"


def of_nodes(failed: str, unknown: str, again: str, update: bool = True) -> dict[str, Answer]:
    """Return the answers that a node gives if an entry does not go through."""
    none = () if update else (NONE,)
    return {
        "NotLeader": definite(failed, AGAIN, *none),
        "TooLarge": definite(failed, "the entry is larger than the group takes", *none),
        "QueueFull": definite(failed, "too many entries wait: call again later", *none),
        "NotRunning": definite(failed, "the node had stopped, and proposed nothing: " + AGAIN, *none),
        "LeadershipLost": indefinite(unknown, "a later leader commits the entry, or never does: " + again, *none),
        "NodeStopped": indefinite(unknown, f"{STOPPED}: {again}", *none),
        "TimedOut": indefinite(unknown, f"{LATE}: {again}", *none),
    }


UNREAD = {  # answers to a read that comes to nothing
    "NotLeader": definite("not read", "no leader is known, or it has changed: call again", NONE),
    "NotRunning": definite("not read", "the node had stopped: " + AGAIN, NONE),
    "NodeStopped": indefinite("not read", f"{STOPPED}: {AGAIN}", NONE),
    "TimedOut": indefinite("not read", f"{LATE}: call again", NONE),
}
REFUSED = {  # and to a question
    "InvalidArgument": definite("not read", "the question is refused, and the message says why", NONE),
    "AnswerTooLarge": definite("not read", "the answer is too large: ask for less, as the message says", NONE),
}
SAME = "add the block again, which changes nothing if it is there"
POLL = "report again; a job that was assigned goes to another worker once its lease is over"
CALLS: Calls = {
    "add": {
        "NoneType": returns("added", "the block is visible, or what it was compacted to is, or retention has dropped it"),
        "InvalidArgument": definite("invalid", "the metadata is refused, and the message says why"),
        "TooLate": definite("refused", "the block is older than the horizon, or retention has dropped its unit: keep it aside"),
        **of_nodes("failed", "unknown", SAME),
    },
    "get": {
        "list": returns("read", "the blocks of these that were there at some moment of the call", update=NONE),
        "InvalidUlid": definite("not read", "a ULID is none", NONE),
        **UNREAD,
    },
    "query": {
        "QueryMetadataResponse": returns("read", "the blocks that have what is asked for, as of some moment of the call",
                                         update=NONE),
        **REFUSED, **UNREAD,
    },
    "query_labels": {
        "QueryMetadataLabelsResponse": returns("seen", "the values of these labels in those blocks", "any", update=NONE),
        **REFUSED, **UNREAD,
    },
    "tenants": {
        "GetTenantsResponse": returns("seen", "the tenants that had data at some moment of the call", "any", update=NONE),
        **UNREAD,
    },
    "tenant": {
        "GetTenantResponse": returns("seen", "whether the tenant had data then, and from when to when", "any", update=NONE),
        "InvalidArgument": REFUSED["InvalidArgument"], **UNREAD,
    },
    "poll": {
        "PollCompactionJobsResponse": returns("polled", "reports of jobs that are still this worker's have had their effect; "
                                              "the jobs in it are its own for the time of the lease", "leases", update=NONE),
        "InvalidArgument": definite("not polled", "a result has a block that is refused, and the message says why", NONE),
        "PollAgain": definite("not polled", "the leader has changed between the two entries: " + POLL, NONE),
        **of_nodes("not polled", "perhaps polled", POLL, update=False),
    },
    "overdue": {
        "list": returns("overdue", "the tombstones whose objects the caller deletes and then confirms", update=NONE),
        **UNREAD,
    },
    "confirm": {
        "NoneType": returns("confirmed", "the index forgets these tombstones, if they were due", update=NONE),
        "PollAgain": definite("not confirmed", "the leader has changed between the two entries: confirm again", NONE),
        **of_nodes("not confirmed", "perhaps confirmed", "confirm again", update=False),
    },
    "truncate": {
        "NoneType": returns("truncated", "units that were still as they were read are dropped; the others stay", "unit",
                            update=NONE),
        "InvalidArgument": definite("not truncated", "a tombstone names no unit, and the message says why", NONE),
        "PollAgain": definite("not truncated", "another term has begun since the units were read: read them again", NONE),
        **of_nodes("not truncated", "perhaps truncated", "read the units again", update=False),
    },
    "transfer": raft_calls.CALLS["transfer"],  # an operator's
}


def right_leases(trace: Any, e: Event, value: str) -> str:
    """The call's own poll has these leases, and no other worker has them. `value`: the names of the jobs, each with its token.
    """
    return trace.answers.leased(e.client, trace.call.body.decode(), trace.call.since, value)


def right_any(trace: Any, e: Event, value: str) -> str:
    """The tenant of results had data, or had none, at some moment of the call. `value`: 1 or 0."""
    return "" if any(value == str(int(of_results)) for of_results in trace.had_results()) else (
        "no state of the index since what was told before the call shows that")


def right_unit(trace: Any, e: Event, value: str) -> str:
    """The index has taken a command with this unit in the term in which it was made. `value`: a tombstone and a version."""
    return trace.answers.truncated(trace.call.body.decode(), trace.call.since, value)


JUDGES: Mapping[str, Claim] = MappingProxyType({"leases": right_leases, "any": right_any, "unit": right_unit})

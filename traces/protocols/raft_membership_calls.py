"""The answers that each call of impl/raft/node.py may give in a group whose members change, and what is true then."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from highwater.model.protocols.raft import led
from highwater.traces.calls import NONE, Calls, Claim, definite, indefinite, returns
from highwater.traces.event import Event
from highwater.traces.protocols import raft_calls
from highwater.traces.protocols.raft_calls import ELSEWHERE
from highwater.traces.protocols.replicated.members import CHANGE

CALLS: Calls = {
    **raft_calls.CALLS,
    "change": {
        "Done": returns("changed", "the members are so from the index on that the answer tells", "index", update=NONE),
        "NotLeader": definite("not changed", ELSEWHERE, NONE),
        "NoChange": definite("not changed", "the members are so already", NONE),
        "NotYet": definite("not changed", "the leader cannot do it now: ask again", NONE),
        "ChangeRefused": definite("not changed", "the group cannot change so: the message says why", NONE),
        "NotRunning": definite("not changed", "the node had stopped: " + ELSEWHERE, NONE),
        "LeadershipLost": indefinite("not changed", "a later leader makes the change, or never does: ask again", NONE),
        "NodeStopped": indefinite("not changed", "the node stopped meanwhile: ask again", NONE),
        "TimedOut": indefinite("not changed", "the caller's time was over: ask again", NONE),
    },
}


def right_index(trace: Any, e: Event, value: str) -> str:
    """Some leader has committed an entry at the index that the answer tells, and it is what was asked for."""
    if e.keys[0] != "change":
        return raft_calls.right_index(trace, e, value)
    index, s = int(value), trace.facts()
    term, upto = max(((t, n) for t, n in s.commits if n >= index > 0), default=(0, 0))
    entry = trace.bodies.get((index, led(s, term)[index - 1]), b"") if upto else b""
    return "" if entry[:1] == bytes([CHANGE]) else f"entry {index} is {'no change' if upto else 'not committed'}"


JUDGES: Mapping[str, Claim] = MappingProxyType({**raft_calls.JUDGES, "index": right_index})

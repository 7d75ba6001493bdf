"""The answers that each call of impl/raft/node.py may give in a group whose members change, and what is true then."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from highwater.model.protocols.raft import led
from highwater.traces.calls import NONE, Calls, Claim, definite, indefinite, returns
from highwater.traces.event import Event
from highwater.traces.protocols import raft_calls
from highwater.traces.protocols.raft_calls import ELSEWHERE
from highwater.traces.protocols.replicated.members import CHANGE, LEARNER, VOTER, members_in

MADE = {"learn": LEARNER, "promote": VOTER}  # what a caller asks for -> the role of the server then; "remove": none

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
    if why := raft_calls.why_not_own(trace, index):
        return why
    term, upto = max(((t, n) for t, n in s.commits if n >= index > 0), default=(0, 0))
    log = led(s, term)[:index] if upto else ()
    entry = trace.bodies.get((index, log[-1]), b"") if log else b""
    if entry[:1] != bytes([CHANGE]):
        return f"entry {index} is {'no change' if upto else 'not committed'}"
    what, _, name = trace.call.body.decode().partition(" ")
    entries = [trace.bodies.get((at, of), b"") for at, of in enumerate(log[:-1], 1)]
    before = next((members_in(other) for other in reversed(entries) if other[:1] == bytes([CHANGE])), trace.founders)
    asked = {**before, name: MADE[what]} if what in MADE else {of: role for of, role in before.items() if of != name}
    if members_in(entry) != asked:
        return f"it has asked to {what} {name}, and the entry changes {before} to {members_in(entry)}"
    trace.answered.add(index)
    return ""


JUDGES: Mapping[str, Claim] = MappingProxyType({**raft_calls.JUDGES, "index": right_index})

"""The answers that each call of impl/raft/node.py may give, and what is true then."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from highwater.model.protocols.raft import led
from highwater.traces.calls import NONE, Calls, Claim, definite, indefinite, returns
from highwater.traces.event import Event

ELSEWHERE = "ask the leader, or another node"
COMMAND = b"\1"  # the kind of a caller's entry
CALLS: Calls = {
    "propose": {
        "Done": returns("committed", "the entry is committed and applied once, at the index that the answer tells", "index"),
        "NotLeader": definite("failed", ELSEWHERE),
        "TooLarge": definite("failed", "the entry is larger than the group takes"),
        "QueueFull": definite("failed", "too many entries wait: call again later"),
        "LevelTooLow": definite("failed", "not all nodes know such a command: upgrade them, then call again"),
        "CommandRefused": definite("failed", "the machine cannot apply such a command: correct it"),
        "NotRunning": definite("failed", "the node had stopped, and proposed nothing: " + ELSEWHERE),
        "LeadershipLost": indefinite("unknown", "a later leader commits the entry, or never does: read, to know"),
        "NodeStopped": indefinite("unknown", "the node stopped meanwhile: read, to know"),
        "TimedOut": indefinite("unknown", "the caller's time was over: read, to know"),
    },
    "read": {
        "tuple": returns("read", "it has every entry that was reported before the call", update=NONE),
        "NotLeader": definite("not read", "no leader is known, or it has changed: call again", NONE),
        "NotRunning": definite("not read", "the node had stopped: " + ELSEWHERE, NONE),
        "NodeStopped": indefinite("not read", "the node stopped meanwhile: " + ELSEWHERE, NONE),
        "TimedOut": indefinite("not read", "the caller's time was over: call again", NONE),
    },
    "transfer": {
        "NoneType": returns("transferred", "the node leads no more: the target does soon, or an election follows", update=NONE),
        "NotLeader": definite("not transferred", ELSEWHERE, NONE),
        "NoVoter": definite("not transferred", "the target is no server of the group", NONE),
        "TransferFailed": indefinite("not transferred", "the target may still win an election that it began", NONE),
        "NotRunning": definite("not transferred", "the node had stopped: " + ELSEWHERE, NONE),
        "NodeStopped": indefinite("not transferred", "the node stopped meanwhile", NONE),
        "TimedOut": indefinite("not transferred", "the caller's time was over: the leader may still hand over", NONE),
    },
}


class Since(NamedTuple):
    """The knowledge at the beginning of a call."""

    committed: int  # entries
    heard: int  # callers' entries that some caller knows
    depositions: int  # steps in which a leader ceased to lead


def why_not_own(trace: Any, index: int) -> str:
    """Return why an entry is not that of the call which a response ends; "" if it is. Each call has an entry of its own, which
    was committed after it began."""
    if index <= trace.call.since.committed:
        return f"entry {index} was committed before the call"
    return f"another call has the entry {index}" if index in trace.answered else ""


def callers_entries(trace: Any, upto: int) -> list[bytes]:
    """Return the contents of the callers' entries among the first so many that are committed."""
    s = trace.facts()
    term = max(s.commits, key=lambda one: (one[1], one[0]), default=(0, 0))[0]
    entries = [trace.bodies.get((index, of), b"") for index, of in enumerate(led(s, term)[:upto] if term else (), 1)]
    return [entry[1:] for entry in entries if entry[:1] == COMMAND and len(entry) > 1]


def right_index(trace: Any, e: Event, value: str) -> str:
    """Some leader has committed an entry at the index that the answer tells, and it is the caller's."""
    index, s = int(value), trace.facts()
    if why := why_not_own(trace, index):
        return why
    term, upto = max(((t, n) for t, n in s.commits if n >= index > 0), default=(0, 0))
    if not upto:
        return f"in the model {max((n for _, n in s.commits), default=0)} entries are committed"
    entry = trace.bodies.get((index, led(s, term)[index - 1]), b"")
    if entry[1:] != e.body:
        return f"entry {index} is {entry[1:].decode() or 'none of a caller'}"
    trace.answered.add(index)
    trace.heard = max(trace.heard, len(callers_entries(trace, index)))
    return ""


def never_proposed(trace: Any, e: Event) -> str:
    """Return why an entry that a caller was told to have failed may have an effect; "" if it has none: no log has it yet."""
    return "a log has it" if any(body[1:] == e.body for body in trace.bodies.values()) else ""


def wrongly_read(trace: Any, e: Event) -> str:
    """Return why a response cannot show what it does; "" if it can: a read shows what is committed, from the first entry on,
    with all that some caller knew when the read began. Nothing else shows anything."""
    if not e.keys or trace.calls[e.keys[0]][e.keys[1]].update != NONE or (e.op != "read" and not e.body):
        return ""
    committed, shown = callers_entries(trace, trace.most_committed()), e.body.split()
    if e.op != "read" or b" ".join(committed[:len(shown)]) != e.body:
        return f"{len(committed)} entries are committed"
    if len(shown) < trace.call.since.heard:
        return f"callers knew {trace.call.since.heard} entries before the read began"
    trace.heard = max(trace.heard, len(shown))
    return ""


def transferred(trace: Any, e: Event) -> str:
    """Return why no leader can have handed over; "" if one can: it ceased to lead during the call. Such a response
    shows nothing."""
    if e.body:
        return "such a response shows nothing"
    return "" if trace.depositions > trace.call.since.depositions else "no leader has ceased to lead since the call began"


JUDGES: Mapping[str, Claim] = MappingProxyType({"index": right_index})

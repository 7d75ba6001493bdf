"""Write the messages of etcd's trace as messages of traces/protocols/replicated/messages.py, which judges what they tell.

etcd's trace names the kind, the terms, the indexes and the number of entries of a message. Their contents are not in it.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from highwater.traces.protocols.replicated.messages import (
    ENTRY,
    FOUR,
    GRANTED,
    HEAD,
    ONE,
    PREFIX,
    STANDS,
    THREE,
    TWO,
    VERSION,
)
from highwater.traces.protocols.replicated.servers import MESSAGES

UNKNOWN = 0  # the kind of an entry whose content is not known: no entry of ours has it
OF_LEADERS = ("MsgApp", "MsgHeartbeat", "MsgSnap")  # they may leave before what the leader wrote is durable
Fields = Mapping[str, Any]  # a message, by the names that etcd's trace gives
Log = tuple[int, ...]  # terms of entries


class Kind(NamedTuple):
    name: str  # of MESSAGES
    body: Callable[[Fields, Log], bytes]  # the fields, and the sender's log


def name_of(of: Fields) -> str:
    """Return the name of a message's kind. Raises KeyError for a kind that is not judged."""
    return kind_of(of).name


def body_of(of: Fields, log: Log) -> bytes:
    """Write a message of a server that has this log."""
    kind = kind_of(of)
    return HEAD.pack(VERSION, MESSAGES.index(kind.name) + 1) + kind.body(of, log)


def kind_of(of: Fields) -> Kind:
    return CONFLICT if of["type"] == "MsgAppResp" and of["reject"] else KINDS[of["type"]]


def append(of: Fields, log: Log) -> bytes:
    terms = log[of["index"]:of["index"] + of["entries"]]
    entries = b"".join(ENTRY.pack(term, UNKNOWN, 0) for term in terms)
    return PREFIX.pack(of["term"], of["index"], of["logTerm"], of["entries"]) + entries + ONE.pack(of["commit"])


def snapshot(of: Fields, log: Log) -> bytes:
    index = of["entries"]
    return THREE.pack(of["term"], index, log[index - 1] if 0 < index <= len(log) else 0)


def granted(of: Fields, log: Log) -> bytes:
    return GRANTED.pack(of["term"], not of["reject"])


KINDS = {
    "MsgPreVote": Kind("PreVote", lambda of, log: THREE.pack(of["term"], of["index"], of["logTerm"])),
    "MsgPreVoteResp": Kind("PreVoteReply", granted),
    "MsgVote": Kind("RequestVote", lambda of, log: STANDS.pack(of["term"], of["index"], of["logTerm"], 0)),
    "MsgVoteResp": Kind("Vote", granted),
    "MsgApp": Kind("Append", append),
    "MsgAppResp": Kind("Appended", lambda of, log: TWO.pack(of["term"], of["index"])),
    "MsgHeartbeat": Kind("Heartbeat", lambda of, log: THREE.pack(of["term"], of["commit"], 0)),
    "MsgHeartbeatResp": Kind("HeartbeatReply", lambda of, log: TWO.pack(of["term"], 0)),
    "MsgSnap": Kind("InstallSnapshot", snapshot),
    "MsgTimeoutNow": Kind("TimeoutNow", lambda of, log: ONE.pack(of["term"])),
}
CONFLICT = Kind("Conflict", lambda of, log: FOUR.pack(of["term"], of["index"], of["rejectHint"], of["logTerm"]))


def pre_vote_granted(term: int) -> bytes:
    return body_of({"type": "MsgPreVoteResp", "term": term, "reject": False}, ())

"""Read the trace of etcd's Raft, built with the tag `with_tla`, as events that traces/protocols/raft.py judges.

A line of the tag "trace" is etcd's own: the state of a server in memory, and the message that it sends or takes. A line of the
tag "host" is of the program that runs the servers (tools/raft/etcd/traced/host.go): what it gave to a server, what became
durable, and when messages left. An input of a server, with all that follows from it, is one step:

    it sends as a leader             at once: a leader need not wait for its own disk
    it stored something              its step, and the step in which that is durable; the entries are those that were stored
    its messages are released        its other messages are sent
    its next input, or its end       what the last one changed

Contents of entries are compared wherever they are stored. A term, a vote, a commit index or a log that changes otherwise than
by such lines is a step of its own, which the mapping refuses.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from highwater.outside import json_of, quoted
from highwater.traces.event import EMPTY, Event
from highwater.traces.machines import OK, Files
from highwater.traces.options import Options, Recorded, Unfit
from highwater.traces.protocols import raft
from highwater.traces.protocols.raft import NOTHING, body_of, constants
from highwater.traces.protocols.replicated.servers import (
    CANDIDATE,
    FOLLOWER,
    LEADER,
    MESSAGES,
    PRE_CANDIDATE,
    Known,
    Save,
    Step,
)
from highwater.traces.recorded.systems import etcd_raft_messages as messages
from highwater.traces.refine import Refiner

ROLES = {"StateFollower": FOLLOWER, "StatePreCandidate": PRE_CANDIDATE, "StateCandidate": CANDIDATE, "StateLeader": LEADER}
INPUTS = ("Tick", "Propose", "Campaign", "TransferTo")
TAGS = ("trace", "host")
MOST_SERVERS = 9
LOG = "log"  # etcd names no file: what became durable is shown as an append to this one
Fields = Mapping[str, Any]


class Recording(NamedTuple):
    """A trace. `lines[i]`: number of the line from which event i was read."""

    servers: int
    events: list[Event]
    lines: list[int]

    @property
    def options(self) -> str:
        """The options by which RECORDED judges it."""
        return f"--shape servers={self.servers}"


class Trace(raft.Trace):
    """Refines a trace of etcd's Raft. It has no files and no calls, and entries' contents where they are stored only."""

    def _impossible(self, e: Event) -> str:
        return "" if e.kind == "disk" else super()._impossible(e)

    def _takes_call(self, e: Event, step: Step) -> None:
        """Check nothing: no line tells who has asked for an input."""

    def _on_disk(self, e: Event, me: str, before: Files) -> None:
        self._match(me, [(index, term, data.encode()) for index, term, data in json.loads(e.body)])

    def _match(self, me: str, entries: Iterable[tuple[int, int, bytes]]) -> None:
        super()._match(me, [entry for entry in entries if entry[2] != bytes([messages.UNKNOWN])])

    def _sends_message(self, e: Event) -> None:
        """A pre-vote promises nothing. etcd grants it in the server's own term, too, unless that has a leader or voted for
        another candidate."""
        known = self.known.get(e.client)
        if known is None or known.vote not in ("", e.key) or e.body != messages.pre_vote_granted(known.term):
            super()._sends_message(e)

    def _on_its_disk(self, e: Event, step: Step, now: Known) -> None:
        """Check nothing: the host's lines say what is durable, and each save is what was stored."""


def begin(recording: Recording, refiner: Refiner | None = None) -> Trace:
    return Trace(refiner or raft.refiner(constants(recording.servers)))


def recorded(events: list[Event], options: Options, shared: bool) -> Callable[[], Trace]:
    """Return the maker of traces of so many servers as the options say. Raises Unfit."""
    fields = {name: value for name, _, value in (word.partition("=") for word in options.shape)}
    number = fields.get("servers", "")
    if options.shape != (f"servers={number}",) or number not in map(str, range(1, MOST_SERVERS + 1)):
        raise Unfit(f"--shape: a trace of etcd's Raft has servers=N, 1 to {MOST_SERVERS}, and no other field")
    refiner = raft.refiner(constants(int(number)))
    return lambda: Trace(refiner)


RECORDED = Recorded(("shape",), recorded)


def is_log(line: str) -> bool:
    """Tell whether a line is one of such a trace."""
    try:
        fields = json_of(line)
    except ValueError:
        return False
    return is_entry(fields)


def is_entry(fields: object) -> bool:
    return isinstance(fields, dict) and fields.get("tag") in TAGS and isinstance(fields.get("event"), dict)


def read(lines: Iterable[str]) -> Recording:
    """Read a trace. Raises ValueError for a line that is none of it, and for a trace of changing members."""
    parsed = [(number, *fields_in(number, line)) for number, line in enumerate(lines, 1) if line.strip()]
    members = members_of([event for _, tag, event in parsed if tag == "trace"])
    if not any(tag == "host" for _, tag, _ in parsed):
        raise ValueError("no line has the tag \"host\": etcd's trace does not say what is durable; run its servers as "
                         "tools/raft/etcd/traced does")
    reader = Reader(members)
    for number, tag, event in parsed:
        try:
            reader.take(number, tag, event)
        except (KeyError, TypeError, IndexError, AttributeError) as error:
            raise ValueError(f"line {number}: it is none of a trace of etcd's Raft: {error!r}") from None
    return Recording(len(members), reader.events, reader.lines)


def fields_in(number: int, line: str) -> tuple[str, Fields]:
    try:
        fields = json_of(line)
    except ValueError as error:
        raise ValueError(f"line {number}: it is none of a trace of etcd's Raft: {error}: {quoted(line)}") from None
    if not is_entry(fields):
        raise ValueError(f"line {number}: it is none of a trace of etcd's Raft: {quoted(line)}")
    return fields["tag"], fields["event"]


def members_of(events: list[Fields]) -> list[str]:
    """Return the servers, in order. Raises ValueError unless they stay the same."""
    found = {json.dumps(of["conf"]) for of in events if of.get("conf", [[], []]) != [[], []]}
    confs = [json.loads(conf) for conf in sorted(found)]
    if len({json.dumps(sorted(conf[0])) for conf in confs}) != 1 or any(conf[1] for conf in confs):
        raise ValueError("the members of this group change, and those of the model raft stay the same" if confs else
                         "no line tells the members of the group")
    return sorted(confs[0][0], key=int)


class Node:
    """One server, as its lines show it."""

    def __init__(self) -> None:
        self.known = Known(FOLLOWER, 0, "", 0, 0)  # as the steps so far say
        self.role, self.term, self.vote, self.commit = FOLLOWER, 0, "", 0  # in memory, as the lines so far say
        self.log: tuple[int, ...] = ()
        self.last = 0  # entries of its log in memory
        self.said: tuple[int, ...] = ()  # its log, as the steps so far say
        self.disk: tuple[int, str, tuple[int, ...]] = (0, "", ())  # term, vote, log
        self.saves: list[tuple[int, int]] = []  # not durable yet: number, and how long the log is after it
        self.durable = 0  # number of the latest save that is durable
        self.op = "Tick"  # its latest input
        self.agreed = 0  # told its leader since then
        self.loading = False  # it starts, and has not taken what its disk has
        self.queue: list[Fields] = []  # messages that wait for its disk
        self.ready: list[Fields] = []  # those of its latest Ready


class Reader:
    """Makes events of lines."""

    def __init__(self, members: list[str]):
        self.name = {"0": ""} | {member: f"Server#{number}" for number, member in enumerate(members)}
        self.nodes = {member: Node() for member in members}
        self.sent: dict[str, int] = {}  # a message's fields -> number of the latest such one
        self.events: list[Event] = []
        self.lines: list[int] = []
        self.line = 0

    def take(self, number: int, tag: str, of: Fields) -> None:
        self.line = number
        me = of["nid"]
        node = self.nodes[me]
        if tag == "host":
            getattr(self, f"_{of['name'].lower()}")(me, node, of)
        else:
            self._traced(me, node, of)

    # --- what a server shows

    def _traced(self, me: str, node: Node, of: Fields) -> None:
        name, message = of["name"], of.get("msg")
        if node.loading:  # its lines until it is a follower tell of a server that has not read its disk
            node.loading = name != "BecomeFollower"
            if node.loading:
                return
        state = of["state"]
        term, commit = state["term"], state["commit"]
        if term < node.term or commit < node.commit:  # it goes back: that is no part of the same step
            self._steps(me, node)
        node.role, node.term, node.vote, node.commit = ROLES[of["role"]], term, self.name[state["vote"]], commit
        node.last = of["log"]
        if name == "Replicate":  # and it has not appended the entry yet
            node.log = (*node.log, node.term)
            node.last = len(node.log)
        elif name == "Ready":
            node.ready, node.queue = node.queue, []
        elif message and name.startswith("Receive"):
            self._received(me, node, of)
        elif message and message["to"] != me:
            if message["type"] in messages.OF_LEADERS:
                self._steps(me, node)
                self._sends(me, node, message)
            else:
                node.queue.append(message)
                if message["type"] == "MsgAppResp" and not message["reject"]:
                    node.agreed = message["index"]

    def _received(self, me: str, node: Node, of: Fields) -> None:
        message = of["msg"]
        if message["from"] == me:  # that its own disk has what it waited for
            return
        self._steps(me, node)
        node.op = messages.name_of(message)
        self._event("received", me, "message", request=self.sent.get(json.dumps(message, sort_keys=True), 0),
                    key=self.name[message["from"]])

    # --- what its host says

    def _started(self, me: str, node: Node, of: Fields) -> None:
        hard, base = of["hard"], of["base"]
        entries = of.get("entries", ())
        term, vote = hard["term"], self.name[hard["vote"]]
        log = (*(base["term"],) * base["index"], *(entry["term"] for entry in entries))
        self.nodes[me] = node = Node()
        node.disk, node.log, node.said, node.loading = (term, vote, log), log, log, True
        node.term, node.vote, node.commit, node.last = term, vote, hard["commit"], len(log)
        node.known = Known(FOLLOWER, term, vote, node.commit, len(log))
        self._event("started", me, "process")
        self._stores(me, entries)
        self._event("step", me, "Restart", body=body_of(NOTHING._replace(
            role=FOLLOWER, term=term, commit=node.commit, last=len(log),
            found=(term, vote, (base["index"], base["term"]), log[base["index"]:]))))

    def _stopped(self, me: str, node: Node, of: Fields) -> None:
        self._event("died", me, "process")

    def _input(self, me: str, node: Node, of: Fields | None = None) -> None:
        self._steps(me, node)
        node.op = of["input"] if of and of["input"] in INPUTS else "Tick"

    def _stored(self, me: str, node: Node, of: Fields) -> None:
        term, vote, log = node.disk
        if "hard" in of:
            term, vote = of["hard"]["term"], self.name[of["hard"]["vote"]]
        snapshot, entries = of.get("snapshot"), of.get("entries", ())
        if snapshot:
            log = (snapshot["term"],) * snapshot["index"]
        if entries:
            log = (*log[:entries[0]["index"] - 1], *(entry["term"] for entry in entries))
        self._stores(me, entries)
        node.disk = term, vote, log
        node.term, node.vote = term, vote
        if node.role != LEADER or node.log[:len(log)] != log:  # a leader has proposed more since
            node.log = log
        agreed = node.agreed
        if snapshot or (node.op == "InstallSnapshot" and node.commit > node.known.commit):
            node.log, node.agreed = node.said, 0
            commit, last, node.commit, node.last = node.commit, node.last, node.known.commit, node.known.last
            self._steps(me, node)
            node.op, node.log, node.agreed, node.commit, node.last = "Installed", log, agreed, commit, last
        node.agreed = 0 if node.saves or self._changes(node) else agreed
        self._steps(me, node, base=(snapshot["index"], snapshot["term"]) if snapshot else None)
        while node.saves and (node.role != LEADER or node.saves[0][1] <= len(log)):
            node.durable, node.op, node.agreed = node.saves.pop(0)[0], "Synced", agreed

    def _released(self, me: str, node: Node, of: Fields) -> None:
        self._steps(me, node)
        for message in node.ready:
            self._sends(me, node, message)
        node.ready, node.op = [], "Tick"

    def _sent(self, me: str, node: Node, of: Fields) -> None:
        self._sends(me, node, of["msg"])

    # --- events

    def _stores(self, me: str, entries: Iterable[Fields]) -> None:
        if entries:
            body = json.dumps([[entry["index"], entry["term"], entry["data"]] for entry in entries], separators=(",", ":"))
            self._event("disk", me, "append", key=LOG, status=OK, body=body.encode())

    def _sends(self, me: str, node: Node, message: Fields) -> None:
        number = len(self.events) + 1
        self.sent[json.dumps(message, sort_keys=True)] = number
        self._event("sent", me, "message", request=number, key=self.name[message["to"]],
                    body=messages.body_of(message, node.log))

    def _changes(self, node: Node) -> bool:
        return (node.term, node.vote, node.log) != (node.known.term, node.known.vote, node.said)

    def _steps(self, me: str, node: Node, base: tuple[int, int] | None = None) -> None:
        """Tell what changed since the latest step."""
        known, save, commit, last = node.known, None, node.commit, node.last
        if self._changes(node) or base:
            common = len(node.log) if base else agreeing(node.said, node.log)
            save = Save(known.number + 1, node.term, node.vote, common + 1, node.log[common:], base)
        synced = node.durable if node.op == "Synced" and node.durable > known.synced else 0
        if not (save or synced or node.agreed) and (node.role, commit, last) == (known.role, known.commit, known.last):
            return
        step = Step(node.role, node.term, commit, last, save, synced, node.agreed, None)
        self._event("step", me, node.op, body=body_of(step))
        if save is not None:
            node.saves.append((save.number, last))
        node.known = Known(node.role, node.term, node.vote, commit, last, known.number + (save is not None),
                           synced or known.synced)
        node.said, node.agreed = node.log, 0
        node.op = "Tick" if node.op in MESSAGES else node.op  # a message causes one step

    def _event(self, kind: str, me: str, op: str, **more: Any) -> None:
        self.events.append(EMPTY._replace(t_ms=self.line, client=self.name[me], kind=kind, op=op, **more))
        self.lines.append(self.line)


def agreeing(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """Return how many entries two logs have in common from their beginning."""
    return next((at for at, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))

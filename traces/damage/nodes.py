"""Safety: a survivor is explained only if nodes, their disks and their network could have produced the damaged trace as well.

These equivalences hold for the traces of all nodes. They rest on four facts. A message may be lost, late or doubled. What a
node asks of its disk and does not use need not have been asked. What two nodes do commutes, unless a message goes between. A
process that ended leaves only its disk.
"""

import json
from collections.abc import Iterable, Iterator
from itertools import pairwise
from struct import Struct
from typing import Any

from highwater.traces.calls import CALL, RETURNED
from highwater.traces.damage.damage import changed
from highwater.traces.damage.possible import OF_RESPONSES, response
from highwater.traces.damage.responses import ANOTHER, EARLY, EXCHANGE, VALUE
from highwater.traces.damage.survivors import Equivalences, Survivor, between_its_neighbours, claims_less, same_but
from highwater.traces.event import Event
from highwater.traces.machines import node_of
from highwater.traces.nodes import CALLED, asks

INT = Struct(">q")
HEAD_BYTES = 2  # of a message: version and kind
INDEX = "index="  # the claim of a response that names the entry of its call
LOOKS = ("lock", "names", "read", "sync_names", "sync")  # they leave the files of a disk as a process sees them


def contents(events: list[Event], i: int) -> Iterator[bytes]:
    """Yield other contents of a node's event: another one of its kind, and each number one more or less."""
    e = events[i]
    yield next((o.body for o in events if (o.kind, o.op) == (e.kind, e.op) and o.body not in (b"", e.body)), b"1")
    if e.kind == "step" and e.body[:1] == b"{":
        for other in changed(json.loads(e.body)):
            yield json.dumps(other, separators=(",", ":")).encode()
    elif e.kind == "sent":
        yield from messages(e.body)
    elif e.body:
        yield from (e.body[:-1], bytes([*e.body[:-1], e.body[-1] ^ 1]), e.body + b"\0")
        if b" " in e.body:
            yield from (b" ".join(other) for other in changed(e.body.split(b" ")))


def messages(body: bytes) -> Iterator[bytes]:
    """Yield a message with another version, another kind, and each of its first integers one more or less."""
    yield from (bytes([body[0] + 1, *body[1:]]), bytes([body[0], body[1] + 1, *body[2:]]), body[:-1], body + b"\0")
    for at in range(HEAD_BYTES, min(len(body) - INT.size, HEAD_BYTES + 4 * INT.size) + 1, INT.size):
        for by in (1, -1):
            yield body[:at] + INT.pack(INT.unpack_from(body, at)[0] + by) + body[at + INT.size:]


# --- questions about events of nodes

def of_node(node: str, events: Iterable[Event]) -> Iterator[Event]:
    return (e for e in events if node_of(e.client) == node)


def received(s: Survivor, number: int) -> bool:
    """Return whether anybody received the message of this number."""
    return any(e.kind == "received" and e.request == number for e in s.good)


def life(s: Survivor) -> Iterator[Event]:
    """Yield the later events of the node in this life, but for what callers were told."""
    for e in of_node(node_of(s.before.client), s.rest):
        if e.kind == "died":
            return
        if e.kind != "told":
            yield e


def independent(one: Event, two: Event) -> bool:
    """Return whether two events may happen in either order. What a message, a step or a caller tells must be so in both: that
    is judged with each of them."""
    if node_of(one.client) != node_of(two.client):
        return {one.kind, two.kind} != {"sent", "received"} or one.request != two.request
    kinds = {one.kind, two.kind}
    if kinds == {"step", "disk"} and not asks(one) and not asks(two):  # another task works with the disk, or only looks
        return any(e.client != node_of(e.client) or (e.op in LOOKS and e.op != "lock") for e in (one, two) if e.kind == "disk")
    if asks(one) or asks(two):  # a call may begin earlier, or later if no step has taken it up
        taken = asks(one) and CALLED.get(two.op) == one.keys[0]
        return one.client != two.client and not taken and not kinds & {"started", "died"} and "Restart" not in (one.op, two.op)
    if kinds & {"started", "died"} or any(e.kind == "step" and e.op == "Restart" for e in (one, two)):
        return False
    if kinds == {"disk"}:
        return {one.op, two.op} <= {*LOOKS} - {"lock"} or (
            one.client != two.client and one.key != two.key)
    if kinds != {"step"} or "dump" in (one.op, two.op):
        return True
    return stays(one) == stays(two) and not changes(one) and not changes(two)


def changes(e: Event) -> bool:
    """Return whether a step asked to write something, or was the first one of its process."""
    return bool({"save", "found"} & said(e).keys())


def said(e: Event) -> dict[str, Any]:
    """Return the body of a step; nothing if it is no document."""
    return json.loads(e.body) if e.body[:1] == b"{" else {}


def role(e: Event) -> tuple[str, int]:
    step = said(e)
    return step.get("role", ""), step.get("term", 0)


def stays(e: Event) -> tuple:
    """Return what a step says of its server, but for reads."""
    step = said(e)
    return (*role(e), step.get("commit", 0), step.get("last", 0), step.get("synced", 0), step.get("agreed", 0))


MESSAGES_OF_STEPS = ("PreVote", "PreVoteReply", "RequestVote", "Vote", "Append", "Appended", "Conflict", "Heartbeat",
                     "HeartbeatReply", "InstallSnapshot", "ReadIndex", "ReadIndexReply", "TimeoutNow")


# --- equivalences

def commute(s: Survivor) -> bool:
    if not s.damage.kind.startswith("swap"):
        return False
    one, *between, two = s.good[s.damage.at:s.damage.to + 1]
    if one._replace(t_ms=0) == two._replace(t_ms=0):
        return True
    return independent(one, two) and all(independent(one, e) and independent(e, two) for e in between)


def number_is_a_name(s: Survivor) -> bool:
    e = s.before
    if not same_but(s, "request") or e.kind not in ("sent", "disk") or (e.kind == "sent" and received(s, e.request)):
        return False
    numbers = [o.request for o in s.damage.events if (o.client, o.kind) == (e.client, e.kind)]
    return all(one < two for one, two in pairwise(numbers)) and not received(s, s.after.request)


def nobody_received(s: Survivor) -> bool:
    e = s.before
    return e.kind == "sent" and not received(s, e.request) and (s.damage.kind == "drop" or same_but(s, "key", "body", "client"))


def sent_again(s: Survivor) -> bool:
    return s.damage.kind == "repeat" and s.before.kind == "sent"


def delivered_twice(s: Survivor) -> bool:
    if s.before.kind != "received" or not same_but(s, "request"):
        return s.before.kind == "received" and s.damage.kind in ("duplicate", "repeat")
    e = s.after
    return any((o.kind, o.client, o.key, o.request) == ("sent", e.key, e.client, e.request) for o in s.good[:s.damage.at])


def caused_nothing(s: Survivor) -> bool:
    """Return whether a message that was received caused no step: another one was received before the next step with one, and
    may have caused that."""
    if s.before.kind != "received" or not (s.damage.kind == "drop" or same_but(s, "request", "client", "key")):
        return False
    def first(events: Iterable[Event]) -> Event | None:
        return next((e for e in events if e.kind == "received" or e.op in MESSAGES_OF_STEPS), None)

    following = first(life(s))
    before = first(of_node(node_of(s.before.client), reversed(s.good[:s.damage.at])))
    return following is None or following.kind == "received" or (before is not None and before.kind == "received")


def plain(body: bytes) -> bytes:
    """Return a reply to a heartbeat without its clock, and an Append without entries as one of entries without checksums; any
    other message as it is."""
    if body[1:2] == bytes([CLOCKED_REPLY]):
        return bytes([body[0], HEARTBEAT_REPLY]) + body[HEAD_BYTES:-INT.size]
    if body[1:2] == bytes([SUMMED_APPEND]) and len(body) == EMPTY_APPEND_BYTES:
        return bytes([body[0], APPEND]) + body[HEAD_BYTES:]
    return body


def tells_less(s: Survivor) -> bool:
    """Return whether a message tells less than it could: a lower commit or index, another round, another hint,
    another name of a read."""
    if s.before.kind != "sent" or not same_but(s, "body"):
        return False
    one, two = plain(s.before.body), plain(s.after.body)
    if one[1] in (FETCH_CHUNK, CHUNK):
        return two[1:2] in (bytes([FETCH_CHUNK]), bytes([CHUNK]))
    if one[:HEAD_BYTES + INT.size] != two[:HEAD_BYTES + INT.size]:
        return False
    if one[1] == APPEND:
        return len(one) == len(two) == EMPTY_APPEND_BYTES
    return len(one) == len(two) and one[1] in (HEARTBEAT, APPENDED, CONFLICT, HEARTBEAT_REPLY, READ_INDEX, INSTALL_SNAPSHOT)


def far_ahead(s: Survivor) -> bool:
    """Return whether a message is of a term that nobody comes to, before and after: who sends it is spoilt, or lies."""
    return s.before.kind == "sent" and same_but(s, "body") and all(map(is_far, (s.before.body, s.after.body)))


def is_far(body: bytes) -> bool:
    """Return whether a message has such a term."""
    return len(body) >= HEAD_BYTES + INT.size and INT.unpack_from(body, HEAD_BYTES)[0] > MOST


MOST = 1 << 23  # a term of a run is below: a node's own rises by 1 << 20 at most, now and then
PRE_VOTES = 1, 2  # kinds of messages of Raft
APPEND, APPENDED, CONFLICT, HEARTBEAT, HEARTBEAT_REPLY, READ_INDEX = 5, 6, 7, 8, 9, 11
INSTALL_SNAPSHOT, FETCH_CHUNK, CHUNK = 10, 14, 15
CLOCKED_REPLY, SUMMED_APPEND = 16, 17
EMPTY_APPEND_BYTES = HEAD_BYTES + 4 * INT.size + 4  # of one without entries


def pre_vote(s: Survivor) -> bool:
    """Return whether a message that promises nothing became another one of this kind."""
    return s.before.kind == "sent" and same_but(s, "body") and {*s.before.body[1:2], *s.after.body[1:2]} <= {*PRE_VOTES}


def another_name(s: Survivor) -> bool:
    """Return whether two steps exchange only the names of the reads that they take up, which no other event has."""
    if not s.damage.kind.startswith("swap"):
        return False
    one, two = s.before, s.good[s.damage.to]
    reads = [begin for e in (one, two) for note, *begin in said(e).get("reads", ()) if note == "begin"]
    if (one.op, two.op, len(reads)) != ("Read", "Read", 2) or reads[0][1] != reads[1][1]:
        return False
    names = [name.encode() for name, _ in reads]
    alike = one._replace(t_ms=0, body=one.body.replace(names[0], names[1])) == two._replace(t_ms=0)
    return alike and not any(name in e.body for e in s.good if e is not one and e is not two for name in names)


def read_before(s: Survivor) -> bool:
    """Return whether a read shows what was committed a while before, or after: no event tells when it took place."""
    return (s.before.kind, s.before.op) == ("told", "read") and same_but(s, "body") and (
        s.before.body.startswith(s.after.body) or s.after.body.startswith(s.before.body))


def says_no_more(s: Survivor) -> bool:
    """Return whether a step changed nothing but what its server knows of others: a later one may say that, or one before."""
    e = s.before
    if e.kind != "step" or not said(e) or not (s.damage.kind in ("drop", "duplicate") or same_but(s, "client")) or changes(e):
        return False
    before = next((o for o in reversed(s.good[:s.damage.at]) if (o.client, o.kind) == (e.client, "step")), None)
    return s.damage.kind == "duplicate" or (before is not None and (role(before) == role(e) or role(e)[0] == "follower"))


def another_cause(s: Survivor) -> bool:
    """Return whether a server stands for election, or gives up, after another input than the one that was recorded."""
    gives_up = s.before.kind == "step" and role(s.before)[0] == "follower" and not changes(s.before)
    if gives_up and same_but(s, "op"):
        return {s.before.op, s.after.op} <= {"Tick", "Vote", "PreVoteReply", "Appended"}  # the last one of who is removed
    return s.before.kind == "step" and same_but(s, "op") and {s.before.op, s.after.op} <= {"Tick", "Campaign", "PreVoteReply",
                                                                                          "TimeoutNow"}


def empty_life(s: Survivor) -> bool:
    """Return whether a process ended before anything of it was seen."""
    return s.before.kind == "started" and (s.damage.kind == "drop" or same_but(s, "kind")) and not any(life(s))


def never_proposed(s: Survivor) -> bool:
    """Return whether another call failed as well: no node had the entry that it was about. Of an unknown one nothing is
    said."""
    e, other = s.before, s.good[s.damage.to]
    swapped = s.damage.kind.startswith("swap") and (other.kind, other.op) == ("told", "failed")
    if e.kind != "told" or e.op not in ("failed", "unknown") or not (same_but(s, "body") or swapped):
        return False
    if e.op == "unknown":
        return True
    bodies = {e.body, other.body} if swapped else {s.after.body}
    return not any(o.body in bodies for o in s.good[:s.damage.to] if o.kind == "told" and o.op in ("committed", "unknown"))


def created_again(s: Survivor) -> bool:
    return s.damage.kind == "repeat" and (s.before.kind, s.before.op) == ("disk", "create")


def unused_segment(s: Survivor) -> bool:
    """Return whether the beginning of a new file is missing, which nobody reads or goes on with: a restart cuts it."""
    e = s.before
    if s.damage.kind != "drop" or (e.kind, e.op) != ("disk", "append"):
        return False
    of_file = [(o.op, at) for at, o in enumerate(s.good) if o.kind == "disk" and o.key == e.key
               and node_of(o.client) == node_of(e.client) and o.op in ("create", "append", "read", "rename")]
    return [op for op, at in of_file if at < s.damage.at][-1:] == ["create"] and all(at <= s.damage.at for _, at in of_file)


def repeated_by_next_file(s: Survivor) -> bool:
    """Return whether only a record of term and vote is missing, and the next file begins with them before the next step."""
    e = s.before
    is_one = e.body[8:9] in (b"\x02", b"\x82") and len(e.body) == 8 + int.from_bytes(e.body[:4], "big")
    if s.damage.kind != "drop" or (e.kind, e.op) != ("disk", "append") or not is_one:
        return False
    term, vote = e.body[17:25], e.body[33:]
    for o in life(s):
        if o.kind == "step":
            return False
        if (o.kind, o.op) == ("disk", "append"):
            return o.key != e.key and term in o.body and o.body.endswith(vote)
    return False


def dead_is_dead(s: Survivor) -> bool:
    if s.before.kind != "died":
        return False
    lives = [e.kind for e in of_node(s.before.client, s.good[:s.damage.at]) if e.kind in ("started", "died")]
    if s.damage.kind == "drop":
        following = next(of_node(s.before.client, s.rest), None)
        return lives[-1:] != ["started"] or following is None or following.kind == "died"
    return s.damage.kind == "duplicate" or same_but(s, "keys") or (same_but(s, "op") and not s.before.keys)


def task_of_the_node(s: Survivor) -> bool:
    return s.before.kind == "disk" and same_but(s, "client") and node_of(s.before.client) == node_of(s.after.client)


def looked_again(s: Survivor) -> bool:
    e = s.before
    return e.kind == "disk" and e.op in LOOKS and (s.damage.kind in ("repeat", "drop") or same_but(s, "client") or (
        same_but(s, "op") and s.after.op in LOOKS))


def kept_longer(s: Survivor) -> bool:
    """Return whether an old file stays: a server may remove it later."""
    e = s.before
    return (e.kind, e.op) == ("disk", "remove") and (s.damage.kind == "drop" or (same_but(s, "op") and s.after.op == "sync"))


def answers_less(s: Survivor) -> bool:
    """Return whether a step answered a round of heartbeats of which nobody made use."""
    if s.before.kind != "step" or not same_but(s, "body"):
        return False
    one, two = said(s.before), said(s.after)
    notes = [note for note, *_ in one.pop("reads", [])]
    return notes == ["answer"] and not two.pop("reads", []) and one == two


def died_at_once(s: Survivor) -> bool:
    """Return whether the process ended in the moment in which its disk answered, or took no step any more."""
    return s.before.kind == "disk" and s.damage.kind in ("drop", "edit", "repeat") and all(
        e.kind in ("received", "disk") or e.t_ms == s.before.t_ms for e in life(s))


def another_caller(s: Survivor) -> bool:
    """Return whether the other caller waits for a response to the same call, with the same content."""
    if s.before.kind != "told" or not same_but(s, "client"):
        return False
    asked = [begun(s, client) for client in (s.before.client, s.after.client)]
    return asked[0] is not None and asked[1] is not None and asked[0][9:11] == asked[1][9:11]


def begun(s: Survivor, client: str) -> Event | None:
    """Return the step that began the open call of a client; None if it has none."""
    last = next((e for e in reversed(s.good[:s.damage.at]) if e.client == client and (asks(e) or e.kind == "told")), None)
    return last if last is not None and asks(last) else None


def asked_in_vain(s: Survivor) -> bool:
    """Return whether a call is missing, is another one or has another content, and nothing is known of what became of it: its
    process ended before a response, or the response claims nothing of the content."""
    if not asks(s.before) or not (s.damage.kind in ("drop", EXCHANGE) or same_but(s, "body", "client", "keys")):
        return False
    told = next((e for e in s.rest if e.kind == "told" and e.client == s.before.client), None)
    died = next((e for e in s.rest if e.kind == "died" and e.client == node_of(s.before.client)), None)
    if told is None or (died is not None and s.rest.index(died) < s.rest.index(told)):
        return True
    silent = told.keys[2:3] != (RETURNED,) or told.op == "transferred"  # to whom is not in the response
    return silent and s.damage.kind != "drop" and not same_but(s, "client", "keys")


# --- of responses

def committed_before(s: Survivor) -> bool:
    """Return whether a response moved to where a node knows that as much is committed as the response needs: the entry that it
    names, or else all that its own node knows where it was."""
    if s.damage.kind != EARLY:
        return False
    def known(events: Iterable[Event]) -> int:
        return max((said(e).get("commit", 0) for e in events if e.kind == "step"), default=0)

    index = next((int(claim[len(INDEX):]) for claim in response(s).keys[len(CALL):] if claim.startswith(INDEX)), 0)
    needed = index or known(of_node(node_of(response(s).client), s.good[:s.damage.to]))
    return known(s.good[:s.damage.at]) >= needed


def read_at_that_moment(s: Survivor) -> bool:
    """Return whether another reader is told the same, or a reader another beginning or continuation of what is committed: no
    event tells when a read took place."""
    e = response(s)
    return e.op == "read" and e.kind == "told" and (
        s.damage.kind == ANOTHER or (s.damage.kind == VALUE and (
            e.body.startswith(s.before.body) or s.before.body.startswith(e.body))))


RESPONSES_OF_NODES: Equivalences = {
    **OF_RESPONSES,
    "asked in vain": ("the call has no response, or one that says nothing of what it asked for", asked_in_vain),
    "committed before": ("a node already knew that as much is committed", committed_before)}
READS_OF_NODES: Equivalences = {
    "read at that moment": ("no event tells when it took place, or that its reader asked", read_at_that_moment)}
READ_BEFORE: Equivalences = {
    "read before": ("no event tells when it took place, so it may show fewer committed entries, or more", read_before)}
OF_NODES: Equivalences = {
    "a number is a name": ("the numbers of this client's messages, or of its operations, still rise, and no other event has it",
                           number_is_a_name),
    "between its neighbours": ("the time still lies between those of the neighbouring events", between_its_neighbours),
    "they commute": ("no message goes between two nodes, or the two events of one node do not depend on each other", commute),
    "nobody received it": ("the message was lost, so it does not matter whether or to whom it was sent", nobody_received),
    "sent again": ("a node may send a message twice", sent_again),
    "delivered twice": ("a network may deliver a message twice", delivered_twice),
    "caused nothing": ("the message caused no step, so it may have been lost", caused_nothing),
    "tells less": ("a message may tell less than its sender knows, begin a round of its own, or carry a part of a snapshot, "
                   "which its receiver checks", tells_less),
    "says no more": ("the step only took note of something, which its server may do in the step before or after", says_no_more),
    "another cause": ("a server may stand for election because its time is over, or because it was told to", another_cause),
    "empty life": ("the process ended before anything of it was seen", empty_life),
    "far ahead": ("a message of a term that is too far ahead says nothing more", far_ahead),
    "pre-vote": ("a pre-vote and its answer promise nothing", pre_vote),
    "never proposed": ("the call may have been about another entry, which no node has", never_proposed),
    "created again": ("the file is created, and empty already", created_again),
    "unused segment": ("the file was new, and nobody has read it or gone on with it", unused_segment),
    "repeated by the next file": ("each file of the log begins with term and vote", repeated_by_next_file),
    "dead is dead": ("a process ends once or twice, or does nothing more; a machine that loses nothing ends as one",
                     dead_is_dead),
    "a task of the node": ("which task of a node works with its disk says nothing", task_of_the_node),
    "looked or synced again": ("a process may look at its disk, or sync it, more or less often than it has to", looked_again),
    "kept longer": ("an old file may be removed later, or after a restart", kept_longer),
    "answers less": ("an answer to a round of heartbeats may be lost", answers_less),
    "died at once": ("the process ended before it used the answer of its disk", died_at_once),
    "claims less": ("a caller received no result, or an indeterminate one", claims_less),
    "another caller": ("another caller waits for a response to the same call", another_caller),
    "asked in vain": ("the call has no response, or one that says nothing of what it asked for", asked_in_vain),
    "another name": ("a read may have any name of its own, which no other event has", another_name),
}

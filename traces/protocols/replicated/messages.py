"""Safety: a message is refused if it tells something that is not so: it is read as a fact of the model.

A Raft server sends a vote or an acknowledgement once it is durable, and entries once it has appended them. Facts stay in the
model, so what a message tells must be one when it is sent. The bytes are read here, and not by the server's code
(impl/raft/wire.py says what they mean).
"""

from collections.abc import Callable
from struct import Struct, error
from typing import NamedTuple

from highwater.model.protocols.raft import Shared, acked, last
from highwater.traces.protocols.replicated.log import checksum_of
from highwater.traces.protocols.replicated.servers import FAR, FOLLOWER, LEADER, MESSAGES, PRE_CANDIDATE, Known, Step

VERSION = 1
HEAD = Struct(">BB")
PREFIX, ENTRY = Struct(">qqqI"), Struct(">QBI")  # of an Append: term, index and term before, number; of each entry
SUMMED, SUMMED_APPEND = Struct(">QBII"), b"\x01\x11"  # of each entry with its checksum; version and kind of such an Append
CLOCKED_REPLY = b"\x01\x10"
LATER_FORMS = {SUMMED_APPEND: "Append", CLOCKED_REPLY: "HeartbeatReply"}
COUNT, AT_ENTRIES = Struct(">I"), HEAD.size + PREFIX.size
ONE, TWO, THREE, FOUR = (Struct(f">{n}q") for n in (1, 2, 3, 4))
GRANTED, STANDS = Struct(">qB"), Struct(">qqqB")
TEXT = Struct(">qI")  # term and length of a text

Log = tuple[int, ...]
# What servers have told: (server, term) of a candidate to come, (server, term, round of heartbeats), (server, term, name of
# a read). And (server, PRE_CANDIDATE, term, last entry) of one that may ask whether it should stand.
Told = set[tuple]


class Sent(NamedTuple):
    """A message, and what is known when it is sent."""

    s: Shared
    me: int  # number of the sender
    to: int  # of the receiver
    server: Known  # the sender
    body: bytes  # without version and kind
    durable: int  # the sender's durable term
    told: Told


def untrue(s: Shared, me: int, to: int, server: Known, durable: int, body: bytes, told: Told) -> str:
    """Return what a message tells that is not so; "" if all is. `me` and `to`: numbers of sender and receiver. `durable`: the
    sender's durable term. What it tells for the first time is added to `told`."""
    body = plain(body)
    try:
        version, kind = HEAD.unpack_from(body)
        if version != VERSION:
            return f"it is of version {version}"
        if ONE.unpack_from(body, HEAD.size)[0] > server.term + FAR:
            return ""  # its sender is spoilt, and nobody takes what it tells for a fact
        return RULES[kind](Sent(s, me, to, server, body[2:], durable, told))
    except (error, KeyError, IndexError):
        return f"it cannot be read: {body[:20].hex()}"


def plain(body: bytes) -> bytes:
    """Return an Append whose entries have checksums, as of kind 17, in the form without them, and any other message as it is.
    Where a checksum is wrong, it stays as it is: no other kind has that number. A reply to a heartbeat, of kind 16, loses its
    clock, which no server's step depends on."""
    if body[:2] == CLOCKED_REPLY and len(body) == HEAD.size + THREE.size:
        return HEAD.pack(VERSION, MESSAGES.index("HeartbeatReply") + 1) + body[HEAD.size:HEAD.size + TWO.size]
    if body[:2] != SUMMED_APPEND:
        return body
    try:
        number, = COUNT.unpack_from(body, AT_ENTRIES - COUNT.size)
        at, parts = AT_ENTRIES, [HEAD.pack(VERSION, MESSAGES.index("Append") + 1), body[2:AT_ENTRIES]]
        for _ in range(number):
            term, kind, checksum, size = SUMMED.unpack_from(body, at)
            content = body[at + SUMMED.size:at + SUMMED.size + size]
            if checksum_of(term, kind, content) != checksum:
                return body
            parts += ENTRY.pack(term, kind, size), content
            at += SUMMED.size + size
        return b"".join((*parts, body[at:]))
    except error:
        return body


def name_of(body: bytes) -> str:
    """Return the name of a message's kind; "" if it has none."""
    kind = body[1] if len(body) > 1 else 0
    if body[:2] in LATER_FORMS:
        return LATER_FORMS[body[:2]]
    return MESSAGES[kind - 1] if 0 < kind <= len(MESSAGES) else ""


class Append(NamedTuple):
    term: int
    index: int  # of the entry before
    before: int  # its term
    entries: list[tuple[int, int, bytes]]  # index, term, kind and content
    commit: int


def append_in(body: bytes) -> Append:
    """Read an Append without its version and kind. Raises struct.error."""
    term, index, before, number = PREFIX.unpack_from(body)
    at, entries = PREFIX.size, list[tuple[int, int, bytes]]()
    for place in range(index + 1, index + 1 + number):
        of_entry, kind, size = ENTRY.unpack_from(body, at)
        at += ENTRY.size + size
        entries.append((place, of_entry, bytes([kind]) + body[at - size:at]))
    commit, = ONE.unpack(body[at:])
    return Append(term, index, before, entries, commit)


def entries_in(body: bytes) -> list[tuple[int, int, bytes]]:
    """Return index, term and content of the entries in a message."""
    return append_in(plain(body)[2:]).entries if name_of(body) == "Append" else []


def why_not_caused(before: Known | None, op: str, step: Step, sender: str, body: bytes) -> str:
    """Return why a message does not cause a step that is said to be caused by one with the name `op`; "" if it can."""
    if name_of(body) != op or before is None:
        return f"{name_of(body) or 'none'} did"
    body = plain(body)
    try:
        term = ONE.unpack_from(body, HEAD.size)[0]
        if term > before.term + FAR:
            return "" if ignores(before, step) else f"{sender} is in term {term:,}, which is too far ahead"
        return CAUSED[op](before, step, sender, body[2:]) if op in CAUSED else ""
    except error:
        return f"it cannot be read: {body[:20].hex()}"


def ignores(before: Known, step: Step) -> bool:
    """Tell whether a step takes nothing from a message, but perhaps that there are later terms."""
    save = step.save
    return (step.role, step.term, step.commit, step.agreed) == (FOLLOWER, before.term + FAR, before.commit, 0) and (
        save is not None and not save.vote and not save.terms and save.base is None)


def of_append(before: Known, step: Step, sender: str, body: bytes) -> str:
    append, save = append_in(body), step.save
    end = append.index + len(append.entries)
    terms = tuple([term for index, term, _ in append.entries if save and index >= save.first])
    so = append.term == step.term and (not save or not save.terms or (save.first > append.index and save.terms == terms))
    return "" if so and step.agreed <= max(end, before.commit) and step.commit <= max(before.commit, append.commit) \
        else f"{sender} sent {append}"


def of_heartbeat(before: Known, step: Step, sender: str, body: bytes) -> str:
    term, commit, _ = THREE.unpack(body)
    so = term == step.term and step.commit <= max(before.commit, commit)
    return "" if so else f"{sender} leads {term}, and commits {commit}"


def of_appended(before: Known, step: Step, sender: str, body: bytes) -> str:
    term, index = TWO.unpack(body)
    return "" if term == step.term and step.commit <= max(before.commit, index) else f"{sender} has {index} entries of {term}"


def of_vote(before: Known, step: Step, sender: str, body: bytes) -> str:
    term, granted = GRANTED.unpack(body)
    return "" if term == step.term and (granted or step.role != LEADER) else f"{sender} votes in {term}: {granted}"


def of_request(before: Known, step: Step, sender: str, body: bytes) -> str:
    term, *_ = STANDS.unpack(body)
    vote = step.save.vote if step.save else before.vote
    return "" if term == step.term and vote in ("", before.vote, sender) else f"{sender} stands in {term}"


CAUSED: dict[str, Callable[[Known, Step, str, bytes], str]] = {
    "Append": of_append, "Heartbeat": of_heartbeat, "Appended": of_appended, "Vote": of_vote, "RequestVote": of_request}


def counted(so_far: dict[tuple[str, int, str], int], me: str, sender: str, body: bytes) -> None:
    """Count what a follower tells of its log. The same index in an earlier term is another one."""
    if name_of(body) == "Appended":
        term, index = TWO.unpack(body[2:])
        so_far[me, term, sender] = max(index, so_far.get((me, term, sender), 0))


def log_of(s: Shared, me: int, server: Known, term: int) -> Log | None:
    """Return the log of the sender if it leads this term."""
    if server.role != LEADER or server.term != term:
        return None
    return next((log for t, who, log in s.leaders if (t, who) == (term, me)), None)


def stepped(me: int, before: Known | None, server: Known, told: Told) -> None:
    """Note a server that may ask in this life whether it should stand. The question waits for what was saved before, and the
    server may be a follower again when it is sent."""
    if before is None:
        told -= {of for of in told if of[:2] == (me, PRE_CANDIDATE)}
    if server.role == PRE_CANDIDATE:
        told.add((me, PRE_CANDIDATE, server.term + 1, server.last))


def asks_before(of: Sent) -> str:
    term, index, of_last = THREE.unpack(of.body)
    server = of.server
    so = term == server.term + 1 and (of.me, PRE_CANDIDATE, term, index) in of.told and bool(index) <= of_last <= server.term
    if so:
        of.told.add((of.me, term))
    return "" if so else f"it would stand in term {term} with {index} entries"


def answers_before(of: Sent) -> str:
    term, granted = GRANTED.unpack(of.body)
    asked = term > of.server.term and (of.to, term) in of.told
    return "" if (granted == 1 and asked) or (granted == 0 and term == of.server.term) else f"it grants term {term}"


def stands(of: Sent) -> str:
    term, index, of_last, transfer = STANDS.unpack(of.body)
    so = transfer in (0, 1) and any((t, who) == (term, of.me) and last(log) == (of_last, index) for t, who, log in of.s.cands)
    return "" if so else f"it stands in term {term} with {index} entries, the last one of term {of_last}"


def votes(of: Sent) -> str:
    term, granted = GRANTED.unpack(of.body)
    so = (term, of.me, of.to) in of.s.votes if granted == 1 else granted == 0 and 0 < term == of.server.term <= of.durable
    return "" if so else f"it votes in term {term}: {granted}"


def appends(of: Sent) -> str:
    append = append_in(of.body)
    index, terms = append.index, tuple([term for _, term, _ in append.entries])
    log = log_of(of.s, of.me, of.server, append.term)
    so = log is not None and (0, *log)[index] == append.before and log[index:index + len(terms)] == terms
    return "" if so and append.commit == of.server.commit else f"it has other entries than {append}"


def agrees(of: Sent) -> str:
    term, index = TWO.unpack(of.body)
    so = term == of.server.term and acked(of.s, term, of.me) >= index >= 0
    return "" if so else f"it has {index} entries of the leader of {term}"


def conflicts(of: Sent) -> str:
    term, index, hint, of_hint = FOUR.unpack(of.body)
    so = term == of.server.term <= of.durable and 0 <= hint <= min(index, of.server.last) and of_hint <= term
    return "" if so else f"it lacks entry {index} of term {term}, and agrees up to {hint}"


def beats(of: Sent) -> str:
    term, commit, number = THREE.unpack(of.body)
    so = log_of(of.s, of.me, of.server, term) is not None and 0 <= commit <= of.server.commit and number >= 0 and (
        (of.me, term, number + 1) not in of.told)
    if so:
        of.told.add((of.me, term, number))
    return "" if so else f"it leads term {term}, and has committed {commit}"


def answers(of: Sent) -> str:
    term, number = TWO.unpack(of.body)
    so = term == of.server.term <= of.durable and (of.to, term, number) in of.told
    return "" if so else f"it follows the leader of term {term}"


def offers(of: Sent) -> str:
    term, index, of_last = THREE.unpack(of.body)
    log = log_of(of.s, of.me, of.server, term)
    so = log is not None and 0 < index <= of.server.commit and log[index - 1] == of_last
    return "" if so else f"it offers a snapshot up to {index}, of term {of_last}"


def asks_index(of: Sent) -> str:
    (term, size), name = TEXT.unpack_from(of.body), of.body[TEXT.size:]
    of.told.add((of.me, term, name))
    return "" if term == of.server.term and len(name) == size > 0 else f"it asks in term {term}"


def tells_index(of: Sent) -> str:
    (term, size), server = TEXT.unpack_from(of.body), of.server
    index, = ONE.unpack(of.body[TEXT.size + size:])
    leads = server.role == LEADER and term == server.term
    if not any((of.to, then, of.body[TEXT.size:TEXT.size + size]) in of.told for then in range(1, term + 1)):
        return f"it answers a read that nobody asked for, {of.body.decode(errors='replace')}"
    so = size and (0 < term <= server.term if index == -1 else leads and 0 <= index <= server.commit)
    return "" if so else f"it tells a read the index {index} in term {term}"


def hands_over(of: Sent) -> str:
    term, = ONE.unpack(of.body)
    return "" if log_of(of.s, of.me, of.server, term) is not None else f"it hands over term {term}"


def of_a_file(of: Sent) -> str:
    """Take any part of a snapshot: the model judges what is installed."""
    return ""


RULES: dict[int, Callable[[Sent], str]] = {
    1: asks_before, 2: answers_before, 3: stands, 4: votes, 5: appends, 6: agrees, 7: conflicts, 8: beats, 9: answers,
    10: offers, 11: asks_index, 12: tells_index, 13: hands_over, 14: of_a_file, 15: of_a_file,
}

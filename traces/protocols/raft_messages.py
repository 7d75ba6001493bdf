"""Safety: a message is refused if it tells something that is not so: it is read as a fact of the model.

A Raft server sends a vote or an acknowledgement once it is durable, and entries once it has appended them. Facts stay in the
model, so what a message tells must be one when it is sent. The bytes are read here, and not by the server's code
(impl/raft/wire.py says what they mean).
"""

from collections.abc import Callable
from struct import Struct, error

from highwater.model.protocols.raft import Shared, acked, last
from highwater.traces.protocols.raft_servers import LEADER, MESSAGES, Known

VERSION = 1
HEAD = Struct(">BB")
PREFIX, ENTRY = Struct(">qqqI"), Struct(">QBI")  # of an Append: term, index and term before, number of entries; of each of those
ONE, TWO, THREE, FOUR = (Struct(f">{n}q") for n in (1, 2, 3, 4))
GRANTED, STANDS = Struct(">qB"), Struct(">qqqB")
TEXT = Struct(">qI")  # term and length of a text

Log = tuple[int, ...]
Sent = tuple[Shared, int, int, Known, bytes, int]  # the model, numbers of sender and receiver, the sender, body, durable term


def untrue(s: Shared, me: int, to: int, server: Known, durable: int, body: bytes) -> str:
    """Return what a message tells that is not so; "" if all is. `me` and `to`: numbers of sender and receiver. `durable`: the
    sender's durable term."""
    try:
        version, kind = HEAD.unpack_from(body)
        if version != VERSION:
            return f"it is of version {version}"
        return RULES[kind]((s, me, to, server, body[2:], durable))
    except (error, KeyError, IndexError):
        return f"it cannot be read: {body[:20].hex()}"


def name_of(body: bytes) -> str:
    """Return the name of a message's kind; "" if it has none."""
    kind = body[1] if len(body) > 1 else 0
    return MESSAGES[kind - 1] if 0 < kind <= len(MESSAGES) else ""


def log_of(s: Shared, me: int, server: Known, term: int) -> Log | None:
    """Return the log of the sender if it leads this term."""
    if server.role != LEADER or server.term != term:
        return None
    return next((log for t, who, log in s.leaders if (t, who) == (term, me)), None)


def asks_before(of: Sent) -> str:
    term, index, of_last = THREE.unpack(of[4])
    server = of[3]
    so = server.role == "pre-candidate" and term == server.term + 1 and index == server.last and of_last <= server.term
    return "" if so else f"it would stand in term {term} with {index} entries"


def answers_before(of: Sent) -> str:
    term, granted = GRANTED.unpack(of[4])
    return "" if (granted == 1 and term > of[3].term) or (granted == 0 and term == of[3].term) else f"it grants term {term}"


def stands(of: Sent) -> str:
    s, me, _, _, body, _ = of
    term, index, of_last, transfer = STANDS.unpack(body)
    so = transfer in (0, 1) and any((t, who) == (term, me) and last(log) == (of_last, index) for t, who, log in s.cands)
    return "" if so else f"it stands in term {term} with {index} entries, the last one of term {of_last}"


def votes(of: Sent) -> str:
    s, me, to, _, body, durable = of
    term, granted = GRANTED.unpack(body)
    so = (term, me, to) in s.votes if granted == 1 else granted == 0 and 0 < term == of[3].term <= durable
    return "" if so else f"it votes in term {term}: {granted}"


def appends(of: Sent) -> str:
    s, me, _, server, body, _ = of
    term, index, before, number = PREFIX.unpack_from(body)
    log, at, terms = log_of(s, me, server, term), PREFIX.size, list[int]()
    for _ in range(number):
        of_entry, _, size = ENTRY.unpack_from(body, at)
        terms.append(of_entry)
        at += ENTRY.size + size
    commit, = ONE.unpack(body[at:])
    so = log is not None and (0, *log)[index] == before and log[index:index + number] == (*terms,) and commit == server.commit
    return "" if so else f"it appends entries of the terms {terms} after {index}, of term {before}, and commits {commit}"


def agrees(of: Sent) -> str:
    term, index = TWO.unpack(of[4])
    return "" if term == of[3].term and acked(of[0], term, of[1]) >= index >= 0 else f"it has {index} entries of the leader of {term}"


def conflicts(of: Sent) -> str:
    term, index, hint, of_hint = FOUR.unpack(of[4])
    so = term == of[3].term <= of[5] and 0 <= hint <= min(index, of[3].last) and of_hint <= term
    return "" if so else f"it lacks entry {index} of term {term}, and agrees up to {hint}"


def beats(of: Sent) -> str:
    term, commit, number = THREE.unpack(of[4])
    so = log_of(of[0], of[1], of[3], term) is not None and 0 <= commit <= of[3].commit and number >= 0
    return "" if so else f"it leads term {term}, and has committed {commit}"


def answers(of: Sent) -> str:
    term, number = TWO.unpack(of[4])
    return "" if term == of[3].term <= of[5] and number >= 0 else f"it follows the leader of term {term}"


def offers(of: Sent) -> str:
    term, index, of_last = THREE.unpack(of[4])
    log = log_of(of[0], of[1], of[3], term)
    so = log is not None and 0 < index <= of[3].commit and log[index - 1] == of_last
    return "" if so else f"it offers a snapshot up to {index}, of term {of_last}"


def asks_index(of: Sent) -> str:
    (term, size), body = TEXT.unpack_from(of[4]), of[4]
    return "" if term == of[3].term and len(body) == TEXT.size + size > TEXT.size else f"it asks in term {term}"


def tells_index(of: Sent) -> str:
    (term, size), server = TEXT.unpack_from(of[4]), of[3]
    index, = ONE.unpack(of[4][TEXT.size + size:])
    leads = server.role == LEADER and term == server.term
    so = size and (0 < term <= server.term if index == -1 else leads and 0 <= index <= server.commit)
    return "" if so else f"it tells a read the index {index} in term {term}"


def hands_over(of: Sent) -> str:
    term, = ONE.unpack(of[4])
    return "" if log_of(of[0], of[1], of[3], term) is not None else f"it hands over term {term}"


def of_a_file(of: Sent) -> str:
    """Take any part of a snapshot: the model judges what is installed."""
    return ""


RULES: dict[int, Callable[[Sent], str]] = {
    1: asks_before, 2: answers_before, 3: stands, 4: votes, 5: appends, 6: agrees, 7: conflicts, 8: beats, 9: answers,
    10: offers, 11: asks_index, 12: tells_index, 13: hands_over, 14: of_a_file, 15: of_a_file,
}

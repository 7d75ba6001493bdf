"""Safety: an error that a node raised reaches a client as the same error, definite or indefinite.

The frames between clients and nodes, after the handshake. A request: u64 number, u8 kind, body. An answer: the number of its
request, u8 outcome, body. Any number of requests may be under way on one connection; answers come in any order.
"""

from struct import Struct, error

from highwater.impl.errors import Definite, Indefinite, StoreError
from highwater.impl.raft.faults import (
    ChangeRefused,
    LeadershipLost,
    LevelTooLow,
    NoChange,
    NodeStopped,
    NotLeader,
    NotRunning,
    NotYet,
    NoVoter,
    QueueFull,
    TooLarge,
    TransferFailed,
)
from highwater.impl.stores.frames import Malformed, texts_of, texts_to

PROPOSE, QUERY, STATUS, TRANSFER, CHANGE = 1, 2, 3, 4, 5
KINDS = (PROPOSE, QUERY, STATUS, TRANSFER, CHANGE)
HEAD = Struct(">QB")


class BadRequest(Definite):
    """The node does not take such a request."""


class NoAnswerInTime(Indefinite):
    """The node had no answer within its limit. What was proposed may be committed, now or later."""


OK = 0
OUTCOMES: dict[int, type[StoreError]] = {
    1: NotLeader, 2: TooLarge, 3: QueueFull, 4: NotRunning, 5: NoVoter, 6: BadRequest, 7: LeadershipLost, 8: NodeStopped,
    9: TransferFailed, 10: NoAnswerInTime, 11: Definite, 12: Indefinite, 13: NotYet,
    14: NoChange, 15: ChangeRefused, 16: LevelTooLow,
}
OF_ERROR = {kind: number for number, kind in OUTCOMES.items()}


def request_to(number: int, kind: int, body: bytes) -> bytes:
    return HEAD.pack(number, kind) + body


def request_of(frame: bytes) -> tuple[int, int, bytes]:
    """Return number, kind and body. Raises Malformed."""
    try:
        number, kind = HEAD.unpack_from(frame)
    except error:
        raise Malformed(f"a request of {len(frame)} bytes has no head") from None
    if kind not in KINDS:
        raise Malformed(f"a request of kind {kind}: this node knows {min(KINDS)} to {max(KINDS)}")
    return number, kind, frame[HEAD.size:]


def answer_to(number: int, result: bytes | StoreError, me: str) -> bytes:
    """Return the frame of an answer: a result or an error."""
    if isinstance(result, bytes):
        return HEAD.pack(number, OK) + result
    if isinstance(result, NotLeader):
        return HEAD.pack(number, OF_ERROR[NotLeader]) + texts_to((me, result.leader))
    fallback = Definite if isinstance(result, Definite) else Indefinite
    return HEAD.pack(number, OF_ERROR.get(type(result), OF_ERROR[fallback])) + str(result)[:4000].encode()


def answer_of(frame: bytes) -> tuple[int, bytes | StoreError]:
    """Return the request's number, and its result or error. Raises Malformed."""
    try:
        number, outcome = HEAD.unpack_from(frame)
        body = frame[HEAD.size:]
        if outcome == OK:
            return number, body
        if OUTCOMES.get(outcome) is NotLeader:
            return number, NotLeader(*texts_of(body, 2))
        return number, OUTCOMES[outcome](body.decode())
    except (error, KeyError, UnicodeDecodeError) as problem:
        raise Malformed(f"an answer of {len(frame)} bytes cannot be read: {problem!r}") from None

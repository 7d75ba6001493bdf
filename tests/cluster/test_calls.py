"""Frames between clients and nodes: every error arrives as the same class, and other bytes are malformed."""

import pytest

from highwater.cluster import calls
from highwater.cluster.calls import OUTCOMES
from highwater.impl.errors import Definite, Indefinite, Unavailable, UpdateConflict
from highwater.impl.node_world import DiskFailed
from highwater.impl.raft.faults import NotLeader
from highwater.impl.stores.frames import Malformed


@pytest.mark.parametrize("kind", OUTCOMES.values())
def test_an_error_arrives_as_itself(kind):
    error = NotLeader("1", "2") if kind is NotLeader else kind("why")
    number, found = calls.answer_of(calls.answer_to(7, error, "1"))
    assert (number, type(found), str(found)) == (7, kind, str(error))
    assert getattr(found, "leader", "") == getattr(error, "leader", "")


@pytest.mark.parametrize("error,kind", ((UpdateConflict("x"), Definite), (Unavailable("x"), Definite),
                                        (DiskFailed("x"), Indefinite)))
def test_an_unknown_error_keeps_whether_it_is_definite(error, kind):
    assert type(calls.answer_of(calls.answer_to(1, error, "1"))[1]) is kind


def test_results_and_requests_arrive():
    assert calls.answer_of(calls.answer_to(1 << 63, b"x", "1")) == (1 << 63, b"x")
    assert calls.request_of(calls.request_to(5, calls.QUERY, b"q")) == (5, calls.QUERY, b"q")


@pytest.mark.parametrize("frame", (b"", b"\0" * 8, b"\0" * 9, b"\0" * 8 + b"\x63"))
def test_other_bytes_are_no_request(frame):
    with pytest.raises(Malformed):
        calls.request_of(frame)


@pytest.mark.parametrize("frame", (b"", b"\0" * 8, b"\0" * 8 + b"\x63", b"\0" * 8 + b"\x01x", b"\0" * 8 + b"\x02\xff"))
def test_other_bytes_are_no_answer(frame):
    with pytest.raises(Malformed):
        calls.answer_of(frame)


def test_the_numbers_of_outcomes_and_requests_stay():
    assert [kind.__name__ for _, kind in sorted(OUTCOMES.items())] == [
        "NotLeader", "TooLarge", "QueueFull", "NotRunning", "NoVoter", "BadRequest", "LeadershipLost", "NodeStopped",
        "TransferFailed", "NoAnswerInTime", "Definite", "Indefinite", "NotYet", "NoChange", "ChangeRefused", "LevelTooLow"]
    assert sorted(OUTCOMES) == [*range(1, 17)] and calls.OK == 0
    assert (calls.PROPOSE, calls.QUERY, calls.STATUS, calls.TRANSFER, calls.CHANGE) == calls.KINDS == (1, 2, 3, 4, 5)
    assert calls.request_to(1, calls.QUERY, b"q") == b"\0" * 7 + b"\1\2q"
    assert calls.answer_to(2, b"r", "1") == b"\0" * 7 + b"\2\0r"
    assert calls.answer_to(2, calls.BadRequest("é" * 5_000), "1") == b"\0" * 7 + b"\2\6" + "é".encode() * 4_000

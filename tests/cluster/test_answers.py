"""A client of a cluster without a network: whom it asks after each answer, what it repeats, and what it raises."""

import asyncio
from typing import Any

import pytest

from highwater.cluster.calls import CHANGE, PROPOSE, QUERY, STATUS, TRANSFER, NoAnswerInTime
from highwater.cluster.client import Client, ConnectionLost, Unreachable
from highwater.impl.errors import Definite, StoreError
from highwater.impl.raft.faults import (
    ChangeRefused,
    LeadershipLost,
    LevelTooLow,
    NoChange,
    NodeStopped,
    NotLeader,
    NotYet,
    NoVoter,
    QueueFull,
    TooLarge,
)
from highwater.impl.stores.frames import texts_to
from highwater.impl.stores.stream_net import Address

NODES = {name: Address("there", number) for number, name in enumerate("abc", 1)}
NAMES = {PROPOSE: "propose", QUERY: "query", STATUS: "status", TRANSFER: "transfer", CHANGE: "change"}
DOWN = Unreachable("down")


class Scripted(Client):
    """A client whose nodes give the answers of a script, and which notes whom it asked what."""

    def __init__(self, answers: list[Any], leaders: dict[str, str] | None = None, limit_s: float = 0.5):
        super().__init__(NODES, limit_s=limit_s)
        self.answers, self.leaders, self.asked = answers, leaders or {}, []

    async def _ask(self, name: str, kind: int, body: bytes) -> bytes:
        self.asked.append((name, NAMES[kind], body))
        if kind == STATUS:
            if name not in self.leaders:
                raise DOWN
            return b'{"leader": "%s", "voters": ["a", "b"]}' % self.leaders[name].encode()
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, StoreError):
            raise answer
        return answer

    def whom(self, kind: str = "") -> str:
        return "".join(name for name, asked, _ in self.asked if kind in ("", asked))


def done(client: Scripted, call: Any) -> Any:
    """Run a call; return its result or its error."""
    async def work():
        try:
            return await call
        except StoreError as error:
            return error
    return asyncio.run(work())


def not_leader(leader: str = "") -> NotLeader:
    return NotLeader("x", leader)


# --- proposals

@pytest.mark.parametrize("answers, asked, leader", [
    ([b"1"], "a", "a"), ([not_leader("c"), b"1"], "ac", "c"), ([not_leader(), b"1"], "ab", "b"), ([DOWN, b"1"], "ab", "b"),
    ([DOWN, DOWN, b"1"], "abc", "c"), ([not_leader("b"), not_leader("c"), b"1"], "abc", "c"),
    ([not_leader("a"), b"1"], "ab", "b"), ([not_leader("stranger"), b"1"], "ab", "b"),
    ([not_leader("b"), DOWN, b"1"], "abc", "c"), ([DOWN, DOWN, DOWN, b"1"], "abca", "a"),
])
def test_a_proposal_goes_to_the_next_node_after_a_definite_error(answers, asked, leader):
    client = Scripted(answers)
    assert done(client, client.propose(b"x")) == b"1"
    assert (client.whom(), client.leader) == (asked, leader) and {body for _, _, body in client.asked} == {b"x"}


@pytest.mark.parametrize("error", [
    LeadershipLost("x"), NodeStopped("x"), NoAnswerInTime("x"), ConnectionLost("x"), TooLarge("x"), QueueFull("x"),
    LevelTooLow("x")])
def test_no_other_error_lets_a_proposal_be_sent_again(error):
    client = Scripted([error, b"never"])
    assert done(client, client.propose(b"x")) is error and client.whom() == "a"


@pytest.mark.parametrize("error", [not_leader(), DOWN])
def test_a_proposal_that_no_node_takes_ends_with_the_last_error(error):
    client = Scripted([error])
    assert done(client, client.propose(b"x")) is error
    assert len(client.asked) >= 6 and {*client.whom()} == {*"abc"}


# --- queries

def test_a_query_is_answered_by_any_node_whatever_the_first_says():
    for error in (DOWN, not_leader(), ConnectionLost("x"), NoAnswerInTime("x")):
        client = Scripted([error, error, b"1"])
        assert done(client, client.query(b"q")) == b"1" and client.asked == [(name, "query", b"q") for name in "abc"]
    client = Scripted([b"1"])
    assert done(client, client.query(b"q", "c")) == b"1" and client.whom() == "c"
    client = Scripted([DOWN])
    assert done(client, client.query(b"q", "b")) is DOWN and {*client.whom()} == {"b"} and len(client.asked) > 1
    assert done(client, client.query(b"q")) is DOWN


# --- leaders

def test_the_leader_is_asked_of_the_first_node_that_answers():
    client = Scripted([b""], {"b": "c", "c": "a"})
    assert done(client, client.transfer("b")) is None
    assert client.asked == [("a", "status", b""), ("b", "status", b""), ("c", "transfer", b"b")]
    client = Scripted([b""], {"a": "c"})
    assert done(client, client.transfer("c")) is None and client.whom("transfer") == ""
    client = Scripted([NoVoter("x")], {"a": "c"})
    assert isinstance(done(client, client.transfer("b")), NoVoter)
    assert done(Scripted([b""], {"a": "c"}), Scripted([b""], {"a": "a"}).voters()) == ["a", "b"]


def test_without_a_leader_the_error_says_what_to_do():
    client = Scripted([b""], {"a": "", "b": ""})
    error = done(client, client.transfer("b"))
    assert type(error) is Unreachable and client.whom() == "abc"
    assert str(error) == "no node that can be reached knows a leader: look at the status of the nodes"
    client = Scripted([b""], {"a": "d"})
    error = done(client, client.voters())
    assert type(error) is Unreachable
    assert str(error) == "node 'd' leads, and its address was not given: name all nodes of the cluster"
    client.add("d", Address("there", 4))
    assert done(client, client.voters()) is not None and client.nodes["d"].port == 4 and "d" in client.opening


def test_a_stranger_that_leads_is_known_once_it_was_added():
    async def work():
        client = Scripted([b""], {"a": "d", "d": "d"})
        client.add("d", Address("there", 4))
        assert await client.voters() == ["a", "b"] and client.whom() == "ad"
        client.leader = "c"
        assert client._in_order() == ["c", "d", "a", "b"]
        lock = client.opening["d"]
        client.add("d", Address("elsewhere", 5))
        assert client.opening["d"] is lock and str(client.nodes["d"]) == "elsewhere:5"
    asyncio.run(work())


# --- changes of the members

def change(what: str, name: str, address: str = "") -> bytes:
    return texts_to((what, name, address))


def test_a_node_joins_as_a_learner_and_then_as_a_voter():
    client = Scripted([b"1", b"2"], {"a": "b"})
    assert done(client, client.join("d", Address("there", 4))) is None
    assert client.asked == [("a", "status", b""), ("b", "change", change("learn", "d", "there:4")), ("a", "status", b""),
                            ("b", "change", change("promote", "d"))]
    for answers in ([NoChange("is one"), b"2"], [b"1", NoChange("votes")], [NoChange("is one"), NoChange("votes")]):
        client = Scripted(answers, {"a": "b"})
        assert done(client, client.join("d", Address("there", 4))) is None and client.whom("change") == "bb"


@pytest.mark.parametrize("error", [NotYet("x"), not_leader(), DOWN])
def test_a_change_that_cannot_be_made_yet_is_asked_for_again(error):
    client = Scripted([error, error, b"1"], {"a": "b"})
    assert done(client, client.leave("c")) is None
    assert [body for _, kind, body in client.asked if kind == "change"] == [change("remove", "c")] * 3
    client = Scripted([error], {"a": "b"})
    assert done(client, client.leave("c")) is error and len(client.whom("change")) > 1


@pytest.mark.parametrize("error", [ChangeRefused("x"), NoChange("x"), LeadershipLost("x"), ConnectionLost("x"), Definite("x")])
def test_a_change_that_is_refused_or_unknown_is_not_asked_for_again(error):
    client = Scripted([error, b"never"], {"a": "b"})
    assert done(client, client.leave("c")) is error and client.whom("change") == "b"

"""Traces of etcd's Raft, written by hand: a server is elected, and commits an entry. `make interop` judges real ones."""

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from highwater.cli.main import app
from highwater.traces.recorded.systems import etcd_raft
from highwater.traces.refine import Failure

CONF = [["1", "2", "3"], []]
NOTHING = {"entries": 0, "logTerm": 0, "index": 0, "commit": 0, "vote": "0", "reject": False, "rejectHint": 0}
Lines = list[dict[str, Any]]


def host(name: str, me: str, **fields: Any) -> dict[str, Any]:
    return {"tag": "host", "event": {"name": name, "nid": me, **fields}}


def traced(name: str, me: str, role: str, term: int, vote: str, commit: int, log: int, **fields: Any) -> dict[str, Any]:
    state = {"term": term, "vote": vote, "commit": commit}
    return {"tag": "trace", "event": {"name": name, "nid": me, "state": state, "role": f"State{role}", "log": log, "conf": CONF,
                                      **fields}}


def message(kind: str, sender: str, to: str, **fields: Any) -> dict[str, Any]:
    return {"msg": {"type": kind, "term": 1, "from": sender, "to": to, **NOTHING, **fields}}


def stored(me: str, **fields: Any) -> Lines:
    return [host("Stored", me, **fields), host("Released", me)]


def begun() -> Lines:
    """Three servers start, and have nothing."""
    empty = {"term": 0, "vote": "0", "commit": 0}
    return [line for me in CONF[0] for line in (
        host("Started", me, hard=empty, base={"index": 0, "term": 0}), traced("InitState", me, "Follower", 0, "0", 0, 0),
        traced("BecomeFollower", me, "Follower", 0, "0", 0, 0))]


def elected() -> Lines:
    """Server 2 votes for server 1, which leads term 1."""
    asks, votes = message("MsgVote", "1", "2"), message("MsgVoteResp", "2", "1")
    return [
        *begun(), host("Input", "1", input="Campaign"), traced("BecomeCandidate", "1", "Candidate", 1, "1", 0, 0),
        traced("SendRequestVoteRequest", "1", "Candidate", 1, "1", 0, 0, **asks),
        traced("Ready", "1", "Candidate", 1, "1", 0, 0), *stored("1", hard={"term": 1, "vote": "1", "commit": 0}),
        traced("ReceiveRequestVoteRequest", "2", "Follower", 0, "0", 0, 0, **asks),
        traced("BecomeFollower", "2", "Follower", 1, "0", 0, 0),
        traced("SendRequestVoteResponse", "2", "Follower", 1, "0", 0, 0, **votes),
        traced("Ready", "2", "Follower", 1, "2", 0, 0), *stored("2", hard={"term": 1, "vote": "1", "commit": 0}),
        traced("ReceiveRequestVoteResponse", "1", "Candidate", 1, "1", 0, 0, **votes),
        traced("BecomeLeader", "1", "Leader", 1, "1", 0, 0), traced("Replicate", "1", "Leader", 1, "1", 0, 0)]


def committed() -> Lines:
    """It appends an entry, and commits it when server 2 has it."""
    appends = message("MsgApp", "1", "2", entries=1)
    has = message("MsgAppResp", "2", "1", index=1)
    entry = {"index": 1, "term": 1, "data": "one"}
    return [
        *elected(), traced("SendAppendEntriesRequest", "1", "Leader", 1, "1", 0, 1, **appends),
        traced("Ready", "1", "Leader", 1, "1", 0, 1), *stored("1", entries=[entry]),
        traced("ReceiveAppendEntriesRequest", "2", "Follower", 1, "1", 0, 0, **appends),
        traced("SendAppendEntriesResponse", "2", "Follower", 1, "1", 0, 1, **has),
        traced("Ready", "2", "Follower", 1, "1", 0, 1), *stored("2", entries=[entry]),
        traced("ReceiveAppendEntriesResponse", "1", "Leader", 1, "1", 0, 1, **has),
        traced("Commit", "1", "Leader", 1, "1", 1, 1), traced("Ready", "1", "Leader", 1, "1", 1, 1),
        *stored("1", hard={"term": 1, "vote": "1", "commit": 1})]


def texts(lines: Lines) -> list[str]:
    return [json.dumps(line) for line in lines]


def committed_in(lines: Lines) -> int:
    """Judge a trace, and return how many entries are committed in the model at its end. Raises Failure."""
    recording = etcd_raft.read(texts(lines))
    trace = etcd_raft.begin(recording)
    for event in recording.events:
        trace.observe(event)
    return max((n for _, n in trace.refiner.shared().commits), default=0)


def test_a_trace_is_actions_of_the_model():
    assert committed_in(elected()) == 0 and committed_in(committed()) == 1


def test_a_recorded_proposal_needs_no_recorded_call():
    """The lines of a host tell the inputs of a server, and not who has asked for them."""
    appends = message("MsgApp", "1", "2", entries=1, index=1, logTerm=1, commit=1)
    lines = [*committed(), host("Input", "1", input="Propose"), traced("Replicate", "1", "Leader", 1, "1", 1, 1),
             traced("SendAppendEntriesRequest", "1", "Leader", 1, "1", 1, 2, **appends),
             traced("Ready", "1", "Leader", 1, "1", 1, 2),
             *stored("1", entries=[{"index": 2, "term": 1, "data": "\1as a command of ours begins"}])]
    assert committed_in(lines) == 1


def placed(lines: Lines, name: str, me: str) -> int:
    """Return the place of the last event of this name and server."""
    return max(at for at, line in enumerate(lines) if (line["event"]["name"], line["event"]["nid"]) == (name, me))


@pytest.mark.parametrize("name, me, refused", [
    ("ReceiveRequestVoteResponse", "1", "wins the election|no such message"),
    ("SendAppendEntriesRequest", "1", "which nobody sent"),
    ("ReceiveAppendEntriesResponse", "1", "commits"),
    ("Ready", "2", "which nobody sent"),  # nothing is released, so the acknowledgement is not sent
])
def test_a_line_that_is_missing_is_noticed(name, me, refused):
    lines = committed()
    del lines[placed(lines, name, me)]
    with pytest.raises(Failure, match=refused):
        committed_in(lines)


def test_an_entry_with_another_content_is_noticed():
    lines = committed()
    lines[placed(lines, "Stored", "2")]["event"]["entries"] = [{"index": 1, "term": 1, "data": "another"}]
    with pytest.raises(Failure, match="has another entry 1 of term 1"):
        committed_in(lines)


@pytest.mark.parametrize("lines, why", [
    ([*texts(begun()), "{"], "line 10: it is none"),
    ([*texts(begun()), json.dumps(host("Stored", "9"))], "line 10: it is none"),
    ([*texts(begun()), json.dumps(host("Vanished", "1"))], "line 10: it is none"),
    (texts([line for line in begun() if line["tag"] == "trace"]), "does not say what is durable"),
    (texts([line for line in begun() if line["tag"] == "host"]), "no line tells the members"),
    ([*texts(begun()), texts(begun())[1].replace('"2", "3"', '"2"')], "members of this group change"),
], ids=["no JSON", "no member", "no event", "etcd's lines alone", "the host's lines alone", "members"])
def test_what_is_no_trace_is_refused(lines, why):
    with pytest.raises(ValueError, match=why):
        etcd_raft.read(lines)


def test_the_command_names_the_line(tmp_path):
    file, lines = tmp_path / "etcd.ndjson", committed()
    file.write_text("\n".join(texts(lines)))
    good = CliRunner().invoke(app, ["trace", "check", str(file), "--protocol", "raft"])
    assert good.exit_code == 0 and "3 servers, refine the model" in good.output
    del lines[placed(lines, "ReceiveAppendEntriesResponse", "1")]
    file.write_text("\n".join(texts(lines)))
    bad = CliRunner().invoke(app, ["trace", "check", str(file), "--protocol", "raft"])
    assert bad.exit_code == 11 and f"line {placed(lines, 'Stored', '1') + 1} of" in bad.output
    assert "Server#0 commits in a step" in bad.output
    other = CliRunner().invoke(app, ["trace", "check", str(file), "--protocol", "log_gc", "--shape", "a=1"])
    assert other.exit_code != 0 and "leave out --shape" in " ".join(other.output.split())

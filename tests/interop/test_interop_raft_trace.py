"""The trace of etcd's Raft, which it writes if it is built with the tag `with_tla`, refines our model of Raft.

tools/raft/etcd/traced runs etcd's servers under drawn faults. It needs Go; without it the tests are skipped.

    HIGHWATER_DRAWN=2000 .venv/bin/python -m pytest -m interop tests/interop/test_interop_raft_trace.py -s

judges two thousand traces for each setting. Edited traces, and those of etcd with a bug, are refused.
"""

import json
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from highwater.model.protocols import raft as model
from highwater.traces.protocols import raft
from highwater.traces.recorded.systems import etcd_raft
from highwater.traces.refine import Failure
from tests.support import etcd

pytestmark = pytest.mark.interop
ENOUGH = 20  # traces of a setting, of which one meets each witness
DRAWN = int(os.environ.get("HIGHWATER_DRAWN", ENOUGH))
SETTINGS = ((), ("-prevote",), ("-prevote", "-checkquorum"))
EDITED, PLACES, BUGGY = 5, 4, 100
Line = dict[str, Any]
UNCOUNTED = "CommittedSurvivesRestart"  # the model of traces counts no restarts
WITNESSES = {name: holds for name, (role, holds) in model.SOMETIMES.items() if role is None and name != UNCOUNTED}


@pytest.fixture(scope="module")
def program() -> Path:
    return etcd.traced()


def recorded(program: Path, seed: int, *flags: str) -> list[str]:
    """Run etcd's servers. A panic of theirs ends the trace."""
    return subprocess.run([program, "-seed", str(seed), *flags], capture_output=True, text=True).stdout.splitlines()


@lru_cache(2)
def refiner(servers: int):
    return raft.refiner(raft.constants(servers))


def judged(lines: list[str], met: Counter[str] | None = None) -> Failure | None:
    """Return why a trace is refused; None if it is not. `met` counts the lines, the events and the witnesses in it."""
    recording = etcd_raft.read(lines)
    trace = etcd_raft.begin(recording, refiner(recording.servers))
    shared, found = set(), set[str]()
    for event in recording.events:
        try:
            trace.observe(event)
        except Failure as failure:
            return failure
        shared.add(trace.refiner.states[0])
        if met is not None and event.kind == "step":
            found.update(name for name, holds in WITNESSES.items() if name not in found
                         and holds(trace.refiner.model.constants, trace.refiner.shared()))
    if met is not None:
        met.update(found)
        met.update(traces=1, lines=len(lines), events=len(recording.events),
                   snapshots=sum(event.op == "Installed" for event in recording.events),
                   restarts=sum(event.kind == "died" for event in recording.events))
    return None


@pytest.mark.parametrize("nodes", (3, 5))
@pytest.mark.parametrize("flags", SETTINGS)
def test_etcds_trace_refines_our_model(program, nodes, flags):
    met = Counter[str]()
    for seed in range(DRAWN):
        failure = judged(recorded(program, seed, "-nodes", str(nodes), "-steps", "600", *flags), met)
        assert failure is None, f"seed {seed}: {failure.message}"
    print(f"\n{nodes} nodes, {' '.join(flags) or 'no flags'}: {dict(met)}")
    needed = [name for name in (*WITNESSES, "snapshots", "restarts") if nodes == 3 or name != "CommittedBeforeOwnSync"]
    assert DRAWN < ENOUGH or all(met[name] for name in needed)


# --- traces of servers that did something else

def events_of(lines: list[Line], name: str) -> Iterator[tuple[int, Line]]:
    for number, line in enumerate(lines):
        if line["event"]["name"] == name:
            yield number, line["event"]


def with_event(lines: list[Line], number: int, **fields: Any) -> list[Line]:
    """Return the lines with other fields of one event; None takes a field out."""
    event = {name: value for name, value in (lines[number]["event"] | fields).items() if value is not None}
    return [*lines[:number], {**lines[number], "event": event}, *lines[number + 1:]]


def without(lines: list[Line], number: int) -> list[Line]:
    return lines[:number] + lines[number + 1:]


def with_message(lines: list[Line], old: Line, **fields: Any) -> list[Line]:
    """Return the lines with another message in the place of one, where it is sent and where it arrives."""
    return [{**line, "event": {**line["event"], "msg": old | fields}} if line["event"].get("msg") == old else line
            for line in lines]


def commits_too_early(lines: list[Line]) -> Iterator[list[Line]]:
    for number, of in events_of(lines, "Ready"):
        if of["role"] == "StateLeader" and of["state"]["commit"] < of["log"]:
            yield with_event(lines, number, state=of["state"] | {"commit": of["log"]})


def follower_commits_too_early(lines: list[Line]) -> Iterator[list[Line]]:
    for number, of in events_of(lines, "Ready"):
        if of["role"] == "StateFollower" and of["state"]["commit"] < of["log"]:
            yield with_event(lines, number, state=of["state"] | {"commit": of["log"]})


def votes_twice(lines: list[Line]) -> Iterator[list[Line]]:
    for _, of in events_of(lines, "SendRequestVoteResponse"):
        if of["msg"]["reject"] and of["state"]["vote"] not in ("0", of["msg"]["to"]) and of["msg"]["from"] != of["msg"]["to"]:
            yield with_message(lines, of["msg"], reject=False)


def saves_another_vote(lines: list[Line]) -> Iterator[list[Line]]:
    for number, of in events_of(lines, "Stored"):
        if of.get("hard", {}).get("vote", "0") not in ("0", of["nid"]):
            yield with_event(lines, number, hard=of["hard"] | {"vote": of["nid"]})


def loses_its_vote(lines: list[Line]) -> Iterator[list[Line]]:
    """A new vote is not stored, and sent."""
    votes: dict[str, tuple] = {}
    for number, of in events_of(lines, "Stored"):
        if "hard" in of:
            vote = of["hard"]["term"], of["hard"]["vote"]
            if vote[1] not in ("0", of["nid"]) and votes.get(of["nid"]) != vote and "entries" not in of:
                yield with_event(lines, number, hard=None)
            votes[of["nid"]] = vote


def stores_nothing(lines: list[Line]) -> Iterator[list[Line]]:
    """Entries are not stored, and acknowledged."""
    for number, of in events_of(lines, "Stored"):
        message = lines[number - 2]["event"].get("msg", {})
        if "entries" in of and message.get("type") == "MsgAppResp" and message["from"] == of["nid"] != message["to"]:
            yield with_event(lines, number, entries=None)


def stores_another_entry(lines: list[Line]) -> Iterator[list[Line]]:
    """An entry of the same index and term has another content than on another server."""
    stored = Counter((entry["index"], entry["term"]) for _, of in events_of(lines, "Stored") for entry in of.get("entries", ()))
    for number, of in events_of(lines, "Stored"):
        for entry in of.get("entries", ()):
            if stored[entry["index"], entry["term"]] > 1:
                others = [{**one, "data": "another"} if one is entry else one for one in of["entries"]]
                yield with_event(lines, number, entries=others)
                break


def stores_another_term(lines: list[Line]) -> Iterator[list[Line]]:
    for number, of in events_of(lines, "Stored"):
        if "entries" in of and of["entries"][-1]["term"] > 1:
            *most, last = of["entries"]
            yield with_event(lines, number, entries=[*most, {**last, "term": last["term"] - 1}])


def acknowledges_too_much(lines: list[Line]) -> Iterator[list[Line]]:
    for _, of in events_of(lines, "SendAppendEntriesResponse"):
        message = of["msg"]
        if message["type"] == "MsgAppResp" and not message["reject"] and message["index"] and message["from"] != message["to"]:
            yield with_message(lines, message, index=message["index"] + 1)


def leads_without_votes(lines: list[Line]) -> Iterator[list[Line]]:
    for number, _ in events_of(lines, "ReceiveRequestVoteResponse"):
        if lines[number + 1]["event"]["name"] == "BecomeLeader":
            yield without(lines, number)


def hears_what_nobody_said(lines: list[Line]) -> Iterator[list[Line]]:
    for number, of in events_of(lines, "SendAppendEntriesRequest"):
        if sum(line["event"].get("msg") == of["msg"] for line in lines) == 2:
            yield without(lines, number)


def appends_after_another_entry(lines: list[Line]) -> Iterator[list[Line]]:
    for _, of in events_of(lines, "SendAppendEntriesRequest"):
        if of["msg"]["type"] == "MsgApp" and of["msg"]["index"]:
            yield with_message(lines, of["msg"], logTerm=of["msg"]["logTerm"] + 1)


def stands_with_another_log(lines: list[Line]) -> Iterator[list[Line]]:
    for _, of in events_of(lines, "SendRequestVoteRequest"):
        yield with_message(lines, of["msg"], index=of["msg"]["index"] + 1)


def starts_with_less(lines: list[Line]) -> Iterator[list[Line]]:
    for number, of in events_of(lines, "Started"):
        if "entries" in of:
            yield with_event(lines, number, entries=of["entries"][:-1])


def starts_without_its_vote(lines: list[Line]) -> Iterator[list[Line]]:
    for number, of in events_of(lines, "Started"):
        if of["hard"]["vote"] != "0":
            yield with_event(lines, number, hard=of["hard"] | {"vote": "0"})


def installs_another_snapshot(lines: list[Line]) -> Iterator[list[Line]]:
    for number, of in events_of(lines, "Stored"):
        if "snapshot" in of:
            yield with_event(lines, number, snapshot=of["snapshot"] | {"index": of["snapshot"]["index"] + 1})


EDITS = (commits_too_early, follower_commits_too_early, votes_twice, saves_another_vote, loses_its_vote, stores_nothing,
         stores_another_entry, stores_another_term, acknowledges_too_much, leads_without_votes, hears_what_nobody_said,
         appends_after_another_entry, stands_with_another_log, starts_with_less, starts_without_its_vote,
         installs_another_snapshot)


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.__name__)
def test_an_edited_trace_is_refused(program, edit):
    refused = 0
    for seed in range(EDITED):
        lines = [json.loads(line) for line in recorded(program, seed, "-steps", "600")]
        for edited in islice(edit(lines), PLACES):
            assert judged([json.dumps(line) for line in edited]) is not None, f"seed {seed}"
            refused += 1
    print(f"\n{edit.__name__}: {refused} refused")
    assert refused


# --- etcd with a bug

BUGS = {  # bug -> file of etcd's module, what is there, what is put there
    "an entry of an earlier term is committed": (
        "log.go", "if at.term != 0 && at.index > l.committed && l.matchTerm(at) {",
        "if at.term != 0 && at.index > l.committed {"),
    "a server votes twice": ("raft.go", "canVote := r.Vote == m.GetFrom() ||", "canVote := true || r.Vote == m.GetFrom() ||"),
    "a candidate may lack entries": (
        "log.go", "return their.term > our.term || their.term == our.term && their.index >= our.index", "return our.term >= 0"),
    "only the length of a log counts": (
        "log.go", "return their.term > our.term || their.term == our.term && their.index >= our.index",
        "return their.index >= our.index"),
    "entries are appended to any log": ("log.go", "if !l.matchTerm(a.prev) {", "if a.prev.index > l.lastIndex() {"),
    "half of the servers are enough": ("quorum/majority.go", "pos := n - (n/2 + 1)", "pos := n - n/2"),
    "a rejected append counts": ("raft.go", "if m.GetReject() {", "if m.GetReject() && m.GetRejectHint() > 1 {"),
    "a vote outlives its term": ("raft.go", "\tif r.Term != term {\n\t\tr.Term = term\n\t\tr.Vote = None\n",
                                 "\tif r.Term != term {\n\t\tr.Term = term\n"),
    "a heartbeat commits what a follower lacks": ("raft.go", "commit := min(pr.Match, r.raftLog.committed)",
                                                  "commit := r.raftLog.committed"),
}


@pytest.mark.parametrize("bug", BUGS)
def test_etcd_with_a_bug_is_convicted(bug, tmp_path):
    file, old, new = BUGS[bug]
    module, sources, program = tmp_path / "raft", tmp_path / "sources", tmp_path / "program"
    shutil.copytree(etcd.module(), module, copy_function=shutil.copyfile)
    shutil.copytree(etcd.SOURCES, sources, copy_function=shutil.copyfile)
    text = (module / file).read_text()
    assert old in text, f"etcd's {file} has changed"
    (module / file).write_text(text.replace(old, new, 1))
    with open(sources / "go.mod", "a") as go_mod:
        go_mod.write(f"\nreplace go.etcd.io/raft/v3 => {module}\n")
    assert not (problem := etcd.traced_at(program, sources)), problem
    for seed in range(BUGGY):
        if failure := judged(recorded(program, seed, "-steps", "1000")):
            print(f"\n{bug}: seed {seed}, {failure.signature}: {failure.message}")
            return
    pytest.fail(f"no trace of {BUGGY} convicts etcd of this: {bug}")

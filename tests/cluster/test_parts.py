"""The parts of a process of a cluster, one by one: its status, metrics, levels, members, its folder, and what it refuses."""

import asyncio
import json
import logging
import signal
from types import SimpleNamespace
from typing import Any

import pytest

from highwater.cluster import calls, levels, metrics, server, service, status
from highwater.cluster.calls import BadRequest
from highwater.cluster.check import NoFolder, checked, level_in, members_in, owner_of
from highwater.cluster.client import Client, Connection, ConnectionLost, Unreachable
from highwater.cluster.members import following_members
from highwater.cluster.recover import recover, recoverable
from highwater.cluster.server import change_of, known_by, running
from highwater.cluster.service import BadService, loaded
from highwater.dst.scripts.replicated.servers import leader
from highwater.dst.scripts.replicated.servers import server as a_server
from highwater.impl.level import FORMS, Level, encoded
from highwater.impl.node_world import DiskFailed
from highwater.impl.raft import members
from highwater.impl.raft.entries import COMMAND, LEVEL, MEMBERS, NOOP, Entry, Log, last_index
from highwater.impl.raft.faults import (
    NoChange,
    NodeStopped,
    NotLeader,
    NotRunning,
    NoVoter,
    OtherNode,
    OtherVersion,
    TermSpoilt,
)
from highwater.impl.raft.identity import FolderIdentity
from highwater.impl.raft.log import open_log
from highwater.impl.raft.members import Configuration, Members
from highwater.impl.raft.snapshots import EMPTY, Snapshot
from highwater.impl.raft.state import CANDIDATE, FOLLOWER, LEADER, PRE_CANDIDATE, Save, Tick
from highwater.impl.stores.folder_disk import FolderDisk
from highwater.impl.stores.frames import framed, texts_to
from highwater.impl.stores.stream_net import Address, AddressInUse
from highwater.servers.leash import free_port
from tests.cluster.test_server import COUNTING, WAIT_S, one
from tests.support.signals import deliver

ABC = Members(("a", "b", "c"))


# --- levels

def node_of(state: Any, level: Level, stopped: str = "") -> Any:
    return SimpleNamespace(state=state, level=level, known=Level(2, 3), stopped=stopped)


@pytest.mark.parametrize("known, level, wanted", [
    ({"b": Level(2, 3), "c": Level(2, 3)}, Level(1, 1), Level(2, 3)), ({"b": Level(1, 3), "c": Level(2, 2)}, Level(1, 1),
        Level(1, 2)),
    ({"b": Level(9, 9), "c": Level(9, 9)}, Level(1, 1), Level(2, 3)), ({"b": Level(2, 3)}, Level(1, 1), None),
    ({"b": Level(1, 1), "c": Level(2, 3)}, Level(1, 1), None), ({"b": Level(2, 3), "c": Level(2, 3)}, Level(2, 3), None),
    ({"b": Level(2, 1), "c": Level(2, 1)}, Level(1, 2), Level(2, 2)), ({}, Level(1, 1), None)])
def test_the_level_rises_to_what_every_member_knows(known, level, wanted):
    node = node_of(leader(), level)
    assert levels.possible(node, known.get) == wanted
    assert levels.possible(node_of(a_server(), level), known.get) is None
    assert levels.possible(node_of(leader(), level, stopped="why"), known.get) is None


def test_a_leader_raises_the_level_and_says_so(caplog):
    caplog.set_level(logging.INFO, "highwater")
    raised: list[Level] = []

    async def work():
        node = node_of(leader(), Level(1, 1))
        waits = iter(range(4))

        async def sleep_ms(duration_ms: int) -> None:
            assert duration_ms == 500
            if next(waits, None) is None:
                raise asyncio.CancelledError

        async def raise_level(wanted: Level) -> None:
            raised.append(wanted)
            if len(raised) == 1:
                raise NotLeader("a", "")
            node.level = wanted

        node.world, node.raise_level = SimpleNamespace(clock=SimpleNamespace(sleep_ms=sleep_ms)), raise_level
        with pytest.raises(asyncio.CancelledError):
            await levels.raise_on(node, lambda peer: Level(2, 2))

    asyncio.run(work())
    assert raised == [Level(2, 2)] * 2
    assert [record.getMessage() for record in caplog.records] == [
        f"node 'a': the level does not rise to 2.2 yet: {NotLeader('a', '')}", "node 'a': the cluster is at level 2.2"]


def test_levels_rise_within_the_context_only():
    looks: list[int] = []

    async def work():
        node = node_of(leader(), Level(1, 1))

        async def sleep_ms(duration_ms: int) -> None:
            looks.append(duration_ms)
            await asyncio.sleep(0.001)

        async def raise_level(wanted: Level) -> None:
            node.level = wanted

        node.world, node.raise_level = SimpleNamespace(clock=SimpleNamespace(sleep_ms=sleep_ms)), raise_level
        async with levels.raising(node, lambda peer: Level(2, 2)), asyncio.timeout(WAIT_S):
            while node.level != Level(2, 2):
                await asyncio.sleep(0.001)
        count = len(looks)
        await asyncio.sleep(0.02)
        assert len(looks) == count, "it has ended"

    asyncio.run(work())


# --- members

class Dialled:
    """A net that notes whom it is to dial."""

    def __init__(self):
        self.done: list[Any] = []

    def reach(self, name: str, address: Address) -> None:
        self.done.append((name, str(address)))

    def forget(self, name: str) -> None:
        self.done.append(name)


def test_connections_follow_the_members(caplog):
    caplog.set_level(logging.INFO, "highwater")
    first = leader()
    state, net = first._replace(commit=5, configurations=(Configuration(0, ABC),)), Dialled()
    following: list[Any] = []
    step = following_members(lambda before, given: (following.pop(0), ("out",)), net)

    def then(members: Members | None, given: Any = None, index: int = 6, commit: int = 5) -> list[Any]:
        nonlocal state
        changed = state.configurations if members is None else (*state.configurations, Configuration(index, members))
        following.append(state._replace(configurations=changed, commit=commit))
        net.done, before = [], state
        state, outputs = step(before, given)
        assert outputs == ("out",)
        return net.done

    joined = Members(("a", "b", "c"), ("d",), (("d", "there:4"), ("e", "no address")))
    assert then(None, Tick()) == [] and then(joined) == [("d", "there:4")]
    assert then(joined._replace(learners=())) == [("d", "there:4")]
    assert then(None, Tick()) == [], "the change is not committed"
    assert then(None, None, commit=6) == [] and then(None, Tick(), commit=6) == ["d"]
    assert then(None, Tick(), commit=6) == []
    assert then(Members(("a", "b")), index=7, commit=6) == [] and then(ABC, index=8, commit=6) == []
    assert then(None, Tick(), commit=8) == [], "it came back"
    assert then(Members(()), index=9, commit=8) == []
    said = [record.getMessage() for record in caplog.records]
    assert said.pop() == "node 'a': the voters are unknown; the learners none"
    assert said[0] == "node 'a': the voters are a, b, c; the learners d" and len(said) == 4
    assert said[2] == "node 'a': the voters are a, b; the learners none"


# --- status and metrics

def test_roles_are_logged_once_they_change(caplog):
    caplog.set_level(logging.INFO, "highwater")
    state = leader()
    for before, after, leads in ((FOLLOWER, PRE_CANDIDATE, ""), (PRE_CANDIDATE, FOLLOWER, ""), (PRE_CANDIDATE, CANDIDATE, ""),
                                 (CANDIDATE, LEADER, "a"), (LEADER, LEADER, "a"), (LEADER, FOLLOWER, "b")):
        following = state._replace(role=after, leader=leads)
        step = status.logging_roles(lambda before, given, following=following: (following, ("out",)))
        assert step(state._replace(role=before), Tick()) == (following, ("out",))
    assert [record.getMessage() for record in caplog.records] == [
        "node 'a': follower -> candidate in term 5, leader unknown", "node 'a': candidate -> leader in term 5, leader 'a'",
        "node 'a': leader -> follower in term 5, leader 'b'"]


def test_metrics_as_text():
    told = {"node": 'a"\\\n', "role": LEADER, "term": 1, "last": 2, "commit": 3, "applied": 4, "snapshot": 5,
            "uncommitted_bytes": 6,
            "unwritten_saves": 7, "queued_frames": 8, "clients": 9, "level": [2, 3], "stopped": "", "lag": {"b": 4}}
    counters: Any = SimpleNamespace(snapshot=lambda: {"net.sent": 5})
    label = r'node="a\"\\\n"'
    assert status.prometheus(told, counters).splitlines() == [
        *(f'highwater_raft_role{{{label},role="{role}"}} {int(role == LEADER)}' for role in (
            "follower", "pre-candidate", "candidate", "leader")),
        *(f"highwater_raft_{name}{{{label}}} {number}" for number, name in enumerate((
            "term", "last", "commit", "applied", "snapshot", "uncommitted_bytes", "unwritten_saves", "queued_frames",
            "clients"), 1)),
        f'highwater_raft_level{{{label},part="forms"}} 2', f'highwater_raft_level{{{label},part="machine"}} 3',
        f"highwater_raft_running{{{label}}} 1", f'highwater_raft_lag{{{label},follower="b"}} 4',
        f"highwater_net_sent{{{label}}} 5"]
    assert f"highwater_raft_running{{{label}}} 0" in status.prometheus(told | {"stopped": "why"}, counters)


def test_syncs_are_timed():
    seen: list[Any] = []

    async def sync(name: str) -> None:
        seen.append(name)

    times = iter((5.0, 7.5))
    disk = status.timed(SimpleNamespace(sync=sync, other=9), SimpleNamespace(observe=lambda *of: seen.append(of)),
                        lambda: next(times))
    asyncio.run(disk.sync("log"))
    assert seen == ["log", ("disk_sync_seconds", 2.5)] and disk.other == 9


async def fetched(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    found = await reader.read()
    writer.close()
    return found


def test_a_page_of_metrics_is_served(monkeypatch):
    monkeypatch.setattr(metrics, "LIMIT_S", 1.0)

    async def work():
        port = free_port()
        async with metrics.serving_metrics(port, lambda: "é 1\n"):
            right = (b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: 5\r\n"
                     b"Connection: close\r\n\r\n\xc3\xa9 1\n")
            for path in ("/metrics", "/metrics?x=1", "/"):
                assert await fetched(port, f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()) == right
            for request in (b"GET /other HTTP/1.1\r\n\r\n", b"POST /metrics HTTP/1.1\r\n\r\n"):
                found = await fetched(port, request)
                assert found.startswith(b"HTTP/1.1 404 Not Found\r\n") and found.endswith(b"\r\n\r\nmetrics are at /metrics\n")
            assert await fetched(port, b"GET /metrics") == b"", "whose request does not end gets no answer"
            with pytest.raises(AddressInUse, match=f"metrics cannot be served on 127.0.0.1:{port}: .*end the other process"):
                async with metrics.serving_metrics(port, str):
                    pass
        monkeypatch.setattr(asyncio, "start_server", lambda *of: pytest.fail("nobody has asked for a page"))
        async with metrics.serving_metrics(None, str):
            pass

    asyncio.run(work())


# --- requests

def test_changes_of_members_are_read():
    for right in (("learn", "d", "there:4"), ("promote", "d", ""), ("remove", "d", "")):
        assert change_of(texts_to(right)) == right
    for wrong in (("other", "d", ""), ("learn", "d", ""), ("learn", "d", "there"), ("promote", "d", "there:4"), ("remove", "",
        ""),
                  ("learn", "", "there:4")):
        with pytest.raises(BadRequest, match=f"'{wrong[0]}' of '{wrong[1]}' at '{wrong[2]}' is no change of the members"):
            change_of(texts_to(wrong))
    for body in (b"", texts_to(("learn", "d"))):
        with pytest.raises(BadRequest):
            change_of(body)


def test_a_node_answers_each_request(tmp_path):
    async def work():
        async with one(tmp_path) as (made, address), Client({"1": address}) as client:
            assert await client.propose(b"x") == b"0" and await client.query(b"?") == b"?1"
            told = await client.status("1")
            assert told == json.loads(json.dumps(made.status())) | {"commit": told["commit"], "clients": told["clients"]}
            assert told["level"] in ([1, 1], [FORMS, 1])  # it rises soon after the start
            assert told | {"term": 0, "commit": 0, "applied": 0, "last": 0, "level": [1, 1]} == {
                "node": "1", "cluster": "main", "level": [1, 1], "known": [FORMS, 1], "role": LEADER, "term": 0, "leader": "1",
                "voters": ["1"], "learners": [], "last": 0, "commit": 0, "applied": 0, "snapshot": 0, "lag": {}, "stopped": "",
                "uncommitted_bytes": 0, "unwritten_saves": 0, "queued_frames": 0, "connected": [], "clients": 1}
            assert told["applied"] == told["commit"] == told["last"] == made.node.applied > 1
            for call, error in ((client.propose(b""), BadRequest), (client.leave("9"), NoChange)):
                with pytest.raises(error):
                    await call
            connection = client.connections["1"]
            with pytest.raises(NoVoter):
                await connection.ask(calls.TRANSFER, b"9")
            assert await client.transfer("1") is None
            index = await connection.ask(calls.CHANGE, texts_to(("learn", "2", "127.0.0.1:1")))
            assert index == b"%d" % (told["last"] + 1) and (await client.status("1"))["learners"] == ["2"]
            assert await made._result(calls.PROPOSE, b"y") == b"1"
            made.settings = made.settings._replace(takes_clients=False)
            for kind in (calls.PROPOSE, calls.QUERY):
                with pytest.raises(BadRequest, match="this cluster has an API of its own"):
                    await connection.ask(kind, b"x")
            assert json.loads(await connection.ask(calls.STATUS, b""))["node"] == "1"
            with pytest.raises(NoChange):
                await connection.ask(calls.CHANGE, texts_to(("remove", "9", "")))
            await client.leave("2")
            ending = asyncio.ensure_future(made.ended())
            await asyncio.sleep(0)
            await made.node.close()
            assert await ending == made.node.stopped != ""
            with pytest.raises(NotRunning):
                await connection.ask(calls.TRANSFER, b"1")

    asyncio.run(work())


def test_an_answer_that_cannot_be_read_ends_the_connection(tmp_path, monkeypatch):
    async def work():
        async with one(tmp_path) as (made, address):
            async def transfer(target: str) -> None:
                assert target == "2"

            made.node.transfer = transfer
            connection = await Connection.open(address, "main")
            assert await connection.ask(calls.TRANSFER, b"2") == b""
            monkeypatch.setattr(calls, "answer_to", lambda number, result, me: b"nonsense")
            with pytest.raises(ConnectionLost, match="node '1' ended before the answer: an answer of 8 bytes"):
                await connection.ask(calls.QUERY, b"")
            connection.ended, connection.waiting = "", {}
            connection.writer.write = lambda body: (_ for _ in ()).throw(OSError(5, "broken"))
            with pytest.raises(ConnectionLost, match="the connection to node '1' ended: "):
                await connection.ask(calls.QUERY, b"")
            assert not connection.waiting

    asyncio.run(work())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_process_ends_at_a_signal_and_when_its_node_stops(tmp_path, number, caplog):
    caplog.set_level(logging.INFO, "highwater")

    async def work():
        address = Address("127.0.0.1", free_port())
        settings = server.Settings(str(tmp_path), "1", {"1": address}, COUNTING, options=server.OPTIONS._replace(tick_ms=10))
        serving = asyncio.ensure_future(server.serve(settings))
        async with Client({"1": address}, limit_s=WAIT_S) as client:
            assert await client.propose(b"x") == b"0"
        deliver(number)
        assert await serving == ""
        said = f"node '1' of cluster 'main' serves {address}, and knows levels up to {FORMS}.1"
        assert said in [record.getMessage() for record in caplog.records]
        disk: Any = FolderDisk(str(tmp_path))

        async def sync(name: str) -> None:
            raise DiskFailed("no sync")

        serving = asyncio.ensure_future(server.serve(settings, disk))
        async with Client({"1": address}, limit_s=WAIT_S) as client:
            assert await client.propose(b"x") == b"1"
            disk.sync = sync
            with pytest.raises(NodeStopped):
                await client.propose(b"x")
        assert "no sync" in await serving
        await disk.close()
        asyncio.get_running_loop().remove_signal_handler(number)

    asyncio.run(work())


def test_a_connection_ends_once(tmp_path):
    async def work():
        async with one(tmp_path) as (made, address):
            first = await Connection.open(address, "main", "1")
            assert first.node == "1" and await first.ask(calls.PROPOSE, b"x") == b"0" and not first.waiting
            waits = asyncio.Event()
            made.node.read = waits.wait
            asking = asyncio.ensure_future(first.ask(calls.QUERY, b""))
            while not first.waiting:
                await asyncio.sleep(0)
            await first.close()
            with pytest.raises(ConnectionLost,
                               match="the connection to node '1' ended before the answer: the client closed it"):
                await asking
            with pytest.raises(Unreachable, match="the connection to node '1' has ended: the client closed it"):
                await first.ask(calls.QUERY, b"")
            client = Client({"1": address}, limit_s=0.2)
            with pytest.raises(ConnectionLost, match=r"node '1' gave no answer within 0\.2 s"):
                await client._ask("1", calls.QUERY, b"")
            before = client.connections["1"]
            assert before.ended and await client._connection("1") is not before
            assert await client._connection("1") is client.connections["1"]
            async with client:
                pass
            assert client.connections == {}
        port = free_port()
        with pytest.raises(Unreachable, match=f"127.0.0.1:{port} cannot be reached"):
            await Connection.open(Address("127.0.0.1", port), "main")

        async def nonsense(reader: Any, writer: Any) -> None:
            writer.write(framed(b"nonsense"))
            writer.close()

        async with await asyncio.start_server(nonsense, "127.0.0.1", port):
            with pytest.raises(Unreachable, match=f"127.0.0.1:{port} does not take the connection"):
                await Connection.open(Address("127.0.0.1", port), "main")

    asyncio.run(work())


def test_a_node_is_one_of_the_nodes(tmp_path):
    async def work():
        settings = server.Settings(str(tmp_path / "x"), "9", {"1": Address("127.0.0.1", 1), "2": Address("127.0.0.1", 2)},
                                   COUNTING)
        with pytest.raises(BadRequest, match="node '9' is none of the nodes 1, 2"):
            async with running(settings):
                pass
        assert not (tmp_path / "x").exists() and known_by(settings) == Level(FORMS, 1)
        newer = settings._replace(service=COUNTING._replace(machine=COUNTING.machine._replace(level=7)),
                                  options=settings.options._replace(forms=5))
        assert known_by(newer) == Level(5, 7)

    asyncio.run(work())


# --- folders

async def content(folder: Any) -> Any:
    disk = FolderDisk(str(folder))
    try:
        return await checked(disk)
    finally:
        await disk.close()


def test_a_folder_is_checked_and_recovered(tmp_path):
    async def work():
        folder = tmp_path / "node"
        async with one(folder) as (made, address), Client({"1": address}) as client:
            for _ in range(3):
                await client.propose(b"x")
            await made.node.change("learn", "2", "127.0.0.1:1")
            last, term = made.node.state.commit, made.node.state.term
        files = {file.name: file.read_bytes() for file in folder.iterdir()}
        found = await content(folder)
        assert found == found._replace(
            whose=FolderIdentity("main", "1", ("1",)), node="1", term=term, vote="1", first=1, last=last, last_term=term,
            segments=1, unfinished=(), torn_bytes=0, members=Members(("1",), ("2",), (("2",
                "127.0.0.1:1"),)), level=found.level)
        assert (found.snapshot.index, found.snapshot.term) == (0, 0)
        assert {file.name: file.read_bytes() for file in folder.iterdir()} == files, "nothing is changed"
        disk = FolderDisk(str(folder))
        with pytest.raises(OtherNode, match="the folder is of cluster 'main': give the new cluster another name"):
            await recoverable(disk, "main")
        await disk.close()
        disk = FolderDisk(str(folder))
        assert await recover(disk, "new") == found
        await disk.close()
        after = await content(folder)
        assert after.whose == FolderIdentity("new", "1", ()) and after.members == Members(("1",))
        assert (after.last, after.term, after.vote, after.last_term) == (last + 1, term + 1, "1", term + 1)
        disk = FolderDisk(str(folder))
        assert (await recoverable(disk, "new")).last == last + 1, "it goes on"
        await disk.close()
        settings = server.Settings(str(folder), "1", {"1": Address("127.0.0.1", free_port())}, COUNTING, "new", join=True,
                                   options=server.OPTIONS._replace(tick_ms=10))
        async with running(settings) as made:
            async with asyncio.timeout(WAIT_S):
                while made.node.state.role != LEADER or made.node.applied < last + 1:
                    await asyncio.sleep(0.005)
            assert made.node.value == 3 and made.node.state.voters == ("1",)
            assert {entry.kind for entry in made.node.state.log.entries} == {NOOP, COMMAND, MEMBERS}

    asyncio.run(work())


@pytest.mark.parametrize("term", (2**62 - 1, 2**63 - 1, 2**64 - 1))
def test_a_folder_with_a_spoilt_term_is_refused_and_recovered(tmp_path, term):
    """Earlier versions made any term durable that a message had, and ended at each start after that."""
    async def work():
        folder = tmp_path / "node"
        async with one(folder) as (made, address), Client({"1": address}) as client:
            await client.propose(b"x")
            last_term = made.node.state.term
        disk = FolderDisk(str(folder))
        log, recovered = await open_log(disk, "1", (0, 0))
        await log.write([Save(1, term, "", last_index(recovered.log) + 1, ())])
        await disk.close()
        before = {file.name: file.read_bytes() for file in folder.iterdir()}
        with pytest.raises(TermSpoilt, match=f"its log is in term {term:,}, to which no group comes"):
            async with one(folder):
                pass
        found = await content(folder)
        assert found.term == term and found.is_spoilt()
        assert {file.name: file.read_bytes() for file in folder.iterdir()} == before, "nothing is changed"
        disk = FolderDisk(str(folder))
        assert await recover(disk, "new") == found
        await disk.close()
        after = await content(folder)
        assert (after.last, after.term, after.last_term) == (found.last + 1, last_term + 1, last_term + 1)
        assert not after.is_spoilt()
        settings = server.Settings(str(folder), "1", {"1": Address("127.0.0.1", free_port())}, COUNTING, "new", join=True,
                                   options=server.OPTIONS._replace(tick_ms=10))
        async with running(settings) as made, asyncio.timeout(WAIT_S):
            while made.node.applied < found.last + 1:
                await asyncio.sleep(0.005)
            assert made.node.value == 1

    asyncio.run(work())


def test_what_is_no_folder_of_a_node(tmp_path):
    async def work():
        with pytest.raises(NoFolder, match="no segment of a log is in it"):
            await content(tmp_path / "empty")
        folder = tmp_path / "node"
        async with one(folder) as (_, address), Client({"1": address}) as client:
            await client.propose(b"x")
        (segment,) = [file for file in folder.iterdir() if owner_of(file.read_bytes()) == "1"]
        assert segment.name != "identity" and owner_of(b"nonsense") == ""
        whole = segment.read_bytes()
        segment.write_bytes(whole + b"torn")
        found = await content(folder)
        assert found.torn_bytes == 4 and segment.read_bytes() == whole + b"torn"
        (folder / "identity").unlink()
        assert (await content(folder)).whose is None
        disk = FolderDisk(str(folder))
        with pytest.raises(OtherNode, match="no server of a cluster was ever opened in this folder"):
            await recoverable(disk, "new")
        await disk.close()

    asyncio.run(work())


def test_a_folder_has_the_new_clusters_name_before_anything_else(tmp_path, monkeypatch):
    """If the process ends then, the node reaches none of its former cluster, and the same call goes on."""
    async def work():
        folder = tmp_path / "node"
        async with one(folder) as (_, address), Client({"1": address}) as client:
            await client.propose(b"x")
        disk = FolderDisk(str(folder))

        async def failing(*of: Any, **more: Any) -> None:
            raise DiskFailed("as the test says")

        with monkeypatch.context() as within:
            within.setattr("highwater.cluster.recover.open_log", failing)
            with pytest.raises(DiskFailed):
                await recover(disk, "new")
        await disk.close()
        assert (await content(folder)).whose == FolderIdentity("new", "1", ())
        disk = FolderDisk(str(folder))
        await recover(disk, "new")
        await disk.close()
        assert (await content(folder)).members == Members(("1",))

    asyncio.run(work())


@pytest.mark.parametrize("join, voters", [(True, ()), (False, ("1", "2"))])
def test_a_node_that_joins_begins_without_voters(tmp_path, join, voters):
    async def work():
        nodes = {name: Address("127.0.0.1", free_port()) for name in ("2", "1")}
        settings = server.Settings(str(tmp_path), "2", nodes, COUNTING, join=join)
        for _ in range(2):
            async with running(settings) as made:
                assert made.node.state.voters == voters and made.status()["voters"] == list(voters)
                assert made.status()["connected"] == [] and made.node.state.role != LEADER
            assert (await content(tmp_path)).whose == FolderIdentity("main", "2", voters)

    asyncio.run(work())


def test_members_and_level_of_a_folder_are_those_of_its_last_entries():
    snapshot = Snapshot(10, 1, ("a", "b"), b"", None, Level(2, 1))
    raised, changed = Entry(1, LEVEL, encoded(Level(1, 5))), Entry(1, MEMBERS, members.encoded(ABC))
    log = Log(10, 1, (Entry(1, COMMAND, b"x"), raised, changed, Entry(1, COMMAND, b"y")))
    assert level_in(log, snapshot) == Level(2, 5) and level_in(Log(10, 1), snapshot) == Level(2, 1)
    whose = FolderIdentity("main", "a", ("x", "y"))
    assert members_in(log, snapshot, whose) == ABC and members_in(Log(10, 1), snapshot, whose) == Members(("a", "b"))
    assert members_in(Log(10, 1), snapshot._replace(members=ABC), whose) == ABC
    assert members_in(Log(), EMPTY, whose) == Members(("x", "y")) and members_in(Log(), EMPTY, None) == Members(())
    with pytest.raises(OtherVersion, match="entry 12 raises the level in a form of 1 bytes"):
        level_in(log._replace(entries=(Entry(1, COMMAND, b"x"), Entry(1, LEVEL, b"x"))), snapshot)


# --- services

def test_a_service_is_loaded_from_a_file(tmp_path):
    file = tmp_path / "machine.py"
    file.write_text("from tests.cluster.test_server import COUNTING\nOTHER = 5\n")
    assert loaded(f"{file}:COUNTING") is COUNTING and isinstance(COUNTING, service.Service)
    broken = tmp_path / "broken.py"
    broken.write_text("1 / 0\n")
    for place, why in ((str(file), "write FILE.py:NAME"), (f"{tmp_path}/no.py:X", "write FILE.py:NAME"), (f"{file}:OTHER",
        "has no Service"),
                       (f"{file}:MISSING", "has no Service of the name 'MISSING'"),
                       (f"{broken}:X", "cannot be imported: ZeroDivisionError: division by zero")):
        with pytest.raises(BadService, match=why):
            loaded(place)

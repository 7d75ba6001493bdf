"""The network between processes: who is heard, what is refused with one line, and what its queues do when they are full."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from highwater.impl.level import FIRST, Level
from highwater.impl.stores import frames
from highwater.impl.stores.certificates import BadCertificate, Files, NotEncrypted, Tls, loaded
from highwater.impl.stores.frames import CLIENT, PEER, HandshakeRefused, Hello, Malformed, Welcome
from highwater.impl.stores.stream_net import Address, AddressInUse, Caller, Identity, Limits, Link, StreamNet
from highwater.impl.stores.system import Counters
from highwater.servers.leash import free_port
from tests.support.certificates import Authority

LIMITS = Limits(frame_bytes=1_000, inbox_frames=5, queue_frames=20, queue_bytes=5_000, clients=1)
WAIT_S = 20.0


class Warned(Counters):
    """Metrics that keep the warnings."""

    def __init__(self):
        super().__init__()
        self.lines: list[str] = []

    def warn(self, message: str) -> None:
        self.lines.append(message)


async def until(condition) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():
            await asyncio.sleep(0.005)


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, caller: Caller) -> None:
    while (frame := await frames.read_frame(reader, LIMITS.frame_bytes)) is not None:
        writer.write(frames.framed(frame))


class Nets:
    """Nodes of one group, each of which can be started in several variants."""

    def __init__(self, *names: str):
        self.addresses = {name: Address("127.0.0.1", free_port()) for name in names}
        self.open: list[StreamNet] = []

    async def start(self, node: str, tls: Tls | None = None, at: Address | None = None, cluster: str = "main",
                    instance: str = "", known: Level = FIRST, level: Level = FIRST, settings: str = "",
                    limits: Limits = LIMITS, roles_required: bool = False, peers: Sequence[str] | None = None) -> StreamNet:
        others = {name: address for name, address in self.addresses.items()
                  if name != node and (peers is None or name in peers)}
        identity = Identity(cluster, node, known, instance or node, str(self.addresses[node]), settings)
        net = StreamNet(identity, others, Warned(), tls, limits, echo, roles_required)
        net.level = lambda: level
        await net.start(at or self.addresses[node])
        self.open.append(net)
        return net


def is_of_test(task: asyncio.Task) -> bool:
    """Tell whether a task is of a test: itself, or a connection of a server of the test, which may end after the nets."""
    return Path(task.get_coro().cr_code.co_filename).parent == Path(__file__).parent


@asynccontextmanager
async def nets(*names: str) -> AsyncIterator[Nets]:
    made = Nets(*names)
    try:
        yield made
    finally:
        for net in made.open:
            await net.close()
        assert not [task for task in asyncio.all_tasks() if not is_of_test(task)]


async def rest(reader: asyncio.StreamReader) -> bytes:
    """Return what still comes; a connection that is reset has ended, too."""
    try:
        async with asyncio.timeout(WAIT_S):
            return await reader.read()
    except ConnectionResetError:
        return b""


def told(net: StreamNet, *parts: str) -> list[str]:
    return [line for line in net.metrics.lines if all(part in line for part in parts)]


def connected(net: StreamNet, peer: str) -> bool:
    return net.links[peer].is_connected


async def dialled(address: Address, hello: Hello, tls: Tls | None = None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect by hand; raises HandshakeRefused."""
    reader, writer = await asyncio.open_connection(*address, ssl=tls.made if tls else None)
    await frames.introduce(reader, writer, hello)
    return reader, writer


# --- what is sent


def test_messages_arrive_in_both_directions_with_their_sender():
    async def work():
        async with nets("1", "2") as two:
            a, b = await two.start("1"), await two.start("2")
            await until(lambda: connected(a, "2") and connected(b, "1"))
            await a.send("2", b"to two")
            await b.send("1", b"to one")
            assert await b.receive(20_000) == ("1", b"to two")
            assert await a.receive(20_000) == ("2", b"to one")
            assert await a.receive(0) is None

    asyncio.run(work())


def test_a_restarted_peer_is_dialled_again():
    async def work():
        async with nets("1", "2") as two:
            a, b = await two.start("1"), await two.start("2")
            await until(lambda: connected(a, "2"))
            await b.close()
            await until(lambda: not connected(a, "2"))
            await a.send("2", b"lost")
            again = await two.start("2", instance="another process")
            await until(lambda: connected(a, "2") and connected(again, "1"))
            await a.send("2", b"found")
            assert await again.receive(20_000) == ("1", b"found")
            assert a.metrics.snapshot()["net_dropped_frames"] == 1

    asyncio.run(work())


def test_flood_of_frames_leaves_other_tasks_their_turn():
    async def work():
        async with nets("1", "2") as two:
            net = await two.start("1", limits=Limits())
            _, writer = await dialled(two.addresses["1"], Hello(FIRST, FIRST, PEER, "main", "2", "1", "two", "127.0.0.1:9"))
            writer.write(frames.framed(b"x") * 500)  # all of them are there at once
            turns = 0
            while net.inbox.qsize() < 500:
                await asyncio.sleep(0)
                turns += 1
            writer.transport.abort()
            assert turns >= 500

    asyncio.run(work())


def test_full_queues_lose_frames_and_count_them_and_memory_stays_bounded():
    async def work():
        async with nets("1", "2") as two:
            a, b = await two.start("1"), await two.start("2")
            await until(lambda: connected(a, "2"))
            for _ in range(100):
                await a.send("2", b"x" * 900)
            assert a.links["2"].queued_bytes <= LIMITS.queue_bytes and a.queued_frames() <= LIMITS.queue_frames
            assert a.metrics.snapshot()["net_dropped_frames"] == 95
            await until(lambda: b.inbox.full() or a.queued_frames() == 0)
            assert b.inbox.qsize() <= LIMITS.inbox_frames
            await a.send("2", b"x" * 1_001)
            await a.send("nobody", b"x")
            assert a.metrics.snapshot()["net_unsendable_frames"] == 2
            for _ in range(5):
                assert await b.receive(20_000) == ("1", b"x" * 900)
            await until(lambda: a.links["2"].queued_bytes == 0)
            await a.send("2", b"y")
            assert await b.receive(20_000) == ("1", b"y")

    asyncio.run(work())


# --- who is heard


@pytest.mark.parametrize("change,why", (
    ({"cluster": "other"}, "node '2' is of cluster 'main', and not of 'other': correct the addresses"),
    ({"level": Level(3, 1)}, "node '1' is at level 3.1, and node '2' knows levels up to 2.2: start on '2' the version of"),
    ({"level": Level(1, 3), "purpose": CLIENT}, "is at level 1.3, and node '2' knows levels up to 2.2: start on '2' the"),
    ({"known": Level(2, 1)}, "node '1' knows levels up to 2.1, and node '2' is at level 1.2: start on '1' the version of"),
    ({"settings": "a=1 b=3"}, "the machine of node '1' has b=3, and that of node '2' has b=2: give all nodes the same"),
    ({"settings": "a=1"}, "the machine of node '1' has no others, and that of node '2' has b=2: give all nodes the same"),
    ({"sender": "9"}, "peer '9' is none of the nodes that node '2' knows: 1"),
    ({"sender": "2"}, "peer '2' is none of the nodes that node '2' knows: 1"),
    ({"to": "1"}, "this is node '2', and not '1': correct the addresses"),
    ({"purpose": "spy"}, "spy '1' is none of the nodes"),
))
def test_a_hello_of_somebody_else_is_refused_with_its_reason(change, why):
    async def work():
        async with nets("1", "2") as two:
            net = await two.start("2", known=Level(2, 2), level=Level(1, 2), settings="a=1 b=2")
            with pytest.raises(HandshakeRefused, match=why):
                await dialled(two.addresses["2"], Hello(FIRST, Level(1, 2), PEER, "main", "1", "2", "x")._replace(**change))
            assert any(why in line for line in net.metrics.lines)

    asyncio.run(work())


def test_a_peer_that_knows_less_is_refused_with_one_line_on_both_sides():
    async def work():
        async with nets("1", "2") as two:
            a, b = await two.start("1", known=Level(1, 9)), await two.start("2", known=Level(2, 1), level=Level(2, 1))
            of_a = "node '1' knows levels up to 1.9, and node '2' is at level 2.1: start on '1' the version"
            of_b = "node '2' is at level 2.1, and node '1' knows levels up to 1.9: start on '1' the version"
            await until(lambda: told(a, "refuses the connection", of_a) and told(b, "refuses the connection", of_b))
            await until(lambda: told(b, "is closed", of_a) and told(a, "is closed", of_b))
            assert a.known_of("2") is None and b.known_of("1") is None

    asyncio.run(work())


def test_what_a_peer_knows_is_known_while_there_is_a_connection():
    async def work():
        async with nets("1", "2") as two:
            a = await two.start("1")
            b = await two.start("2", known=Level(2, 7))
            await until(lambda: connected(a, "2"))
            assert a.known_of("2") == Level(2, 7) and a.known_of("nobody") is None
            await b.close()
            two.open.remove(b)
            await until(lambda: a.known_of("2") is None)

    asyncio.run(work())


def test_two_processes_of_one_name_are_not_both_heard():
    async def work():
        async with nets("1", "2") as two:
            first = Hello(FIRST, FIRST, PEER, "main", "1", "2", "first")
            await two.start("2")
            _, writer = await dialled(two.addresses["2"], first)
            with pytest.raises(HandshakeRefused, match="another process is connected to node '2' as node '1': every node"):
                await dialled(two.addresses["2"], first._replace(instance="second"))
            writer.close()
            await until(lambda: not two.open[0].instances["1"])
            _, writer = await dialled(two.addresses["2"], first._replace(instance="second"))
            writer.close()

    asyncio.run(work())


def test_a_node_that_dials_a_peer_under_two_addresses_hears_one():
    async def work():
        async with nets("1", "2") as two:
            a, b = await two.start("1"), await two.start("2")
            await until(lambda: connected(a, "2"))
            twin = await two.start("2", at=Address("127.0.0.1", free_port()), instance="twin")
            await until(lambda: told(twin, "another process is connected to node '1' as node '2'"))
            assert connected(a, "2") and not connected(twin, "1") and connected(b, "1")

    asyncio.run(work())


def test_a_node_at_the_address_of_another_is_not_taken_for_it():
    async def work():
        async with nets("1", "2", "3") as three:
            three.addresses["3"] = three.addresses["2"]
            a, b = await three.start("1"), await three.start("2")
            await until(lambda: told(a, "node '3' at", "this is node '2', and not '3'"))
            dialled = b.metrics.snapshot()["net_refused_connections"]
            await until(lambda: b.metrics.snapshot()["net_refused_connections"] > dialled + 2)
            assert len(told(a, "and not '3'")) == 1  # one line, however often it is tried

    asyncio.run(work())


def test_who_answers_with_another_name_is_not_taken_for_the_peer():
    async def work():
        async def liar(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await frames.read_hello(reader)
            frames.welcome(writer, Welcome(FIRST, "9", "liar"))
            await reader.read()
            writer.close()

        async with nets("1", "2") as two:
            server = await asyncio.start_server(liar, *two.addresses["2"])
            net = await two.start("1")
            await until(lambda: told(net, "node '2' at", "it is node '9': correct the addresses"))
            assert not connected(net, "2")
            server.close()

    asyncio.run(work())


def test_a_port_in_use_is_one_line():
    async def work():
        async with nets("1", "2") as two:
            await two.start("1")
            with pytest.raises(AddressInUse, match="node '2' cannot listen on 127.0.0.1:.*: Address already in use: end the"):
                await two.start("2", at=two.addresses["1"])

    asyncio.run(work())


# --- what is no frame


@pytest.mark.parametrize("sent,why", (
    (b"GET / HTTP/1.1\r\n\r\n", "a frame of 1,195,725,856 bytes is announced, and at most 4,096 are taken"),
    (frames.framed(b"hello"), "the connection does not begin with a hello: it is of another program"),
    (b"\0\0", "the connection ended within a frame"),
))
def test_a_stranger_is_cut_off_before_any_handshake(sent, why):
    async def work():
        async with nets("1", "2") as two:
            net = await two.start("2")
            reader, writer = await asyncio.open_connection(*two.addresses["2"])
            writer.write(sent)
            writer.write_eof()
            assert await rest(reader) == b""
            assert told(net, why) and net.metrics.snapshot()["net_refused_connections"] == 1
            writer.close()

    asyncio.run(work())


def test_a_malformed_frame_closes_a_peers_connection_and_nothing_of_it_is_received():
    async def work():
        async with nets("1", "2") as two:
            net = await two.start("2")
            reader, writer = await dialled(two.addresses["2"], Hello(FIRST, FIRST, PEER, "main", "1", "2", "x"))
            writer.write(frames.framed(b"good") + frames.LENGTH.pack(1_001) + b"y" * 1_001)
            assert await rest(reader) == b""
            assert await net.receive(20_000) == ("1", b"good") and await net.receive(0) is None
            assert told(net, "a frame of 1,001 bytes is announced, and at most 1,000 are taken")
            writer.close()
            await until(lambda: not net.instances["1"])

    asyncio.run(work())


def test_who_says_nothing_is_cut_off(monkeypatch):
    monkeypatch.setattr(frames, "HANDSHAKE_S", 0.05)

    async def work():
        async with nets("1", "2") as two:
            await two.start("2")
            reader, writer = await asyncio.open_connection(*two.addresses["2"])
            async with asyncio.timeout(WAIT_S):
                assert await rest(reader) == b""
            writer.close()

    asyncio.run(work())


def test_connections_of_clients_are_bounded():
    async def work():
        async with nets("1", "2") as two:
            await two.start("2")
            client = Hello(FIRST, FIRST, CLIENT, "main", "", "", "a")
            reader, writer = await dialled(two.addresses["2"], client)
            with pytest.raises(HandshakeRefused, match="node '2' serves 1 connections already: try again later"):
                await dialled(two.addresses["2"], client)
            writer.write(frames.framed(b"?"))
            assert await frames.read_frame(reader, 10) == b"?"
            writer.close()

    asyncio.run(work())


# --- certificates


def test_with_certificates_nodes_hear_each_other(tmp_path: Path):
    async def work():
        authority = Authority(tmp_path)
        async with nets("1", "2") as two:
            a = await two.start("1", tls=loaded(authority.signed("one")))
            b = await two.start("2", tls=loaded(authority.signed("two")))
            await until(lambda: connected(a, "2"))
            await a.send("2", b"secret")
            assert await b.receive(20_000) == ("1", b"secret")

    asyncio.run(work())


def test_who_has_no_certificate_or_one_of_another_authority_is_not_heard(tmp_path: Path):
    async def work():
        authority, other = Authority(tmp_path), Authority(tmp_path, "other")
        async with nets("1", "2", "3") as three:
            a = await three.start("1", tls=loaded(authority.signed("one")))
            await three.start("2", tls=loaded(other.signed("two")))
            plain = await three.start("3")
            await until(lambda: told(a, "node '2'", "certificate") and told(plain, "closed without an answer"))
            assert not any(connected(net, peer) for net in three.open for peer in net.links)

    asyncio.run(work())


def test_a_client_without_a_certificate_is_not_served(tmp_path: Path):
    async def work():
        files = Authority(tmp_path).signed("one")
        async with nets("1", "2") as two:
            await two.start("1", tls=loaded(files))
            bare = ssl.create_default_context(cafile=files.authority)
            reader, writer = await asyncio.open_connection(*two.addresses["1"], ssl=bare)
            with pytest.raises((OSError, Malformed)):
                await frames.introduce(reader, writer, Hello(FIRST, FIRST, CLIENT, "main", "", "", "x"))
            writer.close()

    asyncio.run(work())


def test_a_certificate_of_another_host_does_not_make_a_peer(tmp_path: Path):
    async def work():
        authority = Authority(tmp_path)
        async with nets("1", "2") as two:
            a = await two.start("1", tls=loaded(authority.signed("one")))
            b = await two.start("2", tls=loaded(authority.signed("two", host="127.0.0.2")))
            await until(lambda: told(a, "IP address mismatch"))
            await until(lambda: told(b, "the certificate does not name 127.0.0.1, where node '2' is"))
            assert not connected(a, "2") and not connected(b, "1")

    asyncio.run(work())


def test_an_expired_certificate_is_refused_before_the_node_starts(tmp_path: Path):
    with pytest.raises(BadCertificate, match="late.pem: others would refuse it: certificate has expired; make a new one"):
        loaded(Authority(tmp_path).signed("late", days=-1))


def test_a_certificate_of_another_authority_is_refused_before_the_node_starts(tmp_path: Path):
    files, other = Authority(tmp_path).signed("one"), Authority(tmp_path, "other")
    with pytest.raises(BadCertificate, match="one.pem: others would refuse it"):
        loaded(files._replace(authority=str(other.file)))


def test_files_that_are_no_certificates_are_named(tmp_path: Path):
    files = Authority(tmp_path).signed("one")
    with pytest.raises(BadCertificate, match="nowhere.pem: no certificate of an authority can be read"):
        loaded(files._replace(authority=str(tmp_path / "nowhere.pem")))
    with pytest.raises(BadCertificate, match=r"one.pem with the key .*authority.pem cannot be used"):
        loaded(Files(files.authority, files.certificate, files.authority))


@pytest.mark.parametrize("host,allowed", (("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False),
                                          ("10.0.0.1", False), ("example.org", False)))
def test_only_the_loopback_address_may_go_without_certificates(host, allowed):
    async def work():
        net = StreamNet(Identity("main", "1", FIRST, "x"), {}, Warned())
        try:
            await net.start(Address(host, free_port()))
        finally:
            await net.close()

    if allowed:
        try:
            asyncio.run(work())
        except AddressInUse as error:  # a machine without IPv6
            assert "::1" in str(error)
    else:
        with pytest.raises(NotEncrypted, match="can be reached from other machines, and there are no certificates"):
            asyncio.run(work())


def test_it_may_be_allowed():
    async def work():
        net = StreamNet(Identity("main", "1", FIRST, "x"), {}, Warned())
        await net.start(Address("0.0.0.0", free_port()), insecure=True)
        await net.close()

    asyncio.run(work())


def test_an_unknown_answer_is_no_welcome():
    async def work():
        async def silent(reader, writer):
            await reader.readexactly(4)
            writer.write(frames.framed(b"\x01\0"))
            writer.close()

        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        with pytest.raises(Malformed):
            await dialled(Address(*server.sockets[0].getsockname()), Hello(FIRST, FIRST, CLIENT, "main", "", "", "x"))
        server.close()

    asyncio.run(work())


def test_a_link_that_is_not_connected_takes_nothing():
    link = Link(StreamNet(Identity("main", "1", FIRST, "x"), {}, Warned()), "2", Address("127.0.0.1", 1))
    assert not link.put(b"x") and not link.queue

"""Connections that others make: what they may take before they are known, and what each role may do."""

import asyncio
from pathlib import Path

import pytest

from highwater.impl.level import FIRST
from highwater.impl.stores import connections, frames, stream_net
from highwater.impl.stores.certificates import loaded
from highwater.impl.stores.connections import Connection, Listener, Slots, TooFewFiles, check_open_files, network_of
from highwater.impl.stores.frames import CLIENT, PEER, HandshakeRefused, Hello
from highwater.impl.stores.roles import OPERATOR, Roles, peer
from highwater.impl.stores.stream_net import Limits
from tests.impl.stores.test_stream_net import LIMITS, WAIT_S, Warned, connected, dialled, nets, rest, told, until
from tests.support.certificates import Authority

A_CLIENT = Hello(FIRST, FIRST, CLIENT, "main", "", "", "a")
AN_OPERATOR = A_CLIENT._replace(sender=OPERATOR)
A_PEER = Hello(FIRST, FIRST, PEER, "main", "1", "2", "one", "127.0.0.1:1")
MANY = 40


async def echoes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Tell whether a connection of a client is served."""
    try:
        writer.write(frames.framed(b"?"))
        async with asyncio.timeout(WAIT_S):
            return await frames.read_frame(reader, 10) == b"?"
    except (OSError, frames.Malformed):
        return False


# --- before the hello


@pytest.mark.parametrize("first", (b"", b"\0\0\0\x09hwfr"))
@pytest.mark.parametrize("is_encrypted", (False, True))
def test_handshake_and_hello_have_one_deadline(tmp_path: Path, monkeypatch, first, is_encrypted):
    monkeypatch.setattr(frames, "HANDSHAKE_S", 0.3)

    async def work():
        async with nets("1", "2") as two:
            tls = loaded(Authority(tmp_path).signed("two")) if is_encrypted else None
            await two.start("2", tls=tls)
            reader, writer = await asyncio.open_connection(*two.addresses["2"])
            writer.write(first)
            async with asyncio.timeout(5.0):
                await rest(reader)
            writer.close()

    asyncio.run(work())


def test_bytes_that_drip_do_not_extend_the_deadline(monkeypatch):
    monkeypatch.setattr(frames, "HANDSHAKE_S", 0.3)

    async def work():
        async with nets("1", "2") as two:
            await two.start("2")
            reader, writer = await asyncio.open_connection(*two.addresses["2"])
            ended = asyncio.ensure_future(rest(reader))
            for byte in frames.framed(frames.hello_to(A_CLIENT))[:50]:
                writer.write(bytes([byte]))
                if (await asyncio.wait((ended,), timeout=0.05))[0]:
                    break
            assert ended.done()
            writer.close()

    asyncio.run(work())


@pytest.mark.parametrize("is_encrypted", (False, True))
def test_silent_connections_do_not_keep_others_out(tmp_path: Path, is_encrypted):
    async def work():
        authority = Authority(tmp_path)
        one, two = (loaded(authority.signed(name)) if is_encrypted else None for name in ("one", "two"))
        async with nets("1", "2") as both:
            b = await both.start("2", tls=two, limits=LIMITS._replace(waiting=8, waiting_of_address=8))
            silent = [await asyncio.open_connection(*both.addresses["2"]) for _ in range(MANY)]
            ended = [asyncio.ensure_future(rest(reader)) for reader, _ in silent]
            await until(lambda: sum(task.done() for task in ended) >= MANY - 8)
            assert len(b.listener.connections) <= 8
            a = await both.start("1", tls=one)
            await until(lambda: connected(a, "2") and connected(b, "1"))
            reader, writer = await dialled(both.addresses["2"], A_CLIENT, one)
            assert await echoes(reader, writer)
            for task in ended:
                task.cancel()
            for _, other in (*silent, (reader, writer)):
                other.close()

    asyncio.run(work())


def test_an_address_has_a_share_of_the_slots():
    async def work():
        slots = Slots(4, 3)
        held = []
        for host in ("10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.3"):
            one = Connection(host)
            one.active_at = len(held)
            held.append(one)
            assert one.admit(slots)
        assert [one for one in held if one in slots.held] == held[2:]  # what an address has beyond its share, then most of it
        one = Connection("10.0.0.4")
        assert one.admit(slots) and held[2] not in slots.held

    asyncio.run(work())


@pytest.mark.parametrize("first", (0, 1))
def test_neither_begun_nor_silent_connections_drive_out_the_others(first):
    async def work():
        slots = Slots(8, 8)
        good = Connection("10.0.0.1")
        assert good.admit(slots)
        good.progress = first
        for number in range(8 + 3):
            one = Connection("10.0.0.1")
            one.active_at += number
            assert one.admit(slots)
            one.progress = 1 - first
        assert good in slots.held

    asyncio.run(work())


def test_a_busy_connection_keeps_its_slot():
    async def work():
        slots = Slots(2, 2, yields_s=5.0)
        busy, idle = Connection("10.0.0.1"), Connection("10.0.0.1")
        assert busy.admit(slots) and idle.admit(slots)
        assert not Connection("10.0.0.2").admit(slots)  # neither was idle for long enough
        busy.active_at = idle.active_at = idle.active_at - 10.0
        busy.busy = 1
        assert Connection("10.0.0.2").admit(slots) and busy in slots.held and idle not in slots.held
        assert not Connection("10.0.0.1").admit(slots)
        assert slots.end_idle(9.0) == 0
        busy.busy = 0
        assert slots.end_idle(9.0) == 1 and busy not in slots.held

    asyncio.run(work())


@pytest.mark.parametrize("host,network", (("10.0.0.1", "10.0.0.1"), ("::ffff:10.0.0.1", "10.0.0.1"),
                                          ("2001:db8::1:2:3:4", "2001:db8::/64"), ("fe80::1%eth0", "fe80::/64")))
def test_addresses_of_one_network_share(host, network):
    assert network_of(host) == network


def test_a_connection_that_ends_before_its_task_begins_is_closed():
    async def work():
        async def nothing(*_) -> None:
            raise AssertionError

        listener = Listener(nothing, Slots(1, 1), lambda: 5.0, Warned())
        await listener.start("127.0.0.1", 0)
        add = listener.connections.add
        listener.connections = EndsAll(add)
        reader, writer = await asyncio.open_connection(*listener.sockets[0].getsockname())
        assert await rest(reader) == b""
        writer.close()
        await listener.close()

    class EndsAll(set):
        """Ends each connection in the moment in which it is added."""

        def __init__(self, add):
            super().__init__()

        def add(self, one):
            super().add(one)
            asyncio.get_running_loop().call_soon(lambda: None)
            asyncio.get_running_loop().call_soon(one.end)

    asyncio.run(work())


def test_a_system_without_descriptors_is_asked_again(monkeypatch):
    async def work():
        async with nets("1", "2") as two:
            net, loop = await two.start("2"), asyncio.get_running_loop()
            accept, failures = loop.sock_accept, [OSError(connections.errno.EMFILE, "no"), OSError(103, "aborted")]

            async def accepting(sock):
                connection = await accept(sock)
                if failures:
                    connection[0].close()
                    raise failures.pop()
                return connection

            monkeypatch.setattr(loop, "sock_accept", accepting)
            for _ in range(3):
                reader, writer = await asyncio.open_connection(*two.addresses["2"])
                writer.close()
            reader, writer = await dialled(two.addresses["2"], A_CLIENT)
            assert await echoes(reader, writer) and not failures
            assert net.metrics.snapshot()["net_unaccepted_connections"] == 1
            writer.close()

    asyncio.run(work())


def test_the_start_names_the_limit_to_set(monkeypatch):
    monkeypatch.setattr(connections.resource, "getrlimit", lambda _: (256, 4096))
    needed = Limits().files(3)
    check_open_files(256)
    with pytest.raises(TooFewFiles, match=f"256 files and connections at a time, and its limits need {needed}: set "
                                          f"`ulimit -n {needed}`, or lower --clients"):
        check_open_files(needed)
    monkeypatch.setattr(connections.resource, "getrlimit", lambda _: (256, 300))
    with pytest.raises(TooFewFiles, match=r"\(its hard limit is 300: raise that, too\), or"):
        check_open_files(needed)
    monkeypatch.setattr(connections.resource, "getrlimit", lambda _: (connections.resource.RLIM_INFINITY,) * 2)
    check_open_files(needed)
    assert needed < 1024 < Limits(clients=800).files(3)
    assert Limits().files(30) > Limits().files(16) == needed


def test_a_refused_connection_with_tls_ends_without_an_error(tmp_path: Path):
    async def work():
        async with nets("1", "2") as two:
            authority = Authority(tmp_path)
            net = await two.start("2", tls=loaded(authority.signed("two")))
            with pytest.raises(HandshakeRefused):
                await dialled(two.addresses["2"], A_CLIENT._replace(cluster="other"), loaded(authority.signed("one")))
            await until(lambda: not net.listener.connections)
            assert not told(net, "unexpected error"), net.metrics.lines

    asyncio.run(work())


def test_refused_connections_do_not_flood_the_log():
    async def work():
        async with nets("1", "2") as two:
            net = await two.start("2")
            for _ in range(stream_net.LINES * 2):
                with pytest.raises(HandshakeRefused):
                    await dialled(two.addresses["2"], A_CLIENT._replace(cluster="other"))
            assert len(net.metrics.lines) <= stream_net.LINES + WAIT_S
            net.line_at -= 10.0
            with pytest.raises(HandshakeRefused):
                await dialled(two.addresses["2"], A_CLIENT._replace(cluster="other"))
            assert told(net, "more, for which no line was logged)")
            assert net.metrics.snapshot()["net_refused_connections"] == stream_net.LINES * 2 + 1

    asyncio.run(work())


# --- clients and operators


def test_idle_clients_are_closed_and_others_are_not():
    async def work():
        async with nets("1", "2") as two:
            net = await two.start("2", limits=LIMITS._replace(clients=5, clients_of_address=5, idle_s=1.0))
            idle, operator = [await dialled(two.addresses["2"], hello) for hello in (A_CLIENT, AN_OPERATOR)]
            peer_reader, peer_writer = await dialled(two.addresses["2"], A_PEER)
            assert await rest(idle[0]) == b"" and await rest(operator[0]) == b""
            await until(lambda: net.metrics.snapshot().get("net_idle_connections", 0) >= 2)
            peer_writer.write(frames.framed(b"still here"))
            assert await net.receive(20_000) == ("1", b"still here") and not peer_reader.at_eof()
            for writer in (idle[1], operator[1], peer_writer):
                writer.close()

    asyncio.run(work())


def test_operators_find_a_slot_that_clients_cannot_take():
    async def work():
        async with nets("1", "2") as two:
            net = await two.start("2", limits=LIMITS._replace(operators=2))
            client = await dialled(two.addresses["2"], A_CLIENT)
            with pytest.raises(HandshakeRefused, match="node '2' serves 1 connections already: try again later"):
                await dialled(two.addresses["2"], A_CLIENT)
            operators = [await dialled(two.addresses["2"], AN_OPERATOR) for _ in range(3)]
            assert await rest(operators[0][0]) == b""  # the oldest of them makes room
            assert await echoes(*operators[1]) and await echoes(*operators[2]) and await echoes(*client)
            assert len(net.operators.held) == 2
            for _, writer in (client, *operators):
                writer.close()

    asyncio.run(work())


def test_an_idle_client_makes_room_for_another_one():
    async def work():
        async with nets("1", "2") as two:
            await two.start("2", limits=LIMITS._replace(yields_s=0.2))
            first = await dialled(two.addresses["2"], A_CLIENT)
            await asyncio.sleep(0.4)
            second = await dialled(two.addresses["2"], A_CLIENT)
            assert await rest(first[0]) == b"" and await echoes(*second)
            for _, writer in (first, second):
                writer.close()

    asyncio.run(work())


# --- peers


def test_a_peer_has_few_connections_and_the_last_one_is_heard():
    async def work():
        async with nets("1", "2") as two:
            net = await two.start("2")
            made = [await dialled(two.addresses["2"], A_PEER) for _ in range(20)]
            await until(lambda: len(net.instances["1"]) <= stream_net.OF_PEER)
            assert len(net.taken["1"]) == stream_net.OF_PEER
            made[-1][1].write(frames.framed(b"heard"))
            assert await net.receive(20_000) == ("1", b"heard")
            for _, writer in made:
                writer.close()
            await until(lambda: not net.taken and not net.instances["1"])

    asyncio.run(work())


def test_peers_that_are_no_members_are_few_and_are_forgotten(monkeypatch):
    monkeypatch.setattr(stream_net, "FORGOTTEN_S", 0.5)

    async def work():
        async with nets("1", "2") as two:
            net = await two.start("2")
            made, refused = [], 0
            for number in range(MANY):
                try:
                    made.append(await dialled(two.addresses["2"], A_PEER._replace(sender=f"x{number}", instance=str(number))))
                except HandshakeRefused as error:
                    assert "has connections with 16 nodes that are no members already: let" in str(error)
                    refused += 1
            assert (len(made), refused, len(net.strangers), len(net.links)) == (16, MANY - 16, 16, 17)
            made[0][1].close()
            await until(lambda: not net.instances.get("x0"))
            made.append(await dialled(two.addresses["2"], A_PEER._replace(sender="y", instance="y")))  # in the place of x0
            assert "y" in net.links and "x0" not in net.links and "x0" not in net.instances
            for _, writer in made:
                writer.close()
            await until(lambda: not net.strangers and set(net.links) == {"1"} and not net.taken)
            assert set(net.instances) <= {"1"}
            _, writer = await dialled(two.addresses["2"], A_PEER._replace(sender="y", instance="y"))
            await asyncio.sleep(1.0)
            assert "y" in net.links  # as long as there is a connection
            net.reach("y", net.links["y"].address)  # it is a member
            writer.close()
            await asyncio.sleep(1.0)
            assert "y" in net.links and not net.strangers

    asyncio.run(work())


def test_a_stranger_does_not_choose_where_a_node_dials(tmp_path: Path):
    async def work():
        async with nets("1", "2") as two:
            authority = Authority(tmp_path)
            net = await two.start("2", tls=loaded(authority.signed("two")))
            tls = loaded(authority.signed("x"))
            with pytest.raises(HandshakeRefused, match="the certificate does not name 10.0.0.9, where node 'x' is"):
                await dialled(two.addresses["2"], A_PEER._replace(sender="x", address="10.0.0.9:1"), tls)
            assert not net.strangers and set(net.links) == {"1"}
        async with nets("1", "2") as two:
            net = await two.start("2")
            with pytest.raises(HandshakeRefused, match="connects from this machine, and says that it is at 10.0.0.9:1"):
                await dialled(two.addresses["2"], A_PEER._replace(sender="x", address="10.0.0.9:1"))
            assert not net.strangers and set(net.links) == {"1"}

    asyncio.run(work())


def test_a_stranger_that_moved_is_dialled_at_its_new_address():
    async def work():
        async with nets("1", "2") as two:
            net = await two.start("2")
            for port in (1, 2):
                _, writer = await dialled(two.addresses["2"], A_PEER._replace(sender="x", address=f"127.0.0.1:{port}"))
                assert net.links["x"].address.port == port and set(net.strangers) == {"x"}
                writer.close()

    asyncio.run(work())


# --- roles


def uris(*roles: str, cluster: str = "main") -> list[str]:
    return [Roles(cluster).uri(role) for role in roles]


@pytest.mark.parametrize("given,role,allowed,required", (
    ([], peer("1"), True, False), ([], "client", True, False), (["https://x/client"], "operator", True, False),
    (uris(peer("1")), peer("1"), True, True), (uris("client"), "client", True, True), (uris("operator"), "client", True, True),
    (uris("operator", peer("1")), peer("1"), True, True), (uris(peer("a/b c")), peer("a/b c"), True, True),
    (uris("client", cluster="a/b"), "client", False, False),
    (uris(peer("2")), peer("1"), False, False), (uris("client"), "operator", False, False),
    (uris("operator"), peer("1"), False, False), (uris(peer("1")), "client", False, False),
    (uris("client"), peer("1"), False, False), (uris(peer("1"), cluster="other"), peer("1"), False, False),
    ([*uris("client"), "highwater://main"], "operator", False, False), (uris("client/operator"), "operator", False, False),
    (uris(peer("a")), peer("a/b"), False, False),
))
def test_a_role_is_what_a_uri_says(given, role, allowed, required):
    assert (Roles("main").refusal(given, role) == "") == allowed
    assert (Roles("main", required=True).refusal(given, role) == "") == (allowed and required)


@pytest.mark.parametrize("roles,hello,why", (
    (("client",), A_PEER, "the certificate is for highwater://main/client, and not for highwater://main/peer/1"),
    (("operator",), A_PEER, "and not for highwater://main/peer/1"),
    ((peer("2"),), A_PEER, "the certificate is for highwater://main/peer/2, and not for highwater://main/peer/1"),
    ((peer("x"),), A_PEER._replace(sender="y"), "is for highwater://main/peer/x, and not for highwater://main/peer/y"),
    (("client",), A_PEER._replace(sender="y"), "and not for highwater://main/peer/y"),
    ((peer("1"),), A_CLIENT, "is for highwater://main/peer/1, and not for highwater://main/client"),
    (("client",), AN_OPERATOR, "is for highwater://main/client, and not for highwater://main/operator"),
    ((peer("1"),), AN_OPERATOR, "and not for highwater://main/operator"),
    (("client",), A_CLIENT, ""), (("operator",), A_CLIENT, ""), (("operator",), AN_OPERATOR, ""), ((peer("1"),), A_PEER, ""),
    ((peer("1"), "operator"), AN_OPERATOR, ""), ((peer("x"),), A_PEER._replace(sender="x"), ""),
))
@pytest.mark.parametrize("required", (False, True))
def test_a_connection_needs_the_role_of_its_hello(tmp_path: Path, roles, hello, why, required):
    async def work():
        async with nets("1", "2") as two:
            authority = Authority(tmp_path)
            await two.start("2", tls=loaded(authority.signed("two", roles=uris(peer("2")))), roles_required=required)
            tls = loaded(authority.signed("x", roles=uris(*roles)))
            if why:
                with pytest.raises(HandshakeRefused, match=why):
                    await dialled(two.addresses["2"], hello, tls)
                return
            _, writer = await dialled(two.addresses["2"], hello, tls)
            writer.close()

    asyncio.run(work())


@pytest.mark.parametrize("hello,role", ((A_PEER, "peer/1"), (A_CLIENT, "client"), (AN_OPERATOR, "operator")))
def test_a_certificate_without_a_role_is_taken_until_roles_are_required(tmp_path: Path, hello, role):
    async def work():
        authority = Authority(tmp_path)
        tls = loaded(authority.signed("x"))
        for required in (False, True):
            async with nets("1", "2") as two:
                await two.start("2", tls=loaded(authority.signed("two")), roles_required=required)
                if required:
                    with pytest.raises(HandshakeRefused, match=f"roles are required, and the certificate has none: make one "
                                                               f"with the URI highwater://main/{role}"):
                        await dialled(two.addresses["2"], hello, tls)
                else:
                    _, writer = await dialled(two.addresses["2"], hello, tls)
                    writer.close()

    asyncio.run(work())


def test_a_node_is_dialled_only_if_its_certificate_has_its_name(tmp_path: Path):
    async def work():
        authority = Authority(tmp_path)
        async with nets("1", "2", "3") as three:
            a = await three.start("1", tls=loaded(authority.signed("one", roles=uris(peer("1")))))
            await three.start("2", tls=loaded(authority.signed("two", roles=uris("client"))))
            c = await three.start("3", tls=loaded(authority.signed("three")), roles_required=True)
            await until(lambda: told(a, "node '2' at", "the certificate is for highwater://main/client, and not for"))
            await until(lambda: told(a, "node '3' at", "closed without an answer") or connected(a, "3"))
            await until(lambda: told(c, "node '2' at", "the certificate is for highwater://main/client"))
            assert not connected(a, "2") and not connected(c, "2") and connected(c, "1")

    asyncio.run(work())


def test_the_name_in_a_certificate_makes_a_member_wherever_it_is(tmp_path: Path):
    """A peer that the node knows is who shows the name: its connection may come from another host than it is dialled at."""
    async def work():
        authority = Authority(tmp_path)
        async with nets("1", "2") as two:
            await two.start("2", tls=loaded(authority.signed("two", roles=uris(peer("2")))), roles_required=True)
            tls = loaded(authority.signed("one", host="127.0.0.9", roles=uris(peer("1"))))
            _, writer = await dialled(two.addresses["2"], A_PEER, tls)
            writer.close()
            with pytest.raises(HandshakeRefused, match="the certificate does not name 127.0.0.1, where node 'x' is"):
                other = loaded(authority.signed("x", host="127.0.0.9", roles=uris(peer("x"))))
                await dialled(two.addresses["2"], A_PEER._replace(sender="x"), other)

    asyncio.run(work())

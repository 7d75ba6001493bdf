"""Safety: a proposal is sent a second time only after a definite error: the client never applies a command twice by itself.

A client of a cluster. It finds the leader for commands, and asks any node for queries. Each connection may have many requests
under way.
"""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from highwater.cluster import calls
from highwater.cluster.calls import CHANGE, PROPOSE, QUERY, STATUS, TRANSFER
from highwater.impl.errors import Definite, Indefinite, StoreError
from highwater.impl.level import ANY_MACHINE, FIRST
from highwater.impl.raft.faults import NoChange, NotLeader, NotYet
from highwater.impl.raft.state import LEARN, PROMOTE, REMOVE
from highwater.impl.stores import frames, roles
from highwater.impl.stores.certificates import Tls, reason
from highwater.impl.stores.connections import set_up
from highwater.impl.stores.frames import CLIENT, HandshakeRefused, Hello, Malformed
from highwater.impl.stores.roles import OPERATOR, Roles
from highwater.impl.stores.stream_net import Address, Limits
from highwater.impl.stores.system import Ulids

RETRY_S = 0.05  # between two rounds over all nodes while none of them leads


class Unreachable(Definite):
    """No connection to the node, so it was asked nothing."""


class ConnectionLost(Indefinite):
    """The connection ended before the answer: a command may be committed, now or later, or not."""


class Connection:
    """An open connection to one node."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, node: str, most_bytes: int):
        self.reader, self.writer, self.node, self.most_bytes = reader, writer, node, most_bytes
        self.waiting: dict[int, asyncio.Future[bytes | StoreError]] = {}
        self.number = 0
        self.ended = ""
        self.used_at = asyncio.get_running_loop().time()
        self.receiver = asyncio.create_task(self._receive())

    @classmethod
    async def open(cls, address: Address, cluster: str, to: str = "", tls: Tls | None = None,
                   operator: bool = False) -> "Connection":
        """Raises Unreachable, HandshakeRefused."""
        try:
            async with asyncio.timeout(frames.HANDSHAKE_S):
                reader, writer = await asyncio.open_connection(*address, ssl=tls.made if tls else None)
        except OSError as error:
            raise Unreachable(f"{address} cannot be reached: {reason(error)}") from error
        try:
            set_up(writer.get_extra_info("socket"))
            sender = OPERATOR if operator else ""
            hello = Hello(FIRST, ANY_MACHINE, CLIENT, cluster, sender, to, Ulids().new_id())
            found = await frames.introduce(reader, writer, hello)
            uris = roles.uris_in(writer.get_extra_info("peercert"))
            if why := Roles(cluster).refusal(uris, roles.peer(found.node)):
                raise HandshakeRefused(f"{address} is not taken for node {found.node!r}: {why}")
        except HandshakeRefused:
            writer.close()
            raise
        except (OSError, Malformed) as error:
            writer.close()
            raise Unreachable(f"{address} does not take the connection: {reason(error)}") from error
        return cls(reader, writer, found.node, Limits().frame_bytes)

    async def ask(self, kind: int, body: bytes) -> bytes:
        """Return the node's result, or raise its error, or ConnectionLost."""
        if self.ended:
            raise Unreachable(f"the connection to node {self.node!r} has ended: {self.ended}")
        self.number += 1
        self.used_at = asyncio.get_running_loop().time()
        number, answer = self.number, asyncio.get_running_loop().create_future()
        self.waiting[number] = answer
        try:
            self.writer.write(frames.framed(calls.request_to(number, kind, body)))
            await self.writer.drain()
            result = await answer
        except OSError as error:
            raise ConnectionLost(f"the connection to node {self.node!r} ended: {reason(error)}") from error
        finally:
            self.waiting.pop(number, None)
        if isinstance(result, StoreError):
            raise result
        return result

    async def _receive(self) -> None:
        why = "the node closed it"
        try:
            while (frame := await frames.read_frame(self.reader, self.most_bytes)) is not None:
                number, result = calls.answer_of(frame)
                if number in self.waiting and not self.waiting[number].done():
                    self.waiting[number].set_result(result)
        except (Malformed, OSError) as error:
            why = reason(error)
        except asyncio.CancelledError:
            why = "the client closed it"
        self.ended = why
        for answer in self.waiting.values():
            if not answer.done():
                answer.set_result(ConnectionLost(f"the connection to node {self.node!r} ended before the answer: {why}"))
        self.writer.close()

    async def close(self) -> None:
        self.receiver.cancel()
        await asyncio.wait([self.receiver])


class Client:
    """A client of a cluster: `async with Client(nodes) as client`. Its connections are made when they are needed."""

    def __init__(self, nodes: Mapping[str, Address], cluster: str = "main", tls: Tls | None = None, limit_s: float = 10.0,
                 operator: bool = False):
        """`limit_s`: how long a call looks for a node that takes it, and how long it waits for an answer. `operator`: nodes
        give its connections slots that they keep back for operators.
        """
        self.operator = operator
        self.nodes, self.cluster, self.tls, self.limit_s = dict(nodes), cluster, tls, limit_s
        self.leader = next(iter(self.nodes))  # the node that is asked first
        self.connections: dict[str, Connection] = {}
        self.opening: dict[str, asyncio.Lock] = {name: asyncio.Lock() for name in self.nodes}

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *_: object) -> None:
        for connection in self.connections.values():
            await connection.close()
        self.connections = {}

    def add(self, name: str, address: Address) -> None:
        """Know one more node, or another address of one."""
        self.nodes[name] = address
        self.opening.setdefault(name, asyncio.Lock())

    async def propose(self, command: bytes) -> bytes:
        """Replicate a command and return its result.

        Definite errors: BadRequest if the machine cannot apply it, TooLarge, QueueFull, LevelTooLow, Unreachable. Indefinite
        ones: LeadershipLost, NodeStopped, NoAnswerInTime, ConnectionLost."""
        end = asyncio.get_running_loop().time() + self.limit_s
        while True:
            trouble: StoreError | None = None
            for name in self._in_order():
                try:
                    result = await self._ask(name, PROPOSE, command)
                    self.leader = name
                    return result
                except NotLeader as error:
                    trouble = error
                    if error.leader in self.nodes and error.leader != name:
                        self.leader = error.leader
                        break  # ask that one next
                except Unreachable as error:
                    trouble = error
                    if self.leader == name:
                        self.leader = next(other for other in [*self._after(name), name])
            assert trouble is not None
            if asyncio.get_running_loop().time() > end:
                raise trouble
            await asyncio.sleep(RETRY_S)

    async def query(self, query: bytes, node: str = "") -> bytes:
        """Return the answer of `node`, or of the first that gives one: it has all that was acknowledged before this call.

        Raises BadRequest if the query fails, Unreachable, NotLeader if no leader is known, ConnectionLost, NoAnswerInTime; none
        has an effect.
        """
        end = asyncio.get_running_loop().time() + self.limit_s
        while True:
            trouble: StoreError | None = None
            for name in [node] if node else self._in_order():
                try:
                    return await self._ask(name, QUERY, query)
                except calls.BadRequest:
                    raise  # each node has the same state and the same query
                except StoreError as error:
                    trouble = error
            assert trouble is not None
            if asyncio.get_running_loop().time() > end:
                raise trouble
            await asyncio.sleep(RETRY_S)

    async def status(self, node: str) -> dict[str, Any]:
        """Return what a node says of itself (highwater/cluster/status.py). Raises Unreachable, HandshakeRefused, Indefinite."""
        return json.loads(await self._ask(node, STATUS, b""))

    async def transfer(self, target: str) -> None:
        """Let the node `target` lead. Raises NotLeader, NoVoter, TransferFailed, Unreachable, Indefinite."""
        leader = await self._find_leader()
        if leader != target:
            await self._ask(leader, TRANSFER, target.encode())

    async def voters(self) -> list[str]:
        """Return the nodes that vote, as the leader knows them. Raises Unreachable, Indefinite."""
        return (await self.status(await self._find_leader()))["voters"]

    async def join(self, name: str, address: Address) -> None:
        """Let a node join that runs at `address`: as a learner, and as a voter once it has caught up. A node that is a member
        is dialled at `address` from now on. Raises NotYet if it has not caught up in time, ChangeRefused, Unreachable,
        Indefinite; the same call again goes on.
        """
        try:
            await self._change(LEARN, name, str(address))
        except NoChange:
            pass  # it is a member
        try:
            await self._change(PROMOTE, name)
        except NoChange:
            pass  # it votes

    async def leave(self, name: str) -> None:
        """Let a node leave. Raises NoChange if it is no member, NotYet, ChangeRefused, Unreachable, Indefinite."""
        await self._change(REMOVE, name)

    async def _change(self, what: str, name: str, address: str = "") -> None:
        """Ask the leader for a change, and ask again while it cannot make it yet."""
        end = asyncio.get_running_loop().time() + self.limit_s
        body = frames.texts_to((what, name, address))
        while True:
            try:
                await self._ask(await self._find_leader(), CHANGE, body)
                return
            except (NotLeader, NotYet, Unreachable) as error:
                trouble = error
            if asyncio.get_running_loop().time() > end:
                raise trouble
            await asyncio.sleep(RETRY_S)

    async def _find_leader(self) -> str:
        """Return the first leader that a node tells. Raises Unreachable."""
        for name in self._in_order():
            if leader := await self._leader_of(name):
                if leader not in self.nodes:
                    raise Unreachable(f"node {leader!r} leads, and its address was not given: name all nodes of the cluster")
                return leader
        raise Unreachable("no node that can be reached knows a leader: look at the status of the nodes")

    async def _leader_of(self, name: str) -> str:
        try:
            return (await self.status(name))["leader"]
        except (Unreachable, Indefinite):
            return ""

    def _in_order(self) -> list[str]:
        return [self.leader, *self._after(self.leader)]

    def _after(self, name: str) -> list[str]:
        """Return the other nodes, from the one after `name` on."""
        names = list(self.nodes)
        place = names.index(name)
        return names[place + 1:] + names[:place]

    async def _ask(self, name: str, kind: int, body: bytes) -> bytes:
        connection = await self._connection(name)
        try:
            async with asyncio.timeout(self.limit_s):
                return await connection.ask(kind, body)
        except TimeoutError:
            await connection.close()  # it may have a stalled node at its other end
            raise ConnectionLost(f"node {name!r} gave no answer within {self.limit_s:g} s") from None

    async def _connection(self, name: str) -> Connection:
        """Raises Unreachable, HandshakeRefused."""
        async with self.opening[name]:
            known = self.connections.get(name)
            now = asyncio.get_running_loop().time()
            if known is not None and not known.waiting and now - known.used_at > Limits().idle_s / 2:
                await known.close()  # before the node does, which could cut a request off
            if known is None or known.ended:
                known = await Connection.open(self.nodes[name], self.cluster, name, self.tls, self.operator)
                self.connections[name] = known
            return known

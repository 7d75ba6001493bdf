"""Scripts of nodes of impl/raft that tell each other their clocks, from level 2 of forms on."""

from highwater.dst.script import Alone, Script, forever, same
from highwater.dst.scripts.replicated.disks import ScriptDisk
from highwater.dst.scripts.replicated.node import Posted, leading, leading_three, opened, proposed, write
from highwater.dst.scripts.replicated.servers import ABC
from highwater.impl import level
from highwater.impl.level import Level
from highwater.impl.node_world import Message
from highwater.impl.raft import wire
from highwater.impl.raft.clocks import Clocks, Told
from highwater.impl.raft.entries import COMMAND, LEVEL, Entry
from highwater.impl.raft.messages import Append, Appended, ClockedReply, Heartbeat, HeartbeatReply
from highwater.impl.raft.node import CLOCKED, Node
from highwater.impl.raft.state import FOLLOWER, Received

RAISED = Entry(1, LEVEL, level.encoded(Level(CLOCKED)))


async def a_reply_tells_the_clock_once_the_level_allows_it(alone: Alone) -> None:
    node = await opened(alone, ScriptDisk(), ABC)
    net = node.world.net
    assert isinstance(net, Posted)

    async def replies() -> list[object]:
        net.sent.clear()
        await node._give(Received("b", Heartbeat(1, 0, 7)))
        await write(node)
        return [message for _, message in net.sent]

    same(await replies(), [HeartbeatReply(1, 7)])
    await node._give(Received("b", Append(1, 0, 0, (RAISED,), 1)))
    await write(node)
    same((node.level, await replies()), (Level(CLOCKED), [ClockedReply(1, 7, alone.now)]))
    alone.now = -5  # a clock before 1970
    same(await replies(), [ClockedReply(1, 7, 0)])


async def receive(node: Node, *bodies: bytes) -> None:
    """Let a node receive messages of b."""
    left = [*bodies]

    async def received(timeout_ms: int) -> Message | None:
        if not left:
            await forever()
        return Message("b", left.pop(0))

    node.world.net.receive = received  # pyright: ignore[reportAttributeAccessIssue]
    await node.world.clock.timeout(0, node._receive_on())


async def a_leader_knows_the_clocks_that_replies_have_told(alone: Alone) -> None:
    node = await leading_three(alone)
    same(node.clocks().voters, ())
    await node._give(Received("b", Appended(1, 1)))
    node.state = node.state._replace(round=3)
    working = receive(node, wire.encoded(ClockedReply(1, 3, 5_000)))
    working.send(None)
    working.close()
    same([follower.round for follower in node.state.followers], [3, 0])  # the core is given the reply
    alone.now += 30
    same(node.clocks(), Clocks("a", ("a",), alone.now, {"b": Told(5_000, 30)}, 30))  # at level 1 its own alone counts
    node.level = Level(CLOCKED)
    same(node.clocks().voters, ABC)
    node.state = node.state._replace(role=FOLLOWER)
    same(node.clocks().voters, ())


async def time_passes_from_the_last_command_on(alone: Alone) -> None:
    disk = ScriptDisk()
    node = await leading(alone, disk)
    alone.now += 40
    same(node.clocks().passed_ms, 40)
    await proposed(node, b"x")
    same(node.clocks().passed_ms, 0)
    alone.now, alone.jumped = alone.now + 1_000, alone.jumped + 990
    same(node.clocks(), Clocks("a", ("a",), alone.now, {}, 10))
    await proposed(node, b"y")  # makes a snapshot
    alone.now += 7
    node._restore(node.snapshot)
    same(node.clocks().passed_ms, 0)


async def a_leader_has_settled_once_it_has_committed_an_entry_of_its_term(alone: Alone) -> None:
    node = await leading_three(alone)
    settling = node.settled()
    settling.send(None)  # it waits
    await node._give(Received("b", Appended(1, 1)))
    settling.close()
    await node.settled()
    follower = await opened(alone, ScriptDisk(), ABC)
    await follower._give(Received("b", Append(1, 0, 0, (Entry(1, COMMAND, b"x"),), 0)))
    await follower.settled()  # it does not lead


SCRIPTS: tuple[Script, ...] = (
    a_reply_tells_the_clock_once_the_level_allows_it, a_leader_knows_the_clocks_that_replies_have_told,
    time_passes_from_the_last_command_on, a_leader_has_settled_once_it_has_committed_an_entry_of_its_term)

"""The group of a run whose members change: who began it, who operates it, and who must have the same in the end."""

from collections.abc import Callable, Coroutine
from typing import Any

from highwater.dst.actors import Actors, said_by
from highwater.dst.scenarios.replicated.group import Group
from highwater.dst.scenarios.replicated.properties import Properties
from highwater.dst.sim.kernel import Client
from highwater.impl.node_world import NodeWorld
from highwater.impl.raft import members
from highwater.impl.raft.entries import MEMBERS, Log
from highwater.impl.raft.node import Done, Node
from highwater.impl.raft.state import LEADER, LEARN, PROMOTE, REMOVE, Save, State
from highwater.traces.protocols.raft_membership_calls import CALLS

OPERATORS = 2  # who change the members: as many machines have one


class ChangingProperties(Properties):
    """The properties of a group whose members change. Who counts is read from the entries, and not from the states."""

    def __init__(self, founders: tuple[str, ...], durable: Callable[[str], Log], covered: Callable[[str], int]):
        super().__init__(founders, durable, covered)

    def voters(self, leader: State) -> tuple[str, ...]:
        """Return the voters by the last change in a leader's log. Entries that are there no more were committed."""
        before = [self.committed[index].entry for index in range(1, leader.log.base_index + 1) if index in self.committed]
        entries = (*before, *leader.log.entries)
        bodies = [entry.body for entry in entries if entry.kind == MEMBERS]
        return members.decoded(bodies[-1]).voters if bodies else self.servers


class ChangingGroup(Group):
    """The nodes of one run. The first ones began the group, and the others may join it. The operators know of no other."""

    def __init__(self, actors: Actors):
        super().__init__(actors)
        self.first = self.names[:actors.shape.founders]
        self.changes = actors.shape.changes  # that the operator still asks for
        self.properties = ChangingProperties(self.first, self.properties.durable, self.properties.covered)

    def founders(self, server: str) -> tuple[str, ...]:
        return self.first if server in self.first else ()

    def leader(self, server: str) -> str:
        """Return the leader that the node of a server knows, or any other one: a server that has not joined knows none."""
        known = super().leader(server)
        nodes = [node for node in map(self.node, self.names) if node is not None]
        return known or next((node.state.leader for node in nodes if node.state.leader), "")

    def members_of(self, after: State, save: Save | None, restarts: bool) -> tuple[tuple, tuple]:
        changes = () if save is None else tuple([
            (index, members.decoded(entry.body).voters) for index, entry in enumerate(save.entries, save.first_index)
            if entry.kind == MEMBERS])
        return changes, after.voters if restarts or (save and (save.entries or save.base)) else ()

    def those_who_count(self, nodes: list[Node]) -> list[Node]:
        """Return the members, by the latest leader. Without a leader that is all nodes, and they are not done."""
        leaders = [node for node in nodes if node.state.role == LEADER]
        if not leaders:
            return nodes
        latest = max(leaders, key=lambda node: node.state.term).state
        return [node for node in nodes if node.state.me in (*latest.voters, *latest.learners)]

    def tasks(self, client: Client, world: NodeWorld, number: int) -> dict[str, Coroutine[Any, Any, None]]:
        return {"changer": self.change(client, world)} if number < OPERATORS else {}

    async def change(self, client: Client, world: NodeWorld) -> None:
        """Now and then ask the leader to let a server join, count, or leave."""
        actors = self.actors
        me = Client(f"{client.name}/changer", of=client)
        self.busy[client.name] += 1
        while self.changes:
            self.changes -= 1
            await world.clock.sleep_ms(1 + actors.choose(me.sites["pause"], actors.shape.change_ms))
            node = self.node(self.leader(client.name)) or self.open[client.name][0]
            name = self.names[actors.choose(me.sites["server"], len(self.names))]
            what = self.what(node, name, me)
            actors.ask(me, "change", f"{what} {name}".encode())
            call = world.clock.timeout(actors.shape.change_ms, node.change(what, name))
            said = await said_by(CALLS, "change", call, index=index_of)
            actors.tell(me, said.told, b"", keys=said.keys)
        self.busy[client.name] -= 1

    def what(self, node: Node, name: str, me: Client) -> str:
        """Choose a change: a server that is no member can only join, and a voter only leave."""
        if name in node.state.voters:
            return REMOVE
        if name in node.state.learners:
            return (PROMOTE, PROMOTE, REMOVE)[self.actors.choose(me.sites["what"], 3)]
        return LEARN


def index_of(done: Done) -> str:
    return str(done.index)

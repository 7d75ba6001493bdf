"""The group of a run: which nodes are open, what each step of theirs was, and when the work of all is done.

A node is given `recorded(step)` in the place of the core's `step`. It takes the same step, writes it into the trace, and checks
the properties that need no model.
"""

from collections.abc import Coroutine
from typing import Any, TypeVar

from highwater.dst.actors import Actors
from highwater.dst.scenarios.replicated.disks import durable_log, durable_snapshot
from highwater.dst.scenarios.replicated.properties import Properties
from highwater.dst.sim.kernel import Client
from highwater.dst.world.folder import Folder
from highwater.dst.world.store import NEW
from highwater.impl.node_world import NodeWorld
from highwater.impl.raft.core import Step
from highwater.impl.raft.entries import last_index
from highwater.impl.raft.faults import NodeStopped
from highwater.impl.raft.following import Contradiction
from highwater.impl.raft.messages import Appended
from highwater.impl.raft.node import Node
from highwater.impl.raft.state import Compact, Input, Installed, Output, Received, Restart, Save, Send, State
from highwater.traces.event import Event
from highwater.traces.protocols import raft as mapping
from highwater.traces.refine import Failure


class Group:
    """The nodes of one run."""

    def __init__(self, actors: Actors):
        assert actors.machines is not None
        self.actors, self.machines = actors, actors.machines
        self.names = tuple(client.name for client in actors.clients)
        self.open: dict[str, tuple[Node, int]] = {}  # server -> its node, and in which life of the machine it was opened
        self.busy: dict[str, int] = {}  # server -> callers that have not ended in this life
        self.over = False
        self.final: tuple[bytes, ...] = ()  # what the machine had applied in the end
        self.transfers = actors.shape.transfers  # that the operator still asks for
        self.lies = getattr(actors.shape, "lies", 0)  # that the liar still sends
        self.raises = getattr(actors.shape, "raised", 0)  # of the level, still to come
        self.properties = Properties(self.names, lambda server: durable_log(self.folder(server), server),
                                     lambda server: durable_snapshot(self.folder(server))[0])

    def founders(self, server: str) -> tuple[str, ...]:
        """Return the voters with which a server begins."""
        return self.names

    def leader(self, server: str) -> str:
        """Return the leader, as far as the node of a server knows it."""
        return self.open[server][0].state.leader

    def tasks(self, client: Client, world: NodeWorld, number: int) -> dict[str, Coroutine[Any, Any, None]]:
        """Return further tasks on the machine of a server, by their names."""
        return {}

    def members_of(self, after: State, save: Save | None, restarts: bool) -> tuple[tuple, tuple]:
        """Return the changes of the members in a step's save, and the voters that are in force: () if they never change."""
        return (), ()

    def reads_of(self, before: State, given: Input, after: State, outputs: tuple[Output, ...]) -> tuple:
        """Return the effects of a step on reads: () if the trace has no reads."""
        return ()

    def those_who_count(self, nodes: list[Node]) -> list[Node]:
        """Return the nodes that must have the same in the end."""
        return nodes

    def folder(self, server: str) -> Folder:
        return self.machines.disks[server].folder

    def opened(self, server: str, node: Node) -> None:
        self.open[server] = node, self.machines.disks[server].life

    def node(self, server: str) -> Node | None:
        """Return the open node of a server; None if it is down, or stands still."""
        node, life = self.open.get(server, (None, 0))
        if self.machines.links.is_still(server):
            return None
        return node if node is not None and self.machines.disks[server].life == life else None

    def is_done(self) -> bool:
        """Tell whether all work is done, and all nodes that are there have applied the same."""
        if self.over:
            return True
        servers = [client.name for client in self.actors.clients if not client.done]
        if not any(self.actors.left[server] or self.busy.get(server) for server in servers):
            up = [node for node in map(self.node, servers) if node is not None and not node.stopped]
            nodes = self.those_who_count(up)
            equal = len({node.applied for node in nodes}) == 1 and all(
                node.applied == last_index(node.state.log) for node in nodes)
            leads = any(node.state.role == mapping.LEADER and not node.state.unsynced for node in nodes)
            if len(up) == len(servers) and equal and leads and self.is_settled(nodes):
                self.over, self.final = True, nodes[0].value
                self._check_equal(nodes)
        return self.over

    def is_settled(self, nodes: list[Node]) -> bool:
        """Tell whether nothing is left to do by what these nodes have applied."""
        return True

    def _check_equal(self, nodes: list[Node]) -> None:
        for node in nodes:
            if node.value != self.final:
                raise Failure("safety", "raft:machines", f"{nodes[0].state.me} and {node.state.me} have applied {node.applied} "
                              "entries, and their machines differ")

    def recorded(self, client: Client, step: Step) -> Step:
        """Return a step that also writes what it did into the trace.

        A caller on another machine may still be within a call when the node crashes. It hears of that at its next step."""
        disk, life = self.machines.disks[client.name], self.machines.disks[client.name].life

        def recording(before: State, given: Input) -> tuple[State, tuple[Output, ...]]:
            if disk.life != life:
                raise NodeStopped(f"{client.name} has crashed")
            try:
                after, outputs = step(before, given)
            except Contradiction as error:
                raise Failure("safety", "raft:contradiction", str(error)) from None
            self._record(client.name, before, given, after, outputs)
            return after, outputs

        return recording

    def _record(self, server: str, before: State, given: Input, after: State, outputs: tuple[Output, ...]) -> None:
        save, agreed, restarts = None, 0, type(given) is Restart
        if type(given) in (Compact, Installed):
            self.properties.cuts(before, after)
        for output in outputs:
            if type(output) is Save:
                save = output
            elif type(output) is Send and type(output.message) is Appended and output.message.term == after.term:
                agreed = max(agreed, output.message.match_index)
        reads = self.reads_of(before, given, after, outputs)
        if not (save or restarts or agreed or reads or after.commit != before.commit or after.role != before.role
                or after.term != before.term or after.durable.number != before.durable.number):
            return
        body = mapping.body_of(mapping.Step(
            after.role, after.term, after.commit, after.log.base_index + len(after.log.entries),
            save and mapping.Save(save.number, save.term, save.vote, save.first_index,
                                  tuple([entry.term for entry in save.entries]), save.base),
            after.durable.number if after.durable.number != before.durable.number else 0, agreed,
            (given.term, given.vote, (given.log.base_index, given.log.base_term),
             tuple([entry.term for entry in given.log.entries])) if isinstance(given, Restart) else None, reads,
            *self.members_of(after, save, restarts)))
        self.machines.observe(NEW(Event, (self.actors.kernel.now_ms, 0, server, "step", name_of(given), "", "", 0, "", body, (),
                                          False, True, False)))
        self.properties.check(before, after, 1 if restarts else save and save.first_index)


def name_of(given: Input) -> str:
    return type(given.message).__name__ if isinstance(given, Received) else type(given).__name__


AnyGroup = TypeVar("AnyGroup", bound=Group)


def group_of(actors: Actors, of: type[AnyGroup] = Group) -> AnyGroup:
    """Return the group of a run, of this class; made when it is first asked for."""
    if not actors.kept:
        actors.kept.append(of(actors))
    return actors.kept[0]

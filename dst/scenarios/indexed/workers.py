"""Workers of a metadata index in simulation: they poll for jobs, compact, report, delete, and die at any moment.

A worker that has lost the answer to a poll does not know of its job. One that is slow may have lost its job to another one, and
reports all the same. The poll of a worker is two entries; the node that serves it may stall between them, and whoever has the
plan may propose it again, later and at another leader.
"""

import json
from typing import Any

from highwater.dst.actors import Actors, Said, said_by
from highwater.dst.scenarios.indexed.group import SHARD, TENANT, Impl, IndexGroup, Turns
from highwater.dst.scenarios.indexed.writers import block
from highwater.dst.scenarios.raft import CALL_MS, ELECTION_MS, asked
from highwater.dst.sim.kernel import Client
from highwater.impl.codecs.index import names
from highwater.impl.codecs.index.messages import (
    IN_PROGRESS,
    SUCCESS,
    CompactedBlocks,
    GetPlan,
    PollRequest,
    TombstoneKey,
    UpdatePlan,
    copied,
)
from highwater.impl.errors import StoreError
from highwater.impl.index import tombstones
from highwater.impl.index.plan_get import plan_of
from highwater.impl.index.replicated import Result, stamped
from highwater.impl.node_world import NodeWorld
from highwater.impl.raft.node import Node
from highwater.traces.protocols.indexed.answers import poll_body
from highwater.traces.protocols.metadata_fsm_calls import CALLS

POLL_MS = 2 * CALL_MS
SLOW_MS = 800  # a slow worker takes at most so long
IN_VAIN = 6  # of so many polls that would change nothing, as far as can be seen, a worker makes one
KEPT = 6  # plans that may be proposed once more


class Stalling(Turns):
    """The index on a node that may stall between the two entries of a poll, and keeps some plans."""

    def __init__(self, group: IndexGroup, node: Node, me: Client):
        super().__init__(group, node)
        self.me = me

    async def _proposed(self, command: Any) -> Result:
        actors, sites = self.group.actors, self.me.sites
        if isinstance(command, UpdatePlan) and actors.shape.stalls:
            stalls = actors.choose(sites["stalls"], 6) == 0
            if stalls or actors.choose(sites["keeps"], 4) == 0:
                self.group.plans = [*self.group.plans, copied(command)][-KEPT:]
            if stalls:
                await self.node.world.clock.sleep_ms(1 + actors.choose(sites["between"], 2 * ELECTION_MS))
        return await super()._proposed(command)


class Worker:
    """One worker of a server, in one life of its machine."""

    def __init__(self, actors: Actors, client: Client, world: NodeWorld, number: int, group: IndexGroup, impl: Impl):
        self.actors, self.client, self.world, self.group, self.impl = actors, client, world, group, impl
        self.me = Client(f"{client.name}/worker{number}", of=client)

    def chance(self, what: str, of: int) -> bool:
        """Draw whether something happens that does in one case of so many."""
        return self.actors.choose(self.me.sites[what], of) == 0

    async def wait(self, what: str, most_ms: int) -> None:
        await self.world.clock.sleep_ms(1 + self.actors.choose(self.me.sites[what], most_ms))

    def leader(self) -> Node:
        return asked(self.actors, self.me, self.group, self.group.open[self.client.name][0].state.leader)

    def told(self, said: Said) -> Said:
        self.actors.tell(self.me, said.told, b"", keys=said.keys)
        return said

    async def work(self) -> None:
        """Poll, and compact what comes, until the run is over."""
        shape = self.actors.shape
        if self.group.plans and self.group.works() and self.chance("again at once", 2):  # the node has begun another life
            await self.group.led(self.client.name, self.world)
            await self.propose_again(-1)
        while True:
            await self.wait("pause", shape.poll_ms)
            await self.group.led(self.client.name, self.world)
            if self.group.plans and self.group.works() and self.chance("again", 8):
                await self.propose_again(self.actors.choose(self.me.sites["plan"], len(self.group.plans)))
            if not self.has_cause(self.leader()) and not (self.group.works() and self.chance("asks in vain", IN_VAIN)):
                continue
            said = await self.poll(PollRequest(job_capacity=1))
            if said.told == "polled" and said.value.compaction_jobs:
                await self.compact(said.value.compaction_jobs[0], said.value.assignments[0].token)
            elif said.told == "polled" and shape.deletes and self.chance("deletes", 3):
                await self.delete_overdue()

    def has_cause(self, node: Node) -> bool:
        """Tell whether a poll of a node would change something, as the node sees it, or an object is to be deleted."""
        now_ns, config = self.group.now_ns(node), self.group.config
        asked = GetPlan(assign_jobs_max=1)
        return bool(plan_of(node.value, asked, 0, now_ns, config).ByteSize() or (
            self.actors.shape.deletes and tombstones.for_own_deleter(node.value, now_ns, config)))

    async def poll(self, request: Any) -> Said:
        node = self.leader()
        reports = [(one.name, one.token, one.status) for one in request.status_updates]
        deleted = [(key.index, key.name) for one in request.status_updates for key in one.deleted]
        self.actors.ask(self.me, "poll", poll_body(reports, request.job_capacity, deleted))
        call = self.group.served(node, Stalling(self.group, node, self.me).poll(request))
        return self.told(await said_by(CALLS, "poll", self.world.clock.timeout(POLL_MS, self.actors.in_time(self.me, call)),
                                       leases=lambda response: " ".join(
                                           f"{one.name}/{one.token}" for one in response.assignments)))

    async def propose_again(self, number: int) -> None:
        """Propose a plan that was made before."""
        plan, node = self.group.plans[number], self.leader()
        try:
            at_ns = await self.group.index(node)._stamp_ns()
            call = self.group.served(node, node.propose(stamped(at_ns, plan)))
            await self.world.clock.timeout(CALL_MS, call)
        except StoreError:
            pass  # it may be applied all the same

    # --- a job

    async def compact(self, job: Any, token: int) -> None:
        """Do a job, or die of it. `token` names the lease."""
        if self.group.works() and self.chance("dies", 10):
            return
        if (self.actors.shape.reports_first or self.chance("reports", 2)) and not await self.goes_on(job, token):
            return
        await self.wait("reads", 10)
        paths = [names.block_path(SHARD, job.tenant, ulid, job.compaction_level) for ulid in job.source_blocks]
        sources = [self.group.objects.get(path) for path in paths]
        if None in sources:
            return  # they are compacted, or dropped, and deleted
        if self.group.bad.intersection(job.source_blocks):
            return  # whoever compacts it dies of it
        made = self.compacted(job, sources)
        if self.group.works() and self.chance("is slow", 6):
            await self.wait("slow", SLOW_MS)
        self.group.put(self.me, made, TENANT)
        self.group.results.append(made.id)
        if self.group.works() and self.chance("is late", 6):
            await self.wait("late", SLOW_MS)
            if self.chance("reports again", 3) and not await self.goes_on(job, token):
                return
        await self.wait("writes", 10)
        await self.ends(job, token, made)

    async def goes_on(self, job: Any, token: int) -> bool:
        """Report that it goes on. Return whether it still has the job, as far as it knows."""
        request = PollRequest()
        request.status_updates.add(name=job.name, token=token, status=IN_PROGRESS)
        said = await self.poll(request)
        if self.group.works() and self.chance("dies of it", 8):
            return False
        return said.told != "polled" or any(one.name == job.name for one in said.value.assignments)

    def compacted(self, job: Any, sources: list[Any]) -> Any:
        """Return the block that is made of the sources."""
        data = tuple(one.string_table[part.name] for one in sources for part in one.datasets)
        level = job.compaction_level + 1
        return block(names.compacted_id(list(job.source_blocks), level, TENANT), level, TENANT, data)

    async def ends(self, job: Any, token: int, made: Any) -> None:
        """Report the result, again if there is no answer; delete what the job's tombstones name, and report that, too."""
        request = PollRequest()
        report = request.status_updates.add(name=job.name, token=token, status=SUCCESS)
        report.compacted_blocks.CopyFrom(CompactedBlocks(source_blocks={"blocks": job.source_blocks}, new_blocks=[made]))
        if self.actors.shape.deletes and not self.chance("deletes nothing", 4):
            report.deleted.extend(await self.delete(job.tombstones))
        while True:
            said = await self.poll(request)
            if said.told == "polled" or self.chance("gives up", 5):
                return
            await self.world.clock.sleep_ms(ELECTION_MS // 4)

    # --- deletion

    async def delete(self, several: Any) -> list[Any]:
        """Delete what tombstones name; return their keys."""
        for told in several:
            await self.wait("lists", 10)
            listed = self.listed(told)
            paths = self.impl.objects_of(told, listed)
            if told.HasField("shard"):
                self.group.delete(self.me, paths, json.dumps([told.shard.tenant, told.shard.timestamp]).encode())
            else:
                self.group.delete(self.me, paths)
        return [TombstoneKey(index=told.index, name=tombstones.name_of(told)) for told in several]

    def listed(self, told: Any) -> list[tuple[str, str]]:
        """List the objects below the prefix of a unit's tombstone, with their ULIDs."""
        of = told.shard
        prefix = f"blocks/{of.shard}/{of.tenant}/" if of.tenant else f"segments/{of.shard}/anonymous/"
        return [(path.split("/")[3], path) for path in sorted(self.group.objects) if path.startswith(prefix)]

    async def delete_overdue(self) -> None:
        """Delete what no job carries."""
        node = self.leader()
        call = self.actors.in_time(self.me, self.group.index(node).overdue())
        self.actors.ask(self.me, "overdue")
        said = self.told(await said_by(CALLS, "overdue", self.world.clock.timeout(CALL_MS, call)))
        if said.told != "overdue" or not said.value:
            return
        await self.delete(said.value)
        node = self.leader()
        deleted = [(one.index, tombstones.name_of(one)) for one in said.value]
        self.actors.ask(self.me, "confirm", poll_body([], 0, deleted))
        call = self.group.served(node, Stalling(self.group, node, self.me).confirm(said.value))
        self.told(await said_by(CALLS, "confirm", self.world.clock.timeout(POLL_MS, self.actors.in_time(self.me, call))))

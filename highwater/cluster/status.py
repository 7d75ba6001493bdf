"""Describes a node from outside: who leads, how far it is, and how it does, as JSON for `status` and as text for Prometheus."""

import logging
from collections.abc import Callable
from typing import Any, cast

from highwater.impl.level import Level
from highwater.impl.node_world import Disk
from highwater.impl.raft import core
from highwater.impl.raft.entries import last_index
from highwater.impl.raft.node import Node
from highwater.impl.raft.state import CANDIDATE, FOLLOWER, LEADER, PRE_CANDIDATE, Input, Output, State
from highwater.impl.stores.stream_net import StreamNet
from highwater.impl.stores.system import Counters
from highwater.impl.world import Metrics

ROLES = (FOLLOWER, PRE_CANDIDATE, CANDIDATE, LEADER)
log = logging.getLogger("highwater")


def of(node: Node, net: StreamNet) -> dict[str, Any]:
    """Return what can be asked of a node at any time, without the others."""
    state = node.state
    return {
        "node": state.me, "cluster": net.identity.cluster, "level": list(node.level), "known": list(node.known),
        "role": state.role, "term": state.term, "leader": state.leader, "voters": list(state.voters),
        "learners": list(state.learners), "last": last_index(state.log),
        "commit": state.commit, "applied": node.applied, "snapshot": node.snapshot.index,
        "lag": {follower.name: last_index(state.log) - follower.match_index for follower in state.followers},
        "uncommitted_bytes": state.uncommitted_bytes, "unwritten_saves": len(node.saves), "queued_frames": net.queued_frames(),
        "connected": sorted(link.peer for link in net.links.values() if link.is_connected), "clients": net.callers(),
        "stopped": node.stopped,
    }


def prometheus(status: dict[str, Any], counters: Counters) -> str:
    """Return the metrics in Prometheus' text format. All of them have the node's name as a label."""
    label = f'node="{escaped(status["node"])}"'
    lines = [f'highwater_raft_role{{{label},role="{role}"}} {int(status["role"] == role)}' for role in ROLES]
    lines += [f"highwater_raft_{name}{{{label}}} {status[name]}" for name in (
        "term", "last", "commit", "applied", "snapshot", "uncommitted_bytes", "unwritten_saves", "queued_frames", "clients")]
    lines += [f'highwater_raft_level{{{label},part="{part}"}} {number}'
              for part, number in zip(Level._fields, status["level"])]
    lines.append(f'highwater_raft_running{{{label}}} {int(not status["stopped"])}')
    lines += [f'highwater_raft_lag{{{label},follower="{escaped(name)}"}} {behind}' for name, behind in status["lag"].items()]
    lines += [f'highwater_{name.replace(".", "_")}{{{label}}} {value}' for name, value in counters.snapshot().items()]
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def timed(disk: Disk, metrics: Metrics, seconds: Callable[[], float]) -> Disk:
    """Return a Disk on another one that measures how long its syncs take; `seconds` is a clock."""
    return cast(Disk, TimedDisk(disk, metrics, seconds))


class TimedDisk:
    """A Disk whose syncs are measured; `timed` makes one."""

    def __init__(self, disk: Disk, metrics: Metrics, seconds: Callable[[], float]):
        self._disk, self._metrics, self._seconds = disk, metrics, seconds

    def __getattr__(self, name: str) -> Any:
        return getattr(self._disk, name)

    async def sync(self, name: str) -> None:
        began = self._seconds()
        await self._disk.sync(name)
        self._metrics.observe("disk_sync_seconds", self._seconds() - began)


def logging_roles(step: core.Step) -> core.Step:
    """Return a step that logs one line for each change of role. A pre-candidate has changed nothing yet: it is a follower."""
    def logged(state: State, given: Input) -> tuple[State, tuple[Output, ...]]:
        following, outputs = step(state, given)
        if following.role != state.role and shown(following.role) != shown(state.role):
            log.info("node %r: %s -> %s in term %d, leader %s", following.me, shown(state.role), shown(following.role),
                     following.term, repr(following.leader) if following.leader else "unknown")
        return following, outputs
    return logged


def shown(role: str) -> str:
    return FOLLOWER if role == PRE_CANDIDATE else role

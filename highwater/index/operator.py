"""Calls of operators, beside the API of programs: health, status, the time, and a backup of what is committed."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

from highwater.cluster.status import ROLES, escaped
from highwater.impl.codecs.index import rows as row
from highwater.impl.codecs.index.messages import CLASSES, DamagedMessage, decode, encode
from highwater.impl.errors import StoreError
from highwater.impl.index import replicated
from highwater.impl.index.kv import Rows, under
from highwater.impl.index.log_time import MS, utc
from highwater.impl.index.query.catalogue import all_units
from highwater.impl.index.service.codes import INVALID_ARGUMENT, OK, code_of
from highwater.impl.index.service.service import METHODS, Reply, Service
from highwater.impl.raft.entries import last_index
from highwater.impl.raft.faults import NotLeader
from highwater.impl.raft.node import Node
from highwater.impl.stores import roles
from highwater.impl.stores.system import Counters
from highwater.index import restore

STATUS, SNAPSHOT = "/highwater.index.Operator/Status", "/highwater.index.Operator/Snapshot"
CONFIRM = "/highwater.index.Operator/ConfirmClock"
LATEST_MS = 1 << 43  # of a clock: the year 2248
log = logging.getLogger("highwater")
CHECK, WATCH = "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"
OF_OPERATORS = {STATUS, SNAPSHOT, CONFIRM, next(path for path in METHODS if path.endswith("/DeleteTenant"))}
SERVING, NOT_SERVING, SERVICE_UNKNOWN = 1, 2, 3
PIECE_BYTES = 1 << 20
WATCHED_EVERY_S = 0.5
SERVICES = ("", *sorted({path.split("/")[1] for path in METHODS}))
BUCKETS = {"queued": row.QUEUE, "jobs": row.JOB_STATE, "tombstones": row.TOMBSTONES, "removed": row.REMOVED, "gone": row.GONE,
           "dropped": row.DROPPED}


def role_of(path: str) -> str:
    """Return the role that a call needs; "" if every certificate of the cluster's authority will do."""
    if path in (CHECK, WATCH):
        return ""
    return roles.OPERATOR if path in OF_OPERATORS else roles.CLIENT


class Operator:
    """Answers the calls of operators at one node."""

    def __init__(self, node: Node, index: str, service: Service):
        """Make it for a node of the index of this name."""
        self.node, self.name, self.service, self.backing_up = node, index, service, asyncio.Lock()

    async def call(self, path: str, body: bytes) -> Reply | None:
        """Answer a call; None if it is none of an operator's."""
        if path == STATUS:
            return Reply(OK, body=json.dumps(self.status()).encode())
        if path == CONFIRM:
            return await self.confirm(body)
        if path != CHECK:
            return None
        try:
            asked = decode(CLASSES["HealthCheckRequest"], body, "request").service
        except DamagedMessage as error:
            return Reply(INVALID_ARGUMENT, str(error))
        if asked not in SERVICES:
            return Reply("NOT_FOUND", f"{asked!r} is no service of this index")
        return Reply(OK, body=self.health(asked))

    async def confirm(self, body: bytes) -> Reply:
        """Let log time go on from this node's clock, if the operator's agrees; answer with the time in ms."""
        if not (body.isdigit() and len(body) < 20 and int(body) < LATEST_MS):
            return Reply(INVALID_ARGUMENT, f"the request is no time in ms from 0 to {LATEST_MS:,}")
        try:
            time_ms = await self.service.index.confirm_clock(int(body))
        except StoreError as error:
            return Reply(code_of(error), str(error), leader=error.leader if isinstance(error, NotLeader) else "")
        log.warning("log time goes on from %s: an operator has confirmed this node's clock", utc(time_ms * MS))
        return Reply(OK, body=str(time_ms).encode())

    def streams(self) -> dict[str, Any]:
        """Return the functions of the calls that are answered in parts."""
        return {SNAPSHOT: self.snapshot, WATCH: self.watched}

    def health(self, service: str) -> bytes:
        """Return a HealthCheckResponse: it serves while the node runs and knows a leader."""
        serves = not self.node.stopped and bool(self.node.state.leader)
        code = SERVICE_UNKNOWN if service not in SERVICES else SERVING if serves else NOT_SERVING
        return encode(CLASSES["HealthCheckResponse"](status=code))

    async def watched(self, path: str, body: bytes) -> AsyncIterator[bytes]:
        """Yield the health of a service now, and each time that it changes."""
        asked, last = decode(CLASSES["HealthCheckRequest"], body, "request").service, b""
        while True:
            now = self.health(asked)
            if now != last:
                yield now
                last = now
            await asyncio.sleep(WATCHED_EVERY_S)

    async def snapshot(self, path: str, body: bytes) -> AsyncIterator[bytes]:
        """Yield a backup in pieces: the snapshot file of all that was acknowledged before the call. Raises what `read` does."""
        async with self.backing_up:  # one at a time: each is held in memory until it is read
            rows = await self.node.read()
            file = await asyncio.to_thread(replicated.dump, rows, (restore.id_of(self.name),))
            for start in range(0, len(file), PIECE_BYTES):
                yield file[start:start + PIECE_BYTES]

    def numbers(self) -> dict[str, Any]:
        """Return the numbers that are cheap to tell."""
        state, index = self.node.state, self.service.index
        log_time_ms = index.now_ns() // MS  # also sets the alarm
        return {"clock_ms": index.clocks().own_ms, "log_time_ms": log_time_ms, "clock_alarm": int(bool(index.alarm)),
                "term": state.term, "last": last_index(state.log), "commit": state.commit, "applied": self.node.applied,
                "snapshot": self.node.snapshot.index, "calls": self.service.under_way,
                "cached_datasets": index.cache.held}

    def status(self) -> dict[str, Any]:
        """Return how the node is, and how much is in the index as far as it has applied it."""
        state, rows = self.node.state, self.node.value
        return {"node": state.me, "index": self.name, "role": state.role, "leader": state.leader, "voters": list(state.voters),
                "stopped": self.node.stopped, **self.numbers(), "alarm": self.service.index.alarm, **amounts(rows)}

    def metrics(self, counters: Counters) -> str:
        """Return the metrics in Prometheus's text format."""
        state = self.node.state
        label = f'node="{escaped(state.me)}",index="{escaped(self.name)}"'
        lines = [f'highwater_index_role{{{label},role="{role}"}} {int(state.role == role)}' for role in ROLES]
        numbers = {"running": int(not self.node.stopped), **self.numbers()}
        lines += [f"highwater_index_{name}{{{label}}} {value}" for name, value in numbers.items()]
        lines += [f'highwater_{name.replace(".", "_")}{{{label}}} {value}' for name, value in counters.snapshot().items()]
        return "\n".join(lines) + "\n"


def amounts(rows: Rows) -> dict[str, int]:
    """Return how many units there are, and rows of each bucket."""
    return {"units": sum(1 for _ in all_units(rows))} | {
        name: sum(1 for _ in under(rows, bucket)) for name, bucket in BUCKETS.items()}

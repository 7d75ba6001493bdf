"""Gives an index calls of its API, valid and damaged, through the handlers of gRPC and without a socket."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from random import Random
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

from highwater.impl.codecs.index import names, ulids
from highwater.impl.codecs.index.messages import CLASSES, IN_PROGRESS, SUCCESS, CompactedBlocks, decode, encode
from highwater.impl.index.library import Index
from highwater.impl.index.service.codes import code_of
from highwater.impl.index.service.service import METHODS
from highwater.impl.stores.front import Bounds, Front
from highwater.impl.stores.grpc_calls import Asked, Handlers
from highwater.impl.stores.in_flight import InFlight
from highwater.impl.stores.system import Counters
from highwater.index.operator import CHECK, STATUS, WATCH
from highwater.index.server import Server, Settings
from tests.fuzz.lives import Stopped, Subject, check_node
from tests.fuzz.mutations import BOUNDS, TEXTS, mutated
from tests.impl.index.test_index_library import CONFIG, FAST, leads, worlds
from tests.impl.raft.virtual import run
from tests.support.metadata_damage import damage
from tests.support.metadata_index import block

ADD, GET, POLL, QUERY, LABELS, TENANTS, TENANT, DELETE = METHODS
REQUESTS = {path: method.request for path, method in METHODS.items()} | {
    CHECK: "HealthCheckRequest", WATCH: "HealthCheckRequest", STATUS: "GetTenantsRequest"}
METADATA_BYTES = 8_000  # gRPC's limit for the head of an answer is 8 KiB
SELECTORS = ("{}", '{service_name="writer"}', '{kind=~"c.*",kind!="x"}', '{a!~"(a|b)*c{2,5}",kind="cpu"}')
PARTS = ("{", "}", '"', ",", "=", "=~", "!~", "!=", "(", ")", "(" * 2_000, "a{1000}", "[^", "\\", "\\p{L}", "|" * 500,
         ".*" * 100, 'a="b",' * 300, "(?i)", "\0", "#", "`")
EVERYTHING = {"tenant_id": ["t", "u"], "start_time": 0, "end_time": 1 << 62, "query": "{}"}


class Ended(Exception):
    """A call has ended with another code than OK."""


class Context:
    """The context of one call."""

    def __init__(self, stale: bool):
        self.code, self.text, self.parts = "OK", "", list[bytes]()
        self.metadata = (("highwater-read", "stale"),) if stale else ()

    def peer(self) -> str:
        return "ipv4:127.0.0.1:9"

    def invocation_metadata(self) -> Any:
        return self.metadata

    async def write(self, part: bytes) -> None:
        self.parts.append(part)

    def add_done_callback(self, _: Any) -> None:
        pass

    async def abort(self, code: Any, text: str, trailing: Any) -> None:
        self.code, self.text = code.name, text
        raise Ended(f"{code.name}: {text}")


class Calls:
    """A server of an index, and its calls."""

    def __init__(self, index: Index):
        self.index, self.counts, self.bodies = index, Counter[str](), list[bytes]()
        self.server = Server(Settings(""), index.node, Counters())
        self.server.index.apart = self.server.index._after_others
        self.held = InFlight(64 << 20, 256 << 20)
        self.handlers = Handlers(Asked(self.server.answer, {WATCH: self.server.operator.watched}, code_of), self.held,
                                 Front("", Bounds()))
        self.made, self.jobs = 0, list[Any]()

    async def call(self, path: str, body: bytes, stale: bool = False) -> Context:
        """Make a call and return how it ended. Raises Stopped if nobody expected that."""
        context = Context(stale)
        answer = self.handlers.service(SimpleNamespace(method=path)).unary_stream(body, context)
        try:
            async with asyncio.timeout(1.0 if path == WATCH else 60.0):
                await answer
        except Ended:
            pass
        except TimeoutError:
            if path != WATCH:
                raise Stopped(f"{path} has no answer") from None
        if context.code in ("UNKNOWN", "INTERNAL"):
            raise Stopped(f"{path} ends with {context.code}: {context.text}")
        if len(quote(context.text)) > METADATA_BYTES:
            raise Stopped(f"{path} has an error of {len(quote(context.text)):,} bytes")
        if path == POLL and context.parts:
            self.jobs = [*decode(CLASSES["PollCompactionJobsResponse"], context.parts[0]).assignments][-3:] or self.jobs
        return context

    def block(self, chance: Random) -> Any:
        self.made += 1
        now_ms = self.index.world.clock.now_ms()
        data = tuple(f"d{self.made}.{number}" for number in range(chance.choice((1, 2, 5))))
        return block(self.made, tenant=chance.choice(("t", "u")), ulid=ulids.made(now_ms, self.made.to_bytes(10)), data=data)

    def selector(self, chance: Random) -> str:
        text = chance.choice(SELECTORS)
        for _ in range(chance.choice((0, 0, 1, 3))):
            at = chance.randrange(len(text) + 1)
            text = text[:at] + chance.choice((*PARTS, *TEXTS)) + text[at + chance.choice((0, 1, 5)):]
        return text.encode(errors="replace").decode()

    def request(self, path: str, chance: Random) -> Any:
        """Return a valid request of a path."""
        made = CLASSES[REQUESTS.get(path, "GetTenantsRequest")]()
        if path == ADD:
            made.block.CopyFrom(self.block(chance))
        elif path == GET:
            made.blocks.shard, made.blocks.tenant = 1, "t"
            made.blocks.blocks.extend([self.block(chance).id for _ in range(3)])
        elif path == POLL:
            made.job_capacity = chance.choice((0, 1, 9))
            for job in self.jobs:
                update = made.status_updates.add(name=job.name, token=job.token, status=chance.choice((IN_PROGRESS, SUCCESS)))
                update.compacted_blocks.CopyFrom(self.result(chance))
        elif path in (QUERY, LABELS):
            for name, value in EVERYTHING.items():
                getattr(made, name).extend(value) if name == "tenant_id" else setattr(made, name, value)
            made.query = self.selector(chance)
            made.labels.extend(chance.choice(((), ("kind",), ("kind", "x"), tuple(f"n{number}" for number in range(1_000)))))
        elif path in (TENANT, DELETE):
            made.tenant_id = "t"
        elif path in (CHECK, WATCH):
            made.service = chance.choice(("", "metastore.v1.IndexService", "x"))
        return made

    def result(self, chance: Random) -> Any:
        sources = [self.block(chance).id for _ in range(2)]
        made = block(0, tenant="t", level=1, ulid=names.compacted_id(sources, 1, "t"))
        return CompactedBlocks(source_blocks={"blocks": sources, "shard": 1, "tenant": "t"}, new_blocks=[made])

    async def give(self, chance: Random) -> None:
        path = chance.choice((*REQUESTS, ADD, POLL, QUERY, QUERY))
        request = self.request(path, chance)
        for _ in range(chance.choice((0, 0, 1, 1, 3))):
            if request.DESCRIPTOR.fields:
                damage(request, chance)
        body = encode(request)
        self.bodies = [*self.bodies[-30:], body]
        kind = chance.randrange(8)
        if kind == 0:
            body = mutated(body, chance, self.bodies)
        elif kind == 1:
            body = retyped(body, chance)
        elif kind == 2:
            body = chance.choice(self.bodies)
        if chance.random() < 0.02:
            path = chance.choice(("", "/", path + "x", path.lower(), "/x/é"))
        self.counts[(await self.call(path, body, chance.random() < 0.2)).code] += 1

    async def check(self) -> None:
        """Add a block, and find it."""
        check_node(self.index.node)
        made = self.block(Random(0))
        added = await self.call(ADD, encode(CLASSES["AddBlockRequest"](block=made)))
        tenants = [made.string_table[made.tenant]]
        found = await self.call(QUERY, encode(CLASSES["QueryMetadataRequest"](**EVERYTHING | {"tenant_id": tenants})))
        status = await self.call(STATUS, b"")
        if added.code != "OK" or made.id.encode() not in b"".join(found.parts) or not json.loads(status.parts[0])["leader"]:
            raise Stopped(f"a good block is not found: {added.code} {added.text} {found.code} {found.text}")
        if self.held.total:
            raise Stopped(f"{self.held.total:,} bytes are held, and no call is under way")


def retyped(body: bytes, chance: Random) -> bytes:
    """Return a message of protobuf with one tag of another field or type, or in deep nesting."""
    if chance.random() < 0.3:
        for _ in range(chance.choice((1, 90, 120, 900))):
            body = bytes([chance.choice((0x0A, 0x12))]) + varint(len(body)) + body
        return body
    if chance.random() < 0.2:
        return bytes([chance.choice((0x0B, 0x13))]) * chance.choice((1, 90, 5_000)) + body  # groups that do not end
    at = chance.randrange(len(body) + 1)
    tag = varint(chance.choice((0, 1, 2, 3, 9, 100, (1 << 29) - 1, chance.choice(BOUNDS))) << 3 | chance.randrange(8))
    return body[:at] + tag + body[at + chance.choice((0, 1)):]


def varint(number: int) -> bytes:
    made = bytearray()
    while number > 127:
        made.append(number & 127 | 128)
        number >>= 7
    return bytes((*made, number))


@asynccontextmanager
async def begin(chance: Random) -> AsyncGenerator[Calls]:
    async with AsyncExitStack() as stack:
        index = await stack.enter_async_context(Index.open(worlds("1")["1"], CONFIG, options=FAST))
        await leads(index)
        yield Calls(index)


SUBJECT = Subject("calls", begin, run)

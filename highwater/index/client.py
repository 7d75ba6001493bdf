"""Safety: a call goes to another node only if the one before has certainly not taken it, or if it may be repeated.

A client of an index. It asks its nodes in turn, and follows the name of the leader. All calls of the API may be repeated.
"""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from highwater.impl.codecs.index.messages import CLASSES, decode, encode
from highwater.impl.errors import StoreError
from highwater.impl.index.service.service import METHODS
from highwater.impl.stores.certificates import Files
from highwater.impl.stores.grpc_calls import Channel, Refused, Unclear
from highwater.impl.stores.stream_net import Address

RETRY_S = 0.1  # between two rounds over all nodes
RESPONSES = {method.request: method.request.removesuffix("Request") + "Response" for method in METHODS.values()}
PATHS = {method.request: path for path, method in METHODS.items()}


class Client:
    """A client of the nodes at these addresses. Use it as a context."""

    def __init__(self, nodes: Mapping[str, Address], files: Files | None = None, limit_s: float = 30.0):
        """Make a client of nodes by their names. `limit_s`: for a call, over all nodes."""
        self.channels = {name: Channel(address, files) for name, address in nodes.items()}
        self.limit_s, self.first = limit_s, next(iter(nodes))

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *_: object) -> None:
        for channel in self.channels.values():
            await channel.__aexit__()

    async def call(self, request: Any, stale: bool = False) -> Any:
        """Return the answer to a request of the API. Raises Refused; Unclear if no node answered in time."""
        kind = request.DESCRIPTOR.name
        return decode(CLASSES[RESPONSES[kind]], await self.answer(PATHS[kind], encode(request), stale), "answer")

    async def answer(self, path: str, body: bytes, stale: bool = False) -> bytes:
        """Return the answer to a call, as bytes. Raises what `call` raises."""
        until_s = time.monotonic() + self.limit_s
        while True:
            last: StoreError = Unclear("UNAVAILABLE", "no node was asked")
            for name in [self.first, *(other for other in self.channels if other != self.first)]:
                try:
                    left_s = max(0.05, until_s - time.monotonic())
                    answer = await self.channels[name].call(path, body, left_s, stale)
                    self.first = name
                    return answer
                except Refused as error:
                    if not error.leader:
                        raise
                    last, leader = error, error.leader.partition("=")[0]
                    self.first = leader if leader in self.channels else self.first
                except Unclear as error:
                    last = error
            if time.monotonic() > until_s:
                raise last
            await asyncio.sleep(RETRY_S)

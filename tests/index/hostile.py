"""Hostile clients and peers of an index, in a process of their own: `python -m tests.index.hostile JSON`.

`nodes` of tests/cluster/hostile.py are where the nodes dial each other; `apis`: where they serve their API.
"""

import asyncio
from contextlib import suppress
from typing import Any

from highwater.impl.codecs.index import ulids
from highwater.impl.codecs.index.messages import CLASSES, BlockMeta, encode
from highwater.impl.index.service.service import METHODS
from highwater.impl.stores.grpc_calls import Channel
from highwater.impl.stores.stream_net import Address
from highwater.index.operator import SNAPSHOT, STATUS
from tests.cluster.hostile import Actor, Hostile, main
from tests.fuzz.calls import ADD, DELETE, POLL, QUERY, SELECTORS, retyped
from tests.fuzz.mutations import mutated
from tests.support.metadata_damage import damage
from tests.support.metadata_index import block

TENANT = "hostile"
LIMIT_S = 5.0


class HostileIndex(Hostile):
    """The actors, and what they have done."""

    def __init__(self, wanted: dict[str, Any]):
        super().__init__(wanted)
        self.apis = [Address(*place) for place in wanted["apis"]]
        self.now_ms, self.made = wanted["now_ms"], 0

    async def call(self, path: str, body: bytes, who: str = "client") -> None:
        """Make a call on a connection of its own. Raises StoreError."""
        async with Channel(self.random.choice(self.apis), self.files[who]) as channel:
            await channel.call(path, body, LIMIT_S)

    def block(self, datasets: int = 1) -> Any:
        self.made += 1
        ulid = ulids.made(self.now_ms, self.random.randbytes(10))
        return block(self.made, tenant=TENANT, ulid=ulid, data=tuple(f"h{number}" for number in range(datasets)))

    # --- actors

    async def odd_calls(self) -> None:
        """Make a call with a damaged request."""
        made = CLASSES["AddBlockRequest"](block=self.block())
        asked = CLASSES["QueryMetadataRequest"](tenant_id=[TENANT], start_time=0, end_time=1 << 62, query=SELECTORS[1])
        path, request = self.random.choice(((ADD, made), (QUERY, asked), (POLL, CLASSES["PollCompactionJobsRequest"]())))
        with suppress(ValueError):
            damage(request, self.random)
        body = encode(request)
        if path != ADD or self.random.random() < 0.5:
            body = self.random.choice((mutated, retyped))(body, self.random)
        await self.call(self.random.choice((path, path, path + "x", STATUS)), body)

    async def costly_queries(self) -> None:
        """Ask for what takes long."""
        asked = CLASSES["QueryMetadataRequest"](tenant_id=["a", "b", TENANT], start_time=0, end_time=1 << 62)
        asked.query = self.random.choice((
            "{" + ",".join(f'a{number}=~"(x+x+)+{number}"' for number in range(400)) + "}", '{a=~"' + "(" * 20_000 + '"}',
            "{" + ",".join(f'kind!~".*{number}.*"' for number in range(90)) + "}", "{" + 'a="b",' * 10_000 + "}"))
        asked.labels.extend(f"n{number}" for number in range(self.random.choice((0, 900, 60_000))))
        await self.call(QUERY, encode(asked))

    async def label_bomb(self) -> None:
        """Add a block with many sets of labels of distinct names."""
        made: Any = BlockMeta()
        made.CopyFrom(self.block())
        number = self.random.choice((500, 2_000, 12_000))
        start = len(made.string_table)
        made.string_table.extend(f"l{self.made}.{place}" for place in range(number))
        for place in range(number):
            made.datasets[0].labels.extend((1, start + place, start + place))
        await self.call(ADD, encode(CLASSES["AddBlockRequest"](block=made)))

    async def huge_calls(self) -> None:
        path, size = self.random.choice(((QUERY, 3 << 20), (ADD, 5 << 20), (POLL, 4 << 20)))
        await self.call(path, bytes(size))

    async def wrong_calls(self) -> None:
        """Call what the certificate does not allow."""
        who, path = self.random.choice((("client", STATUS), ("client", SNAPSHOT), ("client", DELETE), ("ghost", QUERY),
                                        ("foreign", QUERY), ("member", ADD)))
        await self.call(path, b"", who)

    async def many_calls(self) -> None:
        """Make many calls at once, and end them before they are answered."""
        async with Channel(self.random.choice(self.apis), self.files["client"]) as channel:
            asked = CLASSES["QueryMetadataRequest"](tenant_id=["a", "b"], start_time=0, end_time=1 << 62, query="{}")
            path = self.random.choice((QUERY, next(path for path in METHODS if "Labels" in path)))
            tasks = [asyncio.ensure_future(channel.call(path, encode(asked), LIMIT_S)) for _ in range(50)]
            await asyncio.sleep(self.random.uniform(0, 0.5))
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def actors(self) -> dict[Actor, float]:
        return {**super().actors(), self.odd_calls: 0.1, self.costly_queries: 2.0, self.label_bomb: 3.0, self.huge_calls: 2.0,
                self.wrong_calls: 0.5, self.many_calls: 3.0}


if __name__ == "__main__":
    main(HostileIndex)

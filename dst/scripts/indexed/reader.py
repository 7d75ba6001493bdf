"""Scripts of readers: what is taken of an answer, and when its time is over."""

from typing import Any

from highwater.dst.script import Alone, Script, same
from highwater.dst.scripts.indexed.one import block, ulid
from highwater.impl.codecs.index.messages import QueryRequest, QueryResponse
from highwater.impl.errors import NotFound, Unavailable
from highwater.impl.index.reader import QueryOver, Reader

REQUEST = QueryRequest(tenant_id=["t"])
RAW, RESULT = f"segments/1/anonymous/{ulid(1)}/block.bin", f"blocks/1/t/{ulid(2)}/block.bin"


def reading(alone: Alone, asks_ms: int = 0) -> tuple[Reader, list[tuple[str, bytes]]]:
    """Return a reader with 100 ms for a query, of an index that answers after so long, and a list of what it takes later."""
    async def query(request: Any) -> Any:
        same(request, REQUEST)
        await alone.world.clock.sleep_ms(asks_ms)
        return QueryResponse(blocks=[block(1), block(2, tenant="t", level=1)])

    return Reader(alone.world, query, 100), []


async def a_reader_takes_what_an_answer_names(alone: Alone) -> None:
    await alone.real.put(RAW, b"one")
    await alone.real.put(RESULT, b"two")
    of, taken = reading(alone, 100)
    same(await of.read(REQUEST, lambda made, found: taken.append((made.id, found.body))), 2)
    same(taken, [(ulid(1), b"one"), (ulid(2), b"two")])


async def a_reader_takes_nothing_after_its_time(alone: Alone) -> None:
    await alone.real.put(RAW, b"one")
    await alone.real.put(RESULT, b"two")
    of, taken = reading(alone, 101)
    raised = await alone.raises(QueryOver, of.read(REQUEST, lambda made, found: taken.append((made.id, found.body))))
    same((str(raised), taken), ("the query has read for more than 100 ms: ask again for less, or read faster", []))


async def an_object_may_be_gone_only_after_its_time(alone: Alone) -> None:
    of, taken = reading(alone)
    await alone.raises(NotFound, of.read(REQUEST, lambda made, found: taken.append((made.id, found.body))))
    of, taken = reading(alone, 101)
    await alone.raises(QueryOver, of.read(REQUEST, lambda made, found: taken.append((made.id, found.body))))
    alone.fails("get", RAW, Unavailable)
    await alone.raises(Unavailable, of.read(REQUEST, lambda made, found: taken.append((made.id, found.body))))
    same(taken, [])


SCRIPTS: tuple[Script, ...] = (
    a_reader_takes_what_an_answer_names, a_reader_takes_nothing_after_its_time, an_object_may_be_gone_only_after_its_time)

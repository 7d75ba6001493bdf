"""The reader of an index finds what an answer names, and takes nothing once its time is over."""

import asyncio
from types import SimpleNamespace

import pytest

from highwater.impl.codecs.index.messages import QueryRequest, QueryResponse
from highwater.impl.errors import NotFound, Unavailable
from highwater.impl.index.reader import QueryOver, Reader
from highwater.impl.stores.memory import MemoryStore
from tests.support.metadata_index import block

KEYS = [f"blocks/1/t/{block(number).id}/block.bin" for number in range(3)]


def read(missing=(), slow_ms=0, asks_ms=0, error=None):
    """Read an answer of three blocks. Each GET takes `slow_ms`, and the question `asks_ms`. Return the result or the error,
    and what was taken."""
    store, now, taken = MemoryStore(), [0], []

    async def get(key):
        now[0] += slow_ms
        if error:
            raise error
        return await store.get(key)

    async def query(request):
        now[0] += asks_ms
        made = [block(number, level=1, tenant="t") for number in range(3)]
        return QueryResponse(blocks=made) if request.tenant_id else QueryResponse()

    async def all_of(request):
        for key in KEYS:
            if key not in missing:
                await store.create(key, key.encode())
        world = SimpleNamespace(store=SimpleNamespace(get=get), clock=SimpleNamespace(monotonic_ms=lambda: now[0]))
        return await Reader(world, query, 100).read(request, lambda block, found: taken.append((block.id, found.body)))

    try:
        return asyncio.run(all_of(QueryRequest(tenant_id=["t"]))), taken
    except (NotFound, QueryOver, Unavailable) as raised:
        return raised, taken


def test_every_object_of_an_answer_is_taken_in_its_order():
    assert read() == (3, [(key.split("/")[3], key.encode()) for key in KEYS])


@pytest.mark.parametrize("times, taken", [
    ({"slow_ms": 33}, 3), ({"slow_ms": 34}, 2), ({"slow_ms": 101}, 0), ({"asks_ms": 100}, 3), ({"asks_ms": 101}, 0),
    ({"asks_ms": 50, "slow_ms": 50}, 1)], ids=str)
def test_nothing_is_taken_once_its_time_is_over(times, taken):
    """The time begins before the question."""
    said, got = read(**times)
    assert len(got) == taken and (said == 3 if taken == 3 else isinstance(said, QueryOver))


def test_an_object_that_is_gone_after_its_time_is_not_reported_as_gone():
    assert isinstance(read(missing=KEYS[:1])[0], NotFound)
    said, got = read(missing=KEYS[2:], slow_ms=34)
    assert isinstance(said, QueryOver) and len(got) == 2
    assert str(said) == "the query has read for more than 100 ms: ask again for less, or read faster"


def test_what_the_store_raises_goes_to_the_caller():
    assert isinstance(read(error=Unavailable("down"))[0], Unavailable)

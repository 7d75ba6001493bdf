"""A ranged read in simulation is a request like any other: delayed, lost, judged; a store that lies in one is convicted."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from highwater.dst.actors import STORE
from highwater.dst.scenario import BaseShape, profile_in, rules_of
from highwater.dst.sim.kernel import Client, Kernel
from highwater.dst.world.faults import FATES
from highwater.dst.world.network import Network
from highwater.dst.world.store import SimulatedStore
from highwater.impl.errors import BeyondEnd, NotFound, Unavailable
from highwater.traces.event import Event
from highwater.traces.form import Keys, malformed
from highwater.traces.store import Store
from tests.support.lies import lies

RULES = rules_of(profile_in(BaseShape()))
KEYS = Keys("db/", listed=("db/",))


def played(work: Callable[[], Coroutine[Any, Any, None]], fate: str = "ok", store: SimulatedStore | None = None) -> list[Event]:
    """Run one client, whose ranged reads have this fate. Return the events of its trace."""
    events: list[Event] = []
    kernel, client = Kernel(None), Client("Reader#0")
    Network(kernel, store or SimulatedStore(), events.append, lambda site, bound: 0, lambda site, bound: 0,
            lambda site, *_: FATES.index(fate if site.endswith("get_range") else "ok"), lambda fates: 0, b"some", (60,), 0,
            lambda client: None)
    kernel.start(client, work())
    kernel.run(10_000, 100)
    assert client.done
    return events


async def reads() -> None:
    """Read what is there, what is beyond the end, and what is not there."""
    version = await STORE.create("db/k", b"0123456789")
    found = await STORE.get_range("db/k", 3, 6)
    assert found[:2] == (b"345", version) and (await STORE.get_range("db/k", 8, 99)).body == b"89"
    with pytest.raises(BeyondEnd, match="db/k"):
        await STORE.get_range("db/k", 10, 11)
    with pytest.raises(NotFound):
        await STORE.get_range("db/j", 0, 1)
    with pytest.raises(ValueError, match="bad range"):
        await STORE.get_range("db/k", 1, 1)
    await STORE.update("db/k", b"ab", version)
    assert (await STORE.get_range("db/k", 0, 9)).body == b"ab"


def convicted(events: list[Event]) -> str:
    store = Store(RULES, {})
    return next(filter(None, map(store.judge, events)), "")


def test_the_events_of_ranged_reads_are_well_formed_and_no_lies():
    for fate in ("ok", "stall"):
        events = played(reads, fate)
        assert [(e.op, e.condition, e.status, e.body) for e in events if e.op == "get_range"] == [
            ("get_range", "bytes=3-5", 206, b"345"), ("get_range", "bytes=8-98", 206, b"89"),
            ("get_range", "bytes=10-10", 416, b""), ("get_range", "bytes=0-0", 404, b""),
            ("get_range", "bytes=0-8", 206, b"ab")]
        assert not convicted(events) and not any(malformed(e, KEYS) for e in events)


@pytest.mark.parametrize(("fate", "kind"), [("request_lost", "timeout"), ("reply_lost", "timeout"), ("refused", "refused")])
def test_a_ranged_read_that_has_no_answer_is_definite(fate, kind):
    async def work() -> None:
        await STORE.create("db/k", b"01")
        with pytest.raises(Unavailable):
            await STORE.get_range("db/k", 0, 1)

    events = played(work, fate)
    assert kind in {e.kind for e in events if e.op == "get_range"} and not any(malformed(e, KEYS) for e in events)


def test_every_lie_in_a_ranged_read_is_convicted():
    events, found = played(reads), set()
    for name, edited in lies(events, {}, 404):
        assert convicted(edited), name
        found.add(name)
    assert {"other bytes in a range", "a range cut short", "a 416 to get_range for what is there"} <= found


def test_a_store_that_sends_one_byte_too_few_is_convicted():
    class Short(SimulatedStore):
        def apply(self, op: str, *asked: Any, **more: Any) -> Any:
            reply = super().apply(op, *asked, **more)
            return reply._replace(body=reply.body[:-1]) if op == "get_range" and len(reply.body) > 1 else reply

    assert "is something else" in convicted(played(reads, store=Short()))


@pytest.mark.parametrize("wrong", [{"condition": ""}, {"condition": "3-5"}, {"condition": "bytes=5-3"}, {"body": b"3456"},
                                   {"body": b""}, {"status": 200}, {"version": ""}, {"status": 416}])
def test_what_no_store_and_no_client_does_is_malformed(wrong):
    good = next(e for e in played(reads) if e.status == 206)
    assert not malformed(good, KEYS) and malformed(good._replace(**wrong), KEYS)

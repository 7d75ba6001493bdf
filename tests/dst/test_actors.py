"""The loops of readers and collectors that scenarios share: what they report, and which errors end a run."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from highwater.dst.actors import Actors, Said
from highwater.dst.sim.kernel import Client
from highwater.impl.errors import NotFound, OutcomeUnknown, TimedOut, Unavailable

CLIENT, ROUNDS = Client("Cleaner#0"), 3


async def nothing(*_: Any) -> None:
    pass


def in_turn(*results: Any) -> Any:
    """Return a call that returns these results one after another, and raises those that are errors."""
    left = iter(results)

    async def call() -> Any:
        result = next(left)
        if isinstance(result, Exception):
            raise result
        return result

    return call


def stub() -> Any:
    """Return the parts of Actors that a loop uses, and in `told` what it reports."""
    told: list[tuple[str, bytes]] = []
    shape = SimpleNamespace(broken="")
    return SimpleNamespace(
        left={CLIENT.name: ROUNDS}, shape=shape, told=told, pause=nothing, begin=lambda client: None,
        tell=lambda client, op, body, key="", keys=(): told.append((op, body)),
        end=lambda client, op, key="", body=b"", seen=(), keys=(): told.append((op, body)))


@pytest.mark.parametrize("results, told", [
    ((Said("collected", ()), Said("failed", (), error=NotFound("x")), 7), ["collected", "failed"]),
    ((Unavailable("x"), OutcomeUnknown("x"), Said("collected", ())), ["collected"]), ((["a"], None, TimedOut("x")), [])])
def test_collect_in_rounds_reports_each_said_alone(results, told):
    actors = stub()
    asyncio.run(Actors.collect_in_rounds(actors, CLIENT, nothing, in_turn(*results)))
    assert [op for op, _ in actors.told] == told and not actors.left[CLIENT.name]


def test_collect_in_rounds_raises_other_errors():
    with pytest.raises(KeyError):
        asyncio.run(Actors.collect_in_rounds(stub(), CLIENT, nothing, in_turn(KeyError("x"))))


def test_read_one_by_one_takes_plain_results():
    actors = stub()
    reads = in_turn(["0.0", "1.0"], NotFound("x"), Said("read", (), ["0.0"]))
    asyncio.run(Actors.read_one_by_one(actors, CLIENT, None, reads, tuple))  # pyright: ignore[reportArgumentType]
    assert actors.told == [("read", b"0.0 1.0"), ("read", b"0.0")]


def test_read_one_by_one_raises_an_indefinite_error():
    with pytest.raises(OutcomeUnknown):
        asyncio.run(Actors.read_one_by_one(
            stub(), CLIENT, None, in_turn(OutcomeUnknown("x")), tuple))  # pyright: ignore[reportArgumentType]

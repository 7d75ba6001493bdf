"""Scripts: what one client alone is answered, and that a run fails if a script does."""

import re

import pytest

from highwater.dst import script
from highwater.dst.run_spec import Run
from highwater.dst.scenarios import named, stems
from highwater.dst.script import HANGS, LOST, UNHEARD, Alone, Cancelled, failed, same
from highwater.dst.simulate import simulate
from highwater.impl.errors import AlreadyExists, NotFound, OutcomeUnknown, Unavailable
from highwater.traces.refine import Failure

SCRIPTS = [(stem, of) for stem in stems() for of in named(stem).scripts]


@pytest.mark.parametrize("of", [of for _, of in SCRIPTS], ids=[f"{stem}-{of.__name__}" for stem, of in SCRIPTS])
def test_a_script_passes(of):
    assert failed((of,)) is None


async def returns(value: object = None) -> object:
    return value


async def answers_wrongly(alone: Alone) -> None:
    same(await returns(1), 2)


async def raises_nothing(alone: Alone) -> None:
    await alone.raises(NotFound, alone.world.store.put("k", b""))


async def raises_a_subclass(alone: Alone) -> None:
    await alone.raises(Exception, alone.world.store.get("k"))


async def raises_something_else(alone: Alone) -> None:
    raise KeyError("k")


async def asks_without_end(alone: Alone) -> None:
    while True:
        await alone.world.store.list_page("")


async def waits(alone: Alone) -> None:
    alone.fails("get", "k", HANGS)
    await alone.world.store.get("k")


@pytest.mark.parametrize("of, says", [
    (answers_wrongly, "the answer is 1, and should be 2"), (raises_nothing, "'1' is returned, and NotFound should be raised"),
    (raises_a_subclass, "NotFound is raised, and should be Exception"), (raises_something_else, "KeyError: 'k'"),
    (asks_without_end, "no end after 10,000 requests"), (waits, "it waits for something that never comes")])
def test_a_script_that_fails_fails_every_run(of, says, monkeypatch):
    scenario = named("baseline")._replace(scripts=(*named("baseline").scripts, of))
    monkeypatch.setattr("highwater.dst.simulate.named", lambda stem: scenario)
    outcomes = [simulate(Run(seed, "baseline")) for seed in (0, 1)]
    assert [(one.kind, one.signature) for one in outcomes] == [("safety", f"script:{of.__name__}")] * 2
    assert says in outcomes[0].message and f"of {__name__}" in outcomes[0].message
    lines = range(of.__code__.co_firstlineno, of.__code__.co_firstlineno + 9)
    line = re.search(r" \(dst/test_scripts\.py:(\d+)\)$", outcomes[0].message)
    assert (line and int(line[1]) in lines) or of is waits, outcomes[0].message


def test_a_fault_happens_where_the_script_says():
    async def script_of_faults(alone: Alone) -> None:
        store = alone.world.store
        alone.fails("put", "a/", Unavailable, 2)
        alone.fails("put", "b", LOST)
        await store.put("a", b"")
        for _ in range(2):
            await alone.raises(Unavailable, store.put("a/1", b""))
        await store.put("a/1", b"")
        await alone.raises(OutcomeUnknown, store.put("b", b"1"))
        same((await store.get("b")).body, b"1")
        alone.fails("create", "c", lambda: alone.real.put("c", b"another's"))
        await alone.raises(AlreadyExists, store.create("c", b""))
        for how, there in ((HANGS, False), (UNHEARD, True)):
            alone.fails("put", f"{how}", how)
            await alone.cancels(store.put(how, b""))
            same(bool((await alone.real.list_page(how)).entries), there)
        same(alone.sent()[:3], ["put a", "put 1", "put 1"])
        same(alone.sent(), [])

    assert failed((script_of_faults,)) is None


def test_a_call_that_is_not_suspended_cannot_be_cancelled():
    with pytest.raises(StopIteration):
        script.thrown_into(returns()).send(None)  # pyright: ignore[reportAttributeAccessIssue]  # a generator
    with pytest.raises(Failure, match="should be raised"):
        Alone().cancels(returns()).send(None)  # pyright: ignore[reportArgumentType]
    assert issubclass(Cancelled, BaseException) and not issubclass(Cancelled, Exception)

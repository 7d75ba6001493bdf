"""The model holds with each fault, and fails without each safeguard. The implementation refines it. Each mutant is found."""

import asyncio
import json

import pytest
from lease.impl import DATA, Fenced, Lease
from lease.model import Constants, model
from lease.mutants import MUTANTS

from highwater import MemoryStore, Run, explore, simulate, system_world

SMALL = {"UPDATES": 1}
FAULTS = [{}, {"MAX_PENDING": 1}, {"MAX_LOST": 1}, {"MAX_CRASHES": 1}]
SAFEGUARDS = {"TokenHasOneHolder": {"LOCK_CONDITIONAL": False}, "HoldersDoNotMix": {"FENCED": False},
              "AckedIsKept": {"CONDITIONAL": False}}  # the property that must fail -> the safeguard that is off
PERFECT = [{"FENCED": False}, {"CONDITIONAL": False}]  # what would be enough if clocks were perfect and no request were late


@pytest.mark.parametrize("faults", FAULTS)
def test_every_property_holds(faults):
    found = explore(model(Constants(**SMALL, **faults)))
    assert (found.violated, found.never) == (None, ())


@pytest.mark.parametrize("name", SAFEGUARDS)
def test_a_property_fails_without_its_safeguard(name):
    assert explore(model(Constants(**SAFEGUARDS[name]))).violated == name


@pytest.mark.parametrize("off", PERFECT)
def test_perfect_clocks_would_do_without_it(off):
    assert explore(model(Constants(CLOCKS="perfect", **off))).violated is None


def test_perfect_clocks_do_not_stop_a_late_request():
    assert explore(model(Constants(**SMALL, CLOCKS="perfect", CONDITIONAL=False, MAX_PENDING=1))).violated == "AckedIsKept"


def test_every_run_refines_the_model():
    for seed in range(200):
        outcome = simulate(Run(seed, "lease"))
        assert not outcome.kind, f"{outcome.message}: highwater dst run --project . --seed {seed}"


@pytest.mark.parametrize("name", MUTANTS.builds)
def test_every_mutant_is_found(name):
    outcomes = (simulate(Run(seed, "lease", name)) for seed in range(500))
    found = next((outcome.signature for outcome in outcomes if outcome.kind), "in no run")
    assert found.startswith(MUTANTS.oracles[name][0])


def test_on_a_store_in_memory():
    async def work() -> list:
        store = MemoryStore()
        await store.create(DATA, b"[]")
        first, second = Lease(system_world(store), "Client#0", 50), Lease(system_world(store), "Client#1", 50)
        await first.append("0.0")
        held = first.held
        await second.append("1.0")  # waits until the lease has expired
        first.held = held._replace(expires_ms=held.expires_ms + 60_000)  # a clock that is a minute behind
        with pytest.raises(Fenced):
            await first.append("0.1")
        return json.loads((await store.get(DATA)).body)

    assert asyncio.run(work()) == [[1, "0.0"], [2, "1.0"]]

"""The model holds with each fault, and fails without each safeguard. The implementation refines it. Each mutant is found."""

import asyncio

import pytest
from NAME.impl import Claims
from NAME.model import Constants, model
from NAME.mutants import MUTANTS

from highwater import MemoryStore, Run, explore, simulate, system_world

SAFEGUARDS = {"ClaimIsKept": {"IF_ABSENT": False}}  # the property that must fail -> the safeguard that is off
FAULTS = [{}, {"MAX_PENDING": 1}, {"MAX_LOST": 1}, {"MAX_CRASHES": 1}]


@pytest.mark.parametrize("faults", FAULTS)
def test_every_property_holds(faults):
    found = explore(model(Constants(**faults)))
    assert (found.violated, found.never) == (None, ())


@pytest.mark.parametrize("name", SAFEGUARDS)
def test_a_property_fails_without_its_safeguard(name):
    assert explore(model(Constants(**SAFEGUARDS[name]))).violated == name


def test_every_run_refines_the_model():
    for seed in range(200):
        outcome = simulate(Run(seed, "NAME"))
        assert not outcome.kind, f"{outcome.message}: highwater dst run --project . --seed {seed}"


@pytest.mark.parametrize("name", MUTANTS.builds)
def test_every_mutant_is_found(name):
    outcomes = (simulate(Run(seed, "NAME", name)) for seed in range(500))
    found = next((outcome.signature for outcome in outcomes if outcome.kind), "in no run")
    assert found.startswith(MUTANTS.oracles[name][0])


def test_on_a_store_in_memory():
    async def claims() -> list[bool]:
        store = MemoryStore()
        first, second = Claims(system_world(store)), Claims(system_world(store))
        return [await first.claim(0, b"0.0"), await second.claim(0, b"1.0"), await second.claim(1, b"1.1")]

    assert asyncio.run(claims()) == [True, False, True]

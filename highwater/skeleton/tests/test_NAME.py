"""The implementation works on a real store, refines the model in simulated runs, and each mutant of it is found.

The model has its own table of checks, NAME/spec.toml.
"""

import asyncio

import pytest
from NAME.impl import Claims
from NAME.mutants import MUTANTS

from highwater import MemoryStore, Run, simulate, system_world


def test_on_a_store_in_memory():
    async def claims() -> list[bool]:
        store = MemoryStore()
        first, second = Claims(system_world(store)), Claims(system_world(store))
        return [await first.claim(0, b"0.0"), await second.claim(0, b"1.0"), await second.claim(1, b"1.1")]

    assert asyncio.run(claims()) == [True, False, True]


def test_every_run_refines_the_model():
    for seed in range(200):
        outcome = simulate(Run(seed, "NAME"))
        assert not outcome.kind, f"{outcome.message}: highwater dst run --project . --seed {seed}"


@pytest.mark.parametrize("name", MUTANTS.builds)
def test_every_mutant_is_found(name):
    outcomes = (simulate(Run(seed, "NAME", name)) for seed in range(500))
    found = next((outcome.signature for outcome in outcomes if outcome.kind), "in no run")
    assert found.startswith(MUTANTS.oracles[name][0])

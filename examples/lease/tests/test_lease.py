"""The implementation works on a real store, refines the model in simulated runs, and each mutant of it is found.

The model has its own table of checks, lease/spec.toml.
"""

import asyncio
import json

import pytest
from lease.impl import DATA, Fenced, Lease
from lease.mutants import MUTANTS

from highwater import MemoryStore, Run, simulate, system_world


def test_on_a_store_in_memory():
    async def work() -> list:
        store = MemoryStore()
        await store.create(DATA, b"[]")
        first, second = Lease(system_world(store), "Client#0", 50), Lease(system_world(store), "Client#1", 50)
        await first.append("0.0")
        held = first.held
        await second.append("1.0")  # waits until the lease has expired
        first.held = held._replace(expires_ms=held.expires_ms + 60_000)  # as if its clock were a minute behind
        with pytest.raises(Fenced):
            await first.append("0.1")
        return json.loads((await store.get(DATA)).body)

    assert asyncio.run(work()) == [[1, "0.0"], [2, "1.0"]]


def test_every_run_refines_the_model():
    for seed in range(200):
        outcome = simulate(Run(seed, "lease"))
        assert not outcome.kind, f"{outcome.message}: highwater dst run --project . --seed {seed}"


@pytest.mark.parametrize("name", MUTANTS.builds)
def test_every_mutant_is_found(name):
    outcomes = (simulate(Run(seed, "lease", name)) for seed in range(500))
    found = next((outcome.signature for outcome in outcomes if outcome.kind), "in no run")
    assert found.startswith(MUTANTS.oracles[name][0])

"""The implementation works on a real store, refines the model in simulated runs, and each mutant of it is found.

The model has its own table of checks, table/spec.toml, and a proof, table/proof.py.
"""

import asyncio

import pytest
from table.impl import FILES, TABLE, Content, Table, decode, encode, name_of
from table.mutants import MUTANTS

from highwater import MemoryStore, Run, simulate, system_world


def test_on_a_store_in_memory():
    async def work() -> tuple[Content, list[str]]:
        store = MemoryStore()
        await store.create(TABLE, encode(Content()))
        table = Table(system_world(store))
        await table.append("0.0", b"first")
        await store.put(FILES + name_of(1, "1.0"), b"lost the conflict")
        await store.put(FILES + name_of(2, "1.0"), b"is about to be committed")
        return decode((await store.get(TABLE)).body), await table.clean()

    assert asyncio.run(work()) == (Content(1, (name_of(1, "0.0"),)), [name_of(1, "1.0")])


def test_every_run_refines_the_model():
    for seed in range(200):
        outcome = simulate(Run(seed, "table"))
        assert not outcome.kind, f"{outcome.message}: highwater dst run --project . --seed {seed}"


@pytest.mark.parametrize("name", MUTANTS.builds)
def test_every_mutant_is_found(name):
    outcomes = (simulate(Run(seed, "table", name)) for seed in range(500))
    found = next((outcome.signature for outcome in outcomes if outcome.kind), "in no run")
    assert found.startswith(MUTANTS.oracles[name][0])

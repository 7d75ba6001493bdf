"""The migration from V1 to V2 manifests: the model's counts, its knobs, and the RFC's sentences as cases."""

import asyncio
from itertools import pairwise

import pytest

from highwater.conformance.conform import model_of
from highwater.dst.mutants.manifest_migration import BUILDS, look
from highwater.dst.run_spec import Run
from highwater.dst.scenarios.manifest_migration import Shape, production, with_update
from highwater.dst.simulate import simulate
from highwater.impl.codecs.manifest import CannotHold, Manifest
from highwater.impl.codecs.slatedb.header import InvalidFile
from highwater.impl.codecs.slatedb.manifest import ManifestCodec, Phase
from highwater.impl.layout import Namespace
from highwater.impl.protocols.manifest_migration import begin_v2_only
from highwater.impl.protocols.sequenced_metadata import MetadataStore
from highwater.impl.protocols.sequenced_storage import ObjectVersionExists, SequencedStorage
from highwater.impl.stores.memory import MemoryStore
from highwater.impl.stores.system import system_world
from highwater.model.explore.tabulated import explore
from highwater.model.protocols.manifest_migration import Constants, Shared, Writer, may_begin, model
from highwater.specs.runs import rows

ROWS = {row.id: row for row in rows() if row.stem == "manifest_migration"}
LENGTHS = {"migration_newer_fields_dropped": 7, "migration_out_of_order": 5, "migration_old_remains": 8,
           "migration_old_comes_late": 12}


@pytest.mark.parametrize("row", [row for row in ROWS.values() if row.expect == "PASSED"], ids=lambda row: row.id)
def test_it_holds(row):
    found = explore(model_of(row))
    assert (found.violated, found.states, found.complete, found.never) == (None, row.states, True, row.never)


@pytest.mark.parametrize("name", LENGTHS)
def test_each_safeguard_off_has_its_counterexample(name):
    found = explore(model_of(ROWS[name]))
    assert (found.violated, len(found.trace) - 1) == (ROWS[name].violates, LENGTHS[name])


def test_with_everything_at_once_it_holds():
    found = explore(model(Constants(WRITERS=3, UPDATES=1, FIRST=1, MAX_PENDING=1)))
    assert (found.violated, found.states, found.complete) == (None, 91_890, True)


def test_more_updates_than_fizzbee_is_given():
    found = explore(model(Constants()))
    assert (found.violated, found.states, found.complete) == (None, 40_258, True)


def test_the_late_manifest_comes_after_all_that_the_source_asks_for():
    """«Once no V1 manifests remain on disk»: none did, when phase 3 began, and nobody was in phase 1."""
    trace = explore(model_of(ROWS["migration_old_comes_late"])).trace
    (before,) = [state for (_, state), ((who, what, _), _) in pairwise(trace)
                 if what == "Upgrade" and state.shared.phases[int(who[-1])] == 2]
    assert min(before.shared.phases) == 2 and all(version == 2 for _, version, _ in before.shared.files)
    assert before.shared.pool[0][1] == 1


def test_phases_begin_in_order():
    shared = Shared(((2, 2, frozenset()),), (), (0, 1), frozenset(), False)
    assert may_begin(Constants(), shared, 1, Writer()) and not may_begin(Constants(), shared, 2, Writer())
    shared = shared._replace(phases=(2, 2))
    assert may_begin(Constants(), shared, 3, Writer(sealed=True)) and not may_begin(Constants(), shared, 3, Writer())


# --- the real implementation: the same counterexamples as bytes

V1, V2 = ManifestCodec(Phase.WRITE_V1), ManifestCodec(Phase.WRITE_V2)
NAMESPACE = Namespace("db", "manifest")


async def begun(codec: ManifestCodec):
    world = system_world(MemoryStore())
    await MetadataStore(world, NAMESPACE, codec).initialise(Manifest())
    return world


def put(name: str):
    return lambda _, manifest: with_update(manifest, name)


def test_an_older_client_does_not_drop_the_newer_field():
    """slatedb#779: here it is refused; a client that leaves out what it has no place for drops what was acknowledged."""
    async def case(codec):
        world = await begun(V2)
        await MetadataStore(world, NAMESPACE, V2).update(put("0.0n"))
        older = MetadataStore(world, NAMESPACE, V1)
        older.codec = codec
        try:
            await older.update(put("1.0"))
        except CannotHold:
            pass
        return [segment.prefix for segment in (await MetadataStore(world, NAMESPACE, V2).current()).value.segments]

    dropping = BUILDS["drops_newer_fields"][1](system_world(MemoryStore()), Shape(), 1).store.codec
    assert asyncio.run(case(V1)) == [b"0.0n"]
    assert asyncio.run(case(dropping)) == []


@pytest.mark.parametrize("begin, arrives", [(begin_v2_only, False), (look, True)], ids=["barrier", "without"])
def test_a_v1_create_that_comes_late_is_met_only_where_there_is_no_barrier(begin, arrives):
    async def case():
        world = await begun(V2)
        late = V1.encode(with_update(Manifest(), "0.0"))  # sent in phase 1, on manifest 1, and under way since
        store = await begin(world, "db")
        if not arrives:
            with pytest.raises(ObjectVersionExists):
                await SequencedStorage(world, NAMESPACE).create(2, late)
            await store.current()
        else:
            await SequencedStorage(world, NAMESPACE).create(2, late)
            with pytest.raises(InvalidFile, match="its version is 1"):
                await store.current()

    asyncio.run(case())


# --- simulated (more of it: test_scenarios.py)

def test_of_many_runs_some_come_to_the_end_and_none_drops_anything():
    said = {(e.op, e.body) for seed in range(60) for e in runs(seed) if e.kind == "told"}
    assert ("began", b"3") in said and {"refused", "committed", "remains"} <= {op for op, _ in said}
    assert "unreadable" not in {op for op, _ in said}


def runs(seed: int):
    outcome = simulate(Run(seed, scenario="manifest_migration"))
    assert not outcome.kind, outcome.message
    return outcome.events


def test_what_a_client_of_phase_1_is_refused_the_model_has_it_refused():
    """Told without cause, a refusal is an untruth."""
    class Refuses(ManifestCodec):
        def encode(self, manifest):
            raise CannotHold(1, "anything", "")

    def build(world, shape, phase):
        impl = production(world, shape, phase)
        if phase == 1:
            impl.store.codec = Refuses(Phase.WRITE_V1)
        return impl

    found = {simulate(Run(seed, scenario="manifest_migration", shape=Shape(first=1)), build).signature for seed in range(5)}
    assert "told:refused" in found <= {"", "told:refused"}

"""A database on real stores and in simulation: each source of failure by hand, and that no caller comes to harm."""

import asyncio

import pytest

from highwater.dst import script
from highwater.dst.mutants import database_metadata as mutants
from highwater.dst.mutants.database_metadata_parts import OF_COMPACTIONS, OF_IDS, OF_SEQUENCES, OF_WAL, UNMADE
from highwater.dst.run_spec import Run, drawn_shape
from highwater.dst.scenarios import mutants_of
from highwater.dst.scripts import database_metadata as scripts
from highwater.dst.scripts.database_metadata import SCRIPTS
from highwater.dst.simulate import simulate
from highwater.impl.codecs.json.ssts import records_of
from highwater.impl.protocols import database_metadata
from highwater.impl.protocols.database_metadata import SequencedManifest, collect, initialise, open, stores_of, take_checkpoint
from highwater.impl.protocols.manifest_compactions import Compactor
from highwater.impl.stores.system import system_world

pytest_plugins = ["tests.support.stores.fixtures"]
STEM = "database_metadata"


@pytest.mark.parametrize("one", SCRIPTS, ids=lambda one: one.__name__)
def test_a_script(one):
    assert script.failed((one,)) is None


def failing() -> set[str]:
    script.failed.cache_clear()
    return {one.__name__ for one in SCRIPTS if script.failed((one,))}


@pytest.mark.parametrize("kind, noticed", [
    (mutants.ReadAgainUnchecked, "late_file"), (mutants.ReadAgainCheckedBefore, "late_file"),
    (mutants.ReadAgainTooFar, "fenced"), (mutants.ReadAgainNext, "gone_before_it_is_read"),
    (mutants.DropsOthers, "others_fields"), (mutants.FlushesAnew, "others_fields"), (mutants.NewestFirst, "write"),
    (mutants.PutUnchecked, "put_in_doubt"), (mutants.RefusedIsConflict, "claim_in_doubt")], ids=lambda of: str(of))
def test_a_broken_manifest_of_the_wal_fails_a_script(kind, noticed, monkeypatch):
    monkeypatch.setattr(database_metadata, "SequencedManifest", kind)
    assert noticed in failing()


def test_what_is_collected_or_missing_by_a_late_file_fails_a_script(monkeypatch):
    monkeypatch.setattr(SequencedManifest, "current", SequencedManifest.read)
    assert "collection_by_a_late_file" in failing()
    monkeypatch.undo()
    monkeypatch.setattr(scripts, "renew_checkpoint", mutants.renew_unchecked)
    assert failing() == {"missing_by_a_late_file"}
    monkeypatch.undo()
    assert not failing()


def test_all_roles_work_together_on_every_store(stores):
    """Two writers, two compactors, an operator and a collector, on a store that is no simulation."""
    async def run() -> None:
        store = stores.open() if hasattr(stores, "open") else stores
        of = [stores_of(system_world(store), "db") for _ in range(4)]
        await initialise(of[0])
        wal = await open(of[0], "db")
        for body in (b"a", b"b"):
            await wal.append(body)
            await wal.flush()
        taken = await take_checkpoint(of[1].manifest, "x", 0)
        compactor = Compactor(of[2])
        await compactor.open()

        async def merge(job) -> None:
            await wal.append(b"c")
            await wal.flush()

        assert len(await compactor.compact(merge)) == 2
        await wal.append(b"d")
        later = await open(of[3], "db")
        assert [record.body for record in later.records] == [b"a", b"b", b"c", b"d"]
        await later.flush()
        manifests, compactions, log = await collect(of[1], "db", -1_000_000)
        assert taken.id not in manifests and len(manifests) > 4 and compactions and len(log) == 6
        value = (await of[3].manifest.current()).value
        assert [record.body for sst in (*value.compacted, *value.l0) for record in records_of(sst)] == [b"a", b"b", b"c", b"d"]
        assert (await of[3].manifest.read(taken.id)).checkpoints == value.checkpoints
        assert [record.body for record in (await open(of[2], "db")).records] == [b"a", b"b", b"c", b"d"]

    asyncio.run(run())


def test_nobody_comes_to_harm():
    assert not [(seed, found.signature) for seed in range(500)
                if (found := simulate(Run(seed, scenario=STEM), by_model=False)).kind]


# --- the mutants

@pytest.mark.parametrize("name", mutants.SELDOM)
def test_a_bug_that_drawn_runs_show_seldom_is_shown_by_others(name):
    build, settings = mutants.SELDOM[name]
    shapes = ((seed, drawn_shape(seed, STEM)._replace(**settings)) for seed in range(800))
    signatures = (simulate(Run(seed, STEM, shape=shape), build).signature for seed, shape in shapes)
    assert next(filter(None, signatures), "").startswith(("refinement:", *mutants.HARM))


def of_part(stem: str, made: dict[str, object], *prefixes: str) -> None:
    """Check that each mutant of a part is made, or that UNMADE says why it cannot be."""
    for name in mutants_of(stem).builds:
        here = {f"{prefix}{name}" for prefix in prefixes}
        assert (f"{stem}/{name}" in UNMADE) != all(one in made or one in UNMADE for one in here), name


def test_every_mutant_of_the_parts_is_here():
    of_part("sequenced_metadata_boundary", {**OF_SEQUENCES}, "manifest_", "compactions_")
    of_part("update_ids", {**OF_IDS}, "")
    of_part("manifest_compactions", {**OF_COMPACTIONS}, "")
    of_part("wal_fencing", {**OF_WAL}, "")
    assert mutants.EPOCHS.keys() == mutants_of("manifest_epochs").builds.keys()
    assert not {name for name in mutants.EPOCHS.values() if "_" in name and " " not in name} - mutants.BUILDS.keys()
    assert not UNMADE.keys() & mutants.BUILDS.keys()

"""SlateDB's page on the manifest: three instances open `db1` at once, as real processes, on local files and on S3.

The page's manifests begin with 0, ours with 1. In both cases three files exist before, and all three instances try to write
00000000000000000004.manifest.
"""

import asyncio

import pytest

from highwater.impl.codecs.manifest import Manifest
from highwater.impl.protocols.manifest_epochs import ManifestReader, initialise, open_compactor, open_writer
from highwater.impl.stores.system import system_world
from tests.support.stores.three import NAMES, Three

pytest_plugins = ["tests.support.stores.fixtures"]
run = asyncio.run


@pytest.fixture(params=["local", "moto", "versitygw"])
def db1(request):
    """A store with manifests 1, 2 and 3, of epoch 1."""
    stores = request.getfixturevalue(f"{request.param}_stores")

    async def grow():
        world = system_world(stores.open())
        await initialise(world, "db1")
        await open_writer(world, "db1")
        await open_compactor(world, "db1")

    run(grow())
    return stores


@pytest.fixture(scope="module")
def three():
    three = Three()
    yield three
    three.dismiss()


def latest(stores) -> tuple[int, Manifest]:
    """Return the latest manifest, without the checkpoint of the last writer, and its id."""
    latest, manifest, _ = run(ManifestReader(system_world(stores.open()), "db1").poll())
    own, = manifest.checkpoints
    assert own.writer_epoch == manifest.writer_epoch
    return latest, manifest._replace(checkpoints=())


def test_of_simultaneous_opens_one_succeeds(db1, three):
    """«If multiple instances of SlateDB attempt to db::open the same database for write simultaneously, only one will succeed.»
    «db::open returning a SlateDBError::ManifestVersionExists error»"""
    answers = three.ask_all("open", db1, True, 0)
    assert sorted(map(str, answers.values()))[2] == "2"
    losers = [name for name, answer in answers.items() if answer != 2]
    assert [answers[name][0] for name in losers] == ["ObjectVersionExists"] * 2
    assert all("id 4 exists already" in answers[name][1] for name in losers)
    assert latest(db1) == (4, Manifest(writer_epoch=2, compactor_epoch=1))
    winner, = set(NAMES) - set(losers)
    assert three.ask(winner, "flush", winner) == 5
    for name in losers:  # who tries again later succeeds, and fences the one before
        assert three.ask(name, "open", db1, False, 0) == 3 + losers.index(name)
    assert three.ask(winner, "flush", "late")[0] == "FencedUnapplied"
    assert latest(db1)[1].l0 == (winner,)


def test_simultaneous_opens_that_may_retry_take_an_epoch_each(db1, three):
    """Released code retries for 300 s by default."""
    assert sorted(three.ask_all("open", db1, True, 60).values()) == [2, 3, 4]
    assert latest(db1) == (6, Manifest(writer_epoch=4, compactor_epoch=1))


def test_staggered_opens_all_succeed_and_the_earlier_ones_find_out_at_their_next_update(db1, three):
    """«each instance will successfully open the database»; «when either instance SlateDB 01 or SlateDB 02 attempts to update
    the manifest when writes occur, they will discover the epoch in the manifest is greater than the epoch they expect»"""
    assert [three.ask(name, "open", db1, False, 0) for name in NAMES] == [2, 3, 4]
    for name in ("01", "02"):
        kind, text = three.ask(name, "flush", name)
        assert kind == "FencedUnapplied" and "the latest is 4" in text
    assert three.ask("03", "flush", "03") == 7
    assert latest(db1) == (7, Manifest(writer_epoch=4, compactor_epoch=1, l0=("03",), replay_after_wal_id=1, next_wal=2))


def test_each_may_work_until_the_next_opens_and_what_was_reported_stays(db1, three):
    reported = []
    for name in NAMES:
        three.ask(name, "open", db1, False, 0)
        for number in range(2):
            assert isinstance(three.ask(name, "flush", f"{name}.{number}"), int)
            reported.append(f"{name}.{number}")
    answers = three.ask_all("flush", "last")
    assert [answers[name][0] for name in ("01", "02")] == ["FencedUnapplied"] * 2 and isinstance(answers["03"], int)
    assert latest(db1)[1].l0 == (*reported, "last")

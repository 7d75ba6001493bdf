"""`highwater admin clone` and `detach`: rows, what is refused, and an error at each request."""

import asyncio
import re
import signal
import time
from typing import Any

import pytest

from highwater.admin.clone import cloned
from highwater.gate.exits import BAD_INPUT, INTERRUPTED, SAFETY
from highwater.impl.codecs.slatedb.manifest import ManifestCodec, Phase
from highwater.impl.codecs.slatedb.tables import Checkpoint, ExternalDb
from highwater.impl.db.build import wal_of
from highwater.impl.errors import OutcomeUnknown, Unavailable
from highwater.impl.layout import Namespace, key_of_sst
from highwater.impl.stores.local import LocalStore
from highwater.impl.stores.system import system_world
from tests.support.signals import deliver
from tests.support.slatedb.folders import admin, asked, files, kinds, latest, put, rewritten, rows, written
from tests.support.slatedb.tables import database, id_of

UUIDS = tuple(f"01740ee5-6459-44af-9a45-85deb6e468e{digit}" for digit in "345")
SSTS = [put(*"abc"), put(*"bd", seq=2, value=b"2")]
WAL = [None, put("e", seq=3, value=b"3"), None, put("f", seq=4, value=b"4")]
ALL = {"a": "1", "b": "2", "c": "1", "d": "2", "e": "3", "f": "4"}
ENDED_S = int(time.time()) - 60


@pytest.fixture
def parent(tmp_path):
    return written(tmp_path / "parent", SSTS, WAL)


@pytest.fixture
def clone(tmp_path):
    return tmp_path / "clone"


def path_of(folder) -> str:
    return str(folder).lstrip("/")


def test_paths_are_printed_with_their_first_slash(parent, clone, tmp_path):
    texts = [admin("clone", parent, clone).stdout, admin("inspect", clone).stdout.splitlines()[0],
             admin("clone", tmp_path / "none", tmp_path / "new").stderr,
             admin("clone", parent, tmp_path / "other", "--source", UUIDS[0]).stderr]
    assert texts[0].startswith(f"'{clone}' is made: ") and f" in '{parent}' keeps 2 SSTs" in texts[0]
    assert texts[1] == str(clone)
    assert not [text for text in texts if re.search(rf"(?<![\w/]){path_of(tmp_path)}", text)], texts


def checkpoints_of(folder) -> set[str]:
    return {one.id for one in latest(folder).checkpoints}


# ---------------------------------------------------------------------------------------------------------------- a clone

def test_a_clone_has_the_rows_of_its_parent_which_keeps_them(parent, clone):
    before = files(parent)
    made = asked("clone", parent, clone)
    entry, = made["external_dbs"]
    assert (made["what"], made["wal_ids"], made["manifest_id"]) == ("made", [1, 2, 3, 4], 2)
    assert entry["path"] == path_of(parent) and sorted(entry["sst_ids"]) == [id_of(1), id_of(2)]
    assert {entry["source_checkpoint_id"], entry["final_checkpoint_id"]} == checkpoints_of(parent)
    assert rows(clone) == rows(parent) == ALL and kinds(clone) == kinds(parent) == set()
    assert not [key for key in files(clone) if key.startswith("compacted")]
    assert before.items() <= files(parent).items()
    after = files(parent) | files(clone)
    assert asked("clone", parent, clone)["what"] == "complete already" and files(parent) | files(clone) == after


def test_what_is_only_in_later_wal_objects_is_named(parent, clone):
    rewritten(parent, wal_id_last_seen=2)
    assert asked("clone", parent, clone)["not_included"] == [3, 4]
    assert rows(clone) == {key: ALL[key] for key in "abcde"}


def test_a_clone_of_a_checkpoint_and_a_clone_of_the_clone(parent, clone, tmp_path):
    source = asked("checkpoint", "create", parent, "-l", "1h")["id"]
    rewritten(parent, l0=latest(parent).l0[1:])
    made = asked("clone", parent, clone, "-s", source)
    assert made["external_dbs"][0]["source_checkpoint_id"] == source and rows(clone) == ALL
    nested = asked("clone", clone, tmp_path / "nested")
    assert [(one["path"], len(one["sst_ids"])) for one in nested["external_dbs"]] == [(path_of(clone), 0), (path_of(parent), 2)]
    assert rows(tmp_path / "nested") == ALL and kinds(tmp_path / "nested") <= {"pin not needed"}


@pytest.mark.parametrize("phase, version", [(Phase.WRITE_V1, 1), (Phase.WRITE_V2, 2)])
def test_a_clone_is_written_in_the_version_of_its_parent(parent, clone, phase, version):
    rewritten(parent, ManifestCodec(phase))
    asked("clone", parent, clone)
    assert {body[1] for key, body in files(clone).items() if "manifest" in key} == {version}
    assert max((key, body[1]) for key, body in files(parent).items() if key.startswith("manifest"))[1] == version


def test_a_dry_run_writes_nothing(parent, clone):
    before = files(parent)
    planned = asked("clone", parent, clone, "--dry-run")
    assert planned["dry_run"] and planned["wal_ids"] == [1, 2, 3, 4] and len(planned["external_dbs"][0]["sst_ids"]) == 2
    assert files(parent) == before and not clone.exists() and not (parent / ".highwater").exists()


class Counting:
    """Counts the requests to a store."""

    caches = False

    def __init__(self, inner):
        self.inner, self.number = inner, 0

    def __getattr__(self, name):
        def request(*words):
            self.number += 1
            return getattr(self.inner, name)(*words)

        return request


def test_what_a_quiet_clone_costs():
    """A look that writes nothing takes 7 requests, and the protocol 8 more, and 2 for each WAL object. A database from which
    SSTs are inherited takes 7 more."""
    store: Any = Counting(database(SSTS, WAL)[0])
    world = system_world(store)
    asyncio.run(cloned(world, ["db", "clone"], None, False, True))
    assert store.number == 7
    asyncio.run(cloned(world, ["db", "clone"], None, False, False))
    assert store.number == 2 * 7 + 8 + 2 * len(WAL)
    before = store.number
    asyncio.run(cloned(world, ["clone", "nested"], None, False, False))
    assert store.number - before == 7 + 8 + 2 * len(WAL) + 7 - 1  # the clone has no SSTs of its own, so none is looked for


# ------------------------------------------------------------------------------------------------------- what is refused

def destroyed(parent, clone):
    assert asked("destroy", parent, "--soft", "--grace", "1h")["waits"]


def sealed(parent, clone):
    (parent / "gc").mkdir()
    (parent / "gc/manifest.boundary").write_bytes(b"9223372036854775807")


def used(parent, clone):
    written(clone, SSTS)


def left_over(parent, clone):
    (clone / "wal").mkdir(parents=True)
    (clone / "wal" / f"{7:020}.sst").write_bytes(b"")


def unpinned(parent, clone):
    rewritten(parent, external_dbs=(ExternalDb(path_of(parent.parent / "other"), UUIDS[0], UUIDS[1], (id_of(1),)),))
    written(parent.parent / "other", SSTS)


def pin_lost(parent, clone):
    asked("clone", parent, clone)
    rewritten(parent, checkpoints=())


def opened_early(parent, clone):
    """A released writer has opened the unfinished clone, and a WAL object of its has an id that is to be copied."""
    asked("clone", parent, clone)
    (clone / Namespace("", "manifest").key(2)).unlink()
    (clone / Namespace("", "wal").key(2)).write_bytes(wal_of(put("x", seq=3)).body)


REFUSED = {
    "unfinished": (lambda p, c: rewritten(p, initialized=False), (), SAFETY, "unfinished clone"),
    "destroyed": (destroyed, (), SAFETY, "the database was destroyed (soft)"),
    "sealed": (sealed, (), SAFETY, "a database was destroyed here"),
    "being deleted": (lambda p, c: (p / ".deleting").write_bytes(b""), (), SAFETY, ".deleting"),
    "no such checkpoint": (None, ("-s", UUIDS[0]), BAD_INPUT, "is not listed"),
    "ended": (lambda p, c: rewritten(p, checkpoints=(Checkpoint(UUIDS[0], 1, ENDED_S, ENDED_S),)), ("-s", UUIDS[0]), SAFETY,
              "has ended"),
    "lost": (lambda p, c: rewritten(p, checkpoints=(Checkpoint(UUIDS[0], 7),)), ("-s", UUIDS[0]), SAFETY, "keeps manifest 7"),
    "WAL missing": (lambda p, c: (p / Namespace("", "wal").key(2)).unlink(), (), SAFETY, "WAL object 2"),
    "WAL in another store": (lambda p, c: rewritten(p, ManifestCodec(Phase.WRITE_V1), wal_object_store_uri="s3://other"), (),
                             BAD_INPUT, "is in another store"),
    "another database": (used, (), SAFETY, "is no clone of"),
    "left over": (left_over, (), SAFETY, "this is left of another database"),
    "not pinned": (unpinned, (), SAFETY, f"{UUIDS[1]}, which should keep them, is not listed"),
    "complete, but not pinned": (pin_lost, (), SAFETY, "final checkpoint"),
    "SST missing": (lambda p, c: (p / key_of_sst("", id_of(2))).unlink(), (), SAFETY, f"{id_of(2)} is not there (1 such)"),
    "opened early": (opened_early, (), SAFETY, "a writer has opened the unfinished clone"),
    "no UUID": (None, ("-s", "x"), BAD_INPUT, "--source: 'x' is not a UUID"),
    "unreadable": (lambda p, c: (p / Namespace("", "manifest").key(1)).write_bytes(b"\0\2"), (), BAD_INPUT, "cannot be read"),
}


@pytest.mark.parametrize("broken, words, code, said", REFUSED.values(), ids=list(REFUSED))
def test_what_is_refused_changes_nothing(parent, clone, broken, words, code, said):
    if broken:
        broken(parent, clone)
    before = files(parent.parent)
    for more in ((), ("--dry-run",)):
        result = admin("clone", parent, clone, *words, *more)
        assert result.exit_code == code and said in result.stderr and len(result.stderr.splitlines()) == 1, result.output
    assert files(parent.parent) == before


@pytest.mark.parametrize("words, said", [
    (("{parent}", "{parent}"), "is both a source and the new database"), (("{parent}", "{parent}/in"), "in the folder of"),
    (("{parent}", "s3://bucket/db"), "is in another store"), (("{clone}", "{clone}2"), "there is no folder"),
    (("{above}", "{clone}2"), "in the folder of"), (("{parent}", "{above}/link/in"), "in the folder of"),
    (("{parent}", "{parent}/../link"), "both a source and"), (("{parent}", "/etc/passwd/db"), "is no folder"),
    (("gs://x", "{clone}"), "accepted are")],
    ids=lambda of: " ".join(of) if type(of) is tuple else None)
def test_places_that_do_not_go_together(parent, clone, words, said):
    (parent.parent / "link").symlink_to(parent)
    before = files(parent.parent)
    result = admin("clone", *(word.format(parent=parent, clone=clone, above=parent.parent) for word in words))
    assert result.exit_code == BAD_INPUT and said in result.stderr, result.output
    assert files(parent.parent) == before


# ----------------------------------------------------------------------------------------------- an error at each request

class Failing:
    """Lets mutations of local stores fail from the nth on, the nth after its effect if `late`."""

    def __init__(self, monkeypatch, nth: int, late: bool, error: Exception):
        self.left, self.late, self.error = nth, late, error
        for name in ("create", "delete"):
            monkeypatch.setattr(LocalStore, name, self.wrapped(getattr(LocalStore, name)))

    def wrapped(self, inner):
        async def mutation(store, key, *more):
            self.left -= 1
            if self.left > 0:
                return await inner(store, key, *more)
            if self.late and self.left == 0:
                await inner(store, key, *more)
            raise self.error

        return mutation


def failed_at_each(words, check, late: bool, error: Exception) -> int:
    """Run a verb with an error at its first mutation, its second, .., again after each; return how often it failed.

    `check` is called after each failure."""
    for nth in range(1, 40):
        with pytest.MonkeyPatch.context() as monkeypatch:
            Failing(monkeypatch, nth, late, error)
            result = admin(*words)
        if result.exit_code == 0:
            return nth - 1
        assert result.exit_code == BAD_INPUT and len(result.stderr.splitlines()) == 1, result.output
        check()
    pytest.fail("it never ends")


@pytest.mark.parametrize("late, error", [(False, Unavailable("")), (False, OutcomeUnknown("")), (True, OutcomeUnknown(""))],
                         ids=["refused", "lost", "applied"])
def test_a_clone_that_fails_anywhere_is_continued(parent, clone, late, error):
    def check():
        assert rows(parent) == ALL
        if (clone / "manifest").exists() and latest(clone).initialized:
            assert rows(clone) == ALL and latest(clone).external_dbs[0].final_checkpoint_id in checkpoints_of(parent)

    assert failed_at_each(("clone", parent, clone), check, late, error) >= 3
    assert rows(clone) == ALL and kinds(clone) == set()
    assert len([one for one in latest(parent).checkpoints if not one.expire_time_s]) == 1  # the final one


def test_ctrl_c(parent, clone, monkeypatch, ctrl_c):
    async def create(store, key, body):
        deliver(signal.SIGINT)
        return await inner(store, key, body)

    inner = LocalStore.create
    with monkeypatch.context() as patched:
        patched.setattr(LocalStore, "create", create)
        result = admin("clone", parent, clone)
    assert result.exit_code == INTERRUPTED and "stopped" in result.stderr and len(result.stderr.splitlines()) == 1
    asked("clone", parent, clone)
    assert rows(clone) == ALL


def test_an_attempt_whose_source_is_gone_is_begun_again(parent, clone, monkeypatch):
    with monkeypatch.context() as patched:
        Failing(patched, 3, True, OutcomeUnknown("no"))  # the checkpoint, the first manifest, the final one
        assert admin("clone", parent, clone).exit_code == BAD_INPUT
    old, = latest(clone).external_dbs
    rewritten(parent, checkpoints=())
    result = admin("clone", parent, clone)
    assert result.exit_code == SAFETY and "--restart" in result.stderr, result.output
    epoch = latest(clone).writer_epoch
    made = asked("clone", parent, clone, "--restart")
    assert made["what"] == "begun again" and rows(clone) == ALL and latest(clone).writer_epoch > epoch
    assert [len(one["sst_ids"]) for one in made["external_dbs"]] == [2, 0]
    result = admin("detach", clone, "--json")
    assert result.exit_code == SAFETY and [one.final_checkpoint_id for one in latest(clone).external_dbs] == [
        made["external_dbs"][0]["final_checkpoint_id"]] != [old.final_checkpoint_id]


def flushed(clone) -> None:
    sst = latest(clone).ssts[0]._replace(id=id_of(9))
    rewritten(clone, ssts=(*latest(clone).ssts, sst), l0=(latest(clone).l0[0]._replace(id=sst.id, sst_id=sst.id),))


@pytest.mark.parametrize("opened", [flushed, lambda clone: (clone / Namespace("", "wal").key(5)).write_bytes(b"")],
                         ids=["an SST", "a fence"])
def test_what_a_writer_has_put_into_an_unfinished_clone_is_not_replaced(parent, clone, opened):
    asked("clone", parent, clone)
    rewritten(clone, initialized=False)
    opened(clone)
    before = files(clone)
    result = admin("clone", parent, clone, "--restart")
    assert result.exit_code == SAFETY and "would lose what it wrote" in result.stderr and files(clone) == before


def test_an_attempt_is_not_begun_again_from_an_older_state(parent, clone, monkeypatch):
    source = asked("checkpoint", "create", parent)["id"]
    rewritten(parent, wal_id_last_seen=2, checkpoints=(Checkpoint(source, 1), Checkpoint(UUIDS[0], 3)))
    with monkeypatch.context() as patched:
        Failing(patched, 2, True, OutcomeUnknown("no"))
        assert admin("clone", parent, clone, "-s", source).exit_code == BAD_INPUT
    result = admin("clone", parent, clone, "-s", UUIDS[0], "--restart")
    assert result.exit_code == SAFETY and "take a later checkpoint" in result.stderr, result.output


# ---------------------------------------------------------------------------------------------------------------- a detach

def compacted(clone) -> None:
    """Let nothing of the clone's latest manifest refer to its parent: it has an SST of its own, with the same id and rows."""
    manifest = latest(clone)
    emptied = tuple(of._replace(sst_ids=()) for of in manifest.external_dbs)
    rewritten(clone, l0=manifest.l0[:0], ssts=(), external_dbs=emptied)


def test_a_detach_lets_go_of_the_parent(parent, clone):
    made = asked("clone", parent, clone)
    result = admin("detach", clone)
    assert result.exit_code == SAFETY and "the latest manifest uses 2 SSTs" in result.stdout and "still needed" in result.stderr
    compacted(clone)
    before = files(parent.parent)
    assert asked("detach", clone, "--dry-run")["detached"] == [made["external_dbs"][0] | {"sst_ids": []}]
    assert files(parent.parent) == before
    assert len(asked("detach", clone)["detached"]) == 1
    assert latest(clone).external_dbs == () and checkpoints_of(parent) == {made["external_dbs"][0]["source_checkpoint_id"]}
    assert asked("detach", clone)["detached"] == []


def test_a_checkpoint_of_the_clone_keeps_the_parent(parent, clone):
    asked("clone", parent, clone)
    kept = asked("checkpoint", "create", clone)["id"]
    compacted(clone)
    result = admin("detach", clone)
    assert result.exit_code == SAFETY and f"checkpoint {kept} uses 2 SSTs" in result.stdout
    assert len(latest(clone).external_dbs) == 1 and len(checkpoints_of(parent)) == 2
    assert admin("checkpoint", "delete", clone, "-i", kept).exit_code == 0
    asked("detach", clone)
    assert len(checkpoints_of(parent)) == 1


@pytest.mark.parametrize("late", [False, True])
def test_a_detach_that_fails_anywhere_is_continued(parent, clone, late):
    asked("clone", parent, clone)
    compacted(clone)

    def check():
        assert latest(clone).external_dbs == () or len(checkpoints_of(parent)) >= 1
        assert not (latest(clone).external_dbs == () and len(checkpoints_of(parent)) == 2)  # no pin is lost

    assert failed_at_each(("detach", clone), check, late, OutcomeUnknown("no")) >= 1
    assert latest(clone).external_dbs == () and len(checkpoints_of(parent)) == 1


def test_a_parent_that_is_gone(parent, clone):
    asked("clone", parent, clone)
    compacted(clone)
    parent.rename(parent.parent / "moved")
    result = admin("detach", clone)
    assert result.exit_code == SAFETY and "--parent-gone" in result.stderr and len(latest(clone).external_dbs) == 1
    assert len(asked("detach", clone, "--parent-gone")["detached"]) == 1 and latest(clone).external_dbs == ()


@pytest.mark.parametrize("broken, code, said", [
    (lambda c: rewritten(c, initialized=False), SAFETY, "unfinished clone"),
    (lambda c: rewritten(c, checkpoints=(Checkpoint(UUIDS[0], 77),)), SAFETY, "keeps manifest 77"),
    (lambda c: [file.unlink() for file in (c / "manifest").iterdir()], BAD_INPUT, "there is no database")],
    ids=["unfinished", "checkpoint lost", "no manifest"])
def test_what_a_detach_refuses(parent, clone, broken, code, said):
    asked("clone", parent, clone)
    broken(clone)
    before = files(parent.parent)
    result = admin("detach", clone)
    assert result.exit_code == code and said in result.stderr and files(parent.parent) == before, result.output


def test_an_abandoned_clone_lets_go_of_its_parent_once_it_is_destroyed(parent, clone, monkeypatch):
    with monkeypatch.context() as patched:
        Failing(patched, 3, True, OutcomeUnknown(""))  # the checkpoint, the first manifest, the final one
        assert admin("clone", parent, clone).exit_code == BAD_INPUT
    assert kinds(clone) == {"not initialized", "WAL missing"} and len(checkpoints_of(parent)) == 2
    asked("destroy", clone, "--hard")
    assert checkpoints_of(parent) == {one.id for one in latest(parent).checkpoints if one.expire_time_s}
    result = admin("clone", parent, clone)
    assert result.exit_code == SAFETY and "choose another place" in result.stderr


def test_a_destroyed_clone_lets_go_of_its_parent(parent, clone):
    made = asked("clone", parent, clone)
    asked("destroy", clone, "--hard")
    assert checkpoints_of(parent) == {made["external_dbs"][0]["source_checkpoint_id"]}

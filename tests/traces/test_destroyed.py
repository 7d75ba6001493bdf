"""Logs of databases that our destroy marks and deletes: impl/protocols/destroy.py, judged as those of any program."""

import pytest

from highwater.impl.codecs.destroyed import HARD, MARK, SEALED, SOFT, Mark
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.manifest import ManifestCodec
from highwater.impl.codecs.slatedb.tables import Checkpoint, ExternalDb
from tests.traces.test_stranger import BOUNDARY, FIRST, L0, UUID, Log, fails, key, passes

PINNED = FIRST._replace(checkpoints=(Checkpoint(UUID, 1, 0, 0),))


def marked(base: Manifest = FIRST, kind: str = HARD) -> Manifest:
    entry = Checkpoint(MARK, 2, 0, 0, name=" ".join(("destroyed", *map(str, Mark(kind, 5, 5)))))
    return base._replace(checkpoints=(*base.checkpoints, entry), writer_epoch=base.writer_epoch + 1,
                         compactor_epoch=base.compactor_epoch + 1)


def destroyed(base: Manifest = FIRST, kind: str = HARD) -> Log:
    """Manifest 1 is `base`, and D puts the mark into the next one."""
    log = Log().create("A", 1, of=base).check("A", 0).get("D", 1, base).check("D", 0)
    return log.create("D", 2, of=marked(base, kind)).check("D", 0)


def sealed(log: Log) -> Log:
    return log.advance("D", SEALED).delete("D", key(1)).delete("D", key(2))


@pytest.mark.parametrize("kind", [HARD, SOFT])
def test_a_database_is_marked_sealed_and_deleted(kind):
    passes(sealed(destroyed(kind=kind)))


def test_only_a_marked_one_is_sealed():
    fails(Log().create("A", 1).check("A", 0).check("D", 0).advance("D", SEALED), "BoundaryIsBelowLatest")
    fails(destroyed().advance("D", SEALED).delete("D", BOUNDARY), "BoundaryIsMonotone")


def test_a_hard_mark_and_the_seal_need_that_nothing_is_pinned():
    fails(destroyed(PINNED), "CHECK_PINS")
    passes(destroyed(PINNED, SOFT))
    fails(destroyed(PINNED, SOFT).advance("D", SEALED), "CHECK_PINS")
    fails(destroyed(PINNED, SOFT).delete("D", key(1)), "DeletedIsBehindBoundary")
    fails(destroyed(PINNED, SOFT).advance("D", 1).delete("D", key(1)), "PinnedIsKept")


def test_during_the_grace_of_a_soft_mark_others_collect_as_before():
    later = FIRST._replace(checkpoints=(Checkpoint(UUID, 2, 0, 0),))
    passes(destroyed(later, SOFT).advance("D", 1).delete("D", key(1)))


def test_what_is_put_behind_the_tombstone_keeps_nothing():
    passes(sealed(destroyed()).create("A", 1, of=PINNED).delete("D", key(1)))


def test_the_mark_fences_every_writer_and_does_nothing_else():
    fails(Log().create("A", 1).check("A", 0).get("D", 1).check("D", 0).create(
        "D", 2, of=marked()._replace(compactor_epoch=0)), "OnlyOwnEpochIsBumped")
    flushed = FIRST._replace(l0=(L0,))
    fails(Log().create("A", 1, of=flushed).check("A", 0).get("D", 1, flushed).check("D", 0).create("D", 2, of=marked()),
          "OthersChangesAreKept")


FINAL = "01740ee5-6459-44af-9a45-85deb6e468e4"
CLONE = Manifest(l0=(L0,), external_dbs=(ExternalDb("db", UUID, FINAL, (L0.id,)),))


class Two(Log):
    """A log of two databases."""

    def put(self, client: str, root: str, file_id: int, of: Manifest) -> "Two":
        """Put a manifest whose predecessor the client has put or read, and look whether it is accepted."""
        self.ask(client, "PUT", key(file_id).replace("db/", f"{root}/"), 200, ManifestCodec().encode(of),
                 conditions={"if-none-match": "*"})
        self.ask(client, "GET", BOUNDARY.replace("db/", f"{root}/"), 404)
        return self


@pytest.mark.parametrize("kind", [HARD, SOFT, ""])
def test_a_destroyed_clone_lets_go_of_its_parent(kind):
    parent = PINNED._replace(l0=(L0,))
    pinned = parent._replace(checkpoints=(*parent.checkpoints, Checkpoint(FINAL, 1, 0, 0)))
    log = Two().put("C", "db", 1, parent).put("C", "clone", 1, CLONE).put("C", "db", 2, pinned)
    log.put("C", "clone", 2, CLONE._replace(initialized=True))
    if kind:
        log.put("C", "clone", 3, marked(CLONE._replace(initialized=True), kind))
    log.put("C", "db", 3, parent)
    if kind:
        passes(log)
    else:
        fails(log, "DETACH_UNNAMED")


OTHER = "01740ee5-6459-44af-9a45-85deb6e468e5"
AGAIN = CLONE._replace(writer_epoch=1, compactor_epoch=1, wal_id_last_seen=1, external_dbs=(
    ExternalDb("db", UUID, OTHER, (L0.id,)), CLONE.external_dbs[0]._replace(sst_ids=())))


def begun_again(of: Manifest = AGAIN) -> Two:
    """A cloner begins again from a later source: the final of its first attempt is there already."""
    parent = PINNED._replace(l0=(L0,))
    pinned = parent._replace(checkpoints=(*parent.checkpoints, Checkpoint(FINAL, 1, 0, 0)))
    log = Two().put("C", "db", 1, parent).put("C", "clone", 1, CLONE._replace(wal_id_last_seen=1)).put("C", "db", 2, pinned)
    return log.put("C", "clone", 2, of)


def test_a_clone_that_is_begun_again_claims_epochs_and_lets_go_of_its_old_final():
    passes(begun_again())
    passes(begun_again().put("C", "db", 3, PINNED._replace(l0=(L0,))))
    fails(begun_again(CLONE._replace(writer_epoch=1, wal_id_last_seen=1)), "OPEN_INITIALIZED")
    fails(begun_again(AGAIN._replace(wal_id_last_seen=0)), "OthersChangesAreKept")
    fails(begun_again(marked(CLONE._replace(wal_id_last_seen=1), SOFT)).put("C", "clone", 3, AGAIN), "OthersChangesAreKept")
    passes(begun_again(marked(CLONE._replace(wal_id_last_seen=1), SOFT)))


def test_the_final_of_the_attempt_that_runs_stays():
    parent = PINNED._replace(l0=(L0,))
    fails(begun_again(CLONE._replace(wal_id_last_seen=2)).put("C", "db", 3, parent), "DETACH_UNNAMED")

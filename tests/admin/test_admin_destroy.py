"""`highwater admin destroy`: what it deletes, what it refuses, and that it changes nothing then."""

import asyncio
import json

import pytest

from highwater.admin.destroy import destroyed
from highwater.gate.exits import BAD_INPUT, SAFETY
from highwater.impl.codecs.destroyed import SOFT
from highwater.impl.db.db import Db, Options
from highwater.impl.errors import FencedUnapplied
from highwater.impl.stores.system import open_store, system_world
from tests.admin.test_admin import UUIDS, Bench, found, ran
from tests.admin.test_admin import bench as bench


def asked(*words: object) -> dict:
    result = ran("destroy", *words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def left(bench: Bench) -> list[str]:
    return sorted(path for path, of in bench.files().items() if of[1] is not None and ".highwater" not in path)


def let_go(bench: Bench) -> None:
    assert ran("checkpoint", "delete", bench.folder, "-i", UUIDS[0]).exit_code == 0


def test_a_hard_destroy_leaves_the_boundary_alone(bench):
    let_go(bench)
    planned = asked(bench.folder, "--hard", "--dry-run")["deleted"]
    before = left(bench)
    deleted = asked(bench.folder, "--hard")["deleted"]
    assert {*planned} < {*deleted} and len(deleted) == len(planned) + 1  # the manifest with the mark
    assert [path for path in left(bench) if "gc/" not in path] == [] != before
    assert (bench.folder / "gc/manifest.boundary").read_bytes() == b"9223372036854775807"
    assert [finding["kind"] for finding in json.loads(ran("check", bench.folder, "--json").stdout)] == ["destroyed"]
    assert asked(bench.folder, "--hard")["deleted"] == []


def test_a_soft_one_waits_for_the_grace_and_for_checkpoints(bench):
    done = asked(bench.folder, "--soft", "--grace", "1h")
    assert done["mark"] == "soft" and "grace" in done["waits"] and done["deleted"] == []
    assert found(bench) == [("note", "epochs apart")]  # no compactor has the epoch that the mark has claimed
    assert ran("checkpoint", "create", bench.folder).exit_code == SAFETY
    mark = json.loads(ran("checkpoint", "list", bench.folder, "--json").stdout)[-1]["id"]
    assert ran("checkpoint", "delete", bench.folder, "-i", mark).exit_code == SAFETY
    let_go(bench)
    assert asked(bench.folder, "--hard")["deleted"]


def test_a_soft_one_stops_a_writer_that_has_not_read_the_mark(tmp_path):
    async def work() -> None:
        world = system_world(open_store(str(tmp_path)))
        db = await Db.open(world, "db", Options(poll_ms=0))
        await db.put(b"a", b"1")
        await destroyed(world, "db", SOFT, 3_600_000, False)
        with pytest.raises(FencedUnapplied):
            await db.put(b"b", b"2")
        await db.close()
        logged = [(await world.store.get(one.key)).body for one in (await world.store.list_page("db/wal/")).entries]
        assert [bool(body) for body in logged] == [False, True, False]  # the writer's fence, its row, and the fence of the mark

    asyncio.run(work())


def test_a_soft_one_without_grace_waits_for_checkpoints(bench):
    assert UUIDS[0] in asked(bench.folder, "--soft")["waits"]
    let_go(bench)
    assert asked(bench.folder, "--soft")["deleted"]


@pytest.mark.parametrize("words, code, said", [
    (("--hard",), SAFETY, "is listed, and a clone may need it"), (("--hard", "--dry-run"), SAFETY, "is listed"),
    ((), BAD_INPUT, "--soft or --hard"), (("--soft", "--hard"), BAD_INPUT, "--soft or --hard"),
    (("--hard", "--grace", "1h"), BAD_INPUT, "goes with --soft"), (("--soft", "--grace", "soon"), BAD_INPUT, "--grace"),
], ids=lambda of: " ".join(of) if type(of) is tuple else None)
def test_what_is_refused_changes_nothing(bench, words, code, said):
    before = left(bench)
    result = ran("destroy", bench.folder, *words)
    assert result.exit_code == code and said in result.stderr and "Traceback" not in result.output, result.output
    assert left(bench) == before


def test_a_dry_run_of_a_soft_one_writes_nothing(bench):
    before = left(bench)
    assert "grace" in asked(bench.folder, "--soft", "--grace", "1h", "--dry-run")["waits"]
    assert left(bench) == before


def test_where_there_is_no_database(tmp_path):
    result = ran("destroy", tmp_path, "--hard")
    assert result.exit_code == BAD_INPUT and "there is no database here" in result.stderr

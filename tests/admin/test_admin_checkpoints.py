"""`highwater admin checkpoint`: what it writes, what it refuses, and that it changes nothing then."""

import json
import re
import time

import pytest

from highwater.admin.durations import duration_ms
from highwater.gate.exits import BAD_INPUT, SAFETY
from highwater.impl.codecs.slatedb.manifest import ManifestCodec
from highwater.impl.codecs.slatedb.tables import Checkpoint
from highwater.impl.errors import AlreadyExists, OutcomeUnknown
from highwater.impl.layout import Namespace
from highwater.impl.stores.local import LocalStore
from tests.admin.test_admin import NIGHT_S, UUIDS, V1, V2, Bench, found, manifests, ran
from tests.admin.test_admin import bench as bench

V4 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
DAY_S = 86_400


def asked(*words: object) -> dict:
    result = ran("checkpoint", *words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def latest(bench: Bench):
    return ManifestCodec().decode(max((bench.folder / "manifest").iterdir()).read_bytes())


@pytest.mark.parametrize("codec", [V1, V2], ids=["V1", "V2"])
def test_one_is_taken_in_the_version_of_the_latest_manifest(bench, codec):
    bench.manifest(8, manifests()[8]._replace(last_compacted_l0_sst_id=manifests()[8].ssts[0].id), codec)
    before = int(time.time())
    taken = asked("create", bench.folder, "-l", "7days 30min", "-n", "mine")
    assert V4.fullmatch(taken["id"]) and taken["manifest_id"] == 9 and taken["name"] == "mine"
    path = bench.folder / "manifest" / f"{9:020d}.manifest"
    assert path.read_bytes()[1] == (1 if codec is V1 else 2)
    *others, new = latest(bench).checkpoints
    assert tuple(others) == manifests()[8].checkpoints
    assert 7 * DAY_S + 1800 <= new.expire_time_s - before <= 7 * DAY_S + 1805 and abs(new.create_time_s - before) < 5
    assert latest(bench)._replace(checkpoints=()) == codec.decode(codec.encode(manifests()[8]._replace(
        checkpoints=(), last_compacted_l0_sst_id=manifests()[8].ssts[0].id)))


def test_one_of_another_keeps_the_same_manifest(bench):
    taken = asked("create", bench.folder, "--source", UUIDS[0].upper())
    assert taken["manifest_id"] == 5 and taken["expire_time"] is None


def test_a_refresh_changes_the_expiry_alone(bench):
    before, = latest(bench).checkpoints
    renewed = asked("refresh", bench.folder, "--id", UUIDS[0], "-l", "1h")
    after, = latest(bench).checkpoints
    assert after._replace(expire_time_s=0) == before and renewed["expire_time"].endswith("Z")
    assert abs(after.expire_time_s - time.time() - 3600) < 5
    assert asked("refresh", bench.folder, "--id", UUIDS[0])["expire_time"] is None


def test_a_deleted_one_is_not_listed(bench):
    assert ran("checkpoint", "delete", bench.folder, "-i", UUIDS[0]).exit_code == 0
    assert asked("list", bench.folder) == [] and "no checkpoints" in ran("checkpoint", "list", bench.folder).output


def test_the_list_by_name(bench):
    one, two = asked("create", bench.folder), asked("create", bench.folder, "-n", "nightly")
    assert [row["id"] for row in asked("list", bench.folder)] == [UUIDS[0], one["id"], two["id"]]
    assert [row["id"] for row in asked("list", bench.folder, "-n", "nightly")] == [UUIDS[0], two["id"]]
    assert asked("list", bench.folder, "-n", "") == [one]
    table = ran("checkpoint", "list", bench.folder).output
    assert "nightly" in table and "never" in table


ENDED = Checkpoint(UUIDS[1], 5, NIGHT_S, NIGHT_S - 60)
REFUSED = [  # words, what is done before, exit code, what is said
    (("create", "-l", "7x"), {}, BAD_INPUT, "'x' in '7x' is no unit"),
    (("create", "-l", "soon"), {}, BAD_INPUT, "'soon' in 'soon' is not a number with a unit"),
    (("create", "-l", "0s"), {}, BAD_INPUT, "is no time at all"),
    (("create", "-l", "900y"), {}, BAD_INPUT, "--lifetime: '900y' from now is too long: a manifest holds no time after 2106"),
    (("create", "-l", "9" * 5000 + "s"), {}, BAD_INPUT, "is not a number with a unit"),
    (("create", "-n", "\udcff"), {}, BAD_INPUT, "--name: '\\udcff' is not UTF-8"),
    (("create", "-s", "x"), {}, BAD_INPUT, "--source: 'x' is not a UUID"),
    (("create", "-s", UUIDS[2]), {}, BAD_INPUT, "is not listed"),
    (("create", "-s", UUIDS[1]), {"checkpoints": (ENDED,)}, SAFETY, "has ended"),
    (("create",), {"initialized": False}, SAFETY, "not initialized"),
    (("refresh", "-i", UUIDS[2]), {}, BAD_INPUT, "is not listed"),
    (("refresh", "-i", UUIDS[1]), {"checkpoints": (ENDED,)}, SAFETY, "has ended"),
    (("delete", "-i", UUIDS[2]), {}, BAD_INPUT, "is not listed"),
    (("delete", "-i", "z"), {}, BAD_INPUT, "--id: 'z' is not a UUID"),
]


@pytest.mark.parametrize("words, changed, code, said", REFUSED, ids=lambda of: " ".join(of) if type(of) is tuple else None)
def test_what_is_refused_changes_nothing(bench, words, changed, code, said):
    if changed:
        bench.latest(**changed)
    before = bench.files()
    result = ran("checkpoint", words[0], bench.folder, *words[1:])
    assert result.exit_code == code and said in result.stderr and "Traceback" not in result.output, result.output
    after = bench.files()
    assert {path: of for path, of in after.items() if ".highwater" not in path and of[1] is not None} == {
        path: of for path, of in before.items() if of[1] is not None}


@pytest.mark.parametrize("words, code", [(("create",), SAFETY), (("refresh", "-i", UUIDS[0]), SAFETY), (("list",), 0),
                                         (("delete", "-i", UUIDS[0]), 0)], ids=lambda of: of[0] if type(of) is tuple else None)
def test_of_a_database_that_is_being_deleted_none_is_taken_or_refreshed(bench, words, code):
    bench.put(".deleting", b"")
    assert ran("checkpoint", words[0], bench.folder, *words[1:]).exit_code == code


@pytest.mark.parametrize("words", [("create",), ("refresh", "-i", UUIDS[0]), ("delete", "-i", UUIDS[0]), ("list",)],
                         ids=lambda words: words[0])
def test_where_there_is_no_database(tmp_path, words):
    for url, said in ((tmp_path, "there is no database here"), (tmp_path / "none", "there is no folder"),
                      ("gs://bucket", "accepted are")):
        result = ran("checkpoint", words[0], url, *words[1:])
        assert result.exit_code == BAD_INPUT and said in result.stderr, result.output


def test_what_it_writes_is_healthy(bench):
    taken = asked("create", bench.folder, "-l", "1h")
    asked("refresh", bench.folder, "-i", taken["id"])
    assert found(bench) == []
    ran("gc", bench.folder, "--min-age-s", "0")
    assert {int(path.name[:20]) for path in (bench.folder / "manifest").iterdir()} == {5, 9, 10} and found(bench) == []


@pytest.mark.parametrize("text, ms", [("7days 30min 10s", 606_610_000), ("1h", 3_600_000), ("1w2d", 777_600_000), ("15 ms", 15),
                                      ("2months", 5_260_032_000), ("1y", 31_557_600_000), ("1M", 2_630_016_000),
                                      ("1m", 60_000), (" 1s ", 1000)])
def test_durations(text, ms):
    assert duration_ms(text) == ms


# ------------------------------------------------------------------------------------- nothing is written without need

CHANGES = [("create",), ("refresh", "-i", UUIDS[0], "-l", "1h"), ("delete", "-i", UUIDS[0])]


@pytest.mark.parametrize("words", CHANGES, ids=lambda words: words[0])
@pytest.mark.parametrize("key, body, said", [
    ("gc/manifest.boundary", b"x", "not an ASCII number"), ("gc/manifest.boundary", b"8", "the latest file is 8"),
    (Namespace("", "manifest").key(8), b"\0\2", "manifest 8, the latest, cannot be read")],
    ids=["invalid boundary", "boundary ahead", "unreadable"])
def test_a_database_that_nobody_can_open_is_left_alone(bench, words, key, body, said):
    bench.put(key, body)
    before = bench.files()
    result = ran("checkpoint", words[0], bench.folder, *words[1:])
    assert result.exit_code == BAD_INPUT and said in result.stderr and bench.files() == before, result.output


@pytest.mark.parametrize("words", CHANGES, ids=lambda words: words[0])
def test_in_a_folder_without_a_database_nothing_is_left(bench, words):
    """For example, in the folder of the manifests itself: clients would list a file there."""
    before = bench.files()
    assert ran("checkpoint", words[0], bench.folder / "manifest", *words[1:]).exit_code == BAD_INPUT
    assert bench.files() == before


@pytest.mark.parametrize("words", CHANGES, ids=lambda words: words[0])
@pytest.mark.parametrize("error, said", [(OutcomeUnknown("no reply"), "now or later"),
                                         (AlreadyExists("of another client"), "nothing was changed")], ids=["lost", "faster"])
def test_a_store_that_always_fails_is_given_up(bench, monkeypatch, words, error, said):
    async def create(self, key, body):
        if isinstance(error, AlreadyExists):
            bench.put(key, V2.encode(manifests()[8]))  # another client creates it first
        raise error

    monkeypatch.setattr(LocalStore, "create", create)
    result = ran("checkpoint", words[0], bench.folder, *words[1:])
    assert result.exit_code == BAD_INPUT and said in result.stderr and len(result.stderr.splitlines()) == 1, result.output

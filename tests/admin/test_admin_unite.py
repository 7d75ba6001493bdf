"""`highwater admin project` and `union`: rows, what is refused, and an error at each request."""

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from highwater.admin.several import Taken
from highwater.admin.unite import Part, united
from highwater.cli.main import app
from highwater.gate.exits import BAD_INPUT, SAFETY
from highwater.impl.codecs.slatedb.tables import Run, View
from highwater.impl.db.build import wal_of
from highwater.impl.db.merge import versions
from highwater.impl.db.reader import Reader, opened
from highwater.impl.db.rows import TOMBSTONE, Row
from highwater.impl.errors import OutcomeUnknown, Unavailable
from highwater.impl.layout import Namespace
from highwater.impl.manifests.spans import Span
from highwater.impl.stores.system import open_store, system_world
from tests.admin.test_admin_clone import UUIDS, Failing, checkpoints_of, failed_at_each, path_of
from tests.support.slatedb.folders import admin, asked, files, kinds, latest, put, rewritten, rows, written
from tests.support.slatedb.tables import database, fence_with_body, id_of

pytest_plugins = ["tests.support.stores.fixtures"]
ALL = {"a": "1", "b": "2", "c": "1", "d": "2"}
HALVES = {"left": ("--end", "c"), "right": ("--start", "c")}


@pytest.fixture
def whole(tmp_path):
    return written(tmp_path / "whole", [put(*"abc"), put(*"bd", seq=2, value=b"2")], [None, None])


@pytest.fixture
def halves(whole, tmp_path):
    for name, span in HALVES.items():
        asked("project", whole, tmp_path / name, *span)
    return tmp_path / "left", tmp_path / "right"


# ------------------------------------------------------------------------------------------------------------------- rows

def test_a_projection_has_the_keys_of_its_range(whole, halves):
    left, right = halves
    assert rows(left) == {"a": "1", "b": "2"} and rows(right) == {"c": "1", "d": "2"} and rows(whole) == ALL
    assert kinds(left) == kinds(right) == kinds(whole) == set()
    for half in halves:
        entry, = latest(half).external_dbs
        assert entry.path == path_of(whole) and {entry.source_checkpoint_id, entry.final_checkpoint_id} < checkpoints_of(whole)
        assert set(files(half)) == {"manifest/" + f"{i:020}.manifest" for i in (1, 2)}
    assert rows(asked_new("project", whole, whole.parent / "one", "--prefix", "b")) == {"b": "2"}


def test_a_key_in_several_ssts_of_a_run_is_read_projected_and_compacted(tmp_path):
    """0.17.0 writes such runs if a snapshot keeps many versions of a key."""
    versions_of_k = [Row(b"k", seq, value=b"%d" % seq) for seq in range(9, 0, -1)]
    runs = (Run(0, tuple(View(id_of(n), id_of(n)) for n in (1, 2, 3))),)
    folder = written(tmp_path / "whole", [[*put("a"), *versions_of_k[:3]], versions_of_k[3:6], [*versions_of_k[6:], *put("m")]],
                     l0=(), compacted=runs)
    wanted = {"a": "1", "k": "9", "m": "1"}
    assert rows(folder) == wanted and kinds(folder) == set() and admin("check", folder, "--deep").exit_code == 0
    for name, span, keys in (("k", ("--prefix", "k"), "k"), ("left", ("--end", "k"), "a"), ("right", ("--start", "k"), "km")):
        assert rows(asked_new("project", folder, tmp_path / name, *span)) == {key: wanted[key] for key in keys}
    assert len(latest(tmp_path / "k").compacted[0].views) == 3
    asked("union", tmp_path / "left", tmp_path / "right", tmp_path / "both")
    asked("clone", folder, tmp_path / "clone")
    assert rows(tmp_path / "both") == rows(tmp_path / "clone") == wanted
    assert [view.sst_id for view in latest(tmp_path / "both").compacted[0].views] == [id_of(n) for n in (1, 2, 3)]
    rewritten(folder, l0=(View(id_of(4), id_of(1)),))  # so that there is something to compact
    result = CliRunner().invoke(app, ["db", "compact", str(folder), "--min-sources", "1"])
    assert result.exit_code == 0 and rows(folder) == wanted, result.output


def asked_new(*words):
    """The folder of a new database that a verb has made."""
    asked(*words)
    return words[2]


def test_a_union_of_the_halves_is_the_whole(whole, halves, tmp_path):
    made = asked("union", *halves, tmp_path / "again")
    assert rows(tmp_path / "again") == ALL and kinds(tmp_path / "again") == set()
    assert [one["path"] for one in made["external_dbs"]] == [path_of(whole)]  # the halves own nothing
    assert len(latest(tmp_path / "again").l0) == len(latest(whole).l0)
    before = files(tmp_path)
    assert asked("union", *halves, tmp_path / "again")["what"] == "complete already" and files(tmp_path) == before


def test_rounds_do_not_add_pins_or_views(tmp_path):
    """Both halves are of one checkpoint. One SST is in one half only, another one in the other half, and one in both."""
    whole = written(tmp_path / "whole", [put(*"ab"), put(*"cd"), put(*"bc", seq=2, value=b"2")])
    source = whole
    for number in range(3):
        folder = tmp_path / str(number)
        kept = asked("checkpoint", "create", source)["id"]
        parts = [asked_new("project", source, folder / name, *span, "-s", kept) for name, span in HALVES.items()]
        source = asked_new_union(parts, folder / "whole")
    assert rows(source) == {"a": "1", "b": "2", "c": "2", "d": "1"} and len(latest(source).l0) == 3
    assert [(one.path, len(one.sst_ids)) for one in latest(source).external_dbs] == [(path_of(whole), 3)]


def test_a_union_of_databases_of_their_own(whole, tmp_path):
    other = written(tmp_path / "other", [put(*"xy", seq=7)], first=7)
    assert rows(asked_new_union([other, whole], tmp_path / "both")) == ALL | {"x": "1", "y": "1"}
    assert latest(tmp_path / "both").last_l0_seq == 7
    assert {one.path for one in latest(tmp_path / "both").external_dbs} == {path_of(whole), path_of(other)}


def asked_new_union(sources, new, *words):
    asked("union", *sources, new, *words)
    return new


def test_a_split_leaves_out_what_is_outside_of_a_range(whole, tmp_path):
    other = written(tmp_path / "other", [put(*"bcx", seq=7, value=b"7")], first=7)
    result = admin("union", whole, other, tmp_path / "both")
    assert result.exit_code == SAFETY and "has keys in" in result.stderr, result.output
    assert rows(asked_new_union([whole, other], tmp_path / "both", "--split", "c")) == {"a": "1", "b": "2", "c": "7", "x": "7"}


def test_checkpoints_of_the_sources(whole, halves, tmp_path):
    kept = asked("checkpoint", "create", halves[1])["id"]
    rewritten(halves[1], l0=())
    assert rows(asked_new_union(halves, tmp_path / "now")) == {"a": "1", "b": "2"}
    assert rows(asked_new_union(halves, tmp_path / "then", "-s", kept)) == ALL
    assert rows(asked_new("project", halves[1], tmp_path / "d", "--start", "d", "-s", kept)) == {"d": "2"}


KEYS = st.sampled_from([b"a", b"a\0", b"b", b"\xff", b"m", b"z"])
TABLES = st.lists(st.dictionaries(KEYS, st.booleans(), min_size=1), min_size=1, max_size=3)


@settings(max_examples=25, deadline=None)
@given(TABLES, st.sets(KEYS, min_size=1, max_size=3))
def test_whatever_is_split_and_united_has_the_same_versions(tables, cuts):
    """Drawn databases with tombstones, cut anywhere, in memory: the parts share no key, and the union has every version."""
    store, _ = database([[Row(key, seq, *((TOMBSTONE,) if gone else ()), value=b"" if gone else b"%d" % seq)
                          for key, gone in sorted(table.items())] for seq, table in enumerate(tables, 1)])
    world, ends = system_world(store), [b"", *sorted(cuts), None]

    async def versions_of(path: str):
        state = await opened(store, path)
        return [rows async for rows in versions(Reader(store, state).sources(Span()))]

    async def case():
        names = []
        for number, (start, end) in enumerate(pairwise(ends)):
            names.append(f"part{number}")
            await united(world, names[-1], [Part("db", Span(start or b"", end))], (), False, False)
        await united(world, "union", [Part(name) for name in names], (), False, False)
        parts = [await versions_of(name) for name in names]
        assert [rows for part in parts for rows in part] == await versions_of("db") == await versions_of("union")

    asyncio.run(case())


class Rival:
    """A store in which another client acts just before the first manifest of a new database is created."""

    caches = False

    def __init__(self, inner, key: str, rival):
        self.inner, self.key, self.rival = inner, key, rival

    def __getattr__(self, name):
        return getattr(self.inner, name)

    async def create(self, key: str, body: bytes) -> str:
        if key == self.key and self.rival:
            rival, self.rival = self.rival, None
            await rival()
        return await self.inner.create(key, body)


@pytest.mark.parametrize("end, taken", [(b"b", False), (b"c", True)], ids=["the same", "other rows"])
def test_two_clients_at_once(end, taken):
    """The faster one makes the database. The other one finishes that, or is refused; nobody's rows are mixed."""
    store, _ = database([put(*"abcd")])
    others = system_world(store)

    async def rival():
        await united(others, "new", [Part("db", Span(b"", b"b"))], (), False, False)

    async def case():
        mine: Any = Rival(store, Namespace("new", "manifest").key(1), rival)
        try:
            made = await united(system_world(mine), "new", [Part("db", Span(b"", end))], (), False, False)
            assert not taken and made.manifest_id == 2
        except Taken as error:
            assert taken and "another client has just begun" in str(error)
        state = await opened(store, "new")
        assert [rows[0].key async for rows in versions(Reader(store, state).sources(Span()))] == [b"a"]

    asyncio.run(case())


# ------------------------------------------------------------------------------------------------------- what is refused

def unflushed(folder) -> None:
    (folder / Namespace("", "wal").key(3)).write_bytes(wal_of(put("z", seq=9)).body)


def test_rows_that_are_only_in_the_wal_are_not_left_out(whole, tmp_path):
    """Neither those that the manifest has seen, nor later ones. A fence is no row, also one with a body."""
    (whole / Namespace("", "wal").key(2)).write_bytes(fence_with_body())
    assert rows(asked_new("project", whole, tmp_path / "fences", "--end", "b")) == {"a": "1"}
    kept = asked("checkpoint", "create", whole)["id"]
    unflushed(whole)
    new = tmp_path / "new"
    for words in (("project", whole, new, "--end", "x"), ("union", whole, whole, new, "--split", "b")):
        result = admin(*words)
        assert result.exit_code == SAFETY and "WAL object 3" in result.stderr and "flush" in result.stderr, result.output
    assert not (tmp_path / "new").exists()
    assert rows(asked_new("project", whole, tmp_path / "new", "--end", "b", "-s", kept)) == {"a": "1"}
    rewritten(whole, wal_id_last_seen=3)
    assert admin("project", whole, tmp_path / "other", "--end", "x").exit_code == SAFETY
    rewritten(whole, last_l0_seq=9)  # what is in the WAL is flushed
    assert rows(asked_new("project", whole, tmp_path / "other", "--end", "b")) == {"a": "1"}


REFUSED = {
    "no range": (("project", "{whole}", "{new}"), BAD_INPUT, "give --start, --end or --prefix"),
    "empty range": (("project", "{whole}", "{new}", "--start", "b", "--end", "a"), BAD_INPUT, "no key is from"),
    "bad key": (("project", "{whole}", "{new}", "--start", "\\q"), BAD_INPUT, "after the backslash"),
    "one source": (("union", "{whole}", "{new}"), BAD_INPUT, "two sources or more"),
    "itself": (("union", "{left}", "{right}", "{left}"), BAD_INPUT, "both a source and the new database"),
    "too few splits": (("union", "{left}", "{right}", "{whole}", "{new}", "--split", "c"), BAD_INPUT, "give 2"),
    "splits fall": (("union", "{left}", "{right}", "{whole}", "{new}", "--split", "c", "--split", "b"), BAD_INPUT,
                    "'b' is not after 'c'"),
    "no database": (("union", "{left}", "{none}", "{new}"), BAD_INPUT, "there is no folder"),
    "common keys": (("union", "{left}", "{whole}", "{new}"), SAFETY, "project them to spans without a common key first"),
    "taken": (("project", "{whole}", "{left}", "--end", "d"), SAFETY, "is a database with other rows"),
    "same SST ids": (("union", "{left}", "{twin}", "{new}", "--split", "b"), SAFETY, "own an SST"),
    "unknown checkpoint": (("union", "{left}", "{right}", "{new}", "-s", UUIDS[0]), BAD_INPUT, "is not listed"),
}


@pytest.mark.parametrize("words, code, said", REFUSED.values(), ids=list(REFUSED))
def test_what_is_refused_changes_nothing(whole, halves, tmp_path, words, code, said):
    written(tmp_path / "twin", [put(*"xyz")])
    names = {name: tmp_path / name for name in ("whole", "left", "right", "new", "none", "twin")}
    before = files(tmp_path)
    for more in ((), ("--dry-run",)):
        result = admin(*(word.format(**names) for word in words), *more)
        assert result.exit_code == code and said in result.stderr and len(result.stderr.splitlines()) == 1, result.output
    assert files(tmp_path) == before and not (tmp_path / "new").exists()


def test_a_source_that_has_lost_its_pin(whole, halves, tmp_path):
    """And a projection that has lost it: it is complete, but its rows may go at any time."""
    rewritten(whole, checkpoints=())
    for words in (("union", *halves, tmp_path / "new"), ("project", whole, halves[0], "--end", "c")):
        for more in ((), ("--dry-run",)):
            result = admin(*words, *more)
            assert result.exit_code == SAFETY and "is not listed" in result.stderr, result.output
    assert not (tmp_path / "new").exists()


def test_a_dry_run_writes_nothing(whole, halves, tmp_path):
    before = files(tmp_path)
    planned = asked("union", *halves, tmp_path / "new", "--dry-run")
    assert [len(one["sst_ids"]) for one in planned["external_dbs"]] == [2] and planned["manifest_id"] == 0
    assert files(tmp_path) == before and not (tmp_path / "new").exists()


# ----------------------------------------------------------------------------------------------- an error at each request

@pytest.mark.parametrize("late, error", [(False, Unavailable("")), (True, OutcomeUnknown(""))], ids=["refused", "applied"])
def test_a_union_that_fails_anywhere_is_continued(whole, halves, tmp_path, late, error):
    new = tmp_path / "new"

    def check():
        if (new / "manifest").exists() and latest(new).initialized:
            assert rows(new) == ALL and latest(new).external_dbs[0].final_checkpoint_id in checkpoints_of(whole)

    assert failed_at_each(("union", *halves, new), check, late, error) >= 3
    assert rows(new) == ALL and kinds(new) == set()


def test_an_unfinished_attempt_with_other_rows_is_replaced_on_demand(whole, tmp_path):
    new = tmp_path / "new"
    with pytest.MonkeyPatch.context() as patched:
        Failing(patched, 3, True, OutcomeUnknown(""))  # the checkpoint, the first manifest, the final one
        assert admin("project", whole, new, "--end", "b").exit_code == BAD_INPUT
    result = admin("project", whole, new, "--end", "c")
    assert result.exit_code == SAFETY and "--restart" in result.stderr
    made = asked("project", whole, new, "--end", "c", "--restart")
    assert made["what"] == "begun again" and rows(new) == {"a": "1", "b": "2"}
    assert [len(one["sst_ids"]) for one in made["external_dbs"]] == [2, 0]
    assert admin("detach", new).exit_code == SAFETY and len(latest(new).external_dbs) == 1
    finals = {one.id for one in latest(whole).checkpoints if not one.expire_time_s}
    assert finals == {latest(new).external_dbs[0].final_checkpoint_id} and kinds(new) == set()


def test_an_unfinished_clone_with_a_wal_is_not_replaced(whole, tmp_path):
    """A union replays every WAL object in its folder."""
    new = tmp_path / "new"
    with pytest.MonkeyPatch.context() as patched:
        Failing(patched, 4, True, OutcomeUnknown(""))
        assert admin("clone", whole, new).exit_code == BAD_INPUT
    assert "wal/" + f"{1:020}.sst" in files(new)
    result = admin("project", whole, new, "--end", "c", "--restart")
    assert result.exit_code == SAFETY and "unfinished clone with a WAL" in result.stderr and not latest(new).initialized
    rewritten(new, replay_after_wal_id=2)  # as if a writer had flushed
    result = admin("project", whole, new, "--end", "c", "--restart")
    assert result.exit_code == SAFETY and "a writer has opened it" in result.stderr and not latest(new).initialized


def test_an_unfinished_projection_is_not_continued_as_a_clone(whole, tmp_path):
    """Nor a clone as a projection, also of all keys: the copies of its WAL would be missing."""
    for first, then, said in ((("project", "--end", "b"), ("clone",), "other rows than the parent"),
                              (("clone",), ("project", "--start", "a"), "has other rows")):
        new = tmp_path / first[0]
        with pytest.MonkeyPatch.context() as patched:
            Failing(patched, 3, True, OutcomeUnknown(""))  # the checkpoint, the first manifest, the final one
            assert admin(first[0], whole, new, *first[1:]).exit_code == BAD_INPUT
        for more in ((), ("--dry-run",)):
            result = admin(then[0], whole, new, *then[1:], *more)
            assert result.exit_code == SAFETY and said in result.stderr, result.output
        assert not latest(new).initialized
        asked(first[0], whole, new, *first[1:])
    assert asked("clone", whole, tmp_path / "project")["what"] == "complete already, and changed since"


def test_ids_of_views_are_new(whole, halves, tmp_path):
    """One SST may have two views: a compaction names its inputs by the ids of views."""
    sources = asked_new("project", whole, tmp_path / "b", "--start", "b", "--end", "c"), *halves
    assert all({view.id for view in latest(one).l0} & {id_of(1), id_of(2)} == set() for one in sources)


def test_in_a_bucket(whole, tmp_path, moto_stores, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", moto_stores.url)
    url = f"s3://{moto_stores.bucket}/some"

    async def copy():
        store = open_store(url)
        for key, body in files(whole).items():
            await store.put(f"whole/{key}", body)

    asyncio.run(copy())
    for name, span in HALVES.items():
        asked("project", f"{url}/whole", f"{url}/{name}", *span)
    made = asked("union", f"{url}/left", f"{url}/right", f"{url}/again")
    assert [one["path"] for one in made["external_dbs"]] == ["some/whole"] and rows(f"{url}/again") == ALL
    asked("clone", f"{url}/again", f"{url}/clone")
    assert rows(f"{url}/clone") == ALL and admin("detach", f"{url}/clone").exit_code == SAFETY
    result = admin("clone", f"{url}/whole", "s3://other/clone")
    assert result.exit_code == BAD_INPUT and "is in another store" in result.stderr

"""`highwater db` prints the rows of a database, changes nothing, and says in one line what cannot be read."""

import asyncio
import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from highwater.admin.contents import Target, contents_of
from highwater.admin.rows import bytes_of, span_of, text_of
from highwater.cli.main import app
from highwater.gate.exits import BAD_INPUT, INCOMPLETE
from highwater.gate.extras import install_extra
from highwater.impl.db.build import sst_of
from highwater.impl.db.compression import SNAPPY
from highwater.impl.db.rows import MERGE, TOMBSTONE, Row
from highwater.impl.layout import Namespace, key_of_sst
from highwater.impl.stores.s3 import S3Store, connect
from highwater.impl.world import Object, list_all
from tests.support.slatedb.ranged import Counting
from tests.support.slatedb.tables import database, id_of

pytest_plugins = ["tests.support.stores.fixtures"]
OLD = [Row(b"a", 1, value=b"1", create_ms=1_000), Row(b"b", 1, value=b"x" * 300), Row(b"\xff\\", 1, value=b"\0"), ]
NEW = [Row(b"a", 3, MERGE, b"+"), Row(b"b", 2, TOMBSTONE), Row(b"c", 3, value=b"2", expire_ms=5_000)]


@pytest.fixture
def folder(tmp_path) -> Path:
    return filled(tmp_path)


def filled(folder: Path, codec: int = 0) -> Path:
    """A database in files: two SSTs, a fence, and a WAL object."""
    store, _ = database([OLD, NEW], [None, [Row(b"d", 4, value=b"3", expire_ms=1 << 50)]], codec)
    for entry in asyncio.run(list_all(store, "")):
        path = folder / entry.key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(asyncio.run(store.get(entry.key)).body)
    return folder / "db"


def run(*arguments, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["db", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result.output


def lines(*arguments) -> list[dict]:
    return [json.loads(line) for line in run(*arguments, "--json").splitlines()]


def refused(*arguments, code: int = BAD_INPUT) -> str:
    """The one line of an error."""
    (line,) = run(*arguments, code=code).strip().splitlines()
    assert line.startswith("error: ")
    return line


def test_get(folder):
    assert run("get", folder, "a") == "a = 1 + +  seq 3\n"
    assert lines("get", folder, "a") == [{"key": "a", "value": "1", "operands": ["+"], "seq": 3}]
    assert lines("get", folder, r"\xff\\") == [{"key": r"\xff\\", "value": r"\x00", "seq": 1}]
    assert "expires " in run("get", folder, "d")
    for key in "bcz":
        assert "shows nothing" in refused("get", folder, key)
    assert "the key is empty" in refused("get", folder, "") and "backslash at character 1" in refused("get", folder, r"a\n")


def test_scan(folder):
    assert [row["key"] for row in lines("scan", folder)] == ["a", "d", r"\xff\\"]
    assert [row["key"] for row in lines("scan", folder, "--start", "b", "--end", "e")] == ["d"]
    assert [row["key"] for row in lines("scan", folder, "--limit", 2)] == ["a", "d"]
    assert [row["key"] for row in lines("scan", folder, "--prefix", r"\xff")] == [r"\xff\\"]
    assert run("scan", folder, "--prefix", "nothing") == ""
    assert [(row["key"], row["seq"], row["kind"]) for row in lines("scan", folder, "--versions", "--end", "d")] == [
        ("a", 3, "merge"), ("a", 1, "value"), ("b", 2, "tombstone"), ("b", 1, "value"), ("c", 3, "value")]
    said = run("scan", folder, "--versions")
    assert "a = 1  seq 1 written 1970-01-01T00:00:01.000Z" in said and ".. (300 characters)  seq 1" in said
    assert "no key is from" in refused("scan", folder, "--start", "b", "--end", "a")


def test_dump_sst(folder):
    said = run("dump-sst", folder, id_of(2))
    assert "block 0 at 0: 1 puts, 1 deletes, 1 merges" in said and "b = tombstone  seq 2" in said and "a + +  seq 3" in said
    head, *rows = lines("dump-sst", folder, id_of(1))
    assert head["codec"] == "none" and head["stats"]["puts"] == 3 == len(rows) and head["last_key"] == r"\xff\\"
    assert len(lines("dump-sst", folder, id_of(1), id_of(2), "--no-rows")) == 2
    assert "its id is a ULID" in refused("dump-sst", folder, "x")
    assert f"there is no SST {str(folder).lstrip('/')}/compacted/" in refused("dump-sst", folder, id_of(3))


def test_inspect_shows_an_sst_as_dump_sst_does(folder):
    for more in ((), ("--json",)):
        result = CliRunner().invoke(app, ["admin", "inspect", str(folder), "--sst", id_of(2), "--sst", id_of(1), *more])
        assert result.exit_code == 0 and result.output == run("dump-sst", folder, id_of(2), id_of(1), "--no-rows", *more)
    assert "its id is a ULID" in CliRunner().invoke(app, ["admin", "inspect", str(folder), "--sst", "x"]).output


def test_dump_wal(folder):
    said = run("dump-wal", folder)
    assert "1.sst: a fence, 0 bytes" in said and "block 0 at 0: numbers from 4" in said and "d = 3  seq 4" in said
    fence, head, row = lines("dump-wal", folder)
    assert fence["fence"] and head["wal"] and row["key"] == "d"
    assert len(lines("dump-wal", folder, "--from", 2, "--no-rows")) == 1 == len(lines("dump-wal", folder, "--to", 1))
    assert "there is no WAL object" in refused("dump-wal", folder, "--from", 3)
    assert "up to 1" in refused("dump-wal", folder, "--from", 2, "--to", 1)


def test_a_wal_elsewhere(folder, tmp_path):
    (tmp_path / "log").mkdir()
    (folder / "wal").rename(tmp_path / "log" / "wal")
    assert "it is missing" in refused("scan", folder)
    assert [row["key"] for row in lines("scan", folder, "--wal-url", tmp_path / "log")] == ["a", "d", r"\xff\\"]
    assert len(lines("dump-wal", folder, "--wal-url", tmp_path / "log")) == 3


def test_what_cannot_be_read_is_one_line(folder, tmp_path):
    assert "bad database URL" in refused("scan", "ftp://x") and "there is no folder" in refused("scan", tmp_path / "none")
    assert "there is no manifest" in refused("get", tmp_path, "a")
    assert "no checkpoint 'x'" in refused("scan", folder, "--checkpoint", "x")
    sst = folder.parent / key_of_sst("db", id_of(1))
    body = bytearray(sst.read_bytes())
    body[1] ^= 1
    sst.write_bytes(body)
    for ask in (("scan", folder), ("dump-sst", folder, id_of(1), "--no-rows"), ("get", folder, "a")):
        if "--no-rows" not in ask:
            assert f"{id_of(1)}.sst: byte " in refused(*ask) and "block 0, checksum" in refused(*ask)
    log = folder.parent / Namespace("db", "wal").key(2)
    log.write_bytes(log.read_bytes()[:-1])
    assert "wal/00000000000000000002.sst: byte " in refused("scan", folder)


def test_all_is_the_same_in_s3_where_ssts_are_read_by_ranges(folder, versitygw_stores, monkeypatch):
    client, bucket = connect(versitygw_stores.url), versitygw_stores.bucket
    for path in filter(Path.is_file, folder.rglob("*")):
        client.put_object(Bucket=bucket, Key=f"some/db/{path.relative_to(folder)}", Body=path.read_bytes())
    monkeypatch.setenv("AWS_ENDPOINT_URL", versitygw_stores.url)
    whole, url = [], f"s3://{bucket}/some/db"
    get = S3Store.get

    async def noted(self: S3Store, key: str) -> Object:
        whole.append(key)
        return await get(self, key)

    monkeypatch.setattr(S3Store, "get", noted)
    for verb, *more in (("get", "a"), ("scan",), ("scan", "--versions", "--start", "b"), ("dump-sst", id_of(1)), ("dump-wal",)):
        of_s3 = run(verb, url, *more, "--json").replace("some/db", str(folder).lstrip("/"))
        assert of_s3 == run(verb, folder, *more, "--json"), verb
    assert whole and not any("compacted" in key for key in whole)
    assert "it is missing" in refused("scan", url, "--wal-url", f"s3://{bucket}/elsewhere")
    client.delete_object(Bucket=bucket, Key=f"some/db/compacted/{id_of(1)}.sst")
    assert "if a collector has just deleted it" in refused("scan", url)


def test_a_deep_check_reads_only_ends():
    built = sst_of([Row(b"%06d" % i, 1, value=bytes(1000)) for i in range(2000)]).body
    wrong, store = bytearray(built), Counting()
    wrong[-30] ^= 1
    bodies = {"whole": built, "wrong": bytes(wrong), "cut": built[:-3], "empty": b""}

    async def case() -> None:
        for key, body in bodies.items():
            await store.put(key, body)
        sizes = {key: len(body) for key, body in bodies.items()} | {"gone": 9}
        read = await contents_of([Target(key, store, size) for key, size in sizes.items()], False, None)
        found = {key: content.fault for key, content in read.by_key.items() if content.fault}
        assert [*found] == ["wrong", "cut", "empty"] and "checksum" in found["wrong"] and "version" in found["cut"]

    asyncio.run(case())
    assert max(end - start for start, end in store.ranges) < len(built) / 3


def test_nothing_is_changed(folder):
    before = {path: path.stat() for path in folder.rglob("*")}
    for ask in (("get", folder, "a"), ("scan", folder), ("dump-sst", folder, id_of(1)), ("dump-wal", folder)):
        run(*ask)
    after = {path: path.stat() for path in folder.rglob("*")}
    assert {path: (one.st_ino, one.st_mtime_ns) for path, one in before.items()} == {
        path: (one.st_ino, one.st_mtime_ns) for path, one in after.items()}


def test_a_missing_library_is_named(tmp_path, monkeypatch):
    folder = filled(tmp_path, SNAPPY)
    assert lines("get", folder, "a")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert install_extra("codecs") in refused("get", folder, "a", code=INCOMPLETE)


@given(raw=st.binary(max_size=8))
def test_a_key_is_written_and_read(raw):
    assert bytes_of(text_of(raw)) == raw and text_of(raw).isascii()


def test_text_beyond_ascii_is_utf_8():
    assert bytes_of("ä") == "ä".encode()


@given(prefix=st.binary(min_size=1, max_size=3), key=st.binary(max_size=4))
def test_the_span_of_a_prefix(prefix, key):
    span = span_of(None, None, text_of(prefix))
    assert (span.start <= key and (span.end is None or key < span.end)) == key.startswith(prefix)


# ------------------------------------------------------------------------------------------------------------- writes

def test_put_and_delete(folder):
    assert run("put", folder, "new", "v\\xff") == "new: written as seq 5, by a writer of epoch 1\n"
    assert json.loads(run("put", folder, "a", "2", "--ttl", "1h", "--json")) == {
        "seq": 6, "writer_epoch": 2, "keys": ["a"], "flushed": False}
    assert run("delete", folder, "c", "--flush").endswith("epoch 3, and flushed to L0\n")
    assert run("put", folder, "a", "+", "--merge")
    assert {row["key"] for row in lines("scan", folder)} == {"a", "\\xff\\\\", "d", "new"}
    found = json.loads(run("get", folder, "a", "--json"))
    assert (found["value"], found["operands"], found["seq"]) == ("2", ["+"], 8)


def test_a_database_is_made_only_if_asked(tmp_path):
    where = tmp_path / "some" / "where"
    assert "there is no folder" in refused("put", where, "a", "1") and not where.exists()
    (tmp_path / "empty").mkdir()
    assert "there is no manifest" in refused("put", tmp_path / "empty", "a", "1")
    assert not list((tmp_path / "empty").rglob("*.manifest"))
    assert run("put", where, "a", "1", "--create", "--flush") and lines("scan", where)[0]["value"] == "1"
    assert run("put", where, "b", "2", "--create") and len(lines("scan", where)) == 2


def test_what_cannot_be_written(folder):
    before = sorted(path.name for path in folder.rglob("*.*") if path.is_file())
    assert "1 to 65,535" in refused("put", folder, "", "1")
    assert "--ttl" in refused("put", folder, "a", "1", "--ttl", "soon")
    assert "\\x" in refused("put", folder, "\\xg", "1")
    newest = max(path for path in (folder / "wal").iterdir() if path.stat().st_size)
    newest.write_bytes(newest.read_bytes()[:-1])
    for more in ((), ("--create",)):
        assert f"{newest.name}: byte " in refused("put", folder, "a", "1", *more)
    assert sorted(path.name for path in folder.rglob("*.*") if path.is_file()) == before

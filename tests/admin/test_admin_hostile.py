"""The commands end with one line where a store is hostile: exit code 2, and the bound by its name."""

import asyncio
import itertools
import json
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

from highwater.admin.database import load
from highwater.cli.main import app
from highwater.gate.exits import BAD_INPUT
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.manifest import ManifestCodec, Phase
from highwater.impl.layout import Namespace
from highwater.impl.stores.system import open_database, system_world
from highwater.traces.recorded.s3log import listing_of
from tests.support.stores.hostile_server import OBJECT, Wire, hostile_server, lists, page_of

pytest_plugins = ["tests.support.stores.fixtures"]
MANIFESTS = Namespace("db", "manifest")
HEAD = f"HTTP/1.1 200 OK\r\n{OBJECT}".encode()
NO_SUCH_KEY = b"<Error><Code>NoSuchKey</Code></Error>"
BOUNDS = "reply_s=1 reply_bytes=100000 body_bytes=100000 listing_keys=3000 empty_pages=10"


@pytest.fixture
def hostile(s3_environment, monkeypatch):
    with hostile_server() as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        monkeypatch.setenv("HIGHWATER_BOUNDS", BOUNDS)
        yield server


def where_listed(bring):
    """Answer a LIST with what `bring` sends; boundaries are not there, and a manifest never ends."""
    def answer(method: str, target: str, wire: Wire) -> None:
        if lists(method, target):
            bring(wire)
        elif "manifest/0" in target:
            wire.send(HEAD + b"\r\n")
            wire.for_ever(bytes(1 << 16))
        else:
            wire.whole(NO_SUCH_KEY * (method != "HEAD"), "200 OK" if method == "HEAD" else "404 Not Found")

    return answer


def ever_new(wire: Wire, numbers=itertools.count(1)) -> None:  # noqa: B008
    first = 1000 * next(numbers)
    wire.whole(page_of([MANIFESTS.key(first + n) for n in range(100)], f"token{first}"), head="")


def drip(wire: Wire) -> None:
    wire.send(b"HTTP/1.1 200 OK\r\n\r\n<")
    wire.for_ever(b"a", 0.05)


HOSTILE = {
    "empty pages": (lambda wire: wire.whole(page_of([], f"{time.monotonic_ns()}"), head=""), "empty_pages=10"),
    "ever new keys": (ever_new, "listing_keys=3000"),
    "drip": (drip, "reply_s=1"),
    "a manifest without end": (lambda wire: wire.whole(page_of([MANIFESTS.key(1)]), head=""), "body_bytes=100000"),
    "a page without end": (lambda wire: wire.for_ever(b"HTTP/1.1 200 OK\r\n\r\n" + b"<a>" * 9999), "reply_bytes=100000"),
}
VERBS = {"check": ["admin", "check"], "inspect": ["admin", "inspect"], "gc": ["admin", "gc"], "scan": ["db", "scan"],
         "get": ["db", "get"], "put": ["db", "put"]}


@pytest.mark.parametrize("name", HOSTILE)
def test_verb_ends_with_the_bound_of_a_hostile_store(hostile, name):
    bring, bound = HOSTILE[name]
    hostile.answer = where_listed(bring)
    for verb, words in VERBS.items():
        result = CliRunner().invoke(app, [*words, "s3://bucket/db", *{"get": ["k"], "put": ["k", "v"]}.get(verb, [])])
        assert result.exit_code == BAD_INPUT, (verb, result.output)
        assert result.stderr.count("\n") == 1 and f"the bound {bound}" in result.stderr, (verb, result.stderr)
        assert "HIGHWATER_BOUNDS=" in result.stderr


def test_page_beyond_the_usual_bound_is_refused(hostile, monkeypatch):
    """Such a page is three times as long as a reply may be, and is not read."""
    monkeypatch.delenv("HIGHWATER_BOUNDS")
    page = page_of(MANIFESTS.key(number) for number in range(1, 300_001))
    hostile.answer = where_listed(lambda wire: wire.whole(page, head=""))
    result = CliRunner().invoke(app, ["admin", "check", "s3://bucket/db"])
    assert result.exit_code == BAD_INPUT and f"{len(page):,} bytes or more: more than the bound reply_bytes=" in result.stderr
    assert result.stderr.count("\n") == 1 and "for example HIGHWATER_BOUNDS=reply_bytes=167772160" in result.stderr


def test_store_probe_ends_with_the_bound_of_a_hostile_store(hostile):
    hostile.answer = where_listed(drip)
    result = CliRunner().invoke(app, ["store", "probe", "s3://bucket", "--rounds", "2"])
    assert result.exit_code == BAD_INPUT and "the bound reply_s=1" in result.stderr, result.output


def test_bad_bounds_are_refused(hostile, monkeypatch, tmp_path):
    monkeypatch.setenv("HIGHWATER_BOUNDS", "reply_s=soon")
    for url in ("s3://bucket/db", str(tmp_path)):
        result = CliRunner().invoke(app, ["admin", "check", url])
        assert result.exit_code == BAD_INPUT and "write reply_s=N" in result.stderr


@pytest.mark.parametrize("start", [HEAD + b"\r\n", b"", HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n"],
                         ids=["body", "interim", "trailers"])
def test_recorder_ends_with_its_command_where_a_reply_does_not(hostile, start, tmp_path):
    """The command leaves after its first bytes, or after a second; the reply goes on."""
    def answer(method: str, target: str, wire: Wire) -> None:
        wire.send(start)
        wire.for_ever(b"x: y\r\n" if start else b"HTTP/1.1 100 Continue\r\n\r\n", 0)

    hostile.answer = answer
    code = ("import sys, urllib.request as r\ntry: print(len(r.urlopen(sys.argv[1], timeout=1).read(9)))\n"
            "except Exception as error: print(error)")
    done = subprocess.run(
        [sys.executable, "-m", "highwater", "trace", "record", "--upstream", hostile.url, "--bucket", "b", "-o", "log.ndjson",
         "--", sys.executable, "-c", code, "{endpoint}/b/k"], cwd=tmp_path, timeout=100, capture_output=True, text=True)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done
    lines = [json.loads(line) for line in (tmp_path / "log.ndjson").read_text().splitlines()]
    assert lines[-1]["kind"] == "end"


def test_listing_with_impossible_numbers_is_recorded():
    key = b"<Key>&#x110000;&#99999999999999999999;k</Key>"
    listed, _ = listing_of(b"<Contents>" + key + b"<Size>" + b"9" * 5000 + b"</Size></Contents>")
    assert listed[0].size_bytes == 0 and listed[0].key.endswith("k")


async def loaded(folder) -> object:
    store, root = open_database(str(folder))
    return await load(system_world(store), root)


def test_equal_parts_of_manifests_are_in_memory_once(tmp_path):
    (tmp_path / "manifest").mkdir()
    for number in range(1, 8):
        body = ManifestCodec(Phase.WRITE_V2).encode(Manifest(initialized=True, writer_epoch=1 + number // 4))
        (tmp_path / Namespace("", "manifest").key(number)).write_bytes(body)
    values = [file.value for file in asyncio.run(loaded(tmp_path)).manifests]  # pyright: ignore[reportAttributeAccessIssue]
    assert [value.writer_epoch for value in values] == [1, 1, 1, 2, 2, 2, 2]
    assert len({id(value) for value in values}) == 2

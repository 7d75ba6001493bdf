"""Every verb of `db` and `admin` on every kind of database, in folders and in S3.

A scene is one database of a kind, with its parents elsewhere in the same store. Each verb is run on it, in the order of VERBS,
and each function there says what the verb must answer, and what the database then shows. A verb without a function fails.
"""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from highwater.cli.main import app
from highwater.gate.exits import BAD_INPUT, SAFETY
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.db.reader import latest_of
from highwater.impl.layout import key_of_sst
from highwater.impl.stores import s3
from highwater.impl.stores.system import open_database, open_store
from tests.support.slatedb.folders import files, put, written
from tests.support.stores.fixtures import client_of

pytest_plugins = ["tests.support.stores.fixtures"]
COMMAND = typer.main.get_command(app)
DB = {"a": "1", "b": "2", "c": "1", "d": "2"}
OTHER = {"y": "3", "z": "3"}


@pytest.fixture(autouse=True)
def made_once(monkeypatch):
    """The runner makes the command of all verbs anew for each call, which takes longer than most verbs here."""
    monkeypatch.setattr("typer.testing._get_command", lambda app: COMMAND)


def ran(*words: str, code: int = 0) -> str:
    """Return what a command prints, on both streams. Its exit code must be `code`."""
    result = CliRunner().invoke(app, [*words])
    assert result.exit_code == code and "Traceback" not in result.output, f"{words}: {result.exit_code}: {result.output}"
    return result.output


def asked(*words: str) -> Any:
    return json.loads(ran(*words, "--json"))


@dataclass
class Scene:
    """A database, and what it is to show. `base`: the URL of the store's root; `store`: what new databases are made with."""

    base: str
    store: tuple[str, ...] = ()
    url: str = ""
    shown: dict[str, str] = field(default_factory=dict)
    parents: dict[str, dict[str, str]] = field(default_factory=dict)  # URLs, and what they show
    made: list[str] = field(default_factory=list)  # of this one, by its verbs

    def at(self, path: str) -> str:
        return f"{self.base}/{path}"

    def rows(self, url: str = "") -> dict[str, str]:
        return {row["key"]: row["value"] for row in map(json.loads, ran("db", "scan", url or self.url, "--json").splitlines())}

    def manifest(self, url: str = "") -> Manifest:
        return asyncio.run(latest_of(*open_database(url or self.url)))[1]

    def makes(self, verb: str, sources: list[str], path: str, *more: str) -> str:
        """Make a database by a verb of `admin`; return its URL."""
        assert " is made: manifest " in ran("admin", verb, *sources, self.at(path), *more, *self.store)
        return self.at(path)

    def is_whole(self) -> None:
        """The database and its parents show what they are to show."""
        for url, shown in {**self.parents, self.url: self.shown}.items():
            assert self.rows(url) == shown, url

    def forget(self) -> None:
        """Destroy what was made of the database, and delete its checkpoints."""
        for url in reversed(self.made):
            assert "destroyed: " in ran("admin", "destroy", url, "--hard")
        for one in asked("admin", "checkpoint", "list", self.url):
            ran("admin", "checkpoint", "delete", self.url, "-i", one["id"])


# ------------------------------------------------------------------------------------------------------ kinds of databases

def plain(scene: Scene) -> None:
    scene.url, scene.shown = scene.at("data/db"), DB


def clone(scene: Scene) -> None:
    scene.url, scene.shown = scene.makes("clone", [scene.at("data/db")], "copies/of/clone"), DB
    scene.parents = {scene.at("data/db"): DB}


def projection(scene: Scene) -> None:
    scene.url = scene.makes("project", [scene.at("data/db")], "projection", "--start", "b", "--end", "d")
    scene.shown, scene.parents = {"b": "2", "c": "1"}, {scene.at("data/db"): DB}


def union(scene: Scene) -> None:
    left = scene.makes("project", [scene.at("data/db")], "data/left", "--end", "c")
    scene.url = scene.makes("union", [left, scene.at("nested/below/other")], "data/deep/union")
    scene.shown = {"a": "1", "b": "2"} | OTHER
    scene.parents = {scene.at("data/db"): DB, scene.at("nested/below/other"): OTHER}


def clone_of_a_clone(scene: Scene) -> None:
    """The first clone has an SST of its own, too."""
    clone(scene)
    ran("db", "put", scene.url, "e", "5", "--flush")
    scene.parents |= {scene.url: DB | {"e": "5"}}
    scene.url, scene.shown = scene.makes("clone", [scene.url], "data/again"), DB | {"e": "5"}


def detached(scene: Scene) -> None:
    clone(scene)
    ran("db", "compact", scene.url, "--min-sources", "1")
    scene.forget()
    assert "detached from" in ran("admin", "detach", scene.url)
    scene.parents = {}


KINDS = {one.__name__: one for one in (plain, clone, projection, union, clone_of_a_clone, detached)}


# ------------------------------------------------------------------------------------------------------------------- verbs

def get(scene: Scene) -> None:
    for key, value in scene.shown.items():
        assert ran("db", "get", scene.url, key).startswith(f"{key} = {value} ")
    assert "shows nothing" in ran("db", "get", scene.url, "none", code=BAD_INPUT)


def scan(scene: Scene) -> None:
    scene.is_whole()
    assert [line[0] for line in ran("db", "scan", scene.url).splitlines()] == [*scene.shown]


def dump_sst(scene: Scene) -> None:
    """Each SST, wherever it lies."""
    manifest = scene.manifest()
    for sst in manifest.all_ssts:
        object_, *rows = map(json.loads, ran("db", "dump-sst", scene.url, sst, "--json").splitlines())
        homes = [one.path for one in manifest.external_dbs if sst in one.sst_ids] or [open_database(scene.url)[1]]
        assert rows and object_["object"] == key_of_sst(homes[0], sst)


def inspect(scene: Scene) -> None:
    named = {one["path"] for one in asked("admin", "inspect", scene.url)["manifests"][-1]["value"]["external_dbs"]}
    assert len(named) == len(scene.parents) and all(any(url.endswith(path) for path in named) for url in scene.parents)
    assert scene.url.removeprefix("s3://").partition("/")[2] in ran("admin", "inspect", scene.url).splitlines()[0]


def history(scene: Scene) -> None:
    assert ran("admin", "history", scene.url) and len(asked("admin", "history", scene.url)) == len(
        asked("admin", "inspect", scene.url)["manifests"])


def check(scene: Scene) -> None:
    for more in ((), ("--deep",)):
        assert "nothing is wrong" in ran("admin", "check", scene.url, *more)


def checkpoint_create(scene: Scene) -> None:
    scene.made = [ran("admin", "checkpoint", "create", scene.url, "-n", "mine").partition(" ")[0]]


def checkpoint_list(scene: Scene) -> None:
    assert scene.made == [one["id"] for one in asked("admin", "checkpoint", "list", scene.url, "-n", "mine")]


def checkpoint_refresh(scene: Scene) -> None:
    said = ran("admin", "checkpoint", "refresh", scene.url, "-i", scene.made[0], "-l", "1h")
    assert said.startswith(f"{scene.made[0]} keeps manifest")
    assert [line[0] for line in ran("db", "scan", scene.url, "--checkpoint", "mine").splitlines()] == [*scene.shown]


def checkpoint_delete(scene: Scene) -> None:
    ran("admin", "checkpoint", "delete", scene.url, "-i", scene.made.pop())
    assert ran("admin", "checkpoint", "list", scene.url, "-n", "mine") == "no checkpoints\n"


def put_(scene: Scene) -> None:
    assert "c1: written as seq " in ran("db", "put", scene.url, "c1", "new")
    scene.shown = dict(sorted({**scene.shown, "c1": "new"}.items()))
    scene.is_whole()


def dump_wal(scene: Scene) -> None:
    assert "c1 = new" in ran("db", "dump-wal", scene.url)


def delete(scene: Scene) -> None:
    """A key of an SST of a parent, if there is one; the WAL is flushed for what comes next."""
    gone = "b"
    assert f"{gone}: written as seq " in ran("db", "delete", scene.url, gone, "--flush")
    scene.shown = {key: value for key, value in scene.shown.items() if key != gone}
    scene.is_whole()


def clone_(scene: Scene) -> None:
    assert "would be made" in ran("admin", "clone", scene.url, scene.at("new/clone"), "--dry-run", *scene.store)
    scene.made.append(scene.makes("clone", [scene.url], "new/clone"))
    assert scene.rows(scene.made[-1]) == scene.shown


def project(scene: Scene) -> None:
    scene.made.append(scene.makes("project", [scene.url], "new/projection", "--end", "c2"))
    assert scene.rows(scene.made[-1]) == {key: value for key, value in scene.shown.items() if key < "c2"}


def union_(scene: Scene) -> None:
    """With itself: what is before a key, and the rest from another database."""
    scene.made.append(scene.makes("union", [scene.url, scene.at("more")], "new/union", "--split", "zz"))
    assert scene.rows(scene.made[-1]) == {**scene.shown, "zzz": "4"}
    assert "uses " in ran("admin", "detach", scene.made[-1], code=SAFETY)


def detach(scene: Scene) -> None:
    scene.forget()
    scene.made = []
    said = ran("admin", "detach", scene.url, code=SAFETY if scene.parents else 0)
    for url in scene.parents:
        assert f"{url.removeprefix('s3://').partition('/')[2]}': the latest manifest uses " in said
    assert scene.parents or "nothing here needs another database" in said


def compact(scene: Scene) -> None:
    """Then nothing of the parents is needed, and each is let go."""
    assert " -> run " in ran("db", "compact", scene.url, "--min-sources", "1", "--dry-run")
    assert " -> run " in ran("db", "compact", scene.url, "--min-sources", "1")
    scene.is_whole()
    scene.forget()
    kept = {one.final_checkpoint_id for one in scene.manifest().external_dbs}
    assert len(asked("admin", "detach", scene.url)["detached"]) == len(scene.parents) == len(kept)
    for url in scene.parents:
        assert not kept & {one.id for one in scene.manifest(url).checkpoints}
    scene.is_whole()


def gc(scene: Scene) -> None:
    for more in ((), ("--data",)):
        would = ran("admin", "gc", scene.url, "--min-age-s", "0", "--dry-run", *more)
        assert "deleted" in would and "deleted" in ran("admin", "gc", scene.url, "--min-age-s", "0", *more)
        scene.is_whole()


def destroy(scene: Scene) -> None:
    assert "would be deleted: " in ran("admin", "destroy", scene.url, "--soft", "--dry-run")
    scene.is_whole()
    assert "destroyed: only the boundary is left" in ran("admin", "destroy", scene.url, "--hard")
    assert "there is no manifest" in ran("db", "scan", scene.url, code=BAD_INPUT)
    for url, shown in scene.parents.items():
        assert scene.rows(url) == shown


VERBS: dict[str, Callable[[Scene], None]] = {
    "db get": get, "db scan": scan, "db dump-sst": dump_sst, "admin inspect": inspect, "admin history": history,
    "admin check": check, "admin checkpoint create": checkpoint_create, "admin checkpoint list": checkpoint_list,
    "admin checkpoint refresh": checkpoint_refresh, "admin checkpoint delete": checkpoint_delete, "db put": put_,
    "db dump-wal": dump_wal, "db delete": delete, "admin clone": clone_, "admin project": project, "admin union": union_,
    "admin detach": detach, "db compact": compact, "admin gc": gc, "admin destroy": destroy}


def verbs_of(command: Any, name: str) -> set[str]:
    below = getattr(command, "commands", None)  # of a group
    return {verb for sub, one in below.items() for verb in verbs_of(one, f"{name} {sub}")} if below else {name}


def test_every_verb_has_a_row():
    groups = COMMAND.commands  # pyright: ignore[reportAttributeAccessIssue]
    assert verbs_of(groups["db"], "db") | verbs_of(groups["admin"], "admin") == {*VERBS}


# ------------------------------------------------------------------------------------------------------------------- scenes

SOURCES = {"data/db": [put(*"abc"), put(*"bd", seq=2, value=b"2")], "nested/below/other": [put(*"yz", value=b"3")],
           "more": [put("zzz", value=b"4")]}


def write_sources(folder: Path) -> Path:
    """Write the databases that others are made of. No two SSTs have one id."""
    for number, (path, ssts) in enumerate(SOURCES.items()):
        written(folder / path, ssts, first=1 + 10 * number)
    return folder


def run_verbs(scene: Scene, kind: str) -> None:
    KINDS[kind](scene)
    for name, verb in VERBS.items():
        try:
            verb(scene)
        except AssertionError as error:
            raise AssertionError(f"{name} on {kind}: {error}") from error


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rooted", [False, True], ids=["root", "prefix"])
def test_verbs_in_folders(tmp_path, kind, rooted):
    """Paths of parents begin at the root of the file system, or at the folder that other clients open as their store."""
    folder = write_sources(tmp_path / "store")
    run_verbs(Scene(str(folder), ("--store", str(folder)) if rooted else ()), kind)


@pytest.fixture
def bucket(tmp_path, moto_stores, monkeypatch) -> Scene:
    """A scene with the sources, below a prefix of a bucket."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", moto_stores.url)
    monkeypatch.setattr(s3, "connect", lambda: client_of(0, moto_stores.url))
    scene, sources = Scene(f"s3://{moto_stores.bucket}/some/prefix"), files(write_sources(tmp_path))

    async def copy() -> None:
        store = open_store(scene.base)
        for key, body in sources.items():
            await store.put(key, body)

    asyncio.run(copy())
    return scene


def test_verbs_in_a_bucket(bucket):
    run_verbs(bucket, "clone_of_a_clone")


@pytest.mark.parametrize("kind", KINDS)
def test_verbs_on_every_kind_in_a_bucket(bucket, kind):
    run_verbs(bucket, kind)

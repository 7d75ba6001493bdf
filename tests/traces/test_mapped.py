"""Logs of programs of which a user says only which keys belong to which model: what templates name, and what guards refuse.

In reading order: templates, sequences, logs with fences, one object, the guards of one_object switched off, bad maps.
"""

from typing import Any

import pytest

from highwater.clients.maps import maps_of
from highwater.model.abstract import one_object
from highwater.traces.recorded.orders import Found, search
from highwater.traces.recorded.s3log import EMPTY, Body, Listed, Request
from highwater.traces.recorded.s3store import steps_of
from highwater.traces.recorded.systems.mapped import Map, Mapped
from highwater.traces.recorded.systems.template import Template, Unfit

NEW = {"if-none-match": "*"}


class Log:
    """Requests one after another."""

    def __init__(self) -> None:
        self.requests: list[Request] = []

    def ask(self, client: str, op: str, key: str, body: str = "", status: int = 200, **fields: Any) -> "Log":
        at, data = 10 * len(self.requests) + 10, body.encode()
        bodies = {"got_body" if op == "get" else "sent_body": Body(len(data), data.hex() or "empty", data)}
        self.requests.append(EMPTY._replace(**{
            "number": len(self.requests) + 1, "client": client, "op": op, "method": op.upper(), "bucket": "b", "key": key,
            "called": at, "sent": at, "answered": at + 5, "returned": at + 5, "status": status, "told": status,
            "version": f"v{body}" if status == 200 and op in ("get", "put") else "", **bodies, **fields}))
        return self

    def create(self, client: str, key: str, body: str = "", status: int = 200, **fields: Any) -> "Log":
        return self.ask(client, "put", key, body or key, status, conditions=NEW, **fields)

    def put(self, client: str, key: str, body: str, over: str = "", **fields: Any) -> "Log":
        return self.ask(client, "put", key, body, conditions={"if-match": f"v{over}"} if over else {}, **fields)

    def get(self, client: str, key: str, body: str = "", **fields: Any) -> "Log":
        return self.ask(client, "get", key, body or key, **fields)

    def delete(self, client: str, key: str) -> "Log":
        return self.ask(client, "delete", key, status=204)


def judged(log: Log, *maps: Map, fresh: bool = True) -> Found:
    steps, _ = steps_of(log.requests)
    return search(steps, Mapped(maps, fresh=fresh), 1_000)


def guards_of(log: Log, *maps: Map, fresh: bool = True) -> list[str]:
    found = judged(log, *maps, fresh=fresh)
    assert (found.verdict == "complete") != bool(found.refused)
    return [refusal.guard for _, refusal in found.refused]


# --- templates

@pytest.mark.parametrize("text, key, told", [
    ("log/{id:020d}.json", "log/00000000000000000007.json", 7),
    ("log/{id:020d}.json", "log/0000000000000000007.json", None),
    ("{any}log/{id}.json", "log/7.json", 7),
    ("{any}log/{id}.json", "deep/er/log/0.json", 0),
    ("log/{id}.json", "log/07.json", None),
    ("log/{id}.json", "log/7.json.tmp", None),
    ("v/{id:desc}.manifest", "v/18446744073709551614.manifest", 1),
    ("v/{id:desc}.manifest", "v/18446744073709551616.manifest", None),
    ("refs/{any}/ref.json", "refs/branch.main/ref.json", 0),
    ("a+b.json", "aab.json", None),
])
def test_a_template(text, key, told):
    spot = Template(text).spot(("b", key))
    assert (spot.id if spot else None) == told
    assert not spot or not spot.form or spot.key(spot.id) == ("b", key)


def test_keys_of_different_texts_are_different_sequences():
    of = Template("{any}/log/{id}", "run-1/")
    one, two, same = (of.spot(("b", key)) for key in ("run-1/x/log/1", "run-1/y/log/1", "run-1/x/log/2"))
    assert one and two and same and one.where == same.where != two.where and of.spot(("b", "x/log/1")) is None


# --- sequences

def file(number: int) -> str:
    return f"log/{number:03d}"


ENTRIES = Map("log/{id:03d}", "sequenced_files", r"add (\w+)")
CHAIN = ENTRIES._replace(chained=True)


def begun() -> Log:
    return Log().create("a", file(0), "add one").create("a", file(1), "add two")


@pytest.mark.parametrize("log, guards", [
    (begun().create("b", file(2), "add three"), []),
    (begun().create("b", file(3), "add three"), ["ReadLatest"]),  # a gap
    (begun().create("a", file(2), "add one"), ["OnlyOwnIsAdded"]),  # again
    (begun().create("a", file(2), "add three add three"), ["OnlyOwnIsAdded"]),
    (begun().ask("b", "put", file(2), "add three"), ["CREATE_IF_ABSENT"]),
    (begun().delete("c", file(0)), []),
    (begun().delete("c", file(1)), ["LatestIsKept"]),
    (begun().delete("c", file(0)).create("b", file(0), "add old"), ["AckedIsKept"]),
    (begun().create("b", file(1), "add x", status=412), []),
    (begun().create("b", file(1), "add x"), ["store"]),
], ids=["next", "gap", "again", "twice", "blind", "old deleted", "latest deleted", "forked", "conflict", "two winners"])
def test_a_log_of_entries(log, guards):
    assert guards_of(log, ENTRIES) == guards


WHOLE = "add one add two"


def chain() -> Log:
    return Log().create("a", file(0), "add one").create("a", file(1), WHOLE)


@pytest.mark.parametrize("log, guards", [
    (chain().get("b", file(1), WHOLE).create("b", file(2), f"{WHOLE} add x"), []),
    (chain().get("b", file(1), WHOLE).create("b", file(2), "add one add x"), ["OthersChangesAreKept"]),
    (chain().get("b", file(0), "add one").create("b", file(2), f"{WHOLE} add x"), ["ReadLatest"]),
], ids=["kept", "lost", "unread"])
def test_files_with_all_that_was_before(log, guards):
    assert guards_of(log, CHAIN) == guards


def test_what_came_before_the_log_is_taken_for_granted():
    assert guards_of(Log().create("a", file(7), "add one"), ENTRIES, fresh=False) == []
    listed = Log().ask("a", "list", "log/", listed=(Listed(file(7), 1, "v7", ""),)).create("a", file(8), "add one")
    assert guards_of(listed, ENTRIES, fresh=False) == []


# --- a log with fences

LOG = Map("wal/{id}", "write_ahead_log")


@pytest.mark.parametrize("log, guards", [
    (Log().create("a", "wal/1").create("a", "wal/2"), []),
    (Log().create("a", "wal/1").create("a", "wal/3"), ["AckedIsDurable"]),
    (Log().create("a", "wal/1").ask("a", "put", "wal/2", "x"), ["CREATE_IF_ABSENT"]),
    (Log().create("a", "wal/1").ask("b", "put", "wal/2", conditions=NEW).create("b", "wal/3"), []),
    (Log().create("a", "wal/1").ask("b", "put", "wal/2", conditions=NEW).create("a", "wal/3"), ["OneWriterAcks"]),
], ids=["appended", "gap", "blind", "fenced", "behind a fence"])
def test_a_write_ahead_log(log, guards):
    assert guards_of(log, LOG) == guards


def test_a_fence_that_is_not_empty():
    log = Log().create("a", "wal/1").create("b", "wal/2", "FENCE of b").create("a", "wal/3")
    assert guards_of(log, LOG) == [] and guards_of(log, LOG._replace(fence="^FENCE")) == ["OneWriterAcks"]


# --- one object

ONE = Map("root.json", "one_object", r"add (\w+)")
ROOT = "root.json"


def root() -> Log:
    return Log().create("a", ROOT, "add one")


STALE = root().get("b", ROOT, "add one").put("a", ROOT, "add one add two", "add one").put(
    "b", ROOT, "add one add three", "add one add two")
BLIND = root().get("b", ROOT, "add one").put("b", ROOT, "add two")
AGAIN = root().put("a", ROOT, "add one add one", "add one")


@pytest.mark.parametrize("log, guards", [
    (root().get("b", ROOT, "add one").put("b", ROOT, "add one add two", "add one"), []),
    (root().put("a", ROOT, "add one add two", "add one"), []),  # it has put what it replaces
    (STALE, ["ReadLatest"]),
    (BLIND, ["CONDITIONAL"]),
    (AGAIN, ["ONCE"]),
    (root().delete("a", ROOT).create("b", ROOT, "add two"), []),  # as a lock that is released
    (root().delete("b", ROOT), ["ReadLatest"]),  # it has never seen what it deletes
    (Log().put("a", ROOT, "add one").put("a", ROOT, "add one add two", "add one"), []),  # nothing was there
    (root().ask("a", "complete", ROOT, conditions={"if-match": "vadd one"}).put("a", ROOT, "add two", "?"), []),
], ids=["read", "own", "stale", "blind", "again", "released", "deleted unread", "first", "upload"])
def test_one_object(log, guards):
    assert guards_of(log, ONE) == guards


@pytest.mark.parametrize("log, guard", [(STALE, "ReadLatest"), (BLIND, "CONDITIONAL"), (AGAIN, "ONCE")])
def test_without_a_guard_of_one_object_the_verdict_is_another(monkeypatch, log, guard):
    assert guard in one_object.GUARDS
    monkeypatch.setattr(one_object, one_object.GUARDS[guard][0].__name__, lambda *_: True)
    assert guards_of(log, ONE) == []


def test_each_guard_of_one_object_is_tried():
    assert one_object.GUARDS.keys() == {"ReadLatest", "CONDITIONAL", "ONCE"}


# --- bad maps

@pytest.mark.parametrize("text, told", [
    ("log/{id}.json", "write PATTERN=PROTOCOL"),
    ("log/{id}.json=raft", "'raft' is no protocol: write one of sequenced_files, one_object, write_ahead_log"),
    ("log/{number}=sequenced_files", "{number} in 'log/{number}'"),
    ("{id}/{id}=sequenced_files", "more than one id"),
    ("log/=sequenced_files", "needs an {id}"),
    ("log/{id}=one_object", "has no {id}"),
    ("log/{id=sequenced_files", "is no template of keys"),
    ("=one_object", "write PATTERN=PROTOCOL"),
    ("gone.toml", "No such file"),
])
def test_a_bad_map(text, told):
    with pytest.raises(Unfit, match=told.replace("{", r"\{").replace("}", r"\}")):
        maps_of([text])


@pytest.mark.parametrize("text, told", [
    ("keys = 1", "a table [[map]] for each"),
    ("[[map]]\nkeys = 'a'", "give keys and protocol"),
    ("[[map]]\nkeys = 'a'\nprotocol = 'one_object'\ncolour = 1", "colour is unknown; there are keys, protocol"),
    ("[[map]]\nkeys = 'a'\nprotocol = 'one_object'\nupdates = 1", "updates is 1, and not a str"),
    ("[[map]]\nkeys = 'a'\nprotocol = 'one_object'\nupdates = '('", "is no regular expression"),
    ("[[map]]\nkeys = 'a'\nprotocol = 'one_object'\nupdates = '(a)(b)'", "more than one group"),
    ("[[map]]\nkeys = 'a'\nprotocol = 'one_object'\nchained = true", "only sequenced_files is chained"),
    ("[[map]]\nkeys = 'a'\nprotocol = 'one_object'\nfence = 'x'", "only write_ahead_log has fences"),
    ("[[map", "--map"),
])
def test_a_bad_file_of_maps(tmp_path, text, told):
    (tmp_path / "maps.toml").write_text(text)
    with pytest.raises(Unfit) as error:
        maps_of([str(tmp_path / "maps.toml")])
    assert told in str(error.value)


def test_a_file_of_maps(tmp_path):
    (tmp_path / "maps.toml").write_text("[[map]]\nkeys = 'log/{id}'\nprotocol = 'sequenced_files'\nchained = true\n")
    assert maps_of([str(tmp_path / "maps.toml"), "a=one_object"]) == (
        Map("log/{id}", "sequenced_files", chained=True), Map("a", "one_object"))

"""Logs of foreign programs: facts about a store from its responses, and guards, each of which is seen to fail."""

import re
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from highwater.cli.main import app
from highwater.dst.mutants.sequenced_metadata_boundary import BUILDS
from highwater.dst.run_spec import Run
from highwater.dst.simulate import simulate
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.manifest import ManifestCodec
from highwater.impl.codecs.slatedb.tables import Checkpoint, View
from highwater.impl.codecs.slatedb.tables import Run as SortedRun
from highwater.traces.event import Event
from highwater.traces.recorded.orders import Found, search
from highwater.traces.recorded.s3log import EMPTY, Body, Listed, Request, to_json
from highwater.traces.recorded.s3store import steps_of
from highwater.traces.recorded.systems.facts import Knobs
from highwater.traces.recorded.systems.slatedb import Slatedb
from tests.support.projects import REGISTER, forget

BUCKET, BOUNDARY = "bucket", "db/gc/manifest.boundary"
FIRST = Manifest(initialized=True)
L0 = View("01M7Y25Z4CZC4RHY3G8AA53QCV", "01M7Y25Z4CZC4RHY3G8AA53QCV", None)
UUID = "01740ee5-6459-44af-9a45-85deb6e468e3"


class Log:
    """Requests one after another, unless their edges are given."""

    def __init__(self):
        self.requests: list[Request] = []
        self.edges = 0

    def ask(self, client: str, method: str, key: str, status: int = 200, body: bytes = b"", sent: int = 0, answered: int = 0,
            **fields: Any) -> "Log":
        """`answered` -1: it has no answer."""
        op = fields.pop("op", method.lower())
        sent, self.edges = sent or 10 * len(self.requests) + 10, self.edges + 1
        answered = 0 if answered == -1 else answered or sent + 5
        version = fields.pop("version", version_of(key, body) if status in (200, 206) and op in ("put", "get") else "")
        bodies = {"sent_body" if op == "put" else "got_body": Body(len(body), "", body)}
        self.requests.append(EMPTY._replace(
            number=len(self.requests) + 1, client=client, op=op, method=method, bucket=BUCKET, key=key, called=sent, sent=sent,
            answered=answered, returned=answered, status=status if answered else 0, told=fields.pop("told", status),
            version=version, times_us=(10**15,) * 4, **bodies, **fields))
        return self

    def create(self, client: str, file_id: int, status: int = 200, of: Manifest = FIRST, **fields: Any) -> "Log":
        body = ManifestCodec().encode(of)
        return self.ask(client, "PUT", key(file_id), status, body, conditions={"if-none-match": "*"}, **fields)

    def get(self, client: str, file_id: int, of: Manifest | None = FIRST) -> "Log":
        return self.ask(client, "GET", key(file_id), 200, ManifestCodec().encode(of)) if of else \
            self.ask(client, "GET", key(file_id), 404)

    def check(self, client: str, boundary: int, **fields: Any) -> "Log":
        status, body = (200, str(boundary).encode()) if boundary else (404, b"")
        return self.ask(client, "GET", BOUNDARY, status, body, **fields)

    def advance(self, client: str, boundary: int, **conditions: str) -> "Log":
        return self.ask(client, "PUT", BOUNDARY, 200, str(boundary).encode(),
                        conditions=conditions or {"if-none-match": "*"})

    def wal(self, client: str, file_id: int, status: int = 200, body: bytes = b"records", **fields: Any) -> "Log":
        conditions = fields.pop("conditions", {"if-none-match": "*"})
        return self.ask(client, "PUT", key(file_id, "wal"), status, body, conditions=conditions, **fields)

    def delete(self, client: str, name: str) -> "Log":
        return self.ask(client, "DELETE", name, 204)

    def judged(self, **knobs: Any) -> Found:
        steps, _ = steps_of(sorted(self.requests, key=lambda request: request.called))
        return search(steps, Slatedb(Knobs(**knobs)))


def version_of(key: str, body: bytes) -> str:
    return f"{key} {body.hex()}"


def key(file_id: int, folder: str = "manifest") -> str:
    return f"db/{folder}/{file_id:020d}.{ {'wal': 'sst'}.get(folder, folder)}"


def begun() -> Log:
    """A has put manifests 1 to 3, each checked."""
    log = Log()
    for file_id in (1, 2, 3):
        log.create("A", file_id).check("A", 0)
    return log


def guards(found: Found) -> set[str]:
    return {refusal.guard for _, refusal in found.refused}


def passes(log: Log, **knobs: Any) -> None:
    found = log.judged(**knobs)
    assert found.verdict == "complete", found.refused


def fails(log: Log, guard: str, **knobs: Any) -> None:
    found = log.judged(**knobs)
    assert found.verdict == "stuck" and guard in guards(found), found


# --- the store

def test_all_that_is_remembered_tells_points_of_a_search_apart():
    machine = Slatedb()
    tables = [table for of in (machine.facts, machine.store) for table in vars(of).values() if isinstance(table, dict)]
    tables = [table for table in tables if all(table is not of for of in (
        machine.actions, machine.granted, machine.facts.roles, machine.store.numbers,  # how many there were; constants
        machine.store.present))]  # follows from the versions
    assert len(tables) == 14
    digests = [machine.digest()]
    for table in tables * 2:
        mark = machine.mark()
        for value in (1, 2, 1, None):
            machine.store.put(table, "key", value)
            digests.append(machine.digest())
        assert digests[-5] == digests[-1] and digests[-4] == digests[-2]
        machine.undo(mark + 1)
        assert machine.digest() == digests[-4]
        machine.undo(mark)
        assert machine.digest() == digests[0]
    assert len(set(digests)) == 1 + 2 * len(tables)


def test_what_is_read_is_what_was_put():
    passes(Log().ask("A", "PUT", "x", body=b"1", version="a").ask("B", "GET", "x", body=b"1", version="a"))
    fails(Log().ask("A", "PUT", "x", body=b"1", version="a").ask("B", "GET", "x", body=b"2", version="b"), "store")
    fails(Log().ask("A", "PUT", "x", body=b"1", version="a").ask("B", "GET", "x", 404), "store")
    fails(Log().ask("A", "PUT", "x", version="a").delete("A", "x").ask("B", "HEAD", "x", version="a"), "store")


def test_what_nobody_has_told_is_learned():
    passes(Log().ask("A", "GET", "x", version="a").ask("A", "GET", "x", 304, conditions={"if-none-match": "a"}))
    fails(Log().ask("A", "GET", "x", version="a").ask("A", "GET", "x", version="b"), "store")
    fails(Log().ask("A", "GET", "x", 404).ask("A", "GET", "x", version="b"), "store")


@pytest.mark.parametrize("status, conditions, there, possible", [
    (200, {"if-none-match": "*"}, False, True), (200, {"if-none-match": "*"}, True, False),
    (412, {"if-none-match": "*"}, True, True), (412, {"if-none-match": "*"}, False, False),
    (200, {"if-match": "a"}, True, True), (200, {"if-match": "b"}, True, False), (412, {"if-match": "b"}, True, True),
    (412, {"if-match": "a"}, True, False), (404, {"if-match": "a"}, False, True), (404, {"if-match": "a"}, True, False),
    (409, {"if-none-match": "*"}, False, True), (403, {}, True, True),
])
def test_conditions_are_kept(status, conditions, there, possible):
    log = Log().ask("A", "PUT", "x", version="a") if there else Log().ask("A", "GET", "x", 404)
    log.ask("B", "PUT", "x", status, body=b"2", version="b", conditions=conditions)
    assert (log.judged().verdict == "complete") == possible


@pytest.mark.parametrize("status, names, there, possible", [
    (204, "a", True, True), (204, "b", True, False), (204, "b", False, True), (204, "*", True, True), (412, "b", True, True),
    (412, "a", True, False), (404, "a", False, True), (404, "a", True, False)])
def test_conditions_of_a_delete_are_kept(status, names, there, possible):
    log = (Log().ask("A", "PUT", "x", version="a") if there else Log().delete("A", "x")).ask(
        "B", "DELETE", "x", status, conditions={"if-match": names})
    assert (log.judged().verdict == "complete") == possible
    if possible:  # what was refused has changed nothing
        left = there and status == 412
        passes(log.ask("C", "HEAD", "x", 200 if left else 404, version="a" if left else ""))


@pytest.mark.parametrize("method, done", [("PUT", 200), ("DELETE", 204)])
@pytest.mark.parametrize("names", ["a", 'W/"a"'])
def test_a_condition_may_name_the_version_in_another_form(method, done, names):
    """icechunk 1.1.21 sends If-Match without the quotes of the ETag. A store may take that, or refuse it."""
    for status in (done, 412):
        log = Log().ask("A", "PUT", "x", version='"a"')
        passes(log.ask("A", method, "x", status, version='"b"', conditions={"if-match": names}))
    other = Log().ask("A", "PUT", "x", version='"a"').ask("A", method, "x", done, version='"b"', conditions={"if-match": "c"})
    fails(other, "store")


def test_a_version_is_the_same_in_each_form():
    log = Log().ask("A", "PUT", "x", version='"a"').ask("A", "GET", "x", 304, conditions={"if-none-match": "a"})
    passes(log.ask("B", "GET", "", op="list", listed=(Listed("x", 1, "a", ""),)).ask("B", "HEAD", "x", version='W/"a"'))
    fails(Log().ask("A", "GET", "x", 404).ask("A", "HEAD", "x", version='""'), "store")


def test_a_refused_delete_is_none_of_the_protocol():
    log = begun().ask("G", "DELETE", key(3), 412, conditions={"if-match": "another"})
    passes(log.create("A", 4).check("A", 0))


def test_a_listing_shows_what_is_there_and_nothing_else():
    def listing(*names: str, **fields: Any) -> Log:
        log = Log().ask("A", "PUT", "p/1", version="a").ask("A", "PUT", "p/2", version="b").ask("A", "PUT", "q/3", version="c")
        return log.ask("B", "GET", "p/", op="list", query=fields.pop("query", {}), **fields,
                       listed=tuple(Listed(name, 1, version, "") for name, version in (one.split("=") for one in names)))

    passes(listing("p/1=a", "p/2=b"))
    passes(listing("p/1=a", truncated=True))
    passes(listing("p/2=b", query={"marker": "p/1"}))  # as the first version of LIST has it
    fails(listing(query={"marker": "p/1"}), "store")
    passes(listing(query={"continuation-token": "from q/"}))  # what was behind it has been deleted meanwhile
    passes(listing("p/2=b", query={"continuation-token": "from p/1", "start-after": "p/0"}))
    passes(listing(query={"max-keys": "0"}))
    fails(listing(query={"max-keys": "1000"}), "store")
    passes(listing("p/2=b", query={"start-after": "p/1"}))
    fails(listing("p/1=a"), "store")
    fails(listing("p/1=a", "p/2=b", "p/3=x").delete("A", "p/3").ask("B", "GET", "p/3", version="x"), "store")
    fails(listing("p/1=a", "p/2=x"), "store")
    fails(listing("p/2=b", truncated=True), "store")


def test_a_listing_is_not_of_one_moment():
    """versitygw's: it shows that the first has gone, and not the second, which was there before the first went."""
    log = Log().ask("A", "PUT", "p/1", version="a").ask("A", "GET", "p/2", 404)
    log.ask("B", "GET", "p/", op="list", sent=30, answered=99).ask("A", "PUT", "p/2", sent=40, answered=50, version="b")
    passes(log.ask("A", "DELETE", "p/1", 204, sent=60, answered=70))
    late = log.ask("B", "GET", "p/", op="list", sent=110, answered=150).ask("A", "DELETE", "p/2", 204, sent=160)
    fails(late, "store")
    never = Log().ask("A", "PUT", "p/1", 0, answered=-1, version="a")
    for listed in ((), (Listed("p/1", 1, "a", ""),)):
        passes(Log().ask("B", "GET", "p/1", 404).ask("A", "PUT", "p/1", answered=90, version="a", sent=15).ask(
            "B", "GET", "p/", op="list", sent=30, answered=40, listed=listed).ask("C", "PUT", "q", sent=85, answered=86))
    passes(never.ask("B", "GET", "p/", op="list", sent=30, answered=40))


def test_what_overlaps_may_have_come_first():
    put = {"body": b"1", "version": "a", "conditions": {"if-none-match": "*"}}
    passes(Log().ask("A", "GET", "x", 404, sent=1, answered=9).ask("B", "PUT", "x", sent=2, answered=3, **put))
    passes(Log().ask("A", "GET", "x", 404, sent=1, answered=2).ask("A", "GET", "x", sent=3, answered=4, version="a", body=b"1")
           .ask("B", "PUT", "x", sent=1, answered=9, **put))
    fails(Log().ask("A", "GET", "x", 404, sent=4, answered=9).ask("B", "PUT", "x", sent=2, answered=3, **put), "store")


@pytest.mark.parametrize("read", ["get", "list"])
@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_what_overlaps_may_be_the_first_to_tell(method, read):
    """The content was unknown. A read sent or answered before the change may have been applied after it."""
    shows = {"listed": (Listed("x", 1, "a", ""),)} if read == "list" else {"version": "a", "body": b"1"}
    puts = {"body": b"1", "version": "a", "conditions": {"if-none-match": "*"}} if method == "PUT" else {}
    for sent, answered in ((1, 4), (1, 9), (3, 4), (3, 9)):
        log = Log().ask("A", "GET", "x" if read == "get" else "", op=read, sent=sent, answered=answered, **shows)
        passes(log.ask("B", method, "x", 200 if puts else 204, sent=2, answered=6, **puts))
        other = {"sent": 5, "answered": 8}
        passes(log.ask("A", "GET", "x", **other, body=b"1", version="a") if puts else log.ask("A", "GET", "x", 404, **other))
    before = Log().ask("A", "GET", "x" if read == "get" else "", op=read, sent=1, answered=2, **shows)
    after = before.ask("B", method, "x", 200 if puts else 204, sent=3, answered=6, **puts)
    (fails(after, "store") if puts else passes(after))


@pytest.mark.parametrize("status", [0, 500, 503])
def test_what_has_no_answer_may_be_there_or_not(status):
    def log(seen: int) -> Log:
        fields = {"answered": -1} if not status else {}
        put = Log().ask("A", "GET", "x", 404).ask("A", "PUT", "x", status, body=b"1", **fields)
        return put.ask("B", "GET", "x", seen, version="one" if seen == 200 else "")

    passes(log(404))
    passes(log(200))


def test_what_has_no_answer_has_some_version():
    """A reader of the same content reveals the version; if nobody reads it, the version stays unknown."""
    def log(**asked: Any) -> Log:
        sent = Body(1, "digest of 1", b"1")
        log = Log().ask("A", "PUT", "x", body=b"0", version="zero").ask("A", "PUT", "x", body=b"1", answered=-1)
        log.requests[-1] = log.requests[-1]._replace(sent_body=sent)
        return log.ask("B", "PUT", "x", body=b"2", version="two", **asked) if asked else log

    def read(log: Log, version: str, digest: str) -> Log:
        log.ask("B", "GET", "x", version=version)
        log.requests[-1] = log.requests[-1]._replace(got_body=Body(1, digest, None))
        return log

    passes(read(log(), "one", "digest of 1"))
    fails(read(log(), "one", "another digest"), "store")
    fails(read(read(log(), "one", "digest of 1"), "two", "digest of 2"), "store")
    passes(log(conditions={"if-match": "one"}).ask("B", "HEAD", "x", version="two"))
    fails(read(log(), "one", "digest of 1").ask("B", "PUT", "x", conditions={"if-match": "zero"}), "store")


def test_a_range_is_that_part_of_what_its_version_was():
    """It is no whole content, and several ranges in one reply are not judged."""
    def log(asked: str, got: bytes, version: str = "one", status: int = 206) -> Log:
        log = Log().ask("A", "PUT", "x", version="one")
        log.requests[-1] = log.requests[-1]._replace(sent_body=Body(4, sha256(b"0123").hexdigest(), b"0123"))
        log.ask("B", "GET", "x", status, version=version, conditions={"range": asked})
        log.requests[-1] = log.requests[-1]._replace(got_body=Body(len(got), sha256(got).hexdigest(), got))
        return log.ask("B", "GET", "x", 206, version="one", conditions={"range": "bytes=9-9"})

    for asked, got in (("bytes=1-2", b"12"), ("bytes=1-9", b"123"), ("bytes=2-", b"23"), ("bytes=-3", b"123"),
                       ("bytes=-9", b"0123")):
        passes(log(asked, got))
        fails(log(asked, got[:-1]), "store")
        fails(log(asked, b"x" * len(got)), "store")
        fails(log(asked, got, "two"), "store")
    fails(log("bytes=1-2", b"12", status=200), "store")
    passes(log("bytes=0-0,2-2", b"--parts--"))
    unread = Log().ask("A", "GET", "x", 206, version="one", conditions={"range": "bytes=0-1"})
    passes(unread.ask("A", "GET", "x", version="one", body=b"012"))


def test_what_has_one_version_has_one_content():
    log = Log().ask("A", "PUT", "x", version="one")
    log.requests[-1] = log.requests[-1]._replace(sent_body=Body(1, "digest of 1", b"1"))
    log.ask("A", "GET", "x", version="one")
    log.requests[-1] = log.requests[-1]._replace(got_body=Body(1, "digest of 2", b"2"))
    fails(log, "store")


def test_several_deletes_in_one_request():
    text = "".join(f"<Object><Key>{name}</Key></Object>" for name in ("x", "a&amp;b")).join(("<Delete>", "</Delete>"))
    log = Log().ask("A", "PUT", "x", version="a").ask("A", "PUT", "a&b", version="b")
    log.requests.append(EMPTY._replace(number=3, client="A", op="delete_many", method="POST", bucket=BUCKET, called=30, sent=30,
                                       answered=35, returned=35, status=200, told=200, sent_body=Body(9, "", text.encode())))
    passes(log.ask("A", "HEAD", "x", 404).ask("A", "HEAD", "a&b", 404))
    fails(log.ask("A", "HEAD", "x", version="a"), "store")


@pytest.mark.parametrize("status", [200, 404])
def test_of_several_deletes_one_may_fail(status):
    """The outcome of that delete is indeterminate."""
    log = Log().ask("A", "PUT", "x", version="a").ask("A", "PUT", "y", version="b")
    log.ask("A", "POST", "", op="delete_many")
    sent, got = (Body(9, "", f"<R>{text}</R>".encode()) for text in (
        "<Object><Key>x</Key></Object><Object><Key>y</Key></Object>", "<Error><Key>y</Key><Code>AccessDenied</Code></Error>"))
    log.requests[-1] = log.requests[-1]._replace(sent_body=sent, got_body=got)
    passes(log.ask("A", "HEAD", "x", 404).ask("A", "HEAD", "y", status, version="b" if status == 200 else ""))


# --- the protocols

def test_a_healthy_log_passes():
    claimed = FIRST._replace(writer_epoch=1)
    passes(begun().get("B", 3).check("B", 0).create("B", 4, of=claimed).check("B", 0).create("A", 4, 412)
           .advance("G", 2).delete("G", key(1)).delete("G", key(2)).get("A", 4, claimed))


def test_who_creates_has_read_the_one_before():
    fails(begun().get("B", 2).create("B", 4), "ReadLatest")
    passes(begun().get("B", 3).create("B", 4))
    passes(begun().create("B", 4))  # it may have begun before the log


def test_ids_have_no_gap_where_the_log_has_them_all():
    fails(begun().create("A", 5), "ReadLatest")
    passes(Log().get("A", 3).check("A", 0).create("A", 4).create("B", 9))  # 8 may have been there before


def test_what_is_created_is_created_if_absent():
    body = ManifestCodec().encode(FIRST)
    fails(begun().ask("A", "PUT", key(4), body=body), "CREATE_IF_ABSENT")
    fails(begun().ask("A", "PUT", key(3), body=body), "CREATE_IF_ABSENT")


def test_who_goes_on_from_its_own_has_asked_for_the_boundary():
    fails(begun().create("A", 4).create("A", 5), "AckIsChecked")
    passes(begun().create("A", 4).create("A", 5), BOUNDARY=False)
    passes(begun().create("A", 4).get("A", 4).create("A", 5).check("A", 0))  # another task of its has read it
    fails(begun().create("A", 4).get("A", 4).create("A", 5).get("A", 5).create("A", 6), "AckIsChecked")
    late = begun().check("A", 0, sent=72, answered=90).create("A", 4, sent=75, answered=80)  # it asked before that was there
    fails(late.create("A", 5, sent=100), "AckIsChecked")


def test_who_asked_and_was_not_told_may_go_on():
    log = begun().create("A", 4)
    passes(log.ask("A", "GET", BOUNDARY, 503).get("A", 4).create("A", 5).check("A", 0))


def test_who_was_refused_does_not_go_on():
    log = begun().get("B", 3).create("B", 4).check("B", 0).create("B", 5).check("B", 0).create("B", 6).check("B", 0)
    log.advance("G", 4).delete("G", key(4))
    passes(log.create("A", 4, of=FIRST._replace(last_l0_seq=1)).check("A", 4))
    fails(log.create("A", 5, 412).create("A", 5, of=FIRST).delete("G", "db/x"), "store")


def test_a_refused_file_is_not_built_upon():
    log = begun().get("B", 3).create("B", 4).check("B", 0).create("B", 5).check("B", 0).create("B", 6).check("B", 0)
    log.advance("G", 5).delete("G", key(4)).delete("G", key(5)).create("A", 4, of=FIRST._replace(last_l0_seq=1)).check("A", 5)
    passes(log)
    fails(log.create("A", 5), "ReadLatest")


def test_an_id_is_acknowledged_once():
    """The stale writer of SlateDB's RFC on GC boundary files, in a database without a boundary."""
    log = begun().get("B", 3).create("B", 4).check("B", 0).create("B", 5).check("B", 0).delete("G", key(4))
    log.create("A", 4, of=FIRST._replace(last_l0_seq=1))
    fails(log.check("A", 0), "AckedIsKept", BOUNDARY=False)
    fails(log, "DeletedIsBehindBoundary")


def test_a_reply_that_was_lost_acknowledges_nothing():
    log = begun().get("B", 3).create("B", 4).check("B", 0).create("B", 5).check("B", 0).delete("G", key(4))
    passes(log.create("A", 4, of=FIRST._replace(last_l0_seq=1), told=0), BOUNDARY=False)


def test_the_boundary_goes_forward_behind_the_latest_and_by_condition():
    passes(begun().advance("G", 1).advance("G", 2, **{"if-match": version_of(BOUNDARY, b"1")}))
    fails(begun().advance("G", 2).advance("G", 1, **{"if-match": version_of(BOUNDARY, b"2")}), "BoundaryIsMonotone")
    fails(begun().advance("G", 3), "BoundaryIsBelowLatest")
    fails(begun().advance("G", 2, **{"content-type": "x"}), "CONDITIONAL_ADVANCE")
    fails(begun().ask("G", "PUT", BOUNDARY, body=b"x", conditions={"if-none-match": "*"}), "Form")


def test_what_is_deleted_is_behind_the_boundary_and_not_the_latest():
    fails(begun().delete("G", key(1)), "DeletedIsBehindBoundary")
    fails(begun().delete("G", key(3)), "LatestIsKept", BOUNDARY=False)


def test_where_a_log_begins_late_the_boundary_is_not_known():
    passes(Log().delete("G", key(3)))
    passes(Log().get("A", 7).ask("A", "GET", BOUNDARY, 304, conditions={"if-none-match": "b"}).delete("G", key(3)))
    fails(Log().check("A", 0).delete("G", key(3)), "DeletedIsBehindBoundary")
    fails(Log().check("A", 2).delete("G", key(3)), "DeletedIsBehindBoundary")


def test_the_boundary_is_not_deleted():
    fails(begun().advance("G", 2).delete("G", BOUNDARY), "BoundaryIsMonotone")
    passes(begun().check("G", 0).delete("G", BOUNDARY))


def test_what_a_checkpoint_refers_to_is_kept_while_it_is_active():
    def log(expire_s: int) -> Log:
        holding = FIRST._replace(checkpoints=(Checkpoint(UUID, 1, expire_s, 0),))
        return Log().create("A", 1).check("A", 0).create("A", 2, of=holding).check("A", 0).create("A", 3, of=holding).check(
            "A", 0).advance("G", 2).delete("G", key(1))

    fails(log(0), "PinnedIsKept")
    fails(log(10**9 + 10), "PinnedIsKept")  # the log is of 10^9 s
    passes(log(10**9 - 10))


def test_epochs_go_forward_one_at_a_time():
    fails(begun().create("A", 4, of=FIRST._replace(writer_epoch=1, compactor_epoch=1)), "OnlyOwnEpochIsBumped")
    fails(begun().create("A", 4, of=FIRST._replace(writer_epoch=2)).check("A", 0).create("A", 5, of=FIRST),
          "OnlyOwnEpochIsBumped")
    passes(begun().create("A", 4, of=FIRST._replace(writer_epoch=1)))


def test_others_changes_are_kept():
    flushed = FIRST._replace(l0=(L0,), wal_id_last_seen=5)
    fails(begun().create("A", 4, of=flushed).check("A", 0).create("A", 5, of=flushed._replace(l0=())), "OthersChangesAreKept")
    fails(begun().create("A", 4, of=flushed).check("A", 0).create("A", 5, of=flushed._replace(wal_id_last_seen=4)),
          "OthersChangesAreKept")
    compacted = flushed._replace(l0=(), compacted=(SortedRun(1, (L0,)),))
    passes(begun().create("A", 4, of=flushed).check("A", 0).create("A", 5, of=compacted))


def test_a_writer_that_was_succeeded_flushes_nothing():
    first, second = FIRST._replace(writer_epoch=1), FIRST._replace(writer_epoch=2)
    log = begun().create("A", 4, of=first).check("A", 0).get("B", 4, first).create("B", 5, of=second).check("B", 0)
    fails(log.get("A", 5, second).create("A", 6, of=second._replace(l0=(L0,))), "AtMostOneActiveWriterCommits")


def test_an_update_is_applied_once():
    once = FIRST._replace(checkpoints=(Checkpoint(UUID, 4, 0, 0),))
    twice = FIRST._replace(checkpoints=(Checkpoint(UUID, 4, 0, 0), Checkpoint(UUID, 5, 0, 0)))
    fails(begun().create("A", 4, of=once).check("A", 0).create("A", 5, of=twice), "OnlyOwnIsAdded")


def test_what_is_no_manifest_is_told():
    fails(begun().ask("A", "PUT", key(4), body=b"\0\2xx", conditions={"if-none-match": "*"}), "Form")
    fails(begun().ask("A", "PUT", key(4), body=b"\0\3xxxxxxxxxxxxxxx", conditions={"if-none-match": "*"}), "Form")


# --- the WAL

FLUSHED = FIRST._replace(replay_after_wal_id=3, wal_id_last_seen=3)


def test_records_land_ahead_of_what_is_flushed():
    log = begun().create("A", 4, of=FLUSHED).check("A", 0)
    passes(log.wal("A", 4).wal("A", 5).wal("C", 4, 412))
    fails(log.wal("B", 3), "AckedIsDurable")


def test_so_do_fences():
    fails(begun().create("A", 4, of=FLUSHED).check("A", 0).wal("B", 2, body=b""), "FENCE_AHEAD")


def test_one_writer_appends():
    first, second = FIRST._replace(writer_epoch=1), FIRST._replace(writer_epoch=2)
    log = begun().create("A", 4, of=first).check("A", 0).wal("A", 1, body=b"").get("B", 4, first)
    log.create("B", 5, of=second).check("B", 0).wal("A", 2).wal("B", 3, body=b"")
    passes(log.wal("B", 4))
    fails(log.wal("A", 5), "OneWriterAcks")


def test_wal_objects_are_created_if_absent_and_deleted_behind_what_is_flushed():
    log = begun().create("A", 4, of=FLUSHED).check("A", 0).wal("A", 4)
    passes(log.delete("G", key(3, "wal")))
    fails(log.delete("G", key(4, "wal")), "GC_BEHIND")
    fails(begun().wal("A", 4, conditions={}), "CREATE_IF_ABSENT")
    cloned = Log().create("A", 1, of=FIRST._replace(initialized=False)).wal("A", 1, conditions={}).check("A", 0)
    passes(cloned)
    fails(cloned.create("A", 2).check("A", 0).wal("A", 1, conditions={}), "CREATE_IF_ABSENT")


# --- other logs, and the tie to what is simulated

def requests_of(events: list[Event]) -> Log:
    """The simulated store's own order; nobody here looks into the files, which are not SlateDB's."""
    log, lost = Log(), {(e.client, e.request) for e in events if e.kind == "timeout"}
    for e in events:
        asked = e.kind in ("refused", "timeout") and e.key.endswith(".boundary") and e.op.startswith("get")
        if e.op == "list" or not (e.kind == "applied" or asked):
            continue
        conditions = {"create": {"if-none-match": "*"}, "update": {"if-match": e.condition},
                      "get_if_changed": {"if-none-match": e.condition}}.get(e.op, {})
        method = {"create": "PUT", "update": "PUT", "put": "PUT", "delete": "DELETE"}.get(e.op, "GET")
        log.ask(e.client, method, e.key, 503 if asked else e.status, e.body, version=e.version, conditions=conditions,
                told=e.status if e.awaited and (e.client, e.request) not in lost else 0)
        if not e.key.endswith(".boundary"):
            unseen = Body(len(e.body), "", None)
            log.requests[-1] = log.requests[-1]._replace(sent_body=unseen, got_body=unseen)
    return log


def test_what_is_simulated_passes():
    """Clients that die know nothing afterwards; here they are one."""
    judged = [requests_of(outcome.events).judged() for seed in range(150) if not (outcome := simulate(Run(seed))).kind and
              not any(e.kind == "crash" for e in outcome.events) and not (outcome.shape.sdk or outcome.shape.broken)]
    assert len(judged) > 30 and [found.refused for found in judged if found.verdict != "complete"] == []


@pytest.mark.parametrize("mutant, guard", [
    ("delete_before_advance", "DeletedIsBehindBoundary"), ("no_check", "AckIsChecked"),
    ("latest_deleted", "BoundaryIsBelowLatest"), ("boundary_moves_backward", "CONDITIONAL_ADVANCE")])
def test_what_a_mutant_does_is_noticed(mutant, guard):
    runs = (simulate(Run(seed), BUILDS[mutant][1], by_model=False) for seed in range(300))
    assert any(guard in guards(requests_of(run.events).judged()) for run in runs)


def said(folder: Path, log: Log, *options: str) -> tuple[int, str]:
    """Exit code and output of `trace check` of this log."""
    lines = ['{"kind":"log","v":1}', *map(to_json, log.requests), f'{{"kind":"end","requests":{len(log.requests)}}}']
    (folder / "log").write_text("\n".join(lines) + "\n")
    result = CliRunner().invoke(app, ["trace", "check", str(folder / "log"), *options])
    return result.exit_code, result.output


def test_a_command(tmp_path):
    code, text = said(tmp_path, begun().ask("A", "PUT", "elsewhere/x"))
    assert code == 0 and "7 requests refine the models" in text and "1 x PUT (put) elsewhere/*" in text
    text = " ".join(text.split())
    models = "sequenced_files (manifest/, compactions/ and gc/), write_ahead_log (wal/), shared_files (clones and their " \
        "parents, .deleting)"
    assert f"held against {models}: 6 requests; the other 1 against the store only" in text
    assert "no action of a model: 1 x put elsewhere/*" in text and "taken for granted" not in text
    code, text = said(tmp_path, begun().create("B", 4).check("B", 0))
    assert code == 0 and "taken for granted: 1 x a client has read the file that it builds on" in " ".join(text.split())
    code, text = said(tmp_path, begun().create("A", 4).create("A", 5))
    assert code == 10 and "AckIsChecked is broken" in text and "request 8, A: PUT" in text
    text = " ".join(text.split())
    assert re.search(r"is_sure needs updates <= w.sure \(model/abstract/sequenced_files.py:\d+\): updates is", text)
    code, text = said(tmp_path, begun().get("B", 2).create("B", 4))
    assert code == 11 and "the models cannot do this" in text
    code, text = said(tmp_path, begun(), "--budget", "2")
    assert (code, "could not decide within 2 steps" in text) == (3, True)
    assert "the log lacks the contents" not in text
    unread = begun().create("A", 4)
    unread.requests[-1] = unread.requests[-1]._replace(sent_body=Body(99_999, "digest", None))
    code, text = said(tmp_path, unread)
    assert code == 0 and "the log lacks the contents of 1 metadata files" in text
    held = FIRST._replace(checkpoints=(Checkpoint(UUID, 1, 10**9, 0),))  # in its last second 1 is deleted
    late = begun().create("A", 4, of=held).check("A", 0).advance("G", 3).delete("G", key(1))
    assert [said(tmp_path, late, *skew)[0] for skew in ([], ["--skew-ms", "0"])] == [0, 10]
    assert said(tmp_path, begun(), "--root", "other")[0] == 2
    assert said(tmp_path, begun(), "--set", "X=1")[0] == 2


@pytest.mark.parametrize("failure, says", [
    ({"answered": -1, "told": 502}, "9 x no answer"), ({"status": 403, "code": "AccessDenied"}, "9 x 403 AccessDenied"),
    ({"status": 503}, "9 x 503"), ({"status": 301}, "9 x 301"),
    ({"status": 404, "code": "NoSuchBucket"}, "9 x 404 NoSuchBucket")])
def test_log_of_failed_requests_is_not_checked(tmp_path, failure, says):
    log = Log()
    for file_id in range(9):
        log.ask("A", "GET", key(file_id), **failure)
    code, text = said(tmp_path, log)
    assert code == 3 and f"every request to a model's keys failed: {says};" in " ".join(text.split()) and "ok:" not in text
    assert said(tmp_path, log.create("A", 1))[0] == 0


@pytest.mark.parametrize("log", [
    Log().ask("A", "PUT", "elsewhere/x", version="a").ask("A", "GET", "elsewhere/x", version="a"),
    Log().ask("A", "PUT", "db/compacted/01M7Y25Z4CZC4RHY3G8AA53QCV.sst", version="a"),
    Log().ask("A", "GET", "db/manifest/", op="list"),
], ids=["other keys", "data alone", "a listing"])
def test_a_log_without_a_known_protocol_is_held_against_the_store_only(tmp_path, log):
    code, text = said(tmp_path, log)
    assert code == 3 and "compared with the store only; no request belongs to a known protocol" in text and "ok" not in text
    assert "a project's model" not in text
    try:
        code, text = said(tmp_path, log, "--project", str(REGISTER))
    finally:
        forget()
    assert code == 3 and "a log is not compared with a project's model: write a trace of events" in text
    code, text = said(tmp_path, log.ask("B", "PUT", "other/y", version="c").ask("B", "GET", "other/y", 404))
    assert code == 11 and "store: GET other/y" in text and "compared with the store only" not in text


@pytest.mark.parametrize("name", [
    "manifest/v1.json", "wal/1.sst", "wal/00000000000000000001.log", "gc/last", "compacted/a.parquet",
    "manifest/00000000000000000001.json", "manifest/part/1.manifest", "gc/wal.boundary"])
def test_a_folder_of_another_program_is_not_taken_for_slatedbs(tmp_path, name):
    """Files in it have other names. They are listed as unknown, and shown if the store contradicts itself."""
    ours = begun().ask("A", "PUT", "db/compacted/01M7Y25Z4CZC4RHY3G8AA53QCV.sst")
    assert "that no mapping knows" not in said(tmp_path, ours)[1]
    log = ours.ask("A", "PUT", f"other/{name}", version="a")
    code, text = said(tmp_path, log)
    assert code == 0 and "1 requests are of kinds that no mapping knows" in text and "held against" in text
    code, text = said(tmp_path, log.ask("B", "GET", f"other/{name}", 404))
    assert code == 11 and f"A: PUT other/{name} -> 200" in text.partition("what led there:")[2]


ACCESS = ('79a5 bucket [22/Nov/2026:00:00:{s:02d} +0000] 10.0.0.{n} arn:{n} 3E57 REST.{op}.OBJECT {key} '
          '"{op} /bucket/{key} HTTP/1.1" {status} - {size} {size} 20 18 "-" "client" - id SigV4 ECDHE host TLSv1.2 -\n')


@pytest.mark.parametrize("option", [("--protocol", "wal_fencing"), ("--retries",), ("--page-size", "2")], ids=" ".join)
def test_options_of_traces_are_refused(tmp_path, option):
    (tmp_path / "log").write_text(ACCESS.format(s=1, n=1, op="PUT", key="x", status=200, size=9))
    result = CliRunner().invoke(app, ["trace", "check", str(tmp_path / "log"), *option])
    assert result.exit_code == 2 and f"{option[0]}: only for traces of events" in result.output


def test_access_logs_of_a_server(tmp_path):
    def said(*lines: tuple[int, int, str, str, int]) -> tuple[int, str]:
        (tmp_path / "log").write_text("".join(ACCESS.format(s=s, n=n, op=op, key=name, status=status, size=9)
                                              for s, n, op, name, status in lines))
        result = CliRunner().invoke(app, ["trace", "check", str(tmp_path / "log"), "--set", "BOUNDARY=False"])
        return result.exit_code, result.output

    put = (1, 1, "PUT", key(1), 200)
    assert said(put, (3, 2, "PUT", key(1), 412), (5, 2, "GET", key(1), 200), (7, 1, "PUT", key(2), 200),
                (9, 1, "GET", key(3), 404))[0] == 0
    code, text = said(put, (3, 1, "PUT", key(2), 200), (5, 1, "DELETE", key(1), 204), (8, 2, "GET", key(1), 200))
    assert code == 11 and "store: GET" in text
    code, text = said(put, (3, 2, "PUT", key(1), 200))
    assert code == 10 and "AckedIsKept" in text
    code, text = said(put, (3, 1, "PUT", key(2), 200), (5, 2, "DELETE", key(2), 204))
    assert code == 10 and "LatestIsKept" in text
    assert said(put, (1, 2, "GET", key(1), 404))[0] == 0  # within one second either may have come first
    (tmp_path / "log").write_text(ACCESS.format(s=1, n=1, op="PUT", key="x", status=200, size=9) + "what is this\n")
    result = CliRunner().invoke(app, ["trace", "check", str(tmp_path / "log")])
    assert result.exit_code == 2 and "line 2" in result.output

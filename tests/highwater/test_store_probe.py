"""`highwater store probe` classifies real servers and test doubles, and leaves no objects behind.

In reading order: the report on each server; the report's lines on stores with one fault each; the verdict; the command line.
"""

import itertools
import json
import signal
import threading
import time
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from typer.testing import CliRunner

from highwater.cli.main import app
from highwater.dst.world.profiles import PROFILES, Profile
from highwater.gate.exits import INCOMPLETE, SAFETY
from highwater.impl.stores.s3 import connect
from highwater.probe import asking, races, run
from highwater.probe.asking import Answer, Asker
from highwater.probe.lines import (
    CREATE,
    DIFFERS,
    LIST,
    NOT_ASKED,
    ONE_CLIENT,
    OTHERS,
    PASS,
    PROTOCOLS,
    UNSAFE,
    UPDATE,
    Found,
    Line,
)
from highwater.probe.run import USES, Report, Result, lines, probe
from highwater.servers.leash import CannotStart
from tests.support.signals import deliver
from tests.support.stores.s3_servers import s3_server

pytest_plugins = ["tests.support.stores.fixtures"]
BUCKET = "probed"


@pytest.fixture(scope="module")
def report_of(s3_environment):
    """The report of a server, which is asked once, and what it held afterwards."""
    reports: dict[str, tuple[Report, list]] = {}

    def report(name: str, rounds: int) -> Report:
        if name not in reports:
            try:
                with s3_server(name) as url:
                    client = connect(url)
                    client.create_bucket(Bucket=BUCKET)
                    client.put_object(Bucket=BUCKET, Key="theirs", Body=b"precious")
                    found = probe(url, BUCKET, "some/", rounds)
                    left = [entry["Key"] for entry in client.list_objects_v2(Bucket=BUCKET)["Contents"]]
                    reports[name] = found, left, client.list_multipart_uploads(Bucket=BUCKET).get("Uploads", [])
            except CannotStart as error:
                pytest.skip(str(error))
        found, left, uploads = reports[name]
        assert (left, uploads, found.left) == (["theirs"], [], [])
        return found

    return report


def said(report: Report) -> dict[str, str]:
    return {line.name: found.verdict for line, found in report.results}


# --- Servers


@pytest.mark.parametrize("name", ["versitygw", "moto"])
def test_a_safe_server_is_safe(report_of, name):
    report = report_of(name, 10)
    assert report.unsafe(PROTOCOLS) == {} and report.not_asked(USES) == []
    assert report.nearest() == ("s3", {"get_weak": 200})
    verdicts = said(report)
    assert verdicts["copy_exists"] == UNSAFE, "both ignore the condition of a copy"
    del verdicts["delete_race"]  # that of versitygw is lost now and then
    differing = {line for line, verdict in verdicts.items() if verdict != PASS} - {"copy_exists"}
    assert differing == {"get_other_forms", "version", *["key_and_folder"] * (name == "versitygw")}


def test_plain_moto_is_convicted(report_of):
    """It checks, and then acts: races have many winners. Of everything that one client asks it is as the other."""
    report = report_of("moto-plain", 10)
    assert {"create_race", "update_race"} <= set(report.unsafe(PROTOCOLS)["simple_conditional"])
    assert {line: verdict for line, verdict in said(report).items() if "race" not in line and verdict == UNSAFE} == {
        "copy_exists": UNSAFE}


def test_a_server_that_ignores_conditions_is_convicted(report_of):
    report = report_of("moto-deaf", 5)
    unsafe = {line for line, verdict in said(report).items() if verdict == UNSAFE}
    assert unsafe >= {"create_exists", "update_stale", "update_missing", "update_deleted", "get_stale", "delete_stale",
                      "complete_exists", "create_race", "update_race", "create_repeated", "update_repeated"}
    assert set(report.unsafe(PROTOCOLS)) == set(CREATE) and report.nearest()[0] == "mountx-2026-08"
    saw = {r.line.name: r.found.saw for r in report.results}
    assert saw["create_race"] == "5 of 5 races: 16 were told that they had won"


def test_gofakes3_is_convicted_of_what_it_ignores(report_of):
    """No protocol here uses these requests, but a client that reads in parts or deletes on a condition gets wrong results."""
    report = report_of("gofakes3", 10)
    assert report.unsafe(PROTOCOLS) == {}
    assert set(report.unsafe(USES)) == {"conditional_delete", "copy_if_absent", "upload_if_absent", "reads_in_parts"}
    assert report.nearest()[0] == "ceph"


# --- Lines


class Amiss:
    """A store in memory with digests for versions, one answer of which may be other than it should be."""

    def __init__(self, **amiss):
        self.objects, self.amiss, self.prefix, self.bucket = {}, amiss, "", "b"

    def put(self, key, body, IfMatch=None, IfNoneMatch=None, Metadata=None):
        kind = "create" if IfNoneMatch else "update" if IfMatch else "put"
        there = self.objects.get(key)
        if IfMatch and self.amiss.get("unquoted"):
            IfMatch = f'"{IfMatch}"'
        if (IfNoneMatch and there) or (IfMatch and (not there or IfMatch != self.version(there[0]))):
            answer = Answer(self.amiss.get(f"{kind}_refused", 412 if there or IfNoneMatch else 404))
            if not answer.done and not self.amiss.get("applies"):
                return answer
        elif f"{kind}_taken" in self.amiss:
            if self.amiss.get("applies"):
                self.objects[key] = body, Metadata or {}
            return Answer(self.amiss[f"{kind}_taken"])
        if self.amiss.get("forgets") != kind:
            self.objects[key] = body, Metadata or {}
        return answer if (IfNoneMatch and there and not answer.done) else Answer(200, self.version(body))

    def version(self, body):
        return '"same"' if self.amiss.get("one_version") else f'"{body.hex()}"'

    def create(self, key, body):
        return self.put(key, body, IfNoneMatch="*")

    def update(self, key, body, version):
        return self.put(key, body, IfMatch=version)

    def get(self, key, IfMatch=None, IfNoneMatch=None, Range=None):
        if key not in self.objects:
            return Answer(self.amiss.get("missing", 404))
        body, metadata = self.objects[key]
        version = self.version(body)
        if IfNoneMatch and (IfNoneMatch == version or self.amiss.get("always_unchanged")):
            return Answer(self.amiss.get("unchanged", 304), version)
        if IfMatch and IfMatch != version:
            return Answer(self.amiss.get("get_stale", 412), version)
        if Range and "range" in self.amiss:
            return Answer(*self.amiss["range"], body=body[:7])
        if Range and not self.amiss.get("whole"):
            first, last = map(int, Range.removeprefix("bytes=").split("-"))
            return Answer(206, version, body[first:last + 1]) if first < len(body) else Answer(self.amiss.get("beyond", 416))
        return Answer(200, version, body, "", self.amiss.get("modified_ms", 0), metadata)

    head = get

    def delete(self, key, **_):
        if not self.amiss.get("keeps"):
            self.objects.pop(key, None)
        return Answer(204)

    def listed(self, prefix="", **more):
        after = more.get("StartAfter", "") * (not self.amiss.get("from_the_start"))
        found = sorted(key for key in self.objects if key.startswith(prefix) and key > after)
        if self.amiss.get("unordered"):
            found.reverse()
        return found[:-1] if self.amiss.get("loses_the_last") else found


CASES = [
    ("create_exists", {}, PASS), ("create_exists", {"create_refused": 409}, DIFFERS),
    ("create_exists", {"create_refused": 200}, UNSAFE), ("create_exists", {"applies": True}, UNSAFE),
    ("create_new", {}, PASS), ("create_new", {"create_taken": 501}, DIFFERS), ("create_new", {"forgets": "create"}, UNSAFE),
    ("create_after_delete", {}, PASS), ("create_after_delete", {"keeps": True}, DIFFERS),
    ("update_current", {}, PASS), ("update_current", {"update_taken": 501}, DIFFERS),
    ("update_current", {"forgets": "update"}, UNSAFE),
    ("update_stale", {}, PASS), ("update_stale", {"update_refused": 200}, UNSAFE),
    ("update_missing", {}, PASS), ("update_missing", {"update_refused": 412}, DIFFERS),
    ("update_missing", {"update_refused": 200}, UNSAFE), ("update_deleted", {"update_refused": 200}, UNSAFE),
    ("create_new", {"create_taken": 500}, DIFFERS), ("create_exists", {"create_refused": 500, "applies": True}, UNSAFE),
    ("create_new", {"create_taken": 412, "applies": True}, UNSAFE),
    ("update_unquoted", {}, DIFFERS), ("update_unquoted", {"unquoted": True}, PASS),
    ("update_unquoted", {"update_refused": 200}, UNSAFE),
    ("get_unchanged", {}, PASS), ("get_unchanged", {"unchanged": 200}, DIFFERS),
    ("get_unchanged", {"always_unchanged": True}, UNSAFE), ("missing", {}, PASS), ("missing", {"missing": 403}, DIFFERS),
    ("missing", {"missing": 200}, UNSAFE), ("get_stale", {}, PASS), ("get_stale", {"get_stale": 200}, UNSAFE),
    ("get_range", {}, PASS), ("get_range", {"whole": True}, DIFFERS), ("get_range", {"beyond": 400}, DIFFERS),
    ("get_range", {"beyond": 206}, UNSAFE), ("get_range", {"range": (206, '"v"')}, UNSAFE),
    ("get_range", {"range": (200, "")}, UNSAFE), ("get_range", {"range": (501, "")}, DIFFERS),
    ("delete_there", {}, PASS), ("delete_there", {"keeps": True}, UNSAFE), ("version", {}, DIFFERS),
    ("version", {"one_version": True}, UNSAFE), ("metadata", {}, PASS), ("last_modified", {}, DIFFERS),
    ("list_order", {}, PASS), ("list_order", {"unordered": True}, UNSAFE), ("list_order", {"loses_the_last": True}, UNSAFE),
    ("list_pages", {}, PASS), ("list_pages", {"loses_the_last": True}, UNSAFE), ("list_after", {}, PASS),
    ("list_after", {"from_the_start": True}, UNSAFE), ("list_prefix", {}, PASS),
    ("list_prefix", {"loses_the_last": True}, UNSAFE),
    ("list_fresh", {}, PASS), ("list_fresh", {"keeps": True}, UNSAFE), ("list_fresh", {"loses_the_last": True}, UNSAFE),
    ("list_utf8", {}, PASS), ("list_utf8", {"unordered": True}, DIFFERS), ("key_and_folder", {}, PASS),
    ("key_and_folder", {"loses_the_last": True}, UNSAFE),
]
BY_NAME = {line.name: line for line in ONE_CLIENT}


@pytest.mark.parametrize("name, amiss, verdict", CASES)
def test_a_line_notices(name, amiss, verdict):
    assert BY_NAME[name].ask(Amiss(**amiss)).verdict == verdict


def test_every_line_whose_failure_endangers_a_protocol_is_tried():
    tried = {name for name, _, verdict in CASES if verdict == UNSAFE}
    never_unsafe = {"create_after_delete", "update_weak", "get_other_forms", "delete_missing", "metadata", "last_modified"}
    assert {line.name for line in ONE_CLIENT if set(line.uses) & set(PROTOCOLS)} - never_unsafe - {"head_unchanged"} <= tried


@pytest.mark.parametrize("statuses, there, wrong", [
    ([412, 200], b"client 1", ""), ([200, 200], b"client 1", "2 were told that they had won"), ([412, 412], b"before", ""),
    ([412, 200], b"client 0", "the object is not the winner's"), ([0, 412], b"client 0", ""),
    ([500, 412], b"client 1", "the object is of one who was told that he had lost"),
    ([409, 409], b"client 0", "the object is of one who was told that he had lost"),
])
def test_what_is_wrong_with_a_race(statuses, there, wrong):
    store = SimpleNamespace(get=lambda key: Answer(200, body=there))
    away = SimpleNamespace(get=lambda key: Answer(503))
    assert races.winner_of(away, "k", [Answer(status) for status in statuses])[0] in ("", "2 were told that they had won")
    assert races.winner_of(store, "k", [Answer(status) for status in statuses])[0] == wrong


@pytest.mark.parametrize("status, verdict", [(200, PASS), (0, DIFFERS), (500, DIFFERS), (503, PASS)])
def test_a_read_without_an_answer_beside_writes_is_told(status, verdict):
    """Each second read has this status. A store that says that it is busy has answered."""
    reads = itertools.count()

    class Store(Amiss):
        def put(self, key, body):
            before = next(reads)
            while self.objects and next(reads) < before + 9:  # let some reads go between two writes
                time.sleep(0.001)
            return super().put(key, body)

        def get(self, key):
            return super().get(key) if next(reads) % 2 else super().get(key)._replace(status=status)

    found = races.reads_while_written(5, Store())
    assert found.verdict == verdict and ("had no answer" in found.saw) == (verdict == DIFFERS), found


# --- The verdict


def report(*verdicts: tuple[str, tuple[str, ...]], **data) -> Report:
    return Report([Result(Line("line", "", uses, None), Found(verdict, "", data)) for verdict, uses in verdicts], [])


def test_only_those_who_rely_on_it_are_endangered():
    found = report((UNSAFE, ("conditional_delete",)), (PASS, CREATE), (DIFFERS, UPDATE), (NOT_ASKED, LIST))
    assert found.unsafe(PROTOCOLS) == {} and found.unsafe(USES) == {"conditional_delete": ["line"]}
    assert found.not_asked(["baseline"]) == ["line"] and found.not_asked(["conditional_delete"]) == []


def test_the_nearest_profile_of_a_profile_is_itself():
    for name, profile in PROFILES.items():
        seen = {field: getattr(profile, field) for field in Profile._fields if field not in ("name", "unverified")}
        found = Report([Result(Line("", "", (), None), Found(PASS, "", seen))], [])
        assert found.nearest() == (name, {})


def test_every_line_has_a_name_and_someone_who_relies_on_it():
    names = [line.name for line in lines()]
    assert len(set(names)) == len(names)
    for line in lines():
        assert line.uses and set(line.uses) <= set(USES), line.name
    assert set(OTHERS) < set(USES)


def test_what_fails_in_another_way_is_not_asked():
    def ask(_):
        raise ClientError({"Error": {"Code": "NotImplemented"}, "ResponseMetadata": {"HTTPStatusCode": 501}}, "Op")

    assert run.asked(Line("x", "", CREATE, ask), None).verdict == NOT_ASKED


def test_what_was_put_is_cleaned_up_whatever_happens(moto_stores, monkeypatch):
    def ask(s: Asker):
        s.put("k", b"1")
        s.client.create_multipart_upload(**s.at("upload"))
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "lines", lambda rounds: [Line("x", "", CREATE, ask)])
    with pytest.raises(KeyboardInterrupt):
        probe(moto_stores.url, moto_stores.bucket)
    client = connect(moto_stores.url)
    assert client.list_objects_v2(Bucket=moto_stores.bucket)["KeyCount"] == 0
    assert not client.list_multipart_uploads(Bucket=moto_stores.bucket).get("Uploads")


# --- The command line


def ran(*arguments: str):
    return CliRunner().invoke(app, ["store", "probe", *arguments])


@pytest.fixture
def few(monkeypatch):
    """Lines that are asked in no time: one that is unsafe for deleting, and one that could not be asked."""
    monkeypatch.setattr(run, "lines", lambda rounds: [
        Line("deleted", "DELETE", ("conditional_delete",), lambda s: Found(UNSAFE, "[gone]")),
        Line("created", "PUT", ("sequenced_write",), lambda s: Found(NOT_ASKED, "no")),
        Line("listed", "LIST", ("baseline",), lambda s: Found(PASS, "all", {"update_missing": 404}))])


def test_the_exit_code_is_of_those_who_are_asked_for(few, moto_stores, tmp_path):
    where = f"s3://{moto_stores.bucket}/p", "--endpoint-url", moto_stores.url
    result = ran(*where, "--for", "baseline", "--json", str(tmp_path / "seen.json"))
    assert result.exit_code == 0 and "safe for baseline" in result.output and "[gone]" in result.output
    assert "highwater dst run --profile s3" in result.output
    seen = json.loads((tmp_path / "seen.json").read_text())
    assert [line["verdict"] for line in seen["lines"]] == [UNSAFE, NOT_ASKED, PASS] and seen["profile"] == "s3"
    assert ran(*where).exit_code == INCOMPLETE
    result = ran(*where, "--for", "all")
    assert result.exit_code == SAFETY and "unsafe for conditional_delete: deleted" in result.output


@pytest.mark.parametrize("arguments, says", [
    (["file:///tmp"], "write s3://bucket"), (["s3://"], "write s3://bucket"),
    (["s3://b", "--for", "fun"], "--for 'fun' is unknown; choose one of"),
    (["s3://b", "--endpoint-url", "http://127.0.0.1:1"], "s3://b at http://127.0.0.1:1: Could not connect"),
    (["s3://b", "--endpoint-url", "nowhere"], "nowhere"),
    (["s3://b/a//b"], "it has an empty segment"), (["s3://b/../b"], "a segment of it is . or .."),
    (["s3://b", "--json", "/proc/no/such"], "/proc/no/such cannot be written"),
])
def test_bad_input_is_refused_in_one_line(arguments, says, s3_environment):
    result = ran(*arguments)
    assert result.exit_code == 2 and says in result.output and result.output.count("\n") == 1


def test_no_bucket_is_told(moto_stores):
    result = ran("s3://no-such-bucket", "--endpoint-url", moto_stores.url)
    assert result.exit_code == 2 and "NoSuchBucket" in result.output


def test_a_server_that_goes_away_is_no_traceback(moto_stores, monkeypatch):
    def gone(self: Asker, prefix: str = "", **more: object) -> list[str]:
        if asked:
            raise EndpointConnectionError(endpoint_url="http://gone")
        asked.append(prefix)
        return []

    asked: list[str] = []
    monkeypatch.setattr(Asker, "listed", gone)
    monkeypatch.setattr(run, "lines", lambda rounds: [Line("listed", "LIST", ("baseline",), lambda s: s.listed() and None)])
    result = ran(f"s3://{moto_stores.bucket}/p", "--endpoint-url", moto_stores.url)
    assert result.exit_code == INCOMPLETE and "could not be deleted: p/highwater-probe-" in result.output


def test_what_was_put_is_cleaned_up_by_who_is_told_to_end(moto_stores, monkeypatch):
    def ended(asker: Asker) -> Found:
        asker.put("k", b"x")
        deliver(signal.SIGTERM)
        return Found("it goes on", "")

    monkeypatch.setattr(run, "lines", lambda rounds: [Line("ended", "PUT", ("baseline",), ended)])
    before = signal.getsignal(signal.SIGTERM)
    assert ran(f"s3://{moto_stores.bucket}/ended", "--endpoint-url", moto_stores.url).exit_code == 130
    assert connect(moto_stores.url).list_objects_v2(Bucket=moto_stores.bucket, Prefix="ended/")["KeyCount"] == 0
    assert signal.getsignal(signal.SIGTERM) == before


class Busy(BaseHTTPRequestHandler):
    """A server that gives everything the same answer."""

    protocol_version, status, log_message = "HTTP/1.1", 503, staticmethod(lambda *_: None)

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(self.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_HEAD = do_POST = do_DELETE = do_PUT


@pytest.mark.parametrize("status", [403, 429, 500, 503])
def test_who_says_nothing_is_convicted_of_nothing_and_passes_nothing(status, s3_environment):
    """Nor is who is not there at all."""
    with ThreadingHTTPServer(("127.0.0.1", 0), type("Now", (Busy,), {"status": status})) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        asker = Asker(asking.connect(f"http://127.0.0.1:{server.server_port}"), BUCKET, "x/")
        found = {line.name: run.asked(line, asker.place(line.name)) for line in lines(2)}
        server.shutdown()
    assert [name for name, one in found.items() if one.verdict != NOT_ASKED] == ["missing"] * (status == 403)


class Closes(BaseHTTPRequestHandler):
    """A server that fails at an update, and then closes the connection when the next request has come."""

    protocol_version, log_message, failed = "HTTP/1.1", staticmethod(lambda *_: None), False

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.failed:
            self.close_connection = True
            return
        self.failed = self.command == "PUT" and "If-Match" in self.headers
        self.send_response(500 if self.failed else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_HEAD = do_PUT


def test_a_server_that_closes_its_connection_after_an_error_is_there(s3_environment):
    """A read is sent again, so an update that was answered by 500 can be judged by its effect. A write is not."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Closes) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        asker = Asker(asking.connect(f"http://127.0.0.1:{server.server_port}"), BUCKET, "x/")
        for read in (lambda: asker.get("k").done, lambda: asker.head("k").done, asker.answers):
            assert asker.update("k", b"", '"v"').status == 500 and read()
        assert asker.update("k", b"", '"v"').status == 500 and not asker.put("k", b"").status
        server.shutdown()


@pytest.mark.parametrize("applies", [False, True])
@pytest.mark.parametrize("status, verdict, replaced", [(500, DIFFERS, UNSAFE), (503, NOT_ASKED, UNSAFE)])
def test_a_create_that_is_answered_by_500_is_judged_by_its_effect(status, verdict, replaced, applies):
    """The store answers everything else. A create that replaces an object is unsafe, whatever its answer."""
    class Fails(Amiss):
        def __init__(self):
            super().__init__(create_taken=status, applies=applies, create_refused=status)
            self.undecided: list[Answer] = []

        def place(self, name):
            return Fails()

        def put(self, key, body, **fields):
            if self.prepares and "IfNoneMatch" in fields:
                self.prepares, fields = False, {}
            answer = super().put(key, body, **fields)
            self.undecided += [answer] * (answer.status in (500, 503))
            return answer

        prepares = False

    class Prepared(Fails):
        prepares = True

        def place(self, name):
            return Prepared()

    assert run.asked(BY_NAME["create_new"], Fails()).verdict == verdict
    assert run.asked(BY_NAME["create_exists"], Prepared()).verdict == (replaced if applies else verdict)


@pytest.mark.parametrize("line, request_", [("create_exists", 2), ("create_race", 1), ("create_race", 34), ("update_race", 18),
                                            ("delete_race", 1), ("reads_while_written", 9), ("create_repeated", 2)])
def test_a_server_that_dies_is_noticed(line, request_, s3_environment, monkeypatch, tmp_path):
    """The line is not judged, and no later line is asked."""
    few = [one for one in lines(3) if one.name in (line, "update_repeated")]
    monkeypatch.setattr(run, "lines", lambda rounds: few)
    sent = []
    with ExitStack() as server:
        url = server.enter_context(s3_server("moto"))
        connect(url).create_bucket(Bucket=BUCKET)

        def dying(ask):
            def asked(*arguments):
                sent.append(arguments)
                if len(sent) == request_:
                    server.close()
                return ask(*arguments)
            return asked

        monkeypatch.setattr(Asker, "_answer", dying(Asker._answer))
        monkeypatch.setattr(asking.Clients, "_reply", dying(asking.Clients._reply))
        result = ran(f"s3://{BUCKET}", "--endpoint-url", url, "--json", str(tmp_path / "seen"))
    assert result.exit_code == INCOMPLETE and f"the store stopped answering during {line}" in " ".join(result.output.split())
    assert [one["verdict"] for one in json.loads((tmp_path / "seen").read_text())["lines"]] == [NOT_ASKED, NOT_ASKED]


def test_what_a_race_showed_before_the_server_died_counts():
    def race(s, clients, number):
        if number == 3:
            raise ConnectionRefusedError("refused")
        return [Answer(200), Answer(200)], "2 were told that they had won" * (number == 1)

    found = races.raced(race, 10, Asker(None, BUCKET, "x/"))
    assert (found.verdict, found.saw) == (UNSAFE, "1 of 3 races: 2 were told that they had won")


def test_who_was_busy_once_is_asked_again():
    def busy_once(s: Asker) -> Found:
        if not s.prefix.endswith("again-1/"):
            s.undecided.append(Answer(503))
            return Found(UNSAFE, "it was busy")
        return Found(PASS, "")

    line = Line("x", "", CREATE, busy_once)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "ONE_CLIENT", (line,))
        assert run.asked(line, Asker(None, BUCKET, "x/")).verdict == PASS

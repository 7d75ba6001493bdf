"""The recorder forwards requests unchanged, applies its rules, and logs all events in order.

In reading order: rules; the end of a message; the log; requests to moto and to a server that verifies signatures; the effect of
each rule; connections; the command line.
"""

import io
import json
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from hashlib import sha256
from pathlib import Path

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, ConnectionClosedError, ReadTimeoutError

from highwater.impl.errors import BeyondEnd
from highwater.impl.stores.s3 import S3Store, connect
from highwater.impl.stores.system import Ulids
from highwater.recorder.http import Chunked, Content, Malformed, framing_of_reply, framing_of_request, head_of
from highwater.recorder.rules import ACTIONS, PRESETS, VALUED, WHATS, BadRule, Rules, parse, presets
from highwater.recorder.session import recording
from highwater.servers import s3
from highwater.traces.recorded import s3log
from highwater.traces.recorded.machine import Machine
from highwater.traces.recorded.orders import search
from highwater.traces.recorded.s3log import EMPTY, Body, Listed, from_json, listing_of, named, read, to_json
from highwater.traces.recorded.s3store import changes_of, steps_of

pytest_plugins = ["tests.support.stores.fixtures"]
ROOT = Path(__file__).resolve().parents[2]


# --- Rules


def found(rules: Rules, method: str, key: str, op: str = "", client: str = "a", **conditions: str) -> str:
    rule = rules.find(client, op or method.lower(), method, key, {f"if-{name}": value for name, value in conditions.items()})
    return rule.action if rule else ""


def test_every_action_and_every_kind_of_request_has_a_rule():
    for action in ACTIONS:
        for what in WHATS:
            text = f"{action} {500 if action in VALUED else ''} {what} db/*"
            assert parse(" ".join(text.split())).what == what


def test_the_first_rule_that_matches_is_in_force():
    rules = Rules("""
        # holds writes of manifests, but those of b
        pass  PUT */manifest/* client=b
        hold  PUT */manifest/*
        delay 20 LIST *
        lose  *   *           if=none-match
    """)
    assert found(rules, "PUT", "db/manifest/1") == "hold"
    assert found(rules, "PUT", "db/manifest/1", client="b") == ""
    assert found(rules, "GET", "db/", op="list") == "delay"
    assert found(rules, "GET", "db/wal/1") == ""
    assert found(rules, "PUT", "db/wal/1", **{"none-match": "*"}) == "lose"


def test_any_condition():
    rules = Rules("lose PUT * if=any")
    assert [found(rules, "PUT", "k", **conditions) for conditions in ({}, {"match": "v"}, {"none-match": "*"})] == [
        "", "lose", "lose"]


def test_presets_are_rules():
    for name in PRESETS:
        assert parse(presets([name]).strip()).action == parse(presets([], [name]).strip()).action == "lose"
    rules = Rules(presets(["delete"], ["conditional-put"]))
    assert [found(rules, "PUT", "k", match="v") for _ in range(2)] == ["lose", ""]
    assert [found(rules, "DELETE", "k") for _ in range(2)] == ["lose", "lose"] and found(rules, "PUT", "k") == ""


def test_a_get_is_no_list():
    rules = Rules("hold GET *")
    assert found(rules, "GET", "db/", op="list") == "" and found(rules, "GET", "db/1") == "hold"


@pytest.mark.parametrize("option, taken", [("", [1, 2, 3, 4, 5]), ("nth=2", [2]), ("first=2", [1, 2]), ("every=2", [2, 4]),
                                           ("after=2", [3, 4, 5])])
def test_a_rule_may_be_for_some_of_those_that_match(option, taken):
    rules = Rules(f"lose PUT * {option}")
    assert [number for number in range(1, 6) if found(rules, "PUT", "k") == "lose"] == taken


def test_a_rule_that_has_run_out_lets_the_next_one_take_the_request():
    rules = Rules("lose PUT * nth=1\nfail 503 PUT * nth=1")
    assert [found(rules, "PUT", "k") for _ in range(3)] == ["lose", "fail", ""]


def test_a_rule_that_stays_goes_on_counting():
    rules = Rules("lose PUT * nth=2")
    assert found(rules, "PUT", "k") == ""
    rules.replace("hold GET *\nlose  PUT * nth=2  # still there")
    assert found(rules, "PUT", "k") == "lose"
    rules.replace("")
    rules.replace("lose PUT * nth=1")
    assert found(rules, "PUT", "k") == "lose"


@pytest.mark.parametrize("text, says", [
    ("loose PUT *", "there is no action 'loose' (did you mean 'lose'?); there are pass, hold"),
    ("lose PUT", "after the action"),
    ("lose", "after the"), ("lose PATCH *", "no kind of request 'PATCH'"), ("delay PUT *", "delay MS: 'PUT' is not a number"),
    ("fail 200 PUT *", "400 to 599"),
    ("lose PUT * nth=0", "nth: '0'"), ("lose PUT * nth=1 first=2", "'first=2': options are"), ("lose PUT * who=a", "'who=a'"),
    ("lose PUT * client=", "'client='"),
])
def test_a_bad_rule_is_told_with_its_line_and_changes_nothing(text, says):
    rules = Rules("hold GET *")
    with pytest.raises(BadRule, match="line 2: ") as raised:
        rules.replace(f"lose GET *\n{text}")
    assert says in str(raised.value) and rules.text == "hold GET *" and found(rules, "GET", "k") == "hold"


# --- Where a message ends


def fed(framing, data: bytes, seed: int) -> int:
    """Feed the data in random pieces; return how many bytes were taken."""
    choose, at = random.Random(seed), 0
    while at < len(data) and not framing.done:
        at += framing.feed(data[at:at + choose.randint(1, 9)])
        if framing.done:
            break
    return at


@pytest.mark.parametrize("seed", range(5))
def test_a_chunked_body_ends_where_it_ends(seed):
    content = Content(1000)
    framing, body = Chunked(content), b"5\r\nhello\r\nA;x=y\r\n, world\r\n!\r\n0\r\nsome: trailer\r\n\r\n"
    choose, at = random.Random(seed), 0
    whole = body + b"GET / HTTP/1.1\r\n"
    while not framing.done:
        piece = whole[at:at + choose.randint(1, 9)]
        at += framing.feed(piece)
    assert at == len(body) and content.body().data == b"hello, world\r\n!"


def test_a_body_that_signs_each_chunk_is_the_content_within():
    inner = b"3;chunk-signature=12\r\nabc\r\n2;chunk-signature=34\r\nde\r\n0;chunk-signature=56\r\n"
    inner += b"x-amz-checksum-crc32:AA==\r\n\r\n"
    for outer in (False, True):
        content, length = Content(100), f"content-length: {len(inner)}" if not outer else "transfer-encoding: chunked"
        head = head_of(f"PUT /b/k HTTP/1.1\r\ncontent-encoding: aws-chunked\r\n{length}\r\n\r\n".encode())
        framing = framing_of_request(head, content)
        body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(inner), inner) if outer else inner
        assert fed(framing, body, 1) == len(body) and framing.done
        assert content.body() == Body(5, content.body().sha256, b"abcde")


@pytest.mark.parametrize("method, head, framed", [
    ("HEAD", "200 OK\r\ncontent-length: 5", False), ("GET", "304 Not Modified\r\ncontent-length: 5", False),
    ("DELETE", "204 No Content", False), ("GET", "200 OK\r\ncontent-length: 0", False), ("GET", "200 OK", True),
    ("GET", "200 OK\r\ncontent-length: 5", True), ("GET", "200 OK\r\nTransfer-Encoding: chunked", True),
])
def test_which_replies_have_a_body(method, head, framed):
    assert bool(framing_of_reply(head_of(f"HTTP/1.1 {head}\r\n\r\n".encode()), method, Content(0))) == framed


@pytest.mark.parametrize("raw", [b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\nno colon\r\n\r\n", b"HTTP/1.1 twohundred OK\r\n\r\n"])
def test_what_is_no_http_is_told_so(raw):
    with pytest.raises(Malformed):
        head_of(raw)


def test_a_long_body_is_not_kept_but_its_digest_is():
    content = Content(4)
    content.feed(b"abc")
    content.feed(b"de")
    assert content.body()[::2] == (5, None) and len(content.body().sha256) == 64
    assert content.body(whole=False).sha256 == ""


# --- The log

REQUEST = EMPTY._replace(
    number=3, client="a", op="list", method="GET", bucket="b", key="db/\udc80", query={"prefix": "db/"},
    conditions={"range": "x"},
    called=1, sent=2, answered=5, returned=6, times_us=(1, 2, 3, 4), status=200, told=200, version='"1"',
    sent_body=Body(2, "ab", b"hi"), got_body=Body(2, "cd", b"\xff\0"), listed=(Listed("k", 1, '"v"', "then"),), truncated=True)


def log_of(*lines: str) -> list[str]:
    return ['{"kind":"log","v":1}\n', *(line + "\n" for line in lines)]


@pytest.mark.parametrize("request_", [REQUEST, EMPTY._replace(op="get"), REQUEST._replace(got_body=Body(9, "", None))])
def test_a_request_comes_back_from_its_line(request_):
    assert from_json(to_json(request_)) == request_


def test_a_log_is_in_the_order_of_calls():
    later, earlier = REQUEST._replace(called=9, sent=10, answered=11, returned=12), REQUEST
    log = read(log_of(to_json(later), '{"kind":"note","what":"held"}', to_json(earlier), '{"kind":"end","requests":2}'))
    assert (log.requests, log.whole) == ([earlier, later], True)
    assert not read(log_of(to_json(later))).whole
    assert read([*log_of(to_json(later)), to_json(earlier)[:40]]).requests == [later], "a line that was not written to its end"


@pytest.mark.parametrize("lines, says", [
    ([], "the log is empty"), (["{}\n"], "line 1: this is not a log of version 1"),
    (['{"kind":"log","v":2}\n'], "of version 1"),
    (log_of("what"), "line 2"), (log_of('{"kind":"other"}'), "line 2: its kind is 'other'"),
    (log_of("[1]"), "line 2: not a JSON object"),
    (log_of('{"kind":"end","requests":1}'), "0 requests, and its end counts 1"),
    (log_of('{"kind":"end","requests":0}', "{}"), "after the line of kind end"),
    (log_of('{"kind":"request","op":"get","status":"200"}'), "line 2: status is '200'"),
    (log_of('{"kind":"request","op":"get","called":3,"sent":2}'), "line 2: its moments are [3, 2]"),
    (log_of('{"kind":"request","op":"fetch"}'), "op is 'fetch'"), (log_of('{"kind":"request","op":"get","x":1}'), "line 2"),
])
def test_what_is_no_log_is_told_with_its_line(lines, says):
    with pytest.raises(ValueError) as raised:
        read(lines)
    assert says in str(raised.value)


@pytest.mark.parametrize("method, target, expected", [
    ("GET", "/b/a/k%20y?x-id=GetObject", ("get", "b", "a/k y")), ("PUT", "/b/k", ("put", "b", "k")),
    ("GET", "/b?list-type=2&prefix=db%2F", ("list", "b", "db/")), ("GET", "/b/", ("list", "b", "")),
    ("POST", "/b/k?uploads", ("begin", "b", "k")), ("PUT", "/b/k?partNumber=1&uploadId=2", ("part", "b", "k")),
    ("POST", "/b/k?uploadId=2", ("complete", "b", "k")), ("DELETE", "/b/k?uploadId=2", ("abort", "b", "k")),
    ("POST", "/b?delete", ("delete_many", "b", "")), ("GET", "/b?location", ("other", "b", "")),
    ("PUT", "/b", ("other", "b", "")),
    ("GET", "/b/k?acl", ("other", "b", "k")), ("GET", "/", ("other", "", "")), ("DELETE", "/b/k", ("delete", "b", "k")),
])
def test_what_a_request_is(method, target, expected):
    assert named(method, target)[:3] == expected


def test_a_listing_is_read_as_it_was_meant():
    entry = "<Contents><Key>a&amp;b+%20&#x41;</Key><Size>3</Size><ETag>&quot;v&quot;</ETag>"
    entry += "<LastModified>t</LastModified></Contents>"
    body = f"<ListBucketResult><IsTruncated>true</IsTruncated>{entry}</ListBucketResult>".encode()
    assert listing_of(body) == ((Listed("a&b+%20A", 3, '"v"', "t"),), True)
    encoded = body.replace(b"</ListBucketResult>", b"<EncodingType>url</EncodingType></ListBucketResult>")
    assert listing_of(encoded)[0][0].key == "a&b  A"


# --- Requests through it


@pytest.fixture
def session(s3_stores):
    log = io.StringIO()
    with recording(s3_stores.url, ("a", "b"), log=log) as session:
        session.stores, session.log = s3_stores, log
        yield session
    log.seek(0)
    logged = read(log)
    assert logged.whole and [r.number for r in logged.requests] == list(range(1, len(logged.requests) + 1))
    edges = [edge for r in logged.requests for edge in (r.called, r.sent, r.answered, r.returned) if edge]
    assert len(set(edges)) == len(edges)
    for r in logged.requests:
        passed = [edge for edge in (r.called, r.sent, r.answered, r.returned) if edge]
        assert passed == sorted(passed) and [t for t in r.times_us if t] == sorted(t for t in r.times_us if t)


def client_of(session, name: str = "a", **config):
    """boto3 as it comes, but that it sends each request once."""
    config = Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}, **config)
    return boto3.client("s3", endpoint_url=session.urls[name], config=config)


def last(session):
    return session.settled()[-1]


def test_what_passes_is_logged_at_both_edges(session):
    client, where = client_of(session), {"Bucket": session.stores.bucket, "Key": "a/k é"}
    version = client.put_object(**where, Body=b"one", IfNoneMatch="*")["ETag"]
    put = last(session)
    assert put[1:6] == ("a", "put", "PUT", where["Bucket"], where["Key"])
    assert (put.conditions, put.status, put.told, put.version) == ({"if-none-match": "*"}, 200, 200, version)
    assert put.sent_body.data == b"one" and put.called < put.sent < put.answered < put.returned
    with pytest.raises(ClientError, match="Precondition"):
        client.put_object(**where, Body=b"two", IfNoneMatch="*")
    assert (last(session).status, last(session).code) == (412, "PreconditionFailed")
    assert client.get_object(**where)["Body"].read() == b"one"
    assert (last(session).got_body.data, last(session).version) == (b"one", version) and last(session).last_modified
    with pytest.raises(ClientError, match="304"):
        client.get_object(**where, IfNoneMatch=version)
    assert (last(session).op, last(session).status, last(session).got_body) == ("get", 304, Body())
    assert client.head_object(**where)["ContentLength"] == 3
    assert (last(session).op, last(session).version) == ("head", version)
    with pytest.raises(ClientError, match="404"):
        client.head_object(Bucket=where["Bucket"], Key="no")
    client.list_objects_v2(Bucket=where["Bucket"], Prefix="a/", MaxKeys=1)
    assert last(session).key == "a/" and [found[:3] for found in last(session).listed] == [(where["Key"], 3, version)]
    client.delete_object(**where)
    assert (last(session).op, last(session).status) == ("delete", 204)
    assert {r.rule for r in session.settled()} == {""}


def test_a_listing_has_the_keys_that_were_put(session):
    """boto3 asks for keys in the encoding of URLs, and versitygw returns them as they are."""
    client, bucket = client_of(session), session.stores.bucket
    keys = ["k/a b", "k/a%20b", "k/a+b", "k/é"]
    for key in keys:
        client.put_object(Bucket=bucket, Key=key, Body=b"")
    found = client.list_objects_v2(Bucket=bucket, Prefix="k/")["Contents"]
    assert [one["Key"] for one in found] == [one.key for one in last(session).listed] == keys
    assert last(session).query["encoding-type"] == "url"


def test_any_size_passes(session):
    client, bucket = client_of(session), session.stores.bucket
    body = random.Random(1).randbytes(9_000_000)
    client.put_object(Bucket=bucket, Key="k", Body=body)
    assert last(session).sent_body[::2] == (len(body), None)
    assert client.get_object(Bucket=bucket, Key="k")["Body"].read() == body
    assert last(session).got_body.sha256 == session.requests[0].sent_body.sha256
    assert client.get_object(Bucket=bucket, Key="k", Range="bytes=5-9")["Body"].read() == body[5:10]
    client.put_object(Bucket=bucket, Key="empty", Body=b"")
    assert client.get_object(Bucket=bucket, Key="empty")["Body"].read() == b""


def test_a_multipart_upload_passes(session):
    client, where = client_of(session), {"Bucket": session.stores.bucket, "Key": "k"}
    upload = client.create_multipart_upload(**where)["UploadId"]
    part = client.upload_part(**where, UploadId=upload, PartNumber=1, Body=b"x" * 100)["ETag"]
    client.complete_multipart_upload(**where, UploadId=upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part}]})
    assert [r.op for r in session.settled()] == ["begin", "part", "complete"]
    assert client.get_object(**where)["Body"].read() == b"x" * 100
    client.delete_objects(Bucket=where["Bucket"], Delete={"Objects": [{"Key": "k"}]})
    assert last(session).op == "delete_many" and b"<Key>k</Key>" in last(session).sent_body.data


def test_what_is_deleted_by_many_is_known_however_long_it_is(session):
    """1,000 keys are more than what is kept of a body."""
    client, names = client_of(session), [f"a/{number:0100}" for number in range(1000)]
    client.delete_objects(Bucket=session.stores.bucket, Delete={"Objects": [{"Key": name} for name in names]})
    request = last(session)
    assert request.sent_body.size_bytes > 65_536 and [change.key[1] for change in changes_of(request)] == names
    assert b"<Deleted>" in request.got_body.data


def test_obstore_passes(session):
    obstore = pytest.importorskip("obstore")
    from obstore.store import S3Store as Store

    store = Store(session.stores.bucket, endpoint=session.urls["a"], region="us-east-1", virtual_hosted_style_request=False,
                  access_key_id="test", secret_access_key="testtest", client_options={"allow_http": True})
    obstore.put(store, "k", b"one", mode="create")
    assert bytes(obstore.get(store, "k").bytes()) == b"one"
    assert [r.op for r in session.settled()] == ["put", "get"] and session.requests[0].sent_body.data == b"one"


def test_every_client_is_known_by_its_port(session):
    for name in "abba":
        client_of(session, name).list_objects_v2(Bucket=session.stores.bucket)
    assert [r.client for r in session.settled()] == list("abba")


# --- What each rule does


def put(client, session, key="k", **more):
    return client.put_object(Bucket=session.stores.bucket, Key=key, Body=b"mine", **more)


def there(session, key="k") -> bool:
    """Asked of the server itself."""
    listed = connect(session.stores.url).list_objects_v2(Bucket=session.stores.bucket)
    return key in [entry["Key"] for entry in listed.get("Contents", ())]


def test_lose(session):
    session.rules("lose PUT * nth=1")
    with pytest.raises(ConnectionClosedError):
        put(client_of(session), session)
    assert there(session)
    assert (last(session).status, last(session).told, last(session).returned) == (200, 0, 0)
    assert last(session).rule == "lose PUT * nth=1" and last(session).version
    put(client_of(session), session)
    assert last(session).told == 200


def test_drop(session):
    session.rules("drop PUT *")
    with pytest.raises(BotoCoreError):
        put(client_of(session), session)
    assert not there(session) and (last(session).sent, last(session).status, last(session).pending) == (0, 0, False)


def test_fail_and_fail_reply(session):
    session.rules("fail 503 PUT one\nfail-reply 500 PUT two code=Odd\nfail 500 HEAD *")
    with pytest.raises(ClientError, match="SlowDown"):
        put(client_of(session), session, "one")
    assert (last(session).sent, last(session).told) == (0, 503)
    with pytest.raises(ClientError, match="Odd"):
        put(client_of(session), session, "two")
    assert (last(session).status, last(session).told) == (200, 500)
    assert not there(session, "one") and there(session, "two")
    client = client_of(session)
    for _ in range(2):  # the connection goes on
        with pytest.raises(ClientError, match="500"):
            client.head_object(Bucket=session.stores.bucket, Key="k")


def test_stall(session):
    session.rules("stall PUT *")
    with pytest.raises(ReadTimeoutError):
        put(client_of(session, read_timeout=0.3), session)
    assert there(session) and (last(session).status, last(session).told) == (200, 0)


def test_delays(session):
    session.rules("delay 120 PUT one\ndelay-reply 120 PUT two")
    client = client_of(session)
    put(client, session, "one")
    called, sent, answered, returned = last(session).times_us
    assert sent - called >= 110_000
    put(client, session, "two")
    called, sent, answered, returned = last(session).times_us
    assert returned - answered >= 110_000 and last(session).told == 200


def test_what_is_held_goes_on_when_its_rule_is_gone(session):
    session.rules("hold PUT *")
    thread = threading.Thread(target=put, args=(client_of(session), session))
    thread.start()
    session.wait(lambda s: s.held() == ["hold PUT *"])
    assert not there(session)
    session.rules("hold DELETE *")
    thread.join(30)
    assert there(session) and last(session).told == 200
    assert '"what":"held"' in session.log.getvalue()


@pytest.mark.parametrize("body", [b"mine", b"m" * 3_000_000])
def test_what_is_held_goes_on_though_its_client_has_given_up(session, body):
    """The stale writer: its request arrives when it is long forgotten."""
    session.rules("hold PUT *")
    with pytest.raises(ReadTimeoutError):
        client_of(session, read_timeout=0.5).put_object(Bucket=session.stores.bucket, Key="k", Body=body)
    assert session.held() and not there(session)
    session.rules("")
    assert there(session) and (last(session).status, last(session).told) == (200, 0)
    assert last(session).sent_body.size_bytes == len(body)


def test_a_reply_may_be_held(session):
    session.rules("hold-reply PUT *")
    thread = threading.Thread(target=put, args=(client_of(session), session))
    thread.start()
    session.wait(lambda s: s.held())
    assert there(session)
    listed = client_of(session, "b").list_objects_v2(Bucket=session.stores.bucket)
    assert listed["KeyCount"] == 1
    session.rules("")
    thread.join(30)
    by_op = {r.op: r for r in session.settled()}
    assert by_op["put"].answered < by_op["list"].called < by_op["list"].returned < by_op["put"].returned


def test_what_is_under_way_at_the_end_is_logged_too(s3_stores):
    log = io.StringIO()
    with recording(s3_stores.url, rules="hold PUT *", log=log) as session:
        session.stores = s3_stores
        with pytest.raises(ReadTimeoutError):
            put(client_of(session, "client", read_timeout=0.3), session)
    log.seek(0)
    (request,) = read(log).requests
    assert (request.sent, request.told, request.rule) == (0, 0, "hold PUT *")


def test_the_store_of_ours_behind_it_is_the_store(session):
    import asyncio

    store = S3Store(connect(session.urls["a"]), session.stores.bucket, "p", ids=Ulids())

    async def case():
        version = await store.create("k", b"1")
        version = await store.update("k", b"2", version)
        assert await store.get_if_changed("k", version) is None
        assert [entry.key for entry in (await store.list_page("")).entries] == ["k"]
        await store.put("k", b"0123")
        assert (await store.get_range("k", 1, 3)).body == b"12"
        with pytest.raises(BeyondEnd):
            await store.get_range("k", 4, 9)
        await store.delete("k")

    asyncio.run(case())
    requests = session.settled()
    assert [r.status for r in requests] == [200, 200, 304, 200, 200, 206, 416, 204]
    assert (requests[5].conditions, requests[5].got_body.data) == ({"range": "bytes=1-2"}, b"12")
    steps, _ = steps_of(requests)
    assert search(steps, Machine(lambda change: None)).verdict == "complete"
    lie = requests[5]._replace(got_body=Body(2, sha256(b"13").hexdigest(), b"13"))
    steps, _ = steps_of([*requests[:5], lie, *requests[6:]])
    assert "bytes=1-2 of version" in search(steps, Machine(lambda change: None)).refused[0][1].why


# --- Connections


class Server:
    """Says what it is told to, to one connection after another, and keeps what it hears."""

    def __init__(self, *replies: bytes, close: bool = False, read_body: int = 0):
        self.replies, self.close, self.read_body, self.heard = list(replies), close, read_body, []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while self.replies:
            connection, _ = self.socket.accept()
            with connection:
                while self.replies:
                    data = b""
                    while b"\r\n\r\n" not in data:
                        more = connection.recv(65_536)
                        if not more:
                            break
                        data += more
                    if not data:
                        break
                    while len(data.partition(b"\r\n\r\n")[2]) < self.read_body:
                        data += connection.recv(65_536)
                    self.heard.append(data)
                    connection.sendall(self.replies.pop(0))
                    if self.close:
                        break


def ask(url: str, data: bytes, reads: int = 1) -> bytes:
    host, _, port = url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), 10) as client:
        said = b""
        for _ in range(reads):
            client.sendall(data)
            said += client.recv(65_536)
            time.sleep(0.05)
        return said


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"


def test_not_a_byte_is_changed():
    raw = b"PUT /b/k?x=%2f HTTP/1.1\r\nhOsT: Some.Where:99\r\nX-Odd:  two \r\nX-Odd: three\r\ncontent-length: 4\r\n\r\nbody"
    server = Server(b"HTTP/1.1 200 FINE\r\neTaG: \"1\"\r\nContent-Length:2\r\n\r\nhi", read_body=4)
    with recording(server.url) as session:
        assert ask(session.urls["client"], raw) == b"HTTP/1.1 200 FINE\r\neTaG: \"1\"\r\nContent-Length:2\r\n\r\nhi"
    assert server.heard == [raw] and session.requests[0].version == '"1"'


def test_a_server_that_closes_after_each_reply_is_asked_anew():
    server = Server(OK, OK, OK, close=True)
    with recording(server.url) as session:
        assert ask(session.urls["client"], b"GET /b/k HTTP/1.1\r\n\r\n", reads=3) == OK * 3


def test_a_server_that_refuses_before_the_body_is_sent():
    refusal = b"HTTP/1.1 412 Precondition Failed\r\nContent-Length: 0\r\n\r\n"
    server = Server(refusal)
    with recording(server.url) as session:
        raw = b"PUT /b/k HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n"
        assert ask(session.urls["client"], raw) == refusal
        session.wait(lambda s: s.requests)
    assert (session.requests[0].status, session.requests[0].sent_body.sha256) == (412, "")


def test_100_continue_passes():
    server = Server(b"HTTP/1.1 100 Continue\r\n\r\n" + OK)
    with recording(server.url) as session:
        raw = b"PUT /b/k HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n"
        said = ask(session.urls["client"], raw)
        assert said.startswith(b"HTTP/1.1 100 Continue\r\n\r\n")


def test_a_body_that_ends_with_the_connection_passes():
    server = Server(b"HTTP/1.1 200 OK\r\n\r\nall of it", close=True)
    with recording(server.url) as session:
        assert ask(session.urls["client"], b"GET /b/k HTTP/1.1\r\n\r\n").endswith(b"all of it")
    assert session.requests[0].got_body.data == b"all of it"


def test_no_server_is_no_answer():
    with recording("http://127.0.0.1:1") as session:
        assert ask(session.urls["client"], b"GET /b/k HTTP/1.1\r\n\r\n") == b""
    assert session.requests[0][8:12] == (1, 0, 0, 0)


# --- The command line


@pytest.fixture
def recorder(tmp_path):
    """Starts `highwater trace record`; what it says first; how it ends."""
    started = []

    def start(*arguments: str) -> subprocess.Popen:
        command = [sys.executable, "-m", "highwater", "trace", "record", *arguments, "--out", str(tmp_path / "log")]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def ended(process: subprocess.Popen) -> tuple[int, str, str]:
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def wait_for(path: Path, text: str) -> None:
    end_s = time.monotonic() + 60
    while text not in path.read_text():
        assert time.monotonic() < end_s, path.read_text()
        time.sleep(0.02)


def test_from_the_command_line(recorder, tmp_path):
    server, rules, log = Server(OK, OK, OK), tmp_path / "rules", tmp_path / "log"
    rules.write_text("fail 503 GET */no\n")
    process = recorder(server.url, "--client", "one", "--client", "two", "--rules", str(rules))
    urls = dict(process.stdout.readline().split() for _ in range(2))
    assert list(urls) == ["one", "two"]
    assert ask(urls["one"], b"GET /b/k HTTP/1.1\r\n\r\n") == OK
    assert ask(urls["two"], b"GET /b/a/no HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 503")
    rules.write_text("loose GET *\n")
    wait_for(log, "bad rules")
    assert ask(urls["two"], b"GET /b/a/no HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 503"), "the old rules stay"
    rules.write_bytes(b"lose GET \xff\n")
    wait_for(log, "it is not UTF-8")
    rules.write_text("")
    wait_for(log, '"text":""')
    assert ask(urls["two"], b"GET /b/a/no HTTP/1.1\r\n\r\n") == OK
    code, out, err = ended(process)
    assert code == 0 and "4 requests" in out and "there is no action 'loose'" in err
    logged = read(log.read_text().splitlines(keepends=True))
    assert logged.whole and [r.client for r in logged.requests] == ["one", "two", "two", "two"]


def test_what_streams_through_is_not_kept_in_memory(recorder, tmp_path):
    size = 200_000_000
    sink = socket.create_server(("127.0.0.1", 0))

    def swallow():
        sink.accept()[0].close()  # the recorder's test whether the server is there
        connection, _ = sink.accept()
        left = None
        while left is None or left > 0:
            data = connection.recv(1 << 20)
            left = size - len(data.partition(b"\r\n\r\n")[2]) if left is None else left - len(data)
        connection.sendall(OK)
        connection.recv(1)

    threading.Thread(target=swallow, daemon=True).start()
    process = recorder(f"http://127.0.0.1:{sink.getsockname()[1]}")
    host, _, port = process.stdout.readline().split()[1].removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), 60) as client:
        client.sendall(b"PUT /b/k HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % size)
        piece = bytes(1_000_000)
        for _ in range(size // len(piece)):
            client.sendall(piece)
        assert client.recv(1000) == OK
    peak = next(line for line in Path(f"/proc/{process.pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
    assert int(peak.split()[1]) < 150_000, peak
    assert ended(process)[0] == 0
    request = read((tmp_path / "log").read_text().splitlines(keepends=True)).requests[0]
    assert request.sent_body[::2] == (size, None)


@pytest.mark.parametrize("arguments, says", [
    (["ftp://x"], "write http://HOST:PORT"), (["http://x:port"], "write http://HOST:PORT"),
    (["http://x/bucket"], "write http://HOST:PORT"), (["http://x", "--rules", sys.executable], "it is not UTF-8"),
    (["http://x", "--client", "a=b"], "write NAME or NAME=PORT"),
    (["http://x", "--client", "a", "--client", "a"], "two clients have the same name"),
    (["http://x", "--rules", "/no/such"], "/no/such: No such file"),
    (["http://x", "--rules", str(ROOT / "Makefile")], "line 2: "),
    (["http://x", "--lose-each", "tea"], "there is no class of requests 'tea'; there are conditional-put"),
    (["http://x", "--bucket", "b"], "--upstream and --bucket are for a COMMAND"),
    (["no-such-command"], "'no-such-command' is no URL of a server"),
    (["true", "--upstream", "here"], "write http://HOST:PORT"),
    (["true", "--client", "a", "--client", "b"], "a COMMAND is one client"),
    (["true", "--upstream", "http://127.0.0.1:1"], "no bucket can be made"),
    (["true", "--upstream", "http://127.0.0.1:1", "--bucket", "b", "--rules", "/no/such"], "/no/such: No such file"),
])
def test_bad_input_is_refused_in_one_line(arguments, says, tmp_path):
    from typer.testing import CliRunner

    from highwater.cli.main import app

    result = CliRunner().invoke(app, ["trace", "record", *arguments, "-o", str(tmp_path / "log")])
    assert result.exit_code == 2 and says in result.output and result.output.count("\n") == 1
    assert not (tmp_path / "log").exists()


def test_a_command_is_not_run_without_its_server(tmp_path):
    from typer.testing import CliRunner

    from highwater.cli.main import app

    result = CliRunner().invoke(app, ["trace", "record", "--upstream", "http://127.0.0.1:1", "--bucket", "b", "-o",
                                      str(tmp_path / "log"), "--", "touch", str(tmp_path / "ran")])
    assert result.exit_code == 3 and "http://127.0.0.1:1 does not answer: Connection refused" in result.output
    assert not list(tmp_path.iterdir())


def test_a_recorder_warns_of_a_server_that_does_not_answer(recorder):
    process = recorder("http://127.0.0.1:1")
    assert process.stdout.readline().startswith("client http://127.0.0.1:")
    _, _, err = ended(process)
    assert err.startswith("warning: http://127.0.0.1:1 does not answer: Connection refused; each request fails until"), err


def test_a_log_is_not_overwritten(tmp_path):
    from typer.testing import CliRunner

    from highwater.cli.main import app

    (tmp_path / "log").write_text("precious")
    result = CliRunner().invoke(app, ["trace", "record", "http://127.0.0.1:1", "-o", str(tmp_path / "log")])
    assert result.exit_code == 2 and "exists and is not overwritten" in result.output
    assert (tmp_path / "log").read_text() == "precious"


PUTS = """
import os, sys
from highwater.impl.stores.s3 import connect
client = connect(os.environ["AWS_ENDPOINT_URL"])
for key in ("one", "two"):
    try:
        client.put_object(Bucket=sys.argv[1], Key=key, Body=b"x", IfNoneMatch="*")
    except Exception as error:
        print(key, type(error).__name__)
sys.exit(7)
"""


@pytest.mark.skipif(not s3.found("versitygw"), reason="versitygw is not built: make servers")
def test_a_command_is_recorded_and_its_exit_code_told(tmp_path):
    """Each reply to a conditional PUT is lost: boto3 sends it again, and is told that the object exists."""
    (tmp_path / "puts.py").write_text(PUTS)
    command = [sys.executable, "-m", "highwater", "trace", "record", "--out", str(tmp_path / "log"), "--lose-each",
               "conditional-put", "--", sys.executable, str(tmp_path / "puts.py"), "{bucket}"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    logged = read((tmp_path / "log").read_text().splitlines(keepends=True))
    assert done.returncode == 7 and "client ended with exit code 7" in done.stdout, done.stderr
    assert logged.whole and {one.rule for one in logged.requests} == {"lose PUT * if=any"}
    assert {one.key for one in logged.requests if one.status == 200 and not one.told} == {"one", "two"}


@pytest.mark.skipif(not s3.found("versitygw"), reason="versitygw is not built: make servers")
def test_a_stopped_recorder_ends_its_command(tmp_path):
    child = tmp_path / "child"
    (tmp_path / "waits.sh").write_text(f"sleep 1000 & echo $! > {child}.new; mv {child}.new {child}\nwait\n")
    command = [sys.executable, "-m", "highwater", "trace", "record", "--out", str(tmp_path / "log"), "--", "sh",
               str(tmp_path / "waits.sh")]
    process, end_s = subprocess.Popen(command, cwd=ROOT), time.monotonic() + 60
    while not (tmp_path / "child").exists():
        assert process.poll() is None and time.monotonic() < end_s
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 130
    child = Path(f"/proc/{(tmp_path / 'child').read_text().strip()}/stat")
    assert not child.exists() or child.read_text().rpartition(")")[2].split()[0] == "Z"
    assert read((tmp_path / "log").read_text().splitlines(keepends=True)).whole


def test_the_log_can_be_read_by_people():
    assert json.loads(to_json(REQUEST))["sent_body"]["text"] == "hi"
    assert s3log.OPS[-1] == "other"

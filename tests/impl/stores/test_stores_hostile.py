"""A store that does not end, or is too large, costs a bounded time and a bounded memory, and the error names the bound."""

import asyncio
import gzip
import itertools
import os
import socket
import time
import tracemalloc

import pytest

from highwater.impl.errors import ListingNeverEnds, NotFound, OutcomeUnknown, PreconditionFailed, StoreError, Unavailable
from highwater.impl.stores.bounds import Bounds, bounds_of
from highwater.impl.stores.local import LocalStore
from highwater.impl.stores.s3 import S3Store, connect
from highwater.impl.stores.system import Ulids
from highwater.impl.world import list_all
from tests.support.stores.hostile_server import OBJECT, Wire, hostile_server, page_of, query_of

pytest_plugins = ["tests.support.stores.fixtures"]
run = asyncio.run
# TIGHT has long bounds of time, so that a slow machine fails no test. Tests of the bounds of time use QUICK.
TIGHT = Bounds(reply_s=60, reply_bytes=700_000, body_bytes=300_000, listing_keys=3000, listing_s=60, empty_pages=20)
QUICK = TIGHT._replace(reply_s=1)
PAGES = int(os.environ.get("HIGHWATER_DRAWN", 3))  # of 10,000 keys
HEAD = f"HTTP/1.1 200 OK\r\nConnection: close\r\n{OBJECT}".encode()  # urllib3 would use it again after a HEAD
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
ERROR = b"HTTP/1.1 403 Forbidden\r\nConnection: close\r\n"


@pytest.fixture
def hostile(s3_environment, monkeypatch):
    monkeypatch.setattr("highwater.impl.stores.s3.PAUSE_S", 0.001)
    with hostile_server() as server:
        yield server


def store_of(server, bounds: Bounds = TIGHT) -> S3Store:
    return S3Store(connect(server.url, bounds=bounds), "bucket", "some", ids=Ulids(), bounds=bounds)


def drip(start: bytes, piece: bytes = b"x", every_s: float = 0.05):
    """Answer each request with `start`, and then with a byte after a while, again and again."""
    def answer(method: str, target: str, wire: Wire) -> None:
        wire.send(start)
        wire.for_ever(piece, every_s)

    return answer


def flood(start: bytes, piece: bytes = bytes(1 << 16)):
    return drip(start, piece, 0)


DRIPS = {  # each of them never ends, and brings something all the time
    "body": drip(HEAD + b"Content-Length: 100000\r\n\r\n"),
    "body to the end": drip(HEAD + b"\r\n"),
    "chunks": drip(CHUNKED, b"1\r\nx\r\n"),
    "chunk size": drip(CHUNKED, b"0"),
    "trailers": drip(CHUNKED + b"1\r\nx\r\n0\r\n", b"a: b\r\n"),
    "status line": drip(b"HTTP/1.1 200 "),
    "header": drip(HEAD + b"X-A: "),
    "headers": drip(HEAD, b"a: b\r\n"),
    "continues": drip(b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.02),
    "error": drip(ERROR + b"Content-Length: 100000\r\n\r\n<"),
}
FLOODS = {
    "body": flood(HEAD + b"\r\n"),
    "wrong length": flood(HEAD + b"Content-Length: 99999999999999\r\n\r\n"),
    "length of 100 digits": flood(HEAD + b"Content-Length: " + b"9" * 100 + b"\r\n\r\n"),
    "chunks": flood(CHUNKED, b"8000\r\n" + bytes(0x8000) + b"\r\n"),
    "small chunks": flood(CHUNKED, b"1\r\nx\r\n" * 1000),
    "one chunk": flood(CHUNKED + b"fffffffffffffff\r\n"),
    "chunk extension": flood(CHUNKED + b"1;", b"a" * 60_000),
    "trailers": flood(CHUNKED + b"1\r\nx\r\n0\r\n", b"a: b\r\n" * 1000),
    "status line": flood(b"HTTP/1.1 200 ", b"a" * 60_000),
    "header": flood(HEAD + b"X-A: ", b"a" * 60_000),
    "headers": flood(HEAD, b"a: b\r\n" * 1000),
    "continues": flood(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000),
    "error": flood(ERROR + b"\r\n", b"<" * 60_000),
    "error in chunks": flood(ERROR + b"Transfer-Encoding: chunked\r\n\r\n", b"8000\r\n" + bytes(0x8000) + b"\r\n"),
    "error of a wrong length": flood(ERROR + b"Content-Length: 99999999999999\r\n\r\n"),
}


@pytest.mark.parametrize("name", DRIPS)
def test_slow_reply_ends_at_the_time_bound(hostile, name):
    async def both() -> tuple:
        return await asyncio.gather(store.get("k"), store.list_page(""), return_exceptions=True)

    hostile.answer, store, begun_s = DRIPS[name], store_of(hostile, QUICK), time.monotonic()
    for error in run(both()):
        assert isinstance(error, Unavailable) and "more than the bound reply_s=1; if the store" in str(error), error
    assert time.monotonic() - begun_s < 10 and len(hostile.asked) == 2, "it is not asked again"


@pytest.mark.parametrize("name", FLOODS)
def test_endless_reply_ends_at_the_size_bound(hostile, name):
    """The client of HTTP has bounds of its own for a line and for the number of headers."""
    hostile.answer, store = FLOODS[name], store_of(hostile, TIGHT._replace(body_bytes=40_000, reply_bytes=40_000))
    tracemalloc.start()
    try:
        for ask in (store.get("k"), store.get_range("k", 5, 9), store.list_page("")):
            with pytest.raises(Unavailable) as raised:
                run(ask)
            if name.startswith(("body", "wrong", "chunks", "error", "continues")):
                assert "more than the bound " in str(raised.value)
        assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("answer", [DRIPS["body"], DRIPS["error"], FLOODS["body"], FLOODS["error"], FLOODS["continues"]])
def test_endless_reply_leaves_a_mutation_in_doubt(hostile, answer):
    """A bound says nothing of what the server has applied."""
    hostile.answer, store = answer, store_of(hostile, QUICK if answer in DRIPS.values() else TIGHT)
    for ask in (store.create("k", b"1"), store.update("k", b"1", '"0"'), store.put("k", b"1"), store.delete("k")):
        with pytest.raises(OutcomeUnknown, match="more than the bound re"):
            run(ask)
    assert sum(asked.startswith(("PUT", "DELETE")) for asked in hostile.asked) == 4


def test_server_that_does_not_read_a_put_is_left(hostile):
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        hostile.url = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        client = connect(hostile.url, 0.5, 0.5, bounds=TIGHT)
        with pytest.raises(OutcomeUnknown):
            run(S3Store(client, "bucket", ids=Ulids()).put("k", bytes(50_000_000)))


# ----------------------------------------------------------------------------------------------------------- listings

def pages(bring, token="{n}"):
    """Answer each LIST with the page that `bring(n, query)` returns: keys, and perhaps XML behind them."""
    numbers = itertools.count(1)

    def answer(method: str, target: str, wire: Wire) -> None:
        n = next(numbers)
        wire.whole(page_of(bring(n, query_of(target)), token.format(n=n)), head="")

    return answer


ENDLESS = {
    "empty pages, fresh tokens": (pages(lambda n, query: ()), "empty_pages=20"),
    "ever new keys": (pages(lambda n, query: [f"some/{n:09}{i:03}" for i in range(1000)]), "listing_keys=3000"),
    "a key a page": (pages(lambda n, query: [f"some/{n:09}"]), "listing_keys=3000"),
    "a key every few pages": (pages(lambda n, query: [f"some/{n:09}"] if n % 3 == 0 else ()), "listing_keys=3000"),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_endless_listing_ends_at_its_bound(hostile, name):
    hostile.answer, bound = ENDLESS[name]
    with pytest.raises(Unavailable, match=f"more than the bound {bound}; if the store is right"):
        run(list_all(store_of(hostile, TIGHT), ""))


def test_slow_listing_ends_at_its_time_bound(hostile):
    def bring(n: int, query: dict) -> list[str]:
        time.sleep(0.2)
        return [f"some/{n:09}"]

    hostile.answer = pages(bring)
    with pytest.raises(Unavailable, match="'' has taken 1 s: more than the bound listing_s=1;"):
        run(list_all(store_of(hostile, TIGHT._replace(listing_s=1)), ""))


def test_listing_must_get_on(hostile):
    for answer in (pages(lambda n, query: (), "same"), pages(lambda n, query: ["some/k"])):
        hostile.answer = answer
        with pytest.raises(ListingNeverEnds):
            run(list_all(store_of(hostile), ""))


@pytest.mark.parametrize("keys", [["some/b", "some/a"], ["some/a", "some/a"], ["other/a"], ["some"], ["some/manifest2"]])
def test_page_that_was_not_asked_for_is_refused(hostile, keys):
    """Callers take the last key for the latest."""
    hostile.answer = lambda method, target, wire: wire.whole(page_of(keys), head="")
    with pytest.raises(Unavailable, match="the reply cannot be used: ValueError: a listing of 'manifest/' after ''" if
                       keys == ["some/manifest2"] else "the reply cannot be used: ValueError: a listing of ''"):
        run(store_of(hostile).list_page("manifest/" if keys == ["some/manifest2"] else ""))


def test_page_must_start_where_it_was_asked_to(hostile):
    hostile.answer = lambda method, target, wire: wire.whole(page_of(["some/a", "some/b"]), head="")
    with pytest.raises(Unavailable, match="after 'b' brings 'some/a'"):
        run(store_of(hostile).list_page("", "b"))


@pytest.mark.parametrize("body", [
    b"<ListBucketResult>" + b"<a>" * 30_000 + b"</a>" * 30_000 + b"<IsTruncated>false</IsTruncated></ListBucketResult>",
    b"<a>" * 30_000 + b"</a>" * 30_000, b"<ListBucketResult/>", b"", b"{}", b"<ListBucketResult>",
    page_of([], of="<Contents/>"), page_of([], of="<Contents><Key>some/k</Key></Contents>"),
    page_of(["some/k"]).replace(b"<Size>1", b"<Size>one"), page_of(["some/k"]).replace(b"<Size>1", b"<Size>" + b"9" * 5000),
    page_of(["some/k"]).replace(b"<Size>1", b"<Size>-1"), page_of(["some/k"]).replace(b"<Size>1", b"<Size>" + b"9" * 30),
    page_of(["some/k"]).replace(b"2026-11-29", b"99999-11-29"),
    b'<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]><ListBucketResult>&b;</ListBucketResult>',
    b'<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><ListBucketResult><Name>&a;</Name></ListBucketResult>',
], ids=lambda body: repr(body[:40]))
def test_page_in_strange_xml_is_refused_or_empty(hostile, body):
    hostile.answer = lambda method, target, wire: wire.whole(body, head="")
    try:
        assert not run(store_of(hostile, Bounds()).list_page("")).entries
    except Unavailable as error:
        assert "bucket 'bucket' at http://" in str(error)


@pytest.mark.parametrize("status", ["200 OK", "403 Forbidden"])
@pytest.mark.parametrize("body", [
    b"<ListBucketResult>" + b"<Contents/>" * 15_000 + b"</ListBucketResult>",
    b"<ListBucketResult " + b" ".join(b'a%d=""' % i for i in range(15_000)) + b"/>",
], ids=["elements", "attributes"])
def test_reply_of_tiny_elements_is_not_parsed(hostile, body, status, monkeypatch):
    """Parsed, each of its bytes would take some hundred bytes, and 16 MiB more than a minute."""
    monkeypatch.setattr("xml.etree.ElementTree.XMLParser", None)
    hostile.answer = lambda method, target, wire: wire.whole(body, status, head="")
    with pytest.raises(Unavailable, match="reply_bytes=700000"):
        run(store_of(hostile).list_page(""))
    assert len(hostile.asked) == 1


@pytest.mark.parametrize("head", ["", 'ETag: "1"\r\n', f"Last-Modified: {OBJECT[-31:]}",
                                  *(f'ETag: "1"\r\nLast-Modified: {time}\r\n' for time in ("never", "9" * 400, "1e400"))])
def test_reply_without_its_headers_is_no_object(hostile, head):
    hostile.answer, store = (lambda method, target, wire: wire.whole(b"", head=head)), store_of(hostile)
    for ask in (store.get("k"), store.get_range("k", 0, 1), store.head("k")):
        with pytest.raises(Unavailable, match="bucket 'bucket' at http://"):
            run(ask)


def nested(depth: int) -> bytes:
    return b"<a>" * depth + b"</a>" * depth


PAGE = page_of(["some/a", "some/b"])
HTML = b"<html><head><title>Log in</title></head><body>first</body></html>"
ODD = [HTML, b"", b"\xff", b"<Error/>", b"<Error>" + nested(5_000) + b"</Error>",
       b"<Error><Code>" + nested(5_000) + b"</Code></Error>",
       b"<Error><Code><x>1</x></Code><Code>2</Code><Message><y/></Message></Error>", b"<Error><Code>NoSuchKey</Code></Error>",
       PAGE.replace(b"<IsTruncated>false</IsTruncated>", b""), PAGE.replace(b"false", b"maybe"),
       PAGE.replace(b"<Size>1</Size>", b""),
       PAGE.replace(b"<Size>1</Size>", b"<Size><b>1</b></Size>"), PAGE.replace(b"<Key>some/a</Key>", b""),
       PAGE.replace(b"<Key>some/a</Key>", b"<Key/>"), PAGE.replace(b"<ETag>", b"<Etag>").replace(b"</ETag>", b"</Etag>"),
       PAGE.replace(b"2026-11-29T07:00:00.000Z", b""), PAGE + PAGE,
       *(PAGE[:at] + PAGE[at + 9:] for at in range(0, len(PAGE), 41)), *(PAGE[:at] for at in range(0, len(PAGE), 97))]
ODD_STATUS = ("200 OK", "204 No Content", "301 Moved Permanently", "404 Not Found", "409 Conflict", "412 Failed", "500 Bad",
              "999 x")


def calls_of(store: S3Store) -> list:
    return [store.get("k"), store.get_range("k", 0, 1), store.get_if_changed("k", "0"), store.head("k"), store.list_page(""),
            store.create("k", b"x"), store.update("k", b"x", "0"), store.put("k", b"x"), store.delete("k")]


@pytest.mark.parametrize("status", ODD_STATUS)
def test_odd_reply_of_any_shape_is_a_store_error(hostile, status):
    store = S3Store(connect(hostile.url, bounds=Bounds()), "bucket", "some", ids=Ulids(), bounds=Bounds(), attempts=1)

    async def ask_all() -> int:
        errors = 0
        for call in calls_of(store):
            try:
                await call
            except StoreError as error:
                errors += 1
                assert len(str(error)) < 2_000
        return errors

    for body in ODD[:9] if status[:3] == "301" else ODD:  # the library asks for the region then, at a tenth of a second a call
        for head in (OBJECT, ""):
            hostile.answer = lambda method, target, wire, body=body, head=head: wire.whole(body, status, head)
            errors = run(ask_all())
            assert errors or (status == "200 OK" and head), body


def test_error_of_a_server_is_cut_short(hostile):
    hostile.answer = lambda method, target, wire: wire.whole(
        b"<Error><Code>X</Code><Message>" + b"long " * 50_000 + b"</Message></Error>", "400 Bad Request")
    with pytest.raises(Unavailable) as raised:
        run(store_of(hostile, Bounds()).get("k"))
    assert len(str(raised.value)) < 1_000


def test_put_whose_reply_has_no_version_is_in_doubt(hostile):
    hostile.answer = lambda method, target, wire: wire.whole(b"", head="")
    with pytest.raises(OutcomeUnknown, match="the reply cannot be used"):
        run(store_of(hostile).put("k", b""))


def test_unasked_304_is_no_reply(hostile):
    hostile.answer = lambda method, target, wire: wire.send(b"HTTP/1.1 304 Not Modified\r\nConnection: close\r\n\r\n")
    store = store_of(hostile)
    for ask in (store.get("k"), store.head("k"), store.list_page("")):
        with pytest.raises(Unavailable):
            run(ask)


# ----------------------------------------------------------------------------------------- replies that contradict themselves

@pytest.mark.parametrize(("status", "content_range"), [
    ("206 Partial Content", ""), ("206 Partial Content", "bytes 0-3/100"), ("206 Partial Content", "bytes 5-8/*"),
    ("206 Partial Content", "bytes 5-9/100"), ("206 Partial Content", "bytes 5-8/7"), ("206 Partial Content", "bytes 8-5/100"),
    ("206 Partial Content", "bytes 5-8/" + "9" * 5000), ("206 Partial Content", "lines 5-8/100"),
    ("200 OK", "bytes 0-3/100"), ("203 Non-Authoritative Information", ""), ("204 No Content", ""),
])
def test_range_with_a_wrong_head_is_refused(hostile, status, content_range):
    head = "Connection: close\r\n" + OBJECT + (f"Content-Range: {content_range}\r\n" if content_range else "")
    hostile.answer = lambda method, target, wire: wire.whole(b"abcd", status, head)
    with pytest.raises(Unavailable, match="bucket 'bucket' at http://"):
        run(store_of(hostile).get_range("k", 5, 9))


@pytest.mark.parametrize("status", ["206 Partial Content", "203 Non-Authoritative", "204 No Content", "201 Created"])
def test_object_of_another_status_than_200_is_refused(hostile, status):
    """The body of a 206 is a part, and that of a 204 is none."""
    body = page_of(["some/k"])
    hostile.answer = lambda method, target, wire: wire.whole(
        body * (method != "HEAD"), status, f"{OBJECT}Content-Range: bytes 0-{len(body) - 1}/999\r\n")
    store = store_of(hostile)
    for ask in (store.get("k"), store.get_if_changed("k", '"0"'), store.head("k"), store.list_page("")):
        with pytest.raises(Unavailable, match=f"the reply cannot be used: ValueError: status {status[:3]}"):
            run(ask)


@pytest.mark.parametrize("end", [
    *(f"<IsTruncated>{word}</IsTruncated><NextContinuationToken>t</NextContinuationToken>" for word in ("false", "TRUE", "")),
    "<NextContinuationToken>t</NextContinuationToken>", "",
])
def test_page_that_may_be_cut_short_is_refused(hostile, end):
    """A listing that ends too early lacks the latest keys."""
    body = page_of(["some/k"]).replace(b"<IsTruncated>false</IsTruncated>", end.encode())
    hostile.answer = lambda method, target, wire: wire.whole(body, head="")
    with pytest.raises(Unavailable, match="the reply cannot be used"):
        run(store_of(hostile).list_page(""))


def test_error_with_status_200_is_no_success(hostile):
    error, store = b"<?xml version=\"1.0\"?><Error><Code>InternalError</Code><Message>no</Message></Error>", store_of(hostile)
    hostile.answer = lambda method, target, wire: wire.whole(error * (method != "HEAD"), head=OBJECT * (method != "HEAD"))
    for ask in (store.create("k", b"1"), store.update("k", b"1", '"0"'), store.put("k", b"1"), store.delete("k")):
        with pytest.raises(OutcomeUnknown):
            run(ask)
    with pytest.raises(Unavailable):
        run(store.list_page(""))


def test_packed_replies_are_not_unpacked(hostile):
    """An object stays as it is stored, and no reply grows: a listing was asked for without compression."""
    bomb, store = gzip.compress(bytes(50_000_000)), store_of(hostile)
    hostile.answer = lambda method, target, wire: wire.whole(bomb, head=f"{OBJECT}Content-Encoding: gzip\r\n")
    tracemalloc.start()
    try:
        assert run(store.get("k")).body == bomb
        for status in ("200 OK", "403 Forbidden", "500 Internal Server Error"):
            hostile.answer = lambda method, target, wire, status=status: wire.whole(
                bomb, status, f"{OBJECT}Content-Encoding: gzip\r\n")
            with pytest.raises(Unavailable):
                run(store.list_page(""))
        assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("status", ["304 Not Modified", "412 Precondition Failed", "404 Not Found", "416 Bad Range"])
def test_refusal_with_an_endless_body_ends(hostile, status):
    """Whether the request was applied is then unknown, whatever the status says: the reply has not come whole."""
    hostile.answer, store = flood(f"HTTP/1.1 {status}\r\nConnection: close\r\n\r\n".encode()), store_of(hostile)
    for ask in (store.create("k", b"1"), store.update("k", b"1", '"0"'), store.delete("k")):
        with pytest.raises((OutcomeUnknown, Unavailable)):
            run(ask)
    for ask in (store.get("k"), store.get_range("k", 0, 1), store.list_page("")):
        with pytest.raises(Unavailable):
            run(ask)


@pytest.mark.parametrize("status", ["301 Moved Permanently", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"])
def test_redirects_are_not_followed_for_ever(hostile, status):
    error = b"<Error><Code>PermanentRedirect</Code><Bucket>bucket</Bucket><Endpoint>other.example</Endpoint></Error>"
    hostile.answer = lambda method, target, wire: wire.whole(
        error * (method != "HEAD"), status,
        f"Location: {hostile.url}{target}\r\nx-amz-bucket-region: eu-west-{len(hostile.asked)}\r\n")
    store = store_of(hostile)
    for ask in (store.create("k", b"1"), store.get("k"), store.head("k"), store.list_page(""), store.delete("k")):
        hostile.asked.clear()
        with pytest.raises(Unavailable):
            run(ask)
        assert len(hostile.asked) <= 4


def test_body_of_a_head_is_no_later_reply(hostile):
    """The bytes after the reply to a HEAD are not the reply to the next request."""
    behind = b"HTTP/1.1 200 OK\r\nETag: \"false\"\r\nContent-Length: 0\r\n\r\n"

    def answer(method: str, target: str, wire: Wire) -> None:
        if method == "HEAD":
            wire.send(f"HTTP/1.1 200 OK\r\n{OBJECT}Content-Length: {len(behind)}\r\n\r\n".encode() + behind * 1000)
        else:
            wire.whole(b"", "412 Precondition Failed")

    hostile.answer, store = answer, store_of(hostile)
    for _ in range(20):
        assert run(store.head("k")).version == '"1"'
        with pytest.raises(PreconditionFailed):
            run(store.update("k", b"1", '"0"'))


# --------------------------------------------------------------------------------------------- connections that do not begin

@pytest.mark.parametrize("begin", [b"", b"\x16\x03\x03\x3f\xff"], ids=["silent", "a record that drips"])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_connection_that_is_accepted_and_silent_ends(s3_environment, scheme, begin, monkeypatch):
    monkeypatch.setattr("highwater.impl.stores.s3.ATTEMPTS", 1)
    with hostile_server(lambda wire: (wire.send(begin), wire.for_ever(begin[-1:], 0.05))) as server:
        url, begun_s = server.url.replace("http", scheme), time.monotonic()
        store = S3Store(connect(url, 0.3, 0.3, bounds=QUICK), "bucket", ids=Ulids(), bounds=QUICK)
        for ask, error in ((store.get("k"), Unavailable), (store.list_page(""), Unavailable),
                           (store.put("k", b""), (OutcomeUnknown, Unavailable))):
            with pytest.raises(error):
                run(ask)
        assert time.monotonic() - begun_s < 60


# ------------------------------------------------------------------------------------------------------ honest stores

def test_large_pages_and_many_are_listed(hostile):
    """Pages of ten thousand keys (HIGHWATER_DRAWN=100 of them, for a million): the usual bounds do not see them."""

    def answer(method: str, target: str, wire: Wire) -> None:
        at = int(query_of(target).get("start-after", "some/-1/")[5:].partition("/")[0]) + 1
        wire.whole(page_of([f"some/{at:07}/{i:04}" for i in range(10_000)], "more" if at < PAGES - 1 else None), head="")

    async def count() -> int:
        store, after, keys = store_of(hostile, Bounds()), "", 0
        while True:
            page = await store.list_page("", after)
            keys += len(page.entries)
            if not page.truncated:
                return keys
            after = page.entries[-1].key

    hostile.answer = answer
    assert run(count()) == PAGES * 10_000


def test_ranges_of_a_huge_object_are_read(hostile):
    size = 1 << 40

    def answer(method: str, target: str, wire: Wire) -> None:
        wire.whole(bytes(1 << 20), "206 Partial Content",
                   f"{OBJECT}Content-Range: bytes {size - (1 << 20)}-{size - 1}/{size}\r\n")

    hostile.answer = answer
    assert len(run(store_of(hostile, Bounds()).get_range("k", size - (1 << 20), size + 5)).body) == 1 << 20


def test_slow_honest_object_is_read(hostile):
    """At 200 KB a second an object takes longer than reply_s, and is read."""
    def answer(method: str, target: str, wire: Wire) -> None:
        wire.send(HEAD + b"Content-Length: 300000\r\n\r\n")
        for _ in range(15):
            wire.send(bytes(20_000))
            time.sleep(0.1)

    hostile.answer = answer
    assert len(run(store_of(hostile, QUICK).get("k")).body) == 300_000


# -------------------------------------------------------------------------------------------------------------- folders

@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/k").write_bytes(b"x")
    return tmp_path


def test_pipes_devices_and_sockets_are_no_objects(folder, monkeypatch):
    os.mkfifo(folder / "a/pipe")
    (folder / "a/zero").symlink_to("/dev/zero")
    (folder / "a/self").symlink_to("self")
    listener = socket.socket(socket.AF_UNIX)
    monkeypatch.chdir(folder / "a")  # the path of a socket is short
    listener.bind("socket")
    store, strange = LocalStore(folder), ("a/pipe", "a/self", "a/socket", "a/zero")
    for key in strange:
        for ask in (store.get(key), store.get_range(key, 0, 1), store.get_if_changed(key, "1"), store.head(key)):
            with pytest.raises(NotFound):
                run(ask)
    assert [entry.key for entry in run(list_all(store, ""))] == ["a/b/k"]
    assert store.strays("a") == ["a/b/", *strange]
    listener.close()


def test_links_to_folders_around_them_are_not_followed(folder):
    (folder / "c").mkdir()
    for name in ("a/b/up", "a/b/other", "c/a"):
        (folder / name).symlink_to("../../c" if name.endswith("other") else ".." if name.endswith("up") else "../a")
    assert [entry.key for entry in run(list_all(LocalStore(folder), ""))] == ["a/b/k", "c/a/b/k"]


def test_links_that_multiply_end_at_the_time_bound(folder):
    for number in range(40):
        (folder / f"{number}").mkdir()
        for name in "xy":
            (folder / f"{number}/{name}").symlink_to(f"../{number + 1}")
    begun_s = time.monotonic()
    with pytest.raises(Unavailable, match="more than the bound listing_s=1;"):
        run(list_all(LocalStore(folder, bounds=TIGHT._replace(listing_s=1)), "0/"))
    assert time.monotonic() - begun_s < 10


def test_huge_file_is_read_by_ranges_only(folder):
    with open(folder / "huge", "wb") as huge:
        huge.truncate(100 << 30)
    store = LocalStore(folder)
    for ask in (store.get("huge"), store.get_if_changed("huge", "1"), store.get_range("huge", 1, 99 << 30)):
        with pytest.raises(Unavailable, match="'huge': .* more than the bound body_bytes=268435456;"):
            run(ask)
    assert run(store.get_range("huge", 50 << 30, (50 << 30) + 3)).body == bytes(3)


def test_folder_with_too_many_keys_ends_at_the_bound(folder):
    for number in range(700):
        (folder / f"{number:03}").touch()
    store = LocalStore(folder, page_size=100, bounds=TIGHT._replace(listing_keys=500))
    with pytest.raises(Unavailable, match="goes on after 600 keys: more than the bound listing_keys=500"):
        run(list_all(store, ""))


# ----------------------------------------------------------------------------------------------------------- settings

def test_bounds_are_read_from_text():
    assert bounds_of("") == Bounds() and bounds_of("reply_s=7, body_bytes=9") == Bounds(reply_s=7, body_bytes=9)
    for text, says in (("x=1", "'x' is no bound: there are reply_s, "), ("reply_s", "write reply_s=N"), ("reply_s=0", "N"),
                       ("reply_s=-1", "N"), ("reply_s=1.5", "N"), ("reply_s=", "N"), ("reply_s=" + "9" * 5000, "N")):
        with pytest.raises(ValueError, match=says):
            bounds_of(text)

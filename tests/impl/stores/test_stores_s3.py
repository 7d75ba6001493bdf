"""The store in S3 when answers are lost, late or refused."""

import asyncio
import functools
from contextlib import ExitStack
from datetime import UTC, datetime

import boto3
import pytest

from highwater.impl.errors import (
    AlreadyExists,
    BeyondEnd,
    Definite,
    ListingNeverEnds,
    NotFound,
    OutcomeUnknown,
    PreconditionFailed,
    Unavailable,
)
from highwater.impl.stores import s3
from highwater.impl.stores.s3 import S3Store, connect
from highwater.impl.stores.system import Ulids
from highwater.impl.world import Page, list_all
from tests.support.stores.lossy_proxy import CUT, DROP, STALL, Fate, lossy_proxy
from tests.support.stores.moto_server import put_unsigned

pytest_plugins = ["tests.support.stores.fixtures"]
run = asyncio.run


def keys_of(page: Page) -> list[str]:
    return [entry.key for entry in page.entries]


class Lossy:
    """A store behind the proxy, and `direct`, one that is not."""

    def __init__(self, proxy, stores):
        self.proxy = proxy
        self.direct = stores.open()
        self.behind = stores._replace(url=proxy.url)
        self.store = self.behind.open()

    def expect(self, answer: str | int) -> None:
        """Be impatient where the answer never comes; elsewhere a busy machine must not look like a lost answer."""
        if answer == STALL:
            self.store = self.behind.open(read_timeout_s=0.5)

    def written(self) -> int:
        return self.proxy.seen.count("PUT")

    def requests(self) -> dict:
        """The three kinds of PUT, each ready to succeed."""
        first = run(self.direct.create("updated", b"old"))
        run(self.direct.put("overwritten", b"old"))
        return {
            "created": lambda: self.store.create("created", b"mine"),
            "updated": lambda: self.store.update("updated", b"mine", first),
            "overwritten": lambda: self.store.put("overwritten", b"mine"),
        }

    def body(self, key: str) -> bytes | None:
        try:
            return run(self.direct.get(key)).body
        except NotFound:
            return None


@pytest.fixture(scope="module")
def proxies():
    """One for each server, by its URL."""
    with ExitStack() as stack:
        yield functools.lru_cache(lambda url: stack.enter_context(lossy_proxy(url)))


@pytest.fixture
def lossy(proxies, s3_stores, monkeypatch):
    monkeypatch.setattr(s3, "PAUSE_S", 0.01)
    proxy = proxies(s3_stores.url)
    proxy.forget()
    yield Lossy(proxy, s3_stores)
    proxy.release.set()


@pytest.mark.parametrize("answer", [DROP, STALL, 408, 500, 502, 503, 504])
def test_s3_a_put_whose_answer_was_lost_is_found_by_its_id(lossy, answer):
    lossy.expect(answer)
    for key, request in lossy.requests().items():
        sent_before = lossy.written()
        lossy.proxy.next("PUT", Fate(answer=answer, code="SlowDown" if answer == 503 else "InternalError"))
        version = run(request())
        assert lossy.body(key) == b"mine"
        assert version == run(lossy.direct.head(key)).version
        assert lossy.written() == sent_before + 1, "a PUT in doubt is not sent again"


@pytest.mark.parametrize("answer", [DROP, STALL, 500, 503])
def test_s3_a_put_superseded_before_it_could_be_found_is_unknown(lossy, answer):
    lossy.expect(answer)
    for key, request in lossy.requests().items():
        lossy.proxy.next("PUT", Fate(answer=answer, meanwhile=lambda key=key: run(lossy.direct.put(key, b"later"))))
        with pytest.raises(OutcomeUnknown):
            run(request())
        assert lossy.body(key) == b"later"


@pytest.mark.parametrize("answer", [DROP, 500])
def test_s3_a_put_collected_before_it_could_be_found_is_unknown(lossy, answer):
    lossy.expect(answer)
    for key, request in lossy.requests().items():
        lossy.proxy.next("PUT", Fate(answer=answer, meanwhile=lambda key=key: run(lossy.direct.delete(key))))
        with pytest.raises(OutcomeUnknown):
            run(request())


@pytest.mark.parametrize("answer", [DROP, STALL, 500, 503])
def test_s3_a_put_that_never_arrived_is_unknown(lossy, answer):
    lossy.expect(answer)
    for key, request in lossy.requests().items():
        before = lossy.body(key)
        lossy.proxy.next("PUT", Fate(apply=False, answer=answer, code="SlowDown" if answer == 503 else "InternalError"))
        with pytest.raises(OutcomeUnknown) as raised:
            run(request())
        assert not isinstance(raised.value, Definite)
        assert lossy.body(key) == before


def test_s3_a_put_still_under_way_when_it_is_looked_for_is_unknown(lossy):
    """Why a HEAD that finds nothing proves nothing."""
    lossy.proxy.next("PUT", Fate(apply=False, answer=DROP, late=True))
    with pytest.raises(OutcomeUnknown):
        run(lossy.store.create("k", b"mine"))
    assert lossy.body("k") is None
    lossy.proxy.release.set()
    assert lossy.proxy.arrived.wait(10)
    assert lossy.body("k") == b"mine"


def test_s3_a_put_in_doubt_is_unknown_when_the_head_fails_too(lossy):
    lossy.proxy.next("PUT", Fate(answer=DROP))
    lossy.proxy.next("HEAD", *[Fate(answer=500)] * s3.ATTEMPTS)
    with pytest.raises(OutcomeUnknown):
        run(lossy.store.create("k", b"mine"))
    lossy.proxy.next("PUT", Fate(answer=DROP))
    lossy.proxy.next("HEAD", Fate(answer=500), Fate(answer=DROP))
    assert run(lossy.store.create("k2", b"mine")) == run(lossy.direct.head("k2")).version


def test_s3_a_plain_412_is_a_conflict_for_one_request(lossy):
    version = run(lossy.direct.create("k", b"theirs"))
    with pytest.raises(AlreadyExists):
        run(lossy.store.create("k", b"mine"))
    run(lossy.direct.put("k", b"theirs 2"))
    with pytest.raises(PreconditionFailed):
        run(lossy.store.update("k", b"mine", version))
    run(lossy.direct.delete("k"))
    with pytest.raises(PreconditionFailed):
        run(lossy.store.update("k", b"mine", version))
    assert lossy.proxy.seen == ["PUT"] * 3


@pytest.mark.parametrize(
    "status, code", [(409, "ConditionalRequestConflict"), (409, "OperationAborted"), (429, "TooManyRequests")]
)
def test_s3_a_put_refused_without_effect_is_sent_again(lossy, status, code):
    refusal = Fate(apply=False, answer=status, code=code)
    for key, request in lossy.requests().items():
        lossy.proxy.next("PUT", refusal, refusal)
        assert run(request()) == run(lossy.direct.head(key)).version


@pytest.mark.parametrize("status", [409, 429])
def test_s3_a_put_that_is_always_refused_has_had_no_effect(lossy, status):
    for key, request in lossy.requests().items():
        before, sent_before = lossy.body(key), lossy.written()
        lossy.proxy.next("PUT", *[Fate(apply=False, answer=status, code="TryAgain")] * s3.ATTEMPTS)
        with pytest.raises(Unavailable, match="TryAgain"):
            run(request())
        assert (lossy.body(key), lossy.written() - sent_before) == (before, s3.ATTEMPTS)


def test_s3_a_conflict_after_a_refusal_is_a_conflict(lossy):
    """On S3 the loser of a race may first get 409, then 412."""
    refusal = Fate(apply=False, answer=409, code="ConditionalRequestConflict")
    lossy.proxy.next("PUT", refusal._replace(meanwhile=lambda: run(lossy.direct.create("k", b"theirs"))))
    with pytest.raises(AlreadyExists):
        run(lossy.store.create("k", b"mine"))


def test_s3_a_412_that_is_its_own_echo_is_a_success(lossy):
    """A server, or something before it, that says 409 or 429 of what it has applied after all."""
    for key, request in lossy.requests().items():
        lossy.proxy.next("PUT", Fate(answer=429, code="TooManyRequests"))
        assert run(request()) == run(lossy.direct.head(key)).version
        assert lossy.body(key) == b"mine"


def test_s3_a_delete_in_doubt_is_unknown_and_not_sent_again(lossy):
    for fate in (Fate(answer=DROP), Fate(answer=500), Fate(apply=False, answer=DROP), Fate(apply=False, answer=503)):
        run(lossy.direct.put("k", b""))
        sent_before = len(lossy.proxy.seen)
        lossy.proxy.next("DELETE", fate)
        with pytest.raises(OutcomeUnknown):
            run(lossy.store.delete("k"))
        assert lossy.proxy.seen[sent_before:] == ["DELETE"]
        assert lossy.body("k") == (None if fate.apply else b"")
    refusal = Fate(apply=False, answer=409, code="OperationAborted")
    lossy.proxy.next("DELETE", refusal)
    run(lossy.store.delete("k"))
    assert lossy.body("k") is None
    lossy.proxy.next("DELETE", *[refusal] * s3.ATTEMPTS)
    with pytest.raises(Unavailable):
        run(lossy.store.delete("k"))


def reads_of(store, version: str) -> list:
    """Each way of reading, and the method that it sends."""
    return [
        ("GET", lambda: store.get("k")),
        ("GET", lambda: store.get_if_changed("k", version)),
        ("GET", lambda: store.get_range("k", 1, 30_000)),
        ("HEAD", lambda: store.head("k")),
        ("GET", lambda: store.list_page("")),
    ]


@pytest.mark.parametrize("answer", [DROP, STALL, CUT, 429, 500, 503])
def test_s3_a_read_is_sent_again_a_few_times(lossy, answer):
    lossy.expect(answer)
    run(lossy.direct.create("k", b"body" * 10_000))
    for method, read in reads_of(lossy.store, '"another"'):
        expected = run(read())
        lossy.proxy.next(method, Fate(answer=answer))
        assert run(read()) == expected
        if answer in (DROP, 503):
            lossy.proxy.next(method, *[Fate(answer=answer)] * s3.ATTEMPTS)
            with pytest.raises(Unavailable):
                run(read())


def test_s3_a_server_that_sends_another_range_is_noticed(s3_stores):
    """One ignores the header, and sends the whole object; others send too little, too much, or from another place."""
    client, asked = connect(s3_stores.url), {}

    def change(params: dict, **_: object) -> None:
        params["headers"] |= asked
        if not asked["Range"]:
            del params["headers"]["Range"]

    client.meta.events.register("before-call.s3.GetObject", change)
    store = S3Store(client, s3_stores.bucket, ids=Ulids())
    run(store.put("k", b"0123456789"))
    asked["Range"] = ""
    assert run(store.get_range("k", 3, 6)).body == b"345" and run(store.get_range("k", 8, 99)).body == b"89"
    with pytest.raises(BeyondEnd):
        run(store.get_range("k", 10, 11))
    for asked["Range"] in ("bytes=3-4", "bytes=3-6", "bytes=2-5", "bytes=0-9"):
        with pytest.raises(Unavailable, match="does not send what it is asked for"):
            run(store.get_range("k", 3, 6))
    asked["Range"] = "bytes=3-5"
    assert run(store.get_range("k", 3, 6)).body == b"345"


def test_s3_no_server_is_definite(s3_stores, monkeypatch):
    monkeypatch.setattr(s3, "PAUSE_S", 0.001)
    store = s3_stores._replace(url="http://127.0.0.1:1").open()
    requests = [lambda: store.create("k", b""), lambda: store.put("k", b""), lambda: store.delete("k")]
    for request in [*requests, *(read for _, read in reads_of(store, "1"))]:
        with pytest.raises(Unavailable, match=r"http://127\.0\.0\.1:1"):
            run(request())


def test_s3_no_bucket_is_told_as_such(s3_stores):
    store = s3_stores._replace(bucket="no-such-bucket").open()
    requests = [lambda: store.create("k", b""), lambda: store.update("k", b"", '"1"'), lambda: store.delete("k")]
    for request in [*requests, *(read for _, read in reads_of(store, "1"))]:
        with pytest.raises(Unavailable, match=r"no such bucket.*make it") as raised:
            run(request())
        assert "no-such-bucket" in str(raised.value)


def test_s3_a_bucket_that_was_there_is_asked_for_no_more(s3_stores):
    """The 404 of a HEAD does not say whether the bucket is missing. One request shows that it is there, and is enough."""
    client, asked = connect(s3_stores.url), []
    client.meta.events.register("before-call.s3", lambda model, **_: asked.append(model.name))
    store, other = (S3Store(client, s3_stores.bucket, ids=Ulids()) for _ in range(2))
    for _ in range(2):
        with pytest.raises(NotFound):
            run(store.head("no-such-key"))
    assert asked == ["HeadObject", "HeadBucket", "HeadObject"]
    run(other.put("k", b""))
    run(other.get("k"))
    asked.clear()
    with pytest.raises(NotFound):
        run(other.head("no-such-key"))
    assert asked == ["HeadObject"]


def test_s3_a_bucket_that_vanishes_is_told_as_such(moto_stores):
    """Reads of a key, listings and mutations say that the bucket is gone, and not that the key is."""
    name = f"{moto_stores.bucket}-vanishes"
    connect(moto_stores.url).create_bucket(Bucket=name)
    store = moto_stores._replace(bucket=name).open()
    run(store.put("k", b""))
    run(store.get("k"))
    run(store.delete("k"))
    connect(moto_stores.url).delete_bucket(Bucket=name)
    for request in (store.get("k"), store.list_page(""), store.create("k", b""), store.update("k", b"", '"1"'),
                    store.delete("k")):
        with pytest.raises(Unavailable, match=r"no such bucket.*make it"):
            run(request)


def replying(url: str, monkeypatch, *replies: dict) -> tuple[S3Store, list[dict]]:
    """Return a store whose LISTs get these replies, and the list of what it asks for."""
    client, asked, left = connect(url), [], [*replies]

    def answer(**where: object) -> dict:
        asked.append(where)
        return {"ResponseMetadata": {"HTTPStatusCode": 200}, **left.pop(0)}

    monkeypatch.setattr(client, "list_objects_v2", answer)
    return S3Store(client, "bucket", "some", ids=Ulids()), asked


def test_s3_an_empty_page_that_is_not_the_last_is_followed(moto_url, monkeypatch):
    last = {"IsTruncated": False, "Contents": [
        {"Key": "some/k/2", "Size": 0, "ETag": '"1"', "LastModified": datetime(2026, 11, 25, tzinfo=UTC)}]}
    empty = {"IsTruncated": True}
    store, asked = replying(moto_url, monkeypatch, {**empty, "NextContinuationToken": "a"},
                            {**empty, "NextContinuationToken": "b"}, last)
    assert keys_of(run(store.list_page("k/", "k/1"))) == ["k/2"]
    assert [where.get("ContinuationToken") for where in asked] == [None, "a", "b"]
    assert {where["StartAfter"] for where in asked} == {"some/k/1"}
    for tokens in ([None], ["a", "a"], ["a", None]):
        replies = [{**empty, **({"NextContinuationToken": token} if token else {})} for token in tokens]
        store, asked = replying(moto_url, monkeypatch, *replies)
        with pytest.raises(ListingNeverEnds, match="of 'k/' after 'k/1'"):
            run(store.list_page("k/", "k/1"))
        assert len(asked) == len(tokens)


def test_s3_a_foreign_server_is_neither_sent_nor_asked_for_checksums(moto_stores):
    """Many such servers get them wrong."""
    client, headers = connect(moto_stores.url), set()
    client.meta.events.register("before-send.s3", lambda request, **_: headers.update(map(str.lower, request.headers.keys())))
    store = S3Store(client, moto_stores.bucket, ids=Ulids())
    run(store.put("k", b"v"))
    run(store.get("k"))
    assert "x-amz-date" in headers and not [name for name in headers if "checksum" in name or name == "x-amz-trailer"]


def test_s3_no_credentials_is_told_as_such(s3_stores, monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    store = S3Store(connect(s3_stores.url), s3_stores.bucket, ids=Ulids())
    for request in (lambda: store.create("k", b""), lambda: store.get("k"), lambda: store.list_page("")):
        with pytest.raises(Unavailable, match="AWS_ACCESS_KEY_ID"):
            run(request())


def test_s3_a_client_that_retries_by_itself_is_refused(moto_url):
    """Such a client would turn a lost response into a conflict with its own write."""
    with pytest.raises(ValueError, match="may send a PUT again"):
        S3Store(boto3.client("s3", endpoint_url=moto_url), "bucket", ids=Ulids())


def test_s3_lists_past_an_empty_page_and_over_what_cannot_be_a_key(moto_stores):
    store = moto_stores.open(page_size=2)
    names = ["prefix/a/", "prefix/a//b", "prefix/a//c", "prefix/a//d", "prefix/a/e", "prefix/a/f", "prefixes"]
    put_unsigned(moto_stores.url, *(f"/{moto_stores.bucket}/some/{name}" for name in names))
    assert [entry.key for entry in run(list_all(store, ""))] == ["a/e", "a/f"]


def test_s3_more_keys_than_one_answer_can_hold(moto_stores):
    names = [f"manifest/{number:020}.manifest" for number in range(1003)]
    put_unsigned(moto_stores.url, *(f"/{moto_stores.bucket}/some/prefix/{name}" for name in names))

    async def case():
        store = moto_stores.open()
        page = await store.list_page("manifest/")
        assert (keys_of(page), page.truncated) == (names[:1000], True)
        assert [entry.key for entry in await list_all(store, "manifest/")] == names
        assert keys_of(await store.list_page("manifest/", names[999])) == names[1000:]

    run(case())

"""Safety: a writer is never told «you lost» about a write of its own that was applied, nor «you won» about one that was not.

A PUT is sent once. By default every SDK sends it again after a lost answer. The second PUT then finds what the first one wrote,
and reports 412 to the writer that won. Here each PUT carries an id of its own in the object's metadata. If its outcome is in
doubt (no answer, a 5xx, or a 412 after it was sent again), one HEAD resolves it:

- The object carries the id of this PUT: it was applied, and the object's version is its version.
- Anything else proves nothing and becomes OutcomeUnknown. If another id is there, ours may have been applied and then replaced.
  After a 404 it may have been applied and then collected. In both cases, and if the HEAD gets no answer, the PUT may still be
  in flight and be applied later, however long ago its connection was lost.

Only two kinds of requests are sent again. One is reads. The other is mutations whose answer says that nothing was applied and
that another try may succeed: 409 (ConditionalRequestConflict, OperationAborted: another request to the same key was in flight),
429, and a connection that could not be opened. A 503 is not among them, nor is SlowDown: a store that has lost some of its
disks gives this answer to a write that the other disks have kept.

A DELETE in doubt is OutcomeUnknown without a HEAD. If the object is there, the DELETE may still be in flight. If it is not
there, the DELETE may still not be over.
"""

import asyncio
import os
import random
import re
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from enum import Enum, auto
from functools import partial
from typing import Any

import boto3
from botocore import exceptions
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError
from botocore.session import get_session
from botocore.utils import parse_timestamp
from urllib3.exceptions import HTTPError

from highwater.impl.errors import (
    AlreadyExists,
    BeyondEnd,
    Definite,
    ListingNeverEnds,
    NotFound,
    OutcomeUnknown,
    PreconditionFailed,
    StoreError,
    Unavailable,
)
from highwater.impl.stores.bounded_http import bound
from highwater.impl.stores.bounds import BoundExceeded, Bounds, Listings, usual_bounds
from highwater.impl.stores.keys import check_key, fault_of
from highwater.impl.stores.ranges import check_range, part_of
from highwater.impl.world import Entry, Ids, Object, Page

PUT_ID = "highwater-put-id"  # the name of the user metadata that holds the id of a PUT
ATTEMPTS = 4  # of a request that may be sent again
SENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")  # the header Content-Range
PAUSE_S = 0.1  # the pause before the second attempt; it doubles with each further attempt
LONGEST_REASON = 500  # characters of an error's text: a server chooses it


class MalformedReply(Exception):
    """A reply with a good status lacks something, or has something that cannot be read."""


# All that boto3 raises if there is no good answer. It lets urllib3's errors pass where an error's body breaks off.
FAILURES = (ClientError, BotoCoreError, ResponseParserError, HTTPError, BoundExceeded, MalformedReply)
# These errors arise before a byte of the request is sent. After any other error without an answer the outcome is in doubt.
NO_CONNECTION = (exceptions.EndpointConnectionError, exceptions.ConnectTimeoutError)
NOT_SENT = (
    exceptions.NoCredentialsError,
    exceptions.PartialCredentialsError,
    exceptions.CredentialRetrievalError,
    exceptions.TokenRetrievalError,
    exceptions.ParamValidationError,
)


class Verdict(Enum):
    """The meaning of an error for the request that got it."""

    AGAIN = auto()  # nothing was applied, and the same request may succeed in a moment
    REFUSED = auto()  # nothing was applied, and the same request would be refused again
    DOUBT = auto()  # it may have been applied, or may be applied later


def named_endpoint() -> str:
    """Return the server that AWS_ENDPOINT_URL_S3 or else AWS_ENDPOINT_URL names; "" for Amazon's."""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""


def connect(endpoint_url: str | None = None, connect_timeout_s: float = 5, read_timeout_s: float = 20,
            bounds: Bounds | None = None) -> Any:
    """Return a boto3 client that sends each request once and is otherwise configured by the usual AWS_* variables and files.

    `bounds`: of the time and the bytes of each reply [default: those of the environment]. Raises ValueError if those are bad.

    A server other than Amazon's (`endpoint_url`, else AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL) is addressed as
    http://host/bucket/key. It is neither sent nor asked for checksums, which many such servers get wrong.
    """
    endpoint_url = endpoint_url or named_endpoint() or None
    config = Config(
        connect_timeout=connect_timeout_s,
        read_timeout=read_timeout_s,
        retries={"total_max_attempts": 1, "mode": "standard"},
        max_pool_connections=64,
    )
    if endpoint_url:
        foreign = Config(
            s3={"addressing_style": "path"},
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        )
        config = config.merge(foreign)
    session = boto3.Session(botocore_session=get_session())
    session._session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=moment_of)
    return bound(session.client("s3", endpoint_url=endpoint_url, config=config), bounds or usual_bounds())


def moment_of(value: Any) -> datetime:
    """Return a time of a reply. botocore's own parser takes most of the time that a listing takes. Raises ValueError."""
    try:
        if (moment := datetime.fromisoformat(value)).tzinfo:
            return moment
    except (ValueError, TypeError):
        pass
    try:
        return parse_timestamp(value)
    except RuntimeError as error:  # of a number that no clock reaches
        raise ValueError(f"{str(value)[:40]!r} is no time") from error


class S3Store:
    """An ObjectStore in a bucket of S3, or of a server with its protocol, below `prefix` if one is given.

    A version is the ETag. On S3 it is a digest of the content, so equal bytes have equal versions. A key that goes from A to B
    and back to A satisfies an `update` that names the first A, and `get_if_changed` sees no change (ABA). A protocol must not
    write equal bytes twice to a key that it updates. The protocols here do not, because a boundary only rises.

    GET and HEAD give `last_modified_ms` in whole seconds. `client` must not retry: see `connect`, which also bounds its
    replies. `bounds`: of listings and ranges [default: those of the environment]. `attempts`: how often a request is sent that
    may be sent again [default: ATTEMPTS].
    """

    caches = False

    def __init__(self, client: Any, bucket: str, prefix: str = "", *, ids: Ids, page_size: int = 1000,
                 bounds: Bounds | None = None, attempts: int = 0):
        if (client.meta.config.retries or {}).get("total_max_attempts") != 1:
            raise ValueError(
                "this client may send a PUT again after a lost answer, and so report a conflict to the writer that won: "
                "make it with highwater.impl.stores.s3.connect, or with Config(retries={'total_max_attempts': 1})"
            )
        self._client = client
        self._bucket = bucket
        self._prefix = prefix.strip("/") and prefix.strip("/") + "/"
        self._ids = ids
        self._page_size = page_size
        self._attempts = attempts
        self._bounds = bounds or usual_bounds()
        self._listings = Listings(self._bounds)
        self._bucket_seen = False  # the 404 of a HEAD does not say whether the bucket or the object is missing

    async def create(self, key: str, body: bytes) -> str:
        return await self._put(AlreadyExists, key, body, IfNoneMatch="*")

    async def update(self, key: str, body: bytes, version: str) -> str:
        return await self._put(PreconditionFailed, key, body, IfMatch=version)

    async def put(self, key: str, body: bytes) -> str:
        return await self._put(Unavailable, key, body)

    async def get(self, key: str) -> Object:
        return await self._read(self._fetch, **self._at(key))

    async def get_range(self, key: str, start: int, end: int) -> Object:
        check_range(start, end)
        return await self._read(partial(self._fetch_range, key, start, end), **self._at(key), Range=f"bytes={start}-{end - 1}")

    async def get_if_changed(self, key: str, version: str) -> Object | None:
        return await self._read(self._fetch, **self._at(key), IfNoneMatch=version)

    async def head(self, key: str) -> Entry:
        return await self._read(partial(self._fetch_head, key), **self._at(key))

    async def list_page(self, prefix: str, after: str = "") -> Page:
        """Send one LIST, and more while S3 answers with an empty page that is not the last."""
        where = {"Bucket": self._bucket, "Prefix": self._prefix + prefix, "MaxKeys": self._page_size}
        if after:
            where["StartAfter"] = self._prefix + after
        spent_s, begun_s = self._listings.spent(prefix, after), time.monotonic()
        try:
            for _ in range(self._bounds.empty_pages + 1):
                page, token = await self._read(partial(self._fetch_page, prefix, after), **where)
                spent_now_s = spent_s + time.monotonic() - begun_s
                if page.entries or not page.truncated:
                    return self._listings.add(prefix, after, page, spent_now_s)
                self._listings.check_time(prefix, spent_now_s)
                if token in (None, where.get("ContinuationToken")):
                    raise ListingNeverEnds(prefix, after)
                where["ContinuationToken"] = token
            raise BoundExceeded(self._bounds, "empty_pages", f"the listing of {prefix!r} after {after!r} brings empty pages "
                                "and further tokens")
        except BoundExceeded as error:
            raise Unavailable(self._explain(error)) from error

    async def delete(self, key: str) -> None:
        _, error, _ = await self._send(self._client.delete_object, **self._at(key))
        if error and code_of(error) != "NoSuchKey":
            raise self._unanswered(error, key) from error

    async def _put(self, conflict: type[Definite], key: str, body: bytes, **condition: str) -> str:
        """Send one PUT and resolve its outcome as described above. Raises `conflict` if its condition does not hold."""
        put_id = self._ids.new_id()
        request = {**self._at(key), "Body": body, "Metadata": {PUT_ID: put_id}, **condition}
        version, error, sent_again = await self._send(lambda **put: self._client.put_object(**put)["ETag"], **request)
        if not error:
            return version
        lost = status_of(error) == 412 or code_of(error) == "NoSuchKey"
        in_doubt = verdict_of(error) is Verdict.DOUBT or (lost and sent_again)
        if in_doubt and (found := await self._version_put_by(put_id, key)):
            return found
        if lost:
            raise conflict(key) from error  # earlier attempts, if any, were refused without effect
        raise self._unanswered(error, key) from error

    async def _version_put_by(self, put_id: str, key: str) -> str | None:
        """Return the version of the object at `key` if the PUT with this id wrote it; None proves nothing."""
        def version_and_id(**request: Any) -> tuple[str, str | None]:
            reply = complete(self._client.head_object(**request))
            metadata = {name.lower(): value for name, value in reply["Metadata"].items()}  # many servers write X-Amz-Meta-...
            return reply["ETag"], metadata.get(PUT_ID)

        try:
            version, found = await self._read(version_and_id, **self._at(key))
        except Definite:
            return None
        return version if found == put_id else None

    async def _send(self, call: Callable[..., Any], **request: Any) -> tuple[Any, Exception | None, bool]:
        """Send a mutation, again after errors that allow it. Return what `call` returns, its last error, and whether it was
        sent again."""
        last, attempt = None, 0
        for attempt in range(self._attempts or ATTEMPTS):
            await pause(attempt)
            try:
                return await asyncio.to_thread(well_formed, call, request), None, attempt > 0
            except FAILURES as error:
                last = error
            if verdict_of(last) is not Verdict.AGAIN:
                break
        return None, last, attempt > 0

    async def _read(self, call: Callable[..., Any], **request: Any) -> Any:
        """Return the reply to a read, which is sent again if there is none; None for 304.

        Raises NotFound, BeyondEnd, Unavailable."""
        last: Exception = AssertionError("there is a first attempt")
        for attempt in range(self._attempts or ATTEMPTS):
            await pause(attempt)
            try:
                reply = await asyncio.to_thread(well_formed, call, request)
                self._bucket_seen = True
                return reply
            except FAILURES as error:
                last = error
            if verdict_of(last) is Verdict.REFUSED or bound_of(last):
                break
        if status_of(last) == 304 and "IfNoneMatch" in request:
            return None
        if status_of(last) == 416 and "Range" in request:
            raise BeyondEnd(request["Key"].removeprefix(self._prefix)) from last
        if status_of(last) == 404 and code_of(last) != "NoSuchBucket" and "Key" in request:
            if code_of(last) != "NoSuchKey":
                await self._check_bucket()
            raise NotFound(request["Key"].removeprefix(self._prefix)) from last
        raise Unavailable(self._explain(last, request)) from last

    async def _check_bucket(self) -> None:
        """Check that the bucket exists. Raises Unavailable if it does not."""
        if not self._bucket_seen:
            await self._read(self._client.head_bucket, Bucket=self._bucket)

    def _fetch(self, **request: Any) -> Object:
        reply = complete(self._client.get_object(**request))
        return Object(reply["Body"].read(), reply["ETag"], to_ms(reply["LastModified"]))

    def _fetch_range(self, key: str, start: int, end: int, **request: Any) -> Object:
        """Return a range. A server may ignore that it is asked for one, and send the whole object.

        Raises BeyondEnd then, and ValueError if another range has come.
        """
        reply = self._client.get_object(**request)
        sent_range = reply.get("ContentRange", "")
        if not sent_range:
            complete(reply)
        found = Object(reply["Body"].read(), reply["ETag"], to_ms(reply["LastModified"]))
        if not sent_range:
            return part_of(found, key, start, end)
        sent = SENT_RANGE.fullmatch(sent_range)
        first, last, size = map(int, sent.groups()) if sent else (-1, -1, 0)
        if (first, last + 1, len(found.body)) != (start, min(end, size), last + 1 - first):
            raise ValueError(f"{key!r}: asked for bytes {start:,} up to before {end:,}, and {len(found.body):,} bytes came as "
                             f"{sent_range[:80]!r}: the server does not send what it is asked for")
        return found

    def _fetch_head(self, key: str, **request: Any) -> Entry:
        reply = complete(self._client.head_object(**request))
        return Entry(key, reply["ContentLength"], to_ms(reply["LastModified"]), reply["ETag"])

    def _fetch_page(self, prefix: str, after: str, **request: Any) -> tuple[Page, str | None]:
        """Return a page, and the token of the next one. Raises ValueError if the reply cannot say whether there is one."""
        reply = complete(self._client.list_objects_v2(**request))
        truncated, token = reply["IsTruncated"], reply.get("NextContinuationToken")
        if token and not truncated:
            raise ValueError(f"a listing of {prefix!r} has a token of a next page, but IsTruncated is not true")
        return Page(tuple(self._entries(prefix, after, reply)), truncated), token

    def _entries(self, prefix: str, after: str, reply: dict) -> Iterator[Entry]:
        """Yield the entries of a page. Raises ValueError if its keys are not what was asked for, or do not ascend."""
        last = ""
        for found in reply.get("Contents", ()):
            key = found["Key"].removeprefix(self._prefix)
            if not found["Key"].startswith(self._prefix + prefix) or key < after or (last and key <= last):
                raise ValueError(f"a listing of {prefix!r} after {after!r} brings {found['Key']!r} after {last!r}")
            last = key
            if not 0 <= found["Size"] < 1 << 63:
                raise ValueError(f"a listing of {prefix!r} brings {found['Key']!r} with a size of {found['Size']:,} bytes")
            if not fault_of(key):  # consoles make «folders», whose keys end in a slash
                yield Entry(key, found["Size"], to_ms(found["LastModified"]), found["ETag"])

    def _at(self, key: str) -> dict[str, str]:
        check_key(key)
        return {"Bucket": self._bucket, "Key": self._prefix + key}

    def _unanswered(self, error: Exception, key: str) -> StoreError:
        doubt = verdict_of(error) is Verdict.DOUBT
        return (OutcomeUnknown if doubt else Unavailable)(self._explain(error, {"Key": self._prefix + key}))

    def _explain(self, error: Exception, request: dict[str, Any] | None = None) -> str:
        place = f"bucket {self._bucket!r} at {self._client.meta.endpoint_url}"
        if isinstance(error, exceptions.NoCredentialsError):
            return f"{place}: no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
        head_bucket = getattr(error, "operation_name", "") == "HeadBucket"
        if code_of(error) == "NoSuchBucket" or (head_bucket and status_of(error) == 404):
            return f"{place}: there is no such bucket: make it, or correct its name"
        if (bound := bound_of(error)) and (key := (request or {}).get("Key")):
            return f"{place}: {key!r}: {bound}"
        return f"{place}: {bound_of(error) or str(error)[:LONGEST_REASON]}"


def well_formed(call: Callable[..., Any], request: dict[str, Any]) -> Any:
    """Return what `call` makes of a reply. Raises one of FAILURES.

    botocore and `_entries` may raise any other error for a reply of another form, also RecursionError for one that is nested
    deeply. Then it is MalformedReply.
    """
    try:
        return call(**request)
    except (*FAILURES, StoreError):
        raise
    except Exception as error:
        raise MalformedReply(f"the reply cannot be used: {type(error).__name__}: {error}") from error


def complete(reply: dict[str, Any]) -> dict[str, Any]:
    """Return the reply to a read. Raises ValueError unless its status is 200: a 206 brings a part, for example."""
    status = reply["ResponseMetadata"]["HTTPStatusCode"]
    if status != 200:
        raise ValueError(f"status {status}, where only 200 brings what was asked for")
    return reply


def bound_of(error: Exception) -> BoundExceeded | None:
    """Return the bound that a reply exceeded; botocore may have put another error around it."""
    inner = error.kwargs.get("error") if isinstance(error, BotoCoreError) else error
    return inner if isinstance(inner, BoundExceeded) else None


def verdict_of(error: Exception) -> Verdict:
    status = status_of(error)
    if status in (409, 429) or isinstance(error, NO_CONNECTION):
        return Verdict.AGAIN
    if 300 <= status < 500 and status != 408:
        return Verdict.REFUSED
    return Verdict.REFUSED if isinstance(error, NOT_SENT) else Verdict.DOUBT


def status_of(error: Exception) -> int:
    """Return the HTTP status of an error; 0 if there was no answer."""
    return error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0) if isinstance(error, ClientError) else 0


def code_of(error: Exception) -> str:
    """Return S3's code for the error; the status as text if the answer had no body, as for HEAD; "" if it is no text."""
    found = error.response.get("Error", {}).get("Code") if isinstance(error, ClientError) else ""
    return found if isinstance(found, str) else ""


def to_ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


async def pause(attempt: int) -> None:
    if attempt:
        await asyncio.sleep(PAUSE_S * 2 ** (attempt - 1) * random.uniform(0.5, 1.5))

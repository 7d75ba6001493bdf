"""Safety: a writer is never told «you lost» of a write of its own that was applied, nor «you won» of one that was not.

A PUT is sent once. Every SDK's default is to send it again after a lost answer, and then the second finds what the
first has written and reports 412 to the writer who won. Here a PUT carries an id of its own in the object's metadata,
and one whose outcome is in doubt (no answer, a 5xx, a 412 after it was sent again) is resolved by one HEAD:

- The object carries the id of this PUT: it was applied, and the object's version is its version.
- Anything else proves nothing, and is OutcomeUnknown. Another's id: ours may have been applied and then superseded.
  404: it may have been applied and then collected. And after either, as after a HEAD without an answer, the PUT may
  still be under way and be applied after all, however long ago its connection was lost.

Sent again are only reads, and mutations whose answer says that nothing was applied and that another try may succeed:
409 (ConditionalRequestConflict, OperationAborted: another request to the same key was under way), 429, and a connection
that could not be opened. A 503 is not among them, SlowDown neither: a store that has lost some of its disks answers so
to a write that the others have kept. A DELETE in doubt is OutcomeUnknown without a HEAD: that the object is there may
mean that the DELETE is under way, and that it is not there does not mean that the DELETE is over.
"""

import asyncio
import os
import random
from collections.abc import Callable
from datetime import datetime
from enum import Enum, auto
from typing import Any

import boto3
from botocore import exceptions
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from highwater.impl.errors import (
    AlreadyExists,
    Definite,
    ListingNeverEnds,
    NotFound,
    OutcomeUnknown,
    PreconditionFailed,
    StoreError,
    Unavailable,
)
from highwater.impl.stores.keys import check_key, fault_of
from highwater.impl.world import Entry, Ids, Object, Page

PUT_ID = "highwater-put-id"  # the name of the user metadata that holds it
ATTEMPTS = 4
PAUSE_S = 0.1  # before the second attempt; it doubles with each further one
FAILURES = (ClientError, BotoCoreError, ResponseParserError)  # all that boto3 raises for want of a good answer
# Those that arise before a byte of the request is sent. Any other without an answer is in doubt.
NO_CONNECTION = (exceptions.EndpointConnectionError, exceptions.ConnectTimeoutError)
NOT_SENT = (
    exceptions.NoCredentialsError,
    exceptions.PartialCredentialsError,
    exceptions.CredentialRetrievalError,
    exceptions.TokenRetrievalError,
    exceptions.ParamValidationError,
)


class Verdict(Enum):
    """What an error says of the request that got it."""

    AGAIN = auto()  # nothing was applied, and the same request may succeed in a moment
    REFUSED = auto()  # nothing was applied, and the same request would be refused again
    DOUBT = auto()  # it may have been applied, or may be yet


def connect(endpoint_url: str | None = None, connect_timeout_s: float = 5, read_timeout_s: float = 20) -> Any:
    """A boto3 client that sends each request once; the rest is as the usual AWS_* variables and files say.

    A server that is not Amazon's own (`endpoint_url`, else AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL) is asked for
    http://host/bucket/key, and is neither sent nor asked for the checksums that many such servers get wrong.
    """
    endpoint_url = endpoint_url or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
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
    return boto3.Session().client("s3", endpoint_url=endpoint_url, config=config)


class S3Store:
    """An ObjectStore in a bucket of S3 or of a server that speaks its protocol, below `prefix` if one is given.

    A version is the ETag, on S3 a digest of the content: equal bytes have equal versions. So a key that goes from A to
    B and back to A satisfies an `update` that names the first A, and `get_if_changed` sees no change (ABA). A protocol
    must not write equal bytes twice to a key that it updates; the protocols here do not, a boundary being monotone.

    `last_modified_ms` of GET and HEAD comes in whole seconds. `client` must be one that does not retry: see `connect`.
    """

    caches = False

    def __init__(self, client: Any, bucket: str, prefix: str = "", *, ids: Ids, page_size: int = 1000):
        if (client.meta.config.retries or {}).get("total_max_attempts") != 1:
            raise ValueError(
                "this client may send a PUT again after a lost answer, and so report a conflict to the writer who won: "
                "make it with impl.stores.s3.connect, or with Config(retries={'total_max_attempts': 1})"
            )
        self._client = client
        self._bucket = bucket
        self._prefix = prefix.strip("/") and prefix.strip("/") + "/"
        self._ids = ids
        self._page_size = page_size
        self._bucket_seen = False  # a HEAD's 404 does not say which of the bucket and the object is not there

    async def create(self, key: str, body: bytes) -> str:
        return await self._put(AlreadyExists, key, body, IfNoneMatch="*")

    async def update(self, key: str, body: bytes, version: str) -> str:
        return await self._put(PreconditionFailed, key, body, IfMatch=version)

    async def put(self, key: str, body: bytes) -> str:
        return await self._put(Unavailable, key, body)

    async def get(self, key: str) -> Object:
        return await self._read(self._fetch, **self._at(key))

    async def get_if_changed(self, key: str, version: str) -> Object | None:
        return await self._read(self._fetch, **self._at(key), IfNoneMatch=version)

    async def head(self, key: str) -> Entry:
        reply = await self._read(self._client.head_object, **self._at(key))
        return Entry(key, reply["ContentLength"], to_ms(reply["LastModified"]), reply["ETag"])

    async def list_page(self, prefix: str, after: str = "") -> Page:
        """One LIST, and further ones while S3 answers with a page that is empty and yet not the last."""
        where = {"Bucket": self._bucket, "Prefix": self._prefix + prefix, "MaxKeys": self._page_size}
        if after:
            where["StartAfter"] = self._prefix + after
        while True:
            reply = await self._read(self._client.list_objects_v2, **where)
            entries = tuple(self._entries(reply))
            if entries or not reply["IsTruncated"]:
                return Page(entries, reply["IsTruncated"])
            token = reply.get("NextContinuationToken")
            if token in (None, where.get("ContinuationToken")):
                raise ListingNeverEnds(prefix, after)
            where["ContinuationToken"] = token

    async def delete(self, key: str) -> None:
        _, error, _ = await self._send(self._client.delete_object, **self._at(key))
        if error and code_of(error) != "NoSuchKey":
            raise self._unanswered(error) from error

    async def _put(self, conflict: type[Definite], key: str, body: bytes, **condition: str) -> str:
        """One PUT, resolved as told above; `conflict` is raised when its condition does not hold."""
        put_id = self._ids.new_id()
        request = {**self._at(key), "Body": body, "Metadata": {PUT_ID: put_id}, **condition}
        reply, error, sent_again = await self._send(self._client.put_object, **request)
        if not error:
            return reply["ETag"]
        lost = status_of(error) == 412 or code_of(error) == "NoSuchKey"
        if verdict_of(error) is Verdict.DOUBT or (lost and sent_again):
            version = await self._version_put_by(put_id, key)
            if version:
                return version
        if lost:
            raise conflict(key) from error  # all that went before, if anything did, was refused without effect
        raise self._unanswered(error) from error

    async def _version_put_by(self, put_id: str, key: str) -> str | None:
        """The version of the object at `key` if the PUT with this id wrote it; None proves nothing."""
        try:
            reply = await self._read(self._client.head_object, **self._at(key))
        except Definite:
            return None
        metadata = {name.lower(): value for name, value in reply["Metadata"].items()}  # many servers write X-Amz-Meta-...
        return reply["ETag"] if metadata.get(PUT_ID) == put_id else None

    async def _send(self, call: Callable, **request: Any) -> tuple[dict, Exception | None, bool]:
        """A mutation's reply or its last error, and whether it was sent again after an error that said it may be."""
        last, attempt = None, 0
        for attempt in range(ATTEMPTS):
            await pause(attempt)
            try:
                return await asyncio.to_thread(call, **request), None, attempt > 0
            except FAILURES as error:
                last = error
            if verdict_of(last) is not Verdict.AGAIN:
                break
        return {}, last, attempt > 0

    async def _read(self, call: Callable, **request: Any) -> Any:
        """The reply to a read, which is sent again for want of one; None for 304. Raises NotFound, Unavailable."""
        last: Exception = AssertionError("there is a first attempt")
        for attempt in range(ATTEMPTS):
            await pause(attempt)
            try:
                reply = await asyncio.to_thread(call, **request)
                self._bucket_seen = True
                return reply
            except FAILURES as error:
                last = error
            if verdict_of(last) is Verdict.REFUSED:
                break
        if status_of(last) == 304:
            return None
        if status_of(last) == 404 and code_of(last) != "NoSuchBucket" and "Key" in request:
            if code_of(last) != "NoSuchKey":
                await self._check_bucket()
            raise NotFound(request["Key"].removeprefix(self._prefix)) from last
        raise Unavailable(self._explain(last)) from last

    async def _check_bucket(self) -> None:
        """Raises Unavailable if there is no such bucket."""
        if not self._bucket_seen:
            await self._read(self._client.head_bucket, Bucket=self._bucket)

    def _fetch(self, **request: Any) -> Object:
        reply = self._client.get_object(**request)
        return Object(reply["Body"].read(), reply["ETag"], to_ms(reply["LastModified"]))

    def _entries(self, reply: dict) -> Any:
        for found in reply.get("Contents", ()):
            key = found["Key"].removeprefix(self._prefix)
            if not fault_of(key):  # as is the «folder» that a console makes, whose key ends in a slash
                yield Entry(key, found["Size"], to_ms(found["LastModified"]), found["ETag"])

    def _at(self, key: str) -> dict[str, str]:
        check_key(key)
        return {"Bucket": self._bucket, "Key": self._prefix + key}

    def _unanswered(self, error: Exception) -> StoreError:
        doubt = verdict_of(error) is Verdict.DOUBT
        return OutcomeUnknown(self._explain(error)) if doubt else Unavailable(self._explain(error))

    def _explain(self, error: Exception) -> str:
        place = f"bucket {self._bucket!r} at {self._client.meta.endpoint_url}"
        if isinstance(error, exceptions.NoCredentialsError):
            return f"{place}: no credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
        head_bucket = getattr(error, "operation_name", "") == "HeadBucket"
        if code_of(error) == "NoSuchBucket" or (head_bucket and status_of(error) == 404):
            return f"{place}: there is no such bucket; make it, or correct its name"
        return f"{place}: {error}"


def verdict_of(error: Exception) -> Verdict:
    status = status_of(error)
    if status in (409, 429) or isinstance(error, NO_CONNECTION):
        return Verdict.AGAIN
    if 300 <= status < 500 and status != 408:
        return Verdict.REFUSED
    return Verdict.REFUSED if isinstance(error, NOT_SENT) else Verdict.DOUBT


def status_of(error: Exception) -> int:
    """The HTTP status; 0 where there was no answer."""
    return error.response["ResponseMetadata"].get("HTTPStatusCode", 0) if isinstance(error, ClientError) else 0


def code_of(error: Exception) -> str:
    """S3's own word for the error; the status as text where the answer had no body, as to HEAD."""
    return error.response["Error"].get("Code", "") if isinstance(error, ClientError) else ""


def to_ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


async def pause(attempt: int) -> None:
    if attempt:
        await asyncio.sleep(PAUSE_S * 2 ** (attempt - 1) * random.uniform(0.5, 1.5))

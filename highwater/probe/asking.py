"""Safety: a probe touches nothing outside of its own prefix, and leaves nothing there.

This module sends the requests of a probe. Each is sent once, and its status is reported as it came. With `volley` many clients
send requests at the same moment: all have sent everything but the last byte, and then the last bytes go out within microseconds
of each other.
"""

import socket
import ssl
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from http.client import HTTPException, HTTPResponse
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, ConnectionClosedError
from botocore.parsers import ResponseParserError
from urllib3.exceptions import HTTPError

from highwater.impl.stores.bounded_http import Allowance, CountedSocket, bound
from highwater.impl.stores.bounds import BoundExceeded, usual_bounds
from highwater.impl.stores.s3 import bound_of, code_of, status_of, to_ms

TIMEOUT_S = 30
FAILURES = (BotoCoreError, ResponseParserError, HTTPError, BoundExceeded)
READS = ("get", "head", "list")  # how the names of calls begin that change nothing


class Answer(NamedTuple):
    """A store's answer to one request."""

    status: int  # 0: no answer
    version: str = ""  # ETag
    body: bytes = b""
    code: str = ""  # S3's code for an error
    last_modified_ms: int = 0
    metadata: dict[str, str] = {}  # noqa: RUF012

    @property
    def done(self) -> bool:
        return 200 <= self.status < 300

    @property
    def refused(self) -> bool:
        """True if the status says that nothing was done."""
        return 300 <= self.status < 500 and self.status != 408

    @property
    def definite(self) -> bool:
        """True if the status says that the request was done, or that it was not."""
        return self.done or self.refused

    @property
    def failed(self) -> bool:
        """True if the server failed at this request. A busy one answers 429 or 503."""
        return self.status in (0, 500)

    def __str__(self) -> str:
        return f"{self.status} {self.code}".strip() if self.status else "no answer"


def connect(endpoint_url: str | None, through: str | None = None) -> Any:
    """Return a client that sends each request once.

    With `through` requests go to that URL, but are signed for the server's own name.
    """
    config = Config(retries={"total_max_attempts": 1, "mode": "standard"}, connect_timeout=5, read_timeout=TIMEOUT_S,
                    max_pool_connections=64, signature_version="s3v4", request_checksum_calculation="when_required",
                    response_checksum_validation="when_required")
    if endpoint_url or through:
        config = config.merge(Config(s3={"addressing_style": "path"}))
    client = bound(boto3.Session().client("s3", endpoint_url=through or endpoint_url, config=config), usual_bounds())
    if through:
        name = urlsplit(endpoint_url).netloc
        client.meta.events.register("before-sign.s3", lambda request, **_: request.headers.__setitem__("Host", name))
    return client


def sent(call: Callable[..., dict], request: dict[str, Any]) -> dict:
    """Send a request. A read is sent again if its connection was closed: some servers close one after an error, without a
    word, and the next request may be on its way by then."""
    try:
        return call(**request)
    except ConnectionClosedError:
        if not call.__name__.startswith(READS):
            raise
        return call(**request)


class Asker:
    """Sends requests to a bucket below a prefix of its own; each `place` is the folder of one line of the probe."""

    def __init__(self, client: Any, bucket: str, prefix: str):
        self.client, self.bucket, self.prefix = client, bucket, prefix
        self.undecided: list[Answer] = []  # answers that say nothing about the store's guarantees

    def place(self, name: str) -> "Asker":
        return Asker(self.client, self.bucket, f"{self.prefix}{name}/")

    def at(self, key: str) -> dict[str, str]:
        return {"Bucket": self.bucket, "Key": self.prefix + key}

    def ask(self, call: Callable[..., dict], **request: Any) -> Answer:
        answer = self._answer(call, request)
        writes = not call.__name__.startswith(READS)
        if answer.status in (0, 429, 500, 503) or (writes and answer.status in (401, 403)):
            self.undecided.append(answer)
        return answer

    def _answer(self, call: Callable[..., dict], request: dict[str, Any]) -> Answer:
        try:
            reply = sent(call, request)
            body = reply["Body"].read() if hasattr(reply.get("Body"), "read") else b""
        except ClientError as error:
            return Answer(status_of(error), code=code_of(error))
        except FAILURES as error:
            return Answer(0, code=str(bound_of(error) or type(error).__name__))
        modified = reply.get("LastModified")
        version = reply.get("ETag") or (reply.get("CopyObjectResult") or {}).get("ETag", "")
        return Answer(reply["ResponseMetadata"]["HTTPStatusCode"], version, body, "",
                      to_ms(modified) if isinstance(modified, datetime) else 0, reply.get("Metadata") or {})

    def answers(self) -> bool:
        """Return whether the server answers at all, be it with an error."""
        return self._answer(self.client.head_bucket, {"Bucket": self.bucket}).status != 0

    def put(self, key: str, body: bytes, **more: Any) -> Answer:
        return self.ask(self.client.put_object, **self.at(key), Body=body, **more)

    def create(self, key: str, body: bytes) -> Answer:
        return self.put(key, body, IfNoneMatch="*")

    def update(self, key: str, body: bytes, version: str) -> Answer:
        return self.put(key, body, IfMatch=version)

    def get(self, key: str, **more: Any) -> Answer:
        return self.ask(self.client.get_object, **self.at(key), **more)

    def head(self, key: str, **more: Any) -> Answer:
        return self.ask(self.client.head_object, **self.at(key), **more)

    def delete(self, key: str, **more: Any) -> Answer:
        return self.ask(self.client.delete_object, **self.at(key), **more)

    def listed(self, prefix: str = "", **more: Any) -> list[str]:
        """Return the keys of all pages. Raises ClientError, BoundExceeded."""
        keys, bounds, begun_s = list[str](), usual_bounds(), time.monotonic()
        for _ in range(1000):
            reply = sent(self.client.list_objects_v2, {"Bucket": self.bucket, "Prefix": self.prefix + prefix, **more})
            keys += [found["Key"].removeprefix(self.prefix) for found in reply.get("Contents", ())]
            if not reply["IsTruncated"]:
                return keys
            if len(keys) > bounds.listing_keys:
                raise BoundExceeded(bounds, "listing_keys", f"a listing goes on after {len(keys):,} keys")
            if time.monotonic() - begun_s > bounds.listing_s:
                raise BoundExceeded(bounds, "listing_s", f"a listing has taken {time.monotonic() - begun_s:.0f} s")
            more = {**more, "ContinuationToken": reply["NextContinuationToken"]}
        raise RuntimeError("after 1,000 pages of a listing there is still no end")

    def clean(self) -> list[str]:
        """Delete everything below the prefix, and unfinished multipart uploads. Return the keys that could not be deleted."""
        left = []
        with suppress(ClientError, *FAILURES):
            for upload in self.client.list_multipart_uploads(Bucket=self.bucket, Prefix=self.prefix).get("Uploads", ()):
                self.ask(self.client.abort_multipart_upload, Bucket=self.bucket, Key=upload["Key"], UploadId=upload["UploadId"])
        try:
            keys = self.listed()
        except (ClientError, *FAILURES, RuntimeError, KeyError):
            return [f"{self.prefix}* (it cannot be listed any more)"]
        for key in keys:
            if not self.delete(key).done:
                left.append(self.prefix + key)
        return left

    def signed(self, of: str, key: str) -> str:
        """Return a presigned URL for a request with any body and conditions."""
        return self.client.generate_presigned_url(of, self.at(key), ExpiresIn=900)


class Shot(NamedTuple):
    """One request of a volley."""

    method: str
    url: str
    fields: dict[str, str]
    body: bytes


class Clients:
    """A set of connections that send requests at the same moment."""

    def __init__(self, number: int):
        self._number, self._bounds = number, usual_bounds()
        self._open: list[tuple[tuple, socket.socket]] = []

    def volley(self, shots: Sequence[Shot]) -> list[Answer]:
        """Send all shots at the same moment; return the answers in order."""
        sockets = [self._socket(number, shot.url) for number, shot in enumerate(shots)]
        raw = [bytes_of(shot) for shot in shots]
        for one, data in zip(sockets, raw):
            one.sendall(data[:-1])
        for one, data in zip(sockets, raw):
            one.sendall(data[-1:])
        until_s = time.monotonic() + TIMEOUT_S
        return [self._reply(number, shot.method, until_s) for number, shot in enumerate(shots)]

    def close(self) -> None:
        for _, one in self._open:
            one.close()
        self._open.clear()

    def _socket(self, number: int, url: str) -> socket.socket:
        parts = urlsplit(url)
        where = (parts.scheme, parts.hostname, parts.port or {"https": 443}.get(parts.scheme, 80))
        if number < len(self._open) and self._open[number][0] == where:
            self._open[number][1].settimeout(TIMEOUT_S)
            return self._open[number][1]
        one = socket.create_connection(where[1:], TIMEOUT_S)
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if parts.scheme == "https":
            one = ssl.create_default_context().wrap_socket(one, server_hostname=parts.hostname)
        self._open[number:number + 1] = [(where, one)]
        return one

    def _reply(self, number: int, method: str, until_s: float) -> Answer:
        _, one = self._open[number]
        one.settimeout(max(0.1, until_s - time.monotonic()))
        try:
            reply = HTTPResponse(CountedSocket(one, Allowance(self._bounds)), method=method)  # pyright: ignore[reportArgumentType]
            reply.begin()
            reply.read()
            answer, lasts = Answer(reply.status, reply.headers.get("ETag") or ""), not reply.will_close
        except (OSError, HTTPException, BoundExceeded) as error:
            answer, lasts = Answer(0, code=type(error).__name__), False
        if not lasts:
            one.close()
            self._open[number] = ((), one)  # the next shot opens another
        return answer


def bytes_of(shot: Shot) -> bytes:
    parts = urlsplit(shot.url)
    fields = {"Host": parts.netloc, "Content-Length": str(len(shot.body)), **shot.fields}
    lines = [f"{shot.method} {parts.path}?{parts.query} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    return "\r\n".join([*lines, "", ""]).encode() + shot.body

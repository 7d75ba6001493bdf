"""Safety: the times in a log are true: a request that took effect did so between `sent` and `answered`.

This module reads and writes the log of a recorder (docs/checking/recorder.md): the requests of other programs to a server with
the S3 API. The log is NDJSON, version 1, one object a line, in the order in which the requests ended:

    {"kind":"log","v":1, ...}        the first line
    {"kind":"request", ...}          a Request
    {"kind":"note", ...}             a rule was added or took effect, or a request is held: for people and scripts
    {"kind":"end","requests":812}    the last line; without it requests that were in flight at the end may be missing

Four moments of every request have places in one order. `called`: the head of the request has come from the client. `sent`: its
first bytes go to the server. `answered`: the head of the reply has come from the server. `returned`: the reply has gone to the
client. 0 means that the moment never came.

One request ended before another began if its `returned` is less than the other's `called`. Of two requests with overlapping
[sent, answered] either may have come first. A request that was sent and not answered may have had its effect at any time after
`sent`, or never.
"""

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TextIO
from urllib.parse import parse_qsl, unquote, unquote_plus, urlsplit

from highwater.outside import json_of, quoted

VERSION = 1
OPS = ("get", "head", "list", "put", "delete", "copy", "delete_many", "begin", "part", "complete", "abort", "other")


class Body(NamedTuple):
    """The body of an object that a PUT sent or a GET received, without its framing.

    For other requests it is the body that was sent; for a DELETE of many keys, also the one received.
    """

    size_bytes: int = 0
    sha256: str = ""  # hex; empty if the body was incomplete
    data: bytes | None = b""  # None: longer than the recorder keeps


class Listed(NamedTuple):
    """One entry of a listing."""

    key: str
    size_bytes: int
    version: str  # ETag
    last_modified: str  # as the server wrote it


NOTHING: dict[str, str] = {}  # never written to


class Request(NamedTuple):
    """One request and its reply, as the recorder saw them."""

    number: int  # rises with each request of the log, in the order of `called`
    client: str  # the client to whose port it came
    op: str  # one of OPS
    method: str
    bucket: str
    key: str  # for a list, its prefix
    query: dict[str, str] = NOTHING
    conditions: dict[str, str] = NOTHING  # if-match, if-none-match, range, x-amz-copy-source, ..., in lower case
    called: int = 0
    sent: int = 0
    answered: int = 0
    returned: int = 0
    times_us: tuple[int, int, int, int] = (0, 0, 0, 0)  # the four moments, since 1970, by a clock that never goes back
    status: int = 0  # the server's status; 0: none came
    told: int = 0  # the status that the client got; 0: none was delivered, or the client had gone
    code: str = ""  # S3's code for an error, if the reply had one
    version: str = ""  # ETag of the reply
    last_modified: str = ""  # as the server wrote it
    sent_body: Body = Body()
    got_body: Body = Body()
    listed: tuple[Listed, ...] = ()
    truncated: bool = False  # for a list: more entries follow
    rule: str = ""  # the rule that took effect

    @property
    def pending(self) -> bool:
        """True if the outcome is indeterminate: the request was sent and not answered."""
        return bool(self.sent) and not self.answered


class Log(NamedTuple):
    """A whole log."""

    requests: list[Request]  # in the order of `called`
    head: dict  # the first line
    whole: bool  # True if the recorder ended normally


EMPTY = Request(0, "", "", "", "", "")
CONDITIONS = frozenset(("if-match", "if-none-match", "if-modified-since", "if-unmodified-since", "range", "x-amz-copy-source",
                        "x-amz-copy-source-if-match", "x-amz-copy-source-if-none-match"))


def to_json(request: Request) -> str:
    fields: dict[str, Any] = {name: value for name, value in zip(Request._fields, request) if value != getattr(EMPTY, name)}
    for name in ("sent_body", "got_body"):
        if name in fields:
            fields[name] = body_to_json(fields[name])
    return json.dumps({"kind": "request", **fields}, separators=(",", ":"))


def body_to_json(body: Body) -> dict:
    """Return a body as JSON: text if it is UTF-8, so that people can read it, else base64."""
    found: dict = {"size": body.size_bytes, "sha256": body.sha256}
    if body.data is not None:
        try:
            found["text"] = body.data.decode()
        except UnicodeDecodeError:
            found["base64"] = b64encode(body.data).decode()
    return found


def from_json(line: str) -> Request:
    """Parse a line. Raises ValueError if it is not a request."""
    try:
        return request_of(json_of(line))
    except ValueError as error:
        raise ValueError(f"not a request of a log: {error}: {quoted(line)}") from None


def request_of(fields: dict) -> Request:
    try:
        if fields.pop("kind") != "request":
            raise ValueError("its kind is not request")
        for name in ("sent_body", "got_body"):
            if name in fields:
                fields[name] = body_of(fields[name])
        if "listed" in fields:
            fields["listed"] = tuple(Listed(*found) for found in fields["listed"])
        if "times_us" in fields:
            fields["times_us"] = tuple(fields["times_us"])
        request = EMPTY._replace(**fields)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(str(error)) from None
    for name, value, usual in zip(Request._fields, request, EMPTY):
        if type(value) is not type(usual):
            raise ValueError(f"{name} is {quoted(value)}")
    if request.op not in OPS:
        raise ValueError(f"op is {request.op!r}")
    if not 0 < request.called <= request.sent <= request.answered <= request.returned:  # nearly all requests pass this test
        edges = [edge for edge in (request.called, request.sent, request.answered, request.returned) if edge]
        if edges != sorted(edges) or min(edges, default=1) < 1:
            raise ValueError(f"its moments are {edges}, but they must ascend")
    return request


def body_of(found: dict) -> Body:
    data = found["text"].encode() if "text" in found else b64decode(found["base64"]) if "base64" in found else None
    return Body(found["size"], found["sha256"], data)


def read(lines: Iterable[str]) -> Log:
    """Read a log. Raises ValueError, with the number of the line, if it is not a log of this version."""
    requests, head, ended = [], None, False
    for number, fields in numbered(lines):
        kind = fields.get("kind")
        try:
            if head is None:
                if kind != "log" or fields.get("v") != VERSION:
                    raise ValueError(f"this is not a log of version {VERSION}, which begins with a line of kind log")
                head = fields
            elif ended:
                raise ValueError("there is a line after the line of kind end: the log is damaged")
            elif kind == "request":
                requests.append(request_of(fields))
            elif kind == "end":
                if fields.get("requests") != len(requests):
                    raise ValueError(f"it has {len(requests)} requests, and its end counts {fields.get('requests')}: the "
                                     "log is damaged")
                ended = True
            elif kind != "note":
                raise ValueError(f"its kind is {kind!r}")
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
    if head is None:
        raise ValueError("the log is empty")
    return Log(sorted(requests, key=lambda request: request.called), head, ended)


def numbered(lines: Iterable[str]) -> Iterator[tuple[int, dict]]:
    """Yield each line's number and fields. An incomplete last line, left by a recorder that was killed, is skipped."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            fields = json_of(line)
            if not isinstance(fields, dict):
                raise ValueError("not a JSON object")
        except ValueError as error:
            if not line.endswith("\n"):
                return
            raise ValueError(f"line {number}: {error}") from None
        yield number, fields


def write(file: TextIO, **line: object) -> None:
    """Write a line that is not a request."""
    file.write(json.dumps(line, separators=(",", ":")) + "\n")


def named(method: str, target: str, has_source: bool = False) -> tuple[str, str, str, dict[str, str]]:
    """Return (op, bucket, key, query) of a request. `target` is like /bucket/a/key?list-type=2.

    `has_source` says that the header x-amz-copy-source is present.
    """
    parts = urlsplit(target)
    bucket, _, key = unquote(parts.path.lstrip("/"), errors="surrogateescape").partition("/")
    query = dict(parse_qsl(parts.query, keep_blank_values=True, errors="surrogateescape"))
    query.pop("x-id", None)
    return op_of(method, bucket, key, query, has_source), bucket, key or query.get("prefix", ""), query


def op_of(method: str, bucket: str, key: str, query: dict[str, str], has_source: bool) -> str:
    sub = query.keys() & {"acl", "tagging", "versioning", "location", "versions", "policy", "uploads", "lifecycle", "cors",
                          "retention", "legal-hold", "attributes", "torrent", "object-lock", "encryption"}
    if key and "uploadId" in query:
        return {"PUT": "part", "POST": "complete", "DELETE": "abort"}.get(method, "other")
    if key and not sub:
        if method == "PUT":
            return "copy" if has_source else "put"
        return {"GET": "get", "HEAD": "head", "DELETE": "delete"}.get(method, "other")
    if key:
        return "begin" if method == "POST" and "uploads" in query else "other"
    if bucket and method == "POST" and "delete" in query:
        return "delete_many"
    return "list" if bucket and method == "GET" and not sub else "other"


FIELD = {name: re.compile(rf"<{name}>([^<]*)</{name}>") for name in (
    "Key", "Size", "ETag", "LastModified", "IsTruncated", "Code", "EncodingType")}
CONTENTS = re.compile(r"<Contents>(.*?)</Contents>", re.DOTALL)
ENTITIES = {"lt": "<", "gt": ">", "quot": '"', "apos": "'", "amp": "&"}


def listing_of(body: bytes) -> tuple[tuple[Listed, ...], bool]:
    """Return the entries of a ListBucketResult, and whether more follow.

    The reply says whether its keys are encoded. Some servers ignore a client's encoding-type=url.
    """
    text = body.decode("utf-8", "surrogateescape")
    listed, encoded = [], field(text, "EncodingType") == "url"
    for found in CONTENTS.findall(text):
        key = field(found, "Key")
        listed.append(Listed(unquote_plus(key, errors="surrogateescape") if encoded else key, size_of(field(found, "Size")),
                             field(found, "ETag"), field(found, "LastModified")))
    return tuple(listed), field(text, "IsTruncated") == "true"


def size_of(text: str) -> int:
    """Return the size that a listing has; 0 if it has none, or one that no object has."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0


def field(text: str, name: str) -> str:
    """Return the content of the first element with that name, entities decoded; "" if there is none."""
    found = FIELD[name].search(text)
    return re.sub("&(#x?[0-9A-Fa-f]+|[a-z]+);", entity, found[1]) if found else ""


def entity(match: re.Match[str]) -> str:
    name = match[1]
    if name[0] != "#":
        return ENTITIES.get(name, match[0])
    try:
        return chr(int(name[2:], 16) if name[1] in "xX" else int(name[1:]))
    except (ValueError, OverflowError):
        return match[0]  # of no character

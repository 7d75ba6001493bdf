"""Safety: nothing is made up: a request is not judged by facts that an access log does not contain.

This module reads S3 server access logs, as Amazon and compatible servers write them. Their fields give the client, the
operation, the key, the status, sizes, and the time. They have no conditions, no versions and no contents. The time is the
request's arrival in whole seconds; the answer came within the logged total time.

So only a few failures can be detected: a read of a deleted object, the deletion of the latest file, and, if there are no
boundary files, an id that was created twice. Lines may come in any order. A few may be missing, because no server promises a
complete log.
"""

import re
from collections.abc import Iterable
from datetime import datetime
from urllib.parse import unquote

from highwater.traces.recorded.s3log import EMPTY, Body, Request, named

LINE = re.compile(r'(?P<owner>\S+) (?P<bucket>\S+) \[(?P<time>[^\]]+)\] (?P<ip>\S+) (?P<requester>\S+) (?P<id>\S+) '
                  r'(?P<operation>\S+) (?P<key>\S+) "(?P<request>[^"]*)" (?P<status>\S+) (?P<code>\S+) (?P<sent>\S+) '
                  r'(?P<size>\S+) (?P<total_ms>\S+) ')
UNSAID = "unsaid"  # stands among a request's conditions if the log does not say whether it had any


def looks_like_one(line: str) -> bool:
    """Return whether the line is one of an S3 server access log."""
    return LINE.match(line) is not None


def read(lines: Iterable[str]) -> list[Request]:
    """Return the requests in the order of their times. Raises ValueError, with the number of the line."""
    found = []
    for number, line in enumerate(lines, 1):
        match = LINE.match(line)
        if match:
            found.append(request_of(match, number))
        elif line.strip():
            raise ValueError(f"line {number}: not a line of an S3 server access log: {line[:80]!r}")
    return sorted(found, key=lambda request: request.called)


def request_of(match: re.Match, number: int) -> Request:
    try:
        began_us = int(datetime.strptime(match["time"], "%d/%b/%Y:%H:%M:%S %z").timestamp()) * 1_000_000
        status = int(match["status"])
    except ValueError as error:
        raise ValueError(f"line {number}: {error}") from None
    target = [*match["request"].split(" "), "", ""][1]
    method = match["request"].partition(" ")[0]
    op, bucket, key, query = named(method, target, match["operation"].endswith("COPY.OBJECT"))
    if bucket != match["bucket"]:  # virtual-hosted style: the path is only the key
        op, _, key, query = named(method, f"/{match['bucket']}{target}", match["operation"].endswith("COPY.OBJECT"))
    size, total_ms = (int(match[name]) if match[name].isdigit() else 0 for name in ("size", "total_ms"))
    ended_us = began_us + 1_000_000 + 1000 * total_ms
    return EMPTY._replace(
        number=number, client=match["ip"] if match["requester"] == "-" else f"{match['requester']} {match['ip']}", op=op,
        method=method, bucket=match["bucket"], key=unquote(unquote(match["key"])) if match["key"] != "-" else key, query=query,
        conditions={UNSAID: ""}, called=began_us, sent=began_us, answered=ended_us, returned=ended_us,
        times_us=(began_us, began_us, ended_us, ended_us), status=status, told=status,
        code="" if match["code"] == "-" else match["code"], sent_body=Body(size, "", None), got_body=Body(size, "", None))

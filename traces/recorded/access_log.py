"""Safety: nothing is made up: what an access log does not say of a request nobody is held to.

S3 server access logs, as Amazon and compatible servers write them, as far as their fields allow: who, what, which key, the
status, sizes, and when. They have no conditions, no versions and no contents; their time is in whole seconds, of the request's
arrival, and a request was answered within what they call its total time. So little is decided: that what was deleted is read,
that the latest is, and, where there are no boundary files, that an id was created twice. Lines may come in any order; a few may
be missing: nobody promises all.
"""

import re
from collections.abc import Iterable
from datetime import datetime
from urllib.parse import unquote

from highwater.traces.recorded.s3log import EMPTY, Body, Request, named

LINE = re.compile(r'(?P<owner>\S+) (?P<bucket>\S+) \[(?P<time>[^\]]+)\] (?P<ip>\S+) (?P<requester>\S+) (?P<id>\S+) '
                  r'(?P<operation>\S+) (?P<key>\S+) "(?P<request>[^"]*)" (?P<status>\S+) (?P<code>\S+) (?P<sent>\S+) '
                  r'(?P<size>\S+) (?P<total_ms>\S+) ')
UNSAID = "unsaid"  # in the conditions of a request: whether it had any is not in the log


def looks_like_one(line: str) -> bool:
    return LINE.match(line) is not None


def read(lines: Iterable[str]) -> list[Request]:
    """In the order of their times. Raises ValueError, with the number of the line."""
    found = []
    for number, line in enumerate(lines, 1):
        match = LINE.match(line)
        if match:
            found.append(request_of(match, number))
        elif line.strip():
            raise ValueError(f"line {number}: no line of an S3 server access log: {line[:80]!r}")
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
    if bucket != match["bucket"]:  # virtual-hosted style: the path is the key alone
        op, _, key, query = named(method, f"/{match['bucket']}{target}", match["operation"].endswith("COPY.OBJECT"))
    size, total_ms = (int(match[name]) if match[name].isdigit() else 0 for name in ("size", "total_ms"))
    ended_us = began_us + 1_000_000 + 1000 * total_ms
    return EMPTY._replace(
        number=number, client=match["ip"] if match["requester"] == "-" else f"{match['requester']} {match['ip']}", op=op,
        method=method, bucket=match["bucket"], key=unquote(unquote(match["key"])) if match["key"] != "-" else key, query=query,
        conditions={UNSAID: ""}, called=began_us, sent=began_us, answered=ended_us, returned=ended_us,
        times_us=(began_us, began_us, ended_us, ended_us), status=status, told=status,
        code="" if match["code"] == "-" else match["code"], sent_body=Body(size, "", None), got_body=Body(size, "", None))

"""Safety: every answer in a log is compared with an object store that is linearizable key by key and lists what it holds.

This is the model of the store for a log that was recorded elsewhere (traces/recorded/s3log.py). The content of a key is not
known until an answer tells it; from then on it follows from the requests in the log. All changes can be undone, for a search
(traces/recorded/orders.py).
"""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from hashlib import blake2b, sha256
from typing import Any, NamedTuple

from highwater.traces.recorded.orders import NEVER, Refusal, Step
from highwater.traces.recorded.s3log import Body, Request, field
from highwater.traces.store import ABSENT, SOME, misread, same, shown

Key = tuple[str, str]  # bucket, key
RANGE = re.compile(r"bytes=(\d*)-(\d*)")  # one range; several are answered as one body with parts
OBJECT = re.compile(r"<Object>(.*?)</Object>", re.DOTALL)
ERROR = re.compile(r"<Error>(.*?)</Error>", re.DOTALL)  # the error of one key in a DELETE of many keys
READS = ("get", "head", "list")


class Change(NamedTuple):
    """The effect of a request on one key, or its question about one key.

    `unsettled` has, for a listing, the keys that were changing while it was made.
    """

    request: Request
    key: Key
    op: str  # get head list put delete
    unsettled: frozenset[Key] = frozenset()


class Table(dict):
    """Facts on which answers depend; each entry counts in the sum of its store. `number` identifies the table in its store."""

    def __init__(self, number: int):
        self.number = number


class Store:
    """A store whose content is known as far as the log tells it.

    `searched`: its changes are noted, so that a search can undo them. Without it, `undo` and `sum` are of no use.

    `versions` has each key of which anything is known. `bodies` has the body of each version of a key, as far as the log has
    it.
    """

    def __init__(self, searched: bool = True) -> None:
        self.searched = searched
        self.trail: list[tuple[dict, Any, Any]] = []  # (table, key, previous value)
        self.tables: list[Table] = []
        self.sum = 0  # the sum of the numbers of all entries in the tables
        self.numbers: dict[tuple, int] = defaultdict(self.drawn)  # (table, key, value) -> a unique number of 128 bits
        self.versions: dict[Key, str] = self.table()
        self.bodies: dict[tuple[Key, str], Body] = self.table()
        self.present: dict[Key, dict[Key, str]] = {}  # (bucket, "folder/" or "") -> version of each existing object

    # --- tables, whose changes can be undone

    def table(self) -> Table:
        """Make a new table.

        Stores with equal tables have equal sums; stores with different tables practically never do. Keeping all tables at each
        point of a search would take too much memory.
        """
        self.tables.append(Table(len(self.tables)))
        return self.tables[-1]

    def drawn(self) -> int:
        return int.from_bytes(blake2b(b"%d" % len(self.numbers), digest_size=16).digest())

    def put(self, table: dict, key: Any, value: Any) -> None:
        """Set an entry of a table; None removes it."""
        if self.searched:
            before = table.get(key)
            self.trail.append((table, key, before))
            self.set(table, key, before, value)
        elif value is None:
            table.pop(key, None)
        else:
            table[key] = value

    def set(self, table: dict, key: Any, before: Any, value: Any) -> None:
        if isinstance(table, Table):
            if before is not None:
                self.sum -= self.numbers[table.number, key, before]
            if value is not None:
                self.sum += self.numbers[table.number, key, value]
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value

    def set_version(self, key: Key, version: str) -> None:
        self.put(self.versions, key, version)
        self.put(self.present.setdefault((key[0], key[1][:key[1].rfind("/") + 1]), {}), key, version or None)

    def mark(self) -> int:
        return len(self.trail)

    def undo(self, mark: int) -> None:
        while len(self.trail) > mark:
            table, key, before = self.trail.pop()
            self.set(table, key, table.get(key), before)

    # --- the objects

    def version(self, key: Key) -> str | None:
        """Return the version of a key; None if it is not known."""
        return self.versions.get(key)

    def answers(self, change: Change) -> Refusal | None:
        """Return why the store could not give this answer now. If it could, learn from the answer."""
        request, key, op, _ = change
        if op == "list":
            return self.lists(request, change.unsettled)
        known = self.versions.get(key)
        if op in ("get", "head"):
            return self.reads(request, key, known)
        return self.conditional(request, known) if op == "put" else self.deleted(request, known)

    def reads(self, request: Request, key: Key, known: str | None) -> Refusal | None:
        status = request.status
        if status not in (200, 206, 304, 404):
            return None
        version = request.conditions.get("if-none-match", SOME) if status == 304 else request.version or SOME
        why = misread(status, version, known)
        if why:
            return wrong(request, why)
        if known is None:
            self.set_version(key, ABSENT if status == 404 else version)
        if status == 200 and request.op == "get":
            body = self.bodies.get((key, known or version))
            if body and differ(body, request.got_body):
                return wrong(request, f"its content is not what version {version} was")
            if body is None:
                self.put(self.bodies, (key, request.version), request.got_body)
        elif status == 206 and (body := self.bodies.get((key, known or version))) and not in_range(request, body):
            return wrong(request, f"{request.conditions['range']} of version {version} is something else")
        return None

    def conditional(self, request: Request, known: str | None) -> Refusal | None:
        """Judge a PUT by its condition. A store may take another form of the version, or answer it with 412."""
        if_absent, if_version = "if-none-match" in request.conditions, asked_for(request)
        if 200 <= request.status < 300 or not request.answered:
            if if_absent and known:
                return wrong(request, f"there is {shown(known)}")
            if if_version is not None and known is not None and not same(known, if_version):
                return wrong(request, f"there is {shown(known)}, and not {if_version}")
        elif request.status == 412:
            if if_absent and known == ABSENT:
                return wrong(request, "there is nothing")
            if known is not None and known == if_version:
                return wrong(request, f"there is {shown(known)}, as it asks")
        elif request.status == 404 and if_version is not None and known:
            return wrong(request, f"there is {shown(known)}")
        return None

    def deleted(self, request: Request, known: str | None) -> Refusal | None:
        """Judge a DELETE by its condition. For an absent object some servers answer 204, whatever the condition."""
        if_version = asked_for(request)
        if (200 <= request.status < 300 or not request.answered) and if_version is not None and known and (
                not same(known, if_version)):
            return wrong(request, f"there is {shown(known)}, and not {if_version}")
        if request.status == 412 and if_version is not None and known and known == if_version:
            return wrong(request, f"there is {shown(known)}, as it asks")
        if request.status == 404 and known:
            return wrong(request, f"there is {shown(known)}")
        return None

    def lists(self, request: Request, unsettled: frozenset[Key]) -> Refusal | None:
        """Judge a listing: each key that it shows exists, and each existing key in its range is shown.

        It need not show one moment: servers read names, and then look at each object. So keys that were changing meanwhile are
        not judged.
        """
        if request.status != 200 or request.query.get("delimiter"):
            return None
        listed = {(request.bucket, one.key): one.version for one in request.listed}
        for key, version in listed.items():
            if key in unsettled:
                continue
            known = self.versions.get(key)
            if known is not None and not same(known, version or SOME):
                return wrong(request, f"it shows {key[1]}, version {version}, and there is {shown(known)}")
            if known is None:
                self.set_version(key, version or SOME)
        further = "continuation-token" in request.query  # only the server knows where this page begins
        if not request.listed and (further or request.truncated or request.query.get("max-keys") == "0"):
            return None
        first = request.listed[0].key if further else request.query.get("start-after") or request.query.get("marker", "")
        last = request.listed[-1].key if request.truncated else None
        for there in self.under(request.bucket, request.key):
            if there in listed or there in unsettled:
                continue
            key = there[1]
            if key.startswith(request.key) and key > first and (last is None or key <= last):
                return wrong(request, f"{key} is there, {shown(self.versions[there])}, and is not shown")
        return None

    def under(self, bucket: str, prefix: str) -> Iterator[Key]:
        """Yield the existing keys in folders that can contain keys with this prefix."""
        for (of, folder), keys in self.present.items():
            if of == bucket and (folder.startswith(prefix) or prefix.startswith(folder)):
                yield from keys

    def apply(self, change: Change) -> None:
        """Apply a change, if it took effect."""
        request, key, op, _ = change
        if op == "delete" and request.status != 412:
            self.set_version(key, ABSENT)
        elif op == "put" and (200 <= request.status < 300 or not request.answered):
            version = request.version or SOME
            self.set_version(key, version)
            self.put(self.bodies, (key, version), request.sent_body if request.op == "put" else None)


def differ(a: Body, b: Body) -> bool:
    """Return whether two bodies are known to differ."""
    return "" not in (a.sha256, b.sha256) and a.sha256 != b.sha256


def in_range(request: Request, body: Body) -> bool:
    """Return whether the reply to a GET with a Range may be that part of an object; True if the log does not tell."""
    asked = RANGE.fullmatch(request.conditions.get("range", ""))
    if asked is None or asked[0] == "bytes=-" or body.data is None or not request.got_body.sha256:
        return True
    first, last = asked[1], asked[2]
    if not first:
        part = body.data[-int(last):] if int(last) else b""
    else:
        part = body.data[int(first):int(last) + 1 if last else None]
    return sha256(part).hexdigest() == request.got_body.sha256


def asked_for(request: Request) -> str | None:
    """Return the version that If-Match names, SOME for any; None without that condition."""
    version = request.conditions.get("if-match")
    return SOME if version == "*" else version


def wrong(request: Request, why: str) -> Refusal:
    return Refusal("store", f"{request.method} {request.key} was answered with {request.status}, but {why}")


def steps_of(requests: Iterable[Request]) -> tuple[list[Step], list[Request]]:
    """Return the steps, in the order in which they were sent, and the requests whose effect is not known.

    A request that failed with 5xx or has no answer may have had its effect or not. A request that never reached the server is
    left out. A read may be the first answer about a key while that key changes. Such a read counts as a change, because it
    settles what was there before.
    """
    requests = [*requests]
    steps, unknown, versions = [], [], versions_of(requests)
    for request in requests:
        if not request.sent:
            continue
        changes = [*changes_of(request)]
        if not changes and request.op not in ("begin", "part", "abort"):
            unknown.append(request)
        for change in changes:
            reads = change.op in READS
            answered = request.answered if request.answered and change.request.status < 500 else NEVER
            if reads and answered == NEVER:  # a read without an answer
                answered = max(request.answered, request.sent + 1)
                change = change._replace(request=request._replace(status=request.status or 500))
            if not reads and answered != NEVER and not known_status(request):
                continue
            if not reads and answered == NEVER:
                version = versions.get((change.key, request.sent_body.sha256), "")
                change = change._replace(request=change.request._replace(answered=0, status=0, version=version))
            steps.append(Step(len(steps), request.sent, answered, not reads, change))
    steps.sort(key=lambda step: step.sent)
    steps = unsettled(steps)
    first = first_to_tell(steps)
    steps = [step._replace(changes=step.changes or step.number in first) for step in steps]
    return [step._replace(number=number) for number, step in enumerate(steps)], unknown


def versions_of(requests: Iterable[Request]) -> dict[tuple[Key, str], str]:
    """Return (key, digest of the content) -> version, as far as an answer tells it.

    It gives the version that a PUT without an answer has made, if it took effect. If the same content has several versions, the
    PUT may have made any of them, and the version is left empty.
    """
    found: dict[tuple[Key, str], str] = {}
    for request in requests:
        body = {"get": request.got_body, "put": request.sent_body}.get(request.op)
        if body and body.sha256 and request.version and request.status == 200:
            of = (request.bucket, request.key), body.sha256
            found[of] = request.version if found.get(of, request.version) == request.version else ""
    return found


def unsettled(steps: list[Step]) -> list[Step]:
    """Add to each listing the keys of the changes that overlap it. The steps are in the order of `sent`."""
    changes = [step for step in steps if step.changes and (step.answered == NEVER or step.what.request.status < 300)]
    sent = [step.sent for step in changes]
    under_way: list[Step] = []
    told, following = [], 0
    for step in steps:
        if step.what.op == "list":
            until = bisect_left(sent, step.answered)
            under_way = [one for one in under_way if one.answered > step.sent]
            under_way += [one for one in changes[following:until] if one.answered > step.sent]
            following = max(following, until)
            keys = frozenset(one.what.key for one in under_way if one.sent < step.answered)
            step = step._replace(what=step.what._replace(unsettled=keys))
        told.append(step)
    return told


def first_to_tell(steps: Iterable[Step]) -> set[int]:
    """Return the numbers of the reads of a key about which no answer had come when they were sent, and which a change overlaps.
    """
    told: dict[Key, int] = {}
    changes: dict[Key, list[Step]] = {}
    for step in steps:
        for key in tells_of(step.what):
            told[key] = min(told.get(key, NEVER), step.answered)
        if step.changes:
            changes.setdefault(step.what.key, []).append(step)
    return {step.number for step in steps if not step.changes and any(
        change.sent < step.answered and step.sent < change.answered
        for key in tells_of(step.what) if told[key] >= step.sent for change in changes.get(key, ()))}


def tells_of(change: Change) -> list[Key]:
    """Return the keys whose content is known once the change is answered."""
    request, key, op, _ = change
    if op == "list":
        return [key for one in request.listed if (key := (request.bucket, one.key)) not in change.unsettled]
    return [key] if request.status in (200, 201, 204, 206, 304) or (request.status == 404 and op != "put") else []


def known_status(request: Request) -> bool:
    """Return whether a change is known to be done, or refused by its condition. Statuses such as 403 and 409 say nothing about
    the object."""
    return 200 <= request.status < 300 or request.status in (404, 412)


def changes_of(request: Request) -> Iterator[Change]:
    key = request.bucket, request.key
    if request.op in READS:
        yield Change(request, key, request.op)
    elif request.op in ("put", "copy", "complete"):
        yield Change(request, key, "put")
    elif request.op == "delete":
        yield Change(request, key, "delete")
    elif request.op == "delete_many" and request.sent_body.data:
        failed = {field(one, "Key") for one in ERROR.findall(text_of(request.got_body))}
        for one in OBJECT.findall(text_of(request.sent_body)):
            name = field(one, "Key")
            yield Change(request._replace(key=name, status=500 if name in failed else request.status),
                         (request.bucket, name), "delete")


def text_of(body: Body) -> str:
    return (body.data or b"").decode("utf-8", "surrogateescape")

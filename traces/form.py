"""Safety: an event that no store and no client can have caused is refused, whatever state the model is in.

The answer depends only on the event, without its time and request number. So it is computed once and cached.
"""

import re
from typing import NamedTuple

from highwater.impl.layout import Namespace
from highwater.traces.event import EMPTY, Event, range_of

READS = ("get", "get_range", "get_if_changed", "head", "list")
PUTS = ("create", "update", "put")
MUTATIONS = (*PUTS, "delete")
ANSWERS = {  # op -> statuses of some store, for success or a failed condition (dst/world/profiles.py)
    "create": (200, 304, 409, 412), "update": (200, 404, 409, 412), "put": (200,), "delete": (204, 404),
    "get": (200, 404), "get_range": (206, 404, 416), "get_if_changed": (200, 304, 404), "head": (200, 404), "list": (200,),
}
CONDITIONAL = ("update", "get_if_changed", "get_range")  # these name a version, or a range
UNANSWERED = ("timeout", "crash")
UNUSED = (EMPTY[6:9], EMPTY[11:])  # fields that `told` leaves empty beside its request: all after the key but body and keys


class Keys(NamedTuple):
    """The keys of a protocol that does not use a Namespace. `listed`: the prefixes that it lists. `single`: the keys of single
    objects."""

    prefix: str  # of all
    listed: tuple[str, ...] = ()
    single: tuple[str, ...] = ()
    boundary_key: str = "/"  # the default is the key of no object

    def file_id(self, key: str) -> int | None:
        """Return the number of 20 digits in the key of an object under a listed prefix; None for any other key."""
        number = NUMBER.search(key) if key.startswith(self.listed) else None
        return int(number[0]) if number else None


NUMBER = re.compile(r"\d{20}")


def owns(where: Namespace | Keys, e: Event) -> bool:
    if isinstance(where, Keys):
        if e.op == "list":
            return e.key in where.listed
        return e.key in (*where.single, where.boundary_key) or e.key.startswith(where.listed)
    return e.key == where.prefix if e.op == "list" else e.key == where.boundary_key or where.file_id(e.key) is not None


def malformed(e: Event, where: Namespace | Keys) -> str:
    """Return why a request, or its end, is impossible; "" if it is possible. Raises InvalidName."""
    applied = e.kind == "applied"
    if (not applied and e.kind not in ("refused", *UNANSWERED)) or e.op not in ANSWERS:
        return f"there is no {e.op!r} that is {e.kind!r}"
    refusal = e.status >= 400 and e.status not in (404, 412, 416)
    if e.status not in ANSWERS[e.op] if applied else e.status if e.kind in UNANSWERED else not refusal:
        return f"status {e.status} is no answer to {e.op}" if applied else f"{e.kind} has status {e.status}"
    if e.pending and (applied or e.kind == "refused"):
        return f"what is {e.kind} is no longer under way"
    if not (e.awaited or applied or (e.kind == "timeout" and not e.pending)):
        return "a client stops waiting for what it does not wait for"
    if not owns(where, e):
        return f"{e.op} of {e.key!r}, which is none of {where.prefix!r}"
    if (e.op in CONDITIONAL) != bool(e.condition) and e.op != "list":
        return f"{e.op} with condition {e.condition!r}"
    asked = range_of(e.condition) if e.op == "get_range" else None
    if e.op == "get_range" and (asked is None or len(e.body) > asked[1] - asked[0]):
        return f"{e.op} of {e.condition!r} that brings {len(e.body)} bytes"
    if (e.keys or e.truncated) and not (applied and e.op == "list"):
        return f"{e.op} that brings a page"
    found = applied and e.op not in ("list", "delete") and (
        e.status in (200, 206) or (e.status == 304 and e.op == "get_if_changed"))
    if found != bool(e.version):
        return f"{e.op} with status {e.status} and version {e.version!r}"
    if e.body and not (e.op in PUTS or (found and e.op != "head" and e.status != 304)):
        return f"{e.op} with status {e.status} that brings a content"
    if e.status == 206 and not e.body:
        return f"{e.op} with status 206 that brings no byte"
    return ""

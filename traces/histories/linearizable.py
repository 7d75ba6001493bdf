"""Safety: a history is accepted only if an order of its operations explains every reply of an atomic store. Each operation
takes effect at one moment between call and return. PUT, PUT If-None-Match, PUT If-Match, GET, GET If-None-Match and LIST are
atomic.

This is for histories of real stores, where nobody knows when a request was applied. A simulated run knows that, and needs no
search (traces/histories/linear.py). The search is in order.py; sequential.py judges any other object by it.

Each key is a separate register. This is sound because none of those requests touches two keys. A listing is a read of every
key; `unlisted` adds the constraint that it shows one moment of several keys. An operation without a return may have happened or
not, at any time after its call. Versions are compared for equality only, so digests of the content are allowed.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from highwater.traces.histories.order import stuck

PUT, CREATE, UPDATE, GET, GET_IF_CHANGED, LIST = "put", "create", "update", "get", "get_if_changed", "list"
WRITES = (PUT, CREATE, UPDATE)
CONFLICT, MISSING, UNCHANGED = "conflict", "missing", "unchanged"  # 412, 404, 304


class Operation(NamedTuple):
    """One request and its result.

    The result of a write is the new version, or CONFLICT. The result of a GET is (body, version), MISSING or UNCHANGED. The
    result of a LIST is its keys.
    """

    op: str
    key: str  # for a LIST, the prefix
    body: bytes  # the body of a write
    named: str  # the version that the request names
    called: int  # `called` and `returned` are ordinals of one sequence for the whole history
    returned: int | None  # None: no response
    result: Any = None


Object = tuple[bytes, str] | None  # body and version; None: there is none


def check(history: Iterable[Operation]) -> str:
    """Return why the history is not linearizable; "" if it is. Raises ValueError for operations that are not a store's."""
    history = sorted(history, key=lambda o: o.called)
    for o in history:
        if o.op not in (*WRITES, GET, GET_IF_CHANGED, LIST) or (o.returned is not None and o.returned <= o.called):
            raise ValueError(f"no operation of a store: {o}")
    keys = sorted({o.key for o in history if o.op != LIST} | {key for o in listings(history) for key in o.result})
    for key in keys:
        found = unexplained(key, of_key(key, history))
        if found:
            return found
    return unlisted(history)


def listings(history: list[Operation]) -> list[Operation]:
    return [o for o in history if o.op == LIST and o.returned is not None]


def of_key(key: str, history: list[Operation]) -> list[Operation]:
    """Return the operations on one key. Unanswered reads are left out; a LIST becomes a read of whether the key exists."""
    own = [o for o in history if o.op != LIST and o.key == key and (o.op in WRITES or o.returned is not None)]
    seen = [o._replace(result=key in o.result) for o in listings(history) if key.startswith(o.key)]
    return sorted(own + seen, key=lambda o: o.called)


# --- one register

def unexplained(key: str, history: list[Operation]) -> str:
    """Search for an order of one key's operations; return "" or a description of the longest order."""
    versions = shown(history)
    found = stuck(history, None, lambda o, held: applied(o, held, versions))
    if found is None:
        return ""
    done, left = found
    return (f"{key}: {done} operations have an order, but none of these can be the next: "
            + "; ".join(described(o) for o in left))


def shown(history: list[Operation]) -> dict[bytes, str]:
    """Return the version of each body, as far as a read returned it.

    Raises ValueError if a write without a reply shares its body with another one: then nobody could tell whose version a read
    saw.
    """
    unheard = [o.body for o in history if o.op in WRITES and o.returned is None]
    bodies = [o.body for o in history if o.op in WRITES]
    for body in unheard:
        if bodies.count(body) > 1:
            raise ValueError(f"a write without a reply shares its body {body[:40]!r} with another")
    return dict(o.result for o in history if o.op in (GET, GET_IF_CHANGED) and isinstance(o.result, tuple))


def applied(o: Operation, found: Object, versions: dict[bytes, str]) -> tuple[bool, Object]:
    """Return whether a store that holds `found` may answer so, and what it holds afterwards."""
    if o.op in WRITES:
        refused = (o.op == CREATE and found is not None) or (o.op == UPDATE and (found is None or found[1] != o.named))
        if o.returned is None:  # it is applied, or refused
            return True, found if refused else (o.body, versions.get(o.body, f"seen by nobody: {o.called}"))
        if refused or o.result == CONFLICT:
            return refused and o.result == CONFLICT, found
        return True, (o.body, o.result)
    if o.op == LIST:
        return o.result == (found is not None), found
    if o.op == GET_IF_CHANGED and found is not None and found[1] == o.named:
        return o.result == UNCHANGED, found
    return o.result == (MISSING if found is None else found), found


def described(o: Operation) -> str:
    asked = f" {o.body[:20]!r}" if o.op in WRITES else ""
    named = f" of version {o.named}" if o.named else ""
    return f"{o.op}{asked}{named} [{o.called}, {o.returned}] -> {o.result!r}"


# --- a listing of several keys is one moment

def unlisted(history: list[Operation]) -> str:
    """Return why the listings of several keys are not each one moment; "" if they are.

    Keys are never deleted. So a listing is later than the first write of each key that it shows, and earlier than the end of
    any write of a key that it omits. Of two listings of the same prefix, one shows all keys of the other.
    """
    begun: dict[str, int] = {}
    ended: dict[str, int] = {}
    for o in history:
        if o.op in WRITES and o.result != CONFLICT:
            begun[o.key] = min(begun.get(o.key, o.called), o.called)
            if o.returned is not None:
                ended[o.key] = min(ended.get(o.key, o.returned), o.returned)
    for o in listings(history):
        for key in o.result:
            late = [other for other in ended if other.startswith(o.key) and other not in o.result and ended[other] < begun[key]]
            if late:
                return f"{described(o)}: shows {key}, but not {late[0]}, which was there before that was put"
    for o in listings(history):
        for p in listings(history):
            if o.key == p.key and set(o.result) - set(p.result) and set(p.result) - set(o.result):
                return f"{described(o)} and {described(p)}: either shows a key that the other does not"
    return ""

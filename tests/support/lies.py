"""Edit good traces so that the store lies in one event. The store's content is followed here by its own few lines."""

from collections.abc import Iterator

from highwater.traces.event import Event
from highwater.traces.form import PUTS

Objects = dict[str, tuple[str, bytes]]  # key -> version and content


def lies(events: list[Event], objects: Objects, update_missing: int) -> Iterator[tuple[str, list[Event]]]:
    """Yield a name and the edited trace for each lie. `objects`: those at the beginning. `update_missing`: the status with
    which this store answers an update without an object."""
    objects, deleted = dict(objects), set()
    history: dict[str, list[tuple[str, bytes]]] = {key: [value] for key, value in objects.items()}
    for i, e in enumerate(events):
        if e.kind != "applied":
            continue
        for name, fields in told_falsely(e, objects, history, deleted, update_missing):
            yield name, [*events[:i], e._replace(**fields), *events[i + 1:]]
        if e.op in PUTS and e.status == 200:
            objects[e.key] = e.version, e.body
            history.setdefault(e.key, []).append((e.version, e.body))
        elif e.op == "delete" and objects.pop(e.key, None):
            deleted.add(e.key)


def told_falsely(e: Event, objects: Objects, history: dict[str, list[tuple[str, bytes]]], deleted: set[str],
                 update_missing: int) -> Iterator[tuple[str, dict]]:
    there = objects.get(e.key)
    gone, written = {"status": 404, "version": "", "body": b""}, {"status": 200, "version": "never given"}
    if e.op == "list":
        yield from pages(e, objects, deleted)
    elif e.op in PUTS and e.status == 200:
        if e.op != "put":
            yield f"{e.op} that fails although its condition holds", {"status": 412, "version": ""}
        used = [version for of in history.values() for version, body in of if body != e.body]
        if used:
            yield "a version used twice", {"version": used[-1]}
    elif e.op == "create":
        yield "a create over an existing object", written
    elif e.op == "update" and (there or update_missing != 200):
        yield "an update of another version", written
    elif e.op == "delete" and there:
        yield "a delete that finds nothing", {"status": 404}
    elif e.op in ("get", "get_if_changed", "head"):
        yield from reads(e, there, history, gone)
    elif e.op == "get_range" and e.status == 206:
        yield "a 404 to get_range for what is there", gone
        yield "a 416 to get_range for what is there", {**gone, "status": 416}
        yield "other bytes in a range", {"body": bytes([e.body[0] ^ 1, *e.body[1:]])}
        if len(e.body) > 1:
            yield "a range cut short", {"body": e.body[:-1]}


def reads(e: Event, there: tuple[str, bytes] | None, history: dict, gone: dict) -> Iterator[tuple[str, dict]]:
    old = [of for of in history.get(e.key, []) if of != there and of[0] != e.condition]
    if e.status == 404:
        if old:
            name = "a delete that does not delete" if e.op == "get" else f"a {e.op} of what is gone"
            yield name, {"status": 200, "version": old[-1][0], "body": b"" if e.op == "head" else old[-1][1]}
        return
    assert there
    yield f"a 404 to {e.op} for what is there", gone
    if e.status == 304:
        yield "a 200 for an unchanged object", {"status": 200, "body": there[1]}
    elif e.op == "get_if_changed":
        yield "a 304 for a changed object", {"status": 304, "version": e.condition, "body": b""}
    if old and e.status == 200:
        yield f"a stale {e.op}", {"version": old[-1][0], "body": b"" if e.op == "head" else old[-1][1]}
    if e.op != "head" and e.status == 200:
        yield "another content", {"body": e.body + b" "}


def pages(e: Event, objects: Objects, deleted: set[str]) -> Iterator[tuple[str, dict]]:
    keys = e.keys
    if keys:
        yield "a page without its first key", {"keys": keys[1:]}
        yield "a page that repeats its last key", {"keys": (*keys, keys[-1])}
    if keys and not e.truncated:
        yield "a page without its last key", {"keys": keys[:-1]}
    if len(keys) > 1:
        yield "a page out of order", {"keys": keys[::-1]}
    if len(keys) > 2:
        yield "a page with a hole", {"keys": (*keys[:1], *keys[2:])}
    if e.condition and keys:
        yield "a page that repeats its cursor", {"keys": (e.condition, *keys)}
    gone = sorted(key for key in deleted - {*objects} if key.startswith(e.key) and key > e.condition)
    if gone and not e.truncated:
        yield "a delete that leaves its key in listings", {"keys": tuple(sorted((*keys, gone[0])))}
    if e.truncated:
        yield "a last page that is not the last", {"truncated": False}
    else:
        yield "a last page that says it is not", {"truncated": True}

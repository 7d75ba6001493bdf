"""Safety: callers' histories are judged without the model: a second opinion, and a measure of harm.

A refinement failure is a step that the model could not take; it need not have harmed a caller yet. A failure reported here has.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType

from highwater.impl.codecs.json.manifest import UPDATES
from highwater.impl.layout import Namespace
from highwater.traces.event import OP, Event


@lru_cache(100_000)
def updates_in(body: bytes) -> tuple[str, ...]:
    """Return the updates in a file. The same bytes recur in many runs, so results are cached for the process."""
    return UPDATES.decode(body).updates


NOT_AHEAD: Mapping[str, int] = MappingProxyType({})


def too_young(events: Sequence[Event], namespace: Namespace, least_ms: int, ahead_ms: Mapping[str, int] = NOT_AHEAD) -> str:
    """Describe the first id that was deleted less than `least_ms` after it was first put; "" if there is none. The time is less
    by as much as the deleting client's clock was ahead, and more if it was behind.

    A refused writer may put a deleted id again, and a slow collector may delete that, too; only the first put counts. A model
    cannot check this, because in it any file may be old.
    """
    put_ms: dict[str, int] = {}
    for t_ms, _, client, kind, op, key, _, status, *_ in events if "delete" in map(OP, events) else ():
        if kind != "applied" or key == namespace.boundary_key:
            continue
        if op == "create" and status == 200:
            put_ms.setdefault(key, t_ms)
        elif op == "delete" and key in put_ms and t_ms - put_ms[key] < (least := least_ms - ahead_ms.get(client, 0)):
            return f"{client} deleted {key} at {t_ms} ms, less than {least} ms after it was put"
    return ""


def damage(events: Iterable[Event], namespace: Namespace, final: bytes) -> list[str]:
    """Return the failures that the clients' callers can notice. `final` is the content of the latest file at the end.

        duplicate commit   one id was reported as committed for two updates
        lost update        an update that was reported as committed is not in the final history
        applied twice      an update is twice in the final history
        read off history   a reader was given an update that is not in the final history
        told twice         an update was reported as committed, recognised or refused, and later reported again
        read went back     a reader was given less than it had been given before
    """
    kept = updates_in(final)
    there = frozenset(kept)
    commits: dict[int | None, str] = {}
    ended: set[bytes] = set()  # updates
    seen: dict[str, frozenset[str]] = {}
    found = []
    if len(there) < len(kept):
        found = [f"applied twice: {update} in the end" for update in sorted({u for u in kept if kept.count(u) > 1})]
    for _, _, client, _, op, key, _, _, _, body, *_ in [e for e in events if e.kind == "told"]:
        if op != "read":
            if body in ended:
                found.append(f"told twice: {client} was told {op!r} of {body.decode()}, of which it was told before")
            if op in ("committed", "refused", "recognised"):
                ended.add(body)
        if op == "recognised" and body.decode() not in there:
            found.append(f"lost update: {body.decode()}, recognised as committed, is not in the latest file")
        if op == "committed":
            update, file_id = body.decode(), namespace.file_id(key)
            if commits.setdefault(file_id, update) != update:
                found.append(f"duplicate commit: id {file_id} for {commits[file_id]} and for {update}")
            if update not in there:
                found.append(f"lost update: {update}, committed as id {file_id}, is not in the latest file")
        elif op == "read":
            updates = frozenset(updates_in(body))
            if updates - there:
                found.append(f"read off history: {client} was given {sorted(updates - there)}")
            if not seen.get(client, frozenset()) <= updates:
                found.append(f"read went back: {client} was no longer given {sorted(seen[client] - updates)}")
            seen[client] = updates
    return found

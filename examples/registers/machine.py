"""Registers and lists that only grow, for a cluster: `highwater raft serve .. --machine examples/registers/machine.py:SERVICE`.

Commands and queries are JSON, as are their results:

    {"do": "write", "key": "x", "value": 1}              -> {"ok": true}
    {"do": "swap", "key": "x", "old": 1, "new": 2}       -> {"ok": true}, or {"ok": false} if x was not 1
    {"do": "append", "key": "l", "value": "a", "id": ..} -> {"length": 3}; with an id, a retry appends nothing
    {"get": "x"}                                         -> {"value": 2}; null if there is none

A key is a register or a list, by its first command. The machine is a dict that is copied on write, key by key. A leader
proposes no command whose JSON is nested deeper than 100 levels: at some depth, which is not the same on each node, the parser
of JSON raises RecursionError.
"""

import json
import re
from typing import Any, NamedTuple

from highwater.cluster.service import Service
from highwater.impl.raft.machine import Command, Machine

MOST_LEVELS = 100  # of lists and objects in a command
REMEMBERED = 10_000  # ids of appends, the latest: a retry that is later is taken for a new append


class Store(NamedTuple):
    """The machine's state."""

    values: dict[str, Any]  # a list is a tuple
    appended: dict[str, int]  # id of an append -> the length after it


EMPTY = Store({}, {})
STRINGS, BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL), re.compile(r"[][{}]")  # of JSON


def check(store: Store, command: Command) -> str | None:
    """Return why a command is not proposed, or None. One that is no command is proposed: its result says so."""
    try:
        text = command.body.decode(json.detect_encoding(command.body), "surrogatepass")  # as json.loads does
    except ValueError:
        return None
    level = deepest = 0
    for bracket in BRACKETS.findall(STRINGS.sub("", text)):
        level += 1 if bracket in "[{" else -1
        deepest = max(deepest, level)
    if deepest > MOST_LEVELS:
        return f"the command is nested {deepest:,} levels deep, and at most {MOST_LEVELS} are taken"
    return None


def apply(store: Store, command: Command) -> tuple[Store, bytes]:
    try:
        wanted = json.loads(command.body)
        return changed(store, wanted)
    except (ValueError, KeyError, TypeError) as error:  # of any command: a machine never raises
        return store, json.dumps({"error": f"no command: {error!r}"}).encode()


def changed(store: Store, wanted: dict[str, Any]) -> tuple[Store, bytes]:
    """Raises KeyError, TypeError, ValueError for what is no command."""
    do, key = wanted["do"], str(wanted["key"])
    found = store.values.get(key)
    if do == "append":
        if "id" in wanted and str(wanted["id"]) in store.appended:
            return store, json.dumps({"length": store.appended[str(wanted["id"])]}).encode()
        if not isinstance(found, tuple | None):
            raise ValueError(f"{key!r} is a register")
        grown = (*(found or ()), wanted["value"])
        appended = store.appended
        if "id" in wanted:
            appended = {**appended, str(wanted["id"]): len(grown)}
            if len(appended) > REMEMBERED:
                del appended[next(iter(appended))]
        return Store({**store.values, key: grown}, appended), json.dumps({"length": len(grown)}).encode()
    if isinstance(found, tuple):
        raise ValueError(f"{key!r} is a list")
    if do == "swap" and found != wanted["old"]:
        return store, b'{"ok": false}'
    if do not in ("swap", "write"):
        raise ValueError(f"{do!r}: write, swap or append")
    value = wanted["new" if do == "swap" else "value"]
    return store._replace(values={**store.values, key: value}), b'{"ok": true}'


def query(store: Store, asked: bytes) -> bytes:
    try:
        found = store.values.get(str(json.loads(asked)["get"]))
    except (ValueError, KeyError, TypeError) as error:
        return json.dumps({"error": f"no query: {error!r}"}).encode()
    return json.dumps({"value": found}).encode()


def dump(store: Store) -> bytes:
    lists = [key for key, value in store.values.items() if isinstance(value, tuple)]
    return json.dumps([store.values, lists, store.appended]).encode()


def load(data: bytes) -> Store:
    values, lists, appended = json.loads(data)
    return Store({key: tuple(value) if key in lists else value for key, value in values.items()}, appended)


SERVICE = Service(Machine(EMPTY, apply, dump, load, check=check), query)

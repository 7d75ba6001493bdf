"""A newer version of examples/registers/machine.py, for tests of an upgrade: it counts, too.

    {"do": "count", "key": "x", "value": 3} -> {"count": 8}; needs level 2 of the machine
    {"count": "x"}                          -> {"count": 8}

Its snapshots have another form as soon as there is a count, and not before: the older version loads them until then.
"""

import json
from typing import Any

from examples.registers import machine as older
from highwater.cluster.service import Service
from highwater.impl.raft.machine import Command, Machine

FORM = b"2"  # the first byte of a snapshot with counts; an older one begins with "["
State = tuple[older.Store, dict[str, int]]


def wanted(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def level_of(body: bytes) -> int:
    return 2 if wanted(body).get("do") == "count" else 1


def apply(state: State, command: Command) -> tuple[State, bytes]:
    store, counts = state
    if level_of(command.body) == 1 or command.level < 2:
        store, result = older.apply(store, command)
        return (store, counts), result
    asked = wanted(command.body)
    key = str(asked["key"])
    counts = {**counts, key: counts.get(key, 0) + int(asked["value"])}
    return (store, counts), json.dumps({"count": counts[key]}).encode()


def query(state: State, body: bytes) -> bytes:
    asked = wanted(body)
    return json.dumps({"count": state[1].get(asked["count"], 0)}).encode() if "count" in asked else older.query(state[0], body)


def dump(state: State) -> bytes:
    store = older.dump(state[0])
    return FORM + json.dumps([state[1], store.decode()]).encode() if state[1] else store


def load(data: bytes) -> State:
    if not data.startswith(FORM):
        return older.load(data), {}
    counts, store = json.loads(data[1:])
    return older.load(store.encode()), counts


SERVICE = Service(Machine((older.EMPTY, {}), apply, dump, load, 2, level_of), query)

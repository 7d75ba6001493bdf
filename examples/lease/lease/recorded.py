"""Safety: in a log of requests to a store, each PUT of the lock or of the data is a step of model.py.

A client is given what it has seen in the store. The log does not show what lies before its beginning: a client that has seen
nothing is not judged until it has.
"""

import json

from highwater.traces.recorded.judge import no_action, take
from highwater.traces.recorded.machine import Machine
from highwater.traces.recorded.orders import Refusal
from highwater.traces.recorded.s3log import Request
from highwater.traces.recorded.s3store import ABSENT, Change, Key
from highwater.traces.trace import update_of

from . import model
from .impl import DATA, LOCK, Lock, decode_lock

MODELS = {"lease": f"{LOCK} and {DATA}"}
CONSTANTS = model.Constants(UPDATES=None, LOCKS=None)
SOMEBODY = 1  # not the client that is judged


def is_metadata(key: Key) -> bool:
    return key[1] in (LOCK, DATA)


def machine() -> Machine:
    return Log().machine


def entries_of(body: bytes) -> tuple[model.Entry, ...]:
    return tuple((token, *update_of(name)) for token, name in json.loads(body))


def owner_of(lock: Lock) -> int:
    return SOMEBODY if lock.owner else model.NOBODY


class Log:
    """Remember what the clients of a log have seen, and judge what they put."""

    def __init__(self) -> None:
        self.machine = Machine(self.judged)
        table = self.machine.store.table
        self.locks: dict[str, Lock] = table()  # client -> the lock that it saw or put last
        self.tokens: dict[str, int] = table()  # client -> the number of the lock that it put last
        self.data: dict[str, bytes] = table()  # client -> the data that it read last

    def judged(self, change: Change) -> Refusal | None:
        request, key, op, _ = change
        if not is_metadata(key) or op not in ("get", "put"):
            return None
        if op == "get":
            return self.reads(request, key)
        if request.answered and not 200 <= request.status < 300:
            return self.machine.count("LockConflict" if key[1] == LOCK else "AppendConflict")
        return self.puts_lock(request, key) if key[1] == LOCK else self.puts_data(request, key)

    def reads(self, request: Request, key: Key) -> None:
        put, body = self.machine.store.put, request.got_body.data
        if key[1] == LOCK and request.status in (200, 404) and body is not None:
            put(self.locks, request.client, decode_lock(body) if request.status == 200 else Lock())
        elif key[1] == DATA and request.status == 200:
            put(self.data, request.client, body)

    def now(self, key: Key) -> bytes | None:
        """Return the content that the store has; None if the log does not show it."""
        store = self.machine.store
        version = store.version(key)
        body = store.bodies.get((key, version)) if version else None
        return b"" if version == ABSENT else body.data if body else None

    def puts_lock(self, request: Request, key: Key) -> Refusal | None:
        client, lock = request.client, decode_lock(request.sent_body.data or b"[]")
        seen, now = self.locks.get(client), self.now(key)
        if seen is None:
            self.machine.grant("a client has read the lock before: the log does not show it")
        else:
            known, there = seen.number == self.tokens.get(client), decode_lock(now) if now else Lock() if now == b"" else seen
            action = "Release" if not lock.owner else "Renew" if known else "TakeOver" if seen.owner else "Acquire"
            w = model.Client("Held" if action in ("Release", "Renew") else "Looked", seen.number)
            refusal = take(
                model, CONSTANTS, action, model.Shared(there.number, owner_of(there)), w,
                lambda: f"{client} puts the lock with number {lock.number}; it saw {seen.number}, and {there.number} is there",
                shows="TokenHasOneHolder",
                leads=lambda s: (s.number, s.owner != model.NOBODY) == (lock.number, bool(lock.owner)))
            if refusal:
                return refusal
            self.machine.count(action)
        if 200 <= request.told < 300:
            self.machine.store.put(self.locks, client, lock)
            self.machine.store.put(self.tokens, client, lock.number)
        return None

    def puts_data(self, request: Request, key: Key) -> Refusal | None:
        client, token, base, now = request.client, self.tokens.get(request.client), self.data.get(request.client), self.now(key)
        if token is None or base is None:
            self.machine.grant("a client has the lock, and has read the data: the log does not show it")
            return None
        content = entries_of(request.sent_body.data or b"[]")
        if not content:
            return no_action(f"{client} puts data without an update")
        w = model.Client("Ready", token, entries_of(base), content[-1][2])
        refusal = take(
            model, CONSTANTS, "Append", model.Shared(data=entries_of(now or base)), w,
            lambda: f"{client} puts data with token {content[-1][0]}; its own token is {token}",
            shows="HoldersDoNotMix", leads=lambda s: (s.data[:-1], s.data[-1][0]) == (content[:-1], content[-1][0]))
        return refusal or self.machine.count("Append")

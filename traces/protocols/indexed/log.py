"""Check that all replicas of a metadata index apply the same entries, and have the same bytes after each.

The nodes' state machine says in `step` events what it does:

    apply   an entry with its log index and term, a digest of it and its answer, and a digest of all rows afterwards; the first
            node that applies it also tells the entry, the answer, and the rows that have changed
    load    the state of a snapshot: its digest

The rows are put together here from the changes, and their digest must be what the nodes say. A mapping says in `_applied` what
an entry is in its model. Objects are in a store of the scenario: `put` and `delete` are steps of those who ask for them.
"""

import json
import re
from collections.abc import Mapping
from hashlib import blake2b
from marshal import dumps
from struct import error
from typing import Any, NamedTuple

from highwater.impl.codecs.index.entries import command_of
from highwater.impl.codecs.index.messages import PlanUpdate, UpdatePlan, decode
from highwater.impl.codecs.index.rows import U64
from highwater.impl.errors import StoreError
from highwater.traces.event import Event
from highwater.traces.form import Keys
from highwater.traces.nodes import NodeTrace
from highwater.traces.protocols.indexed.rows import Shown, shown
from highwater.traces.refine import Match, Refiner
from highwater.traces.trace import ALIEN

KEYS = Keys("", listed=("",))  # a disk's files may have any name
OK = "OK"
DIGEST_BYTES = 12
FORMAT = 2  # of marshal, which is the same in every version of Python 3


def digest_of_rows(rows: list[tuple[bytes, bytes]]) -> str:
    """Return a digest of rows in order."""
    return blake2b(dumps(rows, FORMAT), digest_size=DIGEST_BYTES).hexdigest()


NOTHING = digest_of_rows([])


class Entry(NamedTuple):
    """An entry that was applied for the first time."""

    index: int
    term: int
    command: Any
    code: str  # of the answer
    done: Any  # the PlanUpdate in the answer to an entry of a poll; None: there is none


class Told(NamedTuple):
    """The content of an entry: its body, the code and the value of the answer, and the rows that have changed."""

    body: bytes
    code: str
    value: bytes | None
    changed: Mapping[bytes, bytes | None]  # None: the row is gone

    def digest(self) -> str:
        return blake2b(dumps((self.body, self.code.encode(), self.value), FORMAT), digest_size=DIGEST_BYTES).hexdigest()


def body_of(index: int, term: int, mark: str, state: str, told: Told | None) -> bytes:
    """Write the body of an `apply` event. `told`: None if a node has applied the entry before."""
    said: dict[str, Any] = {"index": index, "term": term, "mark": mark, "state": state}
    if told is not None:
        said |= {"entry": told.body.hex(), "code": told.code, "value": None if told.value is None else told.value.hex(),
                 "rows": {key.hex(): None if value is None else value.hex() for key, value in told.changed.items()}}
    return json.dumps(said, separators=(",", ":")).encode()


def told_of(said: dict[str, Any]) -> Told:
    value = said["value"]
    return Told(bytes.fromhex(said["entry"]), said["code"], None if value is None else bytes.fromhex(value), {
        bytes.fromhex(key): None if row is None else bytes.fromhex(row) for key, row in said["rows"].items()})


OF_A_NODE = ("apply", "load")  # steps
SERVER = re.compile(r"Server#\d{1,2}", re.ASCII)


class IndexTrace(NodeTrace):
    """Refines the trace of a metadata index on several nodes."""

    alien = (*ALIEN, StoreError, error)  # bytes that no message of the index has
    collector = "Server"  # the model has no nodes: they are one state

    def __init__(self, refiner: Refiner, namespace: Keys = KEYS, skew_ms: int = 0):
        super().__init__(refiner, namespace, skew_ms)
        self.applied: list[tuple[int, int, str, str]] = []  # index, term, digests of entry and answer, and of the rows
        self.place: dict[int, int] = {0: -1}  # index -> its place in `applied`
        self.at: dict[str, int] = {}  # server -> index of the latest entry that it has applied
        self.rows: dict[bytes, bytes] = {}
        self.shows = shown(self.rows)
        self.leases: set[str] = set()  # a job's name, and the token: all that workers were ever given

    def _take(self, e: Event) -> None:
        super()._take(e)
        if e.kind == "told":
            self._told(e)
        elif e.kind == "step":
            if e.op == "apply":
                self._on_apply(e)
            elif e.op == "load":
                self._on_load(e)
            else:
                self._on_client(e)
        elif e.kind == "started":
            self.at[e.client] = 0
        elif e.kind not in ("disk", "sent", "received", "died"):
            raise self._refused("form", f"there is no {e.op!r} that is {e.kind!r}")

    def knows(self, client: str) -> bool:
        return SERVER.fullmatch(client) is not None

    def _impossible(self, e: Event) -> str:
        return "" if e.kind == "step" and e.op not in OF_A_NODE else super()._impossible(e)  # a client needs no disk

    def _on_client(self, e: Event) -> None:
        """Take the step of a client of the index."""
        raise self._refused("form", f"there is no step {e.op!r}")

    def _applied(self, entry: Entry, before: Shown, after: Shown) -> None:
        """Take the actions of an entry."""
        raise NotImplementedError

    # --- replicas

    def _on_apply(self, e: Event) -> None:
        said = json.loads(e.body)
        index, is_first = said["index"], "entry" in said
        number = self.place[self.at.get(e.client, 0)] + 1
        if number < len(self.applied):
            what = index, said["term"], said["mark"], said["state"]
            if is_first or what != self.applied[number]:
                raise self._refused("Server.apply", f"{e.client} applies entry {index}, or has other rows then, than the node "
                                    f"that applied entry {self.applied[number][0]} first")
        elif not is_first or (self.applied and index <= self.applied[-1][0]):
            raise self._refused("Server.apply", f"{e.client} applies entry {index}, and nobody has told what that is")
        else:
            self._first(said)
        self.at[e.client] = index

    def _first(self, said: dict[str, Any]) -> None:
        told, before = told_of(said), self.shows
        for key, value in told.changed.items():
            if value is None:
                self.rows.pop(key)
            else:
                self.rows[key] = value
        state = digest_of_rows(sorted(self.rows.items()))
        if (said["mark"], said["state"]) != (told.digest(), state):
            raise self._refused("Server.apply", f"entry {said['index']} and its rows are not those whose digests are told")
        self.place[said["index"]] = len(self.applied)
        self.applied.append((said["index"], said["term"], said["mark"], said["state"]))
        self.shows = shown(self.rows)
        done = None if told.value is None else decode(PlanUpdate, told.value)
        command = command_of(told.body[U64.size:])
        if isinstance(command, UpdatePlan):
            self.leases.update(f"{part.state.name}/{part.state.token}" for part in (done.assigned_jobs if done else ()))
        self._applied(Entry(said["index"], said["term"], command, told.code, done), before, self.shows)

    def _on_load(self, e: Event) -> None:
        said = json.loads(e.body)
        number = self.place[said["index"]]
        if (self.applied[number][3] if number >= 0 else NOTHING) != said["state"]:
            raise self._refused("Server.load", f"{e.client} loads a state as of entry {said['index']}, and it is another one "
                                "than the nodes had that applied it")
        self.at[e.client] = said["index"]

    # --- one action

    def _do(self, action: str, *choices: Any, me: str = "", or_stays: bool = False) -> None:
        """Take an action of the index, or of a worker. With `or_stays` the model may stay as it is if it is not possible."""
        self.refiner.event(me, (0, 0, me, action, choices, or_stays), matched)


def matched(event: tuple) -> Match:
    _, _, me, action, choices, or_stays = event
    return Match(me, (action, None) if or_stays else (action,), choices)

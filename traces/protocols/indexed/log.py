"""Check that all replicas of a metadata index apply the same entries, and have the same bytes after each.

The nodes' state machine says in `step` events what it does:

    apply   an entry with its log index and term, a digest of it and its answer, and a digest of all rows afterwards; the first
            node that applies it also tells the entry, the answer, and the rows that have changed
    load    the state of a snapshot: its digest

The rows are put together here from the changes, and their digest must be what the nodes say. A mapping says in `_applied` what
an entry is in its model. Objects are in a store of the scenario: `put` and `delete` are steps of those who ask for them.
indexed/answers.py judges which call each entry is of, and which entry each response is of.
"""

import json
import re
from collections.abc import Mapping
from hashlib import blake2b
from marshal import dumps
from struct import error
from typing import Any, NamedTuple

from highwater.impl.codecs.index.entries import command_of
from highwater.impl.codecs.index.messages import AddBlock, BlockMeta, PlanUpdate, UpdatePlan, decode, encode
from highwater.impl.codecs.index.rows import U64
from highwater.impl.errors import StoreError
from highwater.traces.calls import untrue
from highwater.traces.event import Event
from highwater.traces.form import Keys
from highwater.traces.machines import node_of
from highwater.traces.nodes import NodeTrace, asks
from highwater.traces.protocols.indexed.answers import Answers, Since
from highwater.traces.protocols.indexed.rows import Shown, message, shown
from highwater.traces.refine import Match, Refiner
from highwater.traces.trace import UNCHECKED

KEYS = Keys("", listed=("",))  # a disk's files may have any name
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


OF_AN_ENTRY, OF_A_SNAPSHOT = {"index", "term", "mark", "state"}, {"index", "state"}
OF_THE_FIRST = OF_AN_ENTRY | {"entry", "code", "value", "rows"}
OF_A_NODE = ("apply", "load")  # steps
UNIT = "unit"  # key of a deletion: of all that a unit has
ULID = rb"[0-9A-HJKMNP-TV-Z]{26}"
OF_A_BLOCK, OF_BLOCKS, NO_BODY = re.compile(ULID), re.compile(rb"(?:%b(?: %b)*)?" % (ULID, ULID)), re.compile(b"")
SAYS = {  # what callers are told -> the form of its body
    **dict.fromkeys(("added", "refused", "invalid", "failed", "unknown"), OF_A_BLOCK), "read": OF_BLOCKS,
    **dict.fromkeys(("not read", "polled", "not polled", "perhaps polled", "overdue", "confirmed", "not confirmed",
                     "perhaps confirmed", "seen", "truncated", "not truncated", "perhaps truncated", "transferred",
                     "not transferred"), NO_BODY),
}


def no_put(e: Event) -> str:
    return "names an object, and its content does" if e.key or e.keys else ""


def is_sorted(body: bytes) -> bool:
    """Return whether ULIDs are in order, each once."""
    return body.split() == sorted({*body.split()})


def no_deletion(e: Event) -> str:
    """Return why a deletion is none: it is of all that a unit has, and tells of which one, or of one object at least."""
    if (e.key, bool(e.body)) not in ((UNIT, True), ("", False)) or not (e.keys or e.key):
        return f"names {e.key!r} and {len(e.keys)} objects, with {len(e.body)} bytes"
    return "names an object twice" if len({*e.keys}) < len(e.keys) else ""


FORMS = {"put": no_put, "delete": no_deletion}  # steps of clients
SERVER = re.compile(r"Server#\d{1,2}", re.ASCII)


def targets_in(e: Event) -> set[str]:
    """Return what a deletion is of, as a tombstone names it: ULIDs, or the tenant and the time of a unit."""
    if not e.key:
        return {key.split("/")[3] for key in e.keys}
    tenant, start_ns = json.loads(e.body)
    return {f"{tenant}/{start_ns}"}


def blocks_in(command: Any) -> list[Any]:
    """Return the metadata that a command brings."""
    if isinstance(command, UpdatePlan):
        return [made for part in command.plan_update.completed_jobs for made in part.compacted_blocks.new_blocks]
    return [command.metadata] if isinstance(command, AddBlock) else []


class IndexTrace(NodeTrace):
    """Refines the trace of a metadata index on several nodes."""

    alien = (*UNCHECKED, StoreError, error)  # bytes that no message of the index has
    collector = "Server"  # the model has no nodes: they are one state

    def __init__(self, refiner: Refiner, namespace: Keys = KEYS, skew_ms: int = 0):
        super().__init__(refiner, namespace, skew_ms)
        self.applied: list[tuple[int, int, str, str]] = []  # index, term, digests of entry and answer, and of the rows
        self.place: dict[int, int] = {0: -1}  # index -> its place in `applied`
        self.at: dict[str, int] = {}  # server -> index of the latest entry that it has applied
        self.rows: dict[bytes, bytes] = {}
        self.shows = shown(self.rows)
        self.objects: dict[str, bytes] = {}  # ULID -> what was written
        self.answers = Answers()
        self.heard = -1  # the place of the latest entry whose effect a caller was told of

    def _take(self, e: Event) -> None:
        super()._take(e)
        if e.kind == "told":
            self._told(e)
        elif asks(e):
            if why := self.answers.asked(e):
                raise self._refused("Call", f"{e.client} {why}")
        elif e.kind == "step":
            if e.op == "apply":
                self._on_apply(e)
            elif e.op == "load":
                self._on_load(e)
            else:
                self._on_client(e)
        elif e.kind == "started":
            self.at[e.client] = 0
        elif e.kind == "died":
            self.answers.died(e.client)
        else:
            raise self._refused("form", f"there is no {e.op!r} that is {e.kind!r}")

    def _since(self, e: Event) -> Since:
        return Since(len(self.applied), self.heard)

    def _no_call(self, e: Event) -> str:
        if e.keys[:1] == ("get",) and not (OF_BLOCKS.fullmatch(e.body) and is_sorted(e.body)):
            return f"{e.client} asks for {e.body!r}"
        if e.keys[:1] == ("add",) and e.body.decode() not in self.objects:
            return f"{e.client} adds {e.body!r}, whose object nobody has written"
        return super()._no_call(e)

    def knows(self, client: str) -> bool:
        return SERVER.fullmatch(client) is not None

    def _impossible(self, e: Event) -> str:
        if e.kind not in ("step", "told") or (e.op in OF_A_NODE and e.kind == "step"):
            return super()._impossible(e)
        if e.client == node_of(e.client):
            return f"{e.kind} {e.op} of {e.client}, which is a node and no client on it"
        if e.kind == "told":
            is_said = SAYS[e.op].fullmatch(e.body) and is_sorted(e.body)
            return super()._impossible(e) or ("" if is_said else f"{e.client} is told {e.op} of {e.body!r}")
        if why := FORMS[e.op](e) if e.op in FORMS else "":
            return f"{e.op} of {e.client} {why}"
        return super()._impossible(e._replace(key="", keys=()))  # what a client names is no file

    def _on_client(self, e: Event) -> None:
        """Take the step of a client of the index."""
        if e.op not in FORMS:
            raise self._refused("form", f"there is no step {e.op!r}")
        if e.op == "put":
            made = message(BlockMeta, e.body)
            ulid = made.id
            if self.objects.setdefault(ulid, e.body) != e.body:
                raise self._refused("Put", f"{e.client} writes the object of {ulid} with another content")
            if made.compaction_level and (why := self.answers.why_no_result(e.client, made, self.objects)):
                raise self._refused("Put", f"{e.client} {why}")
        elif why := self.answers.why_not_deleted(e.client, targets_in(e)):
            raise self._refused("Delete", f"{e.client} {why}")

    def _applied(self, entry: Entry, before: Shown, after: Shown) -> None:
        """Take the actions of an entry."""
        raise NotImplementedError

    # --- replicas

    def _on_apply(self, e: Event) -> None:
        said = json.loads(e.body)
        index, is_first = said["index"], "entry" in said
        if said.keys() != (OF_THE_FIRST if is_first else OF_AN_ENTRY):
            raise self._refused("form", f"{e.client} applies entry {index}, and tells {', '.join(said)}")
        number = self.place[self.at.get(e.client, 0)] + 1
        if number < len(self.applied):
            what = index, said["term"], said["mark"], said["state"]
            if is_first or what != self.applied[number]:
                raise self._refused("Server.apply", f"{e.client} applies entry {index}, or has other rows then, than the node "
                                    f"that applied entry {self.applied[number][0]} first")
        elif not is_first or (self.applied and not (index > self.applied[-1][0] and said["term"] >= self.applied[-1][1])):
            raise self._refused("Server.apply", f"{e.client} applies entry {index} of term {said['term']}, and nobody "
                                "has told what that is, or an earlier entry has a later index or term")
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
        for made in blocks_in(command):
            if self.objects.get(made.id) != encode(made):
                raise self._refused("Put", f"entry {said['index']} has {made.id} with another content than its object")
        why = self.answers.applied(len(self.applied) - 1, said["index"], command, told.code, done, before, self.shows)
        if why:
            raise self._refused("Server.propose", f"entry {said['index']} {why}")
        self._applied(Entry(said["index"], said["term"], command, told.code, done), before, self.shows)

    def _on_load(self, e: Event) -> None:
        said = json.loads(e.body)
        if said.keys() != OF_A_SNAPSHOT:
            raise self._refused("form", f"{e.client} loads a state, and tells {', '.join(said)}")
        number = self.place[said["index"]]
        if (self.applied[number][3] if number >= 0 else NOTHING) != said["state"]:
            raise self._refused("Server.load", f"{e.client} loads a state as of entry {said['index']}, and it is another one "
                                "than the nodes had that applied it")
        self.at[e.client] = said["index"]

    # --- responses to callers

    def _told(self, e: Event) -> None:
        super()._told(e)
        if why := self.answers.told(e, self.call.body.decode(), self.call.since, self.shows):
            raise untrue(self, e, e.keys[1], why)

    # --- one action

    def _do(self, action: str, *choices: Any, me: str = "", or_stays: bool = False) -> None:
        """Take an action of the index, or of a worker. With `or_stays` the model may stay as it is if it is not possible."""
        self.refiner.event(me, (0, 0, me, action, choices, or_stays), matched)


def matched(event: tuple) -> Match:
    _, _, me, action, choices, or_stays = event
    return Match(me, (action, None) if or_stays else (action,), choices)

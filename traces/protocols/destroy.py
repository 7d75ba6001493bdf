"""Safety: every request of the trace is an action of model/protocols/destroy.py, and each response to a caller agrees with the
model's history.

The PUT of the next manifest is the model's update: what it changes says which one. A manifest behind the boundary, or where one
was deleted, is in no history, and is no step. An operator's reads are one action, Check, which is taken when it first acts on
them: it seals, lists SSTs in a sealed database, or deletes. What it knows then stays true, so it does not matter when it read.
A listing without an SST is FindEmpty.

The model has no clock. So this module compares times: the grace may end once it is over by the store's clock.
"""

from functools import lru_cache, partial
from typing import Any

from highwater.impl.codecs.json.manifest import DATABASE, InvalidManifest
from highwater.impl.codecs.manifest import Manifest as Stored
from highwater.model.protocols.destroy import Constants, Manifest, Operator, Shared, is_behind, model
from highwater.traces import trace
from highwater.traces.event import Event
from highwater.traces.evidence import BY_ANSWER, Evidence
from highwater.traces.form import READS
from highwater.traces.protocols.checkpoints_contents import KEYS, MANIFEST, SSTS, checkpoint_of, file_id, sst_of
from highwater.traces.protocols.destroy_calls import CALLS, JUDGES
from highwater.traces.refine import STUTTER, Match, Refiner
from highwater.traces.trace import COLLECTS, refiner_without_witnesses, sent, update_of

FOLDERS = tuple(f"{KEYS.prefix}/{name}/" for name in ("wal", "compactions"))  # which are empty here
WHERE = KEYS._replace(listed=(*KEYS.listed, *FOLDERS))
SEALED = b"9223372036854775807"
MARK = "destroyed"  # how the name of a mark begins
UPDATES = {"Writer": ("Commit",), "Client": ("Pin", "Unpin"), "Operator": ("Mark",)}
OF_CREATE = ("committed", "missing", "ended", "refused", "unknown", "failed")
TOLD = {  # role -> the responses of its calls
    "Writer": ("committed", "unknown", "failed", "fenced"),
    "Client": (*OF_CREATE, "dropped"),
    "Operator": ("marked", "pinned", "destroyed", "waits", "not marked", "unknown", "failed"),
}
SENDS = ("SendCommit", "SendPin", "SendUnpin", "SendMark", "SendUpload")


def constants(writers: int, clients: int, operators: int) -> Constants:
    """Return the constants of a model without bounds, for traces of so many clients."""
    return Constants(WRITERS=writers, CLIENTS=clients, OPERATORS=operators, WRITES=None, PINS=None, MARKS=None, MAX_ID=None,
                     MAX_PENDING=None, MAX_CRASHES=None)


def refiner(c: Constants) -> Refiner:
    return refiner_without_witnesses(model(c))


@lru_cache(100_000)
def decoded(body: bytes) -> Stored:
    return DATABASE.decode(body)


def mark_in(stored: Stored) -> tuple[str, int]:
    """Return the kind of a mark as the model names it, and when its grace is over; "" if there is none."""
    for one in stored.checkpoints:
        if (one.name or "").startswith(MARK):
            _, kind, _, due_ms = one.name.split(" ")
            return kind.capitalize(), int(due_ms)
    return "", 0


@lru_cache(100_000)
def manifest_of(body: bytes) -> Manifest:
    """Return the model's manifest. Raises InvalidManifest, ValueError."""
    stored = decoded(body)
    pins = frozenset((checkpoint_of(one.id), one.manifest_id) for one in stored.checkpoints
                     if not (one.name or "").startswith(MARK))
    return Manifest(frozenset(map(sst_of, stored.named_ssts)), pins, mark_in(stored)[0])


def role_of(client: str) -> str:
    return client.partition("#")[0]


class Trace(trace.Trace):
    """Refines one trace of this protocol."""

    alien = (*trace.UNCHECKED, InvalidManifest)
    calls, claims = CALLS, JUDGES
    collector = "Operator"
    aside = (SSTS,)

    def __init__(self, refiner: Refiner, namespace: Any = WHERE, skew_ms: int = 0):
        super().__init__(refiner, namespace, skew_ms)
        self.due_ms: int | None = None  # when the grace is over, by the latest mark in the history; None: there is none
        self.evidence = Evidence((MANIFEST,), (SSTS, *FOLDERS))
        self.pins: dict[int, frozenset[tuple[int, int]]] = {}  # the checkpoints that each manifest of the history lists
        self.ever: set[tuple[str, tuple[int, int]]] = set()  # the SSTs and checkpoints of the history, with their role

    def _updates(self, e: Event) -> tuple[str, ...]:
        return tuple("{}.{}".format(*x) for x in sorted(manifest_of(e.body).ssts)) if file_id(e.key) else ()

    # --- what the model does not see

    def _take(self, e: Event) -> None:
        if e.kind == "applied" and e.client.startswith(self.collector):
            self._acts(e)
        super()._take(e)
        if why := self.evidence.observe(e):
            raise self._refused("evidence", why)
        if e.kind == "applied" and e.op == "create" and e.status == 200 and file_id(e.key):
            last, m = self.refiner.shared().files[-1], manifest_of(e.body)
            if last == m:
                kind, due_ms = mark_in(decoded(e.body))
                self.due_ms = due_ms if kind else None
                self.pins[len(self.refiner.shared().files)] = frozenset(which for which, _ in m.pins)
                self.ever |= {("Writer", x) for x in m.ssts} | {("Client", which) for which, _ in m.pins}

    def _acts(self, e: Event) -> None:
        """Take the steps that an operator's request shows: the grace is over, and it has checked."""
        s = self.refiner.shared()
        seals = e.key == MANIFEST.boundary_key and e.op in ("create", "update") and e.status == 200
        if seals and not s.over and self.due_ms is not None and e.t_ms >= self.due_ms + self.skew_ms:
            self.refiner.step(Match("", ("EndGrace", STUTTER), (), lambda a, s, l, s2, l2: a is not STUTTER or not s.files[-1]))
        if seals or (s.sealed and ((e.op == "list" and e.key == SSTS) or e.op == "delete")):
            self.refiner.step(Match(e.client, ("Check", STUTTER), (), lambda a, s, l, s2, l2: (
                a is not STUTTER or l.checked > 0)))

    # --- requests as actions of the model

    def _unanswered(self, e: Event) -> Match | None:
        return None

    def _crashed(self, e: Event) -> Match | None:
        return abandons(e.client) if e.client.startswith("Writer") else None

    def _answered(self, e: Event) -> Match:
        client = e.client
        if e.op in READS:
            return Match(client, (STUTTER,), (), None, e.op)
        if e.op == "create" and e.key.startswith(SSTS) and client.startswith("Writer"):
            x = sst_of(e.key.removeprefix(SSTS).removesuffix(".sst"))
            if client != f"Writer#{x[0]}":
                raise self._no_action(e, client)
            if e.status != 200:
                return Match(client, (STUTTER,), (), None, e.op)
            return Match(client, ("Upload", STUTTER), (), lambda a, s, l, s2, l2: (
                s.sealed if a is STUTTER else x in s2.ssts and l2.up), e.op)
        if e.op == "create" and e.key.startswith(MANIFEST.prefix):
            return self._created(e)
        raise self._no_action(e, client)

    def _created(self, e: Event) -> Match:
        """Return the match of a PUT of a manifest: the next one, or none of the history, behind the boundary."""
        if e.status != 200:
            return Match(e.client, (STUTTER,), (), None, e.op)
        i, m = file_id(e.key), manifest_of(e.body)
        return Match(e.client, (*UPDATES[role_of(e.client)], STUTTER), None, lambda a, s, l, s2, l2: (
            is_dead(s, i) if a is STUTTER else len(s2.files) == i and s2.files[-1] == m))

    def _of_collector(self, e: Event) -> Match:
        client = e.client
        if e.op == "list" and e.key == SSTS and not (e.keys or e.truncated or e.condition):
            return Match(client, ("FindEmpty", STUTTER), (), lambda a, s, l, s2, l2: a is not STUTTER or is_idle(l), e.op)
        if e.op in READS or e.status not in (200, 204):
            return Match(client, (STUTTER,), (), None, e.op)
        if e.op == "delete" and e.key.startswith(SSTS):
            x = sst_of(e.key.removeprefix(SSTS).removesuffix(".sst"))
            return Match(client, ("DeleteSst", STUTTER), None, lambda a, s, l, s2, l2: (
                x not in s.ssts if a is STUTTER else s2.ssts == s.ssts - {x}), e.op)
        if e.op == "delete" and e.key.startswith(MANIFEST.prefix):
            i = file_id(e.key)
            return Match(client, ("DeleteManifest", STUTTER), None, lambda a, s, l, s2, l2: (
                is_dead(s, i) if a is STUTTER else left(s) - left(s2) == {i}), e.op)
        if e.op in ("create", "update") and e.key == MANIFEST.boundary_key and e.body == SEALED:
            return Match(client, ("Seal",), (), None, e.op)
        if e.op == "create" and e.key.startswith(MANIFEST.prefix):
            return self._created(e)
        raise self._no_action(e, "an operator")

    # --- requests that nobody waits for

    def _sent(self, e: Event) -> None:
        """Put a request into the model's pool, unless it comes too late already: then it can only be in no history."""
        if e.key.startswith(MANIFEST.prefix) and not self._is_collector(e):
            s = self.refiner.shared()
            if is_behind(s, file_id(e.key) or 0) or (file_id(e.key) or 0) <= len(s.files):
                if e.client.startswith("Writer"):
                    self.refiner.step(Match(e.client, ("Abandon", STUTTER)))
                self.pending[e.client, e.request] = COLLECTS, sent(e)
                return
        elif e.key.startswith(SSTS) and e.op == "create" and any(w.up for w in self.refiner.locals(e.client)):
            self.refiner.step(Match(e.client, ("Abandon",)))  # it is there already, or was deleted: it is in no manifest
            self.pending[e.client, e.request] = COLLECTS, sent(e)
            return
        super()._sent(e)

    def _request(self, e: Event) -> tuple:
        if e.op == "create" and e.key.startswith(MANIFEST.prefix):
            return file_id(e.key), manifest_of(e.body)
        if e.op == "create" and e.key.startswith(SSTS):
            return (sst_of(e.key.removeprefix(SSTS).removesuffix(".sst")),)
        raise self._no_action(e, e.client)

    @staticmethod
    def _sends(event: tuple) -> Match:
        *_, client, request = event
        return Match(client, SENDS, None, lambda a, s, l, s2, l2: (
            request[0] in s2.uploads if len(request) == 1 else s2.pool[-1:] == (request,) and s2.pool != s.pool))

    @staticmethod
    def _arrives(event: tuple) -> Match:
        *_, request, status = event
        if len(request) == 1:
            return Match("", ("ApplyUpload",), request)
        return Match("", ("ApplyPending",), None, partial(arrives, request, status == 200))

    # --- responses to callers

    def _told_of(self, e: Event) -> str | None:
        role = role_of(e.client)
        if e.op not in TOLD[role] or bool(e.body) != (role == "Client" or (role, e.op) == ("Writer", "committed")):
            raise self._misled(e, "no call of its role has this response")
        if why := self.evidence.unfounded(e.client, (MANIFEST,), BY_ANSWER.get("".join(e.keys[1:2]), "")):
            raise self._misled(e, why)
        if e.op == "destroyed" and (left := self._unseen(e.client)):
            raise self._misled(e, f"it has not listed {left} to its end, and found nothing")
        if e.client.startswith("Client") and e.body:
            return self._of_client(e, update_of(e.body.decode()))
        if e.client.startswith("Writer"):
            return self._of_writer(e)
        if e.op == "marked":
            return self._says(e, lambda s, l: s.gone or (s.files[-1] is not None and bool(s.files[-1].mark)))
        if e.op == "destroyed":
            return self._says(e, lambda s, l: s.gone)
        return None

    def _unseen(self, client: str) -> str:
        """Return a folder of which a client has not seen that nothing is left; "" if there is none."""
        of = self.evidence.of(client)
        return min({SSTS, *FOLDERS} - of.empty | {MANIFEST.prefix} - of.whole, default="")

    def _of_writer(self, e: Event) -> str | None:
        if e.op == "committed" and ("Writer", update_of(e.body.decode())) not in self.ever:
            raise self._misled(e, "no manifest of the history names this SST")
        if e.op == "fenced" and self.due_ms is None:
            raise self._misled(e, "no manifest of the history is marked")
        return self._tells(e, abandons(e.client))

    def _of_client(self, e: Event, which: tuple[int, int]) -> str | None:
        if e.op == "committed" and ("Client", which) not in self.ever:
            raise self._misled(e, "no manifest of the history lists this checkpoint")
        known = self.evidence.known(e.client, MANIFEST)
        if e.op in ("dropped", "missing") and which in self.pins.get(known, ()):
            raise self._misled(e, f"manifest {known} lists it")
        own = self.evidence.heard(e.client, MANIFEST).stands
        if e.op == "dropped" and own and which not in self.pins.get(own - 1, ()):
            raise self._misled(e, f"manifest {own} is its own, and drops another one")
        if e.op == "refused" and self.due_ms is None:
            raise self._misled(e, "no manifest of the history is marked")
        if e.op == "dropped":
            return self._says(e, lambda s, l: which not in s.held)
        if e.client == f"Client#{which[0]}":  # it created it, or has done with it
            return self._tells(e, Match(e.client, ("GoOn", STUTTER), (), lambda a, s, l, s2, l2: (
                l.k == which[1] if a is not STUTTER else l.k > which[1])))
        return None


def abandons(client: str) -> Match:
    return Match(client, ("Abandon", STUTTER), (), lambda a, s, l, s2, l2: a is not STUTTER or not l.up)


def is_idle(l: Operator) -> bool:
    return l.empty or not l.checked


def left(s: Shared) -> set[int]:
    return {i for i, file in enumerate(s.files, 1) if file is not None}


def is_dead(s: Shared, i: Any) -> bool:
    """Return whether a manifest of this id is in no history: it is behind the boundary, or was deleted."""
    there = 1 <= i <= len(s.files) and s.files[i - 1] is not None
    return not there and (is_behind(s, i) or i <= len(s.files))


def arrives(request: tuple[int, Manifest], ok: bool, action: str | None, s: Shared, l: Any, s2: Shared, l2: Any) -> bool:
    """Return whether the step takes this request out of the pool, and creates the manifest or not, as observed."""
    at = s.pool.index(request) if request in s.pool else None
    if at is None or s2.pool != s.pool[:at] + s.pool[at + 1:]:
        return False
    return len(s2.files) == len(s.files) + ok or (ok and is_dead(s, request[0]))

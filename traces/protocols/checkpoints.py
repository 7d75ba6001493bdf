"""Safety: every request of the trace is an action of model/protocols/checkpoints.py, and each response to a caller agrees with
the model's history.

The PUT of the next manifest is the model's update: what it changes says which one. A manifest that is created where one was
collected is in no history, and is no step; traces/evidence.py says whether a client may believe what it has read. A collector's
LIST condemns what nothing that is listed names. Any DELETE of something else is none of the model's.

The model has no clock. So this module compares times: a lease has ended only once it has ended by the slowest clock, and then
a client with the fastest may not renew it any more. A model's lease ends when a collector drops it, if it may by then.
"""

from functools import partial
from typing import Any

from highwater.impl.codecs.json.manifest import InvalidManifest
from highwater.impl.codecs.slatedb.flatbuffer import DamagedBuffer
from highwater.impl.codecs.slatedb.header import InvalidFile
from highwater.model.protocols.checkpoints import Constants, Id, Manifest, Shared, model
from highwater.traces import trace
from highwater.traces.calls import UNFINISHED
from highwater.traces.event import Event
from highwater.traces.evidence import BY_ANSWER, CURRENT, TRUSTED, Evidence
from highwater.traces.form import READS
from highwater.traces.protocols.checkpoints_calls import CALLS, JUDGES, RECOGNISED
from highwater.traces.protocols.checkpoints_contents import (
    KEYS,
    MANIFEST,
    SSTS,
    decoded,
    file_id,
    leases,
    manifest_of,
    short_name,
    sst_of,
)
from highwater.traces.refine import STUTTER, Match, Refiner
from highwater.traces.trace import COLLECTS, refiner_without_witnesses, sent, update_of

CHANGES = {"committed": "Create", "renewed": "Refresh", "dropped": "Delete"}  # response -> the kind of operation
UPDATES = ("Create", "CreateFrom", "Refresh", "Delete")
ADDS = ("Flush", "Replace")
SENDS = ("SendCreate", "SendCreateFrom", "SendRefresh", "SendDelete", "SendFlush", "SendReplace")
TOLD = {  # role -> the responses of its calls, and what each needs, apart from what its answer needs
    "Client": {"listed": CURRENT, **dict.fromkeys((
        *CHANGES, "missing", "ended", "unknown", "failed", "given up", "not read", UNFINISHED), "")},
    "Compactor": {"replaced": "", "unknown": "", "failed": ""},
    "Collector": {"deleted": TRUSTED, "not deleted": ""},
}
NO_STEP = ("unknown", "not read", "deleted", "not deleted", UNFINISHED)


def constants(clients: int, compactors: int, collectors: int) -> Constants:
    """Return the constants of a model without bounds, for traces of so many clients."""
    return Constants(CLIENTS=clients, COMPACTORS=compactors, COLLECTORS=collectors, OPS=None, SSTS=None, MAX_ID=None,
                     MAX_PENDING=None, MAX_LOST=None)


def refiner(c: Constants) -> Refiner:
    return refiner_without_witnesses(model(c))


class Trace(trace.Trace):
    """Refines one trace of this protocol."""

    alien = (*trace.UNCHECKED, InvalidManifest, InvalidFile, DamagedBuffer)
    calls, claims = CALLS, JUDGES
    collector = "Collector"
    writer = "Client"
    aside = (SSTS,)

    def __init__(self, refiner: Refiner, namespace: Any = KEYS, skew_ms: int = 0):
        super().__init__(refiner, namespace, skew_ms)
        self.evidence = Evidence((MANIFEST,))
        self.bodies: dict[int, bytes] = {}  # manifests of the history, by id
        self.got: dict[str, tuple[int, bytes]] = {}  # client -> when it last got a manifest, and its content

    def _updates(self, e: Event) -> tuple[str, ...]:
        return tuple(short_name(one.id) for one in decoded(e.body).checkpoints)

    # --- what the model does not see

    def _take(self, e: Event) -> None:
        i = file_id(e.key) if e.kind == "applied" and e.op == "create" and e.status == 200 else None
        is_next = i is not None and i == len(self.refiner.shared().files) + 1
        base = self.bodies.get((i or 0) - 1, b"")  # the first manifest lists nothing
        if i is not None and is_next:
            self.bodies[i] = e.body
            self._on_leases(e, base)
        super()._take(e)
        if is_next and e.client.startswith("Client") and e.awaited and (changed := of_one(base, e.body)):
            self.refiner.keep(e.client, lambda s, l: l.op[1:] == (changed,))
        self._looks(e)
        if why := self.evidence.observe(e):
            raise self._refused("evidence", why)
        if e.kind in ("told", "crash"):
            self.got.pop(e.client, None)
        elif e.kind == "applied" and e.awaited and e.op == "get" and e.status == 200 and file_id(e.key):
            self.got[e.client] = e.t_ms, e.body

    def _looks(self, e: Event) -> None:
        """Check that a client knows what a put or a delete takes."""
        if e.kind in ("told", "crash") or e.op not in ("create", "delete"):
            return
        if not self.evidence.is_new(e) or e.key == MANIFEST.boundary_key:
            return
        heard, why = self.evidence.heard(e.client, MANIFEST), ""
        if e.op == "delete":
            why = "" if heard.current else "has not read the latest manifest last"
        elif e.key.startswith(MANIFEST.prefix) and file_id(e.key) is None:
            why = "that is no file"
        elif e.client.startswith("Compactor") and e.key.startswith(MANIFEST.prefix):
            old = decoded(self.got[e.client][1]).named_ssts if e.client in self.got else frozenset()
            new = [sst for sst in sorted(decoded(e.body).named_ssts - old)
                   if not self.evidence.has_met(e.client, f"{SSTS}{sst}.sst")]
            why = f"has not put {new[0]}" if new else ""
        if why:
            raise self._refused("evidence", f"{e.client} asks for {e.op} of {e.key}, and {why}")

    def _on_leases(self, e: Event, base: bytes) -> None:
        """Check an update against the clocks: which leases have ended, and which may not be used any more."""
        before, after = leases(base), leases(e.body)
        if e.client.startswith("Collector"):
            for which in sorted(before.keys() - after.keys()):
                if before[which] and e.t_ms >= before[which] + self.skew_ms:
                    self.refiner.step(Match("", ("EndLease", STUTTER), (which,), lambda a, s, l, s2, l2, which=which: (
                        a is not STUTTER or which in s.ended)))
        elif e.client.startswith("Client") and e.awaited and e.client in self.got:
            changed, (read_ms, _) = of_one(base, e.body), self.got[e.client]
            if changed in before and changed in after and 0 < before[changed] <= read_ms - self.skew_ms:
                raise self._refused("ended", f"{e.client} renews {changed}, whose lease had ended at {before[changed]} ms")
            if changed in after and changed not in before and not may_name(base, e.body, changed, read_ms - self.skew_ms):
                raise self._refused("ended", f"{e.client} creates {changed} from a checkpoint whose lease had ended")

    # --- requests as actions of the model

    def _unanswered(self, e: Event) -> Match | None:
        return None

    def _crashed(self, e: Event) -> Match | None:
        return gives_up(e.client) if e.client.startswith("Client") else None

    def _answered(self, e: Event) -> Match:
        client = e.client
        if e.key.startswith(SSTS):
            if e.op == "create" and client.startswith("Compactor"):
                if sst_of(e.key.removeprefix(SSTS).removesuffix(".sst"))[0] != int(client.partition("#")[2]):
                    raise self._no_action(e, client)
                return Match(client, (STUTTER,), (), None, e.op)
            raise self._no_action(e, client)
        if e.op in READS:
            return Match(client, (STUTTER,), (), None, e.op)
        if e.op == "create" and e.key != MANIFEST.boundary_key:
            return self._created(e, UPDATES if client.startswith("Client") else ADDS)
        raise self._no_action(e, client)

    def _created(self, e: Event, actions: tuple[str, ...]) -> Match:
        """Return the match of a PUT of a manifest: the next one, or none of the history, where one was collected."""
        i, m = file_id(e.key), manifest_of(e.body)
        if e.status != 200:
            return Match(e.client, (STUTTER,), (), None, e.op)
        lost = ("Abandon",) if actions == ADDS and e.awaited else ()
        return Match(e.client, (*actions, *lost, STUTTER), None, lambda a, s, l, s2, l2: (
            is_gone(s, i) if a in (STUTTER, *lost) else len(s2.files) == i and s2.files[-1] == m))

    def _of_collector(self, e: Event) -> Match:
        client = e.client
        if e.op == "list":
            return Match(client, ("Condemn", STUTTER), (), None, e.op)
        if e.op == "delete" and e.key.startswith(SSTS):
            x = sst_of(e.key.removeprefix(SSTS).removesuffix(".sst"))
            return Match(client, ("DeleteSst", STUTTER), (x,),
                         lambda a, s, l, s2, l2: a is not STUTTER or x not in s.ssts, e.op)
        if e.op == "delete":
            i = file_id(e.key)
            return Match(client, ("DeleteManifest", STUTTER), (i,),
                         lambda a, s, l, s2, l2: a is not STUTTER or is_gone(s, i), e.op)
        if e.op in READS or e.key == MANIFEST.boundary_key:
            return Match(client, (STUTTER,), (), None, e.op)
        if e.op == "create" and e.key.startswith(MANIFEST.prefix):
            return self._created(e, ("Drop",))
        raise self._no_action(e, "a collector")

    # --- requests that nobody waits for

    def _sent(self, e: Event) -> None:
        """Put an update into the model's pool, unless it comes too late already: then it can only be in no history."""
        late = not e.key.startswith(MANIFEST.prefix) or (file_id(e.key) or 0) <= len(self.refiner.shared().files)
        if late and not self._is_collector(e):
            if e.client.startswith("Compactor") and e.key.startswith(MANIFEST.prefix):
                self.refiner.step(Match(e.client, ("Abandon",)))
            self.pending[e.client, e.request] = COLLECTS, sent(e)
            return
        super()._sent(e)

    def _request(self, e: Event) -> tuple:
        if e.op != "create" or e.key == MANIFEST.boundary_key:
            raise self._no_action(e, e.client)
        return file_id(e.key), manifest_of(e.body)

    @staticmethod
    def _sends(event: tuple) -> Match:
        *_, client, request = event
        return Match(client, SENDS, None, lambda a, s, l, s2, l2: s2.pool[-1] == request)

    @staticmethod
    def _arrives(event: tuple) -> Match:
        *_, request, status = event
        return Match("", ("ApplyPending",), None, partial(arrives, request, status == 200))

    # --- responses to callers

    def _told_of(self, e: Event) -> str | None:
        words = TOLD.get(e.client.partition("#")[0], {})
        if e.op not in words or (e.body and not e.client.startswith("Client")):
            raise self._misled(e, "no call of its role has this response")
        need = words[e.op] or BY_ANSWER.get("".join(e.keys[1:2]), "")
        if why := self.evidence.unfounded(e.client, (MANIFEST,), need):
            raise self._misled(e, why)
        if e.op in NO_STEP:
            return None
        if e.op == "given up":
            return self._tells(e, gives_up(e.client))
        if e.op in ("listed", "replaced"):
            return self._listed(e) if e.op == "listed" else None
        if e.op == "failed":
            return self._says(e, lambda s, l: not e.client.startswith("Client") or l.pc == "Idle")
        which = update_of(e.body.decode())
        op = CHANGES.get(e.op, ""), which
        done = any(l.done and l.op == op for l in self.refiner.locals(e.client))
        is_own = e.keys[1] != RECOGNISED if e.keys else done
        if e.op in CHANGES and is_own:
            return self._tells(e, Match(e.client, ("Reply",), (), lambda a, s, l, s2, l2: l.op == op))
        return self._concluded(e, which)

    def _listed(self, e: Event) -> None:
        self._read_of(e)
        if sorted(map(update_of, e.body.decode().split())) != sorted(leases(self.got[e.client][1])):
            raise self._misled(e, "the manifest that it read lists others")

    def _read_of(self, e: Event) -> None:
        if not self.evidence.heard(e.client, MANIFEST).current:
            raise self._misled(e, "it has not read the latest manifest, and then a boundary behind it")

    def _concluded(self, e: Event, which: Id) -> str:
        """Check what a client concluded from a manifest that it read: its change was made before, or cannot be made."""
        self._read_of(e)
        there = leases(self.got[e.client][1])
        if e.op in CHANGES:
            if (which in there) != (e.op != "dropped"):
                raise self._misled(e, "the manifest that it read shows something else")
            return self._tells(e, gives_up(e.client))
        if e.op == "missing" and which in there:
            raise self._misled(e, "the manifest that it read lists it")
        if e.op == "ended" and not 0 < there.get(which, 0) <= e.t_ms + self.skew_ms:
            raise self._misled(e, f"it ends at {there.get(which)} ms, and it is {e.t_ms} ms")
        return self._says(e, lambda s, l: l.pc == "Idle")


def gives_up(client: str) -> Match:
    return Match(client, ("GiveUp", STUTTER), (), lambda a, s, l, s2, l2: a is not STUTTER or l.pc == "Idle")


def is_gone(s: Shared, i: Any) -> bool:
    """Return whether the manifest of this id was there, and is deleted."""
    return 1 <= i <= len(s.files) and s.files[i - 1] is None


def of_one(base: bytes, body: bytes) -> Id | None:
    """Return the checkpoint whose entry alone an update changes; None if there is none such."""
    before, after = leases(base), leases(body)
    changed = [which for which in before.keys() | after.keys() if before.get(which, -1) != after.get(which, -1)]
    return changed[0] if len(changed) == 1 else None


def may_name(base: bytes, body: bytes, which: Id, by_ms: int) -> bool:
    """Return whether a new checkpoint names a new manifest, or that of some checkpoint that had not ended by then."""
    m, was = manifest_of(body), leases(base)
    of = next(of for one, of, _ in m.checkpoints if one == which)
    named = [one for one, other, _ in m.checkpoints if other == of and one in was]
    return not named or any(not was[one] or was[one] > by_ms for one in named)


def arrives(request: tuple[int, Manifest], ok: bool, action: str | None, s: Shared, l: Any, s2: Shared, l2: Any) -> bool:
    """Return whether the step takes this request out of the pool, and creates the manifest or not, as observed."""
    at = s.pool.index(request) if request in s.pool else None
    if at is None or s2.pool != s.pool[:at] + s.pool[at + 1:]:
        return False
    return len(s2.files) == len(s.files) + ok or (ok and is_gone(s, request[0]))

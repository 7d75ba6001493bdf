"""Safety: every request of the trace is sent, applied and answered as in model/protocols/store_primitives.py, and each response
to a caller agrees with the outcome of its request.

A trace shows a request when the store applies it: that is the model's sending and applying. The model's reply is the response
to the caller. The model counts the writes of each key; a trace shows them only as versions.
"""

from typing import Any

from highwater.model.protocols.store_primitives import Constants, Shared, model
from highwater.traces import trace
from highwater.traces.event import Event
from highwater.traces.form import MUTATIONS, Keys
from highwater.traces.refine import Match, Refiner

PREFIX = "db/store/"
KEYS = Keys(PREFIX, listed=(PREFIX,))
KINDS = {"put": "Put", "create": "Create", "update": "Update"}
SENDS = {"put": "SendPut", "create": "SendCreate", "update": "SendUpdate", "get": "SendGet",
         "get_if_changed": "SendGetIfChanged", "list": "SendList"}
DIGESTS_FAIL = {"UpdateIsNext", "NotModifiedIsUnwritten"}  # the rows store_digest_update, store_digest_read


def constants(clients: int, keys: int, bodies: int, version: str) -> Constants:
    """Return the constants of a model without bounds, for traces of so many clients."""
    return Constants(CLIENTS=clients, KEYS=keys, BODIES=bodies, WRITES=None, READS=None, LISTS=None, MAX_PENDING=None,
                     MAX_LOST=None, VERSION=version)


def refiner(c: Constants) -> Refiner:
    """Return the refiner. If versions are digests, the properties that fail with them are not checked."""
    of = model(c)
    always = {name: holds for name, holds in of.always.items() if c.VERSION == "unique" or name not in DIGESTS_FAIL}
    return Refiner(of._replace(sometimes={}, always=always))


def number(key: str) -> int:
    """Return the number of a key, from 1. Raises ValueError."""
    return int(key.removeprefix(PREFIX))


class Trace(trace.Trace):
    """Refines one trace of this protocol."""

    alien = trace.UNCHECKED
    bodiless = ("failed", "unknown")

    def _take(self, e: Event) -> None:
        if e.kind == "applied" and e.awaited:
            self._well_formed(e)
            self._is_sent(e)
        super()._take(e)

    def _is_sent(self, e: Event) -> None:
        asked = (number(e.key), int(e.body)) if e.op in MUTATIONS else (number(e.key),) if e.op != "list" else ()
        self.refiner.event(e.client, (0, 0, e.client, e.op, asked), self._sent_as)

    @staticmethod
    def _sent_as(event: tuple) -> Match:
        *_, client, op, asked = event
        return Match(client, (SENDS[op],), asked)

    def _answered(self, e: Event) -> Match:
        ok, key = e.status == 200, e.op != "list" and number(e.key)
        if e.op == "put":
            return Match(e.client, ("ApplyPut",))
        if e.op == "create":
            return Match(e.client, ("ApplyCreate" if ok else "CreateConflict",))
        if e.op == "update":
            return Match(e.client, ("ApplyUpdate" if ok else "UpdateConflict",))
        if e.op == "list" and not (e.truncated or e.condition):
            keys = frozenset(map(number, e.keys))
            return Match(e.client, ("ApplyList",), (), lambda a, s, l, s2, l2: l2.listed == keys)
        if e.op == "list":
            raise self._no_action(e)
        if e.status in (304, 404):
            return Match(e.client, ("NotModified" if e.status == 304 else "GetMissing",))
        body = int(e.body)
        return Match(e.client, ("ApplyGet" if e.op == "get" else "GetChanged",), (),
                     lambda a, s, l, s2, l2: l2.got == s.objects[key - 1] and l2.got.front == l2.got.back == body)

    def _sent(self, e: Event) -> None:
        self._is_sent(e)
        super()._sent(e)

    def _request(self, e: Event) -> tuple:
        known = self.refiner.local(e.client).known[number(e.key) - 1]
        return KINDS[e.op], number(e.key), int(e.body), tuple(known) if e.op == "update" else (0, 0, 0)

    def _sends(self, event: tuple) -> Match:
        *_, client, request = event
        return Match(client, ("GiveUp",), (), lambda a, s, l, s2, l2: s2.pool == tuple(sorted((*s.pool, request))))

    def _arrives(self, event: tuple) -> Match:
        *_, request, status = event
        return Match("", ("ApplyPending",), (request,),
                     lambda a, s, l, s2, l2: (status < 300) == (s2.objects != s.objects))

    def _crashed(self, e: Event) -> Match | None:
        """Return the step of a client that crashes: it learns as little as after a lost reply."""
        return self._unanswered(e)

    def _told_of(self, e: Event) -> str:
        if e.op in ("failed", "unknown"):
            return self._says(e, lambda s, l: l.pc == "Idle")
        kinds, outcome = SAID[e.op]
        said = e.body.decode()
        return self._tells(e, Match(e.client, ("Reply",), (), lambda a, s, l, s2, l2: l.kind in kinds and (
            l.outcome == outcome and shown(s, l) == said)))


def shown(s: Shared, local: Any) -> str:
    """Return the text that the response must show."""
    if local.kind == "List":
        return " ".join(map(str, sorted(local.listed)))
    return str(local.got.front) if local.outcome == "Ok" else ""


SAID = {  # response -> the requests that it answers, and their outcome
    "stored": (("Put",), "Ok"), "created": (("Create",), "Ok"), "exists": (("Create",), "Conflict"),
    "updated": (("Update",), "Ok"), "changed": (("Update",), "Conflict"),
    "read": (("Get", "GetIfChanged"), "Ok"), "missing": (("Get",), "Missing"),
    "unchanged": (("GetIfChanged",), "NotModified"), "listed": (("List",), "Ok"),
}

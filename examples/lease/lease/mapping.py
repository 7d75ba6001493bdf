"""Safety: every request of the trace is an action of model.py, and each response to a caller agrees with the model.

A PUT of the data shows the update's name, "client.k". Whether its response arrives shows only later: the model's client waits
in "Written", and either Acknowledge or LoseReply follows.
"""

import json

from highwater import Event, Match, Refiner
from highwater.traces import trace
from highwater.traces.form import Keys
from highwater.traces.refine import STUTTER
from highwater.traces.trace import refiner_without_witnesses, update_of

from .impl import DATA, LOCK, decode_lock
from .model import NOBODY, Client, Constants, Entry, Shared, model

KEYS = Keys("db/", single=(LOCK, DATA))  # each object that the protocol touches


def refiner(clients: int) -> Refiner:
    """Return a refiner whose model has no bounds, for so many clients."""
    return refiner_without_witnesses(model(Constants(CLIENTS=clients, UPDATES=None, LOCKS=None, MAX_PENDING=None, MAX_LOST=None,
                                                     MAX_CRASHES=None)))


def owner_of(name: str) -> int:
    return int(name.partition("#")[2]) if name else NOBODY


def data_of(body: bytes) -> tuple[Entry, ...]:
    return tuple((token, *update_of(name)) for token, name in json.loads(body))


class Trace(trace.Trace):
    """Checks one trace."""

    writer = "Client"  # the role whose updates are named "client.k"

    def _updates(self, e: Event) -> list[str]:
        return [name for _, name in json.loads(e.body)] if e.key == DATA else []

    # --- a request that was applied, whose client waits for the response

    def _answered(self, e: Event) -> Match:
        if e.key == LOCK and e.op == "get":
            number = decode_lock(e.body).number if e.status == 200 else 0
            return Match(e.client, ("ReadLock",), (), lambda a, s, l, s2, l2: l2.token == number)
        if e.key == LOCK and e.op in ("create", "update"):
            lock = decode_lock(e.body)
            if e.status != 200:
                return Match(e.client, ("LockConflict",), (), lambda a, s, l, s2, l2: l.token + 1 == lock.number)
            return Match(e.client, ("Acquire", "TakeOver", "Renew", "Release"), (), lambda a, s, l, s2, l2: (
                (s2.number, s2.owner) == (lock.number, owner_of(lock.owner))))
        if e.op == "get":
            data = data_of(e.body)  # unheard: a client that does not get the response does not know that it is fenced
            return Match(e.client, ("ReadData", "Fenced"), (), lambda a, s, l, s2, l2: s.data == data, unheard=True)
        if e.op == "update":
            data = data_of(e.body)
            if e.status != 200:
                return Match(e.client, ("AppendConflict",), (), lambda a, s, l, s2, l2: puts(e.client, l, data))
            return Match(e.client, ("Append",), (), lambda a, s, l, s2, l2: s2.data == data)
        raise self._no_action(e, status=True)

    # --- a request whose client got no response, or a status that says nothing about the object

    def _unanswered(self, e: Event) -> Match | None:
        if e.op == "get" or e.pending or (e.kind == "refused" and e.status < 500):
            return Match(e.client, (STUTTER,), op=e.op)  # it is asked again; or it is in the pool; or nothing has happened
        if e.key == LOCK:
            number = decode_lock(e.body).number
            return Match(e.client, ("LoseReply", "SendLock", STUTTER), None, lambda a, s, l, s2, l2: (
                l.pc == "Idle" if a is STUTTER else l.token == number - (a == "SendLock")))
        data = data_of(e.body)
        return Match(e.client, ("LoseReply", "SendData", "GiveUp"), (), lambda a, s, l, s2, l2: (
            l.k == data[-1][2] and (l.pc == "Held" if a == "GiveUp" else l.pc == "Written" or puts(e.client, l, data))))

    # --- a PUT that may be applied after its client has stopped waiting: it is in the model's pool

    def _request(self, e: Event) -> tuple:
        if e.key == LOCK:
            lock = decode_lock(e.body)
            return "Lock", lock.number, owner_of(lock.owner)
        return "Data", data_of(e.body)

    def _sends(self, event: tuple) -> Match:
        *_, client, request = event
        return Match(client, ("SendLock", "SendData"), None, lambda a, s, l, s2, l2: request in s2.pool and (
            s2.pool.count(request) > s.pool.count(request)))

    def _arrives(self, event: tuple) -> Match:
        *_, request, status = event
        return Match("", ("ApplyPending",), (request,), lambda a, s, l, s2, l2: (
            ((s2.number, s2.data) != (s.number, s.data)) == (status == 200)))

    # --- what callers were told

    def _told_of(self, e: Event) -> str:
        client, k = update_of(e.body.decode())
        if e.client != f"Client#{client}" or e.key:
            raise self._misled(e, "that is another client's update")
        if e.op == "committed":
            return self._tells(e, Match(e.client, ("Acknowledge",), (), lambda a, s, l, s2, l2: l.k == k))
        if e.op == "failed":
            return self._says(e, lambda s, l: l.k == k and l.pc != "Written" and is_nowhere(s, (client, k)))
        return self._says(e, lambda s, l: l.k == k + 1 and (client, k) not in s.acked)


def puts(client: str, w: Client, data: tuple[Entry, ...]) -> bool:
    """Return whether this is the content that the client puts next."""
    return w.pc == "Ready" and data == (*w.base, (w.token, owner_of(client), w.k))


def is_nowhere(s: Shared, update: tuple[int, int]) -> bool:
    """Return whether the update is not in the data, and no request in flight can bring it there."""
    contents = (s.data, *(request[1] for request in s.pool if request[0] == "Data"))
    return all((client, k) != update for data in contents for _, client, k in data)

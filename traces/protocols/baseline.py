"""Safety: every request of the trace is an action of model/protocols/baseline.py, and each response to a caller agrees with the
model's history.

A write named "w.k" is the k-th update of the model's writer w. When a writer without a reply stops waiting, nothing shows yet
whether it will send the same write again. Both cases are followed until its next request, or the response to its caller,
decides.
"""

from highwater.model.protocols.baseline import Constants, Shared, Update, Writer, model
from highwater.traces import trace
from highwater.traces.event import Event
from highwater.traces.form import Keys
from highwater.traces.protocols.baseline_calls import CALLS, JUDGES
from highwater.traces.refine import Match, Refiner
from highwater.traces.trace import refiner_without_witnesses, update_of

PREFIX = "db/baseline/"
KEYS = Keys(PREFIX, listed=(PREFIX,))


def constants(writers: int, readers: int) -> Constants:
    """Return the constants of a model without bounds, for traces of so many clients."""
    return Constants(WRITERS=writers, UPDATES=None, READERS=readers, MAX_PENDING=None, MAX_LOST=None, MAX_CRASHES=None)


def refiner(c: Constants) -> Refiner:
    return refiner_without_witnesses(model(c))


def named(key: str) -> Update:
    return update_of(key.removeprefix(PREFIX))


class Trace(trace.Trace):
    """Refines one trace of this protocol."""

    calls, claims = CALLS, JUDGES

    def _updates(self, e: Event) -> list[str]:
        return [e.body.decode()]

    def _answered(self, e: Event) -> Match:
        if e.op == "put":
            writer, number = named(e.key)
            return Match(e.client, ("Put",), (), lambda a, s, l, s2, l2: l.k == number and e.client == f"Writer#{writer}")
        if e.op == "list":
            keys = frozenset(map(named, e.keys))
            return Match(e.client, ("List",), (), lambda a, s, l, s2, l2: frozenset(key for key, _ in s.objects) == keys)
        if e.op == "get" and e.status == 200 and e.client.startswith("Reader"):
            key, content = named(e.key), update_of(e.body.decode())
            return Match(e.client, ("Get",), (key,), lambda a, s, l, s2, l2: (key, content) in s.objects)
        raise self._no_action(e, status=True)

    def _request(self, e: Event) -> Update:
        if e.op != "put":
            raise self._no_action(e)
        return named(e.key)

    def _sends(self, event: tuple) -> Match:
        *_, client, request = event
        return Match(client, ("SendPut",), None, lambda a, s, l, s2, l2: l.k == request[1])

    def _arrives(self, event: tuple) -> Match:
        *_, request, _ = event
        return Match("", ("ApplyPending",), (request,))

    def _told_of(self, e: Event) -> str:
        if e.op == "read":
            seen = frozenset(map(update_of, e.body.decode().split()))
            return self._says(e, lambda s, l: l.pc == "Done" and l.got == seen)
        writer, number = update_of(e.body.decode())
        if e.client != f"Writer#{writer}":
            raise self._misled(e, "the write is another writer's")
        if e.op == "committed":
            return self._tells(e, Match(e.client, ("Acknowledge",), (), lambda a, s, l, s2, l2: l.k == number))
        return self._says(e, lambda s, l: ENDED[e.op](s, l, (writer, number)))


def is_nowhere(s: Shared, w: Writer, update: Update) -> bool:
    return w.pc == "Idle" and w.k == update[1] and update not in s.pool and update not in {of for _, of in s.objects}


def is_in_doubt(s: Shared, w: Writer, update: Update) -> bool:
    return (w.pc == "Idle" and w.k == update[1] + 1 and update not in s.acked) or is_nowhere(s, w, update)


ENDED = {"failed": is_nowhere, "unknown": is_in_doubt}  # response -> the condition under which it is true

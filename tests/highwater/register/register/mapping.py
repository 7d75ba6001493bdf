"""Safety: every request of the trace is an action of model.py, and each response to a caller agrees with the model."""

from highwater import Event, Match, Refiner
from highwater.traces import trace
from highwater.traces.form import Keys
from highwater.traces.trace import refiner_without_witnesses, update_of
from register.impl import KEY
from register.model import Constants, Shared, Update, Writer, model

KEYS = Keys("db/", single=(KEY,))


def refiner(writers: int) -> Refiner:
    """Return a refiner of the model without bounds."""
    return refiner_without_witnesses(model(Constants(writers, None, None, None, None)))


class Trace(trace.Trace):
    """Refines one trace of the register."""

    def _updates(self, e: Event) -> list[str]:
        return [e.body.decode()]

    def _answered(self, e: Event) -> Match:
        if e.op != "create":
            raise self._no_action(e)
        update = update_of(e.body.decode())
        action = "Create" if e.status == 200 else "CreateConflict"
        return Match(e.client, (action,), (), lambda a, s, l, s2, l2: (e.client, l.k) == (f"Writer#{update[0]}", update[1]))

    def _request(self, e: Event) -> Update:
        if e.op != "create":
            raise self._no_action(e)
        return update_of(e.body.decode())

    def _sends(self, event: tuple) -> Match:
        *_, client, request = event
        return Match(client, ("SendCreate",), (), lambda a, s, l, s2, l2: l.k == request[1])

    def _arrives(self, event: tuple) -> Match:
        *_, request, status = event
        return Match("", ("ApplyPending",), (request,), lambda a, s, l, s2, l2: (s2.value != s.value) == (status == 200))

    def _told_of(self, e: Event) -> str:
        update = update_of(e.body.decode())
        if e.client != f"Writer#{update[0]}" or e.key:
            raise self._misled(e, "that is no response to it")
        if e.op == "committed":
            return self._tells(e, Match(e.client, ("Acknowledge",), (), lambda a, s, l, s2, l2: l.k == update[1]))
        return self._says(e, lambda s, l: ENDED[e.op](s, l, update))


def is_nowhere(s: Shared, w: Writer, update: Update) -> bool:
    return w == Writer(k=update[1]) and update != s.value and update not in s.pool


def is_in_doubt(s: Shared, w: Writer, update: Update) -> bool:
    return (w == Writer(k=update[1] + 1) and update not in s.acked) or is_nowhere(s, w, update)


ENDED = {"failed": is_nowhere, "unknown": is_in_doubt}  # response -> the condition under which it is true

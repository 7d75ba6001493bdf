"""Safety: every request of a trace is an action of model.py, and each response to a caller agrees with the model.

Each method returns a Match: a process of the model, and the actions of which one must explain the event. Its last argument,
`agrees(action, shared, local, shared', local')`, says whether a step shows what was observed.
`highwater docs mapping` explains the rest.
"""

from highwater import Event, Match, Refiner
from highwater.traces import trace
from highwater.traces.form import Keys
from highwater.traces.refine import STUTTER
from highwater.traces.trace import refiner_without_witnesses, update_of

from .impl import PREFIX, key_of
from .model import Constants, Shared, model, owner

KEYS = Keys(PREFIX, listed=(PREFIX,))  # CHANGE: the keys of your protocol; any other key in a trace is a failure


def refiner(clients: int) -> Refiner:
    """Return a refiner whose model has no bounds, for so many clients."""
    return refiner_without_witnesses(model(Constants(CLIENTS=clients, JOBS=None, MAX_PENDING=None, MAX_LOST=None,
                                                     MAX_CRASHES=None)))


class Trace(trace.Trace):
    """Checks one trace. A body is "c.k": client c claims job k."""

    writer = "Client"  # the role whose updates are named "c.k"

    def _updates(self, e: Event) -> list[str]:
        return [e.body.decode()]

    def _answered(self, e: Event) -> Match:
        """Map a request that was applied, or whose condition failed, while its client waits for the response."""
        if e.op != "create":
            raise self._no_action(e)
        _, k = self._request(e)
        action = "Create" if e.status == 200 else "CreateConflict"
        return Match(e.client, (action,), (), lambda a, s, l, s2, l2: l.k == k)

    def _unanswered(self, e: Event) -> Match:
        """Map a time-out or an error status. It was applied; or it is in flight; or its condition had failed.

        After a definite error (status below 500) nothing has happened, and the model stays as it is (STUTTER)."""
        if e.pending or (e.kind == "refused" and e.status < 500):
            return Match(e.client, (STUTTER,), op=e.op)
        _, k = self._request(e)
        return Match(e.client, ("LoseReply", "SendCreate", STUTTER), (), lambda a, s, l, s2, l2: l.k == k + (a is STUTTER))

    def _request(self, e: Event) -> tuple[int, int]:
        """Return the form of a request in the model's pool: its client has stopped waiting, and it may still be applied."""
        client, k = update_of(e.body.decode())
        if e.key != key_of(k) or e.client != f"Client#{client}":
            raise self._no_action(e, "this client")
        return client, k

    def _sends(self, event: tuple) -> Match:
        """Map the moment when a client stops waiting."""
        *_, client, request = event
        return Match(client, ("SendCreate",), (), lambda a, s, l, s2, l2: l.k == request[1])

    def _arrives(self, event: tuple) -> Match:
        """Map the moment when the store applies such a request."""
        *_, request, status = event
        return Match("", ("ApplyPending",), (request,), lambda a, s, l, s2, l2: (s2.owners != s.owners) == (status == 200))

    def _told_of(self, e: Event) -> str:
        """Check what a caller was told. `op` is the word of scenario.py, `body` the name of the update."""
        client, k = update_of(e.body.decode())
        if e.client != f"Client#{client}" or e.key:
            raise self._misled(e, "that is another client's claim")
        if e.op == "committed":
            return self._tells(e, Match(e.client, ("Acknowledge",), (), lambda a, s, l, s2, l2: l.k == k))
        return self._says(e, lambda s, l: l.k == k + (e.op != "failed") and TRUE[e.op](s, client, k))


TRUE = {  # what a caller was told -> the condition under which it is true
    "taken": lambda s, client, k: owner(s, k) not in (None, client),
    "failed": lambda s, client, k: is_nowhere(s, client, k),
    "unknown": lambda s, client, k: (client, k) not in s.acked,
}


def is_nowhere(s: Shared, client: int, k: int) -> bool:
    return owner(s, k) != client and (client, k) not in s.pool

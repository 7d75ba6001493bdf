"""Safety: of clients that race to initialise an empty store, each puts the first content and nothing else. A client is told
that the store is initialised only if somebody has created that content.

A model begins with the first content. So the requests of an initialisation are no actions of it, and are checked here. A create
of the first content that arrives late changes nothing: nobody deletes that content in the protocols that begin so.
"""

from highwater.traces.event import Event
from highwater.traces.trace import Trace


class Beginning(Trace):
    """A trace in which a client is told "initialising" before it initialises, and "initialised" after it. `first`: key and body
    of the first content."""

    first: tuple[str, bytes]

    def __init__(self, *among: object, **options: object):
        super().__init__(*among, **options)  # pyright: ignore[reportArgumentType]  # of the class that is mixed in
        self.initialising: set[str] = set()
        self.under_way: set[tuple[str, int]] = set()  # creates of the first content that nobody waits for
        self.is_there = False

    def _take(self, e: Event) -> None:
        if e.kind == "told" and e.op in ("initialising", "initialised"):
            if e.op == "initialised" and not self.is_there:
                raise self._misled(e, "nobody has created the first content")
            (self.initialising.add if e.op == "initialising" else self.initialising.discard)(e.client)
        elif (e.client, e.request) in self.under_way and not e.awaited:
            self._begins(e)
        elif e.client in self.initialising and e.awaited and e.kind != "told":
            self.last[e.client] = e.request
            if e.pending:
                self.under_way.add((e.client, e.request))
            if e.kind == "applied":
                self._begins(e)
        else:
            super()._take(e)

    def _begins(self, e: Event) -> None:
        if e.op == "create" and (e.key, e.body) != self.first:
            raise self._refused("beginning", f"{e.client} creates {e.key}, which is not the first content")
        if e.op not in ("create", "list"):
            raise self._no_action(e, "an initialisation")
        self.is_there = self.is_there or (e.op == "create" and e.status == 200)

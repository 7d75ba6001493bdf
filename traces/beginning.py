"""Safety: of clients that race to initialise an empty store, each puts the first content and nothing else. A client is told
that the store is initialised only if somebody has created that content.

A model begins with the first content. So the requests of an initialisation are no actions of it, and are checked here. A create
of the first content that arrives late changes nothing: nobody deletes that content in the protocols that begin so.
"""

from typing import Self

from highwater.traces.event import Event
from highwater.traces.form import MUTATIONS
from highwater.traces.refine import Refiner
from highwater.traces.trace import AGAIN, Trace, sent


class Beginning(Trace):
    """A trace in which a client is told "initialising" before it initialises, and "initialised" after it. `first`: key and body
    of the first content."""

    first: tuple[str, bytes]

    bodiless = ("initialising", "initialised")

    def __init__(self, *among: object, **options: object):
        super().__init__(*among, **options)  # pyright: ignore[reportArgumentType]  # of the class that is mixed in
        self.initialising: dict[str, int] = {}  # client -> the request that has shown it a first content; 0: none yet
        self.under_way: dict[tuple[str, int], tuple] = {}  # client, number of a create that nobody waits for -> the request
        self.is_there = False

    def anew(self, refiner: Refiner) -> Self:
        trace = super().anew(refiner)
        trace.first = self.first
        return trace

    def _take(self, e: Event) -> None:
        if e.kind == "applied" and not e.awaited and (e.client, e.request) in self.under_way:
            self._on_time(e)
            if self.under_way.pop((e.client, e.request)) != sent(e):
                raise self._refused("beginning", f"request {e.request}, {e.op} {e.key}, was sent by nobody")
            self._begins(e)
        elif e.client in self.initialising and e.kind != "told" and (e.awaited or e.kind != "applied"):
            self._on_time(e)
            self._numbered(e)
            if e.pending and e.op in MUTATIONS:
                self.under_way[e.client, e.request] = sent(e)
            self._begins(e)
            if e.kind == "applied" and (e.op == "create" or e.keys):
                self.initialising[e.client] = e.request
            elif e.awaited and self.initialising[e.client] == e.request:
                self.initialising[e.client] = 0  # nobody has had the response
            if e.kind == "crash":
                del self.initialising[e.client]
        else:
            super()._take(e)

    def _begins(self, e: Event) -> None:
        self._well_formed(e)
        if e.op == "create" and (e.key, e.body) != self.first:
            raise self._refused("beginning", f"{e.client} creates {e.key}, which is not the first content")
        if e.op not in ("create", "list"):
            raise self._no_action(e, "an initialisation")
        self.is_there = self.is_there or (e.op == "create" and e.status == 200)

    def _told_of(self, e: Event) -> str | None:
        if e.op not in self.bodiless:
            return super()._told_of(e)
        if e.keys or (e.op == "initialised" and not self.initialising.get(e.client)):
            raise self._misled(e, "it has begun no initialisation, or has not met a first content")
        if e.op == "initialised" and not self.is_there:
            raise self._misled(e, "nobody has created the first content")
        if e.op == "initialised":
            del self.initialising[e.client]
        elif e.client in self.initialising or ((last := self._last_of(e)) is not None and last.kind not in ("crash", "told")):
            raise self._misled(e, "its call before has not ended")
        else:
            self.initialising[e.client] = 0
        return AGAIN

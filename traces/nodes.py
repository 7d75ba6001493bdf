"""Check a trace of nodes: the order of its events, and what callers were told by the table of calls.

A mapping of nodes says in `_take` what their steps, messages and disks are in its model.
"""

from highwater.traces.calls import CALL, outside, untrue
from highwater.traces.event import Event
from highwater.traces.trace import Trace


class NodeTrace(Trace):
    """Refines one trace of nodes, from its beginning."""

    resumable = False
    writer = "Server"

    def observe(self, e: Event) -> None:
        """Check the next event. Raises Failure."""
        self.events.append(e)
        try:
            self._take(e)
        except self.alien as error:
            raise self._alien(error) from error

    def _take(self, e: Event) -> None:
        if e.t_ms < self.now_ms:
            raise self._refused("order", f"at {e.t_ms} ms, after what was at {self.now_ms} ms")
        self.now_ms = e.t_ms

    def _told(self, e: Event) -> None:
        """Judge what a call is said to have returned or raised. Raises Failure."""
        if not e.keys:
            return
        if why := outside(self.calls, e):
            raise untrue(self, e, e.keys[1], why)
        claims, asked = e.keys[len(CALL):], self.calls[e.keys[0]][e.keys[1]].claims
        if len(claims) != len(asked) or not all(map(str.startswith, claims, asked)):
            raise untrue(self, e, e.keys[1], f"by the table of calls its claims are {', '.join(asked) or 'none'}")
        for claim in claims:
            name, _, value = claim.partition("=")
            if why := self.claims[name](self, e, value):
                raise untrue(self, e, name, why)

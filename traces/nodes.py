"""Check a trace of nodes: the order of its events, what their machines can have done (traces/machines.py), and what callers
were told by the table of calls.

A mapping of nodes says in `_take` what their steps, messages and disks are in its model.
"""

from typing import Any, Self

from highwater.traces.calls import CALL, outside, untrue
from highwater.traces.event import NODE_KINDS, Event
from highwater.traces.machines import Machines, node_of
from highwater.traces.refine import Refiner
from highwater.traces.trace import Trace, copied

KINDS = frozenset((*NODE_KINDS, "told"))


class NodeTrace(Trace):
    """Refines one trace of nodes, from its beginning."""

    writer = "Server"

    def __init__(self, refiner: Refiner, namespace: Any, skew_ms: int = 0):
        super().__init__(refiner, namespace, skew_ms)
        self.machines = Machines()

    def __copy__(self) -> Self:
        return copied(self)

    def standing(self) -> Any:
        own = {name: value for name, value in vars(self).items()
               if name not in ("events", "refiner") and not isinstance(value, Trace)}
        return {**own, "machines": vars(self.machines)}, self.refiner.states

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
        if e.kind not in KINDS or not self.knows(node_of(e.client)):
            raise self._refused("form", f"there is no {e.op!r} of {e.client} that is {e.kind!r}")
        if why := self._impossible(e):
            raise self._refused("machine", why)

    def _impossible(self, e: Event) -> str:
        """Return why no machine can have caused an event; "" if one can."""
        return self.machines.judge(e)

    def _told(self, e: Event) -> None:
        """Judge what a call is said to have returned or raised. Raises Failure."""
        if e.client == node_of(e.client) or 0 < len(e.keys) < len(CALL):
            raise self._refused("form", f"{e.client} is told {e.op} of no call")
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

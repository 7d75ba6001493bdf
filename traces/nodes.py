"""Check a trace of nodes: the order of its events, what their machines can have done (traces/machines.py), and what callers
were told by the table of calls.

A caller is a client on a node's machine. Its calls are in the trace: a step `asks`, with the call in `keys` and its content in
`body`. A response answers the open call of its client, with that content. A client has one call at a time, and a call ends with
its process. So no other client can receive the response, and none can receive it before it has asked.

A mapping of nodes says in `_take` what their steps, messages and disks are in its model. It says in `_since` what is known when
a call begins, because a response must not be older than that.
"""

from typing import Any, NamedTuple, Self

from highwater.traces.calls import CALL, NONE, outside, untrue
from highwater.traces.event import NODE_KINDS, Event
from highwater.traces.machines import Machines, node_of
from highwater.traces.refine import Refiner
from highwater.traces.trace import Trace, copied

KINDS = frozenset((*NODE_KINDS, "told"))
ASKS = "asks"  # the step of a client that begins a call
CALLED = {"Propose": "propose", "Read": "read", "TransferTo": "transfer"}  # step of a node -> the call that it takes up


class Call(NamedTuple):
    """A call of a client. `since`: what the mapping knew when it began."""

    name: str
    body: bytes
    since: Any


class NodeTrace(Trace):
    """Refines one trace of nodes, from its beginning."""

    writer = "Server"

    def __init__(self, refiner: Refiner, namespace: Any, skew_ms: int = 0):
        super().__init__(refiner, namespace, skew_ms)
        self.machines = Machines()
        self.open: dict[str, Call] = {}  # client -> its call that has no response yet
        self.call = Call("", b"", None)  # that the latest response ended

    def __copy__(self) -> Self:
        return copied(self)

    def standing(self) -> Any:
        own = {name: value for name, value in vars(self).items()
               if name not in ("events", "refiner") and not isinstance(value, Trace)}
        return {**own, "machines": vars(self.machines)}, self.refiner.states

    def observe(self, e: Event) -> None:
        """Check the next event. Raises Failure."""
        self.events.append(e)
        self._guarded(self._take, e)

    def _take(self, e: Event) -> None:
        if e.t_ms < self.now_ms:
            raise self._refused("order", f"at {e.t_ms} ms, after what was at {self.now_ms} ms")
        self.now_ms = e.t_ms
        if e.kind not in KINDS or not self.knows(node_of(e.client)):
            raise self._refused("form", f"there is no {e.op!r} of {e.client} that is {e.kind!r}")
        if why := self._no_call(e) if asks(e) else self._impossible(e):
            raise self._refused("machine", why)
        if asks(e):
            self.open[e.client] = Call(e.keys[0], e.body, self._since(e))
        elif e.kind == "told":
            self._ends_call(e)
        elif e.kind == "died":
            self.open = {client: call for client, call in self.open.items() if node_of(client) != e.client}

    def _impossible(self, e: Event) -> str:
        """Return why no machine can have caused an event; "" if one can."""
        return self.machines.judge(e)

    # --- calls

    def _since(self, e: Event) -> Any:
        """Return what is known when a call begins, by which its response is judged."""
        return None

    def _no_call(self, e: Event) -> str:
        """Return why a client cannot begin a call; "" if it can."""
        if e.client == node_of(e.client) or len(e.keys) != 1 or e.keys[0] not in self.calls:
            return f"{e.client} begins the call {' '.join(e.keys) or 'without a name'}"
        if e.client in self.open:
            return f"{e.client} begins the call {e.keys[0]}, and has no response to {self.open[e.client].name}"
        return self.machines.judge(e._replace(kind="told", keys=()))

    def _ends_call(self, e: Event) -> None:
        """End the call that a response answers. Raises Failure if its client has no such call."""
        if len(e.keys) >= len(CALL) and (why := outside(self.calls, e)):
            raise untrue(self, e, e.keys[1], why)
        call = self.open.pop(e.client, None)
        answers = self.calls.get(call.name, {}) if call else {}
        answer = answers.get(e.keys[1]) if len(e.keys) >= len(CALL) else next(
            (answer for answer in answers.values() if answer.told == e.op), None)
        if call is None or (e.keys and e.keys[0] != call.name) or not (e.keys or answer):
            raise self._misled(e, f"its open call is {call.name if call else 'none'}")
        if answer and answer.update != NONE and e.body != call.body:
            raise self._misled(e, f"it has asked for {call.body.decode(errors='replace')!r}")
        self.call = call

    def _told(self, e: Event) -> None:
        """Judge what a call is said to have returned or raised. Raises Failure."""
        if e.client == node_of(e.client) or 0 < len(e.keys) < len(CALL):
            raise self._refused("form", f"{e.client} is told {e.op} of no call")
        if not e.keys:
            return
        claims, asked = e.keys[len(CALL):], self.calls[e.keys[0]][e.keys[1]].claims
        if len(claims) != len(asked) or not all(map(str.startswith, claims, asked)):
            raise untrue(self, e, e.keys[1], f"by the table of calls its claims are {', '.join(asked) or 'none'}")
        for claim in claims:
            name, _, value = claim.partition("=")
            if why := self.claims[name](self, e, value):
                raise untrue(self, e, name, why)


def asks(e: Event) -> bool:
    """Return whether a client begins a call with this event."""
    return e.op == ASKS and e.kind == "step"

"""Safety: a client learns of its request by the reply alone; that it stopped waiting, or died, does not call it back.

The life of each request: issued; applied, or never; replied, or lost, or late. Every application, and every time that a
client stops waiting, is an event of the trace.
"""

from collections.abc import Callable

from dst.kernel import Client, Kernel, Request, Sent
from dst.world.faults import Choose, long_time_ms
from dst.world.store import NEW, SimulatedStore
from impl.errors import AlreadyExists, NotFound, OutcomeUnknown, PreconditionFailed, Unavailable
from traces.event import Event

TIMEOUT_MS = 200
LATENCY_MS = 40  # from one request of a client to its next: 1 to this, if nothing is wrong
READS = ("get", "get_if_changed", "head", "list")
SITES = {op: f"fate.{op}" for op in (*READS, "create", "update", "put", "delete")}
FAILURES = {("create", 412): AlreadyExists, ("update", 412): PreconditionFailed, ("get", 404): NotFound,
            ("get_if_changed", 404): NotFound, ("head", 404): NotFound}


class Network:
    def __init__(self, kernel: Kernel, store: SimulatedStore, observe: Callable[[Event], None], latency: Choose,
                 fault: Choose, fates: tuple[str, ...], around_ms: int, restart: Callable[[Client], None]):
        self.kernel, self.store, self.observe = kernel, store, observe
        self.latency, self.fault, self.fates, self.around_ms, self.restart = latency, fault, fates, around_ms, restart
        self.requests = 0
        kernel.on_request = self.issue

    def issue(self, client: Client, request: Request) -> None:
        kernel = self.kernel
        self.requests = client.waiting = number = self.requests + 1
        sent = NEW(Sent, (client, client.incarnation, number, request))
        there_ms = kernel.now_ms + 1 + self.latency("latency", LATENCY_MS)
        fate = self.fates[self.fault(SITES[request.op], 1000)]
        if fate == "ok":
            kernel.at(there_ms, self.apply, sent, 0)
        elif fate == "stall":
            kernel.at(there_ms, self.apply, sent, self._long("stall"))
        elif fate == "refused":
            kernel.at(there_ms, self.refuse, sent)
        elif fate == "crash":
            self._crash(sent, there_ms)
        else:
            timeout_ms = kernel.now_ms + TIMEOUT_MS
            if fate == "reply_lost":
                kernel.at(there_ms, self.apply, sent, None)
            kernel.at(timeout_ms, self.time_out, sent, fate == "late")
            if fate == "late":
                kernel.at(timeout_ms + self._long("late"), self.apply, sent, None)

    def _long(self, site: str) -> int:
        return long_time_ms(self.fault, site, self.around_ms)

    def _crash(self, sent: Sent, there_ms: int) -> None:
        kernel, when = self.kernel, self.fault("crash", 3)
        if when == 0:  # before the request leaves
            kernel.at(kernel.now_ms, self.crash, sent, False)
        elif when == 1:  # with the request under way
            kernel.at(kernel.now_ms, self.crash, sent, True)
            kernel.at(there_ms + self._long("late"), self.apply, sent, None)
        else:  # before its reply
            kernel.at(there_ms, self.apply, sent, None)
            kernel.at(there_ms + 1, self.crash, sent, False)

    def apply(self, sent: Sent, back_ms: int | None) -> None:
        """The request reaches the store. Its client goes on after `back_ms`, or its reply is lost (None).

        What a client does between a reply and its next request nobody sees, so that the way back takes no time of its own:
        it is in the latency of the next request.
        """
        client, incarnation, number, (op, key, body, condition) = sent
        kernel = self.kernel
        status, version, found, answer = self.store.apply(op, key, body, condition, kernel.now_ms)
        awaited = client.waiting == number
        keys, truncated = (), False
        if op == "list":
            keys, truncated = tuple([entry[0] for entry in answer[0]]), answer[1]
        self.observe(NEW(Event, (kernel.now_ms, number, client.name, "applied", op, key, condition, status, version,
                                 body or found, keys, truncated, awaited, False)))
        if awaited and back_ms is not None:
            error = FAILURES[op, status](key) if status >= 400 else None
            if back_ms:
                kernel.at(kernel.now_ms + back_ms, kernel.resume, client, incarnation, answer, error)
            else:
                kernel.resume(client, incarnation, answer, error)

    def refuse(self, sent: Sent) -> None:
        self._tell(sent, "refused", 503)
        op, key = sent.request[:2]
        self.kernel.resume(sent.client, sent.incarnation, None, Unavailable(f"{op} {key}: 503 slow down"))

    def time_out(self, sent: Sent, pending: bool) -> None:
        if sent.client.waiting == sent.number:
            self._tell(sent, "timeout", 0, pending)
            op, key = sent.request[:2]
            error = (Unavailable if op in READS else OutcomeUnknown)(f"{op} {key}: no reply within {TIMEOUT_MS} ms")
            self.kernel.resume(sent.client, sent.incarnation, None, error)

    def crash(self, sent: Sent, pending: bool) -> None:
        if sent.client.waiting == sent.number:
            self._tell(sent, "crash", 0, pending)
            self.kernel.crash(sent.client)
            self.kernel.at(self.kernel.now_ms + self._long("restart"), self.restart, sent.client)

    def _tell(self, sent: Sent, kind: str, status: int, pending: bool = False) -> None:
        """That a client stops waiting: of a request that may still be applied, or that was, or that never will be."""
        op, key, body, condition = sent.request
        self.observe(Event(self.kernel.now_ms, sent.number, sent.client.name, kind, op, key, condition, status, "", body,
                           pending=pending))

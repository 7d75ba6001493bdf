"""Safety: a client learns of its request by the reply alone; that it stopped waiting, or died, does not call it back.

The life of each request: issued; applied, or never; replied, or lost, or late. Every application, and every time that a
client stops waiting, is an event of the trace.
"""

from collections.abc import Callable

from dst.kernel import Client, Kernel, Request
from dst.world.faults import Choose, long_time_ms
from dst.world.store import Reply, SimulatedStore
from impl.errors import AlreadyExists, NotFound, OutcomeUnknown, PreconditionFailed, Unavailable
from impl.world import Page
from traces.event import Event

TIMEOUT_MS = 200
LATENCY_MS = 40  # from one request of a client to its next: 1 to this, if nothing is wrong
READS = ("get", "get_if_changed", "head", "list")
NEW = tuple.__new__  # a NamedTuple of fields in order, in half the time
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

    def issue(self, r: Request) -> None:
        self.requests += 1
        r.number = self.requests
        kernel = self.kernel
        there_ms = kernel.now_ms + 1 + self.latency("latency", LATENCY_MS)
        fate = self.fates[self.fault(SITES[r.op], 1000)]
        if fate == "ok":
            kernel.at(there_ms, self.apply, r, 0)
        elif fate == "stall":
            kernel.at(there_ms, self.apply, r, self._long("stall"))
        elif fate == "refused":
            kernel.at(there_ms, self.refuse, r)
        elif fate == "crash":
            self._crash(r, there_ms)
        else:
            timeout_ms = kernel.now_ms + TIMEOUT_MS
            if fate == "reply_lost":
                kernel.at(there_ms, self.apply, r, None)
            kernel.at(timeout_ms, self.time_out, r, fate == "late")
            if fate == "late":
                kernel.at(timeout_ms + self._long("late"), self.apply, r, None)

    def _long(self, site: str) -> int:
        return long_time_ms(self.fault, site, self.around_ms)

    def _crash(self, r: Request, there_ms: int) -> None:
        kernel, when = self.kernel, self.fault("crash", 3)
        if when == 0:  # before the request leaves
            kernel.at(kernel.now_ms, self.crash, r, False)
        elif when == 1:  # with the request under way
            kernel.at(kernel.now_ms, self.crash, r, True)
            kernel.at(there_ms + self._long("late"), self.apply, r, None)
        else:  # before its reply
            kernel.at(there_ms, self.apply, r, None)
            kernel.at(there_ms + 1, self.crash, r, False)

    def apply(self, r: Request, back_ms: int | None) -> None:
        """The request reaches the store. Its client goes on after `back_ms`, or its reply is lost (None).

        What a client does between a reply and its next request nobody sees, so that the way back takes no time of its own:
        it is in the latency of the next request.
        """
        kernel, client = self.kernel, r.client
        reply = self.store.apply(r, kernel.now_ms)
        awaited = client.waiting is r
        self._tell(r, "applied", reply, awaited)
        if awaited and back_ms is not None:
            error = None
            if reply.status >= 400:
                error = FAILURES[r.op, reply.status](r.key)
            if back_ms:
                kernel.at(kernel.now_ms + back_ms, kernel.resume, client, r.incarnation, reply.answer, error)
            else:
                kernel.resume(client, r.incarnation, reply.answer, error)

    def refuse(self, r: Request) -> None:
        self._tell(r, "refused", Reply(503), True)
        self.kernel.resume(r.client, r.incarnation, None, Unavailable(f"{r.op} {r.key}: 503 slow down"))

    def time_out(self, r: Request, pending: bool) -> None:
        if r.client.waiting is not r:
            return
        self._tell(r, "timeout", Reply(0), True, pending)
        error = Unavailable if r.op in READS else OutcomeUnknown
        self.kernel.resume(r.client, r.incarnation, None, error(f"{r.op} {r.key}: no reply within {TIMEOUT_MS} ms"))

    def crash(self, r: Request, pending: bool) -> None:
        if r.client.waiting is not r:
            return
        self._tell(r, "crash", Reply(0), True, pending)
        self.kernel.crash(r.client)
        self.kernel.at(self.kernel.now_ms + self._long("restart"), self.restart, r.client)

    def _tell(self, r: Request, kind: str, reply: Reply, awaited: bool, pending: bool = False) -> None:
        keys, truncated = (), False
        if r.op == "list" and type(reply.answer) is Page:
            keys, truncated = tuple([entry.key for entry in reply.answer.entries]), reply.answer.truncated
        self.observe(NEW(Event, (self.kernel.now_ms, r.number, r.client.name, kind, r.op, r.key, r.condition, reply.status,
                                 reply.version, r.body or reply.body, keys, truncated, awaited, pending)))

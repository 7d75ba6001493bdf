"""Carry requests between clients and the store. Safety: a client learns about its request only by the response.

A time-out or a crash does not cancel a request in flight. A request is issued; then it is applied or not; then its response
arrives, is late, or is lost. Each application, and each time a client stops waiting, is an event of the trace.
"""

from collections.abc import Callable
from operator import itemgetter
from typing import Any

from highwater.dst.sim.choose import Choose, Decide
from highwater.dst.sim.kernel import Call, Cancelled, Client, Kernel, Request
from highwater.dst.world.faults import FATES, long_time_ms
from highwater.dst.world.profiles import error_of
from highwater.dst.world.store import NEW, SimulatedStore
from highwater.impl.errors import OutcomeUnknown, Unavailable
from highwater.impl.world import Page
from highwater.traces.event import Event

TIMEOUT_MS = 200
LATENCY_MS = 40  # from a client's request to its next: 1 to this, without faults
READS = ("get", "get_range", "get_if_changed", "head", "list")
OPS = (*READS, "create", "update", "put", "delete")
REFUSALS = {"refused": 503, "conflict": 409, "forbidden": 403}  # never applied; for a mutation only the 503 leaves doubt
KINDS = len(FATES)
KEY = itemgetter(0)  # of a listing's entry
CUT_OFF = ("forbidden", "request_lost", "reply_lost")


def offset_ms(choose: Choose, site: str, skew_ms: int) -> int:
    """Draw the offset of a client's clock from the store's, in -skew_ms .. skew_ms; choice 0 gives 0."""
    return (choose(site, 2 * skew_ms + 1) + skew_ms) % (2 * skew_ms + 1) - skew_ms


class Network:
    """The network of one run, which draws a fate for each request.

    `draw(fates)` draws a fate. `around_ms`: times around which stalls are drawn. `timed`: requests take time; else only the
    schedule delays them. `delay_ms(op)`: duration of a request, else drawn up to LATENCY_MS. `watch(what, client, number of the
    request)` receives what a trace does not show."""

    def __init__(self, kernel: Kernel, store: SimulatedStore, observe: Callable[[Event], None], latency: Choose, fault: Choose,
                 decide: Decide, draw: Callable[[bytes], int], fates: bytes, around_ms: tuple[int, ...], skew_ms: int,
                 restart: Callable[[Client], None], watch: Callable[[str, str, int], None] | None = None,
                 delay_ms: Callable[[str], int] | None = None):
        self.kernel, self.store, self.observe, self.watch = kernel, store, observe, watch
        self.latency, self.fault, self.decide, self.draw = latency, fault, decide, draw
        self.fates, self.around_ms, self.skew_ms, self.restart = fates, around_ms, skew_ms, restart
        self.timed, self.delay_ms = kernel.schedule is None, delay_ms
        self.cut_off: dict[str, tuple[int, str]] = {}  # client -> (until when, how)
        self.requests = 0
        kernel.on_request, kernel.on_timeout, kernel.on_interrupt = self.issue, self.cancel, self.interrupt

    def issue(self, client: Client, request: Request) -> None:
        kernel = self.kernel
        self.requests = client.waiting = number = self.requests + 1
        client.number, client.request, client.under_way = number, request, True
        sites, there_ms, fate = client.sites, kernel.now_ms + 1, 0
        if self.timed:
            there_ms += self.delay_ms(request[0]) if self.delay_ms else self.latency(sites["latency"], LATENCY_MS)
        if self.fates:
            fate = self.decide(sites[request[0]], KINDS, self.draw, self.fates)
        if self.watch:
            self.watch("issue", client.name, number)
        if fate or self.cut_off:
            self._befall(self._now_cut_off(client) or FATES[fate], there_ms, client, client.incarnation, number, request)
        else:
            kernel.at(there_ms, client.name, self.apply, client, client.incarnation, number, request, 0)

    def _befall(self, fate: str, there_ms: int, *sent: Any) -> None:
        """Apply a fate. `sent`, here and below, is a request in flight. It may outlive its caller."""
        kernel, (client, _, number, request) = self.kernel, sent
        name, late = client.name, f"late {client.name}"
        if self.watch and fate != "ok":
            self.watch(fate, name, number)
        if fate == "cut_off":
            kind = CUT_OFF[self.fault(client.sites["cut_off"], len(CUT_OFF))]
            self.cut_off[(client.of or client).name] = kernel.now_ms + self._long(client, "late"), kind
            fate = kind
        if fate == "conflict" and (request.op in READS or self.store.profile.create_exists == 409):
            fate = "ok"
        if fate == "ok":
            kernel.at(there_ms, name, self.apply, *sent, 0)
        elif fate == "stall":
            kernel.at(there_ms, name, self.apply, *sent, self._long(client, "stall"))
        elif fate in REFUSALS:
            kernel.at(there_ms, name, self.refuse, *sent, REFUSALS[fate])
        elif fate == "crash":
            self._crash(there_ms, *sent)
        else:
            timeout_ms = kernel.now_ms + TIMEOUT_MS
            if fate == "reply_lost":
                kernel.at(there_ms, late, self.apply, *sent, None)
            kernel.at(timeout_ms, name, self.time_out, *sent)
            if fate == "late":
                kernel.at(timeout_ms + self._long(client, "late"), late, self.apply, *sent, None)
            elif fate == "request_lost":
                client.under_way = False

    def _long(self, client: Client, of: str) -> int:
        return long_time_ms(self.fault, client.sites[of], self.around_ms)

    def _now_cut_off(self, client: Client) -> str:
        until_ms, kind = self.cut_off.get((client.of or client).name, (0, ""))
        return kind if self.kernel.now_ms < until_ms else ""

    def _crash(self, there_ms: int, *sent: Any) -> None:
        kernel, client = self.kernel, sent[0]
        late, when = f"late {client.name}", self.fault(client.sites["crash"], 3)
        if when == 0:  # before the request leaves
            client.under_way = False
            kernel.at(kernel.now_ms, client.name, self.crash, *sent)
        elif when == 1:  # before its response
            kernel.at(there_ms, late, self.apply, *sent, None)
            kernel.at(there_ms + 1, client.name, self.crash, *sent)
        else:  # while the request is in flight
            kernel.at(kernel.now_ms, client.name, self.crash, *sent)
            kernel.at(there_ms + self._long(client, "late"), late, self.apply, *sent, None)

    def apply(self, client: Client, incarnation: int, number: int, request: Request, back_ms: int | None) -> None:
        """Apply a request at the store. Its client continues after `back_ms`, or its response is lost (None).

        Nobody sees what a client does between a response and its next request. So the way back takes no time of its own, but is
        part of the next request's latency."""
        op, key, body, condition = request
        kernel = self.kernel
        now_ms = kernel.now_ms
        status, version, found, answer = self.store.apply(op, key, body, condition, now_ms)
        awaited, error, keys, truncated = client.waiting == number, None, (), False
        if status >= 300:
            error = error_of(self.store.profile, op, status, key)
            if type(error) is Unavailable:  # the response says nothing about the object
                self.refuse(client, incarnation, number, request, status)
                return
        if awaited:
            client.under_way = False
        if op == "list":
            assert isinstance(answer, Page)
            entries, truncated = answer
            keys = tuple(map(KEY, entries))
        self.observe(NEW(Event, (now_ms, number, client.name, "applied", op, key, condition, status, version,
                                 body or found, keys, truncated, awaited, False)))
        if awaited and back_ms is not None:
            if back_ms:
                kernel.at(now_ms + back_ms, client.name, self.wake, client, incarnation, answer, error)
            else:
                kernel.resume(client, incarnation, answer, error)

    def wake(self, client: Client, incarnation: int, answer: object, error: Exception | None) -> None:
        """Resume a client after a stall. Its clock has been adjusted meanwhile, within the skew."""
        if self.skew_ms:
            of = client.of or client
            of.clock_offset_ms = offset_ms(self.fault, client.sites["clock"], self.skew_ms)
            of.ahead_ms = max(of.ahead_ms, of.clock_offset_ms)
        self.kernel.resume(client, incarnation, answer, error)

    def refuse(self, client: Client, incarnation: int, number: int, request: Request, status: int) -> None:
        """Answer with an error status, and never apply the request. `error_of` says whether the client knows that."""
        if client.waiting == number:
            client.under_way = False
            self._tell(client, "refused", status)
            error = error_of(self.store.profile, request.op, status, request.key)
            assert error is not None
            error.status = status  # for the client's SDK (sdk.py)
            self.kernel.resume(client, incarnation, None, error)

    def time_out(self, client: Client, incarnation: int, number: int, request: Request) -> None:
        if client.waiting == number:
            self._tell(client, "timeout", 0, client.under_way)
            op, key = request[:2]
            error = (Unavailable if op in READS else OutcomeUnknown)(f"{op} {key}: no reply within {TIMEOUT_MS} ms")
            self.kernel.resume(client, incarnation, None, error)

    def cancel(self, client: Client, call: Call) -> None:
        """Cancel a call whose time is over. Its client stops waiting, and a request in flight may still be applied."""
        if call.is_made_by(client) and not client.interrupted:
            self._stops(client, call.first)
            self.kernel.cancel(client, Cancelled(call))

    def interrupt(self, client: Client) -> None:
        """Cancel a task. It stops waiting, and a request in flight may still be applied."""
        self._stops(client, 1)
        self.kernel.interrupt(client)

    def _stops(self, client: Client, first: int) -> None:
        """Record that a client stops waiting for its last request, if that is request `first` or a later one."""
        if client.number >= first and client.ended != client.number:
            self._tell(client, "timeout", 0, client.waiting > 0 and client.under_way, client.waiting > 0)
        if self.watch:
            self.watch("cancelled", client.name, client.number)

    def crash(self, client: Client, incarnation: int, number: int, request: Request) -> None:
        """Crash the process that made a request, with its other tasks."""
        if client.waiting == number:
            process = client.of or client
            self._tell(client, "crash", 0, client.under_way)
            for other in (process, *self.kernel.tasks_of(process)):
                if other is not client and other.waiting:
                    self._tell(other, "crash", 0, other.under_way)
            self.kernel.crash(process)
            self.kernel.at(self.kernel.now_ms + self._long(client, "restart"), process.name, self._start_again, process)

    def _start_again(self, client: Client) -> None:
        if not client.done:  # it may have retired meanwhile
            self.restart(client)

    def retire(self, client: Client) -> None:
        """Crash a client, and do not restart it."""
        for one in (client, *self.kernel.tasks_of(client)):
            if one.request:
                self._tell(one, "crash", 0, one.waiting > 0 and one.under_way)
        self.kernel.crash(client)
        client.done = True

    def _tell(self, client: Client, kind: str, status: int, pending: bool = False, awaited: bool = True) -> None:
        """Record that a client stops waiting for its last request. `pending`: the request may still be applied. Not `awaited`:
        it had the reply, and was waiting for something else."""
        assert client.request is not None
        client.ended = client.number
        op, key, body, condition = client.request
        self.observe(NEW(Event, (self.kernel.now_ms, client.number, client.name, kind, op, key, condition, status, "", body,
                                 (), False, awaited, pending)))

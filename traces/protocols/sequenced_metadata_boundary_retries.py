"""Safety: a trace with retries passes only if each attempt could be an action of the model whose reply was lost.

The attempts of one client at the same request, with equal key and body, are one logical request. An attempt whose reply is lost
has the request's effect on the store, and leaves the client where it was: waiting. So each action has a variant that is
`unheard`. A writer that reads its own file back, at the id that it asked for, continues as if it had received the reply
(`FindOwn`). The actions of a writer whose create had no effect (`GIVES_UP`) are possible only if that is true. These are all
the differences, as `retrying` defines them. They are explored (tests/dst/test_sdk.py), not proved.

Only the client's next request shows whether a reply was received. Until then the client is where the model without retries has
it. If it then sends the same request again, it is put back to where it was before the attempt. Nobody else can have seen the
difference.

A create is in doubt if an attempt had no answer. Its writer may treat it as a conflict only if another writer's file is there
and ahead of the boundary. It may report a failure only if no attempt was or can be applied. Otherwise it must report an unknown
outcome.
"""

from collections.abc import Callable, Iterator

from highwater.impl.layout import Namespace
from highwater.model.core import Local, Model
from highwater.model.explore.tabulated import BITS, FIELD
from highwater.model.protocols.sequenced_metadata_boundary import (
    NO_FILE,
    Collector,
    Constants,
    Shared,
    Writer,
    extended,
    latest,
    model,
    present,
)
from highwater.traces.calls import judge_answer, own
from highwater.traces.event import Event
from highwater.traces.form import MUTATIONS
from highwater.traces.protocols.sequenced_metadata_boundary import Trace, decoded
from highwater.traces.refine import STUTTER, Failure, Match, Refiner

GIVES_UP = ("CreateConflict", "LoseReply")
READS = ("get", "get_range", "get_if_changed", "head", "list")


def find_own(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """GET the id that it asked for, and find its own file there."""
    if w.pc == "Ready" and present(s, w.n + 1) and s.files[w.n] in [file for _, file in extended(c, me, w)]:
        yield (), s, w._replace(pc="Created", base=NO_FILE, late=w.n + 1 <= s.boundary)


def unheard(action: Callable[..., Iterator]) -> Callable[..., Iterator]:
    """Return the action without its local effect: the request reaches the store or the pool, and the client still waits."""
    def waits_on(c: Constants, me: int, s: Shared, local: Local) -> Iterator:
        for choices, after, _ in action(c, me, s, local):
            yield choices, after, local

    return waits_on


def in_history(s: Shared, me: int, w: Writer) -> bool:
    """Return whether the update is in the history, or a create in flight may still put it there.

    Only a create for an id that nobody has created can. Any other copy can be applied only behind the boundary, where a file
    was collected."""
    update = me, w.k
    return update in latest(s).updates or any(r[0] == "Create" and r[1] > s.high and update in r[2] for r in s.pool)


def if_not_in_history(action: Callable[..., Iterator]) -> Callable[..., Iterator]:
    """Restrict an action that gives up a create to updates that are not in the history, so that they may be tried again."""
    def gives_up(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
        if w.pc != "Ready" or not in_history(s, me, w):
            yield from action(c, me, s, w)

    return gives_up


def retrying(of: Model, with_unheard: bool = True) -> Model:
    """Return the model of clients that send requests again."""
    processes = []
    for process in of.processes:
        more = {f"{name}Unheard": unheard(action) for name, action in process.actions.items()} if with_unheard else {}
        own = {}
        if process.role == "Writer":
            own = {"FindOwn": find_own, **{name: if_not_in_history(process.actions[name]) for name in GIVES_UP}}
        processes.append(process._replace(actions={**process.actions, **more, **own} if process.role else process.actions))
    return of._replace(processes=tuple(processes))


def refiner(c: Constants) -> Refiner:
    """Return the refiner of clients that retry. It has no `unheard` actions: clients are put back instead."""
    return Refiner(retrying(model(c)._replace(sometimes={}), with_unheard=False))


class Attempt:
    """The last request of a client."""

    __slots__ = ("before", "failed", "number", "what")

    def __init__(self, number: int, what: tuple, before: Local):
        self.number, self.what, self.before, self.failed = number, what, before, False


class Create:
    """A logical create of a writer."""

    __slots__ = ("body", "doubt", "key", "ready")

    def __init__(self, key: str, body: bytes, ready: Writer):
        self.key, self.body, self.ready = key, body, ready
        self.doubt = False  # an attempt had no answer, or the writer is reading back


class RetryingTrace(Trace):
    """Refines the trace of clients that retry."""

    repeats = True

    def __init__(self, refiner: Refiner, namespace: Namespace, skew_ms: int = 0):
        super().__init__(refiner, namespace, skew_ms)
        self.attempts: dict[str, Attempt] = {}
        self.creates: dict[str, Create] = {}
        self.unheard: set[bytes] = set()  # updates that the model acknowledged with a lost reply

    def _take(self, e: Event) -> None:
        if e.kind == "told":
            self._concluded(e)
            super()._take(e)
        elif e.kind == "applied" and not e.awaited:
            super()._take(e)
        else:
            self._go_on(e)
            create = self.creates.get(e.client)
            if create is None or not self._of_create(e, create):
                self._look_again(e)
                try:
                    super()._take(e)
                except Failure as failure:
                    failure.args = (f"{failure}{self._still_open(e.client)}",)
                    raise
            if e.kind == "crash":
                self.creates.pop(e.client, None)
                self.attempts.pop(e.client, None)

    def _still_open(self, client: str) -> str:
        """Describe what a writer with an open create has received, for the message of a Failure; "" if none is open."""
        local = self.refiner.local(client)
        if not isinstance(local, Writer) or local.pc != "Ready":
            return ""
        key = self.namespace.key(local.n + 1)
        heard: dict[int, str] = {}
        for e in own(self, client):
            if e.key == key and e.awaited:  # the last event of a request counts: no reply came
                heard.setdefault(e.request, f"{e.op}: {e.status or e.kind}")
        shown = ", ".join(reversed(heard.values()))
        return f"; its create of {key} is open, and all it heard of it is {shown}" if heard else ""

    def _put_back(self, client: str, local: Local) -> None:
        """Turn the last step into an unheard one. Only the client sees its local state, so nothing else changes."""
        r = self.refiner
        part = r.index[client] + 1
        number = r.explorer.intern(part, local)
        r.states = tuple([state + (number - (state >> BITS * part & FIELD) << BITS * part) for state in r.states])

    def _go_on(self, e: Event) -> None:
        """Decide whether this request repeats the client's last one. If it does, the reply to that was lost."""
        attempt, create = self.attempts.get(e.client), self.creates.get(e.client)
        if attempt and attempt.number == e.request:
            attempt.failed = e.kind in ("timeout", "refused")
            return
        what = e.op, e.key, e.condition, b"" if e.op in READS else e.body
        if create and e.op == "get" and e.key == create.key:
            create.doubt = True  # the writer reads back
            self._put_back(e.client, create.ready)
        elif attempt and attempt.failed and attempt.what == what:
            if isinstance(attempt.before, Writer) and attempt.before.pc == "Created":
                self.unheard.add(f"{e.client.partition('#')[2]}.{attempt.before.k}".encode())
            self._put_back(e.client, attempt.before)
        before = self.refiner.local(e.client)
        if e.op == "list":
            self.creates.pop(e.client, None)
        elif e.op == "create" and e.key != self.namespace.boundary_key and (
                not create or (create.key, create.body) != (e.key, e.body)):
            self.creates[e.client] = Create(e.key, e.body, before)
        self.attempts[e.client] = attempt = Attempt(e.request, what, before)
        attempt.failed = e.kind in ("timeout", "refused")

    def _look_again(self, e: Event) -> None:
        """Let a collector that reads the boundary again forget what it knew, if the boundary has changed.

        After it has read the checkpoints it reads the boundary to check them. What it knew suffices for its deletes."""
        if e.key == self.namespace.boundary_key and e.op in READS and e.kind == "applied":
            local = self.refiner.local(e.client)
            known = isinstance(local, Collector) and local.pc == "Known" and local.checked >= local.marked
            if known and local.b != self.refiner.shared().boundary:
                self.refiner.step(Match(e.client, ("LoseReply",)))

    def _of_create(self, e: Event, create: Create) -> bool:
        """Take an event that differs from a run without retries. Return whether it was one."""
        failed, ready = e.kind in ("timeout", "refused"), self.refiner.local(e.client).pc == "Ready"
        known = create.doubt
        if e.key == create.key and e.op == "create":
            create.doubt |= e.kind == "timeout"
        if e.kind == "crash":
            return False
        if failed and ready and not (e.pending and e.op in MUTATIONS):
            match = None  # the writer will decide what to conclude
        elif e.key == create.key and e.op == "create" and e.status >= 300 and known:
            match = Match(e.client, (STUTTER,), None, lambda a, s, l, s2, l2: l.pc == "Ready" and present(s, l.n + 1), e.op)
        elif e.key == create.key and e.op == "get" and not failed:
            match = self._read_back(e, create)
        elif e.key == self.namespace.boundary_key and ready:
            value = 0 if e.status == 404 else int(e.body) if e.status == 200 else None
            own = decoded(create.body)[0]
            match = Match(e.client, ("CreateConflict", STUTTER), (), lambda a, s, l, s2, l2: value in (None, s.boundary) and (
                a is STUTTER or (s.boundary <= l.n and s.files[l.n] != own)))
        else:
            return False
        self._expire(e.t_ms + self.skew_ms)
        self.last[e.client] = e.request
        if match:
            self.refiner.step(match)
        return True

    def _read_back(self, e: Event, create: Create) -> Match:
        if e.status == 404:
            return Match(e.client, (STUTTER,), None, lambda a, s, l, s2, l2: not present(s, l.n + 1), e.op)
        found = decoded(e.body)[0]
        own = ("FindOwn",) if e.body == create.body else (STUTTER,)
        return Match(e.client, own, None, lambda a, s, l, s2, l2: present(s, l.n + 1) and s.files[l.n] == found, e.op)

    def _concluded(self, e: Event) -> None:
        """Before a response, take the step by which the writer ends a create that is still open."""
        create = self.creates.pop(e.client, None)
        self.attempts.pop(e.client, None)
        shared, local = self.refiner.shared(), self.refiner.local(e.client)
        if create and local.pc == "Ready":
            doubtful = in_history(shared, int(e.client.partition("#")[2]), local)
            if e.op == "unknown" and doubtful:  # as a request in flight that will never arrive
                own = decoded(create.body)[0]
                request = ("Create", self.namespace.file_id(create.key), tuple(sorted(own.updates)),
                           tuple(sorted(own.checkpoints)))
                pool = tuple(sorted((*shared.pool, request)))
                self.refiner.step(Match(e.client, ("SendCreate",), None, lambda a, s, l, s2, l2: s2.pool == pool))
            elif not doubtful:
                self.refiner.step(Match(e.client, ("LoseReply",)))

    def _told(self, e: Event) -> None:
        """Check a response. The model acknowledges at the read of the boundary. If its reply was lost, the next may refuse.
        An update may be reported as failed while stale copies of it are in flight or behind the boundary."""
        if e.op == "failed":
            writer, number = map(int, e.body.split(b"."))
            if in_history(self.refiner.shared(), writer, Writer(k=number)):
                raise self._misled(e, "in the model it is in the history or in flight")
            if e.keys:
                judge_answer(self, e)
        elif e.op != "refused" or e.body not in self.unheard:
            super()._told(e)

"""Safety: a trace passes only if each of its events is an action of a protocol's model, and each response to a caller agrees
with the model's history.

This module checks what the traces of all protocols have in common: times and request numbers rise, the store's replies follow
from the requests before them (traces/store.py), and a request that arrives was sent. A protocol's own mapping is a subclass in
traces/protocols/STEM.py. It maps each request to actions of the model.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from functools import lru_cache
from itertools import takewhile
from traceback import walk_tb
from typing import Any, Self, TypeVar

from highwater import messages, project
from highwater.impl.layout import InvalidName
from highwater.interrupt import is_by_signal
from highwater.model.core import Local, Model, Shared
from highwater.traces.calls import (
    ALONE,
    JUDGES,
    NO_CALLS,
    Calls,
    Claim,
    judge_answer,
    judge_claims,
    judge_late,
    own,
)
from highwater.traces.event import Event
from highwater.traces.form import MUTATIONS, PUTS, UNUSED, malformed
from highwater.traces.refine import REST, STUTTER, Failure, Match, Refiner
from highwater.traces.store import Store

Copied = TypeVar("Copied")
ALIEN = (ValueError, InvalidName)  # raised for an event that is not of this protocol
# For a mapping that takes contents apart without checking their form: what that raises refuses the event, too, and so does a
# mistake in the mapping.
UNCHECKED = (*ALIEN, LookupError, TypeError, AttributeError)

LOSE_REPLY, CRASH = LACKED = "LoseReply", "Crash"  # actions that some models lack, as they would change nothing there
COLLECTS = ("collects",)  # a request in flight that is an action of its client when it arrives, not of the pool


@lru_cache(100_000)
def update_of(name: str) -> tuple[int, int]:
    """Return client and number of the update "w.k". Raises ValueError for any other name."""
    writer, number = map(int, name.split("."))
    if name != f"{writer}.{number}":
        raise ValueError(f"{name!r} is no name of an update")
    return writer, number


def distinct(values: Iterable[Any]) -> frozenset:
    """Return the set of these values. Raises ValueError if one is there twice."""
    those = list(values)
    if len(set(those)) < len(those):
        raise ValueError(f"one is there twice: {those}")
    return frozenset(those)


def is_nested(error: BaseException) -> bool:
    """Return whether the JSON in a body is nested too deeply to be taken apart."""
    return isinstance(error, RecursionError) and [frame.f_globals["__name__"] for frame, _ in walk_tb(error.__traceback__)][
        -1].startswith("json.")


def refiner_without_witnesses(model: Model) -> Refiner:
    """Return a refiner that looks for no witnesses. Make it once for many traces, because it caches what it computes."""
    return Refiner(model._replace(sometimes={}))


class WrongMatch(Exception):
    """A mapping returns a match of a client or of an action that the model does not have."""


def copied(of: Copied) -> Copied:
    """Return a copy that shares nothing that changes: its collections are copied, and all that knows how to be."""
    again = object.__new__(type(of))
    vars(again).update({name: copy(value) if isinstance(value, (list, dict, set)) or hasattr(value, "__copy__") else value
                        for name, value in vars(of).items()})
    return again


def is_before(old: Event, e: Event) -> bool:
    """Return whether a client that waited for `old` has sent the request of `e` later: it has one at a time."""
    return 0 < old.request < e.request and (old.awaited or old.kind != "applied")


def sent(e: Event) -> tuple:
    """Return the request of an event, without the reply."""
    return e.op, e.key, e.condition, e.body if e.op in MUTATIONS else b""


class ByClient(dict[str, list[Event]]):
    """Client -> its observed events, in order. Columns of events (traces/follow.py) find them by themselves."""

    def __missing__(self, client: str) -> list[Event]:
        found = self[client] = []
        return found

    def __copy__(self) -> "ByClient":
        return ByClient({client: [*events] for client, events in self.items()})


class Trace:
    """Refines one trace. `namespace`: the protocol's keys, an impl.layout.Namespace or traces.form.Keys. `skew_ms`: how far any
    client's clock may be ahead of the store's.

    An exception in `alien` refuses the event. Any other exception of the mapping is a failure of the harness."""

    alien: tuple[type[Exception], ...] = ALIEN
    writer = "Writer"  # the role with named updates: "w.k" is one of client number w
    calls: Calls = NO_CALLS  # the answers that each call may give
    claims: Mapping[str, Claim] = JUDGES  # the judges of what answers claim
    keyed: tuple[str, ...] = ()  # the responses that name an object
    bodiless: tuple[str, ...] = ()  # those that have no body
    repeats = False  # an SDK below the calls repeats requests by itself
    aside: tuple[str, ...] = ()  # prefixes of keys that hold no part of an update
    collector = ""  # name prefix of clients without model state: a late write of theirs is their own action
    resumable = True  # a copy of it can go on from a state of its model, in the middle of a trace (traces/damage/kills.py)
    more: tuple = ()  # further arguments that a trace of the same kind is made with

    def __init__(self, refiner: Refiner, namespace: Any, skew_ms: int = 0):
        self.refiner, self.namespace, self.skew_ms = refiner, namespace, skew_ms
        self.events: Any = []  # a list of events; traces/follow.py puts columns of them there
        self.by_client = ByClient()
        self.last: dict[str, int] = {}  # client -> number of its last request; it has one at a time
        self.denied: dict[tuple[str, int], Event] = {}  # client, number -> the answer by which it is never applied
        self.pending: dict[tuple[str, int], tuple] = {}  # client, number -> op, key, condition, body, and in the pool
        self.store = Store()  # of which nothing is known yet; dst/scenario.py begins it for a run of the simulation
        self.expiries: list[tuple[int, int]] = []  # (time, what expires then), the soonest first
        self.now_ms = 0
        refiner.begin()

    def anew(self, refiner: Refiner) -> Self:
        """Return a trace of the same kind that has observed nothing."""
        trace = type(self)(refiner, self.namespace, self.skew_ms, *self.more)
        trace.store = self.store.anew()
        return trace

    @property
    def refiners(self) -> tuple[Refiner, ...]:
        """Return the refiners whose states it goes on from."""
        return (self.refiner,)

    def trim(self) -> None:
        """Clear what is cached of the model, if it has become much: nothing of it decides what becomes of further events."""
        for of in self.refiners:
            of.trim()

    def standing(self) -> Any:
        """Return all that decides what becomes of further events, so that it can be compared; None if it cannot."""
        return None

    # --- a protocol's own

    def _match(self, e: Event) -> Match | None:
        """Return the match of an event; None: no step. The result must follow from the event alone, and from what is the same
        in every trace, because it is cached for all traces."""
        self._well_formed(e)
        if self._is_collector(e):
            return self._of_collector(e) if e.kind == "applied" else None
        of = self._answered if e.kind == "applied" else self._crashed if e.kind == "crash" else self._unanswered
        match = of(e)
        if match and match.process not in (known := self.refiner.index):
            wrong = ValueError if match.process == e.client else WrongMatch
            raise wrong(f"the model has no client {match.process}, only {', '.join(filter(None, known))}")
        if match and (strange := [a for a in match.actions if a and a not in self.refiner.actions and a not in LACKED]):
            raise WrongMatch(f"the model has no action {strange[0]}, only {', '.join(sorted(self.refiner.actions))}")
        return match if not match or match.op or any(match.actions) else match._replace(op=e.op)

    def _answered(self, e: Event) -> Match | None:
        """Return the match of an applied request whose client still waits."""
        raise NotImplementedError("the mapping has no method _answered")

    def _of_collector(self, e: Event) -> Match | None:
        """Return the match of an applied request of the role `collector`."""
        raise NotImplementedError("the mapping has no method _of_collector")

    def _unanswered(self, e: Event) -> Match | None:
        """Return the match of a time-out or a refusal: the client continues without a reply."""
        return Match(e.client, (LOSE_REPLY, STUTTER))

    def _crashed(self, e: Event) -> Match | None:
        """Return the match of a crash. Unless overridden: the action Crash, or no step where it is not possible."""
        return Match(e.client, (CRASH, STUTTER))

    def _request(self, e: Event) -> tuple:
        """Return the form of a mutation in the model's pool, once nobody waits for it."""
        raise NotImplementedError("the mapping has no method _request")

    def _sends(self, event: tuple) -> Match:
        """Return the step that puts a request into the pool. `event` is `(.., client, request)`; nothing else is used."""
        raise NotImplementedError("the mapping has no method _sends")

    def _arrives(self, event: tuple) -> Match:
        """Return the step that applies a request of the pool. `event` is `(.., request, status)`; nothing else is used."""
        raise NotImplementedError("the mapping has no method _arrives")

    def _told_of(self, e: Event) -> str | None:
        """Check a response to a caller. Raises the Failure of `_misled` if the model's state contradicts it. Returns what
        `_says` or `_tells` returns; None if the event alone decides, or the client's and the shared state."""
        raise NotImplementedError("the mapping has no method _told_of")

    def _updates(self, e: Event) -> Iterable[str]:
        """Return the names of the updates in the content that is put, in order. Raises the exceptions in `alien`."""
        return ()

    def _pass_time(self) -> None:
        """Advance to `now_ms`: take the steps that are due in `expiries`."""

    def _note(self, e: Event) -> None:
        """Note that an object was put."""

    # --- of all

    def knows(self, client: str) -> bool:
        """Return whether a trace of this kind may have such a client. Unless overridden: the model has it."""
        return client in self.refiner.index

    def update_put(self, e: Event) -> str:
        """Return the update that a writer puts: its own latest in the content; "" if there is none."""
        role, _, number = e.client.partition("#")
        if role != self.writer or e.op not in PUTS:
            return ""
        try:
            return next((name for name in reversed(list(self._updates(e))) if name.startswith(f"{number}.")), "")
        except self.alien:
            return ""

    def observe(self, e: Event) -> None:
        """Check the next event. Raises Failure, also for an event that is not of this protocol."""
        self.events.append(e)
        self._guarded(self._take_judged, e)
        self.by_client[e.client].append(e)

    def _take_judged(self, e: Event) -> None:
        if self.store.judges and e.kind == "applied" and (lie := self.store.judge(e)):
            raise self._refused("store", lie)
        self._take(e)

    def _guarded(self, take: Callable[[Event], None], e: Event) -> None:
        """Call `take(e)`. Raises Failure for any exception of it but MemoryError and those that a signal's handler raises."""
        try:
            take(e)
        except (Failure, MemoryError):
            raise
        except BaseException as error:
            if is_by_signal(error):
                raise
            raise self._failure(error) from error

    def _failure(self, error: BaseException) -> Failure:
        """Return the failure of an event for which the mapping raised an exception."""
        name, place, number = type(error).__name__, messages.place(error), len(self.events) - 1
        if isinstance(error, self.alien) or is_nested(error):
            return self._refused(name, f"event {number} is none of this protocol's: {error}" + f" ({place})" * bool(place))
        who, hint = ("model", "") if place and place.part == "model" else (
            "mapping", "; for an event that no action explains, raise self._no_action(e)")
        message = f"event {number}: the {who} raises {project.type_and_message(error)} ({place or type(self).__module__}){hint}"
        return Failure("harness", f"harness:{name}", message, self.refiner.unpacked())

    def _take(self, e: Event) -> None:
        if e.t_ms != self.now_ms or self.expiries:
            self._on_time(e)
        if e.kind == "told":
            self._told(e)
        elif e.awaited or e.kind != "applied":
            self._numbered(e)
            if e.pending and e.op in MUTATIONS:
                self._sent(e)
            self._step(e)
            if e.status == 200 and e.op in PUTS:
                self._note(e)
        else:
            self._arrived(e)

    def _step(self, e: Event) -> None:
        """Take the step of an event that is an action of its own client."""
        self.refiner.event(e.client, e, self._match)

    def _on_time(self, e: Event) -> None:
        if e.t_ms < self.now_ms:
            raise self._refused("order", f"at {e.t_ms} ms, after what was at {self.now_ms} ms")
        self.now_ms = e.t_ms
        self._pass_time()

    def _numbered(self, e: Event) -> None:
        """Check the number of a request that its client has waited for."""
        if e.request <= self.last.get(e.client, 0):
            self._replied(e)
        elif not e.awaited:
            raise self._refused("order", f"{e.client} cannot have had the reply to request {e.request}, which was not applied")
        self.last[e.client] = e.request

    def _is_collector(self, e: Event) -> bool:
        return bool(self.collector) and e.client.startswith(self.collector)

    def _well_formed(self, e: Event) -> None:
        wrong = malformed(e, self.namespace)
        if wrong:
            raise self._refused("form", wrong)

    def _replied(self, e: Event) -> None:
        """Check an event with a used request number. That is valid only if the reply to the request was lost, or the client
        crashed before its next request."""
        if e.request < (last := self.last.get(e.client, 1)):
            raise self._refused("order", f"{e.client} has asked for something else meanwhile: request {e.request} after {last}")
        asked = next(self._same(e), None)
        lost = e.kind == "crash" or (e.kind == "timeout" and asked is not None and asked.kind == "applied")
        if asked is not None and (not lost or e.pending or sent(asked) != sent(e)):
            raise self._refused("order", f"request {e.request} of {e.client} had another end before")

    def _same(self, e: Event) -> Iterator[Event]:
        """Yield the earlier events of the same request, latest first."""
        if getattr(self.events, "columns", False):
            return self.events.same(e)
        return (old for old in takewhile(lambda old: not is_before(old, e), reversed(self.by_client[e.client]))
                if old.request == e.request)

    def _refused(self, what: str, why: str) -> Failure:
        return Failure("refinement", f"refinement:{what}", why, self.refiner.unpacked())

    def _no_action(self, e: Event, of: str = "any client", role: str = "", status: bool = False) -> Failure:
        """Return the failure of a request that no action of the model explains; with `status`, not with this status. Raise it.
        `of` says whose action it is not, and `role` goes into the signature."""
        answer = f" with status {e.status}" if status else ""
        return self._refused(f"{role}.{e.op}" if role else e.op, f"{e.op} of {e.key}{answer} is no action of {of}")

    # --- requests that nobody waits for

    def _sent(self, e: Event) -> None:
        """Put a mutation into the model's pool: its client stopped waiting or crashed, and it may still be applied."""
        if self._is_collector(e):
            self.pending[e.client, e.request] = COLLECTS, sent(e)
            return
        request = self._request(e)
        self.refiner.event(e.client, (0, 0, e.client, request), self._sends)
        self.pending[e.client, e.request] = request, sent(e)

    def _arrived(self, e: Event) -> None:
        self._well_formed(e)
        if e.op not in MUTATIONS:  # a read whose reply nobody receives
            of = list(self._same(e))
            request, asked = (), [sent(old) for old in of if old.pending] if all(old.awaited for old in of) else []
            asked = asked[-1] if asked else None
        else:
            request, asked = self.pending.pop((e.client, e.request), ((), ()))
        judge_late(self, e)
        if asked != sent(e):
            raise self._refused("ApplyPending", f"request {e.request}, {e.op} {e.key}, was sent by nobody")
        if not request:
            return
        if request == COLLECTS:
            self._step(e)
        else:
            self.refiner.event("", (0, 0, request, e.status), self._arrives)
        if e.status == 200:
            self._note(e)

    # --- what callers were told

    def _told(self, e: Event) -> None:
        """Check a response: `op` is its kind, `key` and `body` say what it is about, `keys` what the call said."""
        known = None
        if not e.keys:  # an answer is judged by the requests of its call, too
            known = self.refiner.pair(e.client), e[REST]
            if known in self.refiner.true and not e.request:
                return
        more = (e.key and e.op not in self.keyed) or (e.body and e.op in self.bodiless)
        if e.request or e[6:9] != UNUSED[0] or e[11:] != UNUSED[1] or more:
            raise self._refused("form", f"{e.client} was told more than that: {e}")
        again = self._told_of(e) if e.op not in ALONE or not e.keys else None
        if e.keys:
            judge_answer(self, e)
            judge_claims(self, e)
        if again is not AGAIN and known:
            self.refiner.true.add(known)

    def _tells(self, e: Event, match: Match) -> str:
        """Check a response that must be a step of the model, or agree with its state. The match must follow from the event
        alone, as that of `_match`."""
        try:
            self.refiner.event(e.client, (0, 0, type(self), *e[REST]), lambda _: match)
        except Failure as failure:
            if failure.kind != "refinement":
                raise
            raise self._denied(e) from None
        return AGAIN

    def _says(self, e: Event, so: Callable[[Shared, Local], bool]) -> str:
        """Check a response that must agree with the shared state and the client's local state."""
        if not self.refiner.keep(e.client, so):
            raise self._denied(e)
        return AGAIN

    def _denied(self, e: Event) -> Failure:
        """Return the failure of a response that the model's state contradicts. Raise it."""
        return self._misled(e, f"in the model {e.client} is {self.refiner.local(e.client)}")

    def _last_of(self, e: Event) -> Event | None:
        """Return the last earlier event of the same client, without requests that it no longer waited for."""
        return next((old for old in own(self, e.client) if old.awaited or old.kind != "applied"), None)

    def _misled(self, e: Event, why: str) -> Failure:
        """Return the failure of a response that is false, whatever the model's state is. Raise it."""
        return Failure("safety", f"told:{e.op}", f"{e.client} was told {e.op!r} of {e.body.decode()!r}"
                       f"{' ' * bool(e.key)}{e.key}, but {why}", self.refiner.unpacked())


AGAIN = "again"  # returned by `_told_of` if the answer depends on more than the client's and the shared state

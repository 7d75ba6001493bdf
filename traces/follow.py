"""Safety: following a run gives the same verdict as observing its events one after another. It is only faster.

Most events recur across runs. Apart from time and request number they were met before in this model state, and changed only
the model's state. For such events it suffices to check time and number and to apply the cached effect. All others are
observed. Only the `_take` of trace.py can be shortened: if a protocol overrides it, every event is observed. The judge of the
store sees every reply, because it depends on what other events put.
"""

from collections.abc import Iterator
from typing import overload

from highwater.traces.event import Event
from highwater.traces.form import MUTATIONS, PUTS, READS
from highwater.traces.refine import Refiner
from highwater.traces.store import NOTHING
from highwater.traces.trace import Trace

Rest = tuple  # the fields of an event after time and request number
Numbers = tuple[list[int], list[int], list[int]]  # by event: t_ms, request, and the index of its rest
TOLD: dict[int, int] = {}  # stands for the effect of a `told` event


class Events:
    """The events of a run up to the observed one, each built from its columns on demand."""

    columns = True  # they are not noted by client

    def __init__(self, numbers: Numbers, rests: list[Rest]):
        self.numbers, self.rests, self.count = numbers, rests, 0

    @staticmethod
    def whole(numbers: Numbers, rests: list[Rest]) -> list[Event]:
        """Return all events of a run."""
        of = Events(numbers, rests)
        of.count = len(numbers[0])
        return list(of)

    def append(self, event: Event) -> None:
        """Advance by one. `event` is the next event of the columns."""
        self.count += 1

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Event]:
        return self[:]

    @overload
    def __getitem__(self, which: int) -> Event: ...

    @overload
    def __getitem__(self, which: slice) -> Iterator[Event]: ...

    def __getitem__(self, which: int | slice) -> Event | Iterator[Event]:
        """Return one event; for a slice an iterator, because a search for one event rarely goes far."""
        places = range(self.count)
        return map(self.at, places[which]) if isinstance(which, slice) else self.at(places[which])

    def same(self, e: Event) -> Iterator[Event]:
        """Yield the earlier events of the same request as `e`, latest first."""
        requests, number = self.numbers[1], e.request
        found = [at for at in range(self.count - 2, -1, -1) if requests[at] == number]
        return (old for old in map(self.at, found) if old.client == e.client)

    def at(self, number: int) -> Event:
        times, requests, rests = self.numbers
        return tuple.__new__(Event, (times[number], requests[number], *self.rests[rests[number]]))


class Acquaintances:
    """Cached effects of the rests for one refiner, valid until it starts new tables."""

    def __init__(self, refiner: Refiner):
        self.refiner, self.effects = refiner, refiner.effects
        self.steps: list[tuple | None] = []  # by the index of the rest

    def step(self, rest: Rest) -> tuple | None:
        """Return the cached step of a rest, or None if the event must be observed each time.

        The step is: client, index of its process, its mask, the differences by pair (None: no step), what the store must hold
        for a reply that shows just that (else None), and the event without time and number; None if no reply came."""
        client, kind, op, _, _, status, version, body, _, _, awaited, pending = rest
        p = self.refiner.index.get(client)
        if p is None:
            return None
        mask = self.refiner.explorer.masks[p]
        if kind == "told":
            return client, p, mask, TOLD, rest, None
        if not (awaited or kind != "applied") or (pending and op in MUTATIONS) or rest not in self.effects:
            return None
        effect = self.effects[rest]
        shows = (version, body) if op == "get" and status == 200 else NOTHING if op in READS and status == 404 else None
        return client, p, mask, effect and effect.difference, shows, Event(0, 0, *rest) if kind == "applied" else None


def follow(trace: Trace, numbers: Numbers, rests: list[Rest], known: Acquaintances) -> None:
    """Follow the events of a run with a trace that has observed nothing yet. Raises Failure; `trace.events` then ends with the
    event that failed."""
    trace.events = events = Events(numbers, rests)
    if type(trace)._take is not Trace._take:
        for number in range(len(numbers[0])):
            trace.observe(events.at(number))
        return
    refiner, last, store, expiries, skew_ms = trace.refiner, trace.last, trace.store, trace.expiries, trace.skew_ms
    true, broken, steps = refiner.true, refiner.broken, known.steps
    steps += [None] * (len(rests) - len(steps))
    state, now_ms = refiner.states[0], trace.now_ms  # state -1: several states are possible
    for number, (t_ms, request, code) in enumerate(zip(*numbers)):
        step = steps[code]
        if step is not None and state >= 0 and t_ms >= now_ms and not (expiries and expiries[0][0] <= t_ms + skew_ms):
            client, p, mask, differences, shows, event = step
            if differences is TOLD:
                if not request and (state & mask, shows) in true:
                    now_ms = t_ms
                    continue
            elif request > last.get(client, 0):
                difference = differences.get(state & mask) if differences is not None else 0
                if difference is not None and not (broken and (p, state + difference & mask) in broken) and (
                        event is None or (shows is not None and store.get(event.key) == shows) or not store.judge(event)):
                    state, now_ms, last[client] = state + difference, t_ms, request
                    if event is not None and event.status == 200 and event.op in PUTS:
                        trace._note(event)
                    continue
        if state >= 0:
            refiner.states = (state,)
        trace.now_ms, events.count = now_ms, number
        trace.observe(events.at(number))
        now_ms, state = t_ms, refiner.states[0] if len(refiner.states) == 1 else -1
        if step is None:
            steps[code] = known.step(rests[code])
    if state >= 0:
        refiner.states = (state,)
    trace.now_ms, events.count = now_ms, len(numbers[0])

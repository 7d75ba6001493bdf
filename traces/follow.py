"""Safety: to follow a run is to observe its events one after another: the same verdict, by a shorter way.

Of many runs most events are old acquaintances: what is behind their time and number has come before, in this state of the
model, and then was found to change nothing of a trace but the model's state. Such events need none of trace.py's questions but
those that time and number answer. All others are observed. Only what trace.py itself does in `_take` can be shortened: a
protocol that does more there is observed throughout.
"""

from collections.abc import Iterator
from typing import Any

from highwater.traces.event import Event
from highwater.traces.form import MUTATIONS
from highwater.traces.refine import Refiner
from highwater.traces.trace import Trace

Rest = tuple  # of an event, behind time and number
Numbers = tuple[list[int], list[int], list[int]]  # of each event: t_ms, request, and which of the rests
TOLD: dict[int, int] = {}  # in the place of what an event does


class Events:
    """Of a run, up to the one that is observed: made when somebody asks."""

    def __init__(self, numbers: Numbers, rests: list[Rest]):
        self.numbers, self.rests, self.count = numbers, rests, 0

    @staticmethod
    def whole(numbers: Numbers, rests: list[Rest]) -> list[Event]:
        """All of a run."""
        of = Events(numbers, rests)
        of.count = len(numbers[0])
        return list(of)

    def append(self, event: Event) -> None:
        """It is the next one of them."""
        self.count += 1

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Event]:
        return self[:]

    def __getitem__(self, which: Any) -> Any:
        """Of a slice an iterator: who looks for one event rarely looks far."""
        found = range(self.count)[which]
        return map(self.at, found) if isinstance(which, slice) else self.at(found)

    def same(self, e: Event) -> Iterator[Event]:
        """Those before the last of the same request as `e`, the latest first."""
        requests, number = self.numbers[1], e.request
        found = [at for at in range(self.count - 2, -1, -1) if requests[at] == number]
        return (old for old in map(self.at, found) if old.client == e.client)

    def at(self, number: int) -> Event:
        times, requests, rests = self.numbers
        return tuple.__new__(Event, (times[number], requests[number], *self.rests[rests[number]]))


class Acquaintances:
    """What is known of the rests, for one refiner, until that starts anew."""

    def __init__(self, refiner: Refiner):
        self.refiner, self.effects = refiner, refiner.effects
        self.steps: list[tuple | None] = []  # by the number of the rest

    def step(self, rest: Rest) -> tuple | None:
        """Client, number of its process, its mask, what the event does to each pair where it was met (None: it is no step),
        what is known of its object from then on, and the event at any time. None: it is to be observed each time."""
        client, kind, op, _, condition, _, version, body, _, _, awaited, pending = rest
        p = self.refiner.index.get(client)
        if p is None:
            return None
        mask = self.refiner.explorer.masks[p]
        if kind == "told":
            return client, p, mask, TOLD, rest, None
        if not (awaited or kind != "applied") or (pending and op in MUTATIONS) or rest not in self.effects:
            return None
        effect = self.effects[rest]
        known = (version, body) if version or condition else None
        return client, p, mask, effect and effect.differences, known, Event(0, 0, *rest)


def follow(trace: Trace, numbers: Numbers, rests: list[Rest], known: Acquaintances) -> None:
    """The events of a run; the trace has observed nothing yet. Raises Failure, and `trace.events` then ends with the event that
    it is of."""
    trace.events = events = Events(numbers, rests)
    if type(trace)._take is not Trace._take:
        for number in range(len(numbers[0])):
            trace.observe(events.at(number))
        return
    refiner, last, objects, expiries, skew_ms = trace.refiner, trace.last, trace.objects, trace.expiries, trace.skew_ms
    true, broken, steps = refiner.true, refiner.broken, known.steps
    steps += [None] * (len(rests) - len(steps))
    state, now_ms = refiner.states[0], trace.now_ms  # a state of -1: there are several
    for number, (t_ms, request, code) in enumerate(zip(*numbers)):
        step = steps[code]
        if step is not None and state >= 0 and t_ms >= now_ms and not (expiries and expiries[0][0] <= t_ms + skew_ms):
            client, p, mask, differences, value, event = step
            if differences is TOLD:
                if not request and (state & mask, value) in true:
                    now_ms = t_ms
                    continue
            elif request > last.get(client, 0):
                difference = differences.get(state & mask) if differences is not None else 0
                if difference is not None and not (broken and (p, state + difference & mask) in broken):
                    state, now_ms, last[client] = state + difference, t_ms, request
                    if value is not None and objects.get(event.key) != value:
                        refiner.states, trace.now_ms, events.count = (state,), t_ms, number
                        trace.keep(event)
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

"""Safety: a trace passes only if the model could have done the same, event by event.

Forward simulation with a set of model states (subset construction): each event maps to the model's actions that may be
behind it; the states that these lead to, and that agree with what was observed, are the next set. An empty set is a
refinement failure. The set has one element here, since every action of our models is one request that the trace shows.

What an event does to a pair (shared state, local state of its client) is always the same, so it is worked out once and
looked up in every later run.
"""

from collections.abc import Callable
from typing import NamedTuple

from model.core import Local, Model, Shared, State
from model.tabulated import BITS, FIELD, Explorer
from traces.event import Event

STUTTER = None  # among the actions of a Match: the event may also leave the model as it is, if no action fits
LIMIT = 60_000  # interned values, or moves; beyond it the tables start anew, so that memory is bounded


class Match(NamedTuple):
    """What one event may be in the model. `agrees(action, shared, local, shared', local')` tells whether a step of `action`
    shows what was observed. `op`: the request, to name what was wrong where it may be no action at all."""

    process: str
    actions: tuple[str | None, ...]
    choices: tuple | None = None  # None: any
    agrees: Callable[[str, Shared, Local, Shared, Local], bool] | None = None
    op: str = ""


class Failure(Exception):
    """`kind`: "refinement" (the model cannot do what was done), "safety" (it can, and a property fails there; or a caller
    was not told the truth) or "liveness"."""

    def __init__(self, kind: str, signature: str, message: str, states: tuple[State, ...] = (), match: Match | None = None):
        super().__init__(message)
        self.kind, self.signature, self.message, self.states, self.match = kind, signature, message, states, match


class Refiner:
    """One model, and its moves so far seen: made once, used for any number of traces (`begin`)."""

    def __init__(self, model: Model):
        self.model = model
        self.index = {process.name: p for p, process in enumerate(model.processes)}
        self._start_tables()

    def _start_tables(self) -> None:
        self.explorer = Explorer(self.model)
        self.masks = {process.name: mask for process, mask in zip(self.model.processes, self.explorer.masks)}
        self.broken = self.explorer.broken
        self.moves: dict[tuple, tuple[int, ...]] = {}

    def begin(self) -> None:
        if len(self.moves) > LIMIT or len(self.explorer.values[0]) > LIMIT:
            self._start_tables()
        self.states: tuple[int, ...] = (self.explorer.initial,)

    def shared(self) -> Shared:
        """Of the first of the states, which is the only one unless the trace leaves a choice open."""
        return self.explorer.values[0][self.states[0] & FIELD]

    def local(self, process: str) -> Local:
        part = self.index[process] + 1
        return self.explorer.values[part][self.states[0] >> BITS * part & FIELD]

    def unpacked(self) -> tuple[State, ...]:
        return tuple(self.explorer.unpack(state) for state in self.states)

    def event(self, process: str, event: tuple, match: Callable[[Event], Match | None]) -> None:
        """Take the step that `match(event)` says, or none. `match` must be a function of the event, and of its time and
        request number not at all: what it says of one event is taken to hold for every equal one. Raises Failure."""
        mask = self.masks[process]
        if len(self.states) == 1:
            state = self.states[0]
            differences = self.moves.get((state & mask, event[2:]))
            if differences and not differences[1:] and not self.broken:
                self.states = (state + differences[0],)
                return
        found = match(event)
        if found is not None:
            self.step(found, event[2:])
        else:
            for state in self.states:
                self.moves[state & mask, event[2:]] = (0,)

    def step(self, match: Match, event: tuple | None = None) -> None:
        """Raises Failure."""
        p = self.index[match.process]
        mask = self.explorer.masks[p]
        following: list[int] = []
        for state in self.states:
            differences = self._moves(p, state & mask, match)
            if event is not None:
                self.moves[state & mask, event] = differences
            following += [state + difference for difference in differences]
        if not following:
            actions = "|".join(action for action in match.actions if action is not STUTTER) or match.op
            raise Failure("refinement", f"refinement:{match.process.partition('#')[0]}.{actions}",
                          f"{match.process} has done what the model cannot do here: {actions}", self.unpacked(), match)
        self.states = tuple(dict.fromkeys(following))
        if self.broken:
            self._judge(p, match)

    def _judge(self, p: int, match: Match) -> None:
        """A property that fails in every state that the trace may be in has failed."""
        mask = self.explorer.masks[p]
        broken = [self.broken.get((p, state & mask)) for state in self.states]
        if all(broken):
            raise Failure("safety", f"safety:{broken[0]}", f"{broken[0]} does not hold", self.unpacked(), match)

    def _moves(self, p: int, pair: int, match: Match) -> tuple[int, ...]:
        x, process, part = self.explorer, self.model.processes[p], p + 1
        shared, local = x.values[0][pair & FIELD], x.values[part][pair >> BITS * part]
        found = []
        for action in match.actions:
            if action not in process.actions:  # it takes no step, or what only other roles do
                continue
            for choices, shared2, local2 in process.actions[action](self.model.constants, process.index, shared, local):
                if match.choices in (None, choices) and \
                        (match.agrees is None or match.agrees(action, shared, local, shared2, local2)):
                    successor = x.intern(0, shared2) | x.intern(part, local2) << BITS * part
                    x.judge(p, successor & FIELD, successor >> BITS * part)
                    found.append(successor - pair)
        stays = STUTTER in match.actions and (match.agrees is None or match.agrees(STUTTER, shared, local, shared, local))
        return tuple(found) if found or not stays else (0,)

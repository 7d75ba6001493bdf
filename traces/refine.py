"""Safety: a trace passes only if the model could have done the same, event by event.

Forward simulation with a set of model states (subset construction): each event maps to the model's actions that may be
behind it; the states that these lead to, and that agree with what was observed, are the next set. An empty set is a
refinement failure. The set has one element here, since every action of our models is one request that the trace shows.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from model.core import BITS, FIELD, Explorer, Local, Model, Shared, State
from traces.event import Event

STUTTER = None  # among the actions of a Match: the event may also leave the model as it is, if no action fits
LIMIT = 300_000  # interned values and moves; beyond it the tables start anew


class Match(NamedTuple):
    """What one event may be in the model. `observed` must be hashable; `agrees(action, observed, shared, local, shared',
    local')` tells whether the step shows what was observed."""

    process: str
    actions: tuple[str | None, ...]
    choices: tuple | None  # None: any
    observed: Any = None


class Failure(Exception):
    """`kind`: "refinement" (the model cannot do what was done) or "safety" (it can, and a property fails there)."""

    def __init__(self, kind: str, signature: str, message: str, states: tuple[State, ...] = (), match: Match | None = None):
        super().__init__(message)
        self.kind, self.signature, self.message, self.states, self.match = kind, signature, message, states, match


class Refiner:
    """One model, and its moves so far seen: made once, used for any number of traces (`begin`)."""

    def __init__(self, model: Model, agrees: Callable[[str, Any, Shared, Local, Shared, Local], bool]):
        self.model, self.agrees = model, agrees
        self.index = {process.name: p for p, process in enumerate(model.processes)}
        self._start_tables()

    def _start_tables(self) -> None:
        self.explorer = Explorer(self.model)
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

    def step(self, match: Match, event: Event | None = None) -> None:
        """Raises Failure."""
        p = self.index[match.process]
        mask = self.explorer.masks[p]
        following: tuple[int, ...] = ()
        for state in self.states:
            pair = state & mask
            key = (p, pair, *match[1:])
            differences = self.moves.get(key)
            if differences is None:
                differences = self.moves[key] = self._moves(p, pair, match)
            following += tuple([state + difference for difference in differences])
        if not following:
            raise Failure("refinement", f"refinement:{match.process.split('#')[0]}.{'|'.join(map(str, match.actions))}",
                          f"no action of the model fits {match}", self.unpacked(), match)
        self.states = following if len(following) == 1 else tuple(dict.fromkeys(following))
        broken = self.explorer.broken
        if broken and len(self.states) == 1 and self.states[0] & mask in broken:
            name = broken[self.states[0] & mask]
            raise Failure("safety", f"safety:{name}", f"{name} does not hold", self.unpacked(), match)

    def unpacked(self) -> tuple[State, ...]:
        return tuple(self.explorer.unpack(state) for state in self.states)

    def _moves(self, p: int, pair: int, match: Match) -> tuple[int, ...]:
        x, process, part = self.explorer, self.model.processes[p], p + 1
        shared, local = x.values[0][pair & FIELD], x.values[part][pair >> BITS * part]
        found = []
        for action in match.actions:
            if action is STUTTER:
                continue
            for choices, shared2, local2 in process.actions[action](self.model.constants, process.index, shared, local):
                if match.choices in (None, choices) and \
                        self.agrees(action, match.observed, shared, local, shared2, local2):
                    successor = x.intern(0, shared2) | x.intern(part, local2) << BITS * part
                    x.judge(p, successor, shared2, local2)
                    found.append(successor - pair)
        return tuple(found) if found or STUTTER not in match.actions else (0,)

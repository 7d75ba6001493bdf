"""Safety: a trace passes only if the model could have done the same, event by event.

The check is a forward simulation with a set of model states (subset construction). Each event maps to the model's actions
that may explain it. The next set holds the states that these actions lead to and that agree with the observation. An empty
set is a refinement failure. Usually the set has one element, because every action is one request of the trace.

The effect of an event on a pair (shared state, local state of its client) is always the same. So it is computed once and
looked up in every later run. Events with equal `Match`, such as time-outs, share their effects.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from highwater.model.core import Local, Model, Shared, State, malformed_property
from highwater.model.explore.tabulated import BITS, FIELD, Explorer

Constants = TypeVar("Constants")
STUTTER = None  # among the actions of a Match: the event may also leave the model as it is, if no action fits
REST = slice(2, None)  # the fields of an event after time and request number
LIMIT = 60_000  # interned values, or pairs met; beyond it the tables are cleared, so that memory is bounded


class Match(NamedTuple):
    """The actions that may explain one event. `agrees(action, shared, local, shared', local')` tells whether a step of `action`
    shows what was observed. `op`: the request, named in a failure if no action is. `unheard`: the reply to this read may be
    lost, so both states are followed until the next event decides."""

    process: str
    actions: tuple[str | None, ...]
    choices: tuple | None = None  # None: any
    agrees: Callable[[str | None, Shared, Local, Shared, Local], object] | None = None  # action: None for STUTTER
    op: str = ""
    unheard: bool = False


class Failure(BaseException):
    """A verdict. It is no Exception, since code that is judged must not catch it: events are judged as that code makes them.

    `kind`: "refinement" (the model cannot do what was done), "safety" (it can, and a property fails there; or a
    caller received a false response), "liveness" or "harness" (the code that judges the trace raised an exception)."""

    def __init__(self, kind: str, signature: str, message: str, states: tuple[State, ...] = (), match: Match | None = None):
        super().__init__(message)
        self.kind, self.signature, self.message, self.states, self.match = kind, signature, message, states, match


class Effect:
    """The match of an event, and for each pair on which it was met its effect: the differences that its steps make, and the
    difference where there is no choice."""

    __slots__ = ("difference", "differences", "mask", "match", "p")

    def __init__(self, match: Match, p: int, mask: int):
        self.match, self.p, self.mask = match, p, mask
        self.difference: dict[int, int] = {}
        self.differences: dict[int, tuple[int, ...]] = {}


REFINERS: dict[tuple, "Refiner"] = {}  # (make, constants) -> refiner; its tables serve every run of the process


def refiner_of(make: Callable[[Constants], "Refiner"], constants: Constants) -> "Refiner":
    """Return `make(constants)`, the same refiner for equal arguments. `constants` is one hashable value: a `make` that needs
    several takes them as one tuple."""
    key = make, constants
    if key not in REFINERS:
        REFINERS[key] = make(constants)
    return REFINERS[key]


class Refiner:
    """One model and the moves met so far. Make it once, and use it for any number of traces (`begin`)."""

    def __init__(self, model: Model):
        self.model = model
        self.index = {process.name: p for p, process in enumerate(model.processes)}
        self.actions = {action for process in model.processes for action in process.actions}
        self.limit = LIMIT
        self._start_tables()

    def _start_tables(self) -> None:
        self.explorer = Explorer(self.model)
        self.masks = {process.name: mask for process, mask in zip(self.model.processes, self.explorer.masks)}
        self.broken = self.explorer.broken
        self.forget()

    def forget(self) -> None:
        """Clear the cached effects. The numbers of states stay valid."""
        self.effects: dict[tuple, Effect | None] = {}  # None: the event is no step of the model
        self.alike: dict[Match, Effect] = {}
        self.met = 0  # pairs, over all effects
        self.true: set[tuple] = set()  # (pair, event): the response is true in that pair; and what calls.judge_form has passed

    def trim(self) -> None:
        """Clear the cached effects if they exceed the limit. The states stay."""
        if max(self.met, len(self.effects), len(self.true)) > self.limit:
            self.forget()

    def malformed_property(self) -> str:
        """Return why a property of the model is none; "" if all are well formed."""
        return malformed_property(self.model)

    def begin(self) -> None:
        if max(self.met, len(self.effects), len(self.true), len(self.explorer.values[0])) > self.limit:
            self._start_tables()
        self.states: tuple[int, ...] = (self.explorer.initial,)

    def shared(self) -> Shared:
        """Return the shared part of the first state: the only one, unless the trace leaves a choice open."""
        return self.explorer.values[0][self.states[0] & FIELD]

    def pair(self, process: str) -> int:
        """Return the pair (shared, local of the process) of the first state."""
        return self.states[0] & self.masks[process]

    def local(self, process: str) -> Local:
        part = self.index[process] + 1
        return self.explorer.values[part][self.states[0] >> BITS * part & FIELD]

    def locals(self, process: str) -> list[Local]:
        """Return the local state of the process in each of the states."""
        part = self.index[process] + 1
        return [self.explorer.values[part][state >> BITS * part & FIELD] for state in self.states]

    def unpacked(self) -> tuple[State, ...]:
        return tuple(self.explorer.unpack(state) for state in self.states)

    def event(self, process: str, event: tuple[Any, ...], match: Callable[[Any], Match | None]) -> None:
        """Take the step that `match(event)` returns; None is no step. `match` must be a function of the event without its time
        and request number, because its result is reused for every equal event. Raises Failure."""
        what, states = event[REST], self.states
        try:
            effect = self.effects[what]
        except KeyError:
            effect = self.effects[what] = self._effect(self.index[process], match(event))
        if effect is None:
            return
        if len(states) == 1:
            state, = states
            difference = effect.difference.get(state & effect.mask)
            if difference is not None:
                state += difference
                if not self.broken or (effect.p, state & effect.mask) not in self.broken:
                    self.states = (state,)
                    return
        self.step(effect.match, effect)

    def _effect(self, p: int, match: Match | None) -> Effect | None:
        if match is None:
            return None
        of = Effect(match, p, self.explorer.masks[p])
        return of if match.agrees else self.alike.setdefault(match, of)

    def step(self, match: Match, effect: Effect | None = None) -> None:
        """Take every step that the match allows, and cache its effect. Raises Failure."""
        p = self.index[match.process]
        mask = self.explorer.masks[p]
        following: list[int] = []
        for state in self.states:
            differences = effect.differences.get(state & mask) if effect else None
            if differences is None:
                differences = self._moves(p, state & mask, match)
                if effect:
                    self.met += 1
                    effect.differences[state & mask] = differences
                    if len(differences) == 1:
                        effect.difference[state & mask], = differences
            following += [state + difference for difference in differences]
        if not following:
            actions = "|".join(action for action in match.actions if action) or match.op
            raise Failure("refinement", f"refinement:{match.process.partition('#')[0]}.{actions}",
                          f"{match.process} has done what the model cannot do here: {actions}", self.unpacked(), match)
        self.states = tuple(dict.fromkeys(following))
        if self.broken:
            self._judge(p, match)

    def keep(self, process: str, so: Callable[[Shared, Local], object]) -> bool:
        """Keep the states in which `so` holds of the shared state and the process's local state. If there is none, keep all
        and return False. Raises Failure."""
        p = self.index[process]
        shared, local, shift = self.explorer.values[0], self.explorer.values[p + 1], BITS * (p + 1)
        kept = tuple([state for state in self.states if so(shared[state & FIELD], local[state >> shift & FIELD])])
        if kept and len(kept) < len(self.states):
            self.states = kept
            if self.broken:
                self._judge(p)
        return bool(kept)

    def _judge(self, p: int, match: Match | None = None) -> None:
        """Raise Failure if a property fails in every state that the trace may be in."""
        mask = self.explorer.masks[p]
        broken = [self.broken.get((p, state & mask)) for state in self.states]
        if all(broken):
            raise Failure("safety", f"safety:{broken[0]}", f"{broken[0]} does not hold", self.unpacked(), match)

    def _moves(self, p: int, pair: int, match: Match) -> tuple[int, ...]:
        x, process, part = self.explorer, self.model.processes[p], p + 1
        shared, local = x.values[0][pair & FIELD], x.values[part][pair >> BITS * part]
        found = []
        for action in match.actions:
            if action not in process.actions:  # STUTTER, or an action of other roles only
                continue
            for choices, shared2, local2 in process.actions[action](self.model.constants, process.index, shared, local):
                if match.choices in (None, choices) and \
                        (match.agrees is None or match.agrees(action, shared, local, shared2, local2)):
                    s = pair & FIELD if shared2 is shared else x.intern(0, shared2)
                    l = x.intern(part, local2)
                    x.judge(p, s, l)
                    found.append((s | l << BITS * part) - pair)
        if found and match.unheard:
            found.append(0)
        stays = STUTTER in match.actions and (match.agrees is None or match.agrees(STUTTER, shared, local, shared, local))
        return tuple(found) if found or not stays else (0,)

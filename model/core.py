"""Safety: a verdict names every reachable state of the instance, or a shortest path to the state that breaks a property.

A model is shared state plus processes. An action is a generator over what its process can see: the guard is `if`, a
choice is `for`, the effect is a yield:

    def create_next(c, me, s, w):           # constants, own index, shared state, own local state
        if w.pc == "Ready" and ...:
            for pin in (False, True):
                yield (pin,), s._replace(...), w._replace(...)      # choices, shared', local'

so a label is (process, action, choices). States are immutable: ints, strings, tuples, frozensets.

`moves` below is the definition of a model's steps. model/explore/plain.py searches with nothing else, and is the reference that
the faster ways, model/explore/tabulated.py and model/explore/wide.py, must equal, state for state.
"""

import resource
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, cast

Shared = Any
Local = Any
Label = tuple[str, str, tuple]  # process, action, choices
Action = Callable[..., Iterator[tuple[tuple, Shared, Local]]]


class Process(NamedTuple):
    """One client: its role, its initial local state, and the actions that it can take."""

    name: str  # "Writer#0"
    role: str  # "Writer"
    index: int  # pyright: ignore[reportIncompatibleMethodOverride]  # no process is searched with tuple.index
    local: Local  # initial
    actions: dict[str, Action]


Property = tuple[str | None, Callable[..., bool]]  # (None, f(c, shared)), or (role, f(c, shared, local)) for each process


class Model(NamedTuple):
    """A model of one protocol instance.

    The last four fields speak of roles: which actions are weakly fair, which are invisible (for example Accept of a value read
    before), and which clients are interchangeable. `renamed[role](part, names)` is a shared or local part with client i of that
    role called names[i]. None instead of a function says that no part names a client.
    """

    name: str
    constants: Any
    shared: Shared  # initial
    processes: tuple[Process, ...]
    always: Mapping[str, Property]
    sometimes: Mapping[str, Property]
    eventually: Mapping[str, Property] = {}  # from each state on, again and again, if the fair actions are fair
    fair: dict[str, frozenset[str]] = {}  # noqa: RUF012
    unseen: dict[str, frozenset[str]] = {}  # noqa: RUF012
    renamed: Mapping[str, Callable[[Any, tuple[int, ...]], Any] | None] = {}


class State(NamedTuple):
    """A state of a model: the shared part, and the local part of each process in the model's order."""

    shared: Shared
    locals: tuple[Local, ...]


class Step(NamedTuple):
    """An action that was taken, and the state that it leads to."""

    label: Label
    state: State


class Exploration(NamedTuple):
    """The result of a search: how much it visited, and the first violation or the bound that ended it."""

    states: int
    transitions: int
    depth: int  # breadth-first levels after the initial state; depth-first: the longest path that was walked
    violated: str | None  # the `always` property that fails in the last state of `trace`
    trace: tuple[Step, ...]  # a path to the violation, a shortest if breadth-first; the first label is ("", "Init", ())
    fired: frozenset[tuple[str, str]]  # (role, action)
    never: tuple[str, ...]  # `sometimes` properties that no state witnesses (empty after a violation)
    widest: int = 0  # the largest number of moves from one state
    ends: int = 0  # states without a move
    stopped: str = ""  # the bound that ended the search, or nothing

    @property
    def complete(self) -> bool:
        return not self.violated and not self.stopped

    def idle(self, model: Model) -> tuple[tuple[str, str], ...]:
        """Return (role, action) of each action that never fired, in the model's order."""
        return tuple(dict.fromkeys((p.role, a) for p in model.processes for a in p.actions if (p.role, a) not in self.fired))


def init(model: Model) -> State:
    """Return the initial state."""
    return State(model.shared, tuple(p.local for p in model.processes))


def moves(model: Model, state: State) -> Iterator[Step]:
    """Yield every step from a state: this is the definition of a model's behaviour."""
    for p, (process, local) in enumerate(zip(model.processes, state.locals)):
        for action, generator in process.actions.items():
            for choices, shared2, local2 in generator(model.constants, process.index, state.shared, local):
                yield Step((process.name, action, choices),
                           State(shared2, (*state.locals[:p], local2, *state.locals[p + 1:])))


def broken(model: Model, state: State) -> list[str]:
    """Return the `always` properties that do not hold in a state, in their order."""
    return [name for name, prop in model.always.items() if not all(verdicts(model, state, prop))]


def witnessed(model: Model, state: State) -> list[str]:
    return [name for name, prop in model.sometimes.items() if any(verdicts(model, state, prop))]


def verdicts(model: Model, state: State, prop: Property) -> Iterator[bool]:
    """Yield the property's verdict on the shared state, or on each process of its role."""
    of, holds = prop
    if of is None:
        yield holds(model.constants, state.shared)
    else:
        for process, local in zip(model.processes, state.locals):
            if process.role == of:
                yield holds(model.constants, state.shared, local)


def properties_of(model: Model) -> dict[str, Property]:
    """Return every property of a model: name -> (role or None, function)."""
    return {**model.always, **model.sometimes, **model.eventually}


def malformed_property(model: Model) -> str:
    """Return why a property is none: it must be a role, or None, and a function with a value. Returns "" if all are well
    formed."""
    for kind in ("always", "sometimes", "eventually"):
        if not isinstance(getattr(model, kind), Mapping):
            return f"{kind} is {getattr(model, kind)!r}; write a dictionary, name -> (role or None, function)"
    for name, prop in cast("Mapping[str, Any]", properties_of(model)).items():
        if not (isinstance(prop, tuple) and len(prop) == 2 and isinstance(prop[0], str | None) and callable(prop[1])):
            return f"the property {name} is {prop!r}; write (None, f(c, shared)), or (role, f(c, shared, local)) of each client"
        with suppress(Exception):  # which is reported with its line when the model is explored
            if None in cast("Iterator[Any]", verdicts(model, init(model), prop)):
                return f"the property {name} returns None: is a `return` missing?"
    return ""


def without_client(model: Model) -> dict[str, str]:
    """Return the properties whose role no process of this instance has, so nothing is checked of them: name -> role."""
    roles = {None, *(process.role for process in model.processes)}
    return {name: role for name, (role, _) in properties_of(model).items() if role is not None and role not in roles}


class Bounds(NamedTuple):
    """The limits of a search. A search that a limit ended has not answered for the whole instance."""

    states: int | None = None
    depth: int | None = None  # the last level that is judged; the states after it are only counted
    bytes: int | None = None  # limit for the peak resident memory of this process

    def reached(self, states: int, depth: int, needed: int = 0) -> str:
        """Return the bound that is reached, in words. `needed` is the number of bytes that the next step will take."""
        if self.states is not None and states >= self.states:
            return f"{self.states:,} states"
        if self.depth is not None and depth >= self.depth:
            return f"depth {self.depth:,}"
        if self.bytes is not None and peak_bytes() + needed > self.bytes:
            return f"{self.bytes / 1e6:,.0f} MB of memory"
        return ""


def peak_bytes() -> int:
    """Return the most memory that this process has held so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


Progress = Callable[[int, int], None]  # (states, depth)

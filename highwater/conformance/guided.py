"""Turn one simulated run into a guided trace for FizzBee: constants of the spec that are large enough for the run, and links.

Safety: the guided trace holds every step of the model in order, so that FizzBee judges the run by itself. A run that no spec
can follow is refused, with the limit that it exceeds.
"""

from collections.abc import Iterator
from typing import NamedTuple

from highwater import project
from highwater.conformance.conform import as_links, model_of
from highwater.conformance.difference import label_text
from highwater.dst.scenarios import named
from highwater.dst.simulate import Outcome
from highwater.model.core import Label, Model, State, Step, init, moves
from highwater.specs.fizzbee.check import LONGEST_GUIDED
from highwater.specs.runs import Row, rows
from highwater.traces.event import Event
from highwater.traces.explain.explain import Record
from highwater.traces.refine import Effect, Failure, Match
from highwater.traces.trace import Trace


class TooLarge(Exception):
    """FizzBee cannot follow the run. The message is one line that names the limit."""


class Guided(NamedTuple):
    row: Row  # names the spec
    model: Model  # with these constants
    constants: dict[str, object]  # those that differ from the spec's own
    links: list[str]  # one for each action, and one for each choice of it
    ends: frozenset[State]  # the model's states after them; several if a label does not determine the choice
    impossible: bool  # the model cannot take the last step; `ends` is the state before it


def row_of(stem: str) -> Row:
    """Return the first run in the table of a spec. Raises LookupError if there is none."""
    found = next((row for row in rows() if row.stem == stem), None)
    if found is None or not found.path.is_file():
        raise LookupError(f"there is no spec of {stem}")
    return found


def spec_of(scenario: str) -> str:
    """Return the stem of the spec and model that a scenario's runs are checked against."""
    return named(scenario).protocol


class Path(Record):
    """A refiner that records how each state was reached, so that it can return one path of the model even if a trace allows
    several."""

    def begin(self) -> None:
        super().begin()
        self.taken: list[Label] = []  # Record fills it; not used here
        self.layers: list[dict[State, tuple[State, Label | None]]] = []  # state -> (state before, step); no step: None

    def step(self, match: Match, effect: Effect | None = None) -> None:
        before = self.unpacked()
        super().step(match, effect)
        after, reached = set(self.unpacked()), {}
        for state in before:
            for label, following in self.steps_from(state, match):
                if following in after:
                    reached.setdefault(following, (state, label))
        self.layers.append({state: reached.get(state, (state, None)) for state in after})

    def steps_from(self, state: State, match: Match) -> Iterator[tuple[Label, State]]:
        p, of = self.index[match.process], self.arguments(match.process, state)[2:]
        for action in filter(None, match.actions):
            for choices, shared, local in self.possible(match.process, action, state):
                if match.choices in (None, choices) and (not match.agrees or match.agrees(action, *of, shared, local)):
                    locals_ = (*state.locals[:p], local, *state.locals[p + 1:])
                    yield (match.process, action, choices), State(shared, locals_)

    def labels(self) -> list[Label]:
        """Return the steps of one path to a state that the trace may be in. Raises TooLarge if there is none, because the
        trace resets a client, which is not a step."""
        for state in self.unpacked():
            if (found := self.back_from(state)) is not None:
                return found
        raise TooLarge("the trace resets a client to an earlier state, and the spec has no such step")

    def back_from(self, state: State) -> list[Label] | None:
        found: list[Label] = []
        for layer in reversed(self.layers):
            if state not in layer:
                return None
            state, label = layer[state]
            found += [label] if label else []
        return found[::-1]


def path_of(events: list[Event], trace: Trace) -> tuple[Path, Failure | None]:
    """Follow the events as far as the model can. Raises TooLarge if an event is not a request of the protocol."""
    path = Path(trace.refiner.model)
    trace = trace.anew(path)
    for number, event in enumerate(events):
        try:
            trace.observe(event)
        except Failure as failure:
            return path, failure
        except Exception as error:  # an impossible event can raise anything
            raise TooLarge(f"event {number} is not a request of the protocol: {error!r}") from error
    return path, None


def guided(outcome: Outcome) -> Guided:
    """Make a guided trace of a run. If the model cannot follow the run, the last step is the one that it refuses. Raises
    TooLarge."""
    if outcome.shape.sdk:
        raise TooLarge("the clients of this run retransmit requests (`sdk` in its shape), but those of the spec do not")
    path, failure = path_of(outcome.events, named(outcome.scenario).judge(outcome.shape))
    if failure and failure.kind == "refinement" and not failure.match:
        raise TooLarge(f"the model refuses the run for something that is not a step of the spec: {failure}")
    steps, last = path.labels(), [refused_step(path, failure, failure.match)] if failure and failure.match else []
    count = len(steps) + len(last)
    if count > LONGEST_GUIDED:
        raise TooLarge(f"FizzBee follows at most {LONGEST_GUIDED} actions of a guided trace; this run has {count}")
    row = row_of(spec_of(outcome.scenario))
    constants = fitting(row, path.model.constants._asdict(), count)
    model = model_of(row._replace(constants={}), **constants)
    ends = walked(model, steps)
    links = as_links(row, [Step(label, None) for label in steps + last])  # pyright: ignore[reportArgumentType]  # of no state
    return Guided(row, model, constants, links, ends, bool(last))


def refused_step(path: Path, failure: Failure, refused: Match) -> Label:
    """Return the refused step of an event. A disabled step is preferred, because FizzBee does not see contents of objects."""
    state = path.unpacked()[0]
    actions = [action for action in refused.actions if action]
    if not actions:
        raise TooLarge(f"the spec has no action for the last request of {refused.process}: {failure}")
    action = next((action for action in actions if not path.possible(refused.process, action, state)), actions[0])
    return refused.process, action, refused.choices or ()


def fitting(row: Row, constants: dict[str, object], steps: int) -> dict[str, object]:
    """Return the constants that differ from the spec's own. If a bound is None in the trace's model, it gets a value that this
    many steps cannot reach, or the spec's largest value."""
    module = project.load("model", row.stem)
    usual, limits = module.Constants()._asdict(), getattr(module, "LIMITS", {})
    found = {name: min(steps + 1, limits[name][-1]) if value is None else value for name, value in constants.items()}
    for name, value in found.items():
        if name in limits and value not in limits[name]:
            raise TooLarge(f"the run needs {name} = {value}, but the spec's largest value is {limits[name][-1]}")
    return {name: value for name, value in found.items() if value != usual[name]}


def walked(model: Model, steps: list[Label]) -> frozenset[State]:
    """Return the states of the bounded model after these steps. Raises TooLarge if it cannot take one."""
    actions = {(process.name, action) for process in model.processes for action in process.actions}
    states = {init(model)}
    for number, label in enumerate(steps):
        if label[:2] not in actions:
            raise TooLarge(f"step {number} of {len(steps)}, {label_text(label)}: the spec has no such action")
        states = {step.state for state in states for step in moves(model, state) if step.label == label}
        if not states:
            raise TooLarge(f"step {number} of {len(steps)}, {label_text(label)}, is impossible in the spec: "
                           "its bounds are smaller than those of the trace's model, or it has fewer choices")
    return frozenset(states)

"""One run of the simulation as FizzBee's guided trace: the constants of the spec that the run fits in, and the links along it.

Safety: the guided trace holds every step that the model took, in their order, so that FizzBee judges the run by itself. What no
spec can follow is refused with the limit that it meets.
"""

from importlib import import_module
from typing import NamedTuple

from highwater.conformance.conform import as_links, model_of
from highwater.conformance.difference import spelt
from highwater.dst.scenarios import named
from highwater.dst.simulate import Outcome
from highwater.model.core import Label, Model, State, Step, init, moves
from highwater.specs.fizzbee.cli import LONGEST_GUIDED
from highwater.specs.manifest import Row, rows
from highwater.traces.explain.explain import Replayed, replay
from highwater.traces.refine import Failure, Match


class TooLarge(Exception):
    """FizzBee cannot follow the run. The message is one line that names the limit."""


class Guided(NamedTuple):
    row: Row  # of the spec that is driven
    constants: dict[str, object]
    links: list[str]
    ends: frozenset[State]  # the states in which the model may be after them; none where the last step is impossible


def row_of(stem: str) -> Row:
    """The first row of a spec: where the spec is. Raises LookupError."""
    found = next((row for row in rows() if row.stem == stem), None)
    if found is None:
        raise LookupError(f"there is no spec of {stem}")
    return found


def spec_of(scenario: str) -> str:
    """The stem of the spec and model that a scenario's runs are held against."""
    return getattr(named(scenario), "MODEL", scenario)


def guided(outcome: Outcome) -> Guided:
    """Drive FizzBee along a run. If the model could not follow the run, the step that it could not take is the last. Raises
    TooLarge."""
    if outcome.shape.sdk:
        raise TooLarge("the clients of this run send requests again (sdk), and those of the spec do not")
    replayed = replay(outcome.events, named(outcome.scenario).trace_of(outcome.shape))
    steps = [step for row in replayed.rows for step in row.steps]
    refused = replayed.error.match if isinstance(replayed.error, Failure) else None
    last = [refused_step(replayed, refused)] if refused else []
    if len(steps) + len(last) > LONGEST_GUIDED:
        raise TooLarge(f"FizzBee follows at most {LONGEST_GUIDED} actions of a guided trace; this run has "
                       f"{len(steps) + len(last)}")
    row = row_of(spec_of(outcome.scenario))
    constants = fitting(row, replayed.record.model.constants._asdict(), len(steps) + len(last))
    ends = walked(model_of(row._replace(constants={}), **constants), steps)
    return Guided(row, constants, as_links(row, [Step(label, None) for label in steps + last]), frozenset() if last else ends)


def refused_step(replayed: Replayed, refused: Match) -> Label:
    """The step that an event could not be; one that is not enabled, if there is one, for FizzBee sees no contents."""
    actions, state = [action for action in refused.actions if action], replayed.before(replayed.failing)
    if not actions:
        raise TooLarge(f"what {refused.process} did is no action of the spec: {replayed.error}")
    record = replayed.record
    action = next((action for action in actions if not record.possible(refused.process, action, state)), actions[0])
    return refused.process, action, refused.choices or ()


def fitting(row: Row, constants: dict[str, object], steps: int) -> dict[str, object]:
    """The constants that differ from the spec's own. A bound that the trace's model leaves open is one that so many steps
    cannot reach, or the largest that the spec may have."""
    module = import_module(f"highwater.model.protocols.{row.stem}")
    usual, limits = module.Constants()._asdict(), getattr(module, "LIMITS", {})
    found = {name: min(steps + 1, limits[name][-1]) if value is None else value for name, value in constants.items()}
    for name, value in found.items():
        if name in limits and value not in limits[name]:
            raise TooLarge(f"the run needs {name} = {value}, and the spec goes to {limits[name][-1]}")
    return {name: value for name, value in found.items() if value != usual[name]}


def walked(model: Model, steps: list[Label]) -> frozenset[State]:
    """The states of the bounded model after these steps. Raises TooLarge where it cannot take one."""
    actions = {(process.name, action) for process in model.processes for action in process.actions}
    states = {init(model)}
    for number, label in enumerate(steps):
        if label[:2] not in actions:
            raise TooLarge(f"step {number} of {len(steps)}, {spelt(label)}, is no action of the spec")
        states = {step.state for state in states for step in moves(model, state) if step.label == label}
        if not states:
            raise TooLarge(f"step {number} of {len(steps)}, {spelt(label)}, is beyond the spec's bounds, or has other choices "
                           "there")
    return frozenset(states)

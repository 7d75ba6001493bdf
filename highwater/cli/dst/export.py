"""highwater dst export: one run in the words of other tools: a log for ShiViz, a guided trace for FizzBee.

Safety: the vector clocks of the log are in the order in which one event can have led to another, and in no other; the guided
trace holds every step that the model took, in their order, so that FizzBee judges the run by itself.
"""

import json
from pathlib import Path
from typing import Annotated

import typer

from highwater.cli.console import STEM, Protocol, Scenario, console, refuse, write_text
from highwater.cli.dst.explain import Mutant, Shrunk, Strategy, What, run_of
from highwater.conformance.conform import as_links
from highwater.dst.scenarios.sequenced_metadata_boundary import trace_of
from highwater.dst.simulate import Outcome
from highwater.gate.exits import INCOMPLETE
from highwater.model.core import Step
from highwater.model.protocols.sequenced_metadata_boundary import LIMITS
from highwater.specs.fizzbee.cli import LONGEST_GUIDED, literal
from highwater.specs.manifest import Row, rows
from highwater.traces.event import Event
from highwater.traces.explain.causes import Moment, moments
from highwater.traces.explain.explain import Replayed, replay, reply, request
from highwater.traces.refine import Failure, Match

SHIVIZ = r"(?<host>\S*) (?<clock>{.*})\n(?<event>.*)"  # how ShiViz is to read the log; its second line parts executions
FAULTS = {"LoseReply": "MAX_LOST", "Crash": "MAX_CRASHES"}


class TooLarge(Exception):
    """The run has more than a guided trace of the spec can have; the message is one line."""


def shiviz(events: list[Event]) -> str:
    """Two lines an event, after the expression by which ShiViz reads them."""
    return "\n".join([SHIVIZ, "", *map(entry, moments(events, request, reply))]) + "\n"


def entry(moment: Moment) -> str:
    return f"{moment.host} {json.dumps(moment.clock, sort_keys=True)}\n{moment.text}"


def guided(outcome: Outcome) -> tuple[dict[str, object], list[str]]:
    """Constants of the spec that the run fits in, and FizzBee's links along it. Where the model could not follow, the step that
    it could not take is the last. Raises TooLarge."""
    if outcome.shape.sdk:
        raise TooLarge("the clients of this run send requests again (sdk), and those of the spec do not")
    if outcome.scenario != STEM:
        raise TooLarge(f"guided traces are made of runs of {STEM} alone, and this is one of {outcome.scenario}")
    replayed = replay(outcome.events, trace_of(outcome.shape))
    steps = [step for row in replayed.rows for step in row.steps]
    refused = replayed.error.match if isinstance(replayed.error, Failure) else None
    if refused:
        steps.append((refused.process, impossible(replayed, refused), refused.choices or ()))
    if len(steps) > LONGEST_GUIDED:
        raise TooLarge(f"FizzBee follows at most {LONGEST_GUIDED} actions of a guided trace; this run has {len(steps)}")
    constants = fitting(outcome, replayed, steps)
    for name, value in constants.items():
        if name in LIMITS and value not in LIMITS[name]:
            raise TooLarge(f"the run needs {name} = {value}, and the spec goes to {LIMITS[name][-1]}")
    return constants, as_links(row_of(STEM), [Step(label, None) for label in steps])


def impossible(replayed: Replayed, refused: Match) -> str:
    """The action that an event could not be; one that is not enabled, if there is one, for FizzBee sees no contents."""
    actions, state = [action for action in refused.actions if action], replayed.before(replayed.failing)
    return next((action for action in actions if not replayed.record.possible(refused.process, action, state)), actions[0])


def row_of(stem: str) -> Row:
    return next(row for row in rows() if row.stem == stem)


def fitting(outcome: Outcome, replayed: Replayed, steps: list[tuple]) -> dict[str, object]:
    """The smallest instance that has these clients, updates and faults."""
    states = [replayed.initial, *(row.after for row in replayed.rows if row.after)]
    shape, names = outcome.shape, [process.name for process in replayed.record.model.processes]
    writers = [name for name in names if name.startswith("Writer#")][:shape.writers]
    begun = [state.locals[names.index(name)].k for state in states for name in writers]
    sent = sum(action.startswith("Send") for _, action, _ in steps)
    return {
        "WRITERS": shape.writers, "COLLECTORS": shape.collectors, "READERS": shape.readers, "COMMITS": 1 + max(begun),
        "MAX_ID": 1 + max(state.shared.high for state in states), "MAX_PENDING": sent,
        "PAGE": shape.page_size if shape.page_size < 1000 else 0,
        "CHECKPOINTS": len({p for state in states for file in state.shared.files if file for p in file.checkpoints}),
        **{constant: sum(action == name for _, action, _ in steps) for name, constant in FAULTS.items()},
    }


def export_command(what: What, out: Annotated[Path, typer.Option("--out", "-o", help="the file to write")],
                   as_shiviz: Annotated[bool, typer.Option("--shiviz", help="a log with vector clocks, for ShiViz")] = False,
                   as_fizz: Annotated[bool, typer.Option("--fizz", help="a guided trace, for FizzBee")] = False,
                   mutant: Mutant = None, strategy: Strategy = "portfolio", protocol: Protocol = None,
                   scenario: Scenario = None, shrunk: Shrunk = False) -> None:
    """Write a run for another tool: ShiViz draws it, FizzBee judges it."""
    if as_shiviz == as_fizz:
        refuse("give either --shiviz or --fizz")
    outcome, mutant, _ = run_of(what, mutant, strategy, protocol, scenario, shrunk)
    if as_shiviz:
        write_text(out, shiviz(outcome.events))
        console.print(f"written: {out}; open it in ShiViz (https://bestchai.bitbucket.io/shiviz/)", markup=False)
        return
    try:
        constants, links = guided(outcome)
    except TooLarge as error:
        console.print(f"not written: {error}", markup=False)
        raise typer.Exit(INCOMPLETE) from None
    write_text(out, "\n".join(links) + "\n")
    setting = " ".join(f"--set {name}={literal(value)}" for name, value in constants.items())
    spec = f"specs/{row_of(STEM).path.name}"
    console.print(f"written: {out}, {len(links)} links; FizzBee follows it by", markup=False)
    console.print(f"  python -m highwater.specs.fizzbee.cli guided {spec} --trace {out} {setting}", markup=False)
    if outcome.signature.startswith(("told:", "history:")):
        console.print("This run fails by what a caller was told, which is no step of the model: FizzBee will follow all of it.")

"""highwater dst export: write one run for another tool: a log for ShiViz, or a guided trace for FizzBee.

Safety: the vector clocks of the log order exactly the events that are ordered by happens-before. The guided trace holds every
step of the model in order, so that FizzBee judges the run by itself.
"""

import json
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from highwater.cli.console import Protocol, Scenario, console, refuse, write_text
from highwater.cli.dst.explain import Mutant, Shrunk, Strategy, What, run_of
from highwater.cli.dst.report import Limit
from highwater.conformance.guided import TooLarge, guided
from highwater.dst.sim.alarm import LONGEST_RUN_S
from highwater.gate.exits import INCOMPLETE
from highwater.specs.fizzbee.values import literal
from highwater.traces.event import Event
from highwater.traces.explain.causes import Moment, moments
from highwater.traces.explain.explain import reply, request

SHIVIZ = r"(?<host>\S*) (?<clock>{.*})\n(?<event>.*)"  # ShiViz parses the log with this; line 2 separates executions


def shiviz(events: list[Event]) -> str:
    """Return the log: the expression that parses it, then two lines per event."""
    return "\n".join([SHIVIZ, "", *map(entry, moments(events, request, reply))]) + "\n"


def entry(moment: Moment) -> str:
    """Return two lines. A task's name has a space, which ends the name of a host, and a content may have ends of lines."""
    clock = {host.replace(" ", "_"): time for host, time in moment.clock.items()}
    text = "".join(char if char.isprintable() else repr(char)[1:-1] for char in moment.text)
    return f"{moment.host.replace(' ', '_')} {json.dumps(clock, sort_keys=True)}\n{text}"


def export_command(what: What, out: Annotated[Path, typer.Option("--out", "-o", help="the file to write")],
                   as_shiviz: Annotated[bool, typer.Option("--shiviz", help="a log with vector clocks, for ShiViz")] = False,
                   as_fizz: Annotated[bool, typer.Option("--fizz", help="a guided trace, for FizzBee")] = False,
                   mutant: Mutant = None, strategy: Strategy = "portfolio", protocol: Protocol = None,
                   scenario: Scenario = None, shrunk: Shrunk = None, limit_s: Limit = LONGEST_RUN_S) -> None:
    """Write a run for another tool: ShiViz draws it, FizzBee judges it."""
    if as_shiviz == as_fizz:
        refuse("give either --shiviz or --fizz")
    outcome, mutant, *_ = run_of(what, mutant, strategy, protocol, scenario, shrunk, limit_s)
    if as_shiviz:
        write_text(out, shiviz(outcome.events))
        console.print(f"written: {out}; open it in ShiViz (https://bestchai.bitbucket.io/shiviz/)", markup=False)
        return
    try:
        run = guided(outcome)
    except (TooLarge, LookupError) as error:  # LookupError: the protocol has no spec
        console.print(f"not written: {error}", markup=False)
        raise typer.Exit(INCOMPLETE) from None
    write_text(out, "\n".join(run.links) + "\n")
    setting = " ".join(f"--set {name}={quote(literal(value))}" for name, value in run.constants.items())
    console.print(f"written: {out}, {len(run.links)} links; FizzBee follows it with", markup=False)
    console.print(f"  python -m highwater.specs.fizzbee guided {quote(str(run.row.path))} --trace {out} {setting}",
                  markup=False)
    if outcome.signature.startswith(("told:", "history:")):
        console.print("This run fails by a response to a caller, which is no step of the model: FizzBee will follow all of it.")

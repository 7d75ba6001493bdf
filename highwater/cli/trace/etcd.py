"""highwater trace check, for a trace of etcd's Raft: the model of Raft judges it, line by line."""

from pathlib import Path
from shlex import quote
from typing import NoReturn

import typer

from highwater.cli.console import console, refuse, terminal_width
from highwater.gate.exits import of_kinds
from highwater.outside import LINE_MIB, first_line, texts_of
from highwater.traces.explain.explain import explain
from highwater.traces.recorded.systems import etcd_raft
from highwater.traces.recorded.systems.etcd_raft import Recording
from highwater.traces.refine import Failure

PROTOCOL = "raft"


def is_log(file: Path) -> bool:
    """Return whether the file is a trace of etcd's Raft. Refuses an unreadable file."""
    try:
        return etcd_raft.is_log(first_line(file))
    except OSError as error:
        refuse(f"{file}: {error.strerror}")


def read(file: Path, line_mib: int = LINE_MIB) -> Recording:
    """Read a trace. Refuses a file that is none."""
    try:
        with open(file, "rb") as stream:
            return etcd_raft.read(texts_of(stream, line_mib))
    except (OSError, ValueError) as error:
        refuse(f"{file}: {error}")


def check(file: Path, protocol: str | None, others: list[str], line_mib: int = LINE_MIB) -> None:
    """Check a trace, and explain the first line that is not allowed. `others`: the options given that are for other traces."""
    if others or protocol not in (None, PROTOCOL):
        refuse(f"{file} is a trace of etcd's Raft, which has no option but --protocol {PROTOCOL}; leave out "
               f"{', '.join(others) or f'--protocol {protocol}'}")
    recording = read(file, line_mib)
    trace = etcd_raft.begin(recording)
    try:
        for event in recording.events:
            trace.observe(event)
    except Failure as failure:
        refused(file, recording, trace, failure)
    console.print(f"[green]ok[/]: {recording.lines[-1]:,} lines, which are {len(recording.events):,} events of "
                  f"{recording.servers} servers, refine the model")


def refused(file: Path, recording: Recording, trace: etcd_raft.Trace, failure: Failure) -> NoReturn:
    line = recording.lines[len(trace.events) - 1]
    console.print(f"[bold red]{failure.kind}[/] ({failure.signature})")
    console.print(f"line {line} of {file}; times are numbers of lines", markup=False)
    again = f"highwater trace check {quote(str(file))} --protocol {PROTOCOL}"
    console.print(explain(trace.events, failure, trace, again, width=terminal_width()), markup=False)
    raise typer.Exit(of_kinds([failure.kind]))

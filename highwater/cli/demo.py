"""highwater demo: find a bug in a model and in the real code within a minute. It runs each command that it prints."""

import os
import re
import subprocess
import sys
import webbrowser
from pathlib import Path
from shlex import join
from tempfile import TemporaryFile
from typing import Annotated, NamedTuple, NoReturn

import typer

from highwater.cli.console import console, refuse
from highwater.dst.bundle import SHRUNK, Refused, may_be_replaced
from highwater.dst.scenarios import DEFAULT as PROTOCOL
from highwater.gate.exits import HARNESS, INTERRUPTED, MEANING, SAFETY
from highwater.project import VARIABLE

KNOB, MUTANT, SEEDS = "CHECK=off", "reported_though_refused", "0:50"  # of PROTOCOL
INTRODUCTION = """\
A database on object storage keeps its metadata in files with consecutive ids. A writer takes the
next id by "create if absent". A collector deletes old files. A writer that stalls for too long can
create an id that was used and deleted before. So the collector first writes the highest id that it
will delete into a boundary file. The writer reads this file after its create. If its id is not above
the boundary, it must not report success. This demo removes that safeguard."""


class Step(NamedTuple):
    title: str  # what the step shows
    arguments: tuple[str, ...]  # of the command `highwater`
    code: int  # the exit code that the command must have


def demo(out: Annotated[Path, typer.Option(metavar="DIR", help="the folder for the failing run")] = Path("out/demo"),
         open_page: Annotated[bool, typer.Option("--open", help="open the timeline of the run in a browser")] = False) -> None:
    """Find a bug within a minute: in a model, and then in the real code, whose failing run is shrunk and drawn."""
    failure = out / "failure"
    check_folders(out, failure)
    console.print(INTRODUCTION, markup=False)
    run(Step("1. The model of the protocol without the safeguard. `model explore` visits its states in order of depth,\n"
             "and prints a shortest run that breaks a property; without --brief, with each change of the state.",
             ("model", "explore", PROTOCOL, "--set", KNOB, "--brief"), SAFETY))
    mutant = ("--protocol", PROTOCOL, "--mutant", MUTANT)
    failures = run(Step("2. The real code with the same bug: the writer reads the boundary, and reports success regardless.\n"
                        "Each seed is one run on a simulated store, with stalls, crashes and lost responses.",
                        ("dst", "run", *mutant, "--seeds", SEEDS), SAFETY))
    run(Step("3. The first run that failed, made smaller. It fails in the same way, with fewer requests and faults.",
             ("dst", "shrink", first_seed(failures), *mutant, "--out", str(failure)), 0))
    page = failure / f"{SHRUNK}timeline.html"
    if not page.is_file():
        fail(f"{page} is missing")
    console.print(f"\nThe timeline of this run, a page that needs no network: {page}", markup=False)
    if open_page and not webbrowser.open(page.resolve().as_uri()):
        console.print("There is no browser here: open the page in one.")
    console.print("\nNext:")
    for command, purpose in ((f"dst explain {join([str(failure)])}", "which events mattered, and the nearest run that passes"),
                             (f"dst run --protocol {PROTOCOL} --seeds 0:500", "the code with the safeguard: no run fails"),
                             ("new lease", "a project for a protocol of your own, which runs as it is")):
        console.print(f"    highwater {command}  # {purpose}", markup=False)


def check_folders(out: Path, failure: Path) -> None:
    """Refuse a folder that cannot be written, and one that holds other files in the place of the failing run."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=out):
            may_be_replaced(failure)
    except OSError as error:
        refuse(f"{out} cannot be written: {error.strerror}; give another folder with --out")
    except Refused as error:
        refuse(str(error))


def run(step: Step) -> str:
    """Print a command, run it, and return its output. Exits with 14 if the command has another exit code than it must."""
    console.print(f"\n[bold]{step.title}[/]\n")
    console.print(f"    highwater {join(step.arguments)}\n", markup=False)
    environment = {**os.environ, VARIABLE: ""}  # no project takes the place of the protocol
    lines = []
    with subprocess.Popen([sys.executable, "-P", "-m", "highwater", *step.arguments], env=environment, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            console.print(line, end="", markup=False)
    if process.returncode == INTERRUPTED:
        raise typer.Exit(INTERRUPTED)
    if process.returncode != step.code:
        fail(f"`highwater {join(step.arguments)}` ended with exit code {process.returncode}; it must end with {step.code}")
    console.print(f"\nExit code {step.code} ({MEANING[step.code]}), as it must be.")
    return "".join(lines)


def first_seed(failures: str) -> str:
    """Return the seed of the first command that `dst run` prints. Exits with 14 if there is none."""
    found = re.search(r"--seed (\d+)", failures)
    return found[1] if found else fail("`dst run` names no seed that fails")


def fail(message: str) -> NoReturn:
    """Report that the demo did not show what it must, and exit with 14."""
    refuse(f"the demo is broken: {message}", HARNESS)

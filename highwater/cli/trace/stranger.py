"""highwater trace check, for a log of requests: search for an order of the requests that the models allow."""

import shlex
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import typer
from rich.markup import escape

from highwater import pages, project
from highwater.cli.console import console, refuse
from highwater.cli.instances import of_user
from highwater.clients.maps import maps_of
from highwater.gate.exits import INCOMPLETE, of_kinds
from highwater.model.uncollected import uncollected
from highwater.outside import LINE_MIB, first_line, texts_of
from highwater.traces.recorded import access_log, s3log
from highwater.traces.recorded.machine import Machine
from highwater.traces.recorded.orders import Found, Step, search
from highwater.traces.recorded.s3log import Request
from highwater.traces.recorded.s3store import READS, Key, steps_of
from highwater.traces.recorded.systems.facts import Knobs
from highwater.traces.recorded.systems.mapped import Mapped
from highwater.traces.recorded.systems.slatedb import MODELS, Slatedb, is_metadata
from highwater.traces.recorded.systems.slatedb_layout import is_known, is_unread
from highwater.traces.recorded.systems.template import Unfit

OfProtocol = Callable[[Key], bool]
FAILED = (301, 302, 307, 308, 400, 401, 403, 429)  # statuses of a request whose object the server has not looked at
MOST = 8  # lines of a kind to show
BEFORE = 10  # requests before a failure to show


def is_log(file: Path) -> bool:
    """Return whether the file is a log of a recorder or of a server, not a trace of events. Refuses an unreadable file."""
    try:
        first = first_line(file)
    except OSError as error:
        refuse(f"{file}: {error.strerror}")
    return first.lstrip().startswith(('{"kind":', '{"kind" :')) or access_log.looks_like_one(first)


def read(file: Path, line_mib: int = LINE_MIB) -> list[Request]:
    """Read the requests of a log. Refuses a file that is no log."""
    try:
        with open(file, "rb") as stream:
            lines = texts_of(stream, line_mib, "surrogateescape")
            if access_log.looks_like_one(first_line(file)):
                return access_log.read(lines)
            log = s3log.read(lines)
    except (OSError, ValueError) as error:
        refuse(f"{file}: {error}")
    if not log.whole:
        console.print(f"[yellow]{escape(str(file))} has no end:[/] requests that were in flight when its recorder died may be "
                      "missing")
    return log.requests


class Mapping(NamedTuple):
    """How a log is judged. `known` says which requests a mapping knows, `unread` which of them lack the contents that it needs.
    `users` is the project's module, if it is its mapping."""

    source: str  # where the mapping stands
    models: dict[str, str]
    machine: Machine | Slatedb | Mapped
    is_metadata: OfProtocol
    known: Callable[[Request], bool]
    unread: Callable[[Request], bool] = lambda request: False
    users: ModuleType | None = None


def check(file: Path, root: str | None, sets: list[str], skew_ms: int, budget: int, maps: list[str],
          line_mib: int = LINE_MIB) -> None:
    """Check a log. Exit with 10 if a property is broken, and with 11 if a request or response is impossible in the models.

    Exit with 3 if the budget was too small, if no request belongs to a known protocol (then only the store was checked), or if
    all that do have failed."""
    requests = read(file, line_mib)
    if root is not None:
        requests = [one for one in requests if of_root(one, root)]
    if not requests:
        refuse(f"{file}: the log has no requests" + (f" below {root!r}" if root is not None else ""))
    steps, unknown = steps_of(requests)
    of = of_maps(maps) if maps else of_project() or of_slatedb(sets, skew_ms)
    if sets and of.source:
        refuse(f"--set {sets[0]}: {of.source} judges this log, and takes no safeguards")
    with uncollected(), of_user(of.users) if of.users else nullcontext():
        found = search(steps, of.machine, budget)
    numbers = {one.number for one in unknown}
    if strange := [one for one in requests if one.number in numbers or not of.known(one)]:
        console.print(f"[yellow]{len(strange):,} requests are of kinds that no mapping knows:[/]")
        for (op, key), many in Counter((f"{one.method} ({one.op})", kind_of(one.key)) for one in strange).most_common(MOST):
            console.print(f"  {many:,} x {op} {key}", markup=False)
    if unread := [one for one in requests if of.unread(one)]:
        console.print(f"[yellow]the log lacks the contents of {len(unread):,} metadata files[/], so their changes were not "
                      "checked: record with a larger --keep-bytes")
    if found.verdict == "complete" and not any(of.is_metadata(step.what.key) for step in steps):
        more = "" if maps else "; --map names the keys of another one" if not project.current() or of.users else (
            f"; a log is not compared with a project's model: write a trace of events ({pages.named('event-format')}), "
            "or recorded.py")
        console.print(f"[bold yellow]NOT checked[/]: {len(requests):,} requests were compared with the store only; no request "
                      f"belongs to a known protocol{more}")
        raise typer.Exit(INCOMPLETE)
    held_against(steps, of)
    if of.users and found.verdict == "complete" and not of.machine.actions and any(
            of.is_metadata(step.what.key) and step.what.op not in READS for step in steps):
        console.print(f"[bold yellow]NOT checked[/]: {escape(of.source)} counts no change as an action of a model")
        raise typer.Exit(INCOMPLETE)
    if found.verdict == "complete" and all(failed(step.what.request) for step in steps if of.is_metadata(step.what.key)):
        why = escape(reasons(requests, steps, of))
        console.print(f"[bold yellow]NOT checked[/]: every request to a model's keys failed: {why}; look for the cause in the "
                      "server's log, and record again")
        raise typer.Exit(INCOMPLETE)
    if found.verdict == "complete":
        actions = ", ".join(f"{many:,} {action}" for action, many in sorted(of.machine.actions.items())) or (
            "none of the protocol")
        console.print(f"[green]ok[/]: {len(requests):,} requests refine the models; actions: {actions}")
    elif found.verdict == "undecided":
        console.print(f"[yellow]could not decide within {budget:,} steps[/]: {found.matched:,} of {len(steps):,} requests have "
                      "an order; give a larger --budget")
        raise typer.Exit(INCOMPLETE)
    else:
        again = [word for option, words in (("--set", sets), ("--map", maps)) for one in words for word in (option, one)]
        told(found, story(found, steps, of.known), len(steps),
             shlex.join(["highwater", "trace", "check", str(file), *again]) + project.option())
        raise typer.Exit(of_kinds(["safety" if any(refusal.harm for _, refusal in found.refused) else "refinement"]))


def failed(request: Request) -> bool:
    """Return whether a request says nothing about the store's objects: no answer, an error of the server, or no access."""
    return request.status < 200 or request.status >= 500 or request.status in FAILED or request.code == "NoSuchBucket"


def reasons(requests: list[Request], steps: list[Step], of: Mapping) -> str:
    """Count the answers to the requests to a model's keys."""
    numbers = {step.what.request.number for step in steps if of.is_metadata(step.what.key)}
    answers = Counter(f"{one.status or 'no answer'} {one.code}".strip() for one in requests if one.number in numbers)
    return ", ".join(f"{many:,} x {answer}" for answer, many in answers.most_common(MOST))


def of_slatedb(sets: list[str], skew_ms: int) -> Mapping:
    return Mapping("", MODELS, Slatedb(knobs_of(sets, skew_ms)), is_metadata, is_known, is_unread)


def of_maps(texts: list[str]) -> Mapping:
    """Return the mapping of --map. Refuses what is no map."""
    try:
        maps = maps_of(texts)
    except Unfit as error:
        refuse(str(error))
    of, models = Mapped(maps), {one.protocol: "" for one in maps}
    for name in models:
        models[name] = ", ".join(one.keys for one in maps if one.protocol == name)
    return Mapping("--map", models, of, of.is_metadata, lambda one: one.op in ("list", "delete_many") or of.is_metadata(
        (one.bucket, one.key)))


def of_project() -> Mapping | None:
    """Return the mapping of the project's logs to its model's actions, if it has one. Refuses a machine of another kind."""
    try:
        stem = project.only()
        users = project.load("recorded", stem) if stem and project.has("recorded", stem) else None
    except project.ProjectError as error:
        refuse(str(error))
    if not users:
        return None
    with of_user(users):
        machine = users.machine()
    if not isinstance(machine, Machine):
        refuse(f"{users.__file__}: machine() returns {machine!r}, not a highwater.traces.recorded.machine.Machine")
    return Mapping(str(users.__file__), users.MODELS, machine, users.is_metadata,
                   lambda one: users.is_metadata((one.bucket, one.key)), users=users)


def held_against(steps: list[Step], of: Mapping) -> None:
    """Print which models judge the log, what is taken for granted, and which requests are no action of a model."""
    of_models = [step for step in steps if of.is_metadata(step.what.key)]
    names = ", ".join(f"{name} ({keys})" for name, keys in of.models.items())
    console.print(f"held against {names}: {len(of_models):,} requests; the other {len(steps) - len(of_models):,} against the "
                  "store only", markup=False)
    others = Counter((step.what.op, kind_of(step.what.key[1])) for step in steps if not of.is_metadata(step.what.key))
    if others:
        most = ", ".join(f"{many:,} x {op} {key}" for (op, key), many in others.most_common(MOST))
        console.print(f"no action of a model: {most}{', ..' * (len(others) > MOST)}", markup=False)
    for fact, many in sorted(of.machine.granted.items()):
        console.print(f"taken for granted: {many:,} x {fact}", markup=False)


def told(found: Found, led_there: list[Step], number: int, command: str) -> None:
    """Print the longest order found: why no request can be next in it, and the requests that led there."""
    harm = [refusal.guard for _, refusal in found.refused if refusal.harm]
    name = f"{harm[0]} is broken" if harm else "the models cannot do this"
    console.print(f"[bold red]{name}[/]: {found.matched:,} of {number:,} requests have an order; then none can be next:")
    for step, refusal in found.refused[:MOST]:
        console.print(f"\n  {line(step)}\n    {refusal.guard}: {refusal.why}", markup=False)
        if refusal.needs:
            console.print(f"    {refusal.needs}", markup=False)
    console.print("\nwhat led there:", markup=False)
    for step in led_there:
        console.print(f"  {line(step)}", markup=False)
    console.print(f"\n{command}", markup=False)


def story(found: Found, steps: list[Step], known: Callable[[Request], bool]) -> list[Step]:
    """Return the last requests to the keys of the failure and the last metadata changes, in the order of their responses."""
    stuck, keys = ({read(step) for step, _ in found.refused} for read in (lambda step: step.number, lambda step: step.what.key))
    until = max((step.answered for step, _ in found.refused), default=0)
    before = [step for step in steps if step.number not in stuck and step.answered <= until]
    before.sort(key=lambda step: step.answered)
    of_keys = [step for step in before if step.what.key in keys and step.what.request.status != 404][-BEFORE:]
    changes = [step for step in before if known(step.what.request) and step.what.op not in READS
               and "/compacted/" not in step.what.key[1]][-BEFORE:]
    shown = {step.number: step for step in (*of_keys, *changes)}
    return sorted(shown.values(), key=lambda step: step.answered)


def line(step: Step) -> str:
    request = step.what.request
    asked = "".join(f" {name}: {value}" for name, value in request.conditions.items() if name.startswith("if-"))
    rule = f"   [{request.rule}]" if request.rule else ""
    method = "DELETE" if request.op == "delete_many" else request.method
    return (f"request {request.number}, {request.client}: {method} {step.what.key[1]}{asked} -> "
            f"{request.status or 'no answer'}{rule}")


def of_root(request: Request, root: str) -> bool:
    return request.key.startswith(f"{root}/") or request.op == "delete_many" or not request.key


def kind_of(key: str) -> str:
    """Return the folder of a key, as a pattern."""
    return key.rpartition("/")[0] + "/*" if "/" in key else "*" if key else "(no key)"


def knobs_of(sets: list[str], skew_ms: int) -> Knobs:
    """Parse --set options. Refuses all but BOUNDARY=True and BOUNDARY=False."""
    knobs = Knobs(SKEW_MS=skew_ms)
    for text in sets:
        name, _, value = text.partition("=")
        if name != "BOUNDARY" or value not in ("True", "False"):
            refuse(f"--set {text} is unknown: a recorded log takes BOUNDARY=False, if the programs have no boundary files")
        knobs = knobs._replace(BOUNDARY=value == "True")
    return knobs

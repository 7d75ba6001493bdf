"""highwater trace: check | damage | record."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import track
from rich.table import Table

from cli.console import STEM, console, refuse, scenario_of, seeds_of
from cli.dst_report import or_refuse
from cli.exits import of_kinds
from dst.scenarios import STEMS, named
from dst.wanted import set_in
from impl.layout import InvalidName
from traces.event import Event, from_json
from traces.form import owns
from traces.orders import BUDGET

app = typer.Typer(no_args_is_help=True)


@app.callback()
def traces() -> None:
    """Recorded traces."""


Root = Annotated[str, typer.Option(help="folder of the database in the store")]
In = Annotated[str, typer.Option(help="manifest or compactions")]
PageSize = Annotated[int, typer.Option(min=0, help="keys on a page of a listing; 0: one page")]
SkewMs = Annotated[int, typer.Option(min=0, help="clients' clocks are at most so far ahead")]
Protocol = Annotated[str | None, typer.Option(help=f"whose trace it is [default: {STEM}]")]
LOG_SKEW_MS = 1_000
SkewOrUsual = Annotated[int | None, typer.Option("--skew-ms", min=0, help="clients' clocks are at most so far ahead "
                                                 f"[default: 0; of a log: {LOG_SKEW_MS}]")]
Shaped = Annotated[list[str] | None, typer.Option("--shape", help="NAME=VALUE of the scenario's Shape, of any protocol but the "
                                                  "boundary's; `dst run -o` says which; may be repeated")]
RootOrAll = Annotated[str | None, typer.Option("--root", help="folder of the database in the store [default: db; of a log: "
                                               "all that are in it]")]
Sets = Annotated[list[str] | None, typer.Option("--set", help="of a recorded log: BOUNDARY=False, the programs have no "
                                                "boundary files")]
Budget = Annotated[int, typer.Option(min=1, help="of a recorded log: steps of the search for an order")]
Retries = Annotated[bool, typer.Option("--retries", help="clients repeat a request that had no answer, as SDKs do")]


@app.command("check")
def check_command(file: Annotated[Path, typer.Argument(help="NDJSON, an event a line; or what `trace record` has written; or "
                                                       "S3 server access logs")], root: RootOrAll = None,
                  namespace: In = "compactions", page_size: PageSize = 0, skew_ms: SkewOrUsual = None,
                  retries: Retries = False, protocol: Protocol = None, shape: Shaped = None, sets: Sets = None,
                  budget: Budget = BUDGET) -> None:
    """Tell whether the model could have done what a trace shows; explain the first event that it could not.

    Of a log of programs that nobody here wrote no order of the requests is known: one is looked for that their times allow."""
    from cli import stranger
    from traces.explain import explain
    from traces.refine import Failure

    if stranger.is_log(file):
        if of_events := [option for option, given in (("--protocol", protocol), ("--shape", shape), ("--retries", retries),
                                                      ("--page-size", page_size)) if given]:
            refuse(f"{', '.join(of_events)}: of traces of events, and {file} is a log of requests, which is held against all "
                   "models that its keys speak of")
        return stranger.check(file, root, sets or [], LOG_SKEW_MS if skew_ms is None else skew_ms, budget)
    if sets:
        refuse("--set is of recorded logs (`trace record`), and this is a trace of events")
    root, skew_ms, given, protocol = "db" if root is None else root, skew_ms or 0, protocol, protocol or STEM
    events, trace = recorded(file, root, namespace, page_size, skew_ms, retries, protocol, shape)
    command = (f"highwater trace check {file} --root {root} --namespace {namespace} --page-size {page_size} "
               f"--skew-ms {skew_ms}" + " --retries" * retries if protocol == STEM else " ".join(
                   [f"highwater trace check {file} --protocol {protocol}", *(f"--shape {one}" for one in shape or ())]))
    try:
        for event in events:
            trace.observe(event)
    except Failure as failure:
        others = [stem for stem in fitting(events) if stem != protocol]
        if others and not fits(protocol, events):
            refuse(f"{file}: {failure.message}; {of_others(others)}")
        console.print(f"[bold red]{failure.kind}[/] ({failure.signature})")
        console.print(explain(trace.events, failure, trace, command), markup=False)
        if others and not given:
            console.print(f"Unless this is a trace of {protocol}: {of_others(others)}", markup=False)
        raise typer.Exit(of_kinds([failure.kind])) from None
    console.print(f"[green]ok[/]: {len(events):,} events refine the model")


@app.command("damage")
def damage_command(files: Annotated[list[Path] | None, typer.Argument(help="good traces; none: those of the simulator")] = None,
                   seeds: Annotated[str, typer.Option(help="A:B, of the simulator")] = "0:40", root: Root = "db",
                   namespace: In = "compactions", page_size: PageSize = 0, skew_ms: SkewMs = 0) -> None:
    """Check the checker: damage good traces in every place, and tell what is noticed, and why the rest is no damage."""
    from cli.damaged import simulated
    from traces.kills import Good, by_equivalence, by_event, by_field, measure

    try:
        good = [Good(str(file), events, beginner(events, root, namespace, page_size, skew_ms))
                for file in files for events in (read(file),)] if files else list(simulated(seeds_of(seeds)))
        tally = measure(track(good, "damaging", console=console, transient=True))
    except ValueError as error:
        refuse(str(error))
    for rows in (by_event(tally), by_field(tally), by_equivalence(tally)):
        table = Table(*rows[0])
        for row in rows[1:]:
            table.add_row(*row)
        console.print(table)
    if tally.holes:
        console.print(f"[bold red]{len(tally.holes):,} damaged traces are not noticed, and nothing explains why:[/]")
        console.print("\n".join(tally.holes[:20]), markup=False)
        raise typer.Exit(of_kinds(["harness"]))


@app.command("record")
def record_command(
        upstream: Annotated[str, typer.Argument(help="the server: http://127.0.0.1:7070")],
        client: Annotated[list[str] | None, typer.Option("--client", help="NAME or NAME=PORT, a port for each client; may be "
                                                         "repeated [default: client]")] = None,
        out: Annotated[Path, typer.Option("--out", "-o", help="the log, NDJSON")] = Path("s3.ndjson"),
        rules: Annotated[Path | None, typer.Option(help="what is done to which request; read anew when it changes")] = None,
        keep_bytes: Annotated[int, typer.Option(min=0, help="longer bodies are in the log by size and digest")] = 65_536,
) -> None:
    """Record what programs ask of an S3 server, until Ctrl-C: a proxy on loopback that can hold, fail, delay or lose."""
    from cli.record import record

    record(upstream, client or ["client"], out, rules, keep_bytes)


def recorded(file: Path, root: str, namespace: str, page_size: int, skew_ms: int,
             with_retries: bool = False, protocol: str = STEM, shape: list[str] | None = None) -> tuple[list[Event], Any]:
    """A file's events, and a Trace for as many clients as they are of."""
    events = read(file)
    if protocol == STEM:
        if shape:
            refuse(f"--shape is of other protocols; of {STEM} the options before it tell")
        return events, beginner(events, root, namespace, page_size, skew_ms, with_retries)()
    if (root, namespace, page_size, skew_ms, with_retries) != ("db", "compactions", 0, 0, False):
        refuse(f"--root, --namespace, --page-size, --skew-ms and --retries are of {STEM}; of {protocol} --shape tells, as in "
               "--shape skew_ms=50")
    of = named(scenario_of(protocol))
    trace = of.trace_of(or_refuse(set_in, of.Shape(), tuple(shape or ()), "--shape", of.MOST))
    strange = [e.client for e in events if e.client not in trace.refiner.index]
    if strange:
        refuse(f"{file}: client {strange[0]!r}: clients of {protocol} are {', '.join(filter(None, trace.refiner.index))}"
               + hint(events))
    return events, trace


# --- whose a trace may be

def hint(events: list[Event]) -> str:
    others = fitting(events)
    return f"; {of_others(others)}" if others else ""


def of_others(protocols: list[str]) -> str:
    return (f"its clients, its keys and what callers were told are as in {' and '.join(protocols)}: "
            f"{' or '.join(f'--protocol {name}' for name in protocols)}, with --shape where `dst run -o` has told of one")


def fitting(events: list[Event]) -> list[str]:
    """The protocols of which a trace may be by its clients, its keys, and the words that callers were told."""
    return [stem for stem in STEMS if fits(stem, events)]


def fits(protocol: str, events: list[Event]) -> bool:
    of = named(protocol)
    usual = of.Shape()
    flags = [name for name, value in usual._asdict().items() if isinstance(value, bool)]  # keys may depend on one
    spaces = [of.trace_of(shape).namespace for shape in (usual, *(usual._replace(**{name: not getattr(usual, name)})
                                                                  for name in flags))]
    asked, told = ([e for e in events if (e.kind == "told") == is_told] for is_told in (False, True))
    return (all(e.client.partition("#")[0] in of.ROLES for e in events) and all(e.op in of.TOLD for e in told)
            and any(all(is_of(space, e) for e in asked) for space in spaces))


def is_of(space: Any, e: Event) -> bool:
    try:
        return owns(space, e)
    except InvalidName:
        return False


def read(file: Path) -> list[Event]:
    """Refuses what is no trace."""
    try:
        events = [from_json(line) for line in file.read_text().splitlines() if line]
    except (OSError, ValueError) as error:
        refuse(f"{file}: {error}")
    if not events:
        refuse(f"{file}: there is no event in it")
    return events


def beginner(events: list[Event], root: str, namespace: str, page_size: int, skew_ms: int,
             with_retries: bool = False) -> Callable[[], Any]:
    """What makes a Trace for so many clients as these events are of."""
    from impl.layout import Namespace
    from traces import retries
    from traces.sequenced_metadata_boundary import Trace, constants, refiner

    strange = [e.client for e in events if not re.fullmatch(r"(Writer|Collector|Reader)#\d{1,2}", e.client)]
    if strange:
        refuse(f"client {strange[0]!r}: clients are Writer#0, Collector#0, Reader#0 and so on" + hint(events))
    if namespace not in ("manifest", "compactions"):
        refuse(f"namespace {namespace!r}: manifest or compactions")
    numbers = [1 + max([int(e.client.partition("#")[2]) for e in events if e.client.startswith(role)], default=0)
               for role in ("Writer", "Collector", "Reader")]
    kind, checker = (retries.RetryingTrace, retries.refiner) if with_retries else (Trace, refiner)
    of = checker(constants(*numbers, page_size, namespace == "manifest"))
    return lambda: kind(of, Namespace(root, namespace), skew_ms)

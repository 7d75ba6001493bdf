"""highwater trace: check | damage | record."""

from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.progress import track
from rich.table import Table

from highwater.cli.console import STEM, Scenario, console, refuse, scenario_of, seeds_of
from highwater.dst.verdict import Options, Unfit, beginner, fitting, judged, of_others, stem_of, words
from highwater.gate.exits import INCOMPLETE, of_kinds
from highwater.traces.event import Event, from_json
from highwater.traces.recorded.orders import BUDGET

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
Shaped = Annotated[list[str] | None, typer.Option("--shape", help="NAME=VALUE of the scenario's Shape, of a protocol that "
                                                  "--root and so on do not tell of; `dst run -o` says which; may be repeated")]
RootOrAll = Annotated[str | None, typer.Option("--root", help="folder of the database in the store [default: db; of a log: "
                                               "all that are in it]")]
Sets = Annotated[list[str] | None, typer.Option("--set", help="of a recorded log: BOUNDARY=False, the programs have no "
                                                "boundary files")]
Budget = Annotated[int, typer.Option(min=1, help="of a recorded log: steps of the search for an order")]
Retries = Annotated[bool, typer.Option("--retries", help="clients repeat a request that had no answer, as SDKs do")]


OfRun = Annotated[str | None, typer.Option("--run", help="in bulk: this run alone, explained")]
Of = Annotated[str | None, typer.Option("--of", help="in bulk: this namespace alone")]
Out = Annotated[Path | None, typer.Option("--out", help="in bulk: the verdicts, a row a run, as a Parquet file")]
OnSpark = Annotated[bool, typer.Option("--spark", help="in bulk, on Spark: a local one, or --master's")]
Master = Annotated[str, typer.Option(help="Spark's: local[2], spark://.., yarn, sc://host:port (Connect)")]
Jobs = Annotated[int | None, typer.Option(min=1, help="in bulk, without Spark: processes [default: 1]; with it: of a local one "
                                          "[default: one a processor]")]
Brief = Annotated[bool, typer.Option("--brief", help="in bulk: no explanations, which take long where most runs fail")]


@app.command("check")
def check_command(file: Annotated[list[str], typer.Argument(metavar="FILE...", help="NDJSON, an event a line; or what `trace "
                                                            "record` has written; or S3 server access logs. In bulk: Parquet "
                                                            "or NDJSON of many runs, folders, globs")],
                  root: RootOrAll = None, namespace: In = "compactions", page_size: PageSize = 0, skew_ms: SkewOrUsual = None,
                  retries: Retries = False, protocol: Protocol = None, scenario: Scenario = None, shape: Shaped = None,
                  sets: Sets = None, budget: Budget = BUDGET, on_spark: OnSpark = False, master: Master = "", jobs: Jobs = None,
                  out: Out = None, run: OfRun = None, of: Of = None, brief: Brief = False) -> None:
    """Tell whether the model could have done what a trace shows; explain the first event that it could not.

    Of a log of programs that nobody here wrote no order of the requests is known: one is looked for that their times allow.

    In bulk, which is where there is a folder, a Parquet file, more than one file, a file that names runs, or an option that is
    of it: the same of each of many runs, a verdict and an explanation each."""
    from highwater.cli.trace import bulk, stranger
    from highwater.traces.explain.explain import explain

    protocol = trace_protocol(protocol, scenario)
    given = Options(root or "db", namespace, page_size, skew_ms or 0, retries, protocol or "", tuple(shape or ()))
    if on_spark or master or jobs or out or run or of or brief or bulk.is_bulk(file):
        if sets:
            refuse("--set is of recorded logs (`trace record`), one at a time")
        return bulk.check(file, given, bulk.Asked(on_spark or bool(master), master, jobs, out, run or "", of or "", brief))
    file = Path(file[0])
    if stranger.is_log(file):
        if of_events := [option for option, given in (("--protocol", protocol), ("--shape", shape), ("--retries", retries),
                                                      ("--page-size", page_size)) if given]:
            refuse(f"{', '.join(of_events)}: of traces of events, and {file} is a log of requests, which is held against all "
                   "models that its keys speak of")
        return stranger.check(file, root, sets or [], LOG_SKEW_MS if skew_ms is None else skew_ms, budget)
    if sets:
        refuse("--set is of recorded logs (`trace record`), and this is a trace of events")
    events = read(file)
    try:
        trace = beginner(events, given)()
        failure = judged(events, trace, given)
    except Unfit as error:
        refuse(f"{file}: {error}")
    if failure is None:
        console.print(f"[green]ok[/]: {len(events):,} events refine the model")
        return
    console.print(f"[bold red]{failure.kind}[/] ({failure.signature})")
    console.print(explain(trace.events, failure, trace, f"highwater trace check {file} {words(given)}"), markup=False)
    others = [stem for stem in fitting(events) if stem != stem_of(given)]
    if others and not protocol:
        console.print(f"Unless this is a trace of {stem_of(given)}: {of_others(others)}", markup=False)
    raise typer.Exit(of_kinds([failure.kind]))


@app.command("damage")
def damage_command(files: Annotated[list[Path] | None, typer.Argument(help="good traces; none: those of the simulator")] = None,
                   seeds: Annotated[str, typer.Option(help="A:B, of the simulator")] = "0:40", root: Root = "db",
                   namespace: In = "compactions", page_size: PageSize = 0, skew_ms: SkewMs = 0, protocol: Protocol = None,
                   shape: Shaped = None) -> None:
    """Check the checker: damage good traces in every place, and tell what is noticed, and why the rest is no damage."""
    from highwater.cli.trace import damaged
    from highwater.traces.damage import kills

    given = Options(root, namespace, page_size, skew_ms, False, protocol or "", tuple(shape or ()))
    if not files and given != Options(protocol=given.protocol):
        refuse("--root, --namespace, --page-size, --skew-ms and --shape tell of recorded traces: give files, or leave them out")
    try:
        good = [damaged.recorded(str(file), read(file), given) for file in files] if files else \
            list(damaged.simulated(seeds_of(seeds), stem_of(given)))
        tally = kills.measure(track(good, "damaging", console=console, transient=True))
    except (ValueError, LookupError) as error:
        refuse(str(error))
    for rows in (kills.by_event(tally), kills.by_field(tally), kills.by_equivalence(tally), kills.by_kind(tally)):
        if rows[1:]:
            show(rows)
    if tally.holes:
        unexplained(tally.holes, all(of.of.complete for of in good))


def show(rows: list[list[str]]) -> None:
    table = Table(*rows[0])
    for row in rows[1:]:
        table.add_row(*row)
    console.print(table)


def unexplained(holes: list[str], complete: bool) -> NoReturn:
    """Say which survivors nothing explains. They are holes in the checker only if the explanations are complete."""
    console.print(f"[bold red]{len(holes):,} damaged traces are not noticed, and nothing explains why:[/]")
    console.print("\n".join(holes[:20]), markup=False)
    if not complete:
        console.print("Which of them are holes in the checker is not known: only what holds for every protocol is explained")
    raise typer.Exit(of_kinds(["harness"]) if complete else INCOMPLETE)


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
    from highwater.cli.trace.record import record

    record(upstream, client or ["client"], out, rules, keep_bytes)


def trace_protocol(protocol: str | None, scenario: str | None) -> str | None:
    """The stem of the scenario whose trace it is; None if nobody has said so. A scenario may stand in --protocol, as traces in
    bulk name it."""
    return scenario_of(protocol, scenario) if scenario else protocol


def recorded(file: Path, root: str, namespace: str, page_size: int, skew_ms: int,
             with_retries: bool = False, protocol: str | None = None, shape: list[str] | None = None
             ) -> tuple[list[Event], Any]:
    """A file's events, and a Trace for as many clients as they are of."""
    events = read(file)
    try:
        return events, beginner(events, Options(root, namespace, page_size, skew_ms, with_retries, protocol or "",
                                                tuple(shape or ())))()
    except Unfit as error:
        refuse(f"{file}: {error}")


def read(file: Path) -> list[Event]:
    """Refuses what is no trace."""
    try:
        events = [from_json(line) for line in file.read_text().splitlines() if line]
    except (OSError, ValueError) as error:
        refuse(f"{file}: {error}")
    if not events:
        refuse(f"{file}: there is no event in it")
    return events

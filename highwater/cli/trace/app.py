"""highwater trace: the group of its verbs."""

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.progress import track
from rich.table import Table

from highwater import project
from highwater.cli.console import STEM, Scenario, announce_names, console, refuse, scenario_of, seeds_of, terminal_width
from highwater.cli.on_spark import Conf, Format, Master, Save, save_options, session_options
from highwater.dst.bundle import MANIFEST, SHRUNK, TRACE, Refused, options_in
from highwater.dst.verdict import USUAL, Options, Unfit, beginner, fitting, judged, of_others, options_of, stem_of, words
from highwater.gate.exits import INCOMPLETE, of_kinds
from highwater.outside import LINE_MIB
from highwater.recorder.rules import PRESETS
from highwater.traces.event import Event
from highwater.traces.recorded.orders import BUDGET
from highwater.traces.stream import Streamed

if TYPE_CHECKING:
    from highwater.traces.damage import draw

app = typer.Typer(no_args_is_help=True)


@app.callback()
def traces() -> None:
    """Check recorded traces, damage them to test the checker, and record new ones."""


Root = Annotated[str, typer.Option(help="folder of the database in the store")]
In = Annotated[str, typer.Option(help="manifest or compactions")]
PageSize = Annotated[int, typer.Option(min=0, help="keys on one page of a listing; 0: all keys on one page")]
SkewMs = Annotated[int, typer.Option(min=0, help="how far clients' clocks may be ahead, at most")]
Protocol = Annotated[str | None, typer.Option(help=f"the protocol of the trace [default: that of --project, or {STEM}]")]
LOG_SKEW_MS = 1_000
SkewOrUsual = Annotated[int | None, typer.Option("--skew-ms", min=0, help="how far clients' clocks may be ahead, at most "
                                                 f"[default: 0; for a log: {LOG_SKEW_MS}]")]
Shaped = Annotated[list[str] | None, typer.Option("--shape", help="NAME=VALUE, a field of the scenario's Shape, for protocols "
                                                  "that need more than --root; `dst run --out` prints them; may be repeated")]
RootOrAll = Annotated[str | None, typer.Option("--root", help="folder of the database in the store [default: db; for a log: "
                                               "all in it]")]
Sets = Annotated[list[str] | None, typer.Option("--set", help="for a recorded log: BOUNDARY=False, the programs have no "
                                                "boundary files")]
Maps = Annotated[list[str] | None, typer.Option("--map", metavar="PATTERN=PROTOCOL", help="for a recorded log: keys, as "
                                                "'log/{id:020d}.json', and the model to hold them against: sequenced_files, "
                                                "one_object or write_ahead_log; or a TOML file; may be repeated")]
Budget = Annotated[int, typer.Option(min=1, help="for a recorded log: maximum steps of the search for an order")]
Retries = Annotated[bool, typer.Option("--retries", help="clients send a request again if it had no response, as SDKs do")]


OfRun = Annotated[str | None, typer.Option("--run", help="in bulk: check and explain only this run")]
Of = Annotated[str | None, typer.Option("--of", help="in bulk: check only this namespace")]
Out = Annotated[Path | None, typer.Option("--out", help="in bulk: a Parquet file for the verdicts, one row for each run")]
OnSpark = Annotated[bool, typer.Option("--spark", help="in bulk: check on Spark, local or that of --master")]
Jobs = Annotated[int | None, typer.Option(min=1, help="in bulk: processes [default: 1]; of a local Spark "
                                          "[default: one per processor]")]
Brief = Annotated[bool, typer.Option("--brief", help="in bulk: no explanations, which take long if most runs fail")]


LineMib = Annotated[int, typer.Option("--line-mib", min=1, help="refuse a file with a longer line, in MiB")]


@app.command("check")
def check_command(file: Annotated[list[str], typer.Argument(metavar="FILE...", help="NDJSON, an event a line; a log of `trace "
                                                            "record`; S3 server access logs. In bulk: Parquet or "
                                                            "NDJSON of many runs, folders, globs")],
                  root: RootOrAll = None, namespace: In = "compactions", page_size: PageSize = 0, skew_ms: SkewOrUsual = None,
                  retries: Retries = False, protocol: Protocol = None, scenario: Scenario = None, shape: Shaped = None,
                  sets: Sets = None, maps: Maps = None, budget: Budget = BUDGET, on_spark: OnSpark = False,
                  master: Master = "", conf: Conf = None, jobs: Jobs = None, out: Out = None, run: OfRun = None, of: Of = None,
                  brief: Brief = False, line_mib: LineMib = LINE_MIB, save: Save = "", format_: Format = "parquet") -> None:
    """Check whether a trace is a behaviour of the model, and explain the first event that is not.

    A log of requests does not show the order in which the store applied them. The check searches for an order that fits.

    A folder, a Parquet file, several files, a file that names runs, or an option for bulk checks many runs, with a verdict and
    an explanation for each."""
    from highwater.cli.trace import bulk, etcd, stranger
    from highwater.dst.spark.session import is_submitted
    from highwater.traces.explain.explain import explain

    protocol = trace_protocol(protocol, scenario)
    given = Options(root or "db", namespace, page_size, skew_ms or 0, retries, protocol or "", tuple(shape or ()))
    if on_spark or master or conf or is_submitted() or jobs or out or save or run or of or brief or bulk.is_bulk(file):
        if sets or maps:
            refuse(f"--{'set' if sets else 'map'} is for one recorded log (`trace record`): give a single log, or leave it out")
        of_spark = session_options("trace check", on_spark or bool(master or conf) or is_submitted(), jobs, master, conf)
        to_save = save_options(save, format_, of_spark, "add --spark")
        return bulk.check(file, given, bulk.Asked(of_spark, jobs, out, to_save, run or "", of or "", brief, line_mib))
    path = trace_in(Path(file[0]))
    if etcd.is_log(path):
        return etcd.check(path, protocol, [option for option, given in (
            ("--shape", shape), ("--retries", retries), ("--page-size", page_size), ("--root", root), ("--set", sets),
            ("--map", maps)) if given], line_mib)
    if stranger.is_log(path):
        if of_events := [option for option, given in (("--protocol", protocol), ("--shape", shape), ("--retries", retries),
                                                      ("--page-size", page_size)) if given]:
            refuse(f"{', '.join(of_events)}: only for traces of events, but {path} is a log of requests, which is checked "
                   "against all models that its keys belong to; leave it out")
        return stranger.check(path, root, sets or [], LOG_SKEW_MS if skew_ms is None else skew_ms, budget,
                              maps or [], line_mib)
    if sets or maps:
        refuse(f"--{'set' if sets else 'map'} is for recorded logs (`trace record`), but this is a trace of events; leave it "
               "out")
    events, given = Streamed(path, line_mib), of_bundle(path, given)
    try:
        if not (firsts := events.firsts()):
            refuse(f"{path}: the file has no events")
        trace = beginner(firsts, given)()
        failure = judged(events, trace, given)
    except Unfit as error:
        refuse(f"{path}: {error}")
    except OSError as error:
        refuse(f"{path}: {error.strerror}")
    except ValueError as error:
        refuse(str(error))
    announce_names([stem_of(given)])
    if failure is None:
        console.print(f"[green]ok[/]: {len(events):,} events refine the model")
        return
    console.print(f"[bold red]{failure.kind}[/] ({failure.signature})")
    again = " ".join(filter(None, ["highwater trace check", quote(str(path)), *project.words(), words(given)]))
    console.print(explain(trace.events, failure, trace, again, width=terminal_width()), markup=False)
    others = [] if protocol else [stem for stem in fitting(events) if stem != stem_of(given)]
    if others:
        console.print(f"If this is not a trace of {stem_of(given)}: {of_others(others)}", markup=False)
    raise typer.Exit(of_kinds([failure.kind]))


@app.command("damage")
def damage_command(files: Annotated[list[Path] | None, typer.Argument(help="good traces [default: simulated ones]")] = None,
                   seeds: Annotated[str, typer.Option(help="A:B, the seeds to simulate")] = "0:40", root: Root = "db",
                   namespace: In = "compactions", page_size: PageSize = 0, skew_ms: SkewMs = 0, protocol: Protocol = None,
                   shape: Shaped = None,
                   number: Annotated[int, typer.Option("--draw", min=0, help="judge only so many drawn damages to responses "
                                                       "and the requests behind them, and list all that are accepted; 0: "
                                                       "damage every event")] = 0,
                   draw_seed: Annotated[int, typer.Option(help="the seed by which --draw draws")] = 0) -> None:
    """Test the checker: damage good traces at every event, count what is noticed, and explain the survivors."""
    from highwater.cli.trace import damaged
    from highwater.gate.damage import simulated
    from highwater.traces.damage import draw, kills

    given = Options(root, namespace, page_size, skew_ms, False, protocol or "", tuple(shape or ()))
    if not files and given != Options(protocol=given.protocol):
        refuse("--root, --namespace, --page-size, --skew-ms and --shape describe recorded traces: give files or omit them")
    announce_names([stem_of(given)])
    try:
        good = [damaged.recorded(str(file), read(file), of_bundle(file, given)) for file in files] if files else \
            list(simulated(seeds_of(seeds), stem_of(given)))
        if number:
            return show_drawn(list(draw.drawn(track(good, "drawing", console=console, transient=True), number, draw_seed)))
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


def show_drawn(found: "list[draw.Drawn]") -> None:
    """Print the drawn damages in a table, and each one that is accepted in a line. Exit if any of them is unexplained."""
    from highwater.traces.damage import draw

    show(draw.by_label(found))
    lines = draw.accepted(found)
    console.print("\n".join(lines), markup=False, highlight=False, soft_wrap=True)
    if any(one.survivor and not one.reason for one in found):
        raise typer.Exit(of_kinds(["harness"]) if all(one.good.of.complete for one in found) else INCOMPLETE)


def unexplained(holes: list[str], complete: bool) -> NoReturn:
    """Print the unexplained survivors and exit. They are holes in the checker only if the explanations are complete."""
    console.print(f"[bold red]{len(holes):,} damaged traces are not noticed and not explained:[/]")
    console.print("\n".join(holes[:20]), markup=False)
    if not complete:
        console.print("It is not known which of them are holes in the checker: only what holds for every protocol is explained")
    raise typer.Exit(of_kinds(["harness"]) if complete else INCOMPLETE)


@app.command("record")
def record_command(
        words: Annotated[list[str], typer.Argument(metavar="SERVER | -- COMMAND...", help="the server, http://127.0.0.1:7070; "
                                                   "or a command to run behind the recorder; {url}, {endpoint}, {bucket} and "
                                                   "{prefix} in it are filled in")],
        upstream: Annotated[str, typer.Option(help="for COMMAND: the server [default: versitygw is started]")] = "",
        bucket: Annotated[str, typer.Option(help="for COMMAND: a bucket that exists [default: a new one]")] = "",
        client: Annotated[list[str] | None, typer.Option("--client", help="NAME or NAME=PORT, a port for each client; may be "
                                                         "repeated [default: client]")] = None,
        out: Annotated[Path, typer.Option("--out", "-o", help="the log, NDJSON")] = Path("s3.ndjson"),
        rules: Annotated[Path | None, typer.Option(help="what to do to which request; reread when it changes")] = None,
        lose_each: Annotated[list[str] | None, typer.Option(metavar="CLASS", help="lose the reply to each of these requests: "
                                                            f"{', '.join(PRESETS)}; may be repeated")] = None,
        lose_first: Annotated[list[str] | None, typer.Option(metavar="CLASS", help="lose the reply to the first of these "
                                                             "requests; may be repeated")] = None,
        keep_bytes: Annotated[int, typer.Option(min=0, help="log longer bodies as size and digest")] = 65_536,
) -> None:
    """Record the requests of programs to an S3 server, with a proxy that can hold, fail, delay or lose them: until Ctrl-C, or
    until COMMAND ends. Then the exit code is that of COMMAND."""
    from highwater.cli.trace import record

    more = record.presets_of(lose_each or [], lose_first or [])
    if len(words) == 1 and "://" in words[0]:
        if upstream or bucket:
            refuse("--upstream and --bucket are for a COMMAND: write trace record SERVER, or trace record -- COMMAND")
        return record.record(words[0], client or ["client"], out, rules, keep_bytes, more)
    raise typer.Exit(record.behind(words, upstream, bucket, client or ["client"], out, rules, keep_bytes, more))


def of_bundle(trace: Path, given: Options) -> Options:
    """Return the options with the protocol and the shape of the bundle that holds the trace, as far as they name none. Refuses
    a damaged bundle."""
    if not (trace.parent / MANIFEST).exists():
        return given
    try:
        scenario, text = options_in(trace)
    except Refused as error:
        refuse(str(error))
    if given.protocol not in ("", scenario):
        return given
    project.leave_for(scenario)
    ours = {name: value for name, value in given._asdict().items() if value != USUAL._asdict()[name]}
    of = options_of(text, USUAL)
    return of._replace(**{**ours, "protocol": scenario, "shape": (*of.shape, *given.shape)})


def trace_in(path: Path) -> Path:
    """Return the trace of a bundle's folder, that of its shrunk run if it has one; any other path as it is."""
    if not (path / MANIFEST).exists():
        return path
    shrunk = path / f"{SHRUNK}{TRACE}"
    return shrunk if shrunk.exists() else path / TRACE


def trace_protocol(protocol: str | None, scenario: str | None) -> str | None:
    """Return the stem of the scenario of a trace; None without either option. --protocol may name a scenario, as traces in
    bulk do."""
    return scenario_of(protocol, scenario) if scenario else protocol


def recorded(file: Path, root: str, namespace: str, page_size: int, skew_ms: int,
             with_retries: bool = False, protocol: str | None = None, shape: list[str] | None = None
             ) -> tuple[list[Event], Any]:
    """Read the events of a file, and make a Trace with their clients. Refuses events that do not fit the options."""
    given = of_bundle(file, Options(root, namespace, page_size, skew_ms, with_retries, protocol or "", tuple(shape or ())))
    events = read(file)
    try:
        return events, beginner(events, given)()
    except Unfit as error:
        refuse(f"{file}: {error}")


def read(file: Path) -> list[Event]:
    """Read the events of a trace. Refuses a file that is no trace, or is empty."""
    try:
        events = list(Streamed(file).read())
    except OSError as error:
        refuse(f"{file}: {error.strerror}")
    except ValueError as error:
        refuse(str(error))
    if not events:
        refuse(f"{file}: the file has no events")
    return events

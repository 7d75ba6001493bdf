"""highwater store probe: test an object store for every guarantee that the protocols rely on."""

import json
import os
import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from highwater.cli.console import check_writable, console, refuse, write_text
from highwater.gate.exits import INCOMPLETE, SAFETY
from highwater.impl.stores.keys import fault_of
from highwater.messages import meant

app = typer.Typer(no_args_is_help=True)
COLOURS = {"pass": "green", "differs but safe": "yellow", "unsafe": "bold red", "not asked": "dim"}


@app.callback()
def stores() -> None:
    """Test object stores."""


@app.command("probe")
def probe_command(
        url: Annotated[str, typer.Argument(help="s3://bucket or s3://bucket/prefix")],
        endpoint_url: Annotated[str | None, typer.Option(help="the server [default: AWS_ENDPOINT_URL, else Amazon]")] = None,
        rounds: Annotated[int, typer.Option(min=2, max=100_000, help="rounds of each race of 16 clients")] = 100,
        uses: Annotated[list[str] | None, typer.Option("--for", help="judge it for this protocol, or `all`; may be repeated "
                                                       "[default: every protocol here]")] = None,
        out: Annotated[Path | None, typer.Option("--json", help="also write the results to this JSON file")] = None) -> None:
    """Test a store for every guarantee that the protocols rely on, and list what is unsafe for which protocol."""
    from highwater.probe.lines import OTHERS, PROTOCOLS
    from highwater.probe.run import USES, NoStore, probe

    scheme, _, place = url.partition("://")
    bucket, _, prefix = place.partition("/")
    if scheme != "s3" or not bucket:
        refuse(f"store {url!r}: write s3://bucket or s3://bucket/prefix")
    prefix = prefix.rstrip("/")
    if prefix and (fault := fault_of(prefix)):
        refuse(f"store {url!r}: no object can be put below the prefix {prefix!r}: {fault}")
    if out:
        check_writable(out)
    wanted = USES if "all" in (uses or ()) else tuple(uses or PROTOCOLS)
    for use in wanted:
        if use not in USES:
            refuse(f"--for {use!r} is unknown{meant(use, [*USES, 'all'])}; choose one of {', '.join(USES)}, all")
    endpoint_url = endpoint_url or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    with console.status("asking") as status, ended_as_by_ctrl_c():
        try:
            report = probe(endpoint_url, bucket, prefix and f"{prefix}/", rounds,
                           lambda result: status.update(f"{result.line.name}: {result.found.verdict}"))
        except NoStore as error:
            refuse(f"{url} at {endpoint_url or 'Amazon'}: {error}")
    table = Table("line", "asked", "seen", "verdict", "endangers")
    for line, found in report.results:
        endangered = ", ".join(line.uses if line.uses != PROTOCOLS else ["every protocol"]) if found.verdict == "unsafe" else ""
        table.add_row(line.name, line.asks, escape(found.saw), f"[{COLOURS[found.verdict]}]{found.verdict}[/]", endangered)
    console.print(table)
    unsafe, not_asked = report.unsafe(wanted), report.not_asked(wanted)
    nearest, differing = report.nearest()
    if out:
        rows = [{"line": line.name, **found._asdict(), "uses": line.uses} for line, found in report.results]
        write_text(out, json.dumps({"url": url, "lines": rows, "unsafe": unsafe, "profile": nearest,
                                    "differs_from_profile": differing, "left": report.left, "gone": report.gone},
                                   indent=1) + "\n")
    for use, names in report.unsafe(USES).items():
        judged = "" if use in wanted else f" ({OTHERS[use]}: not judged for it)" if use in OTHERS else " (not judged for it)"
        console.print(f"[{'bold red' if use in wanted else 'yellow'}]unsafe for {use}[/]{judged}: {', '.join(names)}")
    seen = ", ".join(f"{name} {value}" for name, value in differing.items())
    console.print(f"simulate it with: highwater dst run --profile {nearest}" + (f" (it differs: {seen})" if seen else ""))
    if report.left:
        more = " .." * (len(report.left) > 5)
        console.print(f"[bold red]could not be deleted:[/] {escape(', '.join(report.left[:5]))}{more}")
    if report.gone:
        console.print(f"[bold red]the store stopped answering[/] during {report.gone}: start it, and probe it again")
    if unsafe:
        raise typer.Exit(SAFETY)
    if not_asked:
        console.print(f"[yellow]not asked:[/] {', '.join(not_asked)}")
        raise typer.Exit(INCOMPLETE)
    console.print(f"[green]safe[/] for {', '.join(wanted)}, as far as tested")


@contextmanager
def ended_as_by_ctrl_c() -> Generator[None, None, None]:
    """Make SIGTERM raise KeyboardInterrupt, so that a stopped program cleans up as after Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)

"""highwater admin: inspect, check and change SlateDB databases."""

import json
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import groupby
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from highwater.cli import checkpoint, derive, destroy
from highwater.cli.console import complain, console, refuse, steps_begun
from highwater.gate.exits import INTERRUPTED, SAFETY
from highwater.impl.stores.keys import escaped

LINES = 10  # of one kind of finding
READING_EVERY_S = 60  # between two lines of progress, without a terminal

app = typer.Typer(no_args_is_help=True)
app.add_typer(checkpoint.app, name="checkpoint")
app.command("clone")(derive.clone_command)
app.command("project")(derive.project_command)
app.command("union")(derive.union_command)
app.command("detach")(derive.detach_command)
app.command("destroy")(destroy.destroy_command)

Url = Annotated[str, typer.Argument(help="the database: file:///a/folder, a/folder, s3://bucket/prefix")]
WalUrl = Annotated[str | None, typer.Option(help="where the folder wal/ is, if it is not in the database's own folder")]
Json = Annotated[bool, typer.Option("--json", help="print JSON only")]


@app.callback()
def admin() -> None:
    """Inspect, check and change SlateDB databases in a folder or in S3. inspect, history and check write nothing."""


@app.command("inspect")
def inspect_command(url: Url, sst: Annotated[list[str] | None, typer.Option(
        help="show only this SST: its blocks, filter and statistics; may be repeated")] = None, as_json: Json = False) -> None:
    """Show all metadata: manifest, checkpoints, SSTs, sorted runs, epochs, compactions, boundaries, WAL. Or show an SST."""
    from highwater.admin import show as admin_show
    from highwater.cli import db

    if sst:
        return db.dump_sst_command(url, sst, rows=False, as_json=as_json)

    database = asked(url, loaded)
    if as_json:
        print(json.dumps(admin_show.as_json(database), indent=2))
    else:
        console.print(admin_show.as_tree(database, whole(url)))


@app.command("history")
def history_command(url: Url, as_json: Json = False) -> None:
    """Show what changed from each manifest to the next, and which role changed it."""
    from highwater.admin.history import history

    steps = history(asked(url, loaded))
    if as_json:
        print(json.dumps([step._asdict() for step in steps], indent=2))
        return
    table = Table("manifest", "when", "V", "by", "what")
    for step in steps:
        when = datetime.fromtimestamp(step.last_modified_ms / 1000, UTC).isoformat(sep=" ", timespec="milliseconds")[:-6]
        table.add_row(str(step.after), when, str(step.version), escape(step.role),
                      "\n".join(escape(f"{what}: {how}") for what, how in step.changes))
    console.print(table)


@app.command("check")
def check_command(url: Url, as_json: Json = False, wal_url: WalUrl = None,
                  deep: Annotated[bool, typer.Option("--deep", help="also read the ends of SSTs and of the WAL to replay: "
                                                     "footers, indexes, filters")] = False,
                  full: Annotated[bool, typer.Option("--full", help="also read every block of every SST and WAL object, and "
                                                     "verify the checksums; no row is printed")] = False,
                  every: Annotated[bool, typer.Option("--all", help=f"print all findings, not only the first {LINES} of each "
                                                      "kind")] = False) -> None:
    """Check a database, which may be in use, for damage and for states that stop or harm clients (exit code 10)."""
    from highwater.admin.check import Depth, examine, summary

    depth = Depth.BLOCKS if full else Depth.ENDS if deep else Depth.MANIFESTS
    with steps_begun("check", READING_EVERY_S) as step:
        report = asked(url, examine, True, wal_at(wal_url), depth, step)
    if as_json:
        print(json.dumps([finding._asdict() for finding in report.findings], indent=2))
    else:
        print_findings(report.findings, url, None if every else LINES)
    bad = sum(finding.level != "note" for finding in report.findings)
    if not as_json:
        console.print(("[red]bad[/]: some things are wrong" if bad else "[green]ok[/]: nothing is wrong in what was read")
                      + f" ({summary(report)})")
    if bad:
        raise typer.Exit(SAFETY)


def print_findings(findings: Sequence[Any], url: str, most: int | None) -> None:
    """Print a line for each finding, but at most so many of each kind, and then how many more there are."""
    for (level, kind), same in groupby(findings, key=lambda finding: (finding.level, finding.kind)):
        lines = [*same]
        for finding in lines[:most]:
            console.print(escaped(with_paths(f"{level}: {kind}: {finding.what}: {finding.then}", url)), markup=False)
        if most is not None and len(lines) > most:
            console.print(f"{level}: {kind}: and {len(lines) - most:,} more; --all prints them", markup=False)


@app.command("gc")
def gc_command(url: Url, dry_run: Annotated[bool, typer.Option("--dry-run", help="show what would be deleted and why")] = False,
               min_age_s: Annotated[int, typer.Option(min=0, help="keep files younger than this")] = 300,
               data: Annotated[bool, typer.Option("--data", help="WAL objects and SSTs, too")] = False,
               as_json: Json = False, wal_url: WalUrl = None) -> None:
    """Advance the boundaries, then delete the manifests and compactions files behind them. WAL and SSTs are not touched, unless
    --data is given. A WAL in another place is not touched. If the database has faults, nothing is deleted (exit code 10)."""
    from highwater.admin import gc, gc_data
    from highwater.admin.check import judge

    bad = [finding for finding in asked(url, judge, True, wal_at(wal_url)) if finding.level != "note"]
    if any(finding.kind == "no manifest" for finding in bad):
        asked(url, loaded)  # refuses a place without a database
    if bad:
        refuse(f"{bad[0].kind}: {with_paths(bad[0].what, url)}: nothing {'would be' if dry_run else 'was'} collected, because "
               f"the database has faults; see `highwater admin check {url}`", SAFETY)
    of = gc_data if data else gc
    rows = asked(url, of.planned if dry_run else of.collected, dry_run, min_age_s * 1000)
    if as_json:
        print(json.dumps([dict(zip(("file", "what", "why"), row)) for row in rows], indent=2))
        return
    table = Table("file", "", "why")
    for row in rows:
        table.add_row(*map(escape, row))
    console.print(table)


def wal_at(url: str | None) -> Any:
    """Return the Place of a WAL; None if it is in the database's own folder."""
    from highwater.admin.database import Place

    async def place(world: Any, root: str) -> Place:
        return Place(world, root)

    return asked(url, place) if url else None


def whole(url: str) -> str:
    """Return the path of a database in its bucket, or in the file system, as a user types it."""
    from highwater.impl.stores.system import place_of

    bucket, root = place_of(url)
    return root if bucket or not root else f"/{root}"


def with_paths(message: str, *urls: str) -> str:
    """Return a message with the whole paths of these databases. A bad URL has none."""
    from highwater.impl.stores.system import place_of

    for url in urls:
        with suppress(ValueError):
            root = place_of(url)[1]
            message = message.replace(repr(root), repr(whole(url))) if root else message
    return message


async def loaded(world: Any, root: str) -> Any:
    from highwater.admin.database import load

    database = await load(world, root)
    if database.is_none:
        raise ValueError("there is no database here: no manifest, compactions, WAL or SST")
    return database


def asked(url: str, ask: Any, read_only: bool = True, *more: Any, through: tuple[type[Exception], ...] = ()) -> Any:
    """Return `await ask(world, root, *more)` for the database at `url`. Refuses and raises what `answered` does."""
    from highwater.impl.stores.system import open_database

    return answered(url, lambda: open_database(url, read_only), ask, read_only, *more, through=through)


def answered(name: str, opened: Any, ask: Any, read_only: bool, *more: Any, through: tuple[type[Exception], ...] = (),
             urls: Sequence[str] = ()) -> Any:
    """Return `await ask(world, where, *more)` for the store and the place that `opened` returns. Refuses an invalid URL and a
    store that fails.

    Errors of the classes `through` are raised. After Ctrl-C it exits with 130. `urls`: of the databases that errors may name.
    """
    import asyncio

    from highwater.impl.errors import StoreError
    from highwater.impl.stores.system import system_world

    async def until_stopped(asking: Any) -> Any:
        try:
            return await asking
        except (asyncio.CancelledError, KeyboardInterrupt):  # Ctrl-C; the second where a library handles it, as Spark does
            complain(f"{name}: stopped" + ("" if read_only else ": the last request may be applied, now or later: look at the "
                                           "database before you ask again"))
            raise

    try:
        store, where = opened()
        return asyncio.run(until_stopped(ask(system_world(store), where, *more)))
    except through:
        raise
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except (ValueError, StoreError) as error:
        refuse(f"{name}: {with_paths(str(error), *urls)}")
    except OSError as error:  # of a local folder
        refuse(f"{name}: {error.strerror}: {error.filename}")

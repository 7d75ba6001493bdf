"""highwater trace check, in bulk: check many runs, with one row for each, on Spark or without it."""

import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from glob import has_magic
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import typer
from rich.console import Console
from rich.progress import Progress

from highwater import project
from highwater.cli.console import announce_names, check_writable, console, refuse
from highwater.dst.bundle import MANIFEST
from highwater.dst.verdict import Options, Unfit, options_of, stem_of
from highwater.gate import exits
from highwater.outside import LINE_MIB, codec_of, json_of

if TYPE_CHECKING:
    import pyarrow as pa

    from highwater.dst.bulk.engines import Work
    from highwater.dst.spark.saving import SaveOptions
    from highwater.dst.spark.session import SessionOptions


class Asked(NamedTuple):
    spark: "SessionOptions | None" = None
    jobs: int | None = None
    out: Path | None = None
    to_save: "SaveOptions | None" = None
    run: str = ""
    of: str = ""
    brief: bool = False
    line_mib: int = LINE_MIB


def is_bulk(inputs: list[str]) -> bool:
    """Return whether the inputs are several files, a folder that is no bundle, a glob, a Parquet file, a compressed one, or a
    file that names runs."""
    path = Path(inputs[0])
    if path.is_dir() and len(inputs) == 1:
        return not (path / MANIFEST).exists()
    if len(inputs) > 1 or path.suffix == ".parquet" or (not path.exists() and has_magic(inputs[0])):
        return True
    try:
        if codec_of(path):
            return True
        with open(path, "rb") as stream:
            first = json_of(stream.readline(1 << 20))
    except (OSError, ValueError):
        return False
    return isinstance(first, dict) and bool({"run", "namespace"} & first.keys())


def check(inputs: list[str], usual: Options, asked: Asked) -> None:
    """Check all runs and end the program with the worst of their exit codes."""
    from highwater.dst.bulk.checking import Asked as Judged
    from highwater.dst.bulk.engines import work_of
    from highwater.dst.bulk.rows import BadInput, BulkError
    from highwater.dst.bulk.sources import Choice, plan
    from highwater.dst.campaign.what import CampaignError, NoSpark
    began = time.monotonic()
    if asked.out:
        check_writable_file(asked.out)
    with project.elsewhere() if asked.out else nullcontext():
        again = " ".join(["highwater trace check", *map(quote, inputs), *project.words(), *usual.said()])
    command = "" if asked.brief else again
    jobs = asked.jobs or ((os.cpu_count() or 1) if asked.spark else 1)
    try:
        options_of("", usual)
        planned = plan(inputs, asked.line_mib)
        work = work_of(planned, jobs, Judged(usual, command), Choice(asked.run, asked.of))
        announce_names([stem_of(usual)] if usual.protocol else [])  # of runs that name no protocol
        rows = done(work, jobs, asked)
    except (BadInput, Unfit) as error:
        refuse(str(error))
    except NoSpark as error:
        stop(exits.INCOMPLETE, str(error))
    except (BulkError, CampaignError) as error:
        stop(exits.HARNESS, str(error))
    except OSError as error:
        stop(exits.HARNESS, f"temporary files could not be written: {error}")
    except KeyboardInterrupt:
        stop(exits.INTERRUPTED, "Stopped: no verdict was written.")
    if not len(rows):
        refuse(f"{' '.join(inputs)}: no events found" + " for --run or --of" * bool(asked.run or asked.of))
    if asked.out:
        write(rows, asked.out)
    summed_up(rows, asked, time.monotonic() - began)
    if planned.skipped:
        console.print(f"skipped: {planned.skipped}", markup=False)
    raise typer.Exit(exits.of_kinds(kind for kind in rows["kind"].unique().to_pylist() if kind))


def done(work: "Work", jobs: int, asked: Asked) -> "pa.Table":
    """Return the rows of verdicts, each with its exit code. Raises BulkError, BadInput or NoSpark."""
    from highwater.dst.bulk import engines

    with progress() as show:
        if asked.spark:
            from highwater.dst.spark import bulk as on_spark
            from highwater.dst.spark.saving import save_verdicts
            from highwater.dst.spark.session import session, slots

            with session(asked.spark) as spark:
                parts = engines.parts_of(work.events, asked.jobs or slots(spark))
                rows = with_codes(on_spark.check(spark, work._replace(parts=max(work.parts, parts)), show))
                if asked.to_save and len(rows):
                    save_verdicts(spark, rows, asked.to_save)
                return rows
        return with_codes(engines.check(work, jobs, show))


def with_codes(rows: "pa.Table") -> "pa.Table":
    import pyarrow as pa

    codes = pa.array([exits.of_kinds([kind] if kind else []) for kind in rows["kind"].to_pylist()], pa.int32())
    return rows.append_column("exit_code", codes)


@contextmanager
def progress() -> Generator[Callable[[int], None], None, None]:
    terminal = Console(emoji=False, stderr=True)
    with Progress(console=terminal, transient=True, disable=not terminal.is_terminal) as bar:
        task = bar.add_task("checking", total=100)
        yield lambda hundredths: bar.update(task, completed=hundredths)


def half(out: Path) -> Path:
    return out.with_name(f".{out.name}.writing")


def check_writable_file(out: Path) -> None:
    """Refuse an output file that cannot be written, before anything is checked."""
    if out.is_dir():
        refuse(f"{out} is a folder: give a file to --out")
    check_writable(half(out))
    half(out).unlink(missing_ok=True)


def write(rows: "pa.Table", out: Path) -> None:
    """Write the Parquet file atomically."""
    import pyarrow.parquet as pq

    try:
        pq.write_table(rows, half(out))
        half(out).replace(out)
    except OSError as error:
        half(out).unlink(missing_ok=True)
        stop(exits.HARNESS, f"{out} cannot be written: {error}")


SHOWN = 20  # signatures


def summed_up(rows: "pa.Table", asked: Asked, took_s: float) -> None:
    """Print the totals and, for each signature, its count and its shortest run. With --run, print the explanation instead."""
    failed = [row for row in rows.to_pylist() if row["verdict"] != "ok"] if rows["kind"].unique().to_pylist() != [""] else []
    for row in failed if asked.run else ():
        console.print(f"[bold red]{row['kind']}[/] ({row['signature']})")
        console.print(row["explanation"] or row["message"], markup=False)
    events, damaged = sum(rows["events"].to_pylist()), sum(row["verdict"] == "damaged" for row in failed)
    console.print(f"{len(rows):,} runs, {events:,} events in {took_s:.1f} s: {len(rows) - len(failed):,} refine the model, "
                  f"{len(failed) - damaged:,} do not, {damaged:,} could not be judged", markup=False)
    signatures: dict[tuple[str, str, str], list[dict]] = {}
    for row in failed if not asked.run else ():
        signatures.setdefault((row["verdict"], row["kind"], row["signature"]), []).append(row)
    for (verdict, _, signature), of in sorted(signatures.items(), key=lambda item: (-len(item[1]), item[0]))[:SHOWN]:
        one = min(of, key=lambda row: (row["events"], row["run"], row["namespace"]))
        console.print(f"{len(of):8,} {verdict} {signature}; the shortest: {named(one)}, {one['events']:,} events: "
                      f"{one['message']}", markup=False)
    if len(signatures) > SHOWN:
        console.print(f"and {len(signatures) - SHOWN:,} more signatures: --out writes all of them", markup=False)
    for place in filter(None, (asked.out, asked.to_save and asked.to_save.to)):
        console.print(f"written: {place}", markup=False)


def named(row: dict) -> str:
    return ", ".join(f"{name} {row[name]}" for name in ("run", "namespace") if row[name])


def stop(code: int, message: str) -> NoReturn:
    Console(emoji=False, stderr=True, highlight=False, soft_wrap=True).print(message, markup=False)
    raise typer.Exit(code)

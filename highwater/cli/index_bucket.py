"""highwater index rebuild, report and check --snapshot: an index, and the bucket that its objects are in."""

import json
import os
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import typer
from rich.progress import Progress
from rich.table import Table

from highwater.cli.console import console, refuse, write_text
from highwater.cli.index import AsJson, policy_of
from highwater.cli.index_periods import Retain, Tenants
from highwater.cli.on_spark import Conf, Master, session_options
from highwater.gate.exits import HARNESS, INCOMPLETE, SAFETY
from highwater.impl.stores.keys import escaped

if TYPE_CHECKING:
    from highwater.dst.spark.session import SessionOptions

MOST_SHOWN = 20  # rows on a terminal
Bucket = Annotated[str, typer.Argument(help="where the objects are: a folder, file://, s3://BUCKET/PREFIX")]
EngineName = Annotated[Literal["spark", "local"], typer.Option("--engine", help="both give the same rows")]
Jobs = Annotated[int | None, typer.Option(min=1, help="processes [default: one per processor]")]


def rebuild_command(bucket: Bucket, out: Annotated[Path, typer.Option("--out", help="the snapshot file to write")],
                    engine: EngineName = "local", master: Master = "", conf: Conf = None, jobs: Jobs = None) -> None:
    """Make a snapshot of an index from its bucket alone, for `restore`. The same command goes on where it was stopped.

    What is damaged, or stands beside the block it was compacted to, is in OUT.damaged.ndjson; then the exit code is 3."""
    from highwater.impl.index.config import Config
    from highwater.index.rebuild import damaged_file, in_processes, rebuild, work_of

    of_spark = session_options("index rebuild", engine == "spark", jobs, master, conf)
    with Progress(console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("objects read", total=None)
        found = ended(lambda: rebuild(bucket, endpoint(), out, on_spark(of_spark) if of_spark else
                                      in_processes(jobs or os.cpu_count() or 1), Config(),
                                      lambda done, total: progress.update(bar, completed=done, total=total)),
                      f"; what is read is kept in {work_of(out)}: the same command goes on")
    twice = len({one.source for one in found.covered})
    console.print(f"{out}: {found.blocks:,} blocks of {found.objects:,} objects; {len(found.damaged):,} damaged, "
                  f"{twice:,} covered twice and {len(found.left_out):,} left out for it, {found.letters:,} dead letters, "
                  f"{found.others:,} other objects", markup=False)
    if found.damaged or found.covered:
        rows = out.with_name(f"{out.name}.damaged.ndjson")
        write_text(rows, damaged_file(out, found))
        for key, reason in found.damaged[:MOST_SHOWN]:
            console.print(escaped(f"{key}: {reason}"), markup=False)
        console.print(f"all of them: {rows}", markup=False)
        raise typer.Exit(INCOMPLETE)


def on_spark(options: "SessionOptions") -> Any:
    from highwater.dst.spark import footers

    return footers.on_spark(options)


def check_bucket(bucket: str, snapshot: Path, listing: Path | None, out: Path | None, of_spark: "SessionOptions | None"
                 ) -> None:
    """Hold a snapshot against its bucket, or against a listing of it."""
    from highwater.impl.index.retention import Policy
    from highwater.index import audit, tables

    rows = rows_in(snapshot)
    blocks, removed = tables.blocks(rows, Policy(), time.time_ns()), tables.removed(rows)
    objects = tables.objects(ended(lambda: tables.listing_in(listing) if listing else listed(bucket)))

    def work() -> Any:
        with asker(of_spark) as ask:
            return audit.checked(ask, blocks, removed, objects)

    found = ended(work)
    if out:
        kept(found, out)
    counts = {one["values"]: one["counts"] for one in found["what"].value_counts().to_pylist()}
    for row in found.slice(0, MOST_SHOWN).to_pylist():
        console.print(escaped(f"{row['what']}: {row['key'] or named(row)}: {row['detail']}"), markup=False)
    told = ", ".join(f"{count:,} {what}" for what, count in counts.items()) or "nothing is wrong"
    console.print(f"{blocks.num_rows:,} blocks, {objects.num_rows:,} objects: {told}", markup=False)
    if counts.keys() - set(audit.HARMLESS):
        raise typer.Exit(SAFETY)


def report_command(snapshot: Annotated[Path, typer.Argument(help="what `snapshot` or `rebuild` has written")],
                   out: Annotated[Path | None, typer.Option("--out", help="also write the rows to this Parquet file")] = None,
                   retain_s: Retain = 31 * 24 * 3600, tenants: Tenants = None, engine: EngineName = "local",
                   master: Master = "", conf: Conf = None, jobs: Jobs = None, as_json: AsJson = False) -> None:
    """Sum up an index for each tenant and shard: bytes, blocks, times, read amplification, and what retention would drop."""
    from highwater.index import audit, tables

    of_spark = session_options("index report", engine == "spark", jobs, master, conf)
    blocks = tables.blocks(rows_in(snapshot), policy_of(retain_s, tenants), time.time_ns())

    def work() -> Any:
        with asker(of_spark) as ask:
            return audit.reported(ask, blocks)

    found = ended(work)
    if out:
        kept(found, out)
    if as_json:
        for row in found.to_pylist():
            print(json.dumps(row))
        return
    table = Table("tenant", "shard", "blocks", "bytes", "from", "to", "blocks at a moment", "retention drops")
    for row in found.slice(0, MOST_SHOWN).to_pylist():
        table.add_row(row["tenant"] or "(anonymous)", str(row["shard"]), f"{row['blocks']:,}", f"{row['bytes']:,}",
                      str(row["oldest_ms"]), str(row["newest_ms"]), f"{row['read_amplification']:.2f}",
                      f"{row['blocks_over']:,}")
    console.print(table)
    console.print(f"{found.num_rows:,} tenants and shards, {blocks.num_rows:,} blocks", markup=False)


# --- what they share

def endpoint() -> str:
    from highwater.impl.stores.s3 import named_endpoint

    return named_endpoint()


def asker(of_spark: "SessionOptions | None") -> AbstractContextManager[Any]:
    from highwater.index import audit

    return audit.on_spark(of_spark) if of_spark else audit.here()


def rows_in(snapshot: Path) -> Any:
    from highwater.impl.codecs.codec import Undecodable
    from highwater.impl.index.replicated import load

    try:
        return load(snapshot.read_bytes())
    except OSError as error:
        refuse(f"{snapshot}: {error.strerror}")
    except Undecodable as error:
        refuse(f"{snapshot} is no whole snapshot of an index: {error}")


def listed(bucket: str) -> Any:
    from highwater.index import rebuild

    return rebuild.listing_of(bucket, endpoint())


def kept(found: Any, out: Path) -> None:
    import pyarrow.parquet as pq

    try:
        pq.write_table(found, out)
    except OSError as error:
        refuse(f"{out} cannot be written: {error}")


def named(row: dict) -> str:
    return f"block {row['ulid']} of tenant {row['tenant']!r}, shard {row['shard']}"


def ended(work: Any, more: str = "") -> Any:
    """Run to the end. What cannot be used is a line and exit code 2, what did not answer 3, a failed engine 14."""
    from highwater.dst.campaign.what import CampaignError, NoSpark
    from highwater.impl.errors import Definite, StoreError, Unavailable

    try:
        return work()
    except NoSpark as error:
        refuse(str(error), INCOMPLETE)
    except Unavailable as error:
        refuse(f"{error}{more}", INCOMPLETE)
    except (Definite, ValueError) as error:
        refuse(str(error))
    except StoreError as error:
        refuse(f"{error}{more}", INCOMPLETE)
    except (CampaignError, OSError) as error:
        refuse(f"{error}{more}", HARNESS)
    except KeyboardInterrupt:
        stopped(more)


def stopped(more: str) -> NoReturn:
    refuse(f"stopped{more}", 130)

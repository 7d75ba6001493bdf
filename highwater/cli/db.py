"""highwater db: read and write rows of SlateDB databases."""

import json
import os
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from highwater.cli import admin, compact
from highwater.cli.console import console, refuse, steps_shown
from highwater.gate.exits import INCOMPLETE
from highwater.gate.extras import install_extra
from highwater.impl.stores.keys import escaped

app = typer.Typer(no_args_is_help=True)
app.command("compact")(compact.compact_command)
LONGEST = 200  # characters of a value on a line; --json prints all

Checkpoint = Annotated[str | None, typer.Option(help="read what this checkpoint keeps, named by its id or its name "
                                                "[default: the latest manifest and the WAL behind it]")]
JsonLines = Annotated[bool, typer.Option("--json", help="print one JSON object on each line")]
Flush = Annotated[bool, typer.Option("--flush", help="move all that is in the WAL to an SST, too")]
Rows = Annotated[bool, typer.Option(help="print the rows, too")]


@app.callback()
def db() -> None:
    """Read and write the rows of SlateDB databases in a folder or in S3, without SlateDB. Only put, delete and compact write:
    put and delete fence a writer that is open, and compact a compactor. A key is ASCII, with \\xNN for any other byte."""


@app.command("get")
def get_command(url: admin.Url, key: str, checkpoint: Checkpoint = None, wal_url: admin.WalUrl = None,
                as_json: admin.Json = False) -> None:
    """Print what a key shows. A deleted or expired key shows nothing: exit code 2."""
    from highwater.admin.dump import Asked, got
    from highwater.admin.rows import bytes_of

    try:
        raw = bytes_of(key)
    except ValueError as error:
        refuse(str(error))
    if not raw:
        refuse("the key is empty: no row has such a key")
    found = asked(url, got, raw, Asked(checkpoint=checkpoint, wal_at=admin.wal_at(wal_url)))
    if found is None:
        refuse(f"{url}: the key {key!r} shows nothing: it was never put, or is deleted or expired")
    write(found, as_json)


@app.command("scan")
def scan_command(url: admin.Url, start: Annotated[str | None, typer.Option(help="the first key")] = None,
                 end: Annotated[str | None, typer.Option(help="the key after the last one")] = None,
                 prefix: Annotated[str | None, typer.Option(help="only keys that begin so")] = None,
                 limit: Annotated[int | None, typer.Option(min=1, help="stop after so many rows")] = None,
                 every_version: Annotated[bool, typer.Option("--versions", help="print every version of each key, also "
                                                             "tombstones and what has expired")] = False,
                 checkpoint: Checkpoint = None, wal_url: admin.WalUrl = None, as_json: JsonLines = False) -> None:
    """Print what each key of a range shows, in ascending order."""
    from highwater.admin.dump import Asked, scanned, state_of
    from highwater.admin.rows import span_of

    try:
        wanted = Asked(span_of(start, end, prefix), checkpoint, admin.wal_at(wal_url), every_version)
    except ValueError as error:
        refuse(str(error))

    async def scan(world: Any, root: str) -> None:
        state = await state_of(world, root, wanted)
        with steps_shown("reading", len(state.manifest.views)) as told:
            await written(scanned(world, state, wanted, told), as_json, limit)

    asked(url, scan)


@app.command("dump-sst")
def dump_sst_command(url: admin.Url, ssts: Annotated[list[str], typer.Argument(help="the ids of SSTs: ULIDs")],
                     rows: Rows = True, as_json: JsonLines = False) -> None:
    """Print an SST's blocks, filter and statistics, then every row in it. A clone's SST may be in its parent."""
    from highwater.admin.dump import of_sst

    async def dump(world: Any, root: str) -> None:
        for sst in ssts:
            await written(of_sst(world, root, sst, rows), as_json)

    asked(url, dump)


@app.command("dump-wal")
def dump_wal_command(url: admin.Url, first: Annotated[int, typer.Option("--from", min=1, help="the first object")] = 1,
                     last: Annotated[int | None, typer.Option("--to", help="the last object")] = None, rows: Rows = True,
                     wal_url: admin.WalUrl = None, as_json: JsonLines = False) -> None:
    """Print the objects of the WAL, and every row in them, in the order of commits."""
    from highwater.admin.dump import of_wal, wal_ids

    wal = admin.wal_at(wal_url)

    async def dump(world: Any, root: str) -> None:
        ids = await wal_ids(world, root, wal, first, last)
        with steps_shown("reading", len(ids)) as told:
            await written(of_wal(world, root, wal, ids, rows, told), as_json)

    asked(url, dump)


# -------------------------------------------------------------------------------------------------------------- writes

@app.command("put")
def put_command(url: admin.Url, key: str, value: str,
                ttl: Annotated[str | None, typer.Option(help='"7days 30min 10s": then it is not shown any more')] = None,
                operand: Annotated[bool, typer.Option("--merge", help="the value is a merge operand")] = False,
                create: Annotated[bool, typer.Option("--create", help="make the database if there is none")] = False,
                flush: Flush = False, as_json: admin.Json = False) -> None:
    """Put a value, or add a merge operand. This is a writer: one that has the database open is fenced."""
    from highwater.cli.checkpoint import lifetime_ms
    from highwater.impl.db import writes

    wrote(url, (writes.merge if operand else writes.put)(raw_of(key), raw_of(value), lifetime_ms(ttl, "--ttl")), create, flush,
          as_json)


@app.command("delete")
def delete_command(url: admin.Url, key: str, flush: Flush = False, as_json: admin.Json = False) -> None:
    """Delete a key, whether it is there or not. This is a writer: one that has the database open is fenced."""
    from highwater.impl.db import writes

    wrote(url, writes.delete(raw_of(key)), False, flush, as_json)


def raw_of(text: str) -> bytes:
    """Return the bytes of a key or a value. Refuses a text that stands for none."""
    from highwater.admin.rows import bytes_of

    try:
        return bytes_of(text)
    except ValueError as error:
        refuse(str(error))


def wrote(url: str, op: Any, create: bool, flush: bool, as_json: bool) -> None:
    """Write one change, and print its number."""
    from highwater.admin.write import written as write_batch

    if create:
        make_folder(url)
    said = admin.asked(url, write_batch, False, [op], create, flush)
    print(json.dumps(said) if as_json else f"{said['keys'][0]}: written as seq {said['seq']}, by a writer of epoch "
          f"{said['writer_epoch']}{', and flushed to L0' if flush else ''}")


def make_folder(url: str) -> None:
    """Make the folder that a URL names, if it is one."""
    from highwater.impl.stores.system import place_of

    try:
        bucket, root = place_of(url)
        if not bucket:
            os.makedirs(f"/{root}", exist_ok=True)
    except (ValueError, OSError) as error:
        refuse(f"{url}: {error}")


def asked(url: str, ask: Any, *more: Any) -> Any:
    """Return what `admin.asked` returns. If the library of a codec is missing, print how to install it and exit with 3."""
    from highwater.impl.db.compression import CodecMissing

    try:
        return admin.asked(url, ask, True, *more, through=(CodecMissing,))
    except CodecMissing as error:
        refuse(f"{url}: {error}: {install_extra('codecs')}", INCOMPLETE)


# -------------------------------------------------------------------------------------------------------------- output

async def written(rows: AsyncIterator[dict[str, Any]], as_json: bool, limit: int | None = None) -> None:
    """Print rows and objects as they come, at most `limit`."""
    left = limit
    async for row in rows:
        write(row, as_json)
        if left is not None and (left := left - 1) == 0:
            break
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        console.on_broken_pipe()


def write(what: dict[str, Any], as_json: bool) -> None:
    """Print a row or an object. After the reader has left (`| head`), end."""
    try:
        print(json.dumps(what) if as_json else "\n".join(map(escaped, head(what) if "object" in what else [line(what)])))
    except BrokenPipeError:
        console.on_broken_pipe()
        raise typer.Exit from None


def line(row: dict[str, Any]) -> str:
    """Return a row as a line: key, value or operands, number, and when it was written and expires."""
    parts = [row["kind"]] if row.get("kind") == "tombstone" else [cut(row["value"])] if row["value"] is not None else []
    parts += [f"+ {cut(one)}" for one in row.get("operands", ())]
    times = "".join(f" {name} {moment(row[field])}" for name, field in (("written", "create_ms"), ("expires", "expire_ms"))
                    if field in row)
    return f"{row['key']} {'+' if row.get('kind') == 'merge' else '='} {' '.join(parts)}  seq {row['seq']}{times}"


def moment(time_ms: int) -> str:
    """Return a time as text; a number if it is in no calendar."""
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} ms"


def cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}.. ({len(text):,} characters)"


def head(said: dict[str, Any]) -> list[str]:
    """Return what an object says of itself, as lines."""
    if "fence" in said:
        return [f"{said['object']}: a fence, {said['bytes']} bytes"]
    lines = [f"{said['object']}: {said['bytes']:,} bytes, format {said['format']}, codec {said['codec']}"]
    if not said["wal"]:
        found = said["filter"]
        lines.append(f"  keys {said['first_key']} to {said['last_key']}")
        lines.append(f"  filter: {found['bits']:,} bits, {found['probes']} probes" if found else "  filter: none")
    if said["stats"]:
        lines.append("  " + ", ".join(f"{name} {number:,}" for name, number in said["stats"].items()))
    for number, block in enumerate(said["blocks"]):
        begins = f"numbers from {block['first_seq']}" if said["wal"] else f"keys from {block['first_key']}" if number else ""
        counted = [f"{block[name]} {name}" for name in ("puts", "deletes", "merges") if block.get(name)]
        lines.append(f"  block {number} at {block['offset']:,}: " + ", ".join([begins] * bool(begins) + counted))
    return lines

"""highwater admin clone | project | union | detach, for SlateDB databases."""

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Any

import typer

from highwater.cli.checkpoint import Json, Url, uuid
from highwater.cli.console import console, refuse
from highwater.gate.exits import SAFETY

Source = Annotated[str, typer.Argument(help="the database to make it of: file:///a/folder, a/folder, s3://bucket/prefix")]
New = Annotated[str, typer.Argument(help="the new database, in the same bucket or file system")]
Checkpoint = Annotated[str | None, typer.Option("--source", "-s", help="make it of what this checkpoint keeps, a UUID; without "
                                                "it, of the latest manifest")]
Restart = Annotated[bool, typer.Option("--restart", help="begin an unfinished attempt again, for example from another source")]
Store = Annotated[str | None, typer.Option("--store", help="the folder that clients open as their store, as SlateDB's "
                                           "LOCAL_PATH: paths of parents begin there [default: as in the sources, or /]")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="show what would be made; nothing is written")]


def clone_command(parent: Source, new: New, source: Checkpoint = None, store: Store = None, restart: Restart = False,
                  dry_run: DryRun = False, as_json: Json = False) -> None:
    """Clone a database: the clone shares the parent's SSTs, which a checkpoint there keeps, and has a copy of the WAL. Give the
    command again to go on after an error."""
    from highwater.admin.clone import REFUSALS, cloned

    checkpoint = uuid(source, "--source") if source else None

    async def ask(world: Any, roots: list[str]) -> Any:
        return await cloned(world, roots, checkpoint, restart, dry_run)

    printed(*asked([parent], new, ask, dry_run, REFUSALS, store), dry_run, as_json)


def project_command(source: Source, new: New, checkpoint: Checkpoint = None,
                    start: Annotated[str | None, typer.Option(help="the first key")] = None,
                    end: Annotated[str | None, typer.Option(help="the key after the last one")] = None,
                    prefix: Annotated[str | None, typer.Option(help="only keys that begin so")] = None,
                    store: Store = None, restart: Restart = False, dry_run: DryRun = False, as_json: Json = False) -> None:
    """Make a database with the keys of a range, which shares the source's SSTs. The source's WAL must be flushed. A key is
    ASCII, with \\xNN for any other byte."""
    from highwater.admin.rows import span_of
    from highwater.admin.unite import REFUSALS, Part, united

    if start is None and end is None and not prefix:
        refuse("give --start, --end or --prefix: a projection has the keys of a range; `clone` takes all of them")
    try:
        span = span_of(start, end, prefix)
    except ValueError as error:
        refuse(f"--start, --end, --prefix: {error}")
    checkpoints = [uuid(checkpoint, "--source")] if checkpoint else []

    async def ask(world: Any, roots: list[str]) -> Any:
        return await united(world, roots[-1], [Part(roots[0], span)], checkpoints, restart, dry_run)

    printed(*asked([source], new, ask, dry_run, REFUSALS, store), dry_run, as_json)


def union_command(databases: Annotated[list[str], typer.Argument(metavar="SOURCE SOURCE.. NEW", help="the databases that it is "
                                                                 "made of, and last the new one")],
                  split: Annotated[list[str] | None, typer.Option(help="the first key of the next source; give one fewer than "
                                                                  "there are sources. What a source has outside is left out")
                                   ] = None,
                  checkpoints: Annotated[list[str] | None, typer.Option("--source", "-s", help="take what this checkpoint of a "
                                                                        "source keeps, a UUID; may be repeated")] = None,
                  store: Store = None, restart: Restart = False, dry_run: DryRun = False, as_json: Json = False) -> None:
    """Make a database with the rows of several, which have no key in common. It shares their SSTs. Their WALs must be
    flushed."""
    from highwater.admin.unite import REFUSALS, Part, united

    if len(databases) < 3:
        refuse(f"a union has two sources or more, and then the new database: {len(databases)} given; `clone` takes one source")
    *sources, new = databases
    spans = spans_of(split or [], len(sources))
    wanted = [uuid(one, "--source") for one in checkpoints or []]

    async def ask(world: Any, roots: list[str]) -> Any:
        return await united(world, roots[-1], [Part(*one) for one in zip(roots, spans)], wanted, restart, dry_run)

    printed(*asked(sources, new, ask, dry_run, REFUSALS, store), dry_run, as_json)


def detach_command(url: Url, parent_gone: Annotated[bool, typer.Option("--parent-gone", help="also from parents that have no "
                                                                       "manifest any more")] = False,
                   dry_run: Annotated[bool, typer.Option("--dry-run", help="show what would be removed; nothing is written")
                                      ] = False, as_json: Json = False) -> None:
    """Remove the checkpoints in parents that keep SSTs for this database, and their entries here, once nothing uses those
    SSTs. Exit code 10 if some are still used."""
    from highwater.admin.detach import REFUSALS, detached

    async def ask(world: Any, roots: list[str]) -> Any:
        return await detached(world, roots[0], parent_gone, dry_run)

    done, base = asked([url], None, ask, dry_run, REFUSALS)
    if as_json:
        kept = [{**one.entry._asdict(), "used_by": one.ssts} for one in done.kept]
        print(json.dumps({"path": done.path, "detached": [one._asdict() for one in done.detached], "kept": kept,
                          "dry_run": dry_run}, indent=2))
    else:
        for one in done.detached:
            console.print(f"{'would be ' * dry_run}detached from {base + one.path!r}: checkpoint "
                          f"{one.final_checkpoint_id} there is {'no longer needed' if dry_run else 'deleted'}", markup=False)
        for one in done.kept:
            using = ", ".join(f"{user} uses {number} SSTs" for user, number in one.ssts.items())
            console.print(f"kept: {base + one.entry.path!r}: {using} there", markup=False)
        if not done.kept:
            console.print(f"nothing here {'would need' if dry_run else 'needs'} another database", markup=False)
    if done.kept:
        refuse(f"{url}: other databases are still needed: let a compactor rewrite their SSTs, delete the checkpoints that use "
               "them, and give the command again", SAFETY)


def spans_of(splits: Sequence[str], sources: int) -> list[Any]:
    """Return the span of each source: what is between the splits; None for each if there are no splits."""
    from highwater.admin.rows import bytes_of, text_of
    from highwater.impl.manifests.spans import Span

    if not splits:
        return [None] * sources
    if len(splits) != sources - 1:
        refuse(f"--split: {len(splits)} given for {sources} sources: give {sources - 1}, the first key of each source but the "
               "first, in their order")
    try:
        keys = [b"", *(bytes_of(one) for one in splits)]
    except ValueError as error:
        refuse(f"--split: {error}")
    for before, after in pairwise(keys):
        if after <= before:
            refuse(f"--split: {text_of(after)!r} is not after {text_of(before)!r}: give sources and splits in order of their "
                   "keys")
    return [*(Span(start, end) for start, end in pairwise(keys)), Span(keys[-1])]


def printed(made: Any, base: str, dry_run: bool, as_json: bool) -> None:
    """Print what was made, or would be. `base`: what comes before the paths of databases."""
    if as_json:
        print(json.dumps({**made.as_json(), "dry_run": dry_run}, indent=2))
        return
    console.print(f"{base + made.path!r} {'would be ' if dry_run else 'is '}{made.what}"
                  + (f": manifest {made.manifest_id} is initialized" if made.manifest_id else ""), markup=False)
    for of in made.external_dbs:
        keeps = f"checkpoint {of.final_checkpoint_id}" if of.final_checkpoint_id else "a new checkpoint"
        if of.sst_ids:
            console.print(f"  {keeps} in {base + of.path!r} keeps {len(of.sst_ids)} SSTs", markup=False)
        elif of.final_checkpoint_id:
            console.print(f"  checkpoint {of.final_checkpoint_id} in {base + of.path!r} is not needed: `highwater admin "
                          "detach` removes it", markup=False)
    if not any(of.sst_ids for of in made.external_dbs):
        console.print("  it has no SST: its sources have no flushed rows, or none in the range", markup=False)
    if made.wal_ids:
        console.print(f"  {len(made.wal_ids)} WAL objects {'would be copied' if dry_run else 'are copied'}, {made.wal_ids[0]} "
                      f"to {made.wal_ids[-1]}", markup=False)
    if made.not_included:
        console.print(f"  not in it: WAL objects {made.not_included[0]} to {made.not_included[-1]} of the source, which its "
                      "manifest has not seen: flush its memtable before, if their rows are wanted", markup=False)


def asked(urls: list[str], new: str | None, ask: Any, read_only: bool, refusals: tuple[type[Exception], ...],
          store: str | None = None) -> tuple[Any, str]:
    """Return `await ask(world, roots)` for these databases, and what comes before their paths. Exits with 10 where safety
    refuses, and with 2 for bad input."""
    from highwater.cli.admin import answered, with_paths
    from highwater.impl.stores.system import locate, open_located

    async def ask_and_tell(world: Any, places: Any) -> tuple[Any, str]:
        return await ask(world, list(places.roots)), places.base

    def opened() -> Any:
        places = locate(urls, news, store)
        return open_located(places, read_only), places

    news = [] if new is None else [new]
    name = (*news, *urls)[0]
    try:
        return answered(name, opened, ask_and_tell, read_only, through=refusals, urls=(*news, *urls))
    except refusals as error:
        refuse(f"{name}: {with_paths(str(error), *news, *urls)}", SAFETY)

"""highwater index: serve a metadata index, add to it and query it, back it up, restore it, check a folder."""

import asyncio
import json
import logging
import os
from collections.abc import AsyncIterator, Coroutine, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import unquote

import typer
from rich.table import Table

from highwater.cli.console import console, refuse
from highwater.cli.on_spark import Conf, Master, session_options
from highwater.cli.raft import Authority, Certificate, Clients, Key, Roles, address_of, nodes_of, refuse_others
from highwater.cli.raft import finish as finish_node
from highwater.gate.exits import BAD_INPUT, INCOMPLETE, SAFETY
from highwater.impl.errors import Indefinite, StoreError

app = typer.Typer(no_args_is_help=True)
Result = TypeVar("Result")
LOOPBACK = "127.0.0.1:4040"
NOT_FOUND_YET = ", and no query finds it before the next sweep of the dead letters"

At = Annotated[str, typer.Option("--at", help="where nodes serve their API: HOST:PORT, or 1=HOST:PORT,2=HOST:PORT,..")]
Tenants = Annotated[list[str], typer.Option("--tenant", help="whose data; may be given several times")]
MS = 1 << 62  # the largest time
Start = Annotated[int, typer.Option("--start", min=0, max=MS, help="of the time range: ms since 1970, inclusive")]
End = Annotated[int, typer.Option("--end", min=0, max=MS, help="of the time range: ms since 1970, inclusive")]
Labels = Annotated[list[str] | None, typer.Option("--label", help="a label to show; may be given several times")]
Shards = Annotated[list[int] | None, typer.Option("--shard", min=0, max=(1 << 32) - 1, help="of these shards only; may be "
                                                  "given several times")]
Selector = Annotated[str, typer.Argument(help="which datasets: '{service_name=\"api\"}'")]
Stale = Annotated[bool, typer.Option("--stale", help="take what the first node has, which may lack what is new")]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON, one object a line")]


@app.callback()
def index() -> None:
    """Run a metadata index, and ask it."""


@app.command("serve")
def serve_command(
        folder: Annotated[Path, typer.Argument(help="the node's own folder; it is made if it is missing")],
        node: Annotated[str, typer.Option("--node", help="the name of this node")] = "1",
        peers: Annotated[str | None, typer.Option("--peers", help="all nodes of a cluster, where they dial each other: "
                                                  "1=HOST:PORT,2=HOST:PORT,.. [default: this node alone]")] = None,
        api: Annotated[str, typer.Option("--api", help="HOST:PORT at which programs ask this node")] = LOOPBACK,
        apis: Annotated[str | None, typer.Option("--apis", help="the same of all nodes, to be told to who asks the wrong one: "
                                                 "1=HOST:PORT,..")] = None,
        cluster: Annotated[str, typer.Option("--cluster", help="the index's name: nodes of another one are refused")] = "main",
        metrics: Annotated[int | None, typer.Option("--metrics", min=0, max=65535, help="serve metrics for Prometheus on this "
                                                    "port of the loopback address")] = None,
        authority: Authority = None, certificate: Certificate = None, key: Key = None,
        insecure: Annotated[bool, typer.Option("--insecure", help="listen beyond the loopback address without "
                                               "certificates")] = False,
        roles: Roles = "optional", clients: Clients = 128,
        semantics: Annotated[str, typer.Option("--semantics", help="compat: as Pyroscope; prometheus: a missing label is "
                                               "empty")] = "compat",
        limit: Annotated[list[str] | None, typer.Option("--limit", help="NAME=NUMBER of impl/index/service/limits.py")] = None,
        setting: Annotated[list[str] | None, typer.Option("--set", help="NAME=NUMBER of impl/index/config.py; equal on all "
                                                          "nodes")] = None,
        levels: Annotated[str | None, typer.Option("--levels", help="when blocks of each level are compacted, equal on all "
                                                   "nodes: BLOCKS:MS,.., once so many wait, or one has waited so long "
                                                   "[default: 20:36000,10:720000,10:10800000]")] = None,
        cached_datasets: Annotated[int, typer.Option("--cached-datasets", min=0, help="whose columns are kept for "
                                                     "queries")] = 2_000_000,
        tick_ms: Annotated[int, typer.Option("--tick-ms", min=10, max=10_000, help="a follower waits 10 to 20 ticks before it "
                                             "stands for election")] = 100,
        snapshot_entries: Annotated[int, typer.Option("--snapshot-entries", min=1,
                                                      help="from one snapshot to the next")] = 10_000,
        bucket: Annotated[str | None, typer.Option("--bucket", help="where the objects are: a folder, file://, "
                                                   "s3://BUCKET/PREFIX; whoever leads sweeps the dead letters there")] = None,
        sweep_ms: Annotated[int, typer.Option("--sweep-ms", min=10, help="between two sweeps of the dead letters")] = 15_000,
        retain_s: Annotated[int | None, typer.Option("--retain-s", min=0, help="drop data after so many seconds; 0: keep "
                                                     "them for ever [default: drop nothing]")] = None,
        retain_tenant: Annotated[list[str] | None, typer.Option("--retain-tenant", help="NAME=SECONDS, for a tenant with "
                                                                "another period")] = None,
        clean_ms: Annotated[int, typer.Option("--clean-ms", min=10, help="between two runs of retention")] = 60_000,
        quiet: Annotated[bool, typer.Option("--quiet", help="log troubles only")] = False) -> None:
    """Run one node until SIGTERM or Ctrl-C. The exit code is 0 then, and 3 if its disk failed."""
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # otherwise each failed handshake is a line, and anybody can fill the log
    from highwater.cluster.server import OPTIONS
    from highwater.impl.index.config import Config
    from highwater.impl.index.letters.sweeper import USUAL
    from highwater.impl.index.query.matching import SEMANTICS
    from highwater.impl.index.service.limits import Limits
    from highwater.impl.stores.front import Bounds
    from highwater.index.server import Settings, serve

    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.WARNING if quiet else logging.INFO, force=True)
    known = nodes_of(peers) if peers else {}
    if known and node not in known:
        refuse(f"node {node!r} is none of those in --peers: {', '.join(known)}")
    if semantics not in SEMANTICS:
        refuse(f"--semantics {semantics!r}: write {' or '.join(SEMANTICS)}")
    limits = changed(Limits(), limit or [], "--limit")
    if why := limits.refusal():
        refuse(f"--limit: {why}")
    settings = Settings(str(folder), node, known, address_of(api), nodes_of(apis) if apis else {}, cluster,
                        with_levels(changed(Config(), setting or [], "--set"), levels), limits, semantics, cached_datasets,
                        files_of(authority, certificate, key), insecure, metrics,
                        OPTIONS._replace(tick_ms=tick_ms, snapshot_entries=snapshot_entries),
                        opened(bucket) if bucket else None, USUAL._replace(period_ms=sweep_ms),
                        policy_of(retain_s, retain_tenant), clean_ms, roles == "required", Bounds(clients=clients))
    why = finish(serve(settings))
    if why:
        refuse(f"node {node!r} stopped: {why}", INCOMPLETE)


def changed(of: Any, given: list[str], option: str) -> Any:
    """Return a NamedTuple of numbers with those that are given as NAME=NUMBER."""
    for text in given:
        name, _, number = text.partition("=")
        if name not in of._fields or not isinstance(getattr(of, name), int):
            names = ", ".join(field for field in of._fields if isinstance(getattr(of, field), int))
            refuse(f"{option} {text!r}: the names are {names}")
        if not number.isdigit():
            refuse(f"{option} {text!r}: write {name}=NUMBER")
        of = of._replace(**{name: int(number)})
    return of


def with_levels(config: Any, text: str | None) -> Any:
    """Return the configuration with the levels of "BLOCKS:MS,..", if they are given. Refuses what is none."""
    from highwater.impl.index.config import Level

    if text is None:
        return config
    levels = []
    for part in text.split(","):
        blocks, _, age_ms = part.partition(":")
        if not (blocks.isdecimal() and age_ms.isdecimal() and len(part) < 20):
            refuse(f"--levels {text!r}: write BLOCKS:MS,.., for each level from 0 on")
        levels.append(Level(int(blocks), int(age_ms) * 1_000_000))
    return config._replace(levels=tuple(levels))


@app.command("add")
def add_command(files: Annotated[list[Path], typer.Argument(help="objects with a footer, or metadata as JSON (*.json)")],
                letters: Annotated[str | None, typer.Option("--dead-letters", help="where the objects are, s3://BUCKET/PREFIX: "
                                                            "a block that cannot be added is kept there as a letter")] = None,
                retry_ms: Annotated[int, typer.Option("--retry-ms", min=0, help="for so long a block is added again before its "
                                                      "letter is left")] = 10_000,
                at: At = LOOPBACK, authority: Authority = None, certificate: Certificate = None, key: Key = None) -> None:
    """Add the blocks of local files. It may be repeated: what is in the index already changes nothing."""
    from highwater.impl.codecs.index.messages import CLASSES

    blocks, tls = [block_of(file) for file in files], files_of(authority, certificate, key)
    if letters:
        for file, said in zip(files, finish(added_or_kept(opened(letters), blocks, at, tls, retry_ms))):
            console.print(f"{file}: its block is {said}" + NOT_FOUND_YET * (said == "kept"), markup=False)
        return
    for file, block in zip(files, blocks):
        asked(at, tls, CLASSES["AddBlockRequest"](block=block))
        console.print(f"{file}: block {block.id} is in the index", markup=False)


async def added_or_kept(store: Any, blocks: list[Any], at: str, files: Any, retry_ms: int) -> list[str]:
    from highwater.index import letters
    from highwater.index.client import Client

    async with Client(places_of(at), files, 1.0) as client:
        return await letters.added_or_kept(store, blocks, client, retry_ms)


def block_of(file: Path) -> Any:
    """Return the metadata in a file: JSON, or an object whose footer has it."""
    from highwater.impl.codecs.codec import Undecodable
    from highwater.impl.codecs.index.footer import metadata_of
    from highwater.impl.codecs.index.messages import BlockMeta, from_json

    try:
        body = file.read_bytes()
        return from_json(BlockMeta, body) if file.suffix == ".json" else metadata_of(body, len(body))
    except OSError as error:
        refuse(f"{file}: {error.strerror}")
    except Undecodable as error:
        refuse(f"{file}: it has no metadata of a block: {error}")


@app.command("query")
def query_command(selector: Selector, tenant: Tenants, start: Start, end: End, label: Labels = None, shard: Shards = None,
                  at: At = LOOPBACK, stale: Stale = False, as_json: AsJson = False, authority: Authority = None,
                  certificate: Certificate = None, key: Key = None) -> None:
    """Show the blocks with datasets of these tenants and times for which the selector holds."""
    from highwater.impl.codecs.index.messages import QueryRequest, to_json

    request = question(QueryRequest, tenant_id=tenant, start_time=start, end_time=end, query=selector, labels=label,
                       shards=shard)
    blocks = asked(at, files_of(authority, certificate, key), request, stale).blocks
    if as_json:
        for block in blocks:
            print(to_json(block))
        return
    table = Table("block", "tenant", "shard", "level", "from", "to", "bytes", "datasets")
    for block in blocks:
        strings = block.string_table
        table.add_row(block.id, strings[block.tenant], str(block.shard), str(block.compaction_level), str(block.min_time),
                      str(block.max_time), f"{block.size:,}", ", ".join(strings[of.name] for of in block.datasets))
    console.print(table)


@app.command("labels")
def labels_command(selector: Selector, tenant: Tenants, start: Start, end: End, label: Labels = None, shard: Shards = None,
                   at: At = LOOPBACK, stale: Stale = False, as_json: AsJson = False, authority: Authority = None,
                   certificate: Certificate = None, key: Key = None) -> None:
    """Show each combination of values of some labels in the datasets that `query` would find."""
    from highwater.impl.codecs.index.messages import LabelsRequest

    request = question(LabelsRequest, tenant_id=tenant, start_time=start, end_time=end, query=selector, labels=label,
                       shards=shard)
    sets = asked(at, files_of(authority, certificate, key), request, stale).labels
    if as_json:
        for one in sets:
            print(json.dumps({pair.name: pair.value for pair in one.labels}))
        return
    table = Table(*(label or ["no label was asked for"]))
    for one in sets:
        table.add_row(*(pair.value for pair in one.labels))
    console.print(table)


def question(kind: Any, **fields: Any) -> Any:
    """Make a request. A text that is not valid UTF-8 is refused."""
    try:
        return kind(**fields)
    except ValueError as error:
        refuse(f"a text of the question is not UTF-8: {error}")


@app.command("tenants")
def tenants_command(at: At = LOOPBACK, stale: Stale = False, as_json: AsJson = False, authority: Authority = None,
                    certificate: Certificate = None, key: Key = None) -> None:
    """Show the tenants, and from when to when they have data."""
    from highwater.impl.codecs.index.messages import CLASSES

    files = files_of(authority, certificate, key)
    table = Table("tenant", "from", "to")
    for name in asked(at, files, CLASSES["GetTenantsRequest"](), stale).tenant_ids:
        stats = asked(at, files, CLASSES["GetTenantRequest"](tenant_id=name), stale).stats
        if as_json:
            print(json.dumps({"tenant": name, "from_ms": stats.oldest_profile_time, "to_ms": stats.newest_profile_time}))
        table.add_row(name, str(stats.oldest_profile_time), str(stats.newest_profile_time))
    if not as_json:
        console.print(table)


@app.command("work")
def work_command(store: Annotated[str, typer.Argument(help="where the objects are: a folder, file://, s3://BUCKET/PREFIX")],
                 at: At = LOOPBACK, authority: Authority = None, certificate: Certificate = None, key: Key = None,
                 poll_ms: Annotated[int, typer.Option("--poll-ms", min=10, help="between two polls without a job")] = 5_000,
                 renew_ms: Annotated[int, typer.Option("--renew-ms", min=10, help="between two reports of a job; well below "
                                                       "the lease")] = 5_000,
                 once: Annotated[bool, typer.Option("--once", help="do one job, if there is one, and end")] = False) -> None:
    """Compact the objects of an index: take jobs, merge, report, delete, until SIGTERM or Ctrl-C."""
    from highwater.impl.index.compaction.worker import Options

    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.INFO, force=True)
    logging.getLogger("botocore").setLevel(logging.WARNING)
    done = finish(worked(store, places_of(at), files_of(authority, certificate, key), Options(poll_ms, renew_ms), once))
    if once and done is None:
        refuse("the job failed, and another worker gets it once its lease is over", INCOMPLETE)
    if once:
        console.print("one job is done" if done else "there was no job")


async def worked(url: str, places: Mapping[str, Any], files: Any, options: Any, once: bool) -> bool | None:
    """Work until a signal, or once; return whether there was a job, and None if it failed. Refuses a store without answer."""
    import signal

    from highwater.impl.index.compaction.worker import Worker
    from highwater.impl.stores.system import Counters, system_world
    from highwater.index.client import Client

    counters = Counters()
    world = system_world(opened(url, new=False))._replace(metrics=counters)
    try:
        await world.store.list_page("blocks/", "")
    except StoreError as error:
        refuse(f"{url} cannot be read: {error}", INCOMPLETE if isinstance(error, Indefinite) else BAD_INPUT)
    async with Client(places, files, 10.0) as client:
        worker = Worker(world, client.call, options)
        if once:
            had_job = await worker.once()
            return None if counters.snapshot().get("index_jobs_failed") else had_job
        working = asyncio.ensure_future(worker.run())
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, working.cancel)
        try:
            await working
        except asyncio.CancelledError:
            return False
        return False


@app.command("status")
def status_command(at: At = LOOPBACK, as_json: AsJson = False, authority: Authority = None, certificate: Certificate = None,
                   key: Key = None) -> None:
    """Ask each node how it is. The exit code is 0 if all answer and agree on a leader, otherwise 3."""
    found = finish(told_by_all(places_of(at), files_of(authority, certificate, key)))
    columns = ("role", "term", "leader", "commit", "applied", "snapshot", "units", "queued", "jobs", "tombstones")
    table = Table("node", "address", *columns)
    for place, told in found.items():
        if as_json:
            print(json.dumps({"address": place, **(told if isinstance(told, dict) else {"error": told})}))
        elif isinstance(told, str):
            table.add_row("", place, f"[red]{told}[/]")
        else:
            table.add_row(told["node"], place, *(f"{told[name]:,}" if isinstance(told[name], int) else told[name] or "unknown"
                                                 for name in columns))
    if not as_json:
        console.print(table)
        for told in found.values():
            if isinstance(told, dict) and told.get("alarm"):
                console.print(f"node {told['node']!r}: {told['alarm']}", markup=False)
    leaders = {told["leader"] if isinstance(told, dict) else "" for told in found.values()}
    if len(leaders) != 1 or "" in leaders:
        raise typer.Exit(INCOMPLETE)


async def told_by_all(places: Mapping[str, Any], files: Any) -> dict[str, Any]:
    """Return what each node says of itself, or why it says nothing, by its address."""
    from highwater.impl.errors import StoreError
    from highwater.impl.stores.grpc_calls import Channel
    from highwater.index.operator import STATUS

    async def told(address: Any) -> Any:
        async with Channel(address, files) as channel:
            try:
                return json.loads(await channel.call(STATUS, b"", 5.0))
            except StoreError as error:
                return str(error)

    answers = await asyncio.gather(*(told(address) for address in places.values()))
    return {str(address): answer for address, answer in zip(places.values(), answers)}


@app.command("snapshot")
def snapshot_command(file: Annotated[Path, typer.Argument(help="the backup to write; nothing may be there")],
                     at: At = LOOPBACK, authority: Authority = None, certificate: Certificate = None, key: Key = None) -> None:
    """Write a backup: all that is acknowledged by now."""
    from highwater.impl.codecs.codec import Undecodable
    from highwater.impl.codecs.index.snapshot import decode

    if file.exists():
        refuse(f"{file} is there: give a name that is free")
    body = finish(backed_up(places_of(at), files_of(authority, certificate, key)))
    try:
        position, rows = decode(body)
    except Undecodable as error:
        refuse(f"the backup came damaged, and nothing was written: {error}", INCOMPLETE)
    written(file, body)
    console.print(f"{file}: {len(rows):,} rows up to entry {position.index:,} of term {position.term:,}, {len(body):,} bytes",
                  markup=False)


async def backed_up(places: Mapping[str, Any], files: Any) -> bytes:
    from highwater.impl.errors import StoreError
    from highwater.impl.stores.grpc_calls import Channel
    from highwater.index.operator import SNAPSHOT

    last: StoreError | None = None
    for address in places.values():
        async with Channel(address, files) as channel:
            try:
                return b"".join([part async for part in parts_of(channel, SNAPSHOT)])
            except StoreError as error:
                last = error
    assert last is not None
    raise last


def parts_of(channel: Any, path: str) -> AsyncIterator[bytes]:
    return channel.parts(path, b"", 600.0)


def written(file: Path, body: bytes) -> None:
    """Write a file whole and durably, or not at all."""
    temporary = file.with_name(file.name + ".part")
    try:
        with temporary.open("xb") as out:
            out.write(body)
            out.flush()
            os.fsync(out.fileno())
        temporary.rename(file)
    except OSError as error:
        refuse(f"{temporary}: {error.strerror}", INCOMPLETE)


@app.command("restore")
def restore_command(
        backup: Annotated[Path, typer.Argument(help="what `snapshot` has written")],
        folder: Annotated[Path, typer.Argument(help="an empty folder, or none yet")],
        cluster: Annotated[str, typer.Option("--cluster", help="the name of the new index: another one than of the old")],
        node: Annotated[str, typer.Option("--node", help="the name of the node that the folder is for")] = "1",
        peers: Annotated[str | None, typer.Option("--peers", help="all nodes of the new cluster, as for `serve`; restore the "
                                                  "same backup for each")] = None) -> None:
    """Make the folder of a node of a new index from a backup. Then serve it."""
    from highwater.impl.raft.identity import FolderIdentity
    from highwater.impl.stores.folder_disk import FolderDisk
    from highwater.index.restore import restore

    names = tuple(sorted(nodes_of(peers))) if peers else (node,)
    if node not in names:
        refuse(f"node {node!r} is none of those in --peers: {', '.join(names)}")
    try:
        body = backup.read_bytes()
    except OSError as error:
        refuse(f"{backup}: {error.strerror}")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        refuse(f"{folder} has something in it: a backup is restored into an empty folder only")
    position = finish(restore(body, FolderDisk(str(folder)), FolderIdentity(cluster, node, names)))
    console.print(f"{folder}: node {node!r} of index {cluster!r} begins behind entry {position.index:,}", markup=False)


@app.command("check")
def check_command(
        folder: Annotated[str, typer.Argument(help="the folder of a node that does not run, or a copy; with --snapshot: where "
                                              "the objects are, a folder, file://, s3://BUCKET/PREFIX")],
        snapshot: Annotated[Path | None, typer.Option("--snapshot", help="hold this snapshot of an index against its "
                                                      "bucket")] = None,
        listing: Annotated[Path | None, typer.Option("--listing", help="a listing of the bucket, in Parquet: key, bytes, "
                                                     "last_modified_ms")] = None,
        out: Annotated[Path | None, typer.Option("--out", help="also write what is wrong with a bucket to this Parquet "
                                                 "file")] = None,
        engine: Annotated[Literal["spark", "local"], typer.Option("--engine", help="for a bucket; both give the same "
                                                                  "rows")] = "local",
        master: Master = "", conf: Conf = None) -> None:
    """Check the log, the snapshot and the rows in it, or a snapshot against its bucket, and change nothing. The exit code is 10
    if something is wrong."""
    if snapshot:
        from highwater.cli.index_bucket import check_bucket

        of_spark = session_options("index check", engine == "spark", None, master, conf)
        check_bucket(folder, snapshot, listing, out, of_spark)
        return
    if listing or out or master or conf or engine != "local":
        refuse("--listing, --out, --engine, --master and --conf are for a bucket: add --snapshot FILE")
    check_folder(Path(folder))


def check_folder(folder: Path) -> None:
    from highwater.cluster.check import NoFolder
    from highwater.impl.stores.folder_disk import FolderDisk
    from highwater.index.check import checked

    refuse_others(folder)
    try:
        found = finish(checked(FolderDisk(str(folder))))
    except NoFolder as error:
        refuse(f"{folder}: {error}")
    of = found.content
    console.print(f"{folder}: node {of.node!r}, snapshot up to entry {of.snapshot.index:,} with {found.units:,} units and "
                  f"{found.blocks:,} blocks, log {of.first:,} to {of.last:,}", markup=False)
    for line in found.wrong:
        console.print(line, markup=False)
    if found.wrong:
        raise typer.Exit(SAFETY)
    console.print("nothing is wrong")


# --- what the commands share


def policy_of(usual_s: int | None, tenants: list[str] | None) -> Any:
    """Return the policy of the periods in seconds, "NAME=SECONDS" of a tenant; None without any. Nonsense is refused."""
    from highwater.impl.index.retention import Policy, PolicyRefused, checked

    periods: dict[str, int] = {}
    for text in tenants or []:
        name, _, seconds = text.rpartition("=")
        if usual_s is None or not name or not seconds.isdigit() or name in periods:
            refuse(f"--retain-tenant {text!r}: write NAME=SECONDS, each name once, and --retain-s for all others")
        periods[name] = int(seconds)
    try:
        return None if usual_s is None else checked(Policy(usual_s, periods))
    except PolicyRefused as error:
        refuse(str(error))


def opened(url: str, new: bool = True) -> Any:
    """Open the store of a URL; a bad one is refused, and so is a folder that is not there unless it may be `new`."""
    from highwater.impl.stores.system import open_store

    scheme, separator, place = url.partition("://")
    if not new and scheme != "s3" and not os.path.isdir(unquote(place) if separator else url):
        refuse(f"there is no folder {url!r}: correct the path")
    try:
        return open_store(url)
    except ValueError as error:
        refuse(str(error))


def asked(at: str, files: Any, request: Any, stale: bool = False) -> Any:
    """Ask the nodes one thing."""
    return finish(answered(places_of(at), files, request, stale))


async def answered(places: Mapping[str, Any], files: Any, request: Any, stale: bool) -> Any:
    from highwater.index.client import Client

    async with Client(places, files, 5.0) as client:
        return await client.call(request, stale)


def finish(work: Coroutine[Any, Any, Result]) -> Result:
    """Run to the end. A refusal is one line and exit code 2, a missing answer 3."""
    from highwater.impl.index.config import ConfigRefused

    async def whole() -> Result:
        try:
            return await work
        except ConfigRefused as error:
            refuse(str(error), BAD_INPUT)
        except Indefinite as error:
            refuse(str(error), INCOMPLETE)

    return finish_node(whole())


def places_of(text: str) -> dict[str, Any]:
    """Parse "host:port" or "1=host:port,2=host:port"."""
    return nodes_of(text) if "=" in text else {"": address_of(text)}


def files_of(authority: str | None, certificate: str | None, key: str | None) -> Any:
    """Return the three files of certificates, or None of none. Refuses a part of them."""
    from highwater.impl.stores.certificates import Files

    if not authority and not certificate and not key:
        return None
    if not (authority and certificate and key):
        refuse("give all of --tls-ca, --tls-cert and --tls-key, or none of them")
    return Files(authority, certificate, key)

"""highwater raft: serve one node of a replicated cluster, ask how the nodes are, hand leadership over, check a folder."""

import asyncio
import logging
import os
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.table import Table

from highwater.cli.console import console, refuse
from highwater.gate.exits import BAD_INPUT, INCOMPLETE, SAFETY
from highwater.impl.errors import StoreError
from highwater.impl.node_world import DiskFailed, DiskFull
from highwater.impl.raft.faults import Damaged
from highwater.impl.stores.certificates import BadCertificate, Files, Tls, loaded
from highwater.impl.stores.stream_net import Address

app = typer.Typer(no_args_is_help=True)
Result = TypeVar("Result")

Nodes = Annotated[str, typer.Option("--nodes", help="all nodes of the cluster: 1=HOST:PORT,2=HOST:PORT,..")]
Cluster = Annotated[str, typer.Option("--cluster", help="the cluster's name: nodes of another one are refused")]
Authority = Annotated[str | None, typer.Option("--tls-ca", help="PEM file of the cluster's certificate authority")]
Certificate = Annotated[str | None, typer.Option("--tls-cert", help="PEM file of the own certificate")]
Key = Annotated[str | None, typer.Option("--tls-key", help="PEM file of its key")]


@app.callback()
def raft() -> None:
    """Run and look after a replicated cluster of processes."""


@app.command("serve")
def serve_command(
        folder: Annotated[Path, typer.Argument(help="the node's own folder; it is made if it is missing")],
        node: Annotated[str, typer.Option("--node", help="the name of this node")],
        nodes: Nodes,
        machine: Annotated[str, typer.Option("--machine", help="what is replicated: FILE.py:NAME of a Service")],
        cluster: Cluster = "main",
        listen: Annotated[str | None, typer.Option("--listen", help="HOST:PORT [default: that of --nodes]")] = None,
        metrics: Annotated[int | None, typer.Option("--metrics", min=0, max=65535, help="serve metrics for Prometheus on this "
                                                    "port of the loopback address")] = None,
        authority: Authority = None, certificate: Certificate = None, key: Key = None,
        insecure: Annotated[bool, typer.Option("--insecure", help="listen beyond the loopback address without "
                                               "certificates")] = False,
        tick_ms: Annotated[int, typer.Option("--tick-ms", min=10, max=10_000, help="a follower waits 10 to 20 ticks before it "
                                             "stands for election")] = 100,
        snapshot_entries: Annotated[int, typer.Option("--snapshot-entries", min=1,
                                                      help="from one snapshot to the next")] = 10_000,
        quiet: Annotated[bool, typer.Option("--quiet", help="log troubles only")] = False) -> None:
    """Run one node until SIGTERM or Ctrl-C. The exit code is 0 then, and 3 if its disk failed."""
    from highwater.cluster.server import OPTIONS, Settings, serve
    from highwater.cluster.service import BadService, loaded

    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.WARNING if quiet else logging.INFO, force=True)
    try:
        service = loaded(machine)
    except BadService as error:
        refuse(str(error))
    known = nodes_of(nodes)
    if node not in known:
        refuse(f"node {node!r} is none of those in --nodes: {', '.join(known)}")
    options = OPTIONS._replace(tick_ms=tick_ms, snapshot_entries=snapshot_entries)
    settings = Settings(str(folder), node, known, service, cluster, address_of(listen) if listen else None,
                        tls_of(authority, certificate, key), insecure, metrics, options)
    why = finish(serve(settings))
    if why:
        refuse(f"node {node!r} stopped: {why}", INCOMPLETE)


@app.command("status")
def status_command(nodes: Nodes, cluster: Cluster = "main", authority: Authority = None, certificate: Certificate = None,
                   key: Key = None) -> None:
    """Ask each node how it is. The exit code is 0 if all answer and agree on a leader, otherwise 3."""
    known = nodes_of(nodes)
    table = Table("node", "address", "role", "term", "leader", "last", "commit", "applied", "snapshot", "lag", "clients")
    found = finish(asked(known, cluster, tls_of(authority, certificate, key)))
    for name, answer in found.items():
        if isinstance(answer, StoreError):
            table.add_row(name, str(known[name]), f"[red]{answer}[/]")
            continue
        lag = ", ".join(f"{other}: {behind:,}" for other, behind in answer["lag"].items())
        numbers = [f"{answer[field]:,}" for field in ("last", "commit", "applied", "snapshot")]
        table.add_row(name, str(known[name]), answer["role"], str(answer["term"]), answer["leader"] or "unknown", *numbers, lag,
                      str(answer["clients"]))
    console.print(table)
    leaders = {answer["leader"] for answer in found.values() if not isinstance(answer, StoreError)}
    if len(leaders) != 1 or "" in leaders or any(isinstance(answer, StoreError) for answer in found.values()):
        raise typer.Exit(INCOMPLETE)


async def asked(nodes: dict[str, Address], cluster: str, tls: Tls | None) -> dict[str, dict[str, Any] | StoreError]:
    from highwater.cluster.client import Client

    async with Client(nodes, cluster, tls, limit_s=5.0) as client:
        answers = await asyncio.gather(*(client.status(name) for name in nodes), return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException) and not isinstance(answer, StoreError):
            raise answer
    return dict(zip(nodes, answers))  # pyright: ignore[reportReturnType]


@app.command("transfer")
def transfer_command(target: Annotated[str, typer.Argument(help="the node that should lead")], nodes: Nodes,
                     cluster: Cluster = "main", authority: Authority = None, certificate: Certificate = None,
                     key: Key = None) -> None:
    """Hand leadership over to a node, for instance before another one is stopped."""
    finish(transferred(nodes_of(nodes), cluster, tls_of(authority, certificate, key), target))
    console.print(f"the leader has handed over to node {target}")


async def transferred(nodes: dict[str, Address], cluster: str, tls: Tls | None, target: str) -> None:
    from highwater.cluster.client import Client

    async with Client(nodes, cluster, tls) as client:
        await client.transfer(target)


@app.command("check")
def check_command(folder: Annotated[Path, typer.Argument(help="the folder of a node that does not run, or a copy")]) -> None:
    """Read a node's folder as its start would, and change nothing. The exit code is 10 if it is damaged."""
    from highwater.cluster.check import NoFolder, checked
    from highwater.impl.raft.segments import number_of
    from highwater.impl.stores.folder_disk import FolderDisk

    if not folder.is_dir() or not any(number_of(name) is not None for name in os.listdir(folder)):
        refuse(f"{folder} is no folder of a node: no segment of a log is in it")
    try:
        found = finish(checked(FolderDisk(folder)))
    except NoFolder as error:
        refuse(f"{folder}: {error}")
    whose = f"node {found.node!r}" + (f" of cluster {found.whose.cluster!r}, nodes {', '.join(found.whose.voters)}"
                                      if found.whose else "")
    console.print(f"{folder}: {whose}", markup=False)
    console.print(f"term {found.term:,}, voted for {found.vote or 'nobody'}")
    console.print(f"snapshot up to entry {found.snapshot.index:,}" if found.snapshot.index else "no snapshot")
    console.print(f"log: entries {found.first:,} to {found.last:,}, the last of term {found.last_term:,}; "
                  f"segments: {found.segments:,}")
    if found.torn_bytes:
        console.print(f"{found.torn_bytes:,} bytes of a last write that was cut: the next start removes them, and nothing is "
                      "lost that was acknowledged")
    for name in found.unfinished:
        console.print(f"{name} was never finished: the next start removes it, and nothing is lost")
    console.print("the node can start in this folder")


# --- what the commands share


def finish(work: Coroutine[Any, Any, Result]) -> Result:
    """Run to the end. An error of a node or a disk is one line, and the exit code of its class."""
    try:
        return asyncio.run(work)
    except Damaged as error:
        refuse(str(error), SAFETY)
    except (DiskFull, DiskFailed) as error:
        refuse(str(error), INCOMPLETE)
    except StoreError as error:
        refuse(str(error), BAD_INPUT)
    except OSError as error:
        refuse(f"{error.filename or 'the system'}: {error.strerror}")


def nodes_of(text: str) -> dict[str, Address]:
    """Parse "1=host:port,2=host:port"."""
    nodes: dict[str, Address] = {}
    for part in text.split(","):
        name, separator, place = part.strip().partition("=")
        if not separator or not name or name in nodes:
            refuse(f"--nodes {text!r}: write 1=HOST:PORT,2=HOST:PORT, each name once")
        nodes[name] = address_of(place)
    return nodes


def address_of(text: str) -> Address:
    """Parse "host:port" or "[host]:port"."""
    host, separator, port = text.rpartition(":")
    if not separator or not host or not port.isdigit() or not 0 < int(port) < 65536:
        refuse(f"bad address {text!r}: write HOST:PORT, with a port up to 65535")
    return Address(host.removeprefix("[").removesuffix("]"), int(port))


def tls_of(authority: str | None, certificate: str | None, key: str | None) -> Tls | None:
    """Return the contexts of three files, or None of none. Refuses a part of them, and files that cannot be used."""
    if not authority and not certificate and not key:
        return None
    if not (authority and certificate and key):
        refuse("give all of --tls-ca, --tls-cert and --tls-key, or none of them")
    try:
        return loaded(Files(authority, certificate, key))
    except BadCertificate as error:
        refuse(str(error))

"""highwater raft: serve one node of a replicated cluster, look after the cluster and its members, check a folder."""

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer
from rich.table import Table

from highwater.cli.console import console, refuse
from highwater.gate.exits import BAD_INPUT, INCOMPLETE, SAFETY
from highwater.impl.errors import StoreError
from highwater.impl.level import Level
from highwater.impl.node_world import DiskFailed, DiskFull
from highwater.impl.raft.faults import Damaged, NoChange, TermSpoilt
from highwater.impl.stores.certificates import BadCertificate, Files, Tls, loaded
from highwater.impl.stores.stream_net import Address, Limits

if TYPE_CHECKING:
    from highwater.cluster.check import Content
    from highwater.impl.raft.machine import Machine
    from highwater.impl.stores.folder_disk import FolderDisk

app = typer.Typer(no_args_is_help=True)
Result = TypeVar("Result")

Nodes = Annotated[str, typer.Option("--nodes", help="all nodes of the cluster: 1=HOST:PORT,2=HOST:PORT,..")]
Cluster = Annotated[str, typer.Option("--cluster", help="the cluster's name: nodes of another one are refused")]
Authority = Annotated[str | None, typer.Option("--tls-ca", help="PEM file of the cluster's certificate authority")]
Certificate = Annotated[str | None, typer.Option("--tls-cert", help="PEM file of the own certificate")]
Key = Annotated[str | None, typer.Option("--tls-key", help="PEM file of its key")]
Roles = Annotated[Literal["optional", "required"], typer.Option("--roles", help="whether a certificate must name its role; one "
                                                                "that names a role has no other in any case")]
TRIED = "FILE.py:NAME of the Service that the nodes run; `index`: that of an index"
Clients = Annotated[int, typer.Option("--clients", min=1, max=100_000, help="connections of clients at a time")]


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
        roles: Roles = "optional", clients: Clients = 200,
        tick_ms: Annotated[int, typer.Option("--tick-ms", min=10, max=10_000, help="a follower waits 10 to 20 ticks before it "
                                             "stands for election")] = 100,
        snapshot_entries: Annotated[int, typer.Option("--snapshot-entries", min=1,
                                                      help="from one snapshot to the next")] = 10_000,
        join: Annotated[bool, typer.Option("--join", help="begin as no member of a cluster that runs, and wait for `raft "
                                           "join`")] = False,
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
                        tls_of(authority, certificate, key), insecure, metrics, join, options,
                        Limits(clients=clients, clients_of_address=max(clients // 2, 1)), roles_required=roles == "required")
    why = finish(serve(settings))
    if why:
        refuse(f"node {node!r} stopped: {why}", INCOMPLETE)


@app.command("status")
def status_command(nodes: Nodes, cluster: Cluster = "main", authority: Authority = None, certificate: Certificate = None,
                   key: Key = None) -> None:
    """Ask each node how it is. The exit code is 0 if all answer and agree on a leader, otherwise 3."""
    known = nodes_of(nodes)
    table = Table("node", "address", "role", "term", "leader", "last", "commit", "applied", "snapshot", "lag", "clients",
                  "level", "knows")
    found = finish(asked(known, cluster, tls_of(authority, certificate, key)))
    for name, answer in found.items():
        if isinstance(answer, StoreError):
            table.add_row(name, str(known[name]), "[red]no answer[/]")
            continue
        lag = ", ".join(f"{other}: {behind:,}" for other, behind in answer["lag"].items())
        numbers = [f"{answer[field]:,}" for field in ("last", "commit", "applied", "snapshot")]
        table.add_row(name, str(known[name]), answer["role"], str(answer["term"]), answer["leader"] or "unknown", *numbers, lag,
                      str(answer["clients"]), str(Level(*answer["level"])), str(Level(*answer["known"])))
    console.print(table)
    for name, answer in found.items():
        if isinstance(answer, StoreError):
            console.print(f"node {name}: {answer}", markup=False)
    members = {(*answer["voters"], "", *answer["learners"]): answer for answer in found.values()
               if not isinstance(answer, StoreError)}
    for answer in members.values():
        learners = f"; learners {', '.join(answer['learners'])}" if answer["learners"] else ""
        by = f", by node {answer['node']}" if len(members) > 1 else ""
        console.print(f"voters {', '.join(answer['voters']) or 'unknown'}{learners}{by}", markup=False)
    leaders = {answer["leader"] for answer in found.values() if not isinstance(answer, StoreError)}
    if len(leaders) != 1 or "" in leaders or any(isinstance(answer, StoreError) for answer in found.values()):
        raise typer.Exit(INCOMPLETE)


async def asked(nodes: dict[str, Address], cluster: str, tls: Tls | None) -> dict[str, dict[str, Any] | StoreError]:
    from highwater.cluster.client import Client

    async with Client(nodes, cluster, tls, limit_s=5.0, operator=True) as client:
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

    async with Client(nodes, cluster, tls, operator=True) as client:
        await client.transfer(target)


Waits = Annotated[float, typer.Option("--wait", min=1, help="seconds to wait until it is done")]


@app.command("join")
def join_command(node: Annotated[str, typer.Argument(help="who joins, and where the others dial it: NAME=HOST:PORT")],
                 nodes: Nodes, cluster: Cluster = "main", wait: Waits = 60.0, authority: Authority = None,
                 certificate: Certificate = None, key: Key = None) -> None:
    """Let a node join that runs `raft serve --join`: it gets all entries first, and then votes. For a member: change where the
    others dial it."""
    name, address = member_of(node)
    finish(joined(nodes_of(nodes), cluster, tls_of(authority, certificate, key), wait, name, address))
    console.print(f"node {name} is a voter of cluster {cluster!r}", markup=False)


@app.command("leave")
def leave_command(name: Annotated[str, typer.Argument(help="the node that leaves")], nodes: Nodes, cluster: Cluster = "main",
                  wait: Waits = 60.0, authority: Authority = None, certificate: Certificate = None, key: Key = None) -> None:
    """Let a node leave the cluster, whether it runs or not. Stop it afterwards."""
    finish(left(nodes_of(nodes), cluster, tls_of(authority, certificate, key), wait, name))
    console.print(f"node {name} has left cluster {cluster!r}: stop it, and remove its folder. Give a node that joins later "
                  "another name: under this one it is refused in this term", markup=False)


@app.command("rejoin")
def rejoin_command(name: Annotated[str, typer.Argument(help="the node whose folder is lost")],
                   node: Annotated[str, typer.Argument(help="the node that takes its place, under a new name: NAME=HOST:PORT")],
                   nodes: Nodes, cluster: Cluster = "main", wait: Waits = 60.0, authority: Authority = None,
                   certificate: Certificate = None, key: Key = None) -> None:
    """Replace a node whose folder is lost by one with a new name, which runs `raft serve --join`."""
    new, address = member_of(node)
    if new == name:
        refuse(f"node {name!r} must not come back under its name: its votes are lost with its folder; give the new one another")
    finish(replaced(nodes_of(nodes), cluster, tls_of(authority, certificate, key), wait, name, (new, address)))
    console.print(f"node {name} has left cluster {cluster!r}, and node {new} is a voter", markup=False)


async def joined(nodes: dict[str, Address], cluster: str, tls: Tls | None, wait: float, name: str, address: Address) -> None:
    """Let a node join, once it is seen to run. Refuses a voter whose folder is new: its votes are lost."""
    from highwater.cluster.client import Client

    async with Client({name: address}, cluster, tls, limit_s=5.0, operator=True) as client:
        found = await client.status(name)
    async with Client(nodes, cluster, tls, limit_s=wait, operator=True) as client:
        if not found["last"] and name in await client.voters():
            refuse(f"node {name!r} votes in cluster {cluster!r}, and its folder at {address} is new: stop it, and let one with "
                   "another name take its place by `raft rejoin`")
        await client.join(name, address)


async def left(nodes: dict[str, Address], cluster: str, tls: Tls | None, wait: float, name: str) -> None:
    from highwater.cluster.client import Client

    async with Client(nodes, cluster, tls, limit_s=wait, operator=True) as client:
        await client.leave(name)


async def replaced(nodes: dict[str, Address], cluster: str, tls: Tls | None, wait: float, name: str,
                   by: tuple[str, Address]) -> None:
    """Let a node leave and another one join. One that has left already is no error: the call before may have ended here."""
    try:
        await left(nodes, cluster, tls, wait, name)
    except NoChange:
        pass
    await joined(nodes, cluster, tls, wait, *by)


@app.command("recover")
def recover_command(
        folder: Annotated[Path, typer.Argument(help="the folder of a node that does not run")],
        cluster: Annotated[str, typer.Option("--cluster", help="the name of the new cluster")],
        unsafe: Annotated[bool, typer.Option("--unsafe", help="do it: acknowledged entries may be lost")] = False) -> None:
    """Make a node the only one of a new cluster, after a majority of its cluster was lost for ever."""
    from highwater.cluster.check import NoFolder
    from highwater.cluster.recover import recover, recoverable
    from highwater.impl.stores.folder_disk import FolderDisk

    refuse_others(folder)
    try:
        found = finish(with_disk(FolderDisk(folder), partial(recover if unsafe else recoverable, cluster=cluster)))
    except NoFolder as error:
        refuse(f"{folder}: {error}")
    assert found.whose is not None
    console.print(f"{folder}: node {found.node!r} of cluster {found.whose.cluster!r} has entries up to {found.last:,}, the "
                  f"last of term {found.last_term:,}", markup=False)
    console.print(f"lost: what was acknowledged after entry {found.last:,}, or in its place by a leader of a later term")
    console.print(f"kept: all up to entry {found.last:,}, also what was never acknowledged")
    if not unsafe:
        refuse("nothing was changed. Take the folder with the highest term, and of these the one with the highest entry; "
               "never start another node of the former cluster again; then give --unsafe")
    console.print(f"node {found.node!r} is the only one of cluster {cluster!r} now. Start it with --cluster {cluster} --nodes "
                  f"{found.node}=HOST:PORT, and let nodes with new names join", markup=False)


@app.command("skip-entry")
def skip_command(
        folders: Annotated[list[Path], typer.Argument(help="the folders of all nodes of the cluster, none of which runs")],
        machine: Annotated[str, typer.Option("--machine", help=TRIED)],
        index: Annotated[int, typer.Option("--index", min=1, help="the entry's index, as `raft check --machine` names it")],
        term: Annotated[int, typer.Option("--term", min=1, help="its term")],
        cluster: Annotated[str, typer.Option("--cluster", help="a new name for the cluster")],
        without: Annotated[list[str] | None, typer.Option("--without", help="a member whose folder is lost for ever; may be "
                                                          "given several times")] = None) -> None:
    """Let an entry that the machine cannot apply have no effect, on all nodes of a cluster."""
    from highwater.cluster.check import NoFolder
    from highwater.cluster.skip import Skip, skip_entry
    from highwater.impl.stores.folder_disk import FolderDisk

    for folder in folders:
        refuse_others(folder)
    of, disks = machine_of(machine), {str(folder): FolderDisk(folder) for folder in folders}

    async def work() -> dict[str, bool]:
        try:
            return await skip_entry(disks, of, Skip(index, term, cluster, frozenset(without or ())))
        finally:
            for disk in disks.values():
                await disk.close()

    try:
        changed = finish(work())
    except NoFolder as error:
        refuse(str(error))
    for name, had_it in changed.items():
        what = "has no effect" if had_it else "was not there"
        console.print(f"{name}: entry {index:,} of term {term:,} {what}", markup=False)
    console.print(f"start all nodes with --cluster {cluster}", markup=False)


@app.command("check")
def check_command(
        folder: Annotated[Path, typer.Argument(help="the folder of a node that does not run, or a copy")],
        machine: Annotated[str | None, typer.Option("--machine", help="also apply the entries: " + TRIED)] = None) -> None:
    """Read a node's folder as its start would, and change nothing. The exit code is 10 if it is damaged, or if the machine
    cannot apply an entry."""
    from highwater.cluster.check import BadState, NoFolder, checked, replay, try_dump
    from highwater.impl.raft.log import MOST_TERM
    from highwater.impl.raft.machine import CannotApply
    from highwater.impl.stores.folder_disk import FolderDisk

    of = machine_of(machine) if machine else None
    refuse_others(folder)
    try:
        found = finish(with_disk(FolderDisk(folder), checked))
    except NoFolder as error:
        refuse(f"{folder}: {error}")
    whose = f"node {found.node!r}" + (f" of cluster {found.whose.cluster!r}" if found.whose else "")
    console.print(f"{folder}: {whose}, at level {found.level}", markup=False)
    learners = f"; learners {', '.join(found.members.learners)}" if found.members.learners else ""
    console.print(f"voters by its log: {', '.join(found.members.voters) or 'unknown'}{learners}", markup=False)
    console.print(f"term {found.term:,}, voted for {found.vote or 'nobody'}")
    console.print(f"snapshot up to entry {found.snapshot.index:,}" if found.snapshot.index else "no snapshot")
    console.print(f"log: entries {found.first:,} to {found.last:,}, the last of term {found.last_term:,}; "
                  f"segments: {found.segments:,}")
    if found.torn_bytes:
        console.print(f"{found.torn_bytes:,} bytes of a last write that was cut: the next start removes them. If a crash cut "
                      "it, nothing is lost that was acknowledged; damage of the end cannot be told from that")
    for name in found.unfinished:
        console.print(f"{name} was never finished: the next start removes it, and nothing is lost")
    if found.term >= MOST_TERM:
        refuse(f"the node cannot start: {TermSpoilt(found.term)}", SAFETY)
    if found.is_spoilt():
        console.print("the term is far ahead of the last entry's. If the other nodes do not hear this one, a message of a "
                      "broken or hostile node has spoilt it: replace it, or recover it if no majority of them works")
    if of is None:
        console.print("the node can start in this folder; --machine also applies its entries")
        return
    try:
        replicated = of(found)
        try_dump(found, replicated, replay(found, replicated))
    except CannotApply as error:
        refuse(f"{folder}: {error}; correct the machine, or let the entry have no effect on all nodes by `highwater raft "
               "skip-entry`", SAFETY)
    except BadState as error:
        refuse(f"{folder}: {error}", SAFETY)
    except StoreError as error:
        refuse(f"{folder}: {error}")
    console.print(f"the node can start in this folder, and its machine applies entries {found.snapshot.index + 1:,} to "
                  f"{found.last:,}")


# --- what the commands share


def machine_of(place: str) -> "Callable[[Content], Machine]":
    """Return the machine that an operator names, which for an index depends on a folder's settings."""
    from highwater.cluster.service import BadService, loaded

    if place == "index":
        from highwater.index import check

        return check.machine_of
    try:
        machine = loaded(place).machine
    except BadService as error:
        refuse(str(error))
    return lambda content: machine


def refuse_others(folder: Path) -> None:
    """Refuse a folder in which no node has worked, before a lock is made in it."""
    from highwater.cluster.check import is_of_node

    if not folder.is_dir() or not any(map(is_of_node, os.listdir(folder))):
        refuse(f"{folder} is no folder of a node: no segment of a log is in it")


async def with_disk(disk: "FolderDisk", work: Callable[["FolderDisk"], Coroutine[Any, Any, Result]]) -> Result:
    """Work in a folder, and release it."""
    try:
        return await work(disk)
    finally:
        await disk.close()


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


def member_of(text: str) -> tuple[str, Address]:
    """Parse "4=host:port"."""
    name, separator, place = text.strip().partition("=")
    if not separator or not name:
        refuse(f"{text!r} is no node: write NAME=HOST:PORT")
    return name, address_of(place)


def address_of(text: str) -> Address:
    """Parse "host:port" or "[host]:port"."""
    return Address.of(text) or refuse(f"bad address {text!r}: write HOST:PORT, with a port up to 65535")


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

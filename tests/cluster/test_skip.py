"""An entry that the machine cannot apply: each node stops and names it, and operators let it have no effect."""

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from highwater.cluster.calls import BadRequest
from highwater.cluster.check import BadState, checked, replay, try_dump
from highwater.cluster.client import Client
from highwater.cluster.skip import NotSkipped, Skip, skip_entry
from highwater.impl.errors import Indefinite
from highwater.impl.index import replicated
from highwater.impl.index.config import Config, Level, settings
from highwater.impl.node_world import DiskFailed
from highwater.impl.raft import identity, snapshots
from highwater.impl.raft.entries import COMMAND, Entry
from highwater.impl.raft.faults import HalfChanged, OtherSettings
from highwater.impl.raft.identity import FolderIdentity
from highwater.impl.raft.log import open_log
from highwater.impl.raft.machine import CannotApply, Machine
from highwater.impl.raft.snapshots import Snapshot
from highwater.impl.raft.state import Save
from highwater.impl.stores.memory_disk import MemoryDisk
from highwater.index.check import machine_of
from tests.cluster.processes import LIMIT_S, MACHINE, cluster
from tests.cluster.test_members import append, raft, values

NESTED = b'{"do": "write", "key": "x", "value": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
BLIND = """
from examples.registers.machine import SERVICE as CAREFUL
from highwater.cluster.service import Service

SERVICE = Service(CAREFUL.machine._replace(check=lambda store, command: None), CAREFUL.query)
"""


async def stopped_by_entry(folder: Path, service: str) -> tuple[int, int]:
    """Let three nodes stop at an entry, at the first start and at the next. Return its index and term."""
    async with asyncio.timeout(LIMIT_S), cluster(folder) as three:
        three.options["machine"] = service
        for name in three.names:
            await three.kill(name)
        three.start()
        await three.leader()
        async with three.client() as client:
            for number in range(3):
                await append(client, number)
            with pytest.raises(Indefinite):
                await client.propose(NESTED)
        for starts in (False, True):
            if starts:
                three.start()
            while len(left := [name for name in three.names if three.is_running(name)]) > 1:
                await asyncio.sleep(0.02)  # the last one knows of no majority that has the entry
            for name in {*three.names} - {*left}:
                said = three.said(name) if await three.ended(name) == 3 else ""
                assert "a command of 200,038 bytes: the machine cannot apply it: RecursionError" in said.splitlines()[-1]
                assert "Traceback" not in said and "highwater raft check FOLDER --machine" in said
            await three.kill(left[0])
    last = said.splitlines()[-1].split("entry ")[1]
    return int(last.split(" ")[0]), int(last.split("of term ")[1].split(",")[0])


def files(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_entry_that_stops_all_nodes_is_skipped(tmp_path):
    blind = tmp_path / "blind.py"
    blind.write_text(BLIND)
    service, nodes = f"{blind}:SERVICE", tmp_path / "nodes"
    nodes.mkdir()
    index, term = asyncio.run(stopped_by_entry(nodes, service))
    folders = [str(nodes / name) for name in "123"]
    where, before = ("--index", str(index), "--term", str(term)), files(nodes)

    async def refusals():
        assert "--machine also applies its entries" in await raft("check", folders[0])
        for folder in folders:
            said = await raft("check", folder, "--machine", service, code=10)
            assert f"entry {index} of term {term}, a command of 200,038 bytes" in said and "RecursionError" in said
            assert "by `highwater raft skip-entry`" in said

        async def refused(*words: str, machine: str = service, to: str = "second") -> str:
            said = await raft("skip-entry", *words, "--machine", machine, "--cluster", to, code=2)
            assert files(nodes) == before, "nothing was changed"
            return said

        assert "the folders of members are missing: 3" in await refused(*folders[:2], *where)
        assert "both of node '1'" in await refused(*folders, str(shutil.copytree(folders[0], tmp_path / "copy")), *where)
        assert "give the new cluster another name" in await refused(*folders, *where, to="main")
        assert "no folder has entry" in await refused(*folders, "--index", str(index), "--term", "99")
        log = (await checked(MemoryDisk({path.name: path.read_bytes() for path in (nodes / "1").iterdir()}))).log
        of_kind = {entry.kind == COMMAND: ("--index", str(at), "--term", str(entry.term))  # where they are depends on the pace
                   for at, entry in reversed([*enumerate(log.entries, log.base_index + 1)])}
        assert "is no command" in await refused(*folders, *of_kind[False])
        applied = await refused(*folders, *of_kind[True], machine=harmless(tmp_path))
        assert f"the machine applies entry {of_kind[True][1]}" in applied

    asyncio.run(refusals())
    shutil.copytree(nodes / "3", tmp_path / "forgotten")

    async def goes_on():
        said = await raft("skip-entry", *folders, *where, "--machine", service, "--cluster", "second")
        assert f"entry {index} of term {term} has no effect" in said and "start all nodes with --cluster second" in said
        assert "applies entries 1 to" in await raft("check", folders[0], "--machine", service)
        async with cluster(nodes) as three:
            for name in three.names:  # it began with the old name, which its folder refuses
                assert await three.ended(name) != 0 and "the folder is of cluster 'second'" in three.said(name)
            three.options.update(machine=MACHINE, cluster="second")
            three.start("1", "2")
            await three.leader()
            async with Client(three.addresses, "second") as client:
                assert await values(client, "1") == [0, 1, 2]
                shutil.rmtree(nodes / "3")
                shutil.copytree(tmp_path / "forgotten", nodes / "3")
                three.options["cluster"] = "main"
                three.start("3")
                await three.said_so("3", "is of cluster 'second', and not of 'main'")
                await append(client, 3)
                assert await values(client, "2") == [0, 1, 2, 3]
                with pytest.raises(BadRequest, match="nested 100,001 levels deep, and at most 100 are taken"):
                    await client.propose(NESTED)
                with pytest.raises(BadRequest, match="the query failed: RecursionError"):
                    await client.query(NESTED)
                assert json.loads(await client.query(b'{"get": "x"}')) == {"value": None}

    asyncio.run(goes_on())


def harmless(folder: Path) -> str:
    (folder / "harmless.py").write_text(BLIND.replace("check=", "apply=lambda store, command: (store, b''), check="))
    return f"{folder / 'harmless.py'}:SERVICE"


# --- folders in memory

SKIP = Skip(3, 2, "new")
FAILS = Machine((), lambda value, command: ((*value, command.body), 1 // (command.body != b"bad")),
                lambda value: repr(value).encode(), eval)


def segment_of(node: str, *batches: Save) -> MemoryDisk:
    """Return the disk of a node of cluster `old`, which wrote these saves and was killed while it wrote more."""
    async def work() -> MemoryDisk:
        disk = MemoryDisk()
        log, _ = await open_log(disk, node, (0, 0), segment_bytes=150)
        for save in batches:
            await log.write([save])
        await identity.write(disk, FolderIdentity("old", node, ("a", "b", "c")))
        return disk

    disk = asyncio.run(work())
    newest = max(name for name in disk.files if name.startswith("log-"))
    disk.files[newest] += b"torn"
    return disk


def saved(first: int, *bodies: bytes, term: int = 2) -> Save:
    return Save(first, term, "", first, tuple(Entry(term, COMMAND, body) for body in bodies))


def group() -> dict[str, MemoryDisk]:
    """Return the disks of three nodes: one was cut and has the entry twice, one has less, one has another entry there."""
    return {"A": segment_of("a", saved(1, b"1", b"2", b"bad"), saved(3, b"bad", b"4", b"5"), saved(6, b"6", b"7")),
            "B": segment_of("b", saved(1, b"1", b"2")),
            "C": segment_of("c", saved(1, b"1", b"2"), saved(3, b"other", term=3))}


def skip_in(disks: dict, skip: Skip = SKIP, machine: Machine = FAILS) -> dict[str, bool]:
    return asyncio.run(skip_entry(disks, lambda content: machine, skip))


class Failing(MemoryDisk):
    """A disk that fails with its `room`-th change of all disks that share it."""

    def __init__(self, files: dict[str, bytes], room: list[int]):
        super().__init__(files)
        self.room = room

    def __getattribute__(self, name: str):
        if name in ("create", "append", "truncate", "sync", "rename", "remove", "sync_names"):
            self.room[0] -= 1
            if self.room[0] < 0:
                raise DiskFailed("as the test says")
        return super().__getattribute__(name)


def bodies(disk: MemoryDisk) -> list[bytes]:
    return [entry.body if entry.kind == COMMAND else b"-" for entry in asyncio.run(checked(disk)).log.entries]


def test_skip_goes_on_after_a_crash_at_any_place():
    whole, ended, places = group(), False, 0
    while not ended:
        room = [places]
        disks = {name: Failing(dict(disk.files), room) for name, disk in whole.items()}
        try:
            skip_in(disks)
            ended = True
        except DiskFailed:
            places += 1
        again = {name: MemoryDisk(dict(disk.files)) for name, disk in disks.items()}
        changed = [disk for disk in again.values() if bodies(disk)[2:3] == [b"-"]]
        for disk in again.values():
            mine = identity.decoded(disk.files[identity.FILE])
            assert mine.cluster == "new" or not changed, "a log is changed once all folders have the new name"
            if mine.unfinished:
                with pytest.raises(HalfChanged, match="`highwater raft skip-entry` of entry 3 of term 2 has begun in this"):
                    asyncio.run(identity.check(disk, mine))
        assert skip_in(again) == {"A": True, "B": False, "C": False}
        assert [bodies(disk) for disk in again.values()] == [
            [b"1", b"2", b"-", b"4", b"5", b"6", b"7"], [b"1", b"2"], [b"1", b"2", b"other"]]
        for name, disk in again.items():
            assert identity.decoded(disk.files[identity.FILE]) == FolderIdentity("new", name.lower(), ("a", "b", "c"))
            assert b"bad" not in b"".join(disk.files.values())
    assert places > 20


def snapshot_at(disks: dict[str, MemoryDisk], index: int) -> None:
    asyncio.run(snapshots.store(disks["A"], Snapshot(index, 2, ("a", "b", "c"), b"(b'1',)")))


@pytest.mark.parametrize("change,skip,machine,what", (
    (lambda disks: snapshot_at(disks, 3), SKIP, FAILS, "A: entry 3 is in its snapshot up to entry 3, so the node has applied"),
    (lambda disks: disks.pop("B"), SKIP, FAILS, "the folders of members are missing: b"),
    (lambda disks: disks["B"].files.pop(identity.FILE), SKIP, FAILS, "B: identity is missing"),
    (lambda disks: None, SKIP._replace(index=4), FAILS, "A: entry 3 of term 2, a command of 3 bytes: the machine cannot apply "
     "it: ZeroDivisionError: .*: skip that one first"),
    (lambda disks: None, SKIP._replace(index=2), FAILS, "A: the machine applies entry 2 of term 2: a node may have applied it"),
    (lambda disks: snapshot_at(disks, 1), SKIP, FAILS._replace(load=lambda data: 1 // 0), "A: the machine cannot load the "
     "snapshot up to entry 1: ZeroDivisionError"),
    (lambda disks: asyncio.run(identity.write(disks["C"], FolderIdentity("third", "c", ("a", "b", "c")))), SKIP, FAILS,
     "the folders are of different clusters: B of 'old', C of 'third'"),
    (lambda disks: asyncio.run(identity.write(disks["C"], FolderIdentity("new", "c", (), "", "another"))),
     SKIP, FAILS, "C: another has begun, and has not ended"),
    (lambda disks: disks.update(B=segment_of("b", saved(1, b"1", b"2", b"bad!"))), SKIP, FAILS, "another one in each folder"),
))
def test_skip_is_refused(change, skip, machine, what):
    disks = group()
    change(disks)
    before = {name: dict(disk.files) for name, disk in disks.items()}
    with pytest.raises(NotSkipped, match=what):
        skip_in(disks, skip, machine)
    assert {name: disk.files for name, disk in disks.items()} == before


def test_skip_without_a_member_is_told():
    disks = group()
    del disks["B"]
    assert skip_in(disks, SKIP._replace(without=frozenset("b"))) == {"A": True, "C": False}


def test_machine_of_index_has_the_settings_of_its_folder():
    config = Config(jobs=7, levels=(Level(3, 4), Level(5, 6)))
    disk = segment_of("a", Save(1, 2, "", 1, (Entry(2, COMMAND, bytes(8) + b"nonsense"),)))
    asyncio.run(identity.write(disk, FolderIdentity("old", "a", ("a",), settings(config))))
    content = asyncio.run(checked(disk))
    assert machine_of(content).settings == settings(config)
    with pytest.raises(CannotApply, match="entry 1 of term 2, a command of 16 bytes: the machine cannot apply it: Unknown"):
        replay(content, machine_of(content))
    with pytest.raises(OtherSettings, match="were applied with jobs=7 .*, and the machine has jobs=10000"):
        replay(content, replicated.machine(Config()))
    with pytest.raises(OtherSettings, match="are not the settings of an index"):
        machine_of(content._replace(whose=FolderIdentity("old", "a", (), "x=1")))


def test_state_that_cannot_be_dumped_is_named():
    content = asyncio.run(checked(segment_of("a", saved(1, b"1"))))
    machine = FAILS._replace(dump=lambda value: 1 // 0)
    with pytest.raises(BadState, match="the machine cannot dump its state after entry 1: ZeroDivisionError"):
        try_dump(content, machine, replay(content, machine))

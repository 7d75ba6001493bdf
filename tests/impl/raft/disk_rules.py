"""The rules of every Disk, as coroutines on a fresh one: for the disk in a folder and for those in memory.

Crashes are not among it: a test that runs on a real folder cannot end the machine.
"""

import pytest

from highwater.impl.node_world import Disk, FileMissing


async def bytes_are_read_as_they_were_written(disk: Disk) -> None:
    await disk.create("a")
    assert await disk.read("a") == b""
    await disk.append("a", b"one")
    await disk.append("a", b"two")
    assert await disk.read("a") == b"onetwo"
    await disk.sync("a")
    assert await disk.read("a") == b"onetwo"


async def names_are_sorted(disk: Disk) -> None:
    await disk.lock()
    for name in ("b", "a", "c"):
        await disk.create(name)
    await disk.sync_names()
    assert await disk.names() == ["a", "b", "c"]


async def create_empties_a_file(disk: Disk) -> None:
    await disk.create("a")
    await disk.append("a", b"old")
    await disk.create("a")
    await disk.append("a", b"new")
    assert await disk.read("a") == b"new"


async def truncate_cuts_and_appends_go_on_there(disk: Disk) -> None:
    await disk.create("a")
    await disk.append("a", b"onetwo")
    await disk.truncate("a", 3)
    await disk.append("a", b"!")
    assert await disk.read("a") == b"one!"


async def rename_replaces(disk: Disk) -> None:
    for name in ("a", "b"):
        await disk.create(name)
        await disk.append(name, name.encode())
    await disk.rename("a", "b")
    assert await disk.names() == ["b"] and await disk.read("b") == b"a"
    await disk.append("b", b"!")
    assert await disk.read("b") == b"a!"
    await disk.create("a")
    assert await disk.read("a") == b"" and await disk.read("b") == b"a!"


async def remove_removes(disk: Disk) -> None:
    await disk.create("a")
    await disk.append("a", b"x")
    await disk.remove("a")
    assert await disk.names() == []
    await disk.create("a")
    assert await disk.read("a") == b""


async def missing_files_are_told(disk: Disk) -> None:
    for call in (disk.read("x"), disk.append("x", b""), disk.truncate("x", 0), disk.sync("x"), disk.rename("x", "y"),
                 disk.remove("x")):
        with pytest.raises(FileMissing):
            await call
    assert await disk.names() == []


RULES = (bytes_are_read_as_they_were_written, names_are_sorted, create_empties_a_file, truncate_cuts_and_appends_go_on_there,
         rename_replaces, remove_removes, missing_files_are_told)

"""Safety: the files that a level's marker names were written whole and are read unchanged; nothing else in the folder is read.

    explore.json      the search's description, the number of partitions, and how many runs of the program have written here
    levels/12.json    depth 12 is complete: a `Level`; written last, in one step
    files/            sorted states, packed, as 64-bit integers, lowest byte first; and moves of pairs, lists of such integers
    .lock             one program at a time

The name of a file contains the number of the run that wrote it. A worker of an earlier run, killed or forgotten, may still
write files; nobody reads them.
"""

import json
import zlib
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from highwater.model.explore.disk.own_folder import own
from highwater.model.explore.wide import Learnt
from highwater.outside import document_of, json_of

VERSION = 1  # the version of the folder's format
OURS = (".lock", ".explore.json")
PIECE = 1 << 20  # states that are checked at once


class Refused(Exception):
    """The folder is not for this search, or is damaged; the message is one line."""


class Part(NamedTuple):
    """The expected size and checksum of one file."""

    name: str
    count: int  # the number of integers  # pyright: ignore[reportIncompatibleMethodOverride]
    crc: int


class Level(NamedTuple):
    """The facts known once all states of this depth are: for each partition its new states and the runs of all states it has
    seen."""

    depth: int
    states: int  # all so far, including this level's
    transitions: int  # those from earlier levels
    widest: int
    ends: int
    widths: list[int]  # of the fields of its states, and of the runs
    sizes: list[int]  # how many numbers each part has
    pairs: Part | None  # the pairs that were new in this level, with their moves
    chain: int  # a checksum of all pairs so far
    new: list[Part | None]
    seen: list[list[Part]]


# --- states

def write(folder: Path, name: str, mark: str, chunks: Iterable[np.ndarray]) -> Part:
    """Write all chunks to one file, which gets its name only when it is whole. `mark` identifies the writer. Raises OSError."""
    half, count, crc = folder / "files" / f".{name}.{mark}", 0, 0
    try:
        with open(half, "wb") as file:
            for chunk in chunks:
                data = np.ascontiguousarray(chunk, "<i8").data.cast("B")
                file.write(data)
                count, crc = count + len(chunk), zlib.crc32(data, crc)
        half.replace(folder / "files" / name)
    except BaseException:
        half.unlink(missing_ok=True)  # a full disk has the more room
        raise
    return Part(name, count, crc)


def read(folder: Path, part: Part | None) -> np.ndarray:
    """Return the integers of a file. Raises Refused if the file is missing or has another length."""
    if part is None or not part.count:
        return np.zeros(0, np.int64)
    path = folder / "files" / part.name
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        raise Refused(f"{path} is missing: start anew, in a new folder") from None
    if size != 8 * part.count:
        raise Refused(f"{path} is damaged ({size} bytes, not {8 * part.count}): start anew, in a new folder")
    return np.asarray(np.memmap(path, "<i8", "r"))


def checked(folder: Path, part: Part | None) -> np.ndarray:
    """Return the integers of a file after verifying its checksum. Raises Refused."""
    array, crc = read(folder, part), 0
    for at in range(0, len(array), PIECE):
        crc = zlib.crc32(array[at:at + PIECE].data.cast("B"), crc)
    if part is not None and crc != part.crc:
        raise Refused(f"{folder / 'files' / part.name} is damaged (its checksum differs): start anew, in a new folder")
    return array


# --- pairs

def joined(lists: list[np.ndarray]) -> np.ndarray:
    """Join several lists into one."""
    return np.concatenate(([len(lists)], [len(array) for array in lists], *lists)).astype(np.int64)


def split(array: np.ndarray) -> list[np.ndarray]:
    """Split a joined list into its lists."""
    number = int(array[0])
    return np.split(array[1 + number:], np.cumsum(array[1:1 + number])[:-1])


def pairs_as_list(learnt: list[Learnt]) -> np.ndarray:
    return joined([array.ravel() for of_process in learnt for array in of_process])


def pairs_of_list(array: np.ndarray) -> list[Learnt]:
    lists = split(array)
    return [Learnt._make((*lists[at:at + 3], lists[at + 3].reshape(-1, 2))) for at in range(0, len(lists), 4)]


def chained(before: int, pairs: Part | None, sizes: list[int], widths: list[int]) -> int:
    return zlib.crc32(json.dumps([before, pairs and pairs[1:], sizes, widths]).encode())


# --- markers

def place(folder: Path, depth: int) -> Path:
    return folder / "levels" / f"{depth}.json"


def commit(folder: Path, level: Level) -> None:
    write_json(place(folder, level.depth), level._asdict())


def level_at(folder: Path, depth: int) -> Level:
    """Return the level at this depth. Raises Refused."""
    path = place(folder, depth)
    try:
        said = json_of(document_of(path))
        level = Level(**said)
        return level._replace(pairs=part_of(level.pairs), new=[part_of(part) for part in level.new],
                              seen=[[part_of(part) for part in parts] for parts in level.seen])
    except FileNotFoundError:
        raise Refused(f"{path} is missing: start anew, in a new folder") from None
    except (ValueError, TypeError) as error:
        raise Refused(f"{path} is damaged ({error}): start anew, in a new folder") from None


def part_of(said: Any) -> Any:
    """Return the Part that a list of its fields is; None for None."""
    return said and Part(*said)


def depth_of(folder: Path) -> int:
    """Return the depth of the last level; -1 if there is none. Raises Refused."""
    depths = sorted(int(path.stem) for path in (folder / "levels").glob("*.json") if path.stem.isdecimal())
    for wanted, there in enumerate(depths):
        if wanted != there:
            raise Refused(f"{place(folder, wanted)} is missing: start anew, in a new folder")
    return len(depths) - 1


def tidied(folder: Path, named: set[str]) -> None:
    """Delete the files that no level names; a killed run left them."""
    for path in sorted((folder / "files").iterdir()):
        if path.name not in named:
            path.unlink(missing_ok=True)


# --- the folder

@contextmanager
def opened(folder: Path, what: dict, partitions: int | None, usual: int) -> Generator[tuple[int, int], None, None]:
    """Open the folder for this program alone, and make it if it is missing.

    Yields the number of partitions and the number of this run. Raises Refused.
    """
    label = folder / "explore.json"
    with own(folder, label.name, OURS, "exploration", Refused):
        said = read_label(label) if label.exists() else {
            "version": VERSION, "what": what, "partitions": partitions or usual, "run": 0}
        if said["version"] != VERSION:
            raise Refused(f"{folder} is of version {said['version']!r}, and this program reads {VERSION}: give a new folder")
        if differing := [name for name in what if said["what"].get(name) != what[name]]:
            raise Refused(f"{folder} holds another exploration (" + "; ".join(
                f"{name} {said['what'].get(name)}, not {what[name]}" for name in differing) + "): give a new folder")
        if partitions not in (None, said["partitions"]):
            raise Refused(f"{folder} has {said['partitions']} partitions, not {partitions}: give as many, or a new folder")
        write_json(label, said | {"run": said["run"] + 1})
        for path in (folder / "levels", folder / "files"):
            path.mkdir(exist_ok=True)
        yield said["partitions"], said["run"] + 1


def read_label(label: Path) -> dict:
    """Return the folder's label. Raises Refused."""
    try:
        said = json_of(document_of(label))
        known = {"version": said["version"], "what": dict(said["what"]), "partitions": int(said["partitions"]),
                 "run": int(said["run"])}
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise Refused(f"{label} is damaged ({type(error).__name__}: {error}): start anew, in a new folder") from None
    return known


def write_json(path: Path, value: object) -> None:
    half = path.with_name(f".{path.name}")
    half.write_text(json.dumps(value) + "\n")
    half.replace(path)

"""Safety: the result of a task depends on its files alone, so a task may run twice, on any worker.

These are the tasks of an external search (model/explore/disk/search.py). Each handles one partition, reads the files that the
level's marker names, and writes files of its own. A worker holds the tables of moves, read from the folder and kept between
tasks, and some million states at a time, however many its partition has.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from highwater.model.explore.disk import files
from highwater.model.explore.disk.files import Part, Refused
from highwater.model.explore.wide import BLOCK, GROWTH, Tables, blocks, distinct, field, moved, placed, without

MOST = 1 << 22  # states in hand at once
MIX = 0x9E3779B97F4A7C15  # odd; its powers tell the fields apart


class Kept(NamedTuple):
    folder: str
    depth: int
    chain: int
    tables: Tables


KEPT: list[Kept] = []  # at most one


def do(work: str, task: dict, mark: str) -> dict:
    """Run one task by its name; an error is returned as one line, under `failed`. `mark` is unique to each attempt."""
    try:
        folder = Path(task["folder"])
        if not (folder / "explore.json").is_file():
            raise Refused(f"{folder} is not there for a worker: give --out a folder that driver and workers share")
        return WORK[work](**task | {"folder": folder}, mark=mark)
    except Refused as error:
        return {"failed": str(error), "refused": True}
    except OSError as error:
        return {"failed": f"{error.filename or task['folder']}: {error.strerror or error}", "refused": False}


# --- the tables

def tables_at(folder: Path, depth: int) -> Tables:
    """Return the tables that were known when this level was complete."""
    kept = KEPT.pop() if KEPT else None
    if kept and (kept.folder != str(folder) or kept.depth > depth or files.level_at(folder, kept.depth).chain != kept.chain):
        kept = None
    tables, chain = (kept.tables, kept.chain) if kept else (None, 0)
    for number in range(kept.depth + 1 if kept else 0, depth + 1):
        level = files.level_at(folder, number)
        tables = tables or Tables(len(level.widths))
        tables.room(level.sizes)
        if tables.widths != level.widths:
            tables.stand(level.widths)
        if level.pairs:
            tables.learn(files.pairs_of_list(files.checked(folder, level.pairs)))
        chain = level.chain
    assert tables is not None  # the kept ones, or those of level 0
    KEPT.append(Kept(str(folder), depth, chain, tables))
    return tables


# --- from a level to the next

def expand(folder: Path, depth: int, partition: int, run: int, mark: str) -> dict:
    """Write the successors of a partition's states, by their partition. The file has the offsets of the partitions, then the
    states."""
    level, tables = files.level_at(folder, depth), tables_at(folder, depth)
    written, following, held, transitions, widest, ends = [], [], 0, 0, 0, 0

    def flush() -> None:
        states = spread(distinct(np.concatenate(following)), tables.widths, len(level.new))
        written.append(files.write(folder, f"follow-{depth}-{partition}-{len(written)}.r{run}", mark, states))

    for block in blocks(files.checked(folder, level.new[partition])):
        rows = tables.rows(block)
        if tables.unknown(block, rows):
            raise Refused(f"{folder / 'levels'}/{depth}.json does not belong to its states: start anew, in a new folder")
        degrees = tables.degrees(rows)
        transitions, widest = transitions + int(degrees.sum()), max(widest, int(degrees.max()))
        ends += len(degrees) - int(np.count_nonzero(degrees))
        if successors := [states for _, states in tables.steps(block, rows)]:
            following.append(distinct(np.concatenate(successors)))
            held += len(following[-1])
        if held > MOST:
            flush()
            following, held = [], 0
    if following:
        flush()
    return {"files": written, "transitions": transitions, "widest": widest, "ends": ends}


def spread(states: np.ndarray, widths: list[int], partitions: int) -> list[np.ndarray]:
    """Return the offset of each partition's states and the end, and the states, still sorted within each partition."""
    whose = owners(states, widths, partitions)
    starts = np.concatenate(([0], np.cumsum(np.bincount(whose, minlength=partitions))))
    return [starts, states[np.argsort(whose, kind="stable")]]


def owners(states: np.ndarray, widths: list[int], partitions: int) -> np.ndarray:
    """Return each state's partition: a hash of the numbers of its parts, independent of the fields' widths."""
    mixed, shifts = np.zeros(len(states), np.uint64), placed(widths)
    for part in range(len(widths)):
        mixed += field(states, widths, shifts, part).view(np.uint64) * np.uint64(pow(MIX, part + 1, 1 << 64))
    return ((mixed >> np.uint64(32)) * np.uint64(partitions) >> np.uint64(32)).astype(np.uint16)


def merge(folder: Path, depth: int, partition: int, run: int, mark: str) -> dict:
    """Write the successors that a partition has not seen: its part of the next level. Also return the pairs that are new."""
    level, tables = files.level_at(folder, depth), tables_at(folder, depth)
    expanded = json.loads((folder / "files" / f"expanded.r{run}").read_text())
    pieces = [of_partition(files.read(folder, Part(*part)), partition, len(level.new)) for part in expanded]
    seen = [files.read(folder, part) for part in level.seen[partition]]
    unknown = [[np.zeros(0, np.int64)] for _ in tables.moves]

    def fresh() -> Iterator[np.ndarray]:
        for together in slices([piece for piece in pieces if len(piece)], MOST):
            states = distinct(np.concatenate(together))
            for states_seen in seen:
                states = without(states, states_seen)
            for block in blocks(states):
                for known, more in zip(unknown, tables.unknown(block, tables.rows(block)) or ()):
                    known.append(more)
            yield states

    name = f"{depth + 1}-{partition}.r{run}"
    new = files.write(folder, f"new-{name}", mark, fresh())
    pairs = files.write(folder, f"unknown-{name}", mark, [files.joined([np.unique(np.concatenate(of)) for of in unknown])])
    return {"new": new, "unknown": pairs,
            "seen": run_together(folder, [*level.seen[partition], new] if new.count else level.seen[partition], name, mark)}


def of_partition(array: np.ndarray, partition: int, partitions: int) -> np.ndarray:
    """Return the part of an `expand` file that belongs to this partition."""
    begin, end = array[partition:partition + 2].tolist()
    return array[partitions + 1 + begin:partitions + 1 + end]


def run_together(folder: Path, runs: list[Part], name: str, mark: str) -> list[Part]:
    """Merge the last runs into one until the run before is long enough."""
    first, length = len(runs), 0
    while first and (not length or runs[first - 1].count < GROWTH * length):
        first -= 1
        length += runs[first].count
    if len(runs) - first < 2:
        return runs
    pieces = [files.read(folder, part) for part in runs[first:]]
    together = (np.sort(np.concatenate(of), kind="stable") for of in slices(pieces, MOST))
    return [*runs[:first], files.write(folder, f"seen-{name}", mark, together)]


def slices(arrays: list[np.ndarray], most: int) -> Iterator[list[np.ndarray]]:
    """Yield slices of sorted arrays, from the least values to the greatest, about `most` values together.

    Equal values are in the same slice.
    """
    if sum(map(len, arrays)) <= most:
        if arrays:
            yield arrays
        return
    step = max(1, most // (4 * len(arrays)))
    samples = np.sort(np.concatenate([array[step::step] for array in arrays]))
    cuts = np.unique(samples[::max(1, 3 * most // (4 * step))])
    places = [[0, *np.searchsorted(array, cuts).tolist(), len(array)] for array in arrays]
    for number in range(len(cuts) + 1):
        if together := [array[at[number]:at[number + 1]] for array, at in zip(arrays, places) if at[number] < at[number + 1]]:
            yield together


def widen(folder: Path, depth: int, partition: int, run: int, mark: str) -> dict:
    """Rewrite a partition's new states and runs with wider fields, before the level is committed."""
    said = json.loads((folder / "files" / f"widening.r{run}").read_text())
    before, after = said["widths"]
    done: dict[str, Part] = {}

    def anew(part: list) -> Part:
        name = f"{part[0].partition('.')[0]}w{depth}.r{run}"
        if name not in done:
            states = files.checked(folder, Part(*part))
            done[name] = files.write(folder, name, mark, (moved(block, before, after) for block in blocks(states)))
        return done[name]

    return {"new": anew(said["new"][partition]), "seen": [anew(part) for part in said["seen"][partition]]}


# --- once, and backwards

def check(folder: Path, depth: int, partition: int, run: int, mark: str) -> dict:
    """Check that the files to resume from are intact."""
    level = files.level_at(folder, depth)
    for part in (level.new[partition], *level.seen[partition]):
        files.checked(folder, part)
    return {}


def violating(folder: Path, depth: int, partition: int, run: int, mark: str, pairs: list[list[int]]) -> dict:
    """The least of the level's states that have, for some process, one of its pairs."""
    tables, wanted = tables_at(folder, depth), [np.array(of_process, np.int64) for of_process in pairs]
    for block in blocks(files.read(folder, files.level_at(folder, depth).new[partition])):
        if len(found := tables.breaking(block, wanted)):
            return {"state": int(found[0])}
    return {"state": None}


def before(folder: Path, depth: int, partition: int, run: int, mark: str, at: int, state: int) -> dict:
    """The least of the states at depth `at` that lead to this one, all as the level of `depth` has them."""
    tables, level = tables_at(folder, depth), files.level_at(folder, at)
    for block in blocks(files.checked(folder, level.new[partition])):
        states = moved(block, level.widths, tables.widths)
        if found := [int(from_[after == state].min()) for from_, after in tables.steps(states, tables.rows(states))
                     if (after == state).any()]:
            return {"state": min(found)}
    return {"state": None}


WORK = {"expand": expand, "merge": merge, "widen": widen, "check": check, "violating": violating, "before": before}
assert MOST > BLOCK

"""Pack events by part and unpack them by run. Safety: each event of a run arrives exactly once, in the order of its index.

Most events differ from others only in time and request number. So the other fields, the rest, are stored once. An event is four
numbers: index, time, request, and the place of its rest. Packets use marshal, the fastest format, so all processes must run the
same Python.
"""

from collections.abc import Iterable, Iterator
from marshal import dumps, loads
from typing import NamedTuple
from zlib import crc32

import numpy as np

LAST = SPAN = 1 << 62
Run = tuple[str, str]  # run, namespace


class Group(NamedTuple):
    """The fields that all events of one run should share."""

    run: str
    namespace: str
    protocol: str
    options: str
    indexed: bool  # if False, an event's place in the file is its index


class Read(NamedTuple):
    """The events of one split. `damage` lists runs that cannot be judged: the run, a number that rises through the input, the
    reason."""

    groups: list[Group]
    rests: list[tuple]  # Event's fields from the third on, in the order of first occurrence
    numbers: np.ndarray  # 5 rows of int64: place in `groups`, index, t_ms, request, place in `rests`
    damage: list[tuple[Run, int, str]]


def part_of(run: Run, parts: int) -> int:
    return crc32("\0".join(run).encode(errors="surrogatepass")) % parts


def packets(read: Read, parts: int) -> Iterator[tuple[int, bytes]]:
    """Yield (part, packet) for each part that has events or damage."""
    of_group = np.array([part_of(group[:2], parts) for group in read.groups], np.int64)
    of_event = of_group[read.numbers[0]] if read.groups else np.zeros(0, np.int64)
    order = np.argsort(of_event, kind="stable")
    ends = np.searchsorted(of_event[order], np.arange(parts + 1))
    damaged: dict[int, list] = {}
    for one in read.damage:
        damaged.setdefault(part_of(one[0], parts), []).append(one)
    for part in range(parts):
        of_part = order[ends[part]:ends[part + 1]]
        if len(of_part) or part in damaged:
            numbers = read.numbers[:, of_part]
            groups, numbers[0] = np.unique(numbers[0], return_inverse=True)
            rests, numbers[4] = np.unique(numbers[4], return_inverse=True)
            yield part, dumps(([tuple(read.groups[i]) for i in groups], [read.rests[i] for i in rests],
                               [narrow(row) for row in numbers], damaged.get(part, [])))


def narrow(row: np.ndarray) -> tuple[str, bytes]:
    """Encode a row with as few bytes a number as its largest value needs: packets go through disks and Spark's shuffle."""
    if len(row) and row.min() >= 0:
        most = row.max()
        for kind, limit in (("u1", 1 << 8), ("u2", 1 << 16), ("u4", 1 << 32)):
            if most < limit:
                return kind, row.astype(kind).tobytes()
    return "i8", row.tobytes()


class Unpacked(NamedTuple):
    """One run. `numbers`: t_ms, request and place in `rests` of each event, in order. `damage`: why the run cannot be judged,
    or ""."""

    run: Run
    protocol: str
    options: str
    numbers: tuple[list[int], list[int], list[int]]
    damage: str


def unpacked(payloads: Iterable[bytes], rests: list[tuple], known: dict[tuple, int]) -> Iterator[Unpacked]:
    """Yield the runs of a part, sorted by name. New rests are added to `rests` and to `known`, its inverse."""
    runs: dict[Run, int] = {}
    groups: dict[Run, list[tuple]] = {}
    damage: dict[Run, list[tuple[int, str]]] = {}
    arrays = []
    for payload in payloads:
        of_groups, of_rests, packed, damaged = loads(payload)
        numbers = np.array([np.frombuffer(row, kind) for kind, row in packed], np.int64)
        numbers[0] = np.array([runs.setdefault(group[:2], len(runs)) for group in of_groups], np.int64)[numbers[0]]
        numbers[4] = np.array([number_of(rest, rests, known) for rest in of_rests], np.int64)[numbers[4]]
        arrays.append(numbers)
        for group in of_groups:
            groups.setdefault(group[:2], []).append(group)
        for run, where, why in damaged:
            damage.setdefault(run, []).append((where, why))
    of_run, index, *numbers = np.concatenate(arrays, axis=1) if arrays else np.zeros((5, 0), np.int64)
    order = in_order(of_run, index)
    of_run, index, numbers = of_run[order], index[order], [one[order].tolist() for one in numbers]
    twice = np.flatnonzero((of_run[1:] == of_run[:-1]) & (index[1:] == index[:-1]))
    names = list(runs)
    for i in twice.tolist():
        damage.setdefault(names[of_run[i]], []).append((LAST, f"two events have the index {index[i]}"))
    ends = np.searchsorted(of_run, np.arange(len(runs) + 1)).tolist()
    times, requests, of_rests = numbers
    for run in sorted(runs.keys() | damage.keys()):
        at = runs.get(run)
        low, high = (ends[at], ends[at + 1]) if at is not None else (0, 0)
        of = groups.get(run) or [(*run, "", "")]
        why = min(damage[run])[1] if run in damage else differing(of) if len(of) > 1 else ""
        yield Unpacked(run, of[0][2], of[0][3], (times[low:high], requests[low:high], of_rests[low:high]), why)


def in_order(of_run: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Return the order by run, then by index. A single sort key is fast, because most events are already in order."""
    if not len(index):
        return np.zeros(0, np.int64)
    least, most = int(index.min()), int(index.max())
    if (int(of_run.max()) + 1) * (most - least + 1) > SPAN:
        return np.lexsort((index, of_run))
    return np.argsort(of_run * (most - least + 1) + (index - least), kind="stable")


def number_of(rest: tuple, rests: list[tuple], known: dict[tuple, int]) -> int:
    number = known.setdefault(rest, len(rests))
    if number == len(rests):
        rests.append(rest)
    return number


def differing(groups: list[tuple]) -> str:
    """Describe the field that should be the same in all events of a run but is not; "" if there is none."""
    those = [Group(*group) for group in groups]
    for name in ("protocol", "options"):
        values = sorted({getattr(group, name) for group in those})
        if len(values) > 1:
            return f"its events have different {name}: {values[0]!r} and {values[1]!r}"
    return "some of its events have an index, and some have none" if len({group.indexed for group in those}) > 1 else ""



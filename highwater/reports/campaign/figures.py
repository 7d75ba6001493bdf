"""Safety: the figures of a campaign are a function of its committed rows, each counted once. The campaign may be running,
stopped, or of other code. Nothing is written.

Rows are read about 100,000 at a time and summarised at once. Only a few numbers of each seed and the hashes of the sketches
stay in memory.
"""

# pyarrow.compute makes its functions when it is imported
# pyright: reportAttributeAccessIssue=false

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from highwater.dst.campaign.folder import (
    Asked,
    check_rows,
    commit_in,
    covered,
    damage,
    is_running,
    labelled,
    summary_in,
    within,
)
from highwater.dst.campaign.rows import SCHEMA
from highwater.dst.campaign.what import UNJUDGED, Campaign, Refused, Seeds, replay_of
from highwater.dst.search.reached import bits
from highwater.dst.search.sketch import SAMPLE
from highwater.dst.version import code_version

COLUMNS = ("seed", "strategy", "profile", "kind", "signature", "requests", "steps", "virtual_ms", "reached", "faults",
           "model_states", "model_steps", "cpu_us")
AT_ONCE = 100_000  # rows
UNION = 4_000_000  # hashes to collect before they are counted
POINTS = 200  # of a curve
PHASES = {"timeout": ("applied", "later", "never"), "crash": ("applied", "later", "never"), "503": ("never",),
          "409": ("never",), "403": ("never",)}  # fault -> the phases that its request can have
OF_MUTATIONS = ("409", "429")  # reads get neither answer: they do not conflict, and are not limited
READS = ("get", "get_range", "get_if_changed", "head", "list")


class Cell(NamedTuple):
    """Counts of the runs of one strategy and one profile. `unjudged`: seeds without a verdict."""

    strategy: str
    profile: str
    runs: int
    failed: int
    unjudged: int
    cpu_us: int


class Failed(NamedTuple):
    kind: str
    signature: str
    count: int
    seed: int  # the smallest
    message: str
    replay: str
    strategies: dict[str, int]


class Growth(NamedTuple):
    """The growth of model coverage, estimated by sketches of a sample of runs and a sample of states.

    `points`: (seeds, distinct hashes so far). `last_tenth`: the share of hashes that the last tenth of the seeds added.
    `next_run`: the expected new hashes of one more run (Good-Turing: hashes that only one run reached, divided by runs)."""

    points: list[tuple[int, int]]
    total: int
    last_tenth: float
    next_run: float


class Figures(NamedTuple):
    out: Path
    campaign: Campaign
    asked: Asked
    commit: str  # of the campaign's code; "": not known
    here: bool  # whether the current code is the campaign's
    running: bool | None  # None: unknown, for a copy of a bucket
    done: int
    left: int
    requests: int
    steps: int
    virtual_ms: int
    cells: list[Cell]
    failures: list[Failed]
    witnesses: dict[str, tuple[int, int]] | None  # in how many runs, and the first (-1); None: of other code, and unfinished
    faults: dict[tuple[str, str, str], int]  # (fault, operation, phase) -> how often
    states: Growth
    model_steps: Growth
    sketched: int  # runs
    cpu_us: tuple[float, float, float]  # of a run: mean, median, 99 of 100
    seeds_per_s: float  # in the median wave; 0: too few waves
    ended_s: float  # when the last wave was committed, since 1970; 0: none was

    @property
    def judged(self) -> int:
        return sum(cell.runs - cell.unjudged for cell in self.cells)

    @property
    def failed(self) -> int:
        return sum(cell.failed for cell in self.cells)

    @property
    def unjudged(self) -> int:
        return sum(cell.unjudged for cell in self.cells)


def figures(out: Path) -> Figures:
    """Compute the figures of the committed rows. Raises Refused for another folder, CampaignError for a damaged file."""
    campaign, asked = labelled(out)
    try:
        return summed(out, campaign, asked)
    except (pa.ArrowException, OSError) as error:
        raise damage(out, list(COLUMNS), error) from error


def summed(out: Path, campaign: Campaign, asked: Asked) -> Figures:
    running, summary = is_running(out), summary_in(out)  # before rows are read: what has come since is more
    here = campaign.code == code_version()
    names = bits(campaign.scenario) if here else {}
    cells: dict[tuple[str, str], list[int]] = {}
    signatures: dict[tuple[str, str], list] = {}
    faults, waves, sums = Counter(), Counter(), Counter()
    hits: dict[str, tuple[int, int]] = dict.fromkeys(names, (0, -1))
    seeds, cpu = [], []
    states, steps = Union(), Union()
    those = covered(asked, summary)
    for table in tables(out, those):
        for row in of_each(table):
            add_row(row, cells, signatures)
        sums.update({name: pc.sum(table[name]).as_py() for name in ("requests", "steps", "virtual_ms")})
        seeds.append(table["seed"].to_numpy())
        cpu.append(table["cpu_us"].to_numpy())
        hits = {name: added(hits[name], seeds[-1][table["reached"].to_numpy() & bit != 0]) for name, bit in names.items()}
        faults.update(befallen(table["faults"]))
        states.add(table["model_states"], seeds[-1])
        steps.add(table["model_steps"], seeds[-1])
        waves.update({row["values"]: row["counts"] for row in pc.value_counts(table["wave"]).to_pylist()})
    all_seeds = np.sort(np.concatenate(seeds)) if seeds else np.empty(0, np.int64)
    left = those[1] - those[0] - len(all_seeds)
    check_rows(out, all_seeds, left, summary)
    rate, ended_s = of_waves(out, waves)
    return Figures(out, campaign, asked, commit_in(out), here, running, len(all_seeds), left,
                   sums["requests"], sums["steps"], sums["virtual_ms"],
                   [Cell(*key, *counts) for key, counts in sorted(cells.items())],
                   failures_of(out, campaign, signatures, summary), hits if here else witnesses_of(summary),
                   {tuple(name.split(" ")): times for name, times in sorted(faults.items())},
                   states.growth(all_seeds), steps.growth(all_seeds), states.runs, of_cpu(cpu), rate, ended_s)


def tables(out: Path, seeds: Seeds) -> Iterator[pa.Table]:
    """Yield the rows of these seeds in large tables, with the number of their wave."""
    if not (out / "rows").is_dir():
        return
    wave = pa.schema([("wave", pa.int64())])
    rows = ds.dataset(out / "rows", schema=pa.unify_schemas([SCHEMA, wave]), format="parquet",
                      partitioning=ds.partitioning(wave, flavor="hive"))
    batches, size = [], 0
    for batch in rows.to_batches(columns=[*COLUMNS, "wave"], filter=within(seeds), batch_readahead=4,
                                 fragment_readahead=4):
        batches.append(batch)
        size += batch.num_rows
        if size >= AT_ONCE:
            yield pa.Table.from_batches(batches).combine_chunks()
            batches, size = [], 0
    if size:
        yield pa.Table.from_batches(batches).combine_chunks()


def of_each(table: pa.Table) -> list[dict]:
    return table.group_by(["strategy", "profile", "kind", "signature"]).aggregate(
        [("seed", "count"), ("seed", "min"), ("cpu_us", "sum")]).to_pylist()


def add_row(row: dict, cells: dict, signatures: dict) -> None:
    """Add a group of rows to the counts of its strategy and profile, and of its signature."""
    cell = cells.setdefault((row["strategy"], row["profile"]), [0, 0, 0, 0])
    unjudged = row["kind"] in UNJUDGED
    for place, more in enumerate((row["seed_count"], row["seed_count"] * (bool(row["kind"]) and not unjudged),
                                  row["seed_count"] * unjudged, row["cpu_us_sum"])):
        cell[place] += more
    if row["kind"]:
        found = signatures.setdefault((row["kind"], row["signature"]), [0, row["seed_min"], Counter()])
        found[0] += row["seed_count"]
        found[1] = min(found[1], row["seed_min"])
        found[2][row["strategy"]] += row["seed_count"]


def added(before: tuple[int, int], seeds: np.ndarray) -> tuple[int, int]:
    if not len(seeds):
        return before
    first = int(seeds.min())
    return before[0] + len(seeds), first if before[1] < 0 else min(first, before[1])


def befallen(faults: pa.ChunkedArray) -> dict[str, int]:
    maps = [chunk for chunk in faults.chunks if len(chunk)]
    if not maps:
        return {}
    keys, items = (pa.concat_arrays([getattr(of, name) for of in maps]) for name in ("keys", "items"))
    entries = pa.table({"what": keys, "times": items})
    return {row["what"]: row["times_sum"] for row in entries.group_by("what").aggregate([("times", "sum")]).to_pylist()}


def failures_of(out: Path, campaign: Campaign, signatures: dict[tuple[str, str], list], summary: dict) -> list[Failed]:
    """List the kinds of failure, the most frequent first."""
    first = [seed for _, seed, _ in signatures.values()]
    rows = ds.dataset(out / "rows", schema=SCHEMA, format="parquet").to_table(
        columns=["seed", "message"], filter=ds.field("seed").isin(first)).to_pylist() if first else []
    messages = {row["seed"]: row["message"] for row in rows}
    found = [Failed(*key, count, seed, messages[seed], replay_of(campaign, seed), dict(sorted(by.items())))
             for key, (count, seed, by) in signatures.items()]
    found += [Failed(of["kind"], of["signature"], of["count"], of["smallest_seed"], of["message"], of["replay"], {})
              for of in summary.get("failures", [])
              if (of["kind"], of["signature"]) not in signatures]  # that only a second run shows
    return sorted(found, key=lambda f: (-f.count, f.seed))


def witnesses_of(summary: dict) -> dict[str, tuple[int, int]] | None:
    """Return the witnesses by the names of the campaign's own code; None if they are unknown."""
    if not summary:
        return None
    reached: dict[str, tuple[int, int]] = {name: (of["runs"], of["smallest_seed"]) for name, of in summary["reached"].items()}
    return reached | dict.fromkeys(summary["never"], (0, -1))


def of_cpu(parts: list[np.ndarray]) -> tuple[float, float, float]:
    cpu = np.concatenate(parts) if parts else np.zeros(1)
    return float(cpu.mean()), float(np.median(cpu)), float(np.percentile(cpu, 99))


def of_waves(out: Path, waves: Counter) -> tuple[float, float]:
    """Return the seeds per second of the median wave, and the time at which the last wave ended. A wave lasts from the end of
    its predecessor to its own, so that pauses do not count. Copied files have lost their times."""
    ended_s = {wave: (out / "rows" / f"wave={wave}").stat().st_mtime for wave in sorted(w for w in waves if w is not None)}
    rates = [waves[wave] / (ended_s[wave] - ended_s[wave - 1]) for wave in ended_s
             if wave - 1 in ended_s and ended_s[wave] > ended_s[wave - 1]]
    return float(np.median(rates)) if rates else 0.0, max(ended_s.values(), default=0.0)


def cells_of(faults: dict[tuple[str, str, str], int]) -> dict[tuple[str, str, str], int]:
    """Fill in 0 for possible faults that did not occur: of operations that had a fault, and of answers that occurred."""
    ops, others = sorted({op for _, op, _ in faults}), sorted({fault for fault, _, _ in faults} - set(PHASES))
    could = {(fault, op, phase): 0 for fault, phases in (PHASES | dict.fromkeys(others, ("never",))).items() for op in ops
             for phase in phases if fault not in OF_MUTATIONS or op not in READS}
    return could | faults


# --- coverage of the model

class Union:
    """The union of sketches: each hash, the first seed that has it, and the number of runs that have it."""

    def __init__(self) -> None:
        self.parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self.waiting, self.runs = 0, 0

    def add(self, sketches: pa.ChunkedArray, seeds: np.ndarray) -> None:
        lists = sketches.combine_chunks()
        lists = lists.chunk(0) if isinstance(lists, pa.ChunkedArray) else lists
        hashes = lists.flatten().to_numpy(zero_copy_only=False)
        first = seeds[pc.list_parent_indices(lists).to_numpy()]
        self.runs += int(pc.sum(pc.greater(pc.list_value_length(lists), 0)).as_py() or 0)
        self.parts.append(counted(hashes, first, np.ones(len(hashes), np.int64)))
        self.waiting += len(self.parts[-1][0])
        if self.waiting > UNION:
            self.merge()

    def merge(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        if len(self.parts) > 1:
            self.parts = [counted(*map(np.concatenate, zip(*self.parts)))]
        self.waiting = 0
        nothing = np.empty(0, np.int64)
        return self.parts[0] if self.parts else (nothing, nothing, nothing)

    def growth(self, seeds: np.ndarray) -> Growth:
        """Return the growth of the union. `seeds`: all sketched seeds, ascending."""
        _, first, runs = self.merge()
        first = np.sort(np.searchsorted(seeds, first))  # how many seeds are before it
        total, last = len(first), int(0.9 * len(seeds))
        after = np.unique(np.linspace(0, len(seeds), POINTS + 1).astype(np.int64))
        points = [(int(at), SAMPLE * int(n)) for at, n in zip(after, np.searchsorted(first, after))]
        return Growth(points, SAMPLE * total, float((first >= last).sum() / max(total, 1)),
                      SAMPLE * int((runs == 1).sum()) / max(self.runs, 1))


def counted(hashes: np.ndarray, first: np.ndarray, runs: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Merge equal hashes: the lowest first seed, and the sum of the runs."""
    if not len(hashes):
        return hashes, first, runs
    order = np.lexsort((first, hashes))
    hashes, first, runs = hashes[order], first[order], runs[order]
    begins = np.flatnonzero(np.concatenate(([True], hashes[1:] != hashes[:-1])))
    return hashes[begins], first[begins], np.add.reduceat(runs, begins)


# --- many campaigns

def campaigns_in(path: Path) -> Iterator[Path]:
    """Yield the campaigns' folders below `path`, at any depth. No campaign contains another."""
    for root, folders, files in os.walk(path):
        folders.sort()
        if "campaign.json" in files:
            folders.clear()
            yield Path(root)


def folders(given: list[Path]) -> list[Path]:
    """Return the campaigns' folders among and below these. Raises Refused if one has none."""
    found = []
    for path in given:
        if not path.is_dir():
            raise Refused(f"{path}: there is no such folder")
        inside = list(campaigns_in(path))
        if not inside:
            raise Refused(f"{path} is no campaign's folder, and holds none: it has no campaign.json")
        found += inside
    return list(dict.fromkeys(found))

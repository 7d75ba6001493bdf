"""Campaigns: rows a second on Spark local[2] beside two plain processes, the same seeds by turns; and what a row takes up.

Both engines are warm before anything is timed, and are told the same ranges; who is first changes from turn to turn. The
rows are compared. The scenario and its shape are those of the simulator's benchmark: 33 requests a run. SEEDS says how many
runs in all, 1,000,000 if it is not set.
"""

import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from bench.simulation import SHAPE
from highwater.dst.campaign import folder, waves
from highwater.dst.campaign.processes import local_engine
from highwater.dst.campaign.rows import SCHEMA
from highwater.dst.campaign.what import Campaign, Seeds, Work, campaign_of
from highwater.dst.spark.engine import spark_engine

CORES, WARM, TURNS = 2, 8_000, 10
EACH = int(os.environ.get("SEEDS", 1_000_000)) // (2 * TURNS)  # runs in one engine's turn
RANGE = 2_500  # seeds in a task, of both: some seconds' worth
LEAST_SHARE, LEAST_RATE, MOST_START_S = 0.9, 8_000, 10


def main() -> bool:
    """Whether the rows differ."""
    fixed = " ".join(f"{name}={int(value) if isinstance(value, bool) else value}" for name, value in SHAPE._asdict().items())
    campaign, began = campaign_of(strategy="times", shape=fixed), time.perf_counter()
    with spark_engine(CORES) as spark, local_engine(CORES) as processes, tempfile.TemporaryDirectory() as place:
        start_s, engines = time.perf_counter() - began, {"processes": processes, "spark": spark}
        for name, engine in engines.items():
            timed(engine, campaign, (0, WARM), Path(place) / name)
        turns = [turn_of(number, campaign, engines, Path(place) / str(number)) for number in range(TURNS)]
    if not all(same for *_, same in turns):
        print("the rows differ")
        return True
    for name in engines:
        rates = [EACH / took[name] for took, *_ in turns]
        print(f"{name:10} {statistics.median(rates):7,.0f} rows/s, from {min(rates):,.0f} to {max(rates):,.0f} ({TURNS} turns "
              f"of {EACH:,}); {LEAST_RATE:,} asked")
    share = statistics.median(took["processes"] / took["spark"] for took, *_ in turns)
    print(f"Spark writes {share:.1%} of the rows that plain processes write (median of pairs), {LEAST_SHARE:.0%} asked; it "
          f"started in {start_s:.1f} s, {MOST_START_S} at most asked; {turns[-1][1]:.0f} bytes a row")
    return False


def turn_of(number: int, campaign: Campaign, engines: dict[str, waves.Engine], place: Path
            ) -> tuple[dict[str, float], float, bool]:
    """Seconds of each engine, bytes a row, and whether the rows are the same."""
    seeds = WARM + number * EACH, WARM + (number + 1) * EACH
    names = sorted(engines, reverse=number % 2 > 0)
    took = {name: timed(engines[name], campaign, seeds, place / name) for name in names}
    columns = [name for name in SCHEMA.names if name != "cpu_us"]
    one, two = (folder.read(place / name, seeds, columns).sort_by("seed").to_pylist() for name in names)
    size = sum(file.stat().st_size for file in place.rglob("*.parquet")) / len(one + two)
    shutil.rmtree(place)
    return took, size, one == two


def timed(engine: waves.Engine, campaign: Campaign, seeds: Seeds, out: Path) -> float:
    """Seconds."""
    (out / "rows").mkdir(parents=True)
    cut, began = waves.Cut([seeds], CORES, RANGE), time.perf_counter()
    for _ in waves.waves(Work(campaign, 60), cut, out, engine, lambda done, failed: None):
        pass
    return time.perf_counter() - began

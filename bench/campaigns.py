"""Campaigns: rows per second on Spark local[2] and in two plain processes, and bytes per row, for drawn runs of two protocols.

Both engines are warm before the measurement and get the same ranges of seeds, by turns; the first engine changes from turn to
turn. Their rows are compared. The environment variable SEEDS sets the number of runs of a turn; the default is 150,000.
"""

import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from highwater.dst.campaign import folder, waves
from highwater.dst.campaign.place import Folder
from highwater.dst.campaign.processes import local_engine
from highwater.dst.campaign.rows import SCHEMA
from highwater.dst.campaign.what import Campaign, Seeds, Work, campaign_of
from highwater.dst.spark.engine import spark_engine
from highwater.dst.spark.session import SessionOptions

CORES, WARM, TURNS = 2, 8_000, 3
EACH = int(os.environ.get("SEEDS", 150_000))  # runs in one engine's turn
RANGE = 2_500  # seeds in a task, of both: some seconds' worth
SCENARIOS = "baseline", "sequenced_metadata_boundary"
LEAST_SHARE, MOST_START_S = 0.9, 8


def main() -> bool:
    """Print the rates. Return True if the engines' rows differ."""
    began = time.perf_counter()
    with spark_engine(SessionOptions(CORES)) as spark, local_engine(CORES) as processes:
        print(f"Spark started in {time.perf_counter() - began:.1f} s; target: at most {MOST_START_S}", flush=True)
        same = [measured(scenario, {"processes": processes, "spark": spark}) for scenario in SCENARIOS]
    return not all(same)


def measured(scenario: str, engines: dict[str, waves.Engine]) -> bool:
    """Print the rates of a scenario. Return whether the engines' rows are equal."""
    campaign = campaign_of(scenario)
    with tempfile.TemporaryDirectory() as place:
        for name, engine in engines.items():
            timed(engine, campaign, (0, WARM), Path(place) / name)
        turns = [turn_of(number, campaign, engines, Path(place) / str(number)) for number in range(TURNS)]
    if not all(same for *_, same in turns):
        print("FAILED: the engines' rows differ")
        return False
    for name in engines:
        rates = [EACH / took[name] for took, *_ in turns]
        print(f"{scenario}, {name:10} {statistics.median(rates):7,.0f} rows/s, from {min(rates):,.0f} to {max(rates):,.0f} "
              f"({TURNS} turns of {EACH:,})")
    share = statistics.median(took["processes"] / took["spark"] for took, *_ in turns)
    print(f"{scenario}: Spark's rate is {share:.1%} of that of plain processes (median of pairs; target: at least "
          f"{LEAST_SHARE:.0%}); {turns[-1][1]:.0f} bytes per row", flush=True)
    return True


def turn_of(number: int, campaign: Campaign, engines: dict[str, waves.Engine], place: Path
            ) -> tuple[dict[str, float], float, bool]:
    """Run one turn; return the seconds of each engine, the bytes per row, and whether the rows are equal."""
    seeds = WARM + number * EACH, WARM + (number + 1) * EACH
    names = sorted(engines, reverse=number % 2 > 0)
    took = {name: timed(engines[name], campaign, seeds, place / name) for name in names}
    columns = [name for name in SCHEMA.names if name != "cpu_us"]
    one, two = (folder.read(place / name, seeds, columns).sort_by("seed").to_pylist() for name in names)
    size = sum(file.stat().st_size for file in place.rglob("*.parquet")) / len(one + two)
    shutil.rmtree(place)
    return took, size, one == two


def timed(engine: waves.Engine, campaign: Campaign, seeds: Seeds, out: Path) -> float:
    """Run the seeds on one engine; return the seconds."""
    (out / "rows").mkdir(parents=True)
    cut, began = waves.Cut([seeds], lambda: CORES, RANGE), time.perf_counter()
    for _ in waves.waves(Work(campaign, 60), cut, Folder(out), engine, lambda done, failed: None):
        pass
    return time.perf_counter() - began

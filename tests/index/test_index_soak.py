"""An index of three processes under faults, for twenty seconds; `make slow` takes ten minutes."""

import asyncio
from pathlib import Path

import pytest

from tests.index.processes import cluster
from tests.index.soak import SETTINGS, Soak


def lived(folder: Path, seconds: float, seed: int) -> Soak:
    async def life() -> Soak:
        async with cluster(folder, options=SETTINGS) as three:
            soak = Soak(three, folder, seed)
            await soak.live(seconds)
            return soak

    return asyncio.run(life())


def judged(folder: Path, seconds: float, seed: int) -> Soak:
    soak = lived(folder, seconds, seed)
    counts = {**soak.counts, "data": len(soak.begun), "acknowledged": len(soak.acknowledged)}
    print(f"seed {seed}: " + ", ".join(f"{count:,} {what}" for what, count in counts.items()))
    assert not soak.wrong, (len(soak.wrong), soak.wrong[:5])
    assert len(soak.acknowledged) > 5 * seconds and soak.counts["answers"] > seconds and soak.counts["compacted"] > 0
    assert soak.counts["nodes killed"] and soak.counts["workers killed"] and soak.counts["replicas compared"]
    return soak


def test_twenty_seconds_of_faults_lose_nothing(tmp_path):
    judged(tmp_path, 20, seed=1)


@pytest.mark.slow
def test_ten_minutes_of_faults_lose_nothing(tmp_path):
    judged(tmp_path, 600, seed=2)

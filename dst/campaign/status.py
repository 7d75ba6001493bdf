"""Safety: nothing is written, and only what is committed is told of: a campaign may be running meanwhile."""

from pathlib import Path

import pyarrow.compute as pc

from dst.campaign.folder import is_running, labelled, missing, read, summary_in
from dst.campaign.summary import failures_of

LATELY = 4  # waves, of which the rate is


def status(out: Path) -> dict:
    """Raises Refused, CampaignError."""
    campaign, asked = labelled(out)
    (low, high), todo = asked.seeds, missing(out, asked.seeds)
    left = sum(hi - lo for lo, hi in todo)
    failed = read(out, asked.seeds, ["seed", "kind", "signature", "message"]).filter(pc.field("kind") != "")
    finished = bool(summary_in(out))  # it may cover less than all seeds: --stop-after
    return {**campaign._asdict(), "seeds": f"{low}:{high}", "running": is_running(out), "done": high - low - left,
            "left": 0 if finished else left, "failed": failed.num_rows, "rate": rate(out),
            "failures": failures_of(campaign, failed)}


def rate(out: Path) -> float:
    """Seeds a second in the last waves; 0 if there are too few."""
    waves = sorted((out / "rows").glob("wave=*"), key=lambda path: int(path.name.partition("=")[2]))[-LATELY:]
    if len(waves) < 2:
        return 0
    ended_s = [wave.stat().st_mtime for wave in waves]
    seeds = sum(read(wave.parent.parent, (0, 2**63 - 1), ["seed"], wave).num_rows for wave in waves[1:])
    return seeds / max(ended_s[-1] - ended_s[0], 0.001)

"""Report the status of a campaign that may be running. Safety: it writes nothing, and reports only committed rows."""

from pathlib import Path

import numpy as np
import pyarrow.compute as pc

from highwater.dst.campaign.folder import check_rows, covered, is_running, labelled, read, summary_in
from highwater.dst.campaign.summary import failures_of

LATELY = 4  # last waves, for the rate


def status(out: Path) -> dict:
    """Return the numbers that `campaign status` shows. Raises Refused or CampaignError."""
    campaign, asked = labelled(out)
    summary = summary_in(out)
    low, high = covered(asked, summary)
    rows = read(out, (low, high), ["seed", "kind", "signature", "message"])
    left = high - low - rows.num_rows
    check_rows(out, np.sort(rows["seed"].to_numpy()), left, summary)
    failed = rows.filter(pc.field("kind") != "")
    return {**campaign._asdict(), "seeds": f"{asked.seeds[0]}:{asked.seeds[1]}", "running": is_running(out),
            "done": rows.num_rows, "left": left, "failed": failed.num_rows, "rate": rate(out),
            "failures": failures_of(campaign, failed)}


def rate(out: Path) -> float:
    """Return seeds per second in the last waves; 0 if there are too few waves."""
    waves = sorted((out / "rows").glob("wave=*"), key=lambda path: int(path.name.partition("=")[2]))[-LATELY:]
    if len(waves) < 2:
        return 0
    ended_s = [wave.stat().st_mtime for wave in waves]
    seeds = sum(read(wave.parent.parent, (0, 2**63 - 1), ["seed"], wave).num_rows for wave in waves[1:])
    return seeds / max(ended_s[-1] - ended_s[0], 0.001)

"""Summarize a campaign. Safety: the summary is a function of the rows without `cpu_us`, and there is one row for each seed."""

# pyarrow.compute makes its functions when it is imported
# pyright: reportAttributeAccessIssue=false

from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from highwater.dst.campaign import rows
from highwater.dst.campaign.folder import read
from highwater.dst.campaign.what import Campaign, CampaignError, Seeds, replay_of
from highwater.dst.determinism import doctor
from highwater.dst.run_spec import protocol_words
from highwater.dst.search.reached import bits
from highwater.dst.search.sketch import SAMPLE

PIECE = 500_000  # seeds whose rows are in memory at once
MOST_IN_PROCESSES = 20  # at most this many seeds of the sample are also run in other processes
COLUMNS = ("seed", "kind", "signature", "message", "digest", "requests", "reached", "model_states", "model_steps")


def summarize(campaign: Campaign, seeds: Seeds, out: Path) -> dict:
    """Summarize failures by signature, the most frequent first. Raises CampaignError unless each seed has one row."""
    hasher, requests, failed = blake2b(digest_size=16), 0, []
    sketches: dict[str, Any] = {"model_states": None, "model_steps": None}
    reached: dict[str, dict[str, int]] = {}
    for table in pieces(seeds, out):
        failed.append(table.filter(pc.field("kind") != "").select(["seed", "kind", "signature", "message"]))
        requests += pc.sum(table["requests"]).as_py()
        add_digest(hasher, table)
        add_witnessed(reached, table, campaign.scenario)
        for name, before in sketches.items():
            new = pc.unique(pc.list_flatten(table[name]))
            sketches[name] = new if before is None else pc.unique(pa.chunked_array([before, new]))
    twice, different = compared(campaign, seeds)
    failures = pa.concat_tables(failed)
    return {**campaign._asdict(), "seeds": f"{seeds[0]}:{seeds[1]}", "runs": seeds[1] - seeds[0], "failed": failures.num_rows,
            "requests": requests, "digest": hasher.hexdigest(), "failures": failures_of(campaign, failures) + different,
            "reached": {name: reached[name] for name in bits(campaign.scenario) if name in reached},
            "never": [name for name in bits(campaign.scenario) if name not in reached],
            **{name: SAMPLE * len(of) for name, of in sketches.items()},  # estimated from the sample
            "in_other_processes": twice}


def pieces(seeds: Seeds, out: Path) -> Iterator[pa.Table]:
    """Yield the rows sorted by seed, in pieces. Raises CampaignError unless each seed has exactly one."""
    for low in range(*seeds, PIECE):
        those = low, min(low + PIECE, seeds[1])
        table = read(out, those, list(COLUMNS)).sort_by("seed")
        if not np.array_equal(table["seed"].to_numpy(), np.arange(*those)):
            raise CampaignError(f"{table.num_rows} rows for {those[1] - those[0]} seeds: each should have one")
        yield table


def failures_of(campaign: Campaign, failed: pa.Table) -> list[dict]:
    groups = failed.group_by(["kind", "signature"]).aggregate([("seed", "count"), ("seed", "min")]).to_pylist()
    first = pa.array([group["seed_min"] for group in groups], pa.int64())
    messages = {row["seed"]: row["message"] for row in failed.filter(pc.is_in(failed["seed"], first)).to_pylist()}
    failures = [{"kind": group["kind"], "signature": group["signature"], "count": group["seed_count"],
                 "smallest_seed": group["seed_min"], "message": messages[group["seed_min"]],
                 "replay": replay_of(campaign, group["seed_min"])} for group in groups]
    return sorted(failures, key=lambda f: (-f["count"], f["smallest_seed"]))


def add_witnessed(reached: dict[str, dict[str, int]], table: pa.Table, scenario: str) -> None:
    """Add, for each witness reached, the number of runs and the first seed. The table is sorted by seed."""
    masks, seeds = table["reached"].to_numpy(), table["seed"].to_numpy()
    for name, bit in bits(scenario).items():
        those = seeds[masks & bit > 0]
        if len(those):
            reached.setdefault(name, {"runs": 0, "smallest_seed": int(those[0])})["runs"] += len(those)


def compared(campaign: Campaign, seeds: Seeds) -> tuple[list[int], list[dict]]:
    """Run a sample in two fresh processes under two hash seeds. Returns the sample, and the failure if runs differ. Raises
    CampaignError."""
    sample = list(range(seeds[0] + -seeds[0] % rows.TWICE, seeds[1], rows.TWICE))[:MOST_IN_PROCESSES]
    if seeds[1] - seeds[0] < rows.TWICE or not sample:
        return [], []
    try:
        different = doctor.check(sample, campaign.spec)
    except doctor.Broken as error:
        raise CampaignError(f"the check for determinism could not run: {error}") from error
    if different is None:
        return sample, []
    replay = f"highwater dst doctor {protocol_words(campaign.scenario)} --seeds {different.seed}:{different.seed + 1}" + (
        f" --mutant {campaign.mutant}" if campaign.mutant else "")
    return sample, [{"kind": "nondeterminism", "signature": "nondeterminism:processes", "count": 1,
                     "smallest_seed": different.seed, "message": different.message, "replay": replay}]


def add_digest(hasher: Any, table: pa.Table) -> None:
    """Add rows to the campaign's digest. Campaigns with equal digests have the same failures and equal traces."""
    for batch in table.select(["seed", "kind", "signature", "digest"]).to_batches(10_000):
        hasher.update("".join(f"{row}\n" for row in zip(*(column.to_pylist() for column in batch.columns))).encode())

"""Define checks of `highwater verify` for impl/raft only: how much of it simulated runs execute, and whether they notice small
mistakes in it."""

from collections.abc import Iterator
from pathlib import Path

from highwater.gate import mutation
from highwater.gate.exits import HARNESS
from highwater.gate.rows import Check, Found

STEM = "raft"
SCENARIOS = ("raft", "consistent_read", "log_snapshot")  # that run impl/raft
SEEDS, LEAST = 30, 95.0  # of each scenario; so many per cent of the statements


def checks() -> Iterator[Check]:
    yield Check(STEM, "coverage", f"at least {LEAST:.0f} % of the statements of impl/raft are executed in {SEEDS} runs of each "
                "scenario", executed, (SEEDS,), weight=20)
    yield Check(STEM, "mutation", f"{mutation.COUNT} small mistakes in each file of impl/raft: a run fails, or the mistake is "
                "listed", mutation.replicated, (SCENARIOS, mutation.COUNT), weight=12)


def executed(seeds: int) -> Found:
    from highwater.mutate import wanted
    from highwater.mutate.coverage import listed, measured

    those = sorted((Path(wanted.root()) / "impl/raft").glob("*.py"))
    files = wanted.files(None, [path for path in those if path.stem != "__init__"])
    found = measured(files, SCENARIOS, seeds, seeds, listed())
    left = ", ".join(dict.fromkeys(f"{unit.file}:{unit.line}" for unit in found.left))
    if found.share() < LEAST:
        return Found("", HARNESS, f"{found.share():.1f} % of {len(found.units):,} statements are executed; not {left}")
    return Found(f"{found.share():.1f} % of {len(found.units):,} statements in {found.runs:,} runs; not {left}")

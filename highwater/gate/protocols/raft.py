"""Define a check of `highwater verify` for impl/raft only: whether simulated runs notice small mistakes in it."""

from collections.abc import Iterator

from highwater.gate import mutation
from highwater.gate.rows import Check

STEM = "raft"
SCENARIOS = ("log_snapshot", "raft", "raft_membership", "consistent_read")  # that run nothing but impl/raft, the quickest first


def checks() -> Iterator[Check]:
    yield Check(STEM, "mutation", f"{mutation.COUNT} small mistakes in each file of impl/raft: a run fails, or the mistake is "
                "listed", mutation.replicated, (SCENARIOS, mutation.COUNT), weight=12)

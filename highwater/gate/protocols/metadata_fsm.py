"""Define a check of `highwater verify` for impl/index only: whether simulated runs notice small mistakes in it."""

from collections.abc import Iterator

from highwater.gate import mutation
from highwater.gate.rows import Check
from highwater.mutate import wanted

STEM = "metadata_fsm"
SCENARIOS = ("compaction_queue", "metadata_fsm")  # that run it, the quickest first
COUNT = 2  # of each file: there are many


def checks() -> Iterator[Check]:
    yield Check(STEM, "mutation", f"{COUNT} small mistakes in each file of impl/index and its codecs: a run fails, or the "
                "mistake is listed", mutation.of_rooms, (wanted.INDEXED, SCENARIOS, COUNT), weight=12)

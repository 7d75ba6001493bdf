"""Define a check of `highwater verify --deep` for the metadata index only: whether an index of real processes loses nothing in
ten minutes of faults."""

from collections.abc import Iterator

from highwater.gate import soak
from highwater.gate.rows import Check

STEM = "metadata_fsm"
TEN_MINUTES = "tests/index/test_index_soak.py::test_ten_minutes_of_faults_lose_nothing"
RUN_BY = ("tests/index", "impl", "highwater/cluster", "highwater/index", "traces/histories")


def checks() -> Iterator[Check]:
    return iter(())


def deep_checks() -> Iterator[Check]:
    yield from soak.checks(STEM, "an index of three real processes, with writers and workers, and ten minutes of faults: each "
                           "acknowledged block is in exactly one visible block", TEN_MINUTES, RUN_BY)

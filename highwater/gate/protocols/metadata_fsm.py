"""Define checks of `highwater verify` for impl/index only: whether simulated runs notice small mistakes in it, and in the deep
gate, whether an index of real processes loses nothing in ten minutes of faults, or of hostile clients."""

from collections.abc import Iterator

from highwater.gate import mutation, soak
from highwater.gate.rows import Check
from highwater.mutate import wanted

STEM = "metadata_fsm"
TEN_MINUTES = "tests/index/test_index_soak.py::test_ten_minutes_of_faults_lose_nothing"
HOSTILE = "tests/index/test_hostile_index.py::test_ten_minutes_of_hostile_clients_lose_nothing"
BYTES = "tests/impl/index/test_index_fuzz.py::test_a_hundred_thousand_bad_inputs_are_refused"
RUN_BY = ("tests/index", "impl", "highwater/cluster", "highwater/index", "traces/histories")
SCENARIOS = ("compaction_queue", "metadata_fsm", "index_reads")  # that run it, the quickest first
COUNT = 1  # of each file: there are many


def checks() -> Iterator[Check]:
    yield Check(STEM, "mutation", f"{COUNT} small mistake in each file of impl/index and its codecs: a run fails, or the "
                "mistake is listed", mutation.of_rooms, (wanted.INDEXED, SCENARIOS, COUNT), weight=12)


def deep_checks() -> Iterator[Check]:
    yield from soak.checks(STEM, "120,000 bad inputs are refused: metadata, footers, snapshots, entries, files of rows", BYTES,
                           ("tests/impl/index", "tests/support", "impl", "highwater/index"), "bytes", 30)
    yield from soak.checks(STEM, "an index of three real processes, with writers and workers, and ten minutes of faults: each "
                           "acknowledged block is in exactly one visible block", TEN_MINUTES, RUN_BY)
    yield from soak.checks(STEM, "an index of three real processes and ten minutes of hostile clients, an odd store and clocks "
                           "that jump: nothing acknowledged is lost, no node stops", HOSTILE,
                           (*RUN_BY, "tests/cluster", "tests/fuzz", "tests/support"), "hostile")

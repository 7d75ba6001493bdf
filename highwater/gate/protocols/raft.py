"""Define checks of `highwater verify` for impl/raft only: whether simulated runs notice small mistakes in it, and in the deeper
gate, whether a cluster of real processes loses nothing in ten minutes of faults, or of hostile clients, and whether odd input
stops a server."""

from collections.abc import Iterator

from highwater.gate import mutation, soak
from highwater.gate.rows import Check
from highwater.mutate import wanted

STEM = "raft"
TEN_MINUTES = "tests/cluster/test_judged.py::test_ten_minutes_of_faults_lose_nothing"
HOSTILE = "tests/cluster/test_hostile.py::test_ten_minutes_of_hostile_clients_lose_nothing"
FUZZ = "tests/fuzz/test_fuzz.py::test_fuzzer_finds_nothing_in_minutes"
FUZZED = ("tests/fuzz", "tests/support", "examples/registers", "impl", "highwater/cluster", "highwater/index")
RUN_BY = ("tests/cluster", "examples/registers", "impl", "highwater/cluster", "traces/histories")
SCENARIOS = ("log_snapshot", "raft", "raft_membership", "consistent_read")  # that run nothing but impl/raft, the quickest first
COUNT = 3  # of each file


def checks() -> Iterator[Check]:
    yield Check(STEM, "mutation", f"{COUNT} small mistakes in each file of impl/raft: a run fails, or the mistake is listed",
                mutation.of_rooms, ([wanted.REPLICATED], SCENARIOS, COUNT), weight=12)


def deep_checks() -> Iterator[Check]:
    yield from soak.checks(STEM, "three real processes and ten minutes of faults, changes of members and restarts: nothing "
                           "acknowledged is lost", TEN_MINUTES, RUN_BY)
    yield from soak.checks(STEM, "three real processes and ten minutes of hostile clients and peers: nothing acknowledged is "
                           "lost, no node stops", HOSTILE, RUN_BY, "hostile")
    yield from soak.checks(STEM, "720,000 odd inputs stop no server: messages, frames, calls, replies of a store, objects",
                           FUZZ, FUZZED, "fuzz", 1_000)

"""The same seed gives the same trace: in another process, under another hash seed, from its tape."""

import json
import os
import subprocess
import sys

import pytest

from highwater.dst.mutants.sequenced_metadata_boundary import BUILDS as ZOO
from highwater.dst.run_spec import Run
from highwater.dst.sim.choose import Chooser, Strict, TapeMismatch, words
from highwater.dst.simulate import simulate


def digests(hash_seed: str) -> str:
    command = [sys.executable, "-m", "highwater", "dst", "run", "--seeds", "0:60", "--digests"]
    return subprocess.run(command, capture_output=True, text=True, check=True,
                          env={**os.environ, "PYTHONHASHSEED": hash_seed}).stdout


def test_same_digests_in_other_processes_under_other_hash_seeds():
    here = "".join(f"{seed} ok {simulate(Run(seed)).digest}\n" for seed in range(60))
    assert digests("1") == digests("99") == here


def test_a_tape_replays_to_the_same_trace():
    for seed in range(20):
        first = simulate(Run(seed))
        again = simulate(Run(seed), tape=[tuple(choice) for choice in json.loads(json.dumps(first.tape))])
        assert (again.digest, again.kind) == (first.digest, "")
        assert all(0 <= choice < bound for _, choice, bound in first.tape)


def test_a_tape_that_does_not_fit_is_named():
    tape = list(simulate(Run(3)).tape)
    site, choice, bound = tape[40]
    tape[40] = ("another site", choice, bound)
    outcome = simulate(Run(3), tape=tape)
    assert outcome.kind == "nondeterminism" and "another site" in outcome.message and site in outcome.message
    assert simulate(Run(3), tape=simulate(Run(3)).tape[:40]).kind == "nondeterminism"


def test_what_was_run_before_does_not_matter():
    alone = simulate(Run(77)).digest
    for seed in range(10):
        simulate(Run(seed), ZOO["latest_deleted"][1])
    assert simulate(Run(77)).digest == alone


def test_the_generator_is_pinned():
    first = drawn(7, "fault")
    assert first == [3879774343, 2375990247, 3299367120, 697457461]  # on every machine and version of Python
    assert first != drawn(7, "latency") != drawn(8, "fault")
    choose = Chooser(7).stream("fault")
    assert [choose("site", 1 << 32) for _ in range(4)] == first


def drawn(seed: int, stream: str) -> list[int]:
    return [word() for word in [words(seed, stream)] for _ in range(4)]


def test_choices_are_bounded_and_recorded():
    chooser = Chooser(1)
    choose = chooser.stream("s")
    assert choose("nothing to choose", 1) == 0 and chooser.tape == []
    drawn = [choose("six", 6) for _ in range(600)]
    assert set(drawn) == set(range(6)) and chooser.tape == [("six", value, 6) for value in drawn]
    replayed = Strict(2, chooser.tape[:1]).stream("s")
    assert replayed("six", 6) == drawn[0]
    with pytest.raises(TapeMismatch, match="nothing more"):
        replayed("six", 6)

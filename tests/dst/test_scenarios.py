"""Every protocol's simulation: production refines its model, mutants die as expected, a seed gives one run everywhere."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from highwater.dst.run_spec import Run, drawn_shape
from highwater.dst.scenario import BaseShape
from highwater.dst.scenarios import DEFAULT, STEMS, mutants_of, named
from highwater.dst.search.hunt import hunt
from highwater.dst.search.reached import Watch, bits, names_of
from highwater.dst.simulate import simulate
from highwater.dst.zoo import expected

ROOT = Path(__file__).resolve().parents[2]
OTHERS = [stem for stem in STEMS if stem != DEFAULT]  # that one has tests of its own, in test_mutants.py and others
EVERY_MUTANT = [(stem, name) for stem in OTHERS for name in mutants_of(stem).builds]


@pytest.mark.parametrize("stem", STEMS)
def test_a_scenario_brings_what_it_must(stem):
    of = named(stem)
    assert of.stem == stem and of.protocol in STEMS and named(of.protocol).model == ""
    assert issubclass(of.shape, BaseShape)
    assert {field for fields in of.roles.values() for field in fields} | of.most.keys() <= of.shape()._asdict().keys()
    assert set(of.roles) == set(of.work) >= {name.partition("#")[0] for names in of.audit for name in names} | set(of.optional)
    assert {type(of.mildest), type(of.tiny), *map(type, of.cost.values())} == {of.shape} and len(bits(stem)) < 64
    assert mutants_of(stem).builds.keys() >= mutants_of(stem).oracles.keys()
    for seed in range(50):
        shape = drawn_shape(seed, stem)
        assert all(0 <= getattr(shape, field) <= most for field, most in of.most.items())


def test_a_shape_lists_its_own_fields_before_those_of_all_shapes():
    """In this order the shrinker tries them, and rows and reports show them."""
    @dataclass(frozen=True)
    class Shape(BaseShape):
        writers: int = 2
        chaos: int = 9  # its own default, and its place

    drawn = Shape.drawn(lambda field, *values: values[-1], audit=(True, False), writers=(2, 3))
    assert list(drawn._asdict().items()) == [
        ("writers", 3), ("chaos", 9), ("page_size", 1000), ("audit", False), ("skew_ms", 0), ("store", "s3"), ("stall_ms", 0),
        ("sdk", ""), ("broken", ""), ("patience_ms", 0)]
    assert drawn._replace(audit=True, writers=2) == Shape()


@pytest.mark.parametrize("stem", OTHERS)
def test_a_moment_that_is_seen_is_listed(stem):
    """A campaign counts the listed ones, and failed at another one: in one run of nine of compaction_queue."""
    of = named(stem)
    outcomes = [simulate(Run(seed, stem)) for seed in range(15)]
    assert {name for one in outcomes for name in of.moments_of(one.events, one.shape)} <= {*of.moments}


SELDOM = {  # what a script shows, or a rare run, and not one of the first thousand
    "clones": {"told: ended", "told: missing"}, "db_reader": {"told: lost", "seen: checkpoint lost"},
    "destroy": {"told: ended"}, "database_clones": {"told: missing"},
}


@pytest.mark.parametrize("stem", OTHERS)
def test_production_refines_harms_nobody_and_reaches_what_it_should(stem):
    """The same thousand runs are judged and watched; that watching changes nothing is in test_campaign.py."""
    watch, mask, failed = Watch(stem), 0, []
    for seed in range(1_000):
        outcome = simulate(Run(seed, scenario=stem), trace_of=watch.trace_of)
        failed += [(seed, outcome.signature)] if outcome.kind else []
        mask |= watch.reached(outcome)
    assert not failed
    missing = {name for name in bits(stem) if name.partition(": ")[0] in ("told", "seen", "fault")} - set(names_of(mask, stem))
    assert missing == SELDOM.get(stem, set())
    assert not [seed for seed in range(100) if simulate(Run(seed, scenario=stem), by_model=False).kind]


@pytest.mark.parametrize("stem, name", EVERY_MUTANT)
def test_a_mutant_dies_of_what_it_should(stem, name):
    build = mutants_of(stem).builds[name][1]
    waits, signatures = hunt(build, 5, 1_500, scenario=stem)
    assert waits and all(signature.startswith(expected(name, True, stem)) for signature in signatures), signatures
    if name in mutants_of(stem).oracles and expected(name, False, stem):
        waits, signatures = hunt(build, 2, 2_000, by_model=False, scenario=stem)
        assert waits and all(signature.startswith(expected(name, False, stem)) for signature in signatures), signatures


DIGESTS = """
import sys
from highwater.dst.run_spec import Run
from highwater.dst.simulate import simulate
for stem in sys.argv[1:]:
    for seed in range(40):
        print(stem, seed, simulate(Run(seed, scenario=stem)).digest)
"""


def test_a_seed_is_one_run_everywhere():
    said = {subprocess.run([sys.executable, "-c", DIGESTS, *OTHERS], cwd=ROOT, capture_output=True, check=True,
                           env={**os.environ, "PYTHONHASHSEED": hashing}).stdout for hashing in "12"}
    assert len(said) == 1 and len(next(iter(said)).splitlines()) == 40 * len(OTHERS)

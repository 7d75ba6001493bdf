"""Odd input from outside stops no server: 20 s of it here, minutes in `make verify-deep`. The fuzzer finds known causes.

`python -m tests.fuzz SUBJECT --seed S --life L` replays what it prints.
"""

import os
from collections import Counter

import pytest

from tests.fuzz.causes import CAUSES
from tests.fuzz.lives import fuzzed
from tests.fuzz.subjects import SUBJECTS

FEW = {"peers": 3_000, "frames": 1_500, "calls": 6_000, "replies": 400, "bucket": 4_000}
MANY = {"peers": 200_000, "frames": 100_000, "calls": 200_000, "replies": 20_000, "bucket": 200_000}


@pytest.mark.parametrize("name", SUBJECTS)
def test_fuzzer_finds_nothing(name):
    counts = Counter[str]()
    assert fuzzed(SUBJECTS[name], 1, FEW[name], counts) is None
    assert counts["inputs"] == FEW[name] and len(counts) > 1, counts


@pytest.mark.parametrize("name", CAUSES)
def test_fuzzer_finds_a_known_cause(name, monkeypatch):
    cause = CAUSES[name]
    cause.put_back(monkeypatch)
    found = fuzzed(SUBJECTS[cause.subject], 1, cause.inputs)
    assert found is not None and cause.says in found.what, found


@pytest.mark.slow
def test_fuzzer_finds_nothing_in_minutes():
    seed, told = int.from_bytes(os.urandom(4)), []
    for name, inputs in MANY.items():
        counts = Counter[str]()
        assert fuzzed(SUBJECTS[name], seed, inputs, counts) is None
        told.append(f"{counts['inputs']:,} {name}")
    print(f"seed {seed}: {', '.join(told)}")
